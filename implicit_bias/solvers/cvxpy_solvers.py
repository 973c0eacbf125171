"""CVXPY's solvers as contestants: each returns weights, dual and iterations, and is believed in nothing."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import cvxpy as cp
import numpy as np

from implicit_bias.problems import MarginProblem
from implicit_bias.solvers.answer import Answer


@dataclass(frozen=True)
class CvxpySolver:
    """One of CVXPY's solvers: how it names its options, and whether it is restricted to quadratic programs."""

    name: str
    options: Callable[[float], dict[str, Any]]
    limit_option: str
    quadratic: bool = False

    def unfit(self, problem: MarginProblem) -> str | None:
        """Why this solver cannot take `problem`; None if it can."""
        return problem.not_quadratic() if self.quadratic else None

    def __call__(self, problem: MarginProblem, tol: float, max_iterations: int | None, verbose: bool) -> Answer:
        """Solve `problem` to a relative gap of about `tol`, in inputs of mean square length 1."""
        features, scale = problem.features, problem.features.scale()
        unit = replace(problem, features=features.scaled(1 / scale), C=problem.C * scale)
        program = unit.cvxpy(quadratic=self.quadratic)
        options = self.options(tol)
        if max_iterations is not None:
            options[self.limit_option] = max_iterations
        with warnings.catch_warnings():
            # CVXPY warns of inaccurate answers; our certificate says so with a number.
            warnings.simplefilter("ignore")
            with contextlib.suppress(cp.SolverError):
                program.solve(solver=self.name, canon_backend="SCIPY", verbose=verbose, **options)
        weights, dual = program.weights.value, program.margin_constraint.dual_value
        stats = program.solver_stats
        iterations = -1 if stats is None or stats.num_iters is None else int(stats.num_iters)
        return Answer(
            np.zeros((features.k, features.d)) if weights is None else weights / scale,
            np.zeros(features.n) if dual is None else dual / scale,
            iterations,
            iterations >= options.get(self.limit_option, np.inf),
        )


def _clarabel(tol: float) -> dict[str, Any]:
    inner = min(1e-8, tol / 10)
    return {"tol_gap_rel": inner, "tol_gap_abs": inner, "tol_feas": inner}


def _ecos(tol: float) -> dict[str, Any]:
    inner = min(1e-8, tol / 10)
    return {"abstol": inner, "reltol": inner, "feastol": inner}


def _osqp(tol: float) -> dict[str, Any]:
    inner = tol / 10
    return {"eps_abs": inner, "eps_rel": inner, "polishing": True, "max_iter": 100_000}


def _scs(tol: float) -> dict[str, Any]:
    inner = tol / 10
    return {"eps_abs": inner, "eps_rel": inner, "max_iters": 100_000}


CVXPY_SOLVERS = {
    "CLARABEL": CvxpySolver("CLARABEL", _clarabel, "max_iter"),
    "ECOS": CvxpySolver("ECOS", _ecos, "max_iters"),
    "OSQP": CvxpySolver("OSQP", _osqp, "max_iter", quadratic=True),
    "SCS": CvxpySolver("SCS", _scs, "max_iters"),
}
