"""Group kernels K_h of a margin problem, including the signs y: from stacked factors, or from gates and inputs.

Gates and inputs have K_h = Σ_j S_jh (g_j g_jᵀ) ∘ (XXᵀ), which is applied without forming more than is needed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

import numpy as np

from implicit_bias._utils.blocks import ROWS, gram, row_blocks
from implicit_bias._utils.compiled import compiled
from implicit_bias._utils.floats import TINY
from implicit_bias._utils.limits import check_memory
from implicit_bias.features import SubsetFeatures
from implicit_bias.solvers.native import algebra
from implicit_bias.solvers.native.algebra import Tensor
from implicit_bias.solvers.native.settings import Settings

#: What to do if the memory does not suffice.
FEWER = "use fewer units or samples, or solver='CLARABEL'"


def affordable_products(samples: int, columns: int, settings: Settings) -> int:
    """Return how many products with K(η) and a partial factor take as long as a whole factor of K(η)."""
    # n³/3 operations, and 4n(columns + rank) for a product, each slower by `product_cost`.
    return int(samples**2 / (12 * settings.product_cost * (columns + settings.partial_rank * samples)))


class GroupKernels(ABC):
    """Positive semidefinite kernels K_h of n samples and H groups, h = 1…H, in NumPy or on one device of torch."""

    #: True if steps use the features instead of the kernels.
    by_features = False
    #: True if factors are partial unless they fail.
    partial = False
    #: Products in a refinement that take the time of factorising K(η); 0 if no factor is partial.
    affordable = 0

    def __init__(self, rows: Tensor, H: int, settings: Settings) -> None:
        self.n, self.H, self.ones, self.settings = len(rows), H, algebra.filled(rows, len(rows), 1.0), settings

    @abstractmethod
    def weighted(self, eta: Tensor) -> Tensor:
        """Return K(η) = Σ_h η_h K_h for η (H,) as a new array, shape (n, n)."""

    def single(self, eta: Tensor) -> Tensor:
        """Return K(η) (n, n) in single precision; some subclasses fill only its lower triangle."""
        return algebra.in_precision("float32", self.weighted(eta))

    def factor(self, eta: Tensor, diagonal: Tensor, exact: bool = True, lam: Tensor | None = None) -> algebra.Factor:
        """Return a factor of K(η) + diag(`diagonal`), for many samples in single precision unless `exact`.

        Raises ArithmeticError if the matrix is not positive definite in that precision, TooLargeError without memory.
        """
        if self.by_features:
            return algebra.LowRankFactor(self.roots(eta), diagonal)
        large = self.n >= self.settings.single_from
        if exact or not large:
            if large:
                need, free = 16 * self.n**2, algebra.free_on_device(self.ones)
                check_memory(need, f"a step of {self.n} samples in double precision", FEWER, free)
            matrix = self.weighted(eta)
            algebra.add_to_diagonal_(matrix, diagonal)
            return algebra.DenseFactor(matrix)
        matrix = self.single(eta)
        algebra.add_to_diagonal_(matrix, algebra.in_precision("float32", diagonal))
        return algebra.SingleFactor(matrix, self._product(eta, diagonal))

    def roots(self, eta: Tensor) -> algebra.LowRank:
        """Return B (n, r) with BBᵀ = K(η), if `by_features`."""
        raise NotImplementedError(f"{type(self).__name__} must define roots(eta), or keep by_features False")

    def _product(self, eta: Tensor, diagonal: Tensor) -> algebra.Product:
        return lambda x: self.sweep(x)[1] @ eta + diagonal * x

    @abstractmethod
    def sweep(self, lam: Tensor) -> tuple[Tensor, Tensor]:
        """Return q_h = λᵀK_hλ (H,), as sums of squares, and the columns K_hλ (n, H), for λ (n,)."""

    def directional(self, change: Tensor) -> tuple[Tensor, Tensor]:
        """Return the results of `sweep` for a direction, by whichever product is cheaper; q_h may be less accurate."""
        return self.sweep(change)


class LinearKernels(GroupKernels):
    """K_h = ΦS_hΦᵀ with diagonal S_h ≥ 0, by products with Φ; S_h often selects the columns Φ_h of group h."""

    @abstractmethod
    def adjoint(self, lam: Tensor) -> Tensor:
        """Return V = Φᵀλ for λ (n,), in the shape that the other methods take; no S_h is included."""

    @abstractmethod
    def squares(self, V: Tensor) -> Tensor:
        """Return ⟨V, S_hV⟩ = ‖V_h‖², shape (H,)."""

    @abstractmethod
    def columns(self, V: Tensor) -> Tensor:
        """Return the columns ΦS_hV = Φ_hV_h, shape (n, H)."""

    @abstractmethod
    def outputs(self, V: Tensor) -> Tensor:
        """Return ΦV, shape (n,), without any S_h."""

    @abstractmethod
    def moment(self, weights: Tensor) -> Tensor:
        """Return Φᵀ diag(weights) Φ, in the order of V's flattened entries, for weights ≥ 0 (n,)."""

    @abstractmethod
    def part(self, rows: slice) -> LinearKernels:
        """Return the kernels of the samples `rows`."""

    def sweep(self, lam: Tensor) -> tuple[Tensor, Tensor]:
        V = self.adjoint(lam)
        return self.squares(V), self.columns(V)

    def ascended(
        self, V: Tensor, eta: Tensor, lam: Tensor, box: Tensor, column: Tensor, b: Tensor, stiffness: Tensor
    ) -> Tensor:
        """Return λ (n,) after exact maximisation of 1ᵀλ − ½ λᵀKλ over one λ_i ∈ [0, box_i] at a time; update V.

        V = Φᵀλ and K = K(η) + `stiffness` ỹỹᵀ are those of all samples; ỹ is the `column` of an intercept b.
        """
        kernel = self.weighted(eta) + stiffness * column[:, None] * column
        f = self.columns(V) @ eta + b * column
        kernel, f, old, upper = (algebra.as_numpy(values) for values in (kernel, f, lam, box))
        new = _maximised(kernel, f, old, upper, self.settings.passes)
        if algebra.library(lam) is not np:
            new = algebra.library(lam).as_tensor(new, device=lam.device)
        V += self.adjoint(new - lam)
        return new


