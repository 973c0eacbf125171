"""What all comparisons share: the configuration, the cells it spans, and running them into a tidy table."""

from __future__ import annotations

import itertools
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from importlib.metadata import version
from typing import Any

import joblib
import numpy as np
import pandas as pd

from implicit_bias.checks import InputError, as_count, as_positive, one_of
from implicit_bias.comparison import error, expected_inconsistency, inconsistency, normalised_margin
from implicit_bias.datasets import BinaryTask, load_binary
from implicit_bias.gates import Cutoff
from implicit_bias.networks import GatedNetwork
from implicit_bias.problems import MarginProblem
from implicit_bias.solvers import Solution, Status, solve, solver_names
from implicit_bias.threads import one_thread
from implicit_bias.training import SGD, train

#: The published seed of the split into training and validation samples.
SPLIT_SEED = 1
#: The columns of every comparison's table, in order.
COLUMNS = (
    "dataset",
    "train_size",
    "units",
    "contexts",
    "seed",
    "momentum",
    "model",
    "status",
    "error",
    "inconsistency",
    "expected_inconsistency",
    "objective",
    "gap",
    "normalised_margin",
    "iterations",
    "seconds",
    "solver",
)


@dataclass(frozen=True)
class Config:
    """What a comparison runs over: every combination of the lists is a cell.

    Raises InputError for anything out of range, before any work.

    >>> from implicit_bias.experiments.study import Config
    >>> len(Config(units=(10, 20), seeds=(1, 2, 3)).cells())
    6
    """

    dataset: str = "digits"
    data_root: str | None = None
    train_size: tuple[int, ...] = (500,)
    units: tuple[int, ...] = (10,)
    contexts: tuple[int, ...] = (2,)
    seeds: tuple[int, ...] = (1, 2, 3)
    momentum: tuple[float, ...] = (0.0,)
    cutoff: Cutoff = "median"
    always_on: bool = False
    solver: str | None = None
    tol: float = 1e-6
    steps: int = 3200

    def __post_init__(self) -> None:
        for name in ("train_size", "units", "contexts", "seeds", "momentum"):
            values = getattr(self, name)
            if not values:
                raise InputError(f"{name} is empty; give at least one value")
            if len(set(values)) < len(values):
                raise InputError(f"{name} lists a value twice; give each once")
        for seed in self.seeds:
            as_count(seed, "seed", least=0)
        for momentum in self.momentum:
            SGD(steps=self.steps, momentum=momentum)
        if self.solver is not None:
            one_of(self.solver, solver_names(), "solver")
        as_positive(self.tol, "tol")

    def cells(self) -> list[Cell]:
        """Every combination, seeds innermost."""
        lists = (self.train_size, self.units, self.contexts, self.seeds)
        return [Cell(*values) for values in itertools.product(*lists)]


@dataclass(frozen=True)
class Cell:
    """One combination of training-set size n, units H, contexts C and seed."""

    train_size: int
    units: int
    contexts: int
    seed: int

    def __str__(self) -> str:
        return f"n={self.train_size} H={self.units} C={self.contexts} seed {self.seed}"


@dataclass(frozen=True)
class Study:
    """A comparison: the model that gradient descent trains, and the margin problems it is held against."""

    name: str
    title: str
    reference: str
    defaults: Config
    #: From (config, cell, task) to the rows of a cell.
    rows: Callable[[Config, Cell, BinaryTask], list[dict[str, Any]]]
    #: Refuses values of a configuration that make no sense for this study.
    check: Callable[[Config], None]


@dataclass(frozen=True, eq=False)
class Run:
    """A finished (or interrupted) comparison: its table and everything needed to repeat it."""

    table: pd.DataFrame
    record: dict[str, Any]
    interrupted: bool


@lru_cache(maxsize=1)
def _source(dataset: str, root: str | None, train_size: int) -> BinaryTask:
    return load_binary(dataset, train_size, SPLIT_SEED, root)


def run(study: Study, config: Config, jobs: int = 1, progress: Callable[[str], None] | None = None) -> Run:
    """Run every cell, in `jobs` processes; Ctrl-C keeps the cells that are done.

    `progress(cell)` is called after every cell.

    >>> from implicit_bias.experiments.gln import STUDY
    >>> from implicit_bias.experiments.study import Config, run
    >>> table = run(STUDY, Config(train_size=(60,), units=(3,), seeds=(1,), steps=50)).table
    >>> table.model.tolist()
    ['GD-GLN', 'SVM-L2', 'SVM-GLN']
    """
    as_count(jobs, "jobs")
    study.check(config)
    cells = config.cells()
    for train_size in config.train_size:
        _source(config.dataset, config.data_root, train_size)
    start = time.perf_counter()
    done: dict[Cell, list[dict[str, Any]]] = {}
    interrupted = False
    try:
        for cell, rows in _run_cells(study, config, cells, jobs):
            done[cell] = rows
            if progress is not None:
                progress(str(cell))
    except KeyboardInterrupt:
        interrupted = True
    table = pd.DataFrame([row for cell in cells for row in done.get(cell, [])], columns=list(COLUMNS))
    return Run(table, _record(study, config, time.perf_counter() - start, interrupted), interrupted)


