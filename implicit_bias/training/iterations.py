"""Descents to the limit: with steps scaled by the loss, and plain descent."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from implicit_bias._utils.checks import InputError, as_count, as_positive
from implicit_bias.training.homogeneous import MarginFunction, Objective
from implicit_bias.training.one_layer import SpanFunction, WeightFunction

#: A norm may grow while the residual is below this multiple of the gap between the mean and the minimum margin.
SLACK = 0.25
#: Share of the decrease predicted to first order that a step must achieve.
ARMIJO = 0.4
#: Shortest step of a network with learned gates, in units of 1/‖∇F_R‖²: it is taken even if F_R does not decrease.
KINK = 1e-4


class Iteration(ABC):
    """The state of a descent: its weights, and a step, which returns True once the descent has converged."""

    weights: Tensor
    #: True if the last row of the table shows that the descent has converged.
    converged = False

    @abstractmethod
    def step(self) -> bool:
        """Make a step; return True if the descent has converged."""

    def state(self) -> dict[str, float]:
        """Return the columns of a row of the table that replace those of `MarginFunction.state`, or are added."""
        return {}


class Descent(ABC):
    """Base class of descents to the limit; a subclass defines `stepper`."""

    max_steps: int
    max_seconds: float
    #: True if rotating the inputs does not change the path of the descent.
    rotation_invariant = True

    def __post_init__(self) -> None:
        as_count(self.max_steps, "max_steps")
        as_positive(self.max_seconds, "max_seconds", infinite=True)

    @abstractmethod
    def stepper(self, function: MarginFunction) -> Iteration:
        """Return the iteration from the function's start."""


@dataclass(frozen=True)
class LossScaled(Descent):
    """Accelerated full-batch descent whose steps are scaled by 1/loss, on the weights w = Ru, ‖u‖ = 1.

        F_R(u) = R^{−L} log Σ_i exp(−R^L y_i f_u(x_i)),    ∇F_R(u) = −Σ_i p_i y_i ∇f_u(x_i),  p = softmax(−y f_w)
        v = normalised(u_k + m/(m+3) (u_k − u_{k−1})),     u_{k+1} = normalised(v − (a/R^L) P∇F_R(v)),  P = I − vvᵀ

    ∇F_R is the gradient of the exponential loss divided by the loss. The length a grows by 5 % a step and is halved
    until the step achieves the share `ARMIJO` of the decrease predicted to first order; m counts the steps since the
    last one uphill (Nesterov's momentum with restarts). If R grew faster than u converges, the softmax would depend on
    few samples only, and u would stall. Therefore R grows only while ŵ = w/‖w‖ is close to stationary,

        ‖P∇F_R‖ / ‖∇F_R‖ ≤ max(stationarity, SLACK · (Σ_i p_i q_i / min_i q_i − 1)),    q_i = y_i f_w(x_i)

    With learned gates f has kinks, where F_R may increase along −∇F_R and the residual need not vanish. A step that
    would have to be shorter than `KINK`/‖∇F_R‖² is then taken at that length, as in subgradient descent, and R grows.

    Parameters
    ----------
    tolerance : float
        The descent ends once log(n)/min_i q_i, a bound of the relative loss of margin by smoothing, is at most this.
    stationarity : float
        Bound in the rule above, below 1. Smaller values are slower and end closer to the limit.
    growth : float
        Factor of R^L in a step after which R grows, above 1.
    momentum : bool
        False leaves out the extrapolation (v = u_k).
    max_steps, max_seconds : int, float
        Limits of the descent.
    preconditioned : bool
        Step along P M⁻¹ P∇F_R(v) instead, M a bound on the curvature of F_R (`WeightFunction`): several times fewer
        steps where inputs are far from the origin or many, more where weights are far too large. For networks with
        one hidden layer, a readout, fixed gates and at most 16 contexts per unit, whose stationary points are the same;
        where gates learn, the path decides which one is found.
    margin : float
        The descent does not end before the normalised margin min_i q_i/‖w‖^L is at least this. With fixed gates, the
        certificate of the margin problem gives the largest possible value; choose one a few per cent below.

    Raises
    ------
    InputError
        If a value is out of range.

    Examples
    --------
    >>> from implicit_bias.training.iterations import LossScaled
    >>> LossScaled(tolerance=0.01).stationarity
    0.02
    """

    tolerance: float = 1e-3
    stationarity: float = 0.02
    growth: float = 1.02
    momentum: bool = True
    max_steps: int = 1_000_000
    max_seconds: float = 600.0
    preconditioned: bool = False
    margin: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        as_positive(self.tolerance, "tolerance")
        if as_positive(self.stationarity, "stationarity") >= 1:
            raise InputError(f"stationarity must be below 1, not {self.stationarity!r}")
        if as_positive(self.growth, "growth") <= 1:
            raise InputError(f"growth must be above 1, not {self.growth!r}")
        as_positive(self.margin, "margin", zero=True)

    def stepper(self, function: MarginFunction) -> "ScaledIteration":
        """Return the iteration on the function in its cheapest form; raise InputError if it cannot be preconditioned.

        `SpanFunction` and `WeightFunction` need one hidden layer with a readout and equally many parts per unit.
        """
        layers = [layer for layer in function.layers if layer and layer.has_formulas]
        one_layer = len(layers) == len(function.layers) and len({layer.parts for layer in layers}) == 1
        if self.preconditioned and (function.has_kinks or not one_layer):
            kind = "one hidden layer, a readout, fixed gates and at most 16 contexts per unit"
            raise InputError(f"preconditioned=True takes networks with {kind}; use False")
        objective: Objective = function
        if one_layer:
            (n, d), preconditioned = function.inputs.shape, self.preconditioned
            on_weights = preconditioned or n > 2 * d
            objective = WeightFunction(function, preconditioned) if on_weights else SpanFunction(function)
        return ScaledIteration(objective, self)


