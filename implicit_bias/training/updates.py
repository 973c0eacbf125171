"""Steps of gradient descent with momentum: on a network's weights, or in the span of its features."""

from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from implicit_bias._utils.checks import InputError
from implicit_bias.networks import GatedNetwork
from implicit_bias.training.losses import Loss, output_slopes
from implicit_bias.training.two_layers import TwoLayerSpanUpdates, TwoLayerUpdates, has_one_layer

#: Above this many samples their n × n kernel costs more than it saves.
SPAN_UP_TO = 10_000
#: Up to so many samples for each input, steps in their span cost less than on the weights.
SAMPLES_PER_INPUT = 2


class WeightUpdates:
    """Steps on all weights of any network, in its own dtype."""

    def __init__(self, network: GatedNetwork, X: np.ndarray, signs: np.ndarray) -> None:
        self.network, self.degree = network, network.degree
        self.X, self.contexts = network.tensors(X)
        self.y = torch.as_tensor(signs, dtype=self.X.dtype, device=self.X.device)
        self.shape: tuple[int, ...] = (len(signs),)
        self.weights = list(network.parameters())
        self.velocities = [torch.zeros_like(w) for w in self.weights]

    def step(self, batch: Tensor, slope: Loss, rate: float, momentum: float) -> None:
        """v ← μ v + ∇ (1/|B|) Σ_{i ∈ B} ℓ(y_i f(x_i)), w ← w − η v for the samples B of indices `batch`."""
        outputs = self.network(self.X[batch], None if self.contexts is None else self.contexts[batch])
        with torch.no_grad():
            gradients = torch.autograd.grad(outputs, self.weights, output_slopes(outputs, self.y[batch], slope))
            for weight, velocity, gradient in zip(self.weights, self.velocities, gradients, strict=True):
                velocity.mul_(momentum).add_(gradient)
                weight.sub_(velocity, alpha=rate)

    @torch.no_grad()
    def outputs(self) -> Tensor:
        """f(x_i), shape (n,) or (n, q). Raises InputError for another shape, which the labels would be broadcast to."""
        outputs = self.network(self.X, self.contexts)
        if not isinstance(outputs, Tensor) or outputs.shape != self.shape:
            found = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
            raise InputError(f"the network must give outputs of shape {self.shape}, not {found}")
        return outputs

    def norm(self) -> float:
        """‖w‖₂ over all parameters."""
        return self.network.norm()

    def write(self) -> None:
        """Leave the latest weights in the network, which the steps change themselves."""


class SpanUpdates:
    """Steps of a shallow GLN, which is linear in its weights: w = w₀ + Φᵀα throughout, so that α (n,) is all there is.

        f = f₀ + ΦΦᵀα,   (ΦΦᵀ)_ij = 1(c(x_i) = c(x_j)) ⟨x_i, x_j⟩,   v ← μ v + ∂ℓ/∂f,   α ← α − η v

    In float64. A step costs |B|·n instead of K·d, whatever the number of contexts K.
    """

    def __init__(self, network: GatedNetwork, X: np.ndarray, signs: np.ndarray) -> None:
        self.network, self.degree = network, network.degree
        with torch.no_grad():
            inputs, contexts = network.tensors(X)
            assert contexts is not None
            self.regions = contexts[:, 0]
            self.X = torch.as_tensor(X, device=inputs.device)
            self.kernel = (self.X @ self.X.T) * (self.regions[:, None] == self.regions)
            self.first = network(inputs, contexts).double()
        self.y = torch.as_tensor(signs, device=inputs.device)
        self.alpha, self.velocity = torch.zeros_like(self.y), torch.zeros_like(self.y)
        self.first_square = network.norm() ** 2
        layer = network.one_layer()
        assert layer is not None
        self.weights = layer.hidden
        self.start = self.weights.clone()

    def step(self, batch: Tensor, slope: Loss, rate: float, momentum: float) -> None:
        """One step on the batch."""
        outputs = self.first[batch] + self.kernel[batch] @ self.alpha
        self.velocity.mul_(momentum).index_add_(0, batch, output_slopes(outputs, self.y[batch], slope))
        self.alpha.sub_(self.velocity, alpha=rate)

    def outputs(self) -> Tensor:
        """f(x_i), shape (n,)."""
        return self.first + self.kernel @ self.alpha

    def norm(self) -> float:
        """‖w‖₂."""
        square = self.first_square + float(self.alpha @ (self.first + self.outputs()))
        return max(square, 0.0) ** 0.5

    @torch.no_grad()
    def write(self) -> None:
        """w = w₀ + Φᵀα, rounded to the network's dtype."""
        change = (self.alpha[:, None] * self.X).to(self.start.dtype)
        self.weights.copy_(self.start.index_add(0, self.regions, change))


Updates: TypeAlias = WeightUpdates | SpanUpdates | TwoLayerUpdates


def updates_of(network: GatedNetwork, X: np.ndarray, signs: np.ndarray) -> Updates:
    """The cheapest way to train `network` on X (n, d) and signs (n,); all make the same steps up to rounding."""
    layer = network.one_layer()
    if layer is not None and layer.readout is None and len(X) <= min(SPAN_UP_TO, layer.hidden.numel()):
        return SpanUpdates(network, X, signs)
    if not has_one_layer(network) or getattr(network, "outputs", 1) > 1:
        return WeightUpdates(network, X, signs)
    few = len(X) <= min(SPAN_UP_TO, SAMPLES_PER_INPUT * np.any(X, axis=0).sum())
    largest = torch.finfo(torch.promote_types(next(network.parameters()).dtype, torch.float32)).max
    squared = np.abs(X).max() < (largest / X.shape[1]) ** 0.5
    return (TwoLayerSpanUpdates if few and squared else TwoLayerUpdates)(network, X, signs)
