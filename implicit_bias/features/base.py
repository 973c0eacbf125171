"""What features can do, whatever they are made of: the one data structure of this toolkit, and how it is asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import scipy.sparse as sp

from implicit_bias.features.patterns import PatternBlocks
from implicit_bias.ground.blocks import ROWS, symmetric_blocks
from implicit_bias.ground.checks import Array, as_factor, as_mixing, as_numbers, as_rows, finite
from implicit_bias.ground.scaling import length, without_exponent

#: Numbers of a dense chunk of samples.
AT_ONCE = 2**25


class Features(ABC):
    """n samples as a linear operator Φ: R^{k×d} → R^n on weights W of k gates (or blocks) with d numbers each.

        (ΦW)_i = Σ_j ⟨w_j, φ_j(x_i)⟩;   gated linear features have φ_j(x) = g_j(x) x, that is, Φ(x) = g(x) ⊗ x

    Every system of this toolkit fits such features and asks them through the methods below: a max-margin fit (`solve`),
    a least-squares fit (`least_squares`), a gradient flow (`dynamics`); the output of a network whose gates stay is
    ΦW, too, in its effective weights W.

    A kind of features is a subclass with `shape` and `dense`. Everything else follows from these two; a kind that need
    not form Φ overrides what its structure makes cheaper, as `GatedFeatures` does.

    Examples
    --------
    Windows of a signal, φ_j(x) = (x_j, x_{j+1}), with the group lasso to choose among them:

    >>> import numpy as np
    >>> from implicit_bias import Features, GroupLasso, MarginProblem, solve
    >>> class Windows(Features):
    ...     def __init__(self, X):
    ...         self.X = np.asarray(X)
    ...     @property
    ...     def shape(self):
    ...         return len(self.X), self.X.shape[1] - 1, 2
    ...     def dense(self):
    ...         return np.lib.stride_tricks.sliding_window_view(self.X, 2, axis=1).reshape(self.n, -1)
    >>> features = Windows([[0.0, 0.0, 2.0, 1.0], [1.0, 0.0, -1.0, -2.0]])
    >>> solution = solve(MarginProblem(features, [1, -1], GroupLasso(range(features.k))))
    >>> solution.status.name, (np.linalg.norm(solution.weights, axis=1) > 1e-4).tolist()
    ('OPTIMAL', [False, False, True])
    """

    #: The arrays that the class is made from again, in the order that it takes them; None if it is not saved.
    made_of: tuple[str, ...] | None = None
    #: g_j(x_i), shape (n, k), of features Φ(x) = g(x) ⊗ x; None of others.
    gate_values: Array | None = None

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int, int]:
        """(n, k, d)."""

    @abstractmethod
    def dense(self) -> Array:
        """Φ as a matrix (n, k·d), gate-major columns."""

    @property
    def n(self) -> int:
        """Number of samples."""
        return self.shape[0]

    @property
    def k(self) -> int:
        """Number of gates, or blocks."""
        return self.shape[1]

    @property
    def d(self) -> int:
        """Number of inputs, or the length of a block."""
        return self.shape[2]

    def apply(self, W: Any) -> Array:
        """ΦW for weights W (k, d); returns (n,)."""
        W = as_numbers(W, (self.k, self.d), "weights")
        with np.errstate(over="ignore", invalid="ignore"):
            return self.dense() @ W.ravel()

    def __matmul__(self, W: Any) -> Array:
        """ΦW."""
        return self.apply(W)

    def adjoint(self, a: Any) -> Array:
        """Φᵀa for sample weights a (n,); returns (k, d)."""
        a = as_numbers(a, (self.n,), "sample weights")
        with np.errstate(over="ignore", invalid="ignore"):
            return (a @ self.dense()).reshape(self.k, self.d)

    def magnitudes(self, W: Any) -> Array:
        """Σ_j ⟨|w_j|, |φ_j(x_i)|⟩ for W (k, d), which the rounding of (ΦW)_i is a share of; shape (n,)."""
        w = np.abs(as_numbers(W, (self.k, self.d), "weights")).ravel()
        return np.concatenate([np.abs(rows) @ w for rows in np.array_split(self.dense(), max(1, self.n // ROWS))])

    def adjoint_magnitudes(self, a: Any) -> Array:
        """Σ_i |a_i| ‖φ_j(x_i)‖ for a (n,), which the rounding of a row of Φᵀa is a share of; shape (k,)."""
        a = np.abs(as_numbers(a, (self.n,), "sample weights"))
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(a @ length(self._blocks(), axis=2))

    def gram(self) -> Array:
        """ΦΦᵀ, shape (n, n). Raises InputError if that overflows."""
        dense, by = without_exponent(self.dense())
        with np.errstate(over="ignore"):
            return finite(np.ldexp(dense @ dense.T, 2 * by))

    def weight_gram(self) -> Array:
        """ΦᵀΦ, shape (kd, kd), summed over chunks of samples."""
        size = self.k * self.d
        chunk = max(1, AT_ONCE // size)

        def entries(rows: slice, columns: slice) -> Array:
            total = np.zeros((rows.stop - rows.start, columns.stop - columns.start))
            for first in range(0, self.n, chunk):
                dense = self.select(slice(first, first + chunk)).dense()
                total += dense[:, rows].T @ dense[:, columns]
            return total

        return symmetric_blocks(size, entries)

    def row_norms(self, units: Any = 1.0) -> Array:
        """‖φ(x_i)‖ with the inputs in `units` u (d,), shape (n,)."""
        return np.asarray(length((self._blocks() / units).reshape(self.n, -1), axis=1))

    def units(self) -> Array:
        """Units of the inputs in which none is large or small beside the others, shape (d,); here ones."""
        return np.ones(self.d)

    def in_units(self, units: Array) -> Features:
        """The features of inputs in `units` u (d,); themselves where they have no units."""
        return self

    def largest(self) -> Array:
        """A bound of |φ_jl(x_i)| over the samples, shape (k, d)."""
        return np.asarray(np.abs(self._blocks()).max(axis=0))

    def closed(self) -> np.ndarray:
        """Whether φ(x_i) = 0; shape (n,)."""
        return np.asarray(~self.dense().any(axis=1))

    def scale(self) -> float:
        """√(mean ‖φ(x_i)‖²/k), the root mean square length of the inputs or blocks; 1 if they are all zero."""
        return float(length(self.dense())) / float(np.sqrt(self.n * self.k)) or 1.0

    def scaled(self, factor: float) -> Features:
        """The features times `factor`."""
        return _explicit(as_factor(factor) * self._blocks())

    def mixed(self, T: Any) -> Features:
        """The features Φ̂ with Φ̂Ŵ = Φ(TŴ) for T (k, k̂)."""
        T = as_mixing(T, self.k)
        return _explicit(np.einsum("nkr,kj->njr", self._blocks(), T.toarray() if hasattr(T, "toarray") else T))

    def select(self, rows: Any) -> Features:
        """The features of some samples only (a mask or indices)."""
        return _explicit(self._blocks()[as_rows(rows, self.n)])

    def reduced(self) -> tuple[Features, Array]:
        """The same operator on fewer inputs where some are superfluous, and the V (d, r) that leads back.

        Φ̃W̃ = Φ(W̃Vᵀ), VᵀV = I. Here itself: blocks have no rotation in common.
        """
        return self, np.eye(self.d)

    def shared(self) -> PatternBlocks:
        """ΦW with as few nonzeros as may be; here every gate is a block of its own."""
        return PatternBlocks(sp.eye_array(self.k, format="csr"), sp.csr_array(self.dense()))

    def _blocks(self) -> Array:
        """φ_j(x_i), shape (n, k, d)."""
        return self.dense().reshape(self.shape)


def _explicit(blocks: Array) -> Features:
    # Below the class that it completes.
    from implicit_bias.features.kernel import KernelFeatures

    return KernelFeatures(blocks)
