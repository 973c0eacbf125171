"""Norms of a layer's weights: steepest directions, projections onto the unit ball, and lengths of gradients.

For weights G (…, H, D), one row a unit, a norm and its dual have

    steepest(G) = argmax { ⟨G, Δ⟩ : ‖Δ‖ ≤ 1 },   ⟨G, steepest(G)⟩ = ‖G‖_*
    nearest(G) = argmin { ‖G − P‖_F : ‖P‖ ≤ 1 }
"""

from abc import ABC, abstractmethod
from math import inf

import torch
from torch import Tensor

#: Coefficients of the quintic iteration of Muon (Jordan et al., 2024), which moves singular values near 1.
QUINTIC = (3.4445, -4.7750, 2.0315)


class LayerNorm(ABC):
    """Base class of norms of a layer's weights."""

    #: The q for which ‖a xᵀ‖_* = ‖a‖_* ‖x‖_q, of gate values a (H, M) and inputs x (d,).
    inputs: float = 2

    @abstractmethod
    def value(self, G: Tensor) -> Tensor:
        """Return ‖G‖, shape (…)."""

    @abstractmethod
    def dual(self, G: Tensor) -> Tensor:
        """Return the dual norm ‖G‖_*, shape (…)."""

    @abstractmethod
    def steepest(self, G: Tensor) -> Tensor:
        """Return the Δ with ‖Δ‖ ≤ 1 and the largest ⟨G, Δ⟩; 0 where G is 0."""

    @abstractmethod
    def nearest(self, G: Tensor) -> Tensor:
        """Return the P with ‖P‖ ≤ 1 that is closest to G in the Frobenius norm."""


class Length(LayerNorm):
    """‖G‖_F, or ‖v‖₂ of the output layer."""

    axes: tuple[int, ...] = (-2, -1)

    def _lengths(self, G: Tensor) -> Tensor:
        return torch.linalg.vector_norm(G, dim=self.axes, keepdim=True)

    def value(self, G: Tensor) -> Tensor:
        return self._lengths(G).amax((-2, -1))

    def dual(self, G: Tensor) -> Tensor:
        return self._lengths(G).sum((-2, -1))

    def steepest(self, G: Tensor) -> Tensor:
        lengths = self._lengths(G)
        return G / torch.where(lengths > 0, lengths, 1.0)

    def nearest(self, G: Tensor) -> Tensor:
        return G / self._lengths(G).clamp(min=1.0)


class RowLengths(Length):
    """The largest length of a row; its dual is the sum of these lengths."""

    axes = (-1,)


class Entries(LayerNorm):
    """The largest size of an entry; its dual is the sum of these sizes."""

    inputs = 1

    def value(self, G: Tensor) -> Tensor:
        return G.abs().amax((-2, -1))

    def dual(self, G: Tensor) -> Tensor:
        return G.abs().sum((-2, -1))

    def steepest(self, G: Tensor) -> Tensor:
        return G.sign()

    def nearest(self, G: Tensor) -> Tensor:
        return G.clamp(-1.0, 1.0)


class Sum(LayerNorm):
    """The sum of the sizes of entries; its dual is the largest size. A step changes one entry."""

    inputs = inf

    def value(self, G: Tensor) -> Tensor:
        return G.abs().sum((-2, -1))

    def dual(self, G: Tensor) -> Tensor:
        return G.abs().amax((-2, -1))

    def steepest(self, G: Tensor) -> Tensor:
        flat, direction = G.flatten(), torch.zeros(G.numel(), dtype=G.dtype, device=G.device)
        index = flat.abs().argmax()
        direction[index] = flat[index].sign()
        return direction.view_as(G)

    def nearest(self, G: Tensor) -> Tensor:
        sizes = G.abs().flatten().sort(descending=True).values
        excess = (sizes.cumsum(0) - 1.0) / torch.arange(1, len(sizes) + 1, dtype=G.dtype, device=G.device)
        return G.sign() * (G.abs() - excess.max().clamp(min=0.0)).clamp(min=0.0)


class Spectral(LayerNorm):
    """The largest singular value; its dual is their sum, the nuclear norm."""

    def value(self, G: Tensor) -> Tensor:
        return torch.linalg.matrix_norm(G, 2)

    def dual(self, G: Tensor) -> Tensor:
        # Singular values below 1e-8 of the largest one are inexact, and change the sum by no more.
        small = G if G.shape[-2] <= G.shape[-1] else G.mT
        return torch.linalg.eigvalsh(small @ small.mT).clamp(min=0.0).sqrt().sum(-1)

    def steepest(self, G: Tensor) -> Tensor:
        left, sizes, right = torch.linalg.svd(G, full_matrices=False)
        threshold = torch.finfo(G.dtype).eps * max(G.shape[-2:]) * sizes.amax(-1, keepdim=True)
        return left * (sizes > threshold)[..., None, :] @ right

    def nearest(self, G: Tensor) -> Tensor:
        if G.shape[-2] > G.shape[-1]:
            return self.nearest(G.mT).mT
        squares, axes = torch.linalg.eigh(G @ G.mT)
        return G - (axes * (1.0 - squares.clamp(min=1.0).rsqrt())) @ (axes.mT @ G)


class NewtonSchulz(Spectral):
    """The spectral norm with an approximate polar factor: most singular values of a step are between 0.7 and 1.2."""

    def steepest(self, G: Tensor) -> Tensor:
        if G.shape[-2] > G.shape[-1]:
            return self.steepest(G.mT).mT
        a, b, c = QUINTIC
        G = Length().steepest(G)
        for _ in range(5):
            gram = G @ G.mT
            G = a * G + (b * gram + c * gram @ gram) @ G
        return G


#: The norms that `svm_of_optimiser` and `TwoLayerNorm` name, of the input layer and of the output layer (H, 1).
BY_NAME: dict[str, LayerNorm] = {
    "frobenius": Length(), "rows": RowLengths(), "entries": Entries(), "l1": Sum(), "spectral": Spectral(),
    "l2": Length(), "l_inf": Entries(),
}  # fmt: skip
