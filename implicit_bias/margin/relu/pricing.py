"""What a dual proves of all ReLU networks: how much any unit pulls, a distance between two zonotopes.

For λ ≥ 0, a unit u pulls

    h(u) = Σ_i λ_i y_i (⟨u, x_i⟩)_+ = h_Z+(u) − h_Z−(u),   Z± = Σ_{y_i = ±1} λ_i [0, x_i],

the difference of the support functions of two zonotopes, and max |h(u)| over ‖u‖ ≤ 1 is their Hausdorff distance. In
one direction, for each subset S of the positive samples the inner maximum is concave in u, and by duality

    max_u h(u) = max_S min_{t ∈ [0, 1]^−} ‖Σ_{i ∈ S} λ_i x_i − Σ_j t_j λ_j x_j‖,

for (z)_+ is the larger of z and 0, so that S needs no cone. Any t proves a bound for its S. This use of it is ours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import lsq_linear

from implicit_bias.gates.arrangement import activation_patterns
from implicit_bias.ground.checks import Array, InputError
from implicit_bias.ground.rounding import share
from implicit_bias.ground.scaling import length

#: How many times the samples the inputs must be for a rotation to fewer.
WIDE = 4
#: Subsets that are listed by the arrangement of the positive samples; more grow in a tree.
LISTED = 20_000
#: Sweeps over t, and the change below which the last one ends.
SWEEPS, STILL = 50, 1e-10
#: Sweeps over t at every step of the tree, from the t before it.
GROWING = 4
#: Steps of descent for the plan, and the share of a length below which it is smoothed.
PLANNED, SMOOTH = 300, 0.05
#: Samples whose squares are at most this share of the other class's take away nothing worth a plan.
CURVED = 1e-24
#: Ascents from each start, and starts at random.
ASCENTS, STARTS = 20, 100


@dataclass(frozen=True, eq=False)
class Pull:
    """What units pull at most, and the directions found that pull much.

    Attributes
    ----------
    bound : float
        No |h(u)| exceeds it, rounding counted.
    units : array, shape (m, d); values : array, shape (m,)
        Directions u of length 1, and h(u).
    complete : bool
        Whether all subsets were followed to their end, so that `bound` is reached but for the accuracy asked for.
    """

    bound: float
    units: Array
    values: Array
    complete: bool


@dataclass(frozen=True, eq=False)
class Rotated:
    """Wide inputs in as many coordinates as there are samples: X = TQᵀ but for rounding, which is counted.

    >>> found = Rotated.of(np.array([[3.0, 4.0, 0.0, 0.0, 0.0]]))
    >>> found.T.shape, 2 < found.bound(2.0, np.ones(1)) < 2 + 1e-12
    ((1, 1), True)
    """

    T: Array
    Q: Array
    #: Bounds of ‖Q‖ and of ‖x_i − Q t_i‖ (n,).
    stretch: float
    lost: Array

    @classmethod
    def of(cls, X: Array) -> Rotated:
        """X itself unless its coordinates are WIDE times its samples."""
        n, d = X.shape
        Q = np.linalg.qr(X.T)[0] if d > WIDE * n else np.eye(d)
        T, apart = X @ Q, float(np.linalg.norm(Q.T @ Q - np.eye(len(Q.T)))) + len(Q.T) * share(d + 8)
        lost = length(X - T @ Q.T, axis=1) + 2 * share(len(Q.T) + 8) * length(
            np.abs(X) + np.abs(T) @ np.abs(Q.T), axis=1
        )
        return cls(T, Q, 1 + apart, lost * (1 + share(d + 16)))

    def bound(self, pull: float, dual: Array) -> float:
        """What no |h(u)| exceeds on X, where none exceeds `pull` on T: |⟨u, x_i⟩ − ⟨Qᵀu, t_i⟩| ≤ ‖u‖‖x_i − Q t_i‖."""
        return (pull * self.stretch + math.fsum((dual * self.lost).tolist())) * (1 + share(8))


def listed(X: Array, y: Array) -> bool:
    """Whether subsets of either class, of any of its samples, can be listed by their arrangement."""
    return all(_countable(X[y == sign]) for sign in np.unique(y))


def _countable(A: Array) -> bool:
    rank = int(np.linalg.matrix_rank(A))
    return rank <= 4 and 2 * sum(math.comb(len(A) - 1, k) for k in range(rank)) <= LISTED


def pull(X: Array, y: Array, dual: Array, *, accuracy: float = 1e-9, nodes: int = 20_000, seed: int = 1) -> Pull:
    """The largest |h(u)| over ‖u‖ ≤ 1 for a dual λ ≥ 0 (n,), from above.

    Subsets are those of the positive samples' arrangement where it can be listed. Else they grow in a tree, sample by
    sample: where samples U are open, max over s ∈ [0, 1]^U is at most min_t ‖Σ_S + ½Σ_U r_i − Σ_j t_j‖ + ½Σ_U ‖r_i‖,
    where r_i = λ_i x_i − Σ_j P_ij λ_j x_j and t_j ≤ 1 − Σ_U P_ij for a plan P ≥ 0 of column sums up to 1. The tree
    keeps `nodes` subsets at once; those it gives up keep their bounds. Ascents start at the samples and at random; with
    `nodes` 0 there is nothing else, and the bound is infinite.

    Examples
    --------
    >>> import numpy as np
    >>> found = pull(np.array([[3.0, 4.0], [0.0, -1.0]]), np.array([1.0, -1.0]), np.array([1.0, 1.0]))
    >>> round(found.bound, 9), found.complete
    (5.0, True)
    """
    used = dual > 0
    A, signs = dual[used, None] * X[used], y[used]
    rng = np.random.default_rng(seed)
    starts = np.vstack([X, -X, rng.normal(size=(STARTS, X.shape[1]))])
    bounds, units, complete = [0.0], [np.zeros((0, X.shape[1]))], True
    for sign in (1.0, -1.0):
        own, other = A[signs == sign], A[signs != sign]
        if len(own):
            bound, found, whole = _directed(own, other, starts, accuracy, nodes)
            bounds, units, complete = [*bounds, bound], [*units, found], complete and whole
    # The terms λ_i x_i are rounded once, t_j times them once more, and sums have as many terms as there are samples.
    lost = 6 * share(len(A) + X.shape[1] + 8)
    bound = max(bounds) * (1 + lost) + lost * float(length(A, axis=1).sum())
    found = np.vstack(units)
    return Pull(bound, found, np.maximum(found @ A.T, 0.0) @ signs, complete)


def _directed(A: Array, B: Array, starts: Array, accuracy: float, nodes: int) -> tuple[float, Array, bool]:
    """max_S min_t ‖Σ_S a_i − Σ t_j b_j‖ from above, units of subsets that reach much, and whether none was given up."""
    subsets, left = _all_subsets(A), 0.0
    if subsets is None:
        risen = _risen(starts, A, B)
        subsets, left = risen @ A.T > 0, np.inf
    if left and nodes:
        values = np.maximum(risen @ A.T, 0.0).sum(axis=1) - np.maximum(risen @ B.T, 0.0).sum(axis=1)
        reached = float(values.max(initial=0.0))
        grown, left = _grown(A, B, reached * (1 + accuracy), nodes)
        subsets = np.vstack([subsets, grown])
    sums = subsets.astype(float) @ A
    t = _nearest(sums, B)
    distances = length(sums - t @ B, axis=1)
    best = 0.0
    for one in np.argsort(-distances):
        # Rough distances are bounds, too.
        if distances[one] <= best * (1 + accuracy):
            break
        t[one] = _refined(sums[one], B)
        distances[one] = length(sums[one] - t[one] @ B)
        best = max(best, float(distances[one]))
    some = distances > 0
    units = (sums - t @ B)[some] / distances[some, None]
    return max(float(distances.max(initial=0.0)), left), units, left <= best * (1 + accuracy)


def _all_subsets(A: Array) -> np.ndarray | None:
    """Those that a unit opens, or none where they are too many."""
    try:
        return activation_patterns(A).patterns if _countable(A) else None
    except InputError:
        # Rounding gave the samples a higher rank than they seem to have.
        return None


def _grown(A: Array, B: Array, reached: float, nodes: int) -> tuple[np.ndarray, float]:
    """Subsets (N, m) that may reach more than is reached, and the largest bound of all others."""
    P = _plan(A, B)
    nearer = A - P @ B
    sizes = length(nearer, axis=1)
    order = np.argsort(-sizes)
    subsets, left, t = np.zeros((1, len(A)), dtype=bool), 0.0, np.zeros((1, len(B)))
    for depth, one in enumerate(order):
        subsets, t = np.repeat(subsets, 2, axis=0), np.repeat(t, 2, axis=0)
        subsets[1::2, one] = True
        open_ = order[depth + 1 :]
        sums = subsets @ A + 0.5 * nearer[open_].sum(axis=0)
        t = _nearest(sums, B, t, GROWING, np.maximum(1.0 - P[open_].sum(axis=0), 0.0))
        bounds = length(sums - t @ B, axis=1) + 0.5 * float(sizes[open_].sum())
        best = np.argsort(-bounds, kind="stable")
        kept = best[: min(nodes, int((bounds > reached).sum()))]
        left = max([left, *bounds[best[len(kept) :][:1]].tolist()])
        subsets, t = subsets[kept], t[kept]
    return subsets, left


def _plan(A: Array, B: Array) -> Array:
    """P ≥ 0 (m, k), no column's sum above 1, for which Σ_i ‖a_i − Σ_j P_ij b_j‖ is small: accelerated descent."""
    sizes = length(A, axis=1)
    curvature = np.linalg.norm(B, 2) ** 2 if len(B) else 0.0
    if curvature <= CURVED * np.linalg.norm(A, 2) ** 2:
        return np.zeros((len(A), len(B)))
    P = before = ahead = np.repeat((sizes / sizes.sum())[:, None], len(B), axis=1)
    momentum = 1.0
    for _ in range(PLANNED):
        rest = A - ahead @ B
        lengths = np.sqrt((rest**2).sum(axis=1) + (SMOOTH * sizes) ** 2)
        slope = (rest / lengths[:, None]) @ B.T
        P = _capped(ahead + lengths.min() / curvature * slope)
        momentum, last = (1 + math.sqrt(1 + 4 * momentum**2)) / 2, momentum
        ahead, before = P + (last - 1) / momentum * (P - before), P
    # Sums of large numbers are capped but for their rounding.
    return P / np.maximum(P.sum(axis=0), 1.0)


