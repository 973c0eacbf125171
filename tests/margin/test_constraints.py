"""Linear constraints on the weights: certified, measured in margins, and refused where they cannot be."""

import dataclasses

import cvxpy as cp
import numpy as np
import pytest

from implicit_bias import (
    Frobenius,
    GatedFeatures,
    HyperplaneGates,
    InputError,
    MarginProblem,
    Status,
    certify,
    solve,
    svm_gln,
)
from tests.cases import inputs, problem

CONSTRAINTS = {
    "non-negative": lambda W: [W >= 0],
    "a bound and an equality": lambda W: [W[:, 0] >= W[:, 1], W[0, 2] == W[1, 2]],
    "one equality": lambda W: cp.sum(W[:, 1:3]) == 0,
    "equal columns": lambda W: [W[:, 0] == 2 * W[:, 1], -W[0] <= W[1]],
}


@pytest.mark.parametrize("kind", CONSTRAINTS)
@pytest.mark.parametrize(("norm", "C"), [("group lasso", 50.0), ("frobenius", 0.3), ("uneven groups", 50.0)])
def test_constraints_are_certified(kind, norm, C):
    plain = problem("contexts 2", norm, C)
    case = dataclasses.replace(plain, constraints=CONSTRAINTS[kind], intercept=C < 1)
    solution = solve(case, tol=1e-6)
    assert solution.status is Status.OPTIMAL, str(solution)
    program = dataclasses.replace(plain, C=case.C, intercept=case.intercept).cvxpy(reduce=False)
    extra = CONSTRAINTS[kind](program.weights)
    oracle = cp.Problem(program.objective, [*program.constraints, *(extra if isinstance(extra, list) else [extra])])
    oracle.solve(solver="CLARABEL")
    assert solution.objective == pytest.approx(oracle.value, rel=1e-5)
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


@pytest.mark.parametrize(
    ("constraints", "words"),
    [
        (lambda W: [-1 <= W <= 1], "Cannot evaluate the truth value"),
        (lambda W: [abs(W) <= 1], "the abs function provided by CVXPY"),
        (lambda W: [cp.abs(W) >= 1], "constraint 0 is not linear"),
        (lambda W: [W <= np.inf], "finite"),
        (lambda W: [cp.norm(W) <= 0], "not linear"),
        (lambda W: [np.nan * W[0, 0] >= 0], "finite"),
        (lambda W: [1j * W[0, 0] == 0], "not linear"),
        (lambda W: [cp.Variable() >= 0], "not linear"),
        (lambda W: [], "returned no constraints"),
        (lambda W: [True], "constraint 0 is not linear"),
        ("W >= 0", "function"),
        (5, "function"),
    ],
)
def test_bad_constraints(constraints, words):
    with pytest.raises(InputError, match=words):
        dataclasses.replace(problem("contexts 2", "group lasso"), constraints=constraints)


@pytest.mark.parametrize(
    ("constraints", "optimum"),
    [
        (lambda W: [W >= 0], 1.0),
        (lambda W: [W[0, 0] >= 0, cp.sum(W) <= 3 * W], 1.0),
        (lambda W: [0 * W >= 0], 1.0),
        (lambda W: [np.ones((2, 1)) @ W <= 0], None),
        (lambda W: W == 0, None),
    ],
)
def test_constraints_on_a_single_weight(constraints, optimum):
    case = MarginProblem(GatedFeatures([[1.0], [-2.0]]), [1, -1], Frobenius(), constraints=constraints)
    hard, soft = solve(case), solve(dataclasses.replace(case, C=0.1))
    assert soft.status is Status.OPTIMAL
    assert hard.status is (Status.OPTIMAL if optimum else Status.NOT_SEPARABLE), str(hard)
    assert optimum is None or hard.objective == pytest.approx(optimum, rel=1e-6)


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


def heights(scale, n=60):
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
    solution = solve(MarginProblem(GatedFeatures(X), y, Frobenius(), C, constraints=lambda W: [W >= 0]))
    assert solution.status is Status.OPTIMAL, str(solution)
    assert solution.objective == pytest.approx(30 * C, rel=1e-6) if share < 1 else solution.objective < 30 * C
