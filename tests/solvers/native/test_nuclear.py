"""Nuclear norms: optima of semidefinite programs, by all samples and by working sets, and proofs of inseparability."""

import numpy as np
import pytest

from implicit_bias import GatedFeatures, MarginProblem, NuclearNorm, Status, solve
from implicit_bias.solvers.native.working_set import Support
from tests.cases import assert_farkas
from tests.solvers.native.shapes import native

NORMS = {
    "one matrix": NuclearNorm([0] * 10, range(10)),
    "one row": NuclearNorm(range(4), [0] * 4),
    "matrices of two contexts": NuclearNorm([0, 0, 1, 1] * 2, [0, 1] * 4),
}


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("wrong", [0.0, 0.3])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("C", [np.inf, 1e-3, 3e-2, 1e4])
def test_optima_of_semidefinite_programs(norm, wrong, intercept, C):
    """With one row, norms are lengths, and a metric is a number. One gate is closed for all samples."""
    k, rng = NORMS[norm].gates, np.random.default_rng(len(norm))
    X, G, M = rng.normal(size=(60, 8)), rng.normal(size=(60, k)), rng.normal(size=(k, 8))
    G[:, 1] = 0.0
    y = np.where(rng.uniform(size=60) < wrong, -1, 1) * np.sign(np.sum(G @ M * X, axis=1) + intercept)
    m, c = np.linspace(0.5, 2, 60), np.linspace(2, 1, 60)
    case = MarginProblem(GatedFeatures(X, G), y, NORMS[norm], C, None, "", m, c, intercept)
    found = solve(case, "NATIVE", tol=1e-7)
    if np.isinf(C) and found.status is not Status.OPTIMAL:
        assert wrong
        assert_farkas(case, found)
        return
    assert (found.status, found.solver) == (Status.OPTIMAL, "NATIVE")
    assert found.objective == pytest.approx(solve(case, "CLARABEL", tol=1e-7).objective, rel=2e-7)
    by_sets = solve(case, native(all_samples_up_to=0, first_samples=12), tol=1e-7)
    assert by_sets.status is Status.OPTIMAL
    assert by_sets.objective == pytest.approx(found.objective, rel=2e-7)


def test_samples_leave_a_set_for_its_bound_once():
    members, f = Support.drawn(8, 3), np.array([0.5, 1.5, 0.5, 1.5, 1.0, 1.0, 1.0, 1.0])
    members.rows, members.bounded = np.array([0, 1]), np.array([2, 3])
    assert members.outside(np.array([0.0, 9.0, 0.9, 1.2, 0.5, 2.0, 1.0, 1.0]), 8).tolist() == [4, 3]
    members.renew(np.array([4, 3]), np.array([1.0, 1e-9]), f, np.ones(2), drops=True)
    assert (members.rows.tolist(), members.bounded.tolist()) == ([4, 3], [2, 0])
    members.rows, members.bounded = np.array([0, 3]), np.array([2])
    members.renew(members.bounded[:0], np.ones(2), f, np.ones(2), drops=False)
    assert (members.rows.tolist(), members.bounded.tolist()) == ([0, 3], [2])
