"""Norms of the effective weights of two layers, each of which has a norm of its own: the geometry of an optimiser."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import scipy.sparse as sp

from implicit_bias._utils.checks import Array, InputError, as_positives, one_of
from implicit_bias._utils.floats import length, share
from implicit_bias._utils.lazy import cp
from implicit_bias.norms.base import GroupForm, Norm, PolyhedralForm, SpectralForm, diagonal
from implicit_bias.norms.group import GroupLasso
from implicit_bias.norms.nuclear import singular_bounds
from implicit_bias.norms.two_summing import dual_bound, rescaled, value_bound

#: Norms of the input layer U: the norm l_q of its rows, and the p with ‖U‖ = ‖(‖u_h‖_q)_h‖_p. Not for "spectral".
INPUT_LAYERS = {"frobenius": (2, 2), "rows": (2, inf), "entries": (inf, inf), "l1": (1, 1), "spectral": (2, inf)}
#: Norms of the output layer v: the p of l_p.
OUTPUT_LAYERS = {"l2": 2, "l_inf": inf, "l1": 1}
#: The p for which 1/p + 1/q = 1.
CONJUGATE = {1: inf, 2: 2, inf: 1}


class TwoLayerNorm(Norm):
    """Norm of W = diag(v)U, induced by a norm of the input layer U and a norm of the output layer v.

        ‖W‖ = min { ‖v‖ ‖U‖ : diag(v)U = W } = min { max(‖v‖, ‖U‖)² : diag(v)U = W }

    A network f(x) = Σ_h v_h ⟨u_h, φ_h(x)⟩ with fixed gates has the effective weights ζ_h = v_h u_h. Steepest descent in
    max(‖v‖, ‖U‖) maximises the margin for this norm, if it converges and no unit dies. With the length r_h of ζ_h, and
    m_h units that have the same gates, the norm is

    =================  =====================  =====================  ==============
    ‖U‖                ‖v‖: "l2"              "l_inf"                "l1"
    =================  =====================  =====================  ==============
    "frobenius"        Σ r_h                  (Σ r_h²/m_h)^½         not convex
    "rows"             (Σ r_h²/m_h)^½         max r_h/m_h            Σ r_h
    "entries"          (Σ r_h²/m_h)^½         max r_h/m_h            Σ r_h
    "l1"               not convex             Σ r_h                  not convex
    "spectral"         ρ(W)                   ‖diag(m)^−½ W‖_op      not convex
    =================  =====================  =====================  ==============

    r_h is ‖ζ_h‖₂ for "frobenius" and "rows", ‖ζ_h‖_∞ for "entries", and ‖ζ_h‖₁ for "l1". "rows" is max_h ‖u_h‖₂, and
    "l1" is the sum of all entries' sizes. ρ(W)² = min { Σ s_h : WWᵀ ⪯ diag(s) } is the 2-summing norm, the dual of
    Max-Cut's relaxation. In "spectral", row h of W contains the weights of all gates of unit h.

    Parameters
    ----------
    groups : sequence of int, shape (k,)
        The unit of each gate: any integers. For "spectral", all units have equally many gates, in the same order.
    input_layer : str
        "frobenius", "rows", "entries", "l1" or "spectral".
    output_layer : str
        "l2", "l_inf" or "l1".
    multiplicities : int or array of int, shape (number of units,)
        m_h ≥ 1, in ascending order of the units' numbers.

    Raises
    ------
    InputError
        If `groups` is invalid, a layer's norm is unknown, a multiplicity is not a positive integer, the combination is
        not convex, or the units of "spectral" have different numbers of gates.

    Examples
    --------
    >>> import numpy as np
    >>> from implicit_bias import TwoLayerNorm
    >>> W = np.array([[3.0, -4.0], [1.0, 2.0]])
    >>> sign_descent = TwoLayerNorm([0, 1], "entries", "l_inf", multiplicities=[2, 1])
    >>> sign_descent.value(W), sign_descent.dual(W)
    (2.0, 17.0)
    >>> muon = TwoLayerNorm([0, 1], "spectral", "l2")
    >>> bool(np.linalg.norm(W) <= muon.value(W) <= 5 + np.sqrt(5))
    True
    """

    made_of = ("groups", "input_layer", "output_layer", "multiplicities")
    verified = True
    gates: int

    def __init__(self, groups: Any, input_layer: str, output_layer: str, multiplicities: Any = 1) -> None:
        self.input_layer = one_of(str(input_layer), INPUT_LAYERS, "input_layer")
        self.output_layer = one_of(str(output_layer), OUTPUT_LAYERS, "output_layer")
        units = GroupLasso(groups)
        self.groups, self.gates, H = units.groups, len(units.groups), len(units.labels)
        m = as_positives(multiplicities, H, "multiplicities", "leave units without neurons out")
        self.multiplicities = np.broadcast_to(m, H)
        exponent, q = INPUT_LAYERS[self.input_layer]
        spectral = self.input_layer == "spectral"
        degree = 1 / q + 1 / OUTPUT_LAYERS[self.output_layer]
        if degree > 1 or (spectral and degree == 1):
            raise InputError(
                f"'{input_layer}' and '{output_layer}' induce a function of W that is not convex, so that no margin "
                "problem has this norm; choose another norm of one of the layers"
            )
        scales = self.multiplicities ** (degree - (0.5 if spectral else 1.0))
        if not spectral:
            self._form: _RowForm | _Operator = _RowForm(units, exponent, {1.0: 1, 0.5: 2, 0.0: inf}[degree], scales)
        else:
            self._form = (_TwoSumming if degree else _Operator)(units, scales)
        self.rotation_invariant = exponent == 2
        self.semidefinite = spectral

    def value(self, W: Array) -> float:
        """Norm ‖W‖, by the table above."""
        return self._form.value(self.of_gates(W))

    def dual(self, V: Array) -> float:
        """Dual norm of V (k, d): max ‖diag(v)V‖_* over ‖v‖ ≤ 1, with the dual ‖·‖_* of the input layer's norm."""
        return self._form.dual(self.of_gates(V))

    def _value_within(self, W: Array) -> float:
        return self._form._value_within(self.of_gates(W)) * (1 + 2 * self.rounding(*W.shape))

    def _dual_within(self, V: Array, error: Array) -> float:
        return self._form._dual_within(self.of_gates(V), error)

    def dual_bound(self, lengths: Array) -> float | None:
        """Upper bound of the dual norm for these row lengths; None if it grows with the number of inputs."""
        return self._form.dual_of_lengths(np.asarray(lengths), 1) if self.rotation_invariant else None

    def expression(self, W: cp.Expression) -> cp.Expression:
        """Norm ‖W‖ as a CVXPY expression."""
        return self._form.expression(W)

    def quadratic(self, W: cp.Expression) -> cp.Expression | None:
        """Square ‖W‖² as a CVXPY expression for "frobenius" with "l_inf" and "rows" with "l2", else None."""
        return self._form.quadratic(W)

    def group_form(self, k: int) -> GroupForm | None:
        """Return the group form of the norms Σ_h r_h and (Σ_h r_h²/m_h)^½ with r_h = ‖ζ_h‖₂; None for the others."""
        return self._form.group_form(k)

    def polyhedral_form(self, k: int) -> PolyhedralForm | None:
        """Return the polyhedral form of "entries" with "l_inf" or "l1", and of "l1"; None for the others."""
        return self._form.polyhedral_form(k)

    def spectral_form(self, k: int) -> SpectralForm | None:
        """Return the spectral form of "spectral"; None for the others."""
        return self._form.spectral_form(k)

    def __repr__(self) -> str:
        size = f"{len(self.multiplicities)} units, {self.gates} gates"
        return f"TwoLayerNorm({self.input_layer}, {self.output_layer}, {size})"


