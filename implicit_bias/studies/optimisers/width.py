"""Copies of units: which optimisers learn something else if several units share their gates?

Five units with two contexts each have 1, 1, 4, 4 and 9 copies, or one each. Paths of `SteepestDescent` and searches are
compared with the norm whose multiplicities are the numbers of copies, and with the norm without multiplicities.
"""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias._utils.checks import Array
from implicit_bias.datasets import BinaryTask
from implicit_bias.gates import ContextGates, FunctionContexts, HyperplaneGates
from implicit_bias.metrics import inconsistency
from implicit_bias.networks import GatedLinearNetwork
from implicit_bias.studies.optimisers import common
from implicit_bias.studies.optimisers.common import LABELS, SEARCHES
from implicit_bias.studies.runner import Rows, Settings, Verdict, claims, product, span
from implicit_bias.training.steepest import LayeredDescent

TITLE = "Copies of units"
CLAIM = "Copies of units change what Adam and Muon-Sign learn, and not what gradient descent and Muon learn."
CLAIMS = claims("optimisers", "width")
COORDINATES = ("dataset", "train_size", "seed")
#: Optimisers whose paths are computed.
PATHS = ("GD", "Signum", "Adam", "Muon", "Muon-sign")
data = common.data


def grid(quick: bool) -> list[Settings]:
    """Return three draws of random data with n = 60 and of digits with n = 100.

    Quick: random data, one draw, fewer steps.
    """
    fixed = {"copies": ("1 1 4 4 9",), "steps": (1000 if quick else 6000,), "searches": (1000 if quick else 10_000,)}
    seeds = (1,) if quick else (11, 12, 13)
    cells = product(dataset=("random",), train_size=(60,), seed=seeds, **fixed)
    return cells if quick else [*cells, *product(dataset=("digits",), train_size=(100,), seed=seeds, **fixed)]


def rows(settings: Settings, task: BinaryTask) -> Rows:
    """Return a row for each path and search: kind, method, norm, and

    made (steps), end, cpu_seconds, ratio: of the network with copies, to the optimum of the norm with multiplicities.
    unweighted: N(θ)² divided by margin and optimum of the norm without multiplicities.
    single_ratio: `ratio` of the network without copies.
    moved, optima_moved: inconsistency of the networks with and without copies, and of the two certified optima.
    """
    copies = [int(count) for count in settings["copies"].split()]
    single = HyperplaneGates(len(copies), 2, seed=settings["seed"]).fit(task.X_pool)
    copied = FunctionContexts(lambda X: np.repeat(single.contexts_of(X), copies, axis=1), 2).fit(task.X_pool)
    weighted = common.optima(task.X_train, task.y_train, single, copies)
    plain = common.optima(task.X_train, task.y_train, single)
    if not weighted:
        return []
    fresh = single(task.X_val)
    table: Rows = []
    for kind, method, norm, config in common.tried(PATHS, settings):
        bounds = [optima[norm][1].lower_bound for optima in (weighted, plain)]
        row, W = _ended(copied, copies, task, config, bounds[0])
        other, single_W = _ended(single, [1] * len(copies), task, config, bounds[1])
        row |= {"unweighted": row["ratio"] * bounds[0] / bounds[1], "single_ratio": other["ratio"]}
        row["moved"] = inconsistency(fresh @ W, fresh @ single_W)
        row["optima_moved"] = inconsistency(fresh @ weighted[norm][1].weights, fresh @ plain[norm][1].weights)
        table.append({"kind": kind, "method": method, "norm": norm} | row)
    return table


def _ended(
    gates: ContextGates, copies: list[int], task: BinaryTask, config: LayeredDescent, optimum: float
) -> tuple[dict[str, float], Array]:
    network = GatedLinearNetwork(gates, seed=1)
    row = common.descended(network, task, config, optimum)
    W = network.effective_weights().reshape(sum(copies), -1)
    sums = np.add.reduceat(W, np.cumsum([0, *copies[:-1]]), axis=0)
    return row, sums.reshape(-1, task.X_train.shape[1])


def cost(settings: Settings) -> float:
    return 5e-4 * (2 * len(PATHS) * settings["steps"] + 2 * len(SEARCHES) * settings["searches"] / 3)


def draw(table: pd.DataFrame) -> Figure:
    """Plot both ratios of every path and search; points are draws."""
    columns = {"ratio": "norm with multiplicities", "unweighted": "norm without"}
    return common.strips(table, table.method + ", " + table.kind, columns, TITLE, common.RATIO)


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    """Decide on searches against both norms, and on how far copies move the paths that are at their limits."""
    reached, times = CLAIMS["moves"].limits["reached"], CLAIMS["moves"].limits["times"]
    searches = table[table.kind == "search"]
    decided = []
    for norm in SEARCHES:
        subset = searches[searches.norm == norm]
        text = f"ratios up to {subset.ratio.max():.4f}"
        holds = bool((subset.ratio <= CLAIMS["weighted"].limits["near"]).all())
        decided.append(CLAIMS["weighted"].verdict(text, holds, norm=LABELS[norm]))
    for norm in ("sign", "muon-sign"):
        ratio = searches[searches.norm == norm].unweighted
        holds = bool((ratio <= CLAIMS["unweighted"].limits["below"]).all())
        decided.append(CLAIMS["unweighted"].verdict(span(ratio, ".3f"), holds, norm=LABELS[norm]))
    paths = table[(table.kind == "path") & (table.ratio <= reached) & (table.single_ratio <= reached)]
    moved = 100 * paths.groupby("method").moved.mean()
    for name in ("Signum", "Adam", "Muon-sign"):
        every = [moved.get(method, np.nan) for method in (name, "GD", "Muon")]
        texts = ["not at the limit" if np.isnan(value) else f"{value:.1f} %" for value in every]
        text = ", ".join(f"{method} {text}" for method, text in zip((name, "GD", "Muon"), texts, strict=True))
        moves = None if np.isnan(every).any() else bool(every[0] >= times * max(every[1:]))
        decided.append(CLAIMS["moves"].verdict(text, moves, norm=name))
    return decided
