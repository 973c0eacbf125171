"""Checks of user-defined norms: `value`, `dual` and `expression` are compared on matrices of many kinds."""

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from implicit_bias._utils.checks import Array, InputError
from implicit_bias._utils.scaling import length, without_exponent
from implicit_bias.features.base import Features
from implicit_bias.norms.base import Norm, known_of

#: Relative difference above which two numbers contradict each other.
SHARE = 1e-9
#: Number of weights up to which CVXPY maximises ⟨V, W⟩ over the unit ball when a problem is built.
BUILT = 200
#: The same for an answer.
ANSWERED = 500
#: Time limit of CVXPY's solver, in seconds.
SECONDS = 1.0
#: Number of weights up to which CVXPY computes a gradient, whose memory may grow as the square of their number.
DIFFERENTIATED = 5000


def check_norm(norm: Norm, features: Features) -> None:
    """Refuse a norm that contradicts itself on weights of all kinds, or on the rows of the features as V."""
    shape, rows = (features.k, features.d), np.unique(np.linspace(0, features.n - 1, 3).astype(int))
    of_features = [features.select([row]).adjoint([1.0]) for row in rows]
    of_features.append(features.select(rows).adjoint([1.0, -1.0, 1.0][: len(rows)]))
    if shape not in known_of(norm):
        _claim(norm, norm.expression(cp.Variable(shape)).is_convex(), "its expression is not convex by CVXPY's rules")
        for place, (W, V) in enumerate(zip(_samples(shape, 0), _samples(shape, 1), strict=True)):
            check_pair(norm, W, of_features[0] if norm.seminorm else V, BUILT if place in (0, 1, 4) else 0)
        _check_group_form(norm, shape)
        known_of(norm)[shape] = True
    for V in of_features:
        check_pair(norm, V, V, 0)


def check_pair(norm: Norm, W: Any, V: Any, solved: int = ANSWERED) -> None:
    """Refuse a norm that W and V (k, d) contradict; up to `solved` weights, CVXPY looks for a W that does."""
    W, V = (without_exponent(M if np.isfinite(M).all() else np.zeros(np.shape(M)))[0] for M in (W, V))
    if W.any():
        _check_value(norm, W, V)
    if norm.has_formula:
        for U, weights in ((_gradient(norm, W), [W]), (V, [W, *_dual_candidates(V), *_tight(norm, V, solved)])):
            if U.any():
                _check_dual(norm, U, weights)


def _claim(norm: Norm, holds: bool, text: str) -> None:
    if not holds:
        raise InputError(f"{norm!r}: {text}")


def _check_value(norm: Norm, W: Array, U: Array) -> None:
    """Check ‖2W‖ = 2‖W‖, ‖W + U‖ ≤ ‖W‖ + ‖U‖, and the value of the expression and for rotated inputs."""
    once, twice, minus = (norm.number("value", t * W) for t in (1, 2, -1))
    fine = np.isfinite(once) and np.isfinite(minus) and abs(twice - 2 * once) <= SHARE * twice
    rule = "‖2W‖ must be 2‖W‖, finite and not negative (for a square take its root)"
    _claim(norm, fine, f"it is no norm: {rule}, not {twice:.10g} where ‖W‖ is {once:.10g}")
    both, other = norm.number("value", W + U), norm.number("value", U)
    fine = both <= (once + other) * (1 + SHARE)
    _claim(norm, fine, f"it is no norm: ‖W + U‖ = {both:.10g} exceeds {once:.10g} + {other:.10g}")
    stated = norm.expression(cp.Constant(W)).value
    stated = once if stated is None else float(stated)
    fine = abs(stated - once) <= 1e3 * SHARE * once
    _claim(norm, fine, f"its `value` gives {once:.10g} where its `expression` is {stated:.10g}")
    if norm.rotation_invariant:
        normal = np.random.default_rng(3).normal(size=(W.shape[1],))
        mirrored = norm.number("value", W - 2 * np.outer(W @ normal, normal) / np.sum(normal**2))
        told = f"an orthogonal map of the inputs turns {once:.10g} into {mirrored:.10g}"
        fine = abs(mirrored - once) <= 1e3 * SHARE * once
        _claim(norm, fine, f"{told}; say rotation_invariant = False")


