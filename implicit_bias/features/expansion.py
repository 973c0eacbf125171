"""Features of kernels along the directions of kernel expansions, for certificates without factors of the kernels."""

from typing import Any

import numpy as np

from implicit_bias._utils.checks import Array, as_numbers
from implicit_bias._utils.floats import UNIT, length, share
from implicit_bias.features.base import Features

#: Roundings of a coefficient, of a value of the kernel that is divided by its scale, and of `sizes`.
ROUNDINGS = 16


class ExpansionFeatures(Features):
    """One feature ⟨v_m, φ_m(x_i)⟩/s_m for each of k kernels: along v_m = Σ_j a_mj φ_m(x_j), with s_m ≥ ‖v_m‖.

    The s_m are upper bounds, which include rounding. A weight w_m is therefore at least the norm of w_m v_m/s_m, whose
    coefficients are a_m w_m/s_m, and the upper bound of a certificate is that of these coefficients. For λ∘y = t a_m,
    Φᵀ(λ∘y) is t s_m, which bounds the length of Σ_j λ_j y_j φ_m(x_j). For other λ, the error of `adjoint_bounded`
    includes the part that is not along v_m. Both bounds hold for the whole kernels, and for all positive semidefinite
    matrices with entries within `entry_errors` √(k_ii k_jj) of the computed ones.

    `coefficients` and `outputs` are the a_m and K_m a_m, `lengths` the √k_m(x_i, x_i), all (k, n). `entry_errors`, a
    number or (k, n), are those of the values in `outputs`. Sums have `terms` roundings, by default one for each
    coefficient other than 0.

    >>> X, a = np.array([[3.0], [-4.0]]), np.array([[1.0, 0.0]])
    >>> features = ExpansionFeatures(a, a @ X @ X.T, np.abs(X.T), 0.0)
    >>> features.apply([[2.0]]).round(9).tolist()
    [6.0, -8.0]
    """

    verified = True

    def __init__(
        self, coefficients: Array, outputs: Array, lengths: Array, entry_errors: Any, terms: int | None = None
    ) -> None:
        used = coefficients != 0
        entry_errors = np.broadcast_to(entry_errors, lengths.shape)
        # Lengths are rounded, too.
        self.coefficients, self.lengths = coefficients, lengths * (1 + entry_errors.max() + ROUNDINGS * UNIT)
        rounding = share(2.0 * (int(used.sum(axis=1).max()) if terms is None else terms) + ROUNDINGS)
        reach = (np.abs(coefficients) * self.lengths).sum(axis=1, keepdims=True) * (1 + rounding)
        squares = (coefficients * outputs).sum(axis=1, keepdims=True)
        errors = (np.where(used, entry_errors, 0.0).max(axis=1, keepdims=True) + rounding) * reach**2
        # If no computed ‖v_m‖² exceeds the bound of its error, any residual may be rounding.
        self.unresolved = UNIT if (squares > errors).any() else 1.0
        #: The s_m, shape (k,).
        self.sizes = np.sqrt(np.maximum(squares, 0.0) + errors)[:, 0] * (1 + ROUNDINGS * UNIT)
        by = np.where(self.sizes > 0, self.sizes, 1.0)[:, None]
        self.values, self.errors = outputs / by, (entry_errors + rounding) * reach * self.lengths / by

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.values.shape[1], len(self.values), 1

    def dense(self) -> Array:
        return np.ascontiguousarray(self.values.T)

    def row_norms(self, units: Any = 1.0) -> Array:
        """Return √Σ_m k_m(x_i, x_i) (n,) for the whole kernels, not along the v_m; `units` is ignored."""
        return np.asarray(length(self.lengths, axis=0))

    def closed(self) -> np.ndarray:
        return np.asarray(~self.lengths.any(axis=0))

    def apply_bounded(self, W: Any, precise: bool = False) -> tuple[Array, Array, Array]:
        w = as_numbers(W, (self.k, 1), "weights")[:, 0]
        terms = share(self.k + 4) * (np.abs(w) @ np.abs(self.values)) + self.k * self._vanishing
        return w @ self.values, np.zeros(self.n), np.abs(w) @ self.errors * (1 + share(self.k + 4)) + terms

    def adjoint_bounded(self, a: Any, precise: bool = False) -> tuple[Array, Array, Array]:
        """Return bounds t s_m of the lengths of Σ_j a_j φ_m(x_j) (k, 1), zeros, and the lengths of the rest (k,)."""
        a, coefficients = as_numbers(a, (self.n,), "sample weights"), self.coefficients
        # a is t times the coefficients, and a rest whose features have any direction.
        squares = (coefficients**2).sum(axis=1)
        t = (coefficients @ a / np.where(squares > 0, squares, 1.0))[:, None]
        rest = np.abs(a - t * coefficients) + 4 * UNIT * (np.abs(a) + np.abs(t * coefficients))
        error = (rest * self.lengths).sum(axis=1) * (1 + share(self.n + 4))
        return np.abs(t) * self.sizes[:, None], np.zeros((self.k, 1)), error + self.n * self._vanishing