def _capped(P: Array) -> Array:
    """The nearest matrix of no negative entry and no column that sums to more than 1."""
    largest = -np.sort(-P, axis=0)
    excess = (np.cumsum(largest, axis=0) - 1) / np.arange(1, len(P) + 1)[:, None]
    kept = np.maximum((largest > excess).sum(axis=0) - 1, 0)
    return np.maximum(P - np.maximum(excess[kept, np.arange(P.shape[1])], 0.0), 0.0)


def _risen(units: Array, A: Array, B: Array) -> Array:
    """Units (N, d) of no smaller h: each time the subset that is open at u, and the best u for this subset."""
    for _ in range(ASCENTS):
        sums = (units @ A.T > 0).astype(float) @ A
        rest = sums - _nearest(sums, B) @ B
        sizes = length(rest, axis=1)
        moved = rest[sizes > 0] / sizes[sizes > 0, None]
        _, first = np.unique(moved.round(9), axis=0, return_index=True)
        if len(first) == len(units) and np.allclose(moved[np.sort(first)], units, atol=1e-9):
            break
        units = moved[np.sort(first)]
    return units


def _nearest(
    sums: Array, B: Array, start: Array | None = None, sweeps: int = SWEEPS, most: Array | None = None
) -> Array:
    """t (N, m) in [0, 1], or up to `most`, that make ‖c − Σ t_j b_j‖ small, by one coordinate after the other."""
    top = np.ones(len(B)) if most is None else most
    t = np.full((len(sums), len(B)), 0.5) if start is None else start.copy()
    rest, sizes = sums - t @ B, (B**2).sum(axis=1)
    sizes[sizes == 0] = 1.0
    for _ in range(sweeps if len(B) else 0):
        moved = 0.0
        for j, b in enumerate(B):
            step = np.clip(t[:, j] + rest @ b / sizes[j], 0.0, top[j]) - t[:, j]
            t[:, j] += step
            rest -= step[:, None] * b
            moved = max(moved, float(np.abs(step).max(initial=0.0)))
        if moved < STILL:
            break
    return np.clip(t, 0.0, top)


def _refined(c: Array, B: Array) -> Array:
    """The t (m,) in [0, 1] of the least ‖c − Σ t_j b_j‖."""
    if not len(B):
        return np.zeros(0)
    return np.clip(lsq_linear(B.T, c, (0.0, 1.0), method="bvls", tol=1e-14).x, 0.0, 1.0)
