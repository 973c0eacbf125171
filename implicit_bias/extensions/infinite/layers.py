"""A layer of infinite width: both means of pairs of points, their errors, and how errors of pairs pass through."""

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
#: Lengths at which condition numbers are computed.
SAMPLED = 65
#: Factor of condition numbers, for the lengths between these.
SAFETY = 2.0
#: Relative step of the differences that stand for σ''.
STEP = 1e-5


@dataclass(frozen=True)
class PairErrors:
    """Bounds of the errors of the pairs that enter a layer: of r and s, relative, of cos θ, and of θ."""

    lengths: float
    cosine: Array | float
    angle: Array | float


@dataclass(frozen=True)
class Layer:
    """E[σ(z)σ(z')] and E[σ'(z)σ'(z')] of pairs with lengths among `norms` (p,), ascending, in doubles.

    `values` and `slopes` compute them. `squares` and `slope_squares` (p,) are E[σ(rz)²] and E[σ'(rz)²]. `error` is a
    bound of the errors of the means, relative to √(E[σ(rz)²] E[σ(sz)²]), and `slope_error` of those of σ' likewise.
    `stretch` is a bound of √(E[(rzσ'(rz))²]/E[σ(rz)²]), and `slope_stretch` the same of σ': what errors of lengths are
    multiplied by. `bend` is a bound of |∂E[σ'(z)σ'(z')]/∂θ| over √(E[σ'(rz)²] E[σ'(sz)²]); of a series, ∂cos θ. `terms`
    counts those of the Hermite series; 0 for closed forms.
    """

    norms: Array
    squares: Array
    slope_squares: Array
    error: float
    slope_error: float
    stretch: float
    slope_stretch: float
    bend: float
    terms: int
    values: Callable[[GaussianPairs], Array]
    slopes: Callable[[GaussianPairs], Array]

    @classmethod
    def of(cls, activation: Activation, norms: Array, tolerance: float) -> Layer:
        """The layer for points of these lengths (p,), ascending and different."""
        stretch, slope_stretch = _stretches(activation, norms)
        if activation.pair is None or activation.dual is None:
            series = hermite_series(activation, norms, 1.0, tolerance)
            dual = series.dual(*means(activation, norms))
            terms = series.coefficients.shape[1]
            bend = float((series.coefficients**2 @ np.arange(terms) / series.mean_squares).max())
            squares = dual.mean_squares, series.mean_squares
            errors = float(dual.error), float(series.error)
            return cls(norms, *squares, *errors, stretch, slope_stretch, bend, terms, dual, series)
        zeros = 0 * norms
        own = GaussianPairs(norms, norms, zeros + 1, zeros)
        with np.errstate(over="ignore", invalid="ignore"):
            squares = activation.dual(own) + zeros, activation.pair(own) + zeros
        if not (np.isfinite(squares).all() and min(map(np.min, squares)) > 0):
            raise InputError(f"lengths from {norms[0]:.3g} to {norms[-1]:.3g} leave floating point; scale the points")
        error, slope_error = activation.dual_rounding(norms) * EPS, activation.rounding(norms) * EPS
        if activation.slope_stretch is not None:
            slope_stretch = activation.slope_stretch(norms)
        bend = activation.bend(float(norms[-1]))
        own_means = activation.dual, activation.pair
        return cls(norms, *squares, error, slope_error, stretch, slope_stretch, bend, 0, *own_means)

    def indices(self, lengths: Array) -> NDArray[np.int64]:
        """The places of these lengths in `norms`."""
        found: NDArray[np.int64] = np.searchsorted(self.norms, lengths)
        return found

    def means(self, pairs: GaussianPairs, off: PairErrors) -> tuple[Array, Array, Array, Array]:
        """E[σσ'], E[σ'σ'], and bounds of the errors of both.

        |∂E[σσ']/∂cos θ| = rs |E[σ'σ']| (Price), and by Cauchy and Schwarz a relative change of r by δ changes it by at
        most δ √(E[(rzσ'(rz))²] E[σ(sz)²]).
        """
        i, j = self.indices(pairs.r), self.indices(pairs.s)
        values, slopes = self.values(pairs), self.slopes(pairs)
        rise = np.sqrt(self.slope_squares[i]) * np.sqrt(self.slope_squares[j])
        size = np.sqrt(self.squares[i]) * np.sqrt(self.squares[j])
        turn = off.cosine if self.terms else off.angle
        slopes_off = rise * (self.slope_error + 2 * self.slope_stretch * off.lengths + self.bend * turn)
        values_off = size * (self.error + 2 * self.stretch * off.lengths)
        values_off = values_off + pairs.r * pairs.s * (np.abs(slopes) + slopes_off) * off.cosine
        return values, slopes, values_off, slopes_off


