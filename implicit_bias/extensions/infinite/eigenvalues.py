"""Smallest eigenvalues of Gram matrices with error bounds, also for equally spaced points of the circle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from implicit_bias._utils.blocks import Cholesky
from implicit_bias._utils.checks import Array, InputError, as_count, as_floats, check_range
from implicit_bias._utils.floats import TINY
from implicit_bias.extensions.infinite.activations import Activation
from implicit_bias.extensions.infinite.activations import activation as activation_of
from implicit_bias.extensions.infinite.angles import unit_pairs
from implicit_bias.extensions.infinite.gram import Gram, as_digits, pair_mean
from implicit_bias.extensions.infinite.special import Number, Numbers, context_of, multiprecision, short, sqrt, unit_of

#: Unshifted steps of inverse iteration in multiprecision.
INVERSE_STEPS = 12
#: Largest number of shifts; each triples the number of correct digits, roughly.
MAX_SHIFTS = 12
#: Largest n in multiprecision, which takes about n³ microseconds.
MAX_MULTIPRECISION = 400
#: Working digits of the first attempt on a circle.
FIRST_DIGITS = 32
#: Number of digits, beyond the requested ones, to which an eigenvalue must vanish to count as 0.
ZERO_DIGITS = 512
#: The same for a Hermite series, for which more digits would take hours.
ZERO_DIGITS_OF_SERIES = 64


@dataclass(frozen=True)
class SmallestEigenvalue:
    """Smallest eigenvalue λ_min of a Gram matrix, with a bound of its error.

    Attributes
    ----------
    value : float or mpmath number
        Approximation of λ_min.
    error : float or mpmath number
        Bound of ``|value − λ_min|``, including rounding and the error of the matrix.

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
        """Lower bound of λ_min, value − error."""
        return self.value - self.error

    @property
    def is_positive(self) -> bool:
        """True if λ_min > 0 is certain."""
        return bool(self.lower_bound > 0)

    def __str__(self) -> str:
        if abs(self.value) > self.error:
            return f"λ_min = {short(self.value, 6)} ± {short(self.error, 2)}"
        return f"λ_min is 0 up to ±{short(self.error, 2)}"


