"""The study of all sizes: networks, after training and at their limit, and their margin problems."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from implicit_bias._utils.checks import InputError, as_positive
from implicit_bias.datasets import BinaryTask
from implicit_bias.gates import RandomHalfSpaces
from implicit_bias.margin.formulations import svm_hl, svm_l2, svm_rc, svm_shallow
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.metrics import error
from implicit_bias.networks import GatedNetwork, ReLUNetwork
from implicit_bias.studies.limit.findings import REACHED
from implicit_bias.studies.limit.networks import begun, driven
from implicit_bias.studies.limit.references import margin_problem
from implicit_bias.studies.paper.comparison import Solved, Trained, comparison_rows, solved, trained
from implicit_bias.studies.runner.cells import binary_task
from implicit_bias.studies.runner.experiment import Rows
from implicit_bias.studies.scale import GRID, MODELS, OPTIONS
from implicit_bias.studies.scale.figure import figures
from implicit_bias.studies.scale.findings import tables, verdicts
from implicit_bias.studies.settings import Settings, product
from implicit_bias.training.iterations import LossScaled

__all__ = ["cost", "grid", "rows", "tables", "verdicts"]
TITLE = "The comparison on all of the data"
SOURCE = "ours"
CLAIM = "With more samples the bias of descent predicts what it learns."
#: Since revision 2, descents with fixed gates are preconditioned.
REVISION = 2
COLUMNS = (
    *(*GRID, "model", "status", "end", "train_error", "closed", "error", "inconsistency", "expected_inconsistency"),
    *("objective", "ratio", "gap", "farkas_residual", "iterations", "seconds"),
)
COORDINATES = tuple(GRID)
SIZES = ("train_size", "units", "descent")
LIMITS = ("max_seconds",)
data = binary_task
draw = figures
#: Grid of a quick run, which takes minutes and needs no files.
QUICK = GRID | {"dataset": ("digits",), "train_size": (100, 200, 400), "units": (5,)}
#: Settings of all cells. The split depends on the seed; `tolerance` is the smoothing of the least margin at the end of
#: a descent, and `max_steps` its largest number of steps.
FIXED: dict[str, Any] = {
    **{"split": "own", "contexts": 2, "momentum": 0.0, "steps": 3200, "solver": None, "tol": 1e-6},
    **{"tolerance": 0.003, "max_steps": 12_000},
}
#: Approximate number of steps of a preconditioned descent.
STEPS = 3000
Timed = TypeVar("Timed", Trained, Solved)


def grid(
    quick: bool, *, max_seconds: float = OPTIONS["max_seconds"].default, **wanted: Sequence[Any]
) -> list[Settings]:
    """Return the settings of every cell: the combinations of `GRID` that take hours at most, or all of `QUICK`.

    Each descent ends after `max_seconds` at the latest. Coordinates have one of the `wanted` values, or any; InputError
    is raised for a value that no cell has.

    >>> len(grid(False)), len(grid(True)), len(grid(False, train_size=(500, 2000), units=(10,)))
    (456, 54, 72)
    """
    more = FIXED | {"max_seconds": as_positive(max_seconds, "max_seconds")}
    cells = [cell | more for cell in product(**QUICK if quick else GRID) if _is_feasible(**cell)]
    asked = {{"seeds": "seed", "descents": "descent"}.get(name, name): values for name, values in wanted.items()}
    for name, values in asked.items():
        known = list(dict.fromkeys(cell[name] for cell in cells))
        for value in values:
            if value not in known:
                raise InputError(
                    f"no cell has {name.replace('_', ' ')} {value}; choose from {', '.join(map(str, known))}"
                )
    return [cell for cell in cells if all(cell[name] in values for name, values in asked.items())]


def _is_feasible(dataset: str, train_size: int, units: int, network: str, descent: str, **_: Any) -> bool:
    """Return False for 48 000 samples with 10 units or descent to the limit, and for the longest descents of 24 000."""
    if train_size == 48_000:
        return units > 10 and descent == "sgd"
    if train_size < 24_000 or descent == "sgd" or network == "gln":
        return True
    # Gates that learn, and most gates on Fashion-MNIST, take all steps of a descent.
    widest = {("mnist", "learned-relu"): 50, ("fashion-mnist", "learned-relu"): 10, ("mnist", "retrained-relu"): 100}
    return units <= widest.get((dataset, network), 50)


def rows(settings: Settings, task: BinaryTask) -> Rows:
    """Return the row of the network and those of its margin problems, with the columns `COLUMNS` after the settings.

    `ratio` is an objective divided by the certified lower bound of its problem; the problem of a network is the one
    that its bias predicts. `inconsistency` is that of a problem with the network, and `seconds` are CPU seconds. With
    `descent` 'limit', the network descends further after training. If fixed gates cannot separate the samples,
    there is no descent, and `end` is the status of the margin problem.
    """
    network = begun(settings, task)
    model = MODELS[settings["network"]]
    one = _timed(lambda: trained(model, network, task, settings, settings["momentum"]))
    one.row["end"] = "finished"

    def certified() -> Solved:
        return _timed(lambda: solved(margin_problem(network, task.X_train, task.y_train), task, settings))

    reference = None if isinstance(network, ReLUNetwork) else certified()
    if settings["descent"] == "limit" and reference is not None and reference.scores is None:
        one.row["end"] = reference.solution.status.name
    elif settings["descent"] == "limit":
        least = reference.solution.lower_bound if reference else np.inf
        one = _timed(lambda: _descended(network, task, settings, one.row, least))
    solutions = [reference or certified()]
    solutions += [_timed(partial(solved, problem, task, settings)) for problem in _others(network, task, settings)]
    found = comparison_rows(one, solutions, solutions[0])
    bounds = [one.solution.lower_bound for one in (solutions[0], *solutions)]
    return [row | {"ratio": row["objective"] / bound} for row, bound in zip(found, bounds, strict=True)]


def _timed(call: Callable[[], Timed]) -> Timed:
    """Return the result of `call`, with its CPU seconds added to its row as `seconds`."""
    start = time.process_time()
    found = call()
    found.row["seconds"] = time.process_time() - start
    return found


def _descended(network: GatedNetwork, task: BinaryTask, settings: Settings, row: Settings, least: float) -> Trained:
    """Descend further, in place, to `REACHED` times the lower bound `least`; return the network's row and scores."""
    config = LossScaled(
        settings["tolerance"],
        max_steps=settings["max_steps"],
        max_seconds=settings["max_seconds"],
        preconditioned=not isinstance(network, ReLUNetwork),
        margin=1 / (2 * REACHED * least) if least else 0.0,
    )
    descent = driven(network, task.X_train, task.y_train, config, row["model"])
    if descent.end == "interrupted":
        raise KeyboardInterrupt
    scores, last = network.decision_function(task.X_val), descent.table.iloc[-1]
    wrong = float((task.y_train * network.decision_function(task.X_train) <= 0).mean())
    row = row | {"train_error": wrong, "error": error(scores, task.y_val), "end": descent.end}
    return Trained(scores, row | {"iterations": row["iterations"] + int(last.step)}, network)


