"""The kernel of Gaussian gates, widths that memorise, and what narrower layers fit (Lemmas 1 and 2, Theorem 2)."""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from implicit_bias._utils.blocks import row_blocks
from implicit_bias._utils.checks import (
    Array,
    InputError,
    as_floats,
    as_number_of,
    as_positive,
    as_probability,
    check_range,
    check_size,
)
from implicit_bias._utils.scaling import UNIT_TOLERANCE, length, unit_samples
from implicit_bias.extensions.galu.closed_form import least_squares
from implicit_bias.extensions.infinite import SmallestEigenvalue, gram_matrix, smallest_eigenvalue
from implicit_bias.extensions.infinite.angles import open_together
from implicit_bias.features.gated import GatedFeatures, as_gated


def gate_kernel(X: ArrayLike, Z: ArrayLike | None = None) -> Array:
    """E[ΦΦᵀ]/k for gates 1(⟨u, x⟩ > 0) with u ~ N(0, I): ReLU's `gram_matrix`, or that of two sets.

        κ(x, z) = P(⟨u, x⟩ > 0, ⟨u, z⟩ > 0) ⟨x, z⟩ = (½ − θ/2π) ⟨x, z⟩,    θ the angle between x and z

    Entries are accurate to a few units of the last place of ‖x‖‖z‖, for parallel and antipodal pairs, too. Raises
    InputError for rows of zeros, lengths outside 1e-60 … 1e60, and numbers of columns that differ.

    Parameters
    ----------
    X : array, shape (m, d)
        Samples of any length but 0.
    Z : array, shape (m', d), optional
        Other samples; without them Z = X.

    References
    ----------
    Fiat, Malach & Shalev-Shwartz (2019), section 3.2, whose θ = arccos⟨x, z⟩ is that of unit samples alone.

    Examples
    --------
    >>> gate_kernel([[1.0, 0.0], [0.6, 0.8], [-2.0, 0.0]]).round(4).tolist()
    [[0.5, 0.2114, 0.0], [0.2114, 0.5, -0.1771], [0.0, -0.1771, 2.0]]
    """
    if Z is None:
        return gram_matrix(X, "relu").values
    (X, ways), (Z, others) = _directed(X, "X"), _directed(Z, "Z")
    if X.shape[1] != Z.shape[1]:
        raise InputError(f"X has {X.shape[1]} columns and Z has {Z.shape[1]}; give both the same inputs")
    check_size(len(X) * len(Z), "the kernel")
    return np.concatenate([open_together(ways[rows], others) * (X[rows] @ Z.T) + 0.0 for rows in row_blocks(len(X))])


def _directed(X: ArrayLike, name: str) -> tuple[Array, Array]:
    """Samples (m, d) of lengths within 1e-60 … 1e60, and their directions."""
    rows = as_floats(X, name, 2)
    directions = unit_samples(rows, normalise=True, name=name)
    check_range(length(rows, axis=1), f"the rows of {name}", 1e-60, 1e60)
    return rows, directions


def check_lengths(X: Array) -> None:
    """Refuse samples (m, d) longer than 1."""
    longest = float(length(X, axis=1).max())
    if longest > 1 + UNIT_TOLERANCE:
        raise InputError(f"the bound is for samples of length at most 1, not {longest:.6g}; divide them by this")


def positive_kernel(X: ArrayLike) -> tuple[Array, SmallestEigenvalue]:
    """κ(X) (m, m) of samples (m, d), and λ(X), which a theorem divides by; refused if it is 0 up to rounding."""
    kernel = gram_matrix(X, "relu")
    found = smallest_eigenvalue(kernel)
    if not found.is_positive:
        raise InputError(
            "λ(X) is 0 up to rounding: samples share a direction, or too many come with their opposite; leave those out"
        )
    return kernel.values, found


