"""Figures of a comparison and of the paper, made from tidy tables without computation of results."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from textwrap import fill
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from implicit_bias._utils.checks import InputError, one_of
from implicit_bias.studies.paper import COMPARISONS, FIGURES, TITLES
from implicit_bias.studies.paper.claims import GLN, RELU, SHALLOW, SMALL, WIDTHS
from implicit_bias.studies.paper.verdicts import Tested, claim_tests
from implicit_bias.studies.runner.drawing import COLOURS, DATASETS, finished, log_ticks, panels, style, styled
from implicit_bias.studies.runner.verdicts import where
from implicit_bias.studies.settings import chosen

#: Columns that identify a cell of a model.
KEYS = ["dataset", "train_size", "units", "contexts", "cutoff", "seed", "momentum"]
VERSIONS = {"corrected": "corrected", "published": "published faults"}
LABELS = {"error": "validation error (%)", "inconsistency": "inconsistency (%)"}
#: Line of each momentum of gradient descent, in figures of ours.
DASHES = {0.0: "-", 0.9: (0, (3, 1.5))}
#: Line styles of the training-set sizes, from the smallest, in the paper's figures.
SIZES: tuple[Any, ...] = (":", "--", "-")
#: Columns of panels c: label, model, and conditions on the rows.
BEST: dict[str, list[tuple[str, str, dict[str, Any]]]] = {
    "best GLNs": [
        ("shallow\nGD", "GD-shallow", SHALLOW),
        ("shallow\nSVM", "SVM-shallow", SHALLOW),
        ("deep\nGD", "GD-GLN", GLN),
        ("deep\nSVM-GLN", "SVM-GLN", GLN),
        ("deep\nSVM-L2", "SVM-L2", GLN),
    ],
    "best ReLU networks": [
        *((model, model, RELU) for model in ("GD-ReLU", "SVM-HL", "SVM-LC", "SVM-RC")),
        *((model, model, SMALL) for model in ("GD-GLN", "SVM-GLN")),
    ],
}
#: Colour of each outcome of a claim.
OUTCOMES = {"yes": COLOURS["blue"], "no": COLOURS["orange"], "undecided": "0.55"}
#: Subject of each figure of claims.
PARTS = {"gln": "GLNs", "relu": "ReLU networks", "appendix": "cutoffs and momentum", "ours": "ours"}
#: Marker of means that leave out seeds.
HOLLOW: dict[str, Any] = {"marker": "o", "markersize": 4, "markerfacecolor": "white", "color": "0.4"}


@dataclass(frozen=True)
class Panels:
    """A panel of the paper's figures: its letter, kind, and conditions on its cells.

    `kind` is a column of the table, which is plotted against the reference's error; 'widths', error against units; or a
    key of `BEST`, least errors.
    """

    letter: str
    kind: str
    where: dict[str, Any]


@dataclass(frozen=True)
class PaperFigure:
    """A figure of the paper: problems, columns of panels, and rows of panels (label, conditions on the cells)."""

    study: str
    title: str
    models: tuple[str, ...]
    columns: tuple[Panels, ...]
    rows: tuple[tuple[str, dict[str, Any]], ...]


@dataclass(frozen=True)
class OwnFigure:
    """A figure of ours that the paper lacks: quantities against widths, for each training-set size."""

    study: str
    title: str
    #: Rows of panels: a value of `contexts`, or None for all, and the quantity.
    rows: tuple[tuple[int | None, str], ...]
    #: Column of the x axis.
    width: str = "units"


_A, _B = Panels("a", "error", {}), Panels("b", "inconsistency", {})
_MEDIAN, _RANDOM = {"cutoff": "median"}, {"cutoff": "random"}
_BOTH = ((None, "error"), (None, "inconsistency"))
_GLN, _RELU, _SHALLOW = COMPARISONS
LAYOUTS: dict[str, PaperFigure | OwnFigure] = {
    "2": PaperFigure(
        _GLN,
        "Experiments on GLNs",
        ("SVM-L2", "SVM-GLN"),
        (_A, _B, Panels("c", "best GLNs", {}), Panels("d", "widths", {"contexts": 2})),
        (("", _MEDIAN | {"momentum": 0.0}),),
    ),
    "3": PaperFigure(
        _RELU,
        "Experiments on ReLU networks",
        ("SVM-RC", "SVM-LC", "SVM-HL"),
        (_A, _B, Panels("c", "best ReLU networks", {}), Panels("d", "widths", {})),
        (("", {"momentum": 0.9}),),
    ),
    "4": PaperFigure(
        _GLN,
        "Full data on GLNs",
        ("SVM-L2", "SVM-GLN"),
        (_A, _B, Panels("c", "widths", {"contexts": 2}), Panels("c", "widths", {"contexts": 4})),
        (("with MI", _MEDIAN | {"momentum": 0.0}), ("without MI", _RANDOM | {"momentum": 0.0})),
    ),
    "5": PaperFigure(
        _RELU,
        "Full data on ReLU networks",
        ("SVM-RC", "SVM-LC", "SVM-HL"),
        (_A, _B, Panels("c", "widths", {})),
        (("momentum 0", {"momentum": 0.0}), ("momentum 0.9", {"momentum": 0.9})),
    ),
    "gln-widths": OwnFigure(
        _GLN, "GLNs of all widths", ((2, "error"), (4, "error"), (2, "inconsistency"), (4, "inconsistency"))
    ),
    "relu-widths": OwnFigure(_RELU, "ReLU networks of all widths", _BOTH),
    "shallow": OwnFigure(_SHALLOW, "Shallow GLNs", _BOTH, "contexts"),
}


def names(table: pd.DataFrame) -> str:
    """Return the names of the data sets of a table, for titles."""
    return ", ".join(DATASETS.get(name, name) for name in table.dataset.unique())


def paper_figures(table: pd.DataFrame, figure: Sequence[str] = ("all",)) -> dict[str, Figure]:
    """Return the named figures by file name, without suffix; of several, those without cells are omitted."""
    drawings: dict[str, Figure] = {}
    numbers = chosen(FIGURES, figure)
    for number in numbers:
        if number == "spreads":
            drawings |= claims_figures(table, "Claims over draws") if len(numbers) == 1 or intervals(table) else {}
            continue
        cutoffs = list(where(table, study=LAYOUTS[number].study, split="published").cutoff.unique())
        if number.isdigit():
            cutoffs = cutoffs[:1]
        for cutoff in cutoffs or (["median"] if len(numbers) == 1 else []):
            name = f"figure{number}" if number.isdigit() else number + "_random" * (cutoff == "random")
            drawings[name] = paper_figure(table, number, cutoff)
    return drawings


def paper_figure(table: pd.DataFrame, figure: str, cutoff: str = "median") -> Figure:
    """Return one of the paper's figures, '2' to '5', with its panels, or one of ours, by its name.

    `table` is that of `reproduce_paper.py`; `cutoff`, 'median' or 'random', selects the cells of our figures, which are
    those of the published split. Raises InputError if the figure is unknown or has no cells.

    The columns of our figures are training-set sizes, for the corrected version and for the one with the published
    faults, if the table has both. Lines are means over seeds (solid without momentum, dashed with momentum), and bars
    one standard deviation. Hollow markers are means that omit seeds whose problem is certified as not separable.
    Crosses at the bottom mark widths at which no seed is separable. The last row shows the inconsistency of every cell
    against the error of the reference, and the inconsistency by chance.
    """
    layout = LAYOUTS[one_of(figure, LAYOUTS, "figure")]
    with styled(8, "medium"):
        table = where(table, split="published")
        part = where(table, study=layout.study)
        if isinstance(layout, OwnFigure):
            part = part[part.cutoff == cutoff]
            layout = replace(layout, rows=tuple(row for row in layout.rows if row[0] in {None, *part.contexts}))
        if part.empty or not layout.rows:
            raise InputError(f"the table holds no cells of figure {figure} with {cutoff} cutoffs")
        if isinstance(layout, OwnFigure):
            return _own_figure(part, layout, cutoff)
        return _papers_figure(table, figure, layout)


def _trained_model(table: pd.DataFrame) -> str:
    return str(table.model[table.model.str.startswith("GD-")].iloc[0])


def _versions(table: pd.DataFrame) -> list[str]:
    return [version for version in VERSIONS if (table.version == version).any()]


def _papers_figure(table: pd.DataFrame, number: str, layout: PaperFigure) -> Figure:
    comparison = where(table, study=layout.study)
    reference, shown = _trained_model(comparison), where(comparison, **WIDTHS)
    title = f"Figure {number}. {layout.title} ({names(comparison)})"
    rows = [(version, label, part) for version in _versions(table) for label, part in layout.rows]
    shape = (len(layout.columns), len(rows), (2.9, 2.4), (0.0, 0.7))
    axes = panels(title, *shape, sharex="col", sharey="col")
    for line, (version, label, part) in zip(axes, rows, strict=True):
        for ax, panel in zip(line, layout.columns, strict=True):
            cells = where(shown, version=version, **part | panel.where)
            if panel.kind in BEST:
                _best(ax, table, version, BEST[panel.kind])
            elif panel.kind == "widths":
                _widths(ax, cells, (reference, *layout.models))
            else:
                _scatter(ax, cells, reference, panel.kind, 3, layout.models)
                _guide(ax, panel.kind, cells[cells.model == reference].error, color="0.6", linewidth=1, zorder=0)
            cut = ", ".join(f"{value} {name}" for name, value in panel.where.items())
            ax.set_title(", ".join(filter(None, [f"{panel.letter}  {VERSIONS[version]}", label, cut])))
    for ax, panel in zip(axes[0], layout.columns, strict=True):
        if panel.kind == "inconsistency":
            ax.set_ylim(bottom=0)
    handles, drawing = list(_handles(shown, reference, layout)), axes[0, 0].figure
    drawing.legend(handles=handles, loc="outside lower center", ncols=min(2 * len(layout.columns), len(handles)))
    return drawing


def _scatter(
    ax: Axes, table: pd.DataFrame, reference: str, column: str, size: float, models: Iterable[str] | None = None
) -> None:
    errors = table[table.model == reference].set_index(KEYS)["error"]
    for model in table[table.model != reference].model.unique() if models is None else models:
        values = table[table.model == model].set_index(KEYS)[column]
        points = 100 * pd.concat([errors, values], axis=1, keys=["x", "y"]).dropna()
        ax.plot(points.x, points.y, linestyle="none", markersize=size, alpha=0.8, **style(model))
    label = "error of the SVM (%)" if column == "error" else LABELS[column]
    ax.set(xlabel=f"error of {reference} (%)", ylabel=label)


def _guide(ax: Axes, column: str, errors: Any, **line: Any) -> None:
    """Draw the line of equal errors, or of the inconsistency 2p(1 − p) of independent models with equal errors p."""
    p = np.linspace(errors.min(), errors.max(), 100)
    ax.plot(100 * p, 100 * p if column == "error" else 200 * p * (1 - p), **line)


def _means(ax: Axes, values: Any, x: Any, model: str, dash: Any, *, thin: bool = False) -> None:
    bar, edge, size = (0.6, 0.8, 11) if thin else (None, None, 9)
    mean, spread = 100 * values.mean(), 100 * values.std().fillna(0.0)
    colour, marker = style(model)["color"], style(model)["marker"]
    ax.errorbar(x, mean, yerr=spread, linestyle=dash, linewidth=1, elinewidth=bar, color=colour)
    fill = np.where(values.count() == values.size(), colour, "white")
    ax.scatter(x, mean, s=size, marker=marker, c=fill, edgecolors=colour, linewidths=edge, zorder=3)


def _widths(ax: Axes, table: pd.DataFrame, models: Iterable[str]) -> None:
    for model in models:
        for size, dash in zip(sorted(table.train_size.unique()), SIZES, strict=False):
            errors = where(table, model=model, train_size=size).groupby("units")["error"]
            _means(ax, errors, errors.mean().index, model, dash)
    log_ticks(ax, table.units)
    ax.set(xlabel="hidden units", ylabel=LABELS["error"])


def _best(ax: Axes, table: pd.DataFrame, version: str, columns: list[tuple[str, str, dict[str, Any]]]) -> None:
    for size, dash in zip(sorted(table.train_size.unique()), SIZES, strict=False):
        means = []
        for place, (_, model, rows) in enumerate(columns):
            cells = where(table, **rows | {"version": version, "model": model, "train_size": size})
            errors = 100 * cells.groupby("seed")["error"].min()
            means.append(errors.mean())
            look = style(model)
            ax.errorbar(place, means[-1], yerr=np.nan_to_num(errors.std()), linewidth=1, markersize=3.5, **look)
        ax.plot(range(len(columns)), means, linestyle=dash, linewidth=0.8, color="0.6", zorder=0)
    ax.set_xticks(range(len(columns)), [label for label, _, _ in columns], fontsize=7, rotation=30)
    ax.set_ylabel("least error (%)")


def _handles(table: pd.DataFrame, reference: str, layout: PaperFigure) -> Iterator[Line2D]:
    for model in (reference, *layout.models):
        yield Line2D([], [], linestyle="none", markersize=4, **style(model))
    for size, dash in zip(sorted(table.train_size.unique()), SIZES, strict=False):
        yield Line2D([], [], color="0.4", linestyle=dash, linewidth=1, label=f"n = {size}")
    if table.error.isna().any() and any(panel.kind == "widths" for panel in layout.columns):
        yield Line2D([], [], linestyle="none", label="some seeds not separable", **HOLLOW)


def _own_figure(table: pd.DataFrame, layout: OwnFigure, cutoff: str) -> Figure:
    blocks = [(version, size) for version in _versions(table) for size in sorted(table.train_size.unique())]
    heights = [1.7 * len(layout.rows) + 0.9, 2.5]
    drawing = Figure(figsize=(max(1.75 * len(blocks), 6.5), sum(heights) + 0.5), layout="constrained")
    upper, lower = drawing.subfigures(2, 1, height_ratios=heights, squeeze=False)[:, 0]
    panels = upper.subplots(len(layout.rows), len(blocks), sharey="row", squeeze=False)
    for axes, (contexts, quantity) in zip(panels, layout.rows, strict=True):
        for ax, (version, size) in zip(axes, blocks, strict=True):
            part = where(table, version=version, train_size=size)
            _lines(ax, part if contexts is None else where(part, contexts=contexts), layout, quantity)
        axes[0].set_ylabel(("" if contexts is None else f"{contexts} contexts\n") + LABELS[quantity])
        axes[0].set_ylim(0.0 if quantity == "inconsistency" else None)
    for axes, (version, size) in zip(panels.T, blocks, strict=True):
        axes[0].set_title(f"{VERSIONS[version]}, n = {size}")
        axes[-1].set_xlabel(layout.width)
    below = lower.subplots(1, table.version.nunique(), sharex=True, sharey=True, squeeze=False)[0]
    for ax, version in zip(below, _versions(table), strict=True):
        _against_chance(ax, where(table, version=version), _trained_model(table))
        ax.set_title(f"{VERSIONS[version]}: every cell")
        ax.set_ylabel(LABELS["inconsistency"] if ax is below[0] else "")
    below[0].set_ylim(0, 105 * float(np.nanmax([table.inconsistency.max(), table.error.max()])))
    _legend(drawing, table)
    # Half-spaces have no cutoffs; their column contains "median" in every row.
    cutoffs = "" if layout.study == _RELU else f", {cutoff} cutoffs"
    drawing.suptitle(f"{layout.title} ({names(table)}{cutoffs})")
    return drawing


def _lines(ax: Axes, table: pd.DataFrame, layout: OwnFigure, quantity: str) -> None:
    widths, reference = sorted(table[layout.width].unique()), _trained_model(table)
    for level, model in enumerate(table.model.unique()):
        if quantity == "inconsistency" and model == reference:
            continue
        for momentum in sorted(table.momentum.unique()):
            if quantity == "error" and momentum > 0 and model != reference:
                continue
            groups = where(table, model=model, momentum=momentum).groupby(layout.width)[quantity]
            counts = groups.count()
            x = np.array([float(widths.index(width)) for width in counts.index])
            _means(ax, groups, x, model, DASHES.get(momentum, ":"), thin=True)
            inseparable = x[(counts == 0).to_numpy()]
            height, colour = np.full_like(inseparable, 0.04 * level), style(model)["color"]
            (crosses,) = ax.plot(
                inseparable, height, "x", color=colour, clip_on=False, transform=ax.get_xaxis_transform()
            )
            crosses.set_in_layout(False)
    step = 1 if len(widths) < 8 else 3
    powers = layout.width == "contexts"
    labels = [f"$2^{{{int(width).bit_length() - 1}}}$" if powers else str(width) for width in widths]
    ax.set_xticks(range(0, len(widths), step), labels[::step])


def _legend(drawing: Figure, table: pd.DataFrame) -> None:
    handles = [Line2D([], [], markersize=4, linewidth=1, **style(model)) for model in table.model.unique()]
    if table.momentum.nunique() > 1:
        for momentum in sorted(table.momentum.unique()):
            line: dict[str, Any] = {"linestyle": DASHES.get(momentum, ":"), "label": f"momentum {momentum:g}"}
            handles.append(Line2D([], [], color="0.4", linewidth=1, **line))
    if table.status.str.startswith("NOT_SEPARABLE").any():
        hollow = {"marker": "o", "markerfacecolor": "white", "label": "some seeds not separable"}
        for sign in (hollow, {"marker": "x", "label": "no seed separable"}):
            handles.append(Line2D([], [], color="0.4", linestyle="none", **sign))  # type: ignore[arg-type]
    handles.append(Line2D([], [], color="black", linestyle="-.", linewidth=0.8, label="chance"))
    drawing.legend(handles=handles, loc="outside lower center", ncols=4)


def _against_chance(ax: Axes, table: pd.DataFrame, reference: str) -> None:
    """Plot inconsistencies against the error p of the reference, with the curve 2p(1 − p) of chance."""
    _scatter(ax, table, reference, "inconsistency", 5)
    errors = np.array([0.0, 1.15 * max(0.02, table[table.model == reference].error.max())])
    _guide(ax, "inconsistency", errors, color="black", linestyle="-.", linewidth=0.8, label="chance")
    ax.set_ylim(bottom=0)


def comparison_figures(table: pd.DataFrame) -> dict[str, Figure]:
    """Return the figure 'comparison' of a study's table; if there are two versions, also 'comparison_published'."""
    title, reference = TITLES[table.study.iloc[0]], _trained_model(table)
    width = "contexts" if table.contexts.nunique() > table.units.nunique() else "units"
    figures = {}
    for number, (version, part) in enumerate(table.groupby("version", sort=False)):
        published = ", published faults" if version == "published" else ""
        axes = panels(f"{title} ({table.dataset.iloc[0]}{published})", columns=3, size=(3.5, 3.2))
        errors, inconsistencies, widths = axes[0]
        _scatter(errors, part, reference, "error", 5)
        _guide(errors, "error", part.error, color="0.7", linewidth=0.8, zorder=0)
        errors.set_title("Error against error")
        _against_chance(inconsistencies, part, reference)
        inconsistencies.set(title="Inconsistency against error", ylabel=f"inconsistency with {reference} (%)")
        for model in part.model.unique():
            stats = (100 * part[part.model == model].set_index(width).error).groupby(width).agg(["mean", "std"])
            stats = stats.dropna(subset=["mean"]).fillna(0.0)
            look: dict[str, Any] = {"markersize": 4, "linewidth": 1, "capsize": 2} | style(model)
            widths.errorbar(stats.index, stats["mean"], yerr=stats["std"], **look)
        log_ticks(widths, part[width], base=2)
        widths.margins(x=0.1)
        widths.set(xlabel=width, ylabel=LABELS["error"], title=f"Error against {width}")
        figures[f"comparison_{version}" if number else "comparison"] = finished(axes, below=6)
    return figures


