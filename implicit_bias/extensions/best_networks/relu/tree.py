"""How far one zonotope is from another: subsets of samples in a tree, cut by bounds of all that may come.

Samples U that are open add s_i a_i, s ∈ [0, 1]^U. What they have in common with the other class is taken out first:
with t_j = t'_j + Σ_U s_i P_ij, P ≥ 0, and t'_j ≤ 1 − Σ_U P_ij, they leave r_i = a_i − Σ_j P_ij b_j, and

    max_s min_t ‖Σ_S a_i + Σ_U s_i a_i − Σ_j t_j b_j‖ ≤ min_t' max_σ ‖f_0 + ½ Σ_U σ_i r_i‖,
    f_0 = Σ_S a_i + ½ Σ_U r_i − Σ_j t'_j b_j,

over signs σ, which `SignBound` bounds. This use of it is ours.
"""

import math

import numpy as np

from implicit_bias._utils.checks import Array
from implicit_bias._utils.scaling import TINY, length
from implicit_bias.extensions.best_networks.relu.elliptope import SignBound, relaxed

#: Sweeps over t at every step of the tree, from the t before it.
GROWING = 4
#: At every step, subsets whose own relaxation is solved and bounds the others too.
SOLVED = 16
#: Accuracy of the relaxations that are solved for the plan.
ROUGH = 1e-5
#: Accuracy of those in the tree.
FINE = 1e-7
#: Steps of descent for the plan.
PLANNED = 600
#: Steps in which the plan must gain `GAIN`.
SPAN = 20
#: Share of the plan's value.
GAIN = 1e-3
#: Relaxations that a plan or a tree may solve, times the cubes of their sizes: of up to 180 samples all of those above.
AFFORDED = 4e9
#: Units that are drawn where the plan ends.
GUESSES = 100
#: Samples whose squares are at most this share of the other class's take away nothing worth a plan.
CURVED = 1e-24


def grown(A: Array, B: Array, P: Array, reached: float, nodes: int) -> tuple[np.ndarray, float]:
    """Subsets (N, m) of the a_i that may reach more than is reached, and the largest bound of all others.

    The tree keeps `nodes` subsets at once; those it gives up keep their bounds.
    """
    nearer = A - P @ B
    order = np.argsort(-length(nearer, axis=1))
    subsets, left, t = np.zeros((1, len(A)), dtype=bool), 0.0, np.zeros((1, len(B)))
    known: list[Array] = []
    afforded = AFFORDED
    for depth in range(len(A) + 1):
        open_ = order[depth:]
        size = (len(open_) + 1) ** 3
        solved = min(SOLVED, int(afforded / size))
        afforded -= solved * size
        sums = subsets @ A + 0.5 * nearer[open_].sum(axis=0)
        t = nearest(sums, B, t, GROWING, np.maximum(1.0 - P[open_].sum(axis=0), 0.0))
        bounds, known = _bounds(sums - t @ B, 0.5 * nearer[open_], known, solved, reached)
        best = np.argsort(-bounds, kind="stable")
        kept = best[: min(nodes, int((bounds > reached).sum()))]
        left = max([left, *bounds[best[len(kept) :][:1]].tolist()])
        subsets, t = subsets[kept], t[kept]
        if not len(kept) or not len(open_):
            break
        subsets, t, known = np.repeat(subsets, 2, axis=0), np.repeat(t, 2, axis=0), [d[1:] for d in known]
        subsets[1::2, open_[0]] = True
    return subsets, left


def _bounds(f: Array, F: Array, known: list[Array], most: int, reached: float) -> tuple[Array, list[Array]]:
    """Of ‖f_0 + Σ_i σ_i F_i‖ for the rows f_0 of f: by lengths, by d that are known, and by those of `most` bad rows.

    And all d that bound a row best which may reach more than is reached.
    """
    found, ways = [length(f, axis=1) + length(F, axis=1).sum()], [np.zeros(0)]
    for d in known if len(F) else []:
        found.append(SignBound(F, d)(f))
        ways.append(d)
    bounds, solved = np.min(found, axis=0), np.zeros(len(f), dtype=bool)
    for _ in range(most if len(F) else 0):
        one = int(np.where(solved, 0.0, bounds).argmax())
        if solved[one] or bounds[one] <= reached:
            break
        solved[one] = True
        rows = np.vstack([f[one], F])
        ways.append(relaxed(rows @ rows.T, FINE)[0][1:])
        found.append(SignBound(F, ways[-1])(f))
        bounds = np.minimum(bounds, found[-1])
    useful = np.unique(np.argmin(found, axis=0)[bounds > reached])
    return bounds, [ways[i] for i in useful if i]


