"""The steps of networks with a mean readout: how weights and biases move on each batch of samples."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from implicit_bias._utils.checks import Array, InputError, as_column, as_count, as_floats, shown
from implicit_bias.extensions.gated_flow.rings import Ring
from implicit_bias.extensions.infinite.activations import Activation

#: From outputs (m, R) and targets (m, 1): −∂L/∂ŷ up to a factor, and L (R,).
LOSSES: dict[str, Callable[[Array, Array], tuple[Array, Array]]] = {
    "squared": lambda outputs, y: (y - outputs, np.mean((y - outputs) ** 2, axis=0)),
    "cross-entropy": lambda outputs, y: (y - expit(outputs), np.mean(np.logaddexp(0.0, outputs) - y * outputs, axis=0)),
}


class State(NamedTuple):
    """R networks after some steps: W (RK, n), b (RK,), c (R,), and what they make of the samples of the next step."""

    step: int
    W: Array
    b: Array
    #: b₂.
    c: Array
    losses: Array
    #: The largest of pre-activations and b₂, and of targets, as absolute values.
    largest: float
    target: float


class OnlineDescent(NamedTuple):
    """How networks move."""

    activation: Activation
    units: int
    lr: float
    loss: Callable[[Array, Array], tuple[Array, Array]]
    biases: bool
    output_bias: bool

    def __call__(self, batches: Iterator[tuple[Array, Array]], W: Array) -> Iterator[State]:
        """The networks before each batch; arrays are new at every step."""
        b, c = np.zeros(len(W)), np.zeros(len(W) // self.units)
        for step, (X, y) in enumerate(batches):
            with np.errstate(over="ignore", invalid="ignore"):
                a = X @ W.T + b
                outputs = self.activation.function(a).reshape(len(X), -1, self.units).mean(axis=2) + c
                left, losses = self.loss(outputs, y[:, None])
                state = State(
                    step, W, b, c, losses, max(float(np.abs(a).max()), float(np.abs(c).max())), float(np.abs(y).max())
                )
                slope = self.activation.derivative(a) * np.repeat(left, self.units, axis=1)
                W = W + self.lr / len(X) * (slope.T @ X)
                if self.biases:
                    b = b + self.lr * slope.mean(axis=0)
                if self.output_bias:
                    c = c + self.lr * left.mean(axis=0)
            yield state


def between_0_and_1(batches: Iterator[tuple[Array, Array]]) -> Iterator[tuple[Array, Array]]:
    """The batches, whose targets must be probabilities."""
    for X, y in batches:
        if y.min() < 0 or y.max() > 1:
            raise InputError("cross-entropy needs targets from 0 to 1, such as labels=(1.0, 0.0); or take squared loss")
        yield X, y


def batches_of(data: Any, steps: int, size: Any, seed: int) -> tuple[int, Iterator[tuple[Array, Array]]]:
    """The number of inputs, and the samples of every step and of the loss after the last."""
    if isinstance(data, Ring):
        return data.n, data.stream(steps + 1, as_count(size, "batch_size"), seed=seed)
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise InputError(f"data must be a process on a ring, or a pair (X, y) of samples, not {shown(data)}")
    X = as_floats(data[0], "X", 2)
    y = as_column(data[1], len(X), kind="target")
    return X.shape[1], ((X, y) for _ in range(steps + 1))
