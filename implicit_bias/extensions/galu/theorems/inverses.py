"""Two inverses that the proofs use: of the gate correlations of orthogonal centres, and the Neumann series."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from implicit_bias._utils.checks import Array, InputError, as_count, as_floats, check_range, check_size


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
    >>> from implicit_bias.extensions.galu.theorems.clusters import gate_correlations
    >>> from implicit_bias.extensions.galu.theorems.inverses import orthogonal_inverse
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
    >>> from implicit_bias.extensions.galu.theorems.inverses import neumann_inverse
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
    >>> from implicit_bias.extensions.galu.theorems.clusters import gate_correlations
    >>> from implicit_bias.extensions.galu.theorems.inverses import neumann_inverse, orthogonal_inverse
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
