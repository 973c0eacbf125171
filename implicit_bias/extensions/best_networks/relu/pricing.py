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

from implicit_bias._utils.checks import Array, InputError
from implicit_bias._utils.rounding import share
from implicit_bias._utils.scaling import length
from implicit_bias.extensions.best_networks.relu.tree import GUESSES, grown, nearest, planned
from implicit_bias.gates.arrangement import activation_patterns

#: Subsets that are listed by the arrangement of the positive samples; more grow in a tree.
LISTED = 20_000
#: Sweeps over t.
SWEEPS = 50
#: Largest change of t below which sweeps end.
STILL = 1e-10
#: The share of the accuracy that samples may add which the tree leaves out.
SHORT = 0.5
#: Ascents from each start.
ASCENTS = 20
#: Random directions from which ascents start.
STARTS = 100


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
        """X itself unless it has more coordinates than samples."""
        n, d = X.shape
        Q = np.linalg.qr(X.T)[0] if d > n else np.eye(d)
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


def _countable(A: Array, most: int = LISTED) -> bool:
    rank = int(np.linalg.matrix_rank(A))
    return rank <= 4 and 2 * sum(math.comb(len(A) - 1, k) for k in range(rank)) <= most


def pull(
    X: Array,
    y: Array,
    dual: Array,
    *,
    accuracy: float = 1e-9,
    nodes: int = 2000,
    enough: float = np.inf,
    seed: int = 1,
    most: int = LISTED,
    starts: int = STARTS,
    guesses: int = GUESSES,
) -> Pull:
    """The largest |h(u)| over ‖u‖ ≤ 1 for a dual λ ≥ 0 (n,), from above.

    Subsets are those of the positive samples' arrangement where it has at most about `most`. Else ascents start at the
    samples and in so many random directions (`starts`), then at `guesses` where the relaxation of all subsets is
    largest, and a tree of `nodes` subsets at once bounds what they have missed (`tree`); of one where a unit pulls more
    than `enough`. With `nodes` 0 there are only the first ascents, and the bound is infinite.

    Examples
    --------
    >>> import numpy as np
    >>> found = pull(np.array([[3.0, 4.0], [0.0, -1.0]]), np.array([1.0, -1.0]), np.array([1.0, 1.0]))
    >>> round(found.bound, 9), found.complete
    (5.0, True)
    """
    used = dual > 0
    whole, signs = dual[used, None] * X[used], y[used]
    turned = Rotated.of(whole)
    A, rng = turned.T, np.random.default_rng(seed)
    units = np.vstack([X, -X, rng.normal(size=(starts, X.shape[1]))]) @ turned.Q
    sides = [_Side(A[signs == sign], A[signs != sign], accuracy) for sign in (1.0, -1.0) if (signs == sign).any()]
    for side in sides:
        side.ascend(units, most)
    if nodes and sides:
        reached = max(side.reached for side in sides)
        for side in sides:
            side.relax(reached, guesses, rng)
        reached = max(side.reached for side in sides)
        for side in sides:
            side.grow(reached, nodes if reached <= enough else 1)
    # The terms λ_i x_i are rounded once, t_j times them once more, and sums have as many terms as there are samples.
    lost = 6 * share(len(A) + X.shape[1] + 8)
    bound = max((side.bound for side in sides), default=0.0) * (1 + lost) + lost * float(length(A, axis=1).sum())
    units = np.vstack([np.zeros((0, X.shape[1])), *(side.units @ turned.Q.T for side in sides)])
    values = np.maximum(units @ whole.T, 0.0) @ signs
    complete = all(side.bound <= max(side.best for side in sides) * (1 + accuracy) for side in sides)
    return Pull(turned.bound(bound, np.ones(len(A))), units, values, complete)


