"""How many units do networks with vector outputs need? (first version, figure 5)

m = 1024 Gaussian samples in R^d, d = 32, with targets Y ~ N(0, I) in R^{d'}: the least width whose loss, the mean
square over samples and outputs and over the repeats, is below 0.3. ReLU and GaLU with a trained readout by Adam, lr
1e-3, batches of 128, 100 000 steps; and GaLU by alternate convex search, whose loss never rises and which needs no
learning rate, for d' ≤ 8: its half steps solve systems of kd unknowns.

Unlike the paper: two repeats instead of eight, and widths to within one part in 25. Weights are Kaiming's.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.experiments.galu.common import NETWORKS, runs
from implicit_bias.experiments.galu.gaussian import ADAM, network, samples, trained
from implicit_bias.experiments.galu.least_units import draw_least_units, least_units, least_width
from implicit_bias.experiments.runner import Rows, Settings, Verdict, product, span
from implicit_bias.regression import alternate_convex_search

TITLE = "Units needed for vector outputs"
SOURCE = "first version, figure 5"
CLAIM = "For vector outputs GaLU networks need about as many units as ReLU networks."
LEVEL = 0.3
#: Widths that are trained together.
AT_ONCE = 3
#: How many times ReLU's units count as "about as many".
ABOUT = 1.25


def grid(quick: bool) -> list[Settings]:
    """Seven numbers of outputs, two repeats; quick: m = 128, d = 8, three of them, fewer steps."""
    m, d, outputs, few = (128, 8, (1, 4, 8), (1, 4)) if quick else (1024, 32, (1, 8, 16, 32, 64, 96, 128), (1, 8))
    adam = {"steps": 5_000, "batch": 32, "lr": 3e-3} if quick else ADAM
    common = {"m": (m,), "d": (d,), "repeats": (2,), "seed": (1,)}
    found = [cell | adam for cell in product(method=("ReLU", "GaLU"), outputs=outputs, **common)]
    return found + [cell | {"steps": 100} for cell in product(method=("alternation",), outputs=few, **common)]


def rows(settings: Settings) -> Rows:
    """A row (units, repeat, loss) for every width that was looked at and every repeat."""
    guess = as_many_parameters(settings)
    step = max(1, guess // 25)
    if settings["method"] == "alternation":
        fit, at_once = partial(alternated, settings), 1
    else:
        fit, at_once = partial(trained, settings, settings["method"], target=LEVEL), AT_ONCE
    start = max(1, guess - (at_once // 2) * step)
    return least_width(fit, LEVEL, start, 4 * guess + 4, at_once=at_once, step=step)[1]


def as_many_parameters(settings: Settings) -> int:
    """The width k at which k(d + d') parameters are a share 1 − LEVEL of the m·d' targets.

    >>> as_many_parameters({"m": 1024, "d": 32, "outputs": 1})
    22
    """
    targets = (1 - LEVEL) * settings["m"] * settings["outputs"]
    return max(1, round(targets / (settings["d"] + settings["outputs"])))


def alternated(settings: Settings, units: Sequence[int]) -> Rows:
    """Alternate convex search for each of some widths and every repeat, with the gates of the network."""
    found = []
    for k, seed in runs(settings, units):
        X, Y = samples(settings, seed)
        features = network(settings, "GaLU", k, seed).gates()(X)
        loss = alternate_convex_search(features, Y, steps=settings["steps"], seed=seed).loss / settings["outputs"]
        found.append({"units": k, "repeat": seed, "loss": loss})
    return found


def cost(settings: Settings) -> float:
    """The steps of a stack, or the half steps of three searches."""
    size = as_many_parameters(settings) * settings["d"]
    if settings["method"] == "alternation":
        return 3 * settings["repeats"] * settings["steps"] * 1e-11 * size**3
    weights = size * (1 + settings["outputs"] / settings["d"]) * AT_ONCE * settings["repeats"]
    return settings["steps"] * (1e-3 + 6 * settings["batch"] * weights / 3e10)


def answers(table: pd.DataFrame) -> pd.DataFrame:
    """The least widths: a row for every number of outputs, a column for every method; NaN where no width sufficed."""
    return least_units(table.rename(columns={"method": "kind"}), "outputs", LEVEL)


def draw(table: pd.DataFrame) -> Figure:
    """The least width against the number of outputs, and the width with 0.7·m·d' parameters."""
    found, first = answers(table), table.iloc[0]
    outputs = np.linspace(1, found.index.max(), 100)
    even = (1 - LEVEL) * first.m * outputs / (first.d + outputs)
    theory = outputs, even, f"{1 - LEVEL:g} m d′ / (d + d′): as many parameters"
    axis = {"title": f"m = {first.m}, d = {first.d}", "xlabel": "outputs d′"}
    return draw_least_units(TITLE, found, LEVEL, theory, axis)


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    """GaLU's width over ReLU's."""
    found = answers(table).reindex(columns=[*NETWORKS, "alternation"])
    pairs = found.dropna(subset=list(NETWORKS))
    if pairs.empty:
        return [Verdict.undecided(CLAIM, f"a number of outputs at which both networks were brought below {LEVEL}")]
    ratio = pairs["GaLU"] / pairs["ReLU"]
    units = [f"{row.GaLU:.0f} : {row.ReLU:.0f} at d′ = {row.Index}" for row in pairs.itertuples()]
    told = f"{span(ratio, '.2f')} times as many ({', '.join(units)})"
    searched = [f"{k:.0f} at d′ = {q}" for q, k in found["alternation"].dropna().items()]
    told += f"; by alternate convex search GaLU needs {', '.join(searched)}" if searched else ""
    claim = "GaLU networks need about as many units as ReLU networks"
    return [Verdict(claim, told, f"below {ABOUT} times as many at every d′", bool(ratio.max() < ABOUT))]
