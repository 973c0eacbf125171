"""Homogeneous networks: as a function of one vector of weights, and the stationarity that Theorem 3.1 asks of them."""

import copy
import math

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import Parameter

from implicit_bias._utils.checks import Array, InputError
from implicit_bias._utils.scaling import over_power
from implicit_bias.features import GatedFeatures
from implicit_bias.networks import GatedNetwork
from implicit_bias.training.losses import Loss, log_sum_exp

#: Relative deviation from f_{2w} = 2^L f_w above which a network does not count as homogeneous.
DEVIATION = 1e-6


def sine(a: Tensor, b: Tensor) -> float:
    """The sine of the angle between the lines of two vectors, accurate for small angles; 1 if one of them is 0."""
    lengths = float(a.norm()), float(b.norm())
    if not min(lengths) > 0:
        return 1.0
    a, b = a / lengths[0], b / lengths[1]
    return float((b - (a @ b) * a).norm())


def readout_biases(network: nn.Module) -> list[Parameter]:
    """The biases of readouts, each once."""
    each = [module.readout_biases() for module in network.modules() if isinstance(module, GatedNetwork)]
    return list({id(bias): bias for biases in each for bias in biases}.values())


def homogeneous_parameters(network: nn.Module) -> list[Parameter]:
    """The trainable parameters, GLNs' readout biases left out."""
    biases = set(map(id, readout_biases(network)))
    return [p for p in network.parameters() if p.requires_grad and id(p) not in biases]


