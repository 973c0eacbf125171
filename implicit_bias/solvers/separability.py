"""Search for proofs of infeasibility: λ ≥ 0 and μ with Φᵀ(λ∘y) = Eᵀμ and Σ m_iλ_i > hᵀμ.

μ ≥ 0 are multipliers of linear constraints E vec(W) ≤ h, and λ = 0 for a soft margin.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from implicit_bias._utils.blocks import Cholesky
from implicit_bias._utils.checks import Array
from implicit_bias._utils.floats import TINY, length
from implicit_bias._utils.limits import Deadline, free_memory
from implicit_bias.features import Features, GatedFeatures
from implicit_bias.margin.problem import MarginProblem, balanced
from implicit_bias.margin.solution import Certificate

#: Largest residual of a candidate that counts as a proof; the certificate verifies it.
PROOF_RESIDUAL = 1e-13
#: Relative size, compared with the largest λ, below which a λ is left out of a proof.
NEGLIGIBLE = 1e-9
#: Largest relative distance of the projections of equal rows, whose sums may be rounded in different orders.
PROJECTION_TOL = 1e-9
#: Number of entries of Φ up to which dense linear algebra searches for a proof from scratch.
MAX_SEARCH_ENTRIES = 5_000_000
#: Number of independent samples that is too large for a proof in rational arithmetic, which takes about 70.
TOO_MANY_INDEPENDENT = 100
#: Relative sizes that define the supports tried in turn: all λ above this share of the largest.
SUPPORT_LEVELS = (1e-2, 1e-4, 1e-6, 1e-9)
#: Seconds that non-negative least squares take for n rows of rank r, per nr²: they cannot be ended early.
LEAST_SQUARES_SECONDS = 2e-9
#: Number of Gram matrices of a support that are in memory at once.
GRAM_COPIES = 3


def presolve_certificate(problem: MarginProblem) -> Array | None:
    """Return λ (n,) that proves a hard margin infeasible and needs no solver; None if there is no such λ.

    λ is 1 on its support: one sample with φ(x_i) = 0, whose margin is 0 for every W (with a free intercept, one such
    sample of each class), or two samples with equal inputs and gates and opposite labels.
    """
    if not problem.hard:
        return None
    closed, y = problem.features.closed(), problem.y
    classes = [closed & (y == sign) for sign in (1, -1)] if problem.intercept else [closed]
    if all(members.any() for members in classes):
        rows: Any = [int(np.argmax(members)) for members in classes]
    else:
        rows = _opposite_copies(problem)
    if rows is None:
        return None
    lam = np.zeros(len(closed))
    lam[rows] = 1.0
    return lam


def _opposite_copies(problem: MarginProblem) -> np.ndarray | None:
    """Return the indices (2,) of samples with equal inputs and gates and opposite labels, or None."""
    features, y = problem.features, problem.y
    if not isinstance(features, GatedFeatures):
        return None
    # A projection sorts the samples, so that equal ones are neighbours.
    with np.errstate(over="ignore", invalid="ignore"):
        place = features.X @ np.cos(np.arange(features.d)) * (1 + features.gate_values @ np.cos(np.arange(features.k)))
        order = np.argsort(place)
        first, second = order[:-1], order[1:]
        near = place[second] - place[first] <= PROJECTION_TOL * features.row_norms()[first]
    for i, j in np.stack([first, second], 1)[near & (y[first] != y[second])]:
        if (features.X[i] == features.X[j]).all() and (features.gate_values[i] == features.gate_values[j]).all():
            return np.array([i, j])
    return None


def farkas_candidate(problem: MarginProblem, guess: Array, deadline: Deadline) -> tuple[Array, Array | None] | None:
    """Return λ ≥ 0 (n,) and μ (m,) with a small ‖Φᵀ(λ∘y) − Eᵀμ‖, for `certify` to verify; None if none are found.

    `guess` (n,) is the dual of a solver. First it is refined on its own support, with μ = 0, returned as None. If that
    gives no proof and Φ is small enough, non-negative least squares search for one. No sample may have φ(x_i) = 0.
    Constraints that contradict each other have a proof with λ = 0; a soft margin has no other.
    """
    features, constraints, units = problem.features, problem.constraints, problem.features.units()
    if constraints is not None:
        E = constraints.E @ sp.diags_array(np.tile(1 / units, features.k))
        constraints = replace(constraints, E=sp.csr_array(E))
    # Every input is scaled to size 1, as in the certificate; the same λ and μ are proofs.
    problem = problem.replace(features=features.in_units(units), constraints=constraints)
    columns = problem.features.k * problem.features.d
    if problem.affine and len(problem.constraints.equal) * columns <= MAX_SEARCH_ENTRIES:
        candidate = _by_least_squares(problem, alone=True)
        if candidate is not None or not problem.hard:
            return candidate
    given = np.maximum(guess, 0.0)
    sizes = given * problem.features.row_norms()
    kept = np.where(sizes > NEGLIGIBLE * sizes.max(), given, 0.0)
    lam: Array | None = kept
    if _residual(problem, kept) > PROOF_RESIDUAL:
        lam = _refined(problem, given, deadline) if given.any() else None
    if lam is not None and _residual(problem, lam) <= PROOF_RESIDUAL:
        return _sparse(problem, lam, deadline), None
    rows = problem.features.n + (0 if problem.constraints is None else len(problem.constraints.equal))
    if rows * problem.features.k * min(rows, problem.features.d) > MAX_SEARCH_ENTRIES:
        return None if lam is None else (lam, None)
    if deadline.passed(LEAST_SQUARES_SECONDS * rows * min(rows, columns) ** 2):
        return None
    return _by_least_squares(problem)


def is_final(proof: Certificate) -> bool:
    """True if no solver can improve the proof: Φᵀ(λ∘y) ≈ 0 with too many samples for rational arithmetic."""
    return proof.farkas_residual <= PROOF_RESIDUAL and int((proof.dual > 0).sum()) > TOO_MANY_INDEPENDENT


def _residual(problem: MarginProblem, lam: Array) -> float:
    """Return ‖Φᵀ(λ∘y)‖ / Σ_i λ_i ‖φ(x_i)‖; with a free intercept, λ is first scaled to Σ y_iλ_i = 0."""
    lam = balanced(lam, problem.y) if problem.intercept else lam
    reach = float(lam @ problem.features.row_norms())
    return float(length(problem.adjoint(lam))) / reach if 0 < reach < np.inf else np.inf


def _constant(problem: MarginProblem) -> float:
    """Return the constant feature of a free intercept, similar in size to the other features; 0 without one."""
    return float(np.mean(problem.features.row_norms())) if problem.intercept else 0.0


def _refined(problem: MarginProblem, lam: Array, deadline: Deadline) -> Array | None:
    """Return λ∘v (n,) with v ≥ 0 near 1 and the smallest ‖Φᵀ(λ∘v∘y)‖ found, often nearly 0; None if no v is found.

    Small supports come first, because a positive λ_i that should be zero makes a proof impossible.
    """
    constant = _constant(problem)
    norms = np.hypot(problem.features.row_norms(), constant)
    sizes = lam * norms / (lam @ norms)
    best, least, tried = None, np.inf, 0
    for share in SUPPORT_LEVELS:
        support = np.flatnonzero(sizes > share * sizes.max())
        for _ in range(3):
            if len(support) < 2 or len(support) == tried or deadline.passed():
                break
            tried, part = len(support), sizes[support] / norms[support]
            v = _in_null_space(problem.features.select(support), problem.y[support] * part, constant)
            if v is None or not v.max() > 0:
                break
            moved = np.zeros_like(lam)
            moved[support] = part * np.maximum(v, 0.0)
            residual = _residual(problem, moved)
            if residual < least:
                best, least = moved, residual
            if least <= PROOF_RESIDUAL:
                return best
            support = support[v > 0]
    return best


def _sparse(problem: MarginProblem, lam: Array, deadline: Deadline) -> Array:
    """Return a proof with at most rank + 1 samples, because rational arithmetic is feasible only for few.

    A basic solution of Φᵀ(λ∘y) = 0, 1ᵀλ = 1, λ ≥ 0 has no more; the simplex method finds it. `lam` itself is returned
    if it fails, for linear constraints, and if the support is small, Φ on it is large, or the rank is.
    """
    support, constant = np.flatnonzero(lam > 0), _constant(problem)
    rows = problem.features.select(support)
    if problem.constraints is not None or rows.n * rows.k * rows.d > MAX_SEARCH_ENTRIES:
        return lam
    A = np.insert(rows.dense(), 0, constant, axis=1) * problem.y[support, None]
    sizes = length(A, axis=1)
    A = A[:, A.any(axis=0)] / sizes[:, None]
    if rows.n <= A.shape[1] + 1 or np.linalg.matrix_rank(A[:TOO_MANY_INDEPENDENT]) == TOO_MANY_INDEPENDENT:
        return lam
    from scipy.optimize import linprog

    left, right = np.vstack([A.T, np.ones(rows.n)]), np.append(np.zeros(A.shape[1]), 1.0)
    limits = {"time_limit": deadline.left()}
    found = linprog(np.zeros(rows.n), A_eq=left, b_eq=right, method="highs-ds", options=limits)
    if found.status != 0:
        return lam
    basic = np.zeros_like(lam)
    basic[support] = np.maximum(found.x, 0.0) / sizes
    refined = _refined(problem, basic, deadline)
    best = min((basic, refined), key=lambda one: np.inf if one is None else _residual(problem, one))
    return lam if best is None or _residual(problem, best) > PROOF_RESIDUAL else best


def _in_null_space(rows: Features, factors: Array, constant: float) -> Array | None:
    """Return a vector v (s,) near 1 with Aᵀv ≈ 0; A is the features of s `rows` and a constant, times `factors` (s,).

    For few features, 1 is projected onto the null space. Otherwise inverse iteration, v ← (AAᵀ + εI)⁻¹v, finds the
    vector; the result is None if AAᵀ does not fit into memory.
    """
    v = np.ones(rows.n)
    if 4 * rows.k * rows.d <= rows.n:
        A = np.insert(rows.dense(), 0, constant, axis=1) * factors[:, None]
        A /= length(A, axis=0) + TINY
        # Pivoting is slow in LAPACK, so only the small factor is pivoted.
        Q, R = scipy.linalg.qr(A[:, A.any(axis=0)], mode="economic", overwrite_a=True, check_finite=False)
        P, R, _ = scipy.linalg.qr(R, pivoting=True, check_finite=False)
        size = np.abs(np.diag(R))
        P = P[:, size > 1e-14 * size[:1].sum()]
        for _ in range(2):
            v = v - Q @ (P @ (P.T @ (Q.T @ v)))
        return v
    # Features are scaled to mean square length 1, because squares of large features overflow.
    scale = float(length(rows.row_norms())) / float(np.sqrt(rows.n))
    if not 0 < scale < np.inf or GRAM_COPIES * 8.0 * rows.n**2 > free_memory():
        return None
    K = (rows.scaled(1 / scale).gram() + np.square(constant / scale)) * np.outer(scale * factors, scale * factors)
    K[np.diag_indices_from(K)] += 10 * np.finfo(float).eps * np.trace(K)
    try:
        factor = Cholesky(K)
    except np.linalg.LinAlgError:
        return None
    for _ in range(4):
        v = factor.solve(v)
        v /= length(v)
    return v if v.sum() > 0 else -v


def _rows_and_gains(problem: MarginProblem, alone: bool) -> tuple[Array, Array, Array, Array]:
    """Return the rows y_iφ_i and −E, their parts of the dual objective, and what they were divided by; see below."""
    constraints, constant = problem.constraints, _constant(problem)
    features = problem.features.reduced()[0] if constraints is None else problem.features
    n, scale = features.n, np.hypot(features.row_norms(), constant)
    rows, gains = np.insert(features.dense(), 0, constant, axis=1) * (problem.y / scale)[:, None], np.ones(n)
    if alone:
        n, scale, rows, gains = 0, scale[:0], rows[:0], gains[:0]
    sizes = np.zeros(0)
    if constraints is not None:
        # One row −E for each μ ≥ 0, and a second row for the negative part of the μ of an equality.
        E, equal = constraints.E.toarray(), constraints.equal
        sizes = np.where(E.any(axis=1), length(E, axis=1), 1.0)
        E, h = E / sizes[:, None], constraints.h / sizes
        rows = np.vstack([rows, np.insert(np.vstack([-E, E[equal]]), 0, 0.0, axis=1)])
        if problem.affine:
            gains = np.broadcast_to(problem.required_margin, features.n)[:n] / scale
        gains = np.concatenate([gains, -h, h[equal]])
        gains = gains / (np.abs(gains).max() or 1.0)
    return rows, gains, scale, sizes


def _by_least_squares(problem: MarginProblem, alone: bool = False) -> tuple[Array, Array | None] | None:
    """Return λ ≥ 0 (n,) and μ (None without constraints) that non-negative least squares find for Φᵀ(λ∘y) − Eᵀμ ≈ 0.

    The method also aims at a multiple of the dual objective Σ m_iλ_i − hᵀμ, or without h of Σ λ_i. With `alone`,
    λ = 0. The result is None if all rows are independent or not finite, or if the method fails.
    """
    rows, gains, scale, sizes = _rows_and_gains(problem, alone)
    constraints, n = problem.constraints, len(scale)
    if not (np.isfinite(rows).all() and np.isfinite(gains).all()):
        return None
    R = scipy.linalg.qr(rows.T, mode="r")[0][: len(rows)]
    if len(R) == len(rows) and np.linalg.cond(R) < 1e10:
        return None
    A = np.vstack([R, gains])
    target = np.zeros(len(A))
    target[-1] = 1.0
    from scipy.optimize import nnls

    try:
        weights = nnls(A, target, maxiter=30 * len(rows))[0]
    except RuntimeError:
        return None
    support = np.flatnonzero(weights > NEGLIGIBLE * weights.max())
    part = R[:, support]
    moved = np.zeros_like(weights)
    moved[support] = weights[support] - scipy.linalg.lstsq(part, part @ weights[support])[0]
    better = (moved >= 0).all() and np.linalg.norm(R @ moved) < np.linalg.norm(R @ weights)
    weights = moved if better and gains @ moved > 0 else weights
    if alone and not np.linalg.norm(R @ weights) <= PROOF_RESIDUAL * weights.sum():
        return None
    lam = np.zeros(problem.features.n)
    lam[:n] = weights[:n] / scale
    if constraints is None:
        return lam, None
    m = len(sizes)
    mu = weights[n : n + m]
    mu[constraints.equal] -= weights[n + m :]
    return lam, mu / sizes
