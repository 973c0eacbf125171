"""Linear constraints on the weights: certified, measured in margins, and refused where they cannot be."""

import dataclasses
from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

from implicit_bias import (
    Frobenius,
    GatedFeatures,
    HyperplaneGates,
    InputError,
    MarginProblem,
    NuclearNorm,
    Status,
    TwoLayerNorm,
    certify,
    margin_path,
    solve,
    svm_gln,
)
from implicit_bias.certificate.feasible import Equations, feasible_point
from implicit_bias.datasets.task import with_constant
from implicit_bias.margin.constraints import LinearConstraints
from tests.cases import assert_refused, constraints_of, inputs, optimal, optimum, problem, refusals

CONSTRAINTS = {
    "non-negative": lambda W: [W >= 0],
    "a bound and an equality": lambda W: [W[:, 0] >= W[:, 1], W[0, 2] == W[1, 2]],
    "one equality": lambda W: cp.sum(W[:, 1:3]) == 0,
    "equal columns": lambda W: [W[:, 0] == 2 * W[:, 1], -W[0] <= W[1]],
}


@pytest.mark.parametrize("kind", CONSTRAINTS)
@pytest.mark.parametrize(("norm", "C"), [("group lasso", 50.0), ("frobenius", 0.3), ("uneven groups", 50.0)])
def test_constraints_are_certified(kind, norm, C):
    case = dataclasses.replace(problem("contexts 2", norm, C), constraints=CONSTRAINTS[kind], intercept=C < 1)
    solution = optimal(case, tol=1e-6)
    assert solution.objective == pytest.approx(optimum(case, CONSTRAINTS[kind]), rel=1e-5)
    assert solution.lower_bound > solve(dataclasses.replace(case, constraints=None)).lower_bound * (1 - 1e-9)


def test_constraints_of_a_hard_margin():
    X = inputs()
    y = np.where(X[:, 0] + X[:, 1] > 0, 1, -1)
    X[:, :2] += y[:, None]
    case = svm_gln(X, y, HyperplaneGates(3, 2))
    free, bound = solve(case), solve(dataclasses.replace(case, constraints=lambda W: [W >= 0]))
    assert free.weights.min() < -1e-3
    assert bound.status is Status.OPTIMAL
    assert bound.weights.min() > -1e-6 * bound.weights.max()
    assert bound.objective > free.objective * (1 + 1e-3)
    lie = certify(dataclasses.replace(case, constraints=lambda W: [W >= 0]), free.weights, free.dual)
    assert lie.objective >= bound.lower_bound
    assert lie.weights.min() >= 0


test_bad_constraints = refusals(
    (lambda W: [-1 <= W <= 1], "Cannot evaluate the truth value"),
    (lambda W: [abs(W) <= 1], "the abs function provided by CVXPY"),
    (lambda W: [cp.abs(W) >= 1], "constraint 0 is not linear"),
    (lambda W: [cp.sum(W) <= np.inf], "finite"),
    (lambda W: [cp.norm(W) <= 0], "not linear"),
    (lambda W: [np.nan * W[0, 0] >= 0], "finite"),
    (lambda W: [1j * W[0, 0] == 0], "not linear"),
    (lambda W: [cp.Variable() >= 0], "not linear"),
    (lambda W: [cp.Constant(1.0) <= 2.0], "not linear"),
    (lambda W: [], "returned no constraints"),
    (lambda W: [True], "constraint 0 is not linear"),
    ("W >= 0", "function"),
    (5, "function"),
    call=lambda constraints: dataclasses.replace(problem("contexts 2", "group lasso"), constraints=constraints),
)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("constraints", [lambda W: [W <= 0], lambda W: [W[0, 0] == -W[0, 1], W[0, 1] == 0]])
def test_constraints_that_leave_nothing_to_separate_with(constraints, intercept):
    X, y = np.array([[1.0, 2.0], [-1.0, -2.0], [2.0, 1.0]]), np.array([1, -1, 1])
    free = MarginProblem(GatedFeatures(X), y, Frobenius(), intercept=intercept)
    assert solve(free).status is Status.OPTIMAL
    case = dataclasses.replace(free, constraints=constraints)
    solution = solve(case)
    assert solution.status is Status.NOT_SEPARABLE, str(solution)
    pull = case.constraints.E.T @ solution.multipliers
    np.testing.assert_allclose((solution.dual * y) @ X, pull, atol=1e-13)
    assert (solution.dual >= 0).all()
    assert (solution.multipliers[~case.constraints.equal] >= 0).all()


