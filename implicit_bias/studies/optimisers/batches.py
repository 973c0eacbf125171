"""Minibatches and momentum: which problem do optimisers solve if a step sees a part of the samples?

A gated linear network of five units on random data is trained by `train` with the logistic loss, on all samples or on
minibatches, at rates that decrease like 1/√t. ε of Adam is 1e-30. The weights start at a tenth of the published
size, so that they are soon forgotten. No theorem covers minibatches of networks.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

from implicit_bias.datasets import BinaryTask
from implicit_bias.gates import HyperplaneGates
from implicit_bias.margin.formulations import layers_of
from implicit_bias.networks import GatedLinearNetwork
from implicit_bias.studies.optimisers import common
from implicit_bias.studies.optimisers.common import LABELS, NORMS
from implicit_bias.studies.runner import Rows, Settings, Verdict, claims, product
from implicit_bias.training.layer_norms import BY_NAME
from implicit_bias.training.optimisers import Adam, Muon, Optimiser, Signum
from implicit_bias.training.sgd import train

TITLE = "Minibatches and momentum"
CLAIM = "On minibatches, momentum keeps Signum and Muon near their problems, and Adam leaves its own."
CLAIMS = claims("optimisers", "batches")
COORDINATES = ("dataset", "train_size", "steps", "seed")
#: η at t = 1 of signs and of Adam, and of Muon.
RATE, MUON_RATE = 0.01, 0.1
#: Initial weights, as a share of the published ones.
START = 0.1
#: Optimisers with their norm.
METHODS: dict[str, tuple[str, Callable[..., Optimiser]]] = {
    "sign": ("sign", partial(Signum, momentum=0.0)),
    "Signum .9": ("sign", partial(Signum, momentum=0.9)),
    "Signum .99": ("sign", partial(Signum, momentum=0.99)),
    "Adam .999": ("sign", partial(Adam, beta2=0.999, eps=1e-30)),
    "Adam .95": ("sign", partial(Adam, beta2=0.95, eps=1e-30)),
    "Muon": ("muon", partial(Muon, momentum=0.0)),
    "Muon .95": ("muon", partial(Muon, momentum=0.95)),
}
#: Methods that minibatches lead away, and those that momentum keeps, with its value in the verdict.
ADAMS = ("Adam .999", "Adam .95")
KEPT = {"Signum .9": "0.9", "Signum .99": "0.99", "Muon .95": "0.95"}
data = common.data


def grid(quick: bool) -> list[Settings]:
    """Return three draws of random data with n = 60, batches of 60, 20 and 6, and two numbers of steps.

    Quick: one draw, fewer of all.
    """
    fixed = {"dataset": ("random",), "train_size": (60,), "units": (5,), "method": ([*METHODS],)}
    if quick:
        return product(**fixed, batch=([60, 20],), steps=(300,), seed=(1,))
    return product(**fixed, batch=([60, 20, 6],), steps=(8000, 30_000), seed=(11, 12, 13))


def rows(settings: Settings, task: BinaryTask) -> Rows:
    """Return a row for each method and batch size: method, norm, batch, ratio, and to_gd … to_frobenius.

    `ratio` is N(θ)² divided by margin and certified optimum, infinite unless the network separates.
    """
    gates = HyperplaneGates(settings["units"], 2, seed=settings["seed"]).fit(task.X_pool)
    best, features = common.optima(task.X_train, task.y_train, gates), gates(task.X_train)
    table: Rows = []
    for method in settings["method"]:
        norm = METHODS[method][0]
        for batch in settings["batch"]:
            network = started(gates)
            config = _config(method, batch, settings)
            train(network, task.X_train, task.y_train, config, seed=settings["seed"], every=settings["steps"])
            W = network.effective_weights()
            margin = float((task.y_train * (features @ W)).min())
            ratio = size(network, norm) ** 2 / (margin * best[norm][1].lower_bound) if margin > 0 else np.inf
            table.append({"method": method, "norm": norm, "batch": batch, "ratio": ratio} | common.distances(W, best))
    return table


def started(gates: HyperplaneGates) -> GatedLinearNetwork:
    """Return a network in float64 with `START` times the published initial weights, whose readout bias stays 0."""
    network = GatedLinearNetwork(gates).double()
    with torch.no_grad():
        for weight in network.parameters():
            weight.mul_(START)
    for bias in network.readout_biases():
        torch.nn.init.zeros_(bias.requires_grad_(False))
    return network


def size(network: GatedLinearNetwork, norm: str) -> float:
    """Return N(θ) = max(‖v‖, ‖U‖), for readout v and hidden weights U, each in its norm by `NORMS`."""
    v = torch.as_tensor(common.readout(network))[:, None]
    layers = network.hidden_weights[0].detach().reshape(len(v), -1), v
    names = layers_of(NORMS[norm])
    return max(float(BY_NAME[name].value(layer)) for name, layer in zip(names, layers, strict=True))


def _config(method: str, batch: int, settings: Settings) -> Optimiser:
    """Return the optimiser; its first rate is η √(batch/n), so that after t steps, at an epoch's end, it is η/√t."""
    norm, optimiser = METHODS[method]
    rate = (MUON_RATE if norm == "muon" else RATE) * (batch / settings["train_size"]) ** 0.5
    return optimiser(steps=settings["steps"], batch_size=batch, lr=rate, lr_decay=0.5)