@dataclass(frozen=True)
class PlainDescent(Descent):
    """Full-batch gradient descent on the mean logistic loss: w ← w − η ∇ (1/n) Σ_i log(1 + e^{−y_i f_w(x_i)}).

    For several outputs the loss is the cross-entropy of their softmax, log(1 + Σ_{c≠y_i} e^{f_c(x_i) − f_{y_i}(x_i)}).

    Parameters
    ----------
    lr : float
        η, the same in every step.
    max_steps, max_seconds, and errors : as for `LossScaled`

    Examples
    --------
    >>> from implicit_bias.training.iterations import PlainDescent
    >>> PlainDescent(lr=0.1).max_steps
    10000
    """

    lr: float = 0.01
    max_steps: int = 10_000
    max_seconds: float = 600.0

    def __post_init__(self) -> None:
        super().__post_init__()
        as_positive(self.lr, "lr")

    def stepper(self, function: MarginFunction) -> "PlainIteration":
        """Return the iteration on all weights."""
        return PlainIteration(function, self)


class ScaledIteration(Iteration):
    """The iteration of `LossScaled`."""

    def __init__(self, function: Objective, config: LossScaled) -> None:
        self.function, self.config = function, config
        self.radius = function.dot(function.start, function.start) ** 0.5
        self.u = function.start / self.radius
        self.before = self.u
        self.length, self.run, self.crossing = 1.0, 0, False
        #: Norm of the weights that no output depends on, which never change.
        self.still = float(np.hypot.reduce([0.0, *(float(part.norm()) for part in function.rest)]))

    @property
    def weights(self) -> Tensor:  # type: ignore[override]
        """w = Ru."""
        return self.function.flat(self.radius * self.u)

    def step(self) -> bool:
        """Make a step from u_k to u_{k+1}, and of R; return True if the descent has converged."""
        function = self.function
        sharpness = self.radius**function.degree
        self.u, self.before = function.around(self.u, self.before, self.radius)
        momentum = self.run / (self.run + 3)
        v = self._unit(function.mix(1 + momentum, self.u, -momentum, self.before))
        value, gradient, margins = function.gradient(v, self.radius)
        radial = function.dot(gradient, v)
        tangent = function.tangent(gradient, radial, v)
        # In `SpanFunction`, rounding may make it negative.
        square = max(function.dot(tangent, tangent), 0.0)
        direction = function.direction(tangent, radial, v, self.radius)
        promised, long = square, square**0.5
        if direction is not tangent:
            promised, long = function.dot(tangent, direction), function.dot(direction, direction) ** 0.5
        # Steps are compared with u, because gradients of large inputs are far longer.
        shortest = 1e-12 / max(1.0, long / sharpness)
        if function.has_kinks and square + radial**2 > 0:
            shortest = max(shortest, KINK / (square + radial**2))
        new = self._search(v, value / sharpness, direction, promised, sharpness, shortest)
        uphill = function.dot(tangent, new) > function.dot(tangent, self.u)
        self.run = 0 if uphill or not self.config.momentum else self.run + 1
        self.before, self.u = self.u, new
        return self._grow(margins, -radial, square**0.5, sharpness)

    def _search(self, v: Any, value: float, direction: Any, promised: float, sharpness: float, shortest: float) -> Any:
        """Return the unit vector at the end of a step from v along −`direction`; set `length` and `crossing`.

        `value` is the loss at v over `sharpness` = R^L, and `promised` the decrease per unit of the step's rate.
        """
        while True:
            rate = self.length / sharpness
            new = self._unit(self.function.mix(1.0, v, -rate, direction))
            reached = self.function.loss(new, self.radius) / sharpness
            decreased = reached <= value - ARMIJO * rate * promised + 1e-14 * abs(value)
            if decreased or self.length < shortest:
                self.crossing = self.function.has_kinks and not decreased
                self.length *= 1.05
                return new
            self.length /= 2

    def _unit(self, vector: Any) -> Any:
        vector /= self.function.dot(vector, vector) ** 0.5
        return vector

    def _grow(self, margins: Any, radial: float, tangential: float, sharpness: float) -> bool:
        """Let R grow if u is close to stationary; return True, without growth, if the descent has converged."""
        smallest = float(margins.min())
        gap = min(1.0, radial * sharpness / self.function.degree / smallest - 1) if smallest > 0 else 1.0
        settled = tangential <= max(self.config.stationarity, SLACK * gap) * float(np.hypot(radial, tangential))
        if not ((settled or self.crossing) and radial > 0):
            return False
        sharp = smallest > 0 and np.log(self.function.count) <= self.config.tolerance * smallest
        # The margins are those before the step, the weights those after it.
        if sharp and self._is_wide(margins) and self._is_wide(self.function.gradient(self.u, self.radius)[2]):
            return True
        self.radius *= self.config.growth ** (1 / self.function.degree)
        return False

    def _is_wide(self, margins: Any) -> bool:
        """True if min q/‖w‖^L, for margins q at the radius R, is at least `margin` of the configuration."""
        norm = float(np.hypot(self.radius, self.still))
        return float(margins.min()) >= self.config.margin * norm**self.function.degree


class PlainIteration(Iteration):
    """The iteration of `PlainDescent`."""

    def __init__(self, function: MarginFunction, config: PlainDescent) -> None:
        self.function, self.lr, self.weights = function, config.lr, function.start

    def step(self) -> bool:
        """Make a step of gradient descent; return False, as nothing tests convergence. InputError if it diverges."""
        n = len(self.function.y)
        # The loss is the mean over samples of log(1 + Σ_c e^{−q_ic}).
        value, gradient, margins = self.function.gradient(
            self.weights, 1.0, lambda q: softplus(torch.logsumexp(-q.view(n, -1), 1)).mean()
        )
        self.weights = self.weights - self.lr * gradient
        # With larger weights, outputs overflow when the network is evaluated.
        small = float(self.weights.abs().max()) < 1e100
        if not (small and np.isfinite(value) and bool(margins.isfinite().all())):
            raise InputError(f"plain descent diverged; use a smaller lr than {self.lr:g}")
        return False
