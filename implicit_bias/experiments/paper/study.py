"""What the three comparisons share: the configuration, the cells it spans, and the rows of a cell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from implicit_bias.comparison import error, expected_inconsistency, inconsistency, normalised_margin
from implicit_bias.datasets import BinaryTask
from implicit_bias.experiments.paper.published import FAULTS, check_faults
from implicit_bias.experiments.runner.experiment import Rows, Settings, product
from implicit_bias.gates.thresholds import Cutoff
from implicit_bias.ground.checks import Array, InputError, as_count, as_positive, one_of
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solvers import Solution, Status, solve, solver_names
from implicit_bias.networks import GatedNetwork
from implicit_bias.training.sgd import SGD, train

#: The comparison as it should be, and with the published faults.
VERSIONS = ("corrected", "published")
#: The columns of every comparison's table, in order.
COLUMNS = (
    "study",
    "dataset",
    "train_size",
    "units",
    "contexts",
    "seed",
    "cutoff",
    "momentum",
    "version",
    "model",
    "status",
    "train_error",
    "closed",
    "error",
    "inconsistency",
    "expected_inconsistency",
    "objective",
    "gap",
    "farkas_residual",
    "normalised_margin",
    "iterations",
    "seconds",
    "solver",
)


@dataclass(frozen=True)
class Config:
    """What a comparison runs over: every combination of the lists is a cell.

    `versions` are 'corrected', 'published' or both; the published one has the `faults` (`published.FAULTS`).

    Raises InputError for anything out of range, before any work.

    >>> from implicit_bias.experiments.paper.study import Config
    >>> len(Config(units=(10, 20), seeds=(1, 2, 3)).cells("compare_gln"))
    6
    """

    dataset: str = "digits"
    train_size: tuple[int, ...] = (500,)
    units: tuple[int, ...] = (10,)
    contexts: tuple[int, ...] = (2,)
    seeds: tuple[int, ...] = (1, 2, 3)
    momentum: tuple[float, ...] = (0.0,)
    cutoff: Cutoff = "median"
    versions: tuple[str, ...] = ("corrected",)
    faults: tuple[str, ...] = FAULTS
    solver: str | None = None
    tol: float = 1e-6
    steps: int = 3200

    def __post_init__(self) -> None:
        for name in ("train_size", "units", "contexts", "seeds", "momentum", "versions", "faults"):
            if isinstance(getattr(self, name), str) or not isinstance(getattr(self, name), Iterable):
                raise InputError(f"{name} must list its values, as in {name}=({getattr(self, name)!r},)")
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for name in ("train_size", "units", "contexts", "seeds"):
            counts = [as_count(value, name, least=int(name != "seeds")) for value in getattr(self, name)]
            object.__setattr__(self, name, tuple(counts))
        for name in ("train_size", "units", "contexts", "seeds", "momentum", "versions"):
            values = getattr(self, name)
            if not values:
                raise InputError(f"{name} is empty; give at least one value")
            if len(set(values)) < len(values):
                raise InputError(f"{name} lists a value twice; give each once")
        for momentum in self.momentum:
            SGD(steps=self.steps, momentum=momentum)
        if self.solver is not None:
            one_of(self.solver, solver_names(), "solver")
        for version in self.versions:
            one_of(version, VERSIONS, "version")
        check_faults(self.faults)
        as_positive(self.tol, "tol")

    def cells(self, study: str) -> list[Settings]:
        """The settings of a study's cells, seeds innermost."""
        lists = {"train_size": self.train_size, "units": self.units, "contexts": self.contexts, "seed": self.seeds}
        rest = {name: value for name, value in vars(self).items() if name not in {*lists, "seeds", "dataset"}}
        return [{"study": study, "dataset": self.dataset} | cell | rest for cell in product(**lists)]


@dataclass(frozen=True)
class Study:
    """A comparison: the model that gradient descent trains, and the margin problems it is held against."""

    #: The words of its command, with underscores.
    name: str
    title: str
    #: Options of its command that show what it is for.
    example: str
    #: The model that gradient descent trained.
    reference: str
    defaults: Config
    #: From settings and task to the rows of a cell.
    rows: Callable[[Settings, BinaryTask], Rows]
    #: About how many seconds a cell takes on one core with MNIST: for the order of the cells and the time left.
    cost: Callable[[Settings], float]
    #: Refuses values of a configuration that make no sense for this study.
    check: Callable[[Config], None]

    def cells(self, config: Config) -> list[Settings]:
        """The settings of a configuration's cells; refused if they make no sense for the study."""
        self.check(config)
        return config.cells(self.name)