def cost(settings: Settings) -> float:
    return len(settings["method"]) * len(settings["batch"]) * (0.1 + settings["steps"] * 4e-4)


def settled(table: pd.DataFrame) -> pd.DataFrame:
    """Return, for each method, the rows of the number of steps whose worst ratio on full batches is least."""
    full = table[table.batch == table.train_size].groupby(["method", "steps"]).ratio.max()
    steps = {method: full[method].idxmin() for method in METHODS}
    return table[table.steps == table.method.map(steps)]


def draw(table: pd.DataFrame) -> Figure:
    """Plot a matrix: a row for each method and batch size, a column for each norm, medians over draws."""
    return common.matrices(settled(table).assign(kind="batch " + table.batch.astype(str)), LABELS, TITLE)


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    """Decide on sign descent and Adam without, and on Signum and Muon with momentum on minibatches."""
    n, tried = table.train_size.max(), settled(table)
    tried = tried.assign(nearest=common.nearest(tried))
    parts = {method: tried[(tried.method == method) & (tried.batch < n)] for method in METHODS}
    full = tried[tried.batch == n].groupby("method").ratio.max()
    outcomes = []
    for name, claim in (("sign", "sign"), *((name, "Adam") for name in ADAMS)):
        subset = parts[name]
        left = subset.to_gd < subset.to_sign if claim == "Adam" else subset.nearest != subset.norm
        holds = bool(left.all()) if full[name] <= CLAIMS[claim].limits["reached"] else None
        outcomes.append(CLAIMS[claim].verdict(_text(subset, full[name]), holds, second=f"0{name.split()[-1]}"))
    for name, momentum in KEPT.items():
        subset, limits = parts[name], CLAIMS["momentum"].limits
        third = subset[subset.batch == subset.batch.max()]
        holds = bool(((_to_own_norm(third) <= limits["near"]) & (third.nearest == third.norm)).all())
        names = {"momentum": momentum, "optimiser": name.split()[0]}
        decided = holds if full[name] <= limits["reached"] else None
        outcomes.append(CLAIMS["momentum"].verdict(_text(third, full[name]), decided, **names))
    return outcomes


def _to_own_norm(part: pd.DataFrame) -> pd.Series:
    return pd.Series([row[f"to_{row['norm']}"] for _, row in part.iterrows()], part.index)


def _text(part: pd.DataFrame, full: float) -> str:
    means = part.assign(own=_to_own_norm(part)).groupby("batch")[["own", "to_gd"]].mean()
    texts = [f"batch {batch}: own {to_own:.2f}, {LABELS['gd']} {gd:.2f}" for batch, to_own, gd in means.itertuples()]
    return "; ".join([*texts, f"full batch up to {full:.3f}"])
