"""Gates that are the kernel expansions of a fitted classifier."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Self

import numpy as np

from implicit_bias._utils.blocks import ROWS, row_blocks
from implicit_bias._utils.checks import SMALLEST, Array, InputError, as_floats
from implicit_bias._utils.scaling import length
from implicit_bias._utils.threads import in_threads
from implicit_bias.features import GatedFeatures
from implicit_bias.gates.base import Gates

#: Rounding error of a Gaussian kernel above which the differences of inputs are formed one by one, which is slower.
MAX_CANCELLATION = 1e-12
#: Rows, and columns by the bytes of a number, of a tile of a half-space kernel; a tile stays in the cache.
TILE, WIDTH = 128, {8: 256, 4: 512}
#: 1 − |cos θ|, by the bytes of a number, below which the angle θ is computed from the difference of two directions.
NEARLY_PARALLEL = {8: 1e-6, 4: 1e-3}
#: Least share of the inputs that have the most frequent direction of a receptive field, for treating it apart.
COMMON = 0.02
#: Largest number of inputs in which frequent directions are searched for.
SAMPLED = 500
#: Length of a part of an input, as a share of the whole one's, below which the part counts as zero.
NEGLIGIBLE = 1e-150


class KernelExpansions(Gates):
    """Kernel expansions g_m(x) = Σ_i a_mi k_m(x, x_i), one per kernel, as gates of the constant input 1.

    The features are (ΦW)(x) = Σ_m W_m g_m(x) for W (k, 1).

    Parameters
    ----------
    kernels : sequence
        Functions k(X, Z) from inputs (n, d) and (m, d) to a matrix (n, m), or pairs of a name of scikit-learn's
        `pairwise_kernels`, or "half-spaces", and a dict of parameters. Only such pairs can be saved.
    samples : array, shape (s, d)
        The x_i.
    coefficients : array, shape (k, s)
        The a_mi.

    Raises
    ------
    InputError
        If shapes do not match, or a kernel cannot be evaluated.

    Examples
    --------
    >>> from implicit_bias.gates import KernelExpansions
    >>> gates = KernelExpansions([("linear", {}), ("rbf", {"gamma": 1.0})], np.eye(2), np.ones((2, 2)))
    >>> gates([[0.0, 0.0]]).dense().round(3).tolist()
    [[0.0, 0.736]]
    """

    made_of = ("kernels", "samples", "coefficients")
    learned = ("samples", "coefficients", "n_features_in_")

    def __init__(self, kernels: Sequence[Any], samples: Any, coefficients: Any) -> None:
        self.kernels = list(kernels)
        self.samples = as_floats(samples, "samples", 2)
        self.coefficients = as_floats(coefficients, "coefficients", 2)
        if self.coefficients.shape != (len(self.kernels), len(self.samples)):
            raise InputError(
                f"coefficients must have shape {(len(self.kernels), len(self.samples))}, a row per kernel and a column "
                f"per sample, not {self.coefficients.shape}"
            )
        self.n_features_in_ = self.samples.shape[1]
        self.groups = np.arange(len(self.kernels))

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Return the gates, which do not depend on X."""
        return self

    def restore(self, **learned: Any) -> Self:
        self.require_named()
        return super().restore(**learned)

    def require_named(self) -> None:
        """Raise InputError unless each kernel can be saved: a name with numbers as parameters."""
        named = [kernel for kernel in self.kernels if not callable(kernel)]
        given = [item for _, parameters in named for item in parameters.items()]
        wrong = [name for name, value in given if name == "n_jobs" or not isinstance(value, int | float | None)]
        if len(named) < len(self.kernels) or wrong:
            raise InputError(
                "a kernel that is a function or a matrix, or has parameters other than numbers, cannot be saved; "
                "pickle the classifier"
            )

    def transform(self, X: Any) -> Array:
        X = self._fitted_inputs(X)
        values = np.zeros((len(X), len(self.kernels)))
        for rows in row_blocks(len(X)):
            for m in np.flatnonzero(self.coefficients.any(axis=1)).tolist():
                kernel = in_single(function_of(self.kernels[m]))
                values[rows, m] = evaluated(kernel, m, X[rows], self.samples) @ self.coefficients[m]
        return values

    def __call__(self, X: Any) -> Any:
        """Return the features g(x) of inputs X, with d = 1."""
        values = self.transform(X)
        # A Gaussian kernel nearly vanishes far from all samples, and features would refuse such sizes.
        values[np.abs(values) < SMALLEST] = 0.0
        return GatedFeatures(np.ones((len(values), 1)), values)


