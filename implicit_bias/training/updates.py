"""Steps of gradient descent with momentum: on a network's weights, or in the span of its features."""

import numpy as np
import torch
from scipy.linalg import helmert
from torch import Tensor

from implicit_bias.ground.checks import InputError
from implicit_bias.networks import (
    FrozenReLUNetwork,
    GaLU0Network,
    GaLUNetwork,
    GatedLinearNetwork,
    GatedNetwork,
    ReLUNetwork,
)
from implicit_bias.networks.gln import GATHER_FROM
from implicit_bias.training.losses import Loss

#: Above this many samples their n × n kernel costs more than it saves.
SPAN_UP_TO = 10_000


def _slopes(outputs: Tensor, y: Tensor, slope: Loss) -> Tensor:
    """∂/∂f_i (1/|B|) Σ_i ℓ(y_i f_i), from ℓ′."""
    return y * slope(y * outputs) / len(y)


class WeightUpdates:
    """Steps on all weights of any network, in its own dtype."""

    def __init__(self, network: GatedNetwork, X: np.ndarray, signs: np.ndarray) -> None:
        self.network, self.degree = network, network.degree
        self.X, self.contexts = network.tensors(X)
        self.y = torch.as_tensor(signs, dtype=self.X.dtype, device=self.X.device)
        self.weights = list(network.parameters())
        self.velocities = [torch.zeros_like(w) for w in self.weights]

    def step(self, batch: Tensor, slope: Loss, rate: float, momentum: float) -> None:
        """v ← μ v + ∇ (1/|B|) Σ_{i ∈ B} ℓ(y_i f(x_i)), w ← w − η v for the samples B of indices `batch`."""
        outputs = self.network(self.X[batch], None if self.contexts is None else self.contexts[batch])
        with torch.no_grad():
            gradients = torch.autograd.grad(outputs, self.weights, _slopes(outputs, self.y[batch], slope))
            for weight, velocity, gradient in zip(self.weights, self.velocities, gradients, strict=True):
                velocity.mul_(momentum).add_(gradient)
                weight.sub_(velocity, alpha=rate)

    @torch.no_grad()
    def outputs(self) -> Tensor:
        """f(x_i), shape (n,). Raises InputError for another shape, which the labels would be broadcast to."""
        outputs = self.network(self.X, self.contexts)
        if not isinstance(outputs, Tensor) or outputs.shape != self.y.shape:
            found = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
            raise InputError(f"the network must give outputs of shape ({len(self.y)},), not {found}")
        return outputs

    def norm(self) -> float:
        """‖w‖₂ over all parameters."""
        return self.network.norm()

    def finish(self) -> None:
        """Leave the latest weights in the network, which the steps change themselves."""


class SpanUpdates:
    """Steps of a shallow GLN, which is linear in its weights: w = w₀ + Φᵀα throughout, so that α (n,) is all there is.

        f = f₀ + ΦΦᵀα,   (ΦΦᵀ)_ij = 1(c(x_i) = c(x_j)) ⟨x_i, x_j⟩,   v ← μ v + ∂ℓ/∂f,   α ← α − η v

    In float64. A step costs |B|·n instead of K·d, whatever the number of contexts K.
    """

    def __init__(self, network: GatedLinearNetwork, X: np.ndarray, signs: np.ndarray) -> None:
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

    def step(self, batch: Tensor, slope: Loss, rate: float, momentum: float) -> None:
        """One step on the batch."""
        outputs = self.first[batch] + self.kernel[batch] @ self.alpha
        self.velocity.mul_(momentum).index_add_(0, batch, _slopes(outputs, self.y[batch], slope))
        self.alpha.sub_(self.velocity, alpha=rate)

    def outputs(self) -> Tensor:
        """f(x_i), shape (n,)."""
        return self.first + self.kernel @ self.alpha

    def norm(self) -> float:
        """‖w‖₂."""
        square = self.first_square + float(self.alpha @ (self.first + self.outputs()))
        return max(square, 0.0) ** 0.5

    @torch.no_grad()
    def finish(self) -> None:
        """w = w₀ + Φᵀα, rounded to the network's dtype."""
        weight = self.network.hidden_weights[0]
        weight.index_add_(0, self.regions, (self.alpha[:, None] * self.X).to(weight.dtype))


