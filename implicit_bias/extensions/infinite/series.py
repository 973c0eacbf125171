"""Hermite series of E[σ'(z)σ'(z')] and E[σ(z)σ(z')] for points of any lengths, with a bound of what is left out."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from implicit_bias._utils.checks import Array, InputError
from implicit_bias.extensions.infinite.activations import Activation
from implicit_bias.extensions.infinite.angles import GaussianPairs
from implicit_bias.extensions.infinite.quadrature import coefficients, panel_rule, strip_rule
from implicit_bias.extensions.infinite.special import Number, Numbers, context_of, sqrt, unit_of

#: Terms of a series: the first attempt, and the most.
FEWEST, MOST = 128, 2048
#: Halvings of the panels in which the quadrature of an activation of one's own must settle.
REFINEMENTS = 7


@dataclass(frozen=True)
class HermiteSeries:
    """E[σ'(z)σ'(z')] = Σ_k a_k(r) a_k(s) cos^k θ for pairs of standard deviations r, s at an angle θ.

    a_k(r) = E[σ'(rz) he_k(z)], z ~ N(0, 1), he_k = He_k/√k!.

    Attributes
    ----------
    norms : array, shape (p,)
        The lengths r, ascending.
    coefficients : array, shape (p, K + 1)
    mean_squares : array, shape (p,)
        E[σ'(rz)²] = Σ_k a_k(r)².
    error : float, or mpmath's number
        A bound of the error off the diagonal, in units of √(E[σ'(rz)²] E[σ'(sz)²]).
    """

    norms: Numbers
    coefficients: Numbers
    mean_squares: Numbers
    error: Number

    def __call__(self, pairs: GaussianPairs) -> Numbers:
        """The series, by Horner's rule; `mean_squares` for a point and itself."""
        # Of a single length there is one product per term, not one per pair.
        r, s = (self.rows(lengths if len(self.norms) > 1 else self.norms[0]) for lengths in (pairs.r, pairs.s))
        # Of an even or odd function every second coefficient is 0.
        first = 0 if self.coefficients[:, 0::2].any() else 1
        step = 1 if self.coefficients[:, 1 - first :: 2].any() else 2
        factor = pairs.cosine if step == 1 else pairs.cosine**2
        value = 0 * factor
        for k in reversed(range(first, len(r), step)):
            value *= factor
            value += r[k] * s[k]
        value = value if first == 0 else value * pairs.cosine
        squares = self.mean_squares[np.searchsorted(self.norms, pairs.r)]
        return np.where((pairs.angle == 0) & (pairs.r == pairs.s), squares, value)

    def dual(self, means: Array, off: float) -> HermiteSeries:
        """E[σ(rz)σ(sz')], of E[σ(rz)] = `means` (p,) known to `off`: its coefficients are these and r a_{k−1}(r)/√k.

        Off the diagonal it is E[σ(rz)] E[σ(sz')] + rs ∫_0^ρ E[σ'(rz)σ'(sz')] dρ (Price), so that errors carry over.
        """
        k = np.arange(1, self.coefficients.shape[1] + 1)
        found = np.column_stack([means, self.coefficients * self.norms[:, None] / np.sqrt(k)])
        squares = (found**2).sum(axis=1)
        shares = self.norms**2 * self.mean_squares / squares
        rounding = evaluation_error(found, squares, 0, self.norms)
        error = shares.max() * self.error + 2 * off / math.sqrt(squares.min()) + rounding
        return HermiteSeries(self.norms, found, squares, float(error))

    def rows(self, norms: Numbers) -> Numbers:
        """The coefficients of these lengths (…), shape (K + 1, …)."""
        return np.ascontiguousarray(np.moveaxis(self.coefficients[np.searchsorted(self.norms, norms)], -1, 0))


def hermite_series(
    activation: Activation, norms: Numbers, steepest: Number, tolerance: Number, inputs: int = 1
) -> HermiteSeries:
    """As many terms as leave out at most `tolerance` of pairs with |cos θ| ≤ `steepest` ≤ 1.

        |Σ_{k>K} a_k(r) a_k(s) cos^k θ| ≤ |cos θ|^{K+1} √(T(r) T(s)),   T(r) = E[σ'(rz)²] − Σ_{k≤K} a_k(r)²

    by Cauchy and Schwarz's inequality and Parseval's identity: the tail needs no knowledge of the later coefficients.

    The lengths of the points, `norms`, are float64 or mpmath's numbers; the tolerance is relative to
    √(E[σ'(rz)²] E[σ'(sz)²]); the cosines carry the rounding of sums over d = `inputs`.

    Raises InputError if 2048 terms are not enough or the tolerance is below rounding, and for activations whose
    derivative is not square-integrable, or zero.
    """
    norms = np.unique(norms)
    terms = FEWEST
    while True:
        found, squares, noise = integrate(activation, norms, terms, tolerance)
        left = 1 - np.cumsum(found**2, axis=1) / squares[:, None]
        # Whatever rounding and quadrature may have hidden of the tail counts as tail.
        floor = 4 * math.sqrt(terms + 1) * noise
        left = np.abs(left).max(axis=0) + floor
        bound = left * steepest ** np.arange(1, terms + 2)
        if noise_of(noise, terms) > tolerance:
            raise InputError(
                f"the series of {activation.name} is known to {float(noise_of(noise, terms)):.1e} at best here; "
                "raise the tolerance, or ask for digits"
            )
        # A thousandth of what is allowed, if it is to be had; else what the most terms leave.
        enough = np.flatnonzero(bound <= max(tolerance / 1000, 2 * floor))
        if len(enough) or (terms >= MOST and bound[-1] <= tolerance):
            last = int(enough[0]) + 1 if len(enough) else terms + 1
            rounding = evaluation_error(found[:, :last], squares, inputs, norms)
            error = bound[last - 1] + noise_of(noise, last) + rounding
            return HermiteSeries(norms, as_stored(found[:, :last]), as_stored(squares), error)
        if terms >= MOST:
            raise InputError(
                f"{MOST} terms of the series of {activation.name} leave an error of {float(bound[-1]):.1e} for points "
                f"as long as {float(norms[-1]):.3g} with a cosine as large as {float(steepest):.6g}; "
                "scale the points down, leave out nearly parallel ones, or raise the tolerance"
            )
        terms *= 4


def as_stored(values: Numbers) -> Numbers:
    """Float64, unless they are mpmath's numbers."""
    return values if values.dtype == object else values.astype(np.float64)


def noise_of(noise: Number, terms: int) -> Number:
    """The effect on a pair of errors of the coefficients (of `terms` + 1) of at most `noise` each."""
    size = math.sqrt(terms + 1) * noise
    return 2 * size + size * size


def evaluation_error(found: Numbers, squares: Numbers, inputs: int, norms: Numbers) -> Number:
    """Rounding of Horner's rule, of the coefficients, and of cosines that are sums of `inputs` products."""
    weights = (inputs + 8) * np.arange(found.shape[1]) + 8
    return unit_of(norms) * ((found**2 * weights).sum(axis=1) / squares).max()


def integrate(activation: Activation, norms: Numbers, terms: int, tolerance: Number) -> tuple[Numbers, Numbers, Number]:
    """a_0 … a_terms (p, terms + 1), E[σ'(rz)²] (p,), and the error of the coefficients over the roots of these."""
    if activation.strip is not None:
        rule = strip_rule(activation.strip, norms, terms, tolerance)
        found, squares, rounding = coefficients(activation, norms, rule, terms)
        # The error of a certified rule is absolute.
        return found, squares, rounding + rule.error / min(sqrt(np.asarray(min(squares))), min(squares))
    if context_of(norms) is not None:
        raise InputError(f"{activation.name} is known in doubles only; leave out digits")
    previous: tuple[Numbers, Numbers] | None = None
    for level in range(REFINEMENTS):
        rule = panel_rule(float(norms[-1]), terms, level)
        with np.errstate(over="ignore", invalid="ignore"):
            found, squares, rounding = coefficients(activation, norms, rule, terms)
        check_integrable(activation, norms, squares)
        if previous is not None:
            # The last halving changed more than what the next would: an estimate, not a bound.
            change = float(np.max(np.abs(found - previous[0]) / np.sqrt(squares)[:, None]))
            change = max(change, float(np.max(np.abs(squares - previous[1]) / squares)))
            if noise_of(change + float(rounding), terms) <= tolerance:
                return found, squares, change + float(rounding)
        previous = found, squares
    raise InputError(
        f"the quadrature of {activation.name} settles to {change:.1e} only: its derivative is not square-integrable, "
        "jumps or bends elsewhere than at 0, or is computed in less than float64; give another activation (a spline, "
        "for kinks), or raise the tolerance"
    )


def check_integrable(activation: Activation, norms: Array, squares: Array) -> None:
    """Refuse derivatives that grow beyond squares of finite mean, are NaN somewhere, or 0 everywhere."""
    ends = np.array([-14.0, -13.0, 13.0, 14.0])
    with np.errstate(all="ignore"):
        steep = np.asarray(activation.derivative(np.outer(norms, ends)), dtype=np.float64)
        left = steep**2 * np.exp(-ends * ends / 2)
        decayed = np.isfinite(squares).all() and (left.max(axis=1) <= 1e-12 * squares).all()
    if not decayed:
        raise InputError(
            f"the derivative of {activation.name} grows so fast that the mean of its square is infinite or out of "
            f"reach for points of length {norms[-1]:.3g}, or is not finite somewhere; scale the points down, or give "
            "another activation"
        )
    if not (squares > 0).all():
        raise InputError(f"the derivative of {activation.name} is 0 everywhere; give an activation that changes")
