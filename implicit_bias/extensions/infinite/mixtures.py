"""tanh, sigmoid, softplus and swish as mixtures of functions with closed forms, for points of any length.

    tanh(z) = E[erf(z/√2k)],    z/(1 + e^{−z}) = E[zΦ(z/2k)],    log(1 + e^z) = E[2k (uΦ(u) + φ(u))],  u = z/2k,

where k has Kolmogorov's distribution (Andrews & Mallows, 1974, "Scale mixtures of normal distributions"). Means over
the Gaussian pair are double sums over `SCALES`. docs/gram_formulas.md bounds the error.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from implicit_bias._utils.checks import Array
from implicit_bias.extensions.infinite.angles import GaussianPairs

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
    kept = weights > LEAST_WEIGHT
    return k[kept], weights[kept] / weights[kept].sum()


SCALES, WEIGHTS = _rule()


def mixture(mean: Callable[[GaussianPairs, float, float], Array]) -> Callable[[GaussianPairs], Array]:
    """Return Σ_ij w_i w_j E[f(z, k_i) f(z', k_j)] as a function of pairs; `mean(p, k, m)` is E[f(z, k) f(z', m)]."""

    def mixed(p: GaussianPairs) -> Array:
        total = 0.0 * p.cosine
        for k, w in zip(SCALES, WEIGHTS, strict=True):
            for other, share in zip(SCALES, w * WEIGHTS, strict=True):
                total += share * mean(p, k, other)
        return total

    return mixed
