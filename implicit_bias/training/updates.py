"""Steppers of a network: on its weights by any optimiser, or in the span of its features."""

import math

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from implicit_bias._utils.checks import InputError, as_floats
from implicit_bias.gates.modules import copied
from implicit_bias.networks.base import GatedNetwork, check_differentiable
from implicit_bias.training.losses import CustomLoss, are_signs, as_aims, mean_losses
from implicit_bias.training.optimisers import Optimiser
from implicit_bias.training.stepper import MarginStepper, Stepper
from implicit_bias.training.two_layers import TwoLayerSpanUpdates

#: Number of samples above which their n × n kernel costs more than it saves.
SPAN_UP_TO = 10_000
#: Number of samples per input up to which steps in their span cost less than steps on the weights.
SAMPLES_PER_INPUT = 2


class WeightUpdates(MarginStepper):
    """Steps on all weights of any network, in its own dtype or float32, whichever is finer, for any targets."""

    def __init__(self, network: GatedNetwork, X: np.ndarray, aims: np.ndarray, config: Optimiser) -> None:
        coarse = torch.finfo(network.first_parameter().dtype).bits < 32
        super().__init__(copied(network).float() if coarse else network, config)
        #: The network in its own dtype.
        self.own = network
        self.signs = are_signs(aims)
        #: True if ∂ℓ/∂f is computed by a formula.
        self.written = self.signs and config.plain_momentum() is not None and isinstance(self.loss, str)
        self.classes = config.loss != "squared" and network.outputs > 1 and aims.ndim == 1
        self.X, self.contexts = self.network.tensors(X)
        self.y = torch.as_tensor(aims, dtype=torch.int64 if self.classes else self.X.dtype, device=self.X.device)
        self.weights = [weight for weight in self.network.parameters() if weight.requires_grad]
        if not self.weights:
            raise InputError("the network has no trainable parameters; give it some, with requires_grad=True")
        #: What the optimiser steps on.
        self.rows = self.weights if config.entrywise else self._matrices()
        self.update = config.update(self.rows)

    def step(self, batch: Tensor, rate: float) -> None:
        """Make a step of the optimiser on ∇ (1/|B|) Σ_{i ∈ B} ℓ(f(x_i), y_i), B the samples of indices `batch`."""
        outputs = self.network(self.X[batch], None if self.contexts is None else self.contexts[batch])
        check_differentiable(outputs)
        if self.written:
            slopes = self.slopes(outputs.detach(), batch)
            gradients = torch.autograd.grad(outputs, self.weights, slopes, materialize_grads=True)
        else:
            mean = self.mean_loss(outputs, self.y[batch])
            gradients = torch.autograd.grad(mean, self.weights, materialize_grads=True)
        self.update([g.reshape(row.shape) for g, row in zip(gradients, self.rows, strict=True)], rate)

    def _matrices(self) -> list[Tensor]:
        if not all(weight.is_contiguous() for weight in self.weights):
            raise InputError("Muon takes contiguous weights; call module.to(memory_format=torch.contiguous_format)")
        rows = [weight.detach().view(len(weight) if weight.ndim > 1 else 1, -1) for weight in self.weights]
        shapes = self.network.layer_shapes()
        if len(shapes) == 1 and len(rows[0]) == math.prod(shapes[0]):
            rows[0] = rows[0].view(shapes[0][0], -1)
        return rows

    @torch.no_grad()
    def outputs(self) -> Tensor:
        return self.network.outputs_of(self.X, self.contexts)

    def norm(self) -> float:
        return self.network.norm()

    @torch.no_grad()
    def record(self) -> list[dict[str, float]]:
        """Return one row: for labels ±1 that of `MarginStepper`, else loss, norm, and for classes the error."""
        if self.signs:
            return super().record()
        outputs = self.outputs()
        row = {"loss": float(self.mean_loss(outputs, self.y))}
        if self.classes:
            row["error"] = float((outputs.argmax(dim=1) != self.y).double().mean())
        return [row | {"norm": self.norm()}]

    @torch.no_grad()
    def write(self) -> None:
        """Write weights of another dtype into the network; those of its own are already there."""
        if self.own is not self.network:
            for target, values in zip(self.own.parameters(), self.network.parameters(), strict=True):
                target.copy_(values)


