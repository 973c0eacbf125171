"""Features along a kernel expansion: their certificate is that of all features."""

import numpy as np
import pytest

from implicit_bias import Frobenius, GatedFeatures, GroupLasso, KernelFeatures, MarginProblem, certify
from implicit_bias.features.expansion import ExpansionFeatures

#: Error of the outputs, sums over up to 150 features and 40 samples, relative to lengths.
ROUNDING = 190 * 2.0**-53


@pytest.mark.parametrize(("C", "other"), [(0.1, 0.0), (np.inf, 0.0), (0.1, 0.05)])
def test_certificate_is_that_of_the_kernel(C, other):
    """Bounds hold for any λ: those of coefficients ∝ λ∘y are tight, those of `other` λ are below the exact ones."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 60))
    y, lam = np.sign(X[:, 0]), rng.uniform(0.1, 1, 40)
    whole = MarginProblem(GatedFeatures(X), y, Frobenius(), C)
    a = np.linalg.solve(X @ X.T, y) if np.isinf(C) else lam * y
    lam = np.maximum(a * y, 0) + other * rng.uniform(size=40)
    along = ExpansionFeatures(a[None], (X @ X.T @ a)[None], np.linalg.norm(X, axis=1)[None], ROUNDING)
    exact = certify(whole, (a @ X)[None], lam)
    found = certify(whole.replace(features=along), along.sizes[None], lam)
    assert found.objective == pytest.approx(exact.objective, rel=1e-9)
    assert found.objective >= exact.objective
    assert found.lower_bound <= exact.lower_bound * (1 + 1e-12)
    np.testing.assert_allclose(found.margins, exact.margins, rtol=1e-9, atol=1e-9)
    if other == 0 and not np.isinf(C):
        assert found.lower_bound == pytest.approx(exact.lower_bound, rel=1e-9)


def test_certificate_includes_errors_of_entries():
    """Bounds hold for the exact kernel if outputs have the stated errors, here those of single precision."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 60))
    y, a = np.sign(X[:, 0]), rng.uniform(0.1, 1, 40) * np.sign(X[:, 0])
    whole = MarginProblem(GatedFeatures(X), y, Frobenius(), 0.1)
    exact = certify(whole, (a @ X)[None], np.abs(a))
    entry, lengths = 1e-3, np.linalg.norm(X, axis=1)
    for sign in (1, -1):
        K = X @ X.T + sign * entry * np.outer(lengths * np.sign(a), lengths * np.sign(a))
        along = ExpansionFeatures(a[None], (K @ a)[None], lengths[None], entry)
        found = certify(whole.replace(features=along), along.sizes[None], np.abs(a))
        assert found.lower_bound <= exact.lower_bound
        assert found.objective >= exact.objective
        assert found.objective == pytest.approx(exact.objective, rel=0.3)


@pytest.mark.parametrize("other", [0.0, 0.05])
def test_certificate_is_that_of_several_kernels(other):
    """The bounds are those of the whole kernels, also where a kernel with weights of 0 has a positive dual norm."""
    rng = np.random.default_rng(0)
    blocks = rng.standard_normal((40, 3, 50)) * [[[0.5], [1.0], [2.0]]]
    y, lam, eta = np.sign(blocks[:, 0, 0]), rng.uniform(0.1, 1, 40), np.array([1.0, 0.5, 0.0])
    whole = MarginProblem(KernelFeatures(blocks), y, GroupLasso(range(3)), 0.1)
    a, lam = lam * y, lam + other * rng.uniform(size=40)
    V = np.einsum("n,nkr->kr", a, blocks)
    outputs, lengths = np.einsum("nkr,kr->kn", blocks, V), np.linalg.norm(blocks, axis=2).T
    along = ExpansionFeatures(np.tile(a, (3, 1)), outputs, lengths, ROUNDING)
    exact = certify(whole, eta[:, None] * V, lam)
    found = certify(whole.replace(features=along), (eta * along.sizes)[:, None], lam)
    assert exact.objective <= found.objective == pytest.approx(exact.objective, rel=1e-9)
    assert found.lower_bound <= exact.lower_bound * (1 + 1e-12)
    np.testing.assert_allclose(found.margins, exact.margins, rtol=1e-9, atol=1e-9)
    if other == 0:
        assert found.lower_bound == pytest.approx(exact.lower_bound, rel=1e-9)


def test_kernels_whose_features_cancel():
    """The bound of a length that is 0, or nearly, is that of rounding, and not the length of the terms."""
    a, ones = np.tile([1.0, -1.0], (2, 20)), np.ones((40, 40))
    for K, size in ((ones, 0.0), (0 * ones, 0.0), (ones + 1e-18 * np.outer(a[0], a[0]), 1e-9 * 40)):
        along = ExpansionFeatures(a, np.stack([K @ a[0], a[1]]), np.ones((2, 40)), 1e-15)
        V, _, error = along.adjoint_bounded(2 * a[0])
        assert 2 * size <= V[0, 0] + error[0] <= 2 * size + 1e-4
        assert error[1] <= 1e-8 * V[1, 0] == pytest.approx(2e-8 * 40**0.5)
        for features in (along, ExpansionFeatures(a[:1], (K @ a[0])[None], np.ones((1, 40)), 1e-15)):
            problem = MarginProblem(features, a[0], GroupLasso(range(features.k)))
            residual = certify(problem, 0 * features.sizes[:, None], np.ones(40)).farkas_residual
            assert (residual > features.unresolved) == (features is along)
