"""Networks of one shape as a single stack of weights, and data for each of them."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.nn.functional import pad

from implicit_bias._utils.checks import Array, InputError, as_floats, dimensions
from implicit_bias.networks import LayeredNetwork
from implicit_bias.training.losses import mean_losses, refuse_for_classes

#: Samples whose outputs are computed at once when a loss is measured.
CHUNK = 4096


class Stack:
    """R networks as one: each layer's weights (R, out, in), narrower layers filled up with zeros."""

    def __init__(self, networks: Sequence[LayeredNetwork]) -> None:
        self.networks = list(networks) if isinstance(networks, list | tuple) else []
        if not self.networks or not all(isinstance(network, LayeredNetwork) for network in self.networks):
            raise InputError("networks must be a list of networks such as GaLUNetwork(…) or ReLUNetwork(…)")
        kinds = {(type(n), n.inputs, len(n.units), n.outputs, getattr(n, "sharpness", None)) for n in self.networks}
        if len(kinds) > 1:
            raise InputError(
                "networks that train together must be of one class, with equal inputs, depth, outputs and sharpness"
            )
        self.first = self.networks[0]
        filled = [_filled(group) for group in zip(*(n.layers for n in self.networks), strict=True)]
        #: All weights in one row, and each layer's as a view of it.
        self.flat = torch.cat([weights.flatten() for weights in filled])
        self.weights = views(self.flat, filled)
        self.filters = [_filled(group) for group in zip(*(n.filters() for n in self.networks), strict=True)]

    def outputs(self, X: Tensor, weights: Sequence[Tensor]) -> Tensor:
        """Outputs (R, b, q) of some weights for inputs (b, d) or (R, b, d)."""
        outputs: Tensor = self.first.activations(weights, self.filters, X) @ weights[-1].mT
        return outputs

    @torch.no_grad()
    def losses(self, X: Tensor, Y: Tensor, loss: str) -> Array:
        """The mean losses (R,) over all samples."""
        total = torch.zeros(len(self.networks), dtype=torch.float64)
        for first in range(0, X.shape[-2], CHUNK):
            part = slice(first, first + CHUNK)
            wanted = Y[:, part]
            total += mean_losses(self.outputs(X[..., part, :], self.weights), wanted, loss).double() * wanted.shape[1]
        return (total / X.shape[-2]).numpy()

    @torch.no_grad()
    def leave(self) -> None:
        """Put the weights back into the networks."""
        for index, weights in enumerate(self.weights):
            for network, values in zip(self.networks, weights, strict=True):
                target = network.layers[index]
                target.copy_(values[: target.shape[0], : target.shape[1]])


def views(flat: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """What lies behind one another in a row, in the shapes of some tensors."""
    parts = flat.split([tensor.numel() for tensor in like])
    return [part.view(tensor.shape) for part, tensor in zip(parts, like, strict=True)]


def _filled(group: Sequence[Tensor]) -> Tensor:
    """Matrices of several shapes as one stack in float32, zeros behind the smaller ones."""
    rows, columns = (max(matrix.shape[axis] for matrix in group) for axis in (0, 1))
    return torch.stack(
        [pad(matrix.detach().float(), (0, columns - matrix.shape[1], 0, rows - matrix.shape[0])) for matrix in group]
    )


def tensors_of(stack: Stack, X: ArrayLike, Y: ArrayLike, loss: str) -> tuple[Tensor, Tensor]:
    """Inputs (n, d) or (R, n, d), and targets (1 or R, n, q), or classes (1 or R, n)."""
    first, own = stack.first, dimensions(X) == 3
    inputs = as_floats(X, "X", 3 if own else 2)
    samples, count = inputs.shape[-2], len(stack.networks)
    if inputs.shape[-1] != first.inputs or (own and len(inputs) != count):
        wanted = f"({count}, n, {first.inputs})" if own else f"(n, {first.inputs})"
        raise InputError(f"X must have shape {wanted} for these networks, not {inputs.shape}")
    leading = (count, samples) if own else (samples,)
    classes = loss != "squared" and first.outputs > 1
    shape = leading if classes or dimensions(Y) == len(leading) else (*leading, first.outputs)
    targets = as_floats(Y, "Y", len(shape))
    if targets.shape != shape or (first.outputs > 1 and not classes and len(shape) == len(leading)):
        expected = leading if classes else (*leading, first.outputs)
        raise InputError(f"Y must have shape {expected} for these networks and X, not {targets.shape}")
    if classes:
        refuse_for_classes(loss)
        if not np.isin(targets, np.arange(first.outputs)).all():
            raise InputError(f"Y must hold the classes 0 to {first.outputs - 1} as whole numbers")
        numbers = torch.as_tensor(targets, dtype=torch.int64)
        return _single(inputs), numbers if own else numbers[None]
    if loss != "squared" and not np.isin(targets, (-1.0, 1.0)).all():
        raise InputError(f"Y must hold −1 and +1 for the {loss} loss")
    values = _single(targets.reshape(*leading, first.outputs))
    return _single(inputs), values if own else values[None]


def _single(values: Array) -> Tensor:
    """Values in float32, unless they leave its range."""
    tensor = torch.as_tensor(values, dtype=torch.float32)
    if not torch.isfinite(tensor).all():
        raise InputError("X or Y holds values beyond 3e38, which networks in float32 cannot take; scale them down")
    return tensor
