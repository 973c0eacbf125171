"""How wide a GaLU layer must be to memorise, and what it fits if narrower (Lemmas 1 and 2, Theorem 2, Corollary 1)."""

import bisect
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from implicit_bias._utils.checks import Array, InputError, as_floats, as_number_of, as_positive, as_probability
from implicit_bias._utils.scaling import UNIT_TOLERANCE, unit_samples
from implicit_bias.extensions.galu.closed_form import least_squares
from implicit_bias.extensions.galu.theorems.kernel import gate_kernel, positive_kernel
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


@dataclass(frozen=True)
class SphereWidth:
    """Lemma 2 for unit samples at hand: k = `width` gates have σ_min(Φ)² ≥ k c₁²/4π with probability at least 1 − δ.

    Attributes
    ----------
    width : int
        The least k ≥ (16π r²/c₁²)(m/d) log(m/δ); with r = 2 it is the lemma's (64π/c₁²)(m/d) log(m/δ).
    c1 : float
        c₁ = σ_min(X ⋆ X), of the rows x_i ⊗ x_i.
    spread : float
        r = ‖X‖/√(m/d), which the proof of the lemma takes to be at most 2.
    eigenvalue : float
        c₁²/2π ≤ λ(X), less a bound of its rounding.
    samples, d : int
        m and d.
    delta : float

    Examples
    --------
    >>> from implicit_bias.extensions.galu.theorems.memorisation import sphere_width
    >>> found = sphere_width(np.eye(4))
    >>> found.c1, found.spread, found.width
    (1.0, 1.0, 221)
    """

    width: int
    c1: float
    spread: float
    eigenvalue: float
    samples: int
    d: int
    delta: float


def sphere_width(X: ArrayLike, delta: float = 0.05) -> SphereWidth:
    """Lemma 2: a width that memorises, of the order (m/d) log m while r is bounded and c₁ not near 0.

        λ(X) ≥ σ_min(X ⋆ X)²/2π,    (X ⋆ X)(X ⋆ X)ᵀ = (XXᵀ) ∘ (XXᵀ)

    from κ = ¼XXᵀ + (1/2π)(XXᵀ) ∘ arcsin(XXᵀ) and arcsin t − t having no negative Taylor coefficient (Schur).

    Parameters
    ----------
    X : array, shape (m, d)
        Samples of length 1.
    delta : float
        δ, strictly between 0 and 1.

    Raises
    ------
    InputError
        For samples that are not of length 1 (to 1e-8), and for a c₁ that is 0 up to rounding, as it is for
        m > d(d + 1)/2.

    References
    ----------
    Fiat, Malach & Shalev-Shwartz (2019), Lemma 2 and its proof, for x uniform on the sphere and d ≤ m ≤ c₂d².

    Examples
    --------
    >>> from implicit_bias.extensions.galu.theorems.memorisation import memorisation_width
    >>> from implicit_bias.extensions.galu.theorems.memorisation import sphere_width
    >>> X = np.random.default_rng(0).normal(size=(60, 30))
    >>> X /= np.linalg.norm(X, axis=1)[:, None]
    >>> found = sphere_width(X)
    >>> found.width > memorisation_width(X).width, found.spread < 2
    (True, True)
    """
    X, delta = unit_samples(X), as_probability(delta)
    m, d = X.shape
    square = (X @ X.T) ** 2
    least, error = float(np.linalg.eigvalsh(square)[0]), (m + d) * m * np.finfo(float).eps
    if least <= error:
        raise InputError(
            f"σ_min(X ⋆ X) is 0 up to rounding: {m} samples of {d} inputs are parallel or more than d(d + 1)/2"
        )
    spread = float(np.linalg.norm(X, 2)) / math.sqrt(m / d)
    certain = least - error
    width = math.ceil(16 * math.pi * spread**2 / certain * (m / d) * math.log(m / delta))
    return SphereWidth(width, math.sqrt(least), spread, certain / (2 * math.pi), m, d, delta)


