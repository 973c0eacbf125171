"""Symmetric matrices in blocks are those made whole, and exactly symmetric."""

import numpy as np
import pytest

from implicit_bias._utils.blocks import row_blocks, symmetric_blocks
from implicit_bias.extensions.galu import gate_kernel

X = np.random.default_rng(0).normal(size=(23, 4))


@pytest.mark.parametrize("size", [1, 7, 23])
def test_symmetric_blocks_of_any_size(size):
    parts = symmetric_blocks(23, lambda rows, columns: X[rows] @ X[columns].T, size=size)
    np.testing.assert_allclose(parts, X @ X.T, rtol=1e-13, atol=1e-14)
    np.testing.assert_array_equal(parts, parts.T)
    assert len(row_blocks(23, size)) == -(-23 // size)


@pytest.mark.long
def test_a_kernel_of_twenty_thousand_samples():
    many = np.random.default_rng(0).normal(size=(20_000, 400))
    unit = many / np.linalg.norm(many, axis=1, keepdims=True)
    kernel = gate_kernel(unit)
    for i in (0, 4095, 4096, 19_999):
        cosines = unit @ unit[i]
        cosines[i] = 1.0
        np.testing.assert_allclose(kernel[i], (0.5 - np.arccos(cosines) / (2 * np.pi)) * cosines, atol=1e-12)
        np.testing.assert_array_equal(kernel[:, i], kernel[i])
