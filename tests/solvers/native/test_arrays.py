"""LU factors of NumPy arrays and of torch tensors."""

import numpy as np
import pytest
import torch

from implicit_bias.solvers.native.arrays import lu_factor, lu_solve


@pytest.mark.parametrize("n", [1, 40, 300])
@pytest.mark.parametrize("move", [np.asarray, torch.as_tensor], ids=["NumPy", "torch"])
def test_factors(n, move):
    A, right = np.random.default_rng(n).normal(size=(n, n)), np.random.default_rng(1).normal(size=n)
    found = lu_solve(lu_factor(move(A + A.T)), move(right))
    np.testing.assert_allclose((A + A.T) @ np.asarray(found), right, rtol=1e-6, atol=1e-8)
    assert lu_factor(move(np.zeros((n, n)))) is None
