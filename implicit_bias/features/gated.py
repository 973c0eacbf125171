"""Gated linear features Φ(x) = g(x) ⊗ x, the central data structure, without forming the matrix Φ."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg

from implicit_bias._utils import floats
from implicit_bias._utils.blocks import row_blocks
from implicit_bias._utils.checks import Array, InputError, as_floats, as_numbers, as_rows, check_range, finite, shown
from implicit_bias._utils.floats import TINY, UNIT
from implicit_bias.features.base import Features, as_factor, as_mixing
from implicit_bias.features.patterns import PatternBlocks, share_patterns

#: Number of rows of a block of ΦΦᵀ: its factors and products stay in the cache.
GRAM_ROWS = 128


@dataclass(frozen=True, eq=False, repr=False)
class GatedFeatures(Features):
    """Gated linear features of n inputs with k gates: a linear operator Φ: R^{k×d} → R^n.

        (ΦW)_i = Σ_j g_j(x_i) ⟨w_j, x_i⟩

    Parameters
    ----------
    X : array, shape (n, d)
        Inputs x_i as rows, stored as float64. For biases, the last input is the constant 1.
    gate_values : array, shape (n, k), optional
        Gate values g_j(x_i): any real numbers, or zeros and ones for hard gates. By default one gate is always open,
        so that Φ is X.

    Raises
    ------
    InputError
        If an array is empty, not finite or not two-dimensional, the numbers of rows differ, or inputs, gate values or
        their products are not between 1e-280 and 1e280 in size.

    Examples
    --------
    >>> import numpy as np
    >>> from implicit_bias import GatedFeatures
    >>> phi = GatedFeatures(X=[[1.0, 2.0], [3.0, 4.0]], gate_values=[[1, 0], [1, 1]])
    >>> W = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> phi @ W
    array([1., 7.])
    >>> float((phi @ W) @ [1.0, 1.0]) == float(np.sum(W * phi.adjoint([1.0, 1.0])))
    True
    """

    X: Array
    gate_values: Array = None  # type: ignore[assignment]
    made_of = ("X", "gate_values")
    verified = True

    def __post_init__(self) -> None:
        X = as_floats(self.X, "X", 2)
        gate_values = np.ones((len(X), 1)) if self.gate_values is None else self.gate_values
        gate_values = as_floats(gate_values, "gate_values", 2)
        if len(X) != len(gate_values):
            raise InputError(f"X has {len(X)} rows, gate_values has {len(gate_values)}; give one row each per sample")
        sizes = floats.largest_entries(X), floats.largest_entries(gate_values)
        open_ = (sizes[0] > 0) & (sizes[1] > 0)
        with np.errstate(over="ignore"):
            # A product that underflows is too small, not a closed gate.
            products = np.where(open_, np.maximum(sizes[0] * sizes[1], TINY), 0.0)
        check_range(sizes[0].max(keepdims=True), "the inputs X")
        check_range(sizes[1].max(keepdims=True), "the gate values")
        check_range(products, "the features g(x) ⊗ x")
        object.__setattr__(self, "X", X)
        object.__setattr__(self, "gate_values", gate_values)

    @property
    def shape(self) -> tuple[int, int, int]:
        return len(self.X), self.gate_values.shape[1], self.X.shape[1]

    def apply(self, W: Any) -> Array:
        """Return ΦW = ((X Wᵀ) ∘ G) 1, shape (n,), for weights W (k, d); gates with zero weights are skipped."""
        W = as_numbers(W, (self.k, self.d), "weights")
        used = W.any(axis=1)
        chosen: Any = slice(None) if used.all() else used
        W = W[chosen]
        with np.errstate(over="ignore", invalid="ignore"):
            blocks = row_blocks(self.n)
            parts = [np.einsum("nk,nk->n", self.X[rows] @ W.T, self.gate_values[rows, chosen]) for rows in blocks]
        return np.concatenate(parts)

    def magnitudes(self, W: Any) -> Array:
        W = np.abs(as_numbers(W, (self.k, self.d), "weights"))
        sums = [
            np.einsum("nk,nk->n", np.abs(self.X[rows]) @ W.T, np.abs(self.gate_values[rows]))
            for rows in row_blocks(self.n)
        ]
        return np.concatenate(sums)

    def adjoint(self, a: Any) -> Array:
        """Return Φᵀa = (G ∘ a)ᵀ X, shape (k, d), for sample weights a (n,)."""
        a = as_numbers(a, (self.n,), "sample weights")
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray((self.gate_values * a[:, None]).T @ self.X)

    def apply_bounded(self, W: Any, precise: bool = False) -> tuple[Array, Array, Array]:
        if not precise:
            return super().apply_bounded(W)
        W = as_numbers(W, (self.k, self.d), "weights")
        parts = []
        for rows in row_blocks(self.n):
            upper, lower, error = floats.precise_product(self.X[rows], W.T)
            G = self.gate_values[rows]
            product, lost = floats.two_product(G, upper)
            total, rest, off = floats.pair_sum(product, lost + G * lower)
            parts.append((total, rest, off + (np.abs(G) * (error + 4 * UNIT * np.abs(lower))).sum(axis=1)))
        upper, lower, error = (np.concatenate(part) for part in zip(*parts, strict=True))
        return upper, lower, error + self._terms * self._vanishing

    def _adjoint_precisely(self, rows: slice, a: Array) -> tuple[Array, Array, Array]:
        weights, lost = floats.two_product(self.gate_values[rows].T, a)
        upper, lower, error = floats.precise_product(weights, self.X[rows])
        if not lost.any():
            return upper, lower, error
        more, rest, off = floats.precise_product(lost, self.X[rows])
        upper, again = floats.two_sum(upper, more)
        return upper, lower + rest + again, error + off + 4 * UNIT * (np.abs(lower) + np.abs(rest) + np.abs(again))

    @property
    def _terms(self) -> int:
        """Upper bound of the number of roundings of (ΦW)_i: sums over d inputs, then over k gates."""
        return self.k + self.d + 2

    @property
    def _vanishing(self) -> float:
        """Largest absolute error of a product of three factors in which the product of the first two underflows."""
        return float(TINY * max(1.0, *map(np.max, self._largest)))

    @cached_property
    def _largest(self) -> tuple[Array, Array]:
        """Largest sizes of each gate, ``max_i |g_j(x_i)|`` (k,), and of each input, ``max_i |x_il|`` (d,)."""
        return floats.largest_entries(self.gate_values.T), floats.largest_entries(self.X.T)

    @cached_property
    def input_lengths(self) -> Array:
        """Lengths ‖x_i‖, shape (n,)."""
        return np.concatenate([floats.length(self.X[rows], axis=1) for rows in row_blocks(self.n)])

    @cached_property
    def _gate_lengths(self) -> Array:
        return np.asarray(floats.length(self.gate_values, axis=1))

    def block_lengths(self) -> Array:
        return np.abs(self.gate_values) * self.input_lengths[:, None]

    def gram(self) -> Array:
        """Return ΦΦᵀ = (GGᵀ) ∘ (XXᵀ), shape (n, n); raise InputError if it overflows."""
        (G, by), (X, times) = floats.without_exponent(self.gate_values), floats.without_exponent(self.X)
        kernel, buffer = np.empty((self.n, self.n)), np.empty(min(GRAM_ROWS, self.n) * self.n)
        for rows in row_blocks(self.n, GRAM_ROWS):
            block = kernel[rows, : rows.stop]
            # New arrays for the products would take longer than the products.
            inputs = buffer[: block.size].reshape(block.shape)
            np.matmul(G[rows], G[: rows.stop].T, out=block)
            np.matmul(X[rows], X[: rows.stop].T, out=inputs)
            block *= inputs
            with np.errstate(over="ignore"):
                np.ldexp(block, 2 * (by + times), out=block)
            square = np.tril(block[:, rows])
            block[:, rows] = square + np.tril(square, -1).T
            kernel[: rows.start, rows] = block[:, : rows.start].T
        return finite(kernel)

    def row_norms(self, units: Any = 1.0) -> Array:
        """Return ‖φ(x_i)‖ = ‖g(x_i)‖ ‖x_i/u‖, shape (n,), with the inputs divided by `units` u (d,)."""
        lengths = self.input_lengths
        if np.ndim(units) or units != 1:
            lengths = np.concatenate([floats.length(self.X[rows] / units, axis=1) for rows in row_blocks(self.n)])
        return np.asarray(self._gate_lengths * lengths)

    def units(self) -> Array:
        """Return the power of two nearest to ``max_i |x_il|`` for each input l, 1 for zero inputs; shape (d,)."""
        return np.asarray(floats.nearest_power_of_two(self._largest[1]))

    def in_units(self, units: Array) -> GatedFeatures:
        return self._with(X=self.X / units)

    def largest(self) -> Array:
        return np.outer(*self._largest)

    def closed(self) -> np.ndarray:
        """Return a mask (n,) of the samples with φ(x_i) = 0: all gates closed, or all inputs zero."""
        return np.asarray(~(self.gate_values.any(axis=1) & self.X.any(axis=1)))

    def scale(self) -> float:
        """Return √(mean ‖x_i‖²), the root mean square length of the inputs; 1 if all are zero."""
        return float(floats.length(self.X)) / float(np.sqrt(self.n)) or 1.0

    def scaled(self, factor: float) -> GatedFeatures:
        return self._with(X=as_factor(factor) * self.X)

    @classmethod
    def of_computed(cls, X: Array, gate_values: Array) -> GatedFeatures:
        """Return features of float64 arrays X (n, d) and gate_values (n, k), neither checked nor copied."""
        features = cls.__new__(cls)
        object.__setattr__(features, "X", X)
        object.__setattr__(features, "gate_values", gate_values)
        return features

    def _with(self, **parts: Array) -> GatedFeatures:
        return self.of_computed(**({"X": self.X, "gate_values": self.gate_values} | parts))

    def mixed(self, T: Any) -> GatedFeatures:
        """Return the features of the gate values GT for T (k, k̂): Φ̂Ŵ = Φ(TŴ)."""
        return self._with(gate_values=np.asarray(self.gate_values @ as_mixing(T, self.k)))

    def select(self, rows: Any) -> GatedFeatures:
        chosen = as_rows(rows, self.n)
        return self._with(X=self.X[chosen], gate_values=self.gate_values[chosen])

    def reduced(self) -> tuple[GatedFeatures, Array]:
        """Return an equivalent operator with inputs X̃ of full column rank, and V (d, r) with X = X̃Vᵀ and VᵀV = I.

        Then Φ̃W̃ = Φ(W̃Vᵀ), and rotation-invariant norms have the same value at W̃ and W̃Vᵀ. Directions are dropped only
        if their singular values are at rounding level after each x_i is scaled by its largest absolute gate.
        X = X̃Vᵀ may therefore fail for samples whose gates are all closed.
        """
        gates = floats.largest_entries(self.gate_values)
        inputs = self.X * (gates / (gates.max() or 1.0))[:, None]
        _, s, Vt = scipy.linalg.svd(inputs, full_matrices=False, overwrite_a=True, check_finite=False)
        rank = max(1, int(np.sum(s > s[0] * max(self.X.shape) * np.finfo(float).eps)))
        V = np.ascontiguousarray(Vt[:rank].T)
        return self._with(X=self.X @ V), V

    def shared(self) -> PatternBlocks:
        """Return the factors M and S of ΦW = M vec(SW) by gate patterns that samples share; see `share_patterns`."""
        return share_patterns(self.X, self.gate_values)

    def dense(self) -> Array:
        """Matrix Φ (n, k·d), with columns ordered by gate; only for small problems."""
        return np.asarray(np.einsum("nk,nd->nkd", self.gate_values, self.X).reshape(self.n, -1))


def as_gated(features: Any) -> GatedFeatures:
    """Return `features`; raise InputError unless they are GatedFeatures."""
    if not isinstance(features, GatedFeatures):
        raise InputError(f"features must be GatedFeatures, not {shown(features)}")
    return features
