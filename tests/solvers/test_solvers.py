import dataclasses
import os
import signal
import threading
import time

import cvxpy as cp
import numpy as np
import pytest

import implicit_bias as ib
from implicit_bias.solvers.base import Answer, Solver
from implicit_bias.solvers.cvxpy_solvers import CVXPY_SOLVERS
from implicit_bias.solvers.dispatch import SOLVERS
from implicit_bias.studies.paper.gln import grid
from tests.cases import assert_farkas, assert_refused, inputs, problem, refusals


def weighted(**changes) -> ib.MarginProblem:
    return dataclasses.replace(problem("constant", "frobenius"), **changes)


@pytest.mark.parametrize(("n", "scale"), [(30, 1e-6), (200, 1.0), (30, 1e6)])
def test_random_labels_on_few_inputs_are_proved_not_separable(n, scale):
    X = scale * inputs(n=n, d=4, seed=9)
    y = np.where(np.random.default_rng(10).random(n) > 0.5, 1.0, -1.0)
    case = ib.svm_gln(X, y, ib.HyperplaneGates(2, 2, cutoff="median"))
    found = ib.solve(case)
    assert_farkas(case, found)


def acting(action) -> ib.MarginProblem:
    """Return a problem whose translation for CVXPY calls `action`."""
    norm = ib.Frobenius()
    norm.gauge = lambda W: action() or []
    return weighted(norm=norm)


@pytest.mark.skipif(os.name != "posix", reason="sends a POSIX signal")
@pytest.mark.parametrize("solver", CVXPY_SOLVERS)
def test_ctrl_c_and_time_limits_end_the_translation(solver, request):
    before, here = signal.signal(signal.SIGINT, signal.default_int_handler), os.getpid()
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))

    def deaf():
        os.kill(here, signal.SIGINT)
        time.sleep(1000)

    found = ib.solve(acting(deaf), solver)
    assert (found.status, found.lower_bound) == (ib.Status.INTERRUPTED, 0)
    assert ib.solve(acting(lambda: time.sleep(1000)), solver, max_seconds=0.2).status is ib.Status.TIME_LIMIT
    assert ib.solve(problem("constant", "frobenius"), solver, tol=1e-4).status is ib.Status.OPTIMAL


def test_what_a_solver_raises_is_raised():
    with pytest.raises(ZeroDivisionError):
        ib.solve(acting(lambda: 1 / 0), "CLARABEL")
    found = ib.solve(acting(lambda: os.kill(os.getpid(), signal.SIGKILL)), "CLARABEL")
    assert found.status is ib.Status.INACCURATE
    assert "its process ended with the exit code -9" in found.reason


def test_what_cannot_be_sent_is_solved_here():
    lock, found = threading.Lock(), []
    assert ib.solve(acting(lambda: found.append(lock)), "CLARABEL").status is ib.Status.OPTIMAL
    assert found == [lock]


def test_a_limit_of_the_next_solver_takes_nothing_back(monkeypatch):
    X = 2e13 * np.array([[1, 1 + 5e-7], [-1 - 5e-7, -1 - 1e-6]]) + np.eye(2)[::-1]
    case = ib.MarginProblem(ib.GatedFeatures(X), [1, 1], ib.Frobenius())
    alone = ib.solve(case, "NATIVE", max_seconds=1000)
    assert alone.status is ib.Status.NOT_SEPARABLE_BELOW

    class Slow(Solver):
        name, takes = "SLOW", frozenset({"max_seconds"})

        def __call__(self, problem, options):
            return Answer(np.zeros((1, 2)), np.zeros(2), 0, ib.Status.TIME_LIMIT)

    for name in ("CLARABEL", "PRECISE", "ECOS"):
        monkeypatch.setitem(SOLVERS, name, Slow())
    found = ib.solve(case, max_seconds=1000)
    assert found.status is ib.Status.NOT_SEPARABLE_BELOW
    assert found.lower_bound >= alone.lower_bound


