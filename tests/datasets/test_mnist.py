"""Optima of the published cell n = 500, H = 10, C = 2, seed 1 on real MNIST; see `test_the_published_numbers`."""

import pytest

import implicit_bias as ib
from implicit_bias.metrics import error
from tests.cases import optimal

pytestmark = pytest.mark.mnist


@pytest.fixture(scope="module")
def task(mnist_root):
    return ib.load_binary("mnist", 500, seed=1, root=mnist_root)


@pytest.fixture(scope="module")
def gates(task):
    return ib.HyperplaneGates(10, 2, seed=1).fit(task.X_pool)


def certified(problem, task, solver=None):
    solution = optimal(problem, solver)
    assert solution.gap <= 1e-6
    return solution, problem.decision_function(solution.weights, task.X_val)


@pytest.mark.parametrize("solver", ["NATIVE", pytest.param("CLARABEL", marks=pytest.mark.long)])
def test_svm_gln(task, gates, solver):
    solution, scores = certified(ib.svm_gln(task.X_train, task.y_train, gates), task, solver)
    assert solution.objective == pytest.approx(1.71179, rel=1e-4)
    assert error(scores, task.y_val) == pytest.approx(0.1503, abs=0.0005)


def test_svm_l2(task, gates):
    solution, scores = certified(ib.svm_l2(task.X_train, task.y_train, gates), task)
    assert solution.objective**2 == pytest.approx(0.896399, rel=1e-4)
    assert error(scores, task.y_val) == pytest.approx(0.1600, abs=0.0005)
