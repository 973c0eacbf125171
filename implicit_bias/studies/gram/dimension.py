"""The smallest eigenvalue of random points against their dimension

If double precision cannot distinguish λ_min from 0, the points count as exact numbers and G is computed in
multiprecision, provided that this takes at most a minute or two. Otherwise only an upper bound is known.
"""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.studies.gram.sphere import JUMP, SMOOTH, against, as_text, each_draw, least, listed, quartiles
from implicit_bias.studies.runner import Rows, Settings, Verdict, decide, product

TITLE = "Smallest eigenvalue against the dimension of the data"
SOURCE = "abstract, on data of small and of large dimension"
CLAIM = (
    "On data of low dimension activations whose derivative jumps at 0 have far larger smallest eigenvalues than "
    "smooth ones; on data of high dimension all have large ones."
)
ACTIVATIONS = ("relu", "selu", "elu", "gelu", "swish", "softplus", "tanh", "erf", "square")
DIMENSIONS = (2, 3, 5, 10, 20, 50, 100)
#: Digits of multiprecision, by dimension and activation.
DIGITS = {(2, "gelu"): 90, (2, "erf"): 90, (3, "swish"): 18, (3, "softplus"): 18}
#: Least ratio at which an eigenvalue counts as far larger.
FAR = 100
#: Least share of ReLU's eigenvalue at which another counts as equally large.
NEAR = 0.1


def grid(quick: bool) -> list[Settings]:
    n, repeats, dimensions = (30, 3, DIMENSIONS[::3]) if quick else (100, 25, DIMENSIONS)
    cells = []
    for cell in product(n=(n,), d=dimensions, activation=ACTIVATIONS):
        digits = None if quick else DIGITS.get((cell["d"], cell["activation"]))
        cells.append(cell | {"digits": digits, "draws": 9 if digits else repeats, "seed": 1})
    return cells


def rows(settings: Settings) -> Rows:
    """Return a row for each draw: draw, and those of `sphere.least`."""
    return each_draw(settings, lambda X: least(X, settings["activation"], settings["digits"]))


def cost(settings: Settings) -> float:
    return settings["draws"] * (1.5e-5 * settings["n"] ** 3 if settings["digits"] else 2e-6 * settings["n"] ** 2)


def draw(table: pd.DataFrame) -> Figure:
    figure = against(table, "d", TITLE, "dimension $d'$")
    figure.axes[0].set_ylim(max(1e-16, 0.3 * np.nanmin(quartiles(table, "d")[["low", "bound"]])), 3)
    return figure


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    summary = quartiles(table, "d")
    upper, texts = summary.upper.unstack("activation"), summary.apply(as_text, axis=1)
    few, many = upper.index[[0, -1]]
    low, high = (
        f"medians of {table.n.iloc[0]} points for d = {d}: {listed(texts.xs(d, level=1))}" for d in (few, many)
    )
    sharp, smooth = upper.loc[few].filter(items=JUMP).min(), upper.loc[few].filter(items=SMOOTH).max()
    relu = upper.loc[many].get("relu", np.nan) if many > few else np.nan
    return [
        decide("low dimension: far larger where σ' jumps", low, sharp / smooth, "above", FAR, " times"),
        decide("high dimension: all are large", high, upper.loc[many].min() / relu, "at least", NEAR, " of ReLU's"),
    ]
