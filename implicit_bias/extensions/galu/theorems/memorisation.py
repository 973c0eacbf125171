"""The kernel of Gaussian gates, sufficient widths for memorisation, and partial fits (Lemmas 1 and 2, Theorem 2)."""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from implicit_bias._utils import checks
from implicit_bias._utils.blocks import row_blocks
from implicit_bias._utils.checks import Array, InputError
from implicit_bias._utils.floats import UNIT_TOLERANCE, length, unit_samples
from implicit_bias.extensions.galu.closed_form import least_squares
from implicit_bias.extensions.infinite import SmallestEigenvalue, gram_matrix, smallest_eigenvalue
from implicit_bias.extensions.infinite.angles import open_together
from implicit_bias.features.gated import GatedFeatures, as_gated


def gate_kernel(X: ArrayLike, Z: ArrayLike | None = None) -> Array:
    """Return κ = E[ΦΦᵀ]/k (m, m) of samples X (m, d), or κ (m, m') between X and Z (m', d).

        κ(x, z) = P(⟨u, x⟩ > 0, ⟨u, z⟩ > 0) ⟨x, z⟩ = (½ − θ/2π) ⟨x, z⟩,    θ the angle between x and z

    Without `Z`, κ is `gram_matrix(X, "relu").values`. Entries are accurate to a few units in the last place of ‖x‖‖z‖,
    also for parallel and antipodal pairs. Fiat et al. (2019), section 3.2, print θ = arccos⟨x, z⟩, which requires unit
    samples.

    Raises
    ------
    InputError
        If a sample is zero or its length outside 1e-60 … 1e60, or X and Z differ in their number of columns.

    Examples
    --------
    >>> gate_kernel([[1.0, 0.0], [0.6, 0.8], [-2.0, 0.0]]).round(4).tolist()
    [[0.5, 0.2114, 0.0], [0.2114, 0.5, -0.1771], [0.0, -0.1771, 2.0]]
    """
    if Z is None:
        return gram_matrix(X, "relu").values
    (X, directions), (Z, others) = _directed(X, "X"), _directed(Z, "Z")
    if X.shape[1] != Z.shape[1]:
        raise InputError(f"X has {X.shape[1]} columns and Z has {Z.shape[1]}; give both the same inputs")
    checks.check_size(len(X) * len(Z), "the kernel")
    blocks = [open_together(directions[rows], others) * (X[rows] @ Z.T) + 0.0 for rows in row_blocks(len(X))]
    return np.concatenate(blocks)


def _directed(X: ArrayLike, name: str) -> tuple[Array, Array]:
    rows = checks.as_floats(X, name, 2)
    directions = unit_samples(rows, normalise=True, name=name)
    checks.check_range(length(rows, axis=1), f"the rows of {name}", 1e-60, 1e60)
    return rows, directions


def check_lengths(X: Array) -> None:
    """Raise InputError if a sample of X (m, d) is longer than 1."""
    longest = float(length(X, axis=1).max())
    if longest > 1 + UNIT_TOLERANCE:
        raise InputError(f"the bound needs samples of length at most 1, not {longest:.6g}; divide them by this")


def positive_kernel(X: ArrayLike) -> tuple[Array, SmallestEigenvalue]:
    """Return κ(X) (m, m) of samples (m, d), and λ(X); raise InputError if λ(X) is 0 up to rounding."""
    kernel = gram_matrix(X, "relu")
    smallest = smallest_eigenvalue(kernel)
    if not smallest.is_positive:
        raise InputError(
            "λ(X) is 0 up to rounding: samples share a direction, or too many have an antipodal sample; remove those"
        )
    return kernel.values, smallest


@dataclass(frozen=True)
class MemorisationWidth:
    """Result of `memorisation_width`: `width` gates have ΦΦᵀ ⪰ (k/2) κ(X) with probability at least 1 − `delta`.

    The same holds for more gates. `eigenvalue` is a lower bound on λ(X) that includes rounding; `width` and `failure`
    are computed from it. `squared_norm` is ‖X‖², the largest eigenvalue of XXᵀ, and `samples` is m.
    """

    width: int
    delta: float
    samples: int
    eigenvalue: float
    squared_norm: float

    def failure(self, k: int) -> float:
        """Return a bound on the probability that k gates do not suffice: m exp(−kλ/(8‖X‖²)), at most 1."""
        k = checks.as_number_of(k, "k")
        return min(1.0, self.samples * math.exp(-(k * self.eigenvalue / (8 * self.squared_norm))))


