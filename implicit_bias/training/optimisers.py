"""Optimisers of `train`: minibatch descent with one drop of the rate, Adam, Signum, Muon, and those of torch."""

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.optim.adam import adam

from implicit_bias._utils.checks import InputError, as_count, as_flag, as_fraction, as_positive, as_real, one_of, shown
from implicit_bias.training.layer_norms import Entries, LayerNorm, Length, NewtonSchulz, Spectral
from implicit_bias.training.losses import CLASS_LOSSES, MARGIN_LOSSES, CustomLoss, check_loss

#: Losses of classes, and the squared one of any targets.
LOSSES = ("squared", *CLASS_LOSSES)
#: Norms of vectors in `Muon`, by name.
VECTORS = {"l2": Length(), "l_inf": Entries()}
#: Applies one step to the weights, in place, from the gradient of each tensor of weights and a rate.
Update = Callable[[Sequence[Tensor], float], None]


class Optimiser(ABC):
    """Base class of optimisers with minibatches; a subclass defines `update`."""

    steps: int
    batch_size: int
    #: Learning rate; NaN if the optimiser has its own.
    lr: float
    #: Exponent of the learning rates of epochs t = 1, 2, …: η = lr · t^{−lr_decay}.
    lr_decay: float = 0.0
    #: Name of a loss, or a function from outputs and targets to losses.
    loss: str | CustomLoss

    #: True if a step treats every weight alike: networks that train together then pass all their layers as one row.
    #: Otherwise weights are matrices with a row for each unit, with a leading axis of networks if several train
    #: together; vectors have one row.
    entrywise: ClassVar[bool] = True
    #: True if several networks may train together, with a leading axis of their weights.
    stacks: ClassVar[bool] = True

    @abstractmethod
    def update(self, weights: Sequence[Tensor]) -> Update:
        """Return a function that makes one step on these weights, in place, and holds the optimiser's state."""

    def plain_momentum(self) -> float | None:
        """Return μ if steps are v ← μ v + ∇, w ← w − η v, so that w₀ − w stays in the span of gradients; else None."""
        return None

    def batches_per_epoch(self, n: int) -> int:
        """Return the number of minibatches per epoch of n samples."""
        return -(-n // int(self.batch_size))

    def count(self, n: int) -> int:
        """Return the number of steps that training on n samples makes."""
        return int(self.steps)

    def epochs(self, n: int) -> int:
        """Return the number of epochs of n samples; the last one may be incomplete."""
        n = as_count(n, "n")
        return -(-self.count(n) // self.batches_per_epoch(n))

    def rates(self, epochs: int) -> Iterator[float]:
        """Return the learning rate of each epoch e = 1, 2, …: lr e^{−lr_decay}."""
        return (self.lr * epoch**-self.lr_decay for epoch in range(1, epochs + 1))

    def shuffled(self, n: int, generator: torch.Generator, device: torch.device | None = None) -> tuple[Tensor, ...]:
        """Return the minibatches of one epoch, each a tensor of indices of the n samples, in random order."""
        return torch.randperm(n, generator=generator).to(device).split(int(self.batch_size))

    def slower(self) -> str:
        """Return the remedy for divergence in error messages, such as 'a smaller lr than 0.04'."""
        return "a smaller lr" if math.isnan(self.lr) else f"a smaller lr than {self.lr:g}"


@dataclass(frozen=True)
class SGD(Optimiser):
    """Minibatch descent with a rate that drops once, at half time; the defaults are the published training.

        w ← w − η_t · v,   v ← μ v + ∇ (1/|B|) Σ_{i ∈ B} ℓ(y_i f_w(x_i))

    Parameters
    ----------
    steps : int
        Number of steps; 3200 as published, that is 200·2000/n epochs at n = 500, 1000, 2000. Training stops after the
        last whole epoch that fits, and makes at least one.
    batch_size : int
        Size of B; the last batch of an epoch is smaller where n is not a multiple.
    lr, lr_factor : float
        η is `lr` in the first half of the epochs and `lr · lr_factor` in the second.
    momentum : float
        μ, from 0 to below 1 (torch's convention, no dampening).
    loss : 'logistic', ℓ(m) = log(1 + e^{−m}); 'exponential', e^{−m}; 'hinge', max(0, 1 − m); or 'squared', (1 − m)²
        These are for labels ±1 and one output. For other targets, and for several outputs, 'squared' is the mean of
        (f − y)² over samples and outputs; for classes and several outputs, 'logistic' and 'hinge' are as for `Adam`.
        A function of two tensors, such as `torch.nn.functional.soft_margin_loss`, is called as loss(f, y) with the
        outputs of a batch, shape (b,) or (b, q), and its targets, and returns a loss per sample or their mean. y are
        numbers in the network's dtype, or int64 classes if y (n,) belongs to several outputs. Its gradients are
        computed by autograd.
    loader : bool
        Shuffle as the DataLoader of torch 1.10 does with a generator: it draws a seed for its workers before each
        permutation. With it, and seed 1 for every network, the batches are those of the published training.

    Raises
    ------
    InputError
        For values out of range or an unknown loss.

    Examples
    --------
    >>> from implicit_bias import SGD
    >>> SGD(momentum=0.9).epochs(n=500)
    800
    """

    steps: int = 3200
    batch_size: int = 128
    lr: float = 0.04
    lr_factor: float = 0.25
    momentum: float = 0.0
    loss: str | CustomLoss = "logistic"
    loader: bool = False

    def __post_init__(self) -> None:
        as_count(self.steps, "steps")
        as_count(self.batch_size, "batch_size")
        as_positive(self.lr, "lr")
        as_positive(self.lr_factor, "lr_factor")
        as_fraction(self.momentum, "momentum", below=True)
        check_loss(self.loss, MARGIN_LOSSES)
        as_flag(self.loader, "loader")

    def count(self, n: int) -> int:
        """Return the number of steps in the whole epochs that fit into `steps`, at least one epoch."""
        many = self.batches_per_epoch(n)
        return max(1, int(self.steps) // many) * many

    def rates(self, epochs: int) -> Iterator[float]:
        """Return the rate of each epoch: lr in the first ⌊epochs/2⌋, or in the first of one, then lr · lr_factor.

        >>> list(SGD(lr=1.0, lr_factor=0.5).rates(5))
        [1.0, 1.0, 0.5, 0.5, 0.5]
        """
        later = self.lr * self.lr_factor
        return (later if epoch >= max(1, epochs // 2) else self.lr for epoch in range(epochs))

    def shuffled(self, n: int, generator: torch.Generator, device: torch.device | None = None) -> tuple[Tensor, ...]:
        if self.loader:
            torch.empty((), dtype=torch.int64).random_(generator=generator)
        return super().shuffled(n, generator, device)

    def plain_momentum(self) -> float | None:
        return self.momentum

    def update(self, weights: Sequence[Tensor]) -> Update:
        velocities = [torch.zeros_like(weight) for weight in weights]

        @torch.no_grad()
        def step(gradients: Sequence[Tensor], rate: float) -> None:
            for weight, velocity, gradient in zip(weights, velocities, gradients, strict=True):
                # Without momentum the velocity is the gradient: one pass less over the weights.
                moved = velocity.mul_(self.momentum).add_(gradient) if self.momentum else gradient
                weight.sub_(moved, alpha=rate)

        return step


@dataclass(frozen=True)
class Adam(Optimiser):
    """Minibatch training by Adam (Kingma & Ba, 2015), or AdamW with weight decay (Loshchilov & Hutter, 2019).

        m ← β₁ m + (1 − β₁) ∇,   s ← β₂ s + (1 − β₂) ∇²,   w ← (1 − ηλ) w − η m̂ / (√ŝ + ε)

    Full-batch Adam with ε = 0 and decreasing rates tends to KKT points of the largest l_inf margin of smooth
    homogeneous networks (Gronich & Vardi, arXiv 2602.16340). No theorem covers learned gates, nor minibatches of
    networks: for linear models, one sample per step may lead to other margins (Baek, Song & Yun, arXiv 2510.26303).

    Parameters
    ----------
    steps : int
        Number of steps, all of which are made.
    batch_size, and errors : as for `SGD`
    lr, lr_decay : float
        η = lr · t^{−lr_decay} in epoch t. With full batches and `lr_decay` = 1/2, margins of two layers change by a
        bounded amount in every step.
    momentum, beta2 : float
        β₁ and β₂, from 0 to below 1.
    eps : float
        ε, above 0. Once gradients are below it, steps shrink: with the logistic loss and 1e-30, once margins exceed 70.
    weight_decay : float
        λ, from 0 to 1/lr, decoupled from the gradient. If full-batch AdamW converges, it does so to a KKT point of the
        loss with entries of at most 1/λ (Xie & Li, arXiv 2404.04454).
    loss : 'logistic', 'squared', 'hinge', or a function as for `SGD`
        'squared' is the mean of (f − y)² over samples and outputs. For one output and labels ±1 the others are
        log(1 + e^{−yf}) and max(0, 1 − yf); for several outputs and classes 0 … q−1 they are the cross entropy and
        the hinge of Crammer & Singer, max(0, 1 + max_{c≠y} f_c − f_y).

    Examples
    --------
    >>> from implicit_bias import Adam
    >>> Adam(steps=1000).lr
    0.001
    """

    steps: int = 100_000
    batch_size: int = 128
    lr: float = 1e-3
    loss: str | CustomLoss = "logistic"
    lr_decay: float = 0.0
    momentum: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        _check_normalised(self, LOSSES, "momentum", "beta2")
        as_positive(self.eps, "eps")

    def update(self, weights: Sequence[Tensor]) -> Update:
        weights = list(weights)
        # A single kernel is faster for one long row. It rounds differently.
        fused = True if weights[0].ndim == 1 and weights[0].device.type == "cpu" else None
        first, second = ([torch.zeros_like(weight) for weight in weights] for _ in range(2))
        made = [torch.zeros(()) for _ in weights]

        @torch.no_grad()
        def step(gradients: Sequence[Tensor], rate: float) -> None:
            adam(
                weights, list(gradients), first, second, [], made, fused=fused, amsgrad=False,
                beta1=self.momentum, beta2=self.beta2, lr=rate, weight_decay=self.weight_decay,
                decoupled_weight_decay=True, eps=self.eps, maximize=False,
            )  # fmt: skip

        return step


@dataclass(frozen=True)
class SteepestSteps(Optimiser):
    """Base class of minibatch steepest descent, with one norm for each layer and decoupled weight decay."""

    steps: int = 3200
    batch_size: int = 128
    lr: float = 1e-3
    loss: str | CustomLoss = "logistic"
    lr_decay: float = 0.0
    momentum: float = 0.9
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        _check_normalised(self, MARGIN_LOSSES, "momentum")

    @abstractmethod
    def norm_of(self, weight: Tensor) -> LayerNorm:
        """Return the norm of a layer's weights."""

    def update(self, weights: Sequence[Tensor]) -> Update:
        norms = [self.norm_of(weight) for weight in weights]
        means = [torch.zeros_like(weight) for weight in weights]

        @torch.no_grad()
        def step(gradients: Sequence[Tensor], rate: float) -> None:
            for weight, mean, gradient, norm in zip(weights, means, gradients, norms, strict=True):
                mean.lerp_(gradient, 1 - self.momentum)
                weight.mul_(1 - rate * self.weight_decay).sub_(norm.steepest(mean), alpha=rate)

        return step


@dataclass(frozen=True)
class Signum(SteepestSteps):
    """Minibatch descent along signs of the mean gradient: Signum, and sign descent for momentum 0.

        m ← μ m + (1 − μ) ∇,   w ← (1 − ηλ) w − η sign(m)

    With full batches and decreasing rates it tends to KKT points of the largest l_inf margin of smooth homogeneous
    networks (Gronich & Vardi, arXiv 2602.16340), the problem "sign" of `svm_of_optimiser`. With minibatches, momentum
    leads to approximately the largest margin in multi-class classification (Li, Tang & Zou, arXiv 2602.11557). No
    theorem covers minibatches of networks, or learned gates.

    Parameters
    ----------
    steps : int
        Number of steps, all of which are made.
    batch_size, loss, and errors : as for `SGD`
    lr, lr_decay, weight_decay : as for `Adam`
    momentum : float
        μ, from 0 to below 1.

    Examples
    --------
    >>> from implicit_bias import ReLUNetwork, load_binary, train
    >>> from implicit_bias.training import Signum
    >>> task = load_binary("digits", train_size=100)
    >>> history = train(ReLUNetwork(65, 20), task.X_train, task.y_train, Signum(steps=100, lr=0.01))
    >>> bool(history.table.error.iloc[-1] < 0.05)
    True
    """

    def norm_of(self, weight: Tensor) -> LayerNorm:
        return Entries()


@dataclass(frozen=True)
class Muon(SteepestSteps):
    """Minibatch descent along polar factors of the mean gradient of each layer (Jordan et al., 2024).

        M ← μ M + (1 − μ) ∇,   W ← (1 − ηλ) W − η P,   M = P (MᵀM)^{1/2}

    A row of W contains all weights of a unit: of all contexts in a GLN with one hidden layer, of all pixels in a
    convolution. With full batches and decreasing rates it tends to KKT points of the largest margin in these norms for
    smooth homogeneous networks (Gronich & Vardi, arXiv 2602.16340), the problems "muon" and "muon-sign" of
    `svm_of_optimiser`. As for `Signum`, no theorem covers minibatches of networks, or learned gates. With weight decay,
    Muon solves a problem with spectral norms of at most 1/λ (Chen, Li & Liu, arXiv 2506.15054).

    Parameters
    ----------
    steps, batch_size, loss, lr, lr_decay, momentum, weight_decay, and errors : as for `Signum`
    vectors : 'l2' or 'l_inf'
        Steps of vectors, such as biases and the weights of one output. 'l2' are normalised gradients, the polar factors
        of a single row, as in "muon"; 'l_inf' are signs, as in "muon-sign". The usual practice is Adam for vectors,
        whose limit is that of signs.
    newton_schulz : bool
        Approximate polar factors by five steps of the usual iteration, with singular values between about 0.7 and 1.2.
        It is faster for large matrices on a GPU; no theorem covers it.

    Examples
    --------
    >>> from implicit_bias import ReLUNetwork, load_binary, train
    >>> from implicit_bias.training import Muon
    >>> task = load_binary("digits", train_size=100)
    >>> history = train(ReLUNetwork(65, 20), task.X_train, task.y_train, Muon(steps=100, lr=0.01))
    >>> bool(history.table.error.iloc[-1] < 0.05)
    True
    """

    vectors: str = "l2"
    newton_schulz: bool = False

    entrywise = False

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self.vectors, VECTORS, "vectors")
        as_flag(self.newton_schulz, "newton_schulz")

    def norm_of(self, weight: Tensor) -> LayerNorm:
        if weight.shape[-2] == 1:
            return VECTORS[self.vectors]
        return NewtonSchulz() if self.newton_schulz else Spectral()


def _check_normalised(config: Adam | SteepestSteps, losses: Collection[str], *momenta: str) -> None:
    as_count(config.steps, "steps", least=0)
    as_count(config.batch_size, "batch_size")
    as_positive(config.lr, "lr")
    check_loss(config.loss, losses)
    for name in momenta:
        as_fraction(getattr(config, name), name, below=True)
    if not as_real(config.lr_decay) >= 0:
        raise InputError(f"lr_decay must be at least 0, not {shown(config.lr_decay)}")
    if not 0 <= as_real(config.weight_decay) * config.lr <= 1:
        raise InputError(f"weight_decay must be from 0 to 1/lr = {1 / config.lr:g}, not {shown(config.weight_decay)}")


@dataclass(frozen=True)
class TorchOptimiser(Optimiser):
    """Minibatch training of one network by an optimiser of torch, which keeps its own learning rate.

    Parameters
    ----------
    make : class of torch.optim, or callable(list of parameters) → torch.optim.Optimizer
        For example `torch.optim.NAdam`, or `functools.partial(torch.optim.NAdam, lr=0.01)`.
    steps, batch_size, loss, and errors : as for `Adam`
        For labels ±1 and one output, 'exponential' is also a loss.

    Raises
    ------
    InputError
        From `train`, if `make` fails, returns something else or an optimiser of other parameters, or if the
        optimiser's steps need a closure (LBFGS); also for several networks at once.

    Examples
    --------
    >>> from functools import partial
    >>> from implicit_bias import ReLUNetwork, load_binary, train
    >>> from implicit_bias.training import TorchOptimiser
    >>> task = load_binary("digits", train_size=100)
    >>> config = TorchOptimiser(partial(torch.optim.NAdam, lr=0.01), steps=100, loss="logistic")
    >>> history = train(ReLUNetwork(65, 20), task.X_train, task.y_train, config)
    >>> bool(history.table.error.iloc[-1] < 0.05), history.config is config
    (True, True)
    """

    make: Callable[[list[Tensor]], torch.optim.Optimizer]
    steps: int = 3200
    batch_size: int = 128
    loss: str | CustomLoss = "logistic"

    stacks = False
    lr = math.nan

    def __post_init__(self) -> None:
        if not callable(self.make) or isinstance(self.make, torch.optim.Optimizer):
            raise InputError(f"make must be a class of torch.optim, or a function of weights, not {shown(self.make)}")
        as_count(self.steps, "steps", least=0)
        as_count(self.batch_size, "batch_size")
        check_loss(self.loss, MARGIN_LOSSES)

    def update(self, weights: Sequence[Tensor]) -> Update:
        weights = list(weights)
        try:
            optimiser = self.make(weights)
        except (TypeError, ValueError, RuntimeError) as error:
            reason = (str(error) or type(error).__name__).splitlines()[0]
            raise InputError(f"{shown(self.make)} makes no optimiser of the parameters ({reason}); change it") from None
        if not isinstance(optimiser, torch.optim.Optimizer):
            raise InputError(f"make must return a torch.optim.Optimizer, not {shown(optimiser)}")
        closure = inspect.signature(optimiser.step).parameters.get("closure")
        if closure is not None and closure.default is inspect.Parameter.empty:
            raise InputError(f"steps of {type(optimiser).__name__} need a closure, which train does not have; use SGD")
        held = {id(weight) for group in optimiser.param_groups for weight in group["params"]}
        if not held or not held <= set(map(id, weights)):
            raise InputError("make returned an optimiser of other parameters; build it from those that it is given")

        def step(gradients: Sequence[Tensor], rate: float) -> None:
            for weight, gradient in zip(weights, gradients, strict=True):
                weight.grad = gradient
            try:
                optimiser.step()
            except RuntimeError as error:
                reason = str(error).splitlines()[0]
                raise InputError(f"{type(optimiser).__name__} cannot train this network: {reason}") from None
            optimiser.zero_grad()

        return step
