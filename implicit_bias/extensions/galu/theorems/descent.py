"""The squared loss of a GaLU layer: gradient descent, its limit and rate (Theorem 1), and the landscape in (W, α)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from implicit_bias._utils import checks
from implicit_bias._utils.checks import Array, InputError
from implicit_bias._utils.files import finite_numbers
from implicit_bias._utils.floats import length
from implicit_bias.extensions.galu.closed_form import least_squares, singular_extent
from implicit_bias.extensions.galu.theorems.memorisation import memorisation_width
from implicit_bias.features.gated import GatedFeatures, as_gated

#: Rate above which 1 − ρ has fewer than eight correct digits.
LARGEST_ACCURATE_RATE = 1 - 1e-8


@dataclass(frozen=True)
class DescentRate:
    """Step size η and rate ρ of gradient descent on (1/m)‖Φw − y‖²: ‖w_t − w_∞‖ ≤ ρᵗ ‖w_0 − w_∞‖.

    w_∞ is `descent_target(features, y, w_0)`. The fields are η (`step`), ρ (`rate`, with 0 ≤ ρ < 1), m (`samples`), and
    `largest` and `smallest`, an upper and a lower bound of the non-zero singular values of Φ. `failure` bounds the
    probability that random gates violate this. `descent_rate` computes exact singular values and `failure` 0.
    """

    step: float
    rate: float
    largest: float
    smallest: float
    samples: int
    failure: float = 0.0

    def steps(self, share: float) -> int:
        """Return a number of steps after which ‖w_t − w_∞‖ ≤ share · ‖w_0 − w_∞‖.

        The excess loss is then at most share² times the initial excess loss.
        """
        return max(1, math.ceil(-math.log(checks.as_probability(share, "share")) / self._decay))

    def steps_to(self, excess: float, distance: float) -> int:
        """Return a number of steps after which L(w_t) − min L ≤ excess, if ‖w_0 − w*‖ ≤ distance.

        L(w_t) − min L = (1/m)‖Φ(w_t − w_∞)‖² ≤ (largest²/m) ρ^{2t} distance²
        """
        excess, distance = checks.as_positive(excess, "excess"), checks.as_positive(distance, "distance")
        logarithm = 2 * (math.log(self.largest) + math.log(distance)) - math.log(self.samples) - math.log(excess)
        return max(0, math.ceil(logarithm / (2 * self._decay)))

    @property
    def _decay(self) -> float:
        """−log ρ, infinite for ρ = 0; for ρ close to 1 the smaller (smallest/largest)², which rounding cannot spoil."""
        if self.rate == 0:
            return math.inf
        # Close to 1, ρ is too inaccurate for log ρ. Both rates of this module have −log ρ ≥ (smallest/largest)².
        return -math.log(self.rate) if self.rate < LARGEST_ACCURATE_RATE else (self.smallest / self.largest) ** 2


def descent_rate(features: GatedFeatures) -> DescentRate:
    """Return the optimal constant step size and its rate, from the extreme non-zero singular values of Φ.

        w_{t+1} = w_t − η (2/m) Φᵀ(Φw_t − y),    η = m/(σ_max² + σ_min²),    ρ = (σ_max² − σ_min²)/(σ_max² + σ_min²)

    Singular values below 1e-9 times the largest count as zero, as in `least_squares`; InputError is raised if all do.
    Source: Fiat et al. (2019), proof of Theorem 1, with the limit w* + (I − P)w_0 instead of w*.

    Examples
    --------
    >>> found = descent_rate(GatedFeatures([[1.0, 0.0], [0.0, 3.0]]))
    >>> found.step, found.rate, found.steps(1e-3), found.steps_to(excess=1e-3, distance=10.0)
    (0.2, 0.8, 31, 30)
    """
    features = as_gated(features)
    largest, smallest = singular_extent(features)
    checks.check_range(np.array([largest]), "the features", 1e-140, 1e140)
    # ρ = (σ_max² − σ_min²)/(σ_max² + σ_min²) in a form without cancellation or overflow.
    inverse = smallest / largest
    rate = (1 - inverse) * (1 + inverse) / (1 + inverse**2)
    return DescentRate(features.n / (largest**2 * (1 + inverse**2)), rate, largest, smallest, features.n)


def a_priori_rate(X: ArrayLike, k: int) -> DescentRate:
    """Theorem 1: return step size and rate for k random gates on X (m, d), before the gates are drawn.

        η = m/(2k‖X‖²),    ρ = 1 − λ(X)/(2‖X‖²),    except with probability m exp(−kλ(X)/(8‖X‖²))

    λ(X) is the smallest eigenvalue of `gate_kernel(X)`. `memorisation_width(X, delta).width` gates have a `failure` of
    at most δ. Fiat et al. (2019) have twice this η, for the loss (1/2m)‖Φw − y‖². That loss is at most ε after
    `steps_to(2ε, ‖w_0 − w*‖)` steps, about half as many as the theorem states.

    Raises
    ------
    InputError
        If λ(X) is 0 up to rounding, or k is so small that the bound on the probability is 1 or more.

    Examples
    --------
    >>> found = a_priori_rate(np.eye(4), k=100)
    >>> found.step, round(found.rate, 12), round(found.failure, 4)
    (0.02, 0.75, 0.0077)
    """
    k = checks.as_number_of(k, "k")
    lemma = memorisation_width(X)
    failure = lemma.failure(k)
    if failure >= 1:
        bound = 8 * lemma.squared_norm / lemma.eigenvalue * math.log(lemma.samples)
        raise InputError(f"k = {k} gates are too few for a rate in advance; take more than {math.floor(bound)}")
    largest, smallest = k * lemma.squared_norm, k * lemma.eigenvalue / 2
    step = lemma.samples / (2 * largest)
    return DescentRate(step, 1 - smallest / largest, math.sqrt(largest), math.sqrt(smallest), lemma.samples, failure)


def descent_target(features: GatedFeatures, y: ArrayLike, w0: ArrayLike) -> Array:
    """Return the limit of gradient descent on (1/m)‖Φw − y‖² from w_0 (k, d): w_∞ = w* + (I − P) w_0, shape (k, d).

    w* = Φ⁺y is the least-norm solution, and P = Φ⁺Φ projects onto the span of the features. Fiat et al. (2019), proof
    of Theorem 1, state w* for every w_0.

    Examples
    --------
    >>> descent_target(GatedFeatures([[1.0, 0.0]]), [2.0], [[5.0, 7.0]]).round(9).tolist()
    [[2.0, 7.0]]
    """
    features = as_gated(features)
    start = finite_numbers(checks.as_numbers(w0, (features.k, features.d), "w0"), "w0")
    y = checks.as_numbers(y, (features.n,), "y")
    # One solve gives Φ⁺(y − Φw_0) = w* − Pw_0.
    return np.asarray(start + least_squares(features, y - features @ start).weights)


@dataclass(frozen=True)
class Landscape:
    """Result of `landscape`: the loss L(W, α) = (1/m)‖Φ(α ∘ W) − y‖² and its derivatives at a point (W, α).

    `excess` is L minus its global minimum, which is that of least squares in w̃_j = α_j w_j. `gradient` is ‖∇L‖ in (W,
    α). `curvature` is an upper bound on the least eigenvalue of the Hessian; if ∇L = 0 and `excess` > 0, it is
    negative.
    """

    loss: float
    excess: float
    gradient: float
    curvature: float


def landscape(features: GatedFeatures, y: ArrayLike, weights: ArrayLike, readout: ArrayLike) -> Landscape:
    """Evaluate the mean squared loss L of N(x) = Σ_j α_j g_j(x) ⟨w_j, x⟩ and its derivatives at W (k, d) and α (k,).

    Every stationary point is a global minimum or a strict saddle. `curvature` is the least eigenvalue of the Hessian
    over the planes spanned by (−G_j/‖G_j‖, 0) and (0, 1) of (w_j, α_j), with G_j = ∂L/∂w̃_j and w̃_j = α_j w_j. For
    normalised networks, divide α by √k. Fiat et al. (2019), section 3, cite a theorem on linear networks; the proof in
    docs/galu_proofs.md is ours.

    Raises
    ------
    InputError
        As for `least_squares`, and if weights are not finite or so large that a result is not finite.

    Examples
    --------
    >>> features, y = GatedFeatures([[1.0, 2.0], [3.0, 1.0], [0.0, 1.0]]), [1.0, 0.0, 2.0]
    >>> found = landscape(features, y, least_squares(features, y).weights / 2, [2.0])
    >>> round(found.excess, 12), round(found.gradient, 9)
    (0.0, 0.0)
    """
    features = as_gated(features)
    y = checks.as_column(y, features.n)
    W = finite_numbers(checks.as_numbers(weights, (features.k, features.d), "weights"), "weights")
    alpha = checks.as_floats(readout, "readout", 1)
    if len(alpha) != features.k:
        raise InputError(f"readout must have {features.k} numbers, one per gate, not {len(alpha)}")
    minimum = least_squares(features, y).loss
    with np.errstate(over="ignore", invalid="ignore"):
        residual = features @ (alpha[:, None] * W) - y
        slopes = 2 / features.n * features.adjoint(residual)
        gradient = np.concatenate([(alpha[:, None] * slopes).ravel(), np.sum(W * slopes, axis=1)])
        loss = float(np.mean(residual**2))
        size, curvature = float(length(gradient)), _curvature(features, slopes, W, alpha)
    if not np.isfinite([loss, size, curvature]).all():
        raise InputError("loss, gradient or curvature overflow; scale weights, readout and labels down")
    return Landscape(loss, max(0.0, loss - minimum), size, curvature)


def _curvature(features: GatedFeatures, slopes: Array, W: Array, alpha: Array) -> float:
    """Return min_j of the least eigenvalue of the Hessian, restricted to the plane of w_j ∥ G_j and α_j.

    `slopes` (k, d) are G_j = ∂L/∂w̃_j. In (G_j/‖G_j‖, 1), the Hessian is the Gauss–Newton matrix plus ‖G_j‖ off the
    diagonal.
    """
    sizes = length(slopes, axis=1)
    directions = slopes / np.where(sizes > 0, sizes, 1.0)[:, None]
    outputs = [features.gate_values * (features.X @ A.T) for A in (alpha[:, None] * directions, W)]
    t, s = (2 / features.n * np.sum(output**2, axis=0) for output in outputs)
    both = 2 / features.n * np.sum(outputs[0] * outputs[1], axis=0) + sizes
    return float(np.min((t + s - np.hypot(t - s, 2 * both)) / 2))
