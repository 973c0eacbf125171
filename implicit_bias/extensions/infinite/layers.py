"""Layers of infinite width: both means for pairs of points, and the propagation of errors through layers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from implicit_bias._utils.checks import Array, InputError
from implicit_bias.extensions.infinite.activations import Activation
from implicit_bias.extensions.infinite.angles import GaussianPairs, PairsDone, Points, mirror
from implicit_bias.extensions.infinite.series import hermite_series, means, panel_rule

EPS = float(np.finfo(float).eps)
#: Number of lengths at which condition numbers are computed.
CONDITION_LENGTHS = 65
#: Safety factor of condition numbers, for the lengths in between.
SAFETY = 2.0
#: Relative step of the difference quotients for σ''.
STEP = 1e-5


@dataclass(frozen=True)
class PairErrors:
    """Error bounds of pairs that enter a layer: relative ones of r and s (`lengths`), absolute ones of cos θ and θ."""

    lengths: float
    cosine: Array | float
    angle: Array | float


@dataclass(frozen=True)
class Layer:
    """E[σ(z)σ(z')] and E[σ'(z)σ'(z')] in doubles, for pairs of given lengths, with their error bounds."""

    #: Lengths (p,) in ascending order.
    norms: Array
    #: E[σ(rz)²] (p,) and E[σ'(rz)²] (p,).
    squares: Array
    slope_squares: Array
    #: Bounds of the errors of the means, relative to √(E[σ(rz)²] E[σ(sz)²]), and likewise for σ'.
    error: float
    slope_error: float
    #: Bounds of √(E[(rzσ'(rz))²]/E[σ(rz)²]), the condition number of the lengths, and likewise for σ'.
    value_lipschitz: float
    slope_lipschitz: float
    #: Bound of |∂E[σ'(z)σ'(z')]/∂θ| over √(E[σ'(rz)²] E[σ'(sz)²]); for a series, of the derivative by cos θ.
    angle_lipschitz: float
    #: Number of terms of the Hermite series; 0 for closed forms and their mixtures.
    terms: int
    #: The means as functions of pairs.
    values: Callable[[GaussianPairs], Array]
    slopes: Callable[[GaussianPairs], Array]

    @classmethod
    def of(cls, activation: Activation, norms: Array, tolerance: float) -> Layer:
        """Return the layer for distinct ascending lengths `norms` (p,); InputError if means leave floating point."""
        value_lipschitz, slope_lipschitz = _length_lipschitz(activation, norms)
        if activation.pair is None or activation.dual is None or activation.needs_series(norms, tolerance):
            series = hermite_series(activation, norms, 1.0, tolerance)
            dual = series.dual(*means(activation, norms))
            terms = series.coefficients.shape[1]
            turning = float((series.coefficients**2 @ np.arange(terms) / series.mean_squares).max())
            squares = dual.mean_squares, series.mean_squares
            constants = float(dual.error), float(series.error), value_lipschitz, slope_lipschitz, turning
            return cls(norms, *squares, *constants, terms, dual, series)
        zeros = 0 * norms
        equal = GaussianPairs(norms, norms, zeros + 1, zeros)
        with np.errstate(over="ignore", invalid="ignore"):
            squares = activation.dual(equal) + zeros, activation.pair(equal) + zeros
        if not (np.isfinite(squares).all() and min(map(np.min, squares)) > 0):
            raise InputError(f"lengths from {norms[0]:.3g} to {norms[-1]:.3g} leave floating point; scale the points")
        error, slope_error = activation.dual_rounding(norms) * EPS, activation.rounding(norms) * EPS
        if activation.length_lipschitz is not None:
            slope_lipschitz = activation.length_lipschitz(norms)
        constants = error, slope_error, value_lipschitz, slope_lipschitz, activation.angle_lipschitz(float(norms[-1]))
        return cls(norms, *squares, *constants, 0, activation.dual, activation.pair)

    def indices(self, lengths: Array) -> NDArray[np.int64]:
        """Return indices into `norms` of lengths that it contains; other lengths are not detected."""
        return np.asarray(np.searchsorted(self.norms, lengths))

    def means(self, pairs: GaussianPairs, errors: PairErrors) -> tuple[Array, Array, Array, Array]:
        """Return E[σ(z)σ(z')], E[σ'(z)σ'(z')], and bounds of their absolute errors, given `errors` of the pairs.

        By Price's theorem, |∂E[σ(z)σ(z')]/∂cos θ| = rs |E[σ'(z)σ'(z')]|. By the Cauchy–Schwarz inequality, a relative
        change of r by δ changes E[σ(z)σ(z')] by at most δ √(E[(rzσ'(rz))²] E[σ(sz)²]).
        """
        i, j = self.indices(pairs.r), self.indices(pairs.s)
        values, slopes = self.values(pairs), self.slopes(pairs)
        rise = np.sqrt(self.slope_squares[i]) * np.sqrt(self.slope_squares[j])
        size = np.sqrt(self.squares[i]) * np.sqrt(self.squares[j])
        turn = self.angle_lipschitz * (errors.cosine if self.terms else errors.angle)
        slopes_error = rise * (self.slope_error + 2 * self.slope_lipschitz * errors.lengths + turn)
        values_error = size * (self.error + 2 * self.value_lipschitz * errors.lengths)
        values_error = values_error + pairs.r * pairs.s * (np.abs(slopes) + slopes_error) * errors.cosine
        return values, slopes, values_error, slopes_error


def _length_lipschitz(activation: Activation, norms: Array) -> tuple[float, float]:
    """Estimate the largest √(E[(uσ'(u))²]/E[σ(u)²]) and √(E[(uσ''(u))²]/E[σ'(u)²]), u = rz, over lengths r (p,).

    Both are computed by quadrature at up to 65 lengths and multiplied by SAFETY. A jump of σ' at 0 vanishes with the
    factor u.
    """
    # For long points, a feature of σ' at 0 is as narrow as 1/r.
    rule = panel_rule(1.0, 64, 0, 24 + math.ceil(math.log2(max(1.0, float(norms[-1])))))
    nodes = np.concatenate([rule.nodes, -rule.nodes]).astype(np.float64)
    weights = np.tile(rule.weights.astype(np.float64), 2)
    chosen = np.unique(np.round(np.linspace(0, len(norms) - 1, min(CONDITION_LENGTHS, len(norms)))).astype(int))
    u = np.multiply.outer(norms[chosen], nodes)
    with np.errstate(over="ignore", invalid="ignore"):
        slope = np.asarray(activation.derivative(u))
        sizes = [np.asarray(activation.function(u)), u * slope, slope]
        steps = [np.asarray(activation.derivative(u * (1 + sign * STEP))) for sign in (1, -1)]
        squares, moved, steep, bent = (part**2 @ weights for part in (*sizes, (steps[0] - steps[1]) / (2 * STEP)))
        ratios = np.sqrt(moved / squares).max(), np.sqrt(bent / steep).max()
    return SAFETY * float(ratios[0]), SAFETY * float(ratios[1])


def _angle_errors(cosines: Array, errors: Array) -> Array:
    """Bound |arccos a − arccos b| by π √(e/2) and e/√(1 − max(a², b²)), |a − b| ≤ e = `errors`, b = `cosines`."""
    inside = 1 - np.minimum(1.0, np.abs(cosines) + errors) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.fmin(math.pi * np.sqrt(errors / 2), errors / np.sqrt(inside))


def next_pairs(
    lengths: tuple[Array, Array], covariances: Array, errors: Array, lengths_error: float, same: NDArray[np.bool_]
) -> tuple[GaussianPairs, PairErrors]:
    """Return pairs of standard deviations r, s = `lengths` and cos θ = covariance/rs, and bounds of their errors.

    Arrays have the shape of the block, `lengths` one that broadcasts to it. `errors` are absolute, for the covariances;
    `lengths_error` is relative. Where `same`, cos θ is exactly 1.
    """
    r, s = lengths
    size = r * s
    cosines = np.clip(covariances / size, -1.0, 1.0)
    # Both the cosine and its approximation are between −1 and 1.
    cosines_error = np.minimum(errors / size + 2 * lengths_error + 4 * EPS, 2.0)
    cosines[same], cosines_error[same] = 1.0, 0.0
    return GaussianPairs(r, s, cosines, np.arccos(cosines)), PairErrors(
        lengths_error, cosines_error, _angle_errors(cosines, cosines_error)
    )


def first_errors(points: Points) -> PairErrors:
    """Return the rounding errors of pairs of points (n, d): (d + 8) · 2⁻⁵² for lengths, cosines and angles alike."""
    errors = (points.rows.shape[1] + 8) * EPS
    return PairErrors(errors, errors, errors)


def assemble_matrices(
    first: Points,
    second: Points | None,
    kinds: int,
    entries: Callable[[slice, slice, GaussianPairs], list[tuple[Array, Array]]],
    progress: PairsDone | None,
) -> list[tuple[Array, float]]:
    """Assemble `kinds` matrices between points; return each with a bound of the spectral norm of its error.

    `entries(rows, columns, pairs)` returns `kinds` pairs of a block and its entrywise error bounds. Without `second`
    the matrices are (n, n) and symmetric. For a matrix E of errors, ‖E‖² is at most the largest row sum of |E_ij| times
    the largest column sum.
    """
    n, m = len(first), len(first if second is None else second)
    values, down = np.empty((kinds, n, m)), np.zeros((kinds, n))
    across = down if second is None else np.zeros((kinds, m))
    for rows, columns, pairs in first.blocks(second, progress):
        for k, (block, error) in enumerate(entries(rows, columns, pairs)):
            down[k, rows] += error.sum(axis=1)
            if second is None:
                mirror(values[k], rows, columns, block)
                down[k, rows.stop :] += error[:, len(block) :].sum(axis=0)
            else:
                values[k, rows, columns] = block
                across[k, columns] += error.sum(axis=0)
    return [(v, float(np.sqrt(one.max() * other.max()))) for v, one, other in zip(values, down, across, strict=True)]
