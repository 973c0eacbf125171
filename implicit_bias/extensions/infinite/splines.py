"""Activations that are piecewise quadratic or exponential, and the Gaussian means of their truncated terms.

The mean of the product of two truncated terms of a Gaussian pair has a closed form in probabilities of normal wedges.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.special
from numpy.typing import ArrayLike

from implicit_bias._utils.checks import Array, InputError, as_floats, check_range, shown
from implicit_bias.extensions.infinite.activations import Activation
from implicit_bias.extensions.infinite.angles import GaussianPairs
from implicit_bias.extensions.infinite.special import wedge_double

#: Rounding error of a moment, in units of 2⁻⁵² times the sum of its terms' sizes.
ROUNDING = 32.0
#: Range of sizes of breakpoints, coefficients, and factors and rates of exponentials.
SIZE_RANGE = (1e-60, 1e60)
#: Replacement for the sine of an angle of 0, because breakpoints are divided by it.
MIN_SINE = 1e-150


@dataclass(frozen=True)
class _Truncated:
    """Term Σ_m b_m (u − `centre`)^m e^{−`decay` (u − `start`)} 1(u > `start`), u = `side` z; b are the `factors`."""

    #: −∞ for a term that is not truncated.
    start: float
    centre: float
    factors: tuple[float, ...]
    decay: float = 0.0
    side: int = 1


class _NormalPairs(NamedTuple):
    """Gaussian pairs (u, u') with standard deviations r and s and correlation ρ."""

    r: Array
    s: Array
    rho: Array
    #: √(1 − ρ²), without cancellation.
    sine: Array
    #: 1 − |ρ|, without cancellation.
    complement: Array

    @classmethod
    def of(cls, p: GaussianPairs) -> _NormalPairs:
        """Return standard deviations and correlation of pairs (z, z'), with √(1 − ρ²) and 1 − |ρ|."""
        half = np.where(p.cosine >= 0, np.sin(p.angle / 2), np.cos(p.angle / 2))
        return cls(p.r, p.s, p.cosine, np.maximum(np.sin(p.angle), MIN_SINE), 2 * half**2)

    def signed(self, sign: int) -> _NormalPairs:
        """Return the pairs (u, ±u'), with the correlation `sign` · ρ."""
        return self._replace(rho=sign * self.rho)

    def swapped(self) -> _NormalPairs:
        """Return the pairs (u', u)."""
        return self._replace(r=self.s, s=self.r)

    def offset(self, t: float, other: float) -> Array:
        """Return r (E[u' | u = t] − t') = ρts − t'r for t' = `other`; exactly 0 for t = t', r = s, ρ = 1."""
        projection = np.where(self.rho >= 0, t * self.s - other * self.r, -(t * self.s + other * self.r))
        return np.asarray(projection - np.where(self.rho >= 0, 1.0, -1.0) * t * self.s * self.complement)


def _mean(p: GaussianPairs, parts: list[_Truncated]) -> Array:
    """Return E[f(z)f(z')] of the sum f of the truncated terms `parts`, in the shape of the pairs."""
    if np.asarray(p.angle).dtype == object:
        raise InputError("splines are known in doubles only; leave out digits")
    normal_pairs, total = _NormalPairs.of(p), 0.0 * p.cosine
    for one, other in itertools.product(parts, parts):
        moments = _pair_moments(normal_pairs.signed(one.side * other.side), one, other)
        for (m, b), (k, b_other) in itertools.product(enumerate(one.factors), enumerate(other.factors)):
            if b * b_other:
                total = total + b * b_other * moments[m, k]
    return np.asarray(total)


def _pair_moments(p: _NormalPairs, one: _Truncated, other: _Truncated) -> dict[tuple[int, int], Array]:
    """Return E[(u − o)^m (u' − o')^k e^{−λ(u − t) − λ'(u' − t')} 1(u > t) 1(u' > t')] by (m, k), for all with factors.

    Start t, centre o and decay λ are those of `one`, with a prime those of `other`; its sides are ignored, because `p`
    are the pairs (u, u'). The exponentials shift the means to μ and μ'. For the shifted pair, Stein's lemma
    E[(u − μ) g] = r² E[∂g/∂u] + c E[∂g/∂u'] reduces m by one. The derivative of 1(u > t) contributes the density of u
    at t times a moment of u' given u = t; this contribution vanishes unless the power of u − o is 0.
    """
    moments = {(0, 0): _exponential_mean(p, one, other)}
    M, K = len(one.factors), len(other.factors)
    if M == K == 1:
        return moments
    c, r2, s2 = p.r * p.s * p.rho, p.r**2, p.s**2
    centre = one.centre + one.decay * r2 + other.decay * c
    other_centre = other.centre + other.decay * s2 + one.decay * c
    at_one, at_other = _conditional(p, one, other, K), _conditional(p.swapped(), other, one, M)
    for k in range(1, K):
        value = -other_centre * moments[0, k - 1] + c * at_one[k - 1]
        value = value + s2 * ((k - 1) * moments[0, k - 2] if k > 1 else at_other[0])
        moments[0, k] = value
    for m, k in itertools.product(range(1, M), range(K)):
        value = -centre * moments[m - 1, k]
        value = value + r2 * ((m - 1) * moments[m - 2, k] if m > 1 else at_one[k])
        moments[m, k] = value + c * (k * moments[m - 1, k - 1] if k > 0 else at_other[m - 1])
    return moments


def _scaled_cdf(x: Array, top: Array, edge: Array) -> Array:
    """Return e^`top` Φ(x), where `edge` = `top` − x²/2 is given without the rounding of that difference."""
    inside = x > 0
    tail = np.where(inside, scipy.special.ndtr(x), scipy.special.erfcx(np.abs(x) / math.sqrt(2)) / 2)
    return np.asarray(np.exp(np.where(inside, top, edge)) * tail)


def _conditional(p: _NormalPairs, one: _Truncated, other: _Truncated, powers: int) -> list[Array]:
    """Return the density of u at t times E[(u' − o')^k e^{−λ'(u' − t')} 1(u' > t') | u = t] for k < `powers`."""
    t = one.start
    if math.isinf(t):
        return [0.0 * p.rho] * powers
    spread = p.s * p.sine
    density = -((t / p.r) ** 2) / 2
    middle = t * p.s * p.rho / p.r
    if math.isinf(other.start):
        above, edge = np.exp(density) + 0.0 * middle, 0.0 * middle
    else:
        offset = p.offset(t, other.start) / p.r
        with np.errstate(over="ignore"):
            beyond = offset / spread
            foot = density - beyond**2 / 2
            top = density - other.decay * offset + (other.decay * spread) ** 2 / 2
            above = _scaled_cdf(beyond - other.decay * spread, top, foot)
        edge = np.exp(foot) / (math.sqrt(2 * math.pi) * spread)
    middle = middle - other.decay * spread**2
    moments = [above]
    for k in range(1, powers):
        more = (k - 1) * moments[k - 2] if k > 1 else edge
        moments.append((middle - other.centre) * moments[k - 1] + spread * spread * more)
    return [value / (math.sqrt(2 * math.pi) * p.r) for value in moments]


def _exponential_mean(p: _NormalPairs, one: _Truncated, other: _Truncated) -> Array:
    """Return E[e^{−λ(u − t) − λ'(u' − t')} 1(u > t) 1(u' > t')], with starts t, t' and decays λ, λ' of the terms.

    This equals e^v P(n < h, n' < k) for standard normal n, n' of correlation ρ. Here e^v is the mean without the
    indicators. The exponentials shift the mean of the pair, and h and k are its distances from the edges u = t and
    u' = t' in standard deviations, positive inside. Let the corner (t, t') be at the distance β from this mean, with
    components g and g' along the edges. With sums over both edges,

        P = 1(h ≥ 0, k ≥ 0) − Σ sgn(h) Φ(−|h|) 1(g > 0) + Σ sgn(h) sgn(g) e^{−β²/2} J(β, arctan |g/h|)

    where J(β, ψ) = ¼ erfcx(β/√2) − F(β, ψ). The exponents of these terms are at most 0, so that rounding errors are not
    magnified, however large the shift is.
    """
    if math.isinf(one.start) or math.isinf(other.start):
        return _single_mean(p.r, one) * _single_mean(p.s, other) + 0.0 * p.rho
    t, t_other = one.start, other.start
    if not one.decay and not other.decay:
        return _quadrant_probability(p, t, t_other)
    a, b = one.decay * p.r, other.decay * p.s
    with np.errstate(over="ignore", invalid="ignore"):
        offset, back = p.offset(t, t_other), p.swapped().offset(t_other, t)
        slant = offset / (p.r * p.s * p.sine)
        h, g = -a - b * p.rho - t / p.r, slant - b * p.sine
        # A rotation, so that both edges have exactly the same corner.
        k, g_other = p.rho * h + p.sine * g, p.sine * h - p.rho * g
        beta = np.hypot(h, g)
        twice = np.where(p.rho >= 0, (a + b) ** 2 - 2 * a * b * p.complement, (a - b) ** 2 + 2 * a * b * p.complement)
        mean_height = twice / 2 + one.decay * t + other.decay * t_other
        total = np.where((h >= 0) & (k >= 0), np.exp(np.minimum(mean_height, 1.0)), 0.0)
        corner = np.exp(-((t / p.r) ** 2 + slant**2) / 2)
        feet = (
            (h, g, (b * p.sine) ** 2 / 2 - other.decay * offset / p.r - (t / p.r) ** 2 / 2),
            (k, g_other, (a * p.sine) ** 2 / 2 - one.decay * back / p.s - (t_other / p.s) ** 2 / 2),
        )
        for x, distance, foot in feet:
            sign, inside = np.where(x >= 0, 1.0, -1.0), distance > 0
            tail = np.exp(np.minimum(foot, 1.0)) * scipy.special.erfcx(np.abs(x) / math.sqrt(2)) / 2
            rest = scipy.special.erfcx(beta / math.sqrt(2)) / 4 - wedge_double(beta, np.arctan2(abs(distance), abs(x)))
            total = total + sign * (np.where(inside, 1.0, -1.0) * corner * rest - np.where(inside, tail, 0.0))
    # The angles are undefined if the corner is at the mean.
    centred = corner * (math.pi - np.arctan2(p.sine, p.rho)) / (2 * math.pi)
    return np.asarray(np.where(beta == 0, centred, total))


def _quadrant_probability(p: _NormalPairs, t: float, t_other: float) -> Array:
    if t == t_other == 0:
        return np.asarray(0.5 - np.arctan2(p.sine, p.rho) / (2 * math.pi))
    # Adding 0.0 removes −0.0, whose quotients have the opposite sign.
    flat, size = np.zeros(np.shape(p.rho)), p.r * p.s * p.sine
    h, k = -t / p.r + flat, -t_other / p.s + flat
    with np.errstate(divide="ignore", over="ignore"):
        slants = p.offset(t, t_other) / size / h, p.swapped().offset(t_other, t) / size / k
    tails = scipy.special.owens_t(h, slants[0]) + scipy.special.owens_t(k, slants[1])
    opposite = (h * k < 0) | ((h * k == 0) & (h + k < 0))
    return np.asarray((scipy.special.ndtr(h) + scipy.special.ndtr(k)) / 2 - tails - np.where(opposite, 0.5, 0.0))


def _single_mean(r: Array, term: _Truncated) -> Array:
    """Return E[e^{−λ(u − t)} 1(u > t)] for u ~ N(0, r²)."""
    t = term.start
    if math.isinf(t):
        return 1.0 + 0.0 * r
    edge = -((t / r) ** 2) / 2
    with np.errstate(over="ignore"):
        return _scaled_cdf(-term.decay * r - t / r, (term.decay * r) ** 2 / 2 + term.decay * t, edge)


class _Exponential(NamedTuple):
    """Exponential `height` · e^{`rate` (z − `end`)} on one piece, where `end` is the end at which it is largest."""

    piece: int
    rate: float
    end: float
    height: float


@dataclass(frozen=True, eq=False)
class _Pieces:
    """Piecewise function of z: Σ_m c_im z^m on piece i between breakpoints t (k,), plus exponentials; c (k + 1, M)."""

    t: Array
    c: Array
    exponentials: tuple[_Exponential, ...]

    def __call__(self, z: ArrayLike) -> Array:
        """Return the values at z of any shape; a breakpoint belongs to the piece on its left."""
        at = np.asarray(z)
        pieces = np.searchsorted(self.t, at)
        value = sum(self.c[pieces, m] * at**m for m in range(self.c.shape[1]))
        for term in self.exponentials:
            here = pieces == term.piece
            value += np.where(here, term.height * np.exp(term.rate * (np.where(here, at, term.end) - term.end)), 0.0)
        return np.asarray(value)

    @property
    def slope(self) -> _Pieces:
        """Derivative between the breakpoints."""
        slopes = (term._replace(height=term.rate * term.height) for term in self.exponentials)
        return _Pieces(self.t, self.c[:, 1:] * np.arange(1.0, self.c.shape[1]), tuple(slopes))

    @property
    def jumps(self) -> float:
        """Sum of the sizes of the jumps at all breakpoints."""
        left, right = self(self.t), self(np.nextafter(self.t, np.inf))
        return float(np.abs(right - left).sum())

    @property
    def largest(self) -> float:
        """Bound of |f| for f with constant polynomials: the largest |c| + Σ|height| of a piece."""
        sizes = np.abs(self.c[:, 0])
        np.add.at(sizes, [term.piece for term in self.exponentials], [abs(term.height) for term in self.exponentials])
        return float(sizes.max())

    def truncated(self) -> list[_Truncated]:
        """Return the first polynomial, its change at every breakpoint, and decaying exponentials.

        An exponential on a piece is the difference of two on half-lines that start at the ends of the piece.
        """
        parts = [_Truncated(-math.inf, 0.0, tuple(self.c[0].tolist()))]
        for start, before, after in zip(self.t.tolist(), self.c, self.c[1:], strict=False):
            change = np.polynomial.Polynomial(after - before)(np.polynomial.Polynomial([start, 1.0]))
            factors = np.zeros(self.c.shape[1])
            factors[: len(change.coef)] = change.coef
            parts.append(_Truncated(start, start, tuple(factors.tolist())))
        for term in self.exponentials:
            side = -1 if term.rate > 0 else 1
            ends = term.end, _interval(self.t, term.piece)[term.rate < 0]
            heights = term.height, term.height * math.exp(term.rate * (ends[1] - ends[0]))
            for sign, end, height in zip((1, -1), ends, heights, strict=True):
                if height:
                    parts.append(_Truncated(side * end, side * end, (sign * height,), abs(term.rate), side))
        return [part for part in parts if any(part.factors)]


def spline(
    breaks: ArrayLike, pieces: list[ArrayLike], exponentials: list[list[tuple[float, float]]] | None = None
) -> Activation:
    """Make a piecewise activation, σ(z) = p_i(z) + Σ a e^{κz} between breakpoints t_i and t_{i+1}, deg p_i ≤ 2.

    Hardtanh is `spline([-1, 1], [[-1], [0, 1], [1]])`, ReLU6 `spline([0, 6], [[0], [0, 1], [6]])`, and hardswish
    `spline([-3, 3], [[0], [0, 1/2, 1/6], [0, 1]])`. `spline([t], [[-1], [-t, 1]], [[(exp(-t), 1)], []])` is an ELU with
    its kink at t: z − t above t and e^{z − t} − 1 below.

    σ and σ' are sums of b(z − t)₊^m, of b e^{−λ|z − t|} on one side of t, and of a polynomial. An exponential shifts
    the mean of a Gaussian pair, and Stein's lemma reduces all means of products to probabilities of normal wedges and
    moments of a truncated normal. All means are computed in doubles only. σ may jump; E[σ'(z)σ'(z')] then excludes the
    delta functions in σ'.

    Parameters
    ----------
    breaks : array, shape (k,)
        t_1 < … < t_k, at least one.
    pieces : list of k + 1 arrays
        Coefficients c_0, c_1, c_2 of c_0 + c_1 z + c_2 z², from left to right; trailing zeros may be omitted.
    exponentials : list of k + 1 lists of (a, κ), optional
        Exponentials added to each piece; κ > 0 on the first piece and κ < 0 on the last.

    Raises
    ------
    InputError
        If breakpoints do not ascend, the number of pieces or a degree is wrong, an exponential is unbounded or has rate
        0, σ is constant between all breakpoints, or a size is not between 1e-60 and 1e60, including those of a e^{κz}
        at the ends of its piece.

    Examples
    --------
    >>> from implicit_bias.extensions.infinite.gram import gram_matrix
    >>> hardtanh = spline([-1, 1], [[-1], [0, 1], [1]])
    >>> gram_matrix([[1.0, 0.0], [0.6, 0.8]], hardtanh).values.round(6).tolist()
    [[0.682689, 0.308321], [0.308321, 0.682689]]
    >>> late = spline([1], [[-1], [-1, 1]], [[(np.exp(-1), 1)], []])
    >>> gram_matrix([[1.0, 0.0], [0.6, 0.8]], late).values.round(6).tolist()
    [[0.317311, 0.162416], [0.162416, 0.317311]]
    """
    t = as_floats(breaks, "breaks", 1)
    if not (np.diff(t) > 0).all():
        raise InputError("breaks must ascend; give every breakpoint once, in order")
    if not isinstance(pieces, list | tuple) or len(pieces) != len(t) + 1:
        raise InputError(f"pieces must be a list of {len(t) + 1} polynomials, one more than there are breaks")
    c = np.zeros((len(pieces), 3))
    for row, piece in zip(c, pieces, strict=True):
        coefficients = as_floats(piece, "a piece", 1)
        if len(coefficients) > 3:
            raise InputError(f"a piece has at most three coefficients, c_0 + c_1 z + c_2 z², not {len(coefficients)}")
        row[: len(coefficients)] = coefficients
    check_range(np.abs(np.concatenate([t[t != 0], c[c != 0], [1.0]])), "breaks and coefficients", *SIZE_RANGE)
    function = _Pieces(t, c, _as_exponentials(t, exponentials))
    slope = function.slope
    if not slope.c.any() and not slope.exponentials:
        raise InputError("σ is constant between its breakpoints; use another activation")
    truncated, sloping = function.truncated(), slope.truncated()
    return Activation(
        f"spline of {len(t)} breakpoint{'s' if len(t) > 1 else ''}",
        function,
        slope,
        lambda p: _mean(p, sloping),
        lambda p: _mean(p, truncated),
        rounding=lambda lengths: _rounding(sloping, lengths),
        dual_rounding=lambda lengths: _rounding(truncated, lengths),
        angle_lipschitz=lambda r: _angle_lipschitz(slope, sloping, r),
        length_lipschitz=lambda lengths: _length_lipschitz(slope, sloping, lengths),
        parity=None if slope.exponentials else _parity(t, slope.c),
    )


def _interval(t: Array, piece: int) -> tuple[float, float]:
    return float(t[piece - 1]) if piece else -math.inf, float(t[piece]) if piece < len(t) else math.inf


def _as_exponentials(t: Array, given: Any) -> tuple[_Exponential, ...]:
    """Convert the terms a e^{κz} of every piece from lists of pairs (a, κ), one list per piece; None gives ()."""
    if given is None:
        return ()
    if not isinstance(given, list | tuple) or len(given) != len(t) + 1:
        raise InputError(f"exponentials must be a list of {len(t) + 1} lists of (a, κ), one for each piece")
    terms = []
    for piece, pairs in enumerate(given):
        if not isinstance(pairs, list | tuple):
            raise InputError(f"the exponentials of a piece must be a list of pairs (a, κ), not {shown(pairs)}")
        for pair in pairs:
            a, rate = _checked_pair(pair)
            end = _interval(t, piece)[rate > 0]
            if math.isinf(end):
                raise InputError(f"e^({rate:g} z) grows without bound on its piece; turn the sign of its rate")
            # The logarithm, because both factors can overflow.
            size = math.log(abs(a)) + rate * end
            check_range(np.exp(np.clip([size], -700, 700)), "exponentials at the ends of their pieces", *SIZE_RANGE)
            terms.append(_Exponential(piece, rate, end, math.copysign(math.exp(size), a)))
    return tuple(terms)


def _checked_pair(pair: Any) -> tuple[float, float]:
    values = as_floats(pair, "an exponential (a, κ)", 1)
    if len(values) != 2 or not values.all():
        raise InputError(f"an exponential must be a pair (a, κ) of numbers other than 0, not {shown(pair)}")
    check_range(np.abs(values), "factors and rates of exponentials", *SIZE_RANGE)
    return float(values[0]), float(values[1])


def _parity(t: Array, slopes: Array) -> str | None:
    """Return `Activation.parity` of σ' with pieces c_0 + c_1 z between breakpoints (k,); c = `slopes` (k + 1, 2)."""
    mirrored = slopes[::-1] * np.array([1.0, -1.0])
    if not np.array_equal(t, -t[::-1]):
        return None
    if np.array_equal(slopes, mirrored):
        return "even"
    if np.array_equal(slopes, -mirrored):
        return "odd"
    both = slopes + mirrored
    return "half" if not np.ptp(both, axis=0).any() and both[0, 0] and not both[0, 1] else None


def _rounding(parts: list[_Truncated], lengths: Array) -> float:
    """Bound the rounding of E[f(z)f(z')] over √(E[f(z)²] E[f(z')²]), in units of 2⁻⁵², for terms that may cancel.

    An exponential of rate λ shifts the mean of z by up to λrr', but its own mean is at most 1/(√2π λr'). The shift
    therefore magnifies rounding only in second moments.
    """
    size, moved = 0.0 * lengths, 1 + max(part.decay for part in parts) * float(lengths.max())
    for part in parts:
        for m, b in enumerate(part.factors):
            size = size + abs(b) * (2 * (abs(part.centre) + (m + 1) * lengths)) ** m * moved ** max(m - 1, 0)
    return float((ROUNDING * size**2 / _squares(parts, lengths)).max())


def _squares(parts: list[_Truncated], lengths: Array) -> Array:
    """Return E[f(rz)²] for lengths r (p,); raise InputError if it is 0."""
    zeros = 0.0 * lengths
    squares = _mean(GaussianPairs(lengths, lengths, zeros + 1, zeros), parts)
    if not (squares > 0).all():
        raise InputError("the spline does not change where these points are; scale the points up")
    return squares


def _angle_lipschitz(slope: _Pieces, sloping: list[_Truncated], r: float) -> float:
    """Return (J/√2π + rg)² over E[σ'(rz)²], a bound of rr' sin θ |E[σ''(z)σ''(z')]|.

    J is the sum of the jumps of σ', where the density of the pair is at most 1/(2πrr' sin θ), and g is the largest
    |σ''| between them.
    """
    size = slope.jumps / math.sqrt(2 * math.pi) + r * slope.slope.largest
    return size**2 / float(_squares(sloping, np.array([r]))[0])


def _length_lipschitz(slope: _Pieces, sloping: list[_Truncated], lengths: Array) -> float:
    """Bound r |∂E[σ'(rz)σ'(z')]/∂r| over √(E[σ'(rz)²] E[σ'(z')²]) for points of given lengths (p,).

    A jump at t adds at most 0.242, a bound of |t| times the density of z at t, times the mean of |σ'(z')| given z = t.
    """
    steepest, smallest = slope.slope.largest, float(_squares(sloping, lengths).min())
    far = float(lengths.max()) * (1 + float(np.abs(slope.t).max()) / float(lengths.min()))
    height = float(np.abs(slope(0.0))) + slope.jumps + steepest * far
    return (0.242 * slope.jumps * height / math.sqrt(smallest) + float(lengths.max()) * steepest) / math.sqrt(smallest)
