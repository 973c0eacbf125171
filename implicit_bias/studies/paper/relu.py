"""GD-ReLU against SVM-RC, SVM-LC and SVM-HL: random, learned and no contexts (the paper's figures 3 and 5)."""

from itertools import product

from implicit_bias.datasets import BinaryTask
from implicit_bias.gates import RandomHalfSpaces
from implicit_bias.margin.formulations import svm_hl, svm_lc, svm_rc
from implicit_bias.networks import ReLUNetwork
from implicit_bias.studies.paper.published import published_half_spaces
from implicit_bias.studies.paper.studies import STUDIES
from implicit_bias.studies.paper.study import Solved, comparison_rows, faults_of, solved, trained
from implicit_bias.studies.runner.experiment import Rows, Settings

REFERENCE = STUDIES["compare_relu"].reference


def gates_of(settings: Settings, version: str = "corrected", momentum: float = 0.0) -> RandomHalfSpaces:
    """The half-spaces of a cell, not yet fitted."""
    units, seed, cutoff = settings["units"], settings["seed"], settings["cutoff"]
    return published_half_spaces(units, seed, cutoff, faults_of(settings, version), momentum=momentum)


def _draws(settings: Settings) -> dict[tuple[str, float], tuple[int, bool]]:
    """Seed and always-open gate of the half-spaces for each version and momentum."""
    pairs = product(settings["versions"], settings["momentum"])
    gates = {pair: gates_of(settings, *pair) for pair in pairs}
    return {pair: (one.seed, one.always_on) for pair, one in gates.items()}


def _random(settings: Settings, task: BinaryTask) -> dict[tuple[str, float], Solved]:
    """SVM-RC for each version and momentum; where these have the same half-spaces, it is solved once."""
    draws = _draws(settings)
    solutions = {}
    for pair, draw in draws.items():
        if draw not in solutions:
            gates = gates_of(settings, *pair).fit(task.X_pool)
            solutions[draw] = solved(svm_rc(task.X_train, task.y_train, gates), task, settings)
    return {pair: solutions[draw] for pair, draw in draws.items()}


def rows(settings: Settings, task: BinaryTask) -> Rows:
    """Every network and version: random, learned and no contexts."""
    X, y = task.X_train, task.y_train
    random = _random(settings, task)
    found: Rows = []
    for momentum in settings["momentum"]:
        network = ReLUNetwork(X.shape[1], settings["units"], seed=settings["seed"])
        one = trained(network, task, settings, momentum)
        learned, hidden = (solved(build(X, y, network), task, settings) for build in (svm_lc, svm_hl))
        for version in settings["versions"]:
            solutions = [random[version, momentum], learned, hidden]
            found += comparison_rows(REFERENCE, one, solutions, learned, version=version)
    return found


def cost(settings: Settings) -> float:
    n, units = settings["train_size"], settings["units"]
    # Products of a step: with the kernel, or with the 626 inputs of MNIST that are not always 0, twice.
    products = min(n, 2 * 626)
    descent = len(settings["momentum"]) * settings["steps"] / 3200 * (0.5 + units * (0.0013 + 1.4e-5 * products))
    problems = len(set(_draws(settings).values())) + 2 * len(settings["momentum"])
    return descent + problems * (n / 2000) ** 2 * (1 + 0.012 * units) + 0.3 + 0.012 * units