@pytest.mark.parametrize("reduce", [True, False])
def test_the_program_reaches_the_certified_optimum(reduce):
    case = problem("half-spaces", "group lasso")
    program = case.cvxpy(reduce=reduce)
    value = float(program.solve(solver="CLARABEL"))
    assert value == pytest.approx(ib.solve(case).objective, rel=1e-6)
    assert ib.certify(case, program.weights.value, program.margin_constraint.dual_value).gap < 1e-6


CASE = problem("constant", "frobenius")
test_bad_input = refusals(
    (lambda: ib.solve(CASE, "MAGIC"), "known: NATIVE, CLARABEL, ECOS, OSQP, SCS"),
    (lambda: ib.solve(CASE, tol=0), "tol"),
    (lambda: ib.solve(CASE, tol=np.nan), "tol"),
    (lambda: ib.solve(CASE, tol=1), "tol is a relative gap and must be below 1"),
    (lambda: ib.GLNClassifier(tol=1.5).fit([[0.0], [1.0]], [0, 1]), "below 1"),
    (lambda: grid(True, tol=2.0), "below 1"),
    (lambda: ib.solve(CASE, max_iterations=0), "max_iterations"),
    (lambda: ib.solve("problem"), "MarginProblem"),
    (lambda: ib.solve(problem("constant", "frobenius", C=1.0), "OSQP"), "soft margin"),
    (lambda: ib.solve(CASE, max_seconds=-1), "max_seconds"),
    (lambda: ib.solve(CASE, "CLARABEL", callback=print), "^CLARABEL does not support all of"),
    (lambda: ib.solve(CASE, device="nowhere"), "^'nowhere' is no device"),
    (lambda: ib.solve(CASE, callback=3), "callback must be a function"),
    (lambda: ib.solve(CASE, device="gpu"), "'gpu' is no device"),
    (lambda: ib.solve(CASE, device="meta"), "float64 on 'cpu' or 'cuda'"),
    (lambda: ib.solve(CASE, device="cuda:99"), "torch sees no device 'cuda:99'"),
    (lambda: ib.solve(CASE, start=1.0), "start must be a Solution"),
    (lambda: ib.margin_path(CASE, C=3.0), "list of positive numbers"),
    (lambda: ib.margin_path("problem", C=[1.0]), "must be a MarginProblem"),
    (lambda: weighted(required_margin=[[1.0], [1.0, 2.0]]), "regular 1-dimensional"),
    (lambda: weighted(C=1e308, sample_weight=10.0), "overflows; use C=inf"),
    (lambda: dataclasses.replace(problem("relu", "frobenius"), norm=ib.PredictorL2(3, 2)), "one-hot contexts"),
    (lambda: ib.margin_path(CASE, C=[1.0, 0.0]), "C must be a positive"),
    (lambda: weighted(sample_weight=np.ones(3)), "sample_weight must be one number or 30, not 3"),
    (lambda: weighted(sample_weight=0.0), "sample_weight must be a positive number"),
    (lambda: weighted(required_margin=np.arange(30.0)), "required_margin must be positive, but holds 0; a margin of"),
    (lambda: weighted(sample_weight=np.arange(30.0)), "sample_weight must be positive, but holds 0; leave such samp"),
    (
        lambda: ib.GroupLasso([0, 1], weights=[1.0, 0.0]),
        "group weights must be positive, but holds 0; a weight of 1e-6",
    ),
    (lambda: ib.GroupLasso([0, 1], weights=[1.0]), "group weights must be one number or 2, not 1"),
    (lambda: ib.GroupLasso([0, 1], weights=-1.0), "group weights must be a positive"),
    (lambda: ib.solve(weighted(norm=ib.ExpressionNorm(cp.norm1)), "NATIVE"), "group_form"),
    (lambda: problem("constant", "frobenius", C=0), "C must be"),
    (lambda: weighted(name=float("inf")), "name must be a text, not inf"),
    (lambda: weighted(name=b"x"), "name must be a text, not b'x'"),
    (lambda: weighted(name=("a", "b")), r"name must be a text, not \('a', 'b'\)"),
    (lambda: ib.ExpressionNorm(cp.norm1, name=3), "name must be a text, not 3"),
    (lambda: ib.BinaryTask.from_arrays([[0.0], [1.0]], [0, 1], name=None), "name must be a text, not None"),
    (lambda: ib.svm_gln([[1.0]], [1], ib.ConstantGate()), "one class only"),
    (lambda: ib.MarginProblem(ib.GatedFeatures([[1.0]]), [1], ib.Frobenius(), intercept=True), "one class only"),
    (lambda: ib.MarginProblem(ib.GatedFeatures([[1.0]]), [1], ib.Frobenius(), intercept=1), "True"),
    (lambda: ib.MarginProblem(ib.GatedFeatures([[1.0]], [[1]]), [1, -1], ib.Frobenius()), "2 labels for 1"),
    (lambda: ib.MarginProblem(ib.GatedFeatures([[1.0], [2]], [[1], [1]]), [0, 1], ib.Frobenius()), "−1 and \\+1"),
    (lambda: ib.MarginProblem(ib.GatedFeatures([[1.0], [2]], [[1], [1]]), [1, -1], ib.GroupLasso([0, 1])), "2 gates"),
    (lambda: ib.MarginProblem([[1.0]], [1], ib.Frobenius()), "GatedFeatures"),
    (lambda: ib.MarginProblem(ib.GatedFeatures([[1.0], [2]], [[1], [1]]), [1, -1], "l2"), "Norm"),
    (lambda: ib.svm_gln([[1.0], [2.0]], [1, -1], "gates"), "Gates"),
    (lambda: ib.svm_l2([[1.0], [2.0]], [1, -1], ib.ConstantGate()), "HyperplaneGates"),
    (lambda: ib.svm_lc([[1.0], [2.0]], [1, -1], None), "network"),
    (lambda: ib.svm_lc([[1.0], [2.0]], [1, -1], ib.ReLUNetwork(1, 2, outputs=2)), "network with one output"),
    (lambda: ib.svm_hl([[1.0], [2.0]], [1, -1], None), "network"),
    (lambda: CASE.decision_function(np.zeros((1, 12)), [[0.0]]), "without gates"),
)


