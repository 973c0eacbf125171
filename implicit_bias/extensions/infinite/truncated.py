"""Means of two truncated terms, polynomials or exponentials, of a Gaussian pair: closed forms in normal wedges."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.special

from implicit_bias._utils.checks import Array, InputError
from implicit_bias.extensions.infinite.angles import GaussianPairs
from implicit_bias.extensions.infinite.special import wedge_double

#: In place of the sine of an angle that is 0: by it breakpoints may be divided.
LEAST_SINE = 1e-150


@dataclass(frozen=True)
class Truncated:
    """Σ_m b_m (u − `centre`)^m e^{−`decay` (u − `start`)} for u > `start`, where u = `side` z and b = `factors`.

    A polynomial for all z has a start at −∞; exponentials have one factor.
    """

    start: float
    centre: float
    factors: tuple[float, ...]
    decay: float = 0.0
    side: int = 1


class Planes(NamedTuple):
    """Pairs (u, u') of standard deviations r and s and correlation ρ, with √(1 − ρ²) and 1 − |ρ|, which ρ may hide."""

    r: Array
    s: Array
    rho: Array
    sine: Array
    near: Array

    @classmethod
    def of(cls, p: GaussianPairs) -> Planes:
        """The pairs (z, z')."""
        half = np.where(p.cosine >= 0, np.sin(p.angle / 2), np.cos(p.angle / 2))
        return cls(p.r, p.s, p.cosine, np.maximum(np.sin(p.angle), LEAST_SINE), 2 * half**2)

    def turned(self, sign: int) -> Planes:
        """The pairs (u, ±u')."""
        return self._replace(rho=sign * self.rho)

    def swapped(self) -> Planes:
        """The pairs (u', u)."""
        return self._replace(r=self.s, s=self.r)

    def ahead(self, t: float, u: float) -> Array:
        """ρts − ur, which is 0, and not rounding, for t = u, r = s, ρ = 1: r times how far E[u' | u = t] is past u."""
        along = np.where(self.rho >= 0, t * self.s - u * self.r, -(t * self.s + u * self.r))
        return np.asarray(along - np.where(self.rho >= 0, 1.0, -1.0) * t * self.s * self.near)


def mean(p: GaussianPairs, parts: list[Truncated]) -> Array:
    """E[f(z)f(z')] of a sum of truncated terms."""
    if np.asarray(p.angle).dtype == object:
        raise InputError("splines are known in doubles only; leave out digits")
    planes, total = Planes.of(p), 0.0 * p.cosine
    for one, other in itertools.product(parts, parts):
        moments = pair_moments(planes.turned(one.side * other.side), one, other)
        for (m, b), (k, b_other) in itertools.product(enumerate(one.factors), enumerate(other.factors)):
            if b * b_other:
                total = total + b * b_other * moments[m, k]
    return np.asarray(total)


def pair_moments(p: Planes, one: Truncated, other: Truncated) -> dict[tuple[int, int], Array]:
    """E[(u − o)^m (u' − o')^k e^{−λ(u − t) − λ'(u' − t')} 1(u > t) 1(u' > t')] for all m, k with factors.

    The exponentials move the means to μ and μ'. E[(u − μ) g] = r² E[∂g/∂u] + c E[∂g/∂u'] of the moved pair lowers m by
    one; a derivative of 1(u > t) leaves the density of u at t times a moment of u' given u = t, which matters where
    (u − o)^0 is left of its power.
    """
    found = {(0, 0): both_beyond(p, one, other)}
    M, K = len(one.factors), len(other.factors)
    if M == K == 1:
        return found
    c, r2, s2 = p.r * p.s * p.rho, p.r**2, p.s**2
    centre = one.centre + one.decay * r2 + other.decay * c
    other_centre = other.centre + other.decay * s2 + one.decay * c
    at_one, at_other = conditional(p, one, other, K), conditional(p.swapped(), other, one, M)
    for k in range(1, K):
        value = -other_centre * found[0, k - 1] + c * at_one[k - 1]
        value = value + s2 * ((k - 1) * found[0, k - 2] if k > 1 else at_other[0])
        found[0, k] = value
    for m, k in itertools.product(range(1, M), range(K)):
        value = -centre * found[m - 1, k]
        value = value + r2 * ((m - 1) * found[m - 2, k] if m > 1 else at_one[k])
        found[m, k] = value + c * (k * found[m - 1, k - 1] if k > 0 else at_other[m - 1])
    return found


def lifted(x: Array, top: Array, edge: Array) -> Array:
    """e^`top` Φ(x) where `edge` = `top` − x²/2 is known without the rounding of that difference."""
    inside = x > 0
    return np.asarray(
        np.exp(np.where(inside, top, edge))
        * np.where(inside, scipy.special.ndtr(x), scipy.special.erfcx(np.abs(x) / math.sqrt(2)) / 2)
    )


def conditional(p: Planes, one: Truncated, other: Truncated, powers: int) -> list[Array]:
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
            above = lifted(beyond - other.decay * spread, top, foot)
        edge = np.exp(foot) / (math.sqrt(2 * math.pi) * spread)
    middle = middle - other.decay * spread**2
    found = [above]
    for k in range(1, powers):
        more = (k - 1) * found[k - 2] if k > 1 else edge
        found.append((middle - other.centre) * found[k - 1] + spread * spread * more)
    return [value / (math.sqrt(2 * math.pi) * p.r) for value in found]


def both_beyond(p: Planes, one: Truncated, other: Truncated) -> Array:
    """E[e^{−λ(u − t) − λ'(u' − t')} 1(u > t) 1(u' > t')].

    That is e^v P(n < h, n' < k) for the moved pair. With the corner (t, t') at the distance β from its mean, of which
    g and g' are along the edges u = t and u' = t',

        P = 1(h ≥ 0, k ≥ 0) − Σ sgn(h) Φ(−|h|) 1(g > 0) + Σ sgn(h) sgn(g) e^{−β²/2} J(β, arctan |g/h|)

    over both edges, J(β, ψ) = ¼ erfcx(β/√2) − F(β, ψ). The density's exponent is at most 0 where these terms are taken
    from, so that nothing is magnified however far the means are moved.
    """
    if math.isinf(one.start) or math.isinf(other.start):
        return alone(p.r, one) * alone(p.s, other) + 0.0 * p.rho
    t, u = one.start, other.start
    if not one.decay and not other.decay:
        return unmoved(p, t, u)
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


def unmoved(p: Planes, t: float, u: float) -> Array:
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


def alone(r: Array, term: Truncated) -> Array:
    """E[e^{−λ(u − t)} 1(u > t)]."""
    t = term.start
    if math.isinf(t):
        return 1.0 + 0.0 * r
    edge = -((t / r) ** 2) / 2
    with np.errstate(over="ignore"):
        return lifted(-term.decay * r - t / r, (term.decay * r) ** 2 / 2 + term.decay * t, edge)
