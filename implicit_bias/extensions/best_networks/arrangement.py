"""Exact enumeration of the activation patterns of a ReLU unit: the cells of an arrangement of hyperplanes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from implicit_bias._utils.checks import Array, InputError, as_floats, check_size

#: Largest number of signs (rays × cells around a ray × samples) to enumerate.
MAX_SIGNS = 200_000_000
#: Size of a product of a ray with a sample, relative to its terms, below which it is recomputed in integers.
DOUBTFUL = 1e-9
#: Absolute size below which such a product is recomputed, because its factors may have underflowed.
VANISHING = 1e-290


@dataclass(frozen=True, eq=False)
class Arrangement:
    """Cells of the arrangement of the hyperplanes ⟨u, x_i⟩ = 0 of n samples in the space of a unit's weights u.

    Attributes
    ----------
    patterns : array of bool, shape (P, n)
        1(⟨u, x_i⟩ ≥ 0) for u inside cell p, one row per cell, in no particular order.
    walls : array of bool, shape (P, n)
        True for samples that suffice to define the closed cell as the intersection of their half-spaces
        ±⟨u, x_i⟩ ≥ 0: at most one for each hyperplane. A few may be redundant in rank 5 and above.

    Examples
    --------
    >>> from implicit_bias.extensions.best_networks import activation_patterns
    >>> activation_patterns([[1.0, 0.0], [0.0, 1.0]]).walls.all()
    np.True_
    """

    patterns: np.ndarray = field(repr=False)
    walls: np.ndarray = field(repr=False)

    def __len__(self) -> int:
        return len(self.patterns)


def activation_patterns(X: Any) -> Arrangement:
    """Enumerate the patterns 1(Xu ≥ 0) that hold on an open set of u, exactly: no cell is missed or repeated.

    For m distinct hyperplanes in general position and X of rank r there are 2 Σ_{k<r} C(m−1, k) patterns (Cover 1965),
    otherwise fewer. Patterns that occur only on hyperplanes are omitted: their cones are faces of closed cells. Samples
    on one line through 0 share a hyperplane. For a sample of zeros, 0 ≥ 0 is true.

    A cell of rank r has extreme rays, each orthogonal to r − 1 independent samples. The method enumerates all rays with
    the signs of all samples there. Around each ray, the samples whose hyperplanes contain it determine the cells, which
    are found by recursion. Signs that rounding leaves in doubt are computed in integers.

    Parameters
    ----------
    X : array, shape (n, d)

    Raises
    ------
    InputError
        If the array is invalid or has too many cells. About 350 samples of rank 3, or 90 of rank 4, are possible.

    Examples
    --------
    >>> from implicit_bias.extensions.best_networks import activation_patterns
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
        _check_number(len(lines), len(columns))
    positive, on = _cells([[line[c] for c in columns] for line in lines])
    cells, of_pair = _distinct(positive)
    counts = np.zeros(cells.shape, dtype=np.int64)
    np.add.at(counts, of_pair, on)
    walls = np.zeros((len(cells), n), dtype=bool)
    first = [int(np.flatnonzero((line_of == line) & (side != 0))[0]) for line in range(len(lines))]
    walls[:, first] = counts >= len(columns) - 1
    return Arrangement((side == 0) | (cells[:, line_of] == (side > 0)), walls)


def _check_number(m: int, rank: int) -> None:
    pairs = 2 * math.comb(m, max(rank - 1, 0)) * 2 ** (rank - 1) * m
    if pairs > MAX_SIGNS:
        raise InputError(
            f"{m} samples of rank {rank} have too many activation patterns to enumerate; use fewer samples or inputs, "
            "or best_network, which generates only the patterns it needs"
        )
    check_size(pairs, "the activation patterns")


