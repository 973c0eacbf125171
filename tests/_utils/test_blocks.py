"""Products and factors in blocks are those made whole, of arrays and tensors, in both precisions and in threads."""

import numpy as np
import pytest
import torch

from implicit_bias._utils.blocks import ROWS, Cholesky, row_blocks, symmetric_blocks
from implicit_bias._utils.threads import in_threads
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


def matrix(n, seed=0):
    A = np.random.default_rng(seed).standard_normal((n, n))
    return A @ A.T + np.eye(n)


@pytest.mark.parametrize("dtype", [np.float32, float])
@pytest.mark.parametrize("shape", [(60,), (60, 0), (60, 1), (60, 7)])
@pytest.mark.parametrize("move", [np.asarray, torch.as_tensor], ids=["NumPy", "torch"])
def test_solutions(dtype, shape, move):
    A, right = matrix(60).astype(dtype), np.random.default_rng(1).standard_normal(shape).astype(dtype)
    # The forward error n κ ε of solutions, whose lengths are up to 4.
    tol = 4 * len(A) * np.linalg.cond(matrix(60)) * np.finfo(dtype).eps
    # The upper triangle is not read.
    factor, given = Cholesky(move(np.tril(A) + np.triu(np.full_like(A, np.nan), 1))), move(right.copy())
    found = factor.solve(given)
    assert (found.dtype, found.shape) == (given.dtype, given.shape)
    np.testing.assert_allclose(found, np.linalg.solve(A.astype(float), right), atol=tol)
    np.testing.assert_array_equal(given, right)
    L, rows = np.tril(factor.factor), given.reshape(60, -1).T
    np.testing.assert_allclose(L, np.linalg.cholesky(A), atol=tol)
    np.testing.assert_allclose(np.asarray(factor.divided(rows)) @ L.T, rows, atol=tol)


@pytest.mark.parametrize("move", [np.asarray, torch.as_tensor], ids=["NumPy", "torch"])
def test_tiles(move):
    """(1 + uuᵀ)⁻¹ = 1 − uuᵀ/(1 + ‖u‖²); a row of the second tile is counted from the top."""
    u, right = np.random.default_rng(2).standard_normal((2, ROWS + 30)) / 60
    A = np.outer(u, u)
    A[np.diag_indices(len(A))] += 1
    broken = A.copy()
    broken[ROWS + 7, ROWS + 7] = -1
    found = Cholesky(move(A)).solve(move(right[:, None]))[:, 0]
    np.testing.assert_allclose(found, right - u * (u @ right) / (1 + u @ u), rtol=0, atol=1e-11)
    with pytest.raises(np.linalg.LinAlgError, match=f"minor {ROWS + 8} "):
        Cholesky(move(broken))


@pytest.mark.long
@pytest.mark.parametrize("dtype", [np.float32, float])
def test_a_matrix_on_which_lapack_crashes(dtype):
    A = np.full((16_000, 16_000), 1 / 16_000, dtype)
    A[np.diag_indices(len(A))] += 1
    found = Cholesky(A).solve(np.ones(len(A), dtype))
    np.testing.assert_allclose(found, 0.5, rtol=len(A) * np.finfo(dtype).eps)


def test_several_threads():
    found, right = {}, np.ones(80)

    def solve(seed):
        found[seed] = Cholesky(matrix(80, seed)).solve(right)

    in_threads(solve, range(20))
    for seed, x in found.items():
        np.testing.assert_allclose(matrix(80, seed) @ x, right, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, float])
def test_a_matrix_that_is_not_positive_definite(dtype):
    A = np.eye(5, dtype=dtype)
    A[3, 3] = -1
    with pytest.raises(np.linalg.LinAlgError, match="minor 4"):
        Cholesky(A)
