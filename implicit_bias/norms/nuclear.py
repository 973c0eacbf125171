"""The nuclear norm of groups of gates, for units whose weights are products of two layers' weights."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from implicit_bias._utils.checks import Array, InputError
from implicit_bias._utils.rounding import share
from implicit_bias._utils.scaling import length
from implicit_bias.norms.base import GroupForm, Norm
from implicit_bias.norms.group import GroupLasso

if TYPE_CHECKING:
    import cvxpy as cp


class NuclearNorm(Norm):
    """Σ_h ‖ζ_h‖_*, the sum of the singular values of a matrix for each group h of gates.

    Gate j lies in row `rows[j]` of its group's ζ_h; the gates of a row, and their inputs, are its columns. A unit whose
    output weights a ∈ R^R multiply hidden weights w has ζ_h = a wᵀ of rank one, and ½‖a‖² + ½‖w‖² ≥ ‖ζ_h‖_* with
    equality where both are of one length: the norm is what weight decay, or gradient descent, sees of such units. By

        ‖ζ‖_* = min { Σ_a ‖w_a‖ : ζ = Σ_a u_a w_aᵀ, ‖u_a‖ = 1 }

    it is a group lasso over infinitely many atoms u, of which the native solver finds the few that matter. Dual norm:
    the largest singular value of any V_h.

    Parameters
    ----------
    groups, rows : sequences of int, shape (k,)
        Any whole numbers. Every group has the same rows, every row of a group equally many gates, in the same order.

    Raises
    ------
    InputError
        If they are not whole numbers, or not one of each per gate, or rows do not match.

    Examples
    --------
    >>> import numpy as np
    >>> from implicit_bias import NuclearNorm
    >>> norm = NuclearNorm([0, 0, 1, 1], [0, 1, 0, 1])
    >>> W = np.array([[3.0, 0.0], [0.0, 4.0], [1.0, 1.0], [1.0, 1.0]])
    >>> round(norm.value(W), 9), round(norm.dual(W), 9)
    (9.0, 4.0)
    """

    made_of = ("groups", "rows")
    rotation_invariant = True
    verified = True
    semidefinite = True
    has_atoms = True
    gates: int

    def __init__(self, groups: Any, rows: Any) -> None:
        lasso, lines = GroupLasso(groups), GroupLasso(rows)
        self.groups, self.rows, self.gates = lasso.groups, lines.groups, len(lasso.groups)
        if len(lines.groups) != self.gates:
            raise InputError(f"rows has {len(lines.groups)} entries, and groups {self.gates}: one of each per gate")
        self.shape = len(lasso.labels), len(lines.labels)
        counts = np.bincount(lasso.index * self.shape[1] + lines.index, minlength=self.shape[0] * self.shape[1])
        if np.ptp(counts):
            raise InputError("every group must have the same rows, and every row equally many gates")
        #: Gates in the order of groups, rows and columns.
        self.order = np.lexsort((np.arange(self.gates), lines.index, lasso.index))
        self.contexts = int(counts[0])

    def matrices(self, W: Array) -> Array:
        """ζ_h of weights (k, d), shape (H, R, contexts·d)."""
        return self.of_gates(W)[self.order].reshape(*self.shape, -1)

    def value(self, W: Array) -> float:
        """Σ_h ‖ζ_h‖_*."""
        return float(np.linalg.svd(self.matrices(W), compute_uv=False).sum())

    def dual(self, V: Array) -> float:
        """max_h of the largest singular value of V_h."""
        return float(np.linalg.svd(self.matrices(V), compute_uv=False)[:, 0].max())

    def _value_within(self, W: Array) -> float:
        """Σ_h ‖ζ_h‖_* by `singular_bounds`."""
        return float(singular_bounds(self.matrices(W))[1].sum()) * (1 + share(self.shape[0] + 2))

    def dual_bound(self, lengths: Array) -> float:
        """The largest length of a group's lengths: a matrix is no longer than its entries are."""
        return GroupLasso(self.groups).dual_bound(lengths)

    def _dual_within(self, V: Array, error: Array) -> float:
        """‖V‖_* by `singular_bounds`, and what an error of these lengths adds."""
        largest = float(singular_bounds(self.matrices(V))[0].max())
        return largest + self.dual_bound(error) * (1 + share(len(self.groups) + 8))

    def expression(self, W: cp.Expression) -> cp.Expression:
        """Σ_h ‖ζ_h‖_*."""
        import cvxpy as cp

        (H, R), columns = self.shape, self.contexts * W.shape[1]
        each = np.split(self.order, H)
        return cp.sum([cp.normNuc(cp.reshape(W[own], (R, columns), order="C")) for own in each])

    @cached_property
    def places(self) -> np.ndarray:
        """The gate of every group, row and column, shape (H, R, contexts)."""
        return self.order.reshape(*self.shape, -1)

    def atoms(self, groups: np.ndarray, directions: Array) -> GroupForm:
        """W_h = Σ_a u_a ŵ_aᵀ over atoms a of groups h (A,) and unit vectors u_a (A, R): for each a group of Ŵ."""
        A, C = len(groups), self.contexts
        rows = self.places[groups]
        columns = np.broadcast_to(np.arange(A * C).reshape(A, 1, C), rows.shape)
        values = np.broadcast_to(directions[:, :, None], rows.shape)
        expand = sp.csr_array((values.ravel(), (rows.ravel(), columns.ravel())), shape=(self.gates, A * C))
        return GroupForm(expand, np.repeat(np.arange(A), C))

    def __repr__(self) -> str:
        return f"NuclearNorm({self.shape[0]} groups of {self.shape[1]} rows, {self.gates} gates)"


def singular_bounds(M: Array) -> tuple[Array, Array]:
    """Numbers (H,) that the largest singular value, and the sum of all, of matrices (H, m, n) do not exceed: proved.

    For any U, s and V, ‖M‖ ≤ ‖U‖ max s ‖V‖ + ‖M − U diag(s) V‖_F and ‖M‖_* ≤ Σ s_r ‖u_r‖‖v_r‖ + √min(m, n)
    ‖M − U diag(s) V‖_F, and ‖U‖² ≤ 1 + ‖UᵀU − I‖_F: a decomposition need not be believed, and rounding is counted.

    >>> largest, total = singular_bounds(np.array([[[3.0, 0.0], [0.0, 4.0]]]))
    >>> bool(4 <= largest[0] < 4 + 1e-12), bool(7 <= total[0] < 7 + 1e-12)
    (True, True)
    """
    U, values, V = np.linalg.svd(M, full_matrices=False)
    rank, terms = values.shape[1], share(M[0].size + 8)
    # By Cauchy-Schwarz the products' rounding is at most this share of max s ‖U‖‖V‖, of ‖U‖² and of ‖V‖².
    lost = 4 * terms * rank
    skew = [
        length((A @ A.transpose(0, 2, 1) - np.eye(rank)).reshape(len(M), -1), axis=1) for A in (U.transpose(0, 2, 1), V)
    ]
    long = np.sqrt((1 + skew[0]) * (1 + skew[1])) * (1 + lost)
    rest = length((M - (U * values[:, None]) @ V).reshape(len(M), -1), axis=1) + lost * values[:, 0] * long
    more = 1 + 2 * terms
    return (values[:, 0] * long + rest) * more, (values.sum(axis=1) * long + np.sqrt(rank) * rest) * more
