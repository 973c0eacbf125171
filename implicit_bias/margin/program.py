"""Margin problems as CVXPY problems."""

from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp


class MarginProgram(cp.Problem):
    """A `cvxpy.Problem` of a margin problem, which can be extended with constraints and solved as usual.

    Attributes
    ----------
    weights : cvxpy.Expression, shape (k, d)
        W in the original coordinates.
    intercept : cvxpy.Expression
        b; the constant 0 if it is not free.
    margins : cvxpy.Expression, shape (n,)
        y_i ((ΦW)_i + b).
    margin_constraint : cvxpy.Constraint
        y_i ((ΦW)_i + b) ≥ m_i − ξ_i; its dual value is λ (n,).
    linear_constraints : list of cvxpy.Constraint
        The `constraints` of the margin problem.

    Examples
    --------
    >>> import cvxpy as cp
    >>> from implicit_bias import ConstantGate, svm_gln
    >>> program = svm_gln([[2.0, 1.0], [-1.0, 1.0]], [1, -1], ConstantGate()).cvxpy(reduce=False)
    >>> no_bias = cp.Problem(program.objective, [*program.constraints, program.weights[0, 1] == 0])
    >>> round(float(no_bias.solve(solver="CLARABEL")), 4)
    1.0
    """

    weights: cp.Expression
    intercept: cp.Expression
    margins: cp.Expression
    margin_constraint: cp.Constraint
    linear_constraints: list[cp.Constraint]


def program_of(problem: Any, reduce: bool, quadratic: bool) -> MarginProgram:
    """Return the CVXPY problem of a MarginProblem; `MarginProblem.cvxpy` explains the parameters."""
    reduce = reduce and problem.norm.rotation_invariant and problem.constraints is None
    features, V = problem.features.reduced() if reduce else (problem.features, np.eye(problem.features.d))
    # The solvers converge best with inputs of mean square length 1 and one column of weights per gate.
    scale = features.scale()
    columns = cp.Variable((features.d, features.k), name="W")
    constraints = problem.norm.gauge(columns.T)
    shared = features.scaled(1 / scale).shared()
    sums: cp.Expression = columns
    if not shared.trivial:
        sums = cp.Variable((features.d, shared.S.shape[0]), name="U")
        constraints.append(sums == columns @ shared.S.T)
    b = cp.Variable(name="b") if problem.intercept else cp.Constant(0.0)
    margins = (sp.diags_array(problem.y) @ shared.M) @ cp.vec(sums, order="F") + problem.y * b
    square = problem.norm.quadratic(columns.T) if quadratic else None
    objective = problem.norm.expression(columns.T) / scale if square is None else square / scale**2
    slack: cp.Variable | int = 0
    if not problem.hard:
        slack = cp.Variable(features.n, name="slack")
        objective = objective + problem.upper_bounds @ slack
        constraints.append(slack >= 0)
    constraint = margins >= problem.required_margin - slack
    linear = [] if problem.constraints is None else problem.constraints.expressions(columns.T / scale)
    program = MarginProgram(cp.Minimize(objective), [constraint, *linear, *constraints])
    program.weights = (columns.T @ V.T if reduce else columns.T) / scale
    program.intercept, program.margins = b, margins
    program.margin_constraint, program.linear_constraints = constraint, linear
    return program
