"""Paths of optimisers, and searches in their norms, against the certified optima of every norm.

A gated linear network of H units and two contexts descends from the published start by the losses and step rule of
`SteepestDescent`, for a fixed number of steps. `ProjectedDescent` searches the same network for the KKT points of each
norm, from the same start. The ends are compared with the certified optima of five norms, and so is each optimum.
"""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.datasets import BinaryTask
from implicit_bias.gates import HyperplaneGates
from implicit_bias.networks import GatedLinearNetwork
from implicit_bias.studies.optimisers import common
from implicit_bias.studies.optimisers.common import LABELS, NORMS, OPTIMISERS, OWN, REACHED, SEARCHES
from implicit_bias.studies.runner import Rows, Settings, Verdict, claims, product

TITLE = "Which margin problem does each optimiser solve?"
CLAIM = "Each optimiser ends at the optimum of its own norm, where its path reaches its limit."
CLAIMS = claims("optimisers", "ratios")
COORDINATES = ("dataset", "train_size", "steps", "seed")
#: Steps of long paths on random data, which figure and verdicts call 'long random'.
LONG = 100_000
data = common.data


def grid(quick: bool) -> list[Settings]:
    """Return five draws of random data, digits and MNIST with n = 200, and one of MNIST with n = 500.

    Three draws of random data have long paths, too.
    Quick: random data, one draw, fewer steps.
    """
    if quick:
        return product(dataset=("random",), train_size=(60,), units=(5,), seed=(1,), steps=(1000,), searches=(500,))
    both = {"searches": (10_000,)}
    images = both | {"units": (10,), "seed": range(11, 16)}
    return [
        *product(dataset=("random",), train_size=(60,), units=(5,), seed=range(11, 16), **both, steps=(12_000,)),
        *product(dataset=("random",), train_size=(60,), units=(5,), seed=(11, 12, 13), **both, steps=(LONG,)),
        *product(dataset=("digits", "mnist"), train_size=(200,), **images, steps=(12_000,)),
        *product(dataset=("mnist",), train_size=(500,), **images | {"seed": (11,)}, steps=(12_000,)),
    ]


def rows(settings: Settings, task: BinaryTask) -> Rows:
    """Return rows of the kinds 'path', 'search' and 'optimum', with the columns method, norm (its own), and

    made (steps), end, cpu_seconds, ratio: as `common.descended` returns them, NaN for an optimum.
    to_gd … to_frobenius: ‖W‖ / (margin × optimum) in each norm.
    error, apart_gd … apart_frobenius: error on validation samples, and inconsistency with each optimum.
    active, evenness: number of active units, and min |v| / max |v| of the readout.
    gap: largest certified gap of the five optima.
    """
    gates = HyperplaneGates(settings["units"], 2, seed=settings["seed"]).fit(task.X_pool)
    best = common.optima(task.X_train, task.y_train, gates)
    if not best:
        return []
    fresh = gates(task.X_val)
    scores = {name: fresh @ solution.weights for name, (_, solution) in best.items()}
    gap = max(solution.gap for _, solution in best.values())
    tried = common.tried(OPTIMISERS, settings)
    table: Rows = []
    for kind, method, norm, config in tried:
        network = GatedLinearNetwork(gates)
        row = common.descended(network, task, config, best[norm][1].lower_bound)
        W, v = network.effective_weights(), np.abs(common.readout(network))
        row |= common.distances(W, best) | common.disagreements(fresh @ W, task, scores)
        row |= {"active": common.active(W, settings["units"]), "evenness": float(v.min() / v.max()), "gap": gap}
        table.append({"kind": kind, "method": method, "norm": norm} | row)
    for norm, (_, solution) in best.items():
        row = common.distances(solution.weights, best) | common.disagreements(scores[norm], task, scores)
        row |= {"active": common.active(solution.weights, settings["units"]), "gap": gap}
        table.append({"kind": "optimum", "method": LABELS[norm], "norm": norm} | row)
    return table


