"""One spelling for the arrays of the interior-point method: torch's tensors, or NumPy's arrays of any numbers.

Numbers of many digits (mpmath's) are objects to NumPy; what its linear algebra does not do for objects is done here.
"""

from typing import Any, TypeAlias

import numpy as np

#: torch's, or an array of NumPy's.
Tensor: TypeAlias = Any


def library(values: Tensor) -> Any:
    """torch for its tensors, NumPy for the rest; both spell most functions alike.

    >>> library(np.ones(2)).__name__
    'numpy'
    """
    if isinstance(values, np.ndarray):
        return np
    import torch  # Loaded, since there is a tensor.

    return torch


def as_numpy(values: Tensor) -> Any:
    """A NumPy array, on the CPU."""
    return values if isinstance(values, np.ndarray) else values.cpu().numpy()


def all_finite(values: Tensor) -> bool:
    """Whether no number is lost."""
    if library(values) is np or not hasattr(values, "isfinite"):
        return bool(np.isfinite(np.asarray(values, dtype=np.float64)).all())
    return bool(values.isfinite().all())


def add_to_diagonal_(matrix: Tensor, values: Tensor) -> None:
    """Add values (n,) to the diagonal of a matrix (n, n), in place."""
    if isinstance(matrix, np.ndarray):
        matrix[np.diag_indices_from(matrix)] += values
    else:
        matrix.diagonal().add_(values)


def lu_factor(matrix: Tensor) -> Any:
    """What `lu_solve` needs of a matrix (n, n); None if it is singular."""
    if isinstance(matrix, np.ndarray):
        return _eliminated(matrix)
    *factors, singular = library(matrix).linalg.lu_factor_ex(matrix)
    return None if singular else factors


def lu_solve(factors: Any, right: Tensor) -> Tensor:
    """The x with Mx = right (n,)."""
    if not isinstance(right, np.ndarray):
        return library(right).linalg.lu_solve(*factors, right[:, None])[:, 0]
    M, order = factors
    x = right[order]
    for j in range(len(x)):
        x[j + 1 :] -= M[j + 1 :, j] * x[j]
    return solved_triangular(M, x[:, None], upper=True)[:, 0]


def _eliminated(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Gaussian elimination with the largest pivot of each column: L and U in one matrix, and the order of rows."""
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


def solved_triangular(M: np.ndarray, right: np.ndarray, upper: bool) -> np.ndarray:
    """The x (n, r) with Mx = right, of which only one triangle of M (n, n) is read."""
    x = right.copy()
    for j in range(len(x) - 1, -1, -1) if upper else range(len(x)):
        x[j] = x[j] / M[j, j]
        rest = slice(0, j) if upper else slice(j + 1, None)
        x[rest] -= M[rest, j][:, None] * x[j]
    return x
