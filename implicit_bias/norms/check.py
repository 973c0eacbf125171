"""Checks of user-defined norms: `value`, `dual` and `expression` are compared for many kinds of matrices."""

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from implicit_bias._utils.checks import Array, InputError
from implicit_bias._utils.floats import length, without_exponent
from implicit_bias.features.base import Features
from implicit_bias.norms.base import Norm, cache_of

#: Relative difference above which two numbers contradict each other.
RTOL = 1e-9
#: Number of weights up to which CVXPY maximises ⟨V, W⟩ over the unit ball when a problem is built.
MAX_SOLVED_WHEN_BUILT = 200
#: Number of weights up to which it does so when a problem has been solved.
MAX_SOLVED_AT_ANSWER = 500
#: Time limit of CVXPY's solver, in seconds.
MAX_SECONDS = 1.0
#: Number of weights up to which CVXPY computes a gradient, which may need memory for their number squared.
MAX_DIFFERENTIATED = 5000


def check_norm(norm: Norm, features: Features) -> None:
    """Raise InputError if a norm contradicts itself on sample matrices, or with rows of the features as V.

    The sample matrices, the convexity of the expression and the forms are checked once per norm and shape.
    """
    shape, rows = (features.k, features.d), np.unique(np.linspace(0, features.n - 1, 3).astype(int))
    of_features = [features.select([row]).adjoint([1.0]) for row in rows]
    of_features.append(features.select(rows).adjoint([1.0, -1.0, 1.0][: len(rows)]))
    if shape not in cache_of(norm):
        _claim(norm, norm.expression(cp.Variable(shape)).is_convex(), "its expression is not convex by CVXPY's rules")
        for place, (W, V) in enumerate(zip(_samples(shape, 0), _samples(shape, 1), strict=True)):
            max_solved = MAX_SOLVED_WHEN_BUILT if place in (0, 1, 4) else 0
            check_pair(norm, W, of_features[0] if norm.seminorm else V, max_solved)
        _check_forms(norm, shape)
        cache_of(norm)[shape] = True
    for V in of_features:
        check_pair(norm, V, V, 0)


def check_pair(norm: Norm, W: Any, V: Any, max_solved: int = MAX_SOLVED_AT_ANSWER) -> None:
    """Raise InputError if weights W and a dual matrix V, each (k, d), contradict `value`, `dual` or `expression`.

    If k·d ≤ `max_solved`, CVXPY also maximises ⟨V, W⟩ over ‖W‖ ≤ 1, and the result must not exceed `dual`.
    """
    W, V = (without_exponent(M if np.isfinite(M).all() else np.zeros(np.shape(M)))[0] for M in (W, V))
    if W.any():
        _check_value(norm, W, V)
    if norm.has_formula:
        for U, weights in ((_gradient(norm, W), [W]), (V, [W, *_dual_candidates(V), *_maximiser(norm, V, max_solved)])):
            if U.any():
                _check_dual(norm, U, weights)


def _claim(norm: Norm, holds: bool, text: str) -> None:
    if not holds:
        raise InputError(f"{norm!r}: {text}")


def _claim_form(norm: Norm, holds: bool, form: str, stated: float, value: float) -> None:
    _claim(norm, holds, f"its `{form}` gives {stated:.10g}, but its `value` is {value:.10g}; correct one of them")


def _check_value(norm: Norm, W: Array, U: Array) -> None:
    """Check ‖2W‖ = 2‖W‖, ‖W + U‖ ≤ ‖W‖ + ‖U‖, the value of the expression, and rotation invariance, if claimed."""
    once, twice, minus = (norm.number("value", t * W) for t in (1, 2, -1))
    valid = np.isfinite(once) and np.isfinite(minus) and abs(twice - 2 * once) <= RTOL * twice
    rule = "‖2W‖ must be 2‖W‖, finite and not negative (for a square take its root)"
    _claim(norm, valid, f"it is not a norm: {rule}, not {twice:.10g} for ‖W‖ = {once:.10g}")
    both, other = norm.number("value", W + U), norm.number("value", U)
    valid = both <= (once + other) * (1 + RTOL)
    _claim(norm, valid, f"it is not a norm: ‖W + U‖ = {both:.10g} exceeds {once:.10g} + {other:.10g}")
    stated = norm.expression(cp.Constant(W)).value
    stated = once if stated is None else float(stated)
    valid = abs(stated - once) <= 1e3 * RTOL * once
    _claim(norm, valid, f"its `value` gives {once:.10g}, but its `expression` gives {stated:.10g}; correct one of them")
    if norm.rotation_invariant:
        normal = np.random.default_rng(3).normal(size=(W.shape[1],))
        mirrored = norm.number("value", W - 2 * np.outer(W @ normal, normal) / np.sum(normal**2))
        change = f"an orthogonal map of the inputs changes its value from {once:.10g} to {mirrored:.10g}"
        valid = abs(mirrored - once) <= 1e3 * RTOL * once
        _claim(norm, valid, f"{change}; set rotation_invariant = False")


