"""Special functions of arrays of doubles or of mpmath numbers, so that one formula serves both arithmetics."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import scipy.special
from numpy.typing import ArrayLike, NDArray

from implicit_bias._utils.checks import Array, InputError

#: Array of doubles or of mpmath numbers.
Numbers = NDArray[Any]
#: Double or mpmath number.
Number = Any
#: Number of integrals that are evaluated at once.
CHUNK = 8192
#: Nodes and weights of the Gauss–Legendre rule on [−1, 1].
NODES, WEIGHTS = np.polynomial.legendre.leggauss(32)
#: Largest β for Owen's T function; beyond it, e^{β²/2} magnifies its rounding by more than 25.
MAX_OWEN = 2.5
#: Largest β in multiprecision; beyond it, the series of F takes minutes.
MAX_SERIES = 50.0


def multiprecision(digits: int) -> mpmath.MPContext:
    """Return a separate mpmath context with a given number of decimal digits."""
    context = mpmath.mp.clone()
    context.dps = digits
    return context


def context_of(values: ArrayLike) -> Any:
    """Return the mpmath context of an object array, or None for other and empty arrays."""
    array = np.asarray(values)
    return array.flat[0].context if array.dtype == object and array.size else None


def unit_of(values: ArrayLike) -> Number:
    """Return the distance from 1 to the next number in the arithmetic of the values."""
    context = context_of(values)
    return float(np.finfo(float).eps) if context is None else context.eps


def _for_both(double: Callable[..., Numbers], many: Callable[[Any], Callable[..., Number]]) -> Callable[..., Numbers]:
    """Return a function that applies `double` to arrays of doubles, and `many(context)` to numbers of mpmath."""

    def function(*values: Numbers) -> Numbers:
        context = next((each for each in map(context_of, values) if each is not None), None)
        return double(*values) if context is None else np.frompyfunc(many(context), len(values), 1)(*values)

    return function


def pi(values: Numbers) -> Number:
    """Return π in the arithmetic of the values."""
    context = context_of(values)
    return math.pi if context is None else +context.pi


def short(value: Number, digits: int) -> str:
    """Format a number, which can be beyond the range of doubles, with `digits` digits."""
    context = context_of(value)
    return f"{value:.{digits}g}" if context is None else str(context.nstr(value, digits))


def wedge_double(beta: Array, psi: Array) -> Array:
    """Return F(β, ψ) of `wedge` for β ≥ 0 and 0 ≤ ψ ≤ π in doubles: by Owen's T function, for β > 2.5 by quadrature."""
    beta, psi = np.broadcast_arrays(np.asarray(beta, dtype=np.float64), np.asarray(psi, dtype=np.float64))
    flipped = psi > np.pi / 2
    psi = np.where(flipped, np.pi - psi, psi)
    values = np.empty(beta.shape)
    small = beta <= MAX_OWEN
    b, p = beta[small], psi[small]
    h = b * np.cos(p)
    tail = scipy.special.ndtr(-b) - scipy.special.ndtr(-h)
    values[small] = np.exp(b * b / 2) * (tail / 2 + scipy.special.owens_t(h, np.tan(p)))
    for first in range(0, len(large := np.flatnonzero(~small)), CHUNK):
        chosen = large[first : first + CHUNK]
        values.flat[chosen] = _wedge_far(beta.flat[chosen], psi.flat[chosen])
    return np.where(flipped, scipy.special.erfcx(beta / math.sqrt(2)) / 2 - values, values)


def _wedge_far(beta: Array, psi: Array) -> Array:
    """Return F(β, ψ) for large β and ψ ≤ π/2, without the factor e^{β²/2} that Owen's T function needs.

    4F = erfcx(β/√2) − erfcx(h/√2) erfcx(g/√2) + (2g/π) ∫_0^∞ e^{−ht − t²/2} / (g² + (h + t)²) dt,
    h = β cos ψ, g = β sin ψ
    """
    h, g = beta * np.cos(psi), beta * np.sin(psi)
    # The integrand is negligible where the exponent is below −37.
    reach, total = 74 / (h + np.sqrt(h * h + 74)), np.zeros(len(h))
    for node, weight in zip((1 + NODES) / 2, WEIGHTS / 2, strict=True):
        t = reach * node
        total += weight * np.exp(-t * (h + t / 2)) / (g * g + (h + t) ** 2)
    parts = scipy.special.erfcx(np.stack([beta, h, g]) / math.sqrt(2))
    return np.asarray((parts[0] - parts[1] * parts[2] + 2 / np.pi * g * reach * total) / 4)


