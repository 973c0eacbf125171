"""Linear constraints on the weights of a margin problem."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from implicit_bias._utils.checks import Array, InputError
from implicit_bias._utils.rounding import precise_product, share
from implicit_bias._utils.scaling import length

if TYPE_CHECKING:
    import cvxpy as cp

WANTED = (
    "constraints must be a function of the weights W that returns linear CVXPY constraints, such as lambda W: [W >= 0]"
)
#: Coefficients up to which a dense copy of them is summed without errors.
PRECISE_UP_TO = 10_000_000


@dataclass(frozen=True, eq=False)
class LinearConstraints:
    """E vec(W) ≤ 0, some rows with equality; vec(W) row by row. If W satisfies them, so does every tW with t ≥ 0.

    Parameters
    ----------
    E : sparse array, shape (m, k·d)
    equal : array of bool, shape (m,)
        Which rows are equalities.
    shape : tuple
        (k, d).

    Examples
    --------
    >>> bounds = LinearConstraints.of(lambda W: [W >= 0, W[0, 0] == W[1, 0]], (2, 3))
    >>> bounds.E.shape, bounds.equal.tolist()
    ((7, 6), [False, False, False, False, False, False, True])
    """

    E: sp.csr_array
    equal: np.ndarray
    shape: tuple[int, int]

    def __post_init__(self) -> None:
        fits = self.E.shape == (len(self.equal), self.shape[0] * self.shape[1])
        if not fits or self.equal.ndim != 1 or self.E.dtype.kind not in "iuf" or not np.isfinite(self.E.data).all():
            raise InputError("the coefficients of constraints must be finite real numbers, one row of k·d a constraint")
        self.E.sum_duplicates()

    @classmethod
    def of(cls, function: Callable[[cp.Expression], Any], shape: tuple[int, int]) -> LinearConstraints:
        """Return the constraints that `function` gives for W of this shape.

        Raises
        ------
        InputError
            If they are not linear constraints of CVXPY, or not homogeneous (W = 0 must lie on every boundary).
        """
        if not callable(function):
            raise InputError(f"{WANTED}, not {function!r:.60}")
        import cvxpy as cp

        W = cp.Variable(shape)
        given = function(W)
        rows, equal = [], []
        for constraint in given if isinstance(given, list | tuple) else [given]:
            if not isinstance(constraint, cp.constraints.Inequality | cp.constraints.Equality):
                raise InputError(f"{WANTED}; {constraint!s:.60} is none")
            side = constraint.expr
            if not side.is_affine() or side.is_complex() or any(variable.id != W.id for variable in side.variables()):
                raise InputError(f"{WANTED}; {constraint!s:.60} is not linear and real in W")
            rows.append(_matrix(side, W))
            equal.append(np.full(side.size, isinstance(constraint, cp.constraints.Equality)))
        if not rows:
            raise InputError(f"{WANTED}; there are none")
        return cls(sp.csr_array(sp.vstack(rows)), np.concatenate(equal), shape)

    def feasible(self, multipliers: Array) -> Array:
        """Return μ with the negative entries of inequalities set to 0."""
        return np.where(self.equal, multipliers, np.maximum(multipliers, 0.0))

    def adjoint_bounded(self, multipliers: Array, precise: bool = False) -> tuple[Array, Array, Array]:
        """Eᵀμ as the sum of two arrays (k, d), and a bound (k,) of the lengths of their rows' errors.

        `precise`: by error-free products, if E is not too large.
        """
        used = np.flatnonzero(multipliers)
        E, mu = self.E[used], multipliers[used]
        if precise and len(used) and len(used) * E.shape[1] <= PRECISE_UP_TO:
            upper, lower, error = (part.reshape(self.shape) for part in precise_product(mu[None], E.toarray()))
            return upper, lower, np.asarray(length(error, axis=1))
        sizes = (np.abs(E).T @ np.abs(mu)).reshape(self.shape)
        terms = 2 * (len(used) + self.shape[1] + 2)
        total = np.asarray(self.E.T @ multipliers).reshape(self.shape)
        return total, np.zeros(self.shape), share(terms) * np.asarray(length(sizes, axis=1))

    def expressions(self, W: cp.Expression) -> list[cp.Constraint]:
        """Constraints on a CVXPY expression W (k, d): the inequalities in one, then the equalities in one."""
        import cvxpy as cp

        w = cp.vec(W, order="C")
        bounds = [self.E[~self.equal] @ w <= 0] if not self.equal.all() else []
        return bounds + ([self.E[self.equal] @ w == 0] if self.equal.any() else [])

    def multipliers(self, constraints: list[cp.Constraint]) -> Array:
        """μ (m,) from the dual values of `expressions`; zeros where the solver gave none."""
        found = np.zeros(len(self.equal))
        kinds = [kind for kind in (~self.equal, self.equal) if kind.any()]
        for rows, constraint in zip(kinds, constraints, strict=True):
            if constraint.dual_value is not None:
                found[rows] = np.atleast_1d(constraint.dual_value)
        return found


def _matrix(side: cp.Expression, W: cp.Variable) -> sp.csr_array:
    """The matrix (m, k·d) of an affine expression of W without a constant term."""
    W.value = np.zeros(W.shape)
    # CVXPY gives a single number where the matrix has but one.
    columns = sp.csc_array(np.atleast_2d(side.grad[W]) if W.size == side.size == 1 else side.grad[W]).T
    if columns.dtype.kind not in "iuf" or not np.isfinite(columns.data).all():
        raise InputError("the coefficients of constraints must be finite real numbers")
    if np.any(side.value != 0):
        raise InputError("constraints must be homogeneous, so that every multiple of W keeps them: W >= 0, not W >= 1")
    order = np.arange(W.size).reshape(W.shape, order="F").ravel()
    return sp.csr_array(sp.csc_array(columns)[:, order])
