"""Branch and bound for max_s min_t ‖Σ_i s_i a_i − Σ_j t_j b_j‖ over s ∈ {0, 1}^m and t ∈ [0, 1]^k.

A node fixes s_i for some samples, S = {i: s_i = 1}, and leaves the samples U free. The bound of a node restricts t to
an affine rule, t(s) = t' + P_Uᵀ s_U, with P ≥ 0 and 0 ≤ t'_j ≤ 1 − Σ_{i ∈ U} P_ij. With r_i = a_i − Σ_j P_ij b_j,

    max_s min_t ‖Σ_S a_i + Σ_U s_i a_i − Σ_j t_j b_j‖ ≤ min_t' max_σ ‖f_0 + ½ Σ_U σ_i r_i‖,
    f_0 = Σ_S a_i + ½ Σ_U r_i − Σ_j t'_j b_j,

over σ ∈ [−1, 1]^U. `SignBound` bounds the right-hand side by a semidefinite relaxation. This method is ours.
"""

import math
from collections.abc import Callable

import numpy as np

from implicit_bias._utils.checks import Array
from implicit_bias._utils.floats import TINY, length
from implicit_bias.extensions.best_networks.relu.relaxation import SignBound
from implicit_bias.norms.two_summing import solve_max_cut_relaxation

#: Sweeps of coordinate descent over t' on each level, warm-started from the level above.
SWEEPS = 4
#: Relaxations solved on each level; each solution bounds all nodes of the level.
RELAXATIONS_PER_LEVEL = 16
#: Relative accuracy of the relaxations in the branch and bound.
NODE_ACCURACY = 1e-7
#: Relative accuracy of the relaxations that fit the affine rule.
RULE_ACCURACY = 1e-5
#: Steps of accelerated descent that fit the affine rule.
MAX_RULE_STEPS = 600
#: Steps over which the descent must gain `MIN_GAIN`, or it stops.
STALL_STEPS = 20
#: Least gain over `STALL_STEPS`, relative to the value.
MIN_GAIN = 1e-3
#: Budget of a fit or a search: the sum of m³ over all relaxations. The limits above need less up to m = 180.
BUDGET = 4e9
#: Units drawn by randomised rounding of the last relaxation of the affine rule.
DRAWS = 100
#: Samples b_j with ‖b_j‖² at most this share of ‖A‖² are left out of the affine rule, which they cannot improve.
NEGLIGIBLE_SQUARE = 1e-24


def branch_and_bound(
    A: Array, B: Array, P: Array, target: float, nodes: int, late: Callable[[], bool] = bool
) -> tuple[np.ndarray, float]:
    """Return masks (N, m) of the subsets S whose bound exceeds `target`, and the largest bound of all other subsets.

    A (m, r) and B (k, r) contain the rows a_i and b_j, and P (m, k) is the affine rule. Each level branches on one more
    sample, the longest r_i = a_i − Σ_j P_ij b_j first, and keeps the `nodes` nodes with the largest bounds. Discarded
    nodes, and all nodes once `late()` is True, count as other subsets, so that the largest bound can exceed the target.
    It is 0 if there are no other subsets.
    """
    residuals = A - P @ B
    order = np.argsort(-length(residuals, axis=1))
    subsets, discarded, t = np.zeros((1, len(A)), dtype=bool), 0.0, np.zeros((1, len(B)))
    multipliers: list[Array] = []
    budget = BUDGET
    for depth in range(len(A) + 1):
        free = order[depth:]
        cost = (len(free) + 1) ** 3
        relaxations = min(RELAXATIONS_PER_LEVEL, int(budget / cost))
        budget -= relaxations * cost
        sums = subsets @ A + 0.5 * residuals[free].sum(axis=0)
        t = coordinate_descent(sums, B, t, SWEEPS, np.maximum(1.0 - P[free].sum(axis=0), 0.0), late=late)
        bounds, multipliers = _node_bounds(sums - t @ B, 0.5 * residuals[free], multipliers, relaxations, target, late)
        if late():
            return subsets[:0], max([discarded, *bounds.tolist()])
        best = np.argsort(-bounds, kind="stable")
        chosen = best[: min(nodes, int((bounds > target).sum()))]
        discarded = max([discarded, *bounds[best[len(chosen) :][:1]].tolist()])
        subsets, t = subsets[chosen], t[chosen]
        if not len(chosen) or not len(free):
            break
        subsets, t, multipliers = np.repeat(subsets, 2, axis=0), np.repeat(t, 2, axis=0), [d[1:] for d in multipliers]
        subsets[1::2, free[0]] = True
    return subsets, discarded


