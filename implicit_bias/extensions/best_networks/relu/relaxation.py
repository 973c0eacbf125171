"""Semidefinite relaxation of max_σ ‖f_0 + Σ_i σ_i f_i‖ over σ ∈ [−1, 1]^m, and bounds from its multipliers.

With z = (1, σ) and Q = FFᵀ for the rows f_0, f_1 … f_m of F,

    ‖f_0 + Σ_i σ_i f_i‖² = zᵀQz ≤ Σ_i d_i

for every d with Diag(d) − Q ⪰ 0, which implies d ≥ 0. Minimising Σ d is the dual of the relaxation known from the
maximum cut: maximise ⟨Q, X⟩ over X ⪰ 0 with X_ii = 1. The matrices zzᵀ with σ_i = ±1 are feasible in it.
"""

from collections.abc import Callable

import numpy as np
from scipy.linalg import cho_solve, lapack

from implicit_bias._utils.checks import Array
from implicit_bias._utils.floats import TINY, length, share
from implicit_bias.solvers.native.loop import descend_from

#: Largest number of Newton steps; 8 to 15 are usual.
MAX_STEPS = 60
#: Centring parameter σ: each step aims at σμ.
CENTRING = 0.25
#: Share of the distance to the boundary that a step takes.
TO_BOUNDARY = 0.95
#: Shift of d, relative to its mean, that keeps Diag(d) − Q well-conditioned.
SHIFT = 1e-9


def solve_relaxation(Q: Array, accuracy: float, late: Callable[[], bool] = bool) -> tuple[Array, Array]:
    """Return nearly optimal d (m,) with Diag(d) ⪰ Q and X ⪰ 0 (m, m) with X_ii = 1, for Q ⪰ 0 (m, m).

    At convergence Σd − ⟨Q, X⟩ ≤ `accuracy` · Σd, where Σd is an upper bound of the optimum and ⟨Q, X⟩ a lower one.
    This is an interior-point method. With Z = Diag(d) − Q, the Newton steps for XZ = μI and X_ii = 1 are
    (Z⁻¹ ∘ X)Δd = μ diag Z⁻¹ − 1 and ΔX = μZ⁻¹ − X − Z⁻¹ Diag(Δd) X, symmetrised. It ends early at the first iterate at
    which `late()` is True; by default there is no time limit.
    """
    size = float(np.abs(Q).sum(axis=1).max(initial=0.0)) + TINY
    Q = Q / size
    descent = _RelaxedDescent(Q, accuracy, late)
    start = 1.1 * np.abs(Q).sum(axis=1) + 1e-3, np.eye(len(Q))
    descend_from(start, descent.observe, descent.linearised, CENTRING, predicts=False)
    d, X = descent.at
    return d * size, X


class _RelaxedDescent:
    """The problem of `solve_relaxation` for the interior-point loop; `at` is the last iterate (d, X)."""

    def __init__(self, Q: Array, accuracy: float, late: Callable[[], bool]) -> None:
        self.Q, self.accuracy, self.late, self.count = Q, accuracy, late, 0

    def observe(self, at: tuple[Array, Array]) -> bool:
        """Keep the iterate; True once its gap is small enough, after MAX_STEPS, or if `late()`."""
        (d, X), self.at = at, at
        self.Z = np.diag(d) - self.Q
        self.gap, self.count = float((self.Z * X).sum()), self.count + 1
        return self.gap <= self.accuracy * d.sum() or self.count > MAX_STEPS or self.late()

    def linearised(self, at: tuple[Array, Array]) -> "_RelaxedConditions":
        """Return the conditions linearised at the iterate that `observe` was given last."""
        return _RelaxedConditions(self.Z, *at, self.gap / max(len(self.Z), 1))


