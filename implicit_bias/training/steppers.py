"""Steppers of `train`: on the weights of a network by any optimiser, or in the span of its features or inputs.

Many networks of one shape step together, with one product per layer for all of them.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.nn.functional import pad

from implicit_bias._utils.checks import Array, InputError, as_floats, dimensions
from implicit_bias._utils.floats import over_power
from implicit_bias.gates.modules import copied
from implicit_bias.networks.base import GatedNetwork, check_differentiable, views
from implicit_bias.networks.layers import LayeredNetwork
from implicit_bias.training.losses import MARGIN_LOSSES, CustomLoss, are_signs, as_aims, mean_losses
from implicit_bias.training.optimisers import Optimiser

#: Number of samples above which their n × n kernel costs more than it saves.
SPAN_UP_TO = 10_000
#: Number of samples per input up to which steps in their span cost less than steps on the weights.
SAMPLES_PER_INPUT = 2
#: Number of units below which the values of a layer are stored unit by unit.
FEW_UNITS = 16
#: Samples whose outputs are computed at once when a loss of several networks is measured.
CHUNK = 4096


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

    def norm(self) -> float:
        """Return the norm ‖w‖₂ of all parameters; by default those of the network."""
        return self.network.norm()

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


class WeightUpdates(MarginStepper):
    """Steps on all weights of any network, in its own dtype or float32, whichever is finer, for any targets."""

    def __init__(self, network: GatedNetwork, X: np.ndarray, aims: np.ndarray, config: Optimiser) -> None:
        coarse = torch.finfo(network.first_parameter().dtype).bits < 32
        super().__init__(copied(network).float() if coarse else network, config)
        #: The network in its own dtype.
        self.original = network
        self.signs = are_signs(aims)
        #: True if ∂ℓ/∂f is computed by a formula.
        self.has_formula = self.signs and config.plain_momentum() is not None and isinstance(self.loss, str)
        self.classes = config.loss != "squared" and network.outputs > 1 and aims.ndim == 1
        self.X, self.contexts = self.network.tensors(X)
        self.y = torch.as_tensor(aims, dtype=torch.int64 if self.classes else self.X.dtype, device=self.X.device)
        self.weights = [weight for weight in self.network.parameters() if weight.requires_grad]
        if not self.weights:
            raise InputError("the network has no trainable parameters; give it some, with requires_grad=True")
        #: What the optimiser steps on.
        self.rows = self.weights if config.entrywise else self._matrices()
        self.update = config.update(self.rows)

    def step(self, batch: Tensor, rate: float) -> None:
        """Make a step of the optimiser on ∇ (1/|B|) Σ_{i ∈ B} ℓ(f(x_i), y_i), B the samples of indices `batch`."""
        outputs = self.network(self.X[batch], None if self.contexts is None else self.contexts[batch])
        check_differentiable(outputs)
        if self.has_formula:
            slopes = self.slopes(outputs.detach(), batch)
            gradients = torch.autograd.grad(outputs, self.weights, slopes, materialize_grads=True)
        else:
            mean = self.mean_loss(outputs, self.y[batch])
            gradients = torch.autograd.grad(mean, self.weights, materialize_grads=True)
        self.update([g.reshape(row.shape) for g, row in zip(gradients, self.rows, strict=True)], rate)

    def _matrices(self) -> list[Tensor]:
        if not all(weight.is_contiguous() for weight in self.weights):
            raise InputError("Muon takes contiguous weights; call module.to(memory_format=torch.contiguous_format)")
        rows = [weight.detach().view(len(weight) if weight.ndim > 1 else 1, -1) for weight in self.weights]
        shapes = self.network.layer_shapes()
        if len(shapes) == 1 and len(rows[0]) == math.prod(shapes[0]):
            rows[0] = rows[0].view(shapes[0][0], -1)
        return rows

    @torch.no_grad()
    def outputs(self) -> Tensor:
        return self.network.outputs_of(self.X, self.contexts)

    @torch.no_grad()
    def record(self) -> list[dict[str, float]]:
        """Return one row: for labels ±1 that of `MarginStepper`, else loss, norm, and for classes the error."""
        if self.signs:
            return super().record()
        outputs = self.outputs()
        row = {"loss": float(self.mean_loss(outputs, self.y))}
        if self.classes:
            row["error"] = float((outputs.argmax(dim=1) != self.y).double().mean())
        return [row | {"norm": self.norm()}]

    @torch.no_grad()
    def write(self) -> None:
        """Write weights of another dtype into the network; those of its own are already there."""
        if self.original is not self.network:
            for target, values in zip(self.original.parameters(), self.network.parameters(), strict=True):
                target.copy_(values)


class SpanUpdates(MarginStepper):
    """Steps of a shallow GLN, which is linear in its weights: w = w₀ + Φᵀα throughout, so that only α (n,) changes.

        f = f₀ + ΦΦᵀα,   (ΦΦᵀ)_ij = 1(c(x_i) = c(x_j)) ⟨x_i, x_j⟩,   v ← μ v + ∂ℓ/∂f,   α ← α − η v

    The computation is in float64. A step costs |B|·n operations instead of K·d, whatever the number K of contexts.
    """

    def __init__(self, network: GatedNetwork, X: np.ndarray, signs: np.ndarray, config: Optimiser) -> None:
        super().__init__(network, config)
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
        self.weights = network.first_parameter().detach()
        self.start = self.weights.clone()

    def step(self, batch: Tensor, rate: float) -> None:
        outputs = self.first[batch] + self.kernel[batch] @ self.alpha
        self.velocity.mul_(self.momentum).index_add_(0, batch, self.slopes(outputs, batch))
        self.alpha.sub_(self.velocity, alpha=rate)

    def mean_loss(self, outputs: Tensor, y: Tensor) -> Tensor:
        # A custom loss sees outputs of the network's dtype, as in all other steppers.
        dtype = outputs.dtype if isinstance(self.loss, str) else self.start.dtype
        return super().mean_loss(outputs.to(dtype), y.to(dtype))

    def outputs(self) -> Tensor:
        return self.first + self.kernel @ self.alpha

    def norm(self) -> float:
        return max(self.first_square + float(self.alpha @ (self.first + self.outputs())), 0.0) ** 0.5

    @torch.no_grad()
    def write(self) -> None:
        """Write w = w₀ + Φᵀα into the network, rounded to its dtype."""
        self.weights.copy_(self.start.index_add(0, self.regions, (self.alpha[:, None] * self.X).to(self.start.dtype)))


class TwoLayerSpanUpdates(MarginStepper):
    """Steps of `SGD` on a network with one hidden layer and few samples, by explicit gradients, in float32 at least.

        f(x) = Σ_h a_h Σ_m g_mh(x) p_mh(x) + b,   p_mh(x) = ⟨w_mh, x⟩,   ∂ℓ/∂p_mh = a_h g_mh(x) ∂ℓ/∂f
        V ← μ V + Σ_{i ∈ B} K_i ∂ℓ/∂p(x_i),   p ← p − η V,   K = XXᵀ

    w = w₀ + Σ_i α_i g(x_i) x_i throughout, so that p of all samples and α replace w: the outputs of a batch need no
    product with the inputs. For a GLN, w and g are w′ and g′ of `OneLayer`. Inputs that are 0 for all samples are left
    out.
    """

    @torch.no_grad()
    def __init__(self, network: GatedNetwork, X: np.ndarray, signs: np.ndarray, config: Optimiser) -> None:
        super().__init__(network, config)
        inputs, contexts = network.tensors(X)
        layer = network.one_layer(X)
        assert layer is not None
        self.hidden = layer.hidden
        self.head = [weight for weight in (layer.readout, layer.bias) if weight is not None]
        self.seen = inputs.any(0)
        exact = torch.promote_types(inputs.dtype, torch.float32)
        self.X = inputs[:, self.seen].to(exact)
        self.kernel = self.X @ self.X.T
        self.y = torch.as_tensor(signs, dtype=exact, device=inputs.device)
        self.turn = torch.as_tensor(layer.turn(), dtype=exact, device=inputs.device)
        #: Number of a unit's gates that are constant, 1 or 0.
        self.constant = int(layer.chosen)
        #: The gates (M, n, H), unless they are learned.
        self.gates = None if contexts is None else layer.turned_gates(contexts).to(exact)
        self.readout = [weight.flatten().to(exact, copy=True) for weight in self.head]
        self.update_readout = config.update(self.readout)
        each = self.hidden[:, self.seen].to(exact).unflatten(0, (-1, len(self.turn)))
        #: w₀ (M, d, H).
        self.start = torch.einsum("mc,hcd->mhd", self.turn, each).contiguous().mT
        #: p at w₀ and now, shape (M, n, H).
        self.first = self.X @ self.start
        # Products with few columns are slow.
        many = self.first.shape[2] >= FEW_UNITS
        self.values = self.first.clone(memory_format=torch.contiguous_format) if many else self.first.mT.contiguous().mT
        self.velocity = torch.zeros_like(self.values)
        #: α (n, H); if the gates are learned, it includes them.
        self.alpha = self.first.new_zeros(self.first.shape[1:])
        self.alpha_velocity = torch.zeros_like(self.alpha)

    def _forward(self, values: Tensor, gates: Tensor) -> tuple[Tensor, Tensor]:
        """Return the hidden layer (b, H) and f (b,), given p and g (M, b, H)."""
        hidden = (gates * values).sum(0)
        outputs = hidden @ self.readout[0]
        return hidden, outputs + self.readout[1] if self.constant else outputs

    @torch.no_grad()
    def step(self, batch: Tensor, rate: float) -> None:
        values = self.values.index_select(1, batch)
        gates = _opened(values) if self.gates is None else self.gates.index_select(1, batch)
        hidden, outputs = self._forward(values, gates)
        slopes = self.slopes(outputs, batch)
        self._descend(batch, gates, slopes, rate)
        self.update_readout((slopes @ hidden, slopes.sum())[: len(self.readout)], rate)

    def _descend(self, batch: Tensor, gates: Tensor, slopes: Tensor, rate: float) -> None:
        """Change p and α, for gate values (M, b, H) and `slopes` ∂ℓ/∂f (b,)."""
        rows = self.kernel.index_select(0, batch)
        target, beta, alpha = (self.velocity, self.momentum, 1.0) if self.momentum else (self.values, 1.0, -rate)
        pushed = torch.outer(slopes, self.readout[0])
        if self.constant:
            target[0].addr_(slopes @ rows, self.readout[0] * self.turn[0, 0], beta=beta, alpha=alpha)
        for weights, gate in zip(target[self.constant :], gates[self.constant :], strict=True):
            weights.addmm_(rows.T, gate * pushed, beta=beta, alpha=alpha)
        if self.gates is None:
            pushed = pushed * gates[0]
        if self.momentum:
            self.values.sub_(self.velocity, alpha=rate)
            self.alpha_velocity.mul_(self.momentum).index_add_(0, batch, pushed)
            self.alpha.sub_(self.alpha_velocity, alpha=rate)
        else:
            self.alpha.index_add_(0, batch, pushed, alpha=-rate)

    def _gated(self) -> Tensor:
        return self.alpha[None] if self.gates is None else self.gates * self.alpha

    @torch.no_grad()
    def outputs(self) -> Tensor:
        return self._forward(self.values, _opened(self.values) if self.gates is None else self.gates)[1]

    @torch.no_grad()
    def norm(self) -> float:
        change = float((self._gated() * (self.first + self.values)).sum(dtype=torch.float64))
        fixed = sum(_square(part) for part in (self.hidden[:, ~self.seen], *self.readout))
        return float(max(_square(self.start) + change, 0.0) + fixed) ** 0.5

    @torch.no_grad()
    def write(self) -> None:
        """Write the weights into the network, rounded to its dtype."""
        each = torch.einsum("mc,mdh->hcd", self.turn, self.start + self.X.T @ self._gated())
        self.hidden[:, self.seen] = each.flatten(0, 1).to(self.hidden.dtype)
        for target, values in zip(self.head, self.readout, strict=True):
            target.copy_(values.view(target.shape))


def updates_of(network: GatedNetwork, X: ArrayLike, y: ArrayLike, config: Optimiser) -> Stepper:
    """Return the cheapest stepper of `network` on X (n, d); all make the same steps up to rounding."""
    X = as_floats(X, "X", 2)
    aims = as_aims(y, len(X), network.outputs, config.loss)
    layer, explicit = network.one_layer(X), config.plain_momentum() is not None and are_signs(aims)
    if layer is None or not explicit or _reads_weights(config.loss, network, aims):
        return WeightUpdates(network, X, aims, config)
    if layer.readout is None and len(X) <= min(SPAN_UP_TO, layer.hidden.numel()):
        return SpanUpdates(network, X, aims, config)
    few = len(X) <= min(SPAN_UP_TO, SAMPLES_PER_INPUT * np.any(X, axis=0).sum())
    largest = torch.finfo(torch.promote_types(next(network.parameters()).dtype, torch.float32)).max
    squared = np.abs(X).max() < (largest / X.shape[1]) ** 0.5
    return (TwoLayerSpanUpdates if layer.has_formulas and few and squared else WeightUpdates)(network, X, aims, config)


def _reads_weights(loss: str | CustomLoss, network: GatedNetwork, aims: np.ndarray) -> bool:
    """True if a custom loss has a gradient by the network's weights besides that by its outputs, such as a penalty."""
    if isinstance(loss, str):
        return False
    weights = [weight for weight in network.parameters() if weight.requires_grad]
    y = torch.as_tensor(aims, dtype=weights[0].dtype, device=weights[0].device)
    mean = mean_losses(torch.zeros_like(y, requires_grad=True)[None, :, None], y[None, :, None], loss)[0]
    return any(part is not None for part in torch.autograd.grad(mean, weights, allow_unused=True))


def _square(values: Tensor) -> float:
    return float((values.double() ** 2).sum())


def _opened(values: Tensor) -> Tensor:
    return (values > 0).to(values.dtype)


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
