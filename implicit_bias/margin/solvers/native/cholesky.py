"""A Cholesky factorisation in place, so that large matrices are held once and most work is matrix products."""

import torch
from torch import Tensor

#: Columns factorised at a time.
BLOCK = 256


def cholesky_(matrix: Tensor) -> bool:
    """Replace the lower triangle of a symmetric `matrix` (n, n) by L with LLᵀ = matrix; False if it breaks down.

    What ends up in the strict upper triangle has no meaning.
    """
    n = len(matrix)
    for j in range(0, n, BLOCK):
        end = min(j + BLOCK, n)
        if j:
            matrix[j:, j:end].addmm_(matrix[j:, :j], matrix[j:end, :j].T, alpha=-1)
        corner, failed = torch.linalg.cholesky_ex(matrix[j:end, j:end])
        if failed:
            return False
        matrix[j:end, j:end] = corner
        if end < n:
            matrix[end:, j:end] = torch.linalg.solve_triangular(corner.T, matrix[end:, j:end], upper=True, left=False)
    return True


def cholesky_solve(L: Tensor, right: Tensor) -> Tensor:
    """(LLᵀ)⁻¹ right for right (n, r); only the lower triangle of L is read."""
    return torch.linalg.solve_triangular(L.T, torch.linalg.solve_triangular(L, right, upper=False), upper=True)
