"""Figures of all sizes: error and inconsistency against the number of training samples."""

from itertools import product

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from implicit_bias.studies.runner.drawing import DATASETS, beside, log_ticks, panels, style, trend
from implicit_bias.studies.runner.verdicts import where
from implicit_bias.studies.scale import MODELS

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
#: Rows of panels of each data set: a column of the table, and the label of its axis.
QUANTITIES = {"error": "error (%)", "inconsistency": "inconsistency (%)"}
#: Lines of each row of panels, in the figures for GLNs and for ReLU networks.
FIGURES: dict[str, dict[str, Lines]] = {
    "scale_gln": {
        "error": GLN_ENDS | {model: (GLN, "sgd", model, model) for model in ("SVM-GLN", "SVM-Fro", "SVM-L2")},
        "inconsistency": {
            "SGD and SVM-GLN": (GLN, "sgd", "SVM-GLN", "SVM-GLN"),
            "driven on and SVM-GLN": (GLN, "limit", "SVM-GLN", "limit"),
            **{f"SGD and {model}": (GLN, "sgd", model, model) for model in ("SVM-Fro", "SVM-L2")},
        },
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
    },
}
TITLES = {"scale_gln": "GLNs against n", "scale_relu": "ReLU networks against n"}


def figures(table: pd.DataFrame) -> dict[str, Figure]:
    """Return figures for GLNs, 'scale_gln', and for ReLU networks, 'scale_relu'."""
    drawn = {}
    for name, rows in FIGURES.items():
        networks = {network for lines in rows.values() for network, *_ in lines.values()}
        own = table[table.network.isin(networks)]
        if own.empty:
            continue
        widths, places = list(own.units.unique()), list(product(own.dataset.unique(), rows))
        axes = panels(TITLES[name], len(widths), len(places), (2.15, 2.05), (2.5, 0.4))
        for row, (dataset, quantity) in zip(axes, places, strict=True):
            for ax, units in zip(row, widths, strict=True):
                _panel(ax, where(own, dataset=dataset, units=units), quantity, rows[quantity])
                ax.set_title(f"{DATASETS[dataset]}, H = {units}", fontsize="medium")
            row[0].set_ylabel(QUANTITIES[quantity])
        for ax in axes[-1]:
            ax.set_xlabel("$n$, thousands")
        drawn[name] = beside(axes)
    return drawn


def _panel(ax: Axes, table: pd.DataFrame, quantity: str, lines: Lines) -> None:
    """Plot the means over seeds of the column `quantity` in percent against n, and a faint point for each seed."""
    for label, (network, descent, model, shown) in lines.items():
        rows = where(table, network=network, descent=descent, model=model)
        trend(ax, 100 * rows.set_index("train_size")[quantity].dropna(), "mean", **style(shown, label))
    if quantity == "inconsistency":
        ax.set_ylim(0.0, None)
    if len(table):
        ax.set_xlim(table.train_size.min() / 1.3, table.train_size.max() * 1.3)
        log_ticks(ax, table.train_size, form=lambda size: f"{size / 1000:g}")
