"""Gradient descent of networks with a mean readout and learned gates, for comparison with the closed-form flows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from implicit_bias._utils import checks
from implicit_bias._utils.checks import Array, InputError, shown
from implicit_bias._utils.limits import Deadline
from implicit_bias.extensions.gated_flow.receptive_fields import ipr
from implicit_bias.extensions.gated_flow.rings import Ring
from implicit_bias.extensions.infinite.activations import Activation
from implicit_bias.extensions.infinite.activations import activation as activation_of
from implicit_bias.training.result import drive

#: Pre-activations or b₂ above this multiple of the largest of the initial ones, 1 and K · targets have diverged.
DIVERGENCE = 1e8
#: With `stay`, the receptive fields are compared after these fractions 1/16, 1/8, … of the steps.
DIVISORS = (16, 8, 4, 2, 1)
#: From outputs (m, R) and targets (m, 1) to −∂L/∂ŷ, up to a factor, and L (R,).
LOSSES: dict[str, Callable[[Array, Array], tuple[Array, Array]]] = {
    "squared": lambda outputs, y: (y - outputs, np.mean((y - outputs) ** 2, axis=0)),
    "cross-entropy": lambda outputs, y: (y - expit(outputs), np.mean(np.logaddexp(0.0, outputs) - y * outputs, axis=0)),
}


@dataclass(frozen=True, eq=False)
class OnlineTraining:
    """Result of `train_online` for R networks of K units on n inputs, recorded at T times.

    Attributes
    ----------
    activation : str
        Name of the activation.
    lr : float
    steps : array, shape (T,), integers
        Number of completed steps at each time, from 0.
    weights, biases, output_biases : arrays, shapes (T, R, K, n), (T, R, K) and (T, R)
        w_k, b_k and b₂; zeros if biases are not trained.
    losses : array, shape (T, R)
        L on the samples of the next step, which are new samples if `data` is a process.
    change : float or None
        With `stay`, the mean change of a unit's IPR in the second half of the training.
    interrupted : bool
        True if Ctrl-C ended the training early; the last record is then that of the interruption.

    Examples
    --------
    >>> from implicit_bias.extensions.gated_flow import nonlinear_gaussian_process, train_online
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
    output_biases: Array = field(repr=False)
    losses: Array = field(repr=False)
    change: float | None = None
    interrupted: bool = False

    @property
    def times(self) -> Array:
        """lr · steps, the time of `gradient_flow`, shape (T,)."""
        return np.asarray(self.lr * self.steps)

    @property
    def fields(self) -> Array:
        """Receptive fields, the weights at the end or at the interruption, shape (R, K, n)."""
        return np.asarray(self.weights[-1])

    def gates(self, X: ArrayLike) -> np.ndarray:
        """Return the gates 1(w_kᵀx + b_k > 0) of samples X (m, n) at every time: booleans, shape (T, R, K, m)."""
        X = checks.as_floats(X, "X", 2)
        if X.shape[1] != self.weights.shape[-1]:
            raise InputError(f"X must have {self.weights.shape[-1]} columns, one per input, not shape {X.shape}")
        checks.check_size(self.biases.size * len(X), "the gates at all times")
        return np.asarray(self.weights @ X.T + self.biases[..., None] > 0)

    def flips(self, X: ArrayLike) -> Array:
        """Return the share of units and samples X (m, n) whose gate differs from the final gate, shape (R, T)."""
        gates = self.gates(X)
        return np.asarray((gates != gates[-1]).mean(axis=(2, 3)).T)