def cost(settings: Settings) -> float:
    step = (0.1 + settings["train_size"] * (4e-3 if settings["dataset"] == "mnist" else 2e-3)) * 1e-3
    solves = 20 * (settings["train_size"] / 2000) ** 2
    return solves + step * (len(OPTIMISERS) * settings["steps"] + 4 * settings["searches"] / 2)


def draw(table: pd.DataFrame) -> Figure:
    """Plot a matrix for each data set: a row for each path and search, a column for each norm, medians over draws."""
    shorter = (table.dataset == "random") & (table.steps < table.steps.max())
    return common.matrices(_named(table[(table.kind != "optimum") & ~shorter]), LABELS, TITLE)


def _named(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(dataset=table.dataset.mask(table.steps == LONG, "long random"))


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    """Decide on each path at its limit, on each search, and on the units that optima and paths keep."""
    near = CLAIMS["searched"].limits["near"]
    tried = _named(table).assign(wins=common.nearest(table) == table.norm)
    decided = []
    for name in OPTIMISERS:
        path = tried[(tried.kind == "path") & (tried.method == name)]
        text, holds = common.winners(path, REACHED)
        decided.append(CLAIMS["wins"].verdict(text, holds, optimiser=name))
    for norm in SEARCHES:
        searches = tried[(tried.kind == "search") & (tried.norm == norm)]
        text = f"ratios up to {searches.ratio.max():.4f}; nearest to its own: {common.counted(searches.wins, searches)}"
        holds = bool((searches.wins & (searches.ratio <= near)).all())
        decided.append(CLAIMS["searched"].verdict(text, holds, norm=LABELS[norm]))
    images = tried[~tried.dataset.str.contains("random")]
    return [*decided, *_predictions(images), *_units(tried, images)]


def _predictions(images: pd.DataFrame) -> list[Verdict]:
    decided = []
    for name in OPTIMISERS:
        path = images[(images.kind == "path") & (images.method == name) & (images.ratio <= REACHED)]
        means = 100 * path.groupby(["dataset", "train_size"], sort=False)[[f"apart_{norm}" for norm in NORMS]].mean()
        best, own_norm = means.idxmin(axis=1).str.removeprefix("apart_"), OWN[name]
        text = "; ".join(
            f"{common.place(where)}: {line[f'apart_{own_norm}']:.1f} %, least {LABELS[best[where]]} {line.min():.1f} %"
            for where, line in means.iterrows()
        )
        holds = bool((best == own_norm).all()) if len(best) else None
        decided.append(CLAIMS["predicts"].verdict(text or "no path is at its limit", holds, optimiser=name))
    return decided


def _units(tried: pd.DataFrame, images: pd.DataFrame) -> list[Verdict]:
    optimum = tried[tried.kind == "optimum"]
    others = optimum[optimum.norm.isin(("sign", "muon", "muon-sign"))]
    text = f"at least {(others.active / others.units).min():.0%} of the units"
    decided = [CLAIMS["keeps"].verdict(text, bool((others.active == others.units).all()))]
    gd = optimum[(optimum.norm == "gd") & ~optimum.dataset.str.contains("random")]
    if len(gd):
        lost = gd.active < gd.units
        holds = 100 * lost.mean() >= CLAIMS["drops"].limits["share"]
        decided.append(CLAIMS["drops"].verdict(f"in {common.counted(lost, gd)}", bool(holds)))
    paths = images[images.kind == "path"].pivot_table(
        index=["dataset", "train_size", "seed"], columns="method", values=["evenness", "ratio"], sort=False
    )
    if len(paths):
        ended = (paths.ratio[["GD", "Muon"]] <= REACHED).all(axis=1)
        gd_even, muon_even = paths.evenness.GD[ended], paths.evenness.Muon[ended]
        text = f"means {gd_even.mean():.2f} and {muon_even.mean():.2f} of {len(gd_even)} draws at their limit"
        decided.append(CLAIMS["spread"].verdict(text, bool((gd_even < muon_even).all()) if len(gd_even) else None))
    return decided
