"""Gradients of a stack of networks: written out where no gate but ReLU's depends on the weights, else by autograd."""

from typing import TypeAlias

import torch
from torch import Tensor

from implicit_bias.extensions.galu.networks import GaLU0Network, GaLUNetwork
from implicit_bias.extensions.galu.stack import Stack, views
from implicit_bias.networks import FrozenReLUNetwork, LinearNetwork, ReadoutNetwork, ReLUNetwork
from implicit_bias.training.losses import mean_losses, mean_slopes

#: Values per training, of gates or of fixed layers, that are kept and not computed anew for each batch.
KEPT = 2**28


class AutogradGradients:
    """Those of any networks."""

    def __init__(self, stack: Stack, X: Tensor, Y: Tensor, loss: str) -> None:
        self.stack, self.X, self.Y, self.loss = stack, X, Y, loss
        self.weights = [weights.detach().requires_grad_() for weights in stack.weights]

    def at(self, batch: Tensor) -> Tensor:
        """The gradient, all layers in a row, of the networks' mean losses over the samples of indices `batch`."""
        with torch.enable_grad():
            outputs = self.stack.outputs(self.X.index_select(-2, batch), self.weights)
            total = mean_losses(outputs, self.Y.index_select(1, batch), self.loss).sum()
        return torch.cat([gradient.flatten() for gradient in torch.autograd.grad(total, self.weights)])


class WrittenGradients:
    """Those of L hidden layers with gates g^{(ℓ)} that are fixed, ReLU's, or always open.

        p^{(ℓ)} = A^{(ℓ)} z^{(ℓ−1)},   z^{(ℓ)} = g^{(ℓ)} ∘ p^{(ℓ)},   z^{(0)} = x,   f = B z^{(L)}
        ∂/∂A^{(ℓ)} = (∂/∂p^{(ℓ)}) z^{(ℓ−1)ᵀ},   ∂/∂p^{(ℓ)} = g^{(ℓ)} ∘ A^{(ℓ+1)ᵀ} ∂/∂p^{(ℓ+1)}

    Layers that are not trained count as inputs.
    """

    @torch.no_grad()
    def __init__(self, stack: Stack, X: Tensor, Y: Tensor, loss: str) -> None:
        self.stack, self.Y, self.loss = stack, Y, loss
        self.X = X if X.ndim == 3 else X[None]
        self.relu = isinstance(stack.first, ReLUNetwork)
        self.flat = torch.zeros_like(stack.flat)
        self.parts = views(self.flat, stack.weights)
        units = sum(filters.shape[1] for filters in stack.filters)
        few = len(stack.networks) * self.X.shape[1] * units <= KEPT
        self.fixed = self._fixed(self.X) if few else None

    def _fixed(self, X: Tensor) -> tuple[Tensor, list[Tensor]]:
        """What training leaves of samples X (1 or R, b, d): the inputs of the first trained layer, and gates."""
        if isinstance(self.stack.first, ReadoutNetwork):
            return self.stack.first.activations(self.stack.weights, self.stack.filters, X), []
        gates = self.stack.first.fixed_gates(self.stack.filters, X)
        return X, [values.float() for values in gates or []]

    @torch.no_grad()
    def at(self, batch: Tensor) -> Tensor:
        """The gradient, all layers in a row, of the networks' mean losses over the samples of indices `batch`."""
        if self.fixed is None:
            z, gates = self._fixed(self.X.index_select(1, batch))
        else:
            z, gates = self.fixed[0].index_select(1, batch), [g.index_select(1, batch) for g in self.fixed[1]]
        weights = self.stack.weights
        layers = [z.expand(len(weights[0]), -1, -1)]
        for index, weight in enumerate(weights[:-1]):
            p = _forward(layers[-1], weight)
            layers.append(p.relu_() if self.relu else p.mul_(gates[index]) if gates else p)
        slopes = mean_slopes(_forward(layers[-1], weights[-1]), self.Y.index_select(1, batch), self.loss)
        for index in reversed(range(len(weights))):
            _outer(slopes, layers[index], self.parts[index])
            if index:
                slopes = _backward(slopes, weights[index])
                if self.relu:
                    slopes.mul_(torch.gt(layers[index], 0, out=layers[index]))
                elif gates:
                    slopes.mul_(gates[index - 1])
        return self.flat


def _forward(z: Tensor, weight: Tensor) -> Tensor:
    """Products A z, shape (R, b, o); the batched product is slow for one output."""
    return (z * weight).sum(2, keepdim=True) if weight.shape[1] == 1 else torch.bmm(z, weight.mT)


def _backward(slopes: Tensor, weight: Tensor) -> Tensor:
    """Products Aᵀ δ, shape (R, b, i)."""
    return slopes * weight if weight.shape[1] == 1 else torch.bmm(slopes, weight)


def _outer(slopes: Tensor, z: Tensor, out: Tensor) -> None:
    """Σ over the samples of δ zᵀ, shape (R, o, i)."""
    if out.shape[1] == 1:
        torch.sum(slopes * z, 1, keepdim=True, out=out)
    else:
        torch.bmm(slopes.mT, z, out=out)


Gradients: TypeAlias = AutogradGradients | WrittenGradients
#: Whose gradients are written out; classes derived from these may compute something else.
WRITTEN = (ReLUNetwork, LinearNetwork, ReadoutNetwork, FrozenReLUNetwork, GaLU0Network)


def gradients_of(stack: Stack, X: Tensor, Y: Tensor, loss: str) -> Gradients:
    """The cheapest way to the gradients of a stack on X (n, d) or (R, n, d) and Y."""
    kind = type(stack.first)
    shallow = kind is GaLUNetwork and len(stack.first.units) == 1
    return (WrittenGradients if shallow or kind in WRITTEN else AutogradGradients)(stack, X, Y, loss)
