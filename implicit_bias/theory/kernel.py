"""The kernel of Gaussian gates on unit samples, and the theorems' demand that it is not singular."""

import numpy as np
from numpy.typing import ArrayLike

from implicit_bias.ground.blocks import row_blocks
from implicit_bias.ground.checks import Array, InputError, check_size
from implicit_bias.ground.scaling import unit_samples
from implicit_bias.kernels import SmallestEigenvalue, gram_matrix, smallest_eigenvalue
from implicit_bias.kernels.angles import open_together


def gate_kernel(X: ArrayLike, Z: ArrayLike | None = None, *, normalise: bool = False) -> Array:
    """E[ΦΦᵀ]/k for gates 1(⟨u, x⟩ > 0) with u ~ N(0, I), on unit samples: ReLU's `gram_matrix`, or that of two sets.

        κ(x, z) = P(⟨u, x⟩ > 0, ⟨u, z⟩ > 0) ⟨x, z⟩ = (½ − arccos⟨x, z⟩ / 2π) ⟨x, z⟩

    Parameters
    ----------
    X : array, shape (m, d)
        Samples of length 1.
    Z : array, shape (m', d), optional
        Other samples of length 1; without them Z = X.
    normalise : bool
        Divide the samples by their lengths first.

    Returns
    -------
    array, shape (m, m'), float64
        Accurate to a few units of the last place of 1, parallel and antipodal pairs included: κ(x, x) = ½ and
        κ(x, −x) = 0.

    Raises
    ------
    InputError
        For samples that are not of length 1 (to 1e-8), for rows of zeros with `normalise`, and for numbers of columns
        that differ.

    References
    ----------
    Fiat, Malach & Shalev-Shwartz (2019), section 4. The formula is wrong for samples of other lengths.

    Examples
    --------
    >>> from implicit_bias.theory import gate_kernel
    >>> gate_kernel([[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]]).round(4).tolist()
    [[0.5, 0.2114, 0.0], [0.2114, 0.5, -0.0886], [0.0, -0.0886, 0.5]]
    """
    X = unit_samples(X, normalise)
    if Z is None:
        return gram_matrix(X, "relu").values
    Z = unit_samples(Z, normalise, "Z")
    if X.shape[1] != Z.shape[1]:
        raise InputError(f"X has {X.shape[1]} columns and Z has {Z.shape[1]}; give both the same inputs")
    check_size(len(X) * len(Z), "the kernel")
    return np.concatenate([open_together(X[rows], Z) * (X[rows] @ Z.T) + 0.0 for rows in row_blocks(len(X))])


def positive_kernel(X: Array) -> tuple[Array, SmallestEigenvalue]:
    """κ(X) (m, m) of unit samples (m, d), and λ(X), which a theorem divides by; refused if it is 0 up to rounding.

    >>> print(positive_kernel(np.eye(2))[1])
    λ_min = 0.5 ± 9.8e-15
    """
    kernel = gram_matrix(X, "relu")
    found = smallest_eigenvalue(kernel)
    if not found.is_positive:
        raise InputError(
            "λ(X) is 0 up to rounding: samples repeat, or too many come with their opposite; leave out those samples"
        )
    return kernel.values, found
