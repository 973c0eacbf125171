"""Lengths, powers and quotients of numbers whose squares may overflow or underflow."""

import math
from typing import Any

import numpy as np

from implicit_bias._utils.checks import Array, InputError, as_floats

#: Smallest normal float; it replaces zeros where these are not allowed.
TINY = np.finfo(float).tiny
#: Largest deviation from 1 of the length of a unit sample.
UNIT_TOLERANCE = 1e-8
#: Least ratio of the sizes of two inputs at which they count as out of scale.
APART = 100


def largest_entries(values: Array) -> Array:
    """Return max_j |a_ij| of each row of an array (n, …), shape (n,), without a copy of the array."""
    axes = tuple(range(1, values.ndim))
    return np.asarray(np.maximum(values.max(axis=axes), -values.min(axis=axes)))


def nearest_powers_of_two(sizes: Array) -> Array:
    """Return the power of two nearest to each size ≥ 0, and 1 for zeros; dividing by it has no rounding error."""
    return np.where(sizes > 0, np.exp2(np.round(np.log2(np.where(sizes > 0, sizes, 1.0)))), 1.0)


def nearest_power_of_two(size: float) -> float:
    return float(nearest_powers_of_two(np.asarray(size)))


def length(values: Array, axis: int | None = None) -> Any:
    """Return the Euclidean length of all values, or along an axis, without overflow or underflow."""
    largest = np.max(np.abs(values), axis=axis, keepdims=True, initial=0.0)
    safe = np.where(largest > 0, largest, 1.0)
    return np.squeeze(safe * np.sqrt(np.sum((values / safe) ** 2, axis=axis, keepdims=True)), axis=axis)


def without_exponent(values: Array) -> tuple[Array, int]:
    """Return A and e with values = A · 2^e and max |a| in [½, 1), so that squares of A cannot overflow; 0 has e = 0."""
    exponent = int(np.frexp(np.abs(values).max())[1])
    return np.ldexp(values, -exponent), exponent


def over_power(value: float, norm: float, degree: int) -> float:
    """Return value/norm^degree even if the power overflows or underflows; NaN for norm 0.

    >>> over_power(1e-300, 1e-200, 2)
    1e+100
    """
    for _ in range(degree):
        value = value / norm if norm > 0 else math.nan
    return value


def unit_samples(X: Any, normalise: bool = False, name: str = "X") -> Array:
    """Return samples (m, d) of length 1: X divided by its lengths if `normalise`, otherwise X unchanged.

    InputError is raised if a length differs from 1 by more than 1e-8 or, with `normalise`, if a row is zero. Its
    text calls the samples `name`.

    >>> unit_samples([[3.0, 4.0]], normalise=True).round(3).tolist()
    [[0.6, 0.8]]
    """
    rows = as_floats(X, name, 2)
    if normalise:
        largest = np.abs(rows).max(axis=1, keepdims=True)
        if not largest.all():
            raise InputError(f"row {int(np.argmin(largest))} of {name} is zero and has no direction; drop such rows")
        # Each row is divided twice, because squares and quotients of extreme rows could overflow.
        rows = rows / largest
        return rows / length(rows, axis=1)[:, None]
    lengths = length(rows, axis=1)
    wrong = np.abs(lengths - 1) > UNIT_TOLERANCE
    if wrong.any():
        first = int(np.argmax(wrong))
        text = f"row {first} of {name} has length {lengths[first]:.6g}, and the theorem is about samples of length 1"
        raise InputError(f"{text}; pass normalise=True, or divide each row by its length")
    return rows


def out_of_scale(X: Array) -> tuple[int, int] | None:
    """Return the columns of X (n, p) with the largest and smallest entries if these differ in size by APART, else None.

    Columns of zeros are ignored.

    >>> out_of_scale(np.array([[1.0, 0.0, -500.0], [-2.0, 0.0, 300.0]])), out_of_scale(np.eye(2))
    ((2, 0), None)
    """
    sizes = largest_entries(X.T)
    used = np.flatnonzero(sizes)
    if not len(used) or sizes[used].max() / APART < sizes[used].min():
        return None
    return int(used[sizes[used].argmax()]), int(used[sizes[used].argmin()])
