"""Shared gate patterns: sparse factors of Φ with few nonzeros, for solvers that need Φ as a sparse matrix.

Samples with the same gates in a block of gates share the sum of weights of this block. With one variable
u_s = Σ_j s_j w_j for each distinct pattern s, a sample needs one copy of its inputs per block instead of one per open
gate:

    Σ_j g_ij ⟨w_j, x_i⟩ = Σ_blocks ⟨u_s(i), x_i⟩

For n = 2000 samples and 100 units of two contexts there are five to six times fewer nonzeros.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from implicit_bias._utils.checks import Array

#: Number of nonzeros of Φ from which shared patterns are faster in spite of the additional variables.
MIN_NONZEROS = 2_000_000


@dataclass(frozen=True, eq=False)
class PatternBlocks:
    """Factorisation ΦW = M vec(SW): the rows of S (K, k) are K patterns, which also order the columns of M (n, K·d)."""

    S: sp.csr_array
    M: sp.csr_array

    @property
    def trivial(self) -> bool:
        """True if each pattern is one gate, so that U = W and no variable is added."""
        return bool(self.S.shape[0] == self.S.shape[1] and self.S.nnz == self.S.shape[0])


def share_patterns(X: Array, G: Array, min_nonzeros: int = MIN_NONZEROS) -> PatternBlocks:
    """Factorise Φ by the distinct rows of blocks of gates; each gate is a block if Φ has fewer than `min_nonzeros`."""
    share = np.count_nonzero(G) * X.shape[1] >= min_nonzeros
    columns_of = _blocks(G) if share else [slice(j, j + 1) for j in range(G.shape[1])]
    each, of_sample, factors = zip(*[_patterns(G[:, columns]) for columns in columns_of], strict=True)
    S = sp.csr_array(sp.block_diag([sp.coo_array(patterns) for patterns in each], format="csr"))
    first = np.cumsum([0, *map(len, each)])[:-1]
    index, scale, (n, d) = np.stack(of_sample, 1) + first, np.stack(factors, 1), X.shape
    # Row i of M contains scale_ib · x_i in the columns of pattern index_ib.
    sample, block = np.nonzero(scale)
    data = (scale[sample, block, None] * X[sample]).ravel()
    columns = (index[sample, block, None].astype(np.int64) * d + np.arange(d)).ravel()
    ends = np.concatenate([[0], np.cumsum(np.count_nonzero(scale, axis=1) * d)])
    size = S.shape[0] * d
    if size < 2**31 and ends[-1] < 2**31:
        columns, ends = columns.astype(np.int32), ends.astype(np.int32)
    return PatternBlocks(S, sp.csr_array((data, columns, ends), shape=(n, size)))


def _blocks(G: Array) -> list[slice]:
    """Return blocks of columns, of several while their distinct rows plus the nonzeros of these are at most n/4."""
    n, k = G.shape
    starts, code = [0], np.unique(G[:, 0], return_inverse=True)[1]
    for j in range(1, k):
        column = np.unique(G[:, j], return_inverse=True)[1]
        joint, first, both = np.unique(code * (column.max() + 1) + column, return_index=True, return_inverse=True)
        entries = len(joint) + np.count_nonzero(G[first, starts[-1] : j + 1])
        if entries <= n / 4:
            code = both
        else:
            starts.append(j)
            code = column
    return [slice(a, b) for a, b in zip(starts, [*starts[1:], k], strict=True)]


def _patterns(G: Array) -> tuple[Array, np.ndarray, Array]:
    """Return patterns P (K, width), indices s (n,) and factors f (n,) with G_i = f_i P_{s_i} for a block G of gates."""
    if G.shape[1] == 1:
        return np.ones((1, 1)), np.zeros(len(G), dtype=np.int64), G[:, 0]
    patterns, of_sample = np.unique(G, axis=0, return_inverse=True)
    closed: np.ndarray = ~np.any(patterns, axis=1)
    position = np.maximum(np.cumsum(~closed) - 1, 0)
    if closed.all():
        return np.ones((1, G.shape[1])), np.zeros(len(G), dtype=np.int64), np.zeros(len(G))
    return patterns[~closed], position[of_sample], 1.0 - closed[of_sample]