def memorisation_width(X: ArrayLike, delta: float = 0.05) -> MemorisationWidth:
    """Lemma 1: return the width at which a layer of random gates fits all labels with probability at least 1 − δ.

        k ≥ (8‖X‖²/λ(X)) log(m/δ)   ⟹   ΦΦᵀ ⪰ (k/2) κ(X)  and  σ_min(Φ)² ≥ (k/2) λ(X)

    Rescaling single samples of X (m, d) changes this width, but not which widths fit all labels; normalised samples may
    give a smaller one. Source: Fiat et al. (2019), Lemma 1; the first conclusion, which implies the second, is ours.

    Raises
    ------
    InputError
        As for `gate_kernel`, and if λ(X) is 0 up to rounding.

    Examples
    --------
    >>> lemma = memorisation_width(np.eye(4), delta=0.1)
    >>> lemma.width, lemma.failure(lemma.width) <= 0.1, round(lemma.eigenvalue, 12), lemma.squared_norm
    (60, True, 0.5, 1.0)
    """
    X, delta = checks.as_floats(X, "X", 2), checks.as_probability(delta)
    eigenvalue = float(positive_kernel(X)[1].lower_bound)
    squared_norm = float(np.linalg.norm(X, 2)) ** 2
    width = math.ceil(8 * squared_norm / eigenvalue * math.log(len(X) / delta))
    return MemorisationWidth(width, delta, len(X), eigenvalue, squared_norm)


@dataclass(frozen=True)
class ExpectedLoss:
    """E[min_W (1/m)‖ΦW − y‖²] for y ~ N(0, I): `value` = 1 − rank(Φ)/m, with the `rank` of Φ and m = `samples`.

    `generic` is 1 − min(m, kd)/m, the value if Φ has full rank.
    """

    value: float
    rank: int
    samples: int
    generic: float

    @property
    def is_deficient(self) -> bool:
        """True if rank(Φ) < min(m, kd)."""
        return self.value > self.generic


def expected_loss(features: GatedFeatures) -> ExpectedLoss:
    """Theorem 2: return the expected least-squares loss for labels y ~ N(0, I) independent of samples and gates.

        E[min_W (1/m)‖ΦW − y‖²] = 1 − rank(Φ)/m

    `least_squares` determines the rank. Source: Fiat et al. (2019), Theorem 2; Theorem 1 of the first version.

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
    """Result of `sphere_width`: with `width` gates, σ_min(Φ)² ≥ k c₁²/4π with probability at least 1 − `delta`.

    `width` is the least k ≥ (16π r²/c₁²)(m/d) log(m/δ), where r = ‖X‖/√(m/d) is `spread`. Lemma 2 has r = 2, which its
    proof uses as an upper bound. `c1` is c₁ = σ_min(X ⋆ X) with rows x_i ⊗ x_i. `eigenvalue` is c₁²/2π ≤ λ(X), reduced
    by a bound on its rounding. `samples` and `d` are m and d.
    """

    width: int
    c1: float
    spread: float
    eigenvalue: float
    samples: int
    d: int
    delta: float


def sphere_width(X: ArrayLike, delta: float = 0.05) -> SphereWidth:
    """Lemma 2: return the width at which a layer of random gates fits all labels of unit samples X (m, d).

        λ(X) ≥ c₁²/2π,    c₁ = σ_min(X ⋆ X),    (X ⋆ X)(X ⋆ X)ᵀ = (XXᵀ) ∘ (XXᵀ),    r = ‖X‖/√(m/d)

    The width is of order (m/d) log m if r is bounded and c₁ is bounded away from 0. Source: Fiat et al. (2019), Lemma 2
    and its proof, for x uniform on the sphere and d ≤ m ≤ c₂d².

    Raises
    ------
    InputError
        If c₁ is 0 up to rounding, as it is for m > d(d + 1)/2, or a sample does not have length 1 (to 1e-8).

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(60, 30))
    >>> X /= np.linalg.norm(X, axis=1)[:, None]
    >>> found = sphere_width(X)
    >>> found.width > memorisation_width(X).width, found.spread < 2
    (True, True)
    """
    X, delta = unit_samples(X), checks.as_probability(delta)
    m, d = X.shape
    smallest, error = float(np.linalg.eigvalsh((X @ X.T) ** 2)[0]), (m + d) * m * np.finfo(float).eps
    if smallest <= error:
        raise InputError(
            f"σ_min(X ⋆ X) is 0 up to rounding: {m} samples of {d} inputs are parallel or more than d(d + 1)/2; "
            "remove some"
        )
    spread = float(np.linalg.norm(X, 2)) / math.sqrt(m / d)
    certain = smallest - error
    width = math.ceil(16 * math.pi * spread**2 / certain * (m / d) * math.log(m / delta))
    return SphereWidth(width, math.sqrt(smallest), spread, certain / (2 * math.pi), m, d, delta)


@dataclass(frozen=True)
class FittedSamples:
    """Bound E[min_W (1/m)‖ΦW − y‖²] ≤ 1 − m'/m for y ~ N(0, I), except with probability `delta` over the gates.

    `fitted` is m' ≤ rank(Φ), and `samples` is m.
    """

    fitted: int
    samples: int
    delta: float

    @property
    def loss(self) -> float:
        """1 − m'/m."""
        return 1 - self.fitted / self.samples