class TwoLayerUpdates:
    """Steps of a network with one hidden layer, their gradients written out.

        f(x) = Σ_h a_h Σ_m g_hm(x) p_hm(x) + b,   p_hm(x) = ⟨w_hm, x⟩,   ∂ℓ/∂p_hm = a_h g_hm(x) ∂ℓ/∂f

    The K weights w_hc of a GLN's unit are turned, w_hm = Σ_c Q_mc w_hc and g_hm(x) = Q_{m, c_h(x)}, by an orthogonal Q
    whose first row is constant: of the M = K gradients the first is then an outer product. Units of other networks have
    one linear part, M = 1. Inputs that no sample has take no part.
    """

    @torch.no_grad()
    def __init__(self, network: GatedNetwork, X: np.ndarray, signs: np.ndarray) -> None:
        self.network, self.degree = network, network.degree
        inputs, self.contexts = network.tensors(X)
        exact = torch.promote_types(inputs.dtype, torch.float32)
        self.hidden, *self.head = _weights(network)
        #: Whether the first gate of every unit is a constant.
        self.constant = isinstance(network, GatedLinearNetwork)
        parts = network.shape[0][1] if isinstance(network, GatedLinearNetwork) else 1
        self.turn = torch.as_tensor(helmert(parts, full=True), dtype=exact, device=inputs.device)
        self.seen = inputs.any(0)
        self.X = inputs[:, self.seen].to(exact)
        self.y = torch.as_tensor(signs, dtype=exact, device=inputs.device)
        self.readout = [weight.detach().flatten().to(exact, copy=True) for weight in self.head]
        self.readout_velocity = [torch.zeros_like(weight) for weight in self.readout]
        self.weights = self._turned(self.hidden.to(exact)[:, self.seen])
        self.velocity = torch.zeros_like(self.weights)

    def _turned(self, weights: Tensor) -> Tensor:
        """w_hm as rows m·H + h from w_hc as rows h·K + c."""
        each = weights.view(-1, len(self.turn), weights.shape[1])
        return torch.einsum("mc,hcd->mhd", self.turn, each).flatten(0, 1)

    def _values(self, batch: Tensor) -> tuple[Tensor, Tensor]:
        """What the steps are made of, (b, d), and p (M·H, b)."""
        inputs = self.X.index_select(0, batch)
        return inputs, self.weights @ inputs.T

    def _gates(self, batch: Tensor, values: Tensor) -> Tensor:
        """g (M·H, b)."""
        if self.contexts is None:
            return (values > 0).to(values.dtype)
        contexts = self.contexts.index_select(0, batch).T
        return self.turn[:, contexts].flatten(0, 1) if self.constant else contexts.to(values.dtype)

    def _forward(self, values: Tensor, gates: Tensor) -> tuple[Tensor, Tensor]:
        """The hidden layer (H, b) and f (b,)."""
        hidden = (gates * values).view(len(self.turn), -1, values.shape[1]).sum(0)
        outputs = self.readout[0] @ hidden
        return hidden, outputs + self.readout[1] if self.constant else outputs

    @torch.no_grad()
    def step(self, batch: Tensor, slope: Loss, rate: float, momentum: float) -> None:
        """One step on the batch."""
        rows, values = self._values(batch)
        gates = self._gates(batch, values)
        hidden, outputs = self._forward(values, gates)
        slopes = _slopes(outputs, self.y.index_select(0, batch), slope)
        self._descend(batch, rows, gates, slopes, rate, momentum)
        gradients = (hidden @ slopes, slopes.sum())
        for weight, velocity, gradient in zip(self.readout, self.readout_velocity, gradients, strict=False):
            velocity.mul_(momentum).add_(gradient)
            weight.sub_(velocity, alpha=rate)

    def _descend(
        self, batch: Tensor, rows: Tensor, gates: Tensor, slopes: Tensor, rate: float, momentum: float
    ) -> None:
        """The step of the hidden weights."""
        target, kept, factor = (self.velocity, momentum, 1.0) if momentum else (self.weights, 1.0, -rate)
        a = self.readout[0]
        outer = len(a) if self.constant else 0
        if outer:
            target[:outer].addr_(a * self.turn[0, 0], slopes @ rows, beta=kept, alpha=factor)
        gated = gates[outer:].view(-1, len(a), len(batch)) * torch.outer(a, slopes)
        target[outer:].addmm_(gated.flatten(0, 1), rows, beta=kept, alpha=factor)
        if momentum:
            self.weights.sub_(self.velocity, alpha=rate)

    @torch.no_grad()
    def outputs(self) -> Tensor:
        """f(x_i), shape (n,)."""
        everything = torch.arange(len(self.y), device=self.y.device)
        values = self._values(everything)[1]
        return self._forward(values, self._gates(everything, values))[1]

    @torch.no_grad()
    def norm(self) -> float:
        """‖w‖₂."""
        rest = self.hidden[:, ~self.seen]
        return float(sum((part.double() ** 2).sum() for part in (rest, self.weights, *self.readout))) ** 0.5

    @torch.no_grad()
    def finish(self) -> None:
        """Write the weights, rounded to the network's dtype."""
        each = self.weights.view(len(self.turn), -1, self.weights.shape[1])
        turned = torch.einsum("mc,mhd->hcd", self.turn, each).flatten(0, 1)
        self.hidden[:, self.seen] = turned.to(self.hidden.dtype)
        for target, values in zip(self.head, self.readout, strict=True):
            target.copy_(values.view(target.shape))


def _weights(network: GatedNetwork) -> list[Tensor]:
    """The hidden weights, the readout's, and its bias if it has one."""
    if isinstance(network, GatedLinearNetwork):
        return [network.hidden_weights[0].data, *(p.data for p in network.readout.parameters())]
    return [weight.data for weight in network.layers]


Updates = WeightUpdates | SpanUpdates | TwoLayerUpdates


def updates_of(network: GatedNetwork, X: np.ndarray, signs: np.ndarray) -> Updates:
    """The cheapest way to train `network` on X (n, d) and signs (n,); all make the same steps up to rounding."""
    if isinstance(network, GatedLinearNetwork) and network.degree == 1:
        weights: int = network.hidden_weights[0].numel()
        if len(X) <= min(SPAN_UP_TO, weights):
            return SpanUpdates(network, X, signs)
    if _has_two_layers(network):
        return TwoLayerUpdates(network, X, signs)
    return WeightUpdates(network, X, signs)


def _has_two_layers(network: GatedNetwork) -> bool:
    """Whether `TwoLayerUpdates` knows the network; classes derived from these may compute something else."""
    if type(network) is GatedLinearNetwork:
        few = network.shape[0][1] <= GATHER_FROM
        return few and len(network.shape) == 1 and network.readout is not None
    known = (ReLUNetwork, FrozenReLUNetwork, GaLUNetwork, GaLU0Network)
    return type(network) in known and len(network.units) == network.outputs == 1
