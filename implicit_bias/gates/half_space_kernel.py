"""Kernel of infinitely many gated linear units with random contexts, on inputs or their receptive fields."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial

from implicit_bias._utils.blocks import row_blocks
from implicit_bias._utils.checks import CONVERSION_ERRORS, Array, InputError
from implicit_bias._utils.compiled import compiled
from implicit_bias._utils.floats import length
from implicit_bias._utils.limits import check_memory
from implicit_bias._utils.threads import in_threads

#: Rows of a tile of the kernel, which stays in the cache of the processor.
TILE_ROWS = 256
#: Columns of a tile.
TILE_COLUMNS = 512
#: Largest number of entries of stored samples up to which `half_space_expansion` computes in double precision.
SMALL = 2**20
#: Products of a cosine that single precision adds at a time, because longer sums have larger errors.
SUMMED = 72
#: 1 − |cos θ|, by the item size, below which the angle θ is computed from the distance of two directions.
NEARLY_PARALLEL = {8: 1e-4, 4: 1e-2}
#: Terms of the polynomial for θ/π, by the item size, a multiple of 9.
TERMS = {8: 18, 4: 9}
#: Bounds of the errors of θ/π from this polynomial, including the rounding of its evaluation, by the item size.
ARCCOS_ERRORS = {8: 4e-15, 4: 1e-7}
#: Least share of the inputs with the same direction in a receptive field, for treating it apart.
FREQUENT_SHARE = 0.02
#: Least mean of these shares over all fields; below it, sorting the inputs costs more than it saves.
MEAN_FREQUENT_SHARE = 0.05
#: Largest number of inputs in which frequent directions are searched for.
SAMPLED = 500
#: Length of a part of an input, as a share of the whole one's, below which the part counts as zero.
NEGLIGIBLE = 1e-150

#: Function from a block of rows to their directions.
_Blocks = Callable[[slice], "_Directions"]


def half_spaces(
    X: Array,
    Z: Array,
    hyperplanes: int = 1,
    linear: float = 1.0,
    side: int | None = None,
    stride: int = 1,
    sets: Sequence[Sequence[int]] | None = None,
) -> Array:
    """Return the kernel of infinitely many gated linear units with random contexts.

        k(x, z) = Σ_p ((1 − θ_p/π)^b − (1 − l) 2⁻ᵇ) ⟨x_p, z_p⟩,   θ_p the angle of x_p and z_p

    The contexts of a unit are the 2ᵇ sides of b = `hyperplanes` hyperplanes ⟨v, x_p⟩ = 0 with independent v ~ N(0, I).
    1 − θ/π, the arc-cosine kernel of order 0, is the probability that x_p and z_p are on the same side of a hyperplane,
    and 2⁻ᵇ the mean share of a context. For H → ∞ units, l = `linear` = 1 is the limit of SVM-Fro (of its kernel
    divided by H), and l = 0 that of SVM-L2, up to a factor. Both statements are ours.

    x_p are the receptive fields of the units, the features being ⊕_p g(x_p) ⊗ x_p. By default there is one field, all
    of x. `side` and `stride` give the patches of square images, `sets` any sets of columns.

    >>> half_spaces(np.array([[1.0, 0.0]]), np.array([[1.0, 0.0], [1.0, 1.0]])).round(12).tolist()
    [[1.0, 0.75]]
    >>> half_spaces(np.array([[1.0, 0.0]]), np.array([[1.0, 0.0], [1.0, 1.0]]), sets=[[0], [1]]).round(12).tolist()
    [[1.0, 1.0]]
    """
    kernel = _HalfSpaces(hyperplanes, linear, receptive_fields(X.shape[1], side, stride, sets), float)
    common, values = kernel.frequent(Z), np.empty((len(X), len(Z)))
    kernel.visit_tiles(len(X), kernel.blocks(X, common), len(Z), kernel.blocks(Z, common), partial(_put, values))
    return values


def half_space_expansion(Z: Array, coefficients: Array, **parameters: Any) -> Callable[[Array], Array]:
    """Return the function X ↦ k(X, Z) A for the kernel `half_spaces` and `coefficients` A (m, c).

    It is in single precision if Z has more than SMALL entries, however many rows X has; `half_spaces_error` bounds the
    errors of k. The directions of Z are stored, and k(X, Z) is not.

    >>> expansion = half_space_expansion(np.array([[1.0, 0.0], [1.0, 1.0]]), np.eye(2))
    >>> expansion(np.array([[1.0, 0.0]])).round(12).tolist()
    [[1.0, 0.75]]
    """
    kernel = _HalfSpaces(*parameters_of(parameters, Z.shape[1]), float if Z.size <= SMALL else np.float32)
    common = kernel.frequent(Z)
    stored = _Directions(Z, kernel, common)

    def values(X: Array) -> Array:
        outputs = np.zeros((len(X), coefficients.shape[1]))

        def add(rows: np.ndarray, columns: np.ndarray, tile: Array, sizes: Array, other_sizes: Array) -> None:
            outputs[rows] += sizes[:, None] * (tile @ (other_sizes[:, None] * coefficients[columns]))

        kernel.visit_tiles(len(X), kernel.blocks(X, common), len(Z), stored.chosen(np.arange(len(Z))), add)
        return outputs

    return values


def half_spaces_of_samples(X: Array, parameters: dict[str, Any], dtype: Any = float) -> Callable[..., Array]:
    """Return `half_spaces` as a function of row numbers of X, i (n,) and j (m,), whose values (n, m) have a data type.

    The directions of X are stored. The errors of single precision are those of `half_space_expansion`.

    >>> half_spaces_of_samples(np.eye(2), {})(np.array([1]), np.array([1, 0])).tolist()
    [[1.0, 0.0]]
    """
    kernel = _HalfSpaces(*parameters_of(parameters, X.shape[1]), dtype)
    stored = _Directions(X, kernel, kernel.frequent(X))

    def values(i: np.ndarray, j: np.ndarray) -> Array:
        entries = np.empty((len(i), len(j)), dtype)
        kernel.visit_tiles(len(i), stored.chosen(i), len(j), stored.chosen(j), partial(_put, entries))
        return entries

    return values


def parameters_of(parameters: dict[str, Any], inputs: int) -> tuple[Any, float, list[Any]]:
    """Return b, l and the columns of the receptive fields for the parameters of `half_spaces`."""
    given = {"hyperplanes": 1, "linear": 1.0, **parameters}
    fields = receptive_fields(inputs, **{name: given[name] for name in ("side", "stride", "sets") if name in given})
    return given["hyperplanes"], given["linear"], fields


def half_spaces_error(parameters: dict[str, Any], inputs: int, dtype: Any = float) -> float:
    """Return a bound of the errors of `half_spaces` in a data type, as a share of √(k(x, x) k(z, z)).

    For the unit roundoff u, a sum of m products of entries of unit vectors has an error of mu. Directions have lengths
    1 + δ, with |δ| ≤ (p/2 + 6) 2⁻⁵³ for p inputs, because lengths are in doubles. Both are errors of cos θ, and change
    (1 − θ/π)ᵇ by at most b/(π sin θ) times as much, which is largest at the switch to nearly parallel directions, whose
    distance has smaller errors. To these are added b times the error of θ/π for a given cosine, and the roundings of
    powers and of sums over the fields. By Cauchy–Schwarz, shares of ‖x_p‖ ‖z_p‖ add up to that of ‖x‖ ‖z‖.

    >>> f"{half_spaces_error({'side': 8, 'stride': 4}, 784, np.float32):.1e}", f"{half_spaces_error({}, 784):.1e}"
    ('2.0e-05', '4.0e-12')
    """
    b, linear, fields = parameters_of(parameters, inputs)
    size, unit = np.dtype(dtype).itemsize, float(np.finfo(dtype).eps) / 2
    entries, switch = max(np.empty((0, inputs))[:, field].shape[1] for field in fields), NEARLY_PARALLEL[size]
    slope = b / (np.pi * np.sqrt(2 * switch * (1 - switch)))
    sums = entries if size == 8 else min(entries, SUMMED) + math.ceil(entries / SUMMED) - 1
    terms = (sums + 2) * (1 + slope) + 3 * (len(fields) + b) + 12
    errors = terms * unit + slope * (entries + 12) * 2.0**-53 + b * ARCCOS_ERRORS[size]
    return float(errors / (1 - (1 - linear) / 2.0**b))


class _HalfSpaces:
    """The kernel with b = `hyperplanes`, l = `linear` and the columns of its receptive `fields`, in a data type."""

    def __init__(self, hyperplanes: int, linear: float, fields: Sequence[Any], dtype: Any) -> None:
        if not (hyperplanes >= 1 and hyperplanes % 1 == 0 and 0 <= linear <= 1):
            raise InputError(
                f"hyperplanes must be a positive integer, linear in [0, 1], not {hyperplanes} and {linear}"
            )
        self.b, self.fields, self.dtype = int(hyperplanes), fields, np.dtype(dtype)
        self.offset, self.arccos = (1 - linear) / 2.0**self.b, _arccos(self.dtype.itemsize).astype(self.dtype)

    def blocks(self, A: Array, frequent: list[tuple[int, Array, Array]]) -> _Blocks:
        def block(rows: slice) -> _Directions:
            directions = _Directions(A[rows], self, frequent)
            directions.numbers += rows.start
            return directions

        return block

    def frequent(self, A: Array) -> list[tuple[int, Array, Array]]:
        """Return p, direction (1, d) and key (1,) of each frequent direction in A; none if they are too few."""
        directions, some, total = [], _Directions(A[:: len(A) // SAMPLED + 1], self, []), 0
        for p, keys in enumerate(some.keys if len(A) else []):
            key, first, counts = np.unique(keys, return_index=True, return_counts=True)
            mode = counts.argmax()
            if counts[mode] > max(FREQUENT_SHARE * len(keys), 1):
                directions.append((p, some.directions[p][[first[mode]]], key[[mode]]))
                total += counts[mode]
        return directions if total > MEAN_FREQUENT_SHARE * some.keys.size else []

    def visit_tiles(self, n: int, left: _Blocks, m: int, right: _Blocks, visit: Callable[..., None]) -> None:
        """Compute k (n, m) tile by tile; `left` and `right` return the directions of a block of its rows and columns.

        `visit` gets the rows and columns of a tile, the tile, and sizes that multiply them; threads differ in rows.
        """
        for rows in row_blocks(n):
            block = left(rows)
            for columns in row_blocks(m):
                self._visit(block, right(columns), visit)

    def _visit(self, left: _Directions, right: _Directions, visit: Callable[..., None]) -> None:
        # Rows apart with all columns, and other rows with columns apart.
        U = np.hstack([left.frequent_lengths, np.where(left.frequent_lengths > 0, 0, left.frequent_products)])
        V, wide_tiles = np.hstack([right.frequent_products, right.frequent_lengths]), right.tiles(TILE_COLUMNS)

        def visit_rows(tile: tuple[slice, list[tuple[int, int]]]) -> None:
            # Arrays are allocated once, because new memory costs more than the arithmetic.
            work = np.empty((3, TILE_ROWS * TILE_COLUMNS), self.dtype)
            rows, row_ends = tile
            for columns, column_ends in wide_tiles:
                total = _shaped(work[2], rows.stop - rows.start, columns.stop - columns.start)
                np.matmul(U[rows], V[columns].T, out=total)
                for p, ((a, b), (c, d)) in enumerate(zip(row_ends, column_ends, strict=True)):
                    if a < b and c < d:
                        left_part = left.directions[p][a:b], left.lengths[p, a:b]
                        right_part = right.directions[p][c:d], right.lengths[p, c:d]
                        self.add(total, a - rows.start, c - columns.start, left_part, right_part, work)
                visit(left.numbers[rows], right.numbers[columns], total, left.sizes[rows], right.sizes[columns])

        in_threads(visit_rows, left.tiles(TILE_ROWS))

    def add(self, total: Array, i: int, j: int, left: tuple[Array, ...], right: tuple[Array, ...], work: Array) -> None:
        """Add ((1 − θ/π)ᵇ − `offset`) cos θ ‖u‖ ‖v‖ to `total` from (i, j) on, given directions and lengths of u, v."""
        U, V = left[0], right[0]
        cosines, last = (_shaped(part, len(U), len(V)) for part in work[:2])
        step = SUMMED if self.dtype != float else U.shape[1]
        np.matmul(U[:, :step], V[:, :step].T, out=cosines)
        # Shorter sums have smaller error bounds.
        starts = range(step, U.shape[1], step)
        for start in starts:
            np.matmul(U[:, start : start + step], V[:, start : start + step].T, out=last)
            if start < starts[-1]:
                cosines += last
        numbers = self.dtype.type(self.offset), self.dtype.type(1 - NEARLY_PARALLEL[self.dtype.itemsize])
        _add_gated(total, i, j, cosines, last[: len(U) * bool(starts)], left, right, self.b, *numbers, self.arccos)


@compiled
def _add_gated(
    total: Array,
    first: int,
    start: int,
    cosines: Array,
    last: Array,
    left: tuple[Array, ...],
    right: tuple[Array, ...],
    b: int,
    offset: Any,
    limit: Any,
    polynomial: Array,
) -> None:
    """Do `_HalfSpaces.add` for `cosines` + `last` (n, m), where `last` has no rows if it is 0."""
    (U, lengths), (V, other_lengths) = left, right
    kind, m = cosines.dtype.type, cosines.shape[1]
    zero, one = kind(0), kind(1)
    # 1 − θ/π of one row, which stays in the cache.
    shares, powers = np.empty(m, cosines.dtype), np.empty(m, cosines.dtype)
    for i in range(len(cosines)):
        row, out, near = cosines[i], total[first + i, start : start + m], 0
        if len(last):
            for j in range(m):
                row[j] += last[i, j]
        for j in range(m):
            shares[j] = zero
            near += abs(row[j]) > limit
        for k in range(len(polynomial)):
            # One loop over nine coefficients is one pass over the row.
            c = polynomial[k]
            c0, c1, c2, c3, c4, c5, c6, c7, c8 = c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7], c[8]
            for j in range(m):
                x = abs(row[j])
                x = x + x - one
                share = ((shares[j] * x + c0) * x + c1) * x + c2
                share = ((share * x + c3) * x + c4) * x + c5
                shares[j] = ((share * x + c6) * x + c7) * x + c8
        for j in range(m):
            # Cosines beyond ±1 are nearly parallel.
            share = shares[j] * np.sqrt(max(one - abs(row[j]), zero))
            share = share if row[j] < zero else one - share
            shares[j] = share
            powers[j] = share
        if near:
            for j in range(m):
                # Here arccos loses half of the digits, but not the distance of ±U_i and V_j.
                if abs(row[j]) > limit:
                    sign, square = (one if row[j] > zero else -one), zero
                    for k in range(U.shape[1]):
                        square += (U[i, k] - sign * V[j, k]) ** 2
                    # 2 arcsin(√s/2)/π, up to a relative error of 2e-11 for s < .02 and 2e-19 for s < 2e-4.
                    s = float(square)
                    small = kind(np.sqrt(s) / np.pi * (1 + s * (1 / 24 + s * (3 / 640 + s * 5 / 7168))))
                    shares[j] = powers[j] = one - small if sign > zero else small
        for _ in range(1, b):
            for j in range(m):
                powers[j] *= shares[j]
        for j in range(m):
            out[j] += (powers[j] - offset) * row[j] * (lengths[i] * other_lengths[j])


@compiled
def _put(values: Array, rows: np.ndarray, columns: np.ndarray, total: Array, sizes: Array, other_sizes: Array) -> None:
    for i in range(len(rows)):
        out, row = values[rows[i]], total[i]
        for j in range(len(columns)):
            out[columns[j]] = row[j] * (sizes[i] * other_sizes[j])


@cache
def _arccos(size: int) -> Array:
    """Return the a_k, last first, of arccos x/(π√(1 − x)) ≈ Σ_k a_k (2x − 1)ᵏ for 0 ≤ x ≤ 1; shape (terms/9, 9)."""
    series = Chebyshev.interpolate(lambda x: np.arccos(x) / np.pi / np.sqrt(1 - x), TERMS[size] - 1, domain=[0, 1])
    return np.asarray(series.convert(kind=Polynomial, domain=[0, 1], window=[-1, 1]).coef, float)[::-1].reshape(-1, 9)


def _shaped(buffer: Array, *shape: int) -> Array:
    return buffer[: math.prod(shape)].reshape(shape)


class _Directions:
    """Rows of inputs in the receptive fields of a kernel, with a frequent direction of each field treated apart."""

    def __init__(self, A: Array, kernel: _HalfSpaces, frequent: list[tuple[int, Array, Array]]) -> None:
        n, fields, dtype = len(A), kernel.fields, kernel.dtype
        self.kernel = kernel
        #: Numbers (n,) of the rows, which are sorted by `apart`.
        self.numbers = np.arange(n)
        entries = sum(A[:0, field].shape[1] * dtype.itemsize + dtype.itemsize + 9 for field in fields)
        check_memory(float(n * entries), f"the receptive fields of {n} samples", "use fewer samples or fields")
        weights = np.asarray(np.random.default_rng(0).uniform(-1, 1, A.shape[1]))
        self.sizes = np.asarray(length(A, axis=1))
        #: Directions (n, d) in each field; 0 for zero rows and those apart.
        self.directions = [np.empty((n, A[:0, field].shape[1]), dtype) for field in fields]
        #: Lengths (fields, n) in the fields, divided by `sizes`.
        self.lengths = np.empty((len(fields), n), dtype)
        #: Random projections (fields, n) of the directions, rounded to 13 digits; equal for equal directions.
        self.keys = np.empty((len(fields), n))
        #: True for rows that are 0 in the field or have its frequent direction, shape (fields, n).
        self.apart = np.zeros((len(fields), n), dtype=bool)

        def set_rows(rows: slice) -> None:
            relative = A[rows] / np.where(self.sizes > 0, self.sizes, 1.0)[rows, None]
            for p, field in enumerate(fields):
                part = relative[:, field]
                sizes = np.sqrt(np.einsum("ij,ij->i", part, part))
                sizes[sizes < NEGLIGIBLE] = 0.0
                part = part / np.where(sizes > 0, sizes, 1.0)[:, None]
                # BLAS is avoided because it may sum equal rows in different orders.
                self.keys[p, rows] = np.round(np.einsum("ij,j->i", part, weights[field]), 13)
                self.directions[p][rows], self.lengths[p, rows] = part, sizes

        in_threads(set_rows, row_blocks(n, TILE_ROWS))
        self.set_apart(frequent)

    def set_apart(self, frequent: list[tuple[int, Array, Array]]) -> None:
        """Treat the directions of `_HalfSpaces.frequent` apart, and sort the rows, all but `keys`, by `apart`."""
        n, dtype = len(self.numbers), self.kernel.dtype
        # Lengths in the fields where `apart`, otherwise 0; gated products of all rows with the frequent directions.
        self.frequent_lengths, self.frequent_products = (np.zeros((n, len(frequent)), dtype) for _ in range(2))
        for i, (p, direction, key) in enumerate(frequent):
            U, column, work = self.directions[p], np.zeros((n, 1), dtype), np.empty((2, n), dtype)
            self.kernel.add(column, 0, 0, (U, self.lengths[p]), (direction, np.ones(1, dtype)), work)
            self.frequent_products[:, i] = column[:, 0]
            # Different directions may have equal keys.
            equal = length(U - direction, axis=1) < 2 * np.sqrt(U.shape[1]) * np.finfo(dtype).eps
            self.apart[p] = (self.lengths[p] == 0) | ((self.keys[p] == key) & equal)
            self.frequent_lengths[:, i] = np.where(self.apart[p], self.lengths[p], 0)
            U[self.apart[p]] = 0
        if frequent:
            order = np.lexsort(self.apart[np.argsort(self.apart.sum(axis=1))])
            vars(self).update(vars(self.taken(order, order)))

    def chosen(self, numbers: np.ndarray) -> _Blocks:
        """Return a function whose values are a block of the rows with these `numbers`, sorted by `apart`."""
        places = np.argsort(self.numbers)[numbers]
        order = np.argsort(places)
        return lambda rows: self.taken(places[order[rows]], order[rows])

    def taken(self, rows: np.ndarray, order: np.ndarray) -> _Directions:
        """Return these rows with new numbers `order`, without a copy if they follow each other."""
        successive = len(rows) > 0 and (np.diff(rows) == 1).all()
        part, taken = copy(self), slice(rows[0], rows[-1] + 1) if successive else rows
        part.numbers, part.directions = order, [U[taken] for U in self.directions]
        part.lengths, part.apart = (np.ascontiguousarray(A[:, taken]) for A in (self.lengths, self.apart))
        part.frequent_lengths, part.frequent_products, part.sizes = (
            A[taken] for A in (self.frequent_lengths, self.frequent_products, self.sizes)
        )
        return part

    def tiles(self, size: int) -> list[tuple[slice, list[tuple[int, int]]]]:
        """Return slices of at most `size` rows, and the first and last row + 1 of each field that are not apart."""
        tiles = []
        for rows in row_blocks(len(self.sizes), size):
            others = ~self.apart[:, rows]
            first, end = others.argmax(axis=1) + rows.start, rows.stop - others[:, ::-1].argmax(axis=1)
            end = np.where(others.any(axis=1), end, first)
            tiles.append((rows, list(zip(first.tolist(), end.tolist(), strict=True))))
        return tiles


def receptive_fields(
    inputs: int, side: int | None = None, stride: int = 1, sets: Sequence[Sequence[int]] | None = None
) -> list[Any]:
    """Return the columns of each receptive field of inputs (n, `inputs`), as indices, or as one slice of all columns.

    The fields are the patches of square images if `side` is given, `sets` if they are given, otherwise all columns.
    InputError is raised if patches do not fit, or a set is empty, has columns that do not exist, or has one twice.

    >>> [field.tolist() for field in receptive_fields(9, side=2, stride=1)]
    [[0, 1, 3, 4], [1, 2, 4, 5], [3, 4, 6, 7], [4, 5, 7, 8]]
    """
    if side is not None and sets is not None:
        raise InputError("side gives patches and sets gives columns; leave one of them out")
    if sets is not None:
        try:
            fields = [np.asarray(one) for one in sets]
        except CONVERSION_ERRORS:
            fields = []
        are_integers = [field.ndim == 1 and field.size and np.issubdtype(field.dtype, np.integer) for field in fields]
        if (
            not fields
            or not all(are_integers)
            or any(field.min() < 0 or field.max() >= inputs or len(np.unique(field)) < len(field) for field in fields)
        ):
            raise InputError(f"sets must be lists of different column numbers from 0 to {inputs - 1}, none empty")
        return fields
    if side is None:
        return [slice(None)]
    width = math.isqrt(inputs)
    if width**2 != inputs or not 1 <= side <= width or stride < 1 or int(side) != side or int(stride) != stride:
        text = f"side={side} and stride={stride} must be whole numbers that fit square images"
        raise InputError(f"{text}, but there are {inputs} columns; keep fit_intercept=False, or give sets of columns")
    image, corners = np.arange(inputs).reshape(width, width), range(0, width - int(side) + 1, int(stride))
    return [image[i : i + int(side), j : j + int(side)].ravel() for i in corners for j in corners]
