"""Limits of the solvers in the unit ball of a norm: they end with bounds that hold."""

import pytest

from implicit_bias import MarginProblem, Status, TwoLayerNorm, solve
from tests.solvers.native.shapes import teacher

NORMS = {
    "box": TwoLayerNorm([0, 1, 2, 0, 1, 2], "entries", "l_inf", [1, 2, 3]),
    "simplex": TwoLayerNorm(range(6), "l1", "l_inf"),
    "2-summing": TwoLayerNorm([0, 1, 2, 0, 1, 2], "spectral", "l2"),
    "operator": TwoLayerNorm(range(6), "spectral", "l_inf", range(1, 7)),
}


@pytest.mark.parametrize("norm", NORMS)
def test_limits_return_certified_bounds(norm):
    features, y = teacher(60, 6, 20, 3)
    case = MarginProblem(features, y, NORMS[norm])
    best, steps = solve(case).objective, []
    few = solve(case, "NATIVE", max_iterations=4)
    assert (few.status, few.iterations) == (Status.ITERATION_LIMIT, 4)
    short = solve(case, "NATIVE", max_seconds=1e-6)
    assert short.status is Status.TIME_LIMIT

    def interrupt(progress):
        steps.append(progress)
        if progress.iteration == 5:
            raise KeyboardInterrupt

    stopped = solve(case, "NATIVE", callback=interrupt)
    assert (stopped.status, len(steps)) == (Status.INTERRUPTED, 6)
    for found in (few, short, stopped):
        assert found.lower_bound <= best * (1 + 1e-6)
        assert found.objective >= best * (1 - 1e-6)
    assert steps[-1].lower_bound <= best * (1 + 1e-6)
