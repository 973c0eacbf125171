"""Second moments of gated features in blocks: accumulated over chunks of samples, and their eigendecomposition."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from implicit_bias._utils.checks import Array, InputError, as_targets, check_range, check_size
from implicit_bias._utils.floats import largest_entries
from implicit_bias.features import GatedFeatures

#: Smallest and largest sizes of features and targets; beyond them, products under- or overflow.
SIZES = (1e-60, 1e60)
#: Eigenvalues below this fraction of the largest in their block count as 0.
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Block:
    """Moments of distinct gates that are coupled: open together, directly or through other gates of the block.

    `gates` (q,) are their indices. `A` (qd, qd) = Σ (g⊗x)(g⊗x)ᵀ and `b` (q, d) = Σ y g⊗x are sums or means over
    samples.
    """

    gates: np.ndarray
    A: Array = field(repr=False)
    b: Array = field(repr=False)


class MomentSums:
    """Running sums over samples, in `blocks` of the distinct gates.

    Gates with equal values on all samples so far are one; a new sample may split them, and may join blocks. `inverse`
    (k,) are the indices of each gate's distinct gate, and the mask `overlap` (q, q) marks distinct gates that were open
    together. `samples` is the number of samples so far, and `power` is Σ y².
    """

    def __init__(self, k: int, d: int) -> None:
        self.d = d
        self.inverse = np.zeros(k, dtype=np.int64)
        self.overlap = np.zeros((1, 1), dtype=bool)
        self.blocks = [Block(np.zeros(1, dtype=np.int64), np.zeros((d, d)), np.zeros((1, d)))]
        self.samples, self.power = 0, 0.0

    def add(self, features: GatedFeatures, y: ArrayLike) -> None:
        """Add the moments of n samples with targets y (n,), and split or join blocks where the samples require it."""
        targets = self._checked(features, y)
        self.inverse, parents, G = split_classes(self.inverse, features.gate_values)
        opened = (G != 0).astype(np.float32)
        overlap = self.overlap[np.ix_(parents, parents)] | (opened.T @ opened > 0)
        if len(parents) > len(self.overlap) or (overlap != self.overlap).any():
            self._rearrange(parents, overlap)
        for block in self.blocks:
            here = G[:, block.gates]
            rows = here.any(axis=1)
            if rows.any():
                part = GatedFeatures(features.X[rows], here[rows])
                block.A[:] += part.weight_gram()
                block.b[:] += part.adjoint(targets[rows])
        self.samples += features.n
        self.power += float(targets @ targets)

    def _checked(self, features: GatedFeatures, y: ArrayLike) -> Array:
        if (features.k, features.d) != (len(self.inverse), self.d):
            raise InputError(
                f"a chunk has {features.k} gates and {features.d} inputs, but the first has {len(self.inverse)} and "
                f"{self.d}; give all chunks the same gates and inputs"
            )
        targets = as_targets(y, features.n)
        if targets.shape[1] > 1:
            raise InputError("moments need one target per sample; compute them separately for each target")
        sizes = largest_entries(features.X) * largest_entries(features.gate_values)
        for values, what in ((sizes, "the features"), (largest_entries(targets), "y")):
            check_range(values, what, *SIZES)
        return targets[:, 0]

    def _rearrange(self, parents: np.ndarray, overlap: np.ndarray) -> None:
        """Rebuild the blocks, connected components of `overlap` (q, q); gate i starts with the sums of `parents`[i]."""
        count, labels = connected_components(csr_array(overlap), directed=False)
        check_size(int(np.sum((np.bincount(labels) * self.d) ** 2)), "the moments")
        home = {int(gate): (block, i) for block in self.blocks for i, gate in enumerate(block.gates)}
        blocks = []
        for label in range(count):
            gates = np.flatnonzero(labels == label)
            q, d = len(gates), self.d
            A, b = np.zeros((q, d, q, d)), np.zeros((q, d))
            origins = [home[int(parent)] for parent in parents[gates]]
            for old in {id(block): block for block, _ in origins}.values():
                target = np.array([i for i, (block, _) in enumerate(origins) if block is old])
                source = np.array([place for block, place in origins if block is old])
                cells = old.A.reshape(len(old.gates), d, len(old.gates), d)
                A[target[:, None], :, target, :] = cells[source[:, None], :, source, :]
                b[target] = old.b[source]
            blocks.append(Block(gates, A.reshape(q * d, q * d), b))
        self.blocks, self.overlap = blocks, overlap


def split_classes(inverse: np.ndarray, G: Array) -> tuple[np.ndarray, np.ndarray, Array]:
    """Split classes of gates by values G (n, k); return new classes (k,), and the old class and values of each."""
    numbers: dict[tuple[int, bytes], int] = {}
    # Adding 0.0 turns −0.0 into 0.0, whose bytes differ.
    columns = np.ascontiguousarray(G.T) + 0.0
    pairs = zip(inverse, columns, strict=True)
    classes = [numbers.setdefault((int(old), column.tobytes()), len(numbers)) for old, column in pairs]
    first = np.unique(classes, return_index=True)[1]
    return np.array(classes), inverse[first], np.ascontiguousarray(columns[first].T)


class Spectrum(NamedTuple):
    """Eigendecomposition √M A √M = V diag(λ) Vᵀ of a block with multiplicities M = diag(m_1, …, m_q) ⊗ I of its gates.

    `values` (qd,) are λ, exactly 0 where A is singular, `vectors` (qd, qd) are V, and `rhs` (qd,) is Vᵀ√M b, exactly 0
    where λ is. `lowest` is the least computed eigenvalue, `outside` the norm of the computed Vᵀ√M b where λ = 0.
    `unresolved` counts the λ that are treated as 0 but exceed the rounding of this decomposition.
    """

    values: Array
    vectors: Array
    rhs: Array
    lowest: float
    outside: float
    unresolved: int


def decompose(block: Block, multiplicity: np.ndarray, d: int) -> Spectrum:
    """Return the `Spectrum` of a block on d inputs, whose gates have the given `multiplicity` (q,)."""
    root = np.repeat(np.sqrt(multiplicity), d)
    values, vectors = scipy.linalg.eigh(root[:, None] * block.A * root, check_finite=False, driver="evd")
    rhs = vectors.T @ (root * block.b.ravel())
    largest = max(0.0, float(values[-1]))
    resolved = values > ROUNDING * largest
    outside = float(np.linalg.norm(np.where(resolved, 0.0, rhs)))
    unresolved = int(np.sum(~resolved & (values > 4 * len(values) * np.finfo(float).eps * largest)))
    modes = np.where(resolved, values, 0.0), vectors, np.where(resolved, rhs, 0.0)
    return Spectrum(*modes, float(values[0]), outside, unresolved)


def solve_diagonal(rhs: Array, values: Array) -> Array:
    """Return `rhs`/λ elementwise for λ = `values` ≥ 0, and 0 where λ = 0."""
    return np.divide(rhs, values, out=np.zeros_like(rhs), where=values > 0)


def phi(values: Array, scaled: Array) -> Array:
    """Return φ(λ) = (1 − e^{−λs})/λ, and s where λ = 0, for λ ≥ 0 (p,) and s = t/Kτ ≥ 0 (T,); shape (T, p).

    Accurate to a few units in the last place for every λs.

    >>> phi(np.array([0.0, 1e-12, 1e12]), np.array([1.0])).tolist()
    [[1.0, 0.9999999999995, 1e-12]]
    """
    exponents = scaled[:, None] * values
    result = np.broadcast_to(scaled[:, None], exponents.shape).copy()
    return np.asarray(np.divide(-np.expm1(-exponents), values, out=result, where=exponents > 0))
