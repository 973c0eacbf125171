"""Cluster centres seen through Gaussian gates: coherence, gate correlations and their inverses (Theorem 6)."""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from implicit_bias.ground.checks import Array, InputError, as_count, as_floats, as_probability, check_range, check_size
from implicit_bias.ground.scaling import unit_samples
from implicit_bias.kernels.angles import open_together


@dataclass(frozen=True)
class ClusterBounds:
    """Lower bounds of the eigenvalues at n cluster centres, divided by their lengths, from their coherence μ alone.

    Attributes
    ----------
    coherence : float
        μ, the largest |⟨c_i, c_j⟩| of two centres; 0 for a single one.
    gates : float
        λ_min(T) ≥ ¼ − (n − 1) arcsin(μ)/2π.
    kernel : float
        λ_min(κ(C)) ≥ ½ − (n − 1) μ (¼ + arcsin(μ)/2π).

    Examples
    --------
    >>> from implicit_bias.theory import cluster_bounds
    >>> cluster_bounds(np.eye(3))
    ClusterBounds(coherence=0.0, gates=0.25, kernel=0.5)
    >>> cluster_bounds([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]]).say_something
    False
    """

    coherence: float
    gates: float
    kernel: float

    @property
    def say_something(self) -> bool:
        """Whether both bounds are positive; others are true of every matrix here."""
        return min(self.gates, self.kernel) > 0


def cluster_bounds(centres: ArrayLike) -> ClusterBounds:
    """Theorem 6: incoherent centres have gate correlations and kernels that are far from singular.

    Parameters
    ----------
    centres : array, shape (n, d)
        Centres of any length but 0; they are divided by it.

    Raises
    ------
    InputError
        For bad arrays and centres that are zero.

    References
    ----------
    Fiat, Malach & Shalev-Shwartz (2019), Theorem 6 and appendix B; by Gershgorin's discs around ¼ and ½.

    Examples
    --------
    >>> from implicit_bias.theory import cluster_bounds
    >>> bounds = cluster_bounds(np.random.default_rng(0).normal(size=(4, 1000)))
    >>> bounds.gates > 0.2, bounds.kernel > 0.4
    (True, True)
    """
    C = unit_samples(centres, normalise=True, name="centres")
    off = np.abs(C @ C.T)[~np.eye(len(C), dtype=bool)]
    coherence = min(1.0, float(off.max())) if off.size else 0.0
    others, turn = len(C) - 1, math.asin(coherence) / (2 * math.pi)
    return ClusterBounds(coherence, 0.25 - others * turn, 0.5 - others * coherence * (0.25 + turn))


def incoherent_dimension(n: int, delta: float = 0.05) -> int:
    """Inputs d at which n random centres have a coherence of at most 1/(2n), with probability at least 1 − δ.

        d ≥ 8n² log(n(n − 1)/δ)

    The centres are independent, and either Gaussian N(0, I_d) divided by their lengths or uniform on {±1/√d}^d. Then
    λ_min(T) > 1/6 and λ_min(κ(C)) > 1/3 by `cluster_bounds`.

    Parameters
    ----------
    n : int
        Centres, at least 2.
    delta : float
        δ, strictly between 0 and 1.

    Raises
    ------
    InputError
        For numbers out of range.

    References
    ----------
    Fiat, Malach & Shalev-Shwartz (2019), appendix B: Hoeffding's inequality and a union over the pairs. Their union
    over n² pairs of two tails each asks for 8n² log(2n²/δ), the corrected constant; half the pairs are enough.

    Examples
    --------
    >>> from implicit_bias.theory import incoherent_dimension
    >>> incoherent_dimension(5, delta=0.1)
    1060
    """
    n, delta = as_count(n, "n", least=2), as_probability(delta)
    check_size(n * n, "the correlations")
    return math.ceil(8 * n**2 * math.log(n * (n - 1) / delta))


def gate_correlations(centres: ArrayLike) -> Array:
    """T_ij = P(⟨u, c_i⟩ > 0, ⟨u, c_j⟩ > 0) = ½ − θ(c_i, c_j)/2π for u ~ N(0, I), shape (n, n).

    Parameters and errors as for `cluster_bounds`.

    References
    ----------
    Fiat, Malach & Shalev-Shwartz (2019), Lemma 3.

    Examples
    --------
    >>> from implicit_bias.theory import gate_correlations
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
        Centres, at least 1 (else InputError); not their dimension d, which the paper has in this place.

    References
    ----------
    Fiat, Malach & Shalev-Shwartz (2019), Lemmas 3 and 10, corrected; the formula of Sherman and Morrison.

    Examples
    --------
    >>> from implicit_bias.theory import gate_correlations, orthogonal_inverse
    >>> bool(np.allclose(gate_correlations(np.eye(3, 7)) @ orthogonal_inverse(3), np.eye(3)))
    True
    """
    n = as_count(n, "n")
    check_size(n * n, "the inverse")
    return 4 * np.eye(n) - 4 / (n + 1)


@dataclass(frozen=True, eq=False)
class NeumannInverse:
    """A truncated Neumann series of B⁻¹, and a bound of its error.

    Attributes
    ----------
    inverse : array, shape (n, n)
        A⁻¹ Σ_{i < terms} ((A − B)A⁻¹)ⁱ.
    ratio : float
        q = ‖(A − B)A⁻¹‖ < 1, the spectral norm.
    error : float
        ‖A⁻¹‖ q^terms/(1 − q), a bound of the spectral norm of what is left out.

    Examples
    --------
    >>> from implicit_bias.theory import neumann_inverse
    >>> found = neumann_inverse([[2.0]], [[1.0]], terms=3)
    >>> found.inverse.tolist(), found.ratio, found.error
    ([[0.875]], 0.5, 0.125)
    """

    inverse: Array = field(repr=False)
    ratio: float
    error: float


def neumann_inverse(A: ArrayLike, B: ArrayLike, terms: int = 20) -> NeumannInverse:
    """B⁻¹ = A⁻¹ Σ_{i ≥ 0} ((A − B)A⁻¹)ⁱ, which converges if ‖(A − B)A⁻¹‖ < 1.

    Parameters
    ----------
    A, B : arrays, shape (n, n)
        A has an inverse, and B is close to it.
    terms : int
        How many terms are summed.

    Raises
    ------
    InputError
        For matrices that are not square or of two sizes, an A without inverse, and if ‖(A − B)A⁻¹‖ ≥ 1.

    References
    ----------
    Fiat, Malach & Shalev-Shwartz (2019), proof of Theorem 3, corrected.

    Examples
    --------
    >>> from implicit_bias.theory import gate_correlations, neumann_inverse, orthogonal_inverse
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
