"""Features of several kernels along one kernel expansion, for certificates without factors of the kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from implicit_bias._utils.checks import Array, as_numbers
from implicit_bias._utils.rounding import UNIT, share
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
        self.coefficients, self.part_lengths, self.lengths = coefficients, lengths, np.asarray(length(lengths, axis=0))
        #: Lengths ‖v_m‖, shape (k,), and bounds of the errors of ‖v_m‖², relative to it unless it is 0.
        self.sizes, self.relative = np.array([(part.size, part.relative) for part in self.parts]).T
        self.values = np.stack([part.values for part in self.parts])

    @property
    def shape(self) -> tuple[int, int, int]:
        return len(self.lengths), len(self.parts), 1

    def dense(self) -> Array:
        return np.ascontiguousarray(self.values.T)

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
        a, own = as_numbers(a, (self.n,), "sample weights"), self.coefficients
        # a is t times the coefficients, and a rest whose features have any direction.
        t = float(a @ own) / (float(own @ own) or 1.0)
        rest = np.abs(a - t * own) + 4 * UNIT * (np.abs(a) + np.abs(t * own))
        upper, by = self.values @ a, abs(t) * np.where(self.sizes > 0, self.sizes, 1.0)
        near = np.where(self.sizes > 0, np.abs(t * self.sizes - upper) + by * self.relative, np.inf)
        # Where v_m nearly cancels, the bound of ‖v_m‖² bounds the feature itself.
        far = np.abs(upper) + by * np.sqrt((self.sizes > 0) + self.relative)
        error = np.minimum(near, far) + (self.part_lengths @ rest) * (1 + share(self.n + 4))
        return upper[:, None], np.zeros((self.k, 1)), error * (1 + 8 * UNIT) + self.n * self._vanishing