def _lines(X: Array) -> tuple[list[tuple[int, ...]], np.ndarray, np.ndarray]:
    """Return the lines ℝv through samples, v coprime integers, the first nonzero one > 0; indices and signs (n,)."""
    index_of: dict[tuple[int, ...], int] = {}
    line_of, side = np.zeros(len(X), dtype=np.int64), np.zeros(len(X), dtype=np.int64)
    for i in np.flatnonzero(X.any(axis=1)):
        ratios = [value.as_integer_ratio() for value in X[i].tolist()]
        denominator = max(below for _, below in ratios)
        integers = [above * (denominator // below) for above, below in ratios]
        side[i] = 1 if next(value for value in integers if value) > 0 else -1
        factor = int(side[i]) * math.gcd(*integers)
        line_of[i] = index_of.setdefault(tuple(value // factor for value in integers), len(index_of))
    return [*index_of], line_of, side


def _independent(lines: list[Any]) -> Iterator[int]:
    """Yield the first columns, in ascending order, that are a basis of the column space of the rows `lines`; exact."""
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
    """Return masks (N, m), a row per pair of a cell and an extreme ray: ⟨u, v⟩ > 0 in the cell, v ⊥ the ray."""
    m, rank = len(lines), len(lines[0])
    if rank == 1:
        return np.array([[True], [False]]), np.zeros((2, 1), dtype=bool)
    signs = _rays(lines)
    positive, on = [], []
    for count in np.unique((signs == 0).sum(axis=1)):
        group = np.flatnonzero((signs == 0).sum(axis=1) == count)
        # Around a ray on only r − 1 hyperplanes, their samples take all signs.
        simple = count == rank - 1
        for part in [group] if simple else group[:, None]:
            through = np.nonzero(signs[part] == 0)[1].reshape(len(part), -1)
            all_signs = itertools.product((False, True), repeat=rank - 1)
            local = np.array([*all_signs]) if simple else _around(lines, through[0])
            cells = np.repeat((signs[part] > 0)[:, None], len(local), axis=1)
            np.put_along_axis(cells, np.broadcast_to(through[:, None], (*cells.shape[:2], count)), local[None], axis=2)
            positive.append(cells.reshape(-1, m))
            on.append(np.repeat(signs[part] == 0, len(local), axis=0))
    return np.concatenate(positive), np.concatenate(on)


def _around(lines: list[list[int]], through: np.ndarray) -> np.ndarray:
    """Return the distinct patterns 1(⟨u, v⟩ > 0), shape (cells, q), of the q lines v with the indices `through`."""
    crossing = [lines[i] for i in through]
    columns = [*_independent(crossing)]
    return _distinct(_cells([[line[c] for c in columns] for line in crossing])[0])[0]


def _rays(lines: list[list[int]]) -> np.ndarray:
    """Return sign⟨u, v⟩ (N, m) of all lines v, for the rays ±u that r − 1 independent hyperplanes share, each once."""
    F = np.array([[value / max(map(abs, line)) for value in line] for line in lines])
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
        normal = _normals(np.array([lines[i] for i in subsets[row]], dtype=object), -1).tolist()
        spans[row] = any(normal)
        if spans[row]:
            for i in np.flatnonzero(doubtful[row]):
                product = sum(a * b for a, b in zip(normal, lines[i], strict=True))
                signs[row, i] = (product > 0) - (product < 0)
    signs = signs[spans]
    # The hyperplanes that contain a ray identify its line.
    once = np.unique(np.packbits(signs == 0, axis=1), axis=0, return_index=True)[1]
    return np.concatenate([signs[once], -signs[once]])


def _normals(A: np.ndarray, alternate: int) -> np.ndarray:
    """Return a vector (…, r) orthogonal to r − 1 rows A (…, r − 1, r), or zeros if the rows are linearly dependent.

    Entry c is (−1)^c times the minor without column c. With `alternate` = 1 instead of −1, all signs are positive: for
    |A|, these permanents are the sums of the sizes of all terms. Minors of the first rows are reused for one row more,
    so that the number of products is r 2^r, not r!.
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
    # Integers of any size stay objects.
    return np.stack([np.asarray(alternate**c * minor, A.dtype) for c, minor in enumerate(rest)], axis=-1)


def _distinct(cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    _, first, which = np.unique(np.packbits(cells, axis=1), axis=0, return_index=True, return_inverse=True)
    return cells[first], which.ravel()
