"""The smallest eigenvalue through depth

100 points of the sphere of R^3 through L layers whose lengths are kept at 1: the Gram matrix of the last layer. A layer
maps 1 − ρ of two near points to E[σ'²]/E[σ²] times as much: it pulls apart what lies close if that is more than 1,
and maps all points to one if it is less, as for softplus and sigmoid.
"""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.experiments.gram.sphere import SMOOTH, against, number, ordered, quartiles, unit_points
from implicit_bias.experiments.runner.experiment import Experiment, Rows, Settings, product
from implicit_bias.kernels import deep_gram, mean_square, smallest_eigenvalue

ACTIVATIONS = ("relu", "selu", "elu", "gelu", "swish", "softplus", "tanh", "sigmoid", "erf")
LAYERS = (1, 2, 4, 8, 16, 30)


def grid(quick: bool) -> list[Settings]:
    """Nine activations, six depths, 15 draws of 100 points; quick: three depths, three draws of 30."""
    n, draws = (30, 3) if quick else (100, 15)
    depths = LAYERS[::2] if quick else LAYERS
    return product(n=(n,), d=(3,), activation=ACTIVATIONS, layers=depths, draws=(draws,), seed=(1,))


def rows(settings: Settings) -> Rows:
    """λ_min/E[σ'²] of the last layer's Gram matrix, and its error (an estimate beyond one layer): least, error."""
    found, unit = [], mean_square(settings["activation"])
    for turn in range(settings["draws"]):
        X = unit_points(settings["n"], settings["d"], settings["seed"], turn)
        value = smallest_eigenvalue(deep_gram(X, settings["activation"], settings["layers"]))
        found.append({"draw": turn, "least": value.value / unit, "error": value.error / unit})
    return found


def cost(settings: Settings) -> float:
    """The polynomial of a layer, and the layers."""
    return settings["draws"] * (0.05 + 1e-6 * settings["n"] ** 2 * settings["layers"] / 8)


def draw(table: pd.DataFrame) -> Figure:
    """Medians and quartiles against the number of layers."""
    ylabel = "$\\lambda_{\\min}(G_L)/E[\\sigma'^2]$"
    return against(table, "layers", EXPERIMENT.title, (5.6, 3.8), "layers $L$", ylabel)


def finding(table: pd.DataFrame) -> str:
    """How the medians of smooth activations change from the fewest layers to the most."""
    found = quartiles(table, "layers").middle.unstack("layers")
    bounds = quartiles(table, "layers").bound.unstack("layers")
    smooth = found[found.index.isin(SMOOTH)]
    if found.shape[1] < 2 or not len(smooth):
        return "Undecided: no smooth activation at two depths."
    first, last = found.columns[0], found.columns[-1]
    # Where the first is hidden its bound stands for it, which makes the growth look smaller than it is.
    growth = found[last] / found[first].fillna(bounds[first])
    up = growth[smooth.index] > 1
    word = "Yes" if up.all() else "Partly" if up.any() else "No"
    lead = "tanh" if "tanh" in smooth.index else str(smooth.index[0])
    path = [f"{number(value)} (L = {depth})" for depth, value in found.T[lead].dropna().items()]
    texts = [f"{name} {growth[name]:.2g}" for name in ordered(growth.dropna().index) if name != lead]
    hidden = ordered(bounds.index[bounds[last].notna()])
    below = f"; {', '.join(hidden)}: below {number(bounds[last].max())} at L = {last}" if hidden else ""
    return (
        f"{word}: in {table.d.iloc[0]} dimensions the median of λ_min/E[σ'²] of {lead} is {', '.join(path)}; from "
        f"L = {first} to {last} the others change by factors of {', '.join(texts)}{below}."
    )


EXPERIMENT = Experiment(
    name="depth",
    title="Smallest eigenvalue through depth",
    source="on depth",
    claim="On data of low dimension depth makes the smallest eigenvalues of smooth activations large.",
    grid=grid,
    rows=rows,
    cost=cost,
    draw=draw,
    finding=finding,
)
