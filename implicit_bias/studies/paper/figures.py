"""The figures of a comparison and of the paper: tidy tables in, figures out, no computation of results."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from implicit_bias._utils.checks import InputError, one_of
from implicit_bias.studies.paper.intervals import claims_figure, intervals
from implicit_bias.studies.paper.panels import TITLES, draw, pairs
from implicit_bias.studies.paper.plan import FIGURES, ClaimsFigure, OwnFigure, PaperFigure
from implicit_bias.studies.paper.studies import Study
from implicit_bias.studies.runner.drawing import DATASETS, finished, panels, style, styled
from implicit_bias.studies.runner.verdicts import where

#: Line of each momentum of gradient descent.
DASHES = {0.0: "-", 0.9: (0, (3, 1.5))}
LABELS = {"error": "validation error (%)", "inconsistency": "inconsistency (%)"}


def _others(table: pd.DataFrame, reference: str) -> list[str]:
    return [model for model in table["model"].unique() if model != reference]


def comparison_figures(table: pd.DataFrame, study: Study) -> dict[str, Figure]:
    """The figure of a study's table, `comparison`; of both versions' tables also `comparison_published`.

    Three panels: error against error, inconsistency against error, and error against units, or contexts if there are
    more of these.

    >>> from implicit_bias.studies.paper.experiment import STUDIES
    >>> row = dict(dataset="digits", train_size=9, units=2, contexts=2, cutoff="median", seed=1, momentum=0.0)
    >>> row |= dict(error=0.1)
    >>> rows = [row | dict(model=model, version="corrected", inconsistency=0.05) for model in ("GD-GLN", "SVM-GLN")]
    >>> figure = comparison_figures(pd.DataFrame(rows), STUDIES["compare_gln"])["comparison"]
    >>> [axes.get_title() for axes in figure.axes]
    ['Error against error', 'Inconsistency against error', 'Error against units']
    """
    width = "contexts" if table.contexts.nunique() > table.units.nunique() else "units"
    figures = {}
    for number, (version, part) in enumerate(table.groupby("version", sort=False)):
        published = ", published faults" if version == "published" else ""
        axes = panels(f"{study.title} ({table.dataset.iloc[0]}{published})", columns=3, size=(3.5, 3.2))
        _error_against_error(axes[0, 0], part, study.reference)
        _inconsistency_against_error(axes[0, 1], part, study.reference)
        _error_against_width(axes[0, 2], part, width)
        figures[f"comparison_{version}" if number else "comparison"] = finished(axes, below=6)
    return figures


def paper_figure(table: pd.DataFrame, figure: str, cutoff: str = "median") -> Figure:
    """One of the paper's figures, '2' to '5', panel by panel (`panels.draw`), or one of our own, by its name.

    All but 'spreads' (`intervals.claims_figure`) are of the published split. Columns of our own are training-set sizes,
    corrected on the left and with the published faults on the right, as far as the table has them; lines are means over
    seeds, bars one standard deviation, solid without and dashed with momentum. Hollow markers leave out seeds whose
    problem is certified as not separable; crosses at the foot stand for widths at which no seed is separable. The last
    row is the inconsistency of every cell against the reference's error, and what chance would give.

    The table is that of `reproduce_paper.py`; the cutoff, 'median' or 'random', is that of a figure of ours. Raises
    InputError for an unknown figure, or one that the table has no cells of.

    >>> cell = dict(study="compare_shallow_gln", dataset="digits", train_size=9, units=1, contexts=2, seed=1)
    >>> cell |= dict(cutoff="median", split="published", momentum=0.0, version="corrected", status="OPTIMAL", error=0.1)
    >>> rows = [cell | {"model": "GD-shallow"}, cell | {"model": "SVM-shallow", "inconsistency": 0.05}]
    >>> len(paper_figure(pd.DataFrame(rows), "shallow").axes)
    3
    """
    layout = FIGURES[one_of(figure, FIGURES, "figure")]
    if isinstance(layout, ClaimsFigure):
        with styled(8, "medium"):
            return claims_figure(table, layout.title)
    own = where(table, study=layout.study.name, split="published")
    if isinstance(layout, OwnFigure):
        own = own[own.cutoff == cutoff]
        shown = [row for row in layout.rows if row[0] is None or (own.contexts == row[0]).any()]
    if own.empty or (isinstance(layout, OwnFigure) and not shown):
        raise InputError(f"the table holds no cells of figure {figure} with {cutoff} cutoffs")
    with styled(8, "medium"):
        if isinstance(layout, PaperFigure):
            return draw(where(table, split="published"), layout, f"Figure {figure}. {layout.title} ({names(own)})")
        return _own_figure(own, replace(layout, rows=tuple(shown)), cutoff)


def _own_figure(table: pd.DataFrame, layout: OwnFigure, cutoff: str) -> Figure:
    """A figure of ours: a row of panels a quantity, a column a version and training-set size, and below every cell."""
    blocks = [(v, n) for v in TITLES for n in sorted(table.train_size.unique()) if (table.version == v).any()]
    heights = [1.7 * len(layout.rows) + 0.9, 2.5]
    drawing = Figure(figsize=(max(1.75 * len(blocks), 6.5), sum(heights) + 0.5), layout="constrained")
    parts = drawing.subfigures(2, 1, height_ratios=heights, squeeze=False)[:, 0]
    panels = parts[0].subplots(len(layout.rows), len(blocks), sharey="row", squeeze=False)
    for axes, row in zip(panels, layout.rows, strict=True):
        _row(axes, table, layout, row, blocks)
    for axes, (version, size) in zip(panels.T, blocks, strict=True):
        axes[0].set_title(f"{TITLES[version]}, n = {size}")
        axes[-1].set_xlabel(layout.width)
    _scatters(parts[1].subplots(1, table.version.nunique(), sharex=True, sharey=True, squeeze=False)[0], table, layout)
    _legend(drawing, table)
    # Half-spaces have no cutoffs; their table says median throughout.
    cutoffs = "" if layout.study.name == "compare_relu" else f", {cutoff} cutoffs"
    drawing.suptitle(f"{layout.title} ({names(table)}{cutoffs})")
    return drawing


def _row(axes: Any, table: pd.DataFrame, layout: OwnFigure, row: tuple[int | None, str], blocks: list[Any]) -> None:
    contexts, quantity = row
    for ax, (version, size) in zip(axes, blocks, strict=True):
        part = table[(table.version == version) & (table.train_size == size)]
        _lines(ax, part if contexts is None else part[part.contexts == contexts], layout, quantity)
    axes[0].set_ylabel(("" if contexts is None else f"{contexts} contexts\n") + LABELS[quantity])
    axes[0].set_ylim(0.0 if quantity == "inconsistency" else None)


def paper_figures(table: pd.DataFrame, numbers: Sequence[str]) -> dict[str, Figure]:
    """Some of the figures, by the names of their files: figure2 to figure5 for the paper's, ours one for each cutoffs.

    Of several figures those are left out that the table has no cells of; InputError if it has none of a single one.
    """
    drawn: dict[str, Figure] = {}
    for number in numbers:
        layout = FIGURES[number]
        if isinstance(layout, ClaimsFigure):
            cutoffs = ["median"] if intervals(table) else []
        else:
            cutoffs = list(where(table, study=layout.study.name, split="published").cutoff.unique())
            cutoffs = cutoffs[:1] if isinstance(layout, PaperFigure) else cutoffs
        for cutoff in cutoffs or (["median"] if len(numbers) == 1 else []):
            suffix = "_random" if cutoff == "random" and isinstance(layout, OwnFigure) else ""
            prefix = "figure" if isinstance(layout, PaperFigure) else ""
            drawn[f"{prefix}{number}{suffix}"] = paper_figure(table, number, cutoff)
    return drawn


def names(table: pd.DataFrame) -> str:
    """The data sets of a table, as a title says them."""
    return ", ".join(DATASETS.get(name, name) for name in table.dataset.unique())


def _lines(ax: Axes, table: pd.DataFrame, layout: OwnFigure, quantity: str) -> None:
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
            colour, marker = style(model)["color"], style(model)["marker"]
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


def _scatters(axes: Any, table: pd.DataFrame, layout: OwnFigure) -> None:
    versions = [version for version in TITLES if (table.version == version).any()]
    for ax, version in zip(axes, versions, strict=True):
        _inconsistency_against_error(ax, table[table.version == version], layout.study.reference)
        ax.set_title(f"{TITLES[version]}: every cell")
        ax.set_xlabel(f"error of {layout.study.reference} (%)")
        ax.set_ylabel(LABELS["inconsistency"] if ax is axes[0] else "")
    top = 100 * float(np.nanmax([table.inconsistency.max(), table.error.max()]))
    axes[0].set_ylim(0, 1.05 * top)


def _legend(drawing: Figure, table: pd.DataFrame) -> None:
    handles = [Line2D([], [], markersize=4, linewidth=1, **style(model)) for model in table.model.unique()]
    if table.momentum.nunique() > 1:
        for momentum in sorted(table.momentum.unique()):
            line: Any = DASHES.get(momentum, ":")
            handles.append(Line2D([], [], color="0.4", linestyle=line, linewidth=1, label=f"momentum {momentum:g}"))
    if table.status.str.startswith("NOT_SEPARABLE").any():
        sign: dict[str, Any] = {"color": "0.4", "linestyle": "none"}
        handles.append(Line2D([], [], marker="o", markerfacecolor="white", label="some seeds not separable", **sign))
        handles.append(Line2D([], [], marker="x", label="no seed separable", **sign))
    handles.append(Line2D([], [], color="black", linestyle="-.", linewidth=0.8, label="chance"))
    drawing.legend(handles=handles, loc="outside lower center", ncols=4)


def _error_against_error(ax: Axes, table: pd.DataFrame, reference: str) -> None:
    """Each model's error over the reference's, one point a cell; on the diagonal they are equal."""
    for model, points in pairs(table, reference, _others(table, reference), "error"):
        ax.plot(points.own, points.other, linestyle="none", markersize=5, alpha=0.8, **style(model))
    ends = 100 * np.nan_to_num([table.error.min(), table.error.max()])
    ax.plot(ends, ends, color="0.7", linewidth=0.8, zorder=0)
    ax.set(xlabel=f"error of {reference} (%)", ylabel="error of the SVM (%)", title="Error against error")


def _inconsistency_against_error(ax: Axes, table: pd.DataFrame, reference: str) -> None:
    """Disagreement with the reference over its error, and the chance curve 2e(1 − e) of independent models."""
    for model, points in pairs(table, reference, _others(table, reference), "inconsistency"):
        ax.plot(points.own, points.other, linestyle="none", markersize=5, alpha=0.8, **style(model))
    own = table[table.model == reference]["error"]
    grid = np.linspace(0, 1.15 * max(0.02, float(own.max()) if len(own) else 0.0), 100)
    ax.plot(100 * grid, 200 * grid * (1 - grid), color="black", linestyle="-.", linewidth=0.8, label="chance")
    ax.set(xlabel=f"error of {reference} (%)", ylabel=f"inconsistency with {reference} (%)")
    ax.set_title("Inconsistency against error")
    ax.set_ylim(bottom=0)


def _error_against_width(ax: Axes, table: pd.DataFrame, width: str = "units") -> None:
    """Mean error of every model over `width` ('units' or 'contexts'); bars are one standard deviation over cells."""
    for model in table["model"].unique():
        errors = 100 * table[table.model == model].set_index(width)["error"]
        stats = errors.groupby(width).agg(["mean", "std"]).dropna(subset=["mean"])
        spread = stats["std"].fillna(0.0)
        ax.errorbar(stats.index, stats["mean"], yerr=spread, markersize=4, linewidth=1, capsize=2, **style(model))
    values = sorted(table[width].unique())
    ax.set_xscale("log", base=2)
    ax.set_xticks(values, [str(value) for value in values])
    ax.minorticks_off()
    ax.margins(x=0.1)
    ax.set(xlabel=width, ylabel="validation error (%)", title=f"Error against {width}")
