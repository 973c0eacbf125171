"""Figures of all sizes: error, inconsistency and ratio against the number of training samples."""

from itertools import product

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from implicit_bias.studies.runner.drawing import DATASETS, beside, log_ticks, panels, style, trend
from implicit_bias.studies.runner.verdicts import where
from implicit_bias.studies.scale.config import MODELS

#: Lines of a panel by label: network, descent, model, and the model whose style the line has.
Lines = dict[str, tuple[str, str, str, str]]
GLN, RELU, FROZEN = MODELS
#: Lines of trained networks.
GLN_ENDS: Lines = {
    "GD-GLN, SGD": (GLN, "sgd", "GD-GLN", "GD-GLN"),
    "GD-GLN, driven on": (GLN, "limit", "GD-GLN", "limit"),
}
RELU_ENDS: Lines = {
    "GD-ReLU, SGD": (RELU, "sgd", "GD-ReLU", "GD-ReLU"),
    "GD-ReLU, driven on": (RELU, "limit", "GD-ReLU", "limit"),
    "GD-FReLU, SGD": (FROZEN, "sgd", "GD-FReLU", "GD-FReLU"),
}
#: Rows of panels: a column of the table, and the label of its axis.
QUANTITIES = {"error": "error (%)", "inconsistency": "inconsistency (%)", "ratio": "ratio to the optimum"}
#: Lines of each row of panels, in the figures for GLNs and for ReLU networks.
FIGURES: dict[str, dict[str, Lines]] = {
    "scale_gln": {
        "error": GLN_ENDS | {model: (GLN, "sgd", model, model) for model in ("SVM-GLN", "SVM-Fro", "SVM-L2")},
        "inconsistency": {
            "SGD and SVM-GLN": (GLN, "sgd", "SVM-GLN", "SVM-GLN"),
            "driven on and SVM-GLN": (GLN, "limit", "SVM-GLN", "limit"),
            **{f"SGD and {model}": (GLN, "sgd", model, model) for model in ("SVM-Fro", "SVM-L2")},
        },
        "ratio": GLN_ENDS,
    },
    "scale_relu": {
        "error": RELU_ENDS | {model: (RELU, "sgd", model, model) for model in ("SVM-LC", "SVM-RC", "SVM-HL")},
        "inconsistency": {
            "GD-ReLU and SVM-LC": (RELU, "sgd", "SVM-LC", "SVM-LC"),
            "driven on and SVM-LC": (RELU, "limit", "SVM-LC", "limit"),
            "GD-FReLU and SVM-LC": (FROZEN, "sgd", "SVM-LC", "GD-FReLU"),
            "driven on and SVM-LC, frozen": (FROZEN, "limit", "SVM-LC", "limit of GD-FReLU"),
            **{f"GD-ReLU and {model}": (RELU, "sgd", model, model) for model in ("SVM-RC", "SVM-HL")},
        },
        "ratio": RELU_ENDS | {"GD-FReLU, driven on": (FROZEN, "limit", "GD-FReLU", "limit of GD-FReLU")},
    },
}
#: Inches beside the panels.
LEGENDS = 2.4
TITLES = {"scale_gln": "GLNs against n", "scale_relu": "ReLU networks against n"}


def figures(table: pd.DataFrame) -> dict[str, Figure]:
    """Return figures for GLNs and for ReLU networks on every data set, by names such as 'scale_gln_mnist'.

    Columns of panels are values of H, points are seeds, and lines are means. A network that does not separate its
    training samples has no ratio, and therefore no point in that panel.
    """
    drawn = {}
    for (name, rows), dataset in product(FIGURES.items(), DATASETS):
        networks = {network for lines in rows.values() for network, *_ in lines.values()}
        own = where(table[table.network.isin(networks)], dataset=dataset)
        if own.empty:
            continue
        widths = list(own.units.unique())
        shape = (len(widths), len(rows), (2.6, 2.3), (LEGENDS, 0.4))
        axes = panels(f"{TITLES[name]}, {DATASETS[dataset]}", *shape)
        for column, units in zip(axes.T, widths, strict=True):
            part = where(own, units=units)
            for ax, (quantity, lines) in zip(column, rows.items(), strict=True):
                _panel(ax, part, quantity, lines)
            column[0].set_title(f"H = {units}")
            column[-1].set_xlabel("training samples $n$, thousands")
        for ax, quantity in zip(axes[:, 0], rows, strict=True):
            ax.set_ylabel(QUANTITIES[quantity])
        drawn[f"{name}_{dataset}"] = beside(axes)
    return drawn


def _panel(ax: Axes, table: pd.DataFrame, quantity: str, lines: Lines) -> None:
    """Plot the lines of a quantity against n: shares in percent, or the ratio on a logarithmic axis."""
    factor = 1.0 if quantity == "ratio" else 100.0
    for label, (network, descent, model, shown) in lines.items():
        rows = where(table, network=network, descent=descent, model=model)
        values = factor * rows.set_index("train_size")[quantity].replace(np.inf, np.nan).dropna()
        trend(ax, values, "mean", **style(shown, label))
    ax.set_xlim(table.train_size.min() / 1.3, table.train_size.max() * 1.3)
    if quantity == "ratio":
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.yaxis.set_major_formatter("{x:g}")
        ax.axhline(1.0, color="black", linewidth=0.8)
    elif quantity == "inconsistency":
        ax.set_ylim(0.0, None)
    log_ticks(ax, table.train_size, form=lambda size: f"{size / 1000:g}")
