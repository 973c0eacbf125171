"""Cholesky factors without the GIL, which SciPy holds, so that several threads compute them at the same time."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np

from implicit_bias._utils.checks import Array


class Cholesky:
    """Factor of a symmetric positive definite matrix (n, n), in single or double precision; it may be overwritten.

    Raises
    ------
    numpy.linalg.LinAlgError
        If the matrix is not positive definite.

    Examples
    --------
    >>> Cholesky(np.array([[4.0, 2.0], [2.0, 5.0]])).solve(np.array([8.0, 12.0])).tolist()
    [1.0, 2.0]
    """

    def __init__(self, matrix: Array) -> None:
        self.factor = np.ascontiguousarray(matrix)
        self.n, self.prefix = ctypes.c_int(len(matrix)), "s" if matrix.dtype == np.float32 else "d"
        if info := _call(f"{self.prefix}potrf", b"U", self.n, self.factor, self.n):
            raise np.linalg.LinAlgError(f"leading minor {info} is not positive")

    def solve(self, right: Array) -> Array:
        """Return A⁻¹b for `right` b (n,) or (n, c), in the precision of the factor."""
        # LAPACK stores columns one after the other.
        found = np.array(right.T, self.factor.dtype, order="C")
        columns = ctypes.c_int(len(found) if found.ndim > 1 else 1)
        _call(f"{self.prefix}potrs", b"U", self.n, columns, self.factor, self.n, found, self.n)
        return found.T


def _call(name: str, *arguments: Any) -> int:
    """Call a function of LAPACK for a flag, integers and arrays, without the GIL, and return its `info`."""
    info = ctypes.c_int()
    objects = [ctypes.c_char(one) if isinstance(one, bytes) else one for one in arguments]
    pointers = [one.ctypes.data if isinstance(one, np.ndarray) else ctypes.addressof(one) for one in objects]
    _function(name, len(pointers) + 1)(*pointers, ctypes.addressof(info))
    return info.value


@cache
def _function(name: str, count: int) -> Any:
    # Imported here because it takes .3 s.
    from numba.extending import get_cython_function_address

    address = get_cython_function_address("scipy.linalg.cython_lapack", name)
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * count)(address)
