"""Features given by a kernel a group, or by explicit features a group, instead of gates and inputs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg

from implicit_bias.features.base import Features
from implicit_bias.ground.checks import (
    Array,
    InputError,
    as_factor,
    as_floats,
    as_mixing,
    as_numbers,
    as_rows,
    check_range,
    finite,
)
from implicit_bias.ground.scaling import largest_entries, length, without_exponent

#: Eigenvalues this far below zero, against the largest, are taken for rounding.
ROUNDING = 1e-10


@dataclass(frozen=True, eq=False)
class KernelFeatures(Features):
    """Features of k blocks with φ_j(x) ∈ R^r each: (ΦW)_i = Σ_j ⟨w_j, φ_j(x_i)⟩, block kernels K_j = Φ_jΦ_jᵀ.

    They stand where `GatedFeatures` do: a `MarginProblem` with `GroupLasso` over the blocks is multiple-kernel
    learning, with `Frobenius` the support vector machine of the sum of the kernels (without an intercept).

    Parameters
    ----------
    factors : array, shape (n, k, r)
        φ_j(x_i), for explicit features; shorter blocks are filled up with zeros. For kernels: `from_kernels`.

    Raises
    ------
    InputError
        If the array is empty, not finite or not three-dimensional.

    Examples
    --------
    >>> import numpy as np
    >>> from implicit_bias import GroupLasso, KernelFeatures, MarginProblem, solve
    >>> X = np.array([[1.0, 2.0], [2.0, 1.0], [-1.0, 1.0]])
    >>> features = KernelFeatures.from_kernels([X @ X.T, (X @ X.T) ** 2])
    >>> solution = solve(MarginProblem(features, [1, 1, -1], GroupLasso([0, 1])))
    >>> scores = features.extended([X @ X.T, (X @ X.T) ** 2]) @ solution.weights
    >>> solution.status.name, bool((scores * [1, 1, -1] > 0.999999).all())
    ('OPTIMAL', True)
    """

    factors: Array
    arrays = ("factors",)

    def __post_init__(self) -> None:
        factors = as_floats(self.factors, "factors", 3)
        check_range(largest_entries(factors), "the factors")
        object.__setattr__(self, "factors", factors)

    @classmethod
    def from_kernels(cls, kernels: Any) -> KernelFeatures:
        """The features of positive semidefinite kernels, shape (k, n, n), by their eigenvectors: K_j = Φ_jΦ_jᵀ.

        Raises InputError if one is not symmetric or not positive semidefinite.
        """
        stack = as_floats(kernels, "kernels", 3)
        if stack.shape[1] != stack.shape[2]:
            raise InputError(f"kernels must have shape (k, n, n), not {stack.shape}; for new samples use extended()")
        factors = np.zeros((stack.shape[1], len(stack), stack.shape[1]))
        for j, K in enumerate(stack):
            if not np.allclose(K, K.T, rtol=1e-9, atol=1e-12 * np.abs(K).max()):
                raise InputError(f"kernel {j} is not symmetric; give (K + K.T) / 2 if that is rounding")
            values, vectors = scipy.linalg.eigh(K)
            if values[0] < -ROUNDING * max(values[-1], np.abs(K).max()):
                raise InputError(
                    f"kernel {j} is not positive semidefinite (eigenvalue {values[0]:.1e}); add to its diagonal"
                )
            values[values < len(K) * np.finfo(float).eps * values[-1]] = 0.0
            factors[:, j] = vectors[:, ::-1] * np.sqrt(np.maximum(values[::-1], 0.0))
        used = max(1, int(factors.any(axis=(0, 1)).sum()))
        return cls(factors[:, :, :used])

    def extended(self, kernels: Any) -> KernelFeatures:
        """The features of m new samples from their kernels with the n old ones, shape (k, m, n)."""
        cross = as_floats(kernels, "kernels", 3)
        if cross.shape[::2] != (self.k, self.n):
            raise InputError(f"kernels must have shape ({self.k}, m, {self.n}), not {cross.shape}")
        return KernelFeatures(
            np.stack([block @ np.linalg.pinv(self.factors[:, j]).T for j, block in enumerate(cross)], axis=1)
        )

    @property
    def n(self) -> int:
        """Number of samples."""
        return len(self.factors)

    @property
    def k(self) -> int:
        """Number of blocks."""
        return int(self.factors.shape[1])

    @property
    def d(self) -> int:
        """Length r of a block."""
        return int(self.factors.shape[2])

    def apply(self, W: Any) -> Array:
        """ΦW for weights W (k, d); returns (n,)."""
        W = as_numbers(W, (self.k, self.d), "weights")
        with np.errstate(over="ignore", invalid="ignore"):
            return self.dense() @ W.ravel()

    def magnitudes(self, W: Any) -> Array:
        """Σ_j ⟨|w_j|, |φ_j(x_i)|⟩ for W (k, d), which the rounding of (ΦW)_i is a share of; shape (n,)."""
        w = np.abs(as_numbers(W, (self.k, self.d), "weights")).ravel()
        return np.concatenate([np.abs(block) @ w for block in np.array_split(self.dense(), max(1, self.n // 4096))])

    def adjoint(self, a: Any) -> Array:
        """Φᵀa for sample weights a (n,); returns (k, d)."""
        a = as_numbers(a, (self.n,), "sample weights")
        with np.errstate(over="ignore", invalid="ignore"):
            return (a @ self.dense()).reshape(self.k, self.d)

    def adjoint_magnitudes(self, a: Any) -> Array:
        """Σ_i |a_i| ‖φ_j(x_i)‖ for a (n,), which the rounding of a row of Φᵀa is a share of; shape (k,)."""
        a = np.abs(as_numbers(a, (self.n,), "sample weights"))
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(a @ length(self.factors, axis=2))

    def gram(self) -> Array:
        """ΦΦᵀ, the sum of the kernels; shape (n, n). Raises InputError if that overflows."""
        dense, by = without_exponent(self.dense())
        with np.errstate(over="ignore"):
            return finite(np.ldexp(dense @ dense.T, 2 * by))

    def row_norms(self, units: Any = 1.0) -> Array:
        """‖φ(x_i)/u‖ in `units` u (d,), shape (n,)."""
        result: Array = length((self.factors / units).reshape(self.n, -1), axis=1)
        return result

    def units(self) -> Array:
        """Ones, shape (d,): the entries of a factor have no units of their own."""
        return np.ones(self.d)

    def in_units(self, units: Array) -> KernelFeatures:
        """Itself: there are no units."""
        return self

    def largest(self) -> Array:
        """The largest |φ_jl(x_i)| over the samples, shape (k, d)."""
        return np.asarray(np.abs(self.factors).max(axis=0))

    def closed(self) -> np.ndarray:
        """Whether φ(x_i) = 0; shape (n,)."""
        return np.asarray(~self.dense().any(axis=1))

    def scale(self) -> float:
        """√(mean ‖φ(x_i)‖²/k); 1 if all are zero."""
        return float(length(self.factors)) / float(np.sqrt(self.n * self.k)) or 1.0

    def scaled(self, factor: float) -> KernelFeatures:
        """The features times `factor`."""
        return replace(self, factors=as_factor(factor) * self.factors)

    def mixed(self, T: Any) -> KernelFeatures:
        """The features Φ̂ with Φ̂Ŵ = Φ(TŴ) for T (k, k̂)."""
        T = as_mixing(T, self.k)
        dense = T.toarray() if hasattr(T, "toarray") else T
        return replace(self, factors=np.einsum("nkr,kj->njr", self.factors, dense))

    def select(self, rows: Any) -> KernelFeatures:
        """The features of some samples only (a mask or indices)."""
        return replace(self, factors=self.factors[as_rows(rows, self.n)])

    def reduced(self) -> tuple[KernelFeatures, Array]:
        """Itself: blocks have no common rotation."""
        return self, np.eye(self.d)

    def dense(self) -> Array:
        """Φ as a matrix (n, k·d), block-major columns."""
        return self.factors.reshape(self.n, -1)