def function_of(kernel: Any) -> Callable[[Array, Array], Any]:
    """Return the function k(X, Z) of a kernel that is given as a function, or as a name and a dict of parameters.

    >>> function_of(("poly", {"degree": 2, "coef0": 0, "gamma": 1}))(np.eye(2), np.ones((1, 2))).tolist()
    [[1.0], [1.0]]
    """
    if callable(kernel):
        function: Callable[[Array, Array], Any] = kernel
        return function
    # Imported here because only kernels given by name need it.
    from sklearn.metrics.pairwise import pairwise_kernels

    name, parameters = kernel
    ours: dict[str, Callable[..., Array]] = {"rbf": gaussian, "half-spaces": half_spaces}
    return partial(ours.get(name, partial(pairwise_kernels, metric=name)), **parameters)


def gaussian(X: Array, Z: Array, gamma: float | None = None, **options: Any) -> Array:
    """Return the Gaussian kernel exp(−γ‖x − z‖²), shape (n, m), without cancellation far from 0; γ is 1/d by default.

    >>> far = 1e9 + np.arange(3.0)[:, None]
    >>> bool((gaussian(far, far) == gaussian(far - 1e9, far - 1e9)).all())
    True
    """
    # Imported here because only kernels given by name need them.
    from scipy.spatial.distance import cdist
    from sklearn.metrics.pairwise import pairwise_kernels

    gamma = 1 / X.shape[1] if gamma is None else gamma
    centre = Z.mean(axis=0)
    X, Z = X - centre, Z - centre
    # ‖x‖² + ‖z‖² − 2⟨x, z⟩ cancels for neighbours, with an error of this multiple of the machine epsilon.
    error = gamma * ((X**2).sum(axis=1).max() + (Z**2).sum(axis=1).max()) * np.finfo(float).eps
    if error > MAX_CANCELLATION:
        return np.asarray(np.exp(-gamma * cdist(X, Z, "sqeuclidean")))
    return np.asarray(pairwise_kernels(X, Z, metric="rbf", gamma=gamma, **options))


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
    return _half_spaces(X, Z, float, hyperplanes, linear, receptive_fields(X.shape[1], side, stride, sets))


def half_spaces_in_single(
    X: Array, Z: Array, side: Any = None, stride: int = 1, sets: Any = None, **gates: Any
) -> Array:
    """Return the kernel `half_spaces` with the errors of single precision; see `error_in_single`."""
    return _half_spaces(X, Z, np.float32, fields=receptive_fields(X.shape[1], side, stride, sets), **gates)