class _RowForm(Norm):
    """Norm ‖(c_h ‖ζ_h‖_q)_h‖_s, q = `row`, s = `outer`, c = `scales`; dual: ‖(‖V_h‖_q'/c_h)_h‖_s', 1/q + 1/q' = 1."""

    def __init__(self, units: GroupLasso, row: float, outer: float, scales: Array) -> None:
        self.units, self.row, self.outer, self.scales = units, row, outer, scales
        #: True if the norm is ‖diag(c)W‖_F.
        self.euclidean = row == outer == 2

    def value(self, W: Array) -> float:
        return _size(self.scales * self._sizes(W, self.row), self.outer)

    def dual(self, V: Array) -> float:
        return _size(self._sizes(V, CONJUGATE[self.row]) / self.scales, CONJUGATE[self.outer])

    def _value_within(self, W: Array) -> float:
        return self.value(W)

    def _dual_within(self, V: Array, error: Array) -> float:
        return self.dual(V) + self.dual_of_lengths(error, V.shape[1])

    def _sizes(self, W: Array, q: float) -> Array:
        """Return ‖ζ_h‖_q of all units, shape (H,)."""
        H, index = len(self.scales), self.units.index
        if q == 2:
            return self.units.group_norms(W)
        if q == 1:
            return np.asarray(np.bincount(index, np.abs(W).sum(axis=1), H), dtype=np.float64)
        sizes = np.zeros(H)
        np.maximum.at(sizes, index, np.abs(W).max(axis=1, initial=0.0))
        return sizes

    def dual_of_lengths(self, lengths: Array, d: int) -> float:
        """Upper bound of the dual norm of any V (k, d) with these row lengths."""
        return self.dual(lengths[:, None] * (np.sqrt(d) if self.row == inf else 1.0))

    def expression(self, W: cp.Expression) -> cp.Expression:
        rows = cp.norm(self.units.stacked(W), self.row if self.row < inf else "inf", axis=1)
        return cp.norm(cp.multiply(self.scales, rows), self.outer if self.outer < inf else "inf")

    def quadratic(self, W: cp.Expression) -> cp.Expression | None:
        return cp.sum_squares(sp.diags_array(self.scales[self.units.index]) @ W) if self.euclidean else None

    def group_form(self, k: int) -> GroupForm | None:
        if self.row != 2 or self.outer == inf:
            return None
        index = self.units.index
        return GroupForm(diagonal(1 / self.scales[index]), np.zeros_like(index) if self.euclidean else index)

    def polyhedral_form(self, k: int) -> PolyhedralForm | None:
        if 2 in (self.row, self.outer):
            return None
        index = self.units.index
        if self.row == self.outer:
            # One bound for all entries, or one sum of them.
            return PolyhedralForm(self.row == 1, np.zeros_like(index), self.scales[index], np.ones(1))
        costs = self.scales if self.outer == 1 else 1 / self.scales
        return PolyhedralForm(self.row == 1, index, np.ones(len(index)), costs)


