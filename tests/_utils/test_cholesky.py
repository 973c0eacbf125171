"""Cholesky factors solve as NumPy does, in both precisions and in several threads."""

import numpy as np
import pytest

from implicit_bias._utils.cholesky import Cholesky
from implicit_bias._utils.threads import in_threads


def matrix(n, seed=0):
    A = np.random.default_rng(seed).standard_normal((n, n))
    return A @ A.T + np.eye(n)


@pytest.mark.parametrize(("dtype", "tol"), [(np.float32, 1e-3), (float, 1e-11)])
@pytest.mark.parametrize("shape", [(60,), (60, 1), (60, 7)])
def test_solutions(dtype, tol, shape):
    A, right = matrix(60), np.random.default_rng(1).standard_normal(shape)
    kept = right.copy()
    found = Cholesky(A.astype(dtype)).solve(right)
    assert found.dtype == dtype
    assert found.shape == shape
    np.testing.assert_allclose(found, np.linalg.solve(A, right), atol=tol)
    np.testing.assert_array_equal(right, kept)


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
