"""Homogeneous networks as a function of one vector of weights."""

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import Parameter

from implicit_bias._utils.checks import Array, InputError
from implicit_bias._utils.floats import over_power
from implicit_bias.features import GatedFeatures
from implicit_bias.gates.modules import copied
from implicit_bias.networks.base import GatedNetwork, check_differentiable, views
from implicit_bias.training.losses import Loss, log_sum_exp

#: Relative deviation from f_{2w} = 2^L f_w above which a network does not count as homogeneous.
DEVIATION = 1e-6


def sine(a: Tensor, b: Tensor) -> float:
    """Return the sine of the angle between two vectors, accurate near 0; 1 if one is 0, and 0 if they are opposite."""
    lengths = float(a.norm()), float(b.norm())
    if not min(lengths) > 0:
        return 1.0
    a, b = a / lengths[0], b / lengths[1]
    return float((b - (a @ b) * a).norm())


def readout_biases(network: nn.Module) -> list[Parameter]:
    """Return the readout biases of all gated networks in a module, each once."""
    each = [module.readout_biases() for module in network.modules() if isinstance(module, GatedNetwork)]
    return list({id(bias): bias for biases in each for bias in biases}.values())


def homogeneous_parameters(network: nn.Module) -> list[Parameter]:
    """Return the trainable parameters except readout biases, in which outputs are not homogeneous."""
    biases = set(map(id, readout_biases(network)))
    return [p for p in network.parameters() if p.requires_grad and id(p) not in biases]


class Objective(ABC):
    """The loss log Σ_i exp(−q_i) of a network's margins q as a function of a vector w of its weights.

    By default, w is a tensor of all weights. A subclass with another representation overrides the vector operations.
    """

    #: Degree of homogeneity L.
    degree: int
    #: Number of margins.
    count: int
    #: True if the gates are learned, so that the outputs have kinks.
    has_kinks: bool
    #: Vector of the network's weights at the start.
    start: Any
    #: Parts of the weights that no output depends on: they never change, and vectors do not contain them.
    rest: list[Tensor]

    @abstractmethod
    def loss(self, w: Any, radius: float) -> float:
        """Return log Σ_i exp(−q_i) at `radius` times w."""

    @abstractmethod
    def gradient(self, w: Any, radius: float) -> tuple[float, Any, Any]:
        """Return the loss at `radius` times w, its gradient there times radius^(1−L), and the margins."""

    def around(self, u: Any, before: Any, radius: float) -> tuple[Any, Any]:
        """Return the unit vectors of this step and the last, in a form that is exact near u; here unchanged."""
        return u, before

    def dot(self, a: Any, b: Any) -> float:
        """Return ⟨a, b⟩."""
        return float(a @ b)

    def mix(self, s: float, a: Any, t: float, b: Any) -> Any:
        """Return s a + t b."""
        return s * a + t * b

    def tangent(self, gradient: Any, radial: float, w: Any) -> Any:
        """Return the gradient without its component along the unit vector w, given `radial` = ⟨gradient, w⟩."""
        return gradient - radial * w

    def direction(self, tangent: Any, radial: float, w: Any, radius: float) -> Any:
        """Return the vector of which a step subtracts a multiple; here the tangent itself."""
        return tangent

    def flat(self, w: Any) -> Tensor:
        """Return all weights as one tensor."""
        return torch.as_tensor(w)


