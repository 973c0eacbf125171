"""Symmetric matrices in blocks are those made whole, and exactly symmetric."""

import numpy as np
import pytest

from implicit_bias import GatedFeatures
from implicit_bias._utils import blocks
from implicit_bias.extensions.galu import gate_kernel
from implicit_bias.extensions.infinite import gram_matrix

X = np.random.default_rng(0).normal(size=(23, 4))
UNIT = X / np.linalg.norm(X, axis=1, keepdims=True)
GATES = np.random.default_rng(1).normal(size=(23, 5))
MADE = {
    "gram": lambda: GatedFeatures(X, GATES).gram(),
    "weight_gram": lambda: GatedFeatures(X, GATES).weight_gram(),
    "gram_matrix": lambda: gram_matrix(X, "tanh").values,
}


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("rows", [1, 7, 23])
def test_blocks_make_the_same_matrix(name, rows, monkeypatch):
    whole = MADE[name]()
    monkeypatch.setattr(blocks, "ROWS", rows)
    parts = MADE[name]()
    np.testing.assert_allclose(parts, whole, rtol=1e-13, atol=1e-14)
    np.testing.assert_array_equal(parts, parts.T)


def test_the_kernel_with_other_samples_is_a_part_of_the_kernel(monkeypatch):
    monkeypatch.setattr(blocks, "ROWS", 5)
    np.testing.assert_allclose(gate_kernel(UNIT, UNIT[3:9]), gate_kernel(UNIT)[:, 3:9], atol=1e-15)


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
