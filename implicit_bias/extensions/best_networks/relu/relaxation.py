"""Upper bounds of ‖f_0 + Σ_i σ_i f_i‖ over σ ∈ [−1, 1]^m from multipliers of a semidefinite relaxation.

With z = (1, σ) and Q = FFᵀ for the rows f_0, f_1 … f_m of F,

    ‖f_0 + Σ_i σ_i f_i‖² = zᵀQz ≤ Σ_i d_i

for every d with Diag(d) − Q ⪰ 0, which implies d ≥ 0. `solve_max_cut_relaxation` minimises Σ d; its dual maximises
⟨Q, X⟩ over X ⪰ 0 with X_ii = 1, in which the matrices zzᵀ with σ_i = ±1 are feasible.
"""

import numpy as np
from scipy.linalg import cho_solve, lapack

from implicit_bias._utils.checks import Array
from implicit_bias._utils.floats import TINY, length, share

#: Shift of d, relative to its mean, that keeps Diag(d) − Q well-conditioned.
SHIFT = 1e-9


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
