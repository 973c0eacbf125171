"""Options and cells of the three comparisons, and their rows of trained networks and margin problems."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from implicit_bias._utils.checks import Array, as_count, one_of
from implicit_bias.datasets import BinaryTask, dataset_names
from implicit_bias.gates import Gates, HyperplaneGates
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solution import Solution, Status
from implicit_bias.metrics import expected_inconsistency, normalised_margin
from implicit_bias.networks import GatedNetwork, ReLUNetwork
from implicit_bias.solvers import solve, solver_names
from implicit_bias.solvers.base import as_tolerance
from implicit_bias.studies.collection import settled
from implicit_bias.studies.paper import COMPARISONS, SOURCE
from implicit_bias.studies.paper.claims import CLAIMS
from implicit_bias.studies.paper.figures import comparison_figures
from implicit_bias.studies.paper.published import published_predictions, published_training
from implicit_bias.studies.paper.summary import readable
from implicit_bias.studies.paper.verdicts import verdicts
from implicit_bias.studies.runner.cells import binary_task
from implicit_bias.studies.runner.experiment import Rows
from implicit_bias.studies.settings import Settings, product
from implicit_bias.training.optimisers import SGD
from implicit_bias.training.sgd import train

__all__ = ["CLAIM", "CLAIMS", "COLUMNS", "COORDINATES", "NAME", "REVISION", "SOURCE"]
__all__ += ["data", "draw", "grid_of", "summary", "verdicts"]
#: Name of the files, and of stored cells.
NAME = "comparison"
CLAIM = (
    "Trained networks agree with the margin problem of their bias, and its norm generalises better than the true L2 "
    "norm."
)
REVISION = 4
COLUMNS = (
    *("study", "dataset", "train_size", "units", "contexts", "seed", "split", "cutoff"),
    *("momentum", "version", "model", "status"),
    *("train_error", "closed", "error", "inconsistency", "expected_inconsistency", "objective", "gap"),
    *("farkas_residual", "normalised_margin", "iterations", "seconds", "solver", "kept", "apart"),
)
COORDINATES = ("study", "train_size", "units", "contexts", "cutoff", "split", "seed")
data = binary_task
draw = comparison_figures
summary = readable


def grid_of(study: str, gates: Callable[[Settings], Gates], options: Settings, quick: bool = False) -> list[Settings]:
    """Return a cell for each combination of train_size, units, contexts and seed in `options`; seeds change fastest.

    Defaults are those of the command. Quick: the cells of the first seed. InputError is raised if a value is out of
    range, or if the `gates` of a cell cannot have it.
    """
    chosen = settled(COMPARISONS[study].options, options)
    one_of(chosen["dataset"], dataset_names(), "data set")
    for name in ("train_size", "units", "contexts", "seeds"):
        for value in chosen[name]:
            as_count(value, name, least=int(name != "seeds"))
    for momentum in chosen["momentum"]:
        SGD(steps=chosen["steps"], momentum=momentum)
    if chosen["solver"] is not None:
        one_of(chosen["solver"], solver_names(), "solver")
    as_tolerance(chosen["tol"])
    lists = {name: chosen.pop(name) for name in ("train_size", "units", "contexts")} | {"seed": chosen.pop("seeds")}
    about = {"study": study, "dataset": chosen["dataset"]}
    cells = [about | cell | chosen for cell in product(**lists) if not quick or cell["seed"] == lists["seed"][0]]
    for cell in cells:
        gates(cell).check()
    return cells


@dataclass(frozen=True, eq=False)
class Scored:
    """Row of a model, and its scores on the validation set, None if no weights separate the training samples."""

    scores: Array | None
    row: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Solved(Scored):
    """Row and scores of a margin problem, the problem, and its solution."""

    problem: MarginProblem
    solution: Solution


def trained(
    model: str, network: GatedNetwork, task: BinaryTask, settings: Settings, momentum: float, version: str = "corrected"
) -> Scored:
    """Train a network in place; return its row, with the name `model`, and scores.

    Raises KeyboardInterrupt after Ctrl-C.
    """
    steps, seed, learned = settings["steps"], settings["seed"], isinstance(network, ReLUNetwork)
    sgd, seed = published_training(steps, seed, momentum, faults_of(settings, version), autograd=learned)
    result = train(network, task.X_train, task.y_train, sgd, seed=seed, every=sgd.steps)
    if result.interrupted:
        raise KeyboardInterrupt
    last, scores = result.table.iloc[-1], network.decision_function(task.X_val)
    row = {"model": model, "momentum": momentum, "status": "TRAINED", "train_error": float(last.error)}
    row |= {"iterations": int(last.step), "seconds": result.seconds}
    return Scored(scores, row | {"solver": "SGD"})


def solved(problem: MarginProblem, task: BinaryTask, settings: Settings) -> Solved:
    """Solve `problem` with the solver and tolerance in `settings`; return row, scores and solution.

    `closed` in the row is the number of training samples for which all gates are closed. If there are any, no weights
    separate the samples. Raises KeyboardInterrupt if Ctrl-C ends the solver.
    """
    solution = solve(problem, settings["solver"], tol=settings["tol"])
    if solution.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    scores = problem.decision_function(solution.weights, task.X_val) if solution.objective < np.inf else None
    measured = ("objective", "gap", "farkas_residual", "iterations", "seconds", "solver")
    row = {"model": problem.name, "status": solution.status.name} | {name: getattr(solution, name) for name in measured}
    row |= {"closed": int(problem.features.closed().sum()), "normalised_margin": 1 / solution.objective}
    return Solved(scores, row, problem, solution)


def comparison_rows(
    one: Scored,
    weights: Array,
    solutions: Sequence[Scored],
    reference: Solved,
    task: BinaryTask,
    settings: Settings,
    version: str = "corrected",
    *,
    compared: Array | None = None,
) -> Rows:
    """Return the row of a trained network, and a row for each of the solutions that it is compared with.

    The network's objective is ‖W‖ / min margin of its effective `weights`, in the norm of `reference`, the problem that
    its implicit bias predicts. Its gap is relative to the certified lower bound of `reference`. Errors are those of the
    version's predictions. The inconsistencies of the solutions are those with the scores `compared`, by default the
    network's own.
    """
    faults = faults_of(settings, version)
    network_error = float(np.mean(published_predictions(one.scores, faults) != task.y_val))
    labels = published_predictions(one.scores if compared is None else compared, faults)
    margin = normalised_margin(reference.problem, weights)
    objective = 1 / margin if margin > 0 else np.inf
    lower = reference.solution.lower_bound
    gap = 1 - lower / objective if margin > 0 and lower < np.inf else np.inf
    rows = [one.row | {"error": network_error, "objective": objective, "gap": gap, "normalised_margin": margin}]
    for other in solutions:
        shares = dict.fromkeys(("error", "inconsistency", "expected_inconsistency"), np.nan)
        if other.scores is not None:
            predicted = published_predictions(other.scores, faults)
            shares["error"] = float(np.mean(predicted != task.y_val))
            shares["inconsistency"] = float(np.mean(predicted != labels))
            shares["expected_inconsistency"] = expected_inconsistency(network_error, shares["error"])
        rows.append({"momentum": one.row["momentum"]} | other.row | shares)
    held = {"version": version}
    if "cutoff" in settings:
        cutoff = settings["cutoff"]
        # A pair of quantile levels is text, too.
        held["cutoff"] = str(tuple(cutoff) if isinstance(cutoff, list) else cutoff)
    return [row | held for row in rows]


def faults_of(settings: Settings, version: str) -> tuple[str, ...]:
    """Return the faults of a version: those of the settings, or none."""
    return tuple(settings["faults"]) if version == "published" else ()


def trainings(settings: Settings) -> list[tuple[str, float]]:
    """Return version and momentum of every training of a cell."""
    return [*itertools.product(settings["versions"], settings["momentum"])]


def hyperplanes(settings: Settings) -> HyperplaneGates:
    """Return the hyperplane gates of a cell, before `fit`."""
    return HyperplaneGates(settings["units"], settings["contexts"], settings["seed"], settings["cutoff"])
