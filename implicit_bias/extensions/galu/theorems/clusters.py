"""Samples in tight clusters, linear in each: gates and samples that a GaLU layer needs, and inverses of the proofs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import scipy.special
from numpy.typing import ArrayLike

from implicit_bias._utils.checks import (
    Array,
    InputError,
    as_count,
    as_floats,
    as_number_of,
    as_positive,
    as_probability,
    check_range,
    check_size,
)
from implicit_bias._utils.scaling import unit_samples
from implicit_bias.extensions.infinite import smallest_eigenvalue
from implicit_bias.extensions.infinite.angles import open_together


@dataclass(frozen=True)
class ClusterWidth:
    """A `width` and a `radius` at which layers fit and no gate splits a cluster, with probability at least 1 − 2δ.

    At k = `width` ≥ (8n/μ) log(n/δ) the gates A (n, k) of the centres have σ_min(A)² ≥ kμ/2 with probability at least 1
    − δ (Lemma 4). At r = `radius` = δ/(nk√d) no sample within r of its centre has other gates, with probability at
    least 1 − δ (Lemma 7). `eigenvalue` is μ = λ_min(H) less a bound of its rounding, for `n` centres of `d` inputs; δ
    is `delta`.
    """

    width: int
    radius: float
    eigenvalue: float
    n: int
    d: int
    delta: float


def cluster_width(centres: ArrayLike, delta: float = 0.05) -> ClusterWidth:
    """Theorem 7: a layer of k gates fits every S of samples y = ⟨ℓ_i, x⟩, ‖x − v_i‖ ≤ r, of n clusters, and more.

    With probability at least 1 − 2δ there is an exact solution, and every exact solution has ⟨ℓ_q, x⟩ at every other
    x within r of v_q in the span of the samples of cluster q. The features have rank Σ_i rank(X_i).

    Raises InputError for a μ that is 0 up to rounding: centres share a direction, say.

    Parameters
    ----------
    centres : array, shape (n, d)
        v_i, of any length but 0; they are divided by it.
    delta : float
        δ, strictly between 0 and 1.

    References
    ----------
    Fiat, Malach & Shalev-Shwartz (2019), appendix B, Theorem 7 and Lemmas 4 to 9.

    Examples
    --------
    >>> from implicit_bias import GatedFeatures
    >>> from implicit_bias.extensions.galu import least_squares, linear_clusters
    >>> rng = np.random.default_rng(0)
    >>> centres = rng.choice([-1.0, 1.0], size=(3, 12))
    >>> plan = cluster_width(centres)
    >>> data = linear_clusters(200, centres, plan.radius)
    >>> features = GatedFeatures(data.X, data.X @ rng.normal(size=(12, plan.width)) >= 0)
    >>> found = least_squares(features, data.y)
    >>> found.rank, found.loss < 1e-20
    (36, True)
    """
    C, delta = unit_samples(centres, normalise=True, name="centres"), as_probability(delta)
    found = smallest_eigenvalue(open_together(C, C))
    if not found.is_positive:
        raise InputError("λ_min(H) is 0 up to rounding: centres share a direction; give each cluster one of its own")
    (n, d), eigenvalue = C.shape, float(found.lower_bound)
    width = max(1, math.ceil(8 * n / eigenvalue * math.log(n / delta)))
    return ClusterWidth(width, delta / (n * width * math.sqrt(d)), eigenvalue, n, d, delta)


def cluster_samples(n: int, d: int, epsilon: float, delta: float = 0.05) -> int:
    """Theorem 6: samples after which a new one lies in the span of its cluster's, except with probability ε.

        P(Bin(m, ε) < nd) ≤ δ,    as for m ≥ 2(nd + log(1/δ))/ε

    Then, in the event of Theorem 7, the prediction for a new sample is exact except with probability ε: at probability
    1 − 3δ in all.

    Parameters
    ----------
    n, d : int
        Clusters and inputs.
    epsilon, delta : float
        ε and δ, strictly between 0 and 1.

    References ---------- Fiat, Malach & Shalev-Shwartz (2019), appendix B, Theorem 6, with m = c(nd log(1/ε) +
    log(1/δ))/ε. This count and its proof are ours. The ε is of a probability: no such m bounds the squared test loss,
    which grows with ‖ℓ_i‖.

    Examples
    --------
    >>> cluster_samples(n=4, d=20, epsilon=0.1)
    945
    """
    n, d = as_number_of(n, "n"), as_number_of(d, "d")
    epsilon, delta = as_probability(epsilon, "epsilon"), as_probability(delta)
    directions = as_number_of(n * d, "n d")
    low, high = directions - 1, math.ceil(2 * (directions - math.log(delta)) / epsilon)
    # P(Bin(m, ε) < nd) as an incomplete beta function of ε: one of 1 − ε would lose the digits of a small ε.
    while high - low > 1:
        middle = (low + high) // 2
        if scipy.special.betaincc(directions, middle - directions + 1, epsilon) <= delta:
            high = middle
        else:
            low = middle
    return high


def cluster_dimension(n: int, delta: float = 0.05) -> int:
    """Inputs d at which n random centres, uniform on {±1/√d}^d, have μ ≥ 1/8 with probability at least 1 − δ.

        d ≥ (2/(1 − log 2)) n log(n/δ)

    Parameters
    ----------
    n : int
        Centres, at least 1.
    delta : float
        δ, strictly between 0 and 1.

    References
    ----------
    Ours. Lemma 3 of Fiat, Malach & Shalev-Shwartz (2019) has d ≥ (n²/2) log(2n²/δ): too few for n = 2 and δ = 1e-4,
    say, and enough from n = 14 on, where ours is no larger.

    Examples
    --------
    >>> cluster_dimension(100), cluster_dimension(1000)
    (4955, 64549)
    """
    n, delta = as_number_of(n, "n"), as_probability(delta)
    return max(1, math.ceil(2 / (1 - math.log(2)) * n * math.log(n / delta)))


def slab_probability(d: int, r: float) -> float:
    """P(|⟨u, x⟩| ≤ r) for u uniform on the sphere and ‖x‖ = 1, which Lemma 5 bounds by r√d.

    ⟨u, x⟩² has the distribution Beta(½, (d − 1)/2).

    Parameters
    ----------
    d : int
        Inputs, at least 2.
    r : float
        Above 0.

    References
    ----------
    Fiat, Malach & Shalev-Shwartz (2019), appendix B, Lemma 5.

    Examples
    --------
    >>> slab_probability(3, 0.25)
    0.25
    """
    d, r = as_count(d, "d", least=2, most=10**100, limit="10^100"), as_positive(r, "r")
    return float(scipy.special.betainc(0.5, (d - 1) / 2, min(1.0, r) ** 2))


def gate_correlations(centres: ArrayLike) -> Array:
    """H_ij = P(⟨u, c_i⟩ > 0, ⟨u, c_j⟩ > 0) = ½ − θ(c_i, c_j)/2π for u ~ N(0, I), shape (n, n).

    Parameters
    ----------
    centres : array, shape (n, d)
        Centres of any length but 0 (else InputError).

    References
    ----------
    Fiat, Malach & Shalev-Shwartz (2019), appendix B.

    Examples
    --------
    >>> gate_correlations(np.eye(2)).round(12).tolist()
    [[0.5, 0.25], [0.25, 0.5]]
    """
    C = unit_samples(centres, normalise=True, name="centres")
    return open_together(C, C)


def orthogonal_inverse(n: int) -> Array:
    """T⁻¹ = 4I − (4/(n + 1)) 11ᵀ for n orthogonal centres, where T = ¼(I + 11ᵀ); shape (n, n).

    Parameters
    ----------
    n : int
        Centres, at least 1; not their dimension d, which the paper has in this place.

    References
    ----------
    Fiat, Malach & Shalev-Shwartz (2019), Lemmas 3 and 10, corrected; the formula of Sherman and Morrison.

    Examples
    --------
    >>> bool(np.allclose(gate_correlations(np.eye(3, 7)) @ orthogonal_inverse(3), np.eye(3)))
    True
    """
    n = as_count(n, "n")
    check_size(n * n, "the inverse")
    return 4 * np.eye(n) - 4 / (n + 1)


@dataclass(frozen=True, eq=False)
class NeumannInverse:
    """`inverse` = A⁻¹ Σ_{i < terms} ((A − B)A⁻¹)ⁱ, a truncated Neumann series of B⁻¹, and a bound of its error.

    `ratio` is q = ‖(A − B)A⁻¹‖ < 1, the spectral norm, and `error` is ‖A⁻¹‖ q^terms/(1 − q), a bound of the spectral
    norm of what is left out.
    """

    inverse: Array = field(repr=False)
    ratio: float
    error: float


def neumann_inverse(A: ArrayLike, B: ArrayLike, terms: int = 20) -> NeumannInverse:
    """B⁻¹ = A⁻¹ Σ_{i ≥ 0} ((A − B)A⁻¹)ⁱ, which converges if ‖(A − B)A⁻¹‖ < 1.

    Raises InputError for matrices that are not square or of two sizes, an A without inverse, and if ‖(A − B)A⁻¹‖ ≥ 1.

    Parameters
    ----------
    A, B : arrays, shape (n, n)
        A has an inverse, and B is close to it.
    terms : int
        How many terms are summed.

    References
    ----------
    Fiat, Malach & Shalev-Shwartz (2019), proof of Theorem 3, corrected.

    Examples
    --------
    >>> T = gate_correlations([[1.0, 0.1, 0.0], [0.0, 1.0, 0.1], [0.1, 0.0, 1.0]])
    >>> found = neumann_inverse(np.linalg.inv(orthogonal_inverse(3)), T)
    >>> bool(np.linalg.norm(found.inverse @ T - np.eye(3)) < 1e-12)
    True
    """
    A, B = as_floats(A, "A", 2), as_floats(B, "B", 2)
    if not A.shape == B.shape == A.T.shape:
        raise InputError(f"A and B must be square and of one size, not {A.shape} and {B.shape}")
    terms = as_count(terms, "terms")
    check_range(np.abs(np.concatenate([A, B])).max(keepdims=True).ravel(), "A and B", 1e-100, 1e100)
    try:
        inverse = np.linalg.inv(A)
    except np.linalg.LinAlgError:
        raise InputError("A has no inverse; expand around another matrix") from None
    with np.errstate(over="ignore", invalid="ignore"):
        change = (A - B) @ inverse
    if not np.isfinite(change).all():
        raise InputError("A has no inverse up to rounding; expand around another matrix")
    ratio = float(np.linalg.norm(change, 2))
    if not ratio < 1:
        raise InputError(f"‖(A − B)A⁻¹‖ is {ratio:.4g}, and the series needs less than 1; take an A closer to B")
    total = identity = np.eye(len(A))
    for _ in range(terms - 1):
        total = identity + change @ total
    error = float(np.linalg.norm(inverse, 2)) * ratio**terms / (1 - ratio)
    return NeumannInverse(inverse @ total, ratio, error)
