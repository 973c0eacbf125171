"""The group kernels K_h of a margin problem, signs included, applied without forming more than is needed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

from implicit_bias._utils.memory import check_memory
from implicit_bias.solvers.native.arrays import (
    Tensor,
    add_to_diagonal_,
    device_of,
    filled,
    free_on_device,
    gram,
    in_precision,
    library,
)
from implicit_bias.solvers.native.factors import Columns, DenseFactor, Factor, LowRankFactor, Product, SingleFactor

#: Samples from which factors may be of single precision.
SINGLE_FROM = 1000
#: What to do where the memory does not suffice.
FEWER = "use fewer units or samples, or solver='CLARABEL'"


def low_rank(columns: int, samples: int) -> bool:
    """Whether products with features of so many columns cost less than with the kernels of the samples."""
    return 2 * columns <= samples


class GroupKernels(ABC):
    """Positive semidefinite kernels K_h of n samples and H groups, h = 1…H; arrays of one kind and device."""

    #: Whether steps go through the features.
    short = False

    def __init__(self, rows: Tensor, H: int) -> None:
        self.n, self.H, self.ones = len(rows), H, filled(rows, len(rows), 1.0)
        #: Whether a partial factor took too many products.
        self.stiff = False

    @abstractmethod
    def weighted(self, eta: Tensor) -> Tensor:
        """K(η) = Σ_h η_h K_h for η (H,); a new array, shape (n, n)."""

    @property
    def patience(self) -> int:
        """The products of a refinement that take as long as factorising K(η); 0 where no factor is partial."""
        return 0

    def single(self, eta: Tensor) -> Tensor:
        """K(η) in single precision."""
        return in_precision("float32", self.weighted(eta))

    def factor(self, eta: Tensor, diagonal: Tensor, exact: bool = True, first: Tensor | None = None) -> Factor:
        """K(η) + diag(`diagonal`), factorised; unless `exact`, in single precision for many samples.

        `first` (n,) with K(η) − first firstᵀ positive semidefinite is what a partial factor starts from.

        Raises ArithmeticError if it is not positive definite in that precision, TooLargeError where doubles do not fit.
        """
        if exact or self.n < SINGLE_FROM or eta.dtype == object:
            if self.n >= SINGLE_FROM:
                free = free_on_device(device_of(self.ones))
                check_memory(16 * self.n**2, f"a step of {self.n} samples in double precision", FEWER, free)
            matrix = self.weighted(eta)
            add_to_diagonal_(matrix, diagonal)
            return DenseFactor(matrix)
        matrix = self.single(eta)
        add_to_diagonal_(matrix, in_precision("float32", diagonal))
        return SingleFactor(matrix, self._product(eta, diagonal))

    def _product(self, eta: Tensor, diagonal: Tensor) -> Product:
        """x ↦ K(η)x + diag(`diagonal`)x."""
        return lambda x: self.sweep(x)[1] @ eta + diagonal * x

    @abstractmethod
    def sweep(self, lam: Tensor) -> tuple[Tensor, Tensor]:
        """The q_h = λᵀK_hλ (H,), as sums of squares, and the columns K_hλ (n, H), for λ (n,)."""

    @abstractmethod
    def directional(self, change: Tensor) -> tuple[Tensor, Tensor]:
        """As `sweep`, by whichever product is smaller: less exact for the q_h, good enough for a direction."""


class LinearKernels(GroupKernels):
    """K_h = Φ_hΦ_hᵀ, by products with Φ."""

    @abstractmethod
    def adjoint(self, lam: Tensor) -> Tensor:
        """V = Φᵀλ for λ (n,)."""

    @abstractmethod
    def squares(self, V: Tensor) -> Tensor:
        """‖V_h‖² (H,)."""

    @abstractmethod
    def columns(self, V: Tensor) -> Tensor:
        """Φ_hV_h, shape (n, H)."""

    @abstractmethod
    def outputs(self, V: Tensor) -> Tensor:
        """ΦV, shape (n,)."""

    @abstractmethod
    def moment(self, weights: Tensor) -> Tensor:
        """Φᵀ diag(weights) Φ, of the entries of V one after the other, for weights ≥ 0 (n,)."""

    @abstractmethod
    def part(self, rows: slice) -> LinearKernels:
        """Those of some samples."""

    def sweep(self, lam: Tensor) -> tuple[Tensor, Tensor]:
        """q_h = ‖V_h‖² and K_hλ = Φ_hV_h, with V = Φᵀλ."""
        V = self.adjoint(lam)
        return self.squares(V), self.columns(V)


class StackedKernels(LinearKernels):
    """K_h = A_hA_hᵀ, kept as one stack unless `low_rank`; A (n, H, r) carries the signs y."""

    def __init__(self, A: Tensor) -> None:
        super().__init__(A, A.shape[1])
        self.A, self.short = A, low_rank(A.shape[1] * A.shape[2], self.n)

    def factor(self, eta: Tensor, diagonal: Tensor, exact: bool = True, first: Tensor | None = None) -> Factor:
        """Through the factors if they are smaller."""
        if not self.short:
            return super().factor(eta, diagonal, exact, first)
        return LowRankFactor(Columns((self.A * (eta**0.5)[:, None]).reshape(self.n, -1)), diagonal)

    @cached_property
    def stack(self) -> Tensor:
        """All kernels, shape (H, n, n)."""
        stack = filled(self.A, (self.H, self.n, self.n), 0.0)
        for h in range(self.H):
            stack[h] = gram(self.A[:, h])
        return stack

    def weighted(self, eta: Tensor) -> Tensor:
        """Σ_h η_h K_h."""
        return library(eta).tensordot(eta, self.stack, 1)

    def adjoint(self, lam: Tensor) -> Tensor:
        """A_hᵀλ, shape (H, r)."""
        return library(lam).tensordot(lam, self.A, 1)

    def squares(self, V: Tensor) -> Tensor:
        """Row by row."""
        return (V * V).sum(axis=1)

    def columns(self, V: Tensor) -> Tensor:
        """A_hV_h."""
        return (library(V).moveaxis(self.A, 0, 1) @ V[..., None])[..., 0].T

    def outputs(self, V: Tensor) -> Tensor:
        """Σ_h A_hV_h."""
        return library(V).tensordot(self.A, V, 2)

    def moment(self, weights: Tensor) -> Tensor:
        """Of all blocks side by side."""
        return gram((self.A.reshape(self.n, -1) * weights[:, None] ** 0.5).T)

    def part(self, rows: slice) -> StackedKernels:
        """Rows of the factors."""
        return StackedKernels(self.A[rows])

    def directional(self, change: Tensor) -> tuple[Tensor, Tensor]:
        """Through the kernels, or the factors if they are smaller."""
        if self.short:
            return self.sweep(change)
        P = (self.stack @ change).T
        return change @ P, P
