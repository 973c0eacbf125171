"""A Cholesky factorisation in place, so that large matrices are held once and most work is matrix products."""

from typing import Any

import numpy as np
from scipy.linalg import get_blas_funcs, get_lapack_funcs

from implicit_bias.solvers.native import digits
from implicit_bias.solvers.native.arrays import Tensor, library

#: Columns that LAPACK factorises at a time: OpenBLAS's threads break down in 20 000.
BLOCK = 8192


def cholesky_(matrix: Tensor) -> bool:
    """Replace the lower triangle of a symmetric `matrix` (n, n) by L with LLᵀ = matrix; False if it breaks down.

    What ends up in the strict upper triangle has no meaning.
    """
    if library(matrix) is np and matrix.dtype == object:
        return digits.cholesky_(matrix)
    n = len(matrix)
    for j in range(0, n, BLOCK):
        end = min(j + BLOCK, n)
        if j:
            matrix[j:, j:end] -= matrix[j:, :j] @ matrix[j:end, :j].T
        if not _corner_(matrix[j:end, j:end]):
            return False
        if end < n:
            matrix[end:, j:end] = divided(matrix[end:, j:end], matrix[j:end, j:end])
    return True


def cholesky_solve(L: Tensor, right: Tensor) -> Tensor:
    """(LLᵀ)⁻¹ right for right (n, r); only the lower triangle of L is read."""
    if library(L) is np:
        if L.dtype == object:
            return digits.cholesky_solve(L, right)
        if not right.size:
            # LAPACK's wrapper refuses a matrix without entries.
            return right.copy()
        if right.shape[1] > 1:
            return _lapack("potrs", L)(L.T, right, lower=False)[0]
        (solve,) = get_blas_funcs(("trsv",), (L, right))
        return solve(L.T, solve(L.T, right[:, 0], lower=False, trans=True), lower=False)[:, None]
    linalg = library(L).linalg
    return linalg.solve_triangular(L.T, linalg.solve_triangular(L, right, upper=False), upper=True)


def _lapack(name: str, matrix: Tensor) -> Any:
    """LAPACK's function for the precision of a matrix."""
    (function,) = get_lapack_funcs((name,), (matrix,))
    return function


def _corner_(matrix: Tensor) -> bool:
    """Replace the lower triangle of a block on the diagonal by its Cholesky factor; False if it breaks down."""
    if library(matrix) is not np:
        L, failed = library(matrix).linalg.cholesky_ex(matrix)
        matrix.copy_(L)
        return not failed
    # The transpose of a whole matrix is in LAPACK's order, and the factor takes its place; a part is copied.
    factor, failed = _lapack("potrf", matrix)(matrix.T, lower=False, overwrite_a=True, clean=False)
    if not np.may_share_memory(factor, matrix):
        matrix[:] = factor.T
    return not failed


def divided(rows: Tensor, corner: Tensor) -> Tensor:
    """`rows` L⁻ᵀ, L the corner."""
    if library(rows) is np:
        return _lapack("trtrs", corner)(corner, rows.T, lower=True)[0].T
    return library(rows).linalg.solve_triangular(corner.T, rows, upper=True, left=False)
