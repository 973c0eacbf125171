"""Inputs that stay where they lie, in a file or on a cluster: read in chunks, scaled when they are read."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from implicit_bias._utils.checks import Array, InputError, as_count, as_floats, shown
from implicit_bias._utils.memory import check_memory

#: Numbers of a chunk, as float64: 64 MiB.
AT_ONCE = 2**23
#: Seconds after which a pass over the samples shows a bar, on a terminal.
PATIENCE = 3.0


@dataclass(frozen=True)
class Scaling:
    """x = (scale · u + offset, 1)/units for rows u as they are stored; the constant 1 if it is asked for."""

    scale: Array
    offset: Array
    constant: bool
    units: Array | float = 1.0

    def __call__(self, raw: np.ndarray) -> Array:
        """Inputs (m, d) of stored rows (m, p)."""
        p = raw.shape[1]
        X = np.empty((len(raw), p + self.constant))
        np.multiply(raw, self.scale, out=X[:, :p])
        X[:, :p] += self.offset
        X[:, p:] = 1.0
        if isinstance(self.units, np.ndarray):
            X /= self.units
        return X


class ChunkedInputs:
    """Inputs X (n, d) over an array that need not fit in memory: x = scale · u + offset, the constant 1 last if asked.

    A pass over all samples reads one chunk after the other; numerical libraries use their threads. Of a Dask array
    it is computed where the chunks lie: by Dask's threads or, with a `distributed.Client`, the processes of a cluster.

    Parameters
    ----------
    source : NumPy array or memory map, or Dask array, shape (n, p)
        Numbers u of any real type, such as `np.load("images.npy", mmap_mode="r")` of bytes.
    scale, offset : one number, or an array (p,)
    constant : bool
        Whether to append the constant input 1: d = p + 1.
    chunk : int, optional
        Samples that are scaled at a time; if not given, as many as are 64 MiB. A Dask array has its own chunks.

    Attributes
    ----------
    largest : array, shape (d,)
        max_i |x_il|.

    Raises
    ------
    InputError
        For an array of another kind or shape, and numbers that are not finite.

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
            raise InputError(
                f"the source must be a NumPy array, np.load(…, mmap_mode='r') or a Dask array, not {shown(source)}"
            )
        if source.ndim != 2 or source.dtype.kind not in "biuf" or np.isnan(source.shape).any():
            raise InputError(f"the source must hold real numbers in a known shape (n, p), not {shown(source)}")
        if 0 in source.shape:
            raise InputError(f"the source is empty (shape {source.shape}); give at least one sample and one column")
        n, p = source.shape
        self.source = source.rechunk({1: p}) if self.lazy else source
        self.scaling = Scaling(_each_column(scale, p, "scale"), _each_column(offset, p, "offset"), bool(constant))
        self.shape = n, p + self.scaling.constant
        rows = max(1, AT_ONCE // self.shape[1]) if chunk is None else as_count(chunk, "chunk")
        ends = np.cumsum(self.source.chunks[0]).tolist() if self.lazy else [*range(rows, n, rows), n]
        self.chunks = [slice(first, last) for first, last in zip([0, *ends[:-1]], ends, strict=True)]
        least, most = (np.array(found) for found in zip(*self._each_raw(_extremes), strict=True))
        largest = np.abs(self.scaling(np.stack([least.min(axis=0), most.max(axis=0)]))).max(axis=0)
        if not np.isfinite(largest).all():
            raise InputError(
                f"column {int(np.argmin(np.isfinite(largest)))} of the source holds NaN or infinity, or overflows when "
                "scaled; clean it first"
            )
        self.largest: Array = largest

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        kind = f"{len(self.chunks)} chunks of {self.source.dtype}"
        return f"{type(self).__name__}(n={self.shape[0]}, d={self.shape[1]}, {kind})"

    def __getitem__(self, rows: Any) -> Array:
        """The inputs (m, d) of some samples (a slice, a mask or indices), in memory."""
        raw = self.source[rows if isinstance(rows, slice) else np.atleast_1d(np.arange(len(self))[rows])]
        return self.scaling(raw.compute() if self.lazy else raw)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """All of them in memory, if it is large enough."""
        check_memory(8 * self.shape[0] * self.shape[1], "all these inputs in memory", "use what takes ChunkedInputs")
        return self[:].astype(dtype or np.float64, copy=False)

    def __matmul__(self, M: Array) -> Array:
        """XM for M (d, q), shape (n, q)."""
        return np.concatenate(list(self.each(_times, shared=(M,))))

    def in_units(self, units: Array) -> ChunkedInputs:
        """The inputs in `units` u (d,)."""
        inputs = copy.copy(self)
        inputs.scaling = replace(self.scaling, units=self.scaling.units * np.asarray(units))
        inputs.largest = self.largest / units
        return inputs

    def each(
        self, function: Callable[..., Any], split: tuple[np.ndarray, ...] = (), shared: tuple[Any, ...] = ()
    ) -> Iterator[Any]:
        """function(inputs (m, d), the same rows of each array in `split`, shared) of every chunk, in their order."""
        return self._each_raw(_scaled_first, split, (self.scaling, function, shared))

    def _each_raw(
        self, function: Callable[..., Any], split: tuple[np.ndarray, ...] = (), shared: tuple[Any, ...] = ()
    ) -> Iterator[Any]:
        """The same of the rows as they are stored."""
        if self.lazy:
            import dask

            common, ask = dask.delayed(shared, traverse=False), dask.delayed(function, pure=False)
            blocks = zip(self.chunks, self.source.to_delayed().ravel(), strict=True)
            tasks = [ask(block, tuple(part[rows] for part in split), common) for rows, block in blocks]
            yield from dask.compute(*tasks)
            return
        from tqdm import tqdm  # Which inputs in memory do without.

        bar = tqdm(self.chunks, "pass over the samples", unit="chunk", delay=PATIENCE, leave=False, disable=None)
        for rows in bar:
            yield function(self.source[rows], tuple(part[rows] for part in split), shared)


def _each_column(values: Any, columns: int, name: str) -> Array:
    """One number, or one a column, as float64."""
    if np.ndim(values) == 0:
        return as_floats([values], name, 1)
    array = as_floats(values, name, 1)
    if len(array) != columns:
        raise InputError(f"{name} must be one number or {columns}, one a column, not {len(array)}")
    return array


def _extremes(raw: np.ndarray, split: tuple[()], shared: tuple[()]) -> tuple[np.ndarray, np.ndarray]:
    return raw.min(axis=0), raw.max(axis=0)


def _scaled_first(raw: np.ndarray, split: tuple[np.ndarray, ...], shared: tuple[Any, ...]) -> Any:
    scaling, function, common = shared
    return function(scaling(raw), split, common)


def _times(X: Array, split: tuple[()], shared: tuple[Array]) -> Array:
    return X @ shared[0]
