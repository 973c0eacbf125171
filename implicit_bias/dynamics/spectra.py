"""The eigendecomposition of a block of moments, and what of it counts as 0."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg

from implicit_bias.dynamics.streaming import Block
from implicit_bias.ground.checks import Array

#: Eigenvalues below this share of the largest of their block are zeros that were rounded.
ROUNDING = 1e-12


class Spectrum(NamedTuple):
    """√M A √M = V diag(λ) Vᵀ of a block whose gates come m_1, …, m_q times, M = diag(m_1, …, m_q) ⊗ I.

    values (qd,): λ, exactly 0 where A is singular; vectors (qd, qd): V; pull (qd,): Vᵀ√M b, exactly 0 where λ is.
    lowest: the least eigenvalue as computed; outside: the size of the part of Vᵀ√M b where λ = 0, as computed;
    unresolved: how many of the λ that count as 0 are larger than the rounding of this decomposition.
    """

    values: Array
    vectors: Array
    pull: Array
    lowest: float
    outside: float
    unresolved: int


def spectrum_of(block: Block, copies: np.ndarray, d: int) -> Spectrum:
    """The decomposition of a block on d inputs whose gates come so many times."""
    root = np.repeat(np.sqrt(copies), d)
    values, vectors = scipy.linalg.eigh(root[:, None] * block.A * root, check_finite=False, driver="evd")
    pull = vectors.T @ (root * block.b.ravel())
    largest = max(0.0, float(values[-1]))
    kept = values > ROUNDING * largest
    outside = float(np.linalg.norm(np.where(kept, 0.0, pull)))
    unresolved = int(np.sum(~kept & (values > 4 * len(values) * np.finfo(float).eps * largest)))
    found = np.where(kept, values, 0.0), vectors, np.where(kept, pull, 0.0)
    return Spectrum(*found, float(values[0]), outside, unresolved)


def along(pull: Array, values: Array) -> Array:
    """pull/λ, and 0 where λ = 0."""
    return np.divide(pull, values, out=np.zeros_like(pull), where=values > 0)