def _node_bounds(
    f: Array, F: Array, given: list[Array], relaxations: int, target: float, late: Callable[[], bool]
) -> tuple[Array, list[Array]]:
    """Bound max ‖f_0 + Σ_i σ_i F_i‖ over σ ∈ [−1, 1]^m for each row f_0 of f (N, r), with F (m, r), from above.

    Each bound (N,) is the least of those by the triangle inequality, by each of the `given` multipliers d (m,), and by
    at most `relaxations` relaxations of the rows with the largest bounds, until `late()` is True. Also return a list of
    the multipliers d (m,) that give the least bound of some row above `target`.
    """
    candidates, multipliers = [length(f, axis=1) + length(F, axis=1).sum()], [np.zeros(0)]
    for d in given if len(F) else []:
        if late():
            break
        candidates.append(SignBound(F, d)(f))
        multipliers.append(d)
    bounds, solved = np.min(candidates, axis=0), np.zeros(len(f), dtype=bool)
    for _ in range(relaxations if len(F) else 0):
        worst = int(np.where(solved, 0.0, bounds).argmax())
        if solved[worst] or bounds[worst] <= target or late():
            break
        solved[worst] = True
        rows = np.vstack([f[worst], F])
        multipliers.append(solve_max_cut_relaxation(rows @ rows.T, NODE_ACCURACY, late)[0][1:])
        candidates.append(SignBound(F, multipliers[-1])(f))
        bounds = np.minimum(bounds, candidates[-1])
    return bounds, [multipliers[i] for i in np.unique(np.argmin(candidates, axis=0)[bounds > target]) if i]


def fit_affine_rule(
    A: Array, B: Array, draws: int, rng: np.random.Generator, late: Callable[[], bool] = bool
) -> tuple[Array, Array]:
    """Return P ≥ 0 (m, k) of an affine rule for which the relaxation of the root node is small, and units (draws, r).

    No column of P sums to more than 1. The relaxation is convex in P and t', and its gradient is that of ⟨FFᵀ, X⟩ at
    the optimal X. Accelerated projected gradient descent minimises it, with steps scaled by ‖b_j‖². The units are sums
    of the rows of F with weights drawn from N(0, X): randomised rounding, as for the maximum cut. Once `late()` is
    True, P is the best so far, and the units are empty (0, r).
    """
    squares = (B**2).sum(axis=1)
    some = squares > NEGLIGIBLE_SQUARE * np.linalg.norm(A, 2) ** 2
    rule = np.zeros((1 + len(A), len(B)))
    if some.any() and not late():
        rule[:, some] = _minimise_relaxation(A, B[some], squares[some], late)
    # The projection caps the sums only up to rounding.
    P = rule[1:] / np.maximum(rule[1:].sum(axis=0), 1.0)
    # An r_i longer than a_i would loosen the bound, so its row of P is shortened to the best multiple.
    subtracted = P @ B
    longer = length(A - subtracted, axis=1) > length(A, axis=1)
    multiples = (A * subtracted).sum(axis=1) / np.maximum((subtracted**2).sum(axis=1), TINY)
    P[longer] *= np.clip(multiples, 0.0, 1.0)[longer, None]
    if late():
        return P, np.zeros((0, A.shape[1]))
    F = _root_rows(rule, A, B)
    eigenvalues, axes = np.linalg.eigh(solve_max_cut_relaxation(F @ F.T, RULE_ACCURACY, late)[1])
    return P, (rng.normal(size=(draws, len(F))) * np.sqrt(np.maximum(eigenvalues, 0.0))) @ axes.T @ F


