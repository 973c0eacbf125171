import itertools

import cvxpy as cp
import numpy as np
import pytest

from implicit_bias import GroupLasso, InputError, PredictorL2


@pytest.mark.parametrize(("H", "K"), [(1, 2), (2, 2), (3, 2), (2, 4), (3, 4)])
def test_predictor_norm_is_the_norm_of_beta_over_all_global_contexts(H, K):
    zeta = np.random.default_rng(H * K).normal(size=(H * K, 3))
    beta = [sum(zeta[h * K + c] for h, c in enumerate(gamma)) for gamma in itertools.product(range(K), repeat=H)]
    assert K ** ((H - 2) / 2) * PredictorL2(H, K).value(zeta) == pytest.approx(np.linalg.norm(beta), rel=1e-12)


@pytest.mark.parametrize(("H", "K"), [(2, 2), (3, 2), (2, 4), (5, 8)])
def test_the_factor_is_that_of_the_symmetric_square_root(H, K):
    J, Q, eye = np.ones((H * K, H * K)), np.kron(np.eye(H), np.ones((K, K))), np.eye(H * K)
    A = J / np.sqrt(H * K) - Q / np.sqrt(K) + np.sqrt(K) * eye
    M = K * eye + J - Q
    np.testing.assert_allclose(A @ A, M, atol=1e-12)
    B = PredictorL2(H, K).factor.toarray()
    np.testing.assert_allclose(B.T @ B, M, atol=1e-12)
    published = J / (H * K) - Q + K * eye
    assert not np.allclose(published @ published, M)


def test_predictor_dual_outside_the_range_is_infinite():
    V = np.zeros((4, 2))
    V[:2] = 1.0
    assert PredictorL2(2, 2).dual(V) == np.inf
    assert PredictorL2(2, 2).dual(np.zeros((4, 2))) == 0


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