def _size(values: Array, s: float) -> float:
    return float(length(values) if s == 2 else values.sum() if s == 1 else values.max())


class _Operator(Norm):
    """Norm ‖diag(c)W‖_op, c = `scales`, dual ‖diag(c)⁻¹V‖_*; row h of W as (H, D) has all weights of unit h."""

    def __init__(self, units: GroupLasso, scales: Array) -> None:
        if np.ptp(np.bincount(units.index)):
            raise InputError("for 'spectral' all units must have equally many gates; choose another norm")
        self.units, self.scales = units, scales
        #: Gates sorted by unit.
        self.order = np.argsort(units.index, kind="stable")
        #: Factor that bounds the effect of rounding the scaled entries: ‖·‖_* and ‖·‖_op are at most √H ‖·‖_F.
        self._rounded = 1 + share(4 * len(scales) + 4)

    def matrix(self, W: Array, scales: Array | float = 1.0) -> Array:
        return np.asarray(W[self.order].reshape(len(self.scales), -1) * np.reshape(scales, (-1, 1)))

    def value(self, W: Array) -> float:
        return float(np.linalg.norm(self.matrix(W, self.scales), 2))

    def dual(self, V: Array) -> float:
        return float(np.linalg.norm(self.matrix(V, 1 / self.scales), "nuc"))

    def _value_within(self, W: Array) -> float:
        return float(singular_bounds(self.matrix(W, self.scales)[None])[0][0]) * self._rounded

    def _dual_within(self, V: Array, error: Array) -> float:
        size = float(singular_bounds(self.matrix(V, 1 / self.scales)[None])[1][0]) * self._rounded
        return size + self.dual_of_lengths(error, V.shape[1])

    def dual_of_lengths(self, lengths: Array, d: int) -> float:
        """Upper bound of the dual norm of any V with these row lengths: the sum of the lengths of its rows."""
        return float((self.units.group_norms(lengths[:, None]) / self.scales).sum())

    def expression(self, W: cp.Expression) -> cp.Expression:
        return cp.sigma_max(sp.diags_array(self.scales) @ self.units.stacked(W))

    def group_form(self, k: int) -> GroupForm | None:
        bounds = self.spectral_form(k).bounds
        # The norm of one row is a multiple of its length.
        return GroupForm(diagonal(np.full(k, bounds[0, 0] ** 0.5)), np.zeros(k, int)) if len(bounds) == 1 else None

    def spectral_form(self, k: int) -> SpectralForm:
        return SpectralForm(self.order, 1 / self.scales[:, None] ** 2)


class _TwoSumming(_Operator):
    """The 2-summing norm ρ of W as a matrix (H, D), and its dual."""

    def value(self, W: Array) -> float:
        return rescaled(value_bound, self.matrix(W))

    def dual(self, V: Array) -> float:
        return rescaled(dual_bound, self.matrix(V))

    def _value_within(self, W: Array) -> float:
        return value_bound(self.matrix(W))

    def _dual_within(self, V: Array, error: Array) -> float:
        return dual_bound(self.matrix(V)) + self.dual_of_lengths(error, V.shape[1])

    def dual_of_lengths(self, lengths: Array, d: int) -> float:
        """Upper bound of the dual norm of any V with these row lengths: ‖V‖_F, because ρ(W) ≥ ‖W‖_F."""
        return float(length(lengths))

    def spectral_form(self, k: int) -> SpectralForm:
        return SpectralForm(self.order, np.eye(len(self.scales)))

    def expression(self, W: cp.Expression) -> cp.Expression:
        from implicit_bias.norms.two_summing_atom import TwoSummingAtom

        return TwoSummingAtom(self.units.stacked(W))
