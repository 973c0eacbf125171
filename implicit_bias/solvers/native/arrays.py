"""One interface to the arrays of the native solver: NumPy arrays, of doubles or other numbers, and torch tensors.

NumPy computes on the CPU. torch is loaded only for an explicit device. Most functions have the same name in both; the
others are here, with Cholesky factors in double and single precision, and LU factors.
"""

import sys
import warnings
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from scipy.linalg import get_blas_funcs, get_lapack_funcs, lapack

from implicit_bias._utils.blocks import ROWS, symmetric_blocks

#: A NumPy array or a torch tensor.
Tensor: TypeAlias = Any
#: The device that stands for NumPy.
CPU = "cpu"
#: Columns that LAPACK factorises at a time: with OpenBLAS's threads it crashes on 20 000.
BLOCK = 8192


def library(values: Tensor) -> Any:
    """Return torch for torch tensors, else NumPy.

    >>> library(np.ones(2)).__name__
    'numpy'
    """
    torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(values, torch.Tensor) else np


def on_device(values: np.ndarray, device: str) -> Tensor:
    """Return the values as a tensor on a device, or unchanged for 'cpu'; do not write to them: they may be shared."""
    if device == CPU:
        return values
    import torch

    # The processes of `n_jobs` get arrays that are not writable.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.as_tensor(values).to(device)


def sparse_on_device(matrix: sp.csr_array, device: str) -> Tensor:
    """Return a sparse matrix for products with dense ones: a sparse tensor on a device, or unchanged for 'cpu'."""
    if device == CPU:
        return matrix
    import torch

    matrix = matrix.tocoo()
    places, values = torch.as_tensor(np.array(matrix.coords)), torch.as_tensor(matrix.data)
    return torch.sparse_coo_tensor(places, values, matrix.shape, check_invariants=True).to(device)


def free_on_device(values: Tensor | str) -> float | None:
    """Return the free bytes of a GPU, or of the one that holds `values`; None for the machine's own memory."""
    device = values if isinstance(values, str) else CPU if library(values) is np else str(values.device)
    if not device.startswith("cuda"):
        return None
    import torch

    return float(torch.cuda.mem_get_info(device)[0])


def as_numpy(values: Tensor) -> Any:
    """Return the values as a NumPy array on the CPU."""
    return values if library(values) is np else values.cpu().numpy()


def filled(like: Tensor, shape: int | tuple[int, ...], value: float) -> Tensor:
    """Return a new array of this shape, filled with `value`, of the library, precision and device of `like`."""
    if library(like) is np:
        return np.full(shape, value, like.dtype if like.dtype.kind == "f" else None)
    return like.new_full((shape,) if isinstance(shape, int) else shape, value)


def in_precision(name: str, values: Tensor) -> Tensor:
    """Convert to 'float32' or 'float64'; numbers too large for single precision become inf."""
    if library(values) is not np:
        return values.to(getattr(library(values), name))
    with np.errstate(over="ignore"):
        return values.astype(name)


def all_finite(values: Tensor) -> bool:
    """Return True if no number is NaN or infinite."""
    if library(values) is np:
        return bool(np.isfinite(np.asarray(values, dtype=np.float64)).all())
    return bool(values.isfinite().all())


def add_to_diagonal_(matrix: Tensor, values: Tensor) -> None:
    """Add values (n,), or a number, to the diagonal of a matrix (n, n), in place."""
    if isinstance(matrix, np.ndarray):
        np.einsum("ii->i", matrix)[...] += values
    else:
        matrix.diagonal().add_(values)


def gram(A: Tensor) -> Tensor:
    """Return AAᵀ for A (n, r)."""
    if library(A) is np and len(A) > ROWS:
        return symmetric_blocks(len(A), lambda rows, columns: A[rows] @ A[columns].T, A.dtype)
    return A @ A.T


def lu_factor(matrix: Tensor) -> Any:
    """Return the LU factors of a matrix (n, n), for `lu_solve`; None if it is singular."""
    if library(matrix) is not np:
        *factors, singular = library(matrix).linalg.lu_factor_ex(matrix)
    else:
        *factors, singular = lapack.dgetrf(matrix)
    return None if singular else factors


def lu_solve(factors: Any, right: Tensor) -> Tensor:
    """Return the x with Mx = right (n,)."""
    if library(right) is not np:
        return library(right).linalg.lu_solve(*factors, right[:, None])[:, 0]
    return lapack.dgetrs(*factors, right)[0]


def cholesky_(matrix: Tensor) -> bool:
    """Replace the lower triangle of a symmetric `matrix` (n, n) by L with LLᵀ = matrix.

    Return False if the matrix is not positive definite. The strict upper triangle is left undefined, and after a
    failure the whole matrix. Large matrices are in memory once, and most of the work is matrix products.
    """
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
    """Return (LLᵀ)⁻¹ right for right (n, r); only the lower triangle of L is read."""
    if library(L) is np:
        if not right.size:
            # LAPACK's wrapper refuses a matrix without entries.
            return right.copy()
        if right.shape[1] > 1:
            return _lapack("potrs", L)(L.T, right, lower=False)[0]
        (solve,) = get_blas_funcs(("trsv",), (L, right))
        return solve(L.T, solve(L.T, right[:, 0], lower=False, trans=True), lower=False)[:, None]
    linalg = library(L).linalg
    return linalg.solve_triangular(L.T, linalg.solve_triangular(L, right, upper=False), upper=True)


def divided(rows: Tensor, corner: Tensor) -> Tensor:
    """Return `rows` L⁻ᵀ for the lower triangle L of `corner`."""
    if library(rows) is np:
        return _lapack("trtrs", corner)(corner, rows.T, lower=True)[0].T
    return library(rows).linalg.solve_triangular(corner.T, rows, upper=True, left=False)


def _lapack(name: str, matrix: Tensor) -> Any:
    (function,) = get_lapack_funcs((name,), (matrix,))
    return function


def _corner_(matrix: Tensor) -> bool:
    """Factorise a block on the diagonal, as `cholesky_` does; return False if it is not positive definite."""
    if library(matrix) is not np:
        L, failed = library(matrix).linalg.cholesky_ex(matrix)
        matrix.copy_(L)
        return not failed
    # The transpose of a whole matrix is in LAPACK's order and is overwritten by the factor; a part is copied.
    factor, failed = _lapack("potrf", matrix)(matrix.T, lower=False, overwrite_a=True, clean=False)
    if not np.may_share_memory(factor, matrix):
        matrix[:] = factor.T
    return not failed
