"""What an antipodal pair does

50 points of the sphere of R^10, and the same with the last replaced by the opposite of the first. Where σ' is even or
odd, σ'(−z)(−x) = ∓σ'(z)x makes G singular; ReLU, SELU and swish tell a point from its opposite.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.experiments.gram.sphere import BEND, JUMP, NAMES, SMOOTH, least, number, ordered, unit_points
from implicit_bias.experiments.runner.drawing import COLOURS, panels
from implicit_bias.experiments.runner.experiment import Experiment, Rows, Settings

#: Activations with an even or odd derivative.
PARITY = ("tanh", "sigmoid", "erf", "square", "cube")


def grid(quick: bool) -> list[Settings]:
    """All activations, nine draws of 50 points in ten dimensions; quick: three draws of 30."""
    n, draws = (30, 3) if quick else (50, 9)
    return [{"n": n, "d": 10, "activation": a, "draws": draws, "seed": 2} for a in (*JUMP, *BEND, *SMOOTH)]


def rows(settings: Settings) -> Rows:
    """λ_min(G)/E[σ'²] and a bound of its error, without and with a pair: pair, least, error."""
    found = []
    for turn in range(settings["draws"]):
        X = unit_points(settings["n"], settings["d"], settings["seed"], turn)
        paired = np.vstack([X[:-1], -X[:1]])
        found += [
            {"draw": turn, "pair": pair} | least(points, settings["activation"])
            for pair, points in ((False, X), (True, paired))
        ]
    return found


def cost(settings: Settings) -> float:
    """Small matrices."""
    return 0.03 * settings["draws"]


def medians(table: pd.DataFrame) -> pd.DataFrame:
    """By activation, in order: alone and paired (median λ_min, NaN where its error hides it), error (median, paired).

    >>> import pandas as pd
    >>> from implicit_bias.experiments.gram.antipodal import medians
    >>> table = pd.DataFrame({"activation": "erf", "pair": [False, True], "least": [0.5, 1e-16], "error": 1e-12})
    >>> medians(table).reset_index().to_dict("records")
    [{'activation': 'erf', 'alone': 0.5, 'paired': nan, 'error': 1e-12}]
    """
    found = table.assign(least=table.least.where(table.least > table.error)).groupby(["activation", "pair"])
    middle = found.least.apply(lambda values: values.median(skipna=False)).unstack().reindex(columns=[False, True])
    middle = middle.set_axis(["alone", "paired"], axis=1)
    middle["error"] = table[table.pair].groupby("activation").error.median()
    return middle.loc[ordered(middle.index)]


def draw(table: pd.DataFrame) -> Figure:
    """A line of points for each activation: without a pair, with one, or the bound below which G is singular."""
    found = medians(table)
    places = np.arange(len(found))[::-1]
    with panels(EXPERIMENT.title, size=(5.2, 3.6)) as axes:
        ax = axes[0, 0]
        ax.hlines(places, found.paired.fillna(found.error), found.alone, color="#BBBBBB", linewidth=1)
        ax.plot(found.alone, places, "o", color=COLOURS["blue"], label="without a pair")
        ax.plot(found.paired, places, "o", color=COLOURS["red"], label="with an antipodal pair")
        hidden = found.paired.isna().to_numpy()
        look = {"color": COLOURS["red"], "markerfacecolor": "none", "label": "singular, up to this error"}
        ax.plot(found.error[hidden], places[hidden], "<", **look)
        ax.set_yticks(places, [NAMES.get(name, name) for name in found.index])
        ax.set(xscale="log", xlabel="$\\lambda_{\\min}(G)/E[\\sigma'^2]$")
        ax.legend(frameon=False, loc="upper center")
        figure: Figure = ax.figure
    return figure


def finding(table: pd.DataFrame) -> str:
    """Which activations are singular, in all draws, and what is left to the others."""
    shown = table[table.pair].assign(hidden=table.least.abs() <= table.error).groupby("activation").hidden
    singular, some = ordered(shown.all().pipe(lambda s: s.index[s])), ordered(shown.any().pipe(lambda s: s.index[s]))
    expected = ordered(set(PARITY) & set(table.activation))
    if not expected or len(expected) == table.activation.nunique():
        return "Undecided: no activations of both kinds."
    word = "Yes" if singular == some == expected else "Partly" if set(expected) & set(singular) else "No"
    found = medians(table)
    left = found.paired.dropna()
    alone, most = found.alone[expected], found.error[expected].max()
    return (
        f"{word}: with an antipodal pair {', '.join(singular)} are singular in all draws, up to {most:.0e} (without it "
        f"λ_min/E[σ'²] is {number(alone.min())} to {number(alone.max())}); the others keep {number(left.min())} "
        f"({left.idxmin()}) to {number(left.max())} ({left.idxmax()})."
    )


EXPERIMENT = Experiment(
    name="antipodal",
    title="What an antipodal pair does",
    source="assumptions on the data",
    claim="An antipodal pair makes G singular where σ' is even or odd, and not for ReLU, SELU and swish.",
    grid=grid,
    rows=rows,
    cost=cost,
    draw=draw,
    finding=finding,
)
