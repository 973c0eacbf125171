"""Many networks of one shape, trained together by Adam or SGD: one product per layer for all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.nn.functional import pad

from implicit_bias._utils.checks import (
    Array,
    InputError,
    as_count,
    as_floats,
    as_positive,
    as_seed,
    check_callable,
    dimensions,
    shown,
)
from implicit_bias._utils.threads import Interruptible, one_thread
from implicit_bias.extensions.galu.networks import GaLU0Network, GaLUNetwork
from implicit_bias.networks import FrozenReLUNetwork, LayeredNetwork, LinearNetwork, ReadoutNetwork, ReLUNetwork
from implicit_bias.training.losses import mean_losses, mean_slopes, refuse_for_classes
from implicit_bias.training.optimisers import Adam, Optimiser
from implicit_bias.training.result import TrainingResult

#: Samples whose outputs are computed at once when a loss is measured.
CHUNK = 4096
#: Values per training, of gates or of fixed layers, that are kept and not computed again for each batch.
KEPT = 2**28


def train_together(
    networks: Sequence[LayeredNetwork],
    X: ArrayLike,
    Y: ArrayLike,
    config: Optimiser | None = None,
    *,
    target: float | None = None,
    every: int = 500,
    seed: int = 1,
    progress: Callable[[int, Array], None] | None = None,
) -> TrainingResult:
    """Train networks of one class, depth and number of outputs in place, each on data of its own if there are any.

    Narrower networks are filled up with units of weight zero, which stay zero: each network is trained as it would be
    alone with the same batches. All see the same order of samples.

    Raises InputError for networks that differ in more than width and weights, arrays that do not fit them, or a loss
    that stops being finite.

    Parameters
    ----------
    networks : R networks such as GaLUNetwork, ReLUNetwork or LinearNetwork, of one class
        Trained in float32.
    X : array, shape (n, d), or (R, n, d): samples of each network's own
    Y : array, shape (n,) or (n, q), or (R, n) or (R, n, q) along with X
        Targets, or classes as whole numbers (see `Adam`).
    config : Adam, default Adam(); or SGD
        Adam makes its steps exactly, SGD whole epochs.
    target : float, optional
        Training ends once every network was seen at a training loss below this.
    every : int
        Steps between two looks at the losses.
    seed : int
        Of the batches; torch's Mersenne twister.
    progress : callable(step, losses), optional
        Called at every look.

    Returns
    -------
    TrainingResult
        Its table has a row for each network at every look: step, network and its loss over all its samples. It ends
        'converged' if every network was seen below the target. `losses` are those at the end.

    Examples
    --------
    >>> from implicit_bias import Adam, ReLUNetwork
    >>> X = np.random.default_rng(0).normal(size=(32, 3))
    >>> network, classes = ReLUNetwork(3, 8, outputs=2), (X[:, 0] > 0).astype(int)
    >>> training = train_together([network], X, classes, Adam(steps=500, batch_size=8, loss="logistic"))
    >>> bool(training.losses[0] < 0.5)
    True
    """
    start = time.perf_counter()
    config = Adam() if config is None else config
    if not isinstance(config, Optimiser):
        raise InputError(f"config must be an Adam(…) or SGD(…), not {shown(config)}")
    config.refuse_rates_beyond(torch.float32)
    every = as_count(every, "every")
    check_callable(progress, "progress")
    bar = -np.inf if target is None else as_positive(target, "target")
    stack = Stack(networks)
    inputs, targets = tensors_of(stack, X, Y, config.loss)
    generator = torch.Generator().manual_seed(as_seed(seed))
    below, step = np.zeros(len(stack.networks), dtype=bool), 0
    with one_thread():
        losses = stack.losses(inputs, targets, config.loss)
        if not np.isfinite(losses).all():
            raise InputError("the losses overflow before any training; scale the networks' weights, X or Y down")
        looks = {0: losses}
        try:
            with Interruptible() as run:
                for step, last in _steps(stack, inputs, targets, config, generator):
                    if step % every and step < last:
                        continue
                    losses = stack.losses(inputs, targets, config.loss)
                    if not np.isfinite(losses).all():
                        raise InputError(f"training diverged by step {step}; use a smaller lr than {config.lr:g}")
                    looks[step] = losses
                    below |= losses < bar
                    if progress is not None:
                        progress(step, losses)
                    if below.all():
                        break
        finally:
            stack.leave()
        if run.interrupted:
            looks[step] = stack.losses(inputs, targets, config.loss)
    count = len(stack.networks)
    table = pd.DataFrame(
        {
            "step": np.repeat(list(looks), count),
            "network": np.tile(np.arange(count), len(looks)),
            "loss": np.concatenate(list(looks.values())),
        }
    )
    end = "interrupted" if run.interrupted else "converged" if below.all() else "max_steps"
    return TrainingResult(table, config, end, time.perf_counter() - start, seed, tuple(stack.networks))


def _steps(
    stack: Stack, X: Tensor, Y: Tensor, config: Optimiser, generator: torch.Generator
) -> Iterator[tuple[int, int]]:
    """Train; yields the number of each step once it is made, and of the last."""
    gradients, samples = gradients_of(stack, X, Y, config.loss), X.shape[-2]
    many = config.batches_per_epoch(samples)
    last = config.epochs(samples) * many if config.whole else int(config.steps)
    update = config.update([stack.flat], fused=True)
    step = 0
    for rate in config.rates(-(-last // many)):
        for batch in config.shuffled(samples, generator)[: last - step]:
            update([gradients.at(batch)], rate)
            step += 1
            yield step, last


class Stack:
    """R networks as one: each layer's weights (R, out, in), narrower layers filled up with zeros."""

    def __init__(self, networks: Sequence[LayeredNetwork]) -> None:
        self.networks = list(networks) if isinstance(networks, list | tuple) else []
        if not self.networks or not all(isinstance(network, LayeredNetwork) for network in self.networks):
            raise InputError("networks must be a list of networks such as GaLUNetwork(…) or ReLUNetwork(…)")
        kinds = {(type(n), n.inputs, len(n.units), n.outputs, getattr(n, "sharpness", None)) for n in self.networks}
        if len(kinds) > 1:
            raise InputError(
                "networks that train together must be of one class, with equal inputs, depth, outputs and sharpness"
            )
        self.first = self.networks[0]
        filled = [_filled(group) for group in zip(*(n.layers for n in self.networks), strict=True)]
        #: All weights in one row, and each layer's as a view of it.
        self.flat = torch.cat([weights.flatten() for weights in filled])
        self.weights = _views(self.flat, filled)
        self.filters = [_filled(group) for group in zip(*(n.filters() for n in self.networks), strict=True)]

    def outputs(self, X: Tensor, weights: Sequence[Tensor]) -> Tensor:
        """Outputs (R, b, q) of some weights for inputs (b, d) or (R, b, d)."""
        outputs: Tensor = self.first.activations(weights, self.filters, X) @ weights[-1].mT
        return outputs

    @torch.no_grad()
    def losses(self, X: Tensor, Y: Tensor, loss: str) -> Array:
        """The mean losses (R,) over all samples."""
        total = torch.zeros(len(self.networks), dtype=torch.float64)
        for first in range(0, X.shape[-2], CHUNK):
            part = slice(first, first + CHUNK)
            wanted = Y[:, part]
            total += mean_losses(self.outputs(X[..., part, :], self.weights), wanted, loss).double() * wanted.shape[1]
        return (total / X.shape[-2]).numpy()

    @torch.no_grad()
    def leave(self) -> None:
        """Put the weights back into the networks."""
        for index, weights in enumerate(self.weights):
            for network, values in zip(self.networks, weights, strict=True):
                target = network.layers[index]
                target.copy_(values[: target.shape[0], : target.shape[1]])