def _less_one_double(q: Array) -> Array:
    """Return e^{q²} erfc(q) − 1 in doubles, without cancellation for small |q|."""
    near = np.minimum(q, 0.5)
    small = np.expm1(near * near) - np.exp(near * near) * scipy.special.erf(near)
    return np.where(q < 0.5, small, scipy.special.erfcx(q) - 1)


def _wedge_multiprecision(context: Any) -> Callable[[Number, Number], Number]:
    """Return F(β, ψ) as a function of numbers of a context: Σ_k (−β)^k c_k ∫_0^ψ sin^k δ dδ/2π.

    The factors are c_0 = 1, c_1 = √(π/2) and c_k = c_{k−2}/(k − 1). The function raises InputError for β > MAX_SERIES.
    """

    def integral(beta: Number, psi: Number) -> Number:
        if beta > MAX_SERIES:
            raise InputError(
                f"ELU in multiprecision requires sums of points of length at most {MAX_SERIES:g}; scale the points "
                "down, or leave out digits"
            )
        # The terms grow to e^{β²/2} before they cancel.
        with context.workdps(context.dps + 10 + math.ceil(float(beta) ** 2 / 2)):
            cosine, sine = context.cos(psi), context.sin(psi)
            terms = [(context.mpf(1), psi), (-beta * context.sqrt(context.pi / 2), 1 - cosine)]
            total, k, power = terms[0][0] * psi + terms[1][0] * terms[1][1], 1, sine
            while k <= beta * beta or abs(terms[1][0]) > context.eps:
                k += 1
                factor, integrated = terms[0]
                terms = [terms[1], (factor * beta**2 / (k - 1), ((k - 1) * integrated - power * cosine) / k)]
                power *= sine
                total += terms[1][0] * terms[1][1]
            return total / (2 * context.pi)

    return lambda beta, psi: +integral(beta, psi)


#: F(β, ψ) = (1/2π) ∫_0^ψ I(β sin δ) dδ with I(s) = ∫_0^∞ t e^{−st − t²/2} dt = 1 − s √(π/2) erfcx(s/√2), for 0 ≤ ψ ≤ π.
#: F is the standard normal mean of e^{−β|y|} over the wedge 0 ≤ arg(x + iy) ≤ ψ of the plane.
wedge = _for_both(wedge_double, _wedge_multiprecision)
exp = _for_both(np.exp, lambda context: context.exp)
sqrt = _for_both(np.sqrt, lambda context: context.sqrt)
sin = _for_both(np.sin, lambda context: context.sin)
cos = _for_both(np.cos, lambda context: context.cos)
log = _for_both(np.log, lambda context: context.log)
#: Inverse cosine of numbers between −1 and 1.
arccos = _for_both(np.arccos, lambda context: lambda c: context.atan2(context.sqrt(abs(1 - c * c)), c))
arctan2 = _for_both(np.arctan2, lambda context: context.atan2)
#: e^{q²} erfc(q) − 1, accurate for small q.
erfcx_less_one = _for_both(_less_one_double, lambda context: lambda q: context.exp(q * q) * context.erfc(q) - 1)
erfcx = _for_both(scipy.special.erfcx, lambda context: lambda value: context.exp(value * value) * context.erfc(value))


def sigmoid(z: Numbers) -> Numbers:
    """Return 1/(1 + e^{−z}), without overflow."""
    decay = exp(-abs(z))
    return np.where(z > 0, 1, decay) / (1 + decay)


def sigmoid_slope(z: Numbers) -> Numbers:
    """Return e^{−z}/(1 + e^{−z})², the derivative of the sigmoid, without overflow."""
    decay = exp(-abs(z))
    return decay / (1 + decay) ** 2
