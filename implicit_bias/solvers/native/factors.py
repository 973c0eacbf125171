"""Factors of positive definite matrices, in double or single precision, dense or of low rank."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from implicit_bias._utils.scaling import TINY
from implicit_bias.solvers.native.arrays import (
    Tensor,
    add_to_diagonal_,
    as_numpy,
    filled,
    gram,
    in_precision,
    library,
)
from implicit_bias.solvers.native.cholesky import cholesky_, cholesky_solve, divided

#: Of a partial factor: pivots of a block, columns at most as a share of n, and the mean of what is left.
PIVOTS, RANK, LEFT = 512, 0.125, 0.3
#: What makes up for rounding, as shares: of diagonals, and of the first column, which outweighs all that is in its way;
#: and of the mean diagonal of a factor of low rank.
SAFE, FIRM, FAINT = 1e-6, 1e-4, 1e-14
Product: TypeAlias = Callable[[Tensor], Tensor]


class Factor(ABC):
    """A positive definite matrix M, ready to be solved with."""

    #: x ↦ Mx for x (n,), to refine solutions by; None where they need it not.
    product: Product | None = None

    @abstractmethod
    def solve(self, right: Tensor) -> Tensor:
        """M⁻¹ right for right (n, r)."""


class DenseFactor(Factor):
    """By the Cholesky factor of a matrix (n, n), which takes its place."""

    def __init__(self, matrix: Tensor) -> None:
        if not cholesky_(matrix):
            raise ArithmeticError("the normal matrix is no longer positive definite")
        self.L = matrix

    def solve(self, right: Tensor) -> Tensor:
        """By substitution."""
        return cholesky_solve(self.L, right)


class SingleFactor(DenseFactor):
    """By that of a matrix in single precision, which takes half the time and memory."""

    def __init__(self, matrix: Tensor, product: Product) -> None:
        super().__init__(matrix)
        self.product = product

    def solve(self, right: Tensor) -> Tensor:
        """By substitution; columns may be of any length."""
        scale = library(right).amax(abs(right), axis=0).clip(TINY)
        return in_precision("float64", super().solve(in_precision("float32", right / scale))) * scale


class LowRank(ABC):
    """A matrix B (n, r), by what it is asked for."""

    #: Σ B_ij².
    size: Tensor

    @abstractmethod
    def times(self, V: Tensor) -> Tensor:
        """BV for V (r, m)."""

    @abstractmethod
    def adjoint(self, x: Tensor) -> Tensor:
        """Bᵀx for x (n, m)."""

    @abstractmethod
    def moment(self, weights: Tensor) -> Tensor:
        """Bᵀ diag(weights) B for weights ≥ 0 (n,); a new array."""


class Columns(LowRank):
    """As it is."""

    def __init__(self, B: Tensor) -> None:
        self.B, self.size = B, library(B).linalg.norm(B) ** 2

    def times(self, V: Tensor) -> Tensor:
        """By a product."""
        return self.B @ V

    def adjoint(self, x: Tensor) -> Tensor:
        """By a product."""
        return self.B.T @ x

    def moment(self, weights: Tensor) -> Tensor:
        """Of rows times √weights."""
        return gram((self.B * weights[:, None] ** 0.5).T)


class OneRowMore(LowRank):
    """B, and a row (r,) below."""

    def __init__(self, B: LowRank, row: Tensor) -> None:
        self.B, self.row, self.size = B, row, B.size + row @ row

    def times(self, V: Tensor) -> Tensor:
        """With an entry more."""
        return library(V).vstack([self.B.times(V), self.row @ V])

    def adjoint(self, x: Tensor) -> Tensor:
        """With a term more."""
        return self.B.adjoint(x[:-1]) + self.row[:, None] * x[-1]

    def moment(self, weights: Tensor) -> Tensor:
        """With a term more."""
        found = self.B.moment(weights[:-1])
        found += (weights[-1] * self.row)[:, None] * self.row
        return found


class LowRankFactor(Factor):
    """BBᵀ + D for B (n, r) and a diagonal D, by Woodbury's identity: the Cholesky factor of 1 + BᵀD⁻¹B (r, r).

    M⁻¹a = D⁻¹(a − B(1 + BᵀD⁻¹B)⁻¹BᵀD⁻¹a),   refined once: D may hold numbers that are nearly 0. Those below FAINT of
    the mean diagonal of BBᵀ count as that: rounding of BBᵀM⁻¹a, divided by less, would be all that is left of a.
    """

    product: Product

    def __init__(self, B: LowRank, D: Tensor) -> None:
        self.product = lambda x: B.times(B.adjoint(x[:, None]))[:, 0] + D * x
        D = D.clip(FAINT * B.size / max(len(D), 1))
        self.B, self.D, inner = B, D[:, None], B.moment(1 / D)
        add_to_diagonal_(inner, 1.0)
        self.inner = DenseFactor(inner)

    def solve(self, right: Tensor) -> Tensor:
        """By two products with B, and two more."""
        x = self._once(right)
        return x + self._once(right - self.D * x - self.B.times(self.B.adjoint(x)))

    def _once(self, right: Tensor) -> Tensor:
        small = self.inner.solve(self.B.adjoint(right / self.D))
        return (right - self.B.times(small)) / self.D


class PartialFactor(Factor):
    """K + D for a kernel K (n, n) of whose columns few are known, by a partial Cholesky factor.

    With D^(−½)KD^(−½) = LLᵀ + what is left, L (n, r), M⁻¹ ≈ D^(−½)(1 − L(1 + LᵀL)⁻¹Lᵀ)D^(−½), to be refined by
    conjugate gradients. The first column is `first`, with K − first firstᵀ positive semidefinite. Then pivots are
    drawn, a block at a time, in proportion to the diagonal of what is left, until its mean is LEFT or r a share RANK
    of n (randomly pivoted Cholesky).

    Parameters
    ----------
    columns : callable
        The columns of K of these samples, shape (n, m), in single precision.
    diagonal, first : array or tensor, shape (n,)
        Of K.
    """

    product: Product

    def __init__(
        self, columns: Callable[[np.ndarray], Tensor], diagonal: Tensor, first: Tensor, D: Tensor, product: Product
    ) -> None:
        self.product, n = product, len(D)
        self.root = in_precision("float32", D**-0.5)
        random, most = np.random.default_rng(0), max(1, int(RANK * n))
        self.L, r = filled(self.root, (n, most), 0.0), 1
        self.L[:, 0] = in_precision("float32", (1 + FIRM) * first) * self.root
        left = self._less(as_numpy(diagonal / D), self.L[:, :1])
        while r < most and left.mean() > LEFT:
            pivots = np.unique(random.choice(n, min(PIVOTS, most - r), p=left / left.sum()))
            new = columns(pivots) * self.root[:, None]
            new *= self.root[pivots]
            new -= self.L[:, :r] @ self.L[pivots, :r].T
            corner = 1 * new[pivots]
            add_to_diagonal_(corner, SAFE * corner.diagonal().max())
            if not cholesky_(corner):
                break
            self.L[:, r : r + len(pivots)] = divided(new, corner)
            left = self._less(left, self.L[:, r : r + len(pivots)])
            left[pivots] = 0.0
            r += len(pivots)
        # Built in single precision, used in doubles: else rounding would hide what is small beside the first columns.
        self.L, self.root = in_precision("float64", self.L[:, :r]), D**-0.5
        self.inner = self._inner()

    def _inner(self) -> DenseFactor:
        """1 + LᵀL, shape (r, r)."""
        inner = gram(self.L.T)
        add_to_diagonal_(inner, 1.0)
        return DenseFactor(inner)

    @staticmethod
    def _less(left: np.ndarray, columns: Tensor) -> np.ndarray:
        """The diagonal of what is left without these columns."""
        return np.maximum(left - as_numpy((columns**2).sum(axis=1)), 0.0)

    def solve(self, right: Tensor) -> Tensor:
        """By two products with L."""
        v = right * self.root[:, None]
        v -= self.L @ self.inner.solve(self.L.T @ v)
        v *= self.root[:, None]
        return v
