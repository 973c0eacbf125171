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
    LayeredNetwork,
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

        f(x) = Σ_h a_h Σ_m g_mh(x) p_mh(x) + b,   p_mh(x) = ⟨w_mh, x⟩,   ∂ℓ/∂p_mh = a_h g_mh(x) ∂ℓ/∂f

    The K weights of a GLN's unit are turned, w_mh = Σ_c Q_mc w_hc and g_mh(x) = Q_{m, c_h(x)}, by an orthogonal Q whose
    first row is constant: of the M = K gradients the first is then an outer product. Units of other networks have one
    linear part, M = 1. Inputs that are 0 for all samples take no part.
    """

    @torch.no_grad()
    def __init__(self, network: GatedNetwork, X: np.ndarray, signs: np.ndarray) -> None:
        self.network, self.degree = network, network.degree
        inputs, self.contexts = network.tensors(X)
        self.hidden, *self.head = _weights(network)
        self.seen = inputs.any(0)
        exact = torch.promote_types(inputs.dtype, torch.float32)
        self.X = inputs[:, self.seen].to(exact)
        self.y = torch.as_tensor(signs, dtype=exact, device=inputs.device)
        self.turn = torch.as_tensor(helmert(_parts(network), full=True), dtype=exact, device=inputs.device)
        #: The number of gates of a unit that are constants, 1 or 0.
        self.constant = int(isinstance(network, GatedLinearNetwork))
        self.readout = [weight.flatten().to(exact, copy=True) for weight in self.head]
        self.readout_velocity = [torch.zeros_like(weight) for weight in self.readout]
        each = self.hidden[:, self.seen].to(exact).unflatten(0, (-1, len(self.turn)))
        #: What descends, shape (M, H, d).
        self.parts = torch.einsum("mc,hcd->mhd", self.turn, each)
        self.velocity = torch.zeros_like(self.parts)

    def _values(self, batch: Tensor) -> tuple[Tensor, Tensor]:
        """The rows (b, d) that steps on `parts` consist of, and p (M, b, H)."""
        inputs = self.X.index_select(0, batch)
        values = inputs @ self.parts.flatten(0, 1).T
        return inputs, values.unflatten(1, self.parts.shape[:2]).transpose(0, 1)

    def _forward(self, batch: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """g (M, b, H), the hidden layer (b, H) and f (b,)."""
        if self.contexts is None:
            gates = (values > 0).to(values.dtype)
        else:
            contexts = self.contexts.index_select(0, batch)
            turned = self.turn.index_select(1, contexts.flatten()) if self.constant else contexts.to(values.dtype)
            gates = turned.view(values.shape)
        hidden = (gates * values).sum(0)
        outputs = hidden @ self.readout[0]
        return gates, hidden, outputs + self.readout[1] if self.constant else outputs

    @torch.no_grad()
    def step(self, batch: Tensor, slope: Loss, rate: float, momentum: float) -> None:
        """One step on the batch."""
        rows, values = self._values(batch)
        gates, hidden, outputs = self._forward(batch, values)
        slopes = _slopes(outputs, self.y.index_select(0, batch), slope)
        self._descend(batch, rows, gates, slopes, rate, momentum)
        gradients = (slopes @ hidden, slopes.sum())
        for weight, velocity, gradient in zip(self.readout, self.readout_velocity, gradients, strict=False):
            velocity.mul_(momentum).add_(gradient)
            weight.sub_(velocity, alpha=rate)

    def _descend(
        self, batch: Tensor, rows: Tensor, gates: Tensor, slopes: Tensor, rate: float, momentum: float
    ) -> Tensor:
        """The step of `parts`; gives a_h ∂ℓ/∂f, shape (b, H)."""
        target, kept, factor = (self.velocity, momentum, 1.0) if momentum else (self.parts, 1.0, -rate)
        pushed = torch.outer(slopes, self.readout[0])
        if self.constant:
            target[0].addr_(self.readout[0] * self.turn[0, 0], slopes @ rows, beta=kept, alpha=factor)
        for own, gate in zip(target[self.constant :], gates[self.constant :], strict=True):
            own.addmm_((gate * pushed).T, rows, beta=kept, alpha=factor)
        if momentum:
            self.parts.sub_(self.velocity, alpha=rate)
        return pushed

    @torch.no_grad()
    def outputs(self) -> Tensor:
        """f(x_i), shape (n,)."""
        everything = torch.arange(len(self.y), device=self.y.device)
        return self._forward(everything, self._values(everything)[1])[2]

    def _hidden(self) -> Tensor:
        """The weights w_mh (M, H, d) of the inputs that take part."""
        return self.parts

    @torch.no_grad()
    def norm(self) -> float:
        """‖w‖₂."""
        rest = self.hidden[:, ~self.seen]
        return float(sum((part.double() ** 2).sum() for part in (rest, self._hidden(), *self.readout))) ** 0.5

    @torch.no_grad()
    def finish(self) -> None:
        """Write the weights, rounded to the network's dtype."""
        each = torch.einsum("mc,mhd->hcd", self.turn, self._hidden())
        self.hidden[:, self.seen] = each.flatten(0, 1).to(self.hidden.dtype)
        for target, values in zip(self.head, self.readout, strict=True):
            target.copy_(values.view(target.shape))


