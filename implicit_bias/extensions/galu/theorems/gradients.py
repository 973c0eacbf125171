"""Gradients of hidden weights at initialisation, equal for ReLU and GaLU layers, and their dependence on the labels."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from implicit_bias._utils import checks
from implicit_bias._utils.checks import Array, InputError
from implicit_bias._utils.floats import largest_entries, length
from implicit_bias.extensions.galu.theorems.memorisation import gate_kernel
from implicit_bias.features import GatedFeatures

#: −ℓ'(0) of each loss ℓ(y f).
SLOPES = {"hinge": 1.0, "logistic": 0.5}
#: Largest number of inputs d for which all 2^d sign patterns are enumerated.
MAX_ENUMERATED = 20


def initial_gradients(
    X: ArrayLike, y: ArrayLike, directions: ArrayLike, readout: ArrayLike | None = None, loss: str = "hinge"
) -> Array:
    """Return the gradient of the mean loss in every hidden weight while the network's output is 0, shape (k, d).

        ∂/∂w_j (1/m)Σ_i ℓ(y_i f(x_i)) = −c α_j (1/m) Σ_i y_i 1(⟨u_j, x_i⟩ > 0) x_i,   c = −ℓ'(0)

    The formula holds for GaLU networks f(x) = Σ_j α_j 1(⟨u_j, x⟩ > 0) ⟨w_j, x⟩, and for ReLU networks with u_j = w_j.
    Source: Fiat et al. (2019), Theorem 4.

    Parameters
    ----------
    X : array, shape (m, d)
    y : array, shape (m,)
        Labels −1 and +1.
    directions : array, shape (k, d)
        The gates' u_j; for a ReLU network its hidden weights.
    readout : array, shape (k,), optional
        α; ones by default.
    loss : 'hinge' (c = 1) or 'logistic' (c = ½)
        With the hinge loss, y f < 1 is sufficient.

    Raises
    ------
    InputError
        If shapes do not fit, or largest entries of nonzero samples or directions, or nonzero readouts, are outside
        1e-100 … 1e100.

    Examples
    --------
    >>> initial_gradients([[1.0, 1.0], [-1.0, 2.0]], [1, -1], directions=[[1.0, 1.0], [1.0, 0.0]]).tolist()
    [[-1.0, 0.5], [-0.5, -0.5]]
    """
    X, directions = checks.as_floats(X, "X", 2), checks.as_floats(directions, "directions", 2)
    y = checks.as_signs(y, len(X), both=False)
    slope = SLOPES[checks.one_of(loss, SLOPES, "loss")]
    if directions.shape[1] != X.shape[1]:
        raise InputError(f"directions must have the {X.shape[1]} columns of X, not {directions.shape[1]}")
    alpha = np.ones(len(directions)) if readout is None else checks.as_floats(readout, "readout", 1)
    if len(alpha) != len(directions):
        raise InputError(f"readout must have {len(directions)} numbers, one per direction, not {len(alpha)}")
    for sizes, what in ((largest_entries(X), "X"), (largest_entries(directions), "directions"), (alpha, "readout")):
        checks.check_range(np.abs(sizes), what, 1e-100, 1e100)
    features = GatedFeatures(X, (X @ directions.T > 0).astype(np.float64))
    return -slope / len(X) * alpha[:, None] * features.adjoint(y)


@dataclass(frozen=True, eq=False)
class InitialGradient:
    """Expected gradient direction `mean` = E[y 1(⟨u, x⟩ > 0) x], shape (d,), and its sampling noise.

    The gradient of a hidden weight is −c α_j times the sample mean of y 1(⟨u, x⟩ > 0) x, with c and α as in
    `initial_gradients`. `noise` is E‖y 1(⟨u, x⟩ > 0) x − mean‖² of one sample.
    """

    mean: Array = field(repr=False)
    noise: float

    @property
    def samples(self) -> float:
        """Sample size noise/‖mean‖² at which signal and noise of the gradient are equal; infinite if the mean is 0."""
        size = float(np.sum(self.mean**2))
        return self.noise / size if size > 0 else math.inf


def gaussian_gradient(target: ArrayLike) -> InitialGradient:
    """Return the expected gradient for x ~ N(0, I), y = sign⟨w*, x⟩ and any gate u ≠ 0: w*/√(2π).

    `target` is w* (d,), which is normalised; zeros raise InputError. The result is ours, for the gradient of Theorem 4
    of Fiat et al. (2019).

    Examples
    --------
    >>> gaussian_gradient([3.0, 4.0]).mean.round(4).tolist(), round(gaussian_gradient([0.0] * 19 + [1.0]).samples)
    ([0.2394, 0.3192], 62)
    """
    w = checks.as_floats(target, "target", 1)
    size = float(length(w))
    if size == 0:
        raise InputError("the target is all zeros, so that every label would be 0; give a direction")
    return InitialGradient(w / size / math.sqrt(2 * math.pi), len(w) / 2 - 1 / (2 * math.pi))


def parity_gradient(direction: ArrayLike, bits: int) -> InitialGradient:
    """Return the expected gradient for x uniform on {−1, +1}^d and the parity y of the first b = `bits` inputs.

        E[y 1(⟨u, x⟩ > 0) x_i] = ĥ(S △ {i}),   h(x) = 1(⟨u, x⟩ > 0),   ĥ(V) = E[h(x) Π_{l ∈ V} x_l]

    Here y = Π_{i ∈ S} x_i, and ĥ are the Fourier coefficients of the gate u = `direction` (d,). The squared norm of the
    gradient, averaged over all sets S of b inputs, is at most (max(b, d − b) + 1)/(2·binom(d, b)). The gradient is
    exactly 0 for b = 3, 5, 7, … if no ⟨u, x⟩ is 0. If ⟨u, x⟩ is 0 up to rounding, the gate is closed. All 2^d inputs
    are enumerated, and d > 20 raises InputError. The result is ours, for the gradient of Theorem 4 of Fiat et al.
    (2019).

    Examples
    --------
    >>> parity_gradient([1.0, 1.0, 1.0], bits=2).mean.tolist()
    [0.25, 0.25, -0.25]
    >>> round(parity_gradient([1.0 + i / 100 for i in range(20)], bits=10).samples)
    27688
    """
    u = checks.as_floats(direction, "direction", 1)
    if len(u) > MAX_ENUMERATED:
        raise InputError(f"direction has {len(u)} inputs, but all 2^d are enumerated; give at most {MAX_ENUMERATED}")
    bits = checks.as_count(bits, "bits", most=len(u), limit=f"d = {len(u)}, the number of inputs")
    sums, signs = np.zeros(1), np.ones(1, dtype=np.int64)
    u = u / (np.abs(u).max() or 1.0)
    for i, weight in enumerate(u):
        sums = np.concatenate([sums + weight, sums - weight])
        signs = np.concatenate([signs, -signs if i < bits else signs])
    rounding = len(u) * np.finfo(float).eps * np.abs(u).sum()
    values = np.where(sums > rounding, signs, 0)
    # The last input changes slowest. The sums are exact, because they are sums of integers.
    totals = [np.subtract(*values.reshape(-1, 2, 2**i).sum(axis=(0, 2))) for i in range(len(u))]
    mean = np.array(totals, dtype=np.float64) / 2.0 ** len(u)
    return InitialGradient(mean, float(len(u) * (np.count_nonzero(values) / len(values)) - np.sum(mean**2)))


@dataclass(frozen=True)
class FirstGradientNorm:
    """Distribution of ‖∂L_S/∂W‖ over u_j ~ N(0, I), for |α_j| = 1 and networks with the factor 1/√k, ReLU or GaLU.

    `mean_square` is E‖∂L_S/∂W‖² = yᵀκ(X)y/m² at every width, `largest` is the upper bound ‖X‖/√m of the norm, and `k`
    is the number of units.
    """

    mean_square: float
    largest: float
    k: int

    def at_most(self, epsilon: float) -> float:
        """Return a lower bound on P(‖∂L_S/∂W‖ ≤ ε) by Markov or Hoeffding; 0 unless ε² exceeds the mean square."""
        square = _squared(epsilon)
        if square <= self.mean_square:
            return 0.0
        return 1 - min(self.mean_square / square, self._tail(square))

    def at_least(self, epsilon: float) -> float:
        """Return a lower bound on P(‖∂L_S/∂W‖ ≥ ε) by Hoeffding; 0 unless ε² is below the mean square."""
        square = _squared(epsilon)
        return 1 - self._tail(square) if square < self.mean_square else 0.0

    def _tail(self, square: float) -> float:
        """Return Hoeffding's bound exp(−2k(ε² − `mean_square`)²/`largest`⁴) of a tail of ‖∂L_S/∂W‖², `square` = ε²."""
        deviation = (square - self.mean_square) / self.largest**2
        return math.exp(-2 * self.k * deviation * deviation)


