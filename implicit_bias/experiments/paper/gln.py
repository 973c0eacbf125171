"""GD-GLN against SVM-L2, SVM-GLN and the Frobenius norm of ζ: two-layer GLNs (the paper's figures 2 and 3)."""

from __future__ import annotations

from dataclasses import replace

from implicit_bias.datasets import BinaryTask
from implicit_bias.experiments.paper.published import published_scores, published_svm_gln, published_svm_l2
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
from implicit_bias.margin.formulations import svm_shallow
from implicit_bias.networks import GatedLinearNetwork


def _rows(settings: Settings, task: BinaryTask) -> Rows:
    X, y, gates = task.X_train, task.y_train, hyperplanes(settings).fit(task.X_pool)
    networks = [trained(GatedLinearNetwork(gates), task, settings, momentum) for momentum in settings["momentum"]]
    rows: Rows = []
    for version in settings["versions"]:
        faults = faults_of(settings, version)
        problems = [published_svm_l2(X, y, gates, faults), published_svm_gln(X, y, gates, faults)]
        if version == "corrected":
            problems.append(replace(svm_shallow(X, y, gates), name="SVM-Fro"))
        solutions = [solved(problem, task, settings) for problem in problems]
        for one in networks:
            compared = published_scores(one.network, gates, task.X_val, faults)
            rows += comparison_rows(STUDY.reference, one, solutions, solutions[1], version=version, compared=compared)
    return rows


def _cost(settings: Settings) -> float:
    gates = settings["units"] * settings["contexts"]
    descent = len(settings["momentum"]) * settings["steps"] / 3200 * (2 + 0.03 * gates)
    return descent + 2.5 * len(settings["versions"]) * (settings["train_size"] / 2000) ** 2 * (1 + gates / 200)


STUDY = Study(
    name="compare_gln",
    title="Gated linear networks: gradient descent and the margin problems",
    example="--dataset mnist --units 10 20 --seeds 1",
    reference="GD-GLN",
    defaults=Config(units=(5, 10)),
    rows=_rows,
    cost=_cost,
)