class _Side:
    """max_S min_t ‖Σ_S a_i − Σ t_j b_j‖ for one class's samples A and the other's B."""

    def __init__(self, A: Array, B: Array, accuracy: float) -> None:
        self.A, self.B, self.accuracy = A, B, accuracy
        #: The most that a subset reaches, and what bounds those that were not followed; units of those that were.
        self.best, self.left, self.units = 0.0, np.inf, np.zeros((0, A.shape[1]))
        #: Rough distances are bounds, too. What samples add that are too short for the tree.
        self.rough = self.short = 0.0

    @property
    def bound(self) -> float:
        """Of all subsets."""
        return max(self.rough, self.left) + self.short

    @property
    def reached(self) -> float:
        """The most that a unit pulls."""
        pulls = np.maximum(self.units @ self.A.T, 0.0).sum(axis=1) - np.maximum(self.units @ self.B.T, 0.0).sum(axis=1)
        return float(pulls.max(initial=0.0))

    def ascend(self, starts: Array, most: int) -> None:
        """Follow the subsets that ascents from here lead to; all, where they can be listed."""
        subsets = _all_subsets(self.A, most)
        if subsets is not None:
            self.left = 0.0
        self._follow(_risen(starts, self.A, self.B) @ self.A.T > 0 if subsets is None else subsets)

    def relax(self, reached: float, count: int, rng: np.random.Generator) -> None:
        """Plan, and ascend from where the plan's relaxation is largest; samples that are too short are left out."""
        if self.left:
            sizes = length(self.A, axis=1)
            order = np.argsort(sizes)
            out = order[np.cumsum(sizes[order]) <= SHORT * self.accuracy * reached]
            self.short, self.long = float(sizes[out].sum()), np.delete(np.arange(len(self.A)), out)
            self.plan, guesses = planned(self.A[self.long], self.B, count, rng)
            self._follow(_risen(guesses, self.A, self.B) @ self.A.T > 0)

    def grow(self, reached: float, nodes: int) -> None:
        """Follow what the tree finds to reach more."""
        if self.left:
            enough = reached * (1 + (1 - SHORT) * self.accuracy)
            more, self.left = grown(self.A[self.long], self.B, self.plan, enough, nodes)
            subsets = np.zeros((len(more), len(self.A)), dtype=bool)
            subsets[:, self.long] = more
            self._follow(subsets)

    def _follow(self, subsets: np.ndarray) -> None:
        """Subsets (N, m): exactly those that may reach more than the best."""
        sums = subsets.astype(float) @ self.A
        t = _settled(sums, self.B)
        distances = length(sums - t @ self.B, axis=1)
        for one in np.argsort(-distances):
            if distances[one] <= self.best * (1 + self.accuracy):
                break
            t[one] = _refined(sums[one], self.B)
            distances[one] = length(sums[one] - t[one] @ self.B)
            self.best = max(self.best, float(distances[one]))
        some = distances > 0
        self.rough = max(self.rough, float(distances.max(initial=0.0)))
        self.units = np.vstack([self.units, (sums - t @ self.B)[some] / distances[some, None]])


def _all_subsets(A: Array, most: int) -> np.ndarray | None:
    """Those that a unit opens, or none where they are too many."""
    try:
        return activation_patterns(A).patterns if _countable(A, most) else None
    except InputError:
        # Rounding gave the samples a higher rank than they seem to have.
        return None


def _risen(units: Array, A: Array, B: Array) -> Array:
    """Units (N, d) of no smaller h: each time the subset that is open at u, and the best u for this subset."""
    for _ in range(ASCENTS):
        sums = (units @ A.T > 0).astype(float) @ A
        rest = sums - _settled(sums, B) @ B
        sizes = length(rest, axis=1)
        moved = rest[sizes > 0] / sizes[sizes > 0, None]
        _, first = np.unique(moved.round(9), axis=0, return_index=True)
        if len(first) == len(units) and np.allclose(moved[np.sort(first)], units, atol=1e-9):
            break
        units = moved[np.sort(first)]
    return units


def _settled(sums: Array, B: Array) -> Array:
    """t (N, m) in [0, 1] that make ‖c − Σ t_j b_j‖ small for rows c of `sums`, from the middle until none moves."""
    return nearest(sums, B, np.full((len(sums), len(B)), 0.5), SWEEPS, np.ones(len(B)), STILL)


def _refined(c: Array, B: Array) -> Array:
    """The t (m,) in [0, 1] of the least ‖c − Σ t_j b_j‖."""
    if not len(B):
        return np.zeros(0)
    return np.clip(lsq_linear(B.T, c, (0.0, 1.0), method="bvls", tol=1e-14).x, 0.0, 1.0)