def train_online(
    data: Ring | tuple[Any, Any],
    units: int = 1,
    activation: str | Activation = "relu",
    *,
    steps: int = 1000,
    stay: float | None = None,
    lr: float = 0.1,
    loss: str = "squared",
    batch_size: int = 500,
    scale: float = 0.1,
    biases: bool = False,
    output_bias: bool = False,
    repeats: int = 1,
    record: int | Sequence[int] = 20,
    seed: int = 1,
    progress: Callable[[int, float], None] | None = None,
) -> OnlineTraining:
    """Train ŷ = (1/K) Σ_k σ(w_kᵀx + b_k) + b₂ by gradient descent on a loss L, with new samples at every step.

        w_k ← w_k + lr ⟨e σ′(w_kᵀx + b_k) x⟩,   b_k ← b_k + lr ⟨e σ′(w_kᵀx + b_k)⟩,   b₂ ← b₂ + lr ⟨e⟩

    For the squared loss L = ⟨(y − ŷ)²⟩, e is y − ŷ, and the steps are −½ lr K ∂L/∂w_k, −½ lr K ∂L/∂b_k, −½ lr ∂L/∂b₂.
    For cross-entropy, L = ⟨log(1 + e^ŷ) − yŷ⟩, e is y − 1/(1 + e^−ŷ), and the steps have no factor ½. The factor K
    makes the speed of a unit independent of K. After s steps the time is t = lr · s. As lr → 0, ReLU networks whose
    gates do not flip follow K · gradient_flow(features, w₀/K, times, y=y).weights() with τ = 1. Source: Ingrosso &
    Goldt (2022), "Data-driven emergence of convolutional structure in neural networks", for the setting.

    Parameters
    ----------
    data : Ring, or X (m, n) and y (m,)
        A process, from which each step draws `batch_size` samples; or samples, all of which are used in each step.
    units : int
        The number K of units.
    activation : str or Activation
        σ, a name for `infinite.activation`, or an `Activation` of the extension `infinite`.
    steps : int
    stay : float, optional
        Stop early once receptive fields are stationary. After ⅛, ¼ or ½ of `steps` (at least 16), training ends if the
        IPR of a unit's w_k has changed by at most `stay` on average since half that time.
    lr : float
    loss : {"squared", "cross-entropy"}
        The loss L. Cross-entropy requires targets from 0 to 1.
    batch_size : int
        For a process.
    scale : float
        Initially w_k ~ N(0, scale²/n · I) and b_k = b₂ = 0.
    biases, output_bias : bool
        If True, train b_k and b₂, respectively; otherwise they stay 0.
    repeats : int
        R, the number of networks, which differ only in their initial weights and see the same samples.
    record : int, or sequence of steps
        Maximum number of recorded times, spaced geometrically as far as integers allow; or the steps to record. The
        start and the end are always recorded, and with `stay` the times of comparison.
    seed : int
        The samples are those of `data.stream(steps + 1, batch_size, seed=seed)`.
    progress : callable(step, loss), optional
        Called at every recorded time with the mean loss of the networks. Ctrl-C, or a KeyboardInterrupt from this
        function, ends the training; the records are kept, with the current weights as the last one.

    Raises
    ------
    InputError
        If a value is out of range, samples are not finite, or training diverges: at a recorded time, losses are not
        finite, or pre-activations or b₂ exceed 10⁸ times the largest of the initial ones, 1 and K · targets.

    Examples
    --------
    >>> from implicit_bias.extensions.gated_flow import ipr, nonlinear_gaussian_process, train_online
    >>> for gain in (0.01, 100.0):
    ...     process = nonlinear_gaussian_process(40, (3.0, 1.0), gain, labels=(1.0, 0.0))
    ...     print(bool(ipr(train_online(process, steps=500, batch_size=200).fields) > 0.3))
    False
    True
    """
    chosen = activation_of(activation)
    steps, units = checks.as_count(steps, "steps"), checks.as_count(units, "units")
    repeats = checks.as_count(repeats, "repeats")
    lr, scale = checks.as_positive(lr, "lr"), checks.as_positive(scale, "scale")
    checks.check_callable(progress, "progress")
    n, batches = _batches(data, steps, batch_size, checks.as_seed(seed), checks.one_of(loss, LOSSES, "loss"))
    checkpoints = _checkpoints(steps, stay)
    times = {*_recorded(record, steps), *checkpoints}
    checks.check_size(len(times) * repeats * units * n, "the weights at all times")
    # [seed, 1], because the stream of the samples starts from the seed alone.
    W = scale / np.sqrt(n) * np.random.default_rng([seed, 1]).normal(size=(repeats * units, n))
    descent = _OnlineDescent(batches, W, chosen, units, lr, LOSSES[loss], bool(biases), bool(output_bias))
    records = _Records(descent, checkpoints, stay)

    def show(step: int) -> None:
        """Call `progress` with the step and the mean loss of the networks."""
        if progress is not None:
            progress(step, float(descent.losses.mean()))

    with Deadline() as deadline:
        end = drive(descent.steps(), records.add, lambda step, _: step in times, deadline, show=show)
    made, W, b, c, losses = (np.array(part) for part in zip(*records.rows, strict=True))
    shape, interrupted = (len(made), repeats, units), end == "interrupted"
    W, b = W.reshape(*shape, n), b.reshape(shape)
    return OnlineTraining(chosen.name, lr, made, W, b, c, losses, records.change, interrupted)


