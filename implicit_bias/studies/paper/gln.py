"""GD-GLN of two layers against SVM-L2, SVM-GLN and the Frobenius norm of ζ (figures 2 and 4 of the paper)."""

import copy
import time
from dataclasses import replace
from typing import Any

import numpy as np

from implicit_bias._utils.checks import Array
from implicit_bias.datasets import BinaryTask
from implicit_bias.margin.formulations import svm_shallow
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.networks import GatedLinearNetwork
from implicit_bias.studies.paper import TITLES, comparison
from implicit_bias.studies.paper.comparison import Scored
from implicit_bias.studies.paper.osqp import osqp_choice
from implicit_bias.studies.paper.published import Equation23, published_scores, published_svm_gln, published_svm_l2
from implicit_bias.studies.runner.experiment import Rows
from implicit_bias.studies.settings import Settings

TITLE = TITLES["compare_gln"]
SHARED = comparison
gates = comparison.hyperplanes
#: Size of a unit, relative to the largest, up to which it counts as zero.
KEPT = 1e-3


def grid(quick: bool, **options: Any) -> list[Settings]:
    return comparison.grid_of("compare_gln", gates, options, quick)


def rows(settings: Settings, task: BinaryTask) -> Rows:
    X, y, gates = task.X_train, task.y_train, comparison.hyperplanes(settings).fit(task.X_pool)
    initial = GatedLinearNetwork(gates)
    table: Rows = []
    for version in settings["versions"]:
        faults = comparison.faults_of(settings, version)
        group_lasso = comparison.solved(published_svm_gln(X, y, gates, faults), task, settings)
        l2 = published_svm_l2(X, y, gates, faults)
        chosen = _chosen(l2, l2.norm, group_lasso, task) if isinstance(l2.norm, Equation23) else None
        solutions = [chosen or comparison.solved(l2, task, settings), group_lasso]
        if version == "corrected":
            solutions.append(comparison.solved(replace(svm_shallow(X, y, gates), name="SVM-Fro"), task, settings))
        for one in solutions:
            if isinstance(one, comparison.Solved) and one.scores is not None:
                one.row.update(of_units(one.solution.weights.reshape(gates.units, gates.contexts, -1)))
        for momentum in settings["momentum"]:
            network = copy.deepcopy(initial)
            trained = comparison.trained("GD-GLN", network, task, settings, momentum, version)
            compared = published_scores(network, gates, task.X_val, faults)
            weights = network.effective_weights()
            table += comparison.comparison_rows(
                trained, weights, solutions, group_lasso, task, settings, version, compared=compared
            )
    return table


def of_units(parts: Array) -> dict[str, float]:
    """Return for ζ (H, K, d) the share of units h `kept`, and how far predictors of neighbouring regions are `apart`.

    A unit is kept if ‖ζ_h‖ > `KEPT` max ‖ζ_h‖. Neighbours differ in the context of one unit. Apart is the mean over
    units of Σ_c ‖ζ_hc − ζ̄_h‖ over ‖Σ_h ζ̄_h‖, with means ζ̄_h over contexts; two contexts have Σ_c = ‖ζ_h1 − ζ_h2‖.
    """
    sizes, means = np.linalg.norm(parts, axis=(1, 2)), parts.mean(axis=1, keepdims=True)
    apart = np.linalg.norm(parts - means, axis=2).sum(axis=1).mean() / np.linalg.norm(means.sum(axis=0))
    return {"kept": float(np.mean(sizes > KEPT * sizes.max())), "apart": float(apart)}


def _chosen(problem: MarginProblem, norm: Equation23, separable: comparison.Solved, task: BinaryTask) -> Scored:
    """Return row and scores of the published SVM-L2: OSQP's choice among many solutions, without a certificate."""
    # Both problems have the same features, and therefore solutions for the same samples.
    status = separable.solution.status
    row = {"model": "SVM-L2", "status": status.name, "closed": separable.row["closed"], "solver": "OSQP"}
    if status.inseparable:
        return Scored(None, row | {"objective": np.inf})
    start = time.perf_counter()
    weights, iterations = osqp_choice(problem)
    row |= {"status": "UNCERTIFIED", "iterations": iterations, "seconds": time.perf_counter() - start}
    margin = float((problem.y * problem.features.apply(weights)).min())
    size = float(np.linalg.norm(norm.published @ weights))
    row |= {"objective": size / margin if margin > 0 else np.inf}
    return Scored(problem.decision_function(weights, task.X_val), row)


def cost(settings: Settings) -> float:
    n, units, contexts = settings["train_size"], settings["units"], settings["contexts"]
    # Products of a step: with the kernel, or with the 626 inputs of MNIST that are not always 0.
    products = min((contexts - 1) * n, (2 * contexts - 1) * 626)
    descent = (
        len(comparison.trainings(settings)) * settings["steps"] / 3200 * (0.5 + units * (0.0038 + 1.3e-5 * products))
    )
    gates = units * contexts
    return descent + 2.5 * len(settings["versions"]) * (n / 2000) ** 2 * (1 + gates / 200) + 0.3 + 0.008 * gates
