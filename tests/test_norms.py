import itertools

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from implicit_bias import Frobenius, GroupLasso, InputError, PredictorL2
from tests.cases import PAIRS, problem

NORM_CASES = {
    "frobenius": Frobenius(),
    "groups": GroupLasso([0, 0, 1, 1, 2, 2]),
    "uneven": GroupLasso([5, 1, 1, 5, 5, 9]),
    "predictor 3×2": PredictorL2(3, 2),
    "predictor 1×... ": PredictorL2(6, 1),
}
norms = pytest.mark.parametrize("norm", NORM_CASES.values(), ids=NORM_CASES)


def random(seed, d=4):
    return np.random.default_rng(seed).normal(size=(6, d))


@norms
@given(seed=st.integers(0, 10**6))
@settings(max_examples=25, deadline=None)
def test_dual_norm_inequality(norm, seed):
    W, V = random(seed), random(seed + 1)
    assert np.sum(W * V) <= norm.value(W) * norm.dual(V) * (1 + 1e-12)


@norms
def test_norm_axioms(norm):
    W, V = random(1), random(2)
    assert norm.value(W + V) <= norm.value(W) + norm.value(V) + 1e-12
    assert norm.value(-3 * W) == pytest.approx(3 * norm.value(W), rel=1e-12)
    Q = np.linalg.qr(np.random.default_rng(3).normal(size=(4, 4)))[0]
    assert norm.value(W @ Q) == pytest.approx(norm.value(W), rel=1e-12)


@norms
def test_dual_norm_is_attained(norm):
    """The dual norm is the largest ⟨V, W⟩ in the unit ball, found by another solver; V in the range of A."""
    V = random(4)
    if isinstance(norm, PredictorL2):
        V = norm.factor.T @ (norm.factor @ V)
    W = cp.Variable(V.shape)
    best = cp.Problem(cp.Maximize(cp.sum(cp.multiply(V, W))), [norm.expression(W) <= 1, *norm.gauge(W)])
    best.solve(solver="CLARABEL")
    assert norm.dual(V) == pytest.approx(float(best.value), rel=1e-6)


@norms
def test_cvxpy_expressions_have_the_value(norm):
    W = random(5)
    constant = cp.Constant(W)
    assert float(norm.expression(constant).value) == pytest.approx(norm.value(W), rel=1e-12)
    if norm.quadratic(constant) is not None:
        assert float(norm.quadratic(constant).value) == pytest.approx(norm.value(W) ** 2, rel=1e-12)


@pytest.mark.parametrize(("H", "C"), [(1, 2), (2, 2), (3, 2), (2, 4), (3, 4)])
def test_predictor_norm_is_the_norm_of_beta_over_all_global_contexts(H, C):
    zeta = np.random.default_rng(H * C).normal(size=(H * C, 3))
    beta = [sum(zeta[h * C + c] for h, c in enumerate(gamma)) for gamma in itertools.product(range(C), repeat=H)]
    assert C ** ((H - 2) / 2) * PredictorL2(H, C).value(zeta) == pytest.approx(np.linalg.norm(beta), rel=1e-12)


@pytest.mark.parametrize(("H", "C"), [(2, 2), (3, 2), (2, 4), (5, 8)])
def test_the_factor_is_that_of_the_symmetric_square_root(H, C):
    J, Q, eye = np.ones((H * C, H * C)), np.kron(np.eye(H), np.ones((C, C))), np.eye(H * C)
    A = J / np.sqrt(H * C) - Q / np.sqrt(C) + np.sqrt(C) * eye
    M = C * eye + J - Q
    np.testing.assert_allclose(A @ A, M, atol=1e-12)
    B = PredictorL2(H, C).factor.toarray()
    np.testing.assert_allclose(B.T @ B, M, atol=1e-12)
    published = J / (H * C) - Q + C * eye
    assert not np.allclose(published @ published, M)


def test_predictor_dual_outside_the_range_is_infinite():
    V = np.zeros((4, 2))
    V[:2] = 1.0
    assert PredictorL2(2, 2).dual(V) == np.inf
    assert PredictorL2(2, 2).dual(np.zeros((4, 2))) == 0


@pytest.mark.parametrize(("gate", "norm"), [pair for pair in PAIRS if pair[1] == "predictor L2"])
def test_the_adjoint_of_contexts_lies_in_the_range(gate, norm):
    case = problem(gate, norm)
    V = case.adjoint(np.random.default_rng(6).random(case.features.n))
    assert np.isfinite(case.norm.dual(V))


def test_closed_form_of_the_group_lasso_for_two_units_and_two_contexts():
    """min Σ‖ζ_h‖ over ζ with β_ij = ζ_1i + ζ_2j has a closed form (the paper's example)."""
    rng = np.random.default_rng(7)
    zeta0 = rng.normal(size=(4, 3))
    b = {(i, j): zeta0[i] + zeta0[2 + j] for i in range(2) for j in range(2)}
    length = np.linalg.norm
    straight = length(b[0, 0] - b[0, 1]) + length(b[0, 0] - b[1, 0])
    square = 0.5 * (straight**2 + length(b[0, 1] + b[1, 0]) ** 2)
    zeta = cp.Variable((4, 3))
    agree = [zeta[i] + zeta[2 + j] == b[i, j] for i in range(2) for j in range(2)]
    best = cp.Problem(cp.Minimize(GroupLasso([0, 0, 1, 1]).expression(zeta)), agree)
    best.solve(solver="CLARABEL")
    assert float(best.value) == pytest.approx(np.sqrt(square), rel=1e-6)


@pytest.mark.parametrize("groups", [[], [0.5, 1.0], [[0, 1]], "ab", [[0], [1, 2]], None])
def test_bad_groups(groups):
    with pytest.raises(InputError, match="groups"):
        GroupLasso(groups)


@pytest.mark.parametrize(("units", "contexts"), [(0, 2), (2, 3), (2, 0), (2.5, 2), (2, True), ("2", 2)])
def test_bad_shapes_of_the_predictor_norm(units, contexts):
    with pytest.raises(InputError):
        PredictorL2(units, contexts)
