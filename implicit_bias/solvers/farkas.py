"""Proofs that data are not separable: λ ≥ 0, 1ᵀλ = 1, Φᵀ(λ∘y) = 0."""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.optimize

from implicit_bias.checks import Array, length
from implicit_bias.features import GatedFeatures
from implicit_bias.kernel_features import KernelFeatures
from implicit_bias.problems import MarginProblem
from implicit_bias.solvers.certificate import FARKAS_TOLERANCE

#: λ below this share of the largest does not count in a proof.
IDLE = 1e-9
#: In place of a zero divisor.
TINY = np.finfo(float).tiny
#: Entries of Φ up to which a proof is searched for from scratch, by dense linear algebra.
SEARCH_UP_TO = 5_000_000
#: Supports that are polished in turn: the λ above these shares of the largest.
SUPPORTS = (1e-2, 1e-4, 1e-6, 1e-9)


def closed_sample(problem: MarginProblem) -> Array | None:
    """λ = e_i for a sample with φ(x_i) = 0, whose margin is 0 for every W; None if there is none."""
    closed = np.flatnonzero(problem.features.closed())
    if len(closed) == 0:
        return None
    lam = np.zeros(problem.features.n)
    lam[closed[0]] = 1.0
    return lam


def farkas_candidate(problem: MarginProblem, guess: Array) -> Array | None:
    """A λ ≥ 0 with the smallest ‖Φᵀ(λ∘y)‖ we find; the judge decides whether it proves anything.

    `guess` (n,), a solver's dual, is polished on its own support; if that makes no proof of it and Φ is not too large,
    non-negative least squares search for one. No sample may be closed.
    """
    lam = _polished(problem, np.maximum(guess, 0.0)) if np.any(guess > 0) else None
    if lam is not None and _residual(problem, lam) <= FARKAS_TOLERANCE:
        return lam
    features = problem.features
    if features.n * features.k * min(features.n, features.d) > SEARCH_UP_TO:
        return lam
    return _searched(problem)


def _residual(problem: MarginProblem, lam: Array) -> float:
    return float(length(problem.adjoint(lam)) / (lam @ problem.features.row_norms()))


def _polished(problem: MarginProblem, lam: Array) -> Array | None:
    """λ∘v with v ≥ 0 near 1 such that Φᵀ(λ∘v∘y) = 0; None if there is no such v.

    Each λ_i changes by a small part of itself, so that few turn negative; these leave the support. Small supports come
    first: λ that should be zero spoil a proof.
    """
    norms = problem.features.row_norms()
    sizes = lam * norms / (lam @ norms)
    best, least, tried = None, np.inf, 0
    for share in SUPPORTS:
        support = np.flatnonzero(sizes > share * sizes.max())
        for _ in range(3):
            if len(support) < 2 or len(support) == tried:
                break
            tried, part = len(support), sizes[support] / norms[support]
            v = _in_null_space(problem.features.select(support), problem.y[support] * part)
            if v is None or not v.max() > 0:
                break
            moved = np.zeros_like(lam)
            moved[support] = part * np.maximum(v, 0.0)
            residual = _residual(problem, moved)
            if residual < least:
                best, least = moved, residual
            if least <= FARKAS_TOLERANCE:
                return best
            support = support[v > 0]
    return best


def _in_null_space(rows: GatedFeatures | KernelFeatures, factors: Array) -> Array | None:
    """A vector near 1 in the null space of Aᵀ, A the features of `rows` times `factors`; None if there is none.

    Few features: 1 less its part in the range of A. Else inverse iteration, v ← (AAᵀ + εI)⁻¹v.
    """
    v = np.ones(rows.n)
    if 4 * rows.k * rows.d <= rows.n:
        A = rows.dense() * factors[:, None]
        Q, R, _ = scipy.linalg.qr(A / (length(A, axis=0) + TINY), mode="economic", pivoting=True)
        size = np.abs(np.diag(R))
        Q = Q[:, size > 1e-14 * size[0]]
        for _ in range(2):
            v = v - Q @ (Q.T @ v)
        return v
    K = rows.gram() * np.outer(factors, factors)
    K[np.diag_indices_from(K)] += 10 * np.finfo(float).eps * np.trace(K)
    try:
        factor = scipy.linalg.cho_factor(K, overwrite_a=True, check_finite=False)
    except scipy.linalg.LinAlgError:
        return None
    for _ in range(4):
        v = scipy.linalg.cho_solve(factor, v, check_finite=False)
        v /= length(v)
    return v if v.sum() > 0 else -v


def _searched(problem: MarginProblem) -> Array | None:
    """Non-negative least squares on the triangular factor of Φᵀ; None if independent rows separate, or it gives up."""
    features = problem.features
    scale = features.row_norms()
    R = scipy.linalg.qr((features.reduced()[0].dense() * (problem.y / scale)[:, None]).T, mode="r")[0]
    R = R[: features.n]
    if len(R) == features.n and np.linalg.cond(R) < 1e10:
        return None
    A = np.vstack([R, np.ones((1, features.n))])
    target = np.zeros(len(A))
    target[-1] = 1.0
    try:
        lam = scipy.optimize.nnls(A, target, maxiter=30 * features.n)[0]
    except RuntimeError:
        return None
    support = np.flatnonzero(lam > IDLE * lam.max())
    part = R[:, support]
    moved = np.zeros_like(lam)
    moved[support] = lam[support] - scipy.linalg.lstsq(part, part @ lam[support])[0]
    better = (moved >= 0).all() and np.linalg.norm(R @ moved) < np.linalg.norm(R @ lam)
    return (moved if better and moved.any() else lam) / scale