def _minimise_relaxation(A: Array, B: Array, squares: Array, late: Callable[[], bool]) -> Array:
    """Return t' and P, stacked (1 + m, k), of a rule with a nearly least root relaxation; `squares` (k,) are ‖b_j‖²."""
    sizes = length(A, axis=1)
    rule = before = moved = np.vstack([np.zeros(len(B)), np.repeat((sizes / sizes.sum())[:, None], len(B), axis=1)])
    curvature, momentum = float(np.linalg.norm(B / np.sqrt(squares)[:, None], 2)) ** 2, 1.0
    value, slope = _root_relaxation(moved, A, B, late)
    values = [value]
    while len(values) < min(MAX_RULE_STEPS, BUDGET / (len(A) + 1) ** 3):
        rule = _project(moved - slope / (curvature * squares))
        change = rule - moved
        new, _ = _root_relaxation(rule, A, B, late)
        if late():
            # This relaxation may not be solved.
            return before
        model = value + (slope * change).sum() + curvature / 2 * (change**2 * squares).sum()
        if new > model + RULE_ACCURACY * value:
            curvature *= 2
            continue
        if new > values[-1]:
            # The momentum overshot: restart it from the last iterate.
            rule, new, momentum = before, values[-1], 1.0
        values.append(new)
        if len(values) > STALL_STEPS and values[-STALL_STEPS] - new <= MIN_GAIN * new:
            break
        momentum, last = (1 + math.sqrt(1 + 4 * momentum**2)) / 2, momentum
        moved, before, curvature = rule + (last - 1) / momentum * (rule - before), rule, 0.9 * curvature
        value, slope = _root_relaxation(moved, A, B, late)
    return rule


def _root_rows(rule: Array, A: Array, B: Array) -> Array:
    """Return F (1 + m, r), the rows f_0 and ½ r_i, of the root node, for t' and P stacked in `rule` (1 + m, k)."""
    r = A - rule[1:] @ B
    return np.vstack([0.5 * r.sum(axis=0) - rule[0] @ B, 0.5 * r])


def _root_relaxation(rule: Array, A: Array, B: Array, late: Callable[[], bool]) -> tuple[float, Array]:
    """Return Σd of the relaxation of the root node, and its gradient with respect to t' and P, stacked (1 + m, k)."""
    F = _root_rows(rule, A, B)
    d, X = solve_max_cut_relaxation(F @ F.T, RULE_ACCURACY, late)
    G = X @ F
    return float(d.sum()), -np.vstack([2 * G[:1], G[1:] + G[0]]) @ B.T


def _project(Y: Array) -> Array:
    """Project each column of Y to the vectors y ≥ 0 with Σ y_i ≤ 1."""
    largest = -np.sort(-Y, axis=0)
    excess = (np.cumsum(largest, axis=0) - 1) / np.arange(1, len(Y) + 1)[:, None]
    last = np.maximum((largest > excess).sum(axis=0) - 1, 0)
    return np.maximum(Y - np.maximum(excess[last, np.arange(Y.shape[1])], 0.0), 0.0)


def coordinate_descent(
    sums: Array, B: Array, start: Array, sweeps: int, upper: Array, tol: float = 0.0, late: Callable[[], bool] = bool
) -> Array:
    """Decrease ‖c − Σ_j t_j b_j‖ over 0 ≤ t ≤ `upper` (k,) for each row c of `sums` (N, r); return t (N, k).

    The descent starts from t = `start` (N, k) and ends after `sweeps` sweeps over j, after one that changes no t_j by
    `tol` or more, or once `late()` is True.
    """
    t, squares = start.copy(), (B**2).sum(axis=1)
    residuals = sums - t @ B
    squares[squares == 0] = 1.0
    for _ in range(sweeps if len(B) else 0):
        largest = 0.0
        for j, b in enumerate(B):
            step = np.clip(t[:, j] + residuals @ b / squares[j], 0.0, upper[j]) - t[:, j]
            t[:, j] += step
            residuals -= step[:, None] * b
            largest = max(largest, float(np.abs(step).max(initial=0.0)))
        if largest < tol or late():
            break
    return np.clip(t, 0.0, upper)
