"""Kernel of infinitely many gated linear units with random contexts, on inputs or their receptive fields."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import numpy as np

from implicit_bias._utils.blocks import row_blocks
from implicit_bias._utils.checks import Array, InputError
from implicit_bias._utils.memory import check_memory
from implicit_bias._utils.scaling import length
from implicit_bias._utils.threads import in_threads

#: Rows and columns of a tile of a half-space kernel, which stays in the cache.
TILE, WIDTH = 256, 512
#: Largest number of products that single precision adds in a cosine before the next sum.
SUMMED = 72
#: 1 − |cos θ|, by the bytes of a number, below which the angle θ is computed from the distance of two directions.
NEARLY_PARALLEL = {8: 1e-6, 4: 1e-2}
#: Share of nearly parallel pairs among all pairs of their rows and columns, above which a matrix product gives their
#: distances in single precision.
DENSE = 0.02
#: Least share of the inputs that have the most frequent direction of a receptive field, for treating it apart.
COMMON = 0.02
#: Least mean of these shares over all fields; below it, sorting the inputs costs more than it saves.
COMMON_MEAN = 0.05
#: Largest number of inputs in which frequent directions are searched for.
SAMPLED = 500
#: Length of a part of an input, as a share of the whole one's, below which the part counts as zero.
NEGLIGIBLE = 1e-150


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
    return _HalfSpaces(hyperplanes, linear, receptive_fields(X.shape[1], side, stride, sets), float).between(X, Z)


def half_spaces_in_single(
    X: Array, Z: Array, side: Any = None, stride: int = 1, sets: Any = None, **gates: Any
) -> Array:
    """Return the kernel `half_spaces` with errors of single precision; see `error_in_single`."""
    return _HalfSpaces(fields=receptive_fields(X.shape[1], side, stride, sets), dtype=np.float32, **gates).between(X, Z)


def half_spaces_of_samples(
    X: Array, parameters: dict[str, Any], dtype: Any = float
) -> Callable[[np.ndarray, np.ndarray], Array]:
    """Return `half_spaces` as a function of row numbers of X, i (n,) and j (m,), whose values (n, m) have a data type.

    The directions of X are stored. The errors of single precision are those of `half_spaces_in_single`.

    >>> half_spaces_of_samples(np.eye(2), {})(np.array([1]), np.array([1, 0])).tolist()
    [[1.0, 0.0]]
    """
    kernel = _HalfSpaces(*parameters_of(parameters, X.shape[1]), dtype)
    entries = len(X) * sum(X[:0, field].shape[1] for field in kernel.fields)
    need, what = float(entries * kernel.dtype.itemsize), f"the receptive fields of {len(X)} samples"
    check_memory(need, what, "use fewer samples or fields")
    whole = _Directions(X, kernel)
    whole.set_apart(kernel.frequent(X))

    def values(i: np.ndarray, j: np.ndarray) -> Array:
        found = np.empty((len(i), len(j)), dtype)
        kernel.set_matrix(found, lambda rows: (whole, i[rows]), lambda rows: (whole, j[rows]))
        return found

    return values


def parameters_of(parameters: dict[str, Any], inputs: int) -> tuple[int, float, list[Any]]:
    """Return b, l and the columns of the receptive fields for the parameters of `half_spaces`."""
    own = {"hyperplanes": 1, "linear": 1.0, **parameters}
    fields = receptive_fields(inputs, **{name: own[name] for name in ("side", "stride", "sets") if name in own})
    return int(own["hyperplanes"]), own["linear"], fields


def error_in_single(parameters: dict[str, Any], inputs: int) -> float:
    """Return a bound of the errors of `half_spaces_in_single`, as a share of √(k(x, x) k(z, z)).

    >>> f"{error_in_single({'side': 8, 'stride': 4}, 784):.1e}"
    '2.0e-05'
    """
    b, linear, fields = parameters_of(parameters, inputs)
    entries = max(np.empty((0, inputs))[:, field].shape[1] for field in fields)
    # An error of the cosine is multiplied by at most this in (1 − θ/π)ᵇ.
    slope = b / (np.pi * np.sqrt(2 * NEARLY_PARALLEL[4] * (1 - NEARLY_PARALLEL[4])))
    sums = min(entries, SUMMED) + math.ceil(entries / SUMMED) - 1
    terms = (sums + 2) * (1 + slope) + 3 * (len(fields) + b) + 12
    return float(terms * 2.0**-24 / (1 - (1 - linear) / 2.0**b))


class _HalfSpaces:
    """The kernel with b = `hyperplanes`, l = `linear` and the columns of its receptive `fields`, in a data type."""

    def __init__(
        self, hyperplanes: int = 1, linear: float = 1.0, fields: Sequence[Any] = (), dtype: Any = float
    ) -> None:
        if int(hyperplanes) != hyperplanes or hyperplanes < 1 or not 0 <= linear <= 1:
            raise InputError(
                f"hyperplanes must be a positive integer and linear between 0 and 1, not {hyperplanes} and {linear}"
            )
        self.b, self.fields, self.dtype = int(hyperplanes), fields, np.dtype(dtype)
        self.mean = (1 - linear) * (np.pi / 2) ** self.b

    def between(self, X: Array, Z: Array) -> Array:
        """Return k(X, Z) (n, m)."""
        common = self.frequent(Z)

        def prepared(A: Array) -> Callable[[slice], tuple[_Directions, np.ndarray]]:
            def block(rows: slice) -> tuple[_Directions, np.ndarray]:
                directions = _Directions(A[rows], self)
                directions.set_apart(common)
                return directions, directions.order

            return block

        values = np.empty((len(X), len(Z)))
        self.set_matrix(values, prepared(X), prepared(Z))
        return values

    def frequent(self, A: Array) -> list[tuple[int, Array, Array]]:
        """Return p, the direction (1, d) and its key (1,) for each field in which a direction is frequent in A.

        The list is empty if these directions are too few to be treated apart.
        """
        found, some, total = [], _Directions(A[:: len(A) // SAMPLED + 1], self), 0
        for p, keys in enumerate(some.keys):
            key, first, counts = np.unique(keys, return_index=True, return_counts=True)
            most = counts.argmax()
            if counts[most] > max(COMMON * len(keys), 1):
                found.append((p, some.directions[p][[first[most]]], key[[most]]))
                total += counts[most]
        return found if total > COMMON_MEAN * some.keys.size else []

    def set_matrix(self, values: Array, left: Callable[[slice], Any], right: Callable[[slice], Any]) -> None:
        """Set `values` (n, m) to k; `left` and `right` return directions and the numbers of a block of rows in them."""
        for rows in row_blocks(len(values)):
            directions, numbers = left(rows)
            block = directions.taken(numbers)
            for columns in row_blocks(values.shape[1]):
                directions, numbers = right(columns)
                self.fill(values[rows, columns], block, directions.taken(numbers))

    def fill(self, values: Array, left: _Directions, right: _Directions) -> None:
        """Set `values` (n, m) to the kernel of `left` (n) and `right` (m), tile by tile."""
        factor = self.dtype.type(-(np.pi**-self.b))
        own = factor * np.hstack([left.own, np.where(left.own > 0, 0, left.along)])
        along, lengths = np.hstack([right.along, right.own]), factor * left.lengths
        wide_tiles, direct = right.tiles(WIDTH), self.dtype == float and not own.shape[1]
        opposite = [-U for U in left.directions]

        def fill_rows(tile: tuple[slice, list[tuple[int, int]]]) -> None:
            # Arrays are allocated once, because new memory costs more than the arithmetic.
            work, scaled = np.empty((4, TILE * WIDTH), self.dtype), np.empty(TILE * WIDTH)
            rows, row_ends = tile
            for columns, column_ends in wide_tiles:
                unsorted = values[rows, columns]
                total = unsorted if direct else _shaped(work[3], *unsorted.shape)
                np.matmul(own[rows], along[columns].T, out=total)
                for p, ((a, b), (c, d)) in enumerate(zip(row_ends, column_ends, strict=True)):
                    if a < b and c < d:
                        U, V = opposite[p][a:b], right.directions[p][c:d]
                        found = self.gated(U, V, left.keys[p, a:b], right.keys[p, c:d], work)
                        found *= lengths[p, a:b, None]
                        found *= right.lengths[p, c:d]
                        total[a - rows.start : b - rows.start, c - columns.start : d - columns.start] += found
                if not direct:
                    whole = _shaped(scaled, *total.shape) if own.shape[1] else unsorted
                    np.multiply(total, left.sizes[rows, None], out=whole)
                    whole *= right.sizes[columns]
                    if own.shape[1]:
                        values[np.ix_(left.order[rows], right.order[columns])] = whole

        in_threads(fill_rows, left.tiles(TILE))

    def gated(self, U: Array, V: Array, keys: Array, others: Array, work: Array) -> Array:
        """Return c((π − θ)ᵇ − `mean`), c = −cos θ, for the angles θ of −U (n, d) and V (m, d), in the memory `work`."""
        cosines, angles, powers = (_shaped(part, len(U), len(V)) for part in work[:3])
        step = SUMMED if self.dtype != float else U.shape[1]
        np.matmul(U[:, :step], V[:, :step].T, out=cosines)
        # Shorter sums have smaller error bounds.
        for start in range(step, U.shape[1], step):
            cosines += np.matmul(U[:, start : start + step], V[:, start : start + step].T, out=angles)
        _set_angles(angles, cosines, U, V, keys, others)
        if self.b > 1:
            # Faster than a power.
            np.multiply(angles, angles, out=powers)
            for _ in range(self.b - 2):
                powers *= angles
        else:
            powers = angles
        if self.mean:
            powers -= self.mean
        powers *= cosines
        return powers


def _shaped(buffer: Array, *shape: int) -> Array:
    return buffer[: math.prod(shape)].reshape(shape)


class _Directions:
    """Rows of inputs in the receptive fields of a kernel, with a frequent direction of each field treated apart.

    Attributes
    ----------
    sizes : array, shape (n,)
        Lengths of the rows or, in double precision, ones.
    directions : list of arrays, shape (n, d)
        For each field; 0 for zero rows and those apart.
    lengths, keys, apart : array, shape (fields, n)
        Lengths in the fields, divided by `sizes`; random projections of the directions, rounded to 13 digits, which
        are equal for equal directions; and masks of those with the frequent direction.
    own, along : array, shape (n, fields with a frequent direction)
        Lengths in the fields where `apart`, otherwise 0, and the gated products of all rows with frequent directions.
    order : array, shape (n,)
        Numbers of the rows.
    """

    own: Array
    along: Array

    def __init__(self, A: Array, kernel: _HalfSpaces) -> None:
        n, fields, dtype = len(A), kernel.fields, kernel.dtype
        self.kernel, self.order = kernel, np.arange(n)
        weights = np.asarray(np.random.default_rng(0).uniform(-1, 1, A.shape[1]))
        # Single precision has a small range.
        self.sizes = np.ones(n) if dtype == np.dtype(float) else np.asarray(length(A, axis=1))
        self.directions = [np.empty((n, A[:0, field].shape[1]), dtype) for field in fields]
        self.lengths, self.keys = np.empty((len(fields), n), dtype), np.empty((len(fields), n))
        self.apart = np.zeros((len(fields), n), dtype=bool)
        for rows in row_blocks(n, TILE):
            relative = A[rows] / np.where(self.sizes > 0, self.sizes, 1.0)[rows, None]
            for p, field in enumerate(fields):
                part = relative[:, field]
                sizes = np.sqrt(np.einsum("ij,ij->i", part, part))
                sizes[sizes < NEGLIGIBLE] = 0.0
                part = part / np.where(sizes > 0, sizes, 1.0)[:, None]
                # BLAS is avoided because it may sum equal rows in different orders.
                self.keys[p, rows] = np.round(np.einsum("ij,j->i", part, weights[field]), 13)
                self.directions[p][rows], self.lengths[p, rows] = part, sizes

    def set_apart(self, frequent: list[tuple[int, Array, Array]]) -> None:
        """Set `own`, `along` and `apart` for the directions of `_HalfSpaces.frequent`."""
        dtype = self.kernel.dtype
        self.own, self.along = (np.zeros((len(self.order), len(frequent)), dtype) for _ in range(2))
        for i, (p, direction, key) in enumerate(frequent):
            U, work = self.directions[p], np.empty((3, len(self.order)), dtype)
            self.along[:, i] = self.lengths[p] * self.kernel.gated(-U, direction, self.keys[p], key, work)[:, 0]
            self.apart[p] = (self.keys[p] == key) & (U @ direction[0] > 1 - NEARLY_PARALLEL[dtype.itemsize])
            self.own[:, i] = np.where(self.apart[p], self.lengths[p], 0)
            U[self.apart[p]] = 0

    def taken(self, rows: np.ndarray) -> _Directions:
        """Return a copy with these rows, sorted by the fields in which they are apart, and `order` their places."""
        found, masks = copy(self), self.apart[:, rows]
        found.order = np.lexsort(masks[np.argsort(masks.sum(axis=1))])
        taken = rows[found.order]
        found.directions = [U[taken] for U in self.directions]
        found.lengths, found.keys, found.apart = (A[:, taken] for A in (self.lengths, self.keys, self.apart))
        found.own, found.along, found.sizes = (A[taken] for A in (self.own, self.along, self.sizes))
        return found

    def tiles(self, size: int) -> list[tuple[slice, list[tuple[int, int]]]]:
        """Return slices of at most `size` rows, and the first and last row + 1 of each field that are not apart."""
        found = []
        for rows in row_blocks(len(self.sizes), size):
            others = ~self.apart[:, rows]
            first, end = others.argmax(axis=1) + rows.start, rows.stop - others[:, ::-1].argmax(axis=1)
            end = np.where(others.any(axis=1), end, first)
            found.append((rows, list(zip(first.tolist(), end.tolist(), strict=True))))
        return found


def _set_angles(angles: Array, cosines: Array, U: Array, V: Array, keys: Array, others: Array) -> None:
    """Set `angles` (n, m) to arccos(`cosines`), the angles of the unit vectors U (n, d) and V (m, d).

    The angle is exactly π where the keys of nearly equal directions −U and V agree.
    """
    limit = 1 - NEARLY_PARALLEL[cosines.dtype.itemsize]
    # Cosines beyond ±1 are replaced below.
    with np.errstate(invalid="ignore"):
        np.arccos(cosines, out=angles)
    for sign, some in ((1, cosines.max() > limit), (-1, cosines.min() < -limit)):
        if some:
            # arccos loses half of the digits for nearly parallel directions.
            near = cosines > limit if sign > 0 else cosines < -limit
            rows, columns = np.flatnonzero(near.any(axis=1)), np.flatnonzero(near.any(axis=0))
            if cosines.dtype != float and near.sum() > DENSE * len(rows) * len(columns):
                # In double precision, squared distances lose few digits to cancellation.
                A, B = U[rows].astype(float), V[columns].astype(float)
                squares = np.add.outer((A**2).sum(axis=1), (B**2).sum(axis=1)) - 2 * sign * (A @ B.T)
                squares = np.maximum(squares, 0)[near[np.ix_(rows, columns)]]
            else:
                i, j = np.nonzero(near)
                squares, apart = np.zeros(len(i), cosines.dtype), keys[i] != -sign * others[j]
                differences = U[i[apart]] - sign * V[j[apart]]
                squares[apart] = np.einsum("ij,ij->i", differences, differences)
            small = 2 * np.arcsin(np.sqrt(squares) / 2)
            angles[near] = small if sign > 0 else np.pi - small


def receptive_fields(
    inputs: int, side: int | None = None, stride: int = 1, sets: Sequence[Sequence[int]] | None = None
) -> list[Any]:
    """Return the columns of each receptive field of inputs (n, `inputs`), as indices, or as one slice of all columns.

    The fields are the patches of square images if `side` is given, `sets` if they are given, otherwise all columns.

    Raises
    ------
    InputError
        If patches do not fit the inputs, or a set is empty, has columns that do not exist, or has one twice.

    Examples
    --------
    >>> [field.tolist() for field in receptive_fields(9, side=2, stride=1)]
    [[0, 1, 3, 4], [1, 2, 4, 5], [3, 4, 6, 7], [4, 5, 7, 8]]
    """
    if side is not None and sets is not None:
        raise InputError("side gives patches and sets gives columns; leave one of them out")
    if sets is not None:
        fields = [np.asarray(one) for one in sets]
        whole = [field.ndim == 1 and field.size and np.issubdtype(field.dtype, np.integer) for field in fields]
        if (
            not fields
            or not all(whole)
            or any(field.min() < 0 or field.max() >= inputs or len(np.unique(field)) < len(field) for field in fields)
        ):
            raise InputError(f"sets must be lists of different column numbers from 0 to {inputs - 1}, none empty")
        return fields
    if side is None:
        return [slice(None)]
    width = math.isqrt(inputs)
    if width**2 != inputs or not 1 <= side <= width or stride < 1 or int(side) != side or int(stride) != stride:
        raise InputError(
            f"side={side} and stride={stride} must be whole numbers that fit square images, but there are {inputs} "
            "columns; keep fit_intercept=False, or give sets of columns"
        )
    image, corners = np.arange(inputs).reshape(width, width), range(0, width - int(side) + 1, int(stride))
    return [image[i : i + int(side), j : j + int(side)].ravel() for i in corners for j in corners]
