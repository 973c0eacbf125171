"""The 2-summing norm of a matrix and its dual: small concave programs, solved by interior-point methods.

For W (H, D) with rows ζ_h, and for V (H, D),

    ρ(W)² = min { Σ_h s_h : WWᵀ ⪯ diag(s) } = max { ⟨Q, WWᵀ⟩ : Q ⪰ 0, Q_hh = 1 },
    ρ*(V) = max { ‖diag(√p) V‖_* : p ≥ 0, Σ_h p_h = 1 } = min { √tr(Q⁻¹VVᵀ) : Q ≻ 0, Q_hh = 1 }.

The first line is the relaxation of Max-Cut and its dual. Any s > 0 and any p > 0 give upper bounds of the norms.

References
----------
Helmberg, Rendl, Vanderbei & Wolkowicz (1996), "An interior-point method for semidefinite programming".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import lapack

from implicit_bias._utils.blocks import Cholesky
from implicit_bias._utils.checks import Array
from implicit_bias._utils.floats import TINY, length, share, without_exponent
from implicit_bias.norms.nuclear import singular_bounds

#: Length of a row, as a share of the largest entry, up to which it counts as zero: its square would underflow.
NEGLIGIBLE = 1e-140
#: Singular value, relative to the largest one, up to which it counts as zero.
SMALLEST = 1e-17
#: Relative gap at which the interior-point methods end.
TOL = 1e-14
#: Largest number of their iterations, of which they need 10 to 40.
ITERATIONS = 100
#: Share of the way to the boundary that a step takes.
TO_BOUNDARY = 0.95

# The relaxation.
#: Least start of s, relative to the largest sum of a row of |C|: small rows would start too near the boundary.
FLOOR_OF_SQUARES = 1e-3
#: Factor of the mean product of a variable and its slack at which a step aims.
CENTRING_OF_SQUARES = 0.25
#: Step length below which only rounding stops a step.
SHORTEST_OF_SQUARES = 1e-2

# The shares of the dual norm.
#: Least start of p, relative to the largest square of a length.
FLOOR_OF_SHARES = 1e-4
#: Factor of the mean product of a variable and its slack at which a step aims.
CENTRING_OF_SHARES = 0.05
#: Step length below which there is no progress.
SHORTEST_OF_SHARES = 1e-6


def solve_max_cut_relaxation(C: Array, accuracy: float, late: Callable[[], bool] = bool) -> tuple[Array, Array]:
    """Return nearly optimal s (m,) with diag(s) ⪰ C and Q ⪰ 0 (m, m) with Q_hh = 1, for C ⪰ 0 (m, m).

    Σs is an upper bound of the optimum and ⟨C, Q⟩ a lower one; they differ by at most `accuracy` · Σs unless rounding,
    or `late()` at an iterate, ends the method early. With S = diag(s) − C, the Newton steps for QS = μI and Q_hh = 1
    are (S⁻¹ ∘ Q)Δs = μ diag S⁻¹ − 1 and ΔQ = μS⁻¹ − Q − S⁻¹ diag(Δs) Q, symmetrised.
    """
    size = float(np.abs(C).sum(axis=1).max(initial=0.0)) + TINY
    C = C / size
    s, Q = 1.1 * np.abs(C).sum(axis=1) + FLOOR_OF_SQUARES, np.eye(len(C))
    for _ in range(ITERATIONS):
        S = np.diag(s) - C
        gap = float((S * Q).sum())
        if gap <= accuracy * s.sum() or late():
            break
        L, indefinite = lapack.dpotrf(S, lower=True)
        if indefinite:
            break
        lower, mu = lapack.dpotri(L, lower=True)[0], CENTRING_OF_SQUARES * gap / len(C)
        inverse = lower + lower.T
        inverse[np.diag_indices_from(inverse)] /= 2
        ds, singular = lapack.dposv(inverse * Q, mu * inverse.diagonal() - 1)[1:]
        if singular:
            break
        dQ = mu * inverse - Q - (inverse * ds) @ Q
        dQ = (dQ + dQ.T) / 2
        steps = _step_length(S, np.diag(ds)), _step_length(Q, dQ)
        s, Q = s + steps[0] * ds, Q + steps[1] * dQ
        if min(steps) < SHORTEST_OF_SQUARES:
            break
    return s * size, Q


def _step_length(M: Array, change: Array) -> float:
    """Return a step t with M + t · change ≻ 0: 1 if possible, else .95 · .8ⁱ for the least i; 0 if .8ⁱ < 1e-6."""
    step = 1.0
    while lapack.dpotrf(M + step * change)[1]:
        step *= 0.8
        if step < 1e-6:
            return 0.0
    return step if step == 1 else TO_BOUNDARY * step


def balancing_squares(W: Array) -> Array:
    """Return the s (H,) with the least Σ_h s_h = ρ(W)² for which WWᵀ ⪯ diag(s), up to rounding; 0 for rows of zeros.

    >>> balancing_squares(np.array([[1.0, 0.0], [1.0, 0.0]])).round(6)
    array([2., 2.])
    """
    W, by = without_exponent(W)
    used, squares = length(W, axis=1) > NEGLIGIBLE, np.zeros(len(W))
    if not used.any():
        return squares
    squares[used] = np.ldexp(solve_max_cut_relaxation(W[used] @ W[used].T, TOL)[0], 2 * by)
    return squares


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
    p += FLOOR_OF_SHARES * p.max()
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
        target = CENTRING_OF_SHARES * (float(p @ z) / len(p))
        try:
            one, two = Cholesky(np.diag(z / p) + T @ T.T).solve(np.column_stack([np.ones(len(p)), q + target / p])).T
        except np.linalg.LinAlgError:
            break
        dp = two - one * (two.sum() / one.sum())
        dz = target / p - z - z / p * dp
        step = min(1.0, *(-TO_BOUNDARY / min(ratio.min(), -TO_BOUNDARY) for ratio in (dp / p, dz / z)))
        if step < SHORTEST_OF_SHARES:
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
