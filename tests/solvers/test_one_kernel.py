"""One kernel by rows of its matrix: rows that are not kept, and limits."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from implicit_bias import GroupLasso, MarginProblem, MultipleKernelClassifier, Status
from implicit_bias._utils.limits import TooLargeError
from implicit_bias.features.base import UnkeptFeatures
from implicit_bias.solvers import Options, one_kernel


@pytest.fixture(scope="module")
def samples():
    """More samples than the first pool has."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 4))
    y = np.sign(X[:, :1] * X[:, 1:2] + 0.3 * rng.standard_normal((1500, 1)))
    return rbf_kernel(X), np.hstack([y, np.where(X[:, 2:3] > 0, 1.0, -1.0)])


def solved(K, signs, C, **limits):
    features = UnkeptFeatures((len(K), 1, 1), products=False)
    problems = [MarginProblem(features, y, GroupLasso([0]), C, intercept=True) for y in signs.T]
    return one_kernel.solve_one_kernel(lambda i, j: K[np.ix_(i, j)], problems, [None] * 2, Options(2e-8, **limits))


@pytest.mark.parametrize("C", [0.01, 0.1, 0.5])
def test_classes_are_those_of_svc(samples, C):
    """SVC has the bound C‖w‖ of its dual variables."""
    K, signs = samples
    answers, outputs = solved(K, signs, C)
    for c, answer in enumerate(answers):
        assert (answer.stopped, answer.reason) == (None, "")
        norm = np.sqrt(answer.weights[0] @ outputs[:, c])
        oracle = SVC(kernel="precomputed", C=C * norm, tol=1e-9).fit(K, signs[:, c])
        np.testing.assert_allclose(outputs[:, c] + answer.intercept, oracle.decision_function(K), atol=1e-4)


@pytest.mark.parametrize(("most", "atol"), [(one_kernel.MOST, 1e-6), (40, 1e-3)])
def test_rows_that_are_not_kept(samples, monkeypatch, most, atol):
    """Without memory for larger ones, working sets hold only some of the samples between their bounds."""
    expected, _ = solved(*samples, 0.3)
    monkeypatch.setattr(one_kernel, "free_memory", lambda: 1e6)
    monkeypatch.setattr(one_kernel, "MOST", most)
    for answer, other in zip(solved(*samples, 0.3)[0], expected, strict=True):
        assert most > 40 or answer.iterations > other.iterations
        np.testing.assert_allclose(answer.weights, other.weights, atol=atol)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(("dtype", "atol"), [(float, 1e-9), (np.float32, 2e-4)])
def test_newton_steps_with_one_factor(samples, intercept, dtype, atol):
    """They lead to Ks = μy − b at the s between their bounds, with sᵀKs = 1, and stop some s at their bounds."""
    K, y = samples[0][:500, :500] + np.eye(500), samples[1][:500, 0]
    rng = np.random.default_rng(0)
    free = rng.random(500) < 0.8
    s = np.where(free, 0.01 * y * rng.random(500), 0.0)
    low, high = np.where(free, -1.0, 0.0), np.where(free, 1.0, 0.0)
    low[:8], high[:8] = s[:8] - 1e-4 * free[:8], s[:8] + 1e-4 * free[:8]
    mu = float(y @ K @ s / 500)
    found, h, q, mu = one_kernel._newton(K.astype(dtype), y, s, K @ s, s @ K @ s, low, high, mu, intercept, 1e-12)
    inside = free & (found > low) & (found < high)
    assert 1 < free.sum() - inside.sum() < 15
    rest = mu * y - K @ found
    np.testing.assert_allclose(rest[inside], rest[inside].mean() if intercept else 0, atol=atol)
    np.testing.assert_allclose(h, K @ found, atol=atol)
    np.testing.assert_allclose([found @ K @ found, q], 1, atol=atol)
    np.testing.assert_array_equal(found[~free], s[~free])
    assert not intercept or found.sum() == pytest.approx(s.sum(), abs=1e-6)


def test_gaps_that_oscillate_may_fall():
    gaps = [0.9 - 0.002 * i + 0.1 * (i % 2) for i in range(2 * one_kernel.PATIENCE)]
    assert [bool(one_kernel._reason_to_stop(each, True)) for each in (gaps, 2 * gaps)] == [False, True]


def test_no_memory_for_a_round(samples, monkeypatch):
    monkeypatch.setattr("implicit_bias._utils.limits.free_memory", lambda: 1e6)
    with pytest.raises(TooLargeError, match="a round of 1500 samples"):
        solved(*samples, 0.3)


def test_limit(samples):
    for answer in solved(*samples, 0.3, max_seconds=1e-9)[0]:
        assert (answer.stopped, answer.iterations, answer.weights.any()) == (Status.TIME_LIMIT, 0, False)


@pytest.mark.filterwarnings("ignore")
def test_an_objective_that_rounds_to_zero_ends_no_fit():
    X = np.array([[67109421.0, 67109422.0], [67109420.0, 67109421.0]])
    kernel = "poly", {"degree": 2, "coef0": 0.0, "gamma": 1.2334264602845384}
    model = MultipleKernelClassifier(kernel, C=0.3435059911298323, normalise=False, tol=1e-3).fit(X, [-1, 1])
    assert model.certificate_.objective >= model.certificate_.lower_bound >= 0
