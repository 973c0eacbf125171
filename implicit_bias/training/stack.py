"""Steps of many networks of one shape together: one product per layer for all of them."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.nn.functional import pad

from implicit_bias._utils.checks import Array, InputError, as_floats, dimensions
from implicit_bias.networks.base import GatedNetwork, views
from implicit_bias.networks.layers import LayeredNetwork
from implicit_bias.training.losses import CustomLoss, mean_losses, mean_slopes
from implicit_bias.training.optimisers import Optimiser
from implicit_bias.training.stepper import Stepper
from implicit_bias.training.targets import as_aims

#: Samples whose outputs are computed at once when a loss is measured.
CHUNK = 4096
#: Largest number of values, of gates or of fixed layers, that are kept instead of computed for each batch.
KEPT = 2**28


class Stack(Stepper):
    """R networks as one: each layer's weights (R, out, in) in float32, narrower layers padded with zeros."""

    def __init__(self, networks: Sequence[GatedNetwork], X: ArrayLike, y: ArrayLike, config: Optimiser) -> None:
        layered = [network for network in networks if isinstance(network, LayeredNetwork)]
        kinds = {(type(n), *(n.config() | {"units": len(n.units)}).values()) for n in layered}
        if len(kinds) != 1 or len(layered) < len(networks):
            raise InputError(
                "networks that train together must be layered ones of one class, such as ReLUNetwork(…), "
                "with equal inputs, depth, outputs and sharpness"
            )
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
        """Return the outputs (R, b, q) at layers of weights (R, out, in) for inputs (b, d) or (R, b, d)."""
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


class WrittenStack(Stack):
    """A stack with explicit gradients, for L hidden layers with fixed gates g^{(ℓ)}, ReLU layers, or linear ones.

        p^{(ℓ)} = A^{(ℓ)} z^{(ℓ−1)},   z^{(ℓ)} = g^{(ℓ)} ∘ p^{(ℓ)},   z^{(0)} = x,   f = B z^{(L)}
        ∂/∂A^{(ℓ)} = (∂/∂p^{(ℓ)}) z^{(ℓ−1)ᵀ},   ∂/∂p^{(ℓ)} = g^{(ℓ)} ∘ A^{(ℓ+1)ᵀ} ∂/∂p^{(ℓ+1)}

    Linear layers have g = 1, ReLU layers g = 1(p > 0). Layers that are not trained count as inputs. Gates and inputs of
    all samples are kept if they have at most `kept` values, else computed for each batch.
    """

    @torch.no_grad()
    def __init__(
        self,
        networks: Sequence[GatedNetwork],
        X: ArrayLike,
        y: ArrayLike,
        config: Optimiser,
        *,
        kept: int = KEPT,
    ) -> None:
        super().__init__(networks, X, y, config)
        self.relu = self.first.kind == "relu"
        self.row = torch.zeros_like(self.flat)
        self.parts = views(self.row, self.weights)
        samples = self.X if self.X.ndim == 3 else self.X[None]
        units = sum(filters.shape[1] for filters in self.filters)
        few = len(self.networks) * samples.shape[1] * units <= kept
        self.fixed = self._fixed(samples) if few else None

    def _fixed(self, X: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return the inputs of the first trained layer, and fixed gates or [], for samples X (1 or R, b, d)."""
        if not self.first.hidden_is_trained:
            return self.first.activations(self.weights, self.filters, X), []
        return X, [values.float() for values in self.first.fixed_gates(self.filters, X) or []]

    @torch.no_grad()
    def gradient(self, batch: Tensor) -> Tensor:
        if self.fixed is None:
            z, gates = self._fixed((self.X if self.X.ndim == 3 else self.X[None]).index_select(1, batch))
        else:
            z, gates = self.fixed[0].index_select(1, batch), [g.index_select(1, batch) for g in self.fixed[1]]
        layers = [z.expand(len(self.networks), -1, -1)]
        for index, weight in enumerate(self.weights[:-1]):
            p = _forward(layers[-1], weight)
            layers.append(p.relu_() if self.relu else p.mul_(gates[index]) if gates else p)
        assert isinstance(self.loss, str)
        slopes = mean_slopes(_forward(layers[-1], self.weights[-1]), self.y.index_select(1, batch), self.loss)
        for index in reversed(range(len(self.weights))):
            _outer(slopes, layers[index], self.parts[index])
            if index:
                slopes = _backward(slopes, self.weights[index])
                if self.relu:
                    slopes.mul_(torch.gt(layers[index], 0, out=layers[index]))
                elif gates:
                    slopes.mul_(gates[index - 1])
        return self.row


def stack_of(networks: Sequence[GatedNetwork], X: ArrayLike, y: ArrayLike, config: Optimiser) -> Stack:
    """Return the cheapest stepper of R networks on X (n, d) or (R, n, d): by formulas if possible, or by autograd."""
    first = networks[0]
    if not isinstance(first, LayeredNetwork):
        return Stack(networks, X, y, config)
    fixed = first.kind == "gated" and first.contexts(np.empty((0, first.inputs))) is not None
    known = fixed or first.kind in ("relu", "linear") or not first.hidden_is_trained
    written = known and isinstance(config.loss, str)
    return (WrittenStack if written else Stack)(networks, X, y, config)


def _forward(z: Tensor, weight: Tensor) -> Tensor:
    """Return products A z, shape (R, b, o); the batched product is slow for one output."""
    return (z * weight).sum(2, keepdim=True) if weight.shape[1] == 1 else torch.bmm(z, weight.mT)


def _backward(slopes: Tensor, weight: Tensor) -> Tensor:
    """Return products Aᵀ δ, shape (R, b, i)."""
    return slopes * weight if weight.shape[1] == 1 else torch.bmm(slopes, weight)


def _outer(slopes: Tensor, z: Tensor, out: Tensor) -> None:
    """Write Σ δ zᵀ over the samples to `out`, shape (R, o, i)."""
    if out.shape[1] == 1:
        torch.sum(slopes * z, 1, keepdim=True, out=out)
    else:
        torch.bmm(slopes.mT, z, out=out)


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
    own = dimensions(X) == 3
    inputs = as_floats(X, "X", 3 if own else 2)
    if inputs.shape[-1] != first.inputs or (own and len(inputs) != count):
        wanted = f"({count}, n, {first.inputs})" if own else f"(n, {first.inputs})"
        raise InputError(f"X must have shape {wanted} for these networks, not {inputs.shape}")
    is_table = dimensions(y) == inputs.ndim
    targets = as_floats(y, "y", inputs.ndim if is_table else inputs.ndim - 1)
    if is_table and loss != "squared" and targets.shape[-1] == 1:
        targets = targets[..., 0]
    if own and len(targets) != count:
        raise InputError(f"y must have targets for each of the {count} networks, but its shape is {targets.shape}")
    samples, q = inputs.shape[-2], first.outputs
    aims = np.stack([as_aims(each, samples, q, loss, both=False) for each in (targets if own else targets[None])])
    if aims.ndim == 2 and q > 1:
        return _single(inputs), torch.as_tensor(aims, dtype=torch.int64)
    return _single(inputs), _single(aims.reshape(len(aims), samples, q))


def _single(values: Array) -> Tensor:
    """Return values in float32; raise InputError if they exceed its range."""
    tensor = torch.as_tensor(values, dtype=torch.float32)
    if not torch.isfinite(tensor).all():
        raise InputError("X or y holds values beyond 3e38, which networks in float32 cannot take; scale them down")
    return tensor
