"""Activations that are quadratic or exponential between any breakpoints, and the means of their truncated terms.

The means of two truncated terms, polynomials or exponentials, of a Gaussian pair have closed forms in normal wedges.
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

#: Rounding of a moment, in units of the sum of its terms' sizes, times 2⁵².
ROUNDING = 32.0
#: Of breakpoints, coefficients, and factors and rates of exponentials.
SIZES = (1e-60, 1e60)
#: In place of the sine of an angle that is 0: by it breakpoints may be divided.
LEAST_SINE = 1e-150


@dataclass(frozen=True)
class _Truncated:
    """Σ_m b_m (u − `centre`)^m e^{−`decay` (u − `start`)} for u > `start`, where u = `side` z and b = `factors`.

    A polynomial for all z has a start at −∞; exponentials have one factor.
    """

    start: float
    centre: float
    factors: tuple[float, ...]
    decay: float = 0.0
    side: int = 1


class _Planes(NamedTuple):
    """Pairs (u, u') of standard deviations r and s and correlation ρ, with √(1 − ρ²) and 1 − |ρ|, which ρ may hide."""

    r: Array
    s: Array
    rho: Array
    sine: Array
    near: Array

    @classmethod
    def of(cls, p: GaussianPairs) -> _Planes:
        """The pairs (z, z')."""
        half = np.where(p.cosine >= 0, np.sin(p.angle / 2), np.cos(p.angle / 2))
        return cls(p.r, p.s, p.cosine, np.maximum(np.sin(p.angle), LEAST_SINE), 2 * half**2)

    def turned(self, sign: int) -> _Planes:
        """The pairs (u, ±u')."""
        return self._replace(rho=sign * self.rho)

    def swapped(self) -> _Planes:
        """The pairs (u', u)."""
        return self._replace(r=self.s, s=self.r)

    def ahead(self, t: float, u: float) -> Array:
        """ρts − ur, which is 0, and not rounding, for t = u, r = s, ρ = 1: r times how far E[u' | u = t] is past u."""
        along = np.where(self.rho >= 0, t * self.s - u * self.r, -(t * self.s + u * self.r))
        return np.asarray(along - np.where(self.rho >= 0, 1.0, -1.0) * t * self.s * self.near)


def _mean(p: GaussianPairs, parts: list[_Truncated]) -> Array:
    """E[f(z)f(z')] of a sum of truncated terms."""
    if np.asarray(p.angle).dtype == object:
        raise InputError("splines are known in doubles only; leave out digits")
    planes, total = _Planes.of(p), 0.0 * p.cosine
    for one, other in itertools.product(parts, parts):
        moments = _pair_moments(planes.turned(one.side * other.side), one, other)
        for (m, b), (k, b_other) in itertools.product(enumerate(one.factors), enumerate(other.factors)):
            if b * b_other:
                total = total + b * b_other * moments[m, k]
    return np.asarray(total)


def _pair_moments(p: _Planes, one: _Truncated, other: _Truncated) -> dict[tuple[int, int], Array]:
    """E[(u − o)^m (u' − o')^k e^{−λ(u − t) − λ'(u' − t')} 1(u > t) 1(u' > t')] for all m, k with factors.

    The exponentials move the means to μ and μ'. E[(u − μ) g] = r² E[∂g/∂u] + c E[∂g/∂u'] of the moved pair lowers m by
    one; a derivative of 1(u > t) leaves the density of u at t times a moment of u' given u = t, which matters where
    (u − o)^0 is left of its power.
    """
    found = {(0, 0): _both_beyond(p, one, other)}
    M, K = len(one.factors), len(other.factors)
    if M == K == 1:
        return found
    c, r2, s2 = p.r * p.s * p.rho, p.r**2, p.s**2
    centre = one.centre + one.decay * r2 + other.decay * c
    other_centre = other.centre + other.decay * s2 + one.decay * c
    at_one, at_other = _conditional(p, one, other, K), _conditional(p.swapped(), other, one, M)
    for k in range(1, K):
        value = -other_centre * found[0, k - 1] + c * at_one[k - 1]
        value = value + s2 * ((k - 1) * found[0, k - 2] if k > 1 else at_other[0])
        found[0, k] = value
    for m, k in itertools.product(range(1, M), range(K)):
        value = -centre * found[m - 1, k]
        value = value + r2 * ((m - 1) * found[m - 2, k] if m > 1 else at_one[k])
        found[m, k] = value + c * (k * found[m - 1, k - 1] if k > 0 else at_other[m - 1])
    return found


def _lifted(x: Array, top: Array, edge: Array) -> Array:
    """e^`top` Φ(x) where `edge` = `top` − x²/2 is known without the rounding of that difference."""
    inside = x > 0
    return np.asarray(
        np.exp(np.where(inside, top, edge))
        * np.where(inside, scipy.special.ndtr(x), scipy.special.erfcx(np.abs(x) / math.sqrt(2)) / 2)
    )


def _conditional(p: _Planes, one: _Truncated, other: _Truncated, powers: int) -> list[Array]:
    """The density of u at t times E[(u' − o')^k e^{−λ'(u' − t')} 1(u' > t') | u = t], k < `powers`; 0 for t at −∞."""
    t = one.start
    if math.isinf(t):
        return [0.0 * p.rho] * powers
    spread = p.s * p.sine
    density = -((t / p.r) ** 2) / 2
    middle = t * p.s * p.rho / p.r
    if math.isinf(other.start):
        above, edge = np.exp(density) + 0.0 * middle, 0.0 * middle
    else:
        ahead = p.ahead(t, other.start) / p.r
        with np.errstate(over="ignore"):
            beyond = ahead / spread
            foot = density - beyond**2 / 2
            top = density - other.decay * ahead + (other.decay * spread) ** 2 / 2
            above = _lifted(beyond - other.decay * spread, top, foot)
        edge = np.exp(foot) / (math.sqrt(2 * math.pi) * spread)
    middle = middle - other.decay * spread**2
    found = [above]
    for k in range(1, powers):
        more = (k - 1) * found[k - 2] if k > 1 else edge
        found.append((middle - other.centre) * found[k - 1] + spread * spread * more)
    return [value / (math.sqrt(2 * math.pi) * p.r) for value in found]


def _both_beyond(p: _Planes, one: _Truncated, other: _Truncated) -> Array:
    """E[e^{−λ(u − t) − λ'(u' − t')} 1(u > t) 1(u' > t')].

    That is e^v P(n < h, n' < k) for the moved pair. With the corner (t, t') at the distance β from its mean, of which
    g and g' are along the edges u = t and u' = t',

        P = 1(h ≥ 0, k ≥ 0) − Σ sgn(h) Φ(−|h|) 1(g > 0) + Σ sgn(h) sgn(g) e^{−β²/2} J(β, arctan |g/h|)

    over both edges, J(β, ψ) = ¼ erfcx(β/√2) − F(β, ψ). The density's exponent is at most 0 where these terms are taken
    from, so that nothing is magnified however far the means are moved.
    """
    if math.isinf(one.start) or math.isinf(other.start):
        return _alone(p.r, one) * _alone(p.s, other) + 0.0 * p.rho
    t, u = one.start, other.start
    if not one.decay and not other.decay:
        return _unmoved(p, t, u)
    a, b = one.decay * p.r, other.decay * p.s
    with np.errstate(over="ignore", invalid="ignore"):
        ahead, back = p.ahead(t, u), p.swapped().ahead(u, t)
        slant = ahead / (p.r * p.s * p.sine)
        h, g = -a - b * p.rho - t / p.r, slant - b * p.sine
        # By rotation, so that both edges agree on where the corner is.
        k, g_other = p.rho * h + p.sine * g, p.sine * h - p.rho * g
        beta = np.hypot(h, g)
        twice = np.where(p.rho >= 0, (a + b) ** 2 - 2 * a * b * p.near, (a - b) ** 2 + 2 * a * b * p.near)
        mean_height = twice / 2 + one.decay * t + other.decay * u
        total = np.where((h >= 0) & (k >= 0), np.exp(np.minimum(mean_height, 1.0)), 0.0)
        corner = np.exp(-((t / p.r) ** 2 + slant**2) / 2)
        feet = (
            (h, g, (b * p.sine) ** 2 / 2 - other.decay * ahead / p.r - (t / p.r) ** 2 / 2),
            (k, g_other, (a * p.sine) ** 2 / 2 - one.decay * back / p.s - (u / p.s) ** 2 / 2),
        )
        for x, along, foot in feet:
            sign, inside = np.where(x >= 0, 1.0, -1.0), along > 0
            tail = np.exp(np.minimum(foot, 1.0)) * scipy.special.erfcx(np.abs(x) / math.sqrt(2)) / 2
            rest = scipy.special.erfcx(beta / math.sqrt(2)) / 4 - wedge_double(
                beta, np.arctan2(np.abs(along), np.abs(x))
            )
            total = total + sign * (np.where(inside, 1.0, -1.0) * corner * rest - np.where(inside, tail, 0.0))
    # A corner at the mean leaves no direction to tell angles from.
    centred = corner * (math.pi - np.arctan2(p.sine, p.rho)) / (2 * math.pi)
    return np.asarray(np.where(beta == 0, centred, total))


def _unmoved(p: _Planes, t: float, u: float) -> Array:
    """P(u > t, u' > u) by Owen's T function, which is faster than the wedges."""
    if t == u == 0:
        return np.asarray(0.5 - np.arctan2(p.sine, p.rho) / (2 * math.pi))
    # No −0.0, whose quotients have another sign.
    flat, size = np.zeros(np.shape(p.rho)), p.r * p.s * p.sine
    h, k = -t / p.r + flat, -u / p.s + flat
    with np.errstate(divide="ignore", over="ignore"):
        slants = p.ahead(t, u) / size / h, p.swapped().ahead(u, t) / size / k
    tails = scipy.special.owens_t(h, slants[0]) + scipy.special.owens_t(k, slants[1])
    opposite = (h * k < 0) | ((h * k == 0) & (h + k < 0))
    return np.asarray((scipy.special.ndtr(h) + scipy.special.ndtr(k)) / 2 - tails - np.where(opposite, 0.5, 0.0))


def _alone(r: Array, term: _Truncated) -> Array:
    """E[e^{−λ(u − t)} 1(u > t)]."""
    t = term.start
    if math.isinf(t):
        return 1.0 + 0.0 * r
    edge = -((t / r) ** 2) / 2
    with np.errstate(over="ignore"):
        return _lifted(-term.decay * r - t / r, (term.decay * r) ** 2 / 2 + term.decay * t, edge)


class _Exponential(NamedTuple):
    """An exponential on the piece `piece`, where it is `height` at `end`, the end towards which it grows."""

    piece: int
    rate: float
    end: float
    height: float


@dataclass(frozen=True, eq=False)
class _Pieces:
    """A function of z: polynomials c (k + 1, 3) between breakpoints t (k,), and exponentials."""

    t: Array
    c: Array
    exponentials: tuple[_Exponential, ...]

    def __call__(self, z: ArrayLike) -> Array:
        """Its values at z of any shape; at a breakpoint that on its left."""
        at = np.asarray(z)
        pieces = np.searchsorted(self.t, at)
        value = sum(self.c[pieces, m] * at**m for m in range(self.c.shape[1]))
        for own in self.exponentials:
            here = pieces == own.piece
            value = value + np.where(here, own.height * np.exp(own.rate * (np.where(here, at, own.end) - own.end)), 0.0)
        return np.asarray(value)

    @property
    def slope(self) -> _Pieces:
        """Its derivative between the breakpoints."""
        found = (own._replace(height=own.rate * own.height) for own in self.exponentials)
        return _Pieces(self.t, self.c[:, 1:] * np.arange(1.0, self.c.shape[1]), tuple(found))

    @property
    def jumps(self) -> float:
        """Σ over all breakpoints of the size of the jump."""
        left, right = self(self.t), self(np.nextafter(self.t, np.inf))
        return float(np.abs(right - left).sum())

    @property
    def largest(self) -> float:
        """A bound of its size if its polynomials are constant: the largest of a piece."""
        sizes = np.abs(self.c[:, 0])
        np.add.at(sizes, [own.piece for own in self.exponentials], [abs(own.height) for own in self.exponentials])
        return float(sizes.max())

    def truncated(self) -> list[_Truncated]:
        """The first piece as a polynomial, the change of polynomial at every breakpoint, and exponentials that decay.

        An exponential that grows along its piece is one for all z below the piece's end, less one below its start.
        """
        found = [_Truncated(-math.inf, 0.0, tuple(self.c[0].tolist()))]
        for start, before, after in zip(self.t.tolist(), self.c, self.c[1:], strict=False):
            change = np.polynomial.Polynomial(after - before)(np.polynomial.Polynomial([start, 1.0]))
            factors = np.zeros(self.c.shape[1])
            factors[: len(change.coef)] = change.coef
            found.append(_Truncated(start, start, tuple(factors.tolist())))
        for own in self.exponentials:
            side = -1 if own.rate > 0 else 1
            ends = own.end, _ends_of(self.t, own.piece)[own.rate < 0]
            heights = own.height, own.height * math.exp(own.rate * (ends[1] - ends[0]))
            for sign, end, height in zip((1, -1), ends, heights, strict=True):
                if height:
                    found.append(_Truncated(side * end, side * end, (sign * height,), abs(own.rate), side))
        return [part for part in found if any(part.factors)]


def spline(
    breaks: ArrayLike, pieces: list[ArrayLike], exponentials: list[list[tuple[float, float]]] | None = None
) -> Activation:
    """σ(z) = p_i(z) + Σ a e^{κz} between the breakpoints t_i and t_{i+1}, each p_i of degree at most 2; σ may jump.

    Hardtanh is `spline([-1, 1], [[-1], [0, 1], [1]])`, ReLU6 `spline([0, 6], [[0], [0, 1], [6]])`, hardswish
    `spline([-3, 3], [[0], [0, 1/2, 1/6], [0, 1]])`, and an ELU with its kink at t

        spline([t], [[-1], [-t, 1]], [[(exp(-t), 1)], []]),    σ(z) = z − t above t, e^{z − t} − 1 below

    σ and σ' are sums of b(z − t)₊^m, of b e^{−λ|z − t|} on one side of t, and of a polynomial. An exponential of a
    Gaussian pair moves its mean, and so

        E[(z − t)^m (z' − t')^m' 1(z > t) 1(z' > t')]

    and its like with exponentials follow by Stein's lemma from probabilities of normal wedges and moments of a
    truncated normal. In doubles only. σ' has no impulses: where σ itself jumps they do not count in E[σ'σ'].

    Raises InputError for breakpoints that do not ascend, pieces that are too many, too few or of a higher degree,
    exponentials that grow without bound or have the rate 0, a σ that is constant between all breakpoints, and sizes
    outside 1e-60 … 1e60, those of a e^{κz} at the ends of its piece among them.

    Parameters
    ----------
    breaks : array, shape (k,)
        t_1 < … < t_k, at least one.
    pieces : list of k + 1 arrays
        Coefficients c_0, c_1, c_2 of c_0 + c_1 z + c_2 z², from the left; fewer if the rest is 0.
    exponentials : list of k + 1 lists of (a, κ), optional
        What is added to each piece; on the first κ > 0, on the last κ < 0.

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
        own = as_floats(piece, "a piece", 1)
        if len(own) > 3:
            raise InputError(f"a piece has at most three coefficients, c_0 + c_1 z + c_2 z², not {len(own)}")
        row[: len(own)] = own
    check_range(np.abs(np.concatenate([t[t != 0], c[c != 0], [1.0]])), "breaks and coefficients", *SIZES)
    function = _Pieces(t, c, _as_exponentials(t, exponentials))
    slope = function.slope
    if not slope.c.any() and not slope.exponentials:
        raise InputError("σ is constant between its breakpoints; give an activation that changes")
    whole, sloping = function.truncated(), slope.truncated()
    return Activation(
        f"spline of {len(t)} breakpoint{'s' if len(t) > 1 else ''}",
        function,
        slope,
        lambda p: _mean(p, sloping),
        lambda p: _mean(p, whole),
        rounding=lambda lengths: _rounding(sloping, lengths),
        dual_rounding=lambda lengths: _rounding(whole, lengths),
        bend=lambda r: _bend(slope, sloping, r),
        slope_stretch=lambda lengths: _slope_stretch(slope, sloping, lengths),
        parity=None if slope.exponentials else _parity(t, slope.c),
    )


def _ends_of(t: Array, piece: int) -> tuple[float, float]:
    """Where a piece between breakpoints (k,) begins and ends."""
    return float(t[piece - 1]) if piece else -math.inf, float(t[piece]) if piece < len(t) else math.inf


def _as_exponentials(t: Array, given: Any) -> tuple[_Exponential, ...]:
    """The exponentials of all pieces, checked; none for None."""
    if given is None:
        return ()
    if not isinstance(given, list | tuple) or len(given) != len(t) + 1:
        raise InputError(f"exponentials must be a list of {len(t) + 1} lists of (a, κ), one for each piece")
    found = []
    for piece, pairs in enumerate(given):
        if not isinstance(pairs, list | tuple):
            raise InputError(f"the exponentials of a piece are a list of pairs (a, κ), not {shown(pairs)}")
        for pair in pairs:
            a, rate = _checked_pair(pair)
            end = _ends_of(t, piece)[rate > 0]
            if math.isinf(end):
                raise InputError(f"e^({rate:g} z) grows without bound on its piece; turn the sign of its rate")
            # In two steps, because either may overflow.
            size = math.log(abs(a)) + rate * end
            check_range(np.exp(np.clip([size], -700, 700)), "exponentials at the ends of their pieces", *SIZES)
            found.append(_Exponential(piece, rate, end, math.copysign(math.exp(size), a)))
    return tuple(found)


def _checked_pair(pair: Any) -> tuple[float, float]:
    """(a, κ) of an exponential."""
    values = as_floats(pair, "an exponential (a, κ)", 1)
    if len(values) != 2 or not values.all():
        raise InputError(f"an exponential is a pair (a, κ) of numbers other than 0, not {shown(pair)}")
    check_range(np.abs(values), "factors and rates of exponentials", *SIZES)
    return float(values[0]), float(values[1])


def _parity(t: Array, slopes: Array) -> str | None:
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


def _rounding(parts: list[_Truncated], lengths: Array) -> float:
    """The error of E[f(z)f(z')] over √(E[f(z)²] E[f(z')²]), in units of 2⁻⁵²: of sums of terms that may cancel.

    An exponential of rate λ moves the mean of z by up to λrr', but its own mean is at most 1/(√2π λr'): only in
    second moments does the one multiply what the other leaves of rounding.
    """
    size, moved = 0.0 * lengths, 1 + max(part.decay for part in parts) * float(lengths.max())
    for part in parts:
        for m, b in enumerate(part.factors):
            size = size + abs(b) * (2 * (abs(part.centre) + (m + 1) * lengths)) ** m * moved ** max(m - 1, 0)
    return float((ROUNDING * size**2 / _squares(parts, lengths)).max())


def _squares(parts: list[_Truncated], lengths: Array) -> Array:
    """E[f(rz)²] for lengths r (p,); refused where it is 0."""
    zeros = 0.0 * lengths
    found = _mean(GaussianPairs(lengths, lengths, zeros + 1, zeros), parts)
    if not (found > 0).all():
        raise InputError("the spline does not change where these points are; scale them up")
    return found


def _bend(slope: _Pieces, sloping: list[_Truncated], r: float) -> float:
    """(J/√2π + rg)² over the least E[σ'²], which bounds rr' sin θ |E[σ''(z)σ''(z')]|.

    J is the sum of the jumps of σ', at two of which the density of the pair is at most 1/(2πrr' sin θ), and g the
    largest |σ''| between them.
    """
    size = slope.jumps / math.sqrt(2 * math.pi) + r * slope.slope.largest
    return size**2 / float(_squares(sloping, np.array([r]))[0])


def _slope_stretch(slope: _Pieces, sloping: list[_Truncated], lengths: Array) -> float:
    """A bound of r |∂E[σ'(rz)σ'(z')]/∂r| over √(E[σ'²] E[σ'²]) of these lengths.

    A jump at t adds |t| times the density of z there, at most 0.242, times the mean of |σ'(z')| given z = t.
    """
    steepest, least = slope.slope.largest, float(_squares(sloping, lengths).min())
    far = float(lengths.max()) * (1 + float(np.abs(slope.t).max()) / float(lengths.min()))
    height = float(np.abs(slope(0.0))) + slope.jumps + steepest * far
    return (0.242 * slope.jumps * height / math.sqrt(least) + float(lengths.max()) * steepest) / math.sqrt(least)
