"""Gradient descent of networks with a mean readout, whose gates learn: what the closed forms are held against."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from implicit_bias._utils.checks import (
    Array,
    InputError,
    as_count,
    as_floats,
    as_positive,
    as_seed,
    check_callable,
    check_size,
    one_of,
)
from implicit_bias._utils.threads import Interruptible
from implicit_bias.extensions.gated_flow.online_steps import LOSSES, OnlineDescent, State, batches_of, between_0_and_1
from implicit_bias.extensions.gated_flow.receptive_fields import ipr
from implicit_bias.extensions.gated_flow.rings import Ring
from implicit_bias.extensions.infinite.activations import Activation
from implicit_bias.extensions.infinite.activations import activation as activation_of

#: How many times beyond those of the start, 1 and K · targets pre-activations or b₂ are when training has diverged.
FAR = 1e8
#: Fields are looked at after these parts of the steps, from the first to the last: each half of the next.
HALVINGS = (16, 8, 4, 2, 1)


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
    output_biases : array, shape (T, R)
        b₂, zeros in networks without.
    losses : array, shape (T, R)
        The loss over the samples of the next step: fresh ones, unless samples were given.
    change : float or None
        With `stay`: how much the IPRs of units have changed on average in the second half of the training.
    interrupted : bool
        Whether Ctrl-C ended it early; the last record is then that of the interruption.

    Examples
    --------
    >>> from implicit_bias.extensions.gated_flow.rings import nonlinear_gaussian_process
    >>> from implicit_bias.extensions.gated_flow import train_online
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
    """Descend L = ⟨(y − ŷ)²⟩ of ŷ = (1/K) Σ_k σ(w_kᵀx + b_k) + b₂, with fresh samples at every step.

        w_k ← w_k − ½ lr K ∂L/∂w_k = w_k + lr ⟨(y − ŷ) σ′(w_kᵀx + b_k) x⟩,   b_k alike, where there are biases
        b₂ ← b₂ − ½ lr ∂L/∂b₂ = b₂ + lr ⟨y − ŷ⟩, where there is one

    so that units move alike at every K. Cross-entropy, L = ⟨log(1 + e^ŷ) − yŷ⟩, has no ½ and 1/(1 + e^−ŷ) in place of
    ŷ on the right. After s steps the time is t = lr · s: as lr → 0 with gates g that do not flip, ReLU networks follow
    K · gradient_flow(features, w₀/K, times, y=y).weights(), where τ = 1.

    Parameters
    ----------
    data : Ring, or X (m, n) and y (m,)
        A process, `batch_size` samples of which are drawn for each step; or samples, all of which make each step.
    units : int
        K.
    activation : str or Activation
        σ, by a name of `infinite.activation` or made by one of the functions there.
    steps : int
    stay : float, optional
        Train until the fields stay: `steps`, then at least 16, are the most, and training ends after ⅛, ¼ or ½ of them
        already if since half that time the IPR of a unit's w_k has changed by at most `stay` on average.
    lr : float
    loss : {"squared", "cross-entropy"}
        Cross-entropy is for targets from 0 to 1.
    batch_size : int
        For a process.
    scale : float
        w_k ~ N(0, scale²/n · I), b_k = b₂ = 0 at the start.
    biases, output_bias : bool
        Whether b_k, and b₂, are trained; otherwise they stay 0.
    repeats : int
        R networks that differ in their start only: they see the same samples.
    record : int, or numbers of steps
        At most how many times are recorded, at a constant ratio as far as whole numbers allow; or after which steps.
        The start and the end are recorded in any case, and with `stay` the times at which fields are looked at.
    seed : int
        The samples are those of `data.stream(steps + 1, batch_size, seed=seed)`.
    progress : callable(step, loss), optional
        Called at every recorded time with the mean loss of the networks. Ctrl-C, or a KeyboardInterrupt that it raises,
        ends training: what was recorded is kept, with the latest weights.

    Raises
    ------
    InputError
        For values out of range, samples that are not finite, and training that diverges: at a recorded time losses are
        not finite, or pre-activations or b₂ 10⁸ times beyond the largest at the start, 1 and K · targets.

    References
    ----------
    Ingrosso & Goldt (2022), "Data-driven emergence of convolutional structure in neural networks", for the setting.

    Examples
    --------
    >>> from implicit_bias.extensions.gated_flow.rings import nonlinear_gaussian_process
    >>> from implicit_bias.extensions.gated_flow import train_online
    >>> from implicit_bias.extensions.gated_flow.receptive_fields import ipr
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
    n, batches = batches_of(data, steps, batch_size, as_seed(seed))
    descent = OnlineDescent(chosen, units, lr, LOSSES[one_of(loss, LOSSES, "loss")], bool(biases), bool(output_bias))
    if loss == "cross-entropy":
        batches = between_0_and_1(batches)
    looks = _looks(steps, stay)
    times = {*_recorded(record, steps), *looks}
    check_size(len(times) * repeats * units * n, "the weights at all times")
    # A stream of its own: the samples' is begun from the bare seed.
    W = scale / np.sqrt(n) * np.random.default_rng([seed, 1]).normal(size=(repeats * units, n))
    kept: list[State] = []
    latest, change = None, None
    with Interruptible() as run:
        for latest in descent(batches, W):
            if latest.step in times:
                kept.append(_checked(latest, kept, units, lr))
                if progress is not None:
                    progress(latest.step, float(latest.losses.mean()))
            if latest.step in looks[1:]:
                change = _change(kept, looks[looks.index(latest.step) - 1])
                if change <= (stay or 0.0):
                    break
    if latest is None:
        # Nothing was made that could be kept.
        raise KeyboardInterrupt
    if run.interrupted and (not kept or kept[-1] is not latest):
        kept.append(_checked(latest, kept, units, lr))
    parts = (np.array([getattr(state, part) for state in kept]) for part in ("step", "W", "b", "c", "losses"))
    made, W, b, c, losses = parts
    shape = (len(kept), repeats, units)
    found = (made, W.reshape(*shape, n), b.reshape(shape), c, losses)
    return OnlineTraining(chosen.name, lr, *found, change, run.interrupted)


def _looks(steps: int, stay: float | None) -> list[int]:
    """The steps after which fields are looked at, in order."""
    if stay is None:
        return []
    as_positive(stay, "stay")
    if steps < HALVINGS[0]:
        raise InputError(f"stay needs at least {HALVINGS[0]} steps, not {steps}; train longer or leave it out")
    return [-(-steps // part) for part in HALVINGS]


def _change(kept: list[State], since: int) -> float:
    """The mean change of the units' IPR from a recorded step to the last."""
    before = next(state for state in kept if state.step == since)
    return float(np.abs(ipr(kept[-1].W) - ipr(before.W)).mean())


def _checked(state: State, kept: list[State], units: int, lr: float) -> State:
    """The state, if training is sane."""
    first = kept[0] if kept else state
    # Units that saturate or are silent have finite losses wherever their weights are.
    if np.isfinite(state.losses).all() and state.largest <= FAR * max(1.0, first.largest, units * first.target):
        return state
    raise InputError(f"training diverged by step {state.step}; use a smaller lr than {lr:g}")


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
