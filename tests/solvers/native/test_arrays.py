"""Cholesky and LU factors of NumPy arrays and of torch tensors."""

import numpy as np
import pytest
import torch

from implicit_bias.solvers.native.arrays import cholesky_, cholesky_solve, lu_factor, lu_solve


@pytest.mark.parametrize("n", [1, 40, 300])
@pytest.mark.parametrize("move", [np.asarray, torch.as_tensor], ids=["NumPy", "torch"])
def test_factors_in_place(n, move):
    rng = np.random.default_rng(n)
    A, right = rng.normal(size=(n, n + 5)), rng.normal(size=(n, 3))
    matrix = A @ A.T + n * np.eye(n)
    L = move(matrix.copy())
    assert cholesky_(L)
    np.testing.assert_allclose(np.tril(L), np.linalg.cholesky(matrix), rtol=1e-10, atol=1e-10 * n)
    np.testing.assert_allclose(cholesky_solve(L, move(right)), np.linalg.solve(matrix, right), rtol=1e-8, atol=1e-12)
    matrix[-1, -1] = -1.0
    assert not cholesky_(move(matrix))
    border = A[:, :n] + A[:, :n].T
    found = lu_solve(lu_factor(move(border)), move(right[:, 0].copy()))
    np.testing.assert_allclose(border @ np.asarray(found), right[:, 0], rtol=1e-6, atol=1e-8)
    assert lu_factor(move(np.zeros((n, n)))) is None
