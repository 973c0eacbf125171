"""Linear predictors of a two-layer GLN in its global contexts, and which of them can be chosen freely."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from implicit_bias._utils.checks import Array, InputError, as_count, as_floats, check_size


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
