"""Features of one kernel along the direction of a kernel expansion, for certificates without a kernel matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from implicit_bias._utils.checks import Array, as_numbers
from implicit_bias._utils.rounding import UNIT, share
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
