"""The group kernels of gates and inputs, K_h = Σ_j S_jh (g_j g_jᵀ) ∘ (XXᵀ)."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from implicit_bias._utils.blocks import row_blocks
from implicit_bias._utils.memory import check_memory
from implicit_bias.solvers.native.arrays import Tensor, device_of, filled, free_on_device, gram, in_precision, library
from implicit_bias.solvers.native.cholesky import BLOCK
from implicit_bias.solvers.native.factors import (
    RANK,
    Columns,
    Factor,
    LowRank,
    LowRankFactor,
    OneRowMore,
    PartialFactor,
)
from implicit_bias.solvers.native.kernels import FEWER, GroupKernels, LinearKernels

#: Samples for each input up to which XXᵀ is kept: beyond, making it anew is a small part of the factor.
KEPT = 20
#: How much slower the products of a refinement are than those of a factor; of how many a partial factor must have use.
SLOWER, PATIENCE = 6, 33


def affordable(samples: int, columns: int) -> int:
    """How many products with features of so many columns, and a partial factor, take as long as a whole factor.

    About n³/3 operations against 4n(columns + r) each, which are SLOWER.
    """
    return int(samples**2 / (12 * SLOWER * (columns + RANK * samples)))


class GatedKernels(LinearKernels):
    """K_h = Σ_j S_jh (g_j g_jᵀ) ∘ (XXᵀ): columns g_j of gate values, shared by weights S.

    Parameters
    ----------
    X : array or tensor, shape (n, d)
        Inputs that carry the signs y.
    G : array or tensor, shape (n, k)
    share : array or tensor, shape (k, H)
        S ≥ 0: how much column j counts in group h; sparse for many groups.
    short : bool
        Whether steps go through the features.
    wide : bool
        Whether these are computed as they are needed, never kept.
    """

    def __init__(self, X: Tensor, G: Tensor, share: Tensor, short: bool = False, wide: bool = False) -> None:
        super().__init__(X, share.shape[1])
        self.X, self.G, self.share = X, G, share
        self.short, self.wide = short, wide

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
        """From rounded inputs and gate values, never in doubles; of many samples the lower triangle, XXᵀ made anew."""
        half, eta = self.halved, in_precision("float32", eta)
        if self.H == 1 or self.n <= KEPT * self.X.shape[1]:
            return half.weighted(eta)
        kernel, left = filled(half.X, (self.n, self.n), 0.0), half.G * (half.share @ eta)
        for rows in row_blocks(self.n):
            kernel[rows, : rows.stop] = left[rows] @ half.G[: rows.stop].T
            kernel[rows, : rows.stop] *= half.X[rows] @ half.X[: rows.stop].T
        return kernel

    @property
    def patience(self) -> int:
        """Where products have columns of kd features."""
        return affordable(self.n, self.X.shape[1] * self.G.shape[1])

    def factor(self, eta: Tensor, diagonal: Tensor, exact: bool = True, first: Tensor | None = None) -> Factor:
        """Through the features if they are few, else a partial one of many samples, as long as that does."""
        if self.short:
            return LowRankFactor(self.roots(eta), diagonal)
        if exact or first is None or self.patience < PATIENCE:
            return super().factor(eta, diagonal, exact)
        if self.stiff:
            need = 4 * self.n**2 + 8 * self.n * BLOCK
            check_memory(need, f"a step of {self.n} samples", FEWER, free_on_device(device_of(self.X)))
            return super().factor(eta, diagonal, exact)
        half = self.halved
        left, own = half.G * in_precision("float32", self.share @ eta), self.G**2 @ (self.share @ eta)

        def columns(pivots: np.ndarray) -> Tensor:
            """K(η) of these samples with all."""
            found = left @ half.G[pivots].T
            found *= half.X @ half.X[pivots].T
            return found

        own *= (self.X**2).sum(axis=1)
        return PartialFactor(columns, own, first, diagonal, self._product(eta, diagonal))

    def roots(self, eta: Tensor) -> LowRank:
        """B with BBᵀ = K(η): the gate values times √(Sη), times the inputs, shape (n, kd)."""
        root = (self.share @ eta) ** 0.5
        return ScaledFeatures(self, root) if self.wide else Columns(self._rows(self.G * root))

    def _rows(self, gates: Tensor) -> Tensor:
        """These gate values times the inputs."""
        return (gates[:, :, None] * self.X[:, None, :]).reshape(self.n, -1)

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

    def outputs(self, V: Tensor) -> Tensor:
        """Σ_j g_j ∘ XV_j."""
        return ((self.X @ V.T) * self.G).sum(1)

    @cached_property
    def even(self) -> Tensor:
        """|g_ij| (k,) of the columns in which that is the same for every i, as contrasts have; 0 of the others."""
        xp, sizes = library(self.G), abs(self.G)
        most = xp.amax(sizes, 0)
        return xp.where(xp.amin(sizes, 0) == most, most, 0 * most)

    def moment(self, weights: Tensor) -> Tensor:
        """Block by block, Xᵀ diag(g_i g_j weights) X, where `wide`; else all together.

        A block is P − N, of the samples with g_i g_j > 0 and of those with g_i g_j < 0. Where |g_i g_j| is the same
        for all, P + N is a multiple of Xᵀ diag(weights) X, and the one of fewer samples suffices.
        """
        k, d = self.G.shape[1], self.X.shape[1]
        if not self.wide:
            return gram(self._rows(self.G * weights[:, None] ** 0.5).T)

        def product(own: Tensor, shares: Tensor) -> Tensor:
            rows = self.X[own] * shares[own, None] ** 0.5
            return rows.T @ rows

        found = filled(self.X, (k, d, k, d), 0.0)
        whole = product(weights > 0, weights) if self.even.any() else None
        for i in range(k):
            for j in range(i + 1):
                shares, size = self.G[:, i] * self.G[:, j] * weights, self.even[i] * self.even[j]
                above, below = shares > 0, shares < 0
                if size == 0:
                    found[i, :, j] = product(above, shares) - product(below, -shares)
                elif above.sum() < below.sum():
                    found[i, :, j] = 2 * product(above, shares) - size * whole
                else:
                    found[i, :, j] = size * whole - 2 * product(below, -shares)
                found[j, :, i] = found[i, :, j]
        return found.reshape(k * d, k * d)

    def part(self, rows: slice) -> GatedKernels:
        """Rows of inputs and gates."""
        return GatedKernels(self.X[rows], self.G[rows], self.share)

    def directional(self, change: Tensor) -> tuple[Tensor, Tensor]:
        """Through XXᵀ for few samples, or the features if they are fewer."""
        if self.short:
            return self.sweep(change)
        if self.H == 1:
            P = (self.inner @ change)[:, None]
        elif self.n < 2 * self.X.shape[1]:
            products = self.inner @ (self.G * change[:, None])
            products *= self.G
            P = products @ self.share
        else:
            return self.sweep(change)
        return change @ P, P


class ScaledFeatures(LowRank):
    """The features of gated kernels times the number of their column of gate values, in no memory of their own."""

    def __init__(self, kernels: GatedKernels, root: Tensor) -> None:
        self.kernels, self.root = kernels, root[:, None]
        self.shape = kernels.G.shape[1], kernels.X.shape[1]
        self.size = (kernels.G**2 @ root**2) @ (kernels.X**2).sum(1)

    def times(self, V: Tensor) -> Tensor:
        """Column by column."""
        columns = [self.kernels.outputs(self.root * own.reshape(self.shape)) for own in V.T]
        return library(V).stack(columns, 1)

    def adjoint(self, x: Tensor) -> Tensor:
        """Column by column."""
        columns = [(self.root * self.kernels.adjoint(own)).reshape(-1) for own in x.T]
        return library(x).stack(columns, 1)

    def moment(self, weights: Tensor) -> Tensor:
        """That of the features, scaled on both sides."""
        size = self.shape[0] * self.shape[1]
        found = self.kernels.moment(weights).reshape(*self.shape, size)
        found *= self.root[:, :, None]
        found = found.reshape(size, *self.shape)
        found *= self.root
        return found.reshape(size, size)


class BorderedKernels(GroupKernels):
    """Gated kernels and one sample more, with features A (k, d) that are no product of gates and inputs."""

    def __init__(self, kernels: GatedKernels, A: Tensor) -> None:
        super().__init__(filled(A, kernels.n + 1, 1.0), kernels.H)
        self.own, self.A = kernels, A
        self.border, self.corner = kernels.columns(A), kernels.squares(A)

    def factor(self, eta: Tensor, diagonal: Tensor, exact: bool = True, first: Tensor | None = None) -> Factor:
        """Through the features if they are few."""
        if not self.own.short:
            return super().factor(eta, diagonal, exact, first)
        row = ((self.own.share @ eta) ** 0.5)[:, None] * self.A
        return LowRankFactor(OneRowMore(self.own.roots(eta), row.reshape(-1)), diagonal)

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
