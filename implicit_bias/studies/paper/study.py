"""The three comparisons: rows, cost and gates of a cell.

`compare_gln` compares GD-GLN of two layers with SVM-L2, SVM-GLN and the Frobenius norm of ζ (figures 2 and 4 of the
paper). `compare_relu` compares GD-ReLU with SVM-RC, SVM-LC and SVM-HL, which have random, learned and no contexts
(figures 3 and 5). `compare_shallow_gln` compares GD-shallow, one layer with a linear model per region, with one linear
SVM per region (figure 2c).
"""

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from implicit_bias._utils.checks import Array
from implicit_bias.datasets import BinaryTask
from implicit_bias.gates import Gates, HyperplaneGates, OccupiedRegions, RandomHalfSpaces
from implicit_bias.margin.formulations import svm_hl, svm_lc, svm_rc, svm_shallow
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solution import Solution, Status
from implicit_bias.metrics import error, expected_inconsistency, inconsistency, normalised_margin
from implicit_bias.networks import GatedLinearNetwork, GatedNetwork, ReLUNetwork
from implicit_bias.solvers import solve
from implicit_bias.studies.paper.osqp import osqp_choice
from implicit_bias.studies.paper.published import (
    Equation23,
    published_half_spaces,
    published_scores,
    published_svm_gln,
    published_svm_l2,
    published_training,
)
from implicit_bias.studies.runner.experiment import Rows
from implicit_bias.studies.settings import Settings
from implicit_bias.training.sgd import train


@dataclass(frozen=True, eq=False)
class Scored:
    """Row of a model, and its scores on the validation set, None if no weights separate the training samples."""

    scores: Array | None
    row: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Trained(Scored):
    """Row and scores of a trained network, and the network."""

    network: GatedNetwork


@dataclass(frozen=True, eq=False)
class Solved(Scored):
    """Row and scores of a margin problem, the problem, and its solution."""

    problem: MarginProblem
    solution: Solution


def trained(
    model: str, network: GatedNetwork, task: BinaryTask, settings: Settings, momentum: float, version: str = "corrected"
) -> Trained:
    """Train a network in place; its row has the name `model`. Raises KeyboardInterrupt after Ctrl-C."""
    sgd, seed = published_training(settings["steps"], settings["seed"], momentum, _faults(settings, version))
    history = train(network, task.X_train, task.y_train, sgd, seed=seed, every=sgd.steps)
    if history.interrupted:
        raise KeyboardInterrupt
    last, scores = history.table.iloc[-1], network.decision_function(task.X_val)
    row = {"model": model, "momentum": momentum, "status": "TRAINED", "train_error": float(last.error)}
    row |= {"error": error(scores, task.y_val), "iterations": int(last.step), "seconds": history.seconds}
    return Trained(scores, row | {"solver": "SGD"}, network)


def solved(problem: MarginProblem, task: BinaryTask, settings: Settings) -> Solved:
    """Solve `problem` with the solver and tolerance in `settings`; return row, scores and solution.

    `closed` in the row is the number of training samples for which all gates are closed. If there are any, no weights
    separate the samples. Raises KeyboardInterrupt if Ctrl-C ends the solver.
    """
    solution = solve(problem, settings["solver"], tol=settings["tol"])
    if solution.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    scores = problem.decision_function(solution.weights, task.X_val) if solution.objective < np.inf else None
    said = ("objective", "gap", "farkas_residual", "iterations", "seconds", "solver")
    row = {"model": problem.name, "status": solution.status.name} | {name: getattr(solution, name) for name in said}
    row |= {"closed": int(problem.features.closed().sum()), "normalised_margin": 1 / solution.objective}
    row |= {"error": np.nan if scores is None else error(scores, task.y_val)}
    return Solved(scores, row, problem, solution)


