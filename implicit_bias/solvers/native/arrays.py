"""One spelling for the arrays of the interior-point method: NumPy's, of doubles or any numbers, or torch's tensors.

NumPy computes on the CPU. torch is loaded only where a device of its own is asked for, and spells most functions alike;
what the two do not is done here.
"""

import sys
import warnings
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from scipy.linalg import lapack

from implicit_bias._utils.blocks import ROWS, symmetric_blocks
from implicit_bias.solvers.native import digits

#: NumPy's, or an array of torch's.
Tensor: TypeAlias = Any
#: The device that is NumPy.
CPU = "cpu"


def library(values: Tensor) -> Any:
    """torch for its tensors, NumPy for the rest; both spell most functions alike.

    >>> library(np.ones(2)).__name__
    'numpy'
    """
    torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(values, torch.Tensor) else np


def on_device(values: np.ndarray, device: str) -> Tensor:
    """The values themselves, or a tensor of torch's without a copy on the CPU: they are read only."""
    if device == CPU:
        return values
    import torch

    # The processes of `n_jobs` get arrays that cannot be written to.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.as_tensor(values).to(device)


def sparse_on_device(matrix: sp.coo_array, device: str) -> Tensor:
    """A sparse matrix that dense ones can be multiplied with."""
    if device == CPU:
        return matrix.tocsr()
    import torch

    places, values = torch.as_tensor(np.array(matrix.coords)), torch.as_tensor(matrix.data)
    return torch.sparse_coo_tensor(places, values, matrix.shape, check_invariants=True).to(device)


def device_of(values: Tensor) -> str:
    """Where they are."""
    return CPU if library(values) is np else str(values.device)


def free_on_device(device: str) -> float | None:
    """Bytes of a GPU that are free; None for the machine's own memory."""
    if not str(device).startswith("cuda"):
        return None
    import torch

    return float(torch.cuda.mem_get_info(device)[0])


def as_numpy(values: Tensor) -> Any:
    """A NumPy array, on the CPU."""
    return values if library(values) is np else values.cpu().numpy()


def filled(like: Tensor, shape: int | tuple[int, ...], value: float) -> Tensor:
    """A new array of the kind and on the device of `like`."""
    if library(like) is np:
        return np.full(shape, value, like.dtype if like.dtype.kind == "f" else None)
    return like.new_full((shape,) if isinstance(shape, int) else shape, value)


def in_precision(name: str, values: Tensor) -> Tensor:
    """Floats of 'float32' or 'float64'; what is too large for single precision becomes inf."""
    if library(values) is not np:
        return values.to(getattr(library(values), name))
    with np.errstate(over="ignore"):
        return values.astype(name)


def all_finite(values: Tensor) -> bool:
    """Whether no number is lost."""
    if library(values) is np:
        return bool(np.isfinite(np.asarray(values, dtype=np.float64)).all())
    return bool(values.isfinite().all())


def add_to_diagonal_(matrix: Tensor, values: Tensor) -> None:
    """Add values (n,), or a number, to the diagonal of a matrix (n, n), in place."""
    if isinstance(matrix, np.ndarray):
        matrix[np.diag_indices_from(matrix)] += values
    else:
        matrix.diagonal().add_(values)


def gram(A: Tensor) -> Tensor:
    """AAᵀ for A (n, r)."""
    if library(A) is np and len(A) > ROWS:
        return symmetric_blocks(len(A), lambda rows, columns: A[rows] @ A[columns].T, A.dtype)
    return A @ A.T


def lu_factor(matrix: Tensor) -> Any:
    """What `lu_solve` needs of a matrix (n, n); None if it is singular."""
    if library(matrix) is not np:
        *factors, singular = library(matrix).linalg.lu_factor_ex(matrix)
    elif matrix.dtype == object:
        return digits.lu_factor(matrix)
    else:
        *factors, singular = lapack.dgetrf(matrix)
    return None if singular else factors


def lu_solve(factors: Any, right: Tensor) -> Tensor:
    """The x with Mx = right (n,)."""
    if library(right) is not np:
        return library(right).linalg.lu_solve(*factors, right[:, None])[:, 0]
    return digits.lu_solve(factors, right) if right.dtype == object else lapack.dgetrs(*factors, right)[0]
