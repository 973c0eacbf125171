"""The Gram matrix of a layer of finite width

50 points of the sphere of R^10: the Gram matrix sampled with k units against its mean. The mean of k terms is off by
1/√k of their spread, and so is λ_min.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.experiments.gram.sphere import ordered, style, unit_points
from implicit_bias.experiments.runner.drawing import COLOURS, band, panels
from implicit_bias.experiments.runner.experiment import Experiment, Rows, Settings, product
from implicit_bias.kernels import empirical_gram, gram_matrix, mean_square

ACTIVATIONS = ("relu", "selu", "elu", "swish", "tanh")


def grid(quick: bool) -> list[Settings]:
    """Five activations, widths from 100 to 100 000, 15 draws of the weights; quick: two, up to 10 000, three draws."""
    widths, draws = ((100, 1000, 10_000), 3) if quick else ((100, 316, 1000, 3162, 10_000, 31_623, 100_000), 15)
    names = ACTIVATIONS[::4] if quick else ACTIVATIONS
    return product(n=(50,), d=(10,), activation=names, width=widths, draws=(draws,), seed=(1,))


def rows(settings: Settings) -> Rows:
    """λ_min/E[σ'²] of every sampled matrix (sampled) and of the mean (least), and ‖Ĝ − G‖/‖G‖ (off)."""
    name, width, unit = settings["activation"], settings["width"], mean_square(settings["activation"])
    X = unit_points(settings["n"], settings["d"], settings["seed"])
    G = gram_matrix(X, name).values
    least, size = float(np.linalg.eigvalsh(G)[0]), float(np.linalg.norm(G, 2))
    found = []
    for turn in range(settings["draws"]):
        sampled = empirical_gram(X, name, width, seed=turn)
        row = {"draw": turn, "sampled": float(np.linalg.eigvalsh(sampled)[0]) / unit, "least": least / unit}
        found.append(row | {"off": float(np.linalg.norm(sampled - G, 2)) / size})
    return found


def cost(settings: Settings) -> float:
    """Derivatives and products of all units."""
    return settings["draws"] * (0.01 + 2e-7 * settings["n"] * settings["width"])


def slopes(table: pd.DataFrame) -> dict[str, float]:
    """The power of k that the mean ‖Ĝ − G‖/‖G‖ follows, by least squares on logarithms, of each activation.

    >>> import pandas as pd
    >>> from implicit_bias.experiments.gram.width import slopes
    >>> slopes(pd.DataFrame({"activation": "relu", "width": [100, 10_000], "off": [0.1, 0.01]}))
    {'relu': -0.5}
    """
    return {str(name): power(own.groupby("width").off.mean()) for name, own in table.groupby("activation")}


def spreads(table: pd.DataFrame) -> dict[str, float]:
    """The power of k that the standard deviation of λ_min over draws follows, of each activation.

    >>> import pandas as pd
    >>> from implicit_bias.experiments.gram.width import spreads
    >>> draws = {"activation": "relu", "width": [100, 100, 10_000, 10_000], "sampled": [0.2, 0.3, 0.25, 0.26]}
    >>> spreads(pd.DataFrame(draws))
    {'relu': -0.5}
    """
    return {str(name): power(own.groupby("width").sampled.std()) for name, own in table.groupby("activation")}


def power(sizes: pd.Series) -> float:
    """The power of its index that a positive series follows; NaN of fewer than two."""
    if len(sizes) < 2:
        return float("nan")
    return round(float(np.polyfit(np.log(sizes.index), np.log(sizes), 1)[0]), 6)


def draw(table: pd.DataFrame) -> Figure:
    """λ_min of the sampled matrices with that of the mean, and the relative error with 1/√k."""
    with panels(EXPERIMENT.title, columns=2, size=(4.2, 3.3)) as axes:
        ax, other = axes[0]
        for activation in ordered(table.activation):
            own = table[table.activation == activation].set_index("width")
            band(ax, own.sampled, **style(activation))
            ax.axhline(own["least"].iloc[0], color=style(activation)["color"], linestyle=":", linewidth=0.8)
            band(other, own.off, **style(activation))
        widths = np.array(sorted(table.width.unique()))
        start = table[table.width == widths[0]].off.mean() * np.sqrt(widths[0])
        other.plot(widths, start / np.sqrt(widths), ":", color=COLOURS["theory"], linewidth=1, label="$k^{-1/2}$")
        ax.set(xscale="log", xlabel="units $k$", ylabel="$\\lambda_{\\min}/E[\\sigma'^2]$", ylim=(0, None))
        ax.set_title("dotted: infinite width", fontsize=8)
        other.set(xscale="log", yscale="log", xlabel="units $k$", ylabel="$\\|\\hat G - G\\| / \\|G\\|$")
        figure: Figure = ax.figure
        figure.legend(*other.get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False)
    return figure


def finding(table: pd.DataFrame) -> str:
    """The powers of k of the matrix and of the spread of λ_min, and ReLU's smallest eigenvalues."""
    found, spread = slopes(table), spreads(table)
    if not np.isfinite([*found.values(), *spread.values()]).all():
        return "Undecided: there are fewer than two widths, or draws."
    near = [abs(slope + 0.5) < 0.1 for slope in (*found.values(), *spread.values())]
    word = "Yes" if all(near) else "Partly" if any(near) else "No"
    lead = "relu" if "relu" in found else ordered(found)[0]
    own = table[table.activation == lead].groupby("width")
    path = [f"{value:.3g} at k = {width}" for width, value in own.sampled.mean().items()]
    texts = [", ".join(f"{name} {powers[name]:.2f}" for name in ordered(found)) for powers in (found, spread)]
    return (
        f"{word}: ‖Ĝ − G‖ falls like k to the power {texts[0]}, and the spread of λ_min like {texts[1]}; the mean "
        f"λ_min/E[σ'²] of {lead} is {', '.join(path)}, and {own['least'].first().iloc[-1]:.3g} at infinite width."
    )


EXPERIMENT = Experiment(
    name="width",
    title="Gram matrices of finite width",
    source="concentration at initialisation",
    claim="The Gram matrix of k units comes as near to its mean as 1/√k, and its smallest eigenvalue with it.",
    grid=grid,
    rows=rows,
    cost=cost,
    draw=draw,
    finding=finding,
)
