"""Time descent to the limit behind fixed gates, preconditioned and plain, on MNIST; see --help.

Both descend from the same weights until the smoothing of the margin costs at most 0.3 % of it, or for 12 000 steps. The
ratio is that of a network's norm to the certified lower bound of its margin problem. Seconds are of the CPU.
"""

import time
from collections.abc import Callable
from functools import partial

from common import alternately, command_line, markdown, surroundings, surroundings_line

from implicit_bias import (
    FrozenReLUNetwork,
    GatedLinearNetwork,
    HyperplaneGates,
    LossScaled,
    descend_to_limit,
    load_binary,
    solve,
)
from implicit_bias.cli.execution import guarded
from implicit_bias.datasets import BinaryTask
from implicit_bias.metrics import optimality_ratio
from implicit_bias.networks import GatedNetwork
from implicit_bias.studies.limit.references import margin_problem
from implicit_bias.training.result import TrainingResult

#: The smoothing of the least margin at the end, and the steps after which a descent is cut off.
TOLERANCE, MAX_STEPS = 0.003, 12_000
NETWORKS: dict[str, Callable[[BinaryTask, int], GatedNetwork]] = {
    "GLN": lambda task, units: GatedLinearNetwork(HyperplaneGates(units, 2, seed=1).fit(task.X_pool)),
    "frozen ReLU": lambda task, units: FrozenReLUNetwork(task.X_train.shape[1], 2 * units),
}


def compared(n: int, units: int, kind: str, root: str | None) -> dict[str, str]:
    """The row of n images."""
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


def main() -> int:
    """Print the table."""
    parser = command_line(__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=(500, 2000), help="default: %(default)s")
    parser.add_argument("--units", type=int, nargs="+", default=(50,), help="H (default: %(default)s)")
    options = parser.parse_args()
    print(surroundings_line(surroundings(), "1 thread"), "\n")
    cells = [(n, units, kind) for kind in NETWORKS for units in options.units for n in options.sizes]
    print(markdown([compared(*cell, options.data_root) for cell in cells]))
    return 0


if __name__ == "__main__":
    raise SystemExit(guarded(main))
