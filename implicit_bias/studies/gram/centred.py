"""The smallest eigenvalue through centred layers

100 points of the sphere of R^3 through L layers that map ρ to Cov(σ(z), σ(z'))/Var(σ(z)): every layer takes σ − E[σ]
for σ. By Poincaré's inequality Var σ(z) ≤ E[σ'(z)²], so that a layer multiplies a small 1 − ρ by E[σ'²]/Var σ > 1 for
every σ that is not affine: each activation pulls apart what lies close, and none maps all points to one.
"""

import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.extensions.infinite import deep_gram, smallest_eigenvalue
from implicit_bias.studies.gram import depth
from implicit_bias.studies.gram.sphere import LEAST, against, as_text, draws, listed, quartiles, scaled
from implicit_bias.studies.runner import Rows, Settings, Verdict, decide

TITLE = "Smallest eigenvalue through centred layers"
SOURCE = "abstract, on sufficient depth"
CLAIM = (
    "If depth is sufficient, data of low dimension are no limitation: for every activation, once layers are centred."
)
LAYERS = (1, 10, 30, 100, 300)
#: λ_min/E[σ'²] that counts as without limitation; it is at most 1.
LARGE = 0.5


def grid(quick: bool) -> list[Settings]:
    """Nine activations, five depths, 9 draws of 100 points, three beyond 30 layers; quick: 30 points, three draws."""
    n, repeats = (30, 3) if quick else (100, 9)
    return [
        {
            "n": n,
            "d": 3,
            "activation": name,
            "layers": layers,
            "draws": min(repeats, 3 if layers > 30 else 9),
            "seed": 1,
        }
        for name in (depth.ACTIVATIONS[::3] if quick else depth.ACTIVATIONS)
        for layers in (LAYERS[::2] if quick else LAYERS)
    ]


def rows(settings: Settings) -> Rows:
    """λ_min/E[σ'²] of the last layer's Gram matrix, and a bound of its error: least, error."""
    name, layers = settings["activation"], settings["layers"]
    grams = ((turn, deep_gram(X, name, layers, centred=True)) for turn, X in draws(settings))
    return [{"draw": turn} | scaled(smallest_eigenvalue(gram), name) for turn, gram in grams]


cost = depth.cost


def draw(table: pd.DataFrame) -> Figure:
    """Medians and quartiles against the number of layers."""
    return against(table, "layers", TITLE, "centred layers $L$", LEAST.replace("(G)", "(G_L)"))


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    """The medians of all activations after the fewest layers and the most."""
    found = quartiles(table, "layers")
    first, last = (found.xs(L, level="layers") for L in (table.layers.min(), table.layers.max()))
    ends = [listed(part.apply(as_text, axis=1)) for part in (first, last)]
    medians = f"medians at L = {table.layers.max()}: {ends[1]}; at L = {table.layers.min()}: {ends[0]}"
    least = last.middle.fillna(0.0).min() if len(set(table.layers)) > 1 else float("nan")
    return [decide("enough centred layers make λ_min large for every activation", medians, least, "above", LARGE)]
