"""Shallow GLNs: one layer, one linear model a region, against one linear SVM a region (the paper's figure 5)."""

from __future__ import annotations

import copy

from implicit_bias.datasets import BinaryTask
from implicit_bias.experiments.paper.published import published_scores
from implicit_bias.experiments.paper.study import (
    Config,
    Study,
    comparison_rows,
    faults_of,
    hyperplanes,
    solved,
    trained,
)
from implicit_bias.experiments.runner.experiment import Rows, Settings
from implicit_bias.gates import OccupiedRegions
from implicit_bias.margin.formulations import svm_shallow
from implicit_bias.networks import GatedLinearNetwork


def _rows(settings: Settings, task: BinaryTask) -> Rows:
    gates = hyperplanes(settings).fit(task.X_pool)
    regions = OccupiedRegions(gates).fit(task.X_train)
    solution = solved(svm_shallow(task.X_train, task.y_train, regions), task, settings)
    initial = GatedLinearNetwork(gates, readout=False)
    rows: Rows = []
    for momentum in settings["momentum"]:
        one = trained(copy.deepcopy(initial), task, settings, momentum)
        weights = one.network.effective_weights()[regions.occupied_]
        for version in settings["versions"]:
            compared = published_scores(one.network, gates, task.X_val, faults_of(settings, version))
            rows += comparison_rows(
                STUDY.reference, one, [solution], solution, version=version, weights=weights, compared=compared
            )
    return rows


def _cost(settings: Settings) -> float:
    n = settings["train_size"] / 2000
    descent = len(settings["momentum"]) * settings["steps"] / 3200 * (1.2 + 1.5 * n)
    return descent + n**2 * (1.2 + 4 * min(1.0, settings["contexts"] / 8192)) + 4 * settings["contexts"] / 32768


STUDY = Study(
    name="compare_shallow_gln",
    title="Shallow gated linear networks: gradient descent and the margin problem",
    example="--contexts 1 2 4 8 16",
    reference="GD-shallow",
    defaults=Config(units=(1,), contexts=(1, 2, 4, 8, 16)),
    rows=_rows,
    cost=_cost,
    fixed={"units": "a shallow GLN has one unit; vary its contexts instead, and leave units at 1"},
)
