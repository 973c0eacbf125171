"""Activations σ with their derivatives and the closed forms of E[σ(z)σ(z')] and E[σ'(z)σ'(z')], if they have any.

docs/gram_formulas.md derives the closed forms. tanh, sigmoid, softplus and swish are mixtures of functions with closed
forms, for points of any length:

    tanh(z) = E[erf(z/√2k)],    z/(1 + e^{−z}) = E[zΦ(z/2k)],    log(1 + e^z) = E[2k (uΦ(u) + φ(u))],  u = z/2k,

where k has Kolmogorov's distribution (Andrews & Mallows, 1974, "Scale mixtures of normal distributions"). Means over
the Gaussian pair are double sums over `SCALES`; docs/gram_formulas.md bounds their error.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.special
from numpy.typing import ArrayLike

from implicit_bias._utils import checks
from implicit_bias._utils.checks import Array, InputError, shown
from implicit_bias._utils.missing import torch_is_needed
from implicit_bias.extensions.infinite import special
from implicit_bias.extensions.infinite.angles import GaussianPairs
from implicit_bias.extensions.infinite.special import Number, Numbers, arctan2, context_of, sin, sqrt, wedge

if TYPE_CHECKING:
    from torch import Tensor

#: Largest degree of a polynomial; the sums for higher degrees lose all digits.
MAX_DEGREE = 20
#: Largest size of the slope of a leaky ReLU.
MAX_SLOPE = 1e6
#: Range of α and s of ELU; their squares must not leave floating point.
ELU_RANGE = (1e-60, 1e60)
#: Longest points, in widths of the strip, for which a series is taken: it is faster than a mixture.
LONGEST_FOR_SERIES = 4.0
#: Step of the trapezoidal rule in log k.
STEP = 0.125
#: Smallest and largest multiple of the step: scales from 0.135 to 6.05, at whose ends the weights are below 1e-17.
FIRST, LAST = -16, 14
#: Weights below this share of 1 are left out.
LEAST_WEIGHT = 1e-15
#: Bound of the error of a mean, relative to √(E[f(z)²] E[f(z')²]).
MIXTURE_ERROR = 5e-13


def kolmogorov_density(k: Array) -> Array:
    """Return the density 8k Σ_j (−1)^{j−1} j² e^{−2j²k²} of Kolmogorov's distribution at k > 0 (p,).

    Below 1, it is computed as √(2π)/k² Σ_j (2q_j − 1) e^{−q_j} with q_j = (2j − 1)²π²/8k², which does not cancel.
    """
    j = np.arange(1.0, 12.0)[:, None]
    q = ((2 * j - 1) * np.pi / k) ** 2 / 8
    near = np.sqrt(2 * np.pi) / k**2 * ((2 * q - 1) * np.exp(-q)).sum(axis=0)
    far = 8 * k * (np.where(j % 2, j, -j) * j * np.exp(-2 * (j * k) ** 2)).sum(axis=0)
    return np.asarray(np.where(k < 1, near, far))


def _rule() -> tuple[Array, Array]:
    """Return scales k_i and weights w_i, which sum to 1, of the trapezoidal rule in log k."""
    k = np.exp(STEP * np.arange(FIRST, LAST + 1))
    weights = k * kolmogorov_density(k)
    used = weights > LEAST_WEIGHT
    return k[used], weights[used] / weights[used].sum()


SCALES, WEIGHTS = _rule()
#: Error of a mixture and rounding of its sums, in units of 2⁻⁵².
MIXTURE_ROUNDING = MIXTURE_ERROR * 2.0**52 + 2.0 * len(SCALES) ** 2


@dataclass(frozen=True)
class Strip:
    """Strip |Im z| ≤ `width` in which σ' is analytic with |σ'(z)| ≤ `bound`; the strip certifies quadrature errors."""

    width: float
    bound: float


def _few_roundings(lengths: Array) -> float:
    """Return 16, the `Activation.rounding` of a closed form of few operations, whatever the lengths (p,)."""
    return 16.0


def _unit_lipschitz(longest: float) -> float:
    """Return 1, the `Activation.angle_lipschitz` of a mean that changes no faster than the angle."""
    return 1.0


@dataclass(frozen=True)
class Activation:
    """Activation σ with its derivative, and its Gaussian means if they have closed forms.

    Use `activation` for named ones, or `leaky_relu`, `elu`, `polynomial`, `spline` and `custom_activation`.

    Attributes
    ----------
    name : str
    function, derivative : callable
        σ and σ', applied to a number or an array of any shape.
    pair, dual : callable or None
        E[σ'(z)σ'(z')] and E[σ(z)σ(z')] of centred Gaussian pairs, if they have closed forms. With a `strip`, they are
        mixtures of closed forms, in doubles only.
    rounding, dual_rounding : callable
        Rounding errors of `pair` and `dual` for points of lengths (p,), in units of 2⁻⁵² √(E[σ'(z)²] E[σ'(z')²]) and
        2⁻⁵² √(E[σ(z)²] E[σ(z')²]).
    angle_lipschitz : callable
        Bound of ``|∂E/∂θ|`` of `pair` for points of at most a given length, over √(E[σ'(z)²] E[σ'(z')²]).
    length_lipschitz : callable or None
        Bound of ``|∂E/∂log r|`` of `pair` for points of lengths (p,), over the same root as for `angle_lipschitz`;
        given if σ' has a jump at a point other than 0.
    strip : Strip or None
        Strip that certifies the quadrature of the series for short points. Without `pair`, its error is estimated.
    parity : str or None
        "even" or "odd" if σ' is; "half" if σ'(z) + σ'(−z) is a constant other than 0.

    Examples
    --------
    >>> tanh = activation("tanh")
    >>> tanh.derivative(np.array([0.0, 1.0])).round(4).tolist(), tanh.is_exact
    ([1.0, 0.42], False)
    """

    name: str
    function: Callable[[Any], Numbers]
    derivative: Callable[[Any], Numbers]
    pair: Callable[[GaussianPairs], Numbers] | None = None
    dual: Callable[[GaussianPairs], Numbers] | None = None
    rounding: Callable[[Array], float] = _few_roundings
    dual_rounding: Callable[[Array], float] = _few_roundings
    angle_lipschitz: Callable[[float], float] = _unit_lipschitz
    length_lipschitz: Callable[[Array], float] | None = None
    strip: Strip | None = None
    parity: str | None = None

    @property
    def is_exact(self) -> bool:
        """True if both means have closed forms; otherwise they are Hermite series or, for long points, mixtures."""
        return self.pair is not None and self.strip is None

    @property
    def is_certified(self) -> bool:
        """True if the errors of Gram matrices are bounds; without `pair` that of quadrature is an estimate."""
        return self.pair is not None

    def needs_series(self, norms: Numbers, tolerance: Number) -> bool:
        """Return True if the means for points of lengths (p,) are Hermite series, False if `pair` and `dual`."""
        if self.strip is None:
            return self.pair is None
        short = float(max(norms)) <= LONGEST_FOR_SERIES * self.strip.width
        return short or context_of(norms) is not None or tolerance < MIXTURE_ERROR


def _relu_dual(p: GaussianPairs) -> Numbers:
    """Return E[z₊z'₊] = rr' (sin θ + (π − θ) cos θ)/2π, the arc-cosine kernel of degree 1."""
    return p.r * p.s * ((sin(p.angle) + (p.pi - p.angle) * p.cosine) / (2 * p.pi))


def _elu_dual(p: GaussianPairs, alpha: float) -> Numbers:
    """Return E[σ(z)σ(z')] of the ELU with scale 1, a sum over the four quadrants of signs."""
    root = 2 * sqrt(2 * p.pi + 0 * p.angle)
    far, near = wedge(p.r + 0 * p.angle, p.angle), wedge(p.s + 0 * p.angle, p.angle)
    mixed = p.r * p.s * p.cosine * (far + near)
    for one, other in ((p.r, p.s), (p.s, p.r)):
        mixed = mixed + one / root * special.erfcx_less_one(other * sin(p.angle) / sqrt(2 + 0 * p.angle))
    # E[e^z 1(z < 0, z' < 0)] is E[e^z 1(z < 0)] minus its part in the mixed quadrant.
    single = (special.erfcx(p.r / sqrt(2 + 0 * p.r)) + special.erfcx(p.s / sqrt(2 + 0 * p.s))) / 2 - far - near
    both = _elu_both(p) - single + (p.pi - p.angle) / (2 * p.pi)
    return _relu_dual(p) + alpha * mixed + alpha**2 * both


def _elu_both(p: GaussianPairs) -> Numbers:
    """Return E[e^{z + z'} 1(z < 0, z' < 0)]."""
    perpendicular, parallel, other_parallel = p.r * sin(p.angle), p.s + p.r * p.cosine, p.r + p.s * p.cosine
    beta = sqrt(parallel * parallel + perpendicular * perpendicular)
    # The second angle is a difference, so that both add up to θ even if the sum of the points vanishes.
    first = arctan2(p.s * sin(p.angle), other_parallel)
    return special.erfcx(beta / sqrt(2 + 0 * beta)) / 2 - wedge(beta, first) - wedge(beta, abs(p.angle - first))


def _elu_pair(p: GaussianPairs, alpha: float) -> Numbers:
    """Return E[σ'(z)σ'(z')] of the ELU with scale 1, a sum over the four quadrants of signs."""
    one = wedge(p.r + 0 * p.angle, p.angle) + wedge(p.s + 0 * p.angle, p.angle)
    return (p.pi - p.angle) / (2 * p.pi) + alpha * one + alpha**2 * _elu_both(p)


def _elu_lipschitz(r: float, alpha: float) -> float:
    """Return the ELU's `angle_lipschitz`, (α + |1 − α|)²/2π over the least E[σ'(z)²] of lengths up to r.

    The numerator bounds rr' sin θ |E[σ''(z)σ''(z')]|, because σ'' is α e^z for z < 0 plus (1 − α)δ(z), and the density
    of the pair is at most 1/(2πrr' sin θ).
    """
    return (alpha + abs(1 - alpha)) ** 2 / (math.pi * (1 + alpha**2 * scipy.special.erfcx(math.sqrt(2) * r)))


def _polynomial_mean(p: GaussianPairs, factors: list[float]) -> Numbers:
    """Return E[f(z)f(z')] of f(z) = Σ_m b_m z^m with b = `factors`."""

    def q(k: int, r: Numbers) -> Numbers:
        """Return q_k(r) of `polynomial`, so that E[f(rz) He_k(z)] = k! q_k(r)."""
        total = 0 * r
        for m in range(k, len(factors), 2):
            half = (m - k) // 2
            # The number of ways to pair up all but k of m factors, an integer.
            ways = math.factorial(m) // (2**half * math.factorial(half) * math.factorial(k))
            total = total + factors[m] * ways * r**m
        return total

    value = 0 * p.cosine
    for k in range(len(factors) - 1, -1, -1):
        value = value * p.cosine + math.factorial(k) * q(k, p.r) * q(k, p.s)
    return value


# Below, c = rr' cos θ, a = k² + r² and b = m² + r'², and n, n' ~ N(0, 1) are independent of all else. For k = m = 1 the
# closed forms are those of erf, GELU and its like; other k and m are the scales of `mixture`.


def _gram_determinant(p: GaussianPairs, k: float = 1.0, m: float = 1.0) -> Numbers:
    """Return D = k²m² + k²r'² + m²r² + r²r'² sin² θ, the determinant of the covariance of (z + kn, z' + mn')."""
    return (k * m) ** 2 + (k * p.s) ** 2 + (m * p.r) ** 2 + (p.r * p.s * p.sine) ** 2


def _gelu_pair(p: GaussianPairs, k: float = 1.0, m: float = 1.0) -> Numbers:
    """Return E[σ'(z/k)σ'(z'/m)] = ¼ + [atan(c/√D) + c(k²/a + m²/b)/√D + ck²m²/D^{3/2}]/2π, σ'(z) = Φ(z) + zφ(z)."""
    root, a, b, c = sqrt(_gram_determinant(p, k, m)), k**2 + p.r**2, m**2 + p.s**2, p.r * p.s * p.cosine
    return (arctan2(c, root) + c * (k**2 / a + m**2 / b) / root + c * (k * m) ** 2 / root**3) / (2 * p.pi) + 0.25


def _gelu_dual(p: GaussianPairs, k: float = 1.0, m: float = 1.0) -> Numbers:
    """Return E[zΦ(z/k)z'Φ(z'/m)] = [c (π/2 + atan(c/√D)) + (r²r'² sin² θ + c² (k²/a + m²/b))/√D]/2π."""
    root, a, b, c = sqrt(_gram_determinant(p, k, m)), k**2 + p.r**2, m**2 + p.s**2, p.r * p.s * p.cosine
    last = (p.r * p.s * p.sine) ** 2 + c * c * (k**2 / a + m**2 / b)
    return (c * arctan2(root, -c) + last / root) / (2 * p.pi)


def _smooth_relu_dual(p: GaussianPairs, k: float = 1.0, m: float = 1.0) -> Numbers:
    """Return E[(z + kn)₊(z' + mn')₊] = [√D + c (π/2 + atan(c/√D))]/2π; the mean over n is zΦ(z/k) + kφ(z/k)."""
    root, c = sqrt(_gram_determinant(p, k, m)), p.r * p.s * p.cosine
    return (root + c * arctan2(root, -c)) / (2 * p.pi)


def _erf_pair(p: GaussianPairs, k: float = 1.0, m: float = 1.0) -> Numbers:
    """Return 2/(π√D), E[f'(z)g'(z')] of f(z) = erf(z/√2k) and g(z') = erf(z'/√2m)."""
    return 2 / (p.pi * sqrt(_gram_determinant(p, k, m)))


def _erf_dual(p: GaussianPairs, k: float = 1.0, m: float = 1.0) -> Numbers:
    """Return E[f(z)g(z')] = (2/π) asin(c/√(ab)) of f(z) = erf(z/√2k) and g(z') = erf(z'/√2m)."""
    return 2 / p.pi * arctan2(p.r * p.s * p.cosine, sqrt(_gram_determinant(p, k, m)))


def leaky_relu(slope: float = 0.01) -> Activation:
    """Make the leaky ReLU, σ(z) = z for z > 0 and az for z ≤ 0, with slope a; ReLU for a = 0.

        E[σ'(z)σ'(z')] = a + (1 − a)² (½ − θ/2π)

    where θ is the angle between the points.

    Raises
    ------
    InputError
        If the slope is not a number of at most 1e6 in size, or is 1, which makes the identity.

    Examples
    --------
    >>> from implicit_bias.extensions.infinite.gram import gram_matrix
    >>> gram_matrix([[1.0, 0.0], [0.0, 2.0]], leaky_relu(0.5)).values.tolist()
    [[0.625, 0.0], [0.0, 2.5]]
    """
    a = checks.as_real(slope)
    if not abs(a) <= MAX_SLOPE:
        raise InputError(f"slope must be a number between -{MAX_SLOPE:g} and {MAX_SLOPE:g}, not {shown(slope)}")
    if a == 1:
        raise InputError("a leaky ReLU of slope 1 is the identity; give another slope")
    return Activation(
        f"leaky ReLU of slope {a:g}" if a else "relu",
        lambda z: np.where(z > 0, z, a * z),
        lambda z: np.where(z > 0, 1.0, a),
        lambda p: a + (1 - a) ** 2 * (p.pi - p.angle) / (2 * p.pi),
        lambda p: a * p.r * p.s * p.cosine + (1 - a) ** 2 * _relu_dual(p),
        parity="odd" if a == -1 else "half",
    )


def elu(alpha: float = 1.0, scale: float = 1.0) -> Activation:
    """Make the ELU, σ(z) = sz for z > 0 and sα(e^z − 1) for z ≤ 0; SELU for α = 1.6733, s = 1.0507.

        E[σ'(z)σ'(z')]/s² = ½ − θ/2π + α (F(r, θ) + F(r', θ)) + α² (½ erfcx(β/√2) − F(β, φ) − F(β, φ'))

    for points of lengths r, r' at an angle θ. Their sum has length β and forms the angles φ and φ' with them. F(β, ψ)
    is the Gaussian mean of e^{−β|y|} over the wedge 0 ≤ arg(x + iy) ≤ ψ of the plane. In multiprecision, β can be at
    most 50.

    Raises
    ------
    InputError
        If α or s is not between 1e-60 and 1e60.

    Examples
    --------
    >>> from implicit_bias.extensions.infinite.gram import gram_matrix
    >>> gram_matrix([[1.0, 0.0], [0.6, 0.8]], elu()).values.round(4).tolist()
    [[0.6681, 0.3754], [0.3754, 0.6681]]
    """
    alpha, scale = checks.as_positive(alpha, "alpha"), checks.as_positive(scale, "scale")
    checks.check_range(np.array([alpha, scale]), "alpha and scale", *ELU_RANGE)
    return Activation(
        f"ELU of α = {alpha:g} and scale {scale:g}",
        lambda z: scale * np.where(z > 0, z, alpha * np.expm1(np.minimum(z, 0.0))),
        lambda z: scale * np.where(z > 0, 1.0, alpha * np.exp(np.minimum(z, 0.0))),
        lambda p: scale**2 * _elu_pair(p, alpha),
        lambda p: scale**2 * _elu_dual(p, alpha),
        rounding=lambda _: 128.0,
        # Four terms of order 1 cancel to one of the order of the product of the lengths.
        dual_rounding=lambda r: 128.0 * (1 + 2 / float(min(r)) ** 2),
        angle_lipschitz=lambda r: _elu_lipschitz(r, alpha),
    )


def polynomial(coefficients: ArrayLike) -> Activation:
    """Make the polynomial σ(z) = c_0 + c_1 z + … + c_p z^p, with p at most 20.

        E[σ'(z)σ'(z')] = Σ_k k! q_k(r) q_k(r') cos^k θ,    q_k(r) = Σ_{m = k, k+2, …} b_m r^m m! / (k! (m−k)!!)

    with σ'(z) = Σ_m b_m z^m, for points of lengths r and r' at an angle θ.

    Raises
    ------
    InputError
        If coefficients are not finite or too many, σ is constant, or the largest coefficient is not between 1e-100 and
        1e100 in size.

    Examples
    --------
    >>> from implicit_bias.extensions.infinite.gram import gram_matrix
    >>> gram_matrix([[1.0, 0.0], [0.6, 0.8]], polynomial([0, 0, 1])).values.round(4).tolist()
    [[4.0, 1.44], [1.44, 4.0]]
    """
    c = checks.as_floats(coefficients, "coefficients", 1)
    c = c[: np.flatnonzero(c)[-1] + 1] if c.any() else c[:1]
    if not 2 <= len(c) <= MAX_DEGREE + 1:
        raise InputError(f"a polynomial activation has a degree from 1 to {MAX_DEGREE}, not {len(c) - 1}")
    checks.check_range(np.abs(c).max(keepdims=True), "the coefficients", 1e-100, 1e100)
    slopes = [float(m * c[m]) for m in range(1, len(c))]
    even, odd = any(slopes[0::2]), any(slopes[1::2])
    parity = "even" if not odd else "odd" if not even else None if any(slopes[2::2]) else "half"
    return Activation(
        f"polynomial of degree {len(c) - 1}",
        lambda z: np.polynomial.polynomial.polyval(z, c),
        lambda z: np.polynomial.polynomial.polyval(z, slopes),
        lambda p: _polynomial_mean(p, slopes),
        lambda p: _polynomial_mean(p, c.tolist()),
        rounding=lambda _: 8.0 * len(c),
        dual_rounding=lambda _: 8.0 * len(c),
        angle_lipschitz=lambda _: float(len(slopes)),
        parity=parity,
    )


def custom_activation(function: Callable[[Tensor], Tensor], name: str = "the function") -> Activation:
    """Make an activation from an elementwise torch function σ; σ' is computed by automatic differentiation.

    E[σ'(z)σ'(z')] is a Hermite series with coefficients by quadrature, which assumes that σ' is smooth except for a
    jump or kink at 0. The error of the tail is bounded. That of the quadrature is estimated by halving its panels,
    which are at most 1 wide in units of a point's length. A much narrower feature of σ' away from 0 can fall between
    all nodes; the estimate then misses it.

    Parameters
    ----------
    function : callable
        Elementwise map from a float64 tensor to one of the same shape and dtype, differentiable by torch.
    name : str
        Name in error messages.

    Raises
    ------
    InputError
        If `function` is not such a map; MissingError, a subclass, without torch.

    Examples
    --------
    >>> import torch
    >>> from implicit_bias.extensions.infinite.gram import gram_matrix
    >>> wave = custom_activation(torch.sin)
    >>> gram_matrix([[1.0, 0.0], [0.6, 0.8]], wave).values.round(6).tolist()
    [[0.567668, 0.261665], [0.261665, 0.567668]]
    """
    with torch_is_needed("a custom activation"):
        import torch

    checks.check_callable(function, "the activation")
    if function is None or not isinstance(name, str):
        raise InputError(f"the activation must be a function with a name, not {shown(function)} and {shown(name)}")

    def at(z: Any) -> tuple[Tensor, Tensor]:
        """Return z as a float64 tensor that requires a gradient, and σ(z); InputError if σ is no such map."""
        tensor = torch.as_tensor(np.asarray(z, dtype=np.float64)).clone().requires_grad_()
        value = function(tensor)
        if not isinstance(value, torch.Tensor) or value.shape != tensor.shape or not value.requires_grad:
            raise InputError(
                f"{name} must map a tensor to one of the same shape that torch can differentiate; use torch functions"
            )
        if value.dtype != tensor.dtype:
            raise InputError(
                f"{name} maps float64 to {str(value.dtype).removeprefix('torch.')}, which is too imprecise; "
                "keep float64 throughout"
            )
        return tensor, value

    def values(z: Any) -> Array:
        return at(z)[1].detach().numpy()

    def derivative(z: Any) -> Array:
        tensor, value = at(z)
        (slope,) = torch.autograd.grad(value.sum(), tensor)
        return slope.numpy()

    try:
        derivative(np.array([-0.5, 0.5]))
    except TypeError as error:
        raise InputError(f"{name} must be a function of one tensor: {error}") from None
    return Activation(name, values, derivative)


def mixture(mean: Callable[[GaussianPairs, float, float], Array]) -> Callable[[GaussianPairs], Array]:
    """Return Σ_ij w_i w_j E[f(z, k_i) f(z', k_j)] as a function of pairs; `mean(p, k, m)` is E[f(z, k) f(z', m)]."""

    def mixed(p: GaussianPairs) -> Array:
        total = 0.0 * p.cosine
        for k, w in zip(SCALES, WEIGHTS, strict=True):
            for other, share in zip(SCALES, w * WEIGHTS, strict=True):
                total += share * mean(p, k, other)
        return total

    return mixed


_ERF = Activation(
    "erf",
    lambda z: scipy.special.erf(z / math.sqrt(2)),
    lambda z: math.sqrt(2 / math.pi) * np.exp(-np.square(z) / 2),
    _erf_pair,
    _erf_dual,
    # u/(A + u²)^{3/2} ≤ 0.385/A for u = rr' sin θ and A = 1 + r² + r'².
    angle_lipschitz=lambda r: 0.385 * r,
    parity="even",
)
_GELU = Activation(
    "gelu",
    lambda z: z * scipy.special.ndtr(z),
    lambda z: scipy.special.ndtr(z) + z * np.exp(-np.square(z) / 2) / math.sqrt(2 * math.pi),
    _gelu_pair,
    _gelu_dual,
    parity="half",
)
_tanh_pair, _tanh_dual = mixture(_erf_pair), mixture(_erf_dual)
_swish_pair, _swish_dual, _softplus_dual = mixture(_gelu_pair), mixture(_gelu_dual), mixture(_smooth_relu_dual)


def _halved(p: GaussianPairs) -> GaussianPairs:
    return GaussianPairs(p.r / 2, p.s / 2, p.cosine, p.angle)


def _sigmoid_dual(p: GaussianPairs) -> Numbers:
    return 0.25 + _tanh_dual(_halved(p)) / 4


def _tanh_lipschitz(r: float) -> float:
    """Return tanh's `angle_lipschitz`, 2/π over E[σ'(rz)²]: σ' varies by 2, the pair's density is ≤ 1/(2πrr' sin θ)."""
    return 2 / math.pi / float(_tanh_pair(GaussianPairs(*np.array([r, r, 1.0, 0.0]))))


#: Activation whose means for long points are mixtures.
_mixed = partial(Activation, rounding=lambda _: MIXTURE_ROUNDING, dual_rounding=lambda _: MIXTURE_ROUNDING)
_TANH = _mixed(
    "tanh",
    np.tanh,
    lambda z: 4 * special.sigmoid_slope(2 * z),
    _tanh_pair,
    _tanh_dual,
    angle_lipschitz=_tanh_lipschitz,
    strip=Strip(math.pi / 4, 2.0),
    parity="even",
)
_SIGMOID = _mixed(
    "sigmoid",
    special.sigmoid,
    special.sigmoid_slope,
    lambda p: _tanh_pair(_halved(p)) / 16,
    _sigmoid_dual,
    angle_lipschitz=lambda r: _tanh_lipschitz(r / 2),
    strip=Strip(math.pi / 2, 0.5),
    parity="even",
)
_SOFTPLUS = _mixed(
    "softplus",
    lambda z: np.logaddexp(0, z),
    special.sigmoid,
    _sigmoid_dual,
    lambda p: 4 * _softplus_dual(_halved(p)),
    strip=Strip(math.pi / 2, 1.0),
    parity="half",
)
_SWISH = _mixed(
    "swish",
    lambda z: z * special.sigmoid(z),
    lambda z: special.sigmoid(z) + z * special.sigmoid_slope(z),
    lambda p: _swish_pair(_halved(p)),
    lambda p: 4 * _swish_dual(_halved(p)),
    # σ' has a variation of at most 1.41, and E[σ'(z)²] is at least ¼.
    angle_lipschitz=lambda _: 1.41**2 * 2 / math.pi,
    strip=Strip(math.pi / 2, 2.2),
    parity="half",
)
#: Named activations.
ACTIVATIONS = {
    "relu": leaky_relu(0.0),
    "leaky relu": leaky_relu(),
    "square": polynomial([0, 0, 1]),
    "cube": polynomial([0, 0, 0, 1]),
    "elu": elu(),
    "selu": elu(1.6732632423543772848, 1.0507009873554804934),
} | {named.name: named for named in (_ERF, _GELU, _TANH, _SIGMOID, _SOFTPLUS, _SWISH)}


def activation(name: str | Activation) -> Activation:
    """Return the activation of a name, or an `Activation` itself.

    The names are relu, leaky relu (slope 0.01), square (z²), cube (z³), elu, selu, erf (erf(z/√2)), gelu (zΦ(z)), tanh,
    sigmoid (1/(1 + e^{−z})), softplus (log(1 + e^z)) and swish (z/(1 + e^{−z})).

    Raises
    ------
    InputError
        If the name is unknown; the message lists the known names.

    Examples
    --------
    >>> float(activation("gelu").derivative(0.0))
    0.5
    """
    return name if isinstance(name, Activation) else ACTIVATIONS[checks.one_of(name, ACTIVATIONS, "activation")]
