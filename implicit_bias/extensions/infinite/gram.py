"""Gram matrices of activations with bounds of their error, and empirical ones of finite width."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from implicit_bias._utils import checks
from implicit_bias._utils.blocks import row_blocks
from implicit_bias._utils.checks import Array, InputError
from implicit_bias._utils.floats import TINY
from implicit_bias.extensions.infinite.activations import Activation
from implicit_bias.extensions.infinite.activations import activation as activation_of
from implicit_bias.extensions.infinite.angles import GaussianPairs, PairsDone, Points, symmetric
from implicit_bias.extensions.infinite.series import hermite_series
from implicit_bias.extensions.infinite.special import Number, Numbers, context_of, short, unit_of
from implicit_bias.features import GatedFeatures

#: Function from Gaussian pairs to E[σ'(z)σ'(z')].
Entries = Callable[[GaussianPairs], Numbers]
#: Guard digits for the rounding of sums and series.
GUARD_DIGITS = 14
#: For d inputs, the error of an angle is at most d + ANGLE_ERROR units in the last place of 1.
ANGLE_ERROR = 8
#: Numbers in memory for a chunk of units of an empirical Gram matrix.
CHUNK_NUMBERS = 2**22
#: Default relative error of a Hermite series in doubles.
TOLERANCE = 1e-11


@dataclass(frozen=True, eq=False)
class Gram:
    """Gram matrix with a bound of its error.

    Attributes
    ----------
    values : array, shape (n, n) or (n, m)
        Entries in float64, or mpmath numbers in an object array; (n, m) for a kernel between two sets of points.
    error : float or mpmath number
        Bound of the spectral norm of the error of `values`.
    is_certified : bool
        True if `error` is a bound; for a custom activation it is an estimate.
    terms : int
        Number of terms of the Hermite series; 0 for closed forms and their mixtures.

    Examples
    --------
    >>> gram_matrix([[1.0, 0.0], [0.0, 1.0]], "relu")
    Gram(error=6.2e-15, is_certified=True, terms=0)
    """

    values: Numbers = field(repr=False)
    error: Number
    is_certified: bool = True
    terms: int = 0

    def __repr__(self) -> str:
        return f"Gram(error={short(self.error, 2)}, is_certified={self.is_certified}, terms={self.terms})"


def gram_matrix(
    X: ArrayLike,
    activation: str | Activation = "relu",
    *,
    normalise: bool = False,
    tolerance: float = TOLERANCE,
    digits: int | None = None,
    progress: PairsDone | None = None,
) -> Gram:
    """Compute the Gram matrix of an infinitely wide layer whose hidden weights are trained.

        G_ij = E[σ'(⟨w, x_i⟩) σ'(⟨w, x_j⟩)] ⟨x_i, x_j⟩,    w ~ N(0, I)

    The mean is in closed form for relu, leaky relu, erf, gelu, elu, selu, polynomials and splines. For tanh, sigmoid,
    softplus and swish it is a Hermite series with a bounded tail or, for long points, a mixture of closed forms with
    a bounded error. For custom activations it is a series.

    Parameters
    ----------
    X : array, shape (n, d)
        Nonzero points.
    activation : str or Activation
        A name (see `activation`), or a result of `leaky_relu`, `elu`, `polynomial`, `spline` or `custom_activation`.
    normalise : bool
        If True, divide the points by their lengths first.
    tolerance : float
        Allowed error of a series, relative to √(E[σ'(z_i)²] E[σ'(z_j)²]). The series aims at a thousandth of it.
    digits : int, optional
        Decimal digits of multiprecision, instead of doubles and the tolerance; X is taken as exact.
    progress : callable(pairs, all pairs), optional
        Called after every block of pairs.

    Raises
    ------
    InputError
        If X is invalid or has a row of zeros, a name is unknown, the tolerance is not between 0 and 1, a series cannot
        reach it or the digits (long, nearly parallel points), or the derivative is not square-integrable.

    References
    ----------
    Panigrahi, Shetty & Goyal (2020), "Effect of activation functions on the training of overparametrized neural nets".
    The abstract names a Gram matrix without a definition; this one is our reading.

    Examples
    --------
    >>> X = [[1.0, 0.0], [0.6, 0.8], [-2.0, 0.0]]
    >>> gram_matrix(X, "relu").values.round(4).tolist()
    [[0.5, 0.2114, 0.0], [0.2114, 0.5, -0.1771], [0.0, -0.1771, 2.0]]
    >>> str(gram_matrix(X, "erf", digits=30).values[0, 1])[:32]
    '0.200207656239088429734978353972'
    """
    chosen = activation_of(activation)
    if digits is None:
        allowed: Number = checks.as_fraction(tolerance, "tolerance")
        points = Points.of(X, normalise=normalise)
    else:
        digits = as_digits(digits)
        points = Points.of(X, digits + GUARD_DIGITS, normalise)
        allowed = context_of(points.norms).mpf(10) ** -digits
    # Only series need the largest cosine, which costs as many products as the matrix.
    cosine = largest_cosine(points) if chosen.needs_series(points.norms, allowed) else 1
    entries, relative, terms = pair_mean(chosen, points.norms, cosine, allowed, points.rows.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        values = symmetric(points, entries, progress)
    relative = relative + points.rows.shape[1] * unit_of(points.norms)
    if digits is None:
        checks.finite(values)
        checks.check_range(np.maximum(np.diag(values), TINY), "the squares of the features", most=np.inf)
    # If each entry has an error of at most c √(G_ii G_jj), that of the matrix is at most c trace(G).
    error = relative * np.trace(values)
    return Gram(values, error if context_of(values) else float(error), chosen.is_certified, terms)


def pair_mean(
    activation: Activation, norms: Numbers, cosine: Number, tolerance: Number, inputs: int
) -> tuple[Entries, Number, int]:
    """Return E[σ'(z)σ'(z')] as a function of pairs, a bound of its relative error, and the number of its terms.

    The error is relative to √(E[σ'(z)²] E[σ'(z')²]) for points of lengths `norms` (p,) and d = `inputs`. A series has
    at most the error `tolerance` for |cos θ| ≤ `cosine`; closed forms and mixtures ignore both and have 0 terms.
    """
    if activation.pair is not None and not activation.needs_series(norms, tolerance):
        # A cosine is a sum of `inputs` products, and angles are computed from cosines and directions.
        angle_error = (inputs + ANGLE_ERROR) * activation.angle_lipschitz(float(max(norms)))
        return activation.pair, (activation.rounding(norms) + angle_error) * unit_of(norms), 0
    series = hermite_series(activation, norms, cosine, tolerance, inputs)
    return series, series.error, series.coefficients.shape[1]


def as_digits(digits: Any) -> int:
    """Return a number of decimal digits; raise InputError unless it is from 1 to 1000."""
    return checks.as_count(digits, "digits", most=1000)


def largest_cosine(points: Points) -> Number:
    """Return the largest |cos θ| of two points i ≠ j, rounded up, at most 1; about 0 for a single point."""
    largest = 0 * points.norms[0]
    for rows in row_blocks(len(points)):
        cosines = abs(points.directions[rows] @ points.directions[rows.start :].T)
        diagonal = np.arange(len(cosines))
        cosines[diagonal, diagonal] = 0 * largest
        largest = max(largest, cosines.max())
    return min(1 + 0 * largest, largest + unit_of(points.norms) * (points.rows.shape[1] + 8))


def mean_square(activation: str | Activation, norm: float = 1.0) -> float:
    """Compute E[σ'(rz)²], z ~ N(0, 1), for a point of length r = `norm`.

    Divided by this mean, the smallest eigenvalues of different activations can be compared.

    Raises
    ------
    InputError
        As for `gram_matrix`.

    Examples
    --------
    >>> mean_square("relu"), round(mean_square("tanh"), 6)
    (0.5, 0.464403)
    """
    length = checks.as_positive(norm, "norm")
    return float(gram_matrix([[length]], activation).values[0, 0]) / length**2


def empirical_gram(X: ArrayLike, activation: str | Activation, width: int, seed: int = 1) -> Array:
    """Compute the Gram matrix (n, n) of a random layer of k units with w_j ~ N(0, I).

        (1/k) Σ_j σ'(⟨w_j, x_i⟩) σ'(⟨w_j, x_l⟩) ⟨x_i, x_l⟩

    This is the Gram matrix of the features σ'(⟨w_j, x⟩) ⊗ x, divided by k. The mean over w is `gram_matrix`.

    Parameters
    ----------
    X, activation
        As for `gram_matrix`.
    width : int
        The number k of units.
    seed : int
        Seed of NumPy's PCG64. A wider layer starts with the same w_j.

    Raises
    ------
    InputError
        As for `gram_matrix`.

    Examples
    --------
    >>> empirical_gram([[1.0, 0.0], [0.6, 0.8]], "relu", width=100_000).round(2).tolist()
    [[0.5, 0.21], [0.21, 0.5]]
    """
    chosen, points = activation_of(activation), Points.of(X)
    width, rng = checks.as_count(width, "width"), np.random.default_rng(checks.as_seed(seed))
    checks.check_size(width * points.rows.size, "the products of weights and points")
    total = np.zeros((len(points), len(points)))
    step = max(1, CHUNK_NUMBERS // max(points.rows.shape))
    for first in range(0, width, step):
        W = rng.standard_normal((min(step, width - first), points.rows.shape[1]))
        with np.errstate(over="ignore", invalid="ignore"):
            values = np.asarray(chosen.derivative(points.rows @ W.T))
        if not np.isfinite(values).all():
            raise InputError(f"the derivative of {chosen.name} is not finite at these points; scale the points down")
        total += GatedFeatures(points.rows, values).gram()
    return checks.finite(total / width)
