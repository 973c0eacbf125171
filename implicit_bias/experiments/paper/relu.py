"""GD-ReLU against SVM-RC, SVM-LC and SVM-HL: random, learned and no contexts (the paper's figure 4)."""

from __future__ import annotations

from typing import Any

from implicit_bias.datasets import BinaryTask
from implicit_bias.experiments.paper.published import published_half_spaces
from implicit_bias.experiments.paper.study import Cell, Config, Solved, Study, Trained, comparison_rows
from implicit_bias.gates import RandomHalfSpaces
from implicit_bias.ground.checks import InputError
from implicit_bias.margin.formulations import svm_hl, svm_lc, svm_rc
from implicit_bias.networks import ReLUNetwork


def _check(config: Config) -> None:
    if config.contexts != (2,):
        raise InputError("a ReLU unit has two contexts, open and closed; leave contexts at 2")
    for units in config.units:
        RandomHalfSpaces(units, cutoff=config.cutoff).check()


def _rows(config: Config, cell: Cell, task: BinaryTask) -> list[dict[str, Any]]:
    X, y = task.X_train, task.y_train
    random = {}
    for version in config.versions:
        faults = config.faults if version == "published" else ()
        gates = published_half_spaces(cell.units, cell.seed, config.cutoff, faults).fit(task.X_pool)
        random[version] = Solved.of(svm_rc(X, y, gates), task.X_val, config)
    rows: list[dict[str, Any]] = []
    for momentum in config.momentum:
        network = ReLUNetwork(X.shape[1], cell.units, seed=cell.seed)
        trained = Trained.of(network, task, config, momentum, cell.seed)
        learned = Solved.of(svm_lc(X, y, network), task.X_val, config)
        hidden = Solved.of(svm_hl(X, y, network), task.X_val, config)
        for version in config.versions:
            solved = [random[version], learned, hidden]
            rows += comparison_rows(STUDY.reference, trained, solved, learned, task, version=version)
    return rows


def _cost(config: Config, cell: Cell) -> float:
    descent = len(config.momentum) * config.steps / 3200 * (2 + 0.026 * cell.units)
    problems = len(config.versions) + 2 * len(config.momentum)
    return descent + problems * (cell.train_size / 2000) ** 2 * (1 + 0.012 * cell.units)


STUDY = Study(
    name="compare_relu",
    title="ReLU networks: gradient descent and the margin problems",
    reference="GD-ReLU",
    defaults=Config(units=(10, 20)),
    rows=_rows,
    cost=_cost,
    check=_check,
)