def _squared(epsilon: float) -> float:
    epsilon = checks.as_positive(epsilon, "epsilon")
    return epsilon * epsilon


def first_gradient_norm(X: ArrayLike, y: ArrayLike, k: int) -> FirstGradientNorm:
    """Theorem 4 as a probability: bound the norm of the first gradient of the hinge loss, for GaLU and ReLU alike.

        N^R = 1/√k Σ_j α_j [⟨u_j, x⟩]₊,  N^G = 1/√k Σ_j α_j 1(⟨u_j, x⟩ ≥ 0)⟨w_j, x⟩,  y_i N(x_i) < 1 for all i:

        ∂L_S/∂w_j = ∂L_S/∂u_j = −(α_j/(m√k)) Σ_i y_i 1(⟨u_j, x_i⟩ ≥ 0) x_i

    The samples X (m, d) have positive length, and the labels y (m,) are −1 and +1. Fiat et al. (2019), Theorem 4,
    assume ``|N| ≤ 1`` on the unit ball; their proof only uses y_i N(x_i) < 1 on the samples. The mean and the tail
    bounds are ours.

    Examples
    --------
    >>> found = first_gradient_norm([[1.0, 0.0], [-1.0, 0.0]], [1, 1], k=50)
    >>> found.mean_square, found.at_most(0.5), round(found.at_most(0.6), 2)
    (0.25, 0.0, 0.7)
    """
    X = checks.as_floats(X, "X", 2)
    y, k = checks.as_signs(y, len(X), both=False), checks.as_number_of(k, "k")
    square = float(y @ gate_kernel(X) @ y) / len(X) ** 2
    return FirstGradientNorm(max(0.0, square), float(np.linalg.norm(X, 2)) / math.sqrt(len(X)), k)
