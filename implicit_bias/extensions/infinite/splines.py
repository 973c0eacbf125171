"""Activations that are quadratic or exponential between any breakpoints."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from implicit_bias._utils.checks import Array, InputError, as_floats, check_range, shown
from implicit_bias.extensions.infinite.activations import Activation
from implicit_bias.extensions.infinite.angles import GaussianPairs
from implicit_bias.extensions.infinite.truncated import Truncated, mean

#: Rounding of a moment, in units of the sum of its terms' sizes, times 2⁵².
ROUNDING = 32.0
#: Of breakpoints, coefficients, and factors and rates of exponentials.
SIZES = (1e-60, 1e60)


class Exponential(NamedTuple):
    """An exponential on the piece `piece`, where it is `height` at `end`, the end towards which it grows."""

    piece: int
    rate: float
    end: float
    height: float


@dataclass(frozen=True, eq=False)
class Pieces:
    """A function of z: polynomials c (k + 1, 3) between breakpoints t (k,), and exponentials."""

    t: Array
    c: Array
    exponentials: tuple[Exponential, ...]

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
    def slope(self) -> Pieces:
        """Its derivative between the breakpoints."""
        found = (own._replace(height=own.rate * own.height) for own in self.exponentials)
        return Pieces(self.t, self.c[:, 1:] * np.arange(1.0, self.c.shape[1]), tuple(found))

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

    def truncated(self) -> list[Truncated]:
        """The first piece as a polynomial, the change of polynomial at every breakpoint, and exponentials that decay.

        An exponential that grows along its piece is one for all z below the piece's end, less one below its start.
        """
        found = [Truncated(-math.inf, 0.0, tuple(self.c[0].tolist()))]
        for start, before, after in zip(self.t.tolist(), self.c, self.c[1:], strict=False):
            change = np.polynomial.Polynomial(after - before)(np.polynomial.Polynomial([start, 1.0]))
            factors = np.zeros(self.c.shape[1])
            factors[: len(change.coef)] = change.coef
            found.append(Truncated(start, start, tuple(factors.tolist())))
        for own in self.exponentials:
            side = -1 if own.rate > 0 else 1
            ends = own.end, ends_of(self.t, own.piece)[own.rate < 0]
            heights = own.height, own.height * math.exp(own.rate * (ends[1] - ends[0]))
            for sign, end, height in zip((1, -1), ends, heights, strict=True):
                if height:
                    found.append(Truncated(side * end, side * end, (sign * height,), abs(own.rate), side))
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
    function = Pieces(t, c, as_exponentials(t, exponentials))
    slope = function.slope
    if not slope.c.any() and not slope.exponentials:
        raise InputError("σ is constant between its breakpoints; give an activation that changes")
    whole, sloping = function.truncated(), slope.truncated()
    return Activation(
        f"spline of {len(t)} breakpoint{'s' if len(t) > 1 else ''}",
        function,
        slope,
        lambda p: mean(p, sloping),
        lambda p: mean(p, whole),
        rounding=lambda lengths: rounding(sloping, lengths),
        dual_rounding=lambda lengths: rounding(whole, lengths),
        bend=lambda r: bend(slope, sloping, r),
        slope_stretch=lambda lengths: slope_stretch(slope, sloping, lengths),
        parity=None if slope.exponentials else parity(t, slope.c),
    )


def ends_of(t: Array, piece: int) -> tuple[float, float]:
    """Where a piece between breakpoints (k,) begins and ends."""
    return float(t[piece - 1]) if piece else -math.inf, float(t[piece]) if piece < len(t) else math.inf


def as_exponentials(t: Array, given: Any) -> tuple[Exponential, ...]:
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
            a, rate = checked_pair(pair)
            end = ends_of(t, piece)[rate > 0]
            if math.isinf(end):
                raise InputError(f"e^({rate:g} z) grows without bound on its piece; turn the sign of its rate")
            # In two steps, because either may overflow.
            size = math.log(abs(a)) + rate * end
            check_range(np.exp(np.clip([size], -700, 700)), "exponentials at the ends of their pieces", *SIZES)
            found.append(Exponential(piece, rate, end, math.copysign(math.exp(size), a)))
    return tuple(found)


def checked_pair(pair: Any) -> tuple[float, float]:
    """(a, κ) of an exponential."""
    values = as_floats(pair, "an exponential (a, κ)", 1)
    if len(values) != 2 or not values.all():
        raise InputError(f"an exponential is a pair (a, κ) of numbers other than 0, not {shown(pair)}")
    check_range(np.abs(values), "factors and rates of exponentials", *SIZES)
    return float(values[0]), float(values[1])


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


def rounding(parts: list[Truncated], lengths: Array) -> float:
    """The error of E[f(z)f(z')] over √(E[f(z)²] E[f(z')²]), in units of 2⁻⁵²: of sums of terms that may cancel.

    An exponential of rate λ moves the mean of z by up to λrr', but its own mean is at most 1/(√2π λr'): only in
    second moments does the one multiply what the other leaves of rounding.
    """
    size, moved = 0.0 * lengths, 1 + max(part.decay for part in parts) * float(lengths.max())
    for part in parts:
        for m, b in enumerate(part.factors):
            size = size + abs(b) * (2 * (abs(part.centre) + (m + 1) * lengths)) ** m * moved ** max(m - 1, 0)
    return float((ROUNDING * size**2 / squares(parts, lengths)).max())


def squares(parts: list[Truncated], lengths: Array) -> Array:
    """E[f(rz)²] for lengths r (p,); refused where it is 0."""
    zeros = 0.0 * lengths
    found = mean(GaussianPairs(lengths, lengths, zeros + 1, zeros), parts)
    if not (found > 0).all():
        raise InputError("the spline does not change where these points are; scale them up")
    return found


def bend(slope: Pieces, sloping: list[Truncated], r: float) -> float:
    """(J/√2π + rg)² over the least E[σ'²], which bounds rr' sin θ |E[σ''(z)σ''(z')]|.

    J is the sum of the jumps of σ', at two of which the density of the pair is at most 1/(2πrr' sin θ), and g the
    largest |σ''| between them.
    """
    size = slope.jumps / math.sqrt(2 * math.pi) + r * slope.slope.largest
    return size**2 / float(squares(sloping, np.array([r]))[0])


def slope_stretch(slope: Pieces, sloping: list[Truncated], lengths: Array) -> float:
    """A bound of r |∂E[σ'(rz)σ'(z')]/∂r| over √(E[σ'²] E[σ'²]) of these lengths.

    A jump at t adds |t| times the density of z there, at most 0.242, times the mean of |σ'(z')| given z = t.
    """
    steepest, least = slope.slope.largest, float(squares(sloping, lengths).min())
    far = float(lengths.max()) * (1 + float(np.abs(slope.t).max()) / float(lengths.min()))
    height = float(np.abs(slope(0.0))) + slope.jumps + steepest * far
    return (0.242 * slope.jumps * height / math.sqrt(least) + float(lengths.max()) * steepest) / math.sqrt(least)
