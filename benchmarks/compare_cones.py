"""Time the native solver on ReLU units in the cones of given patterns against CLARABEL, on MNIST; see --help.

Patterns are those of units drawn at random, each with both signs; the problem is that of `svm_relu`. The norm of an
answer is that of the network of its units over its least margin; the gap is that of λ to it. Seconds are of the CPU.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from common import alternately, run

from implicit_bias import load_binary
from implicit_bias.extensions.best_networks.relu.network import bound_of, network_of
from implicit_bias.extensions.best_networks.relu.problem import cone_problem
from implicit_bias.solvers.base import Options
from implicit_bias.solvers.cvxpy_solvers import CVXPY_SOLVERS
from implicit_bias.solvers.native.cones import solve_in_cones

#: The relative gap asked for.
TOLERANCE = 1e-7


def compared(n: int, units: int, limit: int, root: str | None) -> dict[str, str]:
    """Return the row of n images with the cones of `units` random patterns; CLARABEL runs if n is at most `limit`."""
    task = load_binary("mnist", n, root=root)
    X, y = task.X_train, task.y_train
    drawn = np.random.default_rng(1).normal(size=(units, X.shape[1]))
    patterns = np.unique(drawn @ X.T >= 0, axis=0).astype(float)
    both, signs = np.vstack([patterns, patterns]), np.repeat([1.0, -1.0], len(patterns))
    ways: dict[str, Callable[[], Any]] = {"native": partial(solve_in_cones, X, y, both, signs, np.inf, TOLERANCE)}
    if n <= limit:
        problem = cone_problem(X, y, both, signs)
        ways["clarabel"] = partial(CVXPY_SOLVERS["CLARABEL"], problem, Options(TOLERANCE))
    taken, found = alternately(ways, 1, time.process_time)
    norms = {name: bound_of(network_of(answer.weights, signs > 0), X, y)[0] for name, answer in found.items()}
    row = {"n": str(n), "cones": str(len(both)), "native, CPU s": f"{taken['native']:.2f}"}
    row |= {"native, gap": f"{1 - found['native'].dual.sum() / norms['native']:.0e}"}
    if "clarabel" not in taken:
        return row | {"CLARABEL, CPU s": "–", "ratio": "–", "norms": "–"}
    ratio = f"{taken['clarabel'] / taken['native']:.0f}"
    return row | {
        **{"CLARABEL, CPU s": f"{taken['clarabel']:.2f}", "ratio": ratio},
        "norms": f"{norms['clarabel'] / norms['native'] - 1:+.0e}",
    }


def report(options: argparse.Namespace) -> Iterator[Any]:
    yield [compared(n, options.units, options.limit, options.data_root) for n in options.sizes]


if __name__ == "__main__":
    run(
        __doc__,
        report,
        sizes=([50, 100, 250, 500], "MNIST images"),
        units=(10, "random units"),
        limit=(250, "of CLARABEL, in images"),
    )
