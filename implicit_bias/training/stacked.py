"""Many networks of one shape, trained together by Adam: one product a layer for all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, pad, softplus

from implicit_bias.ground.checks import (
    Array,
    InputError,
    as_count,
    as_floats,
    as_positive,
    as_seed,
    check_callable,
    dimensions,
    one_of,
    shown,
)
from implicit_bias.ground.threads import one_thread
from implicit_bias.networks import LayeredNetwork

LOSSES = ("squared", "logistic", "hinge")
#: Samples whose outputs are computed at once when a loss is measured.
CHUNK = 4096
#: Gate values that are kept for a training, and not computed anew for each batch.
GATES_AT_ONCE = 2**28


@dataclass(frozen=True)
class Adam:
    """Minibatch training by Adam (Kingma & Ba, 2015) with its usual moments, 0.9 and 0.999, and ε = 1e-8.

    Parameters
    ----------
    steps : int
    batch_size : int
        Samples a step, drawn without replacement; an epoch's last batch is smaller where they do not divide.
    lr : float
    loss : 'squared', 'logistic' or 'hinge'
        'squared' is the mean of (f − y)² over samples and outputs. For one output and labels ±1 the others are
        log(1 + e^{−yf}) and max(0, 1 − yf); for several outputs and classes 0 … q−1 they are the cross entropy and
        the hinge of Crammer & Singer, max(0, 1 + max_{c≠y} f_c − f_y).

    Raises
    ------
    InputError
        For values out of range or an unknown loss.

    Examples
    --------
    >>> from implicit_bias import Adam
    >>> Adam(steps=1000).lr
    0.001
    """

    steps: int = 100_000
    batch_size: int = 128
    lr: float = 1e-3
    loss: str = "squared"

    def __post_init__(self) -> None:
        as_count(self.steps, "steps", least=0)
        as_count(self.batch_size, "batch_size")
        as_positive(self.lr, "lr")
        one_of(self.loss, LOSSES, "loss")


@dataclass(frozen=True, eq=False)
class Training:
    """What `train_together` did with R networks.

    Attributes
    ----------
    losses : array, shape (R,)
        Of each network over its whole training set, at the end.
    steps : array of int, shape (R,)
        The step at which a network was first seen below `target`; −1 if never, or without a target.
    interrupted : bool
        Whether Ctrl-C ended it early; the networks then hold their latest weights.
    seconds : float

    Examples
    --------
    >>> import numpy as np
    >>> from implicit_bias import Adam, GaLUNetwork, train_together
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(64, 4)), rng.normal(size=64)
    >>> networks = [GaLUNetwork(4, units, seed=seed) for units in (10, 40) for seed in (1, 2)]
    >>> training = train_together(networks, X, y, Adam(steps=500, batch_size=16, lr=1e-2))
    >>> bool(training.losses[:2].min() > training.losses[2:].max())
    True
    """

    losses: Array
    steps: np.ndarray = field(repr=False)
    interrupted: bool
    seconds: float


def train_together(
    networks: Sequence[LayeredNetwork],
    X: Any,
    Y: Any,
    config: Adam | None = None,
    *,
    target: float | None = None,
    every: int = 500,
    seed: int = 1,
    progress: Callable[[int, Array], None] | None = None,
) -> Training:
    """Train networks of one class, depth and number of outputs in place, each on data of its own if there are any.

    Narrower networks are filled up with units of weight zero, which stay zero: each network is trained as it would be
    alone with the same batches. All see the same order of samples.

    Parameters
    ----------
    networks : R networks such as GaLUNetwork, ReLUNetwork or LinearNetwork, of one class
        Trained in float32.
    X : array, shape (n, d), or (R, n, d): samples of each network's own
    Y : array, shape (n,) or (n, q), or (R, n) or (R, n, q) along with X
        Targets, or classes as whole numbers (see `Adam`).
    config : Adam, default Adam()
    target : float, optional
        Training ends once every network was seen at a training loss below this.
    every : int
        Steps between two looks at the losses.
    seed : int
        Of the batches; torch's Mersenne twister.
    progress : callable(step, losses), optional
        Called at every look.

    Raises
    ------
    InputError
        For networks that differ in more than width and weights, arrays that do not fit them, or a loss that stops
        being finite.

    Examples
    --------
    >>> import numpy as np
    >>> from implicit_bias import Adam, ReLUNetwork, train_together
    >>> X = np.random.default_rng(0).normal(size=(32, 3))
    >>> network, classes = ReLUNetwork(3, 8, outputs=2), (X[:, 0] > 0).astype(int)
    >>> training = train_together([network], X, classes, Adam(steps=500, batch_size=8, loss="logistic"))
    >>> bool(training.losses[0] < 0.5)
    True
    """
    start = time.perf_counter()
    config = Adam() if config is None else config
    if not isinstance(config, Adam):
        raise InputError(f"config must be an Adam(…), not {shown(config)}")
    every = as_count(every, "every")
    check_callable(progress, "progress")
    bar = -np.inf if target is None else as_positive(target, "target")
    stack = _Stack(networks)
    inputs, targets = _data(stack, X, Y, config.loss)
    generator = torch.Generator().manual_seed(as_seed(seed))
    reached = np.full(len(stack.networks), -1)
    interrupted = False
    with one_thread():
        losses = stack.losses(inputs, targets, config.loss)
        if not np.isfinite(losses).all():
            raise InputError("the losses overflow before any training; scale the networks' weights, X or Y down")
        try:
            for step in _steps(stack, inputs, targets, config, generator):
                if step % every and step < config.steps:
                    continue
                losses = stack.losses(inputs, targets, config.loss)
                if not np.isfinite(losses).all():
                    raise InputError(f"training diverged by step {step}; use a smaller lr than {config.lr:g}")
                reached[(losses < bar) & (reached < 0)] = step
                if progress is not None:
                    progress(step, losses)
                if (reached >= 0).all():
                    break
        except KeyboardInterrupt:
            interrupted = True
        finally:
            stack.leave()
        if interrupted:
            losses = stack.losses(inputs, targets, config.loss)
    return Training(losses, reached, interrupted, time.perf_counter() - start)


def _steps(stack: _Stack, X: Tensor, Y: Tensor, config: Adam, generator: torch.Generator) -> Iterator[int]:
    """Train; yields the number of each step once it is made."""
    adam = torch.optim.Adam(stack.weights, lr=config.lr, fused=True)
    step, samples, size = 0, X.shape[-2], int(config.batch_size)
    gates = stack.gates(X)
    while step < config.steps:
        order = torch.randperm(samples, generator=generator)
        shuffled, wanted = X.index_select(-2, order), Y[:, order]
        opened = None if gates is None else [values.index_select(-2, order) for values in gates]
        for first in range(0, samples, size):
            batch = slice(first, first + size)
            adam.zero_grad()
            outputs = stack.outputs(shuffled[..., batch, :], opened and [values[..., batch, :] for values in opened])
            mean_losses(outputs, wanted[:, batch], config.loss).sum().backward()
            adam.step()
            step += 1
            yield step
            if step == config.steps:
                return


def mean_losses(outputs: Tensor, targets: Tensor, loss: str) -> Tensor:
    """The mean losses (R,) of outputs (R, b, q) at targets (R or 1, b, q), or at classes (R or 1, b).

    >>> import torch
    >>> from implicit_bias.training.stacked import mean_losses
    >>> mean_losses(torch.tensor([[[2.0], [0.5]]]), torch.tensor([[[1.0], [-1.0]]]), "hinge").tolist()
    [0.75]
    """
    if loss == "squared":
        return ((outputs - targets) ** 2).mean(dim=(1, 2))
    if outputs.shape[2] == 1:
        margins = (outputs * targets)[..., 0]
        return (softplus(-margins) if loss == "logistic" else torch.relu(1 - margins)).mean(dim=1)
    targets = targets.expand(outputs.shape[:2])
    if loss == "logistic":
        return cross_entropy(outputs.transpose(1, 2), targets, reduction="none").mean(dim=1)
    right = outputs.gather(2, targets[..., None])
    others = outputs.scatter(2, targets[..., None], -torch.inf).amax(dim=2)
    return torch.relu(1 + others - right[..., 0]).mean(dim=1)


class _Stack:
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
        self.weights = [
            torch.nn.Parameter(_filled(group)) for group in zip(*(n.layers for n in self.networks), strict=True)
        ]
        self.filters = [_filled(group) for group in zip(*(n.filters() for n in self.networks), strict=True)]

    @torch.no_grad()
    def gates(self, X: Tensor) -> list[Tensor] | None:
        """The gates that training leaves, for all samples; None if there are none or they take too much memory."""
        units = sum(weights.shape[1] for weights in self.weights[:-1])
        if len(self.networks) * X.shape[-2] * units > GATES_AT_ONCE:
            return None
        gates = self.first.fixed_gates(self.filters, X)
        return None if gates is None else [values.float() for values in gates]

    def outputs(self, X: Tensor, opened: Sequence[Tensor] | None = None) -> Tensor:
        """Outputs (R, b, q) for inputs (b, d) or (R, b, d)."""
        outputs: Tensor = self.first.activations(self.weights, self.filters, X, opened) @ self.weights[-1].mT
        return outputs

    @torch.no_grad()
    def losses(self, X: Tensor, Y: Tensor, loss: str) -> Array:
        """The mean losses (R,) over all samples."""
        total = torch.zeros(len(self.networks), dtype=torch.float64)
        for first in range(0, X.shape[-2], CHUNK):
            part = slice(first, first + CHUNK)
            wanted = Y[:, part]
            total += mean_losses(self.outputs(X[..., part, :]), wanted, loss).double() * wanted.shape[1]
        return (total / X.shape[-2]).numpy()

    @torch.no_grad()
    def leave(self) -> None:
        """Put the weights back into the networks."""
        for index, weights in enumerate(self.weights):
            for network, values in zip(self.networks, weights, strict=True):
                target = network.layers[index]
                target.copy_(values[: target.shape[0], : target.shape[1]])


def _filled(group: Sequence[Tensor]) -> Tensor:
    """Matrices of several shapes as one stack in float32, zeros behind the smaller ones."""
    rows, columns = (max(matrix.shape[axis] for matrix in group) for axis in (0, 1))
    return torch.stack(
        [pad(matrix.detach().float(), (0, columns - matrix.shape[1], 0, rows - matrix.shape[0])) for matrix in group]
    )


def _data(stack: _Stack, X: Any, Y: Any, loss: str) -> tuple[Tensor, Tensor]:
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
