"""E[σ(z)σ(z')] and E[σ'(z)σ'(z')] of centred Gaussian pairs in closed form; see docs/gram.md for the derivations."""

import math

import scipy.special

from implicit_bias.extensions.infinite.angles import GaussianPairs
from implicit_bias.extensions.infinite.special import Numbers, arctan2, erfcx, erfcx_less_one, sin, sqrt, wedge


def relu_dual(p: GaussianPairs) -> Numbers:
    """E[z₊z'₊] = rr' (sin θ + (π − θ) cos θ)/2π, the arc-cosine kernel of degree 1."""
    return p.r * p.s * ((sin(p.angle) + (p.pi - p.angle) * p.cosine) / (2 * p.pi))


def elu_dual(p: GaussianPairs, alpha: float) -> Numbers:
    """E[σ(z)σ(z')] of ELU with scale 1: the four quadrants of signs."""
    root = 2 * sqrt(2 * p.pi + 0 * p.angle)
    far, near = wedge(p.r + 0 * p.angle, p.angle), wedge(p.s + 0 * p.angle, p.angle)
    mixed = p.r * p.s * p.cosine * (far + near)
    for one, other in ((p.r, p.s), (p.s, p.r)):
        mixed = mixed + one / root * erfcx_less_one(other * sin(p.angle) / sqrt(2 + 0 * p.angle))
    # E[e^z 1(z < 0, z' < 0)] is what the mixed quadrant leaves of E[e^z 1(z < 0)].
    single = (erfcx(p.r / sqrt(2 + 0 * p.r)) + erfcx(p.s / sqrt(2 + 0 * p.s))) / 2 - far - near
    both = elu_both(p) - single + (p.pi - p.angle) / (2 * p.pi)
    return relu_dual(p) + alpha * mixed + alpha**2 * both


def elu_both(p: GaussianPairs) -> Numbers:
    """E[e^{z + z'} 1(z < 0, z' < 0)]."""
    across, along, beyond = p.r * sin(p.angle), p.s + p.r * p.cosine, p.r + p.s * p.cosine
    beta = sqrt(along * along + across * across)
    # The second angle as a difference, so that the two add up to θ where the sum of the points vanishes.
    first = arctan2(p.s * sin(p.angle), beyond)
    return erfcx(beta / sqrt(2 + 0 * beta)) / 2 - wedge(beta, first) - wedge(beta, abs(p.angle - first))


def elu_pair(p: GaussianPairs, alpha: float) -> Numbers:
    """E[σ'(z)σ'(z')] of ELU with scale 1: the four quadrants of signs."""
    one = wedge(p.r + 0 * p.angle, p.angle) + wedge(p.s + 0 * p.angle, p.angle)
    return (p.pi - p.angle) / (2 * p.pi) + alpha * one + alpha**2 * elu_both(p)


def elu_bend(r: float, alpha: float) -> float:
    """(α + |1 − α|)²/2π, which bounds |∂E/∂θ| = rr' sin θ |E[σ''(z)σ''(z')]|, over the least E[σ'(z)²].

    σ'' is α e^z for z < 0 with (1 − α)δ(z), and the density of the pair is at most 1/(2πrr' sin θ).
    """
    return (alpha + abs(1 - alpha)) ** 2 / (math.pi * (1 + alpha**2 * scipy.special.erfcx(math.sqrt(2) * r)))


def polynomial_mean(p: GaussianPairs, factors: list[float]) -> Numbers:
    """E[f(z)f(z')] of f(z) = Σ_m b_m z^m with b = `factors`."""

    def part(k: int, r: Numbers) -> Numbers:
        """√k! q_k(r) but for the root, which the pair shares."""
        total = 0 * r
        for m in range(k, len(factors), 2):
            half = (m - k) // 2
            # A whole number: how many ways there are to leave k of m factors without a partner.
            ways = math.factorial(m) // (2**half * math.factorial(half) * math.factorial(k))
            total = total + factors[m] * ways * r**m
        return total

    value = 0 * p.cosine
    for k in range(len(factors) - 1, -1, -1):
        value = value * p.cosine + math.factorial(k) * part(k, p.r) * part(k, p.s)
    return value


def gram_determinant(p: GaussianPairs) -> Numbers:
    """det(I + Σ) = 1 + r² + r'² + r²r'² sin² θ of the pair's covariance Σ."""
    return 1 + p.r**2 + p.s**2 + (p.r * p.s * sin(p.angle)) ** 2


def gelu_pair(p: GaussianPairs) -> Numbers:
    """E[σ'(z)σ'(z')] of σ'(z) = Φ(z) + zφ(z): ¼ + [asin(c/√(aa')) + c(1/a + 1/a')/√D + c/D^{3/2}]/2π."""
    root, a, b, c = sqrt(gram_determinant(p)), 1 + p.r**2, 1 + p.s**2, p.r * p.s * p.cosine
    return (arctan2(c, root) + c * (1 / a + 1 / b) / root + c / root**3) / (2 * p.pi) + 0.25


def gelu_dual(p: GaussianPairs) -> Numbers:
    """E[zΦ(z)z'Φ(z')]: [c (π/2 + atan(c/√D)) + (r²r'² sin² θ + c² (1/a + 1/a'))/√D]/2π."""
    root, a, b, c = sqrt(gram_determinant(p)), 1 + p.r**2, 1 + p.s**2, p.r * p.s * p.cosine
    return (c * arctan2(root, -c) + ((p.r * p.s * sin(p.angle)) ** 2 + c * c * (1 / a + 1 / b)) / root) / (2 * p.pi)


def erf_dual(p: GaussianPairs) -> Numbers:
    """E[σ(z)σ(z')] of σ(z) = erf(z/√2): the arcsine kernel (2/π) asin(c/√(aa'))."""
    return 2 / p.pi * arctan2(p.r * p.s * p.cosine, sqrt(gram_determinant(p)))
