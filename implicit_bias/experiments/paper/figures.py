"""The figures of a comparison and of the paper: tidy tables in, figures out, no computation of results."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from implicit_bias.experiments.paper.plan import FIGURES, PaperFigure
from implicit_bias.experiments.paper.study import Study
from implicit_bias.experiments.runner.drawing import COLOURS, styled
from implicit_bias.ground.checks import InputError, one_of

#: Colour and marker of each model, the same in every figure.
STYLES = {
    **dict.fromkeys(("GD-GLN", "GD-shallow", "GD-ReLU"), (COLOURS["black"], "D")),
    **dict.fromkeys(("SVM-L2", "SVM-RC"), (COLOURS["orange"], "s")),
    **dict.fromkeys(("SVM-GLN", "SVM-shallow", "SVM-LC"), (COLOURS["blue"], "o")),
    **dict.fromkeys(("SVM-Fro", "SVM-HL"), (COLOURS["green"], "^")),
}
UNKNOWN = (COLOURS["purple"], "v")
KEYS = ["dataset", "train_size", "units", "contexts", "seed", "momentum"]
#: Line of each momentum of gradient descent.
DASHES = {0.0: "-", 0.9: (0, (3, 1.5))}
TITLES = {"corrected": "corrected", "published": "as published"}
LABELS = {"error": "validation error (%)", "inconsistency": "inconsistency (%)"}


def _style(model: str) -> dict[str, Any]:
    colour, marker = STYLES.get(model, UNKNOWN)
    return {"color": colour, "marker": marker, "label": model}


def _others(table: pd.DataFrame, reference: str) -> list[str]:
    return [model for model in table["model"].unique() if model != reference]


def comparison_figures(table: pd.DataFrame, study: Study) -> dict[str, Figure]:
    """The figure of a study's table, `comparison`; of both versions' tables also `comparison_published`.

    Three panels: error against error, inconsistency against error, and error against units, or contexts if there are
    more of these.

    >>> from implicit_bias.experiments.paper.experiment import STUDIES
    >>> row = dict(dataset="digits", train_size=9, units=2, contexts=2, seed=1, momentum=0.0, error=0.1)
    >>> rows = [row | dict(model=model, version="corrected", inconsistency=0.05) for model in ("GD-GLN", "SVM-GLN")]
    >>> figure = comparison_figures(pd.DataFrame(rows), STUDIES["compare_gln"])["comparison"]
    >>> [axes.get_title() for axes in figure.axes]
    ['Error against error', 'Inconsistency against error', 'Error against units']
    """
    width = "contexts" if table.contexts.nunique() > table.units.nunique() else "units"
    figures = {}
    for number, (version, part) in enumerate(table.groupby("version", sort=False)):
        with styled():
            figure = Figure(figsize=(10.5, 3.6), layout="constrained")
            panels = figure.subplots(1, 3)
            _error_against_error(panels[0], part, study.reference)
            _inconsistency_against_error(panels[1], part, study.reference)
            _error_against_width(panels[2], part, width)
            handles = {label: h for ax in panels for h, label in zip(*ax.get_legend_handles_labels(), strict=True)}
            figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=6, frameon=False)
            published = ", as published" if version == "published" else ""
            figure.suptitle(f"{study.title} ({table.dataset.iloc[0]}{published})")
        figures[f"comparison_{version}" if number else "comparison"] = figure
    return figures


def paper_figure(table: pd.DataFrame, figure: str, cutoff: str = "median") -> Figure:
    """One of the paper's figures.

    Columns are training-set sizes, corrected on the left and as published on the right, as far as the table has them;
    lines are means over seeds, bars one standard deviation, solid without and dashed with momentum. Hollow markers
    leave out seeds whose problem is certified as not separable; crosses at the foot stand for widths at which no seed
    is separable. Figures 3 to 5 end with the inconsistency of every cell against its error, and what chance would give.

    The table is that of `reproduce_paper.py`, the figure '2', '3', '4' or '5', the cutoff 'median' or 'random'. Raises
    InputError for an unknown figure, or one that the table has no cells of.

    >>> cell = dict(study="compare_shallow_gln", dataset="digits", train_size=9, units=1, contexts=2, seed=1)
    >>> cell |= dict(cutoff="median", momentum=0.0, version="corrected", status="OPTIMAL", error=0.1)
    >>> rows = [cell | {"model": "GD-shallow"}, cell | {"model": "SVM-shallow", "inconsistency": 0.05}]
    >>> len(paper_figure(pd.DataFrame(rows), "5").axes)
    3
    """
    layout = FIGURES[one_of(figure, FIGURES, "figure")]
    table = table[(table.study == layout.study.name) & (table.cutoff == cutoff)]
    rows = [row for row in layout.rows if row[0] is None or (table.contexts == row[0]).any()]
    if table.empty or not rows:
        raise InputError(f"the table holds no cells of figure {figure} with {cutoff} cutoffs")
    blocks = [(v, n) for v in TITLES for n in sorted(table.train_size.unique()) if (table.version == v).any()]
    with styled(8, "medium"):
        heights = [1.7 * len(rows) + 0.9, 2.5][: 1 + layout.scatter]
        drawing = Figure(figsize=(max(1.75 * len(blocks), 6.5), sum(heights) + 0.5), layout="constrained")
        parts = drawing.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
        panels = parts[0].subplots(len(rows), len(blocks), sharey="row", squeeze=False)
        for axes, row in zip(panels, rows, strict=True):
            _row(axes, table, layout, row, blocks)
        for axes, (version, size) in zip(panels.T, blocks, strict=True):
            axes[0].set_title(f"{TITLES[version]}, n = {size}")
            axes[-1].set_xlabel(layout.width)
        if layout.scatter:
            versions = table.version.nunique()
            _scatters(parts[1].subplots(1, versions, sharex=True, sharey=True, squeeze=False)[0], table, layout)
        _legend(drawing, table, layout)
        drawing.suptitle(f"Figure {figure}. {layout.title} ({names(table)}, {cutoff} cutoffs)")
    return drawing


def _row(axes: Any, table: pd.DataFrame, layout: PaperFigure, row: tuple[int | None, str], blocks: list[Any]) -> None:
    """The panels of one quantity, for a version and a training-set size each."""
    contexts, quantity = row
    for ax, (version, size) in zip(axes, blocks, strict=True):
        part = table[(table.version == version) & (table.train_size == size)]
        _lines(ax, part if contexts is None else part[part.contexts == contexts], layout, quantity)
    axes[0].set_ylabel(("" if contexts is None else f"{contexts} contexts\n") + LABELS[quantity])
    axes[0].set_ylim(0.0 if quantity == "inconsistency" else None)


def paper_figures(table: pd.DataFrame, numbers: Sequence[str]) -> dict[str, Figure]:
    """Some of the paper's figures, by the names of their files, one for each kind of cutoffs.

    Of several figures those are left out that the table has no cells of; InputError if it has none of a single one.
    """
    drawn = {}
    for number in numbers:
        cutoffs = table[table.study == FIGURES[number].study.name].cutoff.unique()
        for cutoff in cutoffs if len(cutoffs) or len(numbers) > 1 else ("median",):
            name = f"figure{number}" + ("" if cutoff == "median" else f"_{cutoff}")
            drawn[name] = paper_figure(table, number, cutoff)
    return drawn


def names(table: pd.DataFrame) -> str:
    """The data sets of a table, as a title says them."""
    return ", ".join({"mnist": "MNIST"}.get(name, name) for name in table.dataset.unique())


def _lines(ax: Axes, table: pd.DataFrame, layout: PaperFigure, quantity: str) -> None:
    """Means over seeds of every model against the width, a line a momentum."""
    widths = sorted(table[layout.width].unique())
    position = {width: float(i) for i, width in enumerate(widths)}
    for level, model in enumerate(table.model.unique()):
        if quantity == "inconsistency" and model == layout.study.reference:
            continue
        for momentum in sorted(table.momentum.unique()):
            cells = table[(table.model == model) & (table.momentum == momentum)]
            if quantity == "error" and momentum > 0 and model != layout.study.reference:
                continue
            groups = cells.groupby(layout.width)[quantity]
            mean, spread, found = 100 * groups.mean(), 100 * groups.std().fillna(0.0), groups.count()
            x = np.array([position[width] for width in mean.index])
            colour, marker = STYLES.get(model, UNKNOWN)
            line: dict[str, Any] = {"color": colour, "linestyle": DASHES.get(momentum, ":"), "linewidth": 1}
            ax.errorbar(x, mean, yerr=spread, elinewidth=0.6, **line)
            fill = np.where(found == groups.size(), colour, "white")
            ax.scatter(x, mean, s=11, marker=marker, c=fill, edgecolors=colour, linewidths=0.8, zorder=3)
            none = x[(found == 0).to_numpy()]
            height = np.full_like(none, 0.04 * level)
            (crosses,) = ax.plot(none, height, "x", color=colour, clip_on=False, transform=ax.get_xaxis_transform())
            crosses.set_in_layout(False)
    step = 1 if len(widths) < 8 else 3
    labels = [str(width) for width in widths]
    if layout.width == "contexts":
        labels = [f"$2^{{{int(width).bit_length() - 1}}}$" for width in widths]
    ax.set_xticks(range(0, len(widths), step), labels[::step])


def _scatters(axes: Any, table: pd.DataFrame, layout: PaperFigure) -> None:
    versions = [version for version in TITLES if (table.version == version).any()]
    for ax, version in zip(axes, versions, strict=True):
        _inconsistency_against_error(ax, table[table.version == version], layout.study.reference)
        ax.set_title(f"{TITLES[version]}: every cell")
        ax.set_xlabel("validation error of the SVM (%)")
        ax.set_ylabel(LABELS["inconsistency"] if ax is axes[0] else "")
    top = 100 * float(np.nanmax([table.inconsistency.max(), table.error.max()]))
    axes[0].set_ylim(0, 1.05 * top)


def _legend(drawing: Figure, table: pd.DataFrame, layout: PaperFigure) -> None:
    """One entry per model, one per momentum, and the signs."""
    handles = [Line2D([], [], markersize=4, linewidth=1, **_style(model)) for model in table.model.unique()]
    if table.momentum.nunique() > 1:
        for momentum in sorted(table.momentum.unique()):
            line: Any = DASHES.get(momentum, ":")
            handles.append(Line2D([], [], color="0.4", linestyle=line, linewidth=1, label=f"momentum {momentum:g}"))
    if table.status.str.startswith("NOT_SEPARABLE").any():
        sign: dict[str, Any] = {"color": "0.4", "linestyle": "none"}
        handles.append(Line2D([], [], marker="o", markerfacecolor="white", label="some seeds not separable", **sign))
        handles.append(Line2D([], [], marker="x", label="no seed separable", **sign))
    if layout.scatter:
        handles.append(Line2D([], [], color="0.5", linestyle="--", linewidth=1, label="chance"))
    drawing.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)


def _error_against_error(ax: Axes, table: pd.DataFrame, reference: str) -> None:
    """Each model's error over the reference's, one point a cell; on the diagonal they are equal."""
    own = table[table.model == reference].set_index(KEYS)["error"]
    for model in _others(table, reference):
        other = table[table.model == model].set_index(KEYS)["error"]
        pairs = 100 * pd.concat([own, other], axis=1, keys=["own", "other"]).dropna()
        ax.plot(pairs.own, pairs.other, linestyle="none", markersize=5, alpha=0.8, **_style(model))
    ends = 100 * np.nan_to_num([table.error.min(), table.error.max()])
    ax.plot(ends, ends, color="0.7", linewidth=0.8, zorder=0)
    ax.set(xlabel=f"error of {reference} (%)", ylabel="error of the SVM (%)", title="Error against error")


def _inconsistency_against_error(ax: Axes, table: pd.DataFrame, reference: str) -> None:
    """Disagreement with the reference over the model's error, and the chance curve 2e(1 − e) of independent models."""
    top = 0.02
    for model in _others(table, reference):
        rows = table[table.model == model].dropna(subset=["inconsistency"])
        ax.plot(100 * rows.error, 100 * rows.inconsistency, linestyle="none", markersize=5, alpha=0.8, **_style(model))
        top = max(top, float(rows.error.max()) if len(rows) else 0.0)
    grid = np.linspace(0, 1.15 * top, 100)
    ax.plot(100 * grid, 200 * grid * (1 - grid), color="0.5", linestyle="--", linewidth=1, label="chance")
    ax.set(xlabel="error of the SVM (%)", ylabel=f"inconsistency with {reference} (%)")
    ax.set_title("Inconsistency against error")
    ax.set_ylim(bottom=0)


def _error_against_width(ax: Axes, table: pd.DataFrame, width: str = "units") -> None:
    """Mean error of every model over `width` ('units' or 'contexts'); bars are one standard deviation over cells."""
    for model in table["model"].unique():
        errors = 100 * table[table.model == model].set_index(width)["error"]
        stats = errors.groupby(width).agg(["mean", "std"]).dropna(subset=["mean"])
        spread = stats["std"].fillna(0.0)
        ax.errorbar(stats.index, stats["mean"], yerr=spread, markersize=4, linewidth=1, capsize=2, **_style(model))
    values = sorted(table[width].unique())
    ax.set_xscale("log", base=2)
    ax.set_xticks(values, [str(value) for value in values])
    ax.minorticks_off()
    ax.margins(x=0.1)
    ax.set(xlabel=width, ylabel="validation error (%)", title=f"Error against {width}")
