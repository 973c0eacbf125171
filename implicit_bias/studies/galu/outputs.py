"""How many units do networks with vector outputs need? (first version, figure 5)

The answer is the least width whose mean loss over repeats, a mean square over samples and outputs, is below 0.3.
Networks are trained by Adam. GaLU is also fitted by alternate convex search for d' ≤ 8, because its half steps solve
systems of kd unknowns. The loss of the search never rises, and the search has no learning rate. Widths are found to
within one part in 25.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.extensions.galu import alternate_convex_search
from implicit_bias.extensions.galu.alternation import Alternation
from implicit_bias.features import GatedFeatures
from implicit_bias.studies.galu.common import NETWORKS, at_every_size, runs
from implicit_bias.studies.galu.gaussian import ADAM, network, samples, trained
from implicit_bias.studies.galu.least_units import draw_least_units, least_units, least_width
from implicit_bias.studies.runner import Rows, Settings, Verdict, claims, product, span

TITLE = "Units needed for vector outputs"
SOURCE = "first version, figure 5"
CLAIM = (
    "GaLU networks need more units than ReLU networks with one output, and about as many, or slightly fewer, with more."
)
LEVEL = 0.3
#: Widths that are trained together.
AT_ONCE = 3
#: Largest number of units of networks that train together; larger networks use a whole core.
SMALL = 100
CLAIMS = claims("galu", "outputs")


def grid(quick: bool) -> list[Settings]:
    m, d, outputs, few = (128, 8, (1, 4, 8), (1, 4)) if quick else (1024, 32, (1, 8, 16, 32, 64, 96, 128), (1, 8))
    adam = {"steps": 5_000, "batch": 32, "lr": 3e-3} if quick else ADAM
    common = {"m": (m,), "d": (d,), "repeats": (2,), "seed": (1,)}
    cells = [cell | adam for cell in product(method=("ReLU", "GaLU"), outputs=outputs, **common)]
    return cells + [cell | {"steps": 100} for cell in product(method=("alternation",), outputs=few, **common)]


def rows(settings: Settings) -> Rows:
    """Return a row (units, repeat, loss) for every width of the search, see `least_width`, and every repeat."""
    guess = as_many_parameters(settings)
    step = max(1, guess // 25)
    if settings["method"] == "alternation":
        fit, at_once = partial(alternated, settings), 1
    else:
        fit, at_once = partial(trained, settings, settings["method"], target=LEVEL), AT_ONCE if guess <= SMALL else 1
    start = max(1, guess - (at_once // 2) * step)
    return least_width(fit, LEVEL, start, 4 * guess + 4, at_once=at_once, step=step)[1]


def as_many_parameters(settings: Settings) -> int:
    """Return the width k at which k(d + d') parameters are a share 1 − LEVEL of the m·d' targets.

    >>> as_many_parameters({"m": 1024, "d": 32, "outputs": 1})
    22
    """
    targets = (1 - LEVEL) * settings["m"] * settings["outputs"]
    return max(1, round(targets / (settings["d"] + settings["outputs"])))


def alternated(settings: Settings, units: Sequence[int]) -> Rows:
    """Return a row (units, repeat, loss) of alternate convex search with GaLU's gates for each width and repeat."""
    table = []
    for k, seed in runs(settings, units):
        search = searched(settings, k, seed, steps=settings["steps"])
        table.append({"units": k, "repeat": seed, "loss": search.loss / settings["outputs"]})
    return table


def searched(settings: Settings, units: int, seed: int, **options: Any) -> Alternation:
    """Return the alternate convex search of a repeat, with GaLU's gates; `options` are steps and tol."""
    X, Y = samples(settings, seed)
    features = GatedFeatures(X, network(settings, "GaLU", units, seed).gates().transform(X))
    return alternate_convex_search(features, Y, seed=seed, **options)


def cost(settings: Settings) -> float:
    size = as_many_parameters(settings) * settings["d"]
    if settings["method"] == "alternation":
        return 3 * settings["repeats"] * settings["steps"] * 1e-11 * size**3
    together = AT_ONCE if size <= SMALL * settings["d"] else 1
    weights = size * (1 + settings["outputs"] / settings["d"]) * together * settings["repeats"]
    return 3 * settings["steps"] * (2e-4 + 6 * settings["batch"] * weights / 5e10)


def _answers(table: pd.DataFrame) -> pd.DataFrame:
    return least_units(table.rename(columns={"method": "kind"}), "outputs", LEVEL)


def draw(table: pd.DataFrame) -> Figure:
    answers, first = _answers(table), table.iloc[0]
    outputs = np.linspace(1, answers.index.max(), 100)
    even = (1 - LEVEL) * first.m * outputs / (first.d + outputs)
    theory = outputs, even, f"{1 - LEVEL:g} m d′ / (d + d′): as many parameters"
    axis = {"title": f"m = {first.m}, d = {first.d}", "xlabel": "outputs d′"}
    return draw_least_units(TITLE, answers, LEVEL, theory, axis)


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    widths = _answers(table).reindex(columns=[*NETWORKS, "alternation"])
    pairs = widths.dropna(subset=list(NETWORKS))
    one, more = pairs[pairs.index == 1], pairs[pairs.index > 1]
    first, alike, fewer = CLAIMS.values()
    places = ("d′ = 1", "d′ > 1", "d′ > 1")
    judged = [claim.undecided(f"both below {LEVEL} at {at}") for claim, at in zip(CLAIMS.values(), places, strict=True)]
    if len(one):
        text = _units(one) + _by_search(widths[widths.index == 1])
        judged[0] = first.verdict(text, bool((one["GaLU"] > one["ReLU"]).all()))
    if len(more):
        ratio, about = more["GaLU"] / more["ReLU"], alike.limits["about"]
        text = f"{span(ratio, '.2f')} times as many ({_units(more)})" + _by_search(widths[widths.index > 1])
        judged[1] = alike.verdict(text, at_every_size(ratio.between(1 / about, about)))
        judged[2] = fewer.verdict(f"fewer at {(ratio < 1).sum()} of {len(ratio)}", at_every_size(ratio < 1))
    return judged


def _units(pairs: pd.DataFrame) -> str:
    return ", ".join(f"{row.GaLU:.0f} : {row.ReLU:.0f} at d′ = {row.Index}" for row in pairs.itertuples())


def _by_search(widths: pd.DataFrame) -> str:
    searched = [f"{k:.0f} at d′ = {q}" for q, k in widths["alternation"].dropna().items()]
    return f"; alternate convex search, ended early, needs {', '.join(searched)}" if searched else ""