@dataclass(eq=False)
class _OnlineDescent:
    """R networks: W (RK, n), b (RK,) and c = b₂ (R,), with their outputs and losses on the next step's samples X, y."""

    batches: Iterator[tuple[Array, Array]]
    W: Array
    activation: Activation
    units: int
    lr: float
    loss: Callable[[Array, Array], tuple[Array, Array]]
    biases: bool
    output_bias: bool

    def __post_init__(self) -> None:
        self.b, self.c = np.zeros(len(self.W)), np.zeros(len(self.W) // self.units)
        self._evaluate(*next(self.batches))

    def _evaluate(self, X: Array, y: Array) -> None:
        """Take new samples; set pre-activations a (m, RK), errors −∂L/∂ŷ up to a factor (m, R), and losses (R,)."""
        self.X, self.y = X, y
        with np.errstate(over="ignore", invalid="ignore"):
            self.a = X @ self.W.T + self.b
            outputs = self.activation.function(self.a).reshape(len(X), -1, self.units).mean(axis=2) + self.c
            self.errors, self.losses = self.loss(outputs, y[:, None])

    def steps(self) -> Iterator[None]:
        """Draw each remaining batch, take a step on the previous samples, and evaluate the networks on the new ones.

        Yields after each batch. Ctrl-C during the drawing changes nothing, because the step follows it.
        """
        for batch in self.batches:
            with np.errstate(over="ignore", invalid="ignore"):
                slope = self.activation.derivative(self.a) * np.repeat(self.errors, self.units, axis=1)
                self.W = self.W + self.lr / len(self.X) * (slope.T @ self.X)
                if self.biases:
                    self.b = self.b + self.lr * slope.mean(axis=0)
                if self.output_bias:
                    self.c = self.c + self.lr * self.errors.mean(axis=0)
            self._evaluate(*batch)
            yield

    def largest(self) -> float:
        """Return the largest absolute value of pre-activations and b₂."""
        return max(float(np.abs(self.a).max()), float(np.abs(self.c).max()))


class _Records:
    """Recorded steps, weights, biases and losses of a descent; `change` is the last mean change of a unit's IPR."""

    def __init__(self, descent: _OnlineDescent, checkpoints: list[int], stay: float | None) -> None:
        self.descent, self.checkpoints, self.stay = descent, checkpoints, stay
        self.limit = DIVERGENCE * max(1.0, descent.largest(), descent.units * float(np.abs(descent.y).max()))
        self.rows: list[tuple[Any, ...]] = []
        self.change: float | None = None

    def add(self, step: int) -> bool:
        """Record the networks; return True if `stay` ends the training here. InputError if it has diverged."""
        descent = self.descent
        # Saturated or inactive units have finite losses even if their weights diverge.
        if not (np.isfinite(descent.losses).all() and descent.largest() <= self.limit):
            raise InputError(f"training diverged by step {step}; use a smaller lr than {descent.lr:g}")
        self.rows.append((step, descent.W, descent.b, descent.c, descent.losses))
        if self.stay is None or step not in self.checkpoints[1:]:
            return False
        since = self.checkpoints[self.checkpoints.index(step) - 1]
        before = next(W for made, W, *_ in self.rows if made == since)
        self.change = float(np.abs(ipr(descent.W) - ipr(before)).mean())
        return self.change <= self.stay


def _batches(data: Any, steps: int, size: Any, seed: int, loss: str) -> tuple[int, Iterator[tuple[Array, Array]]]:
    if isinstance(data, Ring):
        n, batches = data.n, data.stream(steps + 1, checks.as_count(size, "batch_size"), seed=seed)
    elif isinstance(data, tuple | list) and len(data) == 2:
        X = checks.as_floats(data[0], "X", 2)
        n, batches = X.shape[1], repeat((X, checks.as_column(data[1], len(X), kind="target")), steps + 1)
    else:
        raise InputError(f"data must be a process on a ring, or a pair (X, y) of samples, not {shown(data)}")
    return n, _between_0_and_1(batches) if loss == "cross-entropy" else batches


def _between_0_and_1(batches: Iterator[tuple[Array, Array]]) -> Iterator[tuple[Array, Array]]:
    for X, y in batches:
        if y.min() < 0 or y.max() > 1:
            raise InputError("cross-entropy needs targets from 0 to 1, such as labels=(1.0, 0.0); or use squared loss")
        yield X, y


def _checkpoints(steps: int, stay: float | None) -> list[int]:
    """Return ⌈steps/16⌉, ⌈steps/8⌉, …, `steps`, after which receptive fields are compared; [] if `stay` is None."""
    if stay is None:
        return []
    checks.as_positive(stay, "stay")
    if steps < DIVISORS[0]:
        raise InputError(f"stay needs at least {DIVISORS[0]} steps, not {steps}; train longer or leave it out")
    return [-(-steps // divisor) for divisor in DIVISORS]


def _recorded(record: Any, steps: int) -> list[int]:
    """Return the sorted steps to record: 0, `steps`, and those given, or geometric ones, at most `record` in all."""
    if isinstance(record, Sequence | np.ndarray) and not isinstance(record, str | bytes):
        chosen = [checks.as_count(step, "a recorded step", least=0) for step in record]
        if max(chosen, default=0) > steps:
            raise InputError(
                f"record must hold steps of at most {steps}, not {max(chosen)}; train longer or leave it out"
            )
    else:
        count = checks.as_count(record, "record", least=2)
        # Rounding the geometric sequence could skip steps even if all of them are to be recorded.
        few = count <= steps
        chosen = np.geomspace(1, steps, count - 1)[:-1].round().astype(int).tolist() if few else list(range(steps))
    return sorted({0, steps, *chosen})
