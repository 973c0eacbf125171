"""Smallest eigenvalues of Gram matrices, with bounds of their errors, and of equally spaced points of the circle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from implicit_bias._utils.checks import Array, InputError, as_count, as_floats, check_range
from implicit_bias._utils.scaling import TINY
from implicit_bias.extensions.infinite.activations import Activation
from implicit_bias.extensions.infinite.activations import activation as activation_of
from implicit_bias.extensions.infinite.angles import unit_pairs
from implicit_bias.extensions.infinite.gram import Gram, as_digits, pair_mean
from implicit_bias.extensions.infinite.special import Number, Numbers, context_of, multiprecision, short, sqrt, unit_of

#: Rounds of inverse iteration in multiprecision.
ROUNDS = 12
#: Shifts of it; each has about three times the digits of the last.
SHIFTS = 12
#: Multiprecision takes n³ steps of a microsecond.
LARGEST_EXACT = 400
#: Working digits of the first attempt on a circle.
FIRST_DIGITS = 32
#: Digits beyond those asked for after which an eigenvalue counts as 0.
LAST_DIGITS = 512
#: The same for a Hermite series; more take hours.
LAST_OF_SERIES = 64
#: Points of a circle, of which more take hours.
MOST_POINTS = 2000


@dataclass(frozen=True)
class SmallestEigenvalue:
    """λ_min of a Gram matrix, and how exactly it is known.

    Attributes
    ----------
    value : float, or mpmath's number
    error : float, or mpmath's number
        A bound of |value − λ_min|: rounding, and the error of the matrix.

    Examples
    --------
    >>> from implicit_bias.extensions.infinite.gram import gram_matrix
    >>> opposite = [[1.0, 0.0], [-1.0, 0.0]]
    >>> [smallest_eigenvalue(gram_matrix(opposite, name)).is_positive for name in ("relu", "erf")]
    [True, False]
    """

    value: Number
    error: Number

    @property
    def lower_bound(self) -> Number:
        """value − error, which λ_min is at least."""
        return self.value - self.error

    @property
    def is_positive(self) -> bool:
        """Whether λ_min > 0 is certain."""
        return bool(self.lower_bound > 0)

    def __str__(self) -> str:
        if abs(self.value) > self.error:
            return f"λ_min = {short(self.value, 6)} ± {short(self.error, 2)}"
        return f"λ_min is 0 up to ±{short(self.error, 2)}"


def smallest_eigenvalue(gram: Gram | ArrayLike, digits: int | None = None) -> SmallestEigenvalue:
    """The smallest eigenvalue of a symmetric matrix, with a bound of its error.

        λ_min ≤ vᵀGv/vᵀv
        λ_min ≥ μ − (n + 2) u trace(G − μI)    if the Cholesky factorisation of G − μI runs through

    and by Weyl's inequality the error of the matrix adds at most its spectral norm. Nothing is believed of whoever
    found v and μ. For Gaussian gates, λ(X) of Fiat, Malach & Shalev-Shwartz is that of `gram_matrix(X, "relu")` on unit
    samples: positive exactly if no sample repeats and those x_i whose opposite −x_i is a sample too are linearly
    independent (one x_i of each such pair).

    Raises InputError for what is not a symmetric matrix, for entries whose largest is neither 0 nor between 1e-280 and
    1e280, and for digits that the matrix does not hold.

    Parameters
    ----------
    gram : Gram, or array of shape (n, n)
        An array is taken as exact.
    digits : int, optional
        Refuse to answer with fewer correct digits.

    References
    ----------
    Rump (2006), "Verification of positive definiteness".

    Examples
    --------
    >>> from implicit_bias.extensions.infinite.gram import gram_matrix
    >>> X = np.random.default_rng(0).normal(size=(20, 3))
    >>> X /= np.linalg.norm(X, axis=1)[:, None]
    >>> round(smallest_eigenvalue(gram_matrix(X, "tanh"), digits=5).value, 9)
    8.2601e-05
    >>> print(smallest_eigenvalue(gram_matrix(X, "erf", digits=30), digits=20))
    λ_min = 7.19324e-6 ± 2.3e-42
    """
    if not isinstance(gram, Gram):
        gram = Gram(_as_symmetric(gram), 0.0)
    values = gram.values
    _check_square(values)
    context = context_of(values)
    if context is not None and len(values) > LARGEST_EXACT:
        raise InputError(f"{len(values)} points take hours in multiprecision; give at most {LARGEST_EXACT}")
    lower, value, upper = _bounds(values)
    found = SmallestEigenvalue(value, max(value - lower, upper - value) + gram.error)
    if digits is not None:
        _check_digits(found, as_digits(digits), gram)
    return found


def _as_symmetric(values: ArrayLike) -> Array:
    matrix = as_floats(values, "the matrix", 2)
    check_range(np.abs(matrix).max(keepdims=True).ravel(), "the entries of the matrix")
    _check_square(matrix)
    if not np.array_equal(matrix, matrix.T):
        raise InputError("the matrix must be symmetric; give a Gram matrix, or (A + A.T)/2")
    return matrix


def _check_square(matrix: Numbers) -> None:
    if matrix.shape[0] != matrix.shape[1]:
        raise InputError("the matrix must be symmetric; give the kernel of one set of points")


def _check_digits(found: SmallestEigenvalue, digits: int, gram: Gram) -> None:
    if found.error * 2 * 10**digits > abs(found.value):
        remedy = (
            "leave out digits, or give the points exactly: gram_matrix(X, …, digits=…)"
            if context_of(gram.values) is None
            else "compute the matrix with more digits"
        )
        raise InputError(
            f"the smallest eigenvalue is {short(found.value, 3)} ± {short(found.error, 2)}, which does not have "
            f"{digits} correct digits, and the matrix holds no more; {remedy}"
        )


def _bounds(values: Numbers) -> tuple[Number, Number, Number]:
    """The smallest eigenvalue of this matrix (n, n) between two bounds, as close as its arithmetic allows."""
    n, unit = len(values), unit_of(values)
    guess, vector = (_double_pair if context_of(values) is None else _many_pair)(values)
    # Rounding of the quotient: every product and sum of it is off by one unit at most.
    upper = _quotient(values, vector) + 2 * (n + 2) * unit * _quotient(abs(values), abs(vector))
    size = _size_of(values)
    margin = 2 * (n + 2) * unit * size
    while True:
        lower = guess - margin
        shifted = values - np.eye(n, dtype=np.int64) * lower
        loss = (n + 2) * unit * (abs(np.trace(shifted)) + size + n * abs(lower))
        if _factor(shifted) is not None:
            return lower - loss, min(guess, upper), upper
        margin = 16 * margin


def _size_of(values: Numbers) -> Number:
    # At least the spectral norm and Σ|g_ii|, and more than 0.
    return max(abs(values).sum(axis=1).max(), abs(np.diag(values)).sum()) + TINY


def _quotient(values: Numbers, vector: Numbers) -> Number:
    return vector @ (values @ vector) / (vector @ vector)


def _double_pair(values: Numbers) -> tuple[float, Array]:
    found, vectors = scipy.linalg.eigh(values, subset_by_index=[0, 0], check_finite=False)
    return float(found[0]), vectors[:, 0]


def _many_pair(values: Numbers) -> tuple[Number, Numbers]:
    """The smallest eigenvalue and its vector: by inverse iteration, then with shifts just below it."""
    n, context, one = len(values), context_of(values), np.eye(len(values), dtype=np.int64)
    # As small a shift as lets a singular matrix be factored.
    shift = least = n * context.eps * _size_of(values)
    while (root := _factor(values + one * shift)) is None:
        shift = shift * 16
    vector = np.frompyfunc(context.mpf, 1, 1)(np.random.default_rng(0).standard_normal(n))
    vector = _iterated(root, vector, ROUNDS)
    value = _quotient(values, vector)
    for _ in range(SHIFTS):
        residual = values @ vector - vector * value
        off = 2 * sqrt(np.asarray(residual @ residual))
        if off <= least:
            break
        # An eigenvalue lies within off/2; below the least of all the matrix can be factored.
        while (root := _factor(values - one * (value - off))) is None:
            off = off * 16
        vector = _iterated(root, vector, 2)
        value = _quotient(values, vector)
    return value, vector


def _iterated(root: Numbers, vector: Numbers, times: int) -> Numbers:
    for _ in range(times):
        vector = _substitute(root.T, _substitute(root, vector), last_first=True)
        vector = vector / sqrt(np.asarray(vector @ vector))
    return vector


def _factor(values: Numbers) -> Numbers | None:
    """The lower triangular Cholesky factor, None if a pivot is not positive."""
    if values.dtype != object:
        try:
            return np.linalg.cholesky(values)
        except np.linalg.LinAlgError:
            return None
    rest, n = values.copy(), len(values)
    for j in range(n):
        if not rest[j, j] > 0:
            return None
        rest[j:, j] = rest[j:, j] / sqrt(np.asarray(rest[j, j]))
        for i in range(j + 1, n):
            # The array first: a number of mpmath's would print it before it gives up on it.
            rest[i, j + 1 : i + 1] -= rest[j + 1 : i + 1, j] * rest[i, j]
    return np.where(np.tri(n, dtype=bool), rest, 0 * rest)


def _substitute(root: Numbers, right: Numbers, last_first: bool = False) -> Numbers:
    """The solution of a triangular system: a lower one, or an upper one from the last row on."""
    solution = right.copy()
    order = range(len(right))
    for i in reversed(order) if last_first else order:
        known = slice(i + 1, None) if last_first else slice(0, i)
        # An empty product of objects would be None.
        total = root[i, known] @ solution[known] if len(solution[known]) else 0
        solution[i] = (right[i] - total) / root[i, i]
    return solution


def circle_eigenvalue(n: int, activation: str | Activation = "relu", digits: int = 10) -> SmallestEigenvalue:
    """λ_min of the Gram matrix of n equally spaced points of the unit circle, with so many correct digits.

        λ_k = Σ_j E(2πj/n) cos(2πj/n) cos(2πjk/n),    k = 0 … n/2,    E(θ) = E[σ'(z)σ'(z')] at the angle θ

    in multiprecision, with twice the digits until they are enough. The points are exact, which no doubles are. Of an
    even n, all come with their opposites, and λ_min is 0 where σ' is even or odd, and from n = 6 on where
    σ'(z) + σ'(−z) is constant: known without a sum.

    Parameters
    ----------
    n : int
        From 1 to 2000.
    activation, and errors : as for `gram_matrix`
        One of your own is refused, for it is known in doubles only.
    digits : int
        Correct digits. An eigenvalue that is 0 up to about 1e-500 (1e-60 of a Hermite series) is returned as such.

    References
    ----------
    Ours, for what Panigrahi, Shetty & Goyal (2020), abstract, say of data that span few dimensions.

    Examples
    --------
    >>> print(circle_eigenvalue(41, "erf"))
    λ_min = 2.49204e-23 ± 1.2e-39
    """
    chosen, digits = activation_of(activation), as_digits(digits)
    count = as_count(n, "n", most=MOST_POINTS)
    if _is_singular(count, chosen):
        none = multiprecision(digits).mpf(0)
        return SmallestEigenvalue(none, none)
    working, last = max(FIRST_DIGITS, digits + 10), digits + (LAST_DIGITS if chosen.is_exact else LAST_OF_SERIES)
    while True:
        found = _smallest_of_circle(count, chosen, working)
        if found.error * 2 * 10**digits <= abs(found.value):
            return found
        if working >= last:
            return SmallestEigenvalue(0 * found.value, abs(found.value) + found.error)
        working = min(2 * working, last)


def _is_singular(n: int, activation: Activation) -> bool:
    """Whether pairs of opposite points leave λ_k = 0 for all even k, for all odd k, or for all odd k but 1.

    E(θ) cos θ changes its sign with θ → θ + π if σ' is even and keeps it if σ' is odd, where only λ_k of odd and of
    even k are left; if σ'(z) + σ'(−z) is constant, it keeps its sign but for a multiple of cos θ.
    """
    return n % 2 == 0 and (activation.parity in ("even", "odd") or (activation.parity == "half" and n >= 6))


def _smallest_of_circle(n: int, activation: Activation, digits: int) -> SmallestEigenvalue:
    context = multiprecision(digits + 10)
    half = n // 2
    angles = np.array([2 * context.pi * j / n for j in range(half + 1)], dtype=object)
    pairs = unit_pairs(angles)
    steep = abs(pairs.cosine[1:]).max() if half else context.mpf(0)
    mean, error, _ = pair_mean(activation, np.array([context.mpf(1)]), steep, context.mpf(10) ** -digits, 2)
    entries = mean(pairs) * pairs.cosine
    # The points j and n − j are the same but for 0 and, of an even n, n/2.
    shares: Any = np.array([1 if 2 * j in (0, n) else 2 for j in range(half + 1)], dtype=object) * entries
    turns = np.array([context.cos(2 * context.pi * j / n) for j in range(n)], dtype=object)
    index = np.arange(half + 1)
    value = min(shares @ turns[index * k % n] for k in range(half + 1))
    return SmallestEigenvalue(value, n * entries[0] * (error + 8 * (n + 10) * context.eps))
