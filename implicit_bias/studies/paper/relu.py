"""GD-ReLU against SVM-RC, SVM-LC and SVM-HL: random, learned and no contexts (figures 3 and 5 of the paper)."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from implicit_bias._utils.checks import InputError
from implicit_bias.datasets import BinaryTask
from implicit_bias.gates import RandomHalfSpaces
from implicit_bias.margin.formulations import svm_hl, svm_lc, svm_rc
from implicit_bias.networks import ReLUNetwork
from implicit_bias.studies.paper import TITLES, comparison
from implicit_bias.studies.paper.gln import of_units
from implicit_bias.studies.paper.published import published_half_spaces
from implicit_bias.studies.runner.experiment import Rows
from implicit_bias.studies.settings import Settings

TITLE = TITLES["compare_relu"]
SHARED = comparison
#: Least number of units for which the published tables have `gates_only`, a linear SVM on the trained network's gates.
WIDE = 500


def grid(quick: bool, **options: Any) -> list[Settings]:
    if options.get("contexts", (2,)) != (2,):
        raise InputError("a ReLU unit has two contexts, open and closed; leave contexts at 2")
    return comparison.grid_of("compare_relu", gates, options, quick)


def gates(settings: Settings, version: str = "corrected", momentum: float = 0.0) -> RandomHalfSpaces:
    """Return the half-spaces of SVM-RC of a cell, before `fit`."""
    faults = comparison.faults_of(settings, version)
    return published_half_spaces(settings["units"], settings["seed"], settings["cutoff"], faults, momentum=momentum)


def _draws(settings: Settings) -> dict[tuple[str, float], tuple[int, bool]]:
    drawn = {training: gates(settings, *training) for training in comparison.trainings(settings)}
    return {training: (random.seed, random.always_on) for training, random in drawn.items()}


def rows(settings: Settings, task: BinaryTask) -> Rows:
    X, y, draws = task.X_train, task.y_train, _draws(settings)
    half_spaces = {draw: gates(settings, *training) for training, draw in draws.items()}
    random = {
        draw: comparison.solved(svm_rc(X, y, one.fit(task.X_pool)), task, settings) for draw, one in half_spaces.items()
    }
    table: Rows = []
    for version, momentum in draws:
        network = ReLUNetwork(X.shape[1], settings["units"], seed=settings["seed"])
        one = comparison.trained("GD-ReLU", network, task, settings, momentum, version)
        learned, hidden = (comparison.solved(build(X, y, network), task, settings) for build in (svm_lc, svm_hl))
        if learned.scores is not None:
            learned.row["kept"] = of_units(learned.solution.weights[:, None])["kept"]
        solutions = [random[draws[version, momentum]], learned, hidden]
        if version == "published" and settings["units"] >= WIDE:
            active = SimpleNamespace(hidden=lambda inputs, units=network: (units.hidden(inputs) > 0).astype(float))
            solutions.append(comparison.solved(replace(svm_hl(X, y, active), name="gates_only"), task, settings))
        weights = network.effective_weights()
        table += comparison.comparison_rows(one, weights, solutions, learned, task, settings, version)
    return table


def cost(settings: Settings) -> float:
    n, units = settings["train_size"], settings["units"]
    # Products of a step: with the kernel, or with the 626 inputs of MNIST that are not always 0, twice.
    products = min(n, 2 * 626)
    trainings = len(comparison.trainings(settings))
    descent = trainings * settings["steps"] / 3200 * (0.5 + units * (0.0013 + 1.4e-5 * products))
    problems = len(set(_draws(settings).values())) + 2 * trainings
    return float(descent + problems * (n / 2000) ** 2 * (1 + 0.012 * units) + 0.3 + 0.012 * units)
