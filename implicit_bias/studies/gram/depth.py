"""The smallest eigenvalue through depth

100 points of the sphere of R^3 pass through L layers, each normalised to unit length. G is the Gram matrix of the last
layer. For two points with a correlation ρ near 1, a layer multiplies 1 − ρ by E[σ'²]/E[σ²]. Layers separate close
points if this factor is above 1. All points converge to one if the factor is below 1, as for softplus and sigmoid.
"""

import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.extensions.infinite import deep_gram, smallest_eigenvalue
from implicit_bias.studies.gram.sphere import LEAST, SMOOTH, against, as_text, each_draw, quartiles, scaled
from implicit_bias.studies.runner import Rows, Settings, Verdict, decide, product

TITLE = "Smallest eigenvalue through depth"
SOURCE = "abstract, on sufficient depth"
CLAIM = "On data of low dimension depth makes the smallest eigenvalues of smooth activations large."
ACTIVATIONS = ("relu", "selu", "elu", "gelu", "swish", "softplus", "tanh", "sigmoid", "erf")
LAYERS = (1, 2, 4, 8, 16, 30)
#: Since revision 2, errors are bounds.
REVISION = 2


def grid(quick: bool) -> list[Settings]:
    n, repeats, depths = (30, 3, LAYERS[::2]) if quick else (100, 15, LAYERS)
    return product(n=(n,), d=(3,), activation=ACTIVATIONS, layers=depths, draws=(repeats,), seed=(1,))


def rows(settings: Settings, centred: bool = False) -> Rows:
    """Return a row for each draw: draw, and λ_min/E[σ'²] of the last layer's G as `lambda_min`, with its `error`."""
    name, layers = settings["activation"], settings["layers"]
    deep = {"layers": layers, "centred": centred}
    return each_draw(settings, lambda X: scaled(smallest_eigenvalue(deep_gram(X, name, **deep)), name))


def cost(settings: Settings) -> float:
    return settings["draws"] * (0.05 + 1e-6 * settings["n"] ** 2 * settings["layers"] / 8)


def draw(table: pd.DataFrame) -> Figure:
    return against(table, "layers", TITLE, "layers $L$", LEAST.replace("(G)", "(G_L)"))


def growth(table: pd.DataFrame) -> pd.Series:
    """Return, for each activation, the ratio of the median at the most layers to that at the fewest.

    A median is hidden if it is not above its error bound (see `quartiles`). The ratio is 0 if the one at the most
    layers is hidden. If the one at the fewest is hidden, its bound replaces it, so that the ratio is a lower bound. The
    ratio is NaN if there is only one depth.
    """
    summary = quartiles(table, "layers")
    middle, bound = summary.middle.unstack("layers"), summary.bound.unstack("layers")
    first, last = middle.columns[[0, -1]]
    grown = middle[last].mask(bound[last].notna(), 0.0) / middle[first].fillna(bound[first])
    return grown * (1.0 if last > first else float("nan"))


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    texts, decided = quartiles(table, "layers").apply(as_text, axis=1), []
    for name, times in growth(table).reindex([name for name in ACTIVATIONS if name in SMOOTH]).items():
        path = texts[texts.index.isin([name], level="activation")].droplevel("activation")
        change = f"{times:.2g} times as much" if times else "hidden by the error at last"
        text = f"medians {'/'.join(path)} at L = {'/'.join(map(str, path.index))}: {change}"
        claim = f"depth makes λ_min of {name} larger in {table.d.iloc[0]} dimensions"
        decided.append(decide(claim, text, times, "above", 1, " times as much"))
    return decided
