"""Symmetric matrices in blocks, because AAᵀ of 20 000 rows with hundreds of columns crashes in OpenBLAS."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

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
    if isinstance(A, np.ndarray):
        return symmetric_blocks(len(A), lambda rows, columns: A[rows] @ A[columns].T, A.dtype)
    return (A @ A.T).toarray() if sp.issparse(A) else A @ A.T