def faults_of(settings: Settings, version: str) -> tuple[str, ...]:
    """The faults that a version of a cell has.

    >>> from implicit_bias.experiments.paper.study import faults_of
    >>> faults_of({"faults": ["one draw"]}, "corrected")
    ()
    """
    return tuple(settings["faults"]) if version == "published" else ()


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained network, the momentum used, its scores on the validation set, its training error, steps and seconds."""

    network: GatedNetwork
    momentum: float
    scores: np.ndarray
    train_error: float
    steps: int
    seconds: float

    @classmethod
    def of(cls, network: GatedNetwork, task: BinaryTask, settings: Settings, momentum: float) -> Trained:
        """Train `network` as published."""
        steps, seed = settings["steps"], settings["seed"]
        sgd = SGD(steps=steps, momentum=momentum)
        history = train(network, task.X_train, task.y_train, sgd, seed=seed, every=steps)
        if history.interrupted:
            raise KeyboardInterrupt
        last = history.table.iloc[-1]
        scores = network.decision_function(task.X_val)
        return cls(network, momentum, scores, float(last.error), int(last.step), history.seconds)


@dataclass(frozen=True, eq=False)
class Solved:
    """A margin problem's answer and its scores on the validation set: NaN where no separating weights were found."""

    model: str
    problem: MarginProblem
    solution: Solution
    scores: np.ndarray

    @classmethod
    def of(cls, problem: MarginProblem, X_val: np.ndarray, settings: Settings) -> Solved:
        """Solve `problem` as `settings` say and score the inputs X_val (n_val, d)."""
        solution = solve(problem, settings["solver"], tol=settings["tol"])
        if solution.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        scores = np.full(len(X_val), np.nan)
        if solution.objective < np.inf:
            scores = problem.decision_function(solution.weights, X_val)
        return cls(problem.name, problem, solution, scores)


def comparison_rows(
    reference: str,
    trained: Trained,
    solved: Sequence[Solved],
    judge: Solved,
    task: BinaryTask,
    *,
    version: str = "corrected",
    weights: Array | None = None,
    compared: Array | None = None,
) -> Rows:
    """The rows of one trained network and the solutions it is compared with.

    `closed` counts the training samples whose every gate is closed: no weights classify them, none can separate.
    The network is judged by the problem that its bias predicts (`judge`): its objective is ‖W‖ / min margin of its
    effective weights (`weights`, if given) in that norm, its gap the distance to the certified lower bound. Its
    predictions are those of the scores `compared`, if they are not its own.
    """
    own = error(trained.scores, task.y_val)
    compared = trained.scores if compared is None else compared
    margin = normalised_margin(judge.problem, trained.network.effective_weights() if weights is None else weights)
    objective = 1 / margin if margin > 0 else np.inf
    lower = judge.solution.lower_bound
    row: dict[str, Any] = {
        "model": reference,
        "status": "TRAINED",
        "train_error": trained.train_error,
        "error": own,
        "objective": objective,
        "gap": 1 - lower / objective if margin > 0 and lower < np.inf else np.inf,
        "normalised_margin": margin,
        "iterations": trained.steps,
        "seconds": trained.seconds,
        "solver": "SGD",
    }
    rows: Rows = [row, *(_solved_row(item, own, compared, task) for item in solved)]
    return [{"momentum": trained.momentum, "version": version} | row for row in rows]


def _solved_row(item: Solved, own: float, compared: Array, task: BinaryTask) -> dict[str, Any]:
    """The row of a solution beside a trained network's error and the scores that it is compared by."""
    solution = item.solution
    separates = solution.objective < np.inf
    mistakes = error(item.scores, task.y_val) if separates else np.nan
    return {
        "model": item.model,
        "status": solution.status.name,
        "closed": int(item.problem.features.closed().sum()),
        "error": mistakes,
        "inconsistency": inconsistency(compared, item.scores) if separates else np.nan,
        "expected_inconsistency": expected_inconsistency(own, mistakes) if separates else np.nan,
        "objective": solution.objective,
        "gap": solution.gap,
        "farkas_residual": solution.farkas_residual,
        "normalised_margin": 1 / solution.objective,
        "iterations": solution.iterations,
        "seconds": solution.seconds,
        "solver": solution.solver,
    }
