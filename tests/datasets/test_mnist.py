"""The published cell n = 500, H = 10, C = 2, seed 1 on real MNIST, and SVM-RC at H = 20."""

import pytest

import implicit_bias as ib
from implicit_bias.metrics import error, inconsistency
from tests.cases import optimal

pytestmark = pytest.mark.mnist


@pytest.fixture(scope="module")
def task(mnist_root):
    return ib.load_binary("mnist", 500, seed=1, root=mnist_root)


@pytest.fixture(scope="module")
def gates(task):
    return ib.HyperplaneGates(10, 2, seed=1).fit(task.X_pool)


@pytest.fixture(scope="module")
def descent(task, gates):
    network = ib.GatedLinearNetwork(gates)
    history = ib.train(network, task.X_train, task.y_train, seed=1)
    return history, network.decision_function(task.X_val)


def certified(problem, task, solver=None):
    solution = optimal(problem, solver)
    assert solution.gap <= 1e-6
    return solution, problem.decision_function(solution.weights, task.X_val)


def test_gd_gln(task, descent):
    history, scores = descent
    assert history.table.step.iloc[-1] == 3200
    assert error(scores, task.y_val) == pytest.approx(0.161, abs=0.003)


@pytest.mark.parametrize("solver", ["NATIVE", pytest.param("CLARABEL", marks=pytest.mark.long)])
def test_svm_gln(task, gates, descent, solver):
    solution, scores = certified(ib.svm_gln(task.X_train, task.y_train, gates), task, solver)
    assert solution.objective == pytest.approx(1.71179, rel=1e-4)
    assert error(scores, task.y_val) == pytest.approx(0.1503, abs=0.0005)
    assert inconsistency(scores, descent[1]) == pytest.approx(0.080, abs=0.006)


def test_svm_l2(task, gates):
    solution, scores = certified(ib.svm_l2(task.X_train, task.y_train, gates), task)
    assert solution.objective**2 == pytest.approx(0.896399, rel=1e-4)
    assert error(scores, task.y_val) == pytest.approx(0.1600, abs=0.0005)


def test_svm_rc(task):
    random = ib.RandomHalfSpaces(20, seed=1, always_on=True).fit(task.X_pool)
    _, scores = certified(ib.svm_rc(task.X_train, task.y_train, random), task)
    assert error(scores, task.y_val) == pytest.approx(0.15367, abs=0.0005)