def _maximised(kernel: np.ndarray, f: np.ndarray, lam: np.ndarray, box: np.ndarray, passes: int) -> np.ndarray:
    """Return λ (m,) of a block after `passes` over one λ_i ∈ [0, box_i] at a time; the margins f are overwritten."""
    new, upper, curvature = lam.tolist(), box.tolist(), np.maximum(kernel.diagonal(), TINY).tolist()
    turns = list(range(len(upper)))
    for _ in range(passes):
        for i in turns:
            best = new[i] + (1 - f.item(i)) / curvature[i]
            if best < 0.0:
                best = 0.0
            elif best > upper[i]:
                best = upper[i]
            if best != new[i]:
                f += kernel[i] * (best - new[i])
                new[i] = best
        # The next pass visits only the λ between their bounds.
        turns = [i for i in turns if 0.0 < new[i] < upper[i]]
    return np.array(new)


class StackedKernels(LinearKernels):
    """K_h = A_hA_hᵀ for A (n, H, r), which includes the signs y; the K_h of wide A_h are stored unless by features."""

    def __init__(self, A: Tensor, settings: Settings) -> None:
        super().__init__(A, A.shape[1], settings)
        self.A, self.narrow = A, A.shape[2] <= settings.narrow_up_to
        self.by_features = int(self.used.sum()) <= settings.features_per_sample * self.n

    def roots(self, eta: Tensor) -> algebra.LowRank:
        return algebra.ColumnBlocks(self._root(eta))

    def _root(self, eta: Tensor) -> Tensor:
        """Return A√η (n, ·) without the columns `used` leaves out."""
        return (self.A * (eta**0.5)[:, None])[:, self.used]

    @cached_property
    def used(self) -> Tensor:
        """Mask (H, r) of the columns that are not zero in every sample: groups may be narrower than others."""
        return (self.A != 0).any(0)

    @cached_property
    def stack(self) -> Tensor:
        """All kernels, shape (H, n, n)."""
        stack = algebra.filled(self.A, (self.H, self.n, self.n), 0.0)
        for h in range(self.H):
            stack[h] = gram(self.A[:, h])
        return stack

    def weighted(self, eta: Tensor) -> Tensor:
        return gram(self._root(eta)) if self.narrow else algebra.library(eta).tensordot(eta, self.stack, 1)

    def single(self, eta: Tensor) -> Tensor:
        if not self.narrow:
            return super().single(eta)
        return gram(self.rounded * algebra.in_precision("float32", eta**0.5)[algebra.library(eta).where(self.used)[0]])

    @cached_property
    def rounded(self) -> Tensor:
        """A (n, ·) in single precision, without the columns `used` leaves out."""
        return algebra.in_precision("float32", self.A[:, self.used])

    def adjoint(self, lam: Tensor) -> Tensor:
        return algebra.library(lam).tensordot(lam, self.A, 1)

    def squares(self, V: Tensor) -> Tensor:
        return (V * V).sum(axis=1)

    def columns(self, V: Tensor) -> Tensor:
        return (algebra.library(V).moveaxis(self.A, 0, 1) @ V[..., None])[..., 0].T

    def outputs(self, V: Tensor) -> Tensor:
        return algebra.library(V).tensordot(self.A, V, 2)

    def moment(self, weights: Tensor) -> Tensor:
        return gram((self.A.reshape(self.n, -1) * weights[:, None] ** 0.5).T)

    def part(self, rows: slice) -> StackedKernels:
        return StackedKernels(self.A[rows], self.settings)

    def directional(self, change: Tensor) -> tuple[Tensor, Tensor]:
        if self.by_features or self.narrow:
            return self.sweep(change)
        P = (self.stack @ change).T
        return change @ P, P


