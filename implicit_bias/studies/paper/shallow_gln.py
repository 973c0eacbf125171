"""GD-shallow, one layer and one linear model per region, against one linear SVM per region (the paper's figure 2c)."""

import copy

from implicit_bias.datasets import BinaryTask
from implicit_bias.gates import OccupiedRegions
from implicit_bias.margin.formulations import svm_shallow
from implicit_bias.networks import GatedLinearNetwork
from implicit_bias.studies.paper.published import published_scores
from implicit_bias.studies.paper.studies import STUDIES
from implicit_bias.studies.paper.study import comparison_rows, faults_of, solved, trained
from implicit_bias.studies.paper.study import hyperplanes as gates_of
from implicit_bias.studies.runner.experiment import Rows, Settings

__all__ = ["cost", "gates_of", "rows"]
REFERENCE = STUDIES["compare_shallow_gln"].reference


def rows(settings: Settings, task: BinaryTask) -> Rows:
    """Every network against the occupied regions' SVMs, which have no faults."""
    gates = gates_of(settings | {"units": 1}).fit(task.X_pool)
    regions = OccupiedRegions(gates).fit(task.X_train)
    solution = solved(svm_shallow(task.X_train, task.y_train, regions), task, settings)
    initial = GatedLinearNetwork(gates, readout=False)
    found: Rows = []
    for momentum in settings["momentum"]:
        one = trained(copy.deepcopy(initial), task, settings, momentum)
        weights = one.network.effective_weights()[regions.occupied_]
        for version in settings["versions"]:
            faults = faults_of(settings, version)
            compared = published_scores(one.network, gates, task.X_val, faults) if faults else None
            found += comparison_rows(
                REFERENCE, one, [solution], solution, version=version, weights=weights, compared=compared
            )
    return found


def cost(settings: Settings) -> float:
    n = settings["train_size"] / 2000
    descent = len(settings["momentum"]) * settings["steps"] / 3200 * (0.1 + 1.3 * n)
    return descent + n**2 * (1.2 + 4 * min(1.0, settings["contexts"] / 8192)) + 4 * settings["contexts"] / 32768 + 0.3
