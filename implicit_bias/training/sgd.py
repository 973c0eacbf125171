"""Stochastic gradient descent as published, with a history."""

import time
from collections.abc import Callable, Container

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike

from implicit_bias._utils.checks import InputError, as_count, as_floats, as_seed, check_callable, shown
from implicit_bias._utils.threads import Interruptible, one_thread
from implicit_bias.networks import GatedNetwork
from implicit_bias.training.optimisers import SGD, Optimiser
from implicit_bias.training.result import TrainingResult
from implicit_bias.training.stepper import Stepper
from implicit_bias.training.targets import as_aims
from implicit_bias.training.updates import updates_of


def train(
    network: GatedNetwork,
    X: ArrayLike,
    y: ArrayLike,
    config: Optimiser | None = None,
    *,
    seed: int = 1,
    device: str = "cpu",
    every: int = 1,
    progress: Callable[[int, int], None] | None = None,
    progress_at: Container[int] | None = None,
) -> TrainingResult:
    """Train a network in place.

    Parameters
    ----------
    network : GatedNetwork
        Trained in its own dtype (float32 unless changed); with one hidden layer in float32 at least, shallow GLNs in
        float64. Both get their new weights at the end, and for `progress`.
    X : array, shape (n, d)
    y : array, shape (n,), or (n, q)
        Labels −1 and +1; with the squared loss any real targets, (n, q) of a network with q outputs; with the other
        losses and q outputs classes 0 … q−1, shape (n,).
    config : SGD, default SGD(); or Adam
        Adam, too, stops after the last whole epoch that fits. With it, and for targets other than ±1, steps are taken
        by autograd in the network's own dtype.
    seed : int
        Seed of the shuffling (torch's Mersenne twister, one permutation an epoch). Same seed, same machine: same
        weights, bit for bit; on the CPU training uses one thread, which is faster for networks of this size.
    device : str
        'cpu', or a torch device such as 'cuda'; the network returns to the CPU at the end.
    every : int
        Epochs between two rows of the history; the first and the last are always there.
    progress : callable(epoch, epochs), optional
        Called after every epoch; the network then has its weights of that moment.
    progress_at : container of int, optional
        Only these epochs are shown to `progress`; writing the weights for each takes longer than training does.

    Returns
    -------
    TrainingResult
        Its table has one row per epoch (or every few): epoch, step; loss, error and minimum margin min_i y_i f(x_i)
        over the training set; norm ‖w‖₂ of all parameters, and normalised_margin = margin / ‖w‖^L for L layers of
        weights. Real targets have no error, and only labels ±1 have margins.

    Raises
    ------
    InputError
        For bad arrays or labels, an unavailable device, or a loss or weights that stop being finite.

    Examples
    --------
    >>> from implicit_bias import SGD, GatedLinearNetwork, HyperplaneGates, load_binary, train
    >>> task = load_binary("digits", train_size=100)
    >>> network = GatedLinearNetwork(HyperplaneGates(5, 2, seed=1).fit(task.X_pool))
    >>> history = train(network, task.X_train, task.y_train, SGD(steps=200))
    >>> bool(history.table.error.iloc[-1] < history.table.error.iloc[0] / 2)
    True

    A deep GaLU network on real targets, two of them:

    >>> from implicit_bias import Adam
    >>> from implicit_bias.extensions.galu import GaLU0Network
    >>> X = np.random.default_rng(0).normal(size=(200, 4))
    >>> Y, network = np.column_stack([abs(X[:, 0]), X[:, 1]]), GaLU0Network(4, [20, 20], outputs=2)
    >>> table = train(network, X, Y, Adam(steps=400, batch_size=50, lr=1e-2), every=10).table
    >>> bool(table.loss.iloc[-1] < table.loss.iloc[0] / 10)
    True
    """
    config = SGD() if config is None else config
    if not isinstance(network, GatedNetwork) or not isinstance(config, Optimiser):
        raise InputError("train takes a GatedNetwork such as ReLUNetwork(…), and an SGD(…) or Adam(…) as its config")
    as_count(every, "every")
    check_callable(progress, "progress")
    if progress_at is not None and (isinstance(progress_at, str | bytes) or not isinstance(progress_at, Container)):
        raise InputError("progress_at must hold numbers of epochs, such as {1, 10, 100}")
    generator = torch.Generator().manual_seed(as_seed(seed))
    X = as_floats(X, "X", 2)
    aims = as_aims(y, len(X), getattr(network, "outputs", 1), config.loss)
    place = _device(device)
    dtype = next(network.parameters()).dtype
    config.refuse_rates_beyond(dtype)
    try:
        network.to(place)
        start = time.perf_counter()
        with one_thread():
            stepper = updates_of(network, X, aims, config)
            rows, end = _descend(stepper, config, generator, every, progress, progress_at)
    finally:
        network.to("cpu")
    if not all(bool(weights.isfinite().all()) for weights in network.parameters()):
        raise InputError(
            f"training led to weights beyond {torch.finfo(dtype).max:.1e}, the network's largest number; scale X down, "
            f"use a smaller lr than {config.lr:g}, or network.double()"
        )
    seconds = time.perf_counter() - start
    return TrainingResult(pd.DataFrame(rows), config, end, seconds, seed, (network,))


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, TypeError, ValueError, OverflowError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"device {shown(name)} cannot be used ({reason}); use 'cpu'") from None
    return device


def _descend(
    stepper: Stepper,
    config: Optimiser,
    generator: torch.Generator,
    every: int,
    progress: Callable[[int, int], None] | None,
    progress_at: Container[int] | None,
) -> tuple[list[dict[str, float]], str]:
    n = len(stepper.y)
    epochs, step = config.epochs(n), 0
    rows = [{"epoch": 0, "step": 0} | stepper.record()]
    try:
        with Interruptible() as run:
            for epoch, rate in enumerate(config.rates(epochs), 1):
                for batch in config.shuffled(n, generator, stepper.y.device):
                    stepper.step(batch, rate)
                    step += 1
                if epoch % every == 0 or epoch == epochs:
                    rows.append({"epoch": epoch, "step": step} | stepper.record())
                    if not np.isfinite(rows[-1]["loss"]):
                        raise InputError(f"training diverged by epoch {epoch}; use a smaller lr than {config.lr}")
                if progress is not None and (progress_at is None or epoch in progress_at):
                    stepper.write()
                    progress(epoch, epochs)
    finally:
        stepper.write()
    return rows, "interrupted" if run.interrupted else "max_steps"
