"""What the three comparisons share: the configuration, the cells it spans, and the rows of a cell."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from implicit_bias.comparison import error, expected_inconsistency, inconsistency, normalised_margin
from implicit_bias.datasets import BinaryTask
from implicit_bias.experiments.paper.published import FAULTS, check_faults
from implicit_bias.experiments.runner.cells import SPLITS
from implicit_bias.experiments.runner.experiment import Rows, Settings, product
from implicit_bias.gates import HyperplaneGates, RandomHalfSpaces
from implicit_bias.gates.thresholds import Cutoff
from implicit_bias.ground.checks import Array, InputError, as_count, one_of
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solvers import Solution, Status, solve, solver_names
from implicit_bias.margin.solvers.options import as_tolerance
from implicit_bias.networks import GatedNetwork
from implicit_bias.training.sgd import SGD, train

#: The comparison as it should be, and with the published faults.
VERSIONS = ("corrected", "published")
#: The columns of every comparison's table, in order.
COLUMNS = (
    *(
        "study",
        "dataset",
        "train_size",
        "units",
        "contexts",
        "seed",
        "split",
        "cutoff",
        "momentum",
        "version",
        "model",
        "status",
    ),
    *("train_error", "closed", "error", "inconsistency", "expected_inconsistency", "objective", "gap"),
    *("farkas_residual", "normalised_margin", "iterations", "seconds", "solver"),
)


@dataclass(frozen=True)
class Config:
    """What a comparison runs over: every combination of the lists is a cell.

    `versions` are 'corrected', 'published' or both; the published one has the `faults` (`published.FAULTS`). A cell's
    seed is that of gates, initial weights and batches, and of the split of the data too where `split` is 'own'; else
    this is the published one.

    Raises InputError for anything out of range, before any work.

    >>> Config(units=[10, 20]).units
    (10, 20)
    """

    dataset: str = "digits"
    train_size: tuple[int, ...] = (500,)
    units: tuple[int, ...] = (10,)
    contexts: tuple[int, ...] = (2,)
    seeds: tuple[int, ...] = (1, 2, 3)
    momentum: tuple[float, ...] = (0.0,)
    cutoff: Cutoff = "median"
    split: str = "published"
    versions: tuple[str, ...] = ("corrected",)
    faults: tuple[str, ...] = FAULTS
    solver: str | None = None
    tol: float = 1e-6
    steps: int = 3200

    def __post_init__(self) -> None:
        counts = ("train_size", "units", "contexts", "seeds")
        for name in (*counts, "momentum", "versions", "faults"):
            values = getattr(self, name)
            if isinstance(values, str) or not isinstance(values, Iterable):
                raise InputError(f"{name} must list its values, as in {name}=({values!r},)")
            values = tuple(as_count(v, name, least=int(name != "seeds")) if name in counts else v for v in values)
            object.__setattr__(self, name, values)
            if not values and name != "faults":
                raise InputError(f"{name} is empty; give at least one value")
            if len(set(values)) < len(values) and name != "faults":
                raise InputError(f"{name} lists a value twice; give each once")
        for momentum in self.momentum:
            SGD(steps=self.steps, momentum=momentum)
        if self.solver is not None:
            one_of(self.solver, solver_names(), "solver")
        for version in self.versions:
            one_of(version, VERSIONS, "version")
        one_of(self.split, SPLITS, "split")
        check_faults(self.faults)
        as_tolerance(self.tol)


def hyperplanes(settings: Settings) -> HyperplaneGates:
    """The gates of a cell of gated linear networks, not yet fitted.

    >>> hyperplanes({"units": 3, "contexts": 4, "seed": 1, "cutoff": "median"}).units
    3
    """
    return HyperplaneGates(settings["units"], settings["contexts"], settings["seed"], settings["cutoff"])


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
    #: The gates of a cell, which refuse settings that no inputs can mend.
    gates: Callable[[Settings], HyperplaneGates | RandomHalfSpaces] = hyperplanes
    #: Why a list of the configuration must be that of the defaults.
    fixed: Mapping[str, str] = field(default_factory=dict)

    def cells(self, config: Config) -> list[Settings]:
        """The settings of a configuration's cells, seeds innermost; refused if they make no sense for the study."""
        for name, reason in self.fixed.items():
            if getattr(config, name) != getattr(self.defaults, name):
                raise InputError(reason)
        values = dict(vars(config))
        about = {"study": self.name, "dataset": values.pop("dataset")}
        lists = {name: values.pop(name) for name in ("train_size", "units", "contexts")} | {"seed": values.pop("seeds")}
        cells = [about | cell | values for cell in product(**lists)]
        for cell in cells:
            self.gates(cell).check()
        return cells


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
