"""Solvers of the comparison: each computes weights and a dual of a margin problem, which `certify` evaluates."""

import contextlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import cvxpy as cp
import numpy as np
import scipy.linalg
import scipy.sparse as sp

from implicit_bias import Certificate, GatedFeatures, GroupLasso, MarginProblem, certify, solve
from implicit_bias._utils.checks import Array, InputError
from implicit_bias.solvers import Options
from implicit_bias.solvers.cvxpy_solvers import CVXPY_SOLVERS


@dataclass(frozen=True)
class Solved:
    """One of the package's own solvers, as users call it."""

    solver: str

    def __call__(self, problem: MarginProblem, tol: float) -> Certificate:
        """The certified solution."""
        return solve(problem, self.solver, tol=tol)


@dataclass(frozen=True)
class ReducedDual:
    """The dual of SVM-GLN in CVXPY: as many unknowns as samples, a cone a group.

        maximise 1ᵀλ   subject to   λ ≥ 0,   ‖A_h λ‖ ≤ 1,   A_hᵀA_h = K_h = (G_hG_hᵀ) ∘ (XXᵀ) ∘ (yyᵀ)

    A_h = Q_hᵀΦ_hᵀ diag(y) is triangular, a block a gate. With u_h the multiplier of cone h the weights are
    ζ_h = Q_h u_h: at the optimum η_h Φ_hᵀ(λ∘y) with η_h = ‖u_h‖, but much more exact than that before it.
    """

    solver: str

    def __call__(self, problem: MarginProblem, tol: float) -> Certificate:
        """The certificate of what CVXPY returns; of zeros if it returns nothing."""
        norm = problem.norm
        if not isinstance(norm, GroupLasso) or not isinstance(problem.features, GatedFeatures) or not problem.hard:
            raise InputError("the reduced dual is written for a group lasso of gated features with a hard margin")
        reduced, V = problem.features.reduced()
        features = reduced.scaled(1 / reduced.scale())
        lam = cp.Variable(features.n, nonneg=True)
        gates, groups = range(features.k), norm.index
        bases, factors = zip(*(factorised(features, problem.y, j) for j in gates), strict=True)
        stacks = [sp.vstack([factors[j] for j in np.flatnonzero(groups == h)]) for h in range(len(norm.labels))]
        cones = [cp.SOC(cp.Constant(c), A @ lam) for c, A in zip(norm.weights, stacks, strict=True)]
        program = cp.Problem(cp.Maximize(cp.sum(lam)), cones)
        with warnings.catch_warnings(), contextlib.suppress(cp.SolverError):
            # CVXPY warns of inaccurate answers; the certificate says so with a number.
            warnings.simplefilter("ignore")
            program.solve(
                solver=self.solver, canon_backend="SCIPY", **CVXPY_SOLVERS[self.solver].translated(Options(tol))
            )
        if lam.value is None or any(cone.dual_value is None for cone in cones):
            return certify(problem, np.zeros((features.k, len(V))), np.zeros(features.n))
        weights = np.zeros((features.k, features.d))
        for h, cone in enumerate(cones):
            own = np.flatnonzero(groups == h)
            parts = np.split(-np.ravel(cone.dual_value[1]), np.cumsum([bases[j].shape[1] for j in own])[:-1])
            for j, part in zip(own, parts, strict=True):
                weights[j] = bases[j] @ part
        return certify(problem, weights @ V.T, lam.value)


def factorised(features: GatedFeatures, y: Array, gate: int) -> tuple[Array, sp.csr_array]:
    """Q (d, p) with orthonormal columns and A (p, n) with QA = Φ_jᵀ diag(y): a triangle of the samples gate j sees."""
    rows = np.flatnonzero(features.gate_values[:, gate])
    signed = features.X[rows] * (y[rows] * features.gate_values[rows, gate])[:, None]
    Q, R = scipy.linalg.qr(signed.T, mode="economic", overwrite_a=True, check_finite=False)
    triangle = sp.coo_array(R)
    position = (triangle.row, rows[triangle.col])
    return Q, sp.csr_array((triangle.data, position), shape=(len(R), features.n))


SOLVERS: dict[str, Callable[[MarginProblem, float], Certificate]] = {
    "NATIVE": Solved("NATIVE"),
    "CLARABEL": Solved("CLARABEL"),
    "ECOS": Solved("ECOS"),
    "SCS": Solved("SCS"),
    "CLARABEL-DUAL": ReducedDual("CLARABEL"),
    "SCS-DUAL": ReducedDual("SCS"),
    "OSQP": Solved("OSQP"),
}