class MarginFunction(Objective):
    """The margins of a network as a function of one vector w of all its weights, and their gradients by autograd.

        q_i = y_i f_w(x_i) for signs y;    q_ic = f_{y_i}(x_i) − f_c(x_i), c ≠ y_i, in one row for classes y

    The network is converted to float64, and its readout biases are set to 0. Inputs are rotated if `rotated`.
    """

    def __init__(self, network: GatedNetwork, X: Array, y: Array, *, rotated: bool = True) -> None:
        network.cpu().double()
        for bias in readout_biases(network):
            bias.data.zero_()
        self.degree, self.network = network.degree, network
        self.inputs, self.contexts = network.tensors(X)
        self.layers = [one.one_layer(X) for one in network.parts]
        self.has_kinks, self.outputs = self.contexts is None, network.outputs
        self.y = torch.as_tensor(y) if self.outputs == 1 else torch.as_tensor(y).long()
        #: Indices of the pairs (i, c), c ≠ y_i, in the flattened outputs.
        self.pairs = (self.y[:, None] != torch.arange(self.outputs)).flatten().nonzero()[:, 0]
        self.count = len(y) * max(self.outputs - 1, 1)
        self.twin = copied(network)
        self.rotation, self.rest = self._rotate(X) if rotated else (torch.empty(0), [])
        self.parameters = homogeneous_parameters(self.twin)
        self.start = torch.cat([p.detach().flatten() for p in self.parameters])
        if not float(self.start.norm()) > 0:
            raise InputError("the network's weights are all zero and have no direction to start from; initialise them")
        self._check(self.start / self.start.abs().max())

    @torch.no_grad()
    def _check(self, w: Tensor) -> None:
        """Raise InputError unless outputs at w have the right shape, and the network's L is their lowest degree."""
        w = w / w.norm()
        outputs, doubled, fourfold = (self._outputs(factor * w) for factor in (1, 2, 4))
        growth = torch.where(outputs == 0, 2.0**self.degree, doubled / outputs)
        same = bool((fourfold - growth * doubled).abs().max() <= DEVIATION * fourfold.abs().max())
        growth[outputs.abs() <= DEVIATION * outputs.abs().max()] = torch.inf
        lowest = float(growth.log2().min()) if bool(outputs.any()) else self.degree
        if not (same and abs(lowest - self.degree) <= DEVIATION):
            text = f"the network is not homogeneous of degree {self.degree} in its weights, which the limit needs"
            remedy = "correct its `degree`, or leave out biases and soft gates that do not read the input"
            raise InputError(f"{text}: doubled weights multiply outputs by 2^{lowest:.4g} or more; {remedy}")

    def _outputs(self, w: Tensor) -> Tensor:
        """Set the weights of the twin to w; return its outputs (n,) or (n, K), with gradients."""
        self._set(w)
        return self.twin.outputs_of(self.inputs, self.contexts)

    def margins_of(self, outputs: Tensor) -> Tensor:
        if self.outputs == 1:
            return self.y * outputs
        return (outputs.gather(1, self.y[:, None]) - outputs).flatten()[self.pairs]

    def _rotate(self, X: Array) -> tuple[Tensor, list[Tensor]]:
        """Replace inputs x by Vᵀx; return V (d, r), and the constant parts of input weights outside V's span."""
        groups, rest = self.twin.input_layers(), []
        V = torch.as_tensor(GatedFeatures(X).reduced()[1]) if groups else torch.empty(0)
        for layers in groups:
            weights = layers[0].detach()
            layers[0] = Parameter(weights @ V)
            rest.append(weights - (weights @ V) @ V.T)
        if groups:
            self.inputs = self.inputs @ V
            for each in (self.twin, *self.twin.parts):
                each.inputs = V.shape[1]
        return V, rest

    def _set(self, w: Tensor) -> None:
        for parameter, values in zip(self.parameters, views(w, self.parameters), strict=True):
            parameter.data = values

    @torch.no_grad()
    def margins(self, w: Tensor) -> Tensor:
        """Return q, shape (n,), or (n(K − 1),) with K outputs."""
        return self.margins_of(self._outputs(w))

    def loss(self, w: Tensor, radius: float) -> float:
        return float(log_sum_exp(self.margins(radius * w)))

    def gradient(self, w: Tensor, radius: float, loss: Loss = log_sum_exp) -> tuple[float, Tensor, Tensor]:
        """Return a loss of the margins at `radius` times w, its gradient times radius^(1−L), and the margins."""
        margins = self.margins_of(self._outputs(radius * w))
        check_differentiable(margins)
        value = loss(margins)
        gradient = torch.cat([g.flatten() for g in torch.autograd.grad(value, self.parameters, materialize_grads=True)])
        return float(value.detach()), radius ** (1 - self.degree) * gradient, margins.detach()

    @torch.no_grad()
    def write(self, w: Tensor) -> None:
        """Write w into the network, rotated back to its inputs, with the parts that never change."""
        self._set(w)
        for target, source in zip(homogeneous_parameters(self.network), self.parameters, strict=True):
            if source.shape == target.shape:
                target.copy_(source)
        # `rest` is empty if no inputs are rotated.
        layers = zip(self.network.input_layers(), self.twin.input_layers(), self.rest, strict=False)
        for target, source, rest in layers:
            target[0].copy_(source[0] @ self.rotation.T + rest)

    def state(self, w: Tensor) -> dict[str, float]:
        """Return a row of the table of `descend_to_limit` for the weights w."""
        loss, gradient, margins = self.gradient(w, 1.0)
        norm = math.hypot(*(float(part.norm()) for part in (w, *self.rest)))
        return {
            "log_loss": float(loss) - float(np.log(len(margins))),
            "margin": float(margins.min()),
            "norm": norm,
            "normalised_margin": over_power(float(margins.min()), norm, self.degree),
            "residual": sine(w, gradient),
        }
