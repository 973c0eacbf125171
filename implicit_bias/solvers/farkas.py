"""Proofs that data are not separable: λ ≥ 0, 1ᵀλ = 1, Φᵀ(λ∘y) = 0."""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.optimize

from implicit_bias.checks import Array, length
from implicit_bias.problems import MarginProblem
from implicit_bias.solvers.certificate import FARKAS_TOLERANCE

#: λ below this share of the largest does not count in a proof.
IDLE = 1e-9
#: Entries of Φ up to which a proof is searched for from scratch, by dense linear algebra.
SEARCH_UP_TO = 50_000_000


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
    """λ moved into the null space of its support's Gram matrix K by inverse iteration, λ ← (K + εI)⁻¹λ.

    Samples whose λ turns negative leave the support. None if nothing is left.
    """
    scale = problem.features.row_norms()
    lam = lam * scale
    for _ in range(5):
        support = np.flatnonzero(lam > IDLE * lam.max())
        rows = problem.features.select(support)
        signs = problem.y[support] / scale[support]
        K = rows.gram() * signs[:, None] * signs
        K[np.diag_indices_from(K)] += 10 * np.finfo(float).eps * len(K)
        try:
            factor = scipy.linalg.cho_factor(K, overwrite_a=True, check_finite=False)
        except scipy.linalg.LinAlgError:
            return None
        part = lam[support]
        for _ in range(4):
            part = scipy.linalg.cho_solve(factor, part / part.sum(), check_finite=False)
        lam = np.zeros_like(lam)
        lam[support] = np.maximum(part, 0.0) * np.sign(part.sum())
        if not lam.max() > 0:
            return None
        if (part > 0).all():
            break
    return lam / lam.sum() / scale


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
