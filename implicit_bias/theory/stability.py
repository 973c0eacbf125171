"""How little the gates of a GaLU layer change between neighbouring samples (Theorem 5, Lemma 11)."""

import math
from dataclasses import dataclass

import scipy.special
import scipy.stats

from implicit_bias.ground.checks import as_count, as_number_of, as_positive, as_probability, check_size


@dataclass(frozen=True)
class GateStability:
    """A share of gates that bounds how many differ between any two unit samples at a distance of at most ε.

    Attributes
    ----------
    width : int
        The least k ≥ π/(6dε²) (log(2/δ) + d log(3/ε)); the shares hold for every larger k.
    share : float
        5√(6d)ε/√(2π), which holds except with probability δ/2.
    sphere_share : float
        P(|v_1| ≤ 2ε) + √((log(2/δ) + d log(3/ε))/(2·width)) for v uniform on the sphere: holds in the same draws, and
        is about half of `share`.
    d : int
    epsilon, delta : float

    Examples
    --------
    >>> from implicit_bias.theory import gate_stability
    >>> found = gate_stability(d=10, epsilon=0.01)
    >>> found.width, round(found.share, 3), round(found.sphere_share, 3), found.is_vacuous
    (31797, 0.155, 0.077, False)
    >>> gate_stability(d=100, epsilon=0.1).is_vacuous
    True
    """

    width: int
    share: float
    sphere_share: float
    d: int
    epsilon: float
    delta: float

    @property
    def distance(self) -> float:
        """√share, a bound of ‖g(x) − g(x')‖/√k."""
        return math.sqrt(self.share)

    @property
    def is_vacuous(self) -> bool:
        """Whether `share` is at least 1, which bounds nothing."""
        return self.share >= 1

    def norm_failure(self, k: int) -> float:
        """k P(‖u‖² > 6d) for u ~ N(0, I), at most 1: what the paper's proof pays besides δ/2, and ours does not."""
        return min(1.0, as_number_of(k, "k") * float(scipy.stats.chi2.sf(6 * self.d, self.d)))

    def output_change(self, weight_norm: float, k: int) -> float:
        """‖W‖ √k (distance + ε), a bound of |f(x) − f(x')| for f(x) = ⟨W, Φ(x)⟩."""
        return (
            as_positive(weight_norm, "weight_norm") * math.sqrt(as_number_of(k, "k")) * (self.distance + self.epsilon)
        )


def gate_stability(d: int, epsilon: float, delta: float = 0.05) -> GateStability:
    """Theorem 5 by Lemma 11: for all unit samples at once, neighbours share nearly all of many random gates.

        ‖x − x'‖ ≤ ε   ⟹   ‖g(x) − g(x')‖²/k ≤ 5Bε/√(2π),  B = √(6d),    g_j(x) = 1(⟨u_j, x⟩ > 0), u_j ~ N(0, I)

    for k ≥ π/(6dε²) (log(2/δ) + d log(3/ε)), except with probability δ/2.

    Parameters
    ----------
    d : int
        Inputs, at least 2.
    epsilon, delta : float
        ε and δ, strictly between 0 and 1.

    Raises
    ------
    InputError
        For numbers out of range.

    References
    ----------
    Fiat, Malach & Shalev-Shwartz (2019), Lemma 11 and Theorem 5, with corrected constants. Their proof
    needs ‖u_j‖ ≤ B for all j as well; gates do not depend on the lengths of the u_j, and ours does without.

    Examples
    --------
    >>> from implicit_bias.theory import gate_stability
    >>> found = gate_stability(d=20, epsilon=0.005)
    >>> round(found.distance, 2), round(found.output_change(weight_norm=0.01, k=found.width), 2)
    (0.33, 1.25)
    """
    d = as_count(d, "d", least=2)
    check_size(d, "a direction")
    epsilon, delta = as_probability(epsilon, "epsilon"), as_probability(delta)
    tail = math.log(2 / delta) + d * math.log(3 / epsilon)
    width = math.ceil(math.pi / (6 * d * epsilon**2) * tail)
    share = 5 * math.sqrt(6 * d) * epsilon / math.sqrt(2 * math.pi)
    slab = float(scipy.special.betainc(0.5, (d - 1) / 2, min(1.0, 2 * epsilon) ** 2))
    return GateStability(width, share, slab + math.sqrt(tail / (2 * width)), d, epsilon, delta)
