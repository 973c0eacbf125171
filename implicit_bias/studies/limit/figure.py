"""Figures of descents to the limit, made from tidy tables without computation of results."""

from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter

from implicit_bias.studies.limit.findings import CELL, ends
from implicit_bias.studies.runner.drawing import finished, panels, style, styled
from implicit_bias.studies.runner.verdicts import where

#: Model whose colour each descent has, and its line style.
STYLES: dict[str, tuple[str, Literal["-", "--"]]] = {
    "sgd": ("GD", "-"),
    "plain": ("GD", "--"),
    "loss-scaled": ("limit", "-"),
}
#: Quantities plotted along the path of a network, with the titles of their panels.
PANELS = {
    "error": "error (%)",
    "excess": "ratio to optimum − 1",
    "inconsistency": "inconsistency (%)",
    "residual": "residual",
}
#: Panels with a linear axis.
LINEAR = ("error", "inconsistency")
#: Points of a network at each size by label: descent, column, and the model whose style the points have.
ENDS = {
    "SGD, 3200 steps": ("sgd", "error", "GD"),
    "limit": ("loss-scaled", "error", "limit"),
    "SVM": ("loss-scaled", "svm_error", "SVM"),
    "Frobenius norm": ("loss-scaled", "frobenius_error", "SVM-Fro"),
    "SGD and SVM": ("sgd", "inconsistency", "SVM"),
    "limit and SVM": ("loss-scaled", "inconsistency", "limit"),
    "SGD and Frobenius norm": ("sgd", "frobenius_inconsistency", "SVM-Fro"),
}
#: Horizontal offsets of the points of a size: errors, then inconsistencies.
OFFSETS = (-0.3, -0.1, 0.1, 0.3, -0.2, 0.0, 0.2)


def figures(table: pd.DataFrame) -> dict[str, Figure]:
    """Return the figures 'limit', the paths of all descents at the first size, and for several cells 'limit_ends'."""
    title, first = f"The limit of gradient descent ({table.dataset.iloc[0]})", table.iloc[0]
    one = where(table, **first[CELL])
    size = f"n = {first.train_size}, H = {first.units}, momentum {first.momentum:g}"
    drawn = {"limit": _path_figure(one, f"{title}: {size}")}
    cells = table.groupby([*CELL, "seed"]).ngroups
    return drawn | ({"limit_ends": _end_figure(table, title)} if cells > 1 else {})


def _path_figure(table: pd.DataFrame, title: str) -> Figure:
    table = table.assign(excess=table.ratio - 1, inconsistency=100 * table.inconsistency, error=100 * table.error)
    networks = list(table.network.unique())
    with styled(titles="medium"):
        grid = panels(title, len(PANELS), len(networks), (2.15, 1.8), (0.0, 0.7), sharex="row")
        figure: Figure = grid[0, 0].figure
        for name, row in zip(networks, grid, strict=True):
            for ax, quantity in zip(row, PANELS, strict=True):
                _panel(ax, table[table.network == name], quantity)
            row[0].set_ylabel(name, fontsize=10, fontweight="bold")
        shown = [name for name in STYLES if name in set(table.descent)]
        handles = [Line2D([], [], label=name, **_line(name)) for name in shown]
        figure.legend(handles=handles, loc="outside lower center", ncols=len(STYLES))
    return figure


def _line(descent: str) -> dict[str, Any]:
    model, line = STYLES[descent]
    return {"color": style(model)["color"], "linestyle": line}


def _panel(ax: Axes, rows: pd.DataFrame, quantity: str) -> None:
    rows = rows[(rows.step > 0) & np.isfinite(rows[quantity])]
    linear = quantity in LINEAR
    if not linear:
        rows = rows[rows[quantity] > 0]
    ax.set(xlabel="steps", title=PANELS[quantity])
    if rows.empty:
        ax.text(0.5, 0.5, "none known", ha="center", transform=ax.transAxes)
        return
    for (descent, *_), points in rows.groupby(["descent", "seed", "draw"], sort=False):
        ax.plot(points.step, points[quantity], linewidth=1.1, marker=".", markersize=2, **_line(str(descent)))
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(numticks=6))
    if linear:
        bottom = 0.9 * float(rows[quantity].min()) if quantity == "error" else 0.0
        ax.set_ylim(bottom, 1.05 * float(rows[quantity].quantile(0.95)) or 1.0)
    else:
        logs = np.log10(rows[quantity])
        ax.set_ylim(10 ** np.floor(logs.min() - 1e-9), 10 ** np.ceil(logs.max() + 1e-9))
        ax.set_yscale("log")
        ax.yaxis.set_minor_formatter(NullFormatter())
    ax.grid(color="0.9", linewidth=0.6)


def _end_figure(table: pd.DataFrame, title: str) -> Figure:
    last = ends(table)
    last = last[last.descent.isin(STYLES)]
    networks = list(last.network.unique())
    sizes = sorted(set(zip(last.train_size, last.units, strict=True)))
    with styled():
        grid = panels(title, len(networks), 2, (1.65, 2.3), (0.4, 1.6), sharex="all", sharey="row")
        for name, column in zip(networks, grid.T, strict=True):
            for offset, (label, (descent, quantity, model)) in zip(OFFSETS, ENDS.items(), strict=True):
                part = where(last, network=name, descent=descent)
                groups = (100 * part.set_index(["train_size", "units"])[quantity]).groupby(level=[0, 1])
                means, spreads = groups.mean(), groups.sem()
                ax = column[int(quantity.endswith("inconsistency"))]
                places = [sizes.index(size) + offset for size in means.index]
                ax.errorbar(places, means, spreads, linestyle="none", markersize=3.5, **style(model, label))
            column[0].set_title(name, fontsize="medium")
            column[1].set_xticks(range(len(sizes)), [f"{n}, {units}" for n, units in sizes], rotation=90)
            column[1].set(xlabel="n, H", xlim=(-0.6, len(sizes) - 0.4))
        grid[0, 0].set_ylabel("error (%)")
        grid[1, 0].set_ylabel("inconsistency (%)")
        for ax in grid.flat:
            ax.grid(axis="y", color="0.9", linewidth=0.6)
        return finished(grid, below=4)
