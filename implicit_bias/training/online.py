"""Gradient descent of networks with a mean readout, whose gates learn: what the closed forms are held against."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from implicit_bias.datasets.rings import Ring
from implicit_bias.ground.checks import (
    Array,
    InputError,
    as_column,
    as_count,
    as_floats,
    as_positive,
    as_seed,
    check_callable,
    check_size,
    shown,
)
from implicit_bias.kernels.activations import Activation
from implicit_bias.kernels.activations import activation as activation_of

#: How many times beyond those of the start, 1 and K · targets pre-activations are when training has diverged.
FAR = 1e8


@dataclass(frozen=True, eq=False)
class OnlineTraining:
    """What `train_online` recorded of R networks of K units on n inputs at T times.

    Attributes
    ----------
    activation : str
        Its name.
    lr : float
    steps : array, shape (T,), integers
        The steps that were made by then, from 0.
    weights : array, shape (T, R, K, n)
    biases : array, shape (T, R, K)
        Zeros in networks without.
    losses : array, shape (T, R)
        ⟨(y − ŷ)²⟩ over the samples of the next step: fresh ones, unless samples were given.
    interrupted : bool
        Whether Ctrl-C ended it early; the last record is then that of the interruption.

    Examples
    --------
    >>> from implicit_bias.datasets import nonlinear_gaussian_process
    >>> from implicit_bias import train_online
    >>> process = nonlinear_gaussian_process(n=12, length_scales=(1.5, 0.5), labels=(1.0, 0.0))
    >>> found = train_online(process, units=4, repeats=3, steps=20, record=[10, 20])
    >>> found.weights.shape, found.fields.shape, found.times.round(6).tolist()
    ((3, 3, 4, 12), (3, 4, 12), [0.0, 1.0, 2.0])
    >>> found.flips(process.sample(100)[0])[:, -1].tolist()
    [0.0, 0.0, 0.0]
    """

    activation: str
    lr: float
    steps: np.ndarray = field(repr=False)
    weights: Array = field(repr=False)
    biases: Array = field(repr=False)
    losses: Array = field(repr=False)
    interrupted: bool = False

    @property
    def times(self) -> Array:
        """lr · steps, the time of `gradient_flow`, shape (T,)."""
        return np.asarray(self.lr * self.steps)

    @property
    def fields(self) -> Array:
        """The weights at the end, or at the interruption, shape (R, K, n)."""
        return np.asarray(self.weights[-1])

    def gates(self, X: ArrayLike) -> np.ndarray:
        """1(w_kᵀx + b_k > 0) of samples (m, n) at every time: truth values, shape (T, R, K, m)."""
        X = as_floats(X, "X", 2)
        if X.shape[1] != self.weights.shape[-1]:
            raise InputError(
                f"X must have {self.weights.shape[-1]} columns, as the networks have inputs, not {X.shape}"
            )
        check_size(self.biases.size * len(X), "the gates at all times")
        return np.asarray(self.weights @ X.T + self.biases[..., None] > 0)

    def flips(self, X: ArrayLike) -> Array:
        """The share of pairs of a sample of X (m, n) and a unit whose gate has changed by the end: shape (R, T)."""
        gates = self.gates(X)
        return np.asarray((gates != gates[-1]).mean(axis=(2, 3)).T)


def train_online(
    data: Ring | tuple[Any, Any],
    units: int = 1,
    activation: str | Activation = "relu",
    *,
    steps: int = 1000,
    lr: float = 0.1,
    batch_size: int = 500,
    scale: float = 0.1,
    biases: bool = False,
    repeats: int = 1,
    record: int | Sequence[int] = 20,
    seed: int = 1,
    progress: Callable[[int, float], None] | None = None,
) -> OnlineTraining:
    """Descend L = ⟨(y − ŷ)²⟩ of ŷ = (1/K) Σ_k σ(w_kᵀx + b_k), with fresh samples at every step.

        w_k ← w_k − ½ lr K ∂L/∂w_k = w_k + lr ⟨(y − ŷ) σ′(w_kᵀx + b_k) x⟩,   b_k alike, where there are biases

    so that units move alike at every K. After s steps the time is t = lr · s: as lr → 0 with gates g that do not flip,
    ReLU networks follow K · gradient_flow(features, w₀/K, times, y=y).weights(), where τ = 1.

    Parameters
    ----------
    data : Ring, or X (m, n) and y (m,)
        A process, `batch_size` samples of which are drawn for each step; or samples, all of which make each step.
    units : int
        K.
    activation : str or Activation
        σ, by a name of `kernels.activation` or made by one of the functions there.
    steps : int
    lr : float
    batch_size : int
        For a process.
    scale : float
        w_k ~ N(0, scale²/n · I), b_k = 0 at the start.
    biases : bool
        Whether b_k are trained; otherwise they stay 0.
    repeats : int
        R networks that differ in their start only: they see the same samples.
    record : int, or numbers of steps
        At most how many times are recorded, at a constant ratio as far as whole numbers allow; or after which steps.
        The start and the end are recorded in any case.
    seed : int
        The samples are those of `data.stream(steps + 1, batch_size, seed=seed)`.
    progress : callable(step, loss), optional
        Called at every recorded time with the mean loss of the networks. Ctrl-C, or a KeyboardInterrupt that it raises,
        ends training: what was recorded is kept, with the latest weights.

    Raises
    ------
    InputError
        For values out of range, samples that are not finite, and training that diverges: at a recorded time losses are
        not finite, or pre-activations 10⁸ times beyond the largest at the start, 1 and K · targets.

    References
    ----------
    Ingrosso & Goldt (2022), "Data-driven emergence of convolutional structure in neural networks", for the setting.

    Examples
    --------
    >>> from implicit_bias.datasets import nonlinear_gaussian_process
    >>> from implicit_bias import train_online
    >>> from implicit_bias.dynamics import ipr
    >>> for gain in (0.01, 100.0):
    ...     process = nonlinear_gaussian_process(40, (3.0, 1.0), gain, labels=(1.0, 0.0))
    ...     print(bool(ipr(train_online(process, steps=500, batch_size=200).fields) > 0.3))
    False
    True
    """
    chosen = activation_of(activation)
    steps, units, repeats = as_count(steps, "steps"), as_count(units, "units"), as_count(repeats, "repeats")
    lr, scale = as_positive(lr, "lr"), as_positive(scale, "scale")
    check_callable(progress, "progress")
    n, batches = _batches(data, steps, batch_size, as_seed(seed))
    times = set(_recorded(record, steps))
    check_size(len(times) * repeats * units * n, "the weights at all times")
    # A stream of its own: the samples' is begun from the bare seed.
    W = scale / np.sqrt(n) * np.random.default_rng([seed, 1]).normal(size=(repeats * units, n))
    kept: list[_State] = []
    latest, interrupted = None, False
    try:
        for latest in _descend(batches, chosen, units, lr, W, biases):
            if latest.step in times:
                kept.append(_checked(latest, kept, units, lr))
                if progress is not None:
                    progress(latest.step, float(latest.losses.mean()))
    except KeyboardInterrupt:
        if latest is None:
            raise
        interrupted = True
        if not kept or kept[-1] is not latest:
            kept.append(_checked(latest, kept, units, lr))
    shape = (len(kept), repeats, units)
    W, b, losses = (np.array([getattr(state, part) for state in kept]) for part in ("W", "b", "losses"))
    made = np.array([state.step for state in kept])
    return OnlineTraining(chosen.name, lr, made, W.reshape(*shape, n), b.reshape(shape), losses, interrupted)


class _State(NamedTuple):
    """R networks after some steps: W (RK, n), b (RK,), and what they make of the samples of the next step."""

    step: int
    W: Array
    b: Array
    losses: Array
    #: The largest pre-activation and target, as absolute values.
    largest: float
    target: float


def _descend(
    batches: Iterator[tuple[Array, Array]], activation: Activation, units: int, lr: float, W: Array, biases: bool
) -> Iterator[_State]:
    """The networks before each batch; arrays are new at every step."""
    b = np.zeros(len(W))
    for step, (X, y) in enumerate(batches):
        with np.errstate(over="ignore", invalid="ignore"):
            a = X @ W.T + b
            left = activation.function(a).reshape(len(X), -1, units).mean(axis=2) - y[:, None]
            state = _State(step, W, b, np.mean(left**2, axis=0), float(np.abs(a).max()), float(np.abs(y).max()))
            slope = activation.derivative(a) * np.repeat(left, units, axis=1)
            W = W - lr / len(X) * (slope.T @ X)
            if biases:
                b = b - lr * slope.mean(axis=0)
        yield state


def _checked(state: _State, kept: list[_State], units: int, lr: float) -> _State:
    """The state, if training is sane."""
    first = kept[0] if kept else state
    # Units that saturate or are silent have finite losses wherever their weights are.
    if np.isfinite(state.losses).all() and state.largest <= FAR * max(1.0, first.largest, units * first.target):
        return state
    raise InputError(f"training diverged by step {state.step}; use a smaller lr than {lr:g}")


def _batches(data: Any, steps: int, size: Any, seed: int) -> tuple[int, Iterator[tuple[Array, Array]]]:
    """The number of inputs, and the samples of every step and of the loss after the last."""
    if isinstance(data, Ring):
        return data.n, data.stream(steps + 1, as_count(size, "batch_size"), seed=seed)
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise InputError(f"data must be a process on a ring, or a pair (X, y) of samples, not {shown(data)}")
    X = as_floats(data[0], "X", 2)
    y = as_column(data[1], len(X), kind="target")
    return X.shape[1], ((X, y) for _ in range(steps + 1))


def _recorded(record: Any, steps: int) -> list[int]:
    """The steps after which there is a record, in order."""
    if isinstance(record, Sequence | np.ndarray) and not isinstance(record, str | bytes):
        asked = [as_count(step, "a recorded step", least=0) for step in record]
        if max(asked, default=0) > steps:
            raise InputError(
                f"record must hold steps of at most {steps}, not {max(asked)}; train longer or leave it out"
            )
    else:
        count = as_count(record, "record", least=2)
        # As many as there are steps are all of them.
        asked = list(range(steps)) if count > steps else np.geomspace(1, steps, count - 1).round().astype(int).tolist()
    return sorted({0, steps, *asked})
