"""The smallest eigenvalue through depth

100 points of the sphere of R^3 through L layers whose lengths are kept at 1: the Gram matrix of the last layer. A layer
maps 1 − ρ of two near points to E[σ'²]/E[σ²] times as much: it pulls apart what lies close if that is more than 1,
and maps all points to one if it is less, as for softplus and sigmoid.
"""

import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.extensions.infinite import deep_gram, smallest_eigenvalue
from implicit_bias.studies.gram.sphere import LEAST, SMOOTH, against, as_text, each_draw, quartiles, scaled
from implicit_bias.studies.runner import Rows, Settings, Verdict, decide, product

TITLE = "Smallest eigenvalue through depth"
SOURCE = "on depth"
CLAIM = "On data of low dimension depth makes the smallest eigenvalues of smooth activations large."
ACTIVATIONS = ("relu", "selu", "elu", "gelu", "swish", "softplus", "tanh", "sigmoid", "erf")
LAYERS = (1, 2, 4, 8, 16, 30)
#: Errors are bounds since 2.
REVISION = 2


def grid(quick: bool) -> list[Settings]:
    n, repeats, depths = (30, 3, LAYERS[::2]) if quick else (100, 15, LAYERS)
    return product(n=(n,), d=(3,), activation=ACTIVATIONS, layers=depths, draws=(repeats,), seed=(1,))


def rows(settings: Settings, centred: bool = False) -> Rows:
    """λ_min/E[σ'²] of the last layer's Gram matrix, and a bound of its error: least, error."""
    name, layers = settings["activation"], settings["layers"]
    deep = {"layers": layers, "centred": centred}
    return each_draw(settings, lambda X: scaled(smallest_eigenvalue(deep_gram(X, name, **deep)), name))


def cost(settings: Settings) -> float:
    return settings["draws"] * (0.05 + 1e-6 * settings["n"] ** 2 * settings["layers"] / 8)


def draw(table: pd.DataFrame) -> Figure:
    return against(table, "layers", TITLE, "layers $L$", LEAST.replace("(G)", "(G_L)"))


def growth(table: pd.DataFrame) -> pd.Series:
    """Ratio, by activation, of the median at the most layers to that at the fewest; 0 if hidden, NaN of one depth.

    Where the first is hidden its bound stands for it, which makes the growth look smaller than it is.
    """
    found = quartiles(table, "layers")
    middle, bound = found.middle.unstack("layers"), found.bound.unstack("layers")
    first, last = middle.columns[[0, -1]]
    grown = middle[last].mask(bound[last].notna(), 0.0) / middle[first].fillna(bound[first])
    return grown * (1.0 if last > first else float("nan"))


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    texts, decided = quartiles(table, "layers").apply(as_text, axis=1), []
    for name, times in growth(table).reindex([name for name in ACTIVATIONS if name in SMOOTH]).items():
        path = texts[texts.index.isin([name], level="activation")].droplevel("activation")
        change = f"{times:.2g} times as much" if times else "hidden by the error at last"
        found = f"medians {'/'.join(path)} at L = {'/'.join(map(str, path.index))}: {change}"
        claim = f"depth makes λ_min of {name} larger in {table.d.iloc[0]} dimensions"
        decided.append(decide(claim, found, times, "above", 1, " times as much"))
    return decided