class MarginFunction:
    """The margins of a network as a function of one vector w of all its weights, and their gradients.

    q_i = y_i f_w(x_i) of signs y,    q_ic = f_{y_i}(x_i) − f_c(x_i), c ≠ y_i, of classes y: one after the other
    """

    def __init__(self, network: GatedNetwork, X: Array, y: Array) -> None:
        network.double()
        for bias in readout_biases(network):
            bias.data.zero_()
        self.degree = network.degree
        self.network = network
        self.inputs, self.contexts = network.tensors(X)
        self.has_kinks = self.contexts is None
        self.outputs: int = getattr(network, "outputs", 1)
        self.y = torch.as_tensor(y) if self.outputs == 1 else torch.as_tensor(y).long()
        self.shape = (len(y),) if self.outputs == 1 else (len(y), self.outputs)
        #: The places of the pairs (i, c) among all outputs.
        self.pairs = (self.y[:, None] != torch.arange(self.outputs)).flatten().nonzero()[:, 0]
        self.count = len(y) * max(self.outputs - 1, 1)
        self.twin = copy.deepcopy(network)
        self.rotation, self.rest = self._rotate(X)
        self.parameters = homogeneous_parameters(self.twin)
        self.start = torch.cat([p.detach().flatten() for p in self.parameters])
        if not float(self.start.norm()) > 0:
            raise InputError("the network's weights are all zero, so it has no direction to start from")
        self._check(self.start / self.start.abs().max())

    @torch.no_grad()
    def _check(self, w: Tensor) -> None:
        """Refuse outputs that are not one per sample, or not homogeneous of the network's own L or, each, of more."""
        w = w / w.norm()
        outputs, doubled, fourfold = (self._outputs(factor * w) for factor in (1, 2, 4))
        if outputs.shape != self.shape:
            found = tuple(outputs.shape)
            raise InputError(f"the network must give outputs of shape {self.shape}, not {found}")
        growth = torch.where(outputs == 0, 2.0**self.degree, doubled / outputs)
        same = bool((fourfold - growth * doubled).abs().max() <= DEVIATION * fourfold.abs().max())
        growth[outputs.abs() <= DEVIATION * outputs.abs().max()] = torch.inf
        least = float(growth.log2().min()) if bool(outputs.any()) else self.degree
        if not (same and abs(least - self.degree) <= DEVIATION):
            raise InputError(
                f"the network is not homogeneous of degree {self.degree} in its weights, which the limit needs; "
                "soft gates must read the input (GaLU0Network)"
            )

    def _outputs(self, w: Tensor) -> Tensor:
        self._set(w)
        outputs: Tensor = self.twin(self.inputs, self.contexts)
        return outputs

    def _margins(self, outputs: Tensor) -> Tensor:
        """q of outputs."""
        if self.outputs == 1:
            return self.y * outputs
        return (outputs.gather(1, self.y[:, None]) - outputs).flatten()[self.pairs]

    def _rotate(self, X: Array) -> tuple[Tensor, list[Tensor]]:
        """Replace the twin's inputs x by Vᵀx; the input weights' parts outside V's span, which never move, stay."""
        found, rest = self.twin.input_layers(), []
        V = torch.as_tensor(GatedFeatures(X).reduced()[1]) if found else torch.empty(0)
        for layers in found:
            weights = layers[0].detach()
            layers[0] = Parameter(weights @ V)
            rest.append(weights - (weights @ V) @ V.T)
        if found:
            self.inputs = self.inputs @ V
            for module in self.twin.modules():
                if isinstance(module, GatedNetwork):
                    module.inputs = V.shape[1]
        return V, rest

    def _set(self, w: Tensor) -> None:
        first = 0
        for parameter in self.parameters:
            parameter.data = w[first : first + parameter.numel()].view(parameter.shape)
            first += parameter.numel()

    @torch.no_grad()
    def margins(self, w: Tensor) -> Tensor:
        """q (n,), or (n(q − 1),) of several outputs."""
        return self._margins(self._outputs(w))

    def loss(self, w: Tensor, radius: float) -> float:
        """log Σ_i exp(−q_i) at `radius` times w."""
        return float(log_sum_exp(self.margins(radius * w)))

    def gradient(self, w: Tensor, radius: float, loss: Loss = log_sum_exp) -> tuple[float, Tensor, Tensor]:
        """The loss of the margins at `radius` times w, its gradient times radius^(1−L), and the margins."""
        margins = self._margins(self._outputs(radius * w))
        value = loss(margins)
        gradient = torch.cat([g.flatten() for g in torch.autograd.grad(value, self.parameters)])
        return float(value.detach()), radius ** (1 - self.degree) * gradient, margins.detach()

    def around(self, u: Tensor, before: Tensor, radius: float) -> tuple[Tensor, Tensor]:
        """Both as they are: all samples take part in every step."""
        return u, before

    @staticmethod
    def dot(a: Tensor, b: Tensor) -> float:
        """⟨a, b⟩."""
        return float(a @ b)

    @staticmethod
    def mix(s: float, a: Tensor, t: float, b: Tensor) -> Tensor:
        """s a + t b."""
        return s * a + t * b

    @staticmethod
    def tangent(gradient: Tensor, radial: float, w: Tensor) -> Tensor:
        """The gradient less its part along w."""
        return gradient - radial * w

    @staticmethod
    def direction(tangent: Tensor, radial: float, w: Tensor, radius: float) -> Tensor:
        """Against which a step goes: the tangent itself."""
        return tangent

    def flat(self, w: Tensor) -> Tensor:
        """All weights as one vector: w."""
        return w

    @torch.no_grad()
    def write(self, w: Tensor) -> None:
        """Give w to the network."""
        self._set(w)
        for target, source in zip(homogeneous_parameters(self.network), self.parameters, strict=True):
            if source.shape == target.shape:
                target.copy_(source)
        for target, source, rest in zip(self.network.input_layers(), self.twin.input_layers(), self.rest, strict=True):
            target[0].copy_(source[0] @ self.rotation.T + rest)

    def state(self, w: Tensor) -> dict[str, float]:
        """A row of the table."""
        loss, gradient, margins = self.gradient(w, 1.0)
        norm = math.hypot(*(float(part.norm()) for part in (w, *self.rest)))
        return {
            "log_loss": float(loss) - float(np.log(len(margins))),
            "margin": float(margins.min()),
            "norm": norm,
            "normalised_margin": over_power(float(margins.min()), norm, self.degree),
            "residual": sine(w, gradient),
        }
