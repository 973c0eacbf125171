import cvxpy as cp
import numpy as np
import pytest
import scipy.optimize

from implicit_bias import GatedFeatures, InputError, MarginProblem, Status, TwoLayerNorm, margin_path, solve
from implicit_bias.norms import Norm, PolyhedralForm
from tests.cases import assert_farkas
from tests.solvers.native.shapes import teacher


def linear_program(problem):
    """Return the optimum of a hard or soft margin by HiGHS, for the dense rows and the problem's polyhedral form."""
    form, (n, k, d) = problem.norm.polyhedral_form(problem.features.k), problem.features.shape
    A = problem.y[:, None] * problem.features.dense()
    groups, a = np.repeat(form.groups, d), np.repeat(form.factors, d)
    H, p = len(form.costs), k * d
    member = np.eye(H)[groups]
    # W⁺, W⁻, one bound for each group or one for all sums, slack, intercept.
    bounds = 1 if form.sums else H
    cost = np.concatenate([np.zeros(2 * p), [1.0] if form.sums else form.costs, problem.upper_bounds, [0.0]])
    cost[~np.isfinite(cost)] = 0.0
    rows = np.hstack([-A, A, np.zeros((n, bounds)), -np.eye(n), -problem.y[:, None]])
    ball = (member * a[:, None]).T if form.sums else np.diag(a)
    last = -form.costs[:, None] if form.sums else -member
    more = np.hstack([ball, ball, last, np.zeros((len(ball), n + 1))])
    free = (None, None) if problem.intercept else (0, 0)
    limits = [(0, None)] * (2 * p + bounds) + [(0, 0 if problem.hard else None)] * n + [free]
    required = -np.full(n, problem.required_margin)
    return scipy.optimize.linprog(
        cost, np.vstack([rows, more]), np.append(required, np.zeros(len(more))), bounds=limits, method="highs"
    ).fun


class SumNorm(Norm):
    """User-defined norm max_h Σ |ζ_h| / c_h over groups of two gates, with a form of its own or a wrong one."""

    def __init__(self, costs, factor=1.0):
        self.costs, self.factor = np.asarray(costs, dtype=float), factor

    def value(self, W):
        return float((np.abs(W).sum(axis=1).reshape(-1, 2).sum(axis=1) / self.costs).max())

    def dual(self, V):
        return float((np.abs(V).max(axis=1).reshape(-1, 2).max(axis=1) * self.costs).sum())

    def expression(self, W):
        rows = cp.sum(cp.abs(W), axis=1)
        return cp.max(cp.hstack([cp.sum(rows[2 * h : 2 * h + 2]) / c for h, c in enumerate(self.costs)]))

    def polyhedral_form(self, k):
        return PolyhedralForm(True, np.arange(k) // 2, np.full(k, self.factor), self.costs)


NORMS = {
    "entries, l_inf": TwoLayerNorm([0, 1, 2, 0, 1, 2], "entries", "l_inf", [1, 2, 3]),
    "entries, l1": TwoLayerNorm([0, 1, 2, 0, 1, 2], "entries", "l1"),
    "l1, l_inf": TwoLayerNorm(range(6), "l1", "l_inf"),
    "own": SumNorm([1.0, 2.0, 0.5]),
}


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(("size", "wrong"), [((20, 8), 0.0), ((60, 3), 0.3)])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("C", [np.inf, 1e-3, 1e-1, 1e4])
def test_optima_of_simplex_method(norm, size, wrong, intercept, C):
    features, y = teacher(size[0], 6, size[1], 1, wrong)
    n = features.n
    required, weight = np.linspace(0.5, 2, n), np.linspace(2, 1, n)
    case = MarginProblem(features, y, NORMS[norm], C, None, "", required, weight, intercept)
    found = solve(case, "NATIVE", tol=1e-7)
    best = linear_program(case)
    if best is None:
        assert_farkas(case, found)
        return
    assert (found.status, found.solver) == (Status.OPTIMAL, "NATIVE")
    assert found.objective == pytest.approx(best, rel=2e-7)


@pytest.mark.parametrize("norm", NORMS)
def test_many_gates_and_few_samples(norm):
    """Gates that no sample opens, and samples with few open gates, leave columns and rows of zeros."""
    features, y = teacher(12, 6, 30, 2)
    values = features.gate_values.copy()
    values[:, 5] = 0.0
    values[0] = np.eye(6)[1]
    case = MarginProblem(GatedFeatures(features.X, values), y, NORMS[norm])
    found = solve(case, tol=1e-8)
    assert found.objective == pytest.approx(linear_program(case), rel=2e-8)


def test_a_path_over_costs_of_slack():
    features, y = teacher(40, 6, 4, 4, 0.1)
    for one in margin_path(MarginProblem(features, y, NORMS["entries, l_inf"]), [1e-3, 1e-2, 1e-1]):
        assert one.status is Status.OPTIMAL


def test_a_wrong_form_is_refused():
    features, y = teacher(10, 4, 3, 5)
    with pytest.raises(InputError, match=r"polyhedral_form.*correct one"):
        MarginProblem(features, y, SumNorm([1.0, 1.0], factor=2.0))


def test_devices_are_refused():
    features, y = teacher(10, 6, 3, 5)
    with pytest.raises(InputError, match="'cpu' only"):
        solve(MarginProblem(features, y, NORMS["l1, l_inf"]), "NATIVE", device="cpu:0")
