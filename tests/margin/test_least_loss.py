"""The least logistic loss within a norm: equal to penalised logistic regression, and below no certified bound."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import implicit_bias as ib
from tests.cases import assert_refused, inputs

X = inputs(n=40, d=6)
Y = np.where(X[:, 0] - X[:, 1] + 0.5 * np.random.default_rng(0).normal(size=40) > 0, 1.0, -1.0)


@pytest.mark.parametrize(
    ("norm", "l1_ratio"), [(ib.Frobenius(), 0.0), (ib.TwoLayerNorm(range(1), "l1", "l_inf"), 1.0)], ids=["l2", "l1"]
)
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_penalised_regression_has_the_least_loss_at_its_own_norm(norm, l1_ratio, C):
    oracle = LogisticRegression(C=C, l1_ratio=l1_ratio, solver="saga", fit_intercept=False, tol=1e-10, max_iter=10**5)
    W = oracle.fit(X, Y).coef_
    found = ib.least_loss(ib.MarginProblem(ib.GatedFeatures(X), Y, norm), norm.value(W))
    np.testing.assert_allclose(found.weights, W, atol=1e-4)
    assert found.loss == pytest.approx(np.logaddexp(0, -Y * (X @ W[0])).mean(), rel=1e-6)
    assert 0 <= found.gap < 1e-6


@pytest.mark.parametrize("optimiser", ["gd", "sign", "muon", "muon-sign"])
def test_no_weights_within_the_norm_have_a_loss_below_the_bound(optimiser):
    problem = ib.svm_of_optimiser(X, Y, ib.HyperplaneGates(3, 2, seed=1).fit(X), optimiser)
    found, size, rng = ib.least_loss(problem, 2.0), problem.norm.value, np.random.default_rng(1)
    assert size(found.weights) <= 2 * (1 + 1e-12)
    assert found.gap < 1e-6
    for step in np.geomspace(1e-4, 1, 50):
        W = found.weights + step * rng.normal(size=found.weights.shape)
        W *= 2 / size(W)
        assert np.logaddexp(0, -problem.margins(W)).mean() >= found.lower_bound


def test_refused_problems():
    problem = ib.MarginProblem(ib.GatedFeatures(X), Y, ib.Frobenius(), C=1.0, intercept=True)
    assert_refused(lambda: ib.least_loss(problem, 1.0), "free intercept")
    assert_refused(lambda: ib.least_loss(problem, 0.0), "bound must be")