class SpanUpdates(MarginStepper):
    """Steps of a shallow GLN, which is linear in its weights: w = w₀ + Φᵀα throughout, so that only α (n,) changes.

        f = f₀ + ΦΦᵀα,   (ΦΦᵀ)_ij = 1(c(x_i) = c(x_j)) ⟨x_i, x_j⟩,   v ← μ v + ∂ℓ/∂f,   α ← α − η v

    The computation is in float64. A step costs |B|·n operations instead of K·d, whatever the number K of contexts.
    """

    def __init__(self, network: GatedNetwork, X: np.ndarray, signs: np.ndarray, config: Optimiser) -> None:
        super().__init__(network, config)
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
        self.weights = network.first_parameter().detach()
        self.start = self.weights.clone()

    def step(self, batch: Tensor, rate: float) -> None:
        outputs = self.first[batch] + self.kernel[batch] @ self.alpha
        self.velocity.mul_(self.momentum).index_add_(0, batch, self.slopes(outputs, batch))
        self.alpha.sub_(self.velocity, alpha=rate)

    def mean_loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        # A custom loss sees outputs of the network's dtype, as in all other steppers.
        dtype = outputs.dtype if isinstance(self.loss, str) else self.start.dtype
        return super().mean_loss(outputs.to(dtype), y.to(dtype))

    def outputs(self) -> Tensor:
        return self.first + self.kernel @ self.alpha

    def norm(self) -> float:
        return max(self.first_square + float(self.alpha @ (self.first + self.outputs())), 0.0) ** 0.5

    @torch.no_grad()
    def write(self) -> None:
        """Write w = w₀ + Φᵀα into the network, rounded to its dtype."""
        self.weights.copy_(self.start.index_add(0, self.regions, (self.alpha[:, None] * self.X).to(self.start.dtype)))


def updates_of(network: GatedNetwork, X: ArrayLike, y: ArrayLike, config: Optimiser) -> Stepper:
    """Return the cheapest stepper of `network` on X (n, d); all make the same steps up to rounding."""
    X = as_floats(X, "X", 2)
    aims = as_aims(y, len(X), network.outputs, config.loss)
    layer, explicit = network.one_layer(X), config.plain_momentum() is not None and are_signs(aims)
    if layer is None or not explicit or _reads_weights(config.loss, network, aims):
        return WeightUpdates(network, X, aims, config)
    if layer.readout is None and len(X) <= min(SPAN_UP_TO, layer.hidden.numel()):
        return SpanUpdates(network, X, aims, config)
    few = len(X) <= min(SPAN_UP_TO, SAMPLES_PER_INPUT * np.any(X, axis=0).sum())
    largest = torch.finfo(torch.promote_types(next(network.parameters()).dtype, torch.float32)).max
    squared = np.abs(X).max() < (largest / X.shape[1]) ** 0.5
    return (TwoLayerSpanUpdates if layer.has_formulas and few and squared else WeightUpdates)(network, X, aims, config)


def _reads_weights(loss: str | CustomLoss, network: GatedNetwork, aims: np.ndarray) -> bool:
    """True if a custom loss has a gradient by the network's weights besides that by its outputs, such as a penalty."""
    if isinstance(loss, str):
        return False
    weights = [weight for weight in network.parameters() if weight.requires_grad]
    y = torch.as_tensor(aims, dtype=weights[0].dtype, device=weights[0].device)
    mean = mean_losses(torch.zeros_like(y, requires_grad=True)[None, :, None], y[None, :, None], loss)[0]
    return any(part is not None for part in torch.autograd.grad(mean, weights, allow_unused=True))
