"""Cholesky factors in tiles, and without the GIL, so that several threads compute them at the same time."""

import ctypes
import sys
from functools import cache
from typing import Any

import numpy as np
from scipy import LowLevelCallable
from scipy.linalg import cython_blas, cython_lapack

from implicit_bias._utils.blocks import row_blocks


class Cholesky:
    """Factor of a symmetric positive definite matrix (n, n), a NumPy array or a torch tensor of floats or doubles.

    Only the lower triangle is read. A contiguous matrix is overwritten: the lower triangle of `factor` is L with
    LLᵀ = A, and the rest is undefined. LinAlgError is raised if the matrix is not positive definite.
    """

    def __init__(self, matrix: Any) -> None:
        if isinstance(matrix, np.ndarray):
            matrix = np.ascontiguousarray(matrix, np.result_type(matrix, np.float32))
        self.factor = L = matrix
        # LAPACK crashes on more than 12 000 rows, as products do. Most of the work is matrix products.
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
