"""All activation patterns of a ReLU unit on given samples: the cells of an arrangement of hyperplanes, exactly."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from implicit_bias._utils.checks import Array, InputError, as_floats, check_size

#: Signs (rays × cells about a ray × samples) up to which cells are listed.
LARGEST_LIST = 200_000_000
#: Products of a ray with a sample below this share of their terms' sizes are computed again in whole numbers.
DOUBTFUL = 1e-9
#: So are products below this size, because digits of their factors may have vanished.
VANISHING = 1e-290


@dataclass(frozen=True, eq=False)
class Arrangement:
    """The cells into which the hyperplanes ⟨u, x_i⟩ = 0 of n samples cut the space of a unit's weights u.

    Attributes
    ----------
    patterns : array of bool, shape (P, n)
        1(⟨u, x_i⟩ ≥ 0) for u inside each cell.
    walls : array of bool, shape (P, n)
        Samples, one for each hyperplane, whose half-spaces ±⟨u, x_i⟩ ≥ 0 are the closed cell; in rank 5 and above a few
        may be there that are not needed.

    >>> from implicit_bias.gates import activation_patterns
    >>> activation_patterns([[1.0, 0.0], [0.0, 1.0]]).walls.all()
    np.True_
    """

    patterns: np.ndarray = field(repr=False)
    walls: np.ndarray = field(repr=False)

    def __len__(self) -> int:
        return len(self.patterns)


def activation_patterns(X: Any) -> Arrangement:
    """Every pattern D = 1(Xu ≥ 0) that u takes on an open set, exactly: no cell is missed or counted twice.

    With m distinct hyperplanes in general position and X of rank r there are 2 Σ_{k<r} C(m−1, k) (Cover 1965), in
    degenerate position fewer. Patterns of u on hyperplanes are not listed: their cones are faces of the closed cells'.
    Samples on one line through 0 share a hyperplane; for a sample of zeros 0 ≥ 0 is true.

    A cell of rank r has extreme rays, each orthogonal to r − 1 independent samples. Every ray is found, the signs of
    all samples there, and by recursion the cells about it, which those samples decide whose hyperplanes hold it. Signs
    that rounding leaves in doubt are taken in whole numbers.

    Parameters
    ----------
    X : array, shape (n, d)

    Raises
    ------
    InputError
        For bad arrays, or more cells than can be listed: rank 3 takes 350 samples, rank 4 takes 90.

    Examples
    --------
    >>> from implicit_bias.gates import activation_patterns
    >>> found = activation_patterns([[1.0, 1.0], [-1.0, 1.0], [2.0, 2.0]])
    >>> sorted(found.patterns.astype(int).tolist())
    [[0, 0, 0], [0, 1, 0], [1, 0, 1], [1, 1, 1]]
    """
    X = as_floats(X, "X", 2)
    n = len(X)
    lines, line_of, side = _lines(X)
    if not lines:
        return Arrangement(np.ones((1, n), dtype=bool), np.zeros((1, n), dtype=bool))
    columns: list[int] = []
    for column in _independent(lines):
        columns.append(column)
        _check(len(lines), len(columns))
    positive, on = _cells([[line[c] for c in columns] for line in lines])
    cells, of_pair = _distinct(positive)
    counts = np.zeros(cells.shape, dtype=np.int64)
    np.add.at(counts, of_pair, on)
    walls = np.zeros((len(cells), n), dtype=bool)
    first = [int(np.flatnonzero((line_of == line) & (side != 0))[0]) for line in range(len(lines))]
    walls[:, first] = counts >= len(columns) - 1
    patterns = (side == 0) | (cells[:, line_of] == (side > 0))
    return Arrangement(patterns, walls)


def _check(m: int, rank: int) -> None:
    """Refuse more cells than can be listed."""
    pairs = 2 * math.comb(m, max(rank - 1, 0)) * 2 ** (rank - 1) * m
    if pairs > LARGEST_LIST:
        raise InputError(
            f"{m} samples of rank {rank} have too many activation patterns to list; take fewer samples or inputs, or "
            "best_network, which generates those that matter"
        )
    check_size(pairs, "the activation patterns")


def _lines(X: Array) -> tuple[list[tuple[int, ...]], np.ndarray, np.ndarray]:
    """The distinct lines through 0 and the samples as whole numbers without a common factor, first entry positive.

    And the line of each sample (n,), and on which side of 0 of it the sample lies: −1, 1, or 0 for a sample of zeros.
    """
    known: dict[tuple[int, ...], int] = {}
    line_of, side = np.zeros(len(X), dtype=np.int64), np.zeros(len(X), dtype=np.int64)
    for i in np.flatnonzero(X.any(axis=1)):
        ratios = [value.as_integer_ratio() for value in X[i].tolist()]
        most = max(below for _, below in ratios)
        whole = [above * (most // below) for above, below in ratios]
        side[i] = 1 if next(value for value in whole if value) > 0 else -1
        factor = int(side[i]) * math.gcd(*whole)
        line_of[i] = known.setdefault(tuple(value // factor for value in whole), len(known))
    return [*known], line_of, side


def _floats(lines: list[Any]) -> Array:
    """Whole numbers (m, r) in units of each line's largest."""
    return np.array([[value / max(map(abs, line)) for value in line] for line in lines])


