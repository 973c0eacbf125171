"""The kernel of Gaussian gates on unit samples, and its smallest eigenvalue λ(X)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from implicit_bias.ground.blocks import row_blocks, symmetric_blocks
from implicit_bias.ground.checks import Array, InputError, check_size
from implicit_bias.ground.scaling import unit_samples

#: Cosines this large hide the angle from arccos, which loses half the digits at ±1.
STEEP = 0.9
#: Pairs of samples whose differences are held at once.
PAIRS_AT_ONCE = 4096


def gate_kernel(X: Any, Z: Any = None, *, normalise: bool = False) -> Array:
    """E[ΦΦᵀ]/k for gates 1(⟨u, x⟩ > 0) with u ~ N(0, I), on unit samples.

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


@dataclass(frozen=True)
class SmallestEigenvalue:
    """λ(X) = λ_min(κ(X)), and the rounding error that it is known up to.

    Attributes
    ----------
    value : float
    rounding : float
        A bound of the rounding error of `value`.

    Examples
    --------
    >>> from implicit_bias.theory import smallest_eigenvalue
    >>> print(smallest_eigenvalue([[1.0, 0.0], [1.0, 0.0]]))
    λ(X) is 0 up to rounding: samples repeat, or too many come with their opposite
    """

    value: float
    rounding: float

    @property
    def is_positive(self) -> bool:
        """Whether λ(X) > 0 is certain in spite of rounding."""
        return self.value > self.rounding

    def __str__(self) -> str:
        if self.is_positive:
            return f"λ(X) = {self.value:.6g}"
        return "λ(X) is 0 up to rounding: samples repeat, or too many come with their opposite"


def smallest_eigenvalue(X: Any, *, normalise: bool = False) -> SmallestEigenvalue:
    """λ(X), the smallest eigenvalue of E[ΦΦᵀ]/k: positive exactly if wide enough GaLU layers memorise any labels.

        λ(X) > 0   ⟺   no sample repeats, and the x_i whose opposite −x_i is a sample too are linearly independent
                        (one x_i of each such pair)

    Parameters
    ----------
    X : array, shape (m, d)
        Samples of length 1.
    normalise : bool
        Divide the samples by their lengths first.

    Raises
    ------
    InputError
        As for `gate_kernel`.

    References
    ----------
    Fiat, Malach & Shalev-Shwartz (2019), Lemma 1. Computed from all eigenvalues, not by sampling gates.

    Examples
    --------
    >>> from implicit_bias.theory import smallest_eigenvalue
    >>> round(smallest_eigenvalue([[1.0, 0.0], [0.6, 0.8]]).value, 4)
    0.2886
    """
    X = unit_samples(X, normalise)
    return kernel_eigenvalue(gate_kernel(X), X.shape[1])


def kernel_eigenvalue(kernel: Array, inputs: int) -> SmallestEigenvalue:
    """The smallest eigenvalue of a kernel matrix (m, m) on samples of so many inputs."""
    value = float(scipy.linalg.eigvalsh(kernel, subset_by_index=[0, 0], check_finite=False)[0])
    # Every entry is a dot product of `inputs` terms and an angle; the norm of the errors is at most m times one.
    return SmallestEigenvalue(value, len(kernel) * (inputs + 10) * float(np.finfo(float).eps))


def positive_eigenvalue(kernel: Array, inputs: int) -> SmallestEigenvalue:
    """λ(X) for a theorem that divides by it; refused if it is 0 up to rounding."""
    found = kernel_eigenvalue(kernel, inputs)
    if not found.is_positive:
        raise InputError(f"{found}; leave out the samples that make it so")
    return found
