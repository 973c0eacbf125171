"""The paper's figures panel by panel: what its captions say, corrected above and as published below."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from implicit_bias.experiments.paper.plan import GLN, RELU, SHALLOW, PaperFigure
from implicit_bias.experiments.runner.drawing import COLOURS

#: Colour and marker of each model, the same in every figure.
STYLES = {
    **dict.fromkeys(("GD-GLN", "GD-shallow", "GD-ReLU"), (COLOURS["black"], "D")),
    **dict.fromkeys(("SVM-L2", "SVM-RC"), (COLOURS["orange"], "s")),
    **dict.fromkeys(("SVM-GLN", "SVM-shallow", "SVM-LC"), (COLOURS["blue"], "o")),
    **dict.fromkeys(("SVM-Fro", "SVM-HL"), (COLOURS["green"], "^")),
}
UNKNOWN = (COLOURS["purple"], "v")
KEYS = ["dataset", "train_size", "units", "contexts", "cutoff", "seed", "momentum"]
TITLES = {"corrected": "corrected", "published": "as published"}
#: Lines of the training-set sizes, from the smallest.
DASHES: tuple[Any, ...] = (":", "--", "-")
#: The columns of panels c: label, study, model, and which cells.
DEEP = {"study": GLN.study.name}
BEST: dict[str, list[tuple[str, str, dict[str, Any]]]] = {
    "best GLNs": [
        ("shallow\nGD", "GD-shallow", {"study": SHALLOW.study.name}),
        ("shallow\nSVM", "SVM-shallow", {"study": SHALLOW.study.name}),
        ("deep\nGD", "GD-GLN", DEEP),
        ("deep\nSVM-GLN", "SVM-GLN", DEEP),
        ("deep\nSVM-L2", "SVM-L2", DEEP),
    ],
    "best ReLU networks": [
        *((model, model, {"study": RELU.study.name}) for model in ("GD-ReLU", "SVM-HL", "SVM-LC", "SVM-RC")),
        ("SVM-GLN", "SVM-GLN", DEEP | {"contexts": 2, "units": (0, 50)}),
    ],
}


def style(model: str) -> dict[str, Any]:
    """Colour, marker and label of a model."""
    colour, marker = STYLES.get(model, UNKNOWN)
    return {"color": colour, "marker": marker, "label": model}


def where(table: pd.DataFrame, **values: Any) -> pd.DataFrame:
    """The rows with these values of columns; a pair stands for all from the one to the other."""
    for name, value in values.items():
        column = table[name]
        table = table[column.between(*value) if isinstance(value, tuple) else column == value]
    return table


def draw(table: pd.DataFrame, layout: PaperFigure, title: str) -> Figure:
    """The figure: a block of rows for each version, the panels of the paper from left to right."""
    versions = [version for version in TITLES if (table.version == version).any()]
    rows = [(version, label, part) for version in versions for label, part in layout.rows]
    size = 2.9 * len(layout.columns), 2.4 * len(rows) + 0.9
    drawing = Figure(figsize=size, layout="constrained")
    axes = drawing.subplots(len(rows), len(layout.columns), squeeze=False)
    widest = max(layout.parts[0].whole["units"])
    for line, (version, label, part) in zip(axes, rows, strict=True):
        cells = where(table, version=version)
        own = where(cells, study=layout.study.name, units=(0, widest), **part)
        for ax, panel in zip(line, layout.columns, strict=True):
            if panel.kind in BEST:
                _best(ax, cells, BEST[panel.kind])
            else:
                KINDS[panel.kind](ax, where(own, **panel.where), layout)
            told = ", ".join(f"{value} {name}" for name, value in panel.where.items())
            ax.set_title(", ".join(filter(None, [f"{panel.letter}  {TITLES[version]}", label, told])))
    drawing.legend(handles=list(_handles(table, layout)), loc="outside lower center", ncols=5, frameon=False)
    drawing.suptitle(title)
    return drawing


def _pairs(table: pd.DataFrame, layout: PaperFigure, column: str) -> Iterator[tuple[str, pd.DataFrame]]:
    """The reference's error and a column of each model, in percent, cell by cell."""
    own = table[table.model == layout.study.reference].set_index(KEYS)["error"]
    for model in layout.models:
        other = table[table.model == model].set_index(KEYS)[column]
        yield model, 100 * pd.concat([own, other], axis=1, keys=["own", "other"]).dropna()


