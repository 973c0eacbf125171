"""The smallest eigenvalue of equally spaced points of the circle

The number n of equally spaced points is odd, so that no two points are opposite. λ_min(G)/E[σ'²] is computed in
multiprecision, with exact angles. If σ' jumps at 0, E[σ'σ'] has a corner at the angle 0, and the eigenvalues fall like
a power of n. If σ is smooth, the eigenvalues fall faster than any power.
"""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.extensions.infinite import circle_eigenvalue, mean_square
from implicit_bias.studies.gram.sphere import JUMP, LEAST, SMOOTH, listed, number, ordered, scaled, style
from implicit_bias.studies.runner import COLOURS, Rows, Settings, Verdict, decide, log_ticks, panels

TITLE = "Smallest eigenvalue of equally spaced points of the circle"
SOURCE = "ours, on data that span two dimensions"
CLAIM = (
    "On the circle the smallest eigenvalue of activations whose derivative jumps falls like a power of the number "
    "of points (ReLU: 1/(4n)), and that of smooth ones faster than any."
)
CLOSED = ("relu", "selu", "elu", "gelu", "erf")
SERIES = ("swish", "tanh")
#: λ_min n of ReLU for many points.
LIMIT = 0.25
#: Largest distance from `LIMIT`, in percent.
NEAR = 2
#: Least ratio of the powers of n at which a fall counts as faster.
STEEPER = 3


def grid(quick: bool) -> list[Settings]:
    closed, series = (
        ((5, 11, 21, 41), (5,)) if quick else ((5, 7, 11, 15, 21, 29, 41, 57, 81, 113, 161), (5, 11, 21, 41))
    )
    sizes = dict.fromkeys(CLOSED, closed) | dict.fromkeys(SERIES[: 1 if quick else 2], series)
    return [{"activation": name, "n": n, "digits": 5, "seed": 0} for name, counts in sizes.items() for n in counts]


def rows(settings: Settings) -> Rows:
    """Return one row, λ_min/E[σ'²] as `lambda_min`, and its `error`."""
    name = settings["activation"]
    return [scaled(circle_eigenvalue(settings["n"], name, settings["digits"]), name)]


def cost(settings: Settings) -> float:
    return {"swish": 8.0, "tanh": 50.0}.get(settings["activation"], 0.005 * settings["n"])


def _powers(table: pd.DataFrame) -> pd.Series:
    """Return p of λ_min ~ n^−p for each activation, between its two largest n; without those that have one n."""
    logs = table.sort_values("n").set_index("activation")[["n", "lambda_min"]].apply(np.log)
    last = logs.groupby(level=0).diff().groupby(level=0).last().dropna()
    return -last["lambda_min"] / last.n


def draw(table: pd.DataFrame) -> Figure:
    ax, other = panels(TITLE, columns=2, size=(4.2, 3.4))[0]
    for activation in ordered(table.activation):
        part = table[table.activation == activation].sort_values("n")
        look = {"marker": "o", "markersize": 3, "linewidth": 1.2} | style(activation)
        ax.plot(part.n, part.lambda_min, **look)
        if activation in JUMP:
            other.plot(part.n, part.lambda_min * part.n * mean_square(activation), **look)
    ax.set(yscale="log", xlabel="points $n$", ylabel=LEAST)
    other.axhline(LIMIT, color=COLOURS["theory"], linestyle=":", linewidth=0.8, label="1/4 (ReLU)")
    other.set(xlabel="points $n$", ylabel="$\\lambda_{\\min}(G) \\cdot n$", ylim=(0, None))
    for each in (ax, other):
        log_ticks(each, [n for n in (5, 11, 21, 41, 81, 161) if n <= table.n.max()])
        each.legend()
    return ax.figure


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    falls, last = _powers(table), table.sort_values("n").groupby("activation")[["n", "lambda_min"]].last()
    steeper = falls.filter(items=SMOOTH).min() / falls.filter(items=JUMP).max()
    relu = last.reindex(["relu"]).iloc[0]
    limit = relu.n * relu.lambda_min * mean_square("relu")
    off, text = 100 * abs(limit / LIMIT - 1), f"{limit:.4f} at n = {relu.n:g}"
    ends = last.filter(items=SMOOTH, axis=0).apply(lambda end: f"{number(end.lambda_min)} at n = {end.n:g}", axis=1)
    powers = f"powers at last {listed(-falls, '.2f')}; λ_min/E[σ'²] of {listed(ends)}"
    return [
        decide("ReLU: λ_min n comes to 1/4", text, off, "below", NEAR, " % off"),
        decide("smooth activations fall faster", powers, steeper, "above", STEEPER, " times the power where σ' jumps"),
    ]
