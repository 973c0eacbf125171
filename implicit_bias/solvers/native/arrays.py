"""One interface to the arrays of the native solver: NumPy arrays, of doubles or other numbers, and torch tensors.

NumPy computes on the CPU. torch is loaded only for an explicit device. Most functions have the same name in both; the
others are here, with LU factors.
"""

import sys
import warnings
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from scipy.linalg import lapack

#: A NumPy array or a torch tensor.
Tensor: TypeAlias = Any
#: The device that stands for NumPy.
CPU = "cpu"


def library(values: Tensor) -> Any:
    """Return torch for torch tensors, else NumPy.

    >>> library(np.ones(2)).__name__
    'numpy'
    """
    torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(values, torch.Tensor) else np


def on_device(values: np.ndarray | sp.csr_array, device: str) -> Tensor:
    """Return the values as a tensor on a device, or unchanged for 'cpu'; do not write to them: they may be shared.

    A sparse matrix is for products with dense ones.
    """
    if device == CPU:
        return values
    import torch

    if sp.issparse(values):
        matrix = sp.coo_array(values)
        places, entries = torch.as_tensor(np.array(matrix.coords)), torch.as_tensor(matrix.data)
        return torch.sparse_coo_tensor(places, entries, matrix.shape, check_invariants=True).to(device)
    # The processes of `n_jobs` get arrays that are not writable.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.as_tensor(values).to(device)


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
