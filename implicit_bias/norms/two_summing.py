"""The 2-summing norm of a matrix and its dual: small concave programs, solved by interior-point methods.

For W (H, D) with rows ζ_h, and for V (H, D),

    ρ(W)² = min { Σ_h s_h : WWᵀ ⪯ diag(s) } = max { ⟨Q, WWᵀ⟩ : Q ⪰ 0, Q_hh = 1 },
    ρ*(V) = max { ‖diag(√p) V‖_* : p ≥ 0, Σ_h p_h = 1 } = min { √tr(Q⁻¹VVᵀ) : Q ≻ 0, Q_hh = 1 }.

The first line is the relaxation of Max-Cut and its dual. Any s > 0 and any p > 0 give upper bounds of the norms.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg

from implicit_bias._utils.blocks import Cholesky
from implicit_bias._utils.checks import Array
from implicit_bias._utils.floats import length, share, without_exponent
from implicit_bias.norms.nuclear import singular_bounds

#: Length of a row, as a share of the largest entry, up to which it counts as zero: its square would underflow.
NEGLIGIBLE = 1e-140
#: Singular value, relative to the largest one, up to which it counts as zero.
SMALLEST = 1e-17
#: Relative gap at which the interior-point methods end.
TOL = 1e-14
#: Largest number of their iterations, of which they need 10 to 30.
ITERATIONS = 100
#: Least start of a row's variable, relative to the largest square of a length: short rows start too near the boundary.
FLOOR = 1e-4
#: Share of the way to the boundary that a step takes.
TO_BOUNDARY = 0.95
#: Step length below which there is no progress.
SHORTEST_STEP = 1e-6
#: Factor of the mean product of a variable and its slack from one iteration to the next, after long and short steps.
CENTRING = (0.05, 0.5)


def balancing_squares(W: Array) -> Array:
    """Return the s (H,) with the least Σ_h s_h = ρ(W)² for which WWᵀ ⪯ diag(s), up to rounding; 0 for rows of zeros.

    The steps are those of Helmberg, Rendl, Vanderbei & Wolkowicz (1996) for the primal and the dual program.

    >>> balancing_squares(np.array([[1.0, 0.0], [1.0, 0.0]])).round(6)
    array([2., 2.])
    """
    W, by = without_exponent(W)
    used, squares = length(W, axis=1) > NEGLIGIBLE, np.zeros(len(W))
    if not used.any():
        return squares
    W = W[used]
    C, Q = W @ W.T, np.eye(len(W))
    s = 1.1 * np.abs(C).sum(axis=1) + FLOOR * C.diagonal().max()
    best, mu = s, (s.sum() - np.trace(C)) / (2 * len(C))
    for _ in range(ITERATIONS):
        try:
            S = np.diag(s) - C
            inverse = np.linalg.inv(S)
            ds = Cholesky(inverse * Q).solve(mu * np.diag(inverse) - 1)
            dQ = mu * inverse - Q - inverse @ (ds[:, None] * Q)
            dQ = (dQ + dQ.T) / 2
            steps = _step_to_boundary(Q, dQ), _step_to_boundary(S, np.diag(ds))
        except np.linalg.LinAlgError:
            break
        Q, s = Q + steps[0] * dQ, s + steps[1] * ds
        # In exact arithmetic the diagonal is 1.
        Q /= np.sqrt(np.outer(np.diag(Q), np.diag(Q)))
        best, gap = min(best, s, key=np.sum), s.sum() - np.sum(C * Q)
        if max(steps) < SHORTEST_STEP or not gap > TOL * s.sum():
            break
        mu = CENTRING[int(min(steps) < 0.7)] * gap / len(C)
    squares[used] = np.ldexp(best, 2 * by)
    return squares


def _step_to_boundary(A: Array, change: Array) -> float:
    """Return the step t ≤ 1, TO_BOUNDARY of the longest one, so that A + t `change` stays positive definite."""
    smallest = scipy.linalg.eigh(change, A, eigvals_only=True, subset_by_index=[0, 0])[0]
    return 1.0 if smallest >= -TO_BOUNDARY else -TO_BOUNDARY / smallest


def balancing_shares(V: Array) -> Array:
    """Return the p (H,) that maximises ‖diag(√p) V‖_* over p ≥ 0, Σ_h p_h = 1; p_h = 0 for rows of zeros.

    Newton's method for the optimality conditions q_h + z_h = ν, p_h z_h = μ → 0, Σ_h p_h = 1, where q_h/2 is the
    derivative of the nuclear norm by p_h.

    >>> balancing_shares(np.array([[3.0, 0.0], [0.0, 4.0]])).round(6)
    array([0.36, 0.64])
    """
    V = without_exponent(V)[0]
    used, shares = length(V, axis=1) > NEGLIGIBLE, np.zeros(len(V))
    if not used.any():
        return shares
    # Only inner products of the rows matter.
    V = np.asarray(np.linalg.qr(V[used].T, mode="r")).T
    p = np.square(length(V, axis=1))
    p += FLOOR * p.max()
    p /= p.sum()
    z = None
    for _ in range(ITERATIONS):
        U, values = np.linalg.svd(np.sqrt(p)[:, None] * V, full_matrices=False)[:2]
        q = (U**2 @ values) / p
        if q.max() <= values.sum() * (1 + TOL):
            break
        z = q.max() * 1.1 - q if z is None else z
        # The Hessian of the nuclear norm, times −2, is TTᵀ.
        sums = np.add.outer(values, values)
        mixed = np.sqrt(np.outer(values, values) / np.where(sums > 0, sums, 1.0))
        T = (U[:, :, None] * U[:, None] * mixed).reshape(len(p), -1) / p[:, None]
        target = CENTRING[0] * (float(p @ z) / len(p))
        try:
            one, two = Cholesky(np.diag(z / p) + T @ T.T).solve(np.column_stack([np.ones(len(p)), q + target / p])).T
        except np.linalg.LinAlgError:
            break
        dp = two - one * (two.sum() / one.sum())
        dz = target / p - z - z / p * dp
        step = min(1.0, *(-TO_BOUNDARY / min(ratio.min(), -TO_BOUNDARY) for ratio in (dp / p, dz / z)))
        if step < SHORTEST_STEP:
            break
        p, z = p + step * dp, z + step * dz
        p /= p.sum()
    shares[used] = p
    return shares


def value_bound(W: Array) -> float:
    """Return an upper bound of ρ(W), close to it, for W with largest entry about 1; rounding errors are included.

    For any s > 0, ρ(W) ≤ √Σ_h s_h · ‖diag(s)^−½ W‖.

    >>> 5.0 < value_bound(np.array([[3.0, 4.0]])) < 5.0 + 1e-12
    True
    """
    s = np.maximum(balancing_squares(W), NEGLIGIBLE**2)
    largest = float(singular_bounds((W / np.sqrt(s)[:, None])[None])[0][0])
    return float(np.sqrt(s.sum())) * largest * (1 + share(6 * len(s) + 8))


def dual_bound(V: Array) -> float:
    """Return an upper bound of ρ*(V), close to it, for V with largest entry about 1; rounding errors are included.

    For any R and Z, ρ*(V) ≤ max_h ‖Re_h‖ · ‖Z‖_F + ‖V − RᵀZ‖_F, because ‖RW‖_F² = ⟨RᵀR, WWᵀ⟩ ≤ max_h ‖Re_h‖² ρ(W)².
    With the singular value decomposition diag(√p) V = U diag(σ) Tᵀ, they are R = diag(1/√σ) (VT)ᵀ and
    Z = diag(√σ) Tᵀ. At the optimal p, no ‖Re_h‖ exceeds √Σσ. Any excess is moved to the last term.

    >>> 5.0 < dual_bound(np.array([[3.0, 0.0], [0.0, 4.0]])) < 5.0 + 1e-12
    True
    """
    p = balancing_shares(V)
    used, roots = p > 0, np.sqrt(p[p > 0])[:, None]
    rest = float(length(V[~used]))
    if used.any():
        values, T = np.linalg.svd(roots * V[used], full_matrices=False)[1:]
        values, T = values[values > SMALLEST * values[0]], T[values > SMALLEST * values[0]]
        R, Z = V[used] @ T.T / np.sqrt(values), np.sqrt(values)[:, None] * T
        sizes, limit = length(R, axis=1), float(np.sqrt(values.sum()))
        R *= np.minimum(1.0, limit / np.where(sizes > 0, sizes, 1.0))[:, None]
        long, size = float(length(R, axis=1).max()), float(length(Z))
        lost = share(len(values) + 4) * float(np.sqrt(len(R)))
        rest = float(np.hypot(rest, length(V[used] - R @ Z))) + (1 + lost) * long * size
    return rest * (1 + share(V.size + 2 * len(V) + 8))


def rescaled(bound: Callable[[Array], float], M: Array) -> float:
    """Return `bound` of M of any size: that of M divided by a power of two near its largest entry, times this power.

    `bound` is homogeneous, but over- or underflows unless the largest entry is about 1. The result is 0 for M = 0.

    >>> round(rescaled(value_bound, np.array([[3e200, 4e200]])) / 1e200, 9)
    5.0
    """
    M, by = without_exponent(M)
    return float(np.ldexp(bound(M), by)) if M.any() else 0.0
