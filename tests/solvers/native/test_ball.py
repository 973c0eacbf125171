"""Solvers in the unit ball of a norm: optima of conic programs, proofs, and limits, which end with true bounds."""

from itertools import count

import numpy as np
import pytest

from implicit_bias import MarginProblem, NuclearNorm, Status, TwoLayerNorm, solve
from implicit_bias.solvers.native.polyhedral import PolyhedralIterate
from tests.cases import assert_farkas, interrupt, optimal
from tests.solvers.native.shapes import SumNorm, native, teacher

NORMS = {
    "box": TwoLayerNorm([0, 1, 2, 0, 1, 2], "entries", "l_inf", [1, 2, 3]),
    "box, l1": TwoLayerNorm([0, 1, 2, 0, 1, 2], "entries", "l1"),
    "simplex": TwoLayerNorm(range(6), "l1", "l_inf"),
    "simplex of one's own": SumNorm([1.0, 2.0, 0.5]),
    "2-summing": TwoLayerNorm([0, 1, 2, 0, 1, 2], "spectral", "l2"),
    "operator": TwoLayerNorm([0, 1, 2, 0, 1, 2], "spectral", "l_inf", [1, 2, 3]),
    "nuclear": NuclearNorm([0] * 10, range(10)),
    "nuclear, one row": NuclearNorm(range(4), [0] * 4),
    "nuclear, two contexts": NuclearNorm([0, 0, 1, 1] * 2, [0, 1] * 4),
}

SIZES = ((20, 8), 0.0), ((50, 3), 0.3)
#: Every norm at every C; sizes and intercepts alternate, so that each pair of values occurs.
CASES = [
    (norm, C, *SIZES[(i + j) % 2], (i + j // 2) % 2 == 1)
    for i, norm in enumerate(NORMS)
    for j, C in enumerate((np.inf, 1e-3, 1e-1, 1e4))
]


@pytest.mark.parametrize(("norm", "C", "size", "wrong", "intercept"), CASES)
def test_optima_are_those_of_conic_programs(norm, C, size, wrong, intercept):
    features, y = teacher(size[0], NORMS[norm].gates or 6, size[1], 1, wrong)
    m, c = np.linspace(0.5, 2, size[0]), np.linspace(2, 1, size[0])
    case = MarginProblem(features, y, NORMS[norm], C, None, "", m, c, intercept)
    found = solve(case, "NATIVE", tol=1e-7)
    if np.isinf(C) and wrong:
        assert_farkas(case, found)
        return
    assert (found.status, found.solver) == (Status.OPTIMAL, "NATIVE")
    assert found.objective == pytest.approx(solve(case, "CLARABEL", tol=1e-7).objective, rel=2e-7)
    by_sets = optimal(case, native(all_samples_up_to=0, first_samples=8), tol=1e-7)
    assert by_sets.objective == pytest.approx(found.objective, rel=2e-7)


@pytest.mark.parametrize("norm", NORMS)
def test_limits_return_certified_bounds(norm):
    case = MarginProblem(*teacher(60, NORMS[norm].gates or 6, 20, 3), NORMS[norm])
    best, steps = solve(case).objective, []
    few = solve(case, "NATIVE", max_iterations=4)
    assert (few.status, few.iterations) == (Status.ITERATION_LIMIT, 4)
    short = solve(case, "NATIVE", max_seconds=1e-6)
    assert short.status is Status.TIME_LIMIT
    stop = interrupt(lambda progress: steps.append(progress) or progress.iteration == 5)
    stopped = solve(case, "NATIVE", callback=stop)
    assert (stopped.status, len(steps)) == (Status.INTERRUPTED, 6)
    for found in (few, short, stopped):
        assert found.lower_bound <= best * (1 + 1e-6)
        assert found.objective >= best * (1 - 1e-6)
    assert steps[-1].lower_bound <= best * (1 + 1e-6)


@pytest.mark.parametrize("norm", ["box", "simplex"])
def test_numbers_that_are_none_end_a_solve(norm, monkeypatch):
    moves, real, case = count(), PolyhedralIterate.moved, MarginProblem(*teacher(60, 6, 20, 3), NORMS[norm])
    best, nan = solve(case).objective, (np.nan, np.nan, (np.nan, np.nan))
    monkeypatch.setattr(PolyhedralIterate, "moved", lambda *own: real(*own[:2], *(own[2:] if next(moves) < 9 else nan)))
    found = solve(case, "NATIVE", tol=1e-9)
    assert (found.status, found.iterations) == (Status.INACCURATE, 10)
    assert 0 < found.lower_bound <= best * (1 + 1e-6) <= found.objective * (1 + 2e-6) < np.inf
