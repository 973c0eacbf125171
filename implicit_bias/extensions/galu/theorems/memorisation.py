"""How wide a GaLU layer must be to memorise, and what it cannot fit (Lemma 1, Theorem 2)."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from implicit_bias._utils.checks import as_floats, as_number_of, as_probability
from implicit_bias.extensions.galu.closed_form import least_squares
from implicit_bias.extensions.galu.theorems.kernel import positive_kernel
from implicit_bias.features.gated import GatedFeatures, as_gated


@dataclass(frozen=True)
class MemorisationWidth:
    """A width at which ΦΦᵀ ⪰ (k/2) κ(X) holds with probability at least 1 − δ, hence σ_min(Φ)² ≥ kλ(X)/2.

    Attributes
    ----------
    width : int
        k, the number of gates 1(⟨u_j, x⟩ > 0) with u_j ~ N(0, I); larger ones do as well.
    delta : float
        δ.
    samples : int
        m.
    eigenvalue : float
        λ(X) less a bound of its rounding, so that the width and `failure` are on the safe side of it.
    squared_norm : float
        ‖X‖², the largest eigenvalue of XXᵀ.

    Examples
    --------
    >>> from implicit_bias.extensions.galu.theorems.memorisation import memorisation_width
    >>> lemma = memorisation_width(np.eye(4), delta=0.1)
    >>> lemma.width, lemma.failure(lemma.width) <= 0.1, round(lemma.failure(2 * lemma.width), 4)
    (60, True, 0.0022)
    """

    width: int
    delta: float
    samples: int
    eigenvalue: float
    squared_norm: float

    def failure(self, k: int) -> float:
        """A bound of the probability that k gates do not do: m exp(−kλ/(8‖X‖²)), at most 1."""
        exponent = as_number_of(k, "k") * self.eigenvalue / (8 * self.squared_norm)
        return min(1.0, self.samples * math.exp(-exponent))


def memorisation_width(X: ArrayLike, delta: float = 0.05) -> MemorisationWidth:
    """Lemma 1: a width at which a layer of random gates memorises all labels with probability at least 1 − δ.

        k ≥ (8‖X‖²/λ(X)) log(m/δ)   ⟹   ΦΦᵀ ⪰ (k/2) κ(X)  and  σ_min(Φ)² ≥ (k/2) λ(X)

    Whether all labels are fitted does not depend on the lengths of the samples, but this width does: try it with
    each divided by its own.

    Parameters
    ----------
    X, and errors : as for `gate_kernel`
        Refused, too, if λ(X) is 0 up to rounding.
    delta : float
        δ, strictly between 0 and 1.

    References
    ----------
    Fiat, Malach & Shalev-Shwartz (2019), Lemma 1; the first conclusion, which implies theirs, is proved with it in the
    guide's page on GaLU.

    Examples
    --------
    >>> from implicit_bias.extensions.galu.theorems.memorisation import memorisation_width
    >>> lemma = memorisation_width(np.eye(4), delta=0.1)
    >>> lemma.width, round(lemma.eigenvalue, 12), lemma.squared_norm
    (60, 0.5, 1.0)
    """
    X = as_floats(X, "X", 2)
    delta = as_probability(delta)
    eigenvalue = float(positive_kernel(X)[1].lower_bound)
    squared_norm = float(np.linalg.norm(X, 2)) ** 2
    width = math.ceil(8 * squared_norm / eigenvalue * math.log(len(X) / delta))
    return MemorisationWidth(width, delta, len(X), eigenvalue, squared_norm)


@dataclass(frozen=True)
class ExpectedLoss:
    """E[min_W (1/m)‖ΦW − y‖²] = 1 − rank(Φ)/m for y ~ N(0, I).

    Attributes
    ----------
    value : float
    rank : int
        rank(Φ).
    samples : int
        m.
    generic : float
        1 − min(m, kd)/m, the same if Φ has the largest rank that its shape allows.

    Examples
    --------
    >>> from implicit_bias import GatedFeatures
    >>> from implicit_bias.extensions.galu.theorems.memorisation import expected_loss
    >>> closed = GatedFeatures([[1.0], [2.0], [3.0], [4.0]], [[1, 0], [1, 0], [1, 1], [0, 0]])
    >>> expected_loss(closed)
    ExpectedLoss(value=0.5, rank=2, samples=4, generic=0.5)
    """

    value: float
    rank: int
    samples: int
    generic: float

    @property
    def is_deficient(self) -> bool:
        """Whether rank(Φ) < min(m, kd)."""
        return self.value > self.generic


def expected_loss(features: GatedFeatures) -> ExpectedLoss:
    """Theorem 2: the expected least squares loss on standard normal labels that depend on nothing else.

        E[min_W (1/m)‖ΦW − y‖²] = 1 − rank(Φ)/m,    y ~ N(0, I) independent of samples and gates

    Parameters
    ----------
    features, and errors : as for `least_squares`, whose rank it is

    References
    ----------
    Fiat, Malach & Shalev-Shwartz (2019), Theorem 2; Theorem 1 of the first version. rank(Φ) is min(m, kd) with high
    probability for Gaussian samples and gates, least often where kd is close to a small m.

    Examples
    --------
    >>> from implicit_bias import ReLUGates
    >>> from implicit_bias.extensions.galu.theorems.memorisation import expected_loss
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 5))
    >>> expected_loss(ReLUGates(rng.normal(size=(3, 5)))(X))
    ExpectedLoss(value=0.75, rank=15, samples=60, generic=0.75)
    """
    features = as_gated(features)
    rank = least_squares(features, np.zeros(features.n)).rank
    generic = min(features.n, features.k * features.d)
    return ExpectedLoss(1 - rank / features.n, rank, features.n, 1 - generic / features.n)