def comparison_rows(
    one: Trained,
    solutions: Sequence[Scored],
    reference: Solved,
    *,
    version: str = "corrected",
    weights: Array | None = None,
    compared: Array | None = None,
) -> Rows:
    """Return the row of a trained network, and a row for each of the solutions that it is compared with.

    The network's objective is ‖W‖ / min margin of its effective weights (or of `weights`), in the norm of `reference`,
    the problem that its implicit bias predicts. Its gap is relative to the certified lower bound of `reference`. The
    inconsistencies of the solutions are those with the scores `compared`, by default the network's own.
    """
    compared = one.scores if compared is None else compared
    margin = normalised_margin(reference.problem, one.network.effective_weights() if weights is None else weights)
    objective = 1 / margin if margin > 0 else np.inf
    lower = reference.solution.lower_bound
    gap = 1 - lower / objective if margin > 0 and lower < np.inf else np.inf
    rows = [one.row | {"objective": objective, "gap": gap, "normalised_margin": margin}]
    for other in solutions:
        disagreement = dict.fromkeys(("inconsistency", "expected_inconsistency"), np.nan)
        if other.scores is not None:
            disagreement["inconsistency"] = inconsistency(compared, other.scores)
            disagreement["expected_inconsistency"] = expected_inconsistency(one.row["error"], other.row["error"])
        rows.append({"momentum": one.row["momentum"]} | other.row | disagreement)
    return [row | {"version": version} for row in rows]


def _faults(settings: Settings, version: str) -> tuple[str, ...]:
    return tuple(settings["faults"]) if version == "published" else ()


def _trainings(settings: Settings) -> int:
    return len(settings["versions"]) * len(settings["momentum"])


def _compared(one: Trained, gates: HyperplaneGates, task: BinaryTask, faults: tuple[str, ...]) -> Array | None:
    return published_scores(one.network, gates, task.X_val, faults) if faults else None


def _hyperplanes(settings: Settings) -> HyperplaneGates:
    return HyperplaneGates(settings["units"], settings["contexts"], settings["seed"], settings["cutoff"])


def _gln_rows(settings: Settings, task: BinaryTask) -> Rows:
    X, y, gates = task.X_train, task.y_train, _hyperplanes(settings).fit(task.X_pool)
    initial = GatedLinearNetwork(gates)
    found: Rows = []
    for version in settings["versions"]:
        faults = _faults(settings, version)
        group_lasso = solved(published_svm_gln(X, y, gates, faults), task, settings)
        l2 = published_svm_l2(X, y, gates, faults)
        chosen = _chosen(l2, l2.norm, group_lasso, task) if isinstance(l2.norm, Equation23) else None
        solutions = [chosen or solved(l2, task, settings), group_lasso]
        if version == "corrected":
            solutions.append(solved(replace(svm_shallow(X, y, gates), name="SVM-Fro"), task, settings))
        for momentum in settings["momentum"]:
            one = trained("GD-GLN", copy.deepcopy(initial), task, settings, momentum, version)
            compared = _compared(one, gates, task, faults)
            found += comparison_rows(one, solutions, group_lasso, version=version, compared=compared)
    return found


def _chosen(problem: MarginProblem, norm: Equation23, separable: Solved, task: BinaryTask) -> Scored:
    """Return row and scores of the published SVM-L2: OSQP's choice among many solutions, without a certificate."""
    # Both problems have the same features, and therefore solutions for the same samples.
    status = separable.solution.status
    row = {"model": "SVM-L2", "status": status.name, "closed": separable.row["closed"], "solver": "OSQP"}
    if status.inseparable:
        return Scored(None, row | {"objective": np.inf, "error": np.nan})
    start = time.perf_counter()
    choice = osqp_choice(problem)
    row |= {"status": "UNCERTIFIED", "iterations": choice.iterations, "seconds": time.perf_counter() - start}
    margin = float((problem.y * problem.features.apply(choice.weights)).min())
    size = float(np.linalg.norm(norm.published @ choice.weights))
    scores = problem.decision_function(choice.weights, task.X_val)
    row |= {"objective": size / margin if margin > 0 else np.inf, "error": error(scores, task.y_val)}
    return Scored(scores, row)


def _gln_cost(settings: Settings) -> float:
    n, units, contexts = settings["train_size"], settings["units"], settings["contexts"]
    # Products of a step: with the kernel, or with the 626 inputs of MNIST that are not always 0.
    products = min((contexts - 1) * n, (2 * contexts - 1) * 626)
    descent = _trainings(settings) * settings["steps"] / 3200 * (0.5 + units * (0.0038 + 1.3e-5 * products))
    gates = units * contexts
    return descent + 2.5 * len(settings["versions"]) * (n / 2000) ** 2 * (1 + gates / 200) + 0.3 + 0.008 * gates


