"""PRECISE on samples close to a plane, with large C, and with more samples than a working set holds."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.datasets import make_blobs

from implicit_bias import ConstantGate, HyperplaneGates, InputError, MarginProblem, Status, solve, svm_gln
from implicit_bias.features import GatedFeatures
from implicit_bias.norms import ExpressionNorm, Frobenius, GroupLasso, TwoLayerNorm
from tests.cases import optimal
from tests.fuzz.exact import faults
from tests.fuzz.judge import Raw


def near_a_plane(e, n=120, d=6, seed=0):
    """Return samples at a distance of e to 2e from a plane, on the side of their labels, and the plane's normal."""
    rng = np.random.default_rng(seed)
    normal = rng.normal(size=d)
    normal /= np.linalg.norm(normal)
    X, y = rng.normal(size=(n, d)), np.where(rng.random(n) < 0.5, 1, -1)
    return X + np.outer(y * e * rng.uniform(1, 2, n) - X @ normal, normal), y, normal


@pytest.mark.parametrize(("e", "intercept"), [(1e-5, True), (1e-7, False), (1e-7, True), (1e-9, False)])
def test_samples_close_to_a_plane_are_separated(e, intercept):
    X, y, normal = near_a_plane(e)
    problem = svm_gln(X, y, HyperplaneGates(3, 2, seed=0).fit(X)).replace(intercept=intercept)
    found = optimal(problem)
    # The plane itself is feasible, and its weights are the same in all regions.
    plane = np.tile(normal, (problem.features.k, 1))
    upper = problem.norm.value(plane) / problem.margins(plane, 0.0).min()
    assert found.lower_bound <= upper
    assert 0.1 / e < found.objective < upper


def test_one_weight_matrix_has_the_margin_of_a_linear_program():
    """In one dimension beyond the plane, the least norm is 1/e up to terms of order 1."""
    rng, e = np.random.default_rng(1), 2.0**-27
    Z, y = rng.integers(-3, 4, size=(300, 2)), np.where(rng.random(300) < 0.5, 1, -1)
    X = np.column_stack([Z, y * e * rng.integers(1, 4, 300)])
    found = solve(svm_gln(X, y, ConstantGate()))
    scaled = np.column_stack([Z, X[:, 2] / e])
    # Among the separating (w, v) of the scaled inputs, minimise v: all else is negligible in ‖(w, v/e)‖.
    lp = linprog([0, 0, 1], A_ub=-y[:, None] * scaled, b_ub=-np.ones(300), bounds=[(None, None)] * 3)
    assert found.status is Status.OPTIMAL
    assert found.objective * e == pytest.approx(lp.fun, rel=1e-6)


SUM_OF_ENTRIES = ExpressionNorm(lambda W: cp.norm1(W), lambda V: np.abs(V).max())


@pytest.mark.parametrize(
    ("n", "C", "norm"),
    [
        *((n, C, GroupLasso([0])) for n, C in ((60, 1e9), (60, 1e15), (60, 1e20), (400, 1e11))),
        (20, 1e12, SUM_OF_ENTRIES),
        (20, 1e12, TwoLayerNorm([0], "entries", "l_inf")),
    ],
)
def test_beyond_every_multiplier_the_answer_is_the_limit(n, C, norm):
    X, y = make_blobs(n, centers=2, cluster_std=4, random_state=0)
    X, y = np.column_stack([X, np.ones(n)]), 2 * y - 1
    found = optimal(MarginProblem(GatedFeatures(X), y, norm, C=C))
    slack = np.column_stack([-y[:, None] * X, -np.eye(n)])
    bounds = [(None, None)] * 3 + [(0, None)] * n
    least = linprog(np.append(np.zeros(3), np.ones(n)), A_ub=slack, b_ub=-np.ones(n), bounds=bounds)
    assert found.objective / C == pytest.approx(least.fun, rel=1e-6)


@pytest.mark.parametrize("layers", [("spectral", "l2"), ("spectral", "l_inf"), ("entries", "l2"), ("rows", "l_inf")])
def test_a_thin_wedge_ends_at_its_edge(layers):
    """(1 − 1e-12) v ≤ w ≤ v leaves w = v ≥ 0, up to 1e-12; without v ≥ 0 the samples would have another optimum."""
    rng = np.random.default_rng(0)
    X, G, norm = rng.normal(size=(6, 3)), rng.uniform(0.5, 1, (6, 2)), TwoLayerNorm([0, 1], *layers, [1, 2])
    y = np.sign(X @ [1.0, 0.5, -2.0])
    wedge, edge, line = (
        solve(MarginProblem(GatedFeatures(X, G), y, norm, C=2.0, constraints=rule))
        for rule in (
            lambda W: [W[0, 0] <= W[1, 2], (1 - 1e-12) * W[1, 2] <= W[0, 0]],
            lambda W: [W[0, 0] == W[1, 2], W[1, 2] >= 0],
            lambda W: [W[0, 0] == W[1, 2]],
        )
    )
    assert wedge.status is Status.OPTIMAL, wedge
    assert wedge.objective == pytest.approx(edge.objective, rel=1e-5)
    assert line.objective < 0.99 * edge.objective


