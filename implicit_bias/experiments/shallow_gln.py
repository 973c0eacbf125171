"""Shallow GLNs: one layer, one linear model a region, against one linear SVM a region (the paper's figure 5)."""

from __future__ import annotations

from typing import Any

from implicit_bias.checks import InputError
from implicit_bias.datasets import BinaryTask
from implicit_bias.experiments.study import Cell, Config, Solved, Study, Trained, comparison_rows
from implicit_bias.formulations import svm_shallow
from implicit_bias.gates import HyperplaneGates
from implicit_bias.networks import GatedLinearNetwork


def _check(config: Config) -> None:
    if config.units != (1,):
        raise InputError("a shallow GLN has one unit; vary its contexts instead, and leave units at 1")
    for contexts in config.contexts:
        HyperplaneGates(1, contexts, cutoff=config.cutoff)


def _rows(config: Config, cell: Cell, task: BinaryTask) -> list[dict[str, Any]]:
    gates = HyperplaneGates(1, cell.contexts, cell.seed, config.cutoff).fit(task.X_pool)
    solved = Solved.of(svm_shallow(task.X_train, task.y_train, gates), task.X_val, config)
    rows: list[dict[str, Any]] = []
    for momentum in config.momentum:
        network = GatedLinearNetwork(gates, readout=False)
        trained = Trained.of(network, task, config, momentum, cell.seed)
        rows += comparison_rows(STUDY.reference, trained, [solved], solved, task)
    return rows


STUDY = Study(
    name="compare_shallow_gln",
    title="Shallow gated linear networks: gradient descent and the margin problem",
    reference="GD-shallow",
    defaults=Config(units=(1,), contexts=(1, 2, 4, 8, 16)),
    rows=_rows,
    check=_check,
)