def _half_spaces(settings: Settings, version: str = "corrected", momentum: float = 0.0) -> RandomHalfSpaces:
    faults = _faults(settings, version)
    return published_half_spaces(settings["units"], settings["seed"], settings["cutoff"], faults, momentum=momentum)


def _draws(settings: Settings) -> dict[tuple[str, float], tuple[int, bool]]:
    pairs = product(settings["versions"], settings["momentum"])
    gates = {pair: _half_spaces(settings, *pair) for pair in pairs}
    return {pair: (one.seed, one.always_on) for pair, one in gates.items()}


def _relu_rows(settings: Settings, task: BinaryTask) -> Rows:
    X, y, draws = task.X_train, task.y_train, _draws(settings)
    random = {}
    for pair, draw in draws.items():
        if draw not in random:
            random[draw] = solved(svm_rc(X, y, _half_spaces(settings, *pair).fit(task.X_pool)), task, settings)
    found: Rows = []
    for version in settings["versions"]:
        for momentum in settings["momentum"]:
            network = ReLUNetwork(X.shape[1], settings["units"], seed=settings["seed"])
            one = trained("GD-ReLU", network, task, settings, momentum, version)
            learned, hidden = (solved(build(X, y, network), task, settings) for build in (svm_lc, svm_hl))
            solutions = [random[draws[version, momentum]], learned, hidden]
            found += comparison_rows(one, solutions, learned, version=version)
    return found


def _relu_cost(settings: Settings) -> float:
    n, units = settings["train_size"], settings["units"]
    # Products of a step: with the kernel, or with the 626 inputs of MNIST that are not always 0, twice.
    products = min(n, 2 * 626)
    descent = _trainings(settings) * settings["steps"] / 3200 * (0.5 + units * (0.0013 + 1.4e-5 * products))
    problems = len(set(_draws(settings).values())) + 2 * _trainings(settings)
    return float(descent + problems * (n / 2000) ** 2 * (1 + 0.012 * units) + 0.3 + 0.012 * units)


def _shallow_rows(settings: Settings, task: BinaryTask) -> Rows:
    gates = _hyperplanes(settings | {"units": 1}).fit(task.X_pool)
    regions = OccupiedRegions(gates).fit(task.X_train)
    solution = solved(svm_shallow(task.X_train, task.y_train, regions), task, settings)
    initial = GatedLinearNetwork(gates, readout=False)
    found: Rows = []
    for version in settings["versions"]:
        for momentum in settings["momentum"]:
            one = trained("GD-shallow", copy.deepcopy(initial), task, settings, momentum, version)
            weights = one.network.effective_weights()[regions.occupied_]
            compared = _compared(one, gates, task, _faults(settings, version))
            found += comparison_rows(one, [solution], solution, version=version, weights=weights, compared=compared)
    return found


def _shallow_cost(settings: Settings) -> float:
    n = settings["train_size"] / 2000
    descent = _trainings(settings) * settings["steps"] / 3200 * (0.1 + 1.3 * n)
    regions = n**2 * (1.2 + 4 * min(1.0, settings["contexts"] / 8192))
    return float(descent + regions + 4 * settings["contexts"] / 32768 + 0.3)


@dataclass(frozen=True)
class Comparison:
    """Functions that compute the cells of a study, each of the settings of a cell."""

    rows: Callable[[Settings, BinaryTask], Rows]
    #: Seconds of a cell on one core, with MNIST.
    cost: Callable[[Settings], float]
    #: Gates of a cell before `fit`.
    gates: Callable[[Settings], Gates]


#: Comparisons by the names of `studies.STUDIES`.
COMPARISONS = {
    "compare_gln": Comparison(_gln_rows, _gln_cost, _hyperplanes),
    "compare_relu": Comparison(_relu_rows, _relu_cost, _half_spaces),
    "compare_shallow_gln": Comparison(_shallow_rows, _shallow_cost, _hyperplanes),
}