def test_seminorms_take_no_constraints():
    with pytest.raises(InputError, match="zero for some nonzero weights"):
        dataclasses.replace(problem("contexts 2", "predictor L2"), constraints=lambda W: [W >= 0])


def heights(scale, n=30):
    """Return two inputs whose sizes differ by `scale`, both of which separate the labels."""
    rng = np.random.default_rng(0)
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    return np.column_stack([y + 0.3 * rng.normal(size=n), scale * (2 * y + 0.1 * rng.normal(size=n))]), y


@pytest.mark.parametrize(("scale", "C"), [(1.0, 0.01), (1e-6, 1.0), (1e7, 0.01), (1e7, 1.0), (1e10, 1.0)])
def test_violations_are_measured_in_margins(scale, C):
    """No certified objective is below the optimum although a weight of 1e-8 on an input of 1e7 violates W ≤ 0."""
    X, y = heights(scale)
    case = MarginProblem(GatedFeatures(X), y, Frobenius(), C, constraints=lambda W: [W[:, 1] <= 0])
    solution = solve(case)
    truth = solve(MarginProblem(GatedFeatures(X[:, :1]), y, Frobenius(), C)).objective
    if solution.status is Status.OPTIMAL:
        assert solution.objective == pytest.approx(truth, rel=1e-5)
    assert solution.status is Status.OPTIMAL or scale > 1e6


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9, 1.5])
def test_constraints_where_slack_is_cheap(share):
    X, y = np.random.default_rng(0).normal(size=(30, 4)), np.repeat([1.0, -1.0], 15)
    X += 0.5 * y[:, None]
    C = share / np.linalg.norm(np.maximum(y @ X, 0))  # below 1, W = 0 is optimal
    solution = optimal(MarginProblem(GatedFeatures(X), y, Frobenius(), C, constraints=lambda W: [W >= 0]))
    assert solution.objective == pytest.approx(30 * C, rel=1e-6) if share < 1 else solution.objective < 30 * C


ROW = np.array([1.0, -0.5, 0.25, 2.0])
RIGHT_HAND_SIDES = {
    "interval": lambda W: cp.abs(W @ ROW) <= 0.1,
    "one point": lambda W: [W @ ROW <= 0.1, W @ ROW >= 0.1],
    "equality": lambda W: W[0, 0] == 2.0,
    "zero and beyond": lambda W: [W @ ROW >= 0, W[:, 2] <= -0.3],
    "redundant": lambda W: [cp.abs(W @ ROW) <= 0.1, cp.abs(2 * W @ ROW) <= 0.2, W <= 1e6],
    "scales": lambda W: [1e-5 * W[0] @ ROW <= 1e-6, 1e5 * W[0, 2] >= 1e4],
}


def separable_samples(n=40):
    """Return samples whose first two inputs separate the labels."""
    X = np.random.default_rng(0).normal(size=(n, 4))
    y = np.where(X[:, 0] + 0.5 * X[:, 1] > 0, 1.0, -1.0)
    X[:, :2] += 0.5 * y[:, None]
    return X, y


@pytest.mark.parametrize("kind", RIGHT_HAND_SIDES)
@pytest.mark.parametrize(("C", "intercept"), [(np.inf, False), (np.inf, True), (0.1, True), (20.0, False)])
def test_right_hand_sides_are_certified(kind, C, intercept):
    X, y = separable_samples()
    function = RIGHT_HAND_SIDES[kind]
    case = MarginProblem(GatedFeatures(X), y, Frobenius(), C, intercept=intercept, constraints=function)
    solution = optimal(case)
    for solver in {"CLARABEL", "ECOS"}.intersection(cp.installed_solvers()):
        assert solution.objective == pytest.approx(optimum(case, function, solver), rel=1e-5), solver
    W = cp.Variable((1, 4), value=solution.weights)
    for constraint in constraints_of(function, W):
        assert np.max(constraint.violation()) <= 1e-12 * max(1.0, np.abs(solution.weights).max())


