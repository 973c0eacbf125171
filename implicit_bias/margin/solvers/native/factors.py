"""Factors of positive definite matrices, in double or single precision, dense or of low rank."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeAlias

from implicit_bias.ground.scaling import TINY
from implicit_bias.margin.solvers.native.arrays import Tensor, add_to_diagonal_, in_precision, library
from implicit_bias.margin.solvers.native.cholesky import cholesky_, cholesky_solve

Product: TypeAlias = Callable[[Tensor], Tensor]


class Factor(ABC):
    """A positive definite matrix M, ready to be solved with."""

    #: x ↦ Mx for x (n,) where solutions are of single precision, to refine them by; None where they are of doubles.
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


class LowRankFactor(Factor):
    """BBᵀ + D for B (n, r) and a diagonal D, by Woodbury's identity: the Cholesky factor of 1 + BᵀD⁻¹B (r, r).

    M⁻¹a = D⁻¹(a − B(1 + BᵀD⁻¹B)⁻¹BᵀD⁻¹a),   refined once: D may hold numbers that are nearly 0.
    """

    def __init__(self, B: Tensor, D: Tensor) -> None:
        self.B, self.D = B, D[:, None]
        inner = B.T @ (B / self.D)
        add_to_diagonal_(inner, 1.0)
        self.inner = DenseFactor(inner)

    def solve(self, right: Tensor) -> Tensor:
        """By two products with B, and two more."""
        x = self._once(right)
        return x + self._once(right - self.D * x - self.B @ (self.B.T @ x))

    def _once(self, right: Tensor) -> Tensor:
        small = self.inner.solve(self.B.T @ (right / self.D))
        return (right - self.B @ small) / self.D