class SubsetKernels(StackedKernels):
    """Kernels of units that each see few inputs; `signs` (n,) multiply their features. A is formed if it is used."""

    def __init__(self, features: SubsetFeatures, signs: Tensor, settings: Settings) -> None:
        self.features, self.signs, self.n, self.settings = features, signs, features.n, settings

    @cached_property
    def A(self) -> Tensor:  # noqa: N802
        return self.features.dense().reshape(self.n, len(self.features.subsets), -1) * self.signs[:, None, None]

    def part(self, rows: slice) -> SubsetKernels:
        return SubsetKernels(self.features.select(rows), self.signs[rows], self.settings)

    def ascended(
        self, V: Tensor, eta: Tensor, lam: Tensor, box: Tensor, column: Tensor, b: Tensor, stiffness: Tensor
    ) -> Tensor:
        new, features, units = lam.copy(), self.features, np.flatnonzero(eta)
        parts = features.X, features.contexts, features.subsets, self.signs, V.reshape(len(V), -1, features.d)
        _ascend(*parts, units, eta, new, box, column, float(np.sum(b)), float(stiffness), TINY)
        return new


@compiled
def _ascend(X, contexts, subsets, signs, V, units, eta, lam, box, column, b, stiffness, tiny):  # type: ignore[no-untyped-def]
    """Maximise over one λ_i at a time, in place, and update V (H, K, r) of `units`."""
    for i in range(len(X)):
        f, curvature = b * column[i], stiffness * column[i] ** 2
        for h in units:
            v, product, square = V[h, contexts[i, h]], 0.0, 0.0
            for r in range(len(v)):
                x = signs[i] * X[i, subsets[h, r]]
                product += v[r] * x
                square += x * x
            f += eta[h] * product
            curvature += eta[h] * square
        new = min(max(lam[i] + (1 - f) / max(curvature, tiny), 0.0), box[i])
        change = new - lam[i]
        if change != 0:
            lam[i] = new
            b += stiffness * column[i] * change
            for h in units:
                v = V[h, contexts[i, h]]
                for r in range(len(v)):
                    v[r] += change * signs[i] * X[i, subsets[h, r]]


