"""The figure of one comparison, and what the paper's figures share with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from implicit_bias.experiments.paper.study import Study
from implicit_bias.experiments.runner.drawing import COLOURS, styled

#: Colour and marker of each model, the same in every figure.
STYLES = {
    **dict.fromkeys(("GD-GLN", "GD-shallow", "GD-ReLU"), (COLOURS["black"], "D")),
    **dict.fromkeys(("SVM-L2", "SVM-RC"), (COLOURS["orange"], "s")),
    **dict.fromkeys(("SVM-GLN", "SVM-shallow", "SVM-LC"), (COLOURS["blue"], "o")),
    **dict.fromkeys(("SVM-Fro", "SVM-HL"), (COLOURS["green"], "^")),
}
UNKNOWN = (COLOURS["purple"], "v")
_KEYS = ["dataset", "train_size", "units", "contexts", "seed", "momentum"]


def _style(model: str) -> dict[str, Any]:
    colour, marker = STYLES.get(model, UNKNOWN)
    return {"color": colour, "marker": marker, "label": model}


def _others(table: pd.DataFrame, reference: str) -> list[str]:
    return [model for model in table["model"].unique() if model != reference]


def error_against_error(ax: Axes, table: pd.DataFrame, reference: str) -> None:
    """Each model's error over the reference's, one point a cell; on the diagonal they are equal."""
    own = table[table.model == reference].set_index(_KEYS)["error"]
    for model in _others(table, reference):
        other = table[table.model == model].set_index(_KEYS)["error"]
        pairs = 100 * pd.concat([own, other], axis=1, keys=["own", "other"]).dropna()
        ax.plot(pairs.own, pairs.other, linestyle="none", markersize=5, alpha=0.8, **_style(model))
    ends = 100 * np.nan_to_num([table.error.min(), table.error.max()])
    ax.plot(ends, ends, color="0.7", linewidth=0.8, zorder=0)
    ax.set(xlabel=f"error of {reference} (%)", ylabel="error of the SVM (%)", title="Error against error")


def inconsistency_against_error(ax: Axes, table: pd.DataFrame, reference: str) -> None:
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


def error_against_width(ax: Axes, table: pd.DataFrame, width: str = "units") -> None:
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


def comparison_figure(table: pd.DataFrame, reference: str, title: str, width: str = "units") -> Figure:
    """The three panels of a comparison: error against error, inconsistency against error, error against width.

    Parameters
    ----------
    table : DataFrame
        The tidy table of a comparison.
    reference : str
        The model that gradient descent trained, such as 'GD-GLN'.
    title : str
    width : 'units' or 'contexts'

    Examples
    --------
    >>> import pandas as pd
    >>> from implicit_bias.experiments.paper.plots import comparison_figure
    >>> row = dict(dataset="digits", train_size=9, units=2, contexts=2, seed=1, momentum=0.0, error=0.1)
    >>> rows = [row | {"model": "GD-GLN"}, row | {"model": "SVM-GLN", "inconsistency": 0.05}]
    >>> [axes.get_title() for axes in comparison_figure(pd.DataFrame(rows), "GD-GLN", "Digits").axes]
    ['Error against error', 'Inconsistency against error', 'Error against units']
    """
    with styled():
        figure = Figure(figsize=(10.5, 3.6), layout="constrained")
        panels = figure.subplots(1, 3)
        error_against_error(panels[0], table, reference)
        inconsistency_against_error(panels[1], table, reference)
        error_against_width(panels[2], table, width)
        handles = {label: h for ax in panels for h, label in zip(*ax.get_legend_handles_labels(), strict=True)}
        figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=6, frameon=False)
        figure.suptitle(title)
    return figure


def comparison_figures(study: Study, table: pd.DataFrame) -> dict[str, Figure]:
    """The figure of a study's table; of both versions' tables also `comparison_published`."""
    width = "contexts" if table.contexts.nunique() > table.units.nunique() else "units"
    figures = {}
    for number, (version, part) in enumerate(table.groupby("version", sort=False)):
        title = f"{study.title} ({table.dataset.iloc[0]}{', as published' if version == 'published' else ''})"
        name = "comparison" if number == 0 else f"comparison_{version}"
        figures[name] = comparison_figure(part, study.reference, title, width)
    return figures
