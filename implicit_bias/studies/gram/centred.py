"""The smallest eigenvalue through centred layers

Layers are those of `depth`, with σ − E[σ] in place of σ. By Poincaré's inequality Var σ(z) ≤ E[σ'(z)²]. Hence, for
every σ that is not affine, a layer multiplies a small 1 − ρ by E[σ'²]/Var σ > 1, and points do not converge to one.
"""

import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.studies.gram import depth
from implicit_bias.studies.gram.sphere import LEAST, against, as_text, listed, quartiles
from implicit_bias.studies.runner import Rows, Settings, Verdict, decide, product

TITLE = "Smallest eigenvalue through centred layers"
SOURCE = "ours, after the abstract on sufficient depth"
CLAIM = (
    "If depth is sufficient, data of low dimension are no limitation: for every activation, once layers are centred."
)
LAYERS = (1, 10, 30, 100, 300)
#: λ_min/E[σ'²] that counts as without limitation; it is at most 1.
LARGE = 0.5
cost = depth.cost


def grid(quick: bool) -> list[Settings]:
    n, names, depths = (30, depth.ACTIVATIONS[::3], LAYERS[::2]) if quick else (100, depth.ACTIVATIONS, LAYERS)
    cells = product(n=(n,), d=(3,), activation=names, layers=depths)
    return [cell | {"draws": 3 if quick or cell["layers"] > 30 else 9, "seed": 1} for cell in cells]


def rows(settings: Settings) -> Rows:
    """Return the rows of `depth.rows` with centred layers."""
    return depth.rows(settings, centred=True)


def draw(table: pd.DataFrame) -> Figure:
    return against(table, "layers", TITLE, "centred layers $L$", LEAST.replace("(G)", "(G_L)"))


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    summary = quartiles(table, "layers")
    few, many = table.layers.min(), table.layers.max()
    ends = [f"at L = {L}: {listed(summary.xs(L, level='layers').apply(as_text, axis=1))}" for L in (many, few)]
    smallest = summary.middle.xs(many, level="layers").fillna(0.0).min() if many > few else float("nan")
    claim = "enough centred layers make λ_min large for every activation"
    return [decide(claim, f"medians {'; '.join(ends)}", smallest, "above", LARGE)]