def _errors(ax: Axes, table: pd.DataFrame, layout: PaperFigure) -> None:
    """Errors of the SVMs over that of gradient descent; on the grey line they are equal."""
    for model, pairs in _pairs(table, layout, "error"):
        ax.plot(pairs.own, pairs.other, linestyle="none", markersize=3, alpha=0.8, **style(model))
    own = 100 * table[table.model == layout.study.reference]["error"]
    ends = [own.min(), own.max()] if len(own) else [0, 0]
    ax.plot(ends, ends, color="0.6", linewidth=1, zorder=0)
    ax.set(xlabel=f"error of {layout.study.reference} (%)", ylabel="error of the SVM (%)")


def _inconsistencies(ax: Axes, table: pd.DataFrame, layout: PaperFigure) -> None:
    """Inconsistencies over gradient descent's error p; the grey line is 2p(1 − p)."""
    for model, pairs in _pairs(table, layout, "inconsistency"):
        ax.plot(pairs.own, pairs.other, linestyle="none", markersize=3, alpha=0.8, **style(model))
    own = table[table.model == layout.study.reference]["error"]
    p = np.linspace(own.min(), own.max(), 50) if len(own) else np.zeros(1)
    ax.plot(100 * p, 200 * p * (1 - p), color="0.6", linewidth=1, zorder=0)
    ax.set(xlabel=f"error of {layout.study.reference} (%)", ylabel="inconsistency (%)", ylim=(0, None))


def _widths(ax: Axes, table: pd.DataFrame, layout: PaperFigure) -> None:
    """Errors over the number of hidden units: means and standard deviations over seeds."""
    for model in (layout.study.reference, *layout.models):
        for size, dash in zip(sorted(table.train_size.unique()), DASHES, strict=False):
            errors = (100 * where(table, model=model, train_size=size).set_index("units")["error"]).groupby("units")
            mean, spread = errors.mean(), errors.std().fillna(0.0)
            ax.errorbar(mean.index, mean, yerr=spread, linestyle=dash, linewidth=1, markersize=3, **style(model))
    units = sorted(table.units.unique())
    ax.set_xscale("log")
    ax.set_xticks(units, [str(value) for value in units])
    ax.minorticks_off()
    ax.set(xlabel="hidden units", ylabel="validation error (%)")


def _best(ax: Axes, table: pd.DataFrame, columns: list[tuple[str, str, dict[str, Any]]]) -> None:
    """The least error of each seed over all hyperparameters, as mean and standard deviation over seeds."""
    for size, dash in zip(sorted(table.train_size.unique()), DASHES, strict=False):
        places, means, spreads = [], [], []
        for place, (_, model, part) in enumerate(columns):
            cells = where(table, model=model, train_size=size, **part)
            least = 100 * cells.groupby("seed")["error"].min()
            if len(least.dropna()):
                places.append(place)
                means.append(least.mean())
                spreads.append(np.nan_to_num(least.std()))
        ax.errorbar(places, means, yerr=spreads, linestyle=dash, linewidth=1, color="0.3", marker="o", markersize=3)
    ax.set_xticks(range(len(columns)), [label for label, _, _ in columns], fontsize=6, rotation=30)
    ax.set_ylabel("least error (%)")


def _handles(table: pd.DataFrame, layout: PaperFigure) -> Iterator[Line2D]:
    for model in (layout.study.reference, *layout.models):
        yield Line2D([], [], linestyle="none", markersize=4, **style(model))
    for size, dash in zip(sorted(table.train_size.unique()), DASHES, strict=False):
        yield Line2D([], [], color="0.4", linestyle=dash, linewidth=1, label=f"n = {size}")


#: How each kind of panel is drawn, but for those of the best networks.
KINDS: dict[str, Callable[[Axes, pd.DataFrame, PaperFigure], None]] = {
    "errors": _errors,
    "inconsistencies": _inconsistencies,
    "widths": _widths,
}
