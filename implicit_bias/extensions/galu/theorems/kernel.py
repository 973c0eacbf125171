"""The kernel of Gaussian gates, and what the theorems demand of samples: no singular kernel, no length above 1."""

import numpy as np
from numpy.typing import ArrayLike

from implicit_bias._utils.blocks import row_blocks
from implicit_bias._utils.checks import Array, InputError, as_floats, check_range, check_size
from implicit_bias._utils.scaling import UNIT_TOLERANCE, length, unit_samples
from implicit_bias.extensions.infinite import SmallestEigenvalue, gram_matrix, smallest_eigenvalue
from implicit_bias.extensions.infinite.angles import open_together


def gate_kernel(X: ArrayLike, Z: ArrayLike | None = None) -> Array:
    """E[ΦΦᵀ]/k for gates 1(⟨u, x⟩ > 0) with u ~ N(0, I): ReLU's `gram_matrix`, or that of two sets.

        κ(x, z) = P(⟨u, x⟩ > 0, ⟨u, z⟩ > 0) ⟨x, z⟩ = (½ − θ/2π) ⟨x, z⟩,    θ the angle between x and z

    Parameters
    ----------
    X : array, shape (m, d)
        Samples of any length but 0.
    Z : array, shape (m', d), optional
        Other samples; without them Z = X.

    Returns
    -------
    array, shape (m, m'), float64
        Accurate to a few units of the last place of ‖x‖‖z‖, parallel and antipodal pairs included: κ(x, x) = ½‖x‖²
        and κ(x, −x) = 0.

    Raises
    ------
    InputError
        For bad arrays, rows of zeros, lengths outside 1e-60 … 1e60, and numbers of columns that differ.

    References
    ----------
    Fiat, Malach & Shalev-Shwartz (2019), section 3.2, whose θ = arccos⟨x, z⟩ is that of unit samples alone.

    Examples
    --------
    >>> from implicit_bias.extensions.galu.theorems.kernel import gate_kernel
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
    """κ(X) (m, m) of samples (m, d), and λ(X), which a theorem divides by; refused if it is 0 up to rounding.

    >>> print(positive_kernel(np.eye(2))[1])
    λ_min = 0.5 ± 9.8e-15
    """
    kernel = gram_matrix(X, "relu")
    found = smallest_eigenvalue(kernel)
    if not found.is_positive:
        raise InputError(
            "λ(X) is 0 up to rounding: samples share a direction, or too many come with their opposite; leave those out"
        )
    return kernel.values, found
