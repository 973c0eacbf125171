"""Gated linear features of inputs that do not fit in memory: chunks are read from a file or a cluster."""

import copy
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from implicit_bias._utils.checks import Array, InputError, as_count, as_floats, as_numbers, as_rows, shown
from implicit_bias._utils.floats import UNIT, length, nearest_power_of_two, share, two_sum
from implicit_bias._utils.limits import check_memory
from implicit_bias.features.base import Features, as_mixing
from implicit_bias.features.gated import GatedFeatures
from implicit_bias.features.patterns import PatternBlocks

#: Number of entries of a chunk: 64 MiB of float64.
CHUNK_SIZE = 2**23
#: Seconds before a progress bar of a pass over the samples appears.
BAR_DELAY = 3.0


@dataclass(frozen=True)
class InputScaling:
    """Map from stored rows u to inputs x = (scale · u + offset, 1)/units, with the 1 only if `constant`."""

    scale: Array
    offset: Array
    constant: bool
    units: Array | float = 1.0

    def __call__(self, raw: np.ndarray) -> Array:
        """Return the inputs (m, d) of stored rows (m, p)."""
        p = raw.shape[1]
        X = np.empty((len(raw), p + self.constant))
        np.multiply(raw, self.scale, out=X[:, :p])
        X[:, :p] += self.offset
        X[:, p:] = 1.0
        if isinstance(self.units, np.ndarray):
            X /= self.units
        return X


