"""Dual norm of a ReLU unit: the pricing problem of `best_network`, solved as a distance between two zonotopes.

For λ ≥ 0, the dual correlation of a unit u is

    h(u) = Σ_i λ_i y_i (⟨u, x_i⟩)_+ = h_Z+(u) − h_Z−(u),   Z± = Σ_{y_i = ±1} λ_i [0, x_i],

the difference of the support functions of two zonotopes. The dual norm, max |h(u)| over ‖u‖ ≤ 1, is their Hausdorff
distance: the larger of two directed distances. By duality, one of them is

    max_u h(u) = max_S min_{t ∈ [0, 1]^−} ‖Σ_{i ∈ S} λ_i x_i − Σ_j t_j λ_j x_j‖

over all subsets S of the positive samples. S need not be the pattern of a unit, since (z)_+ = max(z, 0). Any t yields
an upper bound for its S. This method is ours; docs/best.md has the proofs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import lsq_linear

from implicit_bias._utils.checks import Array, InputError
from implicit_bias._utils.floats import length, share
from implicit_bias._utils.limits import Deadline
from implicit_bias.extensions.best_networks.arrangement import activation_patterns
from implicit_bias.extensions.best_networks.relu.branch_and_bound import (
    DRAWS,
    branch_and_bound,
    coordinate_descent,
    fit_affine_rule,
)

#: Largest number of subsets to enumerate; beyond it they are searched by branch and bound.
MAX_ENUMERATED = 20_000
#: Sweeps of coordinate descent over t.
SWEEPS = 50
#: Largest change of t at which the sweeps stop.
STEP_TOLERANCE = 1e-10
#: Share of the accuracy that may be spent on omitting short samples from the branch and bound.
OMITTED_SHARE = 0.5
#: Random directions from which local ascent starts.
STARTS = 100
#: Share of the time left in which the affine rules are fitted, before branch and bound.
RULE_SHARE = 0.5


@dataclass(frozen=True, eq=False)
class DualNormBound:
    """Upper `bound` of |h(u)| over ‖u‖ ≤ 1, rounding included, and `units` (m, d) of length 1 for which |h| is large.

    `values` (m,) are h(u) of the units, with signs. `complete` is True if every subset was evaluated or pruned; the
    bound is then attained up to the requested accuracy.
    """

    bound: float
    units: Array
    values: Array
    complete: bool


@dataclass(frozen=True, eq=False)
class RotatedInputs:
    """Inputs X = TQᵀ with at most as many coordinates as samples, and bounds of the rounding error.

    >>> inputs = RotatedInputs.of(np.array([[3.0, 4.0, 0.0, 0.0, 0.0]]))
    >>> inputs.T.shape, 2 < inputs.bound(2.0, np.ones(1)) < 2 + 1e-12
    ((1, 1), True)
    """

    T: Array
    Q: Array
    #: Upper bound of ‖Q‖.
    q_norm: float
    #: Upper bounds of ‖x_i − Q t_i‖ (n,).
    residuals: Array

    @classmethod
    def of(cls, X: Array) -> RotatedInputs:
        """Rotate X (n, d) if d > n; otherwise Q is the identity."""
        n, d = X.shape
        Q = np.linalg.qr(X.T)[0] if d > n else np.eye(d)
        T, defect = X @ Q, float(np.linalg.norm(Q.T @ Q - np.eye(len(Q.T)))) + len(Q.T) * share(d + 8)
        rounding = 2 * share(len(Q.T) + 8) * length(np.abs(X) + np.abs(T) @ np.abs(Q.T), axis=1)
        return cls(T, Q, 1 + defect, (length(X - T @ Q.T, axis=1) + rounding) * (1 + share(d + 16)))

    def bound(self, dual_norm: float, dual: Array) -> float:
        """Bound max |h| on X, from a bound `dual_norm` of it on T, by ‖Q‖ · `dual_norm` + Σ_i λ_i ‖x_i − Q t_i‖."""
        return (dual_norm * self.q_norm + math.fsum((dual * self.residuals).tolist())) * (1 + share(8))


def can_enumerate(X: Array, y: Array) -> bool:
    """True if the patterns of each class alone are few enough to enumerate, whatever the support of λ."""
    return all(_has_few_cells(X[y == sign], MAX_ENUMERATED) for sign in np.unique(y))


def _has_few_cells(A: Array, limit: int) -> bool:
    """True if A (m, d) has rank up to 4, and its arrangement at most `limit` cells in general position."""
    rank = int(np.linalg.matrix_rank(A))
    return rank <= 4 and 2 * sum(math.comb(len(A) - 1, k) for k in range(rank)) <= limit


def bound_dual_norm(
    X: Array,
    y: Array,
    dual: Array,
    *,
    accuracy: float = 1e-9,
    nodes: int = 2000,
    threshold: float = np.inf,
    seed: int = 1,
    max_enumerated: int = MAX_ENUMERATED,
    starts: int = STARTS,
    draws: int = DRAWS,
    deadline: Deadline | None = None,
) -> DualNormBound:
    """Bound the dual norm max |h(u)| over ‖u‖ ≤ 1 from above, for a dual λ ≥ 0 (n,), to a relative `accuracy`.

    The subsets of a class are enumerated if the arrangement of its samples has at most about `max_enumerated` cells.
    Otherwise local ascent starts from the samples, from `starts` random directions and from `draws` roundings of the
    semidefinite relaxation. Branch and bound then covers all other subsets and keeps `nodes` of them per level, or one
    if a unit with |h(u)| > `threshold` is already known. With `nodes` = 0 only the first local ascents run, and the
    bound is infinite unless all subsets were enumerated. At the `deadline` every loop ends, and the bound is the best
    one so far.
    """
    deadline = deadline or Deadline()
    used = dual > 0
    weighted, signs = dual[used, None] * X[used], y[used]
    rotated = RotatedInputs.of(weighted)
    A, rng = rotated.T, np.random.default_rng(seed)
    units = np.vstack([X, -X, rng.normal(size=(starts, X.shape[1]))]) @ rotated.Q
    distances = [
        _DirectedDistance(A[signs == sign], A[signs != sign], accuracy) for sign in (1.0, -1.0) if (signs == sign).any()
    ]
    for distance in distances:
        distance.ascend(units, max_enumerated, deadline)
    unfinished = [distance for distance in distances if distance.pruned] if nodes else []
    largest = max((distance.largest_value for distance in distances), default=0.0)
    for left, distance in zip(range(len(unfinished), 0, -1), unfinished, strict=True):
        distance.relax(largest, draws, rng, deadline.part(RULE_SHARE / left))
    largest = max((distance.largest_value for distance in distances), default=0.0)
    for left, distance in zip(range(len(unfinished), 0, -1), unfinished, strict=True):
        distance.branch(largest, nodes if largest <= threshold else 1, deadline.part(1 / left))
    # Each λ_i x_i is rounded once, t_j times it once more, and sums have as many terms as there are samples.
    rounding = 6 * share(len(A) + X.shape[1] + 8)
    bound = max((distance.bound for distance in distances), default=0.0) * (1 + rounding)
    bound += rounding * float(length(A, axis=1).sum())
    units = np.vstack([np.zeros((0, X.shape[1])), *(distance.units @ rotated.Q.T for distance in distances)])
    values = np.maximum(units @ weighted.T, 0.0) @ signs
    attained = max((distance.lower for distance in distances), default=0.0)
    complete = all(distance.bound <= attained * (1 + accuracy) for distance in distances)
    return DualNormBound(rotated.bound(bound, np.ones(len(A))), units, values, complete)


class _DirectedDistance:
    """Bounds of max_S min_t ‖Σ_S a_i − Σ_j t_j b_j‖ over subsets S of the rows a_i of A (m, d), and t ∈ [0, 1]^k.

    The rows are the weighted samples λ_i x_i: those of one class in A, those of the other in B (k, d).
    """

    def __init__(self, A: Array, B: Array, accuracy: float) -> None:
        self.A, self.B, self.accuracy = A, B, accuracy
        #: Largest min_t ‖…‖ among the subsets whose t was refined.
        self.lower = 0.0
        #: Largest upper bound among the evaluated subsets.
        self.evaluated = 0.0
        #: Largest upper bound among all other subsets.
        self.pruned = np.inf
        #: Total length of the samples that the branch and bound omits.
        self.omitted = 0.0
        #: Unit vectors along the residuals of the evaluated subsets.
        self.units = np.zeros((0, A.shape[1]))

    @property
    def bound(self) -> float:
        """Upper bound of the distance over all subsets."""
        return max(self.evaluated, self.pruned) + self.omitted

    @property
    def largest_value(self) -> float:
        """Largest Σ_i (⟨u, a_i⟩)_+ − Σ_j (⟨u, b_j⟩)_+ of the units, a lower bound of the distance; at least 0."""
        values = np.maximum(self.units @ self.A.T, 0.0).sum(axis=1) - np.maximum(self.units @ self.B.T, 0.0).sum(axis=1)
        return float(values.max(initial=0.0))

    def ascend(self, starts: Array, max_enumerated: int, deadline: Deadline) -> None:
        """Evaluate all subsets if they can be enumerated, otherwise those that local ascent from `starts` finds."""
        subsets = _all_subsets(self.A, max_enumerated)
        if subsets is not None:
            self.pruned = 0.0
        else:
            subsets = _ascended(starts, self.A, self.B, deadline) @ self.A.T > 0
        self._evaluate(subsets, deadline)

    def relax(self, largest: float, draws: int, rng: np.random.Generator, deadline: Deadline) -> None:
        """Fit the affine rule that `branch` needs to the longer samples, and ascend from `draws` roundings."""
        sizes = length(self.A, axis=1)
        order = np.argsort(sizes)
        omitted = order[np.cumsum(sizes[order]) <= OMITTED_SHARE * self.accuracy * largest]
        self.omitted, self.long = float(sizes[omitted].sum()), np.delete(np.arange(len(self.A)), omitted)
        self.rule, starts = fit_affine_rule(self.A[self.long], self.B, draws, rng, deadline.passed)
        self._evaluate(_ascended(starts, self.A, self.B, deadline) @ self.A.T > 0, deadline)

    def branch(self, largest: float, nodes: int, deadline: Deadline) -> None:
        """Evaluate the subsets that branch and bound cannot prune at `largest`; `pruned` then bounds all others."""
        target = largest * (1 + (1 - OMITTED_SHARE) * self.accuracy)
        A, late = self.A[self.long], deadline.passed
        candidates, self.pruned = branch_and_bound(A, self.B, self.rule, target, nodes, late)
        subsets = np.zeros((len(candidates), len(self.A)), dtype=bool)
        subsets[:, self.long] = candidates
        # The bounds of all other subsets include those of local ascent.
        self.evaluated = 0.0
        self._evaluate(subsets, deadline)

    def _evaluate(self, subsets: np.ndarray, deadline: Deadline) -> None:
        """Bound min_t ‖…‖ for masks (N, m) of subsets, the largest exactly; update `lower`, `evaluated` and `units`."""
        sums = subsets.astype(float) @ self.A
        t = _approximate_t(sums, self.B, deadline)
        distances = length(sums - t @ self.B, axis=1)
        # An approximate t gives an upper bound; it is refined only where that could raise the largest distance.
        for i in np.argsort(-distances):
            if distances[i] <= self.lower * (1 + self.accuracy) or deadline.passed():
                break
            t[i] = _exact_t(sums[i], self.B)
            distances[i] = length(sums[i] - t[i] @ self.B)
            self.lower = max(self.lower, float(distances[i]))
        some = distances > 0
        self.evaluated = max(self.evaluated, float(distances.max(initial=0.0)))
        self.units = np.vstack([self.units, (sums - t @ self.B)[some] / distances[some, None]])


def _all_subsets(A: Array, limit: int) -> np.ndarray | None:
    try:
        return activation_patterns(A).patterns if _has_few_cells(A, limit) else None
    except InputError:
        # The exact rank can be larger than the numerical one.
        return None


def _ascended(units: Array, A: Array, B: Array, deadline: Deadline) -> Array:
    """Replace units (N, d) by the best unit vectors for their active subsets of A until none changes; drop repeats."""
    for _ in range(20):
        if deadline.passed():
            break
        sums = (units @ A.T > 0).astype(float) @ A
        residuals = sums - _approximate_t(sums, B, deadline) @ B
        sizes = length(residuals, axis=1)
        moved = residuals[sizes > 0] / sizes[sizes > 0, None]
        _, first = np.unique(moved.round(9), axis=0, return_index=True)
        if len(first) == len(units) and np.allclose(moved[np.sort(first)], units, atol=1e-9):
            break
        units = moved[np.sort(first)]
    return units


def _approximate_t(sums: Array, B: Array, deadline: Deadline) -> Array:
    """Return t (N, k) in [0, 1] with a small ‖c − Σ t_j b_j‖ for each row c of `sums`."""
    start, upper = np.full((len(sums), len(B)), 0.5), np.ones(len(B))
    return coordinate_descent(sums, B, start, SWEEPS, upper, STEP_TOLERANCE, deadline.passed)


def _exact_t(c: Array, B: Array) -> Array:
    """Return the t (k,) in [0, 1] with the least ‖c − Σ t_j b_j‖."""
    if not len(B):
        return np.zeros(0)
    return np.clip(lsq_linear(B.T, c, (0.0, 1.0), method="bvls", tol=1e-14).x, 0.0, 1.0)
