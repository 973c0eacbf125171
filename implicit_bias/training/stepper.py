"""The protocol of steppers: what `train` needs to know of a network, its samples and an optimiser."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from implicit_bias._utils.scaling import over_power
from implicit_bias.training.losses import MARGIN_LOSSES, MARGIN_SLOPES


class Stepper(ABC):
    """A network in training on its samples, of which `y` are the labels or targets."""

    y: Tensor

    @abstractmethod
    def step(self, batch: Tensor, rate: float) -> None:
        """Make one step on the mean loss of the samples of indices `batch`."""

    @abstractmethod
    def record(self) -> dict[str, float]:
        """The loss and other numbers of all samples."""

    @abstractmethod
    def write(self) -> None:
        """Write the latest weights into the network."""


class MarginStepper(Stepper):
    """A stepper of one output and labels ±1."""

    degree: int

    def __init__(self, loss: str) -> None:
        self.loss, self.slope = MARGIN_LOSSES[loss], MARGIN_SLOPES[loss]

    @abstractmethod
    def outputs(self) -> Tensor:
        """f(x_i), shape (n,)."""

    @abstractmethod
    def norm(self) -> float:
        """‖w‖₂ over all parameters."""

    @torch.no_grad()
    def record(self) -> dict[str, float]:
        """Mean loss, error, smallest margin, norm, and normalised margin."""
        margins = self.y * self.outputs()
        margin, norm = float(margins.min()), self.norm()
        return {
            "loss": float(self.loss(margins).mean()),
            "error": float((margins <= 0).double().mean()),
            "margin": margin,
            "norm": norm,
            "normalised_margin": over_power(margin, norm, self.degree),
        }