@pytest.mark.parametrize(
    ("constraints", "C", "optimum"),
    [
        (lambda W: W >= 3, np.inf, 3.0),
        (lambda W: W <= 3, np.inf, 1.0),
        (lambda W: W == 1, np.inf, 1.0),
        (lambda W: [W >= 1, W <= 1], np.inf, 1.0),
        (lambda W: W <= 0.5, np.inf, Status.NOT_SEPARABLE),
        (lambda W: W <= -1, np.inf, Status.NOT_SEPARABLE),
        (lambda W: [W >= 2, W <= 1], np.inf, Status.INFEASIBLE),
        (lambda W: [W >= 2, W <= 2 * (1 - 1e-9)], np.inf, Status.INFEASIBLE),
        (lambda W: [W >= 2, W <= 1], 1.0, Status.INFEASIBLE),
        (lambda W: [0 * W == 1], 1.0, Status.INFEASIBLE),
        (lambda W: cp.abs(W) <= -1, 1.0, Status.INFEASIBLE),
        (lambda W: cp.abs(W) <= 0.25, 2.0, 0.25 + 2 * (0.75 + 0.5)),
        (lambda W: cp.abs(W) <= 0, 2.0, 4.0),
        (lambda W: W <= -2, 0.5, 2 + 0.5 * (3 + 5)),
        (lambda W: [W[0, 0] >= 0, cp.sum(W) <= 3 * W], np.inf, 1.0),
        (lambda W: [0 * W >= 0], np.inf, 1.0),
        (lambda W: [np.ones((2, 1)) @ W <= 0], np.inf, Status.NOT_SEPARABLE),
        (lambda W: W == 0, np.inf, Status.NOT_SEPARABLE),
        *((rule, 0.1, 0.2) for rule in (lambda W: W >= 0, lambda W: 0 * W >= 0, lambda W: W <= 0, lambda W: W == 0)),
    ],
)
def test_constraints_on_a_single_weight(constraints, C, optimum):
    case = MarginProblem(GatedFeatures([[1.0], [-2.0]]), [1, -1], Frobenius(), C, constraints=constraints)
    solution = solve(case)
    if isinstance(optimum, float):
        assert solution.status is Status.OPTIMAL, str(solution)
        assert solution.lower_bound <= optimum * (1 + 1e-15)
        assert solution.objective == pytest.approx(optimum, rel=1e-6)
        return
    assert solution.status is optimum, str(solution)
    E, h, mu = case.constraints.E.toarray(), case.constraints.h, solution.multipliers
    np.testing.assert_allclose(case.adjoint(solution.dual).ravel(), E.T @ mu, atol=1e-15)
    assert solution.dual.sum() > h @ mu
    assert (mu[~case.constraints.equal] >= 0).all()
    assert (solution.dual == 0).all() == (optimum is Status.INFEASIBLE)
    assert ("constraints in rational arithmetic" in str(solution)) == (optimum is Status.INFEASIBLE)


@pytest.mark.parametrize("C", [np.inf, 0.3])
@pytest.mark.parametrize("noise", [0.0, 1e-9, 1e-4])
def test_any_weights_are_moved_into_the_feasible_set(C, noise):
    X, y = separable_samples()
    case = MarginProblem(GatedFeatures(X), y, Frobenius(), C, constraints=lambda W: cp.abs(W @ ROW) <= 0.1)
    best, rng = solve(case), np.random.default_rng(1)
    for factor in (1.0, 0.01, 3.0):
        weights = factor * best.weights * (1 + noise * rng.normal(size=4))
        found = certify(case, weights, 5 * best.dual, multipliers=5 * best.multipliers)
        # Products of four terms, of the sizes of weights and inputs.
        assert abs(found.weights @ ROW) <= 0.1 + 1e-15 * np.abs(found.weights @ np.diag(ROW)).sum()
        assert best.lower_bound <= found.objective <= best.objective * (1 + max(1e-6, 100 * noise))
        assert found.lower_bound == pytest.approx(best.lower_bound, rel=1e-12)
        assert np.isfinite(C) or found.margins.min() >= 1 - 1e-13


def test_zero_weights_are_the_best_multiple_where_slack_is_cheap():
    X, y = separable_samples()
    case = MarginProblem(GatedFeatures(X), y, Frobenius(), 1e-3, constraints=lambda W: cp.abs(W @ ROW) <= 0.1)
    found = certify(case, ROW[None], np.ones(len(y)))
    assert not found.weights.any()
    assert found.objective == pytest.approx(1e-3 * len(y), rel=1e-12)
    assert found.gap <= 1e-12


def test_a_path_of_constrained_problems():
    X, y = separable_samples()
    case = MarginProblem(GatedFeatures(X), y, Frobenius(), constraints=lambda W: cp.abs(W @ ROW) <= 0.1)
    for C, found in zip((0.1, 5.0, np.inf), margin_path(case, [0.1, 5.0, np.inf]), strict=True):
        assert found.objective == pytest.approx(solve(dataclasses.replace(case, C=C)).objective, rel=1e-5)


