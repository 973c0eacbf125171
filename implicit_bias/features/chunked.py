"""Gated linear features of more samples than memory holds: inputs stay where they lie and are asked in chunks."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np

from implicit_bias._utils.checks import Array, InputError, as_numbers, as_rows, shown
from implicit_bias._utils.memory import check_memory
from implicit_bias._utils.rounding import UNIT, share, two_sum
from implicit_bias._utils.scaling import length, nearest_powers_of_two
from implicit_bias.features.base import Features, as_mixing
from implicit_bias.features.gated import GatedFeatures
from implicit_bias.features.inputs import ChunkedInputs
from implicit_bias.features.patterns import PatternBlocks


class ChunkedFeatures(Features):
    """The operator of `GatedFeatures`, (ΦW)_i = Σ_j g_j(x_i) ⟨w_j, x_i⟩, of inputs that are not all held in memory.

    Every sum over the samples, and each of its bounds of rounding, is that of the chunks, added up. Gates called on
    `ChunkedInputs` give such features, and so do the builders, such as `svm_gln`; NATIVE solves with them and certifies
    over all samples. What needs all of Φ at once (Gram matrices, CVXPY's solvers) is refused where it does not fit.

    Parameters
    ----------
    X : ChunkedInputs, shape (n, d)
    gate_values : array, shape (n, k), of any real type, optional
        g_j(x_i), kept as given: hard gates as one byte each, say. Without them one gate is always open.

    Raises
    ------
    InputError
        As `GatedFeatures`, and for inputs of another type.

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
        #: T of gate values GT, (k, k̂), if they are mixed.
        self.mixing: Any = None
        for _ in X.each(_checked, (values,)):
            pass

    @property
    def shape(self) -> tuple[int, int, int]:
        """(n, k, d)."""
        k = self.gate_values.shape[1] if self.mixing is None else self.mixing.shape[1]
        return len(self.X), k, self.X.shape[1]

    def gates(self, rows: Any) -> Array:
        """Gate values (m, k) of some samples, as float64."""
        return _mixed(self.gate_values[rows], self.mixing)

    def _each(self, method: str, split: tuple[Array, ...] = (), shared: tuple[Any, ...] = ()) -> Iterator[Any]:
        """What the features of each chunk answer, asked with their part of `split` and all of `shared`."""
        return self.X.each(_asked, (self.gate_values, *split), (self.mixing, method, *shared))

    def _with(self, **parts: Any) -> ChunkedFeatures:
        """The features with other parts; what was computed of these is forgotten."""
        features = copy.copy(self)
        features.__dict__.pop("_sizes", None)
        features.__dict__.update(parts)
        return features

    def apply(self, W: Any) -> Array:
        """ΦW for weights W (k, d); returns (n,)."""
        W = as_numbers(W, (self.k, self.d), "weights")
        return np.concatenate(list(self._each("apply", shared=(W,))))

    def adjoint(self, a: Any) -> Array:
        """Φᵀa for sample weights a (n,); returns (k, d)."""
        upper, lower, _ = self.adjoint_bounded(a)
        return np.asarray(upper + lower)

    def magnitudes(self, W: Any) -> Array:
        """Σ_j |g_j(x_i)| ⟨|w_j|, |x_i|⟩ for W (k, d); shape (n,)."""
        W = as_numbers(W, (self.k, self.d), "weights")
        return np.concatenate(list(self._each("magnitudes", shared=(W,))))

    def apply_bounded(self, W: Any, precise: bool = False) -> tuple[Array, Array, Array]:
        """ΦW as the sum of two arrays (n,), and a bound (n,) of their error, as for any features."""
        W = as_numbers(W, (self.k, self.d), "weights")
        upper, lower, error = zip(*self._each("apply_bounded", shared=(W, precise)), strict=True)
        return np.concatenate(upper), np.concatenate(lower), np.concatenate(error)

    def adjoint_bounded(self, a: Any, precise: bool = False) -> tuple[Array, Array, Array]:
        """Φᵀa as the sum of two arrays (k, d), and a bound (k,) of the lengths of their rows' errors.

        The sums of the chunks are added without error, but for that of what the additions lost, which is counted.
        """
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
        """‖φ(x_i)‖, and whether φ(x_i) = 0."""
        norms, closed = zip(*self.X.each(_sized, (self.gate_values,), (self.mixing,)), strict=True)
        return np.concatenate(norms), np.concatenate(closed)

    def row_norms(self, units: Any = 1.0) -> Array:
        """‖φ(x_i)‖ with the inputs in `units` u (d,), shape (n,)."""
        if np.ndim(units) == 0 and units == 1:
            return self._sizes[0]
        return np.concatenate(list(self._each("row_norms", shared=(units,))))

    def closed(self) -> np.ndarray:
        """Whether φ(x_i) = 0; shape (n,)."""
        return self._sizes[1]

    def units(self) -> Array:
        """The power of two next to the largest |x_il| of each input l, 1 for inputs that are zero; shape (d,)."""
        return nearest_powers_of_two(self.X.largest)

    def in_units(self, units: Array) -> ChunkedFeatures:
        """The features of the inputs in `units` u (d,)."""
        return self._with(X=self.X.in_units(units))

    def largest(self) -> Array:
        """A bound of |g_j(x_i) x_il| over the samples, shape (k, d)."""
        gates = np.zeros(self.k)
        for rows in self.X.chunks:
            gates = np.maximum(gates, np.abs(self.gates(rows)).max(axis=0))
        return np.outer(gates, self.X.largest)

    def scale(self) -> float:
        """√(mean ‖x_i‖²), the root mean square length of the inputs; 1 if they are all zero."""
        lengths = np.concatenate(list(self.X.each(_lengths)))
        return float(length(lengths)) / float(np.sqrt(self.n)) or 1.0

    def mixed(self, T: Any) -> ChunkedFeatures:
        """The features of the gate values GT for T (k, k̂): Φ̂Ŵ = Φ(TŴ)."""
        T = as_mixing(T, self.k)
        return self._with(mixing=T if self.mixing is None else self.mixing @ T)

    def select(self, rows: Any) -> GatedFeatures:
        """The features of some samples only (a mask or indices), in memory."""
        chosen = as_rows(rows, self.n)
        return GatedFeatures.of_computed(self.X[chosen], self.gates(chosen))

    def _whole(self) -> GatedFeatures:
        """All of them in memory, if it is large enough."""
        check_memory(8 * self.n * (self.k + self.d), "all these samples in memory", "use NATIVE, which takes chunks")
        return self.select(slice(None))

    def dense(self) -> Array:
        """Φ as a matrix (n, k·d), gate-major columns: for tests and small problems only."""
        check_memory(8 * self.n * self.k * self.d, "Φ as a matrix", "use NATIVE, which does not form it")
        return self._whole().dense()

    def gram(self) -> Array:
        """ΦΦᵀ, shape (n, n). Raises InputError if that overflows, or does not fit."""
        check_memory(8 * self.n**2, "ΦΦᵀ", "use fewer samples")
        return self._whole().gram()

    def scaled(self, factor: float) -> GatedFeatures:
        """The features of the inputs times `factor`, in memory."""
        return self._whole().scaled(factor)

    def reduced(self) -> tuple[GatedFeatures, Array]:
        """The same operator on inputs of full column rank, in memory, and the rotation V (d, r) that leads back."""
        return self._whole().reduced()

    def shared(self) -> PatternBlocks:
        """ΦW by patterns of gates, in memory."""
        return self._whole().shared()


def gate_values_of(X: ChunkedInputs, transform: Callable[[Array], Array]) -> np.ndarray:
    """The gate values (n, k) that `transform` gives the chunks: as bytes where all are small whole numbers.

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
    values = np.asarray(shared[0](X))
    # What a byte cannot hold comes out as another number.
    with np.errstate(invalid="ignore"):
        small = values.astype(np.int8)
    return small if (small == values).all() else values.astype(np.float64)


def _mixed(values: np.ndarray, mixing: Any) -> Array:
    values = values.astype(np.float64)
    return values if mixing is None else np.asarray(values @ mixing)


def _asked(X: Array, split: tuple[np.ndarray, ...], shared: tuple[Any, ...]) -> Any:
    (values, *own), (mixing, method, *common) = split, shared
    return getattr(GatedFeatures.of_computed(X, _mixed(values, mixing)), method)(*own, *common)


def _sized(X: Array, split: tuple[np.ndarray, ...], shared: tuple[Any, ...]) -> tuple[Array, np.ndarray]:
    part = GatedFeatures.of_computed(X, _mixed(split[0], shared[0]))
    return part.row_norms(), part.closed()


def _checked(X: Array, split: tuple[np.ndarray, ...], shared: tuple[()]) -> None:
    GatedFeatures(X, split[0])


def _lengths(X: Array, split: tuple[()], shared: tuple[()]) -> Array:
    return np.asarray(length(X, axis=1))
