"""Steps of many networks of one shape together: one product per layer for all of them."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.nn.functional import pad

from implicit_bias._utils.checks import Array, InputError, as_floats, dimensions
from implicit_bias.networks.base import GatedNetwork, views
from implicit_bias.networks.layers import LayeredNetwork
from implicit_bias.training.losses import CustomLoss, as_aims, mean_losses
from implicit_bias.training.optimisers import Optimiser
from implicit_bias.training.steppers import Stepper

#: Samples whose outputs are computed at once when a loss is measured.
CHUNK = 4096


class Stack(Stepper):
    """R networks as one: each layer's weights (R, out, in) in float32, narrower layers padded with zeros."""

    def __init__(self, networks: Sequence[GatedNetwork], X: ArrayLike, y: ArrayLike, config: Optimiser) -> None:
        layered = [network for network in networks if isinstance(network, LayeredNetwork)]
        kinds = {(type(n), *(n.config() | {"units": len(n.units)}).values()) for n in layered}
        if len(kinds) != 1 or len(layered) < len(networks):
            kind = "layered ones of one class, such as ReLUNetwork(…), with equal inputs, depth, outputs and sharpness"
            raise InputError(f"networks that train together must be {kind}")
        if not config.stacks:
            raise InputError(f"{type(config).__name__} trains one network at a time; call train once for each")
        self.networks, self.first, self.loss = layered, layered[0], config.loss
        filled = [_filled(group) for group in zip(*(n.layers for n in layered), strict=True)]
        #: All weights in one vector, and each layer's as a view of it.
        self.flat = torch.cat([weights.flatten() for weights in filled])
        self.weights = views(self.flat, filled)
        self.filters = [_filled(group) for group in zip(*(n.filters() for n in layered), strict=True)]
        #: Inputs (n, d) or (R, n, d), and targets (1 or R, n, q), or classes (1 or R, n).
        self.X, self.y = (each.to(self.flat.device) for each in _samples(self.first, len(layered), X, y, config.loss))
        self.rows = [self.flat] if config.entrywise else self.weights
        self.update = config.update(self.rows)

    def step(self, batch: Tensor, rate: float) -> None:
        self.update(views(self.gradient(batch), self.rows), rate)

    def gradient(self, batch: Tensor) -> Tensor:
        """Return the gradient of the sum of mean losses on the samples `batch`, one vector in the order of `flat`."""
        weights = [weights.detach().requires_grad_() for weights in self.weights]
        outputs = self._outputs(self.X.index_select(-2, batch), weights)
        total = mean_losses(outputs, self.y.index_select(1, batch), self.loss).sum()
        return torch.cat([gradient.flatten() for gradient in torch.autograd.grad(total, weights)])

    def _outputs(self, X: Tensor, weights: Sequence[Tensor]) -> Tensor:
        outputs: Tensor = self.first.activations(weights, self.filters, X) @ weights[-1].mT
        return outputs

    @torch.no_grad()
    def record(self) -> list[dict[str, float]]:
        """Return a row for each network: its number `network` and its mean `loss` over all its samples."""
        n, total = self.X.shape[-2], torch.zeros(len(self.networks), dtype=torch.float64)
        for first in range(0, n, CHUNK):
            part = slice(first, first + CHUNK)
            y = self.y[:, part]
            mean = mean_losses(self._outputs(self.X[..., part, :], self.weights), y, self.loss)
            total += mean.double().cpu() * y.shape[1]
        return [{"network": index, "loss": loss} for index, loss in enumerate((total / n).tolist())]

    @torch.no_grad()
    def write(self) -> None:
        for index, weights in enumerate(self.weights):
            for network, values in zip(self.networks, weights, strict=True):
                target = network.layers[index]
                target.copy_(values[: target.shape[0], : target.shape[1]])


def _filled(group: Sequence[Tensor]) -> Tensor:
    """Return matrices of several shapes as one stack in float32; smaller ones are padded with zeros."""
    rows, columns = (max(matrix.shape[axis] for matrix in group) for axis in (0, 1))
    return torch.stack(
        [pad(matrix.detach().float(), (0, columns - matrix.shape[1], 0, rows - matrix.shape[0])) for matrix in group]
    )


def _samples(
    first: LayeredNetwork, count: int, X: ArrayLike, y: ArrayLike, loss: str | CustomLoss
) -> tuple[Tensor, Tensor]:
    """Return X (n, d) or (count, n, d), and targets (1 or count, n, q) in float32, or classes (1 or count, n)."""
    separate = dimensions(X) == 3
    inputs = as_floats(X, "X", 3 if separate else 2)
    if inputs.shape[-1] != first.inputs or (separate and len(inputs) != count):
        wanted = f"({count}, n, {first.inputs})" if separate else f"(n, {first.inputs})"
        raise InputError(f"X must have shape {wanted} for these networks, not {inputs.shape}")
    is_table = dimensions(y) == inputs.ndim
    targets = as_floats(y, "y", inputs.ndim if is_table else inputs.ndim - 1)
    if is_table and loss != "squared" and targets.shape[-1] == 1:
        targets = targets[..., 0]
    if separate and len(targets) != count:
        raise InputError(f"y must have targets for each of the {count} networks, but its shape is {targets.shape}")
    samples, q = inputs.shape[-2], first.outputs
    aims = np.stack([as_aims(each, samples, q, loss, both=False) for each in (targets if separate else targets[None])])
    if aims.ndim == 2 and q > 1:
        return _single(inputs), torch.as_tensor(aims, dtype=torch.int64)
    return _single(inputs), _single(aims.reshape(len(aims), samples, q))


def _single(values: Array) -> Tensor:
    tensor = torch.as_tensor(values, dtype=torch.float32)
    if not torch.isfinite(tensor).all():
        raise InputError("X or y holds values beyond 3e38, which networks in float32 cannot take; scale them down")
    return tensor