def _check_dual(norm: Norm, V: Array, weights: list[Array]) -> None:
    """Check ⟨V, W⟩ ≤ ‖V‖_*‖W‖ for each W of `weights`, ‖2V‖_* = 2‖V‖_*, and `dual_bound` ≥ ‖V‖_*."""
    size, twice, bound = norm.number("dual", V), norm.number("dual", 2 * V), norm.dual_bound(length(V, axis=1))
    for W in weights:
        value, pairing, lost = norm.number("value", W), float(np.sum(V * W)), 1e-12 * float(np.sum(np.abs(V * W)))
        proof = f"⟨V, W⟩ = {pairing / (value or 1):.10g} for a W with ‖W‖ = {1 if value else 0}"
        # The comparison is False if size · value is NaN, that is infinity times 0, which is no contradiction.
        valid = not pairing - lost > size * value * (1 + RTOL)
        _claim(norm, valid, f"its `dual` of a V is {size:.10g}, but {proof}; correct `dual`")
    valid = size == np.inf or abs(twice - 2 * size) <= RTOL * twice
    _claim(norm, valid, f"its `dual` gives {size:.10g} for V and {twice:.10g} for 2V; correct `dual`")
    bound = size if bound is None else bound
    text = f"its `dual_bound` gives {bound:.10g}, which is below its `dual` {size:.10g}; correct `dual_bound`"
    _claim(norm, bound >= size * (1 - RTOL), text)


def _check_forms(norm: Norm, shape: tuple[int, int]) -> None:
    """Check the value of forms at random weights: for groups ‖TŴ‖ ≤ Σ_h ‖Ŵ_h‖, with equality if T has no null space."""
    form, polyhedral = norm.group_form(shape[0]), norm.polyhedral_form(shape[0])
    if form is not None:
        k, size = form.expand.shape
        parts = np.random.default_rng(2).normal(size=(size, shape[1]))
        value = norm.number("value", form.expand @ parts)
        total = sum(float(length(parts[form.groups == group])) for group in np.unique(form.groups))
        unique = size <= k <= 500 and np.linalg.matrix_rank(form.expand.toarray()) == size
        valid = (1 - RTOL if unique else 0) * total <= value <= total * (1 + RTOL)
        _claim_form(norm, valid, "group_form", total, value)
    if polyhedral is not None:
        W = np.random.default_rng(4).normal(size=shape)
        value, stated = norm.number("value", W), polyhedral.value(W)
        _claim_form(norm, abs(stated - value) <= RTOL * value, "polyhedral_form", stated, value)


def _samples(shape: tuple[int, int], seed: int) -> list[Array]:
    rng = np.random.default_rng(seed)
    full = rng.normal(size=shape)
    samples = [full, full * (rng.random(shape) < 0.3), np.abs(full), np.ones(shape), np.outer(full[:, 0], full[0])]
    row, column, entry = np.zeros((3, *shape))
    row[seed % shape[0]] = full[0]
    column[:, seed % shape[1]] = full[:, 0]
    entry[-1 - seed % shape[0], -1] = -1.0
    return [*samples, full - full.mean(), row, column, entry, np.eye(*shape)]


def _dual_candidates(V: Array) -> Iterator[Array]:
    """Yield weights that attain the dual norm of V for norms of entries, rows, columns or singular values."""
    rows, columns = length(V, axis=1)[:, None], length(V, axis=0)
    yield from (V, np.sign(V), V * (np.abs(V) == np.abs(V).max()), V * (rows == rows.max()))
    yield from (V * (columns == columns.max()), V / np.where(rows, rows, 1.0), V / np.where(columns, columns, 1.0))
    if V.size * min(V.shape) <= 10_000_000:
        left, _, right = np.linalg.svd(V, full_matrices=False)
        yield from (left @ right, np.outer(left[:, 0], right[0]))


def _gradient(norm: Norm, W: Array) -> Array:
    """Return a subgradient V (k, d) of the norm at W by CVXPY; zeros if W is too large or differentiation fails."""
    if W.size > MAX_DIFFERENTIATED:
        return np.zeros(W.shape)
    X = cp.Variable(W.shape)
    X.value = W
    # Some expressions have no gradient, and CVXPY raises various exceptions for them.
    with contextlib.suppress(Exception):
        gradient = norm.expression(X).grad[X]
        V = np.asarray(gradient.toarray() if sp.issparse(gradient) else gradient, dtype=np.float64)
        return np.nan_to_num(V.reshape(W.shape, order="F"))
    return np.zeros(W.shape)


def _maximiser(norm: Norm, V: Array, max_solved: int) -> list[Array]:
    """Maximise ⟨V, W⟩ over the unit ball with CLARABEL; return W in a list, which is empty without a result."""
    W = cp.Variable(V.shape)
    with warnings.catch_warnings(), contextlib.suppress(cp.SolverError):
        warnings.simplefilter("ignore")
        if V.size <= max_solved:
            ball = [norm.expression(W) <= 1, *norm.gauge(W)]
            cp.Problem(cp.Maximize(cp.sum(cp.multiply(V, W))), ball).solve(solver="CLARABEL", time_limit=MAX_SECONDS)
    return [] if W.value is None or not np.isfinite(W.value).all() else [W.value]