@pytest.mark.parametrize(
    ("name", "tol"), [("CLARABEL", 1e-6), ("ECOS", 1e-6), ("PRECISE", 1e-9), ("OSQP", 1e-3), ("SCS", 1e-3)]
)
def test_solvers_of_right_hand_sides(name, tol):
    X, y = separable_samples()
    case = MarginProblem(GatedFeatures(X), y, Frobenius(), constraints=lambda W: cp.abs(W @ ROW) <= 0.1)
    best = solve(case)
    found = optimal(case, name, tol=tol)
    assert found.lower_bound <= best.objective
    assert found.objective >= best.lower_bound
    assert_refused(lambda: solve(case, "NATIVE"), "use CLARABEL")


@pytest.mark.parametrize("norm", [Frobenius(), TwoLayerNorm([0], "spectral", "l_inf")])
def test_hard_margins_that_constraints_allow_or_forbid_by_a_hair(norm):
    """Only W = w attains all required margins if ⟨Σ_i λ_i y_i x_i, W⟩ is at most its value at w."""
    rng, w = np.random.default_rng(0), np.array([1.0, -2.0, 3.0])
    X = rng.normal(size=(6, 3)) * 10.0 ** rng.choice([-5, 0, 5], (6, 1))
    f, lam = X @ w, rng.uniform(1, 2, 6) / np.linalg.norm(X, axis=1)
    row, most = (lam * np.sign(f)) @ X, lam @ abs(f)
    for share, status in ((1 - 1e-12, Status.NOT_SEPARABLE), (1 + 1e-9, Status.OPTIMAL)):
        rule = lambda W, h=share * most: W[0] @ row <= h  # noqa: E731
        found = solve(MarginProblem(GatedFeatures(X), np.sign(f), norm, required_margin=abs(f), constraints=rule))
        assert found.status is status, str(found)
        assert status is not Status.OPTIMAL or found.objective == pytest.approx(np.linalg.norm(w), rel=1e-6)


@pytest.mark.parametrize(
    ("X", "y", "C", "constraints", "optimum", "solver"),
    [
        ([[1e8, 5e7], [1e-8, -1e-8]], [1, 1], np.inf, lambda W: W[0, 1] - W[0, 0] <= 300, 1e8 / 2**0.5, "PRECISE"),
        ([[3.0, 3, -3, 3, 1], [-3.0, -3, 3, -3, -1]], [-1, -1], 1.6e11, lambda W: W[0, 4] >= 0.01, 3.2e11, "PRECISE"),
        ([[67108951.0, 67108952], [67108952.0, 67108953]], [1, -1], 0.3, lambda W: W == -1e-3, 40265.6723, "SCS"),
    ],
)
def test_fallback_solvers_of_right_hand_sides(X, y, C, constraints, optimum, solver):
    # PRECISE refuses nuclear norms.
    norm = NuclearNorm([0], [0]) if solver == "SCS" else Frobenius()
    found = optimal(MarginProblem(GatedFeatures(X), y, norm, C, constraints=constraints))
    assert found.solver == solver
    assert found.objective == pytest.approx(optimum, rel=1e-6)


def test_slack_that_costs_more_than_rounding_allows():
    X = [[-1.0, 0.0, 3.0, 2.0, -2.0], [-2.0, 1.0, 2.0, 1.0, 3.0], [0.0, -2.0, 1.0, -2.0, 1.0]]
    row = np.array([0.0, 0.0, -1.6879364211757386, -0.016493794353373042, 1.1379978049552164])
    rules = lambda W: [W >= 0, cp.abs(W[0] @ row) <= 1e-6]  # noqa: E731
    case = MarginProblem(GatedFeatures(X), [-1, 1, 1], Frobenius(), 1.3e10, intercept=True, constraints=rules)
    soft, hard = solve(case), solve(dataclasses.replace(case, C=np.inf))
    assert soft.status is Status.OPTIMAL, str(soft)
    assert soft.objective == pytest.approx(hard.objective, rel=1e-5)