def _independent(lines: list[Any]) -> Iterator[int]:
    """Columns that span all columns, one by one, by exact elimination."""
    rows = [[Fraction(value) for value in line] for line in lines]
    for column in range(len(rows[0])):
        pivot = next((row for row in rows if row[column]), None)
        if pivot is None:
            continue
        yield column
        rows.remove(pivot)
        for row in rows:
            if row[column]:
                factor = row[column] / pivot[column]
                row[:] = [value - factor * other for value, other in zip(row, pivot, strict=True)]


def _cells(lines: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of a cell and one of its extreme rays, of m distinct lines of rank r, r entries each.

    Which lines are positive in the cell (N, m), and which hyperplanes hold the ray (N, m).
    """
    m, rank = len(lines), len(lines[0])
    if rank == 1:
        return np.array([[True], [False]]), np.zeros((2, 1), dtype=bool)
    signs = _rays(lines)
    positive, on = [], []
    for count in np.unique((signs == 0).sum(axis=1)):
        group = np.flatnonzero((signs == 0).sum(axis=1) == count)
        # About a ray on no more hyperplanes than it needs, their samples take all signs.
        simple = count == rank - 1
        for part in [group] if simple else group[:, None]:
            held = np.nonzero(signs[part] == 0)[1].reshape(len(part), -1)
            local = np.array([*itertools.product((False, True), repeat=rank - 1)]) if simple else _about(lines, held[0])
            cells = np.repeat((signs[part] > 0)[:, None], len(local), axis=1)
            np.put_along_axis(cells, np.broadcast_to(held[:, None], (*cells.shape[:2], count)), local[None], axis=2)
            positive.append(cells.reshape(-1, m))
            on.append(np.repeat(signs[part] == 0, len(local), axis=0))
    return np.concatenate(positive), np.concatenate(on)


def _about(lines: list[list[int]], held: np.ndarray) -> np.ndarray:
    """The distinct signs, as positive or not, of lines that are orthogonal to one ray."""
    own = [lines[i] for i in held]
    columns = [*_independent(own)]
    return _distinct(_cells([[line[c] for c in columns] for line in own])[0])[0]


def _rays(lines: list[list[int]]) -> np.ndarray:
    """The signs of all samples (N, m) at both ends of each line that r − 1 independent hyperplanes share."""
    F = _floats(lines)
    subsets = np.array([*itertools.combinations(range(len(lines)), F.shape[1] - 1)])
    rays, sizes = _normals(F[subsets], -1), _normals(np.abs(F)[subsets], 1)
    products = rays @ F.T
    sure = np.abs(products) > np.maximum(DOUBTFUL * (sizes @ np.abs(F).T), VANISHING)
    signs = np.where(sure, np.sign(products), 0.0).astype(np.int8)
    doubtful = ~sure
    np.put_along_axis(doubtful, subsets, False, axis=1)
    np.put_along_axis(signs, subsets, 0, axis=1)
    spans = np.ones(len(subsets), dtype=bool)
    for row in np.flatnonzero(doubtful.any(axis=1)):
        whole = _normals(np.array([lines[i] for i in subsets[row]], dtype=object), -1).tolist()
        spans[row] = any(whole)
        if spans[row]:
            for i in np.flatnonzero(doubtful[row]):
                product = sum(a * b for a, b in zip(whole, lines[i], strict=True))
                signs[row, i] = (product > 0) - (product < 0)
    signs = signs[spans]
    # The hyperplanes through a ray identify it.
    once = np.unique(np.packbits(signs == 0, axis=1), axis=0, return_index=True)[1]
    return np.concatenate([signs[once], -signs[once]])


def _normals(A: np.ndarray, alternate: int) -> np.ndarray:
    """The vector orthogonal to r − 1 rows (…, r − 1, r), by minors; `alternate` 1 in place of −1: its terms' sizes.

    Minors of the first rows serve those of one more: r 2^r products, and not r!.
    """
    r = A.shape[-1]
    minors: dict[tuple[int, ...], Any] = {(): np.ones(A.shape[:-2], A.dtype)}
    for row in range(r - 1):
        minors = {
            columns: sum(
                alternate ** (row + at) * A[..., row, c] * minors[columns[:at] + columns[at + 1 :]]
                for at, c in enumerate(columns)
            )
            for columns in itertools.combinations(range(r), row + 1)
        }
    rest = [minors[(*range(c), *range(c + 1, r))] for c in range(r)]
    # Whole numbers of any size stay objects.
    return np.stack([np.asarray(alternate**c * minor, A.dtype) for c, minor in enumerate(rest)], axis=-1)


def _distinct(cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows of truth values, and which of them each is."""
    _, first, which = np.unique(np.packbits(cells, axis=1), axis=0, return_index=True, return_inverse=True)
    return cells[first], which.ravel()
