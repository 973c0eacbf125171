"""Features given by one kernel per block, or by explicit features of each block, instead of gates and inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from implicit_bias._utils.checks import Array, InputError, as_floats, check_range
from implicit_bias._utils.scaling import largest_entries
from implicit_bias.features.base import Features

#: What Cholesky's method leaves of a kernel is taken for rounding up to this share of its largest entry.
ROUNDING = 1e-10


def pivoted_cholesky(K: Array) -> Array | None:
    """A (n, r) with AAᵀ = K up to rounding, r the numerical rank; None if a symmetric K is not positive semidefinite.

    >>> pivoted_cholesky(np.array([[4.0, 2.0], [2.0, 1.0]])).tolist()
    [[2.0], [1.0]]
    """
    largest = float(np.abs(K).max())
    factor, order, rank, _ = scipy.linalg.lapack.dpstrf(K, tol=len(K) * np.finfo(float).eps * largest, lower=1)
    order, rank = order - 1, rank if largest > 0 else 0
    factor, rest = np.tril(factor)[:, :rank], order[rank:]
    if np.abs(K[np.ix_(rest, rest)] - factor[rank:] @ factor[rank:].T).max(initial=0.0) > ROUNDING * largest:
        return None
    found = np.empty_like(factor)
    found[order] = factor
    return found


@dataclass(frozen=True, eq=False, repr=False)
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
        If the array is empty, not finite or not three-dimensional, or has sizes beyond 1e-280 to 1e280.

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
    made_of = ("factors",)

    def __post_init__(self) -> None:
        factors = as_floats(self.factors, "factors", 3)
        check_range(largest_entries(factors), "the factors")
        object.__setattr__(self, "factors", factors)

    @classmethod
    def from_kernels(cls, kernels: Any) -> KernelFeatures:
        """The features of positive semidefinite kernels, shape (k, n, n): K_j = Φ_jΦ_jᵀ by pivoted Cholesky factors.

        Raises InputError if one is not symmetric or not positive semidefinite.
        """
        stack = as_floats(kernels, "kernels", 3)
        if stack.shape[1] != stack.shape[2]:
            raise InputError(f"kernels must have shape (k, n, n), not {stack.shape}; for new samples use extended()")
        factors = np.zeros((stack.shape[1], len(stack), stack.shape[1]))
        for j, K in enumerate(stack):
            if not np.allclose(K, K.T, rtol=1e-9, atol=1e-12 * np.abs(K).max()):
                raise InputError(f"kernel {j} is not symmetric; give (K + K.T) / 2 if that is rounding")
            factor = pivoted_cholesky(K)
            if factor is None:
                least = scipy.linalg.eigvalsh(K)[0]
                raise InputError(
                    f"kernel {j} is not positive semidefinite (eigenvalue {least:.1e}); add to its diagonal"
                )
            factors[:, j, : factor.shape[1]] = factor
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
    def shape(self) -> tuple[int, int, int]:
        """(n, k, r)."""
        n, k, r = self.factors.shape
        return n, k, r

    def dense(self) -> Array:
        """Φ as a matrix (n, k·r), block-major columns."""
        return self.factors.reshape(self.n, -1)
