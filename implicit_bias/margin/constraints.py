"""Linear constraints on the weights of a margin problem."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from implicit_bias._utils.checks import CONVERSION_ERRORS, Array, InputError, as_reals
from implicit_bias._utils.floats import length, precise_product, share
from implicit_bias._utils.lazy import cp

EXPECTED = (
    "constraints must be a function that returns linear CVXPY constraints, such as lambda W: [W >= 0, "
    "cp.abs(W @ z) <= 0.1] for the weights W of a problem, or lambda f: f(Z[:9]) <= f(Z[9:]) for a classifier's "
    "predictor f"
)
#: Number of coefficients up to which error-free products use a dense copy of them.
MAX_PRECISE_ENTRIES = 10_000_000


@dataclass(frozen=True, eq=False)
class LinearConstraints:
    """Linear constraints E vec(W) ≤ h, some rows with equality; vec(W) stacks the rows of W.

    Parameters
    ----------
    E : sparse array, shape (m, k·d)
        Coefficients.
    equal : array of bool, shape (m,)
        True for equalities.
    shape : tuple of int
        (k, d).
    h : number or array, shape (m,)
        Right-hand sides. If all are 0, every multiple tW, t ≥ 0, of feasible weights is feasible.

    Raises
    ------
    InputError
        If shapes do not match, or numbers are not finite and real.

    Notes
    -----
    The margin problem with these constraints has the Lagrangian

        ‖W‖ + Σ_i p_i ξ_i + Σ_i λ_i (m_i − ξ_i − y_i((ΦW)_i + b)) − Σ_i ν_i ξ_i + Σ_j μ_j ((E vec W)_j − h_j),

    with p_i = C c_i, λ ≥ 0, ν ≥ 0, and μ_j ≥ 0 for inequalities. With V = Φᵀ(λ∘y) − Eᵀμ it equals

        Σ_i m_iλ_i − Σ_j h_jμ_j + (‖W‖ − ⟨V, W⟩) + Σ_i (p_i − λ_i − ν_i) ξ_i − b Σ_i y_iλ_i.

    Its infimum over W, ξ and b is finite if and only if ‖V‖_* ≤ 1, λ ≤ p (no condition for a hard margin) and, with a
    free intercept, Σ_i y_iλ_i = 0. Hence the dual problem is

        maximise Σ_i m_iλ_i − Σ_j h_jμ_j   subject to   ‖Φᵀ(λ∘y) − Eᵀμ‖_* ≤ 1,   0 ≤ λ ≤ p,   Σ_i y_iλ_i = 0.

    Its conditions, unlike its feasible W, are closed under multiples t(λ, μ), 0 ≤ t ≤ 1, so that any λ and μ with a
    positive dual objective prove a positive bound. No W is feasible if V = 0 has a solution with a positive dual
    objective; for a soft margin, also λ = 0, and then the constraints alone contradict each other (Farkas).

    Examples
    --------
    >>> bounds = LinearConstraints.of(lambda W: [W >= 0, W[0, 0] == W[1, 0]], (2, 3))
    >>> bounds.E.shape, bounds.equal.tolist()
    ((7, 6), [False, False, False, False, False, False, True])
    """

    E: sp.csr_array
    equal: np.ndarray
    shape: tuple[int, int]
    h: Any = 0.0

    def __post_init__(self) -> None:
        fits = self.E.shape == (len(self.equal), self.shape[0] * self.shape[1])
        if not fits or self.equal.ndim != 1 or self.E.dtype.kind not in "iuf" or not np.isfinite(self.E.data).all():
            raise InputError("E must contain finite real numbers, one row of k·d coefficients per constraint")
        self.E.sum_duplicates()
        try:
            h = np.broadcast_to(as_reals(self.h), self.equal.shape)
        except CONVERSION_ERRORS:
            h = np.array(np.nan)
        if not np.isfinite(h).all():
            raise InputError("h must contain finite real numbers, one right-hand side per constraint")
        object.__setattr__(self, "h", h)

    def __repr__(self) -> str:
        return f"LinearConstraints({len(self.equal)} on {self.shape[0]} × {self.shape[1]} weights)"

    @property
    def homogeneous(self) -> bool:
        """True if all right-hand sides are 0."""
        return not self.h.any()

    @classmethod
    def of(cls, function: Callable[[cp.Expression], Any], shape: tuple[int, int]) -> LinearConstraints:
        """Return the constraints that `function` returns for a CVXPY variable W of this shape: one or a list.

        cp.abs(A) <= B is two inequalities if A and B are linear.

        Raises
        ------
        InputError
            If there are none, one is not linear in W, or the function raises an exception.
        """
        if not callable(function):
            raise InputError(f"{EXPECTED}, not {function!r:.60}")
        W = cp.Variable(shape)
        try:
            given = function(W)
        except Exception as error:
            # CVXPY refuses the built-in abs and chains such as -1 <= W <= 1 in several lines.
            text = " ".join(str(error).split())
            raise InputError(f"{EXPECTED}; the function raised {type(error).__name__}: {text:.200}") from error
        parts = []
        for number, constraint in enumerate(given if isinstance(given, list | tuple) else [given]):
            sides = _sides(constraint)
            variables = {variable.id for side in sides for variable in side.variables()}
            if variables != {W.id} or not all(side.is_affine() and not side.is_complex() for side in sides):
                raise InputError(f"{EXPECTED}; constraint {number} is not linear and real")
            for side in sides:
                equality = np.full(side.size, isinstance(constraint, cp.constraints.Equality))
                parts.append((*_coefficients(side, W), equality))
        if not parts:
            raise InputError(f"{EXPECTED}; the function returned no constraints")
        rows, right, equal = zip(*parts, strict=True)
        return cls(sp.csr_array(sp.vstack(rows)), np.concatenate(equal), shape, np.concatenate(right))

    def scaled(self, factor: float) -> LinearConstraints:
        """Return the constraints on V = W times `factor`."""
        return replace(self, h=self.h * factor)

    def feasible(self, multipliers: Array) -> Array:
        """Return μ (m,) with the negative multipliers of inequalities set to 0."""
        return np.where(self.equal, multipliers, np.maximum(multipliers, 0.0))

    def adjoint_bounded(self, multipliers: Array, precise: bool = False) -> tuple[Array, Array, Array]:
        """Return upper and lower (k, d), and error (k,), with ‖(Eᵀμ − upper − lower)_j‖₂ ≤ error_j for each row j.

        μ (m,) are the `multipliers`. `precise` uses error-free products if the rows with μ_i ≠ 0 have at most
        MAX_PRECISE_ENTRIES entries; otherwise lower = 0.
        """
        used = np.flatnonzero(multipliers)
        E, mu = self.E[used], multipliers[used]
        if precise and len(used) and len(used) * E.shape[1] <= MAX_PRECISE_ENTRIES:
            upper, lower, error = (part.reshape(self.shape) for part in precise_product(mu[None], E.toarray()))
            return upper, lower, np.asarray(length(error, axis=1))
        sizes = (np.abs(E).T @ np.abs(mu)).reshape(self.shape)
        terms = 2 * (len(used) + self.shape[1] + 2)
        total = np.asarray(self.E.T @ multipliers).reshape(self.shape)
        return total, np.zeros(self.shape), share(terms) * np.asarray(length(sizes, axis=1))

    def expressions(self, W: cp.Expression) -> list[cp.Constraint]:
        """Constraints on a CVXPY expression W (k, d): one for all inequalities, then one for all equalities."""
        w = cp.vec(W, order="C")
        bounds = [self.E[~self.equal] @ w <= self.h[~self.equal]] if not self.equal.all() else []
        return bounds + ([self.E[self.equal] @ w == self.h[self.equal]] if self.equal.any() else [])

    def multipliers(self, constraints: list[cp.Constraint]) -> Array:
        """Multipliers μ (m,) from the dual values of `expressions`; zeros if the solver returned none."""
        mu = np.zeros(len(self.equal))
        kinds = [kind for kind in (~self.equal, self.equal) if kind.any()]
        for rows, constraint in zip(kinds, constraints, strict=True):
            if constraint.dual_value is not None:
                mu[rows] = np.atleast_1d(constraint.dual_value)
        return mu


def _sides(constraint: Any) -> list[cp.Expression]:
    """Return the expressions that must be ≤ 0, or = 0 for an equality; none if this is neither."""
    if not isinstance(constraint, cp.constraints.Inequality | cp.constraints.Equality):
        return []
    left, right = constraint.args
    if isinstance(left, cp.abs) and isinstance(constraint, cp.constraints.Inequality):
        return [left.args[0] - right, -left.args[0] - right]
    return [constraint.expr]


def _coefficients(side: cp.Expression, W: cp.Variable) -> tuple[sp.csr_array, Array]:
    W.value = np.zeros(W.shape)
    # CVXPY returns a number instead of a matrix with one entry.
    columns = sp.csc_array(np.atleast_2d(side.grad[W]) if W.size == side.size == 1 else side.grad[W]).T
    h = 0.0 - np.asarray(side.value).ravel(order="F")
    if columns.dtype.kind not in "iuf" or not np.isfinite(columns.data).all() or not np.isfinite(h).all():
        raise InputError("the coefficients of constraints must be finite real numbers")
    return sp.csr_array(sp.csc_array(columns)[:, np.arange(W.size).reshape(W.shape, order="F").ravel()]), h
