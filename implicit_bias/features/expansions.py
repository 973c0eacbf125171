"""Features of several kernels along one kernel expansion, for certificates without factors of the kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from implicit_bias._utils.checks import Array, as_numbers
from implicit_bias._utils.rounding import UNIT
from implicit_bias._utils.scaling import length
from implicit_bias.features.base import Features
from implicit_bias.features.expansion import ExpansionFeatures


class ExpansionBlocks(Features):
    """One feature for each of k kernels: ⟨e_m, φ_m(x_i)⟩ along e_m = v_m/‖v_m‖ for v_m = Σ_j a_j φ_m(x_j).

    All kernels share the coefficients a. For λ = |a|, a certificate with these features holds for the whole kernels;
    see `ExpansionFeatures`.

    Parameters
    ----------
    coefficients : array, shape (n,)
        a.
    outputs : array, shape (k, n)
        K_m a.
    lengths : array, shape (k, n)
        √k_m(x_i, x_i).

    Examples
    --------
    >>> X, a = np.array([[3.0], [-4.0]]), np.array([1.0, 0.0])
    >>> K, lengths = np.stack([X @ X.T, np.eye(2)]), np.array([[3.0, 4.0], [1.0, 1.0]])
    >>> features = ExpansionBlocks(a, K @ a, lengths)
    >>> features.sizes.tolist(), features.apply([[2.0], [1.0]]).tolist()
    ([3.0, 1.0], [7.0, -8.0])
    """

    verified = True

    def __init__(self, coefficients: Array, outputs: Array, lengths: Array) -> None:
        self.parts = [ExpansionFeatures(coefficients, *own) for own in zip(outputs, lengths, strict=True)]
        self.lengths = np.asarray(length(lengths, axis=0))
        #: Lengths ‖v_m‖, shape (k,).
        self.sizes = np.array([part.size for part in self.parts])

    @property
    def shape(self) -> tuple[int, int, int]:
        return len(self.lengths), len(self.parts), 1

    def dense(self) -> Array:
        return np.stack([part.values for part in self.parts], axis=1)

    def row_norms(self, units: Any = 1.0) -> Array:
        """Return √Σ_m k_m(x_i, x_i) (n,) for the whole kernels, not along the e_m; `units` is ignored."""
        return self.lengths

    def closed(self) -> np.ndarray:
        return self.lengths == 0

    def apply_bounded(self, W: Any, precise: bool = False) -> tuple[Array, Array, Array]:
        w = as_numbers(W, (self.k, 1), "weights")
        upper, error, size = np.zeros((3, self.n))
        for m in np.flatnonzero(w):
            f, _, more = self.parts[m].apply_bounded(w[m : m + 1], precise)
            upper, error, size = upper + f, error + more, size + np.abs(f)
        return upper, np.zeros(self.n), error * (1 + 4 * self.k * UNIT) + 2 * self.k * UNIT * size

    def adjoint_bounded(self, a: Any, precise: bool = False) -> tuple[Array, Array, Array]:
        upper, lower, error = zip(*(part.adjoint_bounded(a, precise) for part in self.parts), strict=True)
        return np.vstack(upper), np.vstack(lower), np.concatenate(error)
