"""Builders of margin problems; those of the papers are tested with their networks."""

import cvxpy as cp
import numpy as np
import pytest

import implicit_bias as ib
from implicit_bias import svm_of_optimiser as problem_of
from implicit_bias.margin.formulations import OPTIMISERS
from tests.cases import inputs, optimal, refusals

X = inputs(n=24, d=5)
Y = np.where(X[:, 0] + 0.5 * X[:, 1] > 0, 1.0, -1.0)
GATES = ib.HyperplaneGates(3, 2, seed=1).fit(X)


@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_an_optimiser_is_the_norms_of_its_layers(optimiser, tmp_path):
    case = problem_of(X, Y, GATES, optimiser, multiplicities=[1, 2, 4])
    found = optimal(case)
    assert case.name == f"SVM of {optimiser}"
    same = problem_of(X, Y, GATES, OPTIMISERS[optimiser], multiplicities=[1, 2, 4])
    assert ib.solve(same).objective == found.objective
    assert ib.solve(ib.load_problem(ib.save_problem(case, tmp_path / "problem.npz"))).objective == found.objective
    soft = problem_of(X, Y, GATES, optimiser, C=found.dual.max() / 2, multiplicities=[1, 2, 4])
    assert ib.solve(soft).objective < found.objective
    # Gradient descent and Muon learn the same from any number of copies of a unit.
    alone = ib.solve(problem_of(X, Y, GATES, optimiser)).objective
    assert (alone == pytest.approx(found.objective, rel=1e-5)) == (optimiser in ("gd", "muon"))


def test_names_of_one_problem():
    known = ib.solve(ib.svm_gln(X, Y, GATES)).objective
    assert ib.solve(problem_of(X, Y, GATES, "gd")).objective == pytest.approx(known, rel=2e-6)
    for name, other in zip(("lion", "signum", "signsgd", "shampoo", "soap"), ["sign"] * 3 + ["muon"] * 2, strict=True):
        assert repr(problem_of(X, Y, GATES, name).norm) == repr(problem_of(X, Y, GATES, other).norm)


test_other_optimisers_are_refused = refusals(
    ("adamw", "known: gd, sign"),
    (("spectral", "l1"), "not convex"),
    (None, "norms of two layers, not None"),
    call=lambda optimiser: problem_of(X, Y, GATES, optimiser),
)


NORMS = {
    "frobenius": (None, lambda W: cp.norm(W, "fro")),
    "group lasso": (ib.GroupLasso([0, 1, 0], [2.0, 1.0]), lambda W: 2 * cp.norm(W[::2], "fro") + cp.norm(W[1])),
    "nuclear": (ib.NuclearNorm(), cp.normNuc),
}


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("tolerance", [0.0, 0.1, np.where(np.arange(8) % 2, 0.3, 0.0)])
def test_interpolation_of_several_targets(norm, tolerance):
    rng = np.random.default_rng(0)
    A, targets, W = rng.normal(size=(8, 12)), rng.normal(size=(8, 3)), cp.Variable((3, 12))
    targets[0] = 0.0
    known, expression = NORMS[norm]
    case = ib.interpolation(A, targets, known, tolerance)
    found = optimal(case)
    if norm != "nuclear" and not np.any(tolerance):
        assert found.solver == "NATIVE"
    room = np.broadcast_to(np.reshape(tolerance, (-1, 1)), targets.shape)
    oracle = cp.Problem(cp.Minimize(expression(W)), [cp.abs(A @ W.T - targets) <= room])
    assert found.objective == pytest.approx(oracle.solve(solver="CLARABEL"), rel=1e-5)
    assert (abs(A @ found.weights.T - targets) <= room + 1e-12).all()
    # The multipliers prove the lower bound; λ is 0 but for the accuracy of the solver.
    V = case.adjoint(found.dual) - (case.constraints.E.T @ found.multipliers).reshape(3, 12)
    assert case.norm.dual(V) <= 1 + 1e-12
    assert -case.constraints.h @ found.multipliers == pytest.approx(found.lower_bound, rel=1e-6)


@pytest.mark.parametrize("size", [(60, 200), (300, 400)])
def test_interpolation_of_many_targets(size):
    rng = np.random.default_rng(1)
    A, t = rng.normal(size=size), rng.normal(size=size[0])
    A[-1], t[-1] = 2 * A[0], 2 * t[0]
    found = ib.solve(ib.interpolation(ib.GatedFeatures(A), t))
    assert (found.status, found.solver) == (ib.Status.OPTIMAL, "NATIVE")
    assert found.objective == pytest.approx(np.linalg.norm(np.linalg.lstsq(A, t)[0]), rel=1e-8)
    groups = ib.interpolation(ib.KernelFeatures(A.reshape(size[0], -1, 10)), t, ib.GroupLasso(range(size[1] // 10)))
    assert [ib.solve(groups, max_iterations=most).status.name for most in (1, 30)] == ["ITERATION_LIMIT", "OPTIMAL"]


test_interpolation_without_a_problem = refusals(
    ([1.0], 0.0, "must be 2 targets"),
    ([1.0, 1.0], -1.0, "tolerance ≥ 0"),
    ([1.0, -1.0], 1.0, "W = 0 meets"),
    call=lambda targets, tolerance: ib.interpolation([[1.0, 0.0], [0.0, 1.0]], targets, tolerance=tolerance),
)
