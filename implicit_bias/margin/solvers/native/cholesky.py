"""A Cholesky factorisation in place, so that large matrices are held once and most work is matrix products."""

from typing import Any

import numpy as np
from scipy.linalg import get_lapack_funcs

from implicit_bias.margin.solvers.native import digits
from implicit_bias.margin.solvers.native.arrays import Tensor, library

#: Columns factorised at a time.
BLOCK = 256


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
        corner = _corner(matrix[j:end, j:end])
        if corner is None:
            return False
        matrix[j:end, j:end] = corner
        if end < n:
            matrix[end:, j:end] = _divided(matrix[end:, j:end], corner)
    return True


def cholesky_solve(L: Tensor, right: Tensor) -> Tensor:
    """(LLᵀ)⁻¹ right for right (n, r); only the lower triangle of L is read."""
    if library(L) is np:
        if L.dtype == object:
            return digits.cholesky_solve(L, right)
        # LAPACK's wrapper refuses a matrix without entries.
        return _lapack("potrs", L)(L.T, right, lower=False)[0] if right.size else right.copy()
    linalg = library(L).linalg
    return linalg.solve_triangular(L.T, linalg.solve_triangular(L, right, upper=False), upper=True)


def _lapack(name: str, matrix: Tensor) -> Any:
    """LAPACK's function for the precision of a matrix."""
    (function,) = get_lapack_funcs((name,), (matrix,))
    return function


def _corner(matrix: Tensor) -> Tensor | None:
    """The Cholesky factor of a block on the diagonal; None if it is not positive definite."""
    if library(matrix) is np:
        L, failed = _lapack("potrf", matrix)(matrix, lower=True)
    else:
        L, failed = library(matrix).linalg.cholesky_ex(matrix)
    return None if failed else L


def _divided(rows: Tensor, corner: Tensor) -> Tensor:
    """`rows` L⁻ᵀ, L the corner."""
    if library(rows) is np:
        return _lapack("trtrs", corner)(corner, rows.T, lower=True)[0].T
    return library(rows).linalg.solve_triangular(corner.T, rows, upper=True, left=False)