@dataclass(frozen=True)
class MemorisationWidth:
    """With probability at least 1 − `delta`, `width` gates or more have ΦΦᵀ ⪰ (k/2) κ(X), hence σ_min(Φ)² ≥ kλ(X)/2.

    `eigenvalue` is λ(X) less a bound of its rounding, so that `width` and `failure` are on the safe side of it,
    `squared_norm` is ‖X‖², the largest eigenvalue of XXᵀ, and `samples` is m.
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
    Fiat, Malach & Shalev-Shwartz (2019), Lemma 1; the first conclusion, which implies theirs, is ours.

    Examples
    --------
    >>> lemma = memorisation_width(np.eye(4), delta=0.1)
    >>> lemma.width, lemma.failure(lemma.width) <= 0.1, round(lemma.eigenvalue, 12), lemma.squared_norm
    (60, True, 0.5, 1.0)
    """
    X, delta = as_floats(X, "X", 2), as_probability(delta)
    eigenvalue = float(positive_kernel(X)[1].lower_bound)
    squared_norm = float(np.linalg.norm(X, 2)) ** 2
    width = math.ceil(8 * squared_norm / eigenvalue * math.log(len(X) / delta))
    return MemorisationWidth(width, delta, len(X), eigenvalue, squared_norm)


@dataclass(frozen=True)
class ExpectedLoss:
    """E[min_W (1/m)‖ΦW − y‖²] for y ~ N(0, I): `value` = 1 − rank(Φ)/m, of the `rank` of Φ on m `samples`.

    `generic` is 1 − min(m, kd)/m, the same if Φ has the largest rank that its shape allows.
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
    Fiat, Malach & Shalev-Shwartz (2019), Theorem 2; Theorem 1 of the first version.

    Examples
    --------
    >>> from implicit_bias import ReLUGates
    >>> rng = np.random.default_rng(0)
    >>> expected_loss(ReLUGates(rng.normal(size=(3, 5)))(rng.normal(size=(60, 5))))
    ExpectedLoss(value=0.75, rank=15, samples=60, generic=0.75)
    """
    features = as_gated(features)
    rank = least_squares(features, np.zeros(features.n)).rank
    generic = min(features.n, features.k * features.d)
    return ExpectedLoss(1 - rank / features.n, rank, features.n, 1 - generic / features.n)


@dataclass(frozen=True)
class SphereWidth:
    """For unit samples, k = `width` gates have σ_min(Φ)² ≥ k c₁²/4π with probability at least 1 − `delta`.

    `width` is the least k ≥ (16π r²/c₁²)(m/d) log(m/δ) with r = `spread` = ‖X‖/√(m/d), which the proof of the lemma
    takes to be at most 2: with r = 2 it is the lemma's (64π/c₁²)(m/d) log(m/δ). `c1` is c₁ = σ_min(X ⋆ X), of the rows
    x_i ⊗ x_i, `eigenvalue` is c₁²/2π ≤ λ(X), less a bound of its rounding, and `samples` and `d` are m and d.
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

    Raises InputError for a c₁ that is 0 up to rounding, as it is for m > d(d + 1)/2.

    Parameters
    ----------
    X : array, shape (m, d)
        Samples of length 1 (to 1e-8).
    delta : float
        δ, strictly between 0 and 1.

    References
    ----------
    Fiat, Malach & Shalev-Shwartz (2019), Lemma 2 and its proof, for x uniform on the sphere and d ≤ m ≤ c₂d².

    Examples
    --------
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
    """E[min_W (1/m)‖ΦW − y‖²] ≤ 1 − m'/m for y ~ N(0, I), except for gates of probability `delta`.

    `fitted` is m', for which rank(Φ) ≥ m', and `samples` is m.
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

    References ---------- Fiat, Malach & Shalev-Shwartz (2019), Corollary 1, with Lemma 1 in place of Lemma 2; m' is at
    most m, which it does not say.

    Examples
    --------
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

    The corollary requires d ≤ m' ≤ c₂d² as well, and means m' ≤ m. Raises InputError for c₂d² ≤ δ.

    Parameters
    ----------
    k, d : int
    c1, c2 : float
        c₁ = σ_min(X ⋆ X) on m' samples, as in `sphere_width`, at most 1; c₂ ≥ m'/d².
    delta : float
        δ, strictly between 0 and 1.

    References
    ----------
    Fiat, Malach & Shalev-Shwartz (2019), Corollary 1.

    Examples
    --------
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
