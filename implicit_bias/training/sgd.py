"""Training with minibatches: one network, or many of one shape together."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike

from implicit_bias._utils.checks import InputError, as_count, as_positive, as_seed, check_callable, shown
from implicit_bias._utils.limits import Deadline
from implicit_bias._utils.threads import one_thread
from implicit_bias.networks.base import GatedNetwork
from implicit_bias.training.optimisers import SGD, Optimiser
from implicit_bias.training.result import TrainingResult, drive
from implicit_bias.training.steppers import Stack, Stepper, updates_of


def train(
    networks: GatedNetwork | Sequence[GatedNetwork],
    X: ArrayLike,
    y: ArrayLike,
    config: Optimiser | None = None,
    *,
    seed: int = 1,
    device: str = "cpu",
    every: int | Container[int] | None = None,
    target: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> TrainingResult:
    """Train a network in place, or several of one shape, each as it would be trained alone with the same batches.

    Parameters
    ----------
    networks : GatedNetwork such as TorchNetwork, or a list of R networks such as ReLUNetwork
        A network is trained in its own dtype (float32 unless changed), or in float32 if that is finer. By SGD on
        targets ±1, a shallow GLN is trained in float64 if n is at most its number of weights and at most 10 000.
        Several networks are trained in float32; they may differ in widths and weights, and have the class, depth,
        inputs and outputs in common. All get their new weights at the end, and for `progress`.
    X : array, shape (n, d); for several networks also (R, n, d), with different samples for each
    y : array, shape (n,), or (n, q); along with X also (R, n) or (R, n, q)
        Labels −1 and +1; for the squared loss any real targets, (n, q) with q outputs; for the other losses and q > 1
        outputs, classes 0 … q−1, shape (n,). A custom loss takes targets or classes.
    config : SGD, default SGD(); Adam, Signum or Muon; or TorchOptimiser
        SGD makes whole epochs, the others exactly their `steps`.
    seed : int
        Seed of the shuffling (torch's Mersenne twister, one permutation an epoch). Same seed, same machine: same
        weights, bit for bit; on the CPU training uses one thread, which is faster for networks of this size.
    device : str
        'cpu', or a torch device such as 'cuda'; the networks return to the CPU at the end.
    every : int, or container of int, optional
        Steps between two rows of the table, or the steps that have one, by default the last of each epoch. There are
        always rows of the start and of the end. A row takes as long as several steps.
    target : float, optional
        Training ends once every network has had a loss below this in some row after the first.
    progress : callable(step, steps), optional
        Called at every row, when the networks have their current weights.

    Returns
    -------
    TrainingResult
        Its table has the step and the loss over the training set. One network has more columns: error and minimum
        margin min_i y_i f(x_i) for labels ±1, norm ‖w‖₂ of all trainable parameters, and normalised_margin =
        margin / ‖w‖^L for degree L; real targets have no error, and only labels ±1 have margins. Several networks have
        a row each, with their number in the column network. Training ends 'converged' if the target was reached.

    Raises
    ------
    InputError
        For bad arrays or labels, networks that differ in more than width and weights, an unavailable device, or a loss
        or weights that stop being finite.

    Examples
    --------
    >>> from implicit_bias import SGD, GatedLinearNetwork, HyperplaneGates, load_binary, train
    >>> task = load_binary("digits", train_size=100)
    >>> network = GatedLinearNetwork(HyperplaneGates(5, 2, seed=1).fit(task.X_pool))
    >>> history = train(network, task.X_train, task.y_train, SGD(steps=200))
    >>> bool(history.table.error.iloc[-1] < history.table.error.iloc[0] / 2)
    True

    Two deep GaLU networks on real targets, two of them:

    >>> from implicit_bias import Adam
    >>> from implicit_bias.extensions.galu import GaLU0Network
    >>> X = np.random.default_rng(0).normal(size=(200, 4))
    >>> Y = np.column_stack([abs(X[:, 0]), X[:, 1]])
    >>> networks = [GaLU0Network(4, [units, units], outputs=2) for units in (20, 30)]
    >>> result = train(networks, X, Y, Adam(400, 50, lr=1e-2, loss="squared"), every=100)
    >>> (result.losses < result.table.loss[:2] / 10).tolist()
    [True, True]
    """
    deadline = Deadline()
    config = SGD() if config is None else config
    each: list[Any] = list(networks) if isinstance(networks, list | tuple) else [networks]
    if not (each and all(isinstance(one, GatedNetwork) for one in each) and isinstance(config, Optimiser)):
        text = "train takes a GatedNetwork such as ReLUNetwork(…), TorchNetwork(module, inputs) or a list of networks"
        configs = "SGD(…), Adam(…), Muon(…) or TorchOptimiser(torch.optim.NAdam) as its config"
        raise InputError(f"{text}, and {configs}")
    bar = -np.inf if target is None else as_positive(target, "target")
    check_callable(progress, "progress")
    generator = torch.Generator().manual_seed(as_seed(seed))
    place, alone = _device(device), each[0] is networks
    largest = torch.finfo(each[0].first_parameter().dtype if alone else torch.float32).max
    if max(config.rates(2)) > largest:
        raise InputError(f"lr must be at most {largest:.1e}, the network's largest number, not {config.lr:g}")
    with deadline:
        try:
            for one in each:
                one.to(place)
            with one_thread():
                stepper = updates_of(each[0], X, y, config) if alone else Stack(each, X, y, config)
                rows, end = _descend(stepper, config, generator, every, bar, progress, deadline)
        finally:
            for one in each:
                one.to("cpu")
        if not all(bool(weights.isfinite().all()) for one in each for weights in one.parameters()):
            text = f"training led to weights beyond {largest:.1e}, the network's largest number"
            raise InputError(f"{text}; scale X down, use {config.slower()}, or network.double()")
        return TrainingResult(pd.DataFrame(rows), config, end, deadline.seconds, seed, tuple(each))


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError, TypeError, ValueError, OverflowError, NotImplementedError) as error:
        raise InputError(f"device {shown(name)} cannot be used ({str(error).splitlines()[0]}); use 'cpu'") from None
    return device


def _descend(
    stepper: Stepper,
    config: Optimiser,
    generator: torch.Generator,
    every: int | Container[int] | None,
    bar: float,
    progress: Callable[[int, int], None] | None,
    deadline: Deadline,
) -> tuple[list[dict[str, float]], str]:
    """Train by `stepper` to the loss `bar`; return the rows of the table and the `end` of `TrainingResult`."""
    n = stepper.X.shape[-2]
    last, due = config.count(n), _due(config.batches_per_epoch(n) if every is None else every)
    rows: list[dict[str, float]] = []
    below: Any = False

    def steps() -> Iterator[None]:
        left = last
        for rate in config.rates(config.epochs(n)):
            for batch in config.shuffled(n, generator, stepper.X.device)[:left]:
                stepper.step(batch, rate)
                left -= 1
                yield

    def record(step: int) -> bool:
        nonlocal below
        measured = stepper.record()
        losses = np.array([row["loss"] for row in measured])
        if not np.isfinite(losses).all():
            if step == 0:
                raise InputError("the loss overflows before any training; scale the networks' weights, X or y down")
            raise InputError(f"training diverged by step {step}; use {config.slower()}")
        rows.extend({"step": step} | row for row in measured)
        below |= (losses < bar) & (step > 0)
        return bool(below.all())

    def show(step: int) -> None:
        if progress is not None:
            stepper.write()
            progress(step, last)

    try:
        end = drive(steps(), record, lambda step, _: step == last or due(step), deadline, show=show)
    finally:
        stepper.write()
    return rows, end


def _due(every: Any) -> Callable[[int], bool]:
    """Return a function that is True for steps with a row: those in a container `every`, or its multiples."""
    if isinstance(every, list | tuple | set | frozenset | dict):
        return frozenset(as_count(step, "a step of every", least=0) for step in every).__contains__
    if isinstance(every, Container) and not isinstance(every, str | bytes):
        return every.__contains__
    between = as_count(every, "every, the steps between two rows,")
    return lambda step: step % between == 0
