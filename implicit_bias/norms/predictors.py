"""Linear predictors of a gated linear network in its global contexts: their norm, and which can be chosen freely."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import ArrayLike

from implicit_bias._utils.checks import Array, InputError, as_count, as_floats, check_size
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


def global_predictors(zeta: ArrayLike, units: int) -> Array:
    """Return the predictors of all global contexts: f(x; γ) = ⟨β_γ, x⟩ with β_γ = Σ_h ζ_{h,γ_h}.

    The predictors are dependent: the difference that a change of some units' contexts makes does not depend on the
    contexts of the other units (Lemma B.6, where condition 2 must read γ_h). For H = K = 2 this means
    β₂₁ − β₂₂ = β₁₁ − β₁₂ (eq. 16).

    Parameters
    ----------
    zeta : array, shape (H·K, d)
        ζ_hc = w⁽²⁾_h w⁽¹⁾_hc (eq. 17) in row hK + c: the `effective_weights()` of a `GatedLinearNetwork`.
    units : int
        H, at most 31.

    Returns
    -------
    array, shape (K, …, K, d)
        β, with one axis per unit.

    Raises
    ------
    InputError
        If the array is invalid, its number of rows is not a multiple of H, H > 31, or β is too large for the memory.

    References
    ----------
    Lippl, Abbott & Chung, eqs 15 and 20, section B.2.1.

    Examples
    --------
    >>> from implicit_bias.norms import global_predictors
    >>> beta = global_predictors([[1.0], [2.0], [4.0], [8.0]], units=2)[:, :, 0]
    >>> beta.tolist(), bool(beta[1, 0] - beta[1, 1] == beta[0, 0] - beta[0, 1])
    ([[5.0, 9.0], [6.0, 10.0]], True)
    """
    zeta = as_floats(zeta, "zeta", 2)
    # NumPy 1 supports at most 32 axes.
    units = as_count(units, "units", most=31)
    if len(zeta) % units:
        raise InputError(f"zeta has {len(zeta)} rows, which is not a multiple of the {units} units; give K per unit")
    contexts, d = len(zeta) // units, zeta.shape[1]
    check_size(contexts**units * d, "the predictors of all global contexts")
    beta = np.zeros(d)
    for h, rows in enumerate(zeta.reshape(units, contexts, d)):
        beta = beta + rows.reshape(*[1] * h, contexts, *[1] * (units - h - 1), d)
    return beta


def free_contexts(units: int, contexts: int) -> np.ndarray:
    """Return global contexts whose predictors can be chosen freely and determine all others (Lemma B.7).

        Γ̄ = {γ: at most one γ_h differs from the first context},   |Γ̄| = (K − 1)H + 1

    Parameters
    ----------
    units, contexts : int
        H and K.

    Returns
    -------
    array of int, shape ((K − 1)H + 1, H)
        The γ, counted from 0: first (0, …, 0), then γ_h = 1 … K − 1 for each unit h in turn.

    Raises
    ------
    InputError
        If a number is not a positive integer.

    References
    ----------
    Lippl, Abbott & Chung, Lemma B.7.

    Examples
    --------
    >>> from implicit_bias.norms import free_contexts
    >>> free_contexts(units=2, contexts=3).tolist()
    [[0, 0], [1, 0], [2, 0], [0, 1], [0, 2]]
    """
    units, contexts = as_count(units, "units"), as_count(contexts, "contexts")
    check_size(((contexts - 1) * units + 1) * units, "the free contexts")
    changed = np.kron(np.eye(units, dtype=np.int64), np.arange(1, contexts)[:, None])
    return np.vstack([np.zeros((1, units), dtype=np.int64), changed])


def weights_of_predictors(predictors: ArrayLike, units: int) -> Array:
    """Return weights ζ that have given predictors in the `free_contexts`.

        ζ_11 = β_{γ1},   ζ_1c = β_{γc1},   ζ_h1 = 0,   ζ_hc = β_{γch} − β_{γ1}   for h, c > 1

    γ1 consists of the first context of every unit; in γch, unit h has the context c instead.

    Parameters
    ----------
    predictors : array, shape ((K − 1)H + 1, d)
        β in the order of `free_contexts`.
    units : int
        The number H of units.

    Returns
    -------
    array, shape (H·K, d)
        ζ_hc in row hK + c: the weights w⁽¹⁾ for w⁽²⁾ = 1. Adding c_h to all rows of each unit h, with Σ_h c_h = 0,
        does not change the predictors.

    Raises
    ------
    InputError
        If the array is invalid, or its number of rows is not (K − 1)H + 1.

    References
    ----------
    Lippl, Abbott & Chung, Lemma B.7, eq. 49.

    Examples
    --------
    >>> from implicit_bias.norms import global_predictors, weights_of_predictors
    >>> global_predictors(weights_of_predictors([[5.0], [6.0], [9.0]], units=2), units=2)[:, :, 0].tolist()
    [[5.0, 9.0], [6.0, 10.0]]
    """
    beta, units = as_floats(predictors, "predictors", 2), as_count(units, "units")
    if (len(beta) - 1) % units:
        raise InputError(
            f"{len(beta)} predictors are not (K − 1)H + 1 for H = {units} units and an integer K; give one for each of "
            "the free_contexts"
        )
    d = beta.shape[1]
    zeta = np.zeros((units, (len(beta) - 1) // units + 1, d))
    zeta[:, 1:] = (beta[1:] - beta[0]).reshape(units, -1, d)
    zeta[0, 0], zeta[0, 1:] = beta[0], beta[1 : zeta.shape[1]]
    return zeta.reshape(-1, d)