class ChunkedInputs:
    """Inputs X (n, d) = scale · u + offset of an array u that may be larger than the memory.

    A pass over all samples reads the chunks in turn. The chunks of a Dask array are processed where they are stored:
    by Dask's threads or, with a `distributed.Client`, by the processes of a cluster.

    Parameters
    ----------
    source : NumPy array, memory map or Dask array, shape (n, p)
        Stored numbers u of any real dtype, such as bytes in `np.load("images.npy", mmap_mode="r")`.
    scale, offset : float or array, shape (p,)
    constant : bool
        Append the constant input 1, so that d = p + 1.
    chunk : int, optional
        Number of samples per chunk; by default 64 MiB of float64. A Dask array keeps its own chunks.

    Attributes
    ----------
    largest : array, shape (d,)
        ``max_i |x_il|``.

    Raises
    ------
    InputError
        If the array has another type or shape, or its numbers are not finite.

    Examples
    --------
    >>> import numpy as np
    >>> from implicit_bias import ChunkedInputs, HyperplaneGates, solve, svm_gln
    >>> images = np.random.default_rng(1).integers(0, 256, size=(500, 20), dtype=np.uint8)
    >>> X = ChunkedInputs(images, scale=2 / 255, offset=-1, constant=True, chunk=100)
    >>> X, X[:2].shape
    (ChunkedInputs(n=500, d=21, 5 chunks of uint8), (2, 21))
    >>> y = np.where(images[:, 0] < 128, 1, -1)
    >>> solve(svm_gln(X, y, HyperplaneGates(5, 2, seed=1))).status.name
    'OPTIMAL'
    """

    ndim = 2

    def __init__(
        self, source: Any, scale: Any = 1.0, offset: Any = 0.0, constant: bool = False, chunk: int | None = None
    ) -> None:
        self.lazy = "dask.array" in sys.modules and isinstance(source, sys.modules["dask.array"].Array)
        if not (self.lazy or isinstance(source, np.ndarray)) or np.ma.isMaskedArray(source):
            raise InputError(f"the source must be a NumPy array, np.load(…, 'r') or a Dask array, not {shown(source)}")
        if source.ndim != 2 or source.dtype.kind not in "biuf" or np.isnan(source.shape).any():
            raise InputError(f"the source must hold real numbers in a known shape (n, p), not {shown(source)}")
        if 0 in source.shape:
            raise InputError(f"the source is empty (shape {source.shape}); give at least one sample and one column")
        n, p = source.shape
        self.source = source.rechunk({1: p}) if self.lazy else source
        self.scaling = InputScaling(_each_column(scale, p, "scale"), _each_column(offset, p, "offset"), bool(constant))
        self.shape = n, p + self.scaling.constant
        rows = max(1, CHUNK_SIZE // self.shape[1]) if chunk is None else as_count(chunk, "chunk")
        ends = np.cumsum(self.source.chunks[0]).tolist() if self.lazy else [*range(rows, n, rows), n]
        self.chunks = [slice(first, last) for first, last in zip([0, *ends[:-1]], ends, strict=True)]
        extremes = self._each_raw(lambda raw, *_: (raw.min(axis=0), raw.max(axis=0)))
        lows, highs = (np.array(part) for part in zip(*extremes, strict=True))
        largest = np.abs(self.scaling(np.stack([lows.min(axis=0), highs.max(axis=0)]))).max(axis=0)
        if not np.isfinite(largest).all():
            column = int(np.argmin(np.isfinite(largest)))
            text = f"column {column} of the source contains NaN or infinity, or overflows when scaled"
            raise InputError(f"{text}; clean it first")
        self.largest: Array = largest

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        kind = f"{len(self.chunks)} chunks of {self.source.dtype}"
        return f"{type(self).__name__}(n={self.shape[0]}, d={self.shape[1]}, {kind})"

    def __getitem__(self, rows: Any) -> Array:
        """Return the inputs (m, d) of some samples (a slice, a mask or indices), in memory."""
        raw = self.source[rows if isinstance(rows, slice) else np.atleast_1d(np.arange(len(self))[rows])]
        return self.scaling(raw.compute() if self.lazy else raw)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Return all inputs as an array; raise InputError if they do not fit in memory."""
        remedy = "use functions that take ChunkedInputs"
        check_memory(8 * self.shape[0] * self.shape[1], "all these inputs in memory", remedy)
        return self[:].astype(dtype or np.float64, copy=False)

    def __matmul__(self, M: Array) -> Array:
        """Return XM (n, q) for M (d, q)."""
        return np.concatenate(list(self.each(lambda X, _, shared: X @ shared[0], shared=(M,))))

    def in_units(self, units: Array) -> Self:
        """Return the inputs divided by `units` (d,)."""
        inputs = copy.copy(self)
        inputs.scaling = replace(self.scaling, units=self.scaling.units * np.asarray(units))
        inputs.largest = self.largest / units
        return inputs

    def each(
        self, function: Callable[..., Any], split: tuple[np.ndarray, ...] = (), shared: tuple[Any, ...] = ()
    ) -> Iterator[Any]:
        """Yield function(inputs, parts, shared) for each chunk, in order.

        `inputs` (m, d) are those of the chunk, and `parts` is a tuple of the same rows of each array in `split`. The
        results for a Dask array are all computed before the first is yielded.
        """
        return self._each_raw(_with_inputs, split, (self.scaling, function, shared))

    def _each_raw(
        self, function: Callable[..., Any], split: tuple[np.ndarray, ...] = (), shared: tuple[Any, ...] = ()
    ) -> Iterator[Any]:
        """Yield function(raw, parts, shared) for each chunk, like `each`, but with the stored rows `raw` (m, p)."""
        if self.lazy:
            import dask

            common, call = dask.delayed(shared, traverse=False), dask.delayed(function, pure=False)
            blocks = zip(self.chunks, self.source.to_delayed().ravel(), strict=True)
            tasks = [call(block, tuple(part[rows] for part in split), common) for rows, block in blocks]
            yield from dask.compute(*tasks)
            return
        # Imported here because inputs in memory do not need it.
        from tqdm import tqdm

        bar = tqdm(self.chunks, "pass over the samples", unit="chunk", delay=BAR_DELAY, leave=False, disable=None)
        for rows in bar:
            yield function(self.source[rows], tuple(part[rows] for part in split), shared)


def _each_column(values: Any, columns: int, name: str) -> Array:
    if np.ndim(values) == 0:
        return as_floats([values], name, 1)
    array = as_floats(values, name, 1)
    if len(array) != columns:
        raise InputError(f"{name} must be one number or {columns}, one per column, not {len(array)}")
    return array


def _with_inputs(raw: np.ndarray, split: tuple[np.ndarray, ...], shared: tuple[Any, ...]) -> Any:
    scaling, function, common = shared
    return function(scaling(raw), split, common)


class ChunkedFeatures(Features):
    """Gated linear features, (ΦW)_i = Σ_j g_j(x_i) ⟨w_j, x_i⟩, of inputs that may be larger than the memory.

    Gates called on `ChunkedInputs`, and builders such as `svm_gln`, return such features. NATIVE solves and certifies
    problems with them chunk by chunk. Methods that need all of Φ (Gram matrices, CVXPY's solvers) raise InputError if
    it does not fit in memory.

    Parameters
    ----------
    X : ChunkedInputs, shape (n, d)
    gate_values : array, shape (n, k), optional
        g_j(x_i) of any real dtype, which is kept: hard gates may be bytes. By default one gate is always open.

    Raises
    ------
    InputError
        As for `GatedFeatures`, or if X is not ChunkedInputs.

    Examples
    --------
    >>> import numpy as np
    >>> from implicit_bias import ChunkedFeatures, ChunkedInputs
    >>> X = ChunkedInputs(np.array([[0, 255], [255, 0], [255, 255]], dtype=np.uint8), scale=1 / 255, chunk=2)
    >>> phi = ChunkedFeatures(X, np.array([[1, 0], [1, 1], [0, 1]], dtype=np.uint8))
    >>> phi, phi @ [[1.0, 2.0], [3.0, 4.0]]
    (ChunkedFeatures(n=3, k=2, d=2), array([2., 4., 7.]))
    """

    verified = True

    gate_values: Any

    def __init__(self, X: ChunkedInputs, gate_values: Any = None) -> None:
        if not isinstance(X, ChunkedInputs):
            raise InputError(f"X must be ChunkedInputs(array), not {shown(X)}; GatedFeatures takes arrays")
        values = np.ones((len(X), 1), dtype=np.int8) if gate_values is None else gate_values
        if not isinstance(values, np.ndarray) or values.dtype.kind not in "biuf" or values.ndim != 2:
            raise InputError(f"gate_values must be a NumPy array of real numbers, shape (n, k), not {shown(values)}")
        if len(values) != len(X):
            raise InputError(f"X has {len(X)} rows and gate_values has {len(values)}; give one row of each per sample")
        self.X, self.gate_values = X, values
        #: T (k, k̂) of mixed gate values GT, or None.
        self.mixing: Any = None
        for _ in X.each(lambda X, split, _: GatedFeatures(X, *split), (values,)):
            pass

    @property
    def shape(self) -> tuple[int, int, int]:
        k = self.gate_values.shape[1] if self.mixing is None else self.mixing.shape[1]
        return len(self.X), k, self.X.shape[1]

    def gates(self, rows: Any) -> Array:
        """Return the gate values (m, k) of the samples `rows` as float64, times T if `mixing` is set."""
        return _mixed(self.gate_values[rows], self.mixing)

    def _each(self, method: str, split: tuple[Array, ...] = (), shared: tuple[Any, ...] = ()) -> Iterator[Any]:
        """Yield `method`(*parts, *shared) of the GatedFeatures of each chunk; `parts` are its rows of `split`."""
        return self.X.each(_called, (self.gate_values, *split), (self.mixing, method, *shared))

    def _with(self, **parts: Any) -> Self:
        features = copy.copy(self)
        features.__dict__.pop("_sizes", None)
        features.__dict__.update(parts)
        return features

    def apply(self, W: Any) -> Array:
        W = as_numbers(W, (self.k, self.d), "weights")
        return np.concatenate(list(self._each("apply", shared=(W,))))

    def adjoint(self, a: Any) -> Array:
        upper, lower, _ = self.adjoint_bounded(a)
        return np.asarray(upper + lower)

    def magnitudes(self, W: Any) -> Array:
        W = as_numbers(W, (self.k, self.d), "weights")
        return np.concatenate(list(self._each("magnitudes", shared=(W,))))

    def apply_bounded(self, W: Any, precise: bool = False) -> tuple[Array, Array, Array]:
        W = as_numbers(W, (self.k, self.d), "weights")
        upper, lower, error = zip(*self._each("apply_bounded", shared=(W, precise)), strict=True)
        return np.concatenate(upper), np.concatenate(lower), np.concatenate(error)

    def adjoint_bounded(self, a: Any, precise: bool = False) -> tuple[Array, Array, Array]:
        # The sums of the chunks are added by error-free transformations, whether or not those in a chunk are precise.
        a = as_numbers(a, (self.n,), "sample weights")
        upper, lower, error = np.zeros((self.k, self.d)), np.zeros((self.k, self.d)), np.zeros(self.k)
        count = 0
        with np.errstate(over="ignore", invalid="ignore"):
            for more, rest, off in self._each("adjoint_bounded", (a,), (precise,)):
                upper, lost = two_sum(upper, more)
                sizes = np.abs(lower) + np.abs(lost) + np.abs(rest)
                lower, error = lower + (lost + rest), error + (off + 4 * UNIT * length(sizes, axis=1))
                count += 1
        return upper, lower, error * (1 + share(2 * count + self.d + 8))

    @cached_property
    def _sizes(self) -> tuple[Array, np.ndarray]:
        """Row norms ‖φ(x_i)‖ (n,), and a mask (n,) of the samples with φ(x_i) = 0; cached."""
        norms, closed = zip(*self.X.each(_norms_and_closed, (self.gate_values,), (self.mixing,)), strict=True)
        return np.concatenate(norms), np.concatenate(closed)

    def row_norms(self, units: Any = 1.0) -> Array:
        if np.ndim(units) == 0 and units == 1:
            return self._sizes[0]
        return np.concatenate(list(self._each("row_norms", shared=(units,))))

    def closed(self) -> np.ndarray:
        return self._sizes[1]

    def units(self) -> Array:
        return np.asarray(nearest_power_of_two(self.X.largest))

    def in_units(self, units: Array) -> Self:
        return self._with(X=self.X.in_units(units))

    def largest(self) -> Array:
        gates = np.zeros(self.k)
        for rows in self.X.chunks:
            gates = np.maximum(gates, np.abs(self.gates(rows)).max(axis=0))
        return np.outer(gates, self.X.largest)

    def scale(self) -> float:
        lengths = np.concatenate(list(self.X.each(lambda X, *_: length(X, axis=1))))
        return float(length(lengths)) / float(np.sqrt(self.n)) or 1.0

    def mixed(self, T: Any) -> Self:
        T = as_mixing(T, self.k)
        return self._with(mixing=T if self.mixing is None else self.mixing @ T)

    def select(self, rows: Any) -> GatedFeatures:
        chosen = as_rows(rows, self.n)
        return GatedFeatures.of_computed(self.X[chosen], self.gates(chosen))

    def _in_memory(self) -> GatedFeatures:
        check_memory(8 * self.n * (self.k + self.d), "all these samples in memory", "use NATIVE, which takes chunks")
        return self.select(slice(None))

    def dense(self) -> Array:
        check_memory(8 * self.n * self.k * self.d, "Φ as a matrix", "use NATIVE, which does not form it")
        return self._in_memory().dense()

    def gram(self) -> Array:
        check_memory(8 * self.n**2, "ΦΦᵀ", "use fewer samples")
        return self._in_memory().gram()

    def scaled(self, factor: float) -> GatedFeatures:
        return self._in_memory().scaled(factor)

    def reduced(self) -> tuple[GatedFeatures, Array]:
        return self._in_memory().reduced()

    def shared(self) -> PatternBlocks:
        return self._in_memory().shared()


def gate_values_of(X: ChunkedInputs, transform: Callable[[Array], Array]) -> np.ndarray:
    """Return the gate values (n, k) that `transform` computes chunk by chunk: int8 if exact, otherwise float64.

    >>> import numpy as np
    >>> gate_values_of(ChunkedInputs(np.array([[1.0], [3.0]]), chunk=1), lambda X: X > 2).dtype
    dtype('int8')
    """
    parts: list[np.ndarray] = []
    for part in X.each(_compact, shared=(transform,)):
        if not parts or part.dtype != parts[0].dtype:
            check_memory(len(X) * part[0].nbytes, f"{part.shape[1]} gate values a sample", "use fewer units")
        parts.append(part)
    return np.concatenate(parts)


def _compact(X: Array, split: tuple[()], shared: tuple[Callable[[Array], Array]]) -> np.ndarray:
    """Return `transform`(X) of a chunk as int8 if that changes no value, otherwise as float64."""
    values = np.asarray(shared[0](X))
    # A number that does not fit in a byte becomes another number.
    with np.errstate(invalid="ignore"):
        small = values.astype(np.int8)
    return small if (small == values).all() else values.astype(np.float64)


def _mixed(values: np.ndarray, mixing: Any) -> Array:
    values = values.astype(np.float64)
    return values if mixing is None else np.asarray(values @ mixing)


def _called(X: Array, split: tuple[np.ndarray, ...], shared: tuple[Any, ...]) -> Any:
    (values, *parts), (mixing, method, *common) = split, shared
    return getattr(GatedFeatures.of_computed(X, _mixed(values, mixing)), method)(*parts, *common)


def _norms_and_closed(X: Array, split: tuple[np.ndarray, ...], shared: tuple[Any, ...]) -> tuple[Array, np.ndarray]:
    part = GatedFeatures.of_computed(X, _mixed(split[0], shared[0]))
    return part.row_norms(), part.closed()
