"""Gram matrices of activations: exact or with a bound of their error, sampled at finite width, and through depth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from implicit_bias._utils.blocks import row_blocks
from implicit_bias._utils.checks import (
    Array,
    InputError,
    as_count,
    as_fraction,
    as_positive,
    as_seed,
    check_range,
    check_size,
    finite,
)
from implicit_bias._utils.scaling import TINY
from implicit_bias.extensions.infinite.activations import Activation
from implicit_bias.extensions.infinite.activations import activation as activation_of
from implicit_bias.extensions.infinite.angles import GaussianPairs, PairsDone, Points, symmetric
from implicit_bias.extensions.infinite.series import hermite_series
from implicit_bias.extensions.infinite.special import Number, Numbers, context_of, short, unit_of
from implicit_bias.features import GatedFeatures

#: E[σ'(z)σ'(z')] of pairs.
Entries = Callable[[GaussianPairs], Numbers]
#: Digits beyond those asked for, for what sums and series lose.
SPARE_DIGITS = 14
#: More digits than this take hours.
MOST_DIGITS = 1000
#: An angle of points of d inputs is off by at most d + 8 units of the last digit of 1.
ANGLE = 8
#: Numbers that a chunk of units of an empirical Gram matrix holds.
UNITS_AT_ONCE = 2**22
#: Relative error of E[σ'σ'] that a series may have in doubles.
TOLERANCE = 1e-11


@dataclass(frozen=True, eq=False)
class Gram:
    """A Gram matrix and how exactly it is known.

    Attributes
    ----------
    values : array, shape (n, n)
        Float64, or mpmath's numbers in an array of objects; (n, m) of a kernel between two sets of points.
    error : float, or mpmath's number
        A bound of the spectral norm of the error of `values`.
    is_certified : bool
        Whether `error` is a bound; for an activation of your own it is an estimate.
    terms : int
        Of the Hermite series; 0 for closed forms.

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
    """The Gram matrix of a wide layer whose hidden weights are trained.

        G_ij = E[σ'(⟨w, x_i⟩) σ'(⟨w, x_j⟩)] ⟨x_i, x_j⟩,    w ~ N(0, I)

    In closed form for relu, leaky relu, erf, gelu, elu, selu, polynomials and splines, and otherwise by a Hermite
    series whose tail is bounded.

    Raises InputError for a bad array, a row of zeros, unknown names, a tolerance that is not between 0 and 1, one that
    a series does not reach (long, nearly parallel points), and activations whose derivative is not square-integrable.

    Parameters
    ----------
    X : array, shape (n, d)
        Points of any length but 0.
    activation : str or Activation
        A name (see `activation`), or one made by `leaky_relu`, `elu`, `polynomial`, `spline` or `custom_activation`.
    normalise : bool
        Divide the points by their lengths first.
    tolerance : float
        The error allowed to a series, relative to √(E[σ'(z_i)²] E[σ'(z_j)²]); it is a thousandth where it can be.
    digits : int, optional
        Decimal digits of multiprecision, in place of doubles and the tolerance; X is taken as exact.
    progress : callable(pairs, all pairs), optional
        Called after every block of pairs.

    References
    ----------
    Panigrahi, Shetty & Goyal (2020), "Effect of activation functions on the training of overparametrized neural nets",
    whose abstract names a Gram matrix and does not define it: that it is this one is our reading.

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
        allowed: Number = as_fraction(tolerance, "tolerance")
        points = Points.of(X, normalise=normalise)
    else:
        digits = as_digits(digits)
        points = Points.of(X, digits + SPARE_DIGITS, normalise)
        allowed = context_of(points.norms).mpf(10) ** -digits
    # Only series need the steepest cosine, which takes as many products as the matrix.
    steep = 1 if chosen.is_exact else steepest(points)
    entries, off, terms = pair_mean(chosen, points.norms, steep, allowed, points.rows.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        values = symmetric(points, entries, progress)
    relative = off + points.rows.shape[1] * unit_of(points.norms)
    if digits is None:
        finite(values)
        check_range(np.maximum(np.diag(values), TINY), "the squares of the features", most=np.inf)
    # Entries off by at most c √(G_ii G_jj) make a matrix off by at most c trace(G).
    error = relative * np.trace(values)
    return Gram(values, error if context_of(values) else float(error), chosen.is_certified, terms)


def pair_mean(
    activation: Activation, norms: Numbers, steep: Number, tolerance: Number, inputs: int
) -> tuple[Entries, Number, int]:
    """E[σ'(z)σ'(z')] as a function of pairs, its error over √(E[σ'(z)²] E[σ'(z')²]), and the terms it took.

    For points of these lengths (p,), in closed form or as a series for |cos θ| ≤ `steep`; see there.
    """
    if activation.pair is not None:
        # Cosines are sums of `inputs` products, and angles come from them and from directions.
        off = (inputs + ANGLE) * activation.bend(float(max(norms)))
        return activation.pair, (activation.rounding(norms) + off) * unit_of(norms), 0
    series = hermite_series(activation, norms, steep, tolerance, inputs)
    return series, series.error, series.coefficients.shape[1]


def as_digits(digits: Any) -> int:
    """Decimal digits of multiprecision."""
    return as_count(digits, "digits", most=MOST_DIGITS)


def steepest(points: Points) -> Number:
    """The largest |cos θ| of two different points, rounded up."""
    most = 0 * points.norms[0]
    for rows in row_blocks(len(points)):
        cosines = abs(points.directions[rows] @ points.directions[rows.start :].T)
        own = np.arange(len(cosines))
        cosines[own, own] = 0 * most
        most = max(most, cosines.max())
    return min(1 + 0 * most, most + unit_of(points.norms) * (points.rows.shape[1] + 8))


def mean_square(activation: str | Activation, norm: float = 1.0) -> float:
    """E[σ'(rz)²], z ~ N(0, 1), of a point of length r: the unit in which smallest eigenvalues compare.

    Raises InputError as `gram_matrix` does.

    Examples
    --------
    >>> mean_square("relu"), round(mean_square("tanh"), 6)
    (0.5, 0.464403)
    """
    length = as_positive(norm, "norm")
    return float(gram_matrix([[length]], activation).values[0, 0]) / length**2


def empirical_gram(X: ArrayLike, activation: str | Activation, width: int, seed: int = 1) -> Array:
    """(1/k) Σ_j σ'(⟨w_j, x_i⟩) σ'(⟨w_j, x_l⟩) ⟨x_i, x_l⟩ of a layer of k units with w_j ~ N(0, I), shape (n, n).

    The Gram matrix of the features σ'(⟨w_j, x⟩) ⊗ x over k, whose mean is `gram_matrix`.

    Parameters
    ----------
    X, activation, and errors : as for `gram_matrix`
    width : int
        k.
    seed : int
        Of NumPy's PCG64; the w_j of a layer are the first ones of a wider layer.

    Examples
    --------
    >>> empirical_gram([[1.0, 0.0], [0.6, 0.8]], "relu", width=100_000).round(2).tolist()
    [[0.5, 0.21], [0.21, 0.5]]
    """
    chosen, points = activation_of(activation), Points.of(X)
    width, rng = as_count(width, "width"), np.random.default_rng(as_seed(seed))
    check_size(width * points.rows.size, "the products of weights and points")
    total = np.zeros((len(points), len(points)))
    step = max(1, UNITS_AT_ONCE // max(points.rows.shape))
    for first in range(0, width, step):
        W = rng.standard_normal((min(step, width - first), points.rows.shape[1]))
        with np.errstate(over="ignore", invalid="ignore"):
            values = np.asarray(chosen.derivative(points.rows @ W.T))
        if not np.isfinite(values).all():
            raise InputError(f"the derivative of {chosen.name} is not finite at these points; scale them down")
        total += GatedFeatures(points.rows, values).gram()
    return finite(total / width)
