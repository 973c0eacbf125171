"""The smallest eigenvalue of random points against their dimension

n = 100 points uniform on the sphere of R^d, for d from 2 to 100: λ_min(G)/E[σ'²] of every activation, with a certified
error. Where doubles cannot tell it from 0 the points are taken as exact numbers and G in multiprecision, in the cases
that a minute or two is enough for; in the others an upper bound is what is known.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.experiments.gram.sphere import JUMP, SMOOTH, against, least, number, quartiles, unit_points
from implicit_bias.experiments.runner.experiment import Experiment, Rows, Settings

ACTIVATIONS = ("relu", "selu", "elu", "gelu", "swish", "softplus", "tanh", "erf", "square")
DIMENSIONS = (2, 3, 5, 10, 20, 50, 100)
#: Digits of multiprecision, by dimension and activation.
DIGITS = {(2, "gelu"): 90, (2, "erf"): 90, (3, "swish"): 18, (3, "softplus"): 18}
#: How far apart eigenvalues are that differ "far": at low dimension; and how near to ReLU's they are at high.
FAR, NEAR = 100, 10


def grid(quick: bool) -> list[Settings]:
    """Nine activations in seven dimensions, 25 draws of 100 points in doubles, nine in multiprecision; quick: 30."""
    n, draws = (30, 3) if quick else (100, 25)
    cells = []
    for d in DIMENSIONS[:: 3 if quick else 1]:
        for activation in ACTIVATIONS:
            digits = None if quick else DIGITS.get((d, activation))
            fixed = {"n": n, "d": d, "activation": activation, "digits": digits}
            cells.append(fixed | {"draws": 9 if digits else draws, "seed": 1})
    return cells


def rows(settings: Settings) -> Rows:
    """λ_min(G)/E[σ'²] of every draw, and a bound of its error, in that unit: least, error."""
    n, d = settings["n"], settings["d"]
    return [
        {"draw": turn} | least(unit_points(n, d, settings["seed"], turn), settings["activation"], settings["digits"])
        for turn in range(settings["draws"])
    ]


def cost(settings: Settings) -> float:
    """Milliseconds in doubles, n³ steps of multiprecision."""
    return settings["draws"] * (1.5e-5 * settings["n"] ** 3 if settings["digits"] else 2e-6 * settings["n"] ** 2)


def draw(table: pd.DataFrame) -> Figure:
    """Medians and quartiles against the dimension."""
    ylabel = "$\\lambda_{\\min}(G)/E[\\sigma'^2]$"
    figure = against(table, "d", EXPERIMENT.title, (5.6, 4.0), "dimension $d'$", ylabel)
    figure.axes[0].set_ylim(max(1e-16, 0.3 * np.nanmin(quartiles(table, "d")[["low", "bound"]])), 3)
    return figure


def finding(table: pd.DataFrame) -> str:
    """Jumping against smooth activations in the lowest dimension, and how far all are from ReLU's in the highest."""
    found, n = quartiles(table, "d"), table.n.iloc[0]
    upper = found.middle.fillna(found.bound).unstack("d").T
    sharp, smooth = (upper[[name for name in names if name in upper]].dropna() for names in (JUMP, SMOOTH))
    both = sharp.index.intersection(smooth.index)
    if len(both) < 2 or sharp.empty or smooth.empty or "relu" not in sharp:
        return "Undecided: no jumping and smooth activations in two dimensions."
    low, last = upper.loc[both[0]], upper.loc[both[-1]]
    least_sharp, most_smooth = float(low[sharp.columns].min()), float(low[smooth.columns].max())
    apart, near = least_sharp > FAR * most_smooth, float(last.min()) * NEAR >= float(last["relu"])
    word = "Yes" if apart and near else "Partly" if apart or near else "No"
    told = found.middle.unstack("d").T.loc[both[0]].reindex(smooth.columns).dropna()
    tiny = f", down to {number(float(told.min()))} ({told.idxmin()})" if len(told) else ""
    return (
        f"{word}: for {n} points in {both[0]} dimensions the medians of λ_min/E[σ'²] are at least "
        f"{number(least_sharp)} where σ' jumps (ReLU {number(float(low['relu']))}) and at most {number(most_smooth)} "
        f"where σ is smooth ({low[smooth.columns].idxmax()}){tiny}; in {both[-1]} dimensions they lie between "
        f"{number(float(last.min()))} ({last.idxmin()}) and {number(float(last.max()))} ({last.idxmax()}), ReLU "
        f"{number(float(last['relu']))}."
    )


EXPERIMENT = Experiment(
    name="dimension",
    title="Smallest eigenvalue against the dimension of the data",
    source="main results",
    claim=(
        "On data of low dimension activations whose derivative jumps at 0 have far larger smallest eigenvalues than "
        "smooth ones; on data of high dimension all have large ones."
    ),
    grid=grid,
    rows=rows,
    cost=cost,
    draw=draw,
    finding=finding,
)
