"""The paper's figures panel by panel: what its captions say, corrected above and with its faults below."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from implicit_bias.studies.paper.claims import GLN, RELU, SHALLOW, SMALL
from implicit_bias.studies.paper.plan import PaperFigure
from implicit_bias.studies.runner.drawing import style
from implicit_bias.studies.runner.verdicts import where

KEYS = ["dataset", "train_size", "units", "contexts", "cutoff", "seed", "momentum"]
TITLES = {"corrected": "corrected", "published": "published faults"}
#: Lines of the training-set sizes, from the smallest.
DASHES: tuple[Any, ...] = (":", "--", "-")
#: The columns of panels c: label, model, and which cells.
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


def draw(table: pd.DataFrame, layout: PaperFigure, title: str) -> Figure:
    """The figure: a block of rows for each version, the panels of the paper from left to right."""
    versions = [version for version in TITLES if (table.version == version).any()]
    rows = [(version, label, part) for version in versions for label, part in layout.rows]
    size = 2.9 * len(layout.columns), 2.4 * len(rows) + 0.7
    drawing = Figure(figsize=size, layout="constrained")
    axes = drawing.subplots(len(rows), len(layout.columns), sharex="col", sharey="col", squeeze=False)
    widest = max(layout.parts[0].whole["units"])
    for line, (version, label, part) in zip(axes, rows, strict=True):
        cells = where(table, version=version)
        own = where(cells, study=layout.study.name, units=(0, widest), **part)
        for ax, panel in zip(line, layout.columns, strict=True):
            if panel.kind in BEST:
                _best(ax, table, version, BEST[panel.kind])
            else:
                KINDS[panel.kind](ax, where(own, **panel.where), layout)
            told = ", ".join(f"{value} {name}" for name, value in panel.where.items())
            ax.set_title(", ".join(filter(None, [f"{panel.letter}  {TITLES[version]}", label, told])))
    for ax, panel in zip(axes[0], layout.columns, strict=True):
        if panel.kind == "inconsistencies":
            ax.set_ylim(bottom=0)
    handles, most = list(_handles(table, layout)), 2 * len(layout.columns)
    drawing.legend(handles=handles, loc="outside lower center", ncols=min(most, len(handles)))
    drawing.suptitle(title)
    return drawing


def pairs(
    table: pd.DataFrame, reference: str, models: Iterable[str], column: str
) -> Iterator[tuple[str, pd.DataFrame]]:
    """The reference's error and a column of each model, in percent: own and other, a row for each cell with both."""
    own = table[table.model == reference].set_index(KEYS)["error"]
    for model in models:
        other = table[table.model == model].set_index(KEYS)[column]
        yield model, 100 * pd.concat([own, other], axis=1, keys=["own", "other"]).dropna()


def _errors(ax: Axes, table: pd.DataFrame, layout: PaperFigure) -> None:
    """Errors of the SVMs over that of gradient descent; on the grey line they are equal."""
    for model, points in pairs(table, layout.study.reference, layout.models, "error"):
        ax.plot(points.own, points.other, linestyle="none", markersize=3, alpha=0.8, **style(model))
    own = 100 * table[table.model == layout.study.reference]["error"]
    ends = [own.min(), own.max()] if len(own) else [0, 0]
    ax.plot(ends, ends, color="0.6", linewidth=1, zorder=0)
    ax.set(xlabel=f"error of {layout.study.reference} (%)", ylabel="error of the SVM (%)")


def _inconsistencies(ax: Axes, table: pd.DataFrame, layout: PaperFigure) -> None:
    """Inconsistencies over gradient descent's error p; the grey line is 2p(1 − p)."""
    for model, points in pairs(table, layout.study.reference, layout.models, "inconsistency"):
        ax.plot(points.own, points.other, linestyle="none", markersize=3, alpha=0.8, **style(model))
    own = table[table.model == layout.study.reference]["error"]
    p = np.linspace(own.min(), own.max(), 50) if len(own) else np.zeros(1)
    ax.plot(100 * p, 200 * p * (1 - p), color="0.6", linewidth=1, zorder=0)
    ax.set(xlabel=f"error of {layout.study.reference} (%)", ylabel="inconsistency (%)")


def _widths(ax: Axes, table: pd.DataFrame, layout: PaperFigure) -> None:
    """Errors over the number of hidden units: means and standard deviations over seeds, hollow where some have none."""
    for model in (layout.study.reference, *layout.models):
        for size, dash in zip(sorted(table.train_size.unique()), DASHES, strict=False):
            errors = (100 * where(table, model=model, train_size=size).set_index("units")["error"]).groupby("units")
            mean, spread = errors.mean(), errors.std().fillna(0.0)
            look = style(model)
            ax.errorbar(mean.index, mean, yerr=spread, linestyle=dash, linewidth=1, color=look["color"])
            fill = np.where(errors.count() == errors.size(), look["color"], "white")
            ax.scatter(mean.index, mean, s=9, marker=look["marker"], c=fill, edgecolors=look["color"], zorder=3)
    units = sorted(table.units.unique())
    ax.set_xscale("log")
    ax.set_xticks(units, [str(value) for value in units])
    ax.minorticks_off()
    ax.set(xlabel="hidden units", ylabel="validation error (%)")


def _best(ax: Axes, table: pd.DataFrame, version: str, columns: list[tuple[str, str, dict[str, Any]]]) -> None:
    """The least error of each seed over numbers of units and contexts: means and standard deviations over seeds."""
    for size, dash in zip(sorted(table.train_size.unique()), DASHES, strict=False):
        means = []
        for place, (_, model, rows) in enumerate(columns):
            cells = where(table, **rows | {"version": version, "model": model, "train_size": size})
            least = 100 * cells.groupby("seed")["error"].min()
            means.append(least.mean())
            look = style(model)
            ax.errorbar(place, means[-1], yerr=np.nan_to_num(least.std()), linewidth=1, markersize=3.5, **look)
        ax.plot(range(len(columns)), means, linestyle=dash, linewidth=0.8, color="0.6", zorder=0)
    ax.set_xticks(range(len(columns)), [label for label, _, _ in columns], fontsize=6, rotation=30)
    ax.set_ylabel("least error (%)")


def _handles(table: pd.DataFrame, layout: PaperFigure) -> Iterator[Line2D]:
    for model in (layout.study.reference, *layout.models):
        yield Line2D([], [], linestyle="none", markersize=4, **style(model))
    for size, dash in zip(sorted(table.train_size.unique()), DASHES, strict=False):
        yield Line2D([], [], color="0.4", linestyle=dash, linewidth=1, label=f"n = {size}")
    if (
        any(panel.kind == "widths" for panel in layout.columns)
        and table[table.study == layout.study.name].error.isna().any()
    ):
        hollow: dict[str, Any] = {"marker": "o", "markersize": 4, "markerfacecolor": "white", "color": "0.4"}
        yield Line2D([], [], linestyle="none", label="some seeds not separable", **hollow)


#: How each kind of panel is drawn, but for those of the best networks.
KINDS: dict[str, Callable[[Axes, pd.DataFrame, PaperFigure], None]] = {
    "errors": _errors,
    "inconsistencies": _inconsistencies,
    "widths": _widths,
}