def smallest_eigenvalue(gram: Gram | ArrayLike, digits: int | None = None) -> SmallestEigenvalue:
    """Compute the smallest eigenvalue of a symmetric matrix with a bound of its error.

        λ_min ≤ vᵀGv/vᵀv
        λ_min ≥ μ − (n + 2) u trace(G − μI)

    The first bound holds for every v, the second if the Cholesky factorisation of G − μI succeeds, with the rounding
    unit u. By Weyl's inequality, the error of the matrix adds at most its spectral norm.

    For Gaussian gates, λ(X) of Fiat, Malach & Shalev-Shwartz is the smallest eigenvalue of `gram_matrix(X, "relu")` on
    unit samples. λ(X) is positive if and only if no sample repeats, and the x_i whose opposite −x_i is also a sample,
    one of each pair, are linearly independent.

    Parameters
    ----------
    gram : Gram, or array of shape (n, n)
        Matrix; an array is taken as exact.
    digits : int, optional
        Number of correct digits below which an error is raised.

    Raises
    ------
    InputError
        If the matrix is not symmetric, its largest entry is neither 0 nor between 1e-280 and 1e280, it is too large for
        multiprecision, or the eigenvalue has fewer correct digits than requested.

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
    if values.shape[0] != values.shape[1]:
        raise InputError("the matrix must be symmetric; use the kernel of one set of points")
    if context_of(values) is not None and len(values) > MAX_MULTIPRECISION:
        raise InputError(f"{len(values)} points would take hours in multiprecision; use at most {MAX_MULTIPRECISION}")
    lower, value, upper = _bounds(values)
    smallest = SmallestEigenvalue(value, max(value - lower, upper - value) + gram.error)
    if digits is not None:
        _check_digits(smallest, as_digits(digits), gram)
    return smallest


def _as_symmetric(values: ArrayLike) -> Array:
    matrix = as_floats(values, "the matrix", 2)
    check_range(np.abs(matrix).max(keepdims=True).ravel(), "the entries of the matrix")
    if not np.array_equal(matrix, matrix.T):
        raise InputError("the matrix must be symmetric; use a Gram matrix, or (A + A.T)/2")
    return matrix


def _check_digits(result: SmallestEigenvalue, digits: int, gram: Gram) -> None:
    """Raise InputError unless the error is at most ½ 10^{−digits} |value|; `gram` decides which remedy is named."""
    if result.error * 2 * 10**digits > abs(result.value):
        with_digits = "leave out digits, or compute the matrix with them: gram_matrix(X, …, digits=…)"
        remedy = with_digits if context_of(gram.values) is None else "compute the matrix with more digits"
        raise InputError(
            f"the smallest eigenvalue is {short(result.value, 3)} ± {short(result.error, 2)}, which does not have "
            f"{digits} correct digits, and the matrix allows no more; {remedy}"
        )


def _bounds(values: Numbers) -> tuple[Number, Number, Number]:
    """Return a lower bound, an approximation and an upper bound of λ_min of a matrix (n, n), taken as exact."""
    n, unit = len(values), unit_of(values)
    if context_of(values) is None:
        eigenvalues, vectors = scipy.linalg.eigh(values, subset_by_index=[0, 0], check_finite=False)
        guess, vector = float(eigenvalues[0]), vectors[:, 0]
    else:
        guess, vector = _multiprecision_eigenpair(values)
    # The second term bounds the rounding of the quotient, at most one unit for every product and sum.
    upper = _quotient(values, vector) + 2 * (n + 2) * unit * _quotient(abs(values), abs(vector))
    size = _norm_bound(values)
    margin = 2 * (n + 2) * unit * size
    while True:
        lower = guess - margin
        shifted = values - np.eye(n, dtype=np.int64) * lower
        loss = (n + 2) * unit * (abs(np.trace(shifted)) + size + n * abs(lower))
        if _factor(shifted) is not None:
            return lower - loss, min(guess, upper), upper
        margin = 16 * margin


def _norm_bound(values: Numbers) -> Number:
    """Return a positive upper bound of the spectral norm and of Σ_i |g_ii|."""
    return max(abs(values).sum(axis=1).max(), abs(np.diag(values)).sum()) + TINY


def _quotient(values: Numbers, vector: Numbers) -> Number:
    """Return the Rayleigh quotient vᵀGv/vᵀv of a matrix (n, n) and a vector (n,)."""
    return vector @ (values @ vector) / (vector @ vector)


def _multiprecision_eigenpair(values: Numbers) -> tuple[Number, Numbers]:
    """Return the smallest eigenvalue and its vector (n,), nearly exact, by inverse iteration with shifts just below."""
    n, context, one = len(values), context_of(values), np.eye(len(values), dtype=np.int64)
    # The smallest shift for which a singular matrix can be factored.
    shift = smallest_shift = n * context.eps * _norm_bound(values)
    while (root := _factor(values + one * shift)) is None:
        shift = shift * 16
    vector = np.frompyfunc(context.mpf, 1, 1)(np.random.default_rng(0).standard_normal(n))
    vector = _inverse_iteration(root, vector, INVERSE_STEPS)
    value = _quotient(values, vector)
    for _ in range(MAX_SHIFTS):
        residual = values @ vector - vector * value
        distance = 2 * sqrt(np.asarray(residual @ residual))
        if distance <= smallest_shift:
            break
        # An eigenvalue is within distance/2. Shifted below the smallest one, the matrix can be factored.
        while (root := _factor(values - one * (value - distance))) is None:
            distance = distance * 16
        vector = _inverse_iteration(root, vector, 2)
        value = _quotient(values, vector)
    return value, vector


def _inverse_iteration(root: Numbers, vector: Numbers, times: int) -> Numbers:
    """Return v after v ← (LLᵀ)⁻¹v/‖…‖ that many `times`, for the Cholesky factor L = `root`."""
    for _ in range(times):
        vector = _substitute(root.T, _substitute(root, vector), last_first=True)
        vector = vector / sqrt(np.asarray(vector @ vector))
    return vector


def _factor(values: Numbers) -> Numbers | None:
    if values.dtype != object:
        try:
            return np.tril(Cholesky(values.copy()).factor)
        except np.linalg.LinAlgError:
            return None
    rest, n = values.copy(), len(values)
    for j in range(n):
        if not rest[j, j] > 0:
            return None
        rest[j:, j] = rest[j:, j] / sqrt(np.asarray(rest[j, j]))
        for i in range(j + 1, n):
            # The array comes first: an mpmath number on the left would format it before returning NotImplemented.
            rest[i, j + 1 : i + 1] -= rest[j + 1 : i + 1, j] * rest[i, j]
    return np.where(np.tri(n, dtype=bool), rest, 0 * rest)


def _substitute(root: Numbers, right: Numbers, last_first: bool = False) -> Numbers:
    solution = right.copy()
    order = range(len(right))
    for i in reversed(order) if last_first else order:
        solved = slice(i + 1, None) if last_first else slice(0, i)
        # The product of empty object arrays would be None.
        total = root[i, solved] @ solution[solved] if len(solution[solved]) else 0
        solution[i] = (right[i] - total) / root[i, i]
    return solution


def circle_eigenvalue(n: int, activation: str | Activation = "relu", digits: int = 10) -> SmallestEigenvalue:
    """Compute λ_min of the Gram matrix of n equally spaced points of the unit circle in multiprecision.

        λ_k = Σ_j E(2πj/n) cos(2πj/n) cos(2πjk/n),    k = 0 … n/2

    are the eigenvalues, where E(θ) = E[σ'(z)σ'(z')] at the angle θ. The number of working digits is doubled until
    `digits` are correct. The points are exact, unlike points in doubles. For even n each point has its opposite: λ_min
    is then exactly 0 if σ' is even or odd, or if n ≥ 6 and σ'(z) + σ'(−z) is constant.

    Parameters
    ----------
    n : int
        Number of points, from 1 to 2000.
    activation : str or Activation
        As for `gram_matrix`, except custom activations and splines, which are computed in doubles only.
    digits : int
        Number of correct digits. An eigenvalue below about 1e-500, or 1e-60 for a Hermite series, is returned as 0.

    Raises
    ------
    InputError
        As for `gram_matrix`, and for activations that are computed in doubles only.

    References
    ----------
    Ours, motivated by Panigrahi, Shetty & Goyal (2020), abstract, on data that span few dimensions.

    Examples
    --------
    >>> print(circle_eigenvalue(41, "erf"))
    λ_min = 2.49204e-23 ± 1.2e-39
    """
    chosen, digits = activation_of(activation), as_digits(digits)
    count = as_count(n, "n", most=2000)
    if _is_singular(count, chosen):
        zero = multiprecision(digits).mpf(0)
        return SmallestEigenvalue(zero, zero)
    working, last = max(FIRST_DIGITS, digits + 10), digits + (ZERO_DIGITS if chosen.is_exact else ZERO_DIGITS_OF_SERIES)
    while True:
        smallest = _smallest_of_circle(count, chosen, working)
        if smallest.error * 2 * 10**digits <= abs(smallest.value):
            return smallest
        if working >= last:
            return SmallestEigenvalue(0 * smallest.value, abs(smallest.value) + smallest.error)
        working = min(2 * working, last)


def _is_singular(n: int, activation: Activation) -> bool:
    """Return True if pairs of opposite points imply λ_k = 0 for all even k, for all odd k, or for all odd k > 1.

    With θ → θ + π, E(θ) cos θ changes sign if σ' is even, and only odd k have λ_k ≠ 0. E(θ) cos θ keeps its sign if σ'
    is odd, and only even k have λ_k ≠ 0. If σ'(z) + σ'(−z) is constant, E(θ) cos θ keeps its sign up to a multiple of
    cos θ.
    """
    return n % 2 == 0 and (activation.parity in ("even", "odd") or (activation.parity == "half" and n >= 6))


def _smallest_of_circle(n: int, activation: Activation, digits: int) -> SmallestEigenvalue:
    """Return min_k λ_k of `circle_eigenvalue`, computed with `digits` + 10 digits, with a bound of its error."""
    context = multiprecision(digits + 10)
    half = n // 2
    pairs = unit_pairs(np.array([2 * context.pi * j / n for j in range(half + 1)], dtype=object))
    largest = abs(pairs.cosine[1:]).max() if half else context.mpf(0)
    mean, error, _ = pair_mean(activation, np.array([context.mpf(1)]), largest, context.mpf(10) ** -digits, 2)
    entries = mean(pairs) * pairs.cosine
    # The angles of j and n − j have the same cosine. Only j = 0 and, for even n, j = n/2 occur once.
    shares: Any = np.array([1 if 2 * j in (0, n) else 2 for j in range(half + 1)], dtype=object) * entries
    turns = np.array([context.cos(2 * context.pi * j / n) for j in range(n)], dtype=object)
    index = np.arange(half + 1)
    value = min(shares @ turns[index * k % n] for k in range(half + 1))
    return SmallestEigenvalue(value, n * entries[0] * (error + 8 * (n + 10) * context.eps))
