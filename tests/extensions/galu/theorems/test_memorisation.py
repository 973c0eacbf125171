"""The kernel of gates, widths that memorise, and what narrower layers fit (Lemmas 1, 2, Theorem 2, Corollary 1)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from implicit_bias import InputError
from implicit_bias.extensions import galu
from implicit_bias.extensions.infinite import gram_matrix, smallest_eigenvalue
from tests.cases import FEW, layer, unit


@pytest.mark.parametrize("spread", [0.0, 0.3])
def test_lemma_1_width_memorises(spread):
    """At the width of Lemma 1, ΦΦᵀ ⪰ (k/2)κ in at least 1 − δ of the draws, for unit samples and for others."""
    X, delta, rng = unit(8, 20, seed=4), 0.1, np.random.default_rng(5)
    X = X * np.exp(spread * rng.normal(size=8))[:, None]
    lemma = galu.memorisation_width(X, delta)
    assert lemma.failure(lemma.width) <= delta < lemma.failure(lemma.width - 1)
    kernel = galu.gate_kernel(X)
    root = np.linalg.cholesky(np.linalg.inv(kernel))
    held = []
    for _ in range(60):
        gram = layer(X, lemma.width, rng).gram()
        relative = np.linalg.eigvalsh(root.T @ gram @ root)[0] / lemma.width
        held.append((relative >= 0.5, np.linalg.eigvalsh(gram)[0] >= lemma.width * lemma.eigenvalue / 2))
    assert (np.mean(held, axis=0) >= 1 - delta).all()


@pytest.mark.parametrize("seed", [1, 6, 7])
def test_width_counts_rounding_of_eigenvalue(seed):
    """For samples at a distance of 1e-12, `eigenvalue` is at most the exact λ(X), which the computed one exceeds."""
    X = unit(5, 3, seed)
    X[1] = X[0] + 1e-12 * X[2]
    X[1] /= np.linalg.norm(X[1])
    exact = smallest_eigenvalue(gram_matrix(X, digits=40)).value
    lemma = galu.memorisation_width(X, 0.1)
    assert 0 < lemma.eigenvalue <= exact < smallest_eigenvalue(gram_matrix(X)).value
    assert lemma.width >= 8 * np.linalg.norm(X, 2) ** 2 / float(exact) * np.log(5 / 0.1)


def test_expected_loss_is_mean_of_losses():
    m, d, k, expected = 60, 5, 3, 0.75
    rng, losses, values = np.random.default_rng(12), [], []
    for _ in range(200):
        features = layer(rng.normal(size=(m, d)), k, rng)
        found = galu.least_squares(features, rng.normal(size=m))
        losses.append(found.loss)
        values.append(1 - found.rank / m)
    assert galu.expected_loss(features).value == values[-1]
    assert np.mean(losses) == pytest.approx(expected, abs=0.01)
    assert np.mean(values) == pytest.approx(expected, abs=1e-3)
    assert np.mean(losses) == pytest.approx(np.mean(values), abs=3 * np.std(losses) / np.sqrt(200))


def test_expected_loss_has_rank_of_matrix():
    """Theorem 2's value is 1 − rank(Φ)/m; for kd = m = 60 the rank is deficient in 10 to 23 % of the draws."""
    rng, deficient = np.random.default_rng(13), []
    for _ in range(100):
        features = layer(rng.normal(size=(60, 5)), 12, rng)
        found = galu.expected_loss(features)
        assert found.rank == np.linalg.matrix_rank(features.dense())
        assert found.is_deficient == (found.rank < 60)
        assert found.value == 1 - found.rank / 60
        deficient.append(found.is_deficient)
    assert 0.10 < np.mean(deficient) < 0.23


@pytest.mark.parametrize(("m", "d"), [(20, 10), (60, 20)])
def test_khatri_rao_eigenvalue_below_kernel(m, d):
    X, delta = unit(m, d, seed=m), 0.1
    rows = np.einsum("ij,ik->ijk", X, X).reshape(m, -1)
    found = galu.sphere_width(X, delta)
    assert found.c1 == pytest.approx(np.linalg.svd(rows, compute_uv=False)[-1], rel=1e-8)
    assert found.eigenvalue <= np.linalg.eigvalsh(galu.gate_kernel(X))[0]
    assert galu.memorisation_width(X, delta).width <= found.width
    printed = 64 * np.pi / found.c1**2 * m / d * np.log(m / delta)
    assert (found.width <= printed + 1) == (found.spread <= 2)


