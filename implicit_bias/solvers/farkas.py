"""Proofs that data are not separable: λ ≥ 0, 1ᵀλ = 1, Φᵀ(λ∘y) = 0."""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.optimize

from implicit_bias.checks import Array
from implicit_bias.problems import MarginProblem


def closed_sample(problem: MarginProblem) -> Array | None:
    """λ = e_i for a sample with φ(x_i) = 0, whose margin is 0 for every W; None if there is none."""
    closed = np.flatnonzero(problem.features.closed())
    if len(closed) == 0:
        return None
    lam = np.zeros(problem.features.n)
    lam[closed[0]] = 1.0
    return lam


def farkas_candidate(problem: MarginProblem, guess: Array) -> Array | None:
    """A λ ≥ 0 with the smallest ‖Φᵀ(λ∘y)‖; the judge decides whether it proves anything.

    Works on the triangular factor R of Φᵀ: `guess` (n,), a solver's dual, is polished if that makes it a proof, else
    non-negative least squares find a λ. Independent rows need no search: they separate. No sample may be closed.
    """
    features = problem.features
    scale = features.row_norms()
    R = scipy.linalg.qr((features.reduced()[0].dense() * (problem.y / scale)[:, None]).T, mode="r")[0]
    R = R[: features.n]
    if len(R) == features.n and np.linalg.cond(R) < 1e10:
        return None
    lam = np.maximum(guess, 0.0) * scale
    if lam.any():
        lam = _polished(R, lam)
        if np.linalg.norm(R @ lam) <= 1e-13 * lam.sum():
            return lam / scale
    A = np.vstack([R, np.ones((1, features.n))])
    target = np.zeros(len(A))
    target[-1] = 1.0
    try:
        lam = scipy.optimize.nnls(A, target, maxiter=30 * features.n)[0]
    except RuntimeError:
        return None
    return _polished(R, lam) / scale


def _polished(R: Array, lam: Array) -> Array:
    """λ moved onto the null space of R along its own support, where that keeps it non-negative."""
    support = np.flatnonzero(lam > 1e-9 * lam.max())
    part = R[:, support]
    step = scipy.linalg.lstsq(part, part @ lam[support])[0]
    moved = np.zeros_like(lam)
    moved[support] = lam[support] - step
    better = (moved >= 0).all() and np.linalg.norm(R @ moved) < np.linalg.norm(R @ lam)
    return moved if better and moved.any() else lam
