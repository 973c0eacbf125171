"""Factors of low rank, compared with dense ones, and LU factors of NumPy arrays and of torch tensors."""

import numpy as np
import pytest
import torch

from implicit_bias.solvers.native.algebra import ColumnBlocks, DenseFactor, LowRankFactor, lu_factor, lu_solve


@pytest.mark.parametrize("seed", range(5))
def test_low_rank_factors_solve_like_dense_ones(seed):
    """Low-rank factors solve as accurately as dense ones for diagonals from 1e-9 to 1e3."""
    rng = np.random.default_rng(seed)
    B, D, right = rng.normal(size=(40, 7)), 10.0 ** rng.uniform(-9, 3, 40), rng.normal(size=(40, 3))
    matrix = B @ B.T + np.diag(D)
    few, full = LowRankFactor(ColumnBlocks(B), D).solve(right), DenseFactor(matrix.copy()).solve(right)
    assert np.linalg.norm(matrix @ few - right) <= 1e-6 * np.linalg.norm(right)
    np.testing.assert_allclose(few, full, rtol=1e-5, atol=1e-5 * abs(full).max())


@pytest.mark.parametrize("seed", range(3))
def test_tiny_diagonals_are_raised_to_rounding(seed):
    """Diagonal entries below rounding are raised to 1e-14 of the mean, which bounds the solution."""
    rng = np.random.default_rng(seed)
    B, right = rng.normal(size=(40, 7)), rng.normal(size=(40, 3))
    D, least = 10.0 ** rng.uniform(-30, 0, 40), 1e-14 * (B**2).sum() / 40
    found = LowRankFactor(ColumnBlocks(B), D).solve(right)
    np.testing.assert_allclose(found, LowRankFactor(ColumnBlocks(B), np.maximum(D, least)).solve(right), rtol=1e-6)
    assert abs(found).max() <= 2 * abs(right).max() / least


@pytest.mark.parametrize("move", [np.asarray, torch.as_tensor], ids=["NumPy", "torch"])
def test_factors_without_columns_are_the_diagonal(move):
    D, right = np.array([2.0, 4.0]), np.ones((2, 3))
    found = LowRankFactor(ColumnBlocks(move(np.zeros((2, 0)))), move(D)).solve(move(right))
    np.testing.assert_array_equal(found, right / D[:, None])


@pytest.mark.parametrize("n", [1, 40, 300])
@pytest.mark.parametrize("move", [np.asarray, torch.as_tensor], ids=["NumPy", "torch"])
def test_lu_factors(n, move):
    A, right = np.random.default_rng(n).normal(size=(n, n)), np.random.default_rng(1).normal(size=n)
    found = lu_solve(lu_factor(move(A + A.T)), move(right))
    np.testing.assert_allclose((A + A.T) @ np.asarray(found), right, rtol=1e-6, atol=1e-8)
    assert lu_factor(move(np.zeros((n, n)))) is None
