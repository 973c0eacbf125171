"""A Cholesky factorisation in place, so that large matrices are held once and most work is matrix products."""

import numpy as np

from implicit_bias.margin.solvers.native.arrays import Tensor, library, solved_triangular

#: Columns factorised at a time.
BLOCK = 256


def cholesky_(matrix: Tensor) -> bool:
    """Replace the lower triangle of a symmetric `matrix` (n, n) by L with LLᵀ = matrix; False if it breaks down.

    What ends up in the strict upper triangle has no meaning.
    """
    if isinstance(matrix, np.ndarray):
        return _column_by_column_(matrix)
    n, linalg = len(matrix), library(matrix).linalg
    for j in range(0, n, BLOCK):
        end = min(j + BLOCK, n)
        if j:
            matrix[j:, j:end].addmm_(matrix[j:, :j], matrix[j:end, :j].T, alpha=-1)
        corner, failed = linalg.cholesky_ex(matrix[j:end, j:end])
        if failed:
            return False
        matrix[j:end, j:end] = corner
        if end < n:
            matrix[end:, j:end] = linalg.solve_triangular(corner.T, matrix[end:, j:end], upper=True, left=False)
    return True


def _column_by_column_(matrix: np.ndarray) -> bool:
    """The same for numbers of many digits."""
    for j in range(len(matrix)):
        if not matrix[j, j] > 0:
            return False
        matrix[j, j] = matrix[j, j] ** 0.5
        column = matrix[j + 1 :, j]
        column /= matrix[j, j]
        matrix[j + 1 :, j + 1 :] -= column[:, None] * column
    return True


def cholesky_solve(L: Tensor, right: Tensor) -> Tensor:
    """(LLᵀ)⁻¹ right for right (n, r); only the lower triangle of L is read."""
    if isinstance(L, np.ndarray):
        return solved_triangular(L.T, solved_triangular(L, right, upper=False), upper=True)
    linalg = library(L).linalg
    return linalg.solve_triangular(L.T, linalg.solve_triangular(L, right, upper=False), upper=True)
