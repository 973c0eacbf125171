"""The paper's figures 2 to 5 from the tidy table: corrected and as published side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from implicit_bias.experiments.paper.plots import STYLES, UNKNOWN, inconsistency_against_error
from implicit_bias.experiments.runner.drawing import styled
from implicit_bias.ground.checks import InputError

#: Line of each momentum of gradient descent.
DASHES = {0.0: "-", 0.9: (0, (3, 1.5))}
TITLES = {"corrected": "corrected", "published": "as published"}
LABELS = {"error": "validation error (%)", "inconsistency": "inconsistency (%)"}


@dataclass(frozen=True)
class Layout:
    """A figure: its study, the rows of panels (a value of `contexts`, or all; and the quantity), and the x axis."""

    title: str
    study: str
    reference: str
    rows: tuple[tuple[int | None, str], ...]
    width: str
    scatter: bool


LAYOUTS = {
    "2": Layout("Errors of two-layer GLNs", "compare_gln", "GD-GLN", ((2, "error"), (4, "error")), "units", False),
    "3": Layout(
        "Inconsistency with GD-GLN", "compare_gln", "GD-GLN",
        ((2, "inconsistency"), (4, "inconsistency")), "units", True,
    ),
    "4": Layout(
        "ReLU networks", "compare_relu", "GD-ReLU", ((None, "error"), (None, "inconsistency")), "units", True
    ),
    "5": Layout(
        "Shallow GLNs", "compare_shallow_gln", "GD-shallow",
        ((None, "error"), (None, "inconsistency")), "contexts", True,
    ),
}  # fmt: skip


def paper_figure(table: pd.DataFrame, figure: str, cutoff: str = "median") -> Figure:
    """One of the paper's figures.

    Columns are training-set sizes, corrected on the left and as published on the right, as far as the table has them;
    lines are means over seeds, bars one standard deviation, solid without and dashed with momentum. Hollow markers
    leave out seeds whose problem is certified as not separable; crosses at the foot stand for widths at which no seed
    is separable. Figures 3 to 5 end with the inconsistency of every cell against its error, and what chance would give.

    Parameters
    ----------
    table : DataFrame
        The table of `reproduce_paper.py`.
    figure : '2', '3', '4' or '5'
    cutoff : 'median' or 'random'

    Raises
    ------
    InputError
        For an unknown figure, or one that the table has no cells of.

    Examples
    --------
    >>> import pandas as pd
    >>> from implicit_bias.experiments.paper.figures import paper_figure
    >>> cell = dict(study="compare_shallow_gln", dataset="digits", train_size=9, units=1, contexts=2, seed=1)
    >>> cell |= dict(cutoff="median", momentum=0.0, version="corrected", status="OPTIMAL", error=0.1)
    >>> rows = [cell | {"model": "GD-shallow"}, cell | {"model": "SVM-shallow", "inconsistency": 0.05}]
    >>> len(paper_figure(pd.DataFrame(rows), "5").axes)
    3
    """
    if figure not in LAYOUTS:
        raise InputError(f"unknown figure {figure!r}; known: {', '.join(LAYOUTS)}")
    layout = LAYOUTS[figure]
    table = table[(table.study == layout.study) & (table.cutoff == cutoff)]
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


def _row(axes: Any, table: pd.DataFrame, layout: Layout, row: tuple[int | None, str], blocks: list[Any]) -> None:
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
        cutoffs = table[table.study == LAYOUTS[number].study].cutoff.unique()
        for cutoff in cutoffs if len(cutoffs) or len(numbers) > 1 else ("median",):
            name = f"figure{number}" + ("" if cutoff == "median" else f"_{cutoff}")
            drawn[name] = paper_figure(table, number, cutoff)
    return drawn


def names(table: pd.DataFrame) -> str:
    """The data sets of a table, as a title says them."""
    return ", ".join({"mnist": "MNIST"}.get(name, name) for name in table.dataset.unique())


def _lines(ax: Axes, table: pd.DataFrame, layout: Layout, quantity: str) -> None:
    """Means over seeds of every model against the width, a line a momentum."""
    widths = sorted(table[layout.width].unique())
    position = {width: float(i) for i, width in enumerate(widths)}
    for level, model in enumerate(table.model.unique()):
        if quantity == "inconsistency" and model == layout.reference:
            continue
        for momentum in sorted(table.momentum.unique()):
            cells = table[(table.model == model) & (table.momentum == momentum)]
            if quantity == "error" and momentum > 0 and model != layout.reference:
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


def _scatters(axes: Any, table: pd.DataFrame, layout: Layout) -> None:
    versions = [version for version in TITLES if (table.version == version).any()]
    for ax, version in zip(axes, versions, strict=True):
        inconsistency_against_error(ax, table[table.version == version], layout.reference)
        ax.set_title(f"{TITLES[version]}: every cell")
        ax.set_xlabel("validation error of the SVM (%)")
        ax.set_ylabel(LABELS["inconsistency"] if ax is axes[0] else "")
    top = 100 * float(np.nanmax([table.inconsistency.max(), table.error.max()]))
    axes[0].set_ylim(0, 1.05 * top)


def _legend(drawing: Figure, table: pd.DataFrame, layout: Layout) -> None:
    """One entry a model, one a momentum, and the signs."""
    handles = []
    for model in table.model.unique():
        colour, marker = STYLES.get(model, UNKNOWN)
        handles.append(Line2D([], [], color=colour, marker=marker, markersize=4, linewidth=1, label=model))
    if table.momentum.nunique() > 1:
        for momentum in sorted(table.momentum.unique()):
            line: Any = DASHES.get(momentum, ":")
            handles.append(Line2D([], [], color="0.4", linestyle=line, linewidth=1, label=f"momentum {momentum:g}"))
    if (table.status == "NOT_SEPARABLE").any():
        sign: dict[str, Any] = {"color": "0.4", "linestyle": "none"}
        handles.append(Line2D([], [], marker="o", markerfacecolor="white", label="some seeds not separable", **sign))
        handles.append(Line2D([], [], marker="x", label="no seed separable", **sign))
    if layout.scatter:
        handles.append(Line2D([], [], color="0.5", linestyle="--", linewidth=1, label="chance"))
    drawing.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)
