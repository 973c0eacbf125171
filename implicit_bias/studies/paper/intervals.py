"""Our figure of all claims that are tested: means and intervals over draws."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from implicit_bias._utils.checks import InputError
from implicit_bias.studies.paper.verdicts import examine
from implicit_bias.studies.runner.drawing import COLOURS
from implicit_bias.studies.runner.mean_test import MeanTest, holm

#: Colour of each outcome.
OUTCOMES = {"yes": COLOURS["blue"], "no": COLOURS["orange"], "undecided": "0.55"}


def intervals(table: pd.DataFrame) -> list[tuple[MeanTest, str]]:
    """The differences that are tested against 0, with their outcomes."""
    tested = examine(table)
    adjusted = holm([test.p for test in tested])
    told = [(test, test.verdict(p, len(tested)).outcome) for test, p in zip(tested, adjusted, strict=True)]
    return [(test, outcome) for test, outcome in told if np.isfinite(test.p) and not (test.correlation or test.limit)]


def claims_figure(table: pd.DataFrame, title: str) -> Figure:
    """Every difference that is claimed to be above 0: its mean over draws and its interval, coloured by the outcome.

    Filled where the split of the data varies with the draw, hollow for the seeds of the published split. Beyond 1 %
    the axis is logarithmic.
    """
    shown = intervals(table)
    if not shown:
        raise InputError("the table holds too few draws for intervals")
    drawing = Figure(figsize=(10, 0.19 * len(shown) + 1.3), layout="constrained")
    ax = drawing.subplots()
    for place, (test, outcome) in enumerate(shown):
        mean, colour = test.values.mean(), OUTCOMES[outcome]
        (low, high), fill = test.interval, colour if test.split else "white"
        ax.plot([low, high], [place, place], color=colour, linewidth=1)
        ax.plot(mean, place, "o", markersize=4, color=colour, markerfacecolor=fill)
    ax.axvline(0, color="0.6", linewidth=0.8, zorder=0)
    ax.set_xscale("symlog", linthresh=1)
    ticks = [-5, -2, -1, -0.5, 0, 0.5, 1, 2, 5, 10, 20]
    ax.set_xticks(ticks, [f"{tick:g}".replace("-", "−") for tick in ticks])
    ax.minorticks_off()
    ax.set_yticks(range(len(shown)), [test.claim for test, _ in shown], fontsize=6)
    ax.set_ylim(len(shown) - 0.5, -0.5)
    ax.set(xlabel="how far above 0 (percentage points, 95 % interval)", title=title)
    handles = [Line2D([], [], color=colour, marker="o", markersize=4, label=name) for name, colour in OUTCOMES.items()]
    hollow = {"marker": "o", "markersize": 4, "markerfacecolor": "white", "color": "0.4"}
    handles.append(Line2D([], [], label="seeds of the published split only", **hollow))  # type: ignore[arg-type]
    drawing.legend(handles=handles, loc="outside lower center", ncols=4)
    return drawing
