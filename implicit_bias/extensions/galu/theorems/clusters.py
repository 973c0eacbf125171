"""Clusters with linear labels: sufficient widths and sample sizes, and the inverses that the proofs use."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import scipy.special
from numpy.typing import ArrayLike

from implicit_bias._utils import checks
from implicit_bias._utils.checks import Array, InputError
from implicit_bias._utils.floats import unit_samples
from implicit_bias.extensions.infinite import smallest_eigenvalue
from implicit_bias.extensions.infinite.angles import open_together


@dataclass(frozen=True)
class ClusterWidth:
    """Result of `cluster_width`: a sufficient `width` k and `radius` r for `n` clusters in R^`d`.

    With the n × k matrix A of the centres' gates, σ_min(A)² ≥ kμ/2 with probability at least 1 − δ (proof of Lemma 4).
    All samples within r of their centre have the centre's gates with probability at least 1 − δ (Lemma 7).
    `eigenvalue` is a lower bound on μ = λ_min(H) that includes rounding, and `delta` is δ.
    """

    width: int
    radius: float
    eigenvalue: float
    n: int
    d: int
    delta: float


def cluster_width(centres: ArrayLike, delta: float = 0.05) -> ClusterWidth:
    """Theorem 7: return width and radius at which a layer of k random gates fits clusters with linear labels.

        k ≥ (8n/μ) log(n/δ),    r = δ/(nk√d),    μ = λ_min(H)

    H is `gate_correlations(centres)`, and `centres` (n, d) are v_i of any positive length, which are normalised. Let
    the samples have labels y = ⟨ℓ_i, x⟩ and ‖x − v_i‖ ≤ r in cluster i. With probability at least 1 − 2δ an exact
    solution exists, and every exact solution predicts ⟨ℓ_i, x⟩ for new samples x of cluster i in the span of its
    training samples X_i. The rank of Φ is Σ_i rank(X_i). Source: Fiat et al. (2019), appendix B.

    Raises
    ------
    InputError
        If μ is 0 up to rounding, for example because two centres share a direction.

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
    C, delta = unit_samples(centres, normalise=True, name="centres"), checks.as_probability(delta)
    smallest = smallest_eigenvalue(open_together(C, C))
    if not smallest.is_positive:
        raise InputError("λ_min(H) is 0 up to rounding: centres share a direction; merge those clusters")
    (n, d), eigenvalue = C.shape, float(smallest.lower_bound)
    width = max(1, math.ceil(8 * n / eigenvalue * math.log(n / delta)))
    return ClusterWidth(width, delta / (n * width * math.sqrt(d)), eigenvalue, n, d, delta)


def cluster_samples(n: int, d: int, epsilon: float, delta: float = 0.05) -> int:
    """Theorem 6: return the least m with P(Bin(m, ε) < nd) ≤ δ, which is at most ⌈2(nd + log(1/δ))/ε⌉.

    With probability at least 1 − δ over m training samples of n clusters in R^d, a new sample is in the span of the
    training samples of its cluster, except with probability ε. Under the event of Theorem 7, its prediction is then
    exact; the events of both theorems hold with probability at least 1 − 3δ. Fiat et al. (2019), Theorem 6, have
    m = c(nd log(1/ε) + log(1/δ))/ε; this m is ours. The squared test loss, which grows with ‖ℓ_i‖, is not bounded.

    Examples
    --------
    >>> cluster_samples(n=4, d=20, epsilon=0.1)
    945
    """
    n, d = checks.as_number_of(n, "n"), checks.as_number_of(d, "d")
    epsilon, delta = checks.as_probability(epsilon, "epsilon"), checks.as_probability(delta)
    directions = checks.as_number_of(n * d, "n d")
    low, high = directions - 1, math.ceil(2 * (directions - math.log(delta)) / epsilon)
    # The incomplete beta function of ε, because that of 1 − ε would lose the digits of a small ε.
    while high - low > 1:
        middle = (low + high) // 2
        if scipy.special.betaincc(directions, middle - directions + 1, epsilon) <= delta:
            high = middle
        else:
            low = middle
    return high


def cluster_dimension(n: int, delta: float = 0.05) -> int:
    """Return a sufficient dimension d: n centres, uniform on {±1/√d}^d, have μ ≥ 1/8 with probability at least 1 − δ.

        d ≥ (2/(1 − log 2)) n log(n/δ)

    This bound is ours; μ is that of `cluster_width`. Lemma 3 of Fiat et al. (2019) has d ≥ (n²/2) log(2n²/δ), which is
    too small for example at n = 2 and δ = 1e-4, and at least as large as ours for n ≥ 14.

    Examples
    --------
    >>> cluster_dimension(100), cluster_dimension(1000)
    (4955, 64549)
    """
    n, delta = checks.as_number_of(n, "n"), checks.as_probability(delta)
    return max(1, math.ceil(2 / (1 - math.log(2)) * n * math.log(n / delta)))


