"""GD-GLN against SVM-L2 and SVM-GLN: two-layer gated linear networks (Lippl, Abbott & Chung, figures 2 and 3)."""

from __future__ import annotations

from typing import Any

from implicit_bias.datasets import BinaryTask
from implicit_bias.experiments.study import Cell, Config, Solved, Study, Trained, comparison_rows
from implicit_bias.formulations import svm_gln, svm_l2
from implicit_bias.gates import HyperplaneGates
from implicit_bias.networks import GatedLinearNetwork


def _check(config: Config) -> None:
    for units in config.units:
        for contexts in config.contexts:
            HyperplaneGates(units, contexts, cutoff=config.cutoff)


def _rows(config: Config, cell: Cell, task: BinaryTask) -> list[dict[str, Any]]:
    gates = HyperplaneGates(cell.units, cell.contexts, cell.seed, config.cutoff).fit(task.X_pool)
    problems = [build(task.X_train, task.y_train, gates) for build in (svm_l2, svm_gln)]
    solved = [Solved.of(problem, task.X_val, config) for problem in problems]
    rows: list[dict[str, Any]] = []
    for momentum in config.momentum:
        network = GatedLinearNetwork(gates)
        trained = Trained.of(network, task, config, momentum, cell.seed)
        rows += comparison_rows(STUDY.reference, trained, solved, solved[-1], task)
    return rows


STUDY = Study(
    name="compare_gln",
    title="Gated linear networks: gradient descent and the margin problems",
    reference="GD-GLN",
    defaults=Config(units=(5, 10)),
    rows=_rows,
    check=_check,
)
