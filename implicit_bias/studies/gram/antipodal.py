"""The smallest eigenvalue with and without an antipodal pair

G is the Gram matrix of 50 points of the sphere of R^10, and of the same points with the last one replaced by the
opposite of the first. If σ' is even or odd, σ'(−z)(−x) = ∓σ'(z)x makes G singular. For ReLU, SELU and swish, the
features σ'(⟨w, x⟩)x of a point and its opposite are linearly independent.
"""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.studies.gram.sphere import ALL, LEAST, each_draw, least, listed, number, ordered, style
from implicit_bias.studies.runner import COLOURS, Rows, Settings, Verdict, decide, panels

TITLE = "What an antipodal pair does"
SOURCE = "ours, on assumptions about the data"
CLAIM = "An antipodal pair makes G singular where σ' is even or odd, and not for ReLU, SELU and swish."
#: Activations with an even or odd derivative.
PARITY = ("tanh", "sigmoid", "erf", "square", "cube")


def grid(quick: bool) -> list[Settings]:
    n, repeats = (30, 3) if quick else (50, 9)
    return [{"n": n, "d": 10, "activation": a, "draws": repeats, "seed": 2} for a in ALL]


def rows(settings: Settings) -> Rows:
    """Return two rows for each draw, without and with an antipodal `pair`: draw, pair, and those of `sphere.least`."""
    name = settings["activation"]
    alone = each_draw(settings, lambda X: {"pair": False} | least(X, name))
    paired = each_draw(settings, lambda X: {"pair": True} | least(np.vstack([X[:-1], -X[:1]]), name))
    return [row for both in zip(alone, paired, strict=True) for row in both]


def cost(settings: Settings) -> float:
    return 0.03 * settings["draws"]


def _medians(table: pd.DataFrame) -> pd.DataFrame:
    certain = table.assign(lambda_min=table.lambda_min.where(table.lambda_min > table.error))
    medians = certain.groupby(["activation", "pair"]).lambda_min.apply(lambda values: values.median(skipna=False))
    middle = medians.unstack().reindex(columns=[False, True]).set_axis(["alone", "paired"], axis=1)
    middle["error"] = table[table.pair].groupby("activation").error.median()
    return middle.loc[ordered(middle.index)]


def draw(table: pd.DataFrame) -> Figure:
    medians = _medians(table)
    places, ax = np.arange(len(medians))[::-1], panels(TITLE, size=(5.2, 3.6))[0, 0]
    ax.hlines(places, medians.paired.fillna(medians.error), medians.alone, color="#BBBBBB", linewidth=1)
    ax.plot(medians.alone, places, "o", color=COLOURS["blue"], label="without a pair")
    ax.plot(medians.paired, places, "o", color=COLOURS["red"], label="with an antipodal pair")
    hidden = medians.paired.isna().to_numpy()
    look = {"color": COLOURS["red"], "markerfacecolor": "none", "label": "singular, up to this error"}
    ax.plot(medians.error[hidden], places[hidden], "<", **look)
    ax.set_yticks(places, [style(name)["label"] for name in medians.index])
    ax.set(xscale="log", xlabel=LEAST)
    ax.legend(loc="upper center")
    return ax.figure


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    hidden = table[table.pair].assign(share=table.lambda_min.abs() <= table.error).groupby("activation").share.mean()
    medians = _medians(table).assign(share=100 * hidden)
    parity, unit = medians.index.isin(PARITY), " % of the draws"
    expected, others = medians[parity], medians[~parity]
    singular = f"in {expected.share.min():.0f} % of the draws, λ_min/E[σ'²] up to {expected.error.max():.0e}; "
    singular += f"without the pair {listed(expected.alone.map(number))}"
    left = f"in {others.share.max():.0f} % of the draws; λ_min/E[σ'²] of {listed(others.paired.map(number))}"
    return [
        decide("σ' even or odd: G is singular", singular, expected.share.min(), "at least", 100, unit),
        decide("σ' neither: it is not", left, others.share.max(), "at most", 0, unit),
    ]
