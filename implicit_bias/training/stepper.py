"""Base classes of the steppers that `train` advances by minibatches."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from implicit_bias._utils.floats import over_power
from implicit_bias.networks.base import GatedNetwork
from implicit_bias.training.losses import MARGIN_LOSSES, mean_losses
from implicit_bias.training.optimisers import Optimiser


class Stepper(ABC):
    """Base class of steppers: one network or several that are trained on samples X (…, n, d)."""

    X: Tensor

    @abstractmethod
    def step(self, batch: Tensor, rate: float) -> None:
        """Make one step on the mean loss of the samples of indices `batch`."""

    @abstractmethod
    def record(self) -> list[dict[str, float]]:
        """Return a row of the table for each network: its loss over all samples, and other numbers."""

    @abstractmethod
    def write(self) -> None:
        """Write the latest weights into the networks."""


class MarginStepper(Stepper):
    """Base class of steppers of one network; `slopes` and `record` are for one output and labels y = ±1."""

    y: Tensor

    def __init__(self, network: GatedNetwork, config: Optimiser) -> None:
        self.network, self.loss = network, config.loss
        self.momentum = config.plain_momentum() or 0.0

    @abstractmethod
    def outputs(self) -> Tensor:
        """Return the outputs f(x_i) of all samples, shape (n,)."""

    @abstractmethod
    def norm(self) -> float:
        """Return the norm ‖w‖₂ of all parameters."""

    def slopes(self, outputs: Tensor, batch: Tensor) -> Tensor:
        """Return the derivatives ∂/∂f_i (1/|B|) Σ_i ℓ(y_i f_i), shape (|B|,), for outputs f of samples B."""
        y = self.y.index_select(0, batch)
        if isinstance(self.loss, str):
            return y * MARGIN_LOSSES[self.loss].slope(y * outputs) / len(y)
        with torch.enable_grad():
            outputs = outputs.detach().requires_grad_()
            return torch.autograd.grad(self.mean_loss(outputs, y), outputs)[0]

    def mean_loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Return the mean loss of outputs (b,) or (b, q) at targets of the same shape, or at classes (b,)."""
        b, classes = len(y), outputs.ndim == 2 and y.ndim == 1
        return mean_losses(outputs.reshape(1, b, -1), y[None] if classes else y.reshape(1, b, -1), self.loss)[0]

    @torch.no_grad()
    def record(self) -> list[dict[str, float]]:
        """Return one row: mean loss, error, smallest margin, norm, and normalised margin."""
        outputs = self.outputs()
        margins = self.y * outputs
        margin, norm = float(margins.min()), self.norm()
        row = {
            "loss": float(self.mean_loss(outputs, self.y)),
            "error": float((margins <= 0).double().mean()),
            "margin": margin,
            "norm": norm,
            "normalised_margin": over_power(margin, norm, self.network.degree),
        }
        return [row]
