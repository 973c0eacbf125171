"""Features of kernels along the direction of a kernel expansion, for certificates without factors of the kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from implicit_bias._utils.checks import Array, as_numbers
from implicit_bias._utils.rounding import UNIT, share
from implicit_bias._utils.scaling import length
from implicit_bias.features.base import Features

#: Error of a value k(x, z), as a share of √(k(x, x) k(z, z)), that the bounds include.
ENTRY_ERROR = 1e-12


class ExpansionFeatures(Features):
    """One feature ⟨e, φ(x_i)⟩ = (Ka)_i/‖v‖ per sample: that of a kernel along e = v/‖v‖ for v = Σ_j a_j φ(x_j).

    A weight w (1, 1) has the margins and the norm that w·e has for the whole kernel. For λ = a, Φᵀλ is ‖v‖, the length
    of Σ_j λ_j φ(x_j). For every other λ, the error of `adjoint_bounded` includes the part that is not along e.
    Therefore, a certificate with these features holds for the whole kernel, and for all positive semidefinite matrices
    with entries within `entry_errors` √(k_ii k_jj) of the computed ones.

    Parameters
    ----------
    coefficients, outputs : array, shape (n,)
        a and Ka.
    lengths : array, shape (n,)
        √k(x_i, x_i).
    entry_errors : float or array, shape (n,)
        Errors of the values k(x_i, x_j) in `outputs`, as shares of √(k(x_i, x_i) k(x_j, x_j)).

    Examples
    --------
    >>> X, a = np.array([[3.0], [-4.0]]), np.array([1.0, 0.0])
    >>> features = ExpansionFeatures(a, X @ X.T @ a, np.abs(X[:, 0]))
    >>> features.apply([[2.0]]).tolist()
    [6.0, -8.0]
    """

    verified = True

    def __init__(self, coefficients: Array, outputs: Array, lengths: Array, entry_errors: Any = ENTRY_ERROR) -> None:
        #: Length ‖v‖.
        self.size = max(float(coefficients @ outputs), 0.0) ** 0.5
        by = self.size or 1.0
        self.coefficients, self.values = coefficients / by, outputs / by
        self.lengths = lengths
        reach = float(np.abs(self.coefficients) @ lengths)
        rounding = 2 * share(int(np.count_nonzero(coefficients)) + 4)
        #: Bound of the relative error of ‖v‖².
        entry = float(np.broadcast_to(entry_errors, lengths.shape)[coefficients != 0].max(initial=0.0))
        self.relative = (entry + rounding) * reach**2
        #: Bounds (n,) of the errors of `values`; infinite if the error of ‖v‖² is too large.
        entries = (entry_errors + rounding) * reach * lengths
        self.errors = (entries + (self.relative + 4 * UNIT) * np.abs(self.values)) * (1 + self.relative)
        if not self.relative < 0.5:
            self.errors = np.full(len(lengths), np.inf)

    @property
    def shape(self) -> tuple[int, int, int]:
        return len(self.values), 1, 1

    def dense(self) -> Array:
        return self.values[:, None]

    def row_norms(self, units: Any = 1.0) -> Array:
        """Return the lengths √k(x_i, x_i) (n,) for the whole kernel, not those along e; `units` is ignored."""
        return self.lengths

    def closed(self) -> np.ndarray:
        return self.lengths == 0

    def apply_bounded(self, W: Any, precise: bool = False) -> tuple[Array, Array, Array]:
        w = float(as_numbers(W, (1, 1), "weights")[0, 0])
        f = w * self.values
        return f, np.zeros(self.n), abs(w) * self.errors + 2 * UNIT * np.abs(f) + self._vanishing

    def adjoint_bounded(self, a: Any, precise: bool = False) -> tuple[Array, Array, Array]:
        a = as_numbers(a, (self.n,), "sample weights")
        value, own = float(a @ self.values), self.coefficients
        # a is t times the coefficients, and a rest whose features have any direction.
        t = float(a @ own) / (float(own @ own) or 1.0)
        rest = np.abs(a - t * own) + 4 * UNIT * (np.abs(a) + np.abs(t * own))
        error = abs(t - value) + abs(t) * self.relative + float(rest @ self.lengths) * (1 + share(self.n + 4))
        upper = np.array([[value]])
        return upper, np.zeros((1, 1)), np.array([error * (1 + 8 * UNIT) + self.n * self._vanishing])


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
