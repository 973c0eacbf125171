"""Nuclear norm of groups of gates, for units whose weights are products of two layers' weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from implicit_bias._utils.checks import Array, InputError
from implicit_bias._utils.floats import length, share
from implicit_bias._utils.lazy import cp
from implicit_bias.norms.base import Norm
from implicit_bias.norms.group import GroupLasso


class NuclearNorm(Norm):
    """Sum of nuclear norms Σ_h ‖ζ_h‖_*, with one matrix ζ_h for each group h of gates.

    Gate j belongs to row `rows[j]` of its group's ζ_h. The weights of all gates of a row are concatenated. A unit with
    output weights a ∈ R^R and hidden weights w has ζ_h = a wᵀ of rank one, and ½‖a‖² + ½‖w‖² ≥ ‖ζ_h‖_*, with equality
    for ‖a‖ = ‖w‖. So weight decay on both layers penalises the nuclear norm. Because of

        ‖ζ‖_* = min { Σ_a ‖w_a‖ : ζ = Σ_a u_a w_aᵀ, ‖u_a‖ = 1 }

    the norm is a group lasso over infinitely many atoms u. The dual norm is the largest singular value of all V_h.

    Parameters
    ----------
    groups, rows : sequences of int, shape (k,), optional
        The group and the row of each gate: any integers. All groups have the same rows, and all rows the same number of
        gates, in the same order. Without both, W is one matrix, of any number of gates.

    Raises
    ------
    InputError
        If an entry is not an integer, the lengths differ, or groups have different rows.

    Examples
    --------
    >>> import numpy as np
    >>> from implicit_bias import NuclearNorm
    >>> norm = NuclearNorm([0, 0, 1, 1], [0, 1, 0, 1])
    >>> W = np.array([[3.0, 0.0], [0.0, 4.0], [1.0, 1.0], [1.0, 1.0]])
    >>> round(norm.value(W), 9), round(norm.dual(W), 9)
    (9.0, 4.0)
    >>> round(NuclearNorm().value(W[:2]), 9)
    7.0
    """

    made_of = ("groups", "rows")
    rotation_invariant = True
    verified = True
    semidefinite = True
    has_atoms = True

    def __init__(self, groups: Any = None, rows: Any = None) -> None:
        if groups is None and rows is None:
            return
        lasso, lines = GroupLasso(groups), GroupLasso(rows)
        self.groups, self.rows, self.gates = lasso.groups, lines.groups, len(lasso.groups)
        if len(lines.groups) != self.gates:
            raise InputError(f"rows has {len(lines.groups)} entries, but groups has {self.gates}; give one per gate")
        self.shape = len(lasso.labels), len(lines.labels)
        counts = np.bincount(lasso.index * self.shape[1] + lines.index, minlength=self.shape[0] * self.shape[1])
        if np.ptp(counts):
            raise InputError("every group must have the same rows, and every row the same number of gates")
        #: Gates sorted by group, row and column.
        self.order = np.lexsort((np.arange(self.gates), lines.index, lasso.index))
        self.contexts = int(counts[0])

    def for_gates(self, k: int) -> NuclearNorm:
        """Return the norm for k gates, with W as one matrix if there are no groups."""
        return self if self.gates else NuclearNorm(np.zeros(k, dtype=np.int64), np.arange(k))

    def matrices(self, W: Array) -> Array:
        """Matrices ζ_h of weights (k, d); shape (H, R, contexts·d)."""
        if not self.gates:
            return self.of_gates(W)[None]
        return self.of_gates(W)[self.order].reshape(*self.shape, -1)

    def value(self, W: Array) -> float:
        """Norm Σ_h ‖ζ_h‖_*."""
        return float(np.linalg.svd(self.matrices(W), compute_uv=False).sum())

    def dual(self, V: Array) -> float:
        """Dual norm: the largest singular value of all V_h."""
        return float(np.linalg.svd(self.matrices(V), compute_uv=False)[:, 0].max())

    def _value_within(self, W: Array) -> float:
        totals = singular_bounds(self.matrices(W))[1]
        return float(totals.sum()) * (1 + share(len(totals) + 2))

    def dual_bound(self, lengths: Array) -> float:
        """Upper bound of the dual norm for these row lengths: the largest Frobenius norm of a group."""
        return GroupLasso(self.for_gates(len(lengths)).groups).dual_bound(lengths)

    def _dual_within(self, V: Array, error: Array) -> float:
        return float(singular_bounds(self.matrices(V))[0].max()) + self.dual_bound(error) * (1 + share(len(V) + 8))

    def expression(self, W: cp.Expression) -> cp.Expression:
        """Norm Σ_h ‖ζ_h‖_* as a CVXPY expression."""
        norm = self.for_gates(W.shape[0])
        (H, R), columns = norm.shape, norm.contexts * W.shape[1]
        return cp.sum([cp.normNuc(cp.reshape(W[rows], (R, columns), order="C")) for rows in np.split(norm.order, H)])

    def __repr__(self) -> str:
        if not self.gates:
            return "NuclearNorm()"
        return f"NuclearNorm({self.shape[0]} groups of {self.shape[1]} rows, {self.gates} gates)"


def singular_bounds(M: Array) -> tuple[Array, Array]:
    """Return proved upper bounds (H,) of the largest singular values and of the nuclear norms of matrices (H, m, n).

    For any U, s and V, ‖M‖ ≤ ‖U‖ max s ‖V‖ + ‖M − U diag(s) V‖_F, ‖U‖² ≤ 1 + ‖UᵀU − I‖_F, and
    ‖M‖_* ≤ Σ s_r ‖u_r‖‖v_r‖ + √min(m, n) ‖M − U diag(s) V‖_F. The bounds include rounding errors, and hold even if the
    computed singular value decomposition is inaccurate.

    >>> largest, total = singular_bounds(np.array([[[3.0, 0.0], [0.0, 4.0]]]))
    >>> bool(4 <= largest[0] < 4 + 1e-12), bool(7 <= total[0] < 7 + 1e-12)
    (True, True)
    """
    U, values, V = np.linalg.svd(M, full_matrices=False)
    rank, terms = values.shape[1], share(M[0].size + 8)
    # By Cauchy-Schwarz, this bounds the rounding errors relative to max s ‖U‖‖V‖, ‖U‖² and ‖V‖².
    lost = 4 * terms * rank
    products = U.transpose(0, 2, 1) @ U, V @ V.transpose(0, 2, 1)
    skew = [length((product - np.eye(rank)).reshape(len(M), -1), axis=1) for product in products]
    long = np.sqrt((1 + skew[0]) * (1 + skew[1])) * (1 + lost)
    rest = length((M - (U * values[:, None]) @ V).reshape(len(M), -1), axis=1) + lost * values[:, 0] * long
    more = 1 + 2 * terms
    return (values[:, 0] * long + rest) * more, (values.sum(axis=1) * long + np.sqrt(rank) * rest) * more
