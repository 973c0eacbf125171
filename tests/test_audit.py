"""The audit's own judge, on certificates that are right and wrong, and the problems that it draws."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import cvxpy as cp
import numpy as np
import pytest

import implicit_bias as ib
from implicit_bias import Status
from tests.fuzz import audit, reliability
from tests.fuzz.exact import Exact, faults, fractions, root, separable
from tests.fuzz.exact_layers import LARGEST, SPECTRAL, SQUARES, SUMS, Layers, semidefinite

N = 2_000_000


def toy(intercept=False, C=None, E=(), equal=(), h=0.0):
    """Return the exact problem of the samples (2, 0) and (−2, 0) with labels 1 and −1, whose optimum is ‖W‖ = 1/2."""
    rows, y = fractions([[2, 0], [2, 0]]), fractions([1, -1])
    prices = None if C is None else fractions([C, C])
    E = fractions(np.reshape(E, (-1, 2)))
    groups, equal = [(Fraction(1), [0, 1])], np.array(equal, dtype=bool)
    h = fractions(np.full(len(equal), h))
    return Exact(rows, y, groups, None, fractions([1, 1]), prices, intercept, E, equal, h)


def right(**changes):
    """Return the optimal solution of `toy`, with `changes` of some fields."""
    best = {
        "weights": np.array([[0.5, 0.0]]),
        "dual": np.array([0.25, 0.25]),
        "objective": 0.5,
        "lower_bound": 0.5,
        "gap": 0.0,
        "margins": np.ones(2),
        "farkas_residual": 1.0,
        "intercept": 0.0,
        "multipliers": np.zeros(0),
        "status": Status.OPTIMAL,
        "iterations": 1,
        "seconds": 0.0,
        "solver": "none",
        "tol": 1e-6,
    }
    return ib.Solution(**(best | changes))


@pytest.mark.parametrize(
    "problem",
    [
        toy(),
        toy(intercept=True),
        toy(C=1.0),
        toy(E=[[-1, 0]], equal=[False]),
        toy(E=[[1, 0]], equal=[False], h=0.5),
        toy(intercept=True, E=[[1, 0]], equal=[True], h=0.5),
    ],
)
def test_right_certificate_has_no_faults(problem):
    assert faults(problem, right(multipliers=np.zeros(len(problem.E))), 1e-6) == {}
    rounded = right(multipliers=np.zeros(len(problem.E)), lower_bound=np.nextafter(0.5, 1), objective=0.5 + 2e-16)
    assert faults(problem, rounded, 1e-6) == {}


@pytest.mark.parametrize(
    ("fault", "problem", "changes"),
    [
        ("upper bound", toy(), {"objective": 0.5 * (1 - 1e-14), "lower_bound": 0.4}),
        ("upper bound", toy(), {"weights": np.array([[-0.5, 0.0]])}),
        ("upper bound", toy(intercept=True), {"intercept": 1e-13}),
        ("upper bound", toy(C=1.0), {"weights": np.array([[0.0, 1.0]]), "objective": 1.9}),
        ("lower bound", toy(), {"lower_bound": 0.5 * (1 + 3e-15)}),
        ("lower bound", toy(), {"dual": np.array([0.5, -1e-300])}),
        ("lower bound", toy(C=0.125), {"status": Status.INACCURATE}),
        ("lower bound", toy(), {"dual": np.zeros(2)}),
        ("lower bound", toy(E=[[1, 0]], equal=[False]), {"multipliers": np.array([-1e-3])}),
        ("unbalanced dual", toy(intercept=True), {"dual": np.array([0.25, 0.25 + 1e-16])}),
        ("crossed bounds", toy(), {"lower_bound": 0.5 * (1 + 3e-16)}),
        ("OPTIMAL above tol", toy(), {"lower_bound": 0.5 * (1 - 2e-6)}),
        ("OPTIMAL above tol", toy(), {"objective": np.inf}),
        ("false proof", toy(), {"status": Status.NOT_SEPARABLE, "objective": np.inf}),
        ("false proof", toy(C=1.0), {"lower_bound": np.inf, "objective": np.inf, "status": Status.INACCURATE}),
        ("outside the cone", toy(E=[[1, 0]], equal=[False]), {"multipliers": np.zeros(1)}),
        ("outside the cone", toy(E=[[1, -1e9]], equal=[True]), {"multipliers": np.zeros(1)}),
        ("outside the cone", toy(E=[[1, 0]], equal=[False], h=0.4), {"multipliers": np.zeros(1)}),
        # Twice the weights are feasible, but these are not.
        ("outside the cone", toy(E=[[-1, 0]], equal=[False], h=-1.0), {"multipliers": np.zeros(1)}),
        ("outside the cone", toy(E=[[0, 1]], equal=[True], h=1.0), {"multipliers": np.zeros(1)}),
        # The weights miss the margin 1 by 2e-14, and no multiple is feasible.
        (
            "outside the cone",
            toy(E=[[1, 0]], equal=[False], h=0.5),
            {"multipliers": np.zeros(1), "weights": np.array([[0.5 - 1e-14, 0.0]])},
        ),
        ("lower bound", toy(E=[[1, 0]], equal=[False], h=1.0), {"multipliers": np.array([0.25])}),
        ("false proof", toy(E=[[1, 0]], equal=[False], h=0.6), {"status": Status.INFEASIBLE, "objective": np.inf}),
        ("false proof", toy(C=1.0, E=[[1, 0]], equal=[False], h=-1.0), {"status": Status.INFEASIBLE}),
        ("no numbers", toy(), {"weights": np.full((1, 2), np.nan)}),
        ("no numbers", toy(), {"dual": np.array([np.nan, 1.0])}),
        ("no numbers", toy(), {"lower_bound": np.nan}),
        ("no numbers", toy(), {"intercept": 0.1}),
        ("unknown status", toy(), {"status": "OPTIMAL"}),
    ],
)
def test_fault_is_recognised(fault, problem, changes):
    assert fault in faults(problem, right(**changes), 1e-6)


def test_weights_may_miss_a_cone_by_one_bit():
    third = right(weights=np.array([[0.5, 0.5 / 3]]), objective=1.0, multipliers=np.zeros(1), status=Status.INACCURATE)
    thin = toy(E=[[1, -3]], equal=[True])
    assert thin.E[0] @ fractions(third.weights[0]) != 0
    assert faults(thin, third, 1e-6) == {}
    assert "outside the cone" in faults(thin, replace(third, weights=third.weights * [1, 1 + 1e-15]), 1e-6)


@pytest.mark.parametrize(
    ("rows", "E", "equal", "expected"),
    [
        ([[N, N + 1], [-N - 1, -N - 2]], [], [], True),
        ([[N, N + 1], [-2 * N, -2 * N - 2]], [], [], False),
        ([[1, 1e-300], [-1, 1e-300]], [], [], True),
        ([[0, 0], [1, 0]], [], [], False),
        ([[1, 0], [0, 1]], [[1, 1]], [False], False),
        ([[1, 0], [-0.5, 1]], [[-1, 0], [0, -1]], [False, False], True),
        ([[1, 2]], [[1, 2]], [True], False),
        ([[1, 2]], [[2, 1]], [True], True),
        ([[1]], [[0]], [True], True),
        ([[0.1, 0.2], [0.3, 0.6], [-0.1 - 0.3, -0.2 - 0.6]], [], [], False),
        ([[0.1, 0.3], [-0.3, -0.9]], [], [], True),
    ],
)
def test_separability_is_exact(rows, E, equal, expected):
    E = fractions(np.reshape(E, (-1, len(rows[0]))))
    assert separable(fractions(rows), E, np.array(equal, dtype=bool)) is expected


def test_separability_agrees_with_a_linear_program():
    rng = np.random.default_rng(0)
    answers = []
    for _ in range(60):
        rows, E, equal = rng.integers(-3, 4, (3, 3)), rng.integers(-2, 3, (3, 3)), np.array([True, False, False])
        w = cp.Variable(3)
        program = cp.Problem(cp.Minimize(0), [rows @ w >= 1, E[equal] @ w == 0, E[~equal] @ w <= 0])
        program.solve(solver="CLARABEL")
        answers.append(separable(fractions(rows), fractions(E), equal))
        assert answers[-1] is (program.status == "optimal")
    assert 5 < sum(answers) < 55


def test_root_is_rounded_upwards():
    for square in (Fraction(2), Fraction(1, 3), Fraction(10) ** 600, Fraction(1, 10**600), Fraction(9, 4), Fraction(0)):
        found = root(square)
        assert square <= found**2 <= square * (1 + Fraction(1, 2**150))


def test_norm_of_predictors_is_its_definition():
    H, K, rng = 2, 4, np.random.default_rng(0)
    problem = replace(toy(), units=(H, K))
    W = rng.integers(-3, 4, (H * K, 2))
    squares = [np.sum((W[a] + W[K + b]) ** 2) for a, b in product(range(K), repeat=2)]
    assert problem.value(fractions(W).ravel()) == root(Fraction(int(sum(squares)), K ** (H - 2)))
    # V = MW of a W has the dual norm of W's own.
    same_unit = np.kron(np.eye(H), np.ones((K, K)))
    V = (K * np.eye(H * K) + 1 - same_unit) @ W
    assert problem.dual(fractions(V).ravel()) == problem.value(fractions(W).ravel())
    assert problem.dual(fractions(np.eye(H * K)[0])) is None


@pytest.mark.parametrize("layers", [*SUMS, *SQUARES, *LARGEST, *SPECTRAL])
def test_norms_of_layers_are_closely_above_their_definitions(layers):
    """Σ, squares and maxima by NumPy; spectral norms by CVXPY. Bounds of the dual norm meet ⟨V, W⟩ at the best W."""
    rng, m = np.random.default_rng(0), np.array([1.0, 2.0, 3.0])
    V, groups = rng.normal(size=(3, 2)), np.arange(3)
    judge = Layers(layers, [[0, 1], [2, 3], [4, 5]], list(fractions(m)))
    W = cp.Variable((3, 2))
    norm = ib.TwoLayerNorm(groups, *layers, m).expression(W)
    problem = cp.Problem(cp.Maximize(cp.sum(cp.multiply(V, W))), [norm <= 1])
    # Clarabel's optimum is exact to 1e-8.
    assert float(judge.dual(fractions(V).ravel())) == pytest.approx(problem.solve(solver="CLARABEL"), rel=1e-6)
    assert float(judge.value(fractions(W.value).ravel())) == pytest.approx(1.0, rel=1e-6)
    assert judge.dual(fractions(0 * V).ravel()) == judge.value(fractions(0 * V).ravel()) == 0
    large = fractions(1e200 * V).ravel()
    assert float(judge.value(large)) == pytest.approx(1e200 * float(judge.value(fractions(V).ravel())), rel=1e-12)


def test_semidefinite_matrices_are_recognised_exactly():
    rank_one = np.outer(fractions([1, 3, 7]), fractions([1, 3, 7]))
    assert semidefinite(rank_one)
    assert not semidefinite(rank_one - np.diag(fractions([0, 0, 1e-300])))
    assert not semidefinite(fractions([[0, 1], [1, 1]]))


@pytest.mark.parametrize("number", range(40))
def test_judged_problem_is_the_solved_one(number):
    case, names = audit.draw(9, number), {}
    assert case.code == audit.draw(9, number).code
    exec(case.code.split("solution =")[0], names)
    problem, exact = names["problem"], case.exact
    dense = problem.features.dense() * problem.y[:, None]
    np.testing.assert_allclose(exact.rows.astype(float), dense, rtol=1e-15)
    w = np.random.default_rng(number).normal(size=dense.shape[1])
    W = w.reshape(problem.features.k, -1)
    assert float(exact.value(fractions(w))) == pytest.approx(problem.norm.value(W), rel=1e-12)
    v = fractions(np.ones(len(dense))) @ exact.rows
    if problem.norm.made_of is not None and any(v):
        assert float(exact.dual(v)) == pytest.approx(problem.norm.dual(v.astype(float).reshape(W.shape)), rel=1e-9)
    assert (exact.upper_bounds is None) == problem.hard
    if exact.upper_bounds is not None:
        np.testing.assert_allclose(exact.upper_bounds.astype(float), problem.upper_bounds)
    np.testing.assert_array_equal(exact.required.astype(float), np.full(len(dense), problem.required_margin))
    if problem.constraints is not None:
        np.testing.assert_array_equal(exact.E.astype(float), problem.constraints.E.toarray())
        np.testing.assert_array_equal(exact.equal, problem.constraints.equal)
        np.testing.assert_array_equal(exact.h.astype(float), problem.constraints.h)


def test_problem_is_printed_as_python(capsys):
    code = reliability.main(["--seed", "1", "--audit-case", "3"])
    told = capsys.readouterr().out
    assert told.startswith(audit.draw(1, 3).code)
    assert code == int(bool(audit.run_case(1, 3).faults))


def test_report_counts_answers(capsys):
    tags = ["normal", "ordinary"], ["normal", "SCS"], ["normal", "SCS"]
    results = [audit.Result(i, own, 1e-6, "INACCURATE", remarks={"INACCURATE": 0.5}) for i, own in enumerate(tags)]
    results.append(audit.ended(1, reliability.Result(34, "", "hung")))
    assert "hung inf" in capsys.readouterr().out
    page = audit.report(results)
    assert "4 problems, 1 wrong answers." in page
    rows = {row["problems"]: row for row in page[-1]}
    assert (rows["all"]["at 1e-06"], rows["ordinary"]["at 1e-06"]) == ("100.00%", "100.00%")
    assert {"found": "hung", "problems": "1", "median": "inf", "largest": "inf", "numbers": "34"} in page[4]