def claims_figures(table: pd.DataFrame, title: str) -> dict[str, Figure]:
    """Return a figure of the intervals of each part of the claims; raise InputError if there are no intervals."""
    shown = intervals(table)
    if not shown:
        raise InputError("the table holds too few draws for intervals")
    with styled(9, "medium"):
        return {f"claims_{part}": _claims_figure(tests, f"{title}: {PARTS[part]}") for part, tests in shown.items()}


def intervals(table: pd.DataFrame) -> dict[str, list[Tested]]:
    """Return the tests of differences against 0 that have an interval, by the part of `claims.toml`."""
    parts: dict[str, list[Tested]] = {}
    for one in claim_tests(table):
        is_shown = not re.search(r"\w=\d+$", one.test.claim) and not one.contrast.correlated and one.contrast.limit == 0
        if is_shown and np.isfinite(one.test.p):
            part = "appendix" if one.contrast.claim.place.startswith("C.") else one.contrast.part
            parts.setdefault(part, []).append(one)
    return parts


def _claims_figure(shown: Sequence[Tested], title: str) -> Figure:
    labels = [fill(one.test.claim, 46, break_on_hyphens=False) for one in shown]
    drawing = Figure(figsize=(7.5, 0.42 * len(shown) + 1.3), layout="constrained")
    ax = drawing.subplots()
    for place, one in enumerate(shown):
        mean, colour = one.test.values.mean(), OUTCOMES[one.verdict.outcome]
        (low, high), face = one.test.interval, colour if one.test.split else "white"
        ax.plot([low, high], [place, place], color=colour, linewidth=1.5)
        ax.plot(mean, place, "o", markersize=5, color=colour, markerfacecolor=face)
    ax.axvline(0, color="0.6", linewidth=0.8, zorder=0)
    ax.set_xscale("symlog", linthresh=1)
    ticks = [tick for tick in (-5, -2, -1, 0, 1, 2, 5, 10, 20, 50, 100, 200) if tick <= max(20, ax.get_xlim()[1])]
    ax.set_xticks(ticks, [f"{tick:g}".replace("-", "−") for tick in ticks])
    ax.minorticks_off()
    ax.set_yticks(range(len(shown)), labels, fontsize=9)
    ax.set_ylim(len(shown) - 0.5, -0.5)
    ax.set(xlabel="points above 0, 95 % interval", title=title)
    handles = [Line2D([], [], color=colour, marker="o", markersize=5, label=name) for name, colour in OUTCOMES.items()]
    if not all(one.test.split for one in shown):
        handles.append(Line2D([], [], label="seeds of the published split only", **HOLLOW))
    drawing.legend(handles=handles, loc="outside lower center", ncols=4)
    return drawing