@pytest.mark.parametrize("k", [10, 700])
def test_fitted_samples_by_rank(k):
    X, delta, rng = unit(15, 10, seed=6), 0.1, np.random.default_rng(41)
    found = galu.fitted_samples(X, k, delta)
    fits = [galu.memorisation_width(X[:m], delta).width <= k for m in range(1, 16)]
    assert found.fitted == sum(fits)
    assert fits == sorted(fits, reverse=True)
    ranks = [np.linalg.matrix_rank(layer(X, k, rng).dense()) for _ in range(5)]
    assert min(ranks) >= found.fitted
    assert found.loss == 1 - found.fitted / 15


def test_printed_corollary_is_weaker():
    X = unit(100, 40, seed=7)
    for k in (5_000, 50_000):
        ours = galu.fitted_samples(X, k).fitted
        printed = galu.corollary_samples(k, 40, galu.sphere_width(X).c1, 100 / 40**2)
        # The corollary does not ask for m' ≤ m, and its bound 1 − m'/m can be negative.
        assert min(printed, 100) <= ours
    assert 1 - printed / 100 < 0


@pytest.mark.parametrize("angle", [0.5, 2.0, np.pi])
def test_kernel_is_mean_over_gates(angle):
    X = np.array([[1.0, 0.0, 0.0], [np.cos(angle), np.sin(angle), 0.0]])
    draws = 100_000
    both = (np.random.default_rng(1).normal(size=(draws, 3)) @ X.T > 0).all(axis=1) * np.cos(angle)
    error = 3 * np.sqrt(both.var() / draws) + 3 / draws
    assert galu.gate_kernel(X)[0, 1] == pytest.approx(both.mean(), abs=error)


def test_kernel_exact_at_small_angles():
    small = np.array([1e-4, 1e-8, 1e-12])
    near = np.stack([np.cos(small), np.sin(small)], axis=1)
    slope = (0.5 - galu.gate_kernel([[1.0, 0.0]], near)[0] / np.cos(small)) * 2 * np.pi
    np.testing.assert_allclose(slope, small, atol=2e-15)
    far = galu.gate_kernel([[1.0, 0.0]], -near)[0]
    np.testing.assert_allclose(far, -small / (2 * np.pi), atol=1e-16, rtol=1e-6)


@FEW
@given(arrays(float, (6, 3), elements=st.floats(-1, 1).filter(lambda x: abs(x) > 1e-3)), st.floats(1e-50, 1e50))
def test_kernel_symmetric_nonnegative_homogeneous(X, scale):
    kernel = galu.gate_kernel(X)
    np.testing.assert_array_equal(kernel, kernel.T)
    np.testing.assert_allclose(np.diag(kernel), 0.5 * np.sum(X**2, axis=1), rtol=1e-14)
    assert np.linalg.eigvalsh(kernel)[0] > -1e-13
    np.testing.assert_allclose(galu.gate_kernel(scale * X) / scale**2, kernel, atol=1e-13)
    np.testing.assert_allclose(galu.gate_kernel(X[:2], X), kernel[:2], atol=1e-14)


def test_smallest_eigenvalue_zero_for_dependent_samples():
    X = unit(3, 2)
    assert smallest_eigenvalue(gram_matrix(X)).is_positive
    assert smallest_eigenvalue(gram_matrix(np.vstack([X[:2], -X[:2]]))).is_positive
    for rows in (np.vstack([X, X[:1]]), np.vstack([X, -X])):
        found = smallest_eigenvalue(gram_matrix(rows))
        assert not found.is_positive
        assert str(found).startswith("λ_min is 0 up to ±")
        with pytest.raises(InputError, match="0 up to rounding: samples share a direction"):
            galu.memorisation_width(rows)
