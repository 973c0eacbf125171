"""Products and Cholesky factors of symmetric matrices in blocks of rows.

OpenBLAS crashes on AAᵀ of 20 000 rows with hundreds of columns, and on factors of more than 12 000 rows. Factors are
computed without the GIL, so that several threads compute them at the same time.
"""

import ctypes
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy import LowLevelCallable
from scipy.linalg import cython_blas, cython_lapack

from implicit_bias._utils.checks import Array

#: Number of rows of a block.
ROWS = 4096
#: Entries from which, and their share that is not zero up to which, products of sparse arrays are faster.
SPARSE = (10**6, 0.02)


def row_blocks(n: int, size: int = ROWS) -> list[slice]:
    """Return slices of at most `size` rows that cover rows 0 … n − 1.

    >>> row_blocks(5000)
    [slice(0, 4096, None), slice(4096, 5000, None)]
    """
    return [slice(first, min(first + size, n)) for first in range(0, n, size)]


def symmetric_blocks(
    n: int, entries: Callable[[slice, slice], Array], dtype: np.dtype | None = None, size: int = ROWS
) -> Array:
    """Return a symmetric matrix (n, n), in float64 by default, from its blocks on and below the diagonal.

    `entries(rows, columns)` returns a block: `rows` is a slice of at most `size` rows, and `columns` is the same slice
    or slice(0, rows.start). If n ≤ `size`, the only block is returned as it is.
    """
    if n <= size:
        return entries(slice(0, n), slice(0, n))
    values = np.empty((n, n), dtype)
    for rows in row_blocks(n, size):
        values[rows, rows] = entries(rows, rows)
        if rows.start:
            before = slice(0, rows.start)
            values[rows, before] = entries(rows, before)
            values[before, rows] = values[rows, before].T
    return values


def sparse_if_faster(A: Any) -> Any:
    """Return A, as a sparse array if it is a large array of few entries that are not zero."""
    few = isinstance(A, np.ndarray) and A.size >= SPARSE[0] and np.count_nonzero(A) <= SPARSE[1] * A.size
    return sp.csr_array(A) if few else A


def gram(A: Any) -> Any:
    """Return AAᵀ for A (n, r), an array, a sparse array or a torch tensor.

    >>> gram(np.array([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[5.0, 11.0], [11.0, 25.0]]
    """
    A = sparse_if_faster(A)
    if isinstance(A, np.ndarray) and len(A) > ROWS:
        return symmetric_blocks(len(A), lambda rows, columns: A[rows] @ A[columns].T, A.dtype)
    return (A @ A.T).toarray() if sp.issparse(A) else A @ A.T


class Cholesky:
    """Factor of a symmetric positive definite matrix (n, n), a NumPy array or a torch tensor of floats or doubles.

    Only the lower triangle is read. A contiguous matrix is overwritten: the lower triangle of `factor` is L with
    LLᵀ = A, and the rest is undefined. LinAlgError is raised if the matrix is not positive definite.
    """

    def __init__(self, matrix: Any) -> None:
        if isinstance(matrix, np.ndarray):
            matrix = np.ascontiguousarray(matrix, np.result_type(matrix, np.float32))
        self.factor = L = matrix
        # Most of the work is matrix products.
        for tile in row_blocks(len(L)):
            corner, left, below = L[tile, tile], L[tile, : tile.start], slice(tile.stop, len(L))
            if tile.start:
                _subtract(corner, left, left)
            if info := _factorise(corner):
                raise np.linalg.LinAlgError(f"leading minor {tile.start + info} is not positive")
            if tile.start and tile.stop < len(L):
                _subtract(L[below, tile], L[below, : tile.start], left)
            if tile.stop < len(L):
                _divide(L[below, tile], corner)

    def solve(self, right: Any) -> Any:
        """Return A⁻¹b for `right` b (n,) or (n, c), in the precision of the factor."""
        rows = self.divided(right.T if right.ndim > 1 else right[None])
        _divide(rows, self.factor, transposed=False)
        return rows.T if right.ndim > 1 else rows[0]

    def divided(self, rows: Any, transposed: bool = True) -> Any:
        """Return r L⁻ᵀ if `transposed`, else r L⁻¹, for `rows` r (c, n), in the precision of the factor."""
        columns = np.array(rows, self.factor.dtype, order="C") if isinstance(rows, np.ndarray) else rows.clone()
        _divide(columns, self.factor, transposed)
        return columns


# Row by row, the lower triangle of a matrix is what BLAS, column by column, knows as the upper one of its transpose.


def _factorise(matrix: Any) -> int:
    """Replace the lower triangle A by L with LLᵀ = A; return the number of the first minor that is not positive, or 0.

    All functions here change their first argument in place.
    """
    if isinstance(matrix, np.ndarray):
        info = ctypes.c_int()
        _call("potrf", b"U", len(matrix), matrix, info)
        return info.value
    L, failed = sys.modules["torch"].linalg.cholesky_ex(matrix)
    matrix.copy_(L)
    return int(failed)


def _subtract(target: Any, left: Any, right: Any) -> None:
    """Subtract `left` `right`ᵀ, or its lower triangle if both are the same, from the target."""
    if not isinstance(target, np.ndarray):
        target.sub_(left @ right.T)
    elif left is right:
        _call("syrk", b"U", b"T", *left.shape, -1.0, left, 1.0, target)
    else:
        _call("gemm", b"T", b"N", len(right), *left.shape, -1.0, right, left, 1.0, target)


def _divide(rows: Any, L: Any, transposed: bool = True) -> None:
    """Replace `rows` r (c, n) by r L⁻ᵀ if `transposed`, else by r L⁻¹, for the lower triangle L (n, n)."""
    side = b"T" if transposed else b"N"
    if not isinstance(rows, np.ndarray):
        matrix = L.T if transposed else L
        rows.copy_(sys.modules["torch"].linalg.solve_triangular(matrix, rows, upper=transposed, left=False))
    elif len(rows) == 1:
        # Twice as fast as trsm.
        _call("trsv", b"U", side, b"N", len(L), L, rows[0])
    else:
        _call("trsm", b"L", b"U", side, b"N", len(L), len(rows), 1.0, L, rows)


def _call(name: str, *arguments: Any) -> None:
    """Call a function of BLAS or LAPACK without the GIL, for flags, integers, numbers, and arrays with their strides.

    SciPy's own functions keep the GIL, and copy parts of matrices.
    """
    single = any(isinstance(one, np.ndarray) and one.dtype == np.float32 for one in arguments)
    kinds = {bytes: ctypes.c_char, int: ctypes.c_int, float: ctypes.c_float if single else ctypes.c_double}
    objects = list[Any]()
    for one in arguments:
        if isinstance(one, np.ndarray):
            # BLAS refuses a stride below the number of columns, which that of a single row may be.
            stride = max(one.strides[0] // one.itemsize, one.shape[-1] if one.ndim > 1 else 1, 1)
            objects += [ctypes.c_void_p(one.ctypes.data), ctypes.byref(ctypes.c_int(stride))]
        else:
            objects.append(ctypes.byref(kinds[type(one)](one) if type(one) in kinds else one))
    _function(("s" if single else "d") + name)(*objects)


@cache
def _function(name: str) -> Any:
    routine = LowLevelCallable.from_cython(cython_lapack if "potrf" in name else cython_blas, name)
    prototype = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    pointer = prototype(("PyCapsule_GetPointer", ctypes.pythonapi))
    return ctypes.CFUNCTYPE(None)(pointer(routine.function, routine.signature.encode()))