class TwoLayerSpanUpdates(TwoLayerUpdates):
    """The same steps for few samples, on p instead of w, with w = w₀ + Σ_i α_i g(x_i) x_i throughout.

        V ← μ V + Σ_{i ∈ B} ∂ℓ/∂p(x_i) K_i,   p ← p − η V,   K = XXᵀ

    No product gives the outputs of a batch: they are there, as `parts` (M, H, n).
    """

    @torch.no_grad()
    def __init__(self, network: GatedNetwork, X: np.ndarray, signs: np.ndarray) -> None:
        super().__init__(network, X, signs)
        self.kernel, self.first = self.X @ self.X.T, self.parts
        self.parts = self.first @ self.X.T
        self.velocity = torch.zeros_like(self.parts)
        #: α (n, H), with the gates where these are learned.
        self.alpha = torch.zeros_like(self.parts[0].T, memory_format=torch.contiguous_format)
        self.alpha_velocity = torch.zeros_like(self.alpha)

    def _values(self, batch: Tensor) -> tuple[Tensor, Tensor]:
        chosen = self.parts.flatten(0, 1).index_select(1, batch)
        return self.kernel.index_select(0, batch), chosen.unflatten(0, self.parts.shape[:2]).mT.contiguous()

    def _descend(
        self, batch: Tensor, rows: Tensor, gates: Tensor, slopes: Tensor, rate: float, momentum: float
    ) -> Tensor:
        pushed = super()._descend(batch, rows, gates, slopes, rate, momentum)
        own = pushed * gates[0] if self.contexts is None else pushed
        if momentum:
            self.alpha_velocity.mul_(momentum).index_add_(0, batch, own)
            self.alpha.sub_(self.alpha_velocity, alpha=rate)
        else:
            self.alpha.index_add_(0, batch, own, alpha=-rate)
        return pushed

    def _hidden(self) -> Tensor:
        everything = torch.arange(len(self.y), device=self.y.device)
        gates = 1 if self.contexts is None else self._forward(everything, self.parts.mT)[0]
        return self.first + (gates * self.alpha).mT @ self.X


def _weights(network: GatedNetwork) -> list[Tensor]:
    """The hidden weights, the readout's, and its bias if it has one."""
    layers = network.layers if isinstance(network, LayeredNetwork) else network.hidden_weights
    head = [] if isinstance(network, LayeredNetwork) else network.readout.parameters()
    return [parameter.detach() for parameter in (*layers, *head)]


def _parts(network: GatedNetwork) -> int:
    """The linear parts M of every unit."""
    return network.shape[0][1] if isinstance(network, GatedLinearNetwork) else 1


Updates = WeightUpdates | SpanUpdates | TwoLayerUpdates


def updates_of(network: GatedNetwork, X: np.ndarray, signs: np.ndarray) -> Updates:
    """The cheapest way to train `network` on X (n, d) and signs (n,); all make the same steps up to rounding."""
    if isinstance(network, GatedLinearNetwork) and network.degree == 1:
        weights: int = network.hidden_weights[0].numel()
        if len(X) <= min(SPAN_UP_TO, weights):
            return SpanUpdates(network, X, signs)
    if not _has_two_layers(network):
        return WeightUpdates(network, X, signs)
    products = max(1, _parts(network) - isinstance(network, GatedLinearNetwork))
    # The products with weights of the inputs against those with the kernel.
    few = len(X) * products < np.any(X, axis=0).sum() * (_parts(network) + products)
    return (TwoLayerSpanUpdates if few and len(X) <= SPAN_UP_TO else TwoLayerUpdates)(network, X, signs)


def _has_two_layers(network: GatedNetwork) -> bool:
    """Whether `TwoLayerUpdates` knows the network; classes derived from these may compute something else."""
    if type(network) is GatedLinearNetwork:
        few = network.shape[0][1] <= GATHER_FROM
        return few and len(network.shape) == 1 and network.readout is not None
    known = (ReLUNetwork, FrozenReLUNetwork, GaLUNetwork, GaLU0Network)
    return type(network) in known and len(network.units) == network.outputs == 1