def slab_probability(d: int, r: float) -> float:
    """Return ``P(|⟨u, x⟩| ≤ r)`` for u uniform on the sphere in R^d, d ≥ 2, and ‖x‖ = 1: ⟨u, x⟩² ~ Beta(½, (d − 1)/2).

    Lemma 5 of Fiat et al. (2019) bounds this probability by r√d, for r > 0.

    Examples
    --------
    >>> slab_probability(3, 0.25)
    0.25
    """
    d, r = checks.as_count(d, "d", least=2, most=10**100, limit="10^100"), checks.as_positive(r, "r")
    return float(scipy.special.betainc(0.5, (d - 1) / 2, min(1.0, r) ** 2))


def gate_correlations(centres: ArrayLike) -> Array:
    """Return H_ij = P(⟨u, c_i⟩ > 0, ⟨u, c_j⟩ > 0) = ½ − θ(c_i, c_j)/2π for u ~ N(0, I), shape (n, n).

    `centres` (n, d) may have any positive length; zeros raise InputError. Source: Fiat et al. (2019), appendix B.

    Examples
    --------
    >>> gate_correlations(np.eye(2)).round(12).tolist()
    [[0.5, 0.25], [0.25, 0.5]]
    """
    C = unit_samples(centres, normalise=True, name="centres")
    return open_together(C, C)


def orthogonal_inverse(n: int) -> Array:
    """Return T⁻¹ = 4I − (4/(n + 1)) 11ᵀ (n, n), where T = ¼(I + 11ᵀ) is `gate_correlations` of n orthogonal centres.

    Fiat et al. (2019), proof of Lemma 3, print d instead of n; Sherman and Morrison's formula gives n. Lemma 10 has
    d, and is true for d entries.

    Examples
    --------
    >>> bool(np.allclose(gate_correlations(np.eye(3, 7)) @ orthogonal_inverse(3), np.eye(3)))
    True
    """
    n = checks.as_count(n, "n")
    checks.check_size(n * n, "the inverse")
    return 4 * np.eye(n) - 4 / (n + 1)


@dataclass(frozen=True, eq=False)
class NeumannInverse:
    """Result of `neumann_inverse`: A⁻¹ Σ_{i < terms} ((A − B)A⁻¹)ⁱ as `inverse`, with a bound on its error.

    `ratio` is q = ‖(A − B)A⁻¹‖ < 1. `error` = ‖A⁻¹‖ q^terms/(1 − q) bounds the omitted terms. Norms are spectral.
    """

    inverse: Array = field(repr=False)
    ratio: float
    error: float


def neumann_inverse(A: ArrayLike, B: ArrayLike, terms: int = 20) -> NeumannInverse:
    """Approximate B⁻¹ by the Neumann series A⁻¹ Σ_{i ≥ 0} ((A − B)A⁻¹)ⁱ, which converges if ‖(A − B)A⁻¹‖ < 1.

    Source: Fiat et al. (2019), proof of Theorem 3, corrected.

    Parameters
    ----------
    A, B : arrays, shape (n, n)
        A is invertible and close to B.
    terms : int
        Number of terms to sum.

    Raises
    ------
    InputError
        If the matrices are not square, differ in size or contain invalid numbers, A is singular, or ‖(A − B)A⁻¹‖ ≥ 1.

    Examples
    --------
    >>> T = gate_correlations([[1.0, 0.1, 0.0], [0.0, 1.0, 0.1], [0.1, 0.0, 1.0]])
    >>> found = neumann_inverse(np.linalg.inv(orthogonal_inverse(3)), T)
    >>> bool(np.linalg.norm(found.inverse @ T - np.eye(3)) < 1e-12)
    True
    """
    A, B = checks.as_floats(A, "A", 2), checks.as_floats(B, "B", 2)
    if not A.shape == B.shape == A.T.shape:
        raise InputError(f"A and B must be square and of the same size, not {A.shape} and {B.shape}")
    terms = checks.as_count(terms, "terms")
    checks.check_range(np.abs(np.concatenate([A, B])).max(keepdims=True).ravel(), "A and B", 1e-100, 1e100)
    try:
        inverse = np.linalg.inv(A)
    except np.linalg.LinAlgError:
        raise InputError("A has no inverse; use another matrix") from None
    with np.errstate(over="ignore", invalid="ignore"):
        change = (A - B) @ inverse
    if not np.isfinite(change).all():
        raise InputError("A has no inverse up to rounding; use another matrix")
    ratio = float(np.linalg.norm(change, 2))
    if not ratio < 1:
        raise InputError(f"‖(A − B)A⁻¹‖ is {ratio:.4g}, but the series needs less than 1; use an A closer to B")
    total = identity = np.eye(len(A))
    for _ in range(terms - 1):
        total = identity + change @ total
    error = float(np.linalg.norm(inverse, 2)) * ratio**terms / (1 - ratio)
    return NeumannInverse(inverse @ total, ratio, error)
