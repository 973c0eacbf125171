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

EXPECTED = (
    "constraints must be a function of the weights W that returns linear CVXPY constraints, such as lambda W: [W >= 0]"
)
#: Number of coefficients up to which error-free products use a dense copy of them.
MAX_PRECISE_ENTRIES = 10_000_000


@dataclass(frozen=True, eq=False)
class LinearConstraints:
    """Homogeneous linear constraints E vec(W) ≤ 0, some rows with equality; vec(W) stacks the rows of W.

    Parameters
    ----------
    E : sparse array, shape (m, k·d)
        Coefficients.
    equal : array of bool, shape (m,)
        True for equalities.
    shape : tuple of int
        (k, d).

    Raises
    ------
    InputError
        If shapes do not match, or coefficients are not finite real numbers.

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
            raise InputError("E must contain finite real numbers, one row of k·d coefficients per constraint")
        self.E.sum_duplicates()

    @classmethod
    def of(cls, function: Callable[[cp.Expression], Any], shape: tuple[int, int]) -> LinearConstraints:
        """Return the constraints that `function` returns for a CVXPY variable W of this shape: one or a list.

        Raises
        ------
        InputError
            If there are none, or they are not linear CVXPY constraints in W, or not homogeneous (W = 0 must satisfy all
            with equality).
        """
        if not callable(function):
            raise InputError(f"{EXPECTED}, not {function!r:.60}")
        import cvxpy as cp

        W = cp.Variable(shape)
        given = function(W)
        rows, equal = [], []
        for constraint in given if isinstance(given, list | tuple) else [given]:
            if not isinstance(constraint, cp.constraints.Inequality | cp.constraints.Equality):
                raise InputError(f"{EXPECTED}; {constraint!s:.60} is not a linear constraint")
            side = constraint.expr
            if not side.is_affine() or side.is_complex() or any(variable.id != W.id for variable in side.variables()):
                raise InputError(f"{EXPECTED}; {constraint!s:.60} is not linear and real in W")
            rows.append(_matrix(side, W))
            equal.append(np.full(side.size, isinstance(constraint, cp.constraints.Equality)))
        if not rows:
            raise InputError(f"{EXPECTED}; the function returned no constraints")
        return cls(sp.csr_array(sp.vstack(rows)), np.concatenate(equal), shape)

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
        import cvxpy as cp

        w = cp.vec(W, order="C")
        bounds = [self.E[~self.equal] @ w <= 0] if not self.equal.all() else []
        return bounds + ([self.E[self.equal] @ w == 0] if self.equal.any() else [])

    def multipliers(self, constraints: list[cp.Constraint]) -> Array:
        """Multipliers μ (m,) from the dual values of `expressions`; zeros if the solver returned none."""
        found = np.zeros(len(self.equal))
        kinds = [kind for kind in (~self.equal, self.equal) if kind.any()]
        for rows, constraint in zip(kinds, constraints, strict=True):
            if constraint.dual_value is not None:
                found[rows] = np.atleast_1d(constraint.dual_value)
        return found


def _matrix(side: cp.Expression, W: cp.Variable) -> sp.csr_array:
    """Return E (m, k·d) with side = E vec(W), for the order of vec in `LinearConstraints`; m = `side.size`.

    InputError is raised if a coefficient is not a finite real number, or `side` is not 0 at W = 0.
    """
    W.value = np.zeros(W.shape)
    # CVXPY returns a number instead of a matrix with one entry.
    columns = sp.csc_array(np.atleast_2d(side.grad[W]) if W.size == side.size == 1 else side.grad[W]).T
    if columns.dtype.kind not in "iuf" or not np.isfinite(columns.data).all():
        raise InputError("the coefficients of constraints must be finite real numbers")
    if np.any(side.value != 0):
        raise InputError("constraints must be homogeneous, so that every tW, t ≥ 0, satisfies them: W >= 0, not W >= 1")
    order = np.arange(W.size).reshape(W.shape, order="F").ravel()
    return sp.csr_array(sp.csc_array(columns)[:, order])
