"""Steps on any network's weights for real targets, classes or signs, by descent with momentum or by Adam."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from implicit_bias._utils.checks import Array, InputError, as_floats, as_signs, as_targets, dimensions
from implicit_bias.networks import GatedNetwork
from implicit_bias.training.losses import Loss, mean_losses, refuse_for_classes
from implicit_bias.training.updates import WeightUpdates


def as_aims(y: Any, samples: int, outputs: int, loss: str) -> Array:
    """Signs (n,), real targets (n,) or (n, q), or classes (n,) as whole numbers: what the loss takes of y."""
    if loss == "squared":
        column = outputs == 1 and dimensions(y) != 2
        aims = as_targets(y, samples)
        if aims.shape[1] != outputs:
            raise InputError(f"y has {aims.shape[1]} targets per sample, but the network has {outputs} output(s)")
        return aims[:, 0] if column else aims
    if outputs == 1:
        return as_signs(y, samples)
    refuse_for_classes(loss)
    classes = as_floats(y, "y", 1)
    if len(classes) != samples or not np.isin(classes, np.arange(outputs)).all():
        raise InputError(f"y must hold a class from 0 to {outputs - 1} for each of the {samples} samples")
    return classes


def are_signs(aims: Array) -> bool:
    """Whether these are labels −1 and +1, both of them."""
    return aims.ndim == 1 and np.array_equal(np.unique(aims), (-1.0, 1.0))


class TargetUpdates(WeightUpdates):
    """Steps in the network's own dtype, by autograd; the mean losses are those of `train_together`."""

    def __init__(self, network: GatedNetwork, X: Array, aims: Array, loss: str, momentum: float | None) -> None:
        super().__init__(network, X, aims)
        outputs = getattr(network, "outputs", 1)
        self.loss, self.classes, self.signs = loss, loss != "squared" and outputs > 1, are_signs(aims)
        self.shape = (len(X), outputs) if outputs > 1 else (len(X),)
        if self.classes:
            self.y = self.y.long()
        #: Without a momentum, Adam.
        self.optimiser: torch.optim.Optimizer = (
            torch.optim.Adam(self.weights) if momentum is None else torch.optim.SGD(self.weights, momentum=momentum)
        )

    def _mean(self, outputs: Tensor, aims: Tensor) -> Tensor:
        n = len(aims)
        wanted = aims[None] if self.classes else aims.reshape(1, n, -1)
        return mean_losses(outputs.reshape(1, n, -1), wanted, self.loss)[0]

    def step(self, batch: Tensor, slope: Loss, rate: float, momentum: float) -> None:
        """One step of the optimiser on the mean loss of the samples B of indices `batch`, whatever the slope."""
        self.optimiser.param_groups[0]["lr"] = rate
        self.optimiser.zero_grad()
        outputs = self.network(self.X[batch], None if self.contexts is None else self.contexts[batch])
        self._mean(outputs, self.y[batch]).backward()
        self.optimiser.step()

    @torch.no_grad()
    def figures(self) -> dict[str, float]:
        """Loss, norm, and for classes the share that is wrong."""
        outputs = self.outputs()
        found = {"loss": float(self._mean(outputs, self.y))}
        if self.classes:
            found["error"] = float((outputs.argmax(dim=1) != self.y).double().mean())
        return found | {"norm": self.norm()}

    def write(self) -> None:
        """Forget the gradients; the weights are in the network."""
        self.optimiser.zero_grad()
