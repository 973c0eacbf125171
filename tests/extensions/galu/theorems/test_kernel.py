"""The kernel of Gaussian gates: exact, of any lengths, and its smallest eigenvalue."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from implicit_bias import InputError
from implicit_bias.extensions.galu import (
    gate_kernel,
    memorisation_width,
)
from implicit_bias.extensions.infinite import gram_matrix, smallest_eigenvalue
from tests.cases import FEW, layer, unit


@pytest.mark.parametrize("angle", [0.0, 1e-3, 0.5, np.pi / 2, 2.0, np.pi - 1e-3, np.pi])
def test_kernel_is_mean_over_gates(angle):
    X = np.array([[1.0, 0.0, 0.0], [np.cos(angle), np.sin(angle), 0.0]])
    draws = 400_000
    both = (np.random.default_rng(1).normal(size=(draws, 3)) @ X.T > 0).all(axis=1) * np.cos(angle)
    error = 3 * np.sqrt(both.var() / draws) + 3 / draws
    assert gate_kernel(X)[0, 1] == pytest.approx(both.mean(), abs=error)


def test_kernel_exact_at_small_angles():
    small = np.array([1e-4, 1e-8, 1e-12])
    near = np.stack([np.cos(small), np.sin(small)], axis=1)
    slope = (0.5 - gate_kernel([[1.0, 0.0]], near)[0] / np.cos(small)) * 2 * np.pi
    np.testing.assert_allclose(slope, small, atol=2e-15)
    far = gate_kernel([[1.0, 0.0]], -near)[0]
    np.testing.assert_allclose(far, -small / (2 * np.pi), atol=1e-16, rtol=1e-6)


def test_kernel_of_any_lengths():
    """Section 3.2 prints arccos⟨x, z⟩, which is no mean over gates unless x and z have length 1."""
    x, z = np.array([0.5, 0.0]), np.array([0.3, 0.4])
    U = np.random.default_rng(2).normal(size=(400_000, 2))
    sampled = np.mean((U @ x > 0) & (U @ z > 0)) * (x @ z)
    printed = (0.5 - np.arccos(x @ z) / (2 * np.pi)) * (x @ z)
    assert gate_kernel([x, z])[0, 1] == pytest.approx(sampled, abs=3 * 0.15 * 0.5 / np.sqrt(400_000))
    assert abs(printed - sampled) > 0.1 * sampled


@FEW
@given(arrays(float, (6, 3), elements=st.floats(-1, 1).filter(lambda x: abs(x) > 1e-3)), st.floats(1e-50, 1e50))
def test_kernel_symmetric_nonnegative_homogeneous(X, scale):
    kernel = gate_kernel(X)
    np.testing.assert_array_equal(kernel, kernel.T)
    np.testing.assert_allclose(np.diag(kernel), 0.5 * np.sum(X**2, axis=1), rtol=1e-14)
    assert np.linalg.eigvalsh(kernel)[0] > -1e-13
    np.testing.assert_allclose(gate_kernel(scale * X) / scale**2, kernel, atol=1e-13)
    np.testing.assert_allclose(gate_kernel(X[:2], X), kernel[:2], atol=1e-14)


def test_smallest_eigenvalue_is_limit_of_sampled():
    X = unit(8, 20)
    exact = smallest_eigenvalue(gram_matrix(X))
    sampled = np.linalg.eigvalsh(layer(X, 200_000, np.random.default_rng(3)).gram() / 200_000)[0]
    assert exact.is_positive
    assert exact.error < 1e-12
    assert sampled == pytest.approx(exact.value, abs=3e-3)
    assert str(exact).startswith(f"λ_min = {exact.value:.6g} ± ")


def test_smallest_eigenvalue_zero_for_dependent_samples():
    X = unit(3, 2)
    assert smallest_eigenvalue(gram_matrix(X)).is_positive
    assert smallest_eigenvalue(gram_matrix(np.vstack([X[:2], -X[:2]]))).is_positive
    for rows in (np.vstack([X, X[:1]]), np.vstack([X, -X])):
        found = smallest_eigenvalue(gram_matrix(rows))
        assert not found.is_positive
        assert str(found).startswith("λ_min is 0 up to ±")
        with pytest.raises(InputError, match="0 up to rounding: samples share a direction"):
            memorisation_width(rows)
