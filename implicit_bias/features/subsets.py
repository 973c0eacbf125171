"""Features of units in one-hot contexts that each take some of the inputs, without forming the matrix Φ."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from implicit_bias._utils import checks
from implicit_bias._utils.blocks import row_blocks
from implicit_bias._utils.checks import Array, InputError
from implicit_bias._utils.compiled import compiled
from implicit_bias._utils.floats import largest_entries, length, without_exponent
from implicit_bias.features.base import Features, KernelFeatures, as_factor, as_mixing
from implicit_bias.features.patterns import PatternBlocks

#: Samples of a dense block: with 400 units of four contexts and four inputs it takes 50 MB.
DENSE_ROWS = 1024


@dataclass(frozen=True, eq=False, repr=False)
class SubsetFeatures(Features):
    """Features of H units in one of K contexts, c_h(x), each with a subset S_h of r inputs: Φ: R^{HK×r} → R^n.

        (ΦW)_i = Σ_h ⟨w_{hK + c_h(x_i)}, (x_il)_{l ∈ S_h}⟩

    Stored are the inputs and contexts; a sample takes Hr operations, however many contexts there are.

    Parameters
    ----------
    X : array, shape (n, d)
        Inputs x_i as rows, stored as float64. For biases, the last input is the constant 1.
    contexts : array of int, shape (n, H)
        c_h(x_i), from 0 to K − 1.
    subsets : array of int, shape (H, r)
        The columns of X in each S_h, in any order. Smaller subsets repeat a column that is 0.
    count : int
        Number K of contexts, at most 65 536.

    Raises
    ------
    InputError
        If arrays do not have these shapes, an index is out of range, or inputs are not finite or beyond 1e-280 to
        1e280 in size.

    Examples
    --------
    >>> from implicit_bias import SubsetFeatures
    >>> phi = SubsetFeatures(X=[[1.0, 2.0, 4.0], [3.0, 5.0, 7.0]], contexts=[[0], [1]], subsets=[[0, 2]], count=2)
    >>> phi.dense().tolist()
    [[1.0, 4.0, 0.0, 0.0], [0.0, 0.0, 3.0, 7.0]]
    """

    X: Array
    contexts: np.ndarray
    subsets: np.ndarray
    count: int
    made_of = ("X", "contexts", "subsets", "count")
    verified = True

    def __post_init__(self) -> None:
        X, count = checks.as_floats(self.X, "X", 2), checks.as_count(self.count, "count", most=2**16)
        contexts, subsets = _as_array(self.contexts), _as_array(self.subsets)
        for name, values, bound in (("contexts", contexts, count), ("subsets", subsets, X.shape[1])):
            is_table = values.ndim == 2 and values.size > 0 and np.issubdtype(values.dtype, np.integer)
            if not (is_table and values.min() >= 0 and values.max() < bound):
                raise InputError(f"{name} must be whole numbers from 0 to {bound - 1}, with two dimensions")
        if len(contexts) != len(X) or contexts.shape[1] != len(subsets):
            text = f"X {X.shape}, contexts {contexts.shape} and subsets {subsets.shape}"
            raise InputError(f"{text} must be (n, d), (n, units) and (units, r)")
        checks.check_range(largest_entries(X), "the inputs X")
        self._set(X, contexts.astype(np.min_scalar_type(count - 1)), subsets.astype(np.int64), count)

    def _set(self, X: Array, contexts: np.ndarray, subsets: np.ndarray, count: int) -> None:
        arrays = (np.ascontiguousarray(values) for values in (X, contexts, subsets))
        for name, value in zip(self.made_of, (*arrays, count), strict=True):
            object.__setattr__(self, name, value)

    def _with(self, **parts: Any) -> SubsetFeatures:
        features = type(self).__new__(type(self))
        features._set(**({name: getattr(self, name) for name in self.made_of} | parts))
        return features

    @property
    def shape(self) -> tuple[int, int, int]:
        units, inputs = self.subsets.shape
        return len(self.X), units * self.count, inputs

    def of_units(self, units: Any) -> SubsetFeatures:
        """Return the features of some units (a mask or indices)."""
        return self._with(contexts=self.contexts[:, units], subsets=self.subsets[units])

    def select(self, rows: Any) -> SubsetFeatures:
        chosen = checks.as_rows(rows, self.n)
        return self._with(X=self.X[chosen], contexts=self.contexts[chosen])

    def scaled(self, factor: float) -> SubsetFeatures:
        return self._with(X=as_factor(factor) * self.X)

    def mixed(self, T: Any) -> Features:
        """Return the features of the units that T selects, if it is a selection; else those of the base class."""
        by_column = sp.csc_array(as_mixing(T, self.k))
        units = by_column.indices[:: self.count] // self.count
        chosen = np.add.outer(units * self.count, np.arange(self.count)).ravel()
        is_selection = np.array_equal(by_column.indptr, np.arange(len(chosen) + 1)) and (by_column.data == 1).all()
        return self.of_units(units) if is_selection and np.array_equal(by_column.indices, chosen) else super().mixed(T)

    def apply(self, W: Any) -> Array:
        """Return ΦW (n,) for weights W (k, r); units with zero weights are skipped."""
        W = self._of_contexts(checks.as_numbers(W, (self.k, self.d), "weights"))
        units = np.flatnonzero(W.any(axis=(1, 2)))
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(outputs(self.X, self.contexts, self.subsets, W, units))

    def magnitudes(self, W: Any) -> Array:
        return self._with(X=np.abs(self.X)).apply(np.abs(checks.as_numbers(W, (self.k, self.d), "weights")))

    def adjoint(self, a: Any) -> Array:
        """Return Φᵀa (k, r) for sample weights a (n,)."""
        a = checks.as_numbers(a, (self.n,), "sample weights")
        V = np.zeros((len(self.subsets), self.count, self.d))
        add_adjoint(self.X, self.contexts, self.subsets, a, V)
        return V.reshape(self.k, self.d)

    def _of_contexts(self, W: Array) -> Array:
        return np.ascontiguousarray(W).reshape(len(self.subsets), self.count, self.d)

    def apply_bounded(self, W: Any, precise: bool = False) -> tuple[Array, Array, Array]:
        if not precise:
            return super().apply_bounded(W)
        W = self._of_contexts(checks.as_numbers(W, (self.k, self.d), "weights"))
        units = np.flatnonzero(W.any(axis=(1, 2)))
        if len(units) == 0:
            return np.zeros(self.n), np.zeros(self.n), np.zeros(self.n)
        chosen, features = W[units].reshape(-1, self.d), self.of_units(units)
        blocks = (features.select(rows) for rows in row_blocks(self.n, DENSE_ROWS))
        parts = [KernelFeatures(block._blocks()).apply_bounded(chosen, precise=True) for block in blocks]
        upper, lower, error = (np.concatenate(part) for part in zip(*parts, strict=True))
        return upper, lower, error

    @property
    def _terms(self) -> int:
        return self.subsets.size + 2

    @cached_property
    def _unit_lengths(self) -> Array:
        return np.asarray(lengths(self.X, self.subsets, np.ones(self.d)))

    def block_lengths(self) -> Array:
        blocks = np.zeros((self.n, len(self.subsets), self.count))
        np.put_along_axis(blocks, self.contexts[:, :, None].astype(np.int64), self._unit_lengths[:, :, None], axis=2)
        return blocks.reshape(self.n, self.k)

    def _adjoint_sizes(self, a: Array) -> Array:
        sizes = np.zeros((len(self.subsets), self.count, 1))
        add_adjoint(self._unit_lengths, self.contexts, np.arange(len(self.subsets))[:, None], a, sizes)
        return sizes.ravel()

    def row_norms(self, units: Any = 1.0) -> Array:
        """Return √(Σ_h Σ_r (x_il/u_r)²), l the column r of S_h, shape (n,), for `units` u, a number or (r,)."""
        divisors = np.tile(np.broadcast_to(units, self.d), len(self.subsets)).astype(float)
        return np.asarray(lengths(self.X, self.subsets.reshape(1, -1), divisors)[:, 0])

    def largest(self) -> Array:
        return np.repeat(largest_entries(self.X.T)[self.subsets], self.count, axis=0)

    def closed(self) -> np.ndarray:
        return np.asarray(~self._unit_lengths.any(axis=1))

    def scale(self) -> float:
        return float(length(self._unit_lengths)) / float(np.sqrt(self._unit_lengths.size)) or 1.0

    def gram(self) -> Array:
        X, by = without_exponent(self.X)
        matrix = self._with(X=X)._sparse()
        with np.errstate(over="ignore"):
            return checks.finite(np.ldexp((matrix @ matrix.T).toarray(), 2 * by))

    def shared(self) -> PatternBlocks:
        return PatternBlocks(sp.eye_array(self.k, format="csr"), self._sparse())

    def _sparse(self) -> sp.csr_array:
        columns = (np.arange(len(self.subsets)) * self.count + self.contexts)[:, :, None] * self.d + np.arange(self.d)
        values, ends = self.X[:, self.subsets], np.arange(self.n + 1) * self.subsets.size
        return sp.csr_array((values.ravel(), columns.ravel(), ends), shape=(self.n, self.k * self.d))

    def dense(self) -> Array:
        """Matrix Φ (n, k·r), with columns ordered by unit and context."""
        return self._sparse().toarray()


def _as_array(values: Any) -> np.ndarray:
    try:
        return np.asarray(values)
    except checks.CONVERSION_ERRORS:
        return np.empty(0)


@compiled
def lengths(X, subsets, units):  # type: ignore[no-untyped-def]
    """Return √(Σ_r (x_il/u_r)²), l the column r of S_h, shape (n, H), without overflow or underflow."""
    sizes = np.zeros((len(X), len(subsets)))
    for i in range(len(X)):
        for h in range(len(subsets)):
            largest, total = 0.0, 0.0
            for r in range(subsets.shape[1]):
                x = abs(X[i, subsets[h, r]] / units[r])
                largest, total = max(largest, x), total + x * x
            if 1e-250 < total < 1e250:
                sizes[i, h] = np.sqrt(total)
            elif largest > 0:
                for r in range(subsets.shape[1]):
                    sizes[i, h] += (X[i, subsets[h, r]] / units[r] / largest) ** 2
                sizes[i, h] = largest * np.sqrt(sizes[i, h])
    return sizes


@compiled
def outputs(X, contexts, subsets, W, units):  # type: ignore[no-untyped-def]
    """Return ΦW (n,) for W (H, K, r) of which only `units` are not zero."""
    totals = np.zeros(len(X))
    for i in range(len(X)):
        for h in units:
            context = contexts[i, h]
            for r in range(subsets.shape[1]):
                totals[i] += W[h, context, r] * X[i, subsets[h, r]]
    return totals


@compiled
def add_adjoint(X, contexts, subsets, a, V):  # type: ignore[no-untyped-def]
    """Add Φᵀa to V (H, K, r) for sample weights a (n,)."""
    for i in range(len(X)):
        if a[i] != 0:
            for h in range(len(V)):
                v = V[h, contexts[i, h]]
                for r in range(len(v)):
                    v[r] += a[i] * X[i, subsets[h, r]]