def _views(flat: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """What lies behind one another in a row, in the shapes of some tensors."""
    parts = flat.split([tensor.numel() for tensor in like])
    return [part.view(tensor.shape) for part, tensor in zip(parts, like, strict=True)]


def _filled(group: Sequence[Tensor]) -> Tensor:
    """Matrices of several shapes as one stack in float32, zeros behind the smaller ones."""
    rows, columns = (max(matrix.shape[axis] for matrix in group) for axis in (0, 1))
    return torch.stack(
        [pad(matrix.detach().float(), (0, columns - matrix.shape[1], 0, rows - matrix.shape[0])) for matrix in group]
    )


def tensors_of(stack: Stack, X: ArrayLike, Y: ArrayLike, loss: str) -> tuple[Tensor, Tensor]:
    """Inputs (n, d) or (R, n, d), and targets (1 or R, n, q), or classes (1 or R, n)."""
    first, own = stack.first, dimensions(X) == 3
    inputs = as_floats(X, "X", 3 if own else 2)
    samples, count = inputs.shape[-2], len(stack.networks)
    if inputs.shape[-1] != first.inputs or (own and len(inputs) != count):
        wanted = f"({count}, n, {first.inputs})" if own else f"(n, {first.inputs})"
        raise InputError(f"X must have shape {wanted} for these networks, not {inputs.shape}")
    leading = (count, samples) if own else (samples,)
    classes = loss != "squared" and first.outputs > 1
    shape = leading if classes or dimensions(Y) == len(leading) else (*leading, first.outputs)
    targets = as_floats(Y, "Y", len(shape))
    if targets.shape != shape or (first.outputs > 1 and not classes and len(shape) == len(leading)):
        expected = leading if classes else (*leading, first.outputs)
        raise InputError(f"Y must have shape {expected} for these networks and X, not {targets.shape}")
    if classes:
        refuse_for_classes(loss)
        if not np.isin(targets, np.arange(first.outputs)).all():
            raise InputError(f"Y must hold the classes 0 to {first.outputs - 1} as whole numbers")
        numbers = torch.as_tensor(targets, dtype=torch.int64)
        return _single(inputs), numbers if own else numbers[None]
    if loss != "squared" and not np.isin(targets, (-1.0, 1.0)).all():
        raise InputError(f"Y must hold −1 and +1 for the {loss} loss")
    values = _single(targets.reshape(*leading, first.outputs))
    return _single(inputs), values if own else values[None]


def _single(values: Array) -> Tensor:
    """Values in float32, unless they leave its range."""
    tensor = torch.as_tensor(values, dtype=torch.float32)
    if not torch.isfinite(tensor).all():
        raise InputError("X or Y holds values beyond 3e38, which networks in float32 cannot take; scale them down")
    return tensor


class AutogradGradients:
    """Gradients of any networks."""

    def __init__(self, stack: Stack, X: Tensor, Y: Tensor, loss: str) -> None:
        self.stack, self.X, self.Y, self.loss = stack, X, Y, loss
        self.weights = [weights.detach().requires_grad_() for weights in stack.weights]

    def at(self, batch: Tensor) -> Tensor:
        """The gradient, all layers in a row, of the networks' mean losses over the samples of indices `batch`."""
        with torch.enable_grad():
            outputs = self.stack.outputs(self.X.index_select(-2, batch), self.weights)
            total = mean_losses(outputs, self.Y.index_select(1, batch), self.loss).sum()
        return torch.cat([gradient.flatten() for gradient in torch.autograd.grad(total, self.weights)])


class WrittenGradients:
    """Gradients of L hidden layers with gates g^{(ℓ)} that are fixed, ReLU's, or always open.

        p^{(ℓ)} = A^{(ℓ)} z^{(ℓ−1)},   z^{(ℓ)} = g^{(ℓ)} ∘ p^{(ℓ)},   z^{(0)} = x,   f = B z^{(L)}
        ∂/∂A^{(ℓ)} = (∂/∂p^{(ℓ)}) z^{(ℓ−1)ᵀ},   ∂/∂p^{(ℓ)} = g^{(ℓ)} ∘ A^{(ℓ+1)ᵀ} ∂/∂p^{(ℓ+1)}

    Layers that are not trained count as inputs.
    """

    @torch.no_grad()
    def __init__(self, stack: Stack, X: Tensor, Y: Tensor, loss: str, kept: int = KEPT) -> None:
        self.stack, self.Y, self.loss = stack, Y, loss
        self.X = X if X.ndim == 3 else X[None]
        self.relu = isinstance(stack.first, ReLUNetwork)
        self.flat = torch.zeros_like(stack.flat)
        self.parts = _views(self.flat, stack.weights)
        units = sum(filters.shape[1] for filters in stack.filters)
        few = len(stack.networks) * self.X.shape[1] * units <= kept
        self.fixed = self._fixed(self.X) if few else None

    def _fixed(self, X: Tensor) -> tuple[Tensor, list[Tensor]]:
        """What training leaves of samples X (1 or R, b, d): the inputs of the first trained layer, and gates."""
        if isinstance(self.stack.first, ReadoutNetwork):
            return self.stack.first.activations(self.stack.weights, self.stack.filters, X), []
        gates = self.stack.first.fixed_gates(self.stack.filters, X)
        return X, [values.float() for values in gates or []]

    @torch.no_grad()
    def at(self, batch: Tensor) -> Tensor:
        """The gradient, all layers in a row, of the networks' mean losses over the samples of indices `batch`."""
        if self.fixed is None:
            z, gates = self._fixed(self.X.index_select(1, batch))
        else:
            z, gates = self.fixed[0].index_select(1, batch), [g.index_select(1, batch) for g in self.fixed[1]]
        weights = self.stack.weights
        layers = [z.expand(len(weights[0]), -1, -1)]
        for index, weight in enumerate(weights[:-1]):
            p = _forward(layers[-1], weight)
            layers.append(p.relu_() if self.relu else p.mul_(gates[index]) if gates else p)
        slopes = mean_slopes(_forward(layers[-1], weights[-1]), self.Y.index_select(1, batch), self.loss)
        for index in reversed(range(len(weights))):
            _outer(slopes, layers[index], self.parts[index])
            if index:
                slopes = _backward(slopes, weights[index])
                if self.relu:
                    slopes.mul_(torch.gt(layers[index], 0, out=layers[index]))
                elif gates:
                    slopes.mul_(gates[index - 1])
        return self.flat


def _forward(z: Tensor, weight: Tensor) -> Tensor:
    # A z (R, b, o); the batched product is slow for one output.
    return (z * weight).sum(2, keepdim=True) if weight.shape[1] == 1 else torch.bmm(z, weight.mT)


def _backward(slopes: Tensor, weight: Tensor) -> Tensor:
    # Aᵀ δ, shape (R, b, i).
    return slopes * weight if weight.shape[1] == 1 else torch.bmm(slopes, weight)


def _outer(slopes: Tensor, z: Tensor, out: Tensor) -> None:
    # Σ over the samples of δ zᵀ, shape (R, o, i).
    if out.shape[1] == 1:
        torch.sum(slopes * z, 1, keepdim=True, out=out)
    else:
        torch.bmm(slopes.mT, z, out=out)


Gradients: TypeAlias = AutogradGradients | WrittenGradients
#: Whose gradients are written out; classes derived from these may compute something else.
WRITTEN = (ReLUNetwork, LinearNetwork, ReadoutNetwork, FrozenReLUNetwork, GaLU0Network)


def gradients_of(stack: Stack, X: Tensor, Y: Tensor, loss: str) -> Gradients:
    """The cheapest way to the gradients of a stack on X (n, d) or (R, n, d) and Y."""
    kind = type(stack.first)
    shallow = kind is GaLUNetwork and len(stack.first.units) == 1
    return (WrittenGradients if shallow or kind in WRITTEN else AutogradGradients)(stack, X, Y, loss)
