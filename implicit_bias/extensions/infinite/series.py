"""Hermite series of E[σ'(z)σ'(z')] and E[σ(z)σ(z')] for points of given lengths, with a bound of the tail.

The coefficients are computed by quadrature, with an error bound if σ' is analytic in a strip.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from implicit_bias._utils.blocks import row_blocks
from implicit_bias._utils.checks import Array, InputError
from implicit_bias.extensions.infinite.activations import Activation, Strip
from implicit_bias.extensions.infinite.angles import GaussianPairs
from implicit_bias.extensions.infinite.special import Number, Numbers, context_of, exp, log, pi, sqrt, unit_of

#: Largest number of terms of a series.
MAX_TERMS = 2048
#: Number of panel sizes within which the quadrature of a custom activation must converge.
PANEL_LEVELS = 7
#: Number of nodes in memory at once; their sums are added afterwards.
CHUNK = 32
#: Largest number of products in extended precision, which is slow; beyond it, doubles are used.
MAX_EXTENDED_PRODUCTS = 2e8
#: Largest number of products of nodes, lengths and terms; more would take minutes.
MAX_PRODUCTS = 2e11
#: Number of values of σ in memory at once.
CHUNK_VALUES = 2**22
#: Target error of quadrature in doubles, negligible compared with rounding.
TARGET = 1e-20


@dataclass(frozen=True)
class _HermiteSeries:
    """E[σ'(z)σ'(z')] = Σ_k a_k(r) a_k(s) cos^k θ for pairs of standard deviations r, s at an angle θ.

    `coefficients` (p, K + 1) are a_k(r) = E[σ'(rz) he_k(z)] with z ~ N(0, 1) and he_k = He_k/√k!, for the ascending
    lengths `norms` (p,). `mean_squares` (p,) are E[σ'(rz)²] = Σ_k a_k(r)². `error` is a bound of the error off the
    diagonal, relative to √(E[σ'(rz)²] E[σ'(sz)²]).
    """

    norms: Numbers
    coefficients: Numbers
    mean_squares: Numbers
    error: Number

    def __call__(self, pairs: GaussianPairs) -> Numbers:
        """Evaluate the series by Horner's rule; for a point and itself, return `mean_squares`."""
        # For a single length, each term needs one product instead of one per pair.
        r, s = (self._rows(lengths if len(self.norms) > 1 else self.norms[0]) for lengths in (pairs.r, pairs.s))
        # For an even or odd function, every second coefficient is 0.
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

    def dual(self, means: Array, means_error: float) -> _HermiteSeries:
        """Return the series of E[σ(rz)σ(sz')], from the means E[σ(rz)] (p,) and a bound of their error.

        Its coefficients are the means and r a_{k−1}(r)/√k. By Price's theorem, E[σ(rz)σ(sz')] off the diagonal is
        E[σ(rz)] E[σ(sz')] + rs ∫_0^ρ E[σ'(rz)σ'(sz')] dρ, which bounds its error.
        """
        k = np.arange(1, self.coefficients.shape[1] + 1)
        coefficients = np.column_stack([means, self.coefficients * self.norms[:, None] / np.sqrt(k)])
        squares = (coefficients**2).sum(axis=1)
        shares = self.norms**2 * self.mean_squares / squares
        rounding = _evaluation_error(coefficients, squares, 0, self.norms)
        error = shares.max() * self.error + 2 * means_error / math.sqrt(squares.min()) + rounding
        return _HermiteSeries(self.norms, coefficients, squares, float(error))

    def _rows(self, norms: Numbers) -> Numbers:
        """Return a_0 … a_K at lengths of any shape that `self.norms` contains, shape (K + 1, …)."""
        return np.ascontiguousarray(np.moveaxis(self.coefficients[np.searchsorted(self.norms, norms)], -1, 0))


def hermite_series(
    activation: Activation, norms: Numbers, cosine: Number, tolerance: Number, inputs: int = 1
) -> _HermiteSeries:
    """Return a series with enough terms for an error of at most `tolerance` in pairs with |cos θ| ≤ `cosine` ≤ 1.

        |Σ_{k>K} a_k(r) a_k(s) cos^k θ| ≤ |cos θ|^{K+1} √(T(r) T(s)),   T(r) = E[σ'(rz)²] − Σ_{k≤K} a_k(r)²

    by the Cauchy–Schwarz inequality and Parseval's identity, so that the tail is bounded without its coefficients.

    The lengths of the points, `norms`, are float64 or mpmath numbers. The tolerance is relative to
    √(E[σ'(rz)²] E[σ'(sz)²]). Cosines have the rounding error of sums over d = `inputs` products. Raises InputError if
    2048 terms are not enough, the tolerance is below rounding, or σ' is zero or not square-integrable.
    """
    norms = np.unique(norms)
    terms = 128
    while True:
        coefficients, squares, noise = _integrate(activation, norms, terms, tolerance)
        left = 1 - np.cumsum(coefficients**2, axis=1) / squares[:, None]
        # Errors of rounding and quadrature can hide a part of the tail, and are added to it.
        floor = 4 * math.sqrt(terms + 1) * noise
        left = np.abs(left).max(axis=0) + floor
        bound = left * cosine ** np.arange(1, terms + 2)
        if _noise_of(noise, terms) > tolerance:
            raise InputError(
                f"the series of {activation.name} is known to {float(_noise_of(noise, terms)):.1e} at best here; "
                "raise the tolerance"
            )
        # Aim at a thousandth of the tolerance, and accept the tolerance itself at the largest number of terms.
        enough = np.flatnonzero(bound <= max(tolerance / 1000, 2 * floor))
        if len(enough) or (terms >= MAX_TERMS and bound[-1] <= tolerance):
            last = int(enough[0]) + 1 if len(enough) else terms + 1
            rounding = _evaluation_error(coefficients[:, :last], squares, inputs, norms)
            error = bound[last - 1] + _noise_of(noise, last) + rounding
            return _HermiteSeries(norms, _as_stored(coefficients[:, :last]), _as_stored(squares), error)
        if terms >= MAX_TERMS:
            # For layers, the cosine is 1, whatever the points are.
            remedy = "remove nearly parallel ones, " if cosine < 1 else ""
            remedy += "or raise the tolerance" if context_of(norms) is None else "or take fewer digits"
            raise InputError(
                f"{MAX_TERMS} terms of the series of {activation.name} leave an error of {float(bound[-1]):.1e} for "
                f"points of lengths up to {float(norms[-1]):.3g} and cosines up to {float(cosine):.6g}; "
                f"scale the points down, {remedy}"
            )
        terms *= 4


def _as_stored(values: Numbers) -> Numbers:
    return values if values.dtype == object else values.astype(np.float64)


def _noise_of(noise: Number, terms: int) -> Number:
    """Bound the relative error of a sum over k ≤ `terms`, if each a_k(r) has one of at most `noise` √E[σ'(rz)²]."""
    size = math.sqrt(terms + 1) * noise
    return 2 * size + size * size


def _evaluation_error(coefficients: Numbers, squares: Numbers, inputs: int, norms: Numbers) -> Number:
    """Bound the relative rounding error of a series: Horner's rule, coefficients, and cosines of `inputs` products."""
    weights = (inputs + 8) * np.arange(coefficients.shape[1]) + 8
    return unit_of(norms) * ((coefficients**2 * weights).sum(axis=1) / squares).max()


def _integrate(
    activation: Activation, norms: Numbers, terms: int, tolerance: Number
) -> tuple[Numbers, Numbers, Number]:
    """Return Hermite coefficients a_0 … a_terms of σ'(rz) (p, terms + 1), E[σ'(rz)²] (p,), and one error.

    The lengths r = `norms` (p,) ascend. The error is that of all a_k, over √E[σ'(rz)²]: a bound if the activation
    has a strip, otherwise an estimate of at most about `tolerance`, or InputError if no refinement reaches it.
    """
    if activation.strip is not None:
        rule = _strip_rule(activation.strip, norms, terms, tolerance)
        coefficients, squares, rounding = _coefficients(activation, norms, rule, terms)
        # The error of a certified rule is absolute.
        return coefficients, squares, rounding + rule.error / min(sqrt(np.asarray(min(squares))), min(squares))
    if context_of(norms) is not None:
        raise InputError(f"{activation.name} is known in doubles only; leave out digits")
    previous: tuple[Numbers, Numbers] | None = None
    for level in range(PANEL_LEVELS):
        rule = panel_rule(float(norms[-1]), terms, level)
        with np.errstate(over="ignore", invalid="ignore"):
            coefficients, squares, rounding = _coefficients(activation, norms, rule, terms)
        _check_integrable(activation, norms, squares)
        if previous is not None:
            # The change by the last halving estimates the remaining error; it is not a bound.
            change = float(np.max(np.abs(coefficients - previous[0]) / np.sqrt(squares)[:, None]))
            change = max(change, float(np.max(np.abs(squares - previous[1]) / squares)))
            if _noise_of(change + float(rounding), terms) <= tolerance:
                return coefficients, squares, change + float(rounding)
        previous = coefficients, squares
    raise InputError(
        f"the quadrature of {activation.name} converges to {change:.1e} only: its derivative is not square-integrable, "
        "has jumps or kinks away from 0, or is computed in less than float64; use a spline for kinks, or raise the "
        "tolerance"
    )


def _check_integrable(activation: Activation, norms: Array, squares: Array) -> None:
    ends = np.array([-14.0, -13.0, 13.0, 14.0])
    with np.errstate(all="ignore"):
        steep = np.asarray(activation.derivative(np.outer(norms, ends)), dtype=np.float64)
        left = steep**2 * np.exp(-ends * ends / 2)
        decayed = np.isfinite(squares).all() and (left.max(axis=1) <= 1e-12 * squares).all()
    if not decayed:
        raise InputError(
            f"the derivative of {activation.name} grows so fast that the mean of its square is infinite or cannot be "
            f"computed for points of length {norms[-1]:.3g}, or is not finite somewhere; scale the points down, or use "
            "another activation"
        )
    if not (squares > 0).all():
        raise InputError(f"the derivative of {activation.name} is 0 everywhere; use another activation")


@dataclass(frozen=True)
class _Rule:
    """Quadrature ∫ f(x) φ(x) dx ≈ Σ_m `weights`_m (f(`nodes`_m) + f(−`nodes`_m)), φ the standard normal density.

    `error` is a bound of the errors of E[σ'(rz) he_k(z)] and E[σ'(rz)²], or NaN if none is known.
    """

    nodes: Numbers
    weights: Numbers
    error: Number


def _strip_rule(strip: Strip, norms: Numbers, terms: int, tolerance: Number) -> _Rule:
    """Return the trapezoidal rule with a step h, for σ' analytic and bounded by M in the strip |Im z| ≤ `width`.

        |error| ≤ 2 (1 + M²) e^{a²/2 + a√k} / (e^{2πa/h} − 1),    a ≤ width/r for every length r

    The integrand on the lines Im x = ±a is at most M e^{a²/2} φ(x) |he_k(x ± ia)|, and
    E|he_k(z + ia)|² = Σ_j binom(k, j) a^{2j}/j! ≤ e^{2a√k}. The part beyond ±T is at most 2 (1 + M²) e^{−T²/4}, since
    |he_k(x)| ≤ 1.09 e^{x²/4} (Cramér). The `error` is TARGET in doubles, and 1e-8 `tolerance` in multiprecision, for
    all k ≤ `terms`.
    """
    context = context_of(norms)
    target = TARGET if context is None else context.mpf(tolerance) / 10**8
    exponent = float(-log(np.asarray(target)) + math.log(4 * (1 + strip.bound**2)))
    a = min(strip.width / float(norms[-1]), 1.5)
    h = 2 * math.pi * a / (exponent + a * a / 2 + a * math.sqrt(terms) + 1)
    # A power of two: nodes are exact in every arithmetic.
    h = 2.0 ** math.floor(math.log2(h))
    count = math.ceil(2 * math.sqrt(exponent) / h)
    if count * len(norms) * terms > MAX_PRODUCTS:
        raise InputError(
            f"{len(norms)} different lengths up to {float(norms[-1]):.3g} need too many nodes of quadrature; "
            "scale the points down"
        )
    indices = np.arange(count + 1)
    # The node 0 is its own opposite.
    share = np.where(indices == 0, 0.5, 1.0)
    number: Any = np.longdouble if context is None else np.frompyfunc(context.mpf, 1, 1)
    nodes = number(indices) * h
    return _Rule(nodes, exp(-nodes * nodes / 2) / sqrt(2 * pi(nodes) + 0 * nodes) * h * share, target)


def panel_rule(longest: float, terms: int, level: int, refinements: int = 24) -> _Rule:
    """Return Gauss–Legendre rules with 16 nodes on panels of [−14, 14], refined at 0 for jumps and kinks of σ'.

    Panels suit he_k of k ≤ `terms` and points of lengths up to `longest`; each `level` halves them. The one at 0 is
    halved `refinements` times, and four times more for each level. The error is NaN.
    """
    x, w = np.polynomial.legendre.leggauss(16)
    width = min(1.0, 8 / math.sqrt(terms), 4 / longest) / 2**level
    count = math.ceil(14 / width)
    if 32 * count > 2**22:
        raise InputError(f"points of length {longest:.3g} need too many nodes of quadrature; scale the points down")
    edges = np.concatenate(
        [[0.0], width * 0.5 ** np.arange(refinements + 4 * level, 0, -1.0), width * np.arange(1, count + 1)]
    )
    middle, half = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    right = (middle[:, None] + half[:, None] * x).ravel().astype(np.longdouble)
    weights = (half[:, None] * w).ravel() * np.exp(-right * right / 2) / np.sqrt(2 * np.longdouble(np.pi))
    return _Rule(right, weights, math.nan)


def _coefficients(activation: Activation, norms: Numbers, rule: _Rule, terms: int) -> tuple[Numbers, Numbers, Number]:
    """Return E[σ'(rz) he_k(z)], k = 0 … terms (p, terms + 1), E[σ'(rz)²] (p,), and the rounding over its root."""
    coarse = rule.nodes.dtype != object and len(norms) * len(rule.nodes) * terms > MAX_EXTENDED_PRODUCTS
    even: Number = 0
    odd: Number = 0
    squares: Number = 0
    for first in range(0, len(rule.nodes), CHUNK):
        chosen = slice(first, first + CHUNK)
        nodes, weights = rule.nodes[chosen], rule.weights[chosen]
        basis = _hermite_functions(nodes, terms)
        if coarse:
            nodes, weights, basis = (part.astype(np.float64) for part in (nodes, weights, basis))
        right = np.asarray(activation.derivative(np.multiply.outer(norms, nodes)))
        left = np.asarray(activation.derivative(np.multiply.outer(norms, -nodes)))
        squares = squares + (right * right + left * left) @ weights
        right, left = right * weights, left * weights
        even = even + (right + left) @ basis[:, 0::2]
        odd = odd + (right - left) @ basis[:, 1::2]
    coefficients = np.empty((len(norms), terms + 1), dtype=np.asarray(even).dtype)
    coefficients[:, 0::2], coefficients[:, 1::2] = even, odd
    # Largest number of additions of a term: within its chunk, and of all chunks.
    additions = CHUNK + len(rule.nodes) / CHUNK
    context, doubles = context_of(norms), np.finfo(np.float64).eps
    fine = np.finfo(np.longdouble).eps if context is None else context.eps
    # A custom derivative is rounded to doubles, whatever the precision of its argument.
    rounding = 8 * doubles if coarse or activation.strip is None else 0
    return coefficients, squares, rounding + (doubles if coarse else 0) * additions + fine * (additions + 4 * terms)


def _hermite_functions(nodes: Numbers, terms: int) -> Numbers:
    """Return he_0 … he_terms at the nodes, (N, terms + 1), by √(k+1) he_{k+1} = x he_k − √k he_{k−1}."""
    roots = sqrt(np.arange(terms + 1) + 0 * nodes[:1])
    basis = np.empty((terms + 1, len(nodes)), dtype=nodes.dtype)
    basis[0] = 1 + 0 * nodes
    basis[1] = nodes
    for k in range(1, terms):
        basis[k + 1] = (nodes * basis[k] - roots[k] * basis[k - 1]) * (1 / roots[k + 1])
    return basis.T


def means(activation: Activation, norms: Array) -> tuple[Array, float]:
    """Return E[σ(rz)] (p,) for lengths r (p,), z ~ N(0, 1), and its error: a bound if σ has a strip, or an estimate.

    In the strip, |σ(z)| ≤ |σ(0)| + M|z| replaces M in the error of the rule.
    """
    strip, eps = activation.strip, float(np.finfo(float).eps)
    rules = [_strip_rule(strip, norms, 1, TARGET)] if strip else [panel_rule(float(norms[-1]), 64, i) for i in (0, 1)]
    values, sizes = np.empty((len(rules), len(norms))), np.empty(len(norms))
    for i, rule in enumerate(rules):
        nodes, weights = rule.nodes.astype(np.float64), rule.weights.astype(np.float64)
        for rows in row_blocks(len(norms), max(1, CHUNK_VALUES // len(nodes))):
            at = np.multiply.outer(norms[rows], nodes)
            right, left = np.asarray(activation.function(at)), np.asarray(activation.function(-at))
            # Adding opposite nodes first makes the mean of an odd σ exactly 0.
            values[i, rows], sizes[rows] = (right + left) @ weights, (np.abs(right) + np.abs(left)) @ weights
    error = float(np.abs(values[-1] - values[0]).max()) + 64 * eps * float(sizes.max())
    if strip:
        bound = abs(float(activation.function(0.0))) + strip.bound * (norms[-1] + strip.width)
        error += float(rules[0].error) * bound
    return values[-1], error
