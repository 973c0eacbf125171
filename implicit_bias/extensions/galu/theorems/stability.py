"""The share of gates that small perturbations change (Lemma 11), and the gain of ReLU networks from it (Theorem 5)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from implicit_bias._utils import checks
from implicit_bias._utils.checks import Array, InputError
from implicit_bias._utils.floats import length
from implicit_bias.extensions.galu.theorems.clusters import slab_probability
from implicit_bias.extensions.galu.theorems.memorisation import check_lengths

#: Replaces ε = 0, which the formulas exclude.
SMALLEST_EPSILON = 1e-100


@dataclass(frozen=True)
class MovedGates:
    """Bounds on the share of `k` gates 1(⟨u_j, x⟩ ≥ 0) that change, for all w with ‖w_j − u_j‖ ≤ ε = `epsilon` at once.

    At a unit x the share is ‖Φ_U(x) − Φ_W(x)‖² for the Φ of Lemma 11, with its factor 1/√k. With probability at least
    1 − δ each, `mean` bounds the mean share over any distribution of x independent of the u_j, and `uniform` the
    largest share over all x. `printed` is the square of the paper's bound, 5Bε/√(2π) with B² = √6·d. Theorem 5 and
    Lemma 11 require k ≥ `printed_width` = π/(B²ε²) (log(2/δ) + d log(3/ε)) and d > log(2k/δ).
    """

    mean: float
    uniform: float
    printed: float
    printed_width: float
    d: int
    k: int
    epsilon: float
    delta: float

    @property
    def conditions_hold(self) -> bool:
        """True if k and d satisfy the conditions of Theorem 5 and Lemma 11, and ε ≤ 1, which their proof requires."""
        return self.k >= self.printed_width and self.d > math.log(2 * self.k / self.delta) and self.epsilon <= 1


def moved_gates(d: int, k: int, epsilon: float, delta: float = 0.05) -> MovedGates:
    """Lemma 11: bound the share of k gates in R^d that change if every direction u_j ~ N(0, I) moves by at most ε.

        mean      = P(|u| ≤ ε) + √(log(1/δ)/2k),    u ~ N(0, 1)
        uniform   = 2(ε + √(d − 1) r)/((1 − r)√(2π)) + √((log(1/δ) + d log(3/r))/2k),    r = min(½, ε/√d)

    Both bounds, cut off at 1, are ours and hold for every k and d. Fiat et al. (2019), Lemma 11 and Theorem 5: the
    roots in our copy are ambiguous; `printed` reads B² = √6·d, under which the constants and the proof agree. At k ≥
    `printed_width`, `uniform` is at most `printed` if `printed` is below 1, so that both statements hold.

    Examples
    --------
    >>> moved_gates(d=784, k=10_000, epsilon=0.01).mean < 0.021
    True
    """
    d, k = checks.as_number_of(d, "d"), checks.as_number_of(k, "k")
    epsilon, delta = checks.as_positive(epsilon, "epsilon"), checks.as_probability(delta)
    checks.check_range(np.array([epsilon]), "epsilon", 1e-100, 1e100)
    radius = min(0.5, epsilon / math.sqrt(d))
    slab = 2 * (epsilon + math.sqrt(d - 1) * radius) / ((1 - radius) * math.sqrt(2 * math.pi))
    tails = [math.log(1 / delta) + net for net in (0.0, d * math.log(3 / radius))]
    pairs = zip((math.erf(epsilon / math.sqrt(2)), slab), tails, strict=True)
    mean, uniform = (min(1.0, share + math.sqrt(tail / (2 * k))) for share, tail in pairs)
    square = math.sqrt(6) * d
    printed = 5 * math.sqrt(square / (2 * math.pi)) * epsilon
    width = math.pi / square / epsilon**2 * (math.log(2 / delta) + d * math.log(3 / epsilon))
    return MovedGates(mean, uniform, printed, width, d, k, epsilon, delta)


def neighbouring_gates(d: int, k: int, epsilon: float, delta: float = 0.05) -> float:
    """Bound the share of k random gates that differ between two unit samples in R^d, d ≥ 2, at distance ≤ ε < 1.

        ‖x − x'‖ ≤ ε   ⟹   (1/k) #{j: g_j(x) ≠ g_j(x')} ≤ P(|v_1| ≤ 2ε) + √((log(1/δ) + d log(3/ε))/2k)

    The result is the right-hand side, at most 1; v is uniform on the sphere. With probability at least 1 − δ over the
    gates g_j(x) = 1(⟨u_j, x⟩ > 0), u_j ~ N(0, I), the inequality holds for all such x, x' at once. The bound is ours,
    with a proof in docs/galu_proofs.md.

    Examples
    --------
    >>> round(neighbouring_gates(d=10, k=32_000, epsilon=0.01), 3)
    0.077
    """
    k, delta = checks.as_number_of(k, "k"), checks.as_probability(delta)
    epsilon = checks.as_probability(epsilon, "epsilon")
    slab, tail = slab_probability(d, 2 * epsilon), math.log(1 / delta) + d * math.log(3 / epsilon)
    return min(1.0, slab + math.sqrt(tail / (2 * k)))


@dataclass(frozen=True)
class GaLUExcess:
    """Bounds on L_D(best GaLU network on gates U) − L_D(ReLU network U*, α) of `galu_excess`, for an L-Lipschitz loss.

    `epsilon` is max_j ‖u*_j − u_j‖, and `flips` is the share of gates, over samples and units, that changed.
    `on_samples` = L (1/m) Σ_i |N^G_{U*,U,α}(x_i) − N^R_{U*,α}(x_i)| holds for these samples with certainty.
    `bound` = L ε min(‖α‖₂ √s, √k ‖α‖_∞ s) holds with probability at least 1 − δ, for all U* and their ε at once, on any
    distribution of x with ‖x‖ ≤ 1 that is independent of U. `share` is s = P(|N(0, 1)| ≤ ε) + (c + 1/4c)/√k, at most 1,
    where e^{−2c²} = min(δ, ½). `printed` is the paper's L √(5Bε/√(2π)) max_j ‖α_j u*_j‖ with B² = √6·d, and
    `conditions_hold` is True if k, d and ε satisfy its conditions (`MovedGates`). `units` and `delta` are k and δ.
    """

    epsilon: float
    flips: float
    on_samples: float
    bound: float
    share: float
    printed: float
    conditions_hold: bool
    units: int
    delta: float


def galu_excess(
    X: ArrayLike,
    start: ArrayLike,
    trained: ArrayLike,
    readout: ArrayLike,
    *,
    lipschitz: float = 1.0,
    delta: float = 0.05,
) -> GaLUExcess:
    """Theorem 5: bound the excess loss of GaLU networks over a ReLU network that stays near its initialisation.

        N^R_{U,α}(x) = 1/√k Σ_j α_j [⟨u_j, x⟩]₊,    N^G_{W,U,α}(x) = 1/√k Σ_j α_j 1(⟨u_j, x⟩ ≥ 0)⟨w_j, x⟩

        min_{W,α'} L_D(N^G_{W,U,α'}) ≤ L_D(N^R_{U*,α}) + bound

    The GaLU network is that with W = U*. The bound holds for all ε at once, because ε is computed from the trained
    network; `moved_gates(…).mean` is for an ε chosen before U. Fiat et al. (2019), Theorem 5, lose a factor √k in the
    proof; `bound` and its proof are ours and need no condition on k and d.

    Parameters
    ----------
    X : array, shape (m, d)
        Samples of length at most 1, for `flips` and `on_samples`; `bound` does not depend on them.
    start, trained : arrays, shape (k, d)
        U, drawn from N(0, I), and U*, which may depend on U and on anything else.
    readout : array, shape (k,)
        α of the trained network, without 1/√k.
    lipschitz : float
        L of the loss in the output: 1 for the hinge, logistic and absolute losses.
    delta : float
        δ, strictly between 0 and 1, for the draw of U.

    Examples
    --------
    >>> galu_excess([[1.0, 0.0]], [[0.1, 1.0]], [[-0.1, 1.0]], [1.0]).on_samples
    0.1
    """
    X, delta = checks.as_floats(X, "X", 2), checks.as_probability(delta)
    start, trained = checks.as_floats(start, "start", 2), checks.as_floats(trained, "trained", 2)
    alpha, lipschitz = checks.as_floats(readout, "readout", 1), checks.as_positive(lipschitz, "lipschitz")
    _check_shapes(X, start, trained, alpha)
    checks.check_range(np.array([lipschitz]), "lipschitz", 1e-100, 1e100)
    opened, outputs = X @ start.T >= 0, X @ trained.T
    flipped = opened != (outputs >= 0)
    difference = np.where(opened, outputs, 0.0) - np.maximum(outputs, 0.0)
    (k, d), epsilon = start.shape, float(length(trained - start, axis=1).max())
    root, largest = math.sqrt(k), float(np.abs(alpha).max())
    on_samples = lipschitz * float(np.abs(difference @ alpha).mean()) / root
    gates = moved_gates(d, k, max(epsilon, SMALLEST_EPSILON), delta)
    printed = lipschitz * float((np.abs(alpha) * length(trained, axis=1)).max()) * math.sqrt(gates.printed)
    # For all ε at once, this bounds the mean of (1/k) #{j: |⟨u_j, x⟩| ≤ ε‖x‖} over x with probability at least 1 − δ.
    c = math.sqrt(-math.log(min(delta, 0.5)) / 2)
    share = min(1.0, math.erf(epsilon / math.sqrt(2)) + (c + 1 / (4 * c)) / root)
    bound = lipschitz * epsilon * min(float(length(alpha)) * math.sqrt(share), root * largest * share)
    flips, conditions = float(flipped.mean()), gates.conditions_hold
    return GaLUExcess(epsilon, flips, on_samples, bound, share, printed, conditions, k, delta)


def _check_shapes(X: Array, start: Array, trained: Array, alpha: Array) -> None:
    if start.shape != trained.shape or start.shape[1] != X.shape[1]:
        raise InputError(
            f"start and trained must have one shape (k, {X.shape[1]}), not {start.shape} and {trained.shape}"
        )
    if len(alpha) != len(start):
        raise InputError(f"readout must have {len(start)} numbers, one per unit, not {len(alpha)}")
    check_lengths(X)
    sizes = np.array([np.abs(values).max() for values in (start, trained, alpha)])
    checks.check_range(sizes[sizes > 0], "start, trained and readout", 1e-100, 1e100)