class GatedKernels(LinearKernels):
    """K_h = Σ_j S_jh (g_j g_jᵀ) ∘ (XXᵀ): columns g_j of gate values, shared by weights S.

    X (n, d) are the inputs times the signs y, G (n, k) gate values or their contrasts, and `share` (k, H) is S ≥ 0,
    sparse for many groups. If `wide`, features are computed when they are needed, and never stored.
    """

    def __init__(
        self, X: Tensor, G: Tensor, share: Tensor, settings: Settings, by_features: bool = False, wide: bool = False
    ) -> None:
        super().__init__(G, share.shape[1], settings)
        self.X, self.G, self.share = X, G, share
        self.by_features, self.wide = by_features, wide
        self.affordable = affordable_products(self.n, X.shape[1] * G.shape[1], settings)
        self.partial = not by_features and self.affordable >= settings.least_products

    @cached_property
    def halved(self) -> GatedKernels:
        """These kernels with inputs, gate values and `share` in single precision."""
        X, G, share = (algebra.in_precision("float32", part) for part in (self.X, self.G, self.share))
        return GatedKernels(X, G, share, self.settings)

    @cached_property
    def inner(self) -> Tensor:
        """XXᵀ, shape (n, n); with one group, its whole kernel."""
        products = gram(self.X)
        if self.H == 1:
            products *= (self.G * self.share[:, 0]) @ self.G.T
        return products

    def weighted(self, eta: Tensor) -> Tensor:
        if self.H == 1:
            return self.inner * eta
        kernel = (self.G * (self.share @ eta)) @ self.G.T
        kernel *= self.inner
        return kernel

    def single(self, eta: Tensor) -> Tensor:
        # Only rounded inputs and gate values are used. Many samples fill only the lower triangle, without XXᵀ.
        half, eta = self.halved, algebra.in_precision("float32", eta)
        if self.H == 1 or self.n <= self.settings.kept_per_input * self.X.shape[1]:
            return half.weighted(eta)
        kernel, left = algebra.filled(half.X, (self.n, self.n), 0.0), half.G * (half.share @ eta)
        for rows in row_blocks(self.n):
            kernel[rows, : rows.stop] = left[rows] @ half.G[: rows.stop].T
            kernel[rows, : rows.stop] *= half.X[rows] @ half.X[: rows.stop].T
        return kernel

    def factor(self, eta: Tensor, diagonal: Tensor, exact: bool = True, lam: Tensor | None = None) -> algebra.Factor:
        """Return a partial factor if `lam` is given and they are used, unless `exact`; else a whole one."""
        if exact or not self.partial:
            return super().factor(eta, diagonal, exact)
        if lam is None:
            need = 4 * self.n**2 + 8 * self.n * ROWS
            check_memory(need, f"a step of {self.n} samples", FEWER, algebra.free_on_device(self.X))
            return super().factor(eta, diagonal, exact)
        half, squares = self.halved, self.G**2 @ (self.share @ eta)
        left = half.G * algebra.in_precision("float32", self.share @ eta)

        def columns(pivots: np.ndarray) -> Tensor:
            block = left @ half.G[pivots].T
            block *= half.X @ half.X[pivots].T
            return block

        squares *= (self.X**2).sum(axis=1)
        q, P = self.sweep(lam)
        # With K(η)λ over √(λᵀK(η)λ), K(η) − first firstᵀ remains positive semidefinite.
        first = P @ eta / (eta @ q + TINY) ** 0.5
        return algebra.PartialFactor(columns, squares, first, diagonal, self._product(eta, diagonal), self.settings)

    def roots(self, eta: Tensor) -> algebra.LowRank:
        # The gate values times √(Sη), times the inputs, shape (n, kd).
        root = (self.share @ eta) ** 0.5
        return ScaledFeatures(self, root) if self.wide else algebra.ColumnBlocks(self._rows(self.G * root))

    def _rows(self, gates: Tensor) -> Tensor:
        """Return all products of gates (n, k) and inputs, shape (n, k·d), with the gate as the slower index."""
        return (gates[:, :, None] * self.X[:, None, :]).reshape(self.n, -1)

    def adjoint(self, lam: Tensor) -> Tensor:
        """Return V_j = Σ_i λ_i g_ij x_i, shape (k, d)."""
        return (self.G * lam[:, None]).T @ self.X

    def squares(self, V: Tensor) -> Tensor:
        return (V * V).sum(axis=1) @ self.share

    def columns(self, V: Tensor) -> Tensor:
        products = self.X @ V.T
        products *= self.G
        return products @ self.share

    def outputs(self, V: Tensor) -> Tensor:
        return ((self.X @ V.T) * self.G).sum(1)

    @cached_property
    def even(self) -> Tensor:
        """|g_ij| of each column j, shape (k,), if it is the same for all samples i, as in contrasts; else 0."""
        xp, sizes = algebra.library(self.G), abs(self.G)
        most = xp.amax(sizes, 0)
        return xp.where(xp.amin(sizes, 0) == most, most, 0 * most)

    def moment(self, weights: Tensor) -> Tensor:
        """Return Φᵀ diag(weights) Φ, in the order of gates; if `wide`, in blocks Xᵀ diag(g_i g_j weights) X.

        A block is P − N, of the samples with g_i g_j > 0 and < 0. If |g_i g_j| is the same for all, P + N is a multiple
        of Xᵀ diag(weights) X, and the one of fewer samples suffices.
        """
        k, d = self.G.shape[1], self.X.shape[1]
        if not self.wide:
            return gram(self._rows(self.G * weights[:, None] ** 0.5).T)

        def product(own: Tensor, shares: Tensor) -> Tensor:
            rows = self.X[own] * shares[own, None] ** 0.5
            return rows.T @ rows

        matrix = algebra.filled(self.X, (k, d, k, d), 0.0)
        whole = product(weights > 0, weights) if self.even.any() else None
        for i in range(k):
            for j in range(i + 1):
                shares, size = self.G[:, i] * self.G[:, j] * weights, self.even[i] * self.even[j]
                above, below = shares > 0, shares < 0
                if size == 0:
                    matrix[i, :, j] = product(above, shares) - product(below, -shares)
                elif above.sum() < below.sum():
                    matrix[i, :, j] = 2 * product(above, shares) - size * whole
                else:
                    matrix[i, :, j] = size * whole - 2 * product(below, -shares)
                matrix[j, :, i] = matrix[i, :, j]
        return matrix.reshape(k * d, k * d)

    def part(self, rows: slice) -> GatedKernels:
        return GatedKernels(self.X[rows], self.G[rows], self.share, self.settings)

    def directional(self, change: Tensor) -> tuple[Tensor, Tensor]:
        # XXᵀ is used for few samples, and the features if they are fewer.
        if not self.by_features and self.H == 1:
            P = (self.inner @ change)[:, None]
        elif not self.by_features and self.n < 2 * self.X.shape[1]:
            products = self.inner @ (self.G * change[:, None])
            products *= self.G
            P = products @ self.share
        else:
            return self.sweep(change)
        return change @ P, P