def _stretches(activation: Activation, norms: Array) -> tuple[float, float]:
    """√(E[(uσ'(u))²]/E[σ(u)²]) and √(E[(uσ''(u))²]/E[σ'(u)²]), u = rz, at their largest for lengths up to these.

    By quadrature at up to 65 lengths, twice what comes out; a jump of σ' at 0 does not enter because of the factor u.
    """
    rule = panel_rule(1.0, 64, 0)
    nodes = np.concatenate([rule.nodes, -rule.nodes]).astype(np.float64)
    weights = np.tile(rule.weights.astype(np.float64), 2)
    chosen = np.unique(np.round(np.linspace(0, len(norms) - 1, min(SAMPLED, len(norms)))).astype(int))
    u = np.multiply.outer(norms[chosen], nodes)
    with np.errstate(over="ignore", invalid="ignore"):
        slope = np.asarray(activation.derivative(u))
        sizes = [np.asarray(activation.function(u)), u * slope, slope]
        steps = [np.asarray(activation.derivative(u * (1 + sign * STEP))) for sign in (1, -1)]
        squares, moved, steep, bent = (part**2 @ weights for part in (*sizes, (steps[0] - steps[1]) / (2 * STEP)))
        ratios = np.sqrt(moved / squares).max(), np.sqrt(bent / steep).max()
    return SAFETY * float(ratios[0]), SAFETY * float(ratios[1])


def _angle_errors(cosines: Array, off: Array) -> Array:
    """Bounds of the errors of arccos where cosines are off by so much.

    |arccos a − arccos b| ≤ π √(|a − b|/2), and ≤ |a − b|/√(1 − max(a², b²)).
    """
    inside = 1 - np.minimum(1.0, np.abs(cosines) + off) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.fmin(math.pi * np.sqrt(off / 2), off / np.sqrt(inside))


def next_pairs(
    lengths: tuple[Array, Array], covariances: Array, off: Array, lengths_off: float, same: NDArray[np.bool_]
) -> tuple[GaussianPairs, PairErrors]:
    """Pairs with these standard deviations and covariances, known to `off`; those that are `same` are no pair."""
    r, s = lengths
    size = r * s
    cosines = np.clip(covariances / size, -1.0, 1.0)
    # No cosine, nor what is taken for it, leaves −1 … 1.
    cosines_off = np.minimum(off / size + 2 * lengths_off + 4 * EPS, 2.0)
    cosines[same], cosines_off[same] = 1.0, 0.0
    angles = np.arccos(cosines)
    return GaussianPairs(r, s, cosines, angles), PairErrors(
        lengths_off, cosines_off, _angle_errors(cosines, cosines_off)
    )


def first_errors(points: Points) -> PairErrors:
    """Errors of pairs of points: cosines are sums of d products, and angles come from them and from directions."""
    off = (points.rows.shape[1] + 8) * EPS
    return PairErrors(off, off, off)


def assembled(
    first: Points,
    second: Points | None,
    kinds: int,
    entries: Callable[[slice, slice, GaussianPairs], list[tuple[Array, Array]]],
    progress: PairsDone | None,
) -> list[tuple[Array, float]]:
    """Matrices of so many kinds between points, and bounds of the spectral norms of their errors.

    `entries` computes blocks, each with bounds of its errors. ‖E‖² is at most the largest sum of a row times that of a
    column.
    """
    n, m = len(first), len(first if second is None else second)
    values, down = np.empty((kinds, n, m)), np.zeros((kinds, n))
    across = down if second is None else np.zeros((kinds, m))
    for rows, columns, pairs in first.blocks(second, progress):
        for k, (block, off) in enumerate(entries(rows, columns, pairs)):
            down[k, rows] += off.sum(axis=1)
            if second is None:
                mirror(values[k], rows, columns, block)
                down[k, rows.stop :] += off[:, len(block) :].sum(axis=0)
            else:
                values[k, rows, columns] = block
                across[k, columns] += off.sum(axis=0)
    return [(v, float(np.sqrt(one.max() * other.max()))) for v, one, other in zip(values, down, across, strict=True)]