def planned(A: Array, B: Array, guesses: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """P ≥ 0 (m, k), no column's sum above 1, for which the relaxation of all r_i is small: accelerated descent.

    And so many guesses (N, r), units that may pull much: sums of the rows of F with weights drawn from N(0, X).

    It is convex in P and t', and its slope is that of ⟨Q, X⟩ at the X of the relaxation. Steps are measured in ‖b_j‖.
    """
    squares = (B**2).sum(axis=1)
    some = squares > CURVED * np.linalg.norm(A, 2) ** 2
    Y = np.zeros((1 + len(A), len(B)))
    if some.any():
        Y[:, some] = _descended(A, B[some], squares[some])
    # Sums are capped but for their rounding.
    P = Y[1:] / np.maximum(Y[1:].sum(axis=0), 1.0)
    # What is longer than before gives less.
    taken = P @ B
    longer = length(A - taken, axis=1) > length(A, axis=1)
    P[longer] *= np.clip((A * taken).sum(axis=1) / np.maximum((taken**2).sum(axis=1), TINY), 0.0, 1.0)[longer, None]
    F = _rows(Y, A, B)
    spread, axes = np.linalg.eigh(relaxed(F @ F.T, ROUGH)[1])
    return P, (rng.normal(size=(guesses, len(F))) * np.sqrt(np.maximum(spread, 0.0))) @ axes.T @ F


def _descended(A: Array, B: Array, squares: Array) -> Array:
    """The rows t' and P of a plan for samples b_j of some length."""
    sizes = length(A, axis=1)
    Y = before = ahead = np.vstack([np.zeros(len(B)), np.repeat((sizes / sizes.sum())[:, None], len(B), axis=1)])
    steepest, momentum = float(np.linalg.norm(B / np.sqrt(squares)[:, None], 2)) ** 2, 1.0
    value, slope = _relaxation(ahead, A, B)
    values = [value]
    while len(values) < min(PLANNED, AFFORDED / (len(A) + 1) ** 3):
        Y = _capped(ahead - slope / (steepest * squares))
        change = Y - ahead
        new, _ = _relaxation(Y, A, B)
        if new > value + (slope * change).sum() + steepest / 2 * (change**2 * squares).sum() + ROUGH * value:
            steepest *= 2
            continue
        if new > values[-1]:
            # Momentum led astray.
            Y, new, momentum = before, values[-1], 1.0
        values.append(new)
        if len(values) > SPAN and values[-SPAN] - new <= GAIN * new:
            break
        momentum, last = (1 + math.sqrt(1 + 4 * momentum**2)) / 2, momentum
        ahead, before, steepest = Y + (last - 1) / momentum * (Y - before), Y, 0.9 * steepest
        value, slope = _relaxation(ahead, A, B)
    return Y


def _rows(Y: Array, A: Array, B: Array) -> Array:
    """f_0 and ½ r_i of all samples under t' and P, the rows of Y."""
    r = A - Y[1:] @ B
    return np.vstack([0.5 * r.sum(axis=0) - Y[0] @ B, 0.5 * r])


def _relaxation(Y: Array, A: Array, B: Array) -> tuple[float, Array]:
    """The relaxation of all samples under t' and P, and its slope."""
    F = _rows(Y, A, B)
    d, X = relaxed(F @ F.T, ROUGH)
    G = X @ F
    return float(d.sum()), -np.vstack([2 * G[:1], G[1:] + G[0]]) @ B.T


def _capped(Y: Array) -> Array:
    """The nearest matrix of no negative entry and no column that sums to more than 1."""
    largest = -np.sort(-Y, axis=0)
    excess = (np.cumsum(largest, axis=0) - 1) / np.arange(1, len(Y) + 1)[:, None]
    kept = np.maximum((largest > excess).sum(axis=0) - 1, 0)
    return np.maximum(Y - np.maximum(excess[kept, np.arange(Y.shape[1])], 0.0), 0.0)


def nearest(sums: Array, B: Array, start: Array, sweeps: int, most: Array, still: float = 0.0) -> Array:
    """t (N, k), 0 ≤ t ≤ `most`, that make ‖c − Σ_j t_j b_j‖ small for rows c of `sums`: one coordinate after the other.

    Ends before all `sweeps` where no t_j moves by more than `still`.
    """
    t, squares = start.copy(), (B**2).sum(axis=1)
    rest = sums - t @ B
    squares[squares == 0] = 1.0
    for _ in range(sweeps if len(B) else 0):
        moved = 0.0
        for j, b in enumerate(B):
            step = np.clip(t[:, j] + rest @ b / squares[j], 0.0, most[j]) - t[:, j]
            t[:, j] += step
            rest -= step[:, None] * b
            moved = max(moved, float(np.abs(step).max(initial=0.0)))
        if moved < still:
            break
    return np.clip(t, 0.0, most)