def _check_dual(norm: Norm, V: Array, weights: list[Array]) -> None:
    """Check ⟨V, W⟩ ≤ ‖V‖_*‖W‖, ‖2V‖_* = 2‖V‖_*, and `dual_bound`."""
    size, twice, bound = norm.number("dual", V), norm.number("dual", 2 * V), norm.dual_bound(length(V, axis=1))
    for W in weights:
        value, pairing, lost = norm.number("value", W), float(np.sum(V * W)), 1e-12 * float(np.sum(np.abs(V * W)))
        told = f"a V that a W of norm {1 if value else 0} pairs with to {pairing / (value or 1):.10g}"
        # Infinity times 0 contradicts nothing.
        fine = not pairing - lost > size * value * (1 + SHARE)
        _claim(norm, fine, f"its `dual` gives {size:.10g} for {told}; mend `dual`")
    fine = size == np.inf or abs(twice - 2 * size) <= SHARE * twice
    _claim(norm, fine, f"its `dual` gives {size:.10g} for V and {twice:.10g} for 2V; mend `dual`")
    bound = size if bound is None else bound
    _claim(norm, bound >= size * (1 - SHARE), f"its `dual_bound` gives {bound:.10g} where its `dual` is {size:.10g}")


def _check_group_form(norm: Norm, shape: tuple[int, int]) -> None:
    """Check ‖TŴ‖ ≤ Σ‖Ŵ_h‖, with equality if T has no null space."""
    form = norm.group_form(shape[0])
    if form is not None:
        k, size = form.expand.shape
        parts = np.random.default_rng(2).normal(size=(size, shape[1]))
        value = norm.number("value", form.expand @ parts)
        total = sum(float(length(parts[form.groups == group])) for group in np.unique(form.groups))
        alone = size <= k <= 500 and np.linalg.matrix_rank(form.expand.toarray()) == size
        fine = (1 - SHARE if alone else 0) * total <= value <= total * (1 + SHARE)
        _claim(norm, fine, f"its `group_form` gives {total:.10g} where its `value` is {value:.10g}")


def _samples(shape: tuple[int, int], seed: int) -> list[Array]:
    """Weights of many kinds: full, of one sign, sparse, of rank one, of sum 0, single rows, columns and entries."""
    rng = np.random.default_rng(seed)
    full = rng.normal(size=shape)
    found = [full, full * (rng.random(shape) < 0.3), np.abs(full), np.ones(shape), np.outer(full[:, 0], full[0])]
    row, column, entry = np.zeros((3, *shape))
    row[seed % shape[0]] = full[0]
    column[:, seed % shape[1]] = full[:, 0]
    entry[-1 - seed % shape[0], -1] = -1.0
    return [*found, full - full.mean(), row, column, entry, np.eye(*shape)]


def _dual_candidates(V: Array) -> Iterator[Array]:
    """Weights that are tight for V in one norm or another: of entries, rows, columns or singular values."""
    rows, columns = length(V, axis=1)[:, None], length(V, axis=0)
    yield from (V, np.sign(V), V * (np.abs(V) == np.abs(V).max()), V * (rows == rows.max()))
    yield from (V * (columns == columns.max()), V / np.where(rows, rows, 1.0), V / np.where(columns, columns, 1.0))
    if V.size * min(V.shape) <= 10_000_000:
        left, _, right = np.linalg.svd(V, full_matrices=False)
        yield from (left @ right, np.outer(left[:, 0], right[0]))


def _gradient(norm: Norm, W: Array) -> Array:
    """A V with ⟨V, W⟩ = ‖W‖ and ‖V‖_* = 1, by CVXPY; zeros if it has none or would take long."""
    if W.size > DIFFERENTIATED:
        return np.zeros(W.shape)
    X = cp.Variable(W.shape)
    X.value = W
    # Not every expression has a gradient, and computing it may fail.
    with contextlib.suppress(Exception):
        found = norm.expression(X).grad[X]
        V = np.asarray(found.toarray() if sp.issparse(found) else found, dtype=np.float64)
        return np.nan_to_num(V.reshape(W.shape, order="F"))
    return np.zeros(W.shape)


def _tight(norm: Norm, V: Array, solved: int) -> list[Array]:
    """The W of the largest ⟨V, W⟩ in the unit ball, as far as CLARABEL gets; its values are not used."""
    W = cp.Variable(V.shape)
    with warnings.catch_warnings(), contextlib.suppress(cp.SolverError):
        warnings.simplefilter("ignore")
        if V.size <= solved:
            ball = [norm.expression(W) <= 1, *norm.gauge(W)]
            cp.Problem(cp.Maximize(cp.sum(cp.multiply(V, W))), ball).solve(solver="CLARABEL", time_limit=SECONDS)
    return [] if W.value is None or not np.isfinite(W.value).all() else [W.value]
