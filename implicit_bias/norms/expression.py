"""A norm from a CVXPY expression alone."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from implicit_bias._utils.checks import Array, InputError
from implicit_bias.norms.base import Norm

if TYPE_CHECKING:
    import cvxpy as cp

#: Relative tolerances of the solver of dual norms, tried in turn.
TOLERANCES = (1e-10, 1e-9, 1e-8)
#: Multiple of the tolerance by which its value is raised.
RAISED = 100


class ExpressionNorm(Norm):
    """‖W‖ given by a CVXPY expression: any convex function with ‖tW‖ = t‖W‖ ≥ 0 for t ≥ 0.

    CVXPY's solvers take it; the native one needs a norm with a `group_form`, such as `GroupLasso`. The dual norm
    sup {⟨V, W⟩: ‖W‖ ≤ 1} is computed by CLARABEL to 1e-10 (or 1e-9, 1e-8 if it gets no further) and raised by a
    hundred times as much, unless you give its formula. Only with the formula is the lower bound of a certificate
    independent of any solver. A formula is checked when a problem is built, and at its answer.

    Parameters
    ----------
    function : callable
        From a CVXPY expression W (k, d) to a scalar convex expression.
    dual : callable, optional
        From an array V (k, d) to the dual norm, a float.
    name : str
        What to call it.

    Raises
    ------
    InputError
        When a problem is built with it: if the expression is not scalar, convex, non-negative and homogeneous, or
        `dual` smaller than the dual norm at weights of many kinds.

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
                "ExpressionNorm takes a function of a CVXPY expression W, and for `dual` a function of an array"
            )
        self.function = function
        self.dual_function = dual
        self.has_formula = dual is not None
        self.name = name

    def value(self, W: Array) -> float:
        """‖W‖."""
        import cvxpy as cp

        return float(self.expression(cp.Constant(np.asarray(W, dtype=np.float64))).value)

    def dual(self, V: Array) -> float:
        """sup {⟨V, W⟩: ‖W‖ ≤ 1}; infinity if the solver finds no such bound."""
        import cvxpy as cp

        if self.dual_function is not None:
            return self.dual_function(V)
        largest = float(np.abs(V).max(initial=0.0))
        if largest == 0:
            return 0.0
        W = cp.Variable(V.shape)
        problem = cp.Problem(cp.Maximize(cp.sum(cp.multiply(V / largest, W))), [self.expression(W) <= 1])
        for tol in TOLERANCES:
            with warnings.catch_warnings(), contextlib.suppress(cp.SolverError):
                warnings.simplefilter("ignore")  # The status says it.
                problem.solve(solver="CLARABEL", tol_gap_rel=tol, tol_gap_abs=tol, tol_feas=tol)
                if problem.status == cp.OPTIMAL:
                    return largest * float(problem.value) * (1 + RAISED * tol)
        return np.inf

    def expression(self, W: cp.Expression) -> cp.Expression:
        """The function of W."""
        import cvxpy as cp

        found = self.function(W)
        if not isinstance(found, cp.Expression) or found.size != 1:
            raise InputError(f"the function of {self!r} must return one scalar CVXPY expression, not {found!r:.60}")
        return found

    def __repr__(self) -> str:
        return f"ExpressionNorm({self.name})"
