"""One kernel by rows of its matrix: rows that are not kept, and limits."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from implicit_bias._utils.deadline import Deadline
from implicit_bias._utils.memory import TooLargeError
from implicit_bias.solvers import one_kernel


@pytest.fixture(scope="module")
def samples():
    """More samples than the first pool has."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 4))
    y = np.sign(X[:, :1] * X[:, 1:2] + 0.3 * rng.standard_normal((1500, 1)))
    return rbf_kernel(X), np.hstack([y, np.where(X[:, 2:3] > 0, 1.0, -1.0)])


def solved(K, signs, C, deadline, intercept=True):
    upper = np.full(signs.shape, C)
    return one_kernel.solve_one_kernel(lambda i, j: K[np.ix_(i, j)], signs, upper, intercept, 1e-8, deadline)


@pytest.mark.parametrize("C", [0.01, 0.1, 0.5])
def test_classes_are_those_of_svc(samples, C):
    """SVC has the bound C‖w‖ of its dual variables."""
    K, signs = samples
    found = solved(K, signs, C, Deadline())
    assert found.reason == ""
    for c in range(2):
        norm = np.sqrt(found.coefficients[:, c] @ K @ found.coefficients[:, c])
        oracle = SVC(kernel="precomputed", C=C * norm, tol=1e-9).fit(K, signs[:, c])
        scores = found.outputs[:, c] + found.intercepts[c]
        np.testing.assert_allclose(scores, oracle.decision_function(K), atol=1e-4)


def test_rows_that_are_not_kept(samples, monkeypatch):
    K, signs = samples
    expected = solved(K, signs, 0.3, Deadline())
    monkeypatch.setattr(one_kernel, "free_memory", lambda: 1e6)
    found = solved(K, signs, 0.3, Deadline())
    np.testing.assert_allclose(found.coefficients, expected.coefficients, atol=1e-6)


def test_no_memory_for_a_round(samples, monkeypatch):
    monkeypatch.setattr("implicit_bias._utils.memory.free_memory", lambda: 1e6)
    with pytest.raises(TooLargeError, match="a round of 1500 samples"):
        solved(*samples, 0.3, Deadline())


def test_limit(samples):
    found = solved(*samples, 0.3, Deadline(1e-9))
    assert found.reason == "max_seconds"
    assert found.rounds == 0
    assert not found.coefficients.any()
