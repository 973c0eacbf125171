"""Many networks of one shape, trained together by Adam or SGD: one product per layer for all of them."""

import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from implicit_bias._utils.checks import Array, InputError, as_count, as_positive, as_seed, check_callable, shown
from implicit_bias._utils.threads import Interruptible, one_thread
from implicit_bias.extensions.galu.stack import Stack, gradients_of, tensors_of
from implicit_bias.networks import LayeredNetwork
from implicit_bias.training.optimisers import Adam, Optimiser
from implicit_bias.training.result import TrainingResult


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
