"""GD-GLN of two layers against SVM-L2, SVM-GLN and the Frobenius norm of ζ (the paper's figures 2 and 4)."""

import copy
import time
from dataclasses import replace

import numpy as np

from implicit_bias.datasets import BinaryTask
from implicit_bias.margin.formulations import svm_shallow
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.metrics import error
from implicit_bias.networks import GatedLinearNetwork
from implicit_bias.studies.paper.osqp import osqp_choice
from implicit_bias.studies.paper.published import Equation23, published_scores, published_svm_gln, published_svm_l2
from implicit_bias.studies.paper.studies import STUDIES
from implicit_bias.studies.paper.study import Scored, Solved, comparison_rows, faults_of, solved, trained
from implicit_bias.studies.paper.study import hyperplanes as gates_of
from implicit_bias.studies.runner.experiment import Rows, Settings

__all__ = ["cost", "gates_of", "rows"]
REFERENCE = STUDIES["compare_gln"].reference


def rows(settings: Settings, task: BinaryTask) -> Rows:
    """Every network and version: the certified solutions and what is published."""
    X, y, gates = task.X_train, task.y_train, gates_of(settings).fit(task.X_pool)
    initial = GatedLinearNetwork(gates)
    networks = [trained(copy.deepcopy(initial), task, settings, momentum) for momentum in settings["momentum"]]
    found: Rows = []
    for version in settings["versions"]:
        faults = faults_of(settings, version)
        judge = solved(published_svm_gln(X, y, gates, faults), task, settings)
        l2 = published_svm_l2(X, y, gates, faults)
        chosen = _chosen(l2, l2.norm, judge, task) if isinstance(l2.norm, Equation23) else None
        solutions = [chosen or solved(l2, task, settings), judge]
        if version == "corrected":
            solutions.append(solved(replace(svm_shallow(X, y, gates), name="SVM-Fro"), task, settings))
        for one in networks:
            compared = published_scores(one.network, gates, task.X_val, faults) if faults else None
            found += comparison_rows(REFERENCE, one, solutions, judge, version=version, compared=compared)
    return found


def _chosen(problem: MarginProblem, norm: Equation23, judge: Solved, task: BinaryTask) -> Scored:
    """The published SVM-L2, OSQP's choice among many solutions: not certified, and taken as it came.

    `judge` has the same features, so that both are separable or neither. The objective is ‖Aζ‖ / min margin.
    """
    row = {"model": "SVM-L2", "status": judge.solution.status.name, "closed": judge.row["closed"], "error": np.nan}
    if judge.solution.status.inseparable:
        return Scored(None, row | {"objective": np.inf, "solver": "OSQP"})
    start = time.perf_counter()
    choice = osqp_choice(problem)
    row |= {"status": "UNCERTIFIED", "iterations": choice.iterations, "seconds": time.perf_counter() - start}
    margin = float((problem.y * problem.features.apply(choice.weights)).min())
    size = float(np.linalg.norm(norm.published @ choice.weights))
    row |= {"objective": size / margin if margin > 0 else np.inf, "solver": "OSQP"}
    scores = problem.decision_function(choice.weights, task.X_val)
    return Scored(scores, row | {"error": error(scores, task.y_val)})


def cost(settings: Settings) -> float:
    n, units, contexts = settings["train_size"], settings["units"], settings["contexts"]
    # Products of a step: with the kernel, or with the 626 inputs of MNIST that are not always 0.
    products = min((contexts - 1) * n, (2 * contexts - 1) * 626)
    descent = len(settings["momentum"]) * settings["steps"] / 3200 * (0.5 + units * (0.0038 + 1.3e-5 * products))
    gates = units * contexts
    return descent + 2.5 * len(settings["versions"]) * (n / 2000) ** 2 * (1 + gates / 200) + 0.3 + 0.008 * gates
