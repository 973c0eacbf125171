"""What the three comparisons share: how the rows of a cell are computed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from implicit_bias._utils.checks import Array
from implicit_bias.datasets import BinaryTask
from implicit_bias.gates import HyperplaneGates
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solution import Solution, Status
from implicit_bias.metrics import error, expected_inconsistency, inconsistency, normalised_margin
from implicit_bias.networks import GatedNetwork
from implicit_bias.solvers import solve
from implicit_bias.studies.runner.experiment import Rows, Settings
from implicit_bias.training.optimisers import SGD
from implicit_bias.training.sgd import train

#: The columns of every comparison's table, in order.
COLUMNS = (
    *("study", "dataset", "train_size", "units", "contexts", "seed", "split", "cutoff"),
    *("momentum", "version", "model", "status"),
    *("train_error", "closed", "error", "inconsistency", "expected_inconsistency", "objective", "gap"),
    *("farkas_residual", "normalised_margin", "iterations", "seconds", "solver"),
)


def hyperplanes(settings: Settings) -> HyperplaneGates:
    """The gates of a cell of gated linear networks, not yet fitted.

    >>> hyperplanes({"units": 3, "contexts": 4, "seed": 1, "cutoff": "median"}).units
    3
    """
    return HyperplaneGates(settings["units"], settings["contexts"], settings["seed"], settings["cutoff"])


def faults_of(settings: Settings, version: str) -> tuple[str, ...]:
    """The faults that a version of a cell has.

    >>> faults_of({"faults": ["one draw"]}, "corrected")
    ()
    """
    return tuple(settings["faults"]) if version == "published" else ()


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained network, its scores on the validation set, and what its row says of the training."""

    network: GatedNetwork
    scores: np.ndarray
    row: dict[str, Any]


def trained(network: GatedNetwork, task: BinaryTask, settings: Settings, momentum: float) -> Trained:
    """Train `network` as published."""
    sgd = SGD(steps=settings["steps"], momentum=momentum)
    history = train(network, task.X_train, task.y_train, sgd, seed=settings["seed"], every=sgd.steps)
    if history.interrupted:
        raise KeyboardInterrupt
    last, scores = history.table.iloc[-1], network.decision_function(task.X_val)
    row = {"momentum": momentum, "status": "TRAINED", "train_error": float(last.error)}
    row |= {"error": error(scores, task.y_val), "iterations": int(last.step), "seconds": history.seconds}
    return Trained(network, scores, row | {"solver": "SGD"})


@dataclass(frozen=True, eq=False)
class Scored:
    """A model's scores on the validation set, none without separating weights, and its row."""

    scores: np.ndarray | None
    row: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Solved(Scored):
    """A margin problem and its answer as well."""

    problem: MarginProblem
    solution: Solution


def solved(problem: MarginProblem, task: BinaryTask, settings: Settings) -> Solved:
    """Solve `problem` as `settings` say.

    `closed` counts the training samples whose every gate is closed: no weights classify them, none can separate.
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
    reference: str,
    trained: Trained,
    solutions: Sequence[Scored],
    judge: Solved,
    *,
    version: str,
    weights: Array | None = None,
    compared: Array | None = None,
) -> Rows:
    """The rows of one trained network and the solutions it is compared with.

    The network is judged by the problem that its bias predicts (`judge`): its objective is ‖W‖ / min margin of its
    effective weights (`weights`, if given) in that norm, its gap the distance to the certified lower bound. Its
    predictions are those of the scores `compared`, if they are not its own.
    """
    compared = trained.scores if compared is None else compared
    margin = normalised_margin(judge.problem, trained.network.effective_weights() if weights is None else weights)
    objective = 1 / margin if margin > 0 else np.inf
    lower = judge.solution.lower_bound
    gap = 1 - lower / objective if margin > 0 and lower < np.inf else np.inf
    own = trained.row | {"model": reference, "objective": objective, "gap": gap, "normalised_margin": margin}
    rows = [own]
    for one in solutions:
        disagreement = dict.fromkeys(("inconsistency", "expected_inconsistency"), np.nan)
        if one.scores is not None:
            disagreement["inconsistency"] = inconsistency(compared, one.scores)
            disagreement["expected_inconsistency"] = expected_inconsistency(own["error"], one.row["error"])
        rows.append({"momentum": own["momentum"]} | one.row | disagreement)
    return [row | {"version": version} for row in rows]