class _RelaxedConditions:
    """The conditions XZ = μI and X_ii = 1, linearised."""

    def __init__(self, Z: Array, d: Array, X: Array, mu: float) -> None:
        self.Z, self.d, self.X, self.mu, self.inverse = Z, d, X, mu, _inverse(Z)

    def direction(self, target: float, guess: None) -> tuple[Array, Array]:
        """Return the Newton step (Δd, ΔX) towards XZ = `target` · I; ArithmeticError if the system is singular."""
        step, failed = lapack.dposv(self.inverse * self.X, target * self.inverse.diagonal() - 1)[1:]
        if failed:
            raise ArithmeticError("the linearised conditions are singular")
        change = target * self.inverse - self.X - (self.inverse * step) @ self.X
        return step, (change + change.T) / 2

    def ahead(self, guess: None) -> float:
        raise NotImplementedError("this problem predicts no direction; call descend_from with predicts=False")

    def moved(self, direction: tuple[Array, Array]) -> tuple[Array, Array]:
        """Return (d, X) after steps along the direction that keep Z and X positive definite."""
        step, change = direction
        return self.d + _step_length(self.Z, np.diag(step)) * step, self.X + _step_length(self.X, change) * change


def _inverse(Z: Array) -> Array:
    L, failed = lapack.dpotrf(Z, lower=True)
    if failed:
        raise ArithmeticError("Z is no longer positive definite")
    lower = lapack.dpotri(L, lower=True)[0]
    inverse = lower + lower.T
    inverse[np.diag_indices_from(inverse)] /= 2
    return inverse


def _step_length(M: Array, change: Array) -> float:
    """Return a step t with M + t · change ≻ 0: 1 if possible, else 0.95 · 0.8ⁱ for the least i; 0 if 0.8ⁱ < 1e-6."""
    step = 1.0
    while lapack.dpotrf(M + step * change)[1]:
        step *= 0.8
        if step < 1e-6:
            return 0.0
    return step if step == 1 else TO_BOUNDARY * step


class SignBound:
    """Upper bounds of ‖f_0 + Σ_i σ_i f_i‖ over σ ∈ [−1, 1]^m for F (m, r) and many f_0, including rounding errors.

    The bound is √(d_0 + d_1 + … + d_m) for multipliers d (m,) and the rows f_i of F. For Z = Diag(d) − FFᵀ ≻ 0, the
    least d_0 is ‖f_0‖² + qᵀZ⁻¹q with q = Ff_0. With v ≈ Z⁻¹q and e = q − Zv, it is at most
    ‖f_0‖² + vᵀ(q + e) + ‖e‖²/ζ for any lower bound ζ of the eigenvalues of Z. If Z is not positive definite, d is
    increased until it is.
    """

    def __init__(self, F: Array, d: Array) -> None:
        self.F, m, r = F, len(F), F.shape[1]
        self.Q, self.error = F @ F.T, share(r + 8) * float(length(F))
        # Lower bound of the eigenvalues of Z: more than the rounding of Q and of its Cholesky factor.
        self.floor = (SHIFT + 8 * m * share(m + r)) * float(d.mean()) + TINY
        self.d = d.copy()
        while True:
            self.d += 2 * self.floor
            Z = np.diag(self.d) - self.Q
            if not lapack.dpotrf(Z - self.floor * np.eye(m))[1]:
                break
            self.floor *= 2
        self.Z, self.L = Z, lapack.dpotrf(Z, lower=True)[0]

    def __call__(self, f: Array) -> Array:
        """Return the bounds (N,) for the rows f_0 of f (N, r)."""
        q, sizes = f @ self.F.T, length(f, axis=1)
        v = cho_solve((self.L, True), q.T).T
        e = q - v @ self.Z
        terms = share(len(self.d) + self.F.shape[1] + 16)
        v_sizes = length(v, axis=1)
        e_sizes = length(e, axis=1) + terms * length(np.abs(v) @ np.abs(self.Z), axis=1)
        e_sizes += self.error * (sizes + float(length(self.F)) * v_sizes)
        forms = (v * (q + e)).sum(axis=1) + 2 * self.error * sizes * v_sizes + e_sizes**2 / (self.floor / 2)
        return np.asarray(np.sqrt(np.maximum(self.d.sum() + sizes**2 + forms, 0.0)) * (1 + 4 * terms))
