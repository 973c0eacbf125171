from fractions import Fraction

import numpy as np
import pytest

import implicit_bias as ib
from tests.cases import assert_refused, problem


def test_the_best_multiple_of_soft_margin_weights():
    case = problem("constant", "frobenius", C=0.3)
    W = np.random.default_rng(3).normal(size=(1, case.features.d))
    f, size = case.margins(W), case.norm.value(W)
    grid = np.linspace(0, 10, 200_001)
    best = min(t * size + 0.3 * np.maximum(1 - t * f, 0).sum() for t in grid[::50])
    fine = ib.certify(case, W, np.zeros(case.features.n)).objective
    assert fine <= best + 1e-12
    assert fine == pytest.approx(best, rel=1e-3)


def test_weights_that_do_not_separate_bound_nothing():
    case = ib.svm_gln([[2.0, 1.0], [-2.0, 1.0]], [1, -1], ib.ConstantGate())
    found = ib.certify(case, [[0.0, 1.0]], [0.0, 0.0])
    assert (found.objective, found.lower_bound, found.gap) == (np.inf, 0.0, np.inf)
    assert found.separable
    assert ib.certify(case, [[np.nan, 1.0]], [np.inf, 1.0]).objective == np.inf


def test_farkas_residual_is_scale_free():
    X, y = np.array([[1.0, 2.0], [1.0, 2.0], [0.0, 1.0]]), [1, -1, 1]
    for scale in (1e-8, 1.0, 1e8):
        case = ib.MarginProblem(ib.GatedFeatures(scale * X, np.ones((3, 1))), y, ib.GroupLasso([0]))
        found = ib.certify(case, np.zeros((1, 2)), [1.0, 1.0, 0.0])
        assert not found.separable
        assert found.lower_bound == np.inf
        assert found.dual.sum() == pytest.approx(1.0)
        assert ib.certify(case, np.zeros((1, 2)), [1.0, 0.9, 0.0]).separable


def test_a_light_group_that_cancels_beside_a_heavy_one_is_counted_with_its_rounding():
    """‖Φᵀ(λ∘y)‖_* ≤ 1 holds in rational arithmetic for groups with weights 1e6 and 1e-6, one of which cancels."""
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(30):
        X, G, lam = rng.normal(size=(6, 2)), rng.normal(size=(6, 2)), rng.uniform(0.5, 2.0, size=6)
        # The second gate's sums over the samples vanish but for a share of 1e-9.
        G[:, 1] = np.linalg.svd((lam[:, None] * X).T)[2][-1] + 1e-9 * rng.normal(size=6)
        case = ib.MarginProblem(ib.GatedFeatures(X, G), np.ones(6), ib.GroupLasso([0, 1], weights=[1e6, 1e-6]), C=1e9)
        found = ib.certify(case, np.zeros((2, 2)), lam)
        exact = [[Fraction(0)] * 2 for _ in range(2)]
        for i in range(6):
            for j in range(2):
                for col in range(2):
                    exact[j][col] += Fraction(found.dual[i]) * Fraction(G[i, j]) * Fraction(X[i, col])
        squares = [sum(v * v for v in row) / Fraction(c) ** 2 for row, c in zip(exact, (1e6, 1e-6), strict=True)]
        worst = max(worst, float(max(squares) - 1))
    assert worst <= 1e-15


def test_weights_that_separate_outweigh_any_residual():
    """A nearly inseparable problem with the optimum 1 at (0, 1) is not declared inseparable for a large input."""
    a = 1e11
    case = ib.svm_gln([[a, 1], [a, -1], [a, 2], [a, -2]], [1, -1, 1, -1], ib.ConstantGate())
    found = ib.certify(case, [[0.0, 1.0]], [0.5, 0.5, 0.0, 0.0])
    assert found.objective == pytest.approx(1.0, rel=1e-14)
    assert found.lower_bound <= 1.0 + 1e-9
    assert found.separable
    assert ib.solve(case).status.name != "NOT_SEPARABLE"


def test_wrong_shapes():
    case = problem("constant", "frobenius")
    assert_refused(lambda: ib.certify(case, np.zeros(3), np.zeros(case.features.n)), "weights must have shape")
    assert_refused(lambda: ib.certify(case, np.zeros((1, case.features.d)), np.zeros(2)), "dual must have shape")


def test_margins_that_rounding_hides_are_computed_precisely():
    """The margin is 1, and its error in doubles is larger: without a second look, the best multiple is 0."""
    case = ib.MarginProblem(ib.GatedFeatures([[1 + 2.0**-52, 1.0]]), [1], ib.Frobenius(), C=1e20)
    assert ib.certify(case, [[2.0**52, -(2.0**52)]], [1.0]).objective == pytest.approx(2.0**52.5)


def test_weights_that_satisfy_constraints_exactly_are_not_charged_for_rounding():
    """The margin of (1, 1) is 2⁻⁴⁵; an error of 2⁻⁵² of its terms would change the bound by 2 %."""
    features = ib.GatedFeatures([[1.0, 2.0**-45 - 1]])
    case = ib.MarginProblem(features, [1], ib.Frobenius(), constraints=lambda W: [W[0, 0] == W[0, 1], W >= 0])
    for scale in (1.0, 2.0**-500):
        assert ib.certify(case, [[scale, scale]], [1.0]).objective == pytest.approx(2**45.5, rel=1e-12)


def test_a_correlation_that_rounding_moves_out_of_the_range_of_a_seminorm():
    X = [[0.5 + 2.0**-53], [-0.5], [1 + 2.0**-52], [-1.0]]
    G = [[1, 0, 1, 0], [1, 0, 1, 0], [1, 0, 0, 1], [1, 0, 0, 1]]
    norm = ib.PredictorL2(2, 2)
    exact = 4 / norm.dual(np.array([[3.0], [0.0], [1.0], [2.0]]) * 2.0**-53)
    found = ib.certify(ib.MarginProblem(ib.GatedFeatures(X, G), [1] * 4, norm, C=1e20), np.zeros((4, 1)), np.ones(4))
    assert found.lower_bound == pytest.approx(exact, rel=1e-9)


def test_a_proof_stands_although_multiples_of_its_dual_overflow():
    case = ib.MarginProblem(ib.GatedFeatures([[0], [0]], np.full((2, 4), 1e200)), [1, -1], ib.GroupLasso([0] * 4, 100))
    found = ib.certify(case, np.zeros((4, 1)), [1, 0])
    assert (found.objective, found.farkas_residual) == (np.inf, 0.0)


def test_bounds_near_the_largest_float():
    case = ib.MarginProblem(ib.GatedFeatures([[3e-280, 1e-283], [3e-280, -1e-283]]), [1, -1], ib.Frobenius())
    found = ib.certify(case, [[0.0, 1.0]], [1.0, 1.0])
    assert found.lower_bound == pytest.approx(1e283, rel=1e-9)
    assert found.objective == pytest.approx(1e283, rel=1e-9)