def test_unpenalised_group():
    """A weight of 1e-6 has the optimum of the weight 0, by CVXPY, up to 1e-6 times the norm of the group."""
    case = problem("contexts 2", "group lasso", C=0.1)
    A, groups = case.features.dense(), case.norm.index
    W = cp.Variable((case.features.k, case.features.d))
    scores = A @ cp.reshape(W, (A.shape[1],), order="C")
    size = sum(cp.norm(W[np.flatnonzero(groups == h)], "fro") for h in range(1, groups.max() + 1))
    optimum = cp.Problem(cp.Minimize(size + 0.1 * cp.sum(cp.pos(1 - cp.multiply(case.y, scores))))).solve("CLARABEL")
    weights = np.where(np.arange(groups.max() + 1) > 0, 1.0, 1e-6)
    found = ib.solve(dataclasses.replace(case, norm=ib.GroupLasso(case.norm.groups, weights)), tol=1e-8)
    first = np.linalg.norm(found.weights[groups == 0])
    assert first > 0.1
    assert optimum * (1 - 1e-7) <= found.objective <= optimum * (1 + 1e-7) + 1e-6 * first


def test_a_solver_whose_package_is_missing_says_so_and_is_not_asked_unnamed(monkeypatch):
    from implicit_bias.solvers import cvxpy_solvers

    monkeypatch.setattr(cvxpy_solvers, "find_spec", lambda name: None if name == "ecos" else name)
    case = problem("constant", "frobenius")
    assert_refused(lambda: ib.solve(case, "ECOS"), r"^ECOS is not installed: pip install ecos")
    assert ib.solve(case, "CLARABEL").status is ib.Status.OPTIMAL
