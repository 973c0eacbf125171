"""Norm of a gated linear network's predictors."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from implicit_bias._utils.checks import Array, as_count
from implicit_bias._utils.floats import length
from implicit_bias._utils.lazy import cp
from implicit_bias.features import Features
from implicit_bias.norms.base import GroupForm
from implicit_bias.norms.group import EuclideanNorm


class PredictorL2(EuclideanNorm):
    """L2 norm of a GLN's predictors as a function of ζ: the norm of SVM-L2.

        ‖ζ‖ = ‖Aζ‖_F,   A = J/√(HK) − Q/√K + √K·I,   ‖β‖₂ = K^{(H−2)/2} ‖Aζ‖_F

    β contains β_γ = Σ_h ζ_{h,γ_h} for all K^H global contexts γ. J is the matrix of ones, and Q = I_H ⊗ 1_{K×K}. A is
    the symmetric square root of M = K·I + J − Q; the published eq. 23, J/(HK) − Q + K·I, is not. The norm is a
    seminorm: adding c_h to the rows of each unit h, with Σ c_h = 0, does not change it. It is computed as ‖Bζ‖_F with
    a sparse B of full row rank, BᵀB = M: √K times the Helmert contrasts of each unit, and a row of ones.

    Parameters
    ----------
    units, contexts : int
        H units with K ≥ 1 contexts each; W has H·K rows, with context c of unit h in row hK + c.

    Raises
    ------
    InputError
        If `units` or `contexts` is not a positive integer.

    Examples
    --------
    >>> import numpy as np
    >>> from implicit_bias import PredictorL2
    >>> norm = PredictorL2(units=2, contexts=2)
    >>> zeta = np.array([[1.0], [2.0], [4.0], [8.0]])
    >>> beta = np.array([1 + 4, 1 + 8, 2 + 4, 2 + 8])
    >>> bool(np.isclose(norm.value(zeta), np.linalg.norm(beta)))
    True
    """

    made_of = ("units", "contexts")
    verified = True

    def __init__(self, units: int, contexts: int) -> None:
        self.units = as_count(units, "units")
        self.contexts = as_count(contexts, "contexts")
        self.seminorm = self.units > 1
        self.gates = self.units * self.contexts

    def refusal(self, features: Features) -> str | None:
        """Explain why the norm does not support these features; None if each sample has the same gate sum in all units.

        One-hot contexts have equal sums. Else margins depend on the null space of the norm, and the optimum is 0.
        """
        reason = "it is for one-hot contexts: gate values whose sum is exactly the same in every unit"
        if features.gate_values is None:
            return reason
        parts = features.gate_values.reshape(features.n, self.units, -1)
        if not (parts % 1).any() and np.abs(parts).max() < 2**30:
            return reason if np.ptp(parts.sum(axis=2), axis=1).any() else None
        # Sums of fractions are rounded, but fsum returns 0 only if the exact sum is below the smallest float.
        differences = np.concatenate([parts[:, 1:], -parts[:, :-1]], axis=2).reshape(-1, 2 * self.contexts)
        return reason if any(math.fsum(difference) != 0 for difference in differences) else None

    @cached_property
    def factor(self) -> sp.csr_array:
        """Factor B of M = BᵀB = K·I + J − Q, shape (H(K−1)+1, HK), of full row rank; BBᵀ = diag(K, …, K, HK)."""
        helmert = scipy.linalg.helmert(self.contexts) if self.contexts > 1 else np.zeros((0, 1))
        within = np.sqrt(self.contexts) * sp.kron(sp.eye_array(self.units), helmert)
        return sp.csr_array(sp.vstack([within, np.ones((1, self.units * self.contexts))]))

    @cached_property
    def _squares(self) -> Array:
        """Diagonal of BBᵀ, as a column."""
        squares = np.full((self.factor.shape[0], 1), float(self.contexts))
        squares[-1] = self.units * self.contexts
        return squares

    def mapped(self, W: Any) -> Any:
        """Return Bζ."""
        return self.factor @ W

    def dual(self, V: Array) -> float:
        """Dual norm ‖A⁺V‖_F if V is in the range of A, as Φᵀa of one-hot gates is, else infinity.

        V is projected onto the range if its relative distance from it is at most 1e-9.
        """
        U, outside = self._projected(self.of_gates(V))
        return float(length(U)) if outside <= 1e-9 * length(V) else np.inf

    def _projected(self, V: Array) -> tuple[Array, float]:
        """Return U = (BBᵀ)⁻¹BV, with ‖U‖_F = ‖A⁺V‖_F, and the distance ‖V − BᵀU‖_F of V from the range."""
        U = (self.factor @ V) / self._squares
        return U, float(length(V - self.factor.T @ U))

    def _value_within(self, W: Array) -> float:
        # Because of cancellation the rounding error is relative to ‖|B||ζ|‖_F.
        lost = self.rounding(*W.shape) * length(np.abs(self.factor) @ np.abs(self.of_gates(W)))
        return float(super()._value_within(W) + 2 * lost)

    def dual_bound(self, lengths: Array) -> float:
        """Upper bound of ‖A⁺V‖_F for these row lengths: ‖lengths‖₂/√K, or ‖lengths‖₂/√H for K = 1.

        It holds because (BBᵀ)^(−1/2)B has orthonormal rows. For K > 1 it is tight up to a factor of √2.
        """
        return float(length(lengths)) / float(np.sqrt(self._squares.min()))

    def _dual_within(self, V: Array, error: Array) -> float:
        # Only V′ in the range have a finite dual norm: ‖A⁺V′‖ ≤ ‖A⁺V‖ + ‖A⁺(V′ − V)‖ = ‖U‖ + …, by `dual_bound`.
        V = self.of_gates(V)
        U, outside = self._projected(V)
        share, sizes = 2 * self.rounding(*V.shape), (np.abs(self.factor) @ np.abs(V)) / self._squares
        if outside > (1 + share) * length(error) + share * (length(V) + length(np.abs(self.factor).T @ sizes)):
            return np.inf
        return float(length(U) + share * length(sizes)) + self.dual_bound(error)

    def gauge(self, W: cp.Expression) -> list[cp.Constraint]:
        """Constraints Σ_c ζ_hc = Σ_c ζ_1c for all units h, without which interior-point systems are singular."""
        if self.units == 1:
            return []
        sums = sp.kron(sp.eye_array(self.units), np.ones((1, self.contexts)), format="csr")
        return [(sums[1:] - sums[:-1]) @ W == 0]

    def group_form(self, k: int) -> GroupForm:
        """Return the group form with one group, Ŵ = BW, where W = Bᵀ(BBᵀ)⁻¹Ŵ up to a part that changes no margin."""
        expand = sp.csr_array((self.factor / self._squares).T)
        return GroupForm(expand, np.zeros(expand.shape[1], dtype=np.int64))

    def __repr__(self) -> str:
        return f"PredictorL2(units={self.units}, contexts={self.contexts})"