class ScaledFeatures(algebra.LowRank):
    """The features of gated kernels, scaled by `root` (k,) for each column of gate values, without storing them."""

    def __init__(self, kernels: GatedKernels, root: Tensor) -> None:
        self.kernels, self.root = kernels, root[:, None]
        self.shape = kernels.G.shape[1], kernels.X.shape[1]
        self.size = (kernels.G**2 @ root**2) @ (kernels.X**2).sum(1)

    def times(self, V: Tensor) -> Tensor:
        return algebra.library(V).stack([self.kernels.outputs(self.root * v.reshape(self.shape)) for v in V.T], 1)

    def adjoint(self, x: Tensor) -> Tensor:
        return algebra.library(x).stack([(self.root * self.kernels.adjoint(column)).reshape(-1) for column in x.T], 1)

    def moment(self, weights: Tensor) -> Tensor:
        size = self.shape[0] * self.shape[1]
        matrix = self.kernels.moment(weights).reshape(*self.shape, size)
        matrix *= self.root[:, :, None]
        matrix = matrix.reshape(size, *self.shape)
        matrix *= self.root
        return matrix.reshape(size, size)


class BorderedKernels(GroupKernels):
    """Gated kernels and one more sample, whose features A (k, d) are not a product of gates and inputs."""

    def __init__(self, kernels: GatedKernels, A: Tensor) -> None:
        super().__init__(algebra.filled(A, kernels.n + 1, 1.0), kernels.H, kernels.settings)
        self.base, self.A, self.by_features = kernels, A, kernels.by_features
        self.border, self.corner = kernels.columns(A), kernels.squares(A)

    def roots(self, eta: Tensor) -> algebra.LowRank:
        row = ((self.base.share @ eta) ** 0.5)[:, None] * self.A
        return algebra.OneRowMore(self.base.roots(eta), row.reshape(-1))

    def weighted(self, eta: Tensor) -> Tensor:
        return self._bordered(self.base.weighted(eta), eta)

    def single(self, eta: Tensor) -> Tensor:
        return self._bordered(self.base.single(eta), eta)

    def _bordered(self, inside: Tensor, eta: Tensor) -> Tensor:
        """Return K(η) of all samples from `inside`, that of the gated ones, and the border Σ_j S_jh g_j ∘ XA_j."""
        matrix = algebra.filled(inside, (self.n, self.n), 0.0)
        matrix[:-1, :-1] = inside
        matrix[-1, :-1] = matrix[:-1, -1] = self.border @ eta
        matrix[-1, -1] = self.corner @ eta
        return matrix

    def sweep(self, lam: Tensor) -> tuple[Tensor, Tensor]:
        # V = Φᵀλ + λ̄A.
        V = self.base.adjoint(lam[:-1]) + lam[-1] * self.A
        border = (self.A * V).sum(axis=1) @ self.base.share
        return self.base.squares(V), algebra.library(V).vstack([self.base.columns(V), border])

    def directional(self, change: Tensor) -> tuple[Tensor, Tensor]:
        P = self.base.directional(change[:-1])[1] + change[-1] * self.border
        P = algebra.library(P).vstack([P, change[:-1] @ self.border + change[-1] * self.corner])
        return change @ P, P
