"""The kernel of random gates, the width at which GaLU memorises, and the rate of descent (Lemma 1, Theorem 1)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from implicit_bias import GatedFeatures, InputError, least_squares
from implicit_bias.kernels import gram_matrix, smallest_eigenvalue
from implicit_bias.theory import (
    a_priori_rate,
    descent_rate,
    descent_target,
    gate_kernel,
    memorisation_width,
)
from tests.cases import FEW, layer, unit

# The kernel


@pytest.mark.parametrize("angle", [0.0, 1e-3, 0.5, np.pi / 2, 2.0, np.pi - 1e-3, np.pi])
def test_the_kernel_is_the_mean_over_gaussian_gates(angle):
    X = np.array([[1.0, 0.0, 0.0], [np.cos(angle), np.sin(angle), 0.0]])
    draws = 400_000
    both = (np.random.default_rng(1).normal(size=(draws, 3)) @ X.T > 0).all(axis=1) * np.cos(angle)
    error = 3 * np.sqrt(both.var() / draws) + 3 / draws
    assert gate_kernel(X)[0, 1] == pytest.approx(both.mean(), abs=error)


def test_the_kernel_is_exact_where_arccos_is_not():
    small = np.array([1e-4, 1e-8, 1e-12])
    near = np.stack([np.cos(small), np.sin(small)], axis=1)
    slope = (0.5 - gate_kernel([[1.0, 0.0]], near)[0] / np.cos(small)) * 2 * np.pi
    np.testing.assert_allclose(slope, small, atol=2e-15)
    far = gate_kernel([[1.0, 0.0]], -near)[0]
    np.testing.assert_allclose(far, -small / (2 * np.pi), atol=1e-16, rtol=1e-6)


def test_the_kernel_of_samples_of_other_lengths_is_another():
    """MATH: the formula is for unit vectors; with arccos⟨x, z⟩ of the raw samples it is no mean over gates."""
    x, z = np.array([0.5, 0.0]), np.array([0.3, 0.4])
    U = np.random.default_rng(2).normal(size=(400_000, 2))
    sampled = np.mean((U @ x > 0) & (U @ z > 0)) * (x @ z)
    printed = (0.5 - np.arccos(x @ z) / (2 * np.pi)) * (x @ z)
    ours = 0.25 * gate_kernel([x, z], normalise=True)[0, 1]
    assert ours == pytest.approx(sampled, abs=3 * 0.15 * 0.5 / np.sqrt(400_000))
    assert abs(printed - sampled) > 0.1 * sampled


@FEW
@given(arrays(float, (6, 3), elements=st.floats(-1, 1).filter(lambda x: abs(x) > 1e-3)), st.floats(1e-100, 1e100))
def test_kernels_are_symmetric_nonnegative_and_of_any_scale(X, scale):
    kernel = gate_kernel(X, normalise=True)
    np.testing.assert_array_equal(kernel, kernel.T)
    np.testing.assert_allclose(np.diag(kernel), 0.5, atol=1e-14)
    assert np.linalg.eigvalsh(kernel)[0] > -1e-13
    np.testing.assert_allclose(gate_kernel(scale * X, normalise=True), kernel, atol=1e-13)
    np.testing.assert_allclose(gate_kernel(X[:2], X, normalise=True), kernel[:2], atol=1e-14)


def test_the_smallest_eigenvalue_is_the_limit_of_sampled_ones():
    X = unit(8, 20)
    exact = smallest_eigenvalue(gram_matrix(X))
    sampled = np.linalg.eigvalsh(layer(X, 200_000, np.random.default_rng(3)).gram() / 200_000)[0]
    assert exact.is_positive
    assert exact.error < 1e-12
    assert sampled == pytest.approx(exact.value, abs=3e-3)
    assert str(exact).startswith(f"λ_min = {exact.value:.6g} ± ")


def test_the_smallest_eigenvalue_is_zero_for_repeated_samples_and_dependent_antipodal_pairs():
    X = unit(3, 2)
    assert smallest_eigenvalue(gram_matrix(X)).is_positive
    assert smallest_eigenvalue(gram_matrix(np.vstack([X[:2], -X[:2]]))).is_positive
    for rows in (np.vstack([X, X[:1]]), np.vstack([X, -X])):
        found = smallest_eigenvalue(gram_matrix(rows))
        assert not found.is_positive
        assert str(found).startswith("λ_min is 0 up to ±")
        with pytest.raises(InputError, match="0 up to rounding: samples repeat"):
            memorisation_width(rows)


# Lemma 1


def test_memorisation_at_the_width_of_lemma_1():
    X, delta, rng = unit(8, 20, seed=4), 0.1, np.random.default_rng(5)
    lemma = memorisation_width(X, delta)
    assert lemma.failure(lemma.width) <= delta < lemma.failure(lemma.width - 1)
    kernel = gate_kernel(X)
    root = np.linalg.cholesky(np.linalg.inv(kernel))
    held = []
    for _ in range(200):
        gram = layer(X, lemma.width, rng).gram()
        relative = np.linalg.eigvalsh(root.T @ gram @ root)[0] / lemma.width
        held.append((relative >= 0.5, np.linalg.eigvalsh(gram)[0] >= lemma.width * lemma.eigenvalue / 2))
    assert (np.mean(held, axis=0) >= 1 - delta).all()


def test_the_wide_matrix_is_bounded_not_the_tall_one():
    """MATH, Lemma 4: AAᵀ has the eigenvalues that are bounded below; AᵀA is singular whenever m < kd."""
    X = unit(3, 4, seed=4)
    lemma = memorisation_width(X, 0.1)
    A = layer(X, lemma.width, np.random.default_rng(6)).dense()
    assert A.shape[0] < A.shape[1]
    assert np.linalg.eigvalsh(A @ A.T)[0] >= lemma.width * lemma.eigenvalue / 2 > 1
    assert abs(np.linalg.eigvalsh(A.T @ A)[0]) < 1e-10


# Theorem 1


def descend(features, y, w, step, steps):
    for _ in range(steps):
        yield w
        w = w - step * 2 / features.n * features.adjoint(features @ w - y)


@pytest.mark.parametrize(("m", "k"), [(20, 12), (60, 3)])
def test_descent_converges_at_the_rate_to_its_target_and_not_to_the_least_norm(m, k):
    """MATH, Theorem 1: the printed bound of ‖w_t − w*‖ is false for a start with a part outside the row space."""
    rng = np.random.default_rng(7)
    features = layer(unit(m, 5, seed=8), k, rng)
    # The third input repeats the second, so that Φ has a null space at every width.
    features = GatedFeatures(features.X[:, [0, 1, 1, 2, 3]], features.gate_values)
    y, start = rng.normal(size=m), 3 * rng.normal(size=(k, 5))
    found, target = descent_rate(features), descent_target(features, y, start)
    least_norm = least_squares(features, y).weights
    projected = least_squares(features, features @ start).weights
    np.testing.assert_allclose(target, least_norm + start - projected, atol=1e-7)
    first, broken = np.linalg.norm(projected - least_norm), False
    for t, w in enumerate(descend(features, y, start, found.step, 300)):
        assert np.linalg.norm(w - target) <= found.rate**t * first * (1 + 1e-9) + 1e-9
        broken |= np.linalg.norm(w - least_norm) > found.rate**t * np.linalg.norm(start - least_norm) * (1 + 1e-9)
    assert broken


@pytest.mark.parametrize("shape", [(10, 4, 6), (40, 4, 2), (12, 4, 3)])
def test_rates_come_from_the_singular_values(shape):
    m, d, k = shape
    features = layer(unit(m, d, seed=9), k, np.random.default_rng(10))
    values = np.linalg.svd(features.dense(), compute_uv=False)
    values = values[values > 1e-9 * values[0]]
    found = descent_rate(features)
    assert (found.largest, found.smallest) == pytest.approx((values[0], values[-1]), rel=1e-8)
    assert found.step == pytest.approx(m / (values[0] ** 2 + values[-1] ** 2), rel=1e-8)
    ratio = (values[0] ** 2 - values[-1] ** 2) / (values[0] ** 2 + values[-1] ** 2)
    assert found.rate == pytest.approx(ratio, rel=1e-8)
    assert found.rate ** found.steps(1e-3) <= 1e-3 < found.rate ** (found.steps(1e-3) - 1)
    scaled = descent_rate(features.scaled(1e80))
    assert (scaled.rate, scaled.step) == pytest.approx((found.rate, found.step * 1e-160), rel=1e-8)


def test_the_rate_in_advance_holds_for_the_gates_that_are_drawn():
    X, rng = unit(8, 20, seed=4), np.random.default_rng(11)
    k = memorisation_width(X, 0.01).width
    found = a_priori_rate(X, k)
    features = layer(X, k, rng)
    exact = descent_rate(features)
    assert exact.largest <= found.largest
    assert found.smallest <= exact.smallest
    assert exact.rate <= found.rate < 1
    assert found.failure <= 0.01
    y, start = rng.normal(size=8), np.zeros((k, 20))
    target = descent_target(features, y, start)
    for t, w in enumerate(descend(features, y, start, found.step, 50)):
        assert np.linalg.norm(w - target) <= found.rate**t * np.linalg.norm(target) * (1 + 1e-9)
