"""Norms of groups of gates: the Frobenius norm and the group lasso."""

from __future__ import annotations

from typing import Any

import numpy as np

from implicit_bias._utils.checks import CONVERSION_ERRORS, Array, InputError, as_positives, check_range, without_torch
from implicit_bias._utils.floats import length
from implicit_bias._utils.lazy import cp
from implicit_bias.norms.base import GroupForm, Norm, diagonal, padding


class EuclideanNorm(Norm):
    """Norm ‖LW‖_F for a linear map L of the gates' weights, the method `mapped` of a subclass."""

    rotation_invariant = True

    def mapped(self, W: Any) -> Any:
        """Return LW for weights or a CVXPY expression W (k, d); W itself by default."""
        return W

    def value(self, W: Array) -> float:
        """Norm ‖LW‖_F."""
        return float(length(self.mapped(self.of_gates(W))))

    def expression(self, W: cp.Expression) -> cp.Expression:
        """Norm ‖LW‖_F as a CVXPY expression."""
        return cp.norm(cp.vec(self.mapped(W), order="C"), 2)

    def quadratic(self, W: cp.Expression) -> cp.Expression:
        """Square ‖LW‖²_F as a CVXPY expression."""
        return cp.sum_squares(self.mapped(W))


class Frobenius(EuclideanNorm):
    """Frobenius norm ‖W‖_F, which is its own dual: the norm of shallow GLNs, linear models and SVM-HL.

    Examples
    --------
    >>> import numpy as np
    >>> from implicit_bias import Frobenius
    >>> Frobenius().value(np.array([[3.0, 0.0], [0.0, 4.0]]))
    5.0
    """

    made_of: tuple[str, ...] | None = ()
    verified = True

    def dual(self, V: Array) -> float:
        """Dual norm ‖V‖_F."""
        return float(length(self.of_gates(V)))

    def dual_bound(self, lengths: Array) -> float:
        """Dual norm of any V with these row lengths: ‖lengths‖₂."""
        return float(length(lengths))

    def group_form(self, k: int) -> GroupForm:
        """Return the group form with all gates in one group and T = I."""
        return GroupForm(diagonal(np.ones(k)), np.zeros(k, dtype=np.int64))


class GroupLasso(Norm):
    """Group lasso Σ_h c_h ‖ζ_h‖₂ over groups h of gates: the norm of SVM-GLN, SVM-RC and SVM-LC.

    ζ_h stacks the rows of W whose gates belong to group h. The dual norm is max_h ‖V_h‖₂/c_h.
    Lippl, Abbott & Chung, eqs 20 (GLN) and 22 (FReLU).

    Parameters
    ----------
    groups : sequence of int, shape (k,)
        The group of each gate: any integers, equal within a group.
    weights : float or array, shape (number of groups,)
        c_h > 0, in ascending order of the groups' numbers; 1 by default. For an unpenalised group, c_h = 1e-6 raises
        the optimum by at most 1e-6 ‖ζ_h‖₂; with c_h = 0 the dual norm would be infinite, and there would be no bound.
        An unpenalised bias is `MarginProblem(…, intercept=True)`.

    Raises
    ------
    InputError
        If `groups` is empty, not one-dimensional or not of integers, or weights are not positive numbers from 1e-150 to
        1e150, one per group.

    Examples
    --------
    >>> import numpy as np
    >>> from implicit_bias import GroupLasso
    >>> norm = GroupLasso([0, 0, 1])
    >>> W = np.array([[3.0], [4.0], [2.0]])
    >>> norm.value(W), norm.dual(W)
    (7.0, 5.0)
    """

    made_of = ("groups", "weights")
    rotation_invariant = True
    verified = True

    def __init__(self, groups: Any, weights: Any = 1.0) -> None:
        try:
            array = np.asarray(without_torch(groups))
        except CONVERSION_ERRORS:
            array = np.empty((0, 0))
        are_integers = np.issubdtype(array.dtype, np.integer) and not np.ma.is_masked(groups)
        if array.ndim != 1 or array.size == 0 or not are_integers:
            raise InputError("groups must be a one-dimensional array of whole numbers, one per gate")
        self.groups, self.gates = array, len(array)
        self.labels, self.index = np.unique(array, return_inverse=True)
        instead = "a weight of 1e-6 leaves a group practically unpenalised"
        c = as_positives(weights, len(self.labels), "group weights", instead)
        self.weights = np.broadcast_to(c, len(self.labels))
        check_range(self.weights, "group weights", 1e-150, 1e150)

    def group_norms(self, W: Array) -> Array:
        """Return ‖ζ_h‖₂ of all groups, in the order of `labels`, without the weights c_h."""
        rows = length(self.of_gates(W), axis=1)
        # Each group is divided by its size, because the squares of small numbers underflow.
        largest = np.zeros(len(self.labels))
        np.maximum.at(largest, self.index, rows)
        shares = rows / np.where(largest > 0, largest, 1.0)[self.index]
        return np.asarray(largest * np.sqrt(np.bincount(self.index, shares**2, len(self.labels))))

    def value(self, W: Array) -> float:
        """Norm Σ_h c_h ‖ζ_h‖₂."""
        return float((self.weights * self.group_norms(W)).sum())

    def dual(self, V: Array) -> float:
        """Dual norm max_h ‖V_h‖₂/c_h."""
        return float((self.group_norms(V) / self.weights).max())

    def dual_bound(self, lengths: Array) -> float:
        """Dual norm of any V with these row lengths, which determine the dual norm."""
        return self.dual(np.asarray(lengths)[:, None])

    def expression(self, W: cp.Expression) -> cp.Expression:
        """Norm Σ_h c_h ‖ζ_h‖₂ as one vectorised CVXPY norm."""
        return self.weights @ cp.norm(self.stacked(W), 2, axis=1)

    def stacked(self, W: cp.Expression) -> cp.Expression:
        """Return the ζ_h as the rows of a CVXPY expression; smaller groups are padded with zeros."""
        pad, H = padding(self.index), len(self.labels)
        return cp.reshape(pad @ W, (H, pad.shape[0] // H * W.shape[1]), order="C")

    def group_form(self, k: int) -> GroupForm:
        """Return the group form with Ŵ_h = c_h ζ_h, so that T is diagonal with entries 1/c_h."""
        return GroupForm(diagonal(1 / self.weights[self.index]), self.groups)

    def __repr__(self) -> str:
        return f"GroupLasso({len(self.labels)} groups, {self.gates} gates)"
