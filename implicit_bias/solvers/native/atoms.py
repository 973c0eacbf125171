"""Column generation: a nuclear norm as a group lasso over atoms, unit vectors that are added where they pull most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from implicit_bias._utils.checks import Array
from implicit_bias._utils.scaling import length
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solution import Solution
from implicit_bias.norms import GroupForm, NuclearNorm
from implicit_bias.solvers.base import Answer
from implicit_bias.solvers.native.group_set import Found, Solve, proved
from implicit_bias.solvers.native.interior_point import Bounds

#: Rounds after which what was found has to do.
ROUNDS = 200
#: The relative gap of the first round, which only looks for a λ, and the share of the gap that is left for the next.
COARSE, FINER = 1e-2, 0.3
#: An atom is dropped that pulls less than this share of the most that it may.
IDLE = 0.95
#: Singular values of the weights that are this small, against the largest, have no atoms.
NEGLIGIBLE = 1e-7
#: Those of earlier weights that are this small are none of the first.
VISIBLE = 1e-3


@dataclass(frozen=True)
class Atoms:
    """Unit vectors (A, R) of the rows of groups (A,)."""

    norm: NuclearNorm
    groups: np.ndarray
    directions: Array

    @property
    def form(self) -> GroupForm:
        """Their group lasso."""
        return self.norm.atoms(self.groups, self.directions)

    def pulls(self, matrices: Array) -> Array:
        """‖u_aᵀV_h‖ for V (H, R, ·), shape (A,)."""
        return np.asarray(length(np.einsum("ar,arc->ac", self.directions, matrices[self.groups]), axis=1))

    def changed(self, kept: np.ndarray, groups: np.ndarray, directions: Array) -> Atoms:
        """Those kept, and new ones."""
        return Atoms(self.norm, np.append(self.groups[kept], groups), np.vstack([self.directions[kept], directions]))

    def of_weights(self, W: Array, share: float) -> Atoms:
        """With the left singular vectors of weights, whose singular values are above this share of the largest."""
        U, s, _ = np.linalg.svd(self.norm.matrices(W), full_matrices=False)
        own = np.argwhere(s > share * s.max())
        return self.changed(np.ones(len(self.groups), dtype=bool), own[:, 0], U[own[:, 0], :, own[:, 1]])


def _weights(start: Solution, problem: MarginProblem) -> Array | None:
    """The weights of an earlier answer, if they could be those of this problem, and for a hard margin separate."""
    W = np.asarray(start.weights)
    fits = W.shape == problem.features.shape[1:] and bool(np.isfinite(W).all()) and bool(W.any())
    return W if fits and (not problem.hard or problem.margins(W, start.intercept).min() > 0) else None


def solve_by_atoms(problem: MarginProblem, norm: Any, tol: float, start: Solution | None, solve: Solve) -> Answer:
    """Solve with few atoms, add the singular vectors of every V_h = (Φᵀ(λ∘y))_h that pull more than they may.

    Weights of some atoms are weights: their objective is an upper bound, and λ is judged by all singular values. The
    first λ is that of the norm Σ_h ‖ζ_h‖_F, whose weights, if there are none, prove that nothing separates; or of
    earlier weights, whose singular vectors are the first atoms.
    """
    atoms = Atoms(norm, np.zeros(0, dtype=int), np.zeros((0, norm.shape[1])))
    seeds = None if start is None else _weights(start, problem)
    if start is None or seeds is None:
        whole = GroupForm(sp.eye_array(norm.gates, format="csr"), norm.groups)
        found = solve(whole, None if start is None else np.asarray(start.dual), COARSE, 0, Bounds())
        if found.ended or found.bounds.upper == np.inf:
            return found.answer
    else:
        found = Found(Answer(seeds, np.asarray(start.dual), 0), Bounds())
        atoms = atoms.of_weights(seeds, VISIBLE)
    best, bounds = found.answer, Bounds()
    iterations, aim = best.iterations, 1.0 if seeds is None else COARSE
    for step in range(ROUNDS):
        lam = found.answer.dual
        V = norm.matrices(problem.adjoint(lam))
        left, sizes, _ = np.linalg.svd(V, full_matrices=False)
        lower, reach = proved(problem, lam, float(sizes.max()))
        ours = step > 0 and found.bounds.upper < bounds.upper
        best = Answer(
            found.answer.weights if ours or not step else best.weights,
            lam if lower > bounds.lower else best.dual,
            iterations,
            found.answer.stopped,
            found.answer.intercept if ours or not step else best.intercept,
            reason=found.answer.reason,
        )
        bounds = Bounds(max(bounds.lower, lower), found.bounds.upper if ours else bounds.upper)
        pulls = atoms.pulls(V)
        # First come those that pull at least half as much as any does.
        allowed = max(float(pulls.max()), reach) if len(pulls) else float(sizes.max()) / 2
        new = np.argwhere(sizes > allowed * (1 + tol / 4))
        if found.ended or bounds.gap <= tol or (len(new) == 0 and aim <= tol / 2):
            return best
        kept = (pulls >= IDLE * allowed) | (found.bounds.upper == np.inf)
        atoms = atoms.changed(kept, new[:, 0], left[new[:, 0], :, new[:, 1]])
        if step and found.bounds.upper < np.inf:
            # The weights' own singular vectors, of which those of V are halfway to the next.
            atoms = atoms.of_weights(found.answer.weights, NEGLIGIBLE)
        aim = max(tol / 2, 0.0 if len(new) == 0 else FINER * min(bounds.gap, aim))
        found = solve(atoms.form, lam, aim, iterations, bounds)
        iterations += found.answer.iterations
    return best
