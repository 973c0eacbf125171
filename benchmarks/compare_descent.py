"""Time descent to the limit behind fixed gates, preconditioned and plain, on MNIST; see --help.

Both descend from the same weights until the smoothing of the margin costs at most 0.3 % of it, or for 12 000 steps. The
ratio is that of a network's norm to the certified lower bound of its margin problem. Seconds are of the CPU.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from common import alternately, run

from implicit_bias import (
    FrozenReLUNetwork,
    GatedLinearNetwork,
    HyperplaneGates,
    LossScaled,
    descend_to_limit,
    load_binary,
    solve,
)
from implicit_bias.datasets import BinaryTask
from implicit_bias.metrics import optimality_ratio
from implicit_bias.networks import GatedNetwork
from implicit_bias.studies.limit.references import margin_problem
from implicit_bias.training.result import TrainingResult

#: The smoothing of the least margin at the end.
TOLERANCE = 0.003
#: Steps after which a descent is cut off.
MAX_STEPS = 12_000
NETWORKS: dict[str, Callable[[BinaryTask, int], GatedNetwork]] = {
    "GLN": lambda task, units: GatedLinearNetwork(HyperplaneGates(units, 2, seed=1).fit(task.X_pool)),
    "frozen ReLU": lambda task, units: FrozenReLUNetwork(task.X_train.shape[1], 2 * units),
}


def compared(n: int, units: int, kind: str, root: str | None) -> dict[str, str]:
    """Return the row of a network: steps, CPU seconds and ratio of preconditioned and of plain descent."""
    task = load_binary("mnist", n, root=root)
    networks = {way: NETWORKS[kind](task, units) for way in ("preconditioned", "plain")}

    def descended(way: str) -> TrainingResult:
        config = LossScaled(TOLERANCE, max_steps=MAX_STEPS, max_seconds=1e6, preconditioned=way == "preconditioned")
        return descend_to_limit(networks[way], task.X_train, task.y_train, config)

    taken, found = alternately({way: partial(descended, way) for way in networks}, 1, time.process_time)
    problem = margin_problem(networks["plain"], task.X_train, task.y_train)
    bound = solve(problem).lower_bound
    row = {"network": f"{kind}, H = {units}", "n": str(n)}
    for way, descent in found.items():
        ratio = optimality_ratio(problem, networks[way].effective_weights(), bound)
        end = "" if descent.end == "converged" else ", cut off"
        row |= {f"{way}, steps": f"{int(descent.table.step.iloc[-1])}{end}"}
        row |= {f"{way}, CPU s": f"{taken[way]:.1f}", f"{way}, ratio": f"{ratio:.4f}"}
    return row


def report(options: argparse.Namespace) -> Iterator[Any]:
    cells = [(n, units, kind) for kind in NETWORKS for units in options.units for n in options.sizes]
    yield [compared(*cell, options.data_root) for cell in cells]


if __name__ == "__main__":
    run(__doc__, report, sizes=([500, 2000], "MNIST images"), units=([50], "H"))