@pytest.mark.parametrize("s", [1e-6, 1e6])
def test_scaling_of_samples_and_constraints(s):
    """Inputs times s divide W by s if h is divided by s; required margins times s multiply W if h is multiplied."""
    X, y = separable_samples()
    best = solve(MarginProblem(GatedFeatures(X), y, Frobenius(), constraints=lambda W: cp.abs(W @ ROW) <= 0.1))
    small = MarginProblem(GatedFeatures(s * X), y, Frobenius(), constraints=lambda W: cp.abs(W @ ROW) <= 0.1 / s)
    assert solve(small).objective * s == pytest.approx(best.objective, rel=1e-5)
    wide = MarginProblem(
        GatedFeatures(X), y, Frobenius(), required_margin=s, constraints=lambda W: cp.abs(W @ ROW) <= 0.1 * s
    )
    assert solve(wide).objective / s == pytest.approx(best.objective, rel=1e-5)


def test_constraints_are_shown_in_one_line():
    one = LinearConstraints.of(lambda W: cp.abs(W[0]) <= 1, (1, 2))
    assert repr(one) == "LinearConstraints(4 on 1 × 2 weights)"


@pytest.mark.parametrize("h", [np.array([1.0, 2.0]), [np.nan], "one", 1j])
def test_bad_right_hand_sides(h):
    one = LinearConstraints.of(lambda W: W[0, 0] <= 1, (1, 2))
    assert_refused(lambda: dataclasses.replace(one, h=h), "one right-hand side per constraint")


def test_a_hard_margin_with_right_hand_sides_and_many_support_vectors():
    """Weights that miss hundreds of margins by rounding would not be moved into the feasible set in minutes."""
    data = load_breast_cancer()
    X = with_constant(StandardScaler().fit_transform(data.data))
    large, y = X[:, 0] > 0, np.where(data.target == 1, 1.0, -1.0)
    plain = svm_gln(X, y, HyperplaneGates(30, 2, seed=0))
    phi = plain.features.dense()
    difference = (phi[large].mean(axis=0) - phi[~large].mean(axis=0)).reshape(plain.features.k, -1)
    case = dataclasses.replace(plain, constraints=lambda W: cp.abs(cp.sum(cp.multiply(difference, W))) <= 0.5)
    solution = optimal(case)
    assert abs(np.sum(difference * solution.weights)) <= 0.5 + 1e-11
    assert solution.margins.min() >= 1 - 1e-11
    assert solution.objective > 2 * solve(plain).objective


def test_many_equations_are_certified():
    """Exact elimination is given up for so many dense equations, and the last one is the sum of two others."""
    rng = np.random.default_rng(0)
    X, t = rng.integers(-99, 100, (30, 60)) / 64, rng.integers(-99, 100, 30) / 64
    assert Equations(csr_array(X), t).exact is None
    X[-1], t[-1] = X[0] + X[1], t[0] + t[1]
    best = np.linalg.lstsq(X, t)[0]
    dual = np.linalg.lstsq(X.T, best)[0]
    case = MarginProblem(GatedFeatures(X[:1]), np.sign(t[:1]), Frobenius(), constraints=lambda W: X @ W[0] == t)
    case = dataclasses.replace(case, required_margin=abs(t[0]) / 2)
    weights = best[None] * (1 + 1e-9 * rng.normal(size=60))
    found = certify(case, weights, [0.0], multipliers=-dual)
    assert found.gap <= 1e-9
    assert found.objective == pytest.approx(np.linalg.norm(best), rel=1e-9)
    # One that contradicts the others leaves no feasible point.
    wrong = dataclasses.replace(case, constraints=lambda W: X @ W[0] == t + np.eye(30)[-1])
    assert certify(wrong, weights, [0.0], multipliers=-dual).objective == np.inf


def test_distances_from_a_solution_hold_in_rational_arithmetic():
    """The correction of least length in units of the distances is at most 1 of them, entry by entry."""
    rng = np.random.default_rng(1)
    A = rng.normal(size=(12, 40)) * 10.0 ** rng.integers(-3, 4, (12, 1))
    W, _, D, _ = feasible_point(LinearConstraints.of(lambda W: A @ W[0] == 1, (1, 40)), rng.normal(size=(1, 40)))
    exact, x, units = (np.vectorize(Fraction, otypes=[object])(part) for part in (A, W[0], D[0]))
    system = np.column_stack([(exact * units**2) @ exact.T, exact @ x - 1])
    for j in range(12):
        system[j] = system[j] / system[j, j]
        others = np.arange(12) != j
        system[others] -= system[others, j, None] * system[j]
    correction = units**2 * (system[:, -1] @ exact)
    assert (exact @ (x - correction) == 1).all()
    assert (abs(correction) <= units).all()
    assert D.max() <= 1e-12 * abs(W).max()
