"""The Gram matrix of a layer of finite width

For 50 points of the sphere of R^10, the Gram matrix of k random units is compared with its expectation. The error of a
mean of k terms is 1/√k of their standard deviation, and the same rate holds for λ_min.
"""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.extensions.infinite import empirical_gram, gram_matrix, mean_square
from implicit_bias.studies.gram.sphere import listed, ordered, power, style, unit_points
from implicit_bias.studies.runner import COLOURS, Rows, Settings, Verdict, band, decide, finished, panels, product

TITLE = "Gram matrices of finite width"
CLAIM = "The Gram matrix of k units comes as near to its mean as 1/√k, and its smallest eigenvalue with it."
ACTIVATIONS = ("relu", "selu", "elu", "swish", "tanh")
#: The power of k that is claimed.
HALF = -0.5
#: Largest distance from `HALF`.
NEAR = 0.1


def grid(quick: bool) -> list[Settings]:
    widths, draws = ((100, 1000, 10_000), 3) if quick else ((100, 316, 1000, 3162, 10_000, 31_623, 100_000), 15)
    names = ACTIVATIONS[::4] if quick else ACTIVATIONS
    return product(n=(50,), d=(10,), activation=names, width=widths, draws=(draws,), seed=(1,))


def rows(settings: Settings) -> Rows:
    """Return for each draw λ_min/E[σ'²] of the sampled Ĝ (`sampled`) and of G, and `relative_error`, ‖Ĝ − G‖/‖G‖."""
    name, width, unit = settings["activation"], settings["width"], mean_square(settings["activation"])
    X = unit_points(settings["n"], settings["d"], settings["seed"])
    G = gram_matrix(X, name).values
    smallest, size = float(np.linalg.eigvalsh(G)[0]), float(np.linalg.norm(G, 2))
    table = []
    for turn in range(settings["draws"]):
        sampled = empirical_gram(X, name, width, seed=turn)
        row = {"draw": turn, "sampled": float(np.linalg.eigvalsh(sampled)[0]) / unit, "lambda_min": smallest / unit}
        table.append(row | {"relative_error": float(np.linalg.norm(sampled - G, 2)) / size})
    return table


def cost(settings: Settings) -> float:
    return settings["draws"] * (0.01 + 2e-7 * settings["n"] * settings["width"])


def _exponents(table: pd.DataFrame) -> pd.DataFrame:
    """Return exponents of k by activation: those of the mean ‖Ĝ − G‖/‖G‖, and of λ_min's `spread`, a deviation."""
    parts = table.groupby(["activation", "width"])
    sizes = pd.DataFrame({"relative_error": parts.relative_error.mean(), "spread": parts.sampled.std()})
    return pd.DataFrame({name: values.droplevel(0).agg(power) for name, values in sizes.groupby("activation")}).T


def draw(table: pd.DataFrame) -> Figure:
    axes = panels(TITLE, columns=2, size=(4.2, 3.3))
    ax, other = axes[0]
    for activation in ordered(table.activation):
        subset = table[table.activation == activation].set_index("width")
        band(ax, subset.sampled, **style(activation))
        ax.axhline(subset["lambda_min"].iloc[0], color=style(activation)["color"], linestyle=":", linewidth=0.8)
        band(other, subset.relative_error, **style(activation))
    widths = np.array(sorted(table.width.unique()))
    start = table[table.width == widths[0]].relative_error.mean() * np.sqrt(widths[0])
    other.plot(widths, start / np.sqrt(widths), ":", color=COLOURS["theory"], linewidth=1, label="$k^{-1/2}$")
    ax.set(xscale="log", xlabel="units $k$", ylabel="$\\lambda_{\\min}/E[\\sigma'^2]$", ylim=(0, None))
    ax.set_title("dotted: infinite width", fontsize=8)
    other.set(xscale="log", yscale="log", xlabel="units $k$", ylabel="$\\|\\hat G - G\\| / \\|G\\|$")
    return finished(axes, below=6)


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    exponents = _exponents(table)
    lead = ordered(exponents.index)[0]
    by_width = table[table.activation == lead].groupby("width")
    path = ", ".join(f"{value:.3g} at k = {width}" for width, value in by_width.sampled.mean().items())
    path += f" and {by_width['lambda_min'].first().iloc[-1]:.3g} at infinite width"
    powers = {name: f"like k to the powers {listed(exponents[name], '.2f')}" for name in exponents}
    off = (exponents - HALF).abs().max(skipna=False)
    means = f"{powers['spread']}; mean λ_min/E[σ'²] of {lead} {path}"
    return [
        decide("‖Ĝ − G‖ falls like 1/√k", powers["relative_error"], off["relative_error"], "below", NEAR, " from −1/2"),
        decide("the spread of λ_min falls like 1/√k", means, off["spread"], "below", NEAR, " from −1/2"),
    ]
