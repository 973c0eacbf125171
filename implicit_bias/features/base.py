"""What features can do, whatever they are made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np

from implicit_bias.features.patterns import PatternBlocks
from implicit_bias.ground.blocks import symmetric_blocks
from implicit_bias.ground.checks import Array

#: Numbers of a dense chunk of samples.
AT_ONCE = 2**25


class Features(ABC):
    """The linear operator Φ: R^{k×d} → R^n of n samples, k gates (or blocks) and d inputs each, never formed.

    Whoever fits features asks them through these methods. `arrays` names what they are made of, in the order that the
    class takes it.
    """

    #: g_j(x_i), shape (n, k), of features Φ(x) = g(x) ⊗ x; None of others.
    gate_values: Array | None = None
    arrays: tuple[str, ...] = ()

    @property
    @abstractmethod
    def n(self) -> int:
        """Number of samples."""

    @property
    @abstractmethod
    def k(self) -> int:
        """Number of gates, or blocks."""

    @property
    @abstractmethod
    def d(self) -> int:
        """Number of inputs, or the length of a block."""

    @abstractmethod
    def apply(self, W: Any) -> Array:
        """ΦW for weights W (k, d); returns (n,)."""

    def __matmul__(self, W: Any) -> Array:
        """ΦW."""
        return self.apply(W)

    @abstractmethod
    def adjoint(self, a: Any) -> Array:
        """Φᵀa for sample weights a (n,); returns (k, d)."""

    @abstractmethod
    def magnitudes(self, W: Any) -> Array:
        """Σ_j ⟨|w_j|, |φ_j(x_i)|⟩ for W (k, d), which the rounding of (ΦW)_i is a share of; shape (n,)."""

    @abstractmethod
    def adjoint_magnitudes(self, a: Any) -> Array:
        """Σ_i |a_i| ‖φ_j(x_i)‖ for a (n,), which the rounding of a row of Φᵀa is a share of; shape (k,)."""

    @abstractmethod
    def gram(self) -> Array:
        """ΦΦᵀ, shape (n, n). Raises InputError if that overflows."""

    @abstractmethod
    def dense(self) -> Array:
        """Φ as a matrix (n, k·d), gate-major columns."""

    @abstractmethod
    def row_norms(self, units: Any = 1.0) -> Array:
        """‖φ(x_i)‖ with the inputs in `units` u (d,), shape (n,)."""

    @abstractmethod
    def units(self) -> Array:
        """Units of the inputs in which none is large or small beside the others, shape (d,)."""

    @abstractmethod
    def in_units(self, units: Array) -> Self:
        """The features of inputs in `units` u (d,)."""

    @abstractmethod
    def largest(self) -> Array:
        """A bound of |φ_jl(x_i)| over the samples, shape (k, d)."""

    @abstractmethod
    def closed(self) -> np.ndarray:
        """Whether φ(x_i) = 0; shape (n,)."""

    @abstractmethod
    def scale(self) -> float:
        """The root mean square length of the inputs; 1 if they are all zero."""

    @abstractmethod
    def scaled(self, factor: float) -> Self:
        """The features times `factor`."""

    @abstractmethod
    def mixed(self, T: Any) -> Self:
        """The features Φ̂ with Φ̂Ŵ = Φ(TŴ) for T (k, k̂)."""

    @abstractmethod
    def select(self, rows: Any) -> Self:
        """The features of some samples only (a mask or indices)."""

    @abstractmethod
    def reduced(self) -> tuple[Self, Array]:
        """The same operator on fewer inputs where there are superfluous ones, and the V (d, r) that leads back.

        Φ̃W̃ = Φ(W̃Vᵀ), VᵀV = I.
        """

    def shared(self) -> PatternBlocks:
        """ΦW with as few nonzeros as may be; here every gate is a block of its own."""
        return PatternBlocks.apart(self.dense(), self.k)

    def weight_gram(self) -> Array:
        """ΦᵀΦ, shape (kd, kd), summed over chunks of samples."""
        size = self.k * self.d
        chunk = max(1, AT_ONCE // size)

        def entries(rows: slice, columns: slice) -> Array:
            total = np.zeros((rows.stop - rows.start, columns.stop - columns.start))
            for first in range(0, self.n, chunk):
                dense = self.select(slice(first, first + chunk)).dense()
                total += dense[:, rows].T @ dense[:, columns]
            return total

        return symmetric_blocks(size, entries)