def _half_spaces(
    X: Array, Z: Array, dtype: Any, hyperplanes: int = 1, linear: float = 1.0, fields: Sequence[Any] = ()
) -> Array:
    if int(hyperplanes) != hyperplanes or hyperplanes < 1 or not 0 <= linear <= 1:
        raise InputError(
            f"hyperplanes must be a positive integer and linear between 0 and 1, not {hyperplanes} and {linear}"
        )
    gate = partial(_gated, hyperplanes=int(hyperplanes), mean=(1 - linear) * (np.pi / 2) ** hyperplanes)
    values = np.empty((len(X), len(Z)))
    # Blocks share memory, because new memory costs as much as the directions.
    memory = [[np.empty((min(len(A), ROWS), A[:0, field].shape[1]), dtype) for field in fields] for A in (X, Z)]
    common = _Directions(Z[:: len(Z) // SAMPLED + 1], fields, memory[1]).most_frequent()
    for rows in row_blocks(len(X)):
        left = _Directions(X[rows], fields, memory[0])
        left.lengths *= -(np.pi ** -int(hyperplanes))
        left.set_apart(common, gate)
        for columns in row_blocks(len(Z)):
            right = _Directions(Z[columns], fields, memory[1])
            right.set_apart(common, gate)
            _fill(values[rows, columns], left, right, gate)
    return values


def _fill(values: Array, left: _Directions, right: _Directions, gate: Callable[..., Array]) -> None:
    """Set `values` (n, m) to the kernel of `left` (n) and `right` (m), tile by tile."""
    width = WIDTH[left.lengths.itemsize]
    own, along = np.hstack([left.own, np.where(left.own < 0, 0, left.along)]), np.hstack([right.along, right.own])
    wide_tiles, direct = right.tiles(width), width == WIDTH[8] and not own.shape[1]

    def fill(tile: tuple[slice, list[tuple[int, int]]]) -> None:
        # Arrays are allocated once, because new memory costs more than the arithmetic.
        work, scaled = np.empty((4, TILE * width), left.lengths.dtype), np.empty(TILE * width)
        rows, row_ends = tile
        for columns, column_ends in wide_tiles:
            unsorted = values[rows, columns]
            total = unsorted if direct else _shaped(work[3], *unsorted.shape)
            np.matmul(own[rows], along[columns].T, out=total)
            for p, ((a, b), (c, d)) in enumerate(zip(row_ends, column_ends, strict=True)):
                if a < b and c < d:
                    U, V = left.directions[p][a:b], right.directions[p][c:d]
                    found = gate(U, V, left.keys[p, a:b], right.keys[p, c:d], work)
                    found *= left.lengths[p, a:b, None]
                    found *= right.lengths[p, c:d]
                    total[a - rows.start : b - rows.start, c - columns.start : d - columns.start] += found
            if not direct:
                whole = _shaped(scaled, *total.shape) if own.shape[1] else unsorted
                np.multiply(total, left.sizes[rows, None], out=whole)
                whole *= right.sizes[columns]
                if own.shape[1]:
                    values[np.ix_(left.order[rows], right.order[columns])] = whole

    in_threads(fill, left.tiles(TILE))


def _shaped(buffer: Array, *shape: int) -> Array:
    return buffer[: math.prod(shape)].reshape(shape)


class _Directions:
    """Rows of inputs in receptive fields, with a common direction of each field treated apart.

    Attributes
    ----------
    order, sizes : array, shape (n,)
        Numbers of the rows, sorted by the fields in which they have the common direction, and their lengths or, in double
        precision, ones.
    directions : list of arrays, shape (n, d)
        For each field; 0 for zero rows and those with the common direction.
    lengths, keys, apart : array, shape (fields, n)
        Lengths in the fields, divided by `sizes`; random projections of the directions, rounded to 13 digits, which
        are equal for equal directions; and masks of those with the common direction.
    own, along : array, shape (n, fields with a common direction)
        Lengths in the fields where `apart`, otherwise 0, and products of all rows with the common directions.
    """

    own: Array
    along: Array

    def __init__(self, A: Array, fields: Sequence[Any], memory: list[Array]) -> None:
        n, self.sizes, self.order = len(A), np.asarray(length(A, axis=1)), np.arange(len(A))
        weights = np.asarray(np.random.default_rng(0).uniform(-1, 1, A.shape[1]))
        self.directions = [part[:n] for part in memory]
        self.lengths, self.keys = np.empty((len(fields), n), memory[0].dtype), np.empty((len(fields), n))
        self.apart = np.zeros((len(fields), n), dtype=bool)
        # Single precision has a small range.
        if memory[0].itemsize == 8:
            self.sizes = np.ones(n)
        relative = A / np.where(self.sizes > 0, self.sizes, 1.0)[:, None]
        for rows, (p, field) in itertools.product(row_blocks(n, TILE), enumerate(fields)):
            part = relative[rows][:, field]
            sizes = np.sqrt(np.einsum("ij,ij->i", part, part))
            sizes[sizes < NEGLIGIBLE] = 0.0
            part = part / np.where(sizes > 0, sizes, 1.0)[:, None]
            # BLAS is avoided because it may sum equal rows in different orders.
            self.keys[p, rows] = np.round(np.einsum("ij,j->i", part, weights[field]), 13)
            self.directions[p][rows], self.lengths[p, rows] = part, sizes

    def most_frequent(self) -> list[tuple[int, Array, Array]]:
        """Return p, the direction (1, d) and its key (1,) for each field with a frequent direction."""
        found = []
        for p, keys in enumerate(self.keys):
            key, first, counts = np.unique(keys, return_index=True, return_counts=True)
            most = counts.argmax()
            if counts[most] > max(COMMON * len(keys), 1):
                found.append((p, self.directions[p][[first[most]]], key[[most]]))
        return found

    def set_apart(self, common: list[tuple[int, Array, Array]], gate: Callable[..., Array]) -> None:
        """Treat the directions of `most_frequent` apart: set `own`, `along` and `apart`, and sort the rows."""
        own = np.zeros((len(common), len(self.sizes)), self.lengths.dtype)
        along = np.zeros_like(own)
        for i, (p, direction, key) in enumerate(common):
            U, work = self.directions[p], np.empty((3, len(self.sizes)), along.dtype)
            along[i] = self.lengths[p] * gate(U, direction, self.keys[p], key, work)[:, 0]
            self.apart[p] = (self.keys[p] == key) & (U @ direction[0] > 1 - NEARLY_PARALLEL[own.itemsize])
            own[i] = np.where(self.apart[p], self.lengths[p], 0)
            U[self.apart[p]] = 0
        shared = self.apart[[p for p, _, _ in common]]
        if common:
            self.order = np.lexsort(shared[np.argsort(shared.sum(axis=1))])
            for U in self.directions:
                U[:] = U[self.order]
        self.own, self.along, self.sizes = own.T[self.order], along.T[self.order], self.sizes[self.order]
        self.lengths, self.keys, self.apart = (A[:, self.order] for A in (self.lengths, self.keys, self.apart))

    def tiles(self, size: int) -> list[tuple[slice, list[tuple[int, int]]]]:
        """Return slices of at most `size` rows, and the first and last row + 1 of each field that are not apart."""
        found = []
        for rows in row_blocks(len(self.sizes), size):
            others = ~self.apart[:, rows]
            first, end = others.argmax(axis=1) + rows.start, rows.stop - others[:, ::-1].argmax(axis=1)
            end = np.where(others.any(axis=1), end, first)
            found.append((rows, list(zip(first.tolist(), end.tolist(), strict=True))))
        return found


def _gated(U: Array, V: Array, keys: Array, others: Array, work: Array, hyperplanes: int, mean: float) -> Array:
    """Return c((π − θ)ᵇ − `mean`), c = −cos θ, for the angles θ of U (n, d) and V (m, d), in the memory `work`."""
    cosines, shares, once = (_shaped(part, len(U), len(V)) for part in work[:3])
    np.matmul(-U, V.T, out=cosines)
    _set_angles(shares, cosines, U, V, keys, others)
    if hyperplanes > 1:
        # Faster than a power.
        np.copyto(once, shares)
        for _ in range(hyperplanes - 1):
            shares *= once
    if mean:
        shares -= mean
    shares *= cosines
    return shares


def _set_angles(angles: Array, cosines: Array, U: Array, V: Array, keys: Array, others: Array) -> None:
    """Set `angles` (n, m) to arccos(`cosines`), the angles of the unit vectors −U (n, d) and V (m, d).

    The angle is exactly π where the keys of nearly equal directions U and V agree.
    """
    limit = 1 - NEARLY_PARALLEL[cosines.dtype.itemsize]
    # Cosines beyond ±1 are replaced below.
    with np.errstate(invalid="ignore"):
        np.arccos(cosines, out=angles)
    for sign, some in ((1, cosines.max() > limit), (-1, cosines.min() < -limit)):
        if some:
            # arccos loses half of the digits for nearly parallel directions.
            i, j = np.divmod(np.flatnonzero(cosines > limit if sign > 0 else cosines < -limit), len(V))
            small, apart = np.zeros(len(i), cosines.dtype), keys[i] != -sign * others[j]
            differences = U[i[apart]] + sign * V[j[apart]]
            small[apart] = 2 * np.arcsin(np.sqrt(np.einsum("ij,ij->i", differences, differences)) / 2)
            angles[i, j] = small if sign > 0 else np.pi - small


def in_single(function: Callable[[Array, Array], Any]) -> Callable[[Array, Array], Any]:
    """Return a kernel's function in single precision if that is faster, for "half-spaces"; otherwise the function."""
    if isinstance(function, partial) and function.func is half_spaces:
        return partial(half_spaces_in_single, **function.keywords)
    return function


def error_in_single(kernel: Any, inputs: int) -> float:
    """Return a bound of the error of `in_single`, as a share of √(k(x, x) k(z, z)); infinity if it is not faster.

    >>> f"{error_in_single(('half-spaces', {'side': 8, 'stride': 4}), 784):.1e}"
    '3.9e-05'
    """
    if callable(kernel) or kernel[0] != "half-spaces":
        return np.inf
    b, linear, fields = _parameters(kernel, inputs)
    entries = max(len(np.empty(inputs)[field]) for field in fields)
    # The cosine's error and that of the angle, which is at most this multiple; products and sums of fields.
    steepest = b / (np.pi * np.sqrt(2 * NEARLY_PARALLEL[4] * (1 - NEARLY_PARALLEL[4])))
    terms = (entries + 2) * (1 + steepest) + 3 * len(fields) + b + 12
    return float(terms * 2.0**-24 / (1 - (1 - linear) / 2.0**b))


def _parameters(kernel: Any, inputs: int) -> tuple[int, float, list[Any]]:
    """Return b, l and the columns of the receptive fields of a kernel "half-spaces"."""
    own = {"hyperplanes": 1, "linear": 1.0, **kernel[1]}
    fields = receptive_fields(inputs, **{name: own[name] for name in ("side", "stride", "sets") if name in own})
    return int(own["hyperplanes"]), own["linear"], fields


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


def diagonal_of(kernel: Any, X: Array) -> Array:
    """Return k(x, x), shape (n,), for all rows x of X (n, d), without the matrix of the kernel.

    >>> diagonal_of(("half-spaces", {"sets": [[0], [0, 1]]}), np.array([[1.0, 2.0]])).tolist()
    [6.0]
    """
    if callable(kernel) or kernel[0] != "half-spaces":
        parts = [evaluated(kernel, 0, X[rows], X[rows]).diagonal() for rows in row_blocks(len(X), 100)]
        return np.concatenate(parts)
    evaluated(kernel, 0, X[:1], X[:1])
    b, linear, fields = _parameters(kernel, X.shape[1])
    total = np.sum([(X[:, columns] ** 2).sum(axis=1) for columns in fields], axis=0)
    return np.asarray(total * (1 - (1 - linear) / 2.0**b))


def evaluated(kernel: Any, m: int, X: Array, Z: Array) -> Array:
    """Return k(X, Z), shape (n, s), for X (n, d) and Z (s, d); raise InputError about kernel m if that fails."""
    try:
        values = as_floats(function_of(kernel)(X, Z), f"the values of kernel {m}", 2)
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        raise InputError(f"kernel {m} cannot be called: {error}") from error
    if values.shape != (len(X), len(Z)):
        raise InputError(f"kernel {m} must give shape {(len(X), len(Z))} here, not {values.shape}")
    return values