def _run_cells(
    study: Study, config: Config, cells: list[Cell], jobs: int
) -> Iterator[tuple[Cell, list[dict[str, Any]]]]:
    if jobs == 1 or len(cells) == 1:
        return (_run_cell(study, config, cell, False) for cell in cells)
    # Unordered, so that an interruption keeps every finished cell.
    parallel = joblib.Parallel(n_jobs=min(jobs, len(cells)), return_as="generator_unordered")
    results: Iterator[tuple[Cell, list[dict[str, Any]]]] = parallel(
        joblib.delayed(_run_cell)(study, config, cell, True) for cell in cells
    )
    return results


def _run_cell(study: Study, config: Config, cell: Cell, one_core: bool) -> tuple[Cell, list[dict[str, Any]]]:
    task = _source(config.dataset, config.data_root, cell.train_size)
    common = {"dataset": config.dataset, **asdict(cell)}
    with one_thread() if one_core else nullcontext():
        return cell, [common | row for row in study.rows(config, cell, task)]


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained network, the momentum used, its scores on the validation set, its steps and the seconds they took."""

    network: GatedNetwork
    momentum: float
    scores: np.ndarray
    steps: int
    seconds: float

    @classmethod
    def of(cls, network: GatedNetwork, task: BinaryTask, config: Config, momentum: float, seed: int) -> Trained:
        """Train `network` as published."""
        sgd = SGD(steps=config.steps, momentum=momentum)
        history = train(network, task.X_train, task.y_train, sgd, seed=seed)
        if history.interrupted:
            raise KeyboardInterrupt
        steps = int(history.table.step.iloc[-1])
        return cls(network, momentum, network.decision_function(task.X_val), steps, history.seconds)


@dataclass(frozen=True, eq=False)
class Solved:
    """A margin problem's answer and its scores on the validation set: NaN where no separating weights were found."""

    model: str
    problem: MarginProblem
    solution: Solution
    scores: np.ndarray

    @classmethod
    def of(cls, problem: MarginProblem, X_val: np.ndarray, config: Config) -> Solved:
        """Solve `problem` as `config` says and score the inputs X_val (n_val, d)."""
        solution = solve(problem, config.solver, tol=config.tol)
        if solution.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        scores = np.full(len(X_val), np.nan)
        if solution.objective < np.inf:
            scores = problem.decision_function(solution.weights, X_val)
        return cls(problem.name, problem, solution, scores)


def comparison_rows(
    reference: str, trained: Trained, solved: Sequence[Solved], judge: Solved, task: BinaryTask
) -> list[dict[str, Any]]:
    """The rows of one trained network and the solutions it is compared with.

    The network is judged by the problem that its bias predicts (`judge`): its objective is ‖W‖ / min margin of its
    effective weights in that norm, its gap the distance to the certified lower bound.
    """
    own = error(trained.scores, task.y_val)
    margin = normalised_margin(judge.problem, trained.network.effective_weights())
    objective = 1 / margin if margin > 0 else np.inf
    lower = judge.solution.lower_bound
    row: dict[str, Any] = {
        "model": reference,
        "status": "TRAINED",
        "error": own,
        "objective": objective,
        "gap": 1 - lower / objective if margin > 0 and lower < np.inf else np.inf,
        "normalised_margin": margin,
        "iterations": trained.steps,
        "seconds": trained.seconds,
        "solver": "SGD",
    }
    rows = [row]
    for item in solved:
        solution = item.solution
        separates = solution.objective < np.inf
        mistakes = error(item.scores, task.y_val) if separates else np.nan
        rows.append(
            {
                "model": item.model,
                "status": solution.status.name,
                "error": mistakes,
                "inconsistency": inconsistency(trained.scores, item.scores) if separates else np.nan,
                "expected_inconsistency": expected_inconsistency(own, mistakes),
                "objective": solution.objective,
                "gap": solution.gap,
                "normalised_margin": 1 / solution.objective,
                "iterations": solution.iterations,
                "seconds": solution.seconds,
                "solver": solution.solver,
            }
        )
    return [{"momentum": trained.momentum} | row for row in rows]


def _record(study: Study, config: Config, seconds: float, interrupted: bool) -> dict[str, Any]:
    packages = ("implicit-bias", "numpy", "scipy", "torch", "cvxpy", "clarabel", "ecos", "osqp", "scs")
    return {
        "study": study.name,
        "config": asdict(replace(config, data_root=None)),
        "split_seed": SPLIT_SEED,
        "versions": {"python": platform.python_version()} | {name: version(name) for name in packages},
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "seconds": round(seconds, 2),
        "interrupted": interrupted,
    }
