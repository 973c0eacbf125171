"""Activations that are quadratic between any breakpoints: both means by moments of truncated Gaussian pairs."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import scipy.special
from numpy.typing import ArrayLike

from implicit_bias.ground.checks import Array, InputError, as_floats, check_range
from implicit_bias.kernels.activations import Activation
from implicit_bias.kernels.angles import GaussianPairs

#: In place of the sine of an angle that is 0.
LEAST_SINE = 1e-300
#: Standard deviations beyond which nothing is left.
FAR = 1e3
#: Rounding of a moment, in units of the sum of its terms' sizes, times 2⁵².
ROUNDING = 32.0
#: Of breakpoints and coefficients.
SIZES = (1e-60, 1e60)


@dataclass(frozen=True)
class Truncated:
    """Σ_m b_m (z − `centre`)^m for z > `start`, b = `factors`; a polynomial for a start at −∞."""

    start: float
    centre: float
    factors: tuple[float, ...]


def spline(breaks: ArrayLike, pieces: list[ArrayLike]) -> Activation:
    """σ(z) = p_i(z) between the breakpoints t_i and t_{i+1}, each p_i of degree at most 2; σ need not be continuous.

    Hardtanh is `spline([-1, 1], [[-1], [0, 1], [1]])`, ReLU6 `spline([0, 6], [[0], [0, 1], [6]])`, hardswish
    `spline([-3, 3], [[0], [0, 1/2, 1/6], [0, 1]])`. σ and σ' are sums of b(z − t)₊^m, and of a polynomial, and

        E[(z − t)^m (z' − t')^m' 1(z > t) 1(z' > t')]

    follows by Stein's lemma from P(z > t, z' > t') in Owen's T function and moments of a truncated normal. In doubles
    only. σ' has no impulses: where σ itself jumps they do not count in E[σ'σ'].

    Parameters
    ----------
    breaks : array, shape (k,)
        t_1 < … < t_k, at least one.
    pieces : list of k + 1 arrays
        Coefficients c_0, c_1, c_2 of c_0 + c_1 z + c_2 z², from the left; fewer if the rest is 0.

    Raises
    ------
    InputError
        For breakpoints that do not ascend, pieces that are too many, too few or of a higher degree, a σ that is
        constant between all breakpoints, and sizes outside 1e-60 … 1e60.

    Examples
    --------
    >>> from implicit_bias.kernels import gram_matrix, spline
    >>> hardtanh = spline([-1, 1], [[-1], [0, 1], [1]])
    >>> gram_matrix([[1.0, 0.0], [0.6, 0.8]], hardtanh).values.round(6).tolist()
    [[0.682689, 0.308321], [0.308321, 0.682689]]
    """
    t = as_floats(breaks, "breaks", 1)
    if not (np.diff(t) > 0).all():
        raise InputError("breaks must ascend; give every breakpoint once, in order")
    if not isinstance(pieces, list | tuple) or len(pieces) != len(t) + 1:
        raise InputError(f"pieces must be a list of {len(t) + 1} polynomials, one more than there are breaks")
    c = np.zeros((len(pieces), 3))
    for row, piece in zip(c, pieces, strict=True):
        own = as_floats(piece, "a piece", 1)
        if len(own) > 3:
            raise InputError(f"a piece has at most three coefficients, c_0 + c_1 z + c_2 z², not {len(own)}")
        row[: len(own)] = own
    check_range(np.abs(np.concatenate([t[t != 0], c[c != 0], [1.0]])), "breaks and coefficients", *SIZES)
    slopes = c[:, 1:] * [1.0, 2.0]
    if not slopes.any():
        raise InputError("σ is constant between its breakpoints; give an activation that changes")
    whole, sloping = truncated(t, c), truncated(t, slopes)
    return Activation(
        f"spline of {len(t)} breakpoint{'s' if len(t) > 1 else ''}",
        lambda z: evaluated(t, c, z),
        lambda z: evaluated(t, slopes, z),
        lambda p: mean(p, sloping),
        lambda p: mean(p, whole),
        rounding=lambda lengths: rounding(sloping, lengths),
        dual_rounding=lambda lengths: rounding(whole, lengths),
        bend=lambda r: bend(slopes, sloping, r),
        slope_stretch=lambda lengths: slope_stretch(t, slopes, sloping, lengths),
        parity=parity(t, slopes),
    )


def evaluated(t: Array, c: Array, z: ArrayLike) -> Array:
    """The pieces at z of any shape; at a breakpoint that on its left."""
    at = np.asarray(z)
    rows = c[np.searchsorted(t, at)]
    powers = [rows[..., m] * at**m for m in range(c.shape[1])]
    return np.asarray(sum(powers))


def truncated(t: Array, c: Array) -> list[Truncated]:
    """The first piece as a polynomial, and the change of polynomial at every breakpoint, expanded there."""
    found = [Truncated(-math.inf, 0.0, tuple(c[0].tolist()))]
    for start, before, after in zip(t.tolist(), c, c[1:], strict=False):
        change = np.polynomial.Polynomial(after - before)(np.polynomial.Polynomial([start, 1.0]))
        factors = np.zeros(c.shape[1])
        factors[: len(change.coef)] = change.coef
        found.append(Truncated(start, start, tuple(factors.tolist())))
    return [part for part in found if any(part.factors)]


def parity(t: Array, slopes: Array) -> str | None:
    """See `Activation.parity`."""
    mirrored = slopes[::-1] * np.array([1.0, -1.0])
    if not np.array_equal(t, -t[::-1]):
        return None
    if np.array_equal(slopes, mirrored):
        return "even"
    if np.array_equal(slopes, -mirrored):
        return "odd"
    both = slopes + mirrored
    return "half" if not np.ptp(both, axis=0).any() and both[0, 0] and not both[0, 1] else None


def mean(p: GaussianPairs, parts: list[Truncated]) -> Array:
    """E[f(z)f(z')] of a sum of truncated polynomials."""
    if np.asarray(p.angle).dtype == object:
        raise InputError("splines are known in doubles only; leave out digits")
    total = 0.0 * p.cosine
    for one, other in itertools.product(parts, parts):
        moments = pair_moments(p, one, other)
        for (m, b), (k, b_other) in itertools.product(enumerate(one.factors), enumerate(other.factors)):
            if b * b_other:
                total = total + b * b_other * moments[m, k]
    return np.asarray(total)


def pair_moments(p: GaussianPairs, one: Truncated, other: Truncated) -> dict[tuple[int, int], Array]:
    """E[(z − o)^m (z' − o')^k 1(z > t) 1(z' > t')] for all m, k that the two have factors for.

    E[z g] = r² E[∂g/∂z] + c E[∂g/∂z'] lowers m by one; a derivative of 1(z > t) leaves the density of z at t times a
    moment of z' given z = t, which matters where (z − o)^0 is left of its power.
    """
    c, r2, s2 = p.r * p.s * p.cosine, p.r**2, p.s**2
    M, K = len(one.factors), len(other.factors)
    at_one = conditional(p, one.start, other, K)
    at_other = conditional(GaussianPairs(p.s, p.r, p.cosine, p.angle), other.start, one, M)
    found = {(0, 0): both_beyond(p, one.start, other.start)}
    for k in range(1, K):
        value = -other.centre * found[0, k - 1] + c * at_one[k - 1]
        value = value + s2 * ((k - 1) * found[0, k - 2] if k > 1 else at_other[0])
        found[0, k] = value
    for m, k in itertools.product(range(1, M), range(K)):
        value = -one.centre * found[m - 1, k]
        value = value + r2 * ((m - 1) * found[m - 2, k] if m > 1 else at_one[k])
        found[m, k] = value + c * (k * found[m - 1, k - 1] if k > 0 else at_other[m - 1])
    return found


def conditional(p: GaussianPairs, t: float, other: Truncated, powers: int) -> list[Array]:
    """The density of z at t times E[(z' − o')^k 1(z' > t') | z = t] for k below `powers`; 0 for t at −∞."""
    if math.isinf(t):
        return [0.0 * p.cosine] * powers
    spread = p.s * np.maximum(np.sin(p.angle), LEAST_SINE)
    density = np.exp(-((t / p.r) ** 2) / 2) / (math.sqrt(2 * math.pi) * p.r)
    middle = t * p.s * p.cosine / p.r
    if math.isinf(other.start):
        above, edge = 1.0 + 0.0 * middle, 0.0 * middle
    else:
        # `middle` less the start, which is 0 for equal points and breakpoints, and not their rounding.
        ahead = ((t * p.s - other.start * p.r) - t * p.s * (2 * np.sin(p.angle / 2) ** 2)) / p.r
        with np.errstate(over="ignore"):
            beyond = np.minimum(np.maximum(ahead / spread, -FAR), FAR)
        above, edge = scipy.special.ndtr(beyond), np.exp(-beyond * beyond / 2) / (math.sqrt(2 * math.pi) * spread)
    found = [above]
    for k in range(1, powers):
        more = (k - 1) * found[k - 2] if k > 1 else edge
        found.append((middle - other.centre) * found[k - 1] + spread * spread * more)
    return [density * value for value in found]


def both_beyond(p: GaussianPairs, t: float, u: float) -> Array:
    """P(z > t, z' > u) by Owen's T function."""
    # No −0.0, whose quotients have another sign.
    flat = np.zeros(np.shape(p.cosine))
    if math.isinf(t) or math.isinf(u):
        return flat + (1.0 if math.isinf(t) else scipy.special.ndtr(-t / p.r)) * (
            1.0 if math.isinf(u) else scipy.special.ndtr(-u / p.s)
        )
    if t == u == 0:
        return np.asarray((np.pi - p.angle) / (2 * np.pi))
    h, k = -t / p.r + flat, -u / p.s + flat
    sine, less = np.maximum(np.sin(p.angle), LEAST_SINE), 2 * np.sin(p.angle / 2) ** 2
    with np.errstate(divide="ignore", over="ignore"):
        first = ((k - h) + h * less) / (h * sine)
        second = ((h - k) + k * less) / (k * sine)
    tails = scipy.special.owens_t(h, first) + scipy.special.owens_t(k, second)
    opposite = (h * k < 0) | ((h * k == 0) & (h + k < 0))
    return np.asarray((scipy.special.ndtr(h) + scipy.special.ndtr(k)) / 2 - tails - np.where(opposite, 0.5, 0.0))


def rounding(parts: list[Truncated], lengths: Array) -> float:
    """The error of E[f(z)f(z')] over √(E[f(z)²] E[f(z')²]), in units of 2⁻⁵²: of sums of terms that may cancel."""
    size = 0.0 * lengths
    for part in parts:
        for m, b in enumerate(part.factors):
            size = size + abs(b) * (2 * (abs(part.centre) + (m + 1) * lengths)) ** m
    return float((ROUNDING * size**2 / squares(parts, lengths)).max())


def squares(parts: list[Truncated], lengths: Array) -> Array:
    """E[f(rz)²] for lengths r (p,); refused where it is 0."""
    zeros = 0.0 * lengths
    found = mean(GaussianPairs(lengths, lengths, zeros + 1, zeros), parts)
    if not (found > 0).all():
        raise InputError("the spline does not change where these points are; scale them up")
    return found


def roughness(slopes: Array, sloping: list[Truncated]) -> tuple[float, float]:
    """Σ|jumps of σ'|, and the largest |σ''| between them."""
    jumps = sum(abs(part.factors[0]) for part in sloping if math.isfinite(part.start))
    return jumps, float(np.abs(slopes[:, 1]).max())


def bend(slopes: Array, sloping: list[Truncated], r: float) -> float:
    """(J/√2π + rg)² over the least E[σ'²], which bounds rr' sin θ |E[σ''(z)σ''(z')]|.

    J is the sum of the jumps, at two of which the density of the pair is at most 1/(2πrr' sin θ), and g the largest
    |σ''| between them.
    """
    jumps, steepest = roughness(slopes, sloping)
    return (jumps / math.sqrt(2 * math.pi) + r * steepest) ** 2 / float(squares(sloping, np.array([r]))[0])


def slope_stretch(t: Array, slopes: Array, sloping: list[Truncated], lengths: Array) -> float:
    """A bound of r |∂E[σ'(rz)σ'(z')]/∂r| over √(E[σ'²] E[σ'²]) of these lengths.

    A jump at t adds |t| times the density of z there, at most 0.242, times the mean of |σ'(z')| given z = t.
    """
    jumps, steepest = roughness(slopes, sloping)
    least = float(squares(sloping, lengths).min())
    far = float(lengths.max()) * (1 + float(np.abs(t).max()) / float(lengths.min()))
    height = float(np.abs(evaluated(t, slopes, 0.0))) + jumps + steepest * far
    return (0.242 * jumps * height / math.sqrt(least) + float(lengths.max()) * steepest) / math.sqrt(least)