def _others(network: GatedNetwork, task: BinaryTask, settings: Settings) -> Iterable[MarginProblem]:
    """Yield SVM-L2 and SVM-Fro of a GLN's gates, or SVM-RC and SVM-HL of a ReLU network; none for frozen gates."""
    X, y = task.X_train, task.y_train
    if settings["network"] == "gln":
        gates = network.gates()
        yield from (svm_l2(X, y, gates), replace(svm_shallow(X, y, gates), name="SVM-Fro"))
    elif isinstance(network, ReLUNetwork):
        random = RandomHalfSpaces(2 * settings["units"], seed=settings["seed"]).fit(task.X_pool)
        yield from (svm_rc(X, y, random), svm_hl(X, y, network))


def cost(settings: Settings) -> float:
    n, units, frozen = settings["train_size"], settings["units"], settings["network"] == "retrained-relu"
    steps = settings["max_steps"] if settings["network"] == "learned-relu" else min(STEPS, settings["max_steps"])
    training = (0.7 + 0.05 * units) * (2 if frozen else 1)
    problems = (0.1 + 0.5 * (n / 2000) ** 1.6 * (1 + units / 100)) * (1 if frozen else 3)
    descent = 1e-7 * steps * n * units if settings["descent"] == "limit" else 0.0
    return float(training + problems + descent)
