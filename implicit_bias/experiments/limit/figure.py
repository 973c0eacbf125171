"""The figure of descents to the limit: tidy tables in, axes out, no computation of results."""

from typing import Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter

from implicit_bias.experiments.runner.drawing import COLOURS, styled

#: Colour and line of each descent, the same in every panel.
STYLES: dict[str, tuple[str, Literal["-", "--"]]] = {
    "plain": (COLOURS["orange"], "--"),
    "loss-scaled": (COLOURS["blue"], "-"),
}
#: Titles of the panels.
TITLES = {
    "excess": "objective over optimum − 1",
    "inconsistency": "inconsistency with the SVM (%)",
    "misalignment": "1 − cosine with the SVM",
    "stationarity": "residual of Theorem 3.1",
    "normalised_margin": "normalised margin",
}
#: The panels of networks with a known margin problem, and of others.
KNOWN, DEEP = ("excess", "inconsistency", "misalignment", "stationarity"), ("normalised_margin", "stationarity")
#: What is drawn on a linear axis from 0.
LINEAR = ("inconsistency", "normalised_margin")


def _panel(ax: Axes, rows: pd.DataFrame, quantity: str) -> None:
    rows = rows[(rows.step > 0) & np.isfinite(rows[quantity])]
    linear = quantity in LINEAR
    if not linear:
        rows = rows[rows[quantity] > 0]
    ax.set(xlabel="steps", title=TITLES[quantity])
    if rows.empty:
        ax.text(0.5, 0.5, "samples never separated", ha="center", transform=ax.transAxes)
        return
    for descent, (colour, line) in STYLES.items():
        points = rows[rows.descent == descent]
        ax.plot(points.step, points[quantity], line, color=colour, linewidth=1.5)
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(numticks=6))
    if linear:
        ax.set_ylim(min(0.0, float(rows[quantity].min())), 1.05 * float(rows[quantity].max()) or 1.0)
    else:
        logs = np.log10(rows[quantity])
        ax.set_ylim(10 ** np.floor(logs.min() - 1e-9), 10 ** np.ceil(logs.max() + 1e-9))
        ax.set_yscale("log")
        ax.yaxis.set_minor_formatter(NullFormatter())
    ax.grid(color="0.9", linewidth=0.6)


def limit_figure(table: pd.DataFrame, title: str = "The limit of gradient descent") -> Figure:
    """A row of panels a network, plain and loss-scaled descent over steps.

    With a margin problem: objective over optimum − 1, inconsistency, 1 − cosine, and the residual of Theorem 3.1;
    without (deeper networks): the normalised margin and the residual. A point before the samples are separated has no
    ratio and no residual, and is left out there.

    Of the table's columns it takes network, descent ('plain' or 'loss-scaled'), step, ratio, inconsistency, alignment,
    normalised_margin and stationarity.

    >>> row = dict(network="gln", descent="plain", step=1, ratio=1.5, inconsistency=0.1, alignment=0.9)
    >>> figure = limit_figure(pd.DataFrame([row | dict(normalised_margin=0.2, stationarity=0.3)]), "Digits")
    >>> [axes.get_title() for axes in figure.axes][:2]
    ['objective over optimum − 1', 'inconsistency with the SVM (%)']
    """
    table = table.assign(
        excess=table.ratio - 1, misalignment=1 - table.alignment, inconsistency=100 * table.inconsistency
    )
    networks = list(table.network.unique())
    known = set(table.network[table.ratio.notna()])
    panels = {name: KNOWN if name in known else DEEP for name in networks}
    columns = max(len(quantities) for quantities in panels.values())
    with styled(8.5):
        figure = Figure(figsize=(2.9 * columns, 2.5 * len(networks) + 0.7), layout="constrained")
        grid = figure.subplots(len(networks), columns, squeeze=False, sharex="row")
        for name, row in zip(networks, grid, strict=True):
            for ax, quantity in zip(row, panels[name], strict=False):
                _panel(ax, table[table.network == name], quantity)
            row[0].set_ylabel(name, fontsize=11, fontweight="bold")
            for ax in row[len(panels[name]) :]:
                ax.set_axis_off()
        handles = [
            Line2D([], [], color=c, linestyle=line, label=f"{name} descent") for name, (c, line) in STYLES.items()
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False)
        figure.suptitle(title)
    return figure
