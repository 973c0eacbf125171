"""Descending to the limit that Theorem 3.1 is about, which plain gradient descent only approaches like 1/log t.

For a network homogeneous of degree L, f_{Ru} = R^L f_u: its direction u = w/‖w‖ is all that matters in the limit, and
its norm R only says how sharply the loss tells the smallest margin from the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from implicit_bias.ground.checks import (
    InputError,
    as_count,
    as_floats,
    as_positive,
    as_signs,
    check_callable,
    check_range,
)
from implicit_bias.ground.scaling import largest_entries
from implicit_bias.ground.threads import one_thread
from implicit_bias.networks import GatedNetwork
from implicit_bias.training.homogeneous import Samples, log_sum_exp
from implicit_bias.training.sgd import LOSSES

#: A norm may grow while the residual is below this multiple of the gap between the mean and the minimum margin.
SLACK = 0.25
#: Share of the decrease that a step's length promises, to first order, which it must really bring.
ARMIJO = 0.4
#: Steps between two rows of the table: one fifth of the steps so far.
SPACING = 1.2


@dataclass(frozen=True)
class LossScaled:
    """Accelerated full-batch descent whose steps are scaled by 1/loss, on the weights w = Ru, ‖u‖ = 1.

        F_R(u) = R^{−L} log Σ_i exp(−R^L y_i f_u(x_i)),    ∇F_R(u) = −Σ_i p_i y_i ∇f_u(x_i),  p = softmax(−y f_w)
        v = normalised(u_k + m/(m+3) (u_k − u_{k−1})),     u_{k+1} = normalised(v − (a/R^L) P∇F_R(v)),  P = I − vvᵀ

    ∇F_R is the gradient of the exponential loss over the loss. The length a grows by 5 % a step and is halved until the
    step brings `ARMIJO` of what it promises; m counts the steps since the last one that went uphill (Nesterov's
    momentum with restarts). Left to itself R outruns u: the softmax then sees only a few samples and u stalls. So R
    grows only while ŵ is close to stationary,

        ‖P∇F_R‖ / ‖∇F_R‖ ≤ max(stationarity, SLACK · (Σ_i p_i q_i / min_i q_i − 1)),    q_i = y_i f_w(x_i)

    Parameters
    ----------
    tolerance : float
        The descent ends once log(n)/min_i q_i, a bound on what the smoothing costs of the margin, is at most this.
    stationarity : float
        Smaller is slower and ends closer to the limit; below 1.
    growth : float
        Factor of R^L a step where it grows, above 1.
    momentum : bool
        False leaves out the extrapolation (v = u_k).
    max_steps, max_seconds : int, float
        The descent ends there at the latest.

    Raises
    ------
    InputError
        For values out of range.

    Examples
    --------
    >>> from implicit_bias.training.limit import LossScaled
    >>> LossScaled(tolerance=0.01).stationarity
    0.02
    """

    tolerance: float = 1e-3
    stationarity: float = 0.02
    growth: float = 1.02
    momentum: bool = True
    max_steps: int = 1_000_000
    max_seconds: float = 600.0

    def __post_init__(self) -> None:
        as_positive(self.tolerance, "tolerance")
        if as_positive(self.stationarity, "stationarity") >= 1:
            raise InputError(f"stationarity must be below 1, not {self.stationarity!r}")
        if as_positive(self.growth, "growth") <= 1:
            raise InputError(f"growth must be above 1, not {self.growth!r}")
        as_count(self.max_steps, "max_steps")
        as_positive(self.max_seconds, "max_seconds", infinite=True)


@dataclass(frozen=True)
class PlainDescent:
    """Full-batch gradient descent on the mean logistic loss: w ← w − η ∇ (1/n) Σ_i log(1 + e^{−y_i f_w(x_i)}).

    Parameters
    ----------
    lr : float
        η, the same in every step.
    max_steps, max_seconds : int, float
        The descent ends there.

    Raises
    ------
    InputError
        For values out of range.

    Examples
    --------
    >>> from implicit_bias.training.limit import PlainDescent
    >>> PlainDescent(lr=0.1).max_steps
    10000
    """

    lr: float = 0.01
    max_steps: int = 10_000
    max_seconds: float = 600.0

    def __post_init__(self) -> None:
        as_positive(self.lr, "lr")
        as_count(self.max_steps, "max_steps")
        as_positive(self.max_seconds, "max_seconds", infinite=True)


@dataclass(frozen=True, eq=False)
class Descent:
    """What a descent to the limit did.

    Attributes
    ----------
    table : DataFrame
        A row before the descent, then at steps a fifth apart, and at the end: step; seconds since the start; log_loss
        log (1/n) Σ exp(−q_i) of the margins q_i = y_i f_w(x_i); margin min_i q_i; norm ‖w‖; normalised_margin =
        margin/‖w‖^L; residual, the sine of the angle between w and Σ_i p_i y_i ∇f_w(x_i), p = softmax(−q), which is 0
        where Theorem 3.1 holds with λ = p; and whatever `measure` returned.
    config : LossScaled or PlainDescent
    end : 'converged', 'max_steps', 'max_seconds' or 'interrupted'
    seconds : float

    >>> from implicit_bias.training.limit import Descent, LossScaled
    >>> Descent(pd.DataFrame({"step": [0]}), LossScaled(), "max_steps", 0.0).end
    'max_steps'
    """

    table: pd.DataFrame = field(repr=False)
    config: LossScaled | PlainDescent
    end: str
    seconds: float


def descend_to_limit(
    network: GatedNetwork,
    X: Any,
    y: Any,
    config: LossScaled | PlainDescent | None = None,
    *,
    measure: Callable[[GatedNetwork], dict[str, float]] | None = None,
    progress: Callable[[int, float], None] | None = None,
) -> Descent:
    """Drive a network from its present weights towards the limit of gradient descent, in place and in float64.

    A GLN's readout bias is set to 0 and stays there: with it f is not homogeneous, and the theorem is about networks
    without; the constant input gives each unit a bias of its own. The inputs are rotated to their rank, which
    commutes with descent and makes it faster.

    Parameters
    ----------
    network : GatedNetwork
        Of any depth, with fixed or learned gates. It keeps the weights of the last step however the descent ends
        (limits of time and steps, Ctrl-C), and becomes float64.
    X : array, shape (n, d); y : array of −1 and +1, shape (n,)
    config : LossScaled, the default, or PlainDescent for contrast
    measure : callable(network) → dict of numbers, optional
        Called for every row of the table, which its numbers join.
    progress : callable(step, seconds), optional
        Called every 50 steps.

    Raises
    ------
    InputError
        For bad arrays or labels, weights that are all zero, or a plain descent that diverges.

    Examples
    --------
    >>> from implicit_bias import ConstantGate, GatedLinearNetwork, HyperplaneGates, load_binary
    >>> from implicit_bias import optimality_ratio, solve, svm_shallow
    >>> from implicit_bias.training.limit import LossScaled, descend_to_limit
    >>> task = load_binary("digits", train_size=60)
    >>> network = GatedLinearNetwork(HyperplaneGates(1, 1).fit(task.X_pool), readout=False)
    >>> descent = descend_to_limit(network, task.X_train, task.y_train, LossScaled(tolerance=0.01))
    >>> problem = svm_shallow(task.X_train, task.y_train, ConstantGate())
    >>> ratio = optimality_ratio(problem, network.effective_weights(), solve(problem).objective)
    >>> descent.end, bool(1 <= ratio < 1.01)
    ('converged', True)
    """
    config = LossScaled() if config is None else config
    if not isinstance(network, GatedNetwork) or not isinstance(config, LossScaled | PlainDescent):
        raise InputError("descend_to_limit takes a GatedNetwork, and LossScaled(…) or PlainDescent(…) as its config")
    check_callable(measure, "measure")
    check_callable(progress, "progress")
    X = as_floats(X, "X", 2)
    signs = as_signs(y, len(X))
    check_range(largest_entries(X).max(keepdims=True), "the inputs X", 1e-100, 1e100)
    start = time.perf_counter()
    with one_thread():
        samples = Samples(network, X, signs)
        stepper = _Scaled(samples, config) if isinstance(config, LossScaled) else _Plain(samples, config)
        rows: list[dict[str, float]] = []

        def record(step: int) -> None:
            row = {"step": step, "seconds": time.perf_counter() - start} | samples.state(stepper.weights)
            samples.write(stepper.weights)
            rows.append(row | (measure(network) if measure else {}))

        end = _loop(stepper, config, record, start, progress)
    return Descent(pd.DataFrame(rows), config, end, time.perf_counter() - start)


def _loop(
    stepper: _Scaled | _Plain,
    config: LossScaled | PlainDescent,
    record: Callable[[int], None],
    start: float,
    progress: Callable[[int, float], None] | None,
) -> str:
    step, recorded, end = 0, 0, "max_steps"
    record(0)
    try:
        while step < config.max_steps and end == "max_steps":
            stepper.step()
            step += 1
            seconds = time.perf_counter() - start
            end = "converged" if stepper.converged else "max_seconds" if seconds > config.max_seconds else end
            if step > SPACING * recorded:
                record(step)
                recorded = step
            if progress is not None and step % 50 == 0:
                progress(step, seconds)
    except KeyboardInterrupt:
        end = "interrupted"
    if recorded < step:
        record(step)
    return end


class _Scaled:
    """The iteration of `LossScaled`."""

    def __init__(self, samples: Samples, config: LossScaled) -> None:
        self.samples, self.config = samples, config
        self.radius = float(samples.start.norm())
        self.u = self.before = samples.start / self.radius
        self.length, self.run, self.converged = 1.0, 0, False

    @property
    def weights(self) -> Tensor:
        return self.radius * self.u

    def step(self) -> None:
        """One step from u_k to u_{k+1}, and R."""
        sharpness = self.radius**self.samples.degree
        v = _unit(self.u + self.run / (self.run + 3) * (self.u - self.before))
        value, gradient, margins = self.samples.gradient(self.radius * v, log_sum_exp)
        gradient *= self.radius / sharpness
        radial = float(gradient @ v)
        tangent = gradient - radial * v
        new = self._search(v, float(value) / sharpness, tangent, sharpness)
        uphill = float(tangent @ (new - self.u)) > 0
        self.run = 0 if uphill or not self.config.momentum else self.run + 1
        self.before, self.u = self.u, new
        self._grow(margins, -radial, float(tangent.norm()), sharpness)

    def _search(self, v: Tensor, value: float, tangent: Tensor, sharpness: float) -> Tensor:
        """The step from v along −P∇F_R, its length halved until it brings what it promises."""
        square = float(tangent @ tangent)
        # As a share of u, which large gradients of large inputs would leave far behind.
        reach = max(1.0, square**0.5 / sharpness)
        while True:
            rate = self.length / sharpness
            new = _unit(v - rate * tangent)
            reached = float(log_sum_exp(self.samples.margins(self.radius * new))) / sharpness
            if reached <= value - ARMIJO * rate * square + 1e-14 * abs(value) or self.length * reach < 1e-12:
                self.length *= 1.05
                return new
            self.length /= 2

    def _grow(self, margins: Tensor, radial: float, tangential: float, sharpness: float) -> None:
        """Let R grow where the direction has kept up, and see whether the end is reached."""
        smallest = float(margins.min())
        mean = radial * sharpness / self.samples.degree
        gap = min(1.0, mean / smallest - 1) if smallest > 0 else 1.0
        settled = tangential <= max(self.config.stationarity, SLACK * gap) * float(np.hypot(radial, tangential))
        if settled and radial > 0:
            self.converged = smallest > 0 and np.log(len(margins)) <= self.config.tolerance * smallest
            if not self.converged:
                self.radius *= self.config.growth ** (1 / self.samples.degree)


class _Plain:
    """The iteration of `PlainDescent`."""

    converged = False

    def __init__(self, samples: Samples, config: PlainDescent) -> None:
        self.samples, self.lr, self.weights = samples, config.lr, samples.start

    def step(self) -> None:
        """One step of gradient descent."""
        value, gradient, _ = self.samples.gradient(self.weights, lambda q: LOSSES["logistic"](q).mean())
        if not bool(value.isfinite()):
            raise InputError(f"plain descent diverged; use a smaller lr than {self.lr}")
        self.weights = self.weights - self.lr * gradient


def _unit(vector: Tensor) -> Tensor:
    return vector / vector.norm()
