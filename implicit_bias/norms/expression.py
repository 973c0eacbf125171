"""Norms that are defined by a CVXPY expression."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from implicit_bias._utils.checks import Array, InputError, as_text
from implicit_bias._utils.lazy import cp
from implicit_bias.norms.base import Norm

#: Relative tolerances of the solver of dual norms, tried in this order.
TOLERANCES = (1e-10, 1e-9, 1e-8)
#: Relative amount, in multiples of the tolerance, that is added to a computed dual norm as a safety margin.
SAFETY = 100


class ExpressionNorm(Norm):
    """Norm defined by a CVXPY expression: any convex function with ‖tW‖ = t‖W‖ ≥ 0 for t ≥ 0.

    It works with all solvers but NATIVE. The lower bound of a certificate needs the dual norm
    sup {⟨V, W⟩: ‖W‖ ≤ 1}. If its formula is given, the certificate is independent of any solver, and the formula is
    checked when a problem is built and solved. Otherwise CLARABEL computes the dual norm with a tolerance of 1e-10
    (1e-9 or 1e-8 if that fails), and 100 times the tolerance is added.

    Parameters
    ----------
    function : callable
        Maps a CVXPY expression W (k, d) to a scalar convex expression.
    dual : callable, optional
        Maps an array V (k, d) to its dual norm, a float.
    name : str
        Name of the norm in messages.

    Raises
    ------
    InputError
        If `function` or `dual` is not callable. When a problem is built: if the expression is not scalar, convex,
        non-negative and homogeneous, or `dual` is smaller than the dual norm of a test matrix.

    Examples
    --------
    >>> import cvxpy as cp
    >>> import numpy as np
    >>> from implicit_bias import ExpressionNorm, GatedFeatures, MarginProblem, solve
    >>> X, y = [[2.0, 1.0], [1.0, -0.5], [-1.0, 0.5], [-2.0, -1.0]], [1, 1, -1, -1]
    >>> sparse = ExpressionNorm(lambda W: cp.norm1(W), dual=lambda V: np.abs(V).max(), name="l1")
    >>> solution = solve(MarginProblem(GatedFeatures(X), y, sparse))
    >>> solution.status.name, (solution.weights.round(6) + 0.0).tolist()
    ('OPTIMAL', [[1.0, 0.0]])
    """

    def __init__(
        self,
        function: Callable[[cp.Expression], Any],
        dual: Callable[[Array], float] | None = None,
        name: str = "own norm",
    ) -> None:
        if not callable(function) or not (dual is None or callable(dual)):
            raise InputError(
                "ExpressionNorm needs a function of a CVXPY expression W; `dual` must be a function of an array or None"
            )
        self.function, self.dual_function = function, dual
        self.has_formula = dual is not None
        self.name = as_text(name, "name")

    def value(self, W: Array) -> float:
        return float(self.expression(cp.Constant(np.asarray(W, dtype=np.float64))).value)

    def dual(self, V: Array) -> float:
        """Dual norm sup {⟨V, W⟩: ‖W‖ ≤ 1}, by the formula if it was given, else by CLARABEL; infinity if this fails."""
        if self.dual_function is not None:
            return self.dual_function(V)
        largest = float(np.abs(V).max(initial=0.0))
        if largest == 0:
            return 0.0
        W = cp.Variable(V.shape)
        problem = cp.Problem(cp.Maximize(cp.sum(cp.multiply(V / largest, W))), [self.expression(W) <= 1])
        for tol in TOLERANCES:
            with warnings.catch_warnings(), contextlib.suppress(cp.SolverError):
                # CVXPY warns about inaccurate solutions; the status is checked instead.
                warnings.simplefilter("ignore")
                problem.solve(solver="CLARABEL", tol_gap_rel=tol, tol_gap_abs=tol, tol_feas=tol)
                if problem.status == cp.OPTIMAL:
                    return largest * float(problem.value) * (1 + SAFETY * tol)
        return np.inf

    def expression(self, W: cp.Expression) -> cp.Expression:
        """Result of the function for W; raise InputError unless it is a scalar CVXPY expression."""
        built = self.function(W)
        if not isinstance(built, cp.Expression) or built.size != 1:
            raise InputError(f"the function of {self!r} must return one scalar CVXPY expression, not {built!r:.60}")
        return built

    def __repr__(self) -> str:
        return f"ExpressionNorm({self.name})"
