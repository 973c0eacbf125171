"""Lengths, powers and quotients of numbers so large or small that their squares leave floating point."""

import math
from typing import Any

import numpy as np

from implicit_bias._utils.checks import Array, InputError, as_floats

#: In place of a zero that must not be one.
TINY = np.finfo(float).tiny


def largest_entries(values: Array) -> Array:
    """max_j |a_ij| of each row, without a copy of them all; (n, …) → (n,)."""
    axes = tuple(range(1, values.ndim))
    return np.asarray(np.maximum(values.max(axis=axes), -values.min(axis=axes)))


def nearest_powers_of_two(sizes: Array) -> Array:
    """The power of two next to each size ≥ 0, 1 for zero: dividing by it changes no digit."""
    return np.where(sizes > 0, np.exp2(np.round(np.log2(np.where(sizes > 0, sizes, 1.0)))), 1.0)


def nearest_power_of_two(size: float) -> float:
    """Power of two next to one size."""
    return float(nearest_powers_of_two(np.asarray(size)))


def length(values: Array, axis: int | None = None) -> Any:
    """Euclidean length without overflow or underflow, over all values or along an axis."""
    largest = np.max(np.abs(values), axis=axis, keepdims=True, initial=0.0)
    safe = np.where(largest > 0, largest, 1.0)
    return np.squeeze(safe * np.sqrt(np.sum((values / safe) ** 2, axis=axis, keepdims=True)), axis=axis)


def without_exponent(values: Array) -> tuple[Array, int]:
    """A and e with values = A · 2^e and the entries of A at most 1: A's squares neither overflow nor all vanish."""
    exponent = int(np.frexp(np.abs(values).max())[1])
    return np.ldexp(values, -exponent), exponent


def over_power(value: float, norm: float, degree: int) -> float:
    """value/norm^degree, though the power may overflow or vanish; NaN for norm 0.

    >>> over_power(1e-300, 1e-200, 2)
    1e+100
    """
    for _ in range(degree):
        value = value / norm if norm > 0 else math.nan
    return value


#: A sample counts as unit if its length differs from 1 by at most this much.
UNIT_TOLERANCE = 1e-8


def unit_samples(X: Any, normalise: bool = False, name: str = "X") -> Array:
    """Samples of length 1, shape (m, d): refused if they are not, or divided by their lengths if `normalise`.

    Raises InputError for a length that differs from 1 by more than 1e-8 and, with `normalise`, for a row of zeros.

    >>> unit_samples([[3.0, 4.0]], normalise=True).round(3).tolist()
    [[0.6, 0.8]]
    """
    rows = as_floats(X, name, 2)
    if normalise:
        largest = np.abs(rows).max(axis=1, keepdims=True)
        if not largest.all():
            raise InputError(
                f"row {int(np.argmin(largest))} of {name} is zero, which has no direction; leave such rows out"
            )
        # Twice, so that neither the squares nor the quotients of extreme rows leave floating point.
        rows = rows / largest
        return rows / length(rows, axis=1)[:, None]
    lengths = length(rows, axis=1)
    off = np.abs(lengths - 1) > UNIT_TOLERANCE
    if off.any():
        first = int(np.argmax(off))
        raise InputError(
            f"row {first} of {name} has length {lengths[first]:.6g}, and the theorem is about samples of length 1; "
            "pass normalise=True, or divide each row by its length"
        )
    return rows
