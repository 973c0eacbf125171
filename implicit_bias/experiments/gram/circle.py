"""The smallest eigenvalue of equally spaced points of the circle

An odd number n of equally spaced points, so that none meets its opposite: λ_min(G)/E[σ'²] in multiprecision, with the
angles exact. Where σ' jumps at 0, E[σ'σ'] has a corner at the angle 0, and the eigenvalues fall like a power of n;
where σ is smooth they fall faster than any.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.experiments.gram.sphere import JUMP, SMOOTH, number, ordered, style
from implicit_bias.experiments.runner.drawing import COLOURS, panels
from implicit_bias.experiments.runner.experiment import Experiment, Rows, Settings
from implicit_bias.kernels import circle_eigenvalue, mean_square

CLOSED = ("relu", "selu", "elu", "gelu", "erf")
SERIES = ("swish", "tanh")
#: λ_min n of ReLU for many points.
LIMIT = 0.25


def grid(quick: bool) -> list[Settings]:
    """Five closed forms up to 161 points, two series up to 41; quick: up to 41, and no series beyond 5."""
    closed, series = (
        ((5, 11, 21, 41), (5,)) if quick else ((5, 7, 11, 15, 21, 29, 41, 57, 81, 113, 161), (5, 11, 21, 41))
    )
    sizes = dict.fromkeys(CLOSED, closed) | dict.fromkeys(SERIES[: 1 if quick else 2], series)
    return [
        {"activation": activation, "n": n, "digits": 5, "seed": 0}
        for activation, counts in sizes.items()
        for n in counts
    ]


def rows(settings: Settings) -> Rows:
    """λ_min(G)/E[σ'²] and a bound of its error: least, error. Nothing is drawn at random."""
    unit = mean_square(settings["activation"])
    found = circle_eigenvalue(settings["n"], settings["activation"], settings["digits"])
    return [{"least": float(found.value) / unit, "error": float(found.error) / unit}]


def cost(settings: Settings) -> float:
    """Pairs of a closed form, or a series."""
    return {"swish": 8.0, "tanh": 50.0}.get(settings["activation"], 0.005 * settings["n"])


def powers(table: pd.DataFrame) -> pd.Series:
    """−d log λ_min/d log n of each activation between its two largest n.

    >>> import pandas as pd
    >>> from implicit_bias.experiments.gram.circle import powers
    >>> powers(pd.DataFrame({"activation": "relu", "n": [5, 10], "least": [0.2, 0.1]})).round(6).to_dict()
    {'relu': 1.0}
    """
    found = {}
    for activation, own in table.sort_values("n").groupby("activation"):
        if len(own) > 1:
            falls, grows = (np.diff(np.log(own[name].iloc[-2:])).item() for name in ("least", "n"))
            found[activation] = -falls / grows
    return pd.Series(found, dtype=float)


def draw(table: pd.DataFrame) -> Figure:
    """λ_min against n on two logarithmic axes, and ReLU's λ_min n."""
    with panels(EXPERIMENT.title, columns=2, size=(4.2, 3.4)) as axes:
        ax, other = axes[0]
        for activation in ordered(table.activation):
            own = table[table.activation == activation].sort_values("n")
            ax.plot(own.n, own.least, marker="o", markersize=3, linewidth=1.2, **style(activation))
        ax.set(xscale="log", yscale="log", xlabel="points $n$", ylabel="$\\lambda_{\\min}(G)/E[\\sigma'^2]$")
        for name in [name for name in JUMP if name in set(table.activation)]:
            own = table[table.activation == name].sort_values("n")
            unit = mean_square(name)
            other.plot(own.n, own.least * own.n * unit, marker="o", markersize=3, linewidth=1.2, **style(name))
        other.axhline(LIMIT, color=COLOURS["theory"], linestyle=":", linewidth=0.8, label="1/4 (ReLU)")
        other.set(xscale="log", xlabel="points $n$", ylabel="$\\lambda_{\\min}(G) \\cdot n$", ylim=(0, None))
        for each in (ax, other):
            each.set_xticks(sizes := [n for n in (5, 11, 21, 41, 81, 161) if n <= table.n.max()], map(str, sizes))
            each.minorticks_off()
            each.legend(frameon=False)
        figure: Figure = ax.figure
    return figure


def finding(table: pd.DataFrame) -> str:
    """ReLU's limit and the powers of n by which the eigenvalues fall at last."""
    relu, falls = table[table.activation == "relu"].sort_values("n"), powers(table)
    sharp, smooth = (falls[falls.index.isin(names)] for names in (JUMP, SMOOTH))
    if not len(relu) or not len(sharp) or not len(smooth):
        return "Undecided: no jumping and smooth activations at two numbers of points."
    product = float(relu.least.iloc[-1] * mean_square("relu") * relu.n.iloc[-1])
    limit, apart = abs(product - LIMIT) < 0.02 * LIMIT, smooth.min() > 3 * sharp.max()
    word = "Yes" if limit and apart else "Partly" if limit or apart else "No"
    ends = table.sort_values("n").groupby("activation").last()
    tiny = ends.loc[ends.index.isin(SMOOTH)]
    texts = [f"{name} {number(row.least)} at n = {row.n:.0f}" for name, row in tiny.iterrows()]
    steep = [f"−{falls[name]:.2f} ({name})" for name in ordered(set(falls.index) - set(SMOOTH))]
    return (
        f"{word}: ReLU's λ_min n is {product:.4f} at n = {relu.n.iloc[-1]}; at last λ_min falls like n to the power "
        f"{', '.join(steep)}, and where σ is smooth like powers from −{smooth.min():.1f} to −{smooth.max():.1f} "
        f"({', '.join(texts)}, over E[σ'²])."
    )


EXPERIMENT = Experiment(
    name="circle",
    title="Smallest eigenvalue of equally spaced points of the circle",
    source="data in two dimensions",
    claim=(
        "On the circle the smallest eigenvalue of activations whose derivative jumps falls like a power of the number "
        "of points (ReLU: 1/(4n)), and that of smooth ones faster than any."
    ),
    grid=grid,
    rows=rows,
    cost=cost,
    draw=draw,
    finding=finding,
)
