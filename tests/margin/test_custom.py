"""User-defined margin problems: free intercepts, norms, gates, solvers, one class."""

import dataclasses

import cvxpy as cp
import numpy as np
import pytest
import torch

import implicit_bias as ib
from implicit_bias.solvers import Answer
from tests.cases import assert_farkas, assert_refused, inputs, optimal, problem, refusals
from tests.norms.test_norms import TRUE


@pytest.mark.parametrize("intercept", [False, True])
def test_working_sets_of_an_unbalanced_problem(intercept):
    """A problem whose rare class comes last, 20 of 6000 samples, is certified from working sets."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(6000, 8))
    y = np.ones(6000)
    y[-20:] = -1
    X[:, 0] += 2 * y
    case = dataclasses.replace(ib.svm_gln(X, y, ib.HyperplaneGates(4, 2), 0.5), intercept=intercept)
    solution = optimal(case)
    assert ib.certify(case, solution.weights, solution.dual, solution.intercept).gap <= 1e-6


@pytest.mark.parametrize("solver", [None, "CLARABEL"])
@pytest.mark.parametrize(
    ("X", "y"),
    [
        ([[0.0], [1.0], [2.0]], [1, -1, 1]),
        ([[0.0], [0.0]], [1, -1]),
        ([[0.0, 1.0], [1.0, 0.0], [0.0, 0.0], [1.0, 1.0]], [1, 1, -1, -1]),
    ],
)
def test_no_intercept_separates_these(solver, X, y):
    case = ib.MarginProblem(ib.GatedFeatures(X), y, ib.Frobenius(), intercept=True)
    assert_farkas(case, ib.solve(case, solver))


def test_a_closed_sample_needs_the_intercept():
    features = ib.GatedFeatures([[1.0], [2.0], [3.0]], [[0], [1], [1]])
    case = ib.MarginProblem(features, [1, -1, -1], ib.Frobenius())
    assert ib.solve(case).status is ib.Status.NOT_SEPARABLE
    solution = optimal(dataclasses.replace(case, intercept=True))
    assert (solution.objective, solution.intercept) == (pytest.approx(1, rel=1e-5), pytest.approx(1, rel=1e-5))


def test_replaced_parts_are_those_of_a_new_problem():
    case, parts = problem("contexts 2", "group lasso"), {"C": 0.5, "norm": ib.Frobenius()}
    assert case.group_form is case.replace(C=0.5).group_form
    assert len(np.unique(case.replace(**parts).group_form.groups)) == 1
    assert ib.solve(case.replace(**parts)).objective == ib.solve(dataclasses.replace(case, **parts)).objective


def test_one_class():
    """For labels that are all +1, the optimum is 1/max_u min_i ⟨u, x_i⟩, and that of mirrored data with both labels."""
    X = np.random.default_rng(0).normal(loc=[3, 1], size=(12, 2))
    case = ib.MarginProblem(ib.GatedFeatures(X), np.ones(12), ib.Frobenius())
    angles = np.linspace(0, 2 * np.pi, 100_001)
    best = (X @ np.array([np.cos(angles), np.sin(angles)])).min(axis=0).max()
    assert ib.solve(case).objective == pytest.approx(1 / best, rel=1e-6)
    mirrored = ib.MarginProblem(ib.GatedFeatures(np.vstack([X, -X])), np.repeat([1, -1], 12), ib.Frobenius())
    assert ib.solve(mirrored).objective == pytest.approx(ib.solve(case).objective, rel=1e-6)
    soft = optimal(dataclasses.replace(case, C=0.05))
    assert soft.objective < ib.solve(case).objective


NORMS = {name: TRUE[name] for name in ("l1", "nuclear", "rows", "column")}
NORMS["sparse rows"] = lambda W: cp.sum(cp.norm(W, 2, axis=1)) + 0.5 * cp.norm1(W), None


@pytest.mark.parametrize(("name", "C"), [*((name, np.inf) for name in NORMS), ("l1", 0.5), ("sparse rows", 0.5)])
def test_expressions_are_norms(name, C):
    function, dual = NORMS[name]
    case = dataclasses.replace(problem("contexts 2", "group lasso", C), norm=ib.ExpressionNorm(function))
    solution = ib.solve(case, tol=1e-5)
    assert solution.solver == "CLARABEL"
    assert solution.status is ib.Status.OPTIMAL, str(solution)
    rng = np.random.default_rng(0)
    V, W = rng.normal(size=(2, case.features.k, case.features.d))
    assert case.norm.dual(V) * case.norm.value(W) >= np.sum(V * W)
    if dual is not None:
        assert case.norm.dual(V) == pytest.approx(dual(V), rel=2e-8)
        exact = ib.solve(dataclasses.replace(case, norm=ib.ExpressionNorm(function, dual)), tol=1e-5)
        assert exact.lower_bound == pytest.approx(solution.lower_bound, rel=1e-6)
    if name == "rows":
        native = ib.solve(dataclasses.replace(case, norm=ib.GroupLasso(np.arange(case.features.k))))
        assert solution.objective == pytest.approx(native.objective, rel=1e-5)


test_expressions_that_are_none = refusals(
    (lambda W: cp.sum_squares(W), "root"),
    (lambda W: -cp.norm(W), "convex"),
    (lambda W: cp.sum(W), "not negative"),
    (lambda W: cp.norm(W) + 1, "2‖W‖"),
    (lambda W: cp.max(W), "not negative"),
    (lambda W: cp.norm1(W) - 1.5 * cp.sum(W), "not negative"),
    (lambda W: W, "scalar"),
    (lambda W: 3.0, "scalar"),
    ("norm", "function"),
    call=lambda function: ib.MarginProblem(ib.GatedFeatures(np.eye(2)), [1, -1], ib.ExpressionNorm(function)),
)


def test_a_solver_of_ones_own_is_judged():
    case = problem("contexts 2", "group lasso")
    best = ib.solve(case)
    honest = optimal(case, lambda problem, options: Answer(3 * best.weights, 7 * best.dual, iterations=1))
    assert honest.solver == "<lambda>"

    def boastful(problem, options):
        return Answer(np.ones_like(best.weights), np.zeros(30), iterations=1)

    assert ib.solve(case, boastful).status is ib.Status.INACCURATE
    assert_refused(lambda: ib.solve(case, lambda problem, options: best.weights), "must return an Answer")


def test_own_gates():
    gates = ib.FunctionGates(
        lambda X: np.stack([X[:, 0] > 0, X[:, 0] <= 0, np.ones(len(X))], axis=1), grouping=[0, 0, 1]
    )
    X = inputs()
    y = np.where(X[:, 0] * X[:, 1] > 0, 1, -1)
    X[:, 1] += np.sign(X[:, 0]) * y
    case = ib.svm_gln(X, y, gates)
    solution = ib.solve(case)
    assert (np.sign(case.decision_function(solution.weights, X)) == y).all()
    k = X.shape[1]
    for wrong in ([0, 1], np.arange(k) / 2, [[0], *range(1, k)], ["a"] * k, np.zeros((k, 1)), np.array(0), object()):
        with pytest.raises(ib.InputError, match="grouping must"):
            ib.FunctionGates(lambda X: X, grouping=wrong).fit(X)
    for right in (np.arange(k) // 2, torch.arange(k) // 2, tuple(i // 2 for i in range(k))):
        assert ib.FunctionGates(lambda X: X, grouping=right).fit(X).groups.tolist() == [i // 2 for i in range(k)]


@pytest.mark.parametrize("stopped", [ib.Status.OPTIMAL, ib.Status.NOT_SEPARABLE, ib.Status.INACCURATE, "tired"])
def test_a_solver_cannot_judge_itself(stopped):
    case = problem("contexts 2", "group lasso", 1.0)
    W, dual = np.zeros((case.features.k, case.features.d)), np.zeros(30)
    assert_refused(lambda: ib.solve(case, lambda problem, options: Answer(W, dual, 0, stopped)), "return an Answer")
    for count in (None, -2):
        with pytest.raises(ib.InputError, match="integer number of iterations, -1 if unknown"):
            ib.solve(case, lambda problem, options, count=count: Answer(W, dual, count))


@pytest.mark.parametrize("size", [1e14, 1.7e18])
def test_a_large_input_hides_no_small_one(size):
    """A λ that only cancels large inputs is no proof: the small input still separates."""
    rng = np.random.default_rng(0)
    X = np.column_stack([size + rng.integers(0, 1000, 40), rng.normal(size=40)])
    y = np.where(X[:, 1] > 0, 1.0, -1.0)
    X[:, 1] += 0.1 * y
    for inputs_, labels in [(X, y), (np.array([[size, 1.0], [size, -1.0]]), np.array([1.0, -1.0]))]:
        case = ib.MarginProblem(ib.GatedFeatures(inputs_), labels, ib.Frobenius())
        assert ib.certify(case, [[0.0, 1.0]], np.ones(len(labels))).separable
        assert ib.solve(case).status is not ib.Status.NOT_SEPARABLE