def fitted_samples(X: ArrayLike, k: int, delta: float = 0.05) -> FittedSamples:
    """Corollary 1 for given samples: return the largest m' for which k gates fit the first m' samples by Lemma 1.

    Fiat et al. (2019), Corollary 1, use Lemma 2 instead, and do not state that m' ≤ m. Errors as for `gate_kernel`.

    Examples
    --------
    >>> fitted_samples(np.eye(4), k=10**3)
    FittedSamples(fitted=4, samples=4, delta=0.05)
    """
    X, k, delta = checks.as_floats(X, "X", 2), checks.as_number_of(k, "k"), checks.as_probability(delta)
    gate_kernel(X, X[:1])  # raises InputError for zero samples
    # Each further sample lowers λ and raises ‖X‖ and log(m/δ), so that bisection applies.
    fitted = bisect.bisect(range(1, len(X) + 1), False, key=lambda m: not _fits(X[:m], k, delta))
    return FittedSamples(fitted, len(X), delta)


def corollary_samples(k: int, d: int, c1: float, c2: float, delta: float = 0.05) -> int:
    """Corollary 1 of Fiat et al. (2019) as printed: return m' = ⌊kd (c₁²/64π)/log(c₂d²/δ)⌋.

    c₁ = σ_min(X ⋆ X) ≤ 1 is that of `sphere_width` on m' samples, and c₂ ≥ m'/d². The corollary also requires
    d ≤ m' ≤ c₂d², and implicitly m' ≤ m.

    Raises
    ------
    InputError
        If c₂d² ≤ δ, or c₁ > 1.

    Examples
    --------
    >>> corollary_samples(k=20_000, d=50, c1=0.5, c2=0.1)
    145
    """
    k, d, delta = checks.as_number_of(k, "k"), checks.as_number_of(d, "d"), checks.as_probability(delta)
    c1, c2 = checks.as_positive(c1, "c1"), checks.as_positive(c2, "c2")
    if c1 > 1 + UNIT_TOLERANCE:
        raise InputError(f"c1 is a singular value of unit rows and must be at most 1, not {c1:.6g}")
    logarithm = 2 * math.log(d) + math.log(c2) - math.log(delta)
    if logarithm <= 0:
        raise InputError(f"c2 d² must be larger than delta, not {c2 * d**2:.4g}; give a larger c2")
    return math.floor(k * d * c1**2 / (64 * math.pi * logarithm))


def _fits(X: Array, k: int, delta: float) -> bool:
    """True if Lemma 1 proves that k gates fit these samples; False if λ(X) is 0."""
    try:
        return memorisation_width(X, delta).width <= k
    except InputError:
        return False
