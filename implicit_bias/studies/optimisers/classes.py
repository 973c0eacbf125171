"""Ten classes and one layer: paths of optimisers against the optima of four norms of the weights.

A linear model of ten classes, f(x) = W x, descends by `SteepestDescent` on the loss of all pairs of a sample and a
wrong class, which the softmax loss nears. Norms are those of `svm_classes(norm=…)`.
"""

from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import nn

from implicit_bias.datasets.images import ImageClasses
from implicit_bias.gates import ConstantGate
from implicit_bias.margin.classes import svm_classes
from implicit_bias.metrics import optimality_ratio
from implicit_bias.networks import TorchNetwork
from implicit_bias.solvers import solve
from implicit_bias.studies.optimisers import common
from implicit_bias.studies.runner import Rows, Settings, Verdict, claims, product
from implicit_bias.studies.runner.cells import drawn_images, image_classes
from implicit_bias.training.limit import descend_to_limit
from implicit_bias.training.steepest import SteepestDescent

TITLE = "Ten classes: which margin problem does each optimiser solve?"
CLAIM = "On ten classes, each optimiser ends at the optimum of its own norm, where its path reaches its limit."
CLAIMS = claims("optimisers", "classes")
COORDINATES = ("dataset", "train_size", "seed")
CLASSES = 10
#: Standard deviation of the initial weights.
START = 1e-3
#: Norms of `svm_classes`, with their names.
NORMS = {"frobenius": "Frobenius", "entries": "entries", "spectral": "spectral", "l1": "l1"}
#: Norm of each optimiser, and its options of `SteepestDescent`.
OWN = {"GD": "frobenius", "sign": "entries", "Signum": "entries", "Adam": "entries", "Muon": "spectral"}
METHODS: dict[str, tuple[str, dict[str, Any]]] = {name: (norm, common.OPTIMISERS[name]) for name, norm in OWN.items()}
METHODS["coordinate"] = ("l1", {"optimiser": ("l1", "l_inf"), "step": 0.3, "momentum": 0.0})
data = image_classes


def grid(quick: bool) -> list[Settings]:
    """Return three draws of 100 digits and of 100 MNIST images; quick: one draw of 40 digits, fewer steps."""
    fixed = {"held_out": (0,), "steps": (300 if quick else 6000,)}
    if quick:
        return product(dataset=("digits",), train_size=(40,), **fixed, seed=(1,))
    return product(dataset=("digits", "mnist"), train_size=(100,), **fixed, seed=(11, 12, 13))


def rows(settings: Settings, images: ImageClasses) -> Rows:
    """Return a row for each optimiser: method, norm (its own), end, error (test), and

    ratio: ‖W‖ divided by margin and certified optimum in the own norm.
    to_frobenius … to_l1: likewise in each norm.
    apart_frobenius … apart_l1: share of test images with another class than that of each optimum.
    gap: largest certified gap.
    """
    X, labels = drawn_images(settings, images)
    best = {}
    for norm in NORMS:
        problem = svm_classes(X, labels, ConstantGate(), norm=norm)
        best[norm] = problem, solve(problem, tol=common.TOL)
    if any(solution.status.inseparable for _, solution in best.values()):
        return []
    answers = {norm: problem.predict(solution.weights, images.X_test) for norm, (problem, solution) in best.items()}
    gap = max(solution.gap for _, solution in best.values())
    table: Rows = []
    for method, (norm, options) in METHODS.items():
        module = nn.Linear(X.shape[1], CLASSES, bias=False).double()
        start = START * np.random.default_rng(settings["seed"]).normal(size=(CLASSES, X.shape[1]))
        module.weight.data = torch.as_tensor(start)
        network = TorchNetwork(module, X.shape[1])
        config = SteepestDescent(**options, max_steps=settings["steps"], max_seconds=np.inf)
        end = descend_to_limit(network, X, labels, config).end
        W = module.weight.detach().numpy()
        ratios = {name: optimality_ratio(one, W, solution.lower_bound) for name, (one, solution) in best.items()}
        predicted = best[norm][0].predict(W, images.X_test)
        row = {"method": method, "norm": norm, "end": end, "error": float(np.mean(predicted != images.y_test))}
        row |= {"ratio": ratios[norm], "gap": gap} | {f"to_{name}": ratio for name, ratio in ratios.items()}
        row |= {f"apart_{name}": float(np.mean(predicted != answer)) for name, answer in answers.items()}
        table.append(row)
    return table


def cost(settings: Settings) -> float:
    step = 1e-3 if settings["dataset"] == "mnist" else 4e-4
    return 5.0 + len(METHODS) * settings["steps"] * step


def draw(table: pd.DataFrame) -> Figure:
    """Plot a matrix for each data set: a row for each path, a column for each norm, medians over draws."""
    return common.matrices(table.assign(kind="path"), NORMS, TITLE)


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    reached, decided = CLAIMS["wins"].limits["reached"], []
    tried = table.assign(wins=common.nearest(table) == table.norm)
    for method in METHODS:
        text, holds = common.winners(tried[tried.method == method], reached)
        decided.append(CLAIMS["wins"].verdict(text, holds, norm=method))
    return decided
