"""How many units do networks with vector outputs need? (first version, figure 5)

m = 1024 Gaussian samples in R^d, d = 32, with targets Y ~ N(0, I) in R^{d'}: the least width whose loss, the mean
square over samples and outputs and over the repeats, is below 0.3. ReLU and GaLU with a trained readout by Adam, lr
1e-3, batches of 128, 100 000 steps; and GaLU by alternate convex search, whose loss never rises and which needs no
learning rate, for d' ≤ 8: its half steps solve systems of kd unknowns.

Unlike the paper: two repeats instead of eight, and widths to within one part in 25. Weights are Kaiming's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.experiments.galu.gaussian import mean_losses, network, repeats, samples, search, trained
from implicit_bias.experiments.runner.drawing import COLOURS, panels
from implicit_bias.experiments.runner.experiment import Experiment, Rows, Settings, product
from implicit_bias.regression import alternate_convex_search

LEVEL = 0.3
#: Widths that are trained together.
AT_ONCE = 3
STYLES = {
    "ReLU": {"color": COLOURS["ReLU"], "marker": "s", "label": "ReLU (Adam)"},
    "GaLU": {"color": COLOURS["GaLU"], "marker": "o", "label": "GaLU (Adam)"},
    "alternation": {
        **{"color": COLOURS["sky"], "marker": "x", "linestyle": "--"},
        "label": "GaLU (alternate convex search)",
    },
}


def grid(quick: bool) -> list[Settings]:
    """Seven numbers of outputs, two repeats; quick: m = 128, d = 8, three of them, fewer steps."""
    m, d, outputs, few = (128, 8, (1, 4, 8), (1, 4)) if quick else (1024, 32, (1, 8, 16, 32, 64, 96, 128), (1, 8))
    adam = {"steps": 5_000, "batch": 32, "lr": 3e-3} if quick else {"steps": 100_000, "batch": 128, "lr": 1e-3}
    common = {"m": (m,), "d": (d,), "repeats": (2,), "seed": (1,)}
    found = [cell | adam for cell in product(method=("ReLU", "GaLU"), outputs=outputs, **common)]
    return found + [cell | {"steps": 100} for cell in product(method=("alternation",), outputs=few, **common)]


def rows(settings: Settings) -> Rows:
    """A row (units, repeat, loss) for every width that was looked at and every repeat."""
    found: Rows = []
    fit, at_once = (alternated, 1) if settings["method"] == "alternation" else (_by_adam, AT_ONCE)

    def meets(units: Sequence[int]) -> set[int]:
        part = fit(settings, units)
        found.extend(part)
        return {k for k, loss in mean_losses(part).items() if loss < LEVEL}

    guess = as_many_parameters(settings)
    step = max(1, guess // 25)
    search(meets, max(1, guess - (at_once // 2) * step), 4 * guess + 4, at_once=at_once, step=step)
    return found


def as_many_parameters(settings: Settings) -> int:
    """The width k at which k(d + d') parameters are a share 1 − LEVEL of the m·d' targets.

    >>> from implicit_bias.experiments.galu.outputs import as_many_parameters
    >>> as_many_parameters({"m": 1024, "d": 32, "outputs": 1})
    22
    """
    targets = (1 - LEVEL) * settings["m"] * settings["outputs"]
    return max(1, round(targets / (settings["d"] + settings["outputs"])))


def alternated(settings: Settings, units: Sequence[int]) -> Rows:
    """Alternate convex search for each of some widths and every repeat, with the gates of the network."""
    found = []
    for k in units:
        for seed in repeats(settings):
            X, Y = samples(settings, seed)
            features = network(settings, "GaLU", k, seed).gates()(X)
            loss = alternate_convex_search(features, Y, steps=settings["steps"], seed=seed).loss / settings["outputs"]
            found.append({"units": k, "repeat": seed, "loss": loss})
    return found


def _by_adam(settings: Settings, units: Sequence[int]) -> Rows:
    return trained(settings, settings["method"], units, LEVEL)


def cost(settings: Settings) -> float:
    """The steps of a stack, or the half steps of three searches."""
    size = as_many_parameters(settings) * settings["d"]
    if settings["method"] == "alternation":
        return 3 * settings["repeats"] * settings["steps"] * 1e-11 * size**3
    weights = size * (1 + settings["outputs"] / settings["d"]) * AT_ONCE * settings["repeats"]
    return settings["steps"] * (1e-3 + 6 * settings["batch"] * weights / 3e10)


def least_units(table: pd.DataFrame) -> pd.DataFrame:
    """The answers: a row for every number of outputs, a column for every method; NaN where no width sufficed.

    >>> import pandas as pd
    >>> from implicit_bias.experiments.galu.outputs import least_units
    >>> tried = pd.DataFrame({"method": "GaLU", "outputs": 4, "units": [7, 8], "loss": [0.4, 0.2]})
    >>> least_units(tried).to_dict("records")
    [{'GaLU': 8.0}]
    """
    means = table.groupby(["method", "outputs", "units"]).loss.mean().reset_index()
    least = means[means.loss < LEVEL].groupby(["outputs", "method"]).units.min().unstack()
    found = least.reindex(sorted(table.outputs.unique())).astype(float)
    return found[[method for method in STYLES if method in found]]


def draw(table: pd.DataFrame) -> Figure:
    """The least width against the number of outputs, and the width with 0.7·m·d' parameters."""
    found, first = least_units(table), table.iloc[0]
    with panels(EXPERIMENT.title, size=(5.4, 3.6)) as axes:
        ax = axes[0, 0]
        outputs = np.linspace(1, found.index.max(), 100)
        even = (1 - LEVEL) * first.m * outputs / (first.d + outputs)
        label = f"{1 - LEVEL:g} m d′ / (d + d′): as many parameters"
        ax.plot(outputs, even, ":", color=COLOURS["theory"], linewidth=0.8, label=label)
        for method in found:
            ax.plot(found[method].dropna(), markersize=5, linewidth=1.2, **STYLES[str(method)])
        ax.set(xlabel="outputs d′", ylabel=f"least width k with training MSE < {LEVEL}", ylim=(0, None))
        ax.set(title=f"m = {first.m}, d = {first.d}", xticks=found.index)
        ax.legend(frameon=False)
    figure: Figure = axes[0, 0].figure
    return figure


def finding(table: pd.DataFrame) -> str:
    """GaLU's width over ReLU's, as a sentence."""
    found = least_units(table)
    pairs = found.dropna(subset=[name for name in ("GaLU", "ReLU") if name in found])
    if not {"GaLU", "ReLU"} <= set(found) or pairs.empty:
        return f"Undecided: no number of outputs at which both networks were brought below {LEVEL}."
    ratio = pairs["GaLU"] / pairs["ReLU"]
    word = "Yes" if ratio.max() < 1.25 else "Partly" if ratio.iloc[-1] < 1.25 else "No"
    texts = [
        f"{g:.0f} : {r:.0f} at d′ = {q}" for q, g, r in zip(pairs.index, pairs["GaLU"], pairs["ReLU"], strict=True)
    ]
    also = found.get("alternation", pd.Series(dtype=float)).dropna()
    searched = [f"{k:.0f} at d′ = {q}" for q, k in also.items()]
    return (
        f"{word}: GaLU needs {ratio.min():.2f} to {ratio.max():.2f} times ReLU's units ({', '.join(texts)})"
        + (f"; by alternate convex search GaLU needs {', '.join(searched)}" if searched else "")
        + "."
    )


EXPERIMENT = Experiment(
    name="outputs",
    title="Units needed for vector outputs",
    source="first version, figure 5",
    claim="For vector outputs GaLU networks need about as many units as ReLU networks.",
    grid=grid,
    rows=rows,
    cost=cost,
    draw=draw,
    finding=finding,
)
