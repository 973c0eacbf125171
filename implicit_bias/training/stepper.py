"""The protocol of what `train` drives with minibatches."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from implicit_bias._utils.scaling import over_power
from implicit_bias.training.losses import MARGIN_LOSSES, MARGIN_SLOPES


class Stepper(ABC):
    """A network, or several, in training on samples X (…, n, d)."""

    X: Tensor

    @abstractmethod
    def step(self, batch: Tensor, rate: float) -> None:
        """Make one step on the mean loss of the samples of indices `batch`."""

    @abstractmethod
    def record(self) -> list[dict[str, float]]:
        """The loss and other numbers of all samples, a row for each network."""

    @abstractmethod
    def write(self) -> None:
        """Write the latest weights into the networks."""


class MarginStepper(Stepper):
    """A stepper of one network of one output, for labels y = ±1."""

    degree: int
    y: Tensor

    def __init__(self, loss: str) -> None:
        self.loss, self.slope = MARGIN_LOSSES[loss], MARGIN_SLOPES[loss]

    @abstractmethod
    def outputs(self) -> Tensor:
        """f(x_i), shape (n,)."""

    @abstractmethod
    def norm(self) -> float:
        """‖w‖₂ over all parameters."""

    @torch.no_grad()
    def record(self) -> list[dict[str, float]]:
        """Mean loss, error, smallest margin, norm, and normalised margin."""
        margins = self.y * self.outputs()
        margin, norm = float(margins.min()), self.norm()
        row = {
            "loss": float(self.loss(margins).mean()),
            "error": float((margins <= 0).double().mean()),
            "margin": margin,
            "norm": norm,
            "normalised_margin": over_power(margin, norm, self.degree),
        }
        return [row]
