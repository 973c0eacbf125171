"""Decoupled weight decay: do AdamW and Muon minimise the loss under a bound on the norm of the effective weights?

With decay λ the weights stay in max(‖v‖, ‖U‖) ≤ 1/λ, where ‖W‖ ≤ 1/λ² for the norm of `TwoLayerNorm`. `least_loss`
certifies the minimum of the mean logistic loss under this bound. Bounds 1/λ² are multiples of the norm that a margin of
1 needs.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.datasets import BinaryTask
from implicit_bias.gates import HyperplaneGates
from implicit_bias.margin.least_loss import least_loss
from implicit_bias.studies.optimisers import common
from implicit_bias.studies.optimisers.batches import started
from implicit_bias.studies.runner import Rows, Settings, Verdict, claims, product
from implicit_bias.training.optimisers import Adam, Muon, Optimiser, Signum
from implicit_bias.training.sgd import train

TITLE = "Decoupled weight decay"
CLAIM = "Optimisers with decoupled weight decay minimise the loss under a bound on the norm of the weights."
CLAIMS = claims("optimisers", "decay")
COORDINATES = ("dataset", "train_size", "seed")
#: Optimisers with decay, with their norm.
METHODS: dict[str, tuple[str, Callable[..., Optimiser]]] = {
    "AdamW": ("sign", partial(Adam, eps=1e-30)),
    "Signum": ("sign", Signum),
    "Muon": ("muon", Muon),
}
#: ηλ in the first step.
RATE = 0.1
data = common.data


def grid(quick: bool) -> list[Settings]:
    """Return three draws of random data with n = 60, with three decays each; quick: one draw, one decay, fewer steps.

    `bound` is 1/λ² divided by the optimum of the margin problem.
    """
    fixed = {"dataset": ("random",), "train_size": (60,), "units": (5,), "method": ([*METHODS],)}
    if quick:
        return product(**fixed, bound=([1.0],), steps=(300,), seed=(1,))
    return product(**fixed, bound=([0.5, 1.0, 4.0],), steps=(8000,), seed=(11, 12, 13))


def rows(settings: Settings, task: BinaryTask) -> Rows:
    """Return a row for each method and bound: method, norm, bound, decay (λ), and

    loss, minimum, gap: mean logistic loss of the network, its certified lower bound, and the gap of CVXPY's minimum
    relative to it.
    size: norm of the effective weights times λ², at most 1 in the limit.
    """
    X, y = task.X_train, task.y_train
    gates = HyperplaneGates(settings["units"], 2, seed=settings["seed"]).fit(task.X_pool)
    best = common.optima(X, y, gates)
    table: Rows = []
    minima = {
        (norm, bound): least_loss(best[norm][0], bound * best[norm][1].objective)
        for norm in dict.fromkeys(METHODS[method][0] for method in settings["method"])
        for bound in settings["bound"]
    }
    for method in settings["method"]:
        norm, optimiser = METHODS[method]
        problem, solution = best[norm]
        for bound in settings["bound"]:
            decay = (bound * solution.objective) ** -0.5
            network = started(gates)
            options = {"steps": settings["steps"], "batch_size": len(X), "lr": RATE / decay, "lr_decay": 0.5}
            config = optimiser(**options, weight_decay=decay)
            train(network, X, y, config, seed=settings["seed"], every=settings["steps"])
            W, minimum = network.effective_weights(), minima[norm, bound]
            loss = float(np.logaddexp(0.0, -problem.margins(W)).mean())
            row = {"loss": loss, "minimum": minimum.lower_bound, "gap": minimum.loss / minimum.lower_bound - 1}
            row |= {"size": problem.norm.value(W) * decay**2}
            table.append({"method": method, "norm": norm, "bound": bound, "decay": decay} | row)
    return table


def cost(settings: Settings) -> float:
    return len(settings["method"]) * len(settings["bound"]) * (1.0 + settings["steps"] * 4e-4)


def draw(table: pd.DataFrame) -> Figure:
    """Plot the loss divided by its minimum, and ‖W‖λ², for each method and bound; points are draws."""
    columns = {"ratio": "loss / certified minimum", "size": r"$\Vert W\Vert\,\lambda^2$"}
    names = table.method + ", bound " + table.bound.astype(str)
    return common.strips(table.assign(ratio=table.loss / table.minimum), names, columns, TITLE, "ratio")


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    limits, decided = CLAIMS["near"].limits, []
    for name in METHODS:
        subset = table[table.method == name]
        ratio, size = subset.loss / subset.minimum, subset["size"]
        means = ratio.groupby(subset.bound).max()
        text = "; ".join(f"bound {bound:g}: losses up to {value:.3f} times" for bound, value in means.items())
        text += f"; ‖W‖λ² up to {size.max():.4f}"
        holds = bool(((ratio <= limits["near"]) & (size <= limits["inside"])).all())
        decided.append(CLAIMS["near"].verdict(text, holds, optimiser=name))
    return decided