def test_an_intercept_far_above_the_weights():
    X = [[67108992.0, 67108995.0], [67108994.0, 67108993.0], [67108994.0, 67108994.0]]
    m = [0.0071802497933665796, 12.407616708239548, 0.3135383871037448]
    far = MarginProblem(
        GatedFeatures(X), [-1, -1, 1], Frobenius(), C=665012861947206.6, required_margin=m, intercept=True
    )
    assert solve(far).status is Status.OPTIMAL


def test_separable_samples_have_the_hard_margin():
    X, y = make_blobs(80, centers=2, cluster_std=0.5, random_state=0)
    X, y = np.column_stack([X, np.ones(80)]), 2 * y - 1
    hard, soft = (solve(svm_gln(X, y, ConstantGate(), C=C), "NATIVE", tol=1e-9) for C in (np.inf, 1e14))
    assert soft.status is Status.OPTIMAL
    assert soft.objective == pytest.approx(hard.objective, rel=1e-8)


def test_more_support_vectors_than_fit_are_a_reason():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 500)), np.where(rng.random(500) < 0.5, 1, -1)
    problem = MarginProblem(GatedFeatures(X), y, Frobenius())
    found = solve(problem, "PRECISE", start=solve(problem))
    assert found.status is Status.INACCURATE
    assert "too many for arithmetic of 60 digits" in found.reason


def test_a_constraint_that_says_nothing_changes_nothing():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 4)), np.where(rng.random(20) < 0.5, 1, -1)
    values = [
        solve(MarginProblem(GatedFeatures(X), y, GroupLasso([1]), C=1.0, constraints=rule), "PRECISE").objective
        for rule in (None, lambda W: [W[0, 0] <= W[0, 0], W[0, 1] == 2 * W[0, 1] - W[0, 1]])
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-6)


def test_a_start_with_every_dual_variable_at_its_bound():
    X, y = make_blobs(150, centers=2, cluster_std=4, random_state=0)
    problem = svm_gln(np.column_stack([X, np.ones(150)]), 2 * y - 1, ConstantGate(), C=1e-3)
    for intercept in (False, True):
        free = problem.replace(intercept=intercept)
        start = replace(solve(free), dual=free.upper_bounds)
        assert solve(free, "PRECISE", start=start).objective == pytest.approx(solve(free).objective, rel=1e-6)
    with pytest.raises(InputError, match="150 samples, but the problem has 2; leave it out"):
        solve(svm_gln([[1.0], [2.0]], [1, -1], ConstantGate()), "PRECISE", start=start)


def test_many_groups_are_a_reason():
    rng = np.random.default_rng(0)
    problem = MarginProblem(
        GatedFeatures(rng.normal(size=(100, 1)), rng.random((100, 500))), [1, -1] * 50, GroupLasso(range(500)), C=1.0
    )
    assert "100 samples in 500 groups" in solve(problem, "PRECISE", tol=1e-12).reason


#: Samples that only their rounding separates, and a pair whose λ are far below their upper bounds.
BY_ROUNDING = (
    [[2.0, -1.0, -1.0], [-3.0, -1.0, 1.0], [-2.8, -1.1, 0.9], [-3.8, 1.9, 1.9]],
    [[1, 1, 0], [1, 1, 0], [1, 1, 0], [1, 0, 1]],
    [1, 1, -1, 1],
    np.inf,
)
FAR_BELOW = (
    [
        [1.4356413156677394, 0.120224772633634, -1.370523162534382],
        [1.4356413156677312, 0.12022477263364119, -1.3705231625343821],
    ],
    [[1, 1, 1], [1, 1, 1]],
    [-1, 1],
    1e18,
)


@pytest.mark.parametrize("case", [BY_ROUNDING, FAR_BELOW], ids=["rounding", "far below"])
def test_multiples_of_weights_and_dual_are_rounded_to_any_scale(case):
    X, G, y, C = (np.asarray(part, dtype=float) for part in case)
    found = optimal(MarginProblem(GatedFeatures(X, G), y, GroupLasso([0, 1, 2]), C=float(C)), "PRECISE")
    assert not faults(Raw.gated(X, G, y, "groups", groups=np.arange(3), C=float(C)).exact, found, 1e-6)


def test_samples_with_closed_gates_alone():
    margins, weights = [2.0, 0.5], [1.0, 3.0]
    closed = MarginProblem(
        GatedFeatures(np.ones((2, 2)), np.zeros((2, 2))),
        [1, -1],
        GroupLasso([0, 1]),
        C=5.7e-7,
        required_margin=margins,
        sample_weight=weights,
        constraints=lambda W: [W[0, 0] >= 0],
    )
    assert solve(closed, "PRECISE").objective == pytest.approx(5.7e-7 * (2.0 + 1.5), rel=1e-12)
