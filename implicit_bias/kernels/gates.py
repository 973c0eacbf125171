"""The kernel of Gaussian gates on unit samples."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from implicit_bias.ground.blocks import row_blocks, symmetric_blocks
from implicit_bias.ground.checks import Array, InputError, check_size
from implicit_bias.ground.scaling import unit_samples

#: Cosines this large hide the angle from arccos, which loses half the digits at ±1.
STEEP = 0.9
#: Pairs of samples whose differences are held at once.
PAIRS_AT_ONCE = 4096


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
        check_size(len(X) ** 2, "the kernel")
        return symmetric_blocks(len(X), lambda rows, columns: kernel_of(X[rows], X[columns]))
    Z = unit_samples(Z, normalise, "Z")
    if X.shape[1] != Z.shape[1]:
        raise InputError(f"X has {X.shape[1]} columns and Z has {Z.shape[1]}; give both the same inputs")
    check_size(len(X) * len(Z), "the kernel")
    return np.concatenate([kernel_of(X[rows], Z) for rows in row_blocks(len(X))])


def kernel_of(X: Array, Z: Array) -> Array:
    """κ of unit rows X (m, d) and Z (m', d), shape (m, m')."""
    return open_together(X, Z) * (X @ Z.T) + 0.0


def open_together(X: Array, Z: Array) -> Array:
    """P(⟨u, x⟩ > 0, ⟨u, z⟩ > 0) = ½ − θ(x, z)/2π for unit rows X (m, d) and Z (m', d), shape (m, m').

    The angle is arccos⟨x, z⟩, or 2 arctan(‖x − z‖/‖x + z‖) where the samples are nearly parallel.
    """
    check_size(len(X) * len(Z), "the kernel")
    cosines = np.clip(X @ Z.T, -1.0, 1.0)
    angles: Array = np.arccos(cosines)
    steep = np.argwhere(np.abs(cosines) > STEEP)
    for first in range(0, len(steep), PAIRS_AT_ONCE):
        i, j = steep[first : first + PAIRS_AT_ONCE].T
        apart = np.linalg.norm(X[i] - Z[j], axis=1), np.linalg.norm(X[i] + Z[j], axis=1)
        angles[i, j] = 2 * np.arctan2(*apart)
    return (np.pi - angles) / (2 * np.pi)
