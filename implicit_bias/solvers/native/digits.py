"""Linear algebra for numbers of many digits, objects to NumPy, whose own does not take them."""

from typing import Any

import numpy as np

#: An array of objects.
Numbers = Any


def lu_factor(matrix: Numbers) -> tuple[Numbers, np.ndarray] | None:
    """Gaussian elimination with the largest pivot of each column: L and U in one matrix (n, n), and the order of rows.

    None if it is singular.
    """
    M, order = matrix.copy(), np.arange(len(matrix))
    for j in range(len(M)):
        best = j + int(np.argmax(abs(M[j:, j])))
        if M[best, j] == 0:
            return None
        if best != j:
            M[[j, best]], order[[j, best]] = M[[best, j]], order[[best, j]]
        M[j + 1 :, j] /= M[j, j]
        M[j + 1 :, j + 1 :] -= M[j + 1 :, j][:, None] * M[j, j + 1 :]
    return M, order


def lu_solve(factors: tuple[Numbers, np.ndarray], right: Numbers) -> Numbers:
    """The x with Mx = right (n,)."""
    M, order = factors
    x = right[order]
    for j in range(len(x)):
        x[j + 1 :] -= M[j + 1 :, j] * x[j]
    return _solved_triangular(M, x[:, None], upper=True)[:, 0]


def cholesky_(matrix: Numbers) -> bool:
    """Replace the lower triangle of a symmetric `matrix` (n, n) by its Cholesky factor; False if it breaks down."""
    for j in range(len(matrix)):
        if not matrix[j, j] > 0:
            return False
        matrix[j, j] = matrix[j, j] ** 0.5
        column = matrix[j + 1 :, j]
        column /= matrix[j, j]
        matrix[j + 1 :, j + 1 :] -= column[:, None] * column
    return True


def cholesky_solve(L: Numbers, right: Numbers) -> Numbers:
    """(LLᵀ)⁻¹ right for right (n, r); only the lower triangle of L is read."""
    return _solved_triangular(L.T, _solved_triangular(L, right, upper=False), upper=True)


def _solved_triangular(M: Numbers, right: Numbers, upper: bool) -> Numbers:
    """The x (n, r) with Mx = right, of which only one triangle of M (n, n) is read."""
    x = right.copy()
    for j in range(len(x) - 1, -1, -1) if upper else range(len(x)):
        x[j] = x[j] / M[j, j]
        rest = slice(0, j) if upper else slice(j + 1, None)
        x[rest] -= M[rest, j][:, None] * x[j]
    return x
