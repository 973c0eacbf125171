"""Floating point: lengths and powers without overflow, and sums and products with bounds of their errors.

References for the bounds: Dekker (1971); Ogita, Rump & Oishi (2005); for matrix products Ozaki, Ogita, Oishi & Rump
(2012).
"""

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


def nearest_power_of_two(size: Any) -> Any:
    """Return the power of two nearest to a size ≥ 0, or to each of an array, 1 for 0; dividing by it is exact."""
    powers = np.where(size > 0, np.exp2(np.round(np.log2(np.where(size > 0, size, 1.0)))), 1.0)
    return powers if powers.ndim else float(powers)


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


#: Unit roundoff u, the relative error of one operation.
UNIT = float(np.finfo(float).eps) / 2
#: Largest number of slices of a matrix; 8 slices of about 20 bits are far more precise than two doubles.
MAX_SLICES = 8
#: Exponent whose negative is below those of all products of floats.
BELOW_ALL = 5000


def share(terms: float) -> float:
    """Return γ_m = mu/(1 − mu) for u = 2⁻⁵³, m = `terms`: the error of m additions is at most γ_m times Σ |terms|."""
    return terms * UNIT / (1 - terms * UNIT)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the rounded sum s and its error e, with s + e = a + b exactly.

    >>> two_sum(np.array(1.0), np.array(1e-20))
    (np.float64(1.0), np.float64(1e-20))
    """
    s = a + b
    part = s - a
    return s, (a - (s - part)) + (b - part)


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the rounded product p and its error e, with p + e = ab exactly, for sizes up to 2^990.

    >>> p, e = two_product(np.array(1.0 + 2.0**-30), np.array(1.0 + 2.0**-30))
    >>> float(p), float(e) == 2.0**-60
    (1.0000000018626451, True)
    """
    (a1, a2), (b1, b2) = _halves(a), _halves(b)
    p = a * b
    return p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2


def _halves(a: Array) -> tuple[Array, Array]:
    """Split a into two numbers of 26 bits, with sum a exactly: the upper half and the remainder."""
    large = a * 134217729.0
    upper = large - (large - a)
    return upper, a - upper


def pair_sum(upper: Array, lower: Array) -> tuple[Array, Array, Array]:
    """Return s, t and e with |Σ_j (upper_ij + lower_ij) − (s_i + t_i)| ≤ e_i; the sums are over the last axis.

    The arrays have the same shape (…, n) with n ≥ 1 and any number of axes i; s, t and e have shape (…).

    >>> upper, lower, error = pair_sum(np.array([1e20, 1.0, -1e20]), np.zeros(3))
    >>> float(upper + lower), float(error) < 1e-12
    (1.0, True)
    """
    count = upper.shape[-1]
    small, sizes = lower.sum(axis=-1), np.abs(lower).sum(axis=-1)
    while upper.shape[-1] > 1:
        half = upper.shape[-1] // 2
        total, lost = two_sum(upper[..., :half], upper[..., half : 2 * half])
        small, sizes = small + lost.sum(axis=-1), sizes + np.abs(lost).sum(axis=-1)
        upper = np.concatenate([total, upper[..., 2 * half :]], axis=-1)
    return upper[..., 0], small, 2 * share(2 * count + 64) * sizes + count * TINY


def precise_product(A: Array, B: Array) -> tuple[Array, Array, Array]:
    """Return S, T and E, each (m, p), with |AB − (S + T)| ≤ E for A (m, n) and B (n, p).

    Each matrix is split into slices of so few bits that the products of slices are exact in doubles. The bound E_ik is
    at most about n 2⁻⁹⁴ max_j |a_ij|/s_j · max_j s_j |b_jk| with s_j = max_i |a_ij|.

    >>> upper, lower, error = precise_product(np.array([[1e20, 1.0, -1e20]]), np.ones((3, 1)))
    >>> float(upper[0, 0] + lower[0, 0]), bool(error[0, 0] < 1e-5)
    (1.0, True)
    """
    # Powers of two scale the columns of A to about 1, then its rows and the columns of B to at most 1.
    middle = _exponents(A, 0)
    A, B = np.ldexp(A, -middle), np.ldexp(B * np.any(A, axis=0, keepdims=True).T, middle.T)
    rows, columns = _exponents(A, 1), _exponents(B, 0)
    A, B = np.ldexp(A, -rows), np.ldexp(B, -columns)
    n = A.shape[1]
    bits = (52 - int(n).bit_length()) // 2
    left, right = _slices(A, bits), _slices(B, bits)
    upper, lower, sizes = np.zeros((3, A.shape[0], B.shape[1]))
    for order in range(len(left) + len(right) - 1):
        for i in range(max(0, order - len(right) + 1), min(order + 1, len(left))):
            upper, lost = two_sum(upper, left[i] @ right[order - i])
            # An addition has an error of at most UNIT times its result.
            lower += lost
            sizes += np.abs(lower)
    by = rows + columns
    with np.errstate(over="ignore", under="ignore"):
        # The second term is more than what the slices omit. The third one bounds the underflow of entries of A that are
        # tiny compared with their column.
        error = np.ldexp(2 * UNIT * sizes + n * 2.0 ** (2 - bits * MAX_SLICES), by)
        error += np.ldexp(n * TINY, columns) + n * TINY
        return np.ldexp(upper, by), np.ldexp(lower, by), error


def _exponents(A: Array, axis: int) -> np.ndarray:
    """Return e with 2^(e−1) ≤ max |a| < 2^e along an axis, which is kept with length 1; −BELOW_ALL for zeros."""
    largest, e = np.frexp(np.abs(A).max(axis=axis, keepdims=True))
    return np.where(largest == 0, -BELOW_ALL, e)


def _slices(A: Array, bits: int) -> list[Array]:
    """Split A, |a| ≤ 1, into as many slices s = 1 … MAX_SLICES as it needs: multiples of 2^(−bits·s) with sum A."""
    slices: list[Array] = []
    while len(slices) < MAX_SLICES and (A.any() or not slices):
        anchor = 1.5 * 2.0 ** (52 - bits * (len(slices) + 1))
        top = (A + anchor) - anchor
        slices.append(top)
        A = A - top
    return slices
