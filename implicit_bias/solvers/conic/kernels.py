"""The group kernels K_h = (G_h G_hᵀ) ∘ (XXᵀ) ∘ (yyᵀ) of a margin problem, applied without being stored."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from implicit_bias.checks import Array
from implicit_bias.features import GatedFeatures


class GroupKernels:
    """Kernels of n samples and H groups of gates, in inputs of mean square length 1 that carry the signs y.

    Parameters
    ----------
    features : GatedFeatures
    y : array of −1 and +1, shape (n,)
    groups : array of int, shape (k,)
        The group of each gate.
    """

    def __init__(self, features: GatedFeatures, y: Array, groups: np.ndarray) -> None:
        labels, index = np.unique(groups, return_inverse=True)
        self.n, self.H = features.n, len(labels)
        #: √(mean ‖x‖²): margins of unit-norm weights here, times this, are margins in the original inputs.
        self.scale = features.scale()
        self.X = torch.as_tensor(features.X / self.scale * y[:, None])
        self.G = torch.as_tensor(features.gate_values)
        self.index = torch.as_tensor(index)
        self.member = torch.nn.functional.one_hot(self.index, self.H).to(self.X.dtype)
        self.XX = self.X @ self.X.T

    def weighted(self, eta: Tensor) -> Tensor:
        """K(η) = Σ_h η_h K_h for η (H,); shape (n, n)."""
        return ((self.G * eta[self.index]) @ self.G.T).mul_(self.XX)

    def sweep(self, lam: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """For λ (n,): V = Φᵀ(λ∘y) (k, d), the q_h = λᵀK_hλ = ‖V_h‖² (H,), and the columns K_hλ (n, H)."""
        V = (self.G * lam[:, None]).T @ self.X
        q = self.member.T @ (V * V).sum(dim=1)
        return V, q, ((self.X @ V.T) * self.G) @ self.member
