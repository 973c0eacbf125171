"""Sums and products with bounds of their rounding: as doubles at a share per term, as pairs of doubles at nearly none.

Error-free transformations (Dekker 1971; Ogita, Rump & Oishi 2005) and, for matrices, slices of so few bits that their
products have none to round (Ozaki, Ogita, Oishi & Rump 2012).
"""

import numpy as np

from implicit_bias._utils.checks import Array
from implicit_bias._utils.scaling import TINY

#: The relative rounding of one operation.
UNIT = float(np.finfo(float).eps) / 2
#: The most slices of a matrix: 8 of about 20 bits reach far beyond two doubles.
SLICES = 8
#: What the terms beyond the last slice, and the rounding of the second double, amount to at most in a sum of terms
#: of size 1, per term.
REST = 2.0**-90
#: A power of two below all products of floats.
NOWHERE = 5000


def share(terms: float) -> float:
    """γ_m = mu/(1 − mu): the rounding of m additions, in any order, as a share of the sum of the terms' sizes.

    >>> share(1) == UNIT / (1 - UNIT)
    True
    """
    return terms * UNIT / (1 - terms * UNIT)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """s + e = a + b exactly, s the rounded sum.

    >>> two_sum(np.array(1.0), np.array(1e-20))
    (np.float64(1.0), np.float64(1e-20))
    """
    s = a + b
    part = s - a
    return s, (a - (s - part)) + (b - part)


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """p + e = ab exactly, p the rounded product; no size may exceed 2^990.

    >>> p, e = two_product(np.array(1.0 + 2.0**-30), np.array(1.0 + 2.0**-30))
    >>> float(p), float(e) == 2.0**-60
    (1.0000000018626451, True)
    """
    (a1, a2), (b1, b2) = _halves(a), _halves(b)
    p = a * b
    return p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2


def _halves(a: Array) -> tuple[Array, Array]:
    """a as a sum of two numbers of 26 bits."""
    large = a * 134217729.0
    upper = large - (large - a)
    return upper, a - upper


def pair_sum(upper: Array, lower: Array) -> tuple[Array, Array, Array]:
    """Σ_j (upper_ij + lower_ij) over the last axis as the sum of two arrays, and a bound of their error.

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
    """AB (m, p) for A (m, n) and B (n, p) as the sum of two arrays, and a bound of its error, far below u².

    Each matrix is cut into slices of so few bits that the sums of their products are exact in doubles.

    >>> upper, lower, error = precise_product(np.array([[1e20, 1.0, -1e20]]), np.ones((3, 1)))
    >>> float(upper[0, 0] + lower[0, 0]), bool(error[0, 0] < 1e-5)
    (1.0, True)
    """
    # Powers of two that make the columns of A about 1, and then its rows and the columns of B at most 1.
    middle = _exponents(A, 0)
    A, B = np.ldexp(A, -middle), np.ldexp(B * np.any(A, axis=0, keepdims=True).T, middle.T)
    rows, columns = _exponents(A, 1), _exponents(B, 0)
    A, B = np.ldexp(A, -rows), np.ldexp(B, -columns)
    n = A.shape[1]
    bits = (52 - int(n).bit_length()) // 2
    left, right = _slices(A, bits), _slices(B, bits)
    upper = np.zeros((A.shape[0], B.shape[1]))
    lower = np.zeros_like(upper)
    for order in range(len(left) + len(right) - 1):
        for i in range(max(0, order - len(right) + 1), min(order + 1, len(left))):
            upper, lost = two_sum(upper, left[i] @ right[order - i])
            lower += lost
    by = rows + columns
    with np.errstate(over="ignore", under="ignore"):
        # What vanishes of A beside the largest of its column meets as much as the largest of B.
        error = np.ldexp(n * REST, by) + np.ldexp(n * TINY, columns) + n * TINY
        return np.ldexp(upper, by), np.ldexp(lower, by), error


def _exponents(A: Array, axis: int) -> np.ndarray:
    """The e with 2^(e−1) ≤ max |a| < 2^e along an axis, below all of them for zeros; kept as an axis of length 1."""
    largest, e = np.frexp(np.abs(A).max(axis=axis, keepdims=True))
    return np.where(largest == 0, -NOWHERE, e)


def _slices(A: Array, bits: int) -> list[Array]:
    """Arrays that add up to A, |a| ≤ 1, up to 2^(−bits·SLICES): the s-th of multiples of 2^(−bits·s), s = 1, 2, …"""
    found: list[Array] = []
    while len(found) < SLICES and (A.any() or not found):
        anchor = 1.5 * 2.0 ** (52 - bits * (len(found) + 1))
        top = (A + anchor) - anchor
        found.append(top)
        A = A - top
    return found
