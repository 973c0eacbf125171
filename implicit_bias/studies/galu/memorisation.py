"""How many units memorise m random samples? (second version, figure 1)

The answer is the least width k whose mean training loss is below 0.01 at the end. For GaLU it has a lower bound: least
squares with the gates of the same networks shows which widths can reach 0.01 at all, and narrower networks are not
trained. In place of the paper's binary search, several widths are trained together, and training ends early if all
networks that are trained together are below 0.01.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.studies.galu.common import NETWORKS, runs
from implicit_bias.studies.galu.gaussian import ADAM, by_kind, closed_form, trained
from implicit_bias.studies.galu.least_units import draw_least_units, least_units, least_width
from implicit_bias.studies.runner import Rows, Settings, Verdict, claims, product

TITLE = "Units needed to memorise m random samples"
SOURCE = "second version, figure 1"
CLAIM = "About m/d units suffice for ReLU and GaLU networks to memorise m random samples in R^d."
LEVEL = 0.01
CLAIMS = claims("galu", "memorisation")
#: Widths that are trained together.
AT_ONCE = 4


def grid(quick: bool) -> list[Settings]:
    m, d, repeats = ((32, 64, 96), 8, 3) if quick else ((128, 256, 384, 512, 768, 1024), 32, 5)
    adam = {"steps": 10_000, "batch": 32, "lr": 3e-3} if quick else ADAM
    return [cell | adam for cell in product(network=NETWORKS, m=m, d=(d,), repeats=(repeats,), seed=(1,))]


def _solved(settings: Settings, widths: Sequence[int]) -> Rows:
    pairs = runs(settings, widths)
    return [{"units": k, "repeat": seed, "loss": closed_form(settings, k, seed).loss} for k, seed in pairs]


def rows(settings: Settings) -> Rows:
    """Return units, repeat, loss (None if untrained) and closed_form (None for ReLU) for every width of the search."""
    even = -(-settings["m"] // settings["d"])
    widest = 4 * even + AT_ONCE
    by_training = partial(trained, settings, settings["network"], target=LEVEL)
    best, searched = least_width(partial(_solved, settings), LEVEL, even, widest, at_once=2)
    narrowest = best or widest
    if settings["network"] == "ReLU":
        # GaLU's width is where the search begins, not a bound.
        _, table = least_width(by_training, LEVEL, max(1, narrowest - 1), widest, at_once=AT_ONCE)
        return [row | {"closed_form": None} for row in table]
    _, table = least_width(by_training, LEVEL, narrowest, widest, at_once=AT_ONCE, failing=narrowest - 1)
    searched += _solved(settings, sorted({row["units"] for row in table} - {row["units"] for row in searched}))
    losses, certain = ({(row["units"], row["repeat"]): row["loss"] for row in part} for part in (table, searched))
    return [
        {"units": k, "repeat": seed, "loss": losses.get((k, seed)), "closed_form": loss}
        for (k, seed), loss in sorted(certain.items())
    ]


def cost(settings: Settings) -> float:
    return settings["steps"] * (4e-4 + 8e-7 * settings["m"]) + 1e-9 * settings["m"] ** 3 * settings["repeats"]


def _answers(table: pd.DataFrame) -> pd.DataFrame:
    return least_units(by_kind(table, "closed_form", "closed form"), "m", LEVEL)


def draw(table: pd.DataFrame) -> Figure:
    answers, d = _answers(table), table.d.iloc[0]
    ends = np.array([0, answers.index.max()])
    axis = {"xlabel": f"samples m (d = {d})", "xlim": (0, None), "xticks": [0, *answers.index]}
    return draw_least_units(TITLE, answers, LEVEL, (ends, ends / d, "m / d"), axis)


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    networks = table.groupby("m").network.nunique()
    widths, d = _answers(table[table.m.isin(networks.index[networks == len(NETWORKS)])]), table.d.iloc[0]
    if widths.empty:
        return [claim.undecided("both networks at the same m") for claim in CLAIMS.values()]
    shares = widths.mul(d / widths.index.to_numpy(), axis=0)
    texts = {
        kind: f"{', '.join(f'{k:.0f}' for k in widths[kind])} units ({', '.join(f'{s:.2f}' for s in shares[kind])} m/d)"
        for kind in widths
    }
    texts["GaLU"] += f"; in closed form {texts['closed form']}"
    sizes, decided = f"m = {', '.join(map(str, widths.index))}, d = {d}: ", []
    for network in NETWORKS:
        limits = CLAIMS[network].limits
        large = shares[network][widths.index >= limits["least"] * d]
        holds = bool((large <= limits["about"]).all()) if len(large) > 1 else None
        decided.append(CLAIMS[network].verdict((sizes + texts[network]).replace("nan", "none"), holds))
    return decided
