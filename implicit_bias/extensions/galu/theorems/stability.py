"""How few gates change when the gates move a little (Lemma 11), or the sample does."""

import math
from dataclasses import dataclass

import numpy as np

from implicit_bias._utils.checks import as_number_of, as_positive, as_probability, check_range
from implicit_bias.extensions.galu.theorems.clusters import slab_probability


@dataclass(frozen=True)
class MovedGates:
    """Shares of k gates 1(⟨u_j, x⟩ ≥ 0) that may differ from 1(⟨w_j, x⟩ ≥ 0), for all w with ‖w_j − u_j‖ ≤ ε at once.

    The share at a unit x is ‖Φ_U(x) − Φ_W(x)‖² for the Φ of Lemma 11, which has a factor 1/√k.

    Attributes
    ----------
    mean : float
        Of its mean over any distribution of x that is independent of the u_j, with probability at least 1 − δ.
    uniform : float
        Of its largest value over all x, with probability at least 1 − δ.
    printed : float
        5Bε/√(2π) with B² = √6·d, the square of the bound in Theorem 5 and Lemma 11.
    printed_width : float
        π/(B²ε²) (log(2/δ) + d log(3/ε)), which both ask of k, besides d > log(2k/δ).
    d, k : int
    epsilon, delta : float

    Examples
    --------
    >>> from implicit_bias.extensions.galu.theorems.stability import moved_gates
    >>> found = moved_gates(d=10, k=20_000, epsilon=0.05)
    >>> round(found.mean, 3), round(found.uniform, 3), round(found.printed, 3), found.conditions_hold
    (0.049, 0.116, 0.494, False)
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
        """Whether k and d are as Theorem 5 and Lemma 11 want them, and ε ≤ 1, as their proof does."""
        wide = self.k >= self.printed_width and self.d > math.log(2 * self.k / self.delta)
        return wide and self.epsilon <= 1


def moved_gates(d: int, k: int, epsilon: float, delta: float = 0.05) -> MovedGates:
    """Lemma 11: a small change of the gates' directions u_j ~ N(0, I) changes few gates.

        mean      ≤ P(|u| ≤ ε) + √(log(1/δ)/2k),    u ~ N(0, 1)
        uniform   ≤ 2(ε + √(d − 1) r)/((1 − r)√(2π)) + √((log(1/δ) + d log(3/r))/2k),    r = min(½, ε/√d)

    Both are ours, at every k and d, and 1 at most. A gate differs only if |⟨u_j, x⟩| ≤ ε, whatever w_j. The mean over
    x is a mean over j of independent numbers from 0 to 1 (Hoeffding). For all x at once: an x within r of a point z
    of a net of (3/r)^d has |⟨u_j, z⟩| ≤ ε + r‖u_j‖ ≤ ε + r|⟨u_j, z⟩| + r‖u_⊥‖.

    Parameters
    ----------
    d, k : int
        Inputs and gates.
    epsilon : float
        ε > 0.
    delta : float
        δ, strictly between 0 and 1.

    Raises
    ------
    InputError
        For numbers out of range.

    References
    ----------
    Fiat, Malach & Shalev-Shwartz (2019), Lemma 11 and Theorem 5. The text that we had extends roots too far; √6·d is
    the reading under which its constants agree with each other and with its proof. This takes
    P(‖u_j‖² ≥ √6·d) ≤ e^{−d}, which is false (6d would do) and not needed. At k ≥ `printed_width`, `uniform` is at most
    `printed` wherever that is less than 1: both statements hold.

    Examples
    --------
    >>> from implicit_bias.extensions.galu.theorems.stability import moved_gates
    >>> moved_gates(d=784, k=10_000, epsilon=0.01).mean < 0.021
    True
    """
    d, k = as_number_of(d, "d"), as_number_of(k, "k")
    epsilon, delta = as_positive(epsilon, "epsilon"), as_probability(delta)
    check_range(np.array([epsilon]), "epsilon", 1e-100, 1e100)
    radius = min(0.5, epsilon / math.sqrt(d))
    slab = 2 * (epsilon + math.sqrt(d - 1) * radius) / ((1 - radius) * math.sqrt(2 * math.pi))
    tails = [math.log(1 / delta) + net for net in (0.0, d * math.log(3 / radius))]
    mean, uniform = (
        min(1.0, share + math.sqrt(tail / (2 * k)))
        for share, tail in zip((math.erf(epsilon / math.sqrt(2)), slab), tails, strict=True)
    )
    square = math.sqrt(6) * d
    printed = 5 * math.sqrt(square / (2 * math.pi)) * epsilon
    width = math.pi / square / epsilon**2 * (math.log(2 / delta) + d * math.log(3 / epsilon))
    return MovedGates(mean, uniform, printed, width, d, k, epsilon, delta)


def neighbouring_gates(d: int, k: int, epsilon: float, delta: float = 0.05) -> float:
    """A share of k gates: of any two unit samples at a distance of at most ε, no more differ.

        ‖x − x'‖ ≤ ε   ⟹   (1/k) #{j: g_j(x) ≠ g_j(x')} ≤ P(|v_1| ≤ 2ε) + √((log(1/δ) + d log(3/ε))/2k)

    for all x, x' at once with probability at least 1 − δ over the directions of the gates g_j(x) = 1(⟨u_j, x⟩ > 0),
    u_j ~ N(0, I); v is uniform on the sphere. At most 1.

    Parameters
    ----------
    d : int
        Inputs, at least 2.
    k : int
        Gates.
    epsilon, delta : float
        ε and δ, strictly between 0 and 1.

    Raises
    ------
    InputError
        For numbers out of range.

    References
    ----------
    Ours, proved in the guide's page on GaLU's theorems; the net is that of Fiat, Malach & Shalev-Shwartz (2019),
    Lemma 11, which is about gates that move, `moved_gates`.

    Examples
    --------
    >>> from implicit_bias.extensions.galu.theorems.stability import neighbouring_gates
    >>> round(neighbouring_gates(d=10, k=32_000, epsilon=0.01), 3)
    0.077
    """
    k, epsilon, delta = as_number_of(k, "k"), as_probability(epsilon, "epsilon"), as_probability(delta)
    slab, tail = slab_probability(d, 2 * epsilon), math.log(1 / delta) + d * math.log(3 / epsilon)
    return min(1.0, slab + math.sqrt(tail / (2 * k)))
