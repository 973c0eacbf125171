"""The group kernels K_h of a margin problem, signs included, applied without forming more than is needed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

from implicit_bias.ground.memory import check_memory
from implicit_bias.margin.solvers.native.arrays import (
    Tensor,
    add_to_diagonal_,
    device_of,
    filled,
    free_on_device,
    gram,
    in_precision,
    library,
)
from implicit_bias.margin.solvers.native.factors import DenseFactor, Factor, LowRankFactor, SingleFactor

#: Samples from which factors may be of single precision.
SINGLE_FROM = 1000
#: What to do where the memory does not suffice.
FEWER = "use fewer units or samples, or solver='CLARABEL'"


def low_rank(columns: int, samples: int) -> bool:
    """Whether products with features of so many columns cost less than with the kernels of the samples."""
    return 2 * columns <= samples


class GroupKernels(ABC):
    """Positive semidefinite kernels K_h of n samples and H groups, h = 1…H; arrays of one kind and device."""

    def __init__(self, rows: Tensor, H: int) -> None:
        self.n, self.H, self.ones = len(rows), H, filled(rows, len(rows), 1.0)

    @abstractmethod
    def weighted(self, eta: Tensor) -> Tensor:
        """K(η) = Σ_h η_h K_h for η (H,); a new array, shape (n, n)."""

    def single(self, eta: Tensor) -> Tensor:
        """K(η) in single precision."""
        return in_precision("float32", self.weighted(eta))

    def factor(self, eta: Tensor, diagonal: Tensor, exact: bool = True) -> Factor:
        """K(η) + diag(`diagonal`), factorised; unless `exact`, in single precision for many samples.

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
        return SingleFactor(matrix, lambda x: self.sweep(x)[1] @ eta + diagonal * x)

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
    def part(self, rows: slice) -> LinearKernels:
        """Those of some samples."""

    def sweep(self, lam: Tensor) -> tuple[Tensor, Tensor]:
        """q_h = ‖V_h‖² and K_hλ = Φ_hV_h, with V = Φᵀλ."""
        V = self.adjoint(lam)
        return self.squares(V), self.columns(V)


class GatedKernels(LinearKernels):
    """K_h = Σ_j S_jh (g_j g_jᵀ) ∘ (XXᵀ): columns g_j of gate values, shared by weights S.

    Parameters
    ----------
    X : array or tensor, shape (n, d)
        Inputs that carry the signs y.
    G : array or tensor, shape (n, k)
    share : array or tensor, shape (k, H)
        S ≥ 0: how much column j counts in group h; sparse for many groups.
    """

    def __init__(self, X: Tensor, G: Tensor, share: Tensor) -> None:
        super().__init__(X, share.shape[1])
        self.X, self.G, self.share = X, G, share

    @cached_property
    def halved(self) -> GatedKernels:
        """In single precision."""
        return GatedKernels(*(in_precision("float32", values) for values in (self.X, self.G, self.share)))

    @cached_property
    def inner(self) -> Tensor:
        """XXᵀ, shape (n, n); with one group, its whole kernel."""
        products = gram(self.X)
        if self.H == 1:
            products *= (self.G * self.share[:, 0]) @ self.G.T
        return products

    def weighted(self, eta: Tensor) -> Tensor:
        """(G diag(Sη) Gᵀ) ∘ (XXᵀ)."""
        if self.H == 1:
            return self.inner * eta
        kernel = (self.G * (self.share @ eta)) @ self.G.T
        kernel *= self.inner
        return kernel

    def single(self, eta: Tensor) -> Tensor:
        """From rounded inputs and gate values, never in doubles."""
        return self.halved.weighted(in_precision("float32", eta))

    def adjoint(self, lam: Tensor) -> Tensor:
        """V_j = Σ_i λ_i g_ij x_i, shape (k, d)."""
        return (self.G * lam[:, None]).T @ self.X

    def squares(self, V: Tensor) -> Tensor:
        """Σ_j S_jh ‖V_j‖²."""
        return (V * V).sum(axis=1) @ self.share

    def columns(self, V: Tensor) -> Tensor:
        """Σ_j S_jh g_j ∘ XV_j."""
        products = self.X @ V.T
        products *= self.G
        return products @ self.share

    def part(self, rows: slice) -> GatedKernels:
        """Rows of inputs and gates."""
        return GatedKernels(self.X[rows], self.G[rows], self.share)

    def directional(self, change: Tensor) -> tuple[Tensor, Tensor]:
        """Through XXᵀ for few samples."""
        if self.H == 1:
            P = (self.inner @ change)[:, None]
        elif self.n < 2 * self.X.shape[1]:
            products = self.inner @ (self.G * change[:, None])
            products *= self.G
            P = products @ self.share
        else:
            return self.sweep(change)
        return change @ P, P


class BorderedKernels(GroupKernels):
    """Gated kernels and one sample more, with features A (k, d) that are no product of gates and inputs."""

    def __init__(self, kernels: GatedKernels, A: Tensor) -> None:
        super().__init__(filled(A, kernels.n + 1, 1.0), kernels.H)
        self.own, self.A = kernels, A
        self.border, self.corner = kernels.columns(A), kernels.squares(A)

    def weighted(self, eta: Tensor) -> Tensor:
        """With a border of one row: Σ_j S_jh g_j ∘ XA_j."""
        return self._bordered(self.own.weighted(eta), eta)

    def single(self, eta: Tensor) -> Tensor:
        """As of the others alone."""
        return self._bordered(self.own.single(eta), eta)

    def _bordered(self, inside: Tensor, eta: Tensor) -> Tensor:
        matrix = filled(inside, (self.n, self.n), 0.0)
        matrix[:-1, :-1] = inside
        matrix[-1, :-1] = matrix[:-1, -1] = self.border @ eta
        matrix[-1, -1] = self.corner @ eta
        return matrix

    def sweep(self, lam: Tensor) -> tuple[Tensor, Tensor]:
        """With V = Φᵀλ + λ̄A."""
        V = self.own.adjoint(lam[:-1]) + lam[-1] * self.A
        border = (self.A * V).sum(axis=1) @ self.own.share
        return self.own.squares(V), library(V).vstack([self.own.columns(V), border])

    def directional(self, change: Tensor) -> tuple[Tensor, Tensor]:
        """As without the border, and with it."""
        P = self.own.directional(change[:-1])[1] + change[-1] * self.border
        P = library(P).vstack([P, change[:-1] @ self.border + change[-1] * self.corner])
        return change @ P, P


class StackedKernels(LinearKernels):
    """K_h = A_hA_hᵀ, kept as one stack unless `low_rank`; A (n, H, r) carries the signs y."""

    def __init__(self, A: Tensor) -> None:
        super().__init__(A, A.shape[1])
        self.A, self.short = A, low_rank(A.shape[1] * A.shape[2], self.n)

    def factor(self, eta: Tensor, diagonal: Tensor, exact: bool = True) -> Factor:
        """Through the factors if they are smaller."""
        if not self.short:
            return super().factor(eta, diagonal, exact)
        return LowRankFactor((self.A * (eta**0.5)[:, None]).reshape(self.n, -1), diagonal)

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

    def part(self, rows: slice) -> StackedKernels:
        """Rows of the factors."""
        return StackedKernels(self.A[rows])

    def directional(self, change: Tensor) -> tuple[Tensor, Tensor]:
        """Through the kernels, or the factors if they are smaller."""
        if self.short:
            return self.sweep(change)
        P = (self.stack @ change).T
        return change @ P, P