@dataclass(frozen=True)
class FittedSamples:
    """E[min_W (1/m)‖ΦW − y‖²] ≤ 1 − m'/m for y ~ N(0, I), except for gates of probability δ.

    Attributes
    ----------
    fitted : int
        m', for which rank(Φ) ≥ m'.
    samples : int
        m.
    delta : float

    Examples
    --------
    >>> from implicit_bias.extensions.galu.theorems.memorisation import fitted_samples
    >>> found = fitted_samples(np.eye(4), k=50)
    >>> found.fitted, found.loss
    (1, 0.75)
    """

    fitted: int
    samples: int
    delta: float

    @property
    def loss(self) -> float:
        """1 − m'/m."""
        return 1 - self.fitted / self.samples


def fitted_samples(X: ArrayLike, k: int, delta: float = 0.05) -> FittedSamples:
    """Corollary 1 for samples at hand: k random gates fit the first m' of them, the most for which Lemma 1 says so.

    Parameters
    ----------
    X, delta, and errors : as for `memorisation_width`
    k : int
        The number of gates.

    References
    ----------
    Fiat, Malach & Shalev-Shwartz (2019), Corollary 1, with Lemma 1 in the place of Lemma 2; m' is at most m, which
    the corollary does not say. Its own m' is `corollary_samples`.

    Examples
    --------
    >>> from implicit_bias.extensions.galu.theorems.memorisation import fitted_samples
    >>> fitted_samples(np.eye(4), k=10**3)
    FittedSamples(fitted=4, samples=4, delta=0.05)
    """
    X, k, delta = as_floats(X, "X", 2), as_number_of(k, "k"), as_probability(delta)
    gate_kernel(X, X[:1])  # refuses what has no direction
    # A sample more makes λ smaller, and ‖X‖ and log(m/δ) larger, so that all that fit come first.
    fitted = bisect.bisect(range(1, len(X) + 1), False, key=lambda m: not _fits(X[:m], k, delta))
    return FittedSamples(fitted, len(X), delta)


def corollary_samples(k: int, d: int, c1: float, c2: float, delta: float = 0.05) -> int:
    """The m' of Corollary 1 as printed, in terms of its constants: ⌊kd (c₁²/64π)/log(c₂d²/δ)⌋.

    The corollary asks for d ≤ m' ≤ c₂d² besides, and means m' ≤ m. Its bound is 1 − m'/m where kd parameters leave
    1 − kd/m as a rule (`expected_loss`).

    Parameters
    ----------
    k, d : int
    c1, c2 : float
        c₁ = σ_min(X ⋆ X) on m' samples, as in `sphere_width`, at most 1; c₂ ≥ m'/d².
    delta : float

    Raises
    ------
    InputError
        For numbers out of range, c₁ above 1, and c₂d² ≤ δ.

    References
    ----------
    Fiat, Malach & Shalev-Shwartz (2019), Corollary 1.

    Examples
    --------
    >>> from implicit_bias.extensions.galu.theorems.memorisation import corollary_samples
    >>> corollary_samples(k=20_000, d=50, c1=0.5, c2=0.1)
    145
    """
    k, d, delta = as_number_of(k, "k"), as_number_of(d, "d"), as_probability(delta)
    c1, c2 = as_positive(c1, "c1"), as_positive(c2, "c2")
    if c1 > 1 + UNIT_TOLERANCE:
        raise InputError(f"c1 is a singular value of unit rows, at most 1, not {c1:.6g}")
    logarithm = 2 * math.log(d) + math.log(c2) - math.log(delta)
    if logarithm <= 0:
        raise InputError(f"c2 d² must be larger than delta, not {c2 * d**2:.4g}; give a larger c2")
    return math.floor(k * d * c1**2 / (64 * math.pi * logarithm))


def _fits(X: Array, k: int, delta: float) -> bool:
    """Whether Lemma 1 says that k gates fit these samples; not if λ(X) is 0."""
    try:
        return memorisation_width(X, delta).width <= k
    except InputError:
        return False
