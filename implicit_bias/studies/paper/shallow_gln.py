"""GD-shallow, one layer with a linear model per region, against one linear SVM per region (figure 2c of the paper)."""

import copy
from typing import Any

from implicit_bias._utils.checks import InputError
from implicit_bias.datasets import BinaryTask
from implicit_bias.gates import OccupiedRegions
from implicit_bias.margin.formulations import svm_shallow
from implicit_bias.networks import GatedLinearNetwork
from implicit_bias.studies.paper import TITLES, comparison
from implicit_bias.studies.paper.published import published_scores
from implicit_bias.studies.runner.experiment import Rows
from implicit_bias.studies.settings import Settings

TITLE = TITLES["compare_shallow_gln"]
SHARED = comparison
gates = comparison.hyperplanes


def grid(quick: bool, **options: Any) -> list[Settings]:
    if options.get("units", (1,)) != (1,):
        raise InputError("a shallow GLN has one unit; vary its contexts instead, and leave units at 1")
    return comparison.grid_of("compare_shallow_gln", gates, options, quick)


def rows(settings: Settings, task: BinaryTask) -> Rows:
    gates = comparison.hyperplanes(settings | {"units": 1}).fit(task.X_pool)
    regions = OccupiedRegions(gates).fit(task.X_train)
    solution = comparison.solved(svm_shallow(task.X_train, task.y_train, regions), task, settings)
    initial = GatedLinearNetwork(gates, readout=False)
    table: Rows = []
    for version, momentum in comparison.trainings(settings):
        network, faults = copy.deepcopy(initial), comparison.faults_of(settings, version)
        one = comparison.trained("GD-shallow", network, task, settings, momentum, version)
        W = network.effective_weights()[regions.occupied_]
        compared = published_scores(network, gates, task.X_val, faults)
        table += comparison.comparison_rows(one, W, [solution], solution, task, settings, version, compared=compared)
    return table


def cost(settings: Settings) -> float:
    n = settings["train_size"] / 2000
    descent = len(comparison.trainings(settings)) * settings["steps"] / 3200 * (0.1 + 1.3 * n)
    regions = n**2 * (1.2 + 4 * min(1.0, settings["contexts"] / 8192))
    return float(descent + regions + 4 * settings["contexts"] / 32768 + 0.3)
