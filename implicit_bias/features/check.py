"""Trials of features that anybody may have written: what one method says must be what `dense` says."""

from typing import Any

import numpy as np

from implicit_bias._utils.checks import Array, InputError, shown
from implicit_bias._utils.rounding import share
from implicit_bias.features.base import Features

#: Samples that are looked at.
TRIED = 5


def check_features(features: Features) -> None:
    """Refuse features whose methods contradict each other on some samples, weights drawn from a normal distribution.

    Raises InputError where `shape`, `dense`, `select`, `apply`, `adjoint`, `magnitudes`, `row_norms` or `closed` are
    not what they are said to be.
    """
    sizes = features.shape
    whole = isinstance(sizes, tuple) and len(sizes) == 3 and all(isinstance(s, int | np.integer) for s in sizes)
    _claim(features, whole and min(sizes) > 0, f"shape must be three whole numbers (n, k, d), not {shown(sizes)}")
    n, k, d = sizes
    rows = np.unique(np.linspace(0, n - 1, TRIED).astype(int))
    # Features that can select need not be able to form Φ.
    few = features if type(features).select is Features.select else features.select(rows)
    A, size = few.dense(), (n if few is features else len(rows), k * d)
    fine = isinstance(A, np.ndarray) and A.dtype == np.float64 and A.shape == size and bool(np.isfinite(A).all())
    found = f"{A.dtype} {A.shape}" if isinstance(A, np.ndarray) else shown(A)
    _claim(features, fine, f"dense() must be a finite float64 array of shape (n, k·d), here {size}, not {found}")
    A = A[rows] if few is features else A
    rng = np.random.default_rng(0)
    W, a, room = rng.normal(size=(k, d)), np.zeros(n), 4 * share(2 * (k * d + n))
    a[rows] = rng.normal(size=len(rows))
    reach = np.abs(A) @ np.abs(W.ravel())
    _agree(features, "apply", features.apply(W)[rows], A @ W.ravel(), room * reach)
    _agree(features, "adjoint", features.adjoint(a).ravel(), a[rows] @ A, room * (np.abs(a[rows]) @ np.abs(A)))
    _agree(features, "magnitudes", features.magnitudes(W)[rows], reach, room * reach)
    lengths = np.sqrt((A**2).sum(axis=1))
    _agree(features, "row_norms", features.row_norms()[rows], lengths, 1e-9 * lengths)
    _agree(features, "closed", features.closed()[rows], np.asarray(~A.any(axis=1)), np.zeros(len(rows)))


def _agree(features: Features, name: str, found: Any, expected: np.ndarray, room: Array) -> None:
    found = np.asarray(found, dtype=np.float64)
    fine = found.shape == expected.shape and bool((np.abs(found - expected) <= room).all())
    _claim(features, fine, f"{name}() is not what dense() says: {shown(found)} where that gives {shown(expected)}")


def _claim(features: Features, holds: bool, text: str) -> None:
    if not holds:
        raise InputError(f"features {type(features).__name__}: {text}")
