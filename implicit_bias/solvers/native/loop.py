"""What the methods of the native solver share: Mehrotra's loop, its pace, bounds, and the best answer so far."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from implicit_bias._utils.checks import Array
from implicit_bias.margin.problem import MarginProblem, balanced
from implicit_bias.margin.solution import Status
from implicit_bias.solvers.base import Answer, Options
from implicit_bias.solvers.native.algebra import Tensor, all_finite, as_numpy
from implicit_bias.solvers.native.settings import Settings

#: Share of the way to the boundary that a step of a linear program takes.
TO_BOUNDARY = 0.995


class Linearised(Protocol):
    """The optimality conditions, linearised at an iterate."""

    #: μ > 0, the mean product of a variable and its slack.
    mu: float

    def direction(self, target: float, guess: Any) -> Any:
        """Return the direction to products of `target`, including the second-order terms of `guess`, if it is given."""

    def ahead(self, guess: Any) -> float:
        """Return the mean product at the end of the longest step along `guess`."""

    def moved(self, direction: Any) -> Any:
        """Return the next iterate, or None if there is no progress."""


def descend_from(
    at: Any, observe: Callable[[Any], bool], linearised: Callable[[Any], Linearised], centring: float
) -> None:
    """Iterate from `at` until `observe(iterate)` is True, there is no progress, or the linear algebra breaks down.

    Nothing is returned: `observe` sees every iterate and keeps the results. `linearised` returns the conditions at an
    iterate, or raises ArithmeticError or LinAlgError.

    The first direction of an iteration aims at products of zero. The second one aims at σμ, with σ = (μ'/μ)³ for the
    mean product μ' that the first one would reach, and corrects its second-order terms. `centring` is the least σ.
    """
    while at is not None and not observe(at):
        try:
            system = linearised(at)
            guess = system.direction(0.0, None)
            sigma = min(1.0, max(centring, (system.ahead(guess) / system.mu) ** 3))
            at = system.moved(system.direction(system.mu * sigma, guess))
            # The next system needs the memory of this one.
            del system
        except (ArithmeticError, np.linalg.LinAlgError):
            return


def longest_step(values: Sequence[Any], changes: Sequence[Any]) -> float:
    """Return the longest step along `changes`, at most 1, that leaves none of the positive `values` negative."""
    falls = (float((-dv / v).max()) for v, dv in zip(values, changes, strict=True) if len(v))
    return 1 / max([*falls, 1.0])


class Pace:
    """Predict the time of the next iteration by its multiplications and the speed of the last one."""

    def __init__(self, options: Options, settings: Settings) -> None:
        self.options, self.settings, self.speed = options, settings, settings.speed
        self.seconds, self.work = 0.0, 0.0

    def stop(self, iteration: int, work: float) -> Status | None:
        """Return a status after Ctrl-C, or if the next iteration is likely to exceed the limit; 0 is the first."""
        seconds = self.options.deadline.seconds
        if iteration > 0 and self.work > 0 and seconds > self.seconds:
            self.speed = self.work / (seconds - self.seconds)
        self.seconds, self.work = seconds, work
        return self.options.stop(ahead=max(0.0, work / self.speed - self.settings.overrun))


@dataclass(frozen=True)
class Bounds:
    """Bounds of the optimum: `lower` is proved by some λ, and `upper` is the objective of some weights."""

    lower: float = 0.0
    upper: float = float("inf")

    @property
    def gap(self) -> float:
        """Relative gap 1 − lower/upper; infinity without an upper bound, and 0 if the upper bound is 0."""
        if self.upper == 0:
            return 0.0
        return 1.0 - self.lower / self.upper if self.upper < float("inf") else float("inf")

    def over(self, scale: float) -> "Bounds":
        """Return both bounds, divided by a scale."""
        return Bounds(self.lower / scale, self.upper / scale)


def upper_bound(value: float, margins: Tensor, box: Tensor | None) -> tuple[float, float]:
    """Return the objective of the best multiple tW, t ≥ 0, of weights with ‖W‖ = `value` and margins f (n,), and 1/t.

    With hard margins (`box` is None), 1/t is the smallest f_i, and the objective is infinite unless f_i > 0 for all i.
    With upper bounds p in `box`, t minimises t‖W‖ + Σ_i p_i (1 − t f_i)₊. A sample with f_i > 0 has slack up to t =
    1/f_i; the minimum is the last of these t up to which the objective falls, while ‖W‖ < Σ p_i f_i over the samples
    that still have slack. If no multiple is better than zero weights, 1/t is infinite; if f is not finite, both are.
    """
    if box is None:
        worst = float(margins.min())
        return (value / worst if worst > 0 else float("inf")), worst
    f, p = as_numpy(margins), as_numpy(box)
    if not all_finite(f):
        return float("inf"), float("inf")
    # Samples with f_i ≤ 0 always have slack, and p_i f_i ≤ 0.
    order = np.argsort(f)
    place = int(np.searchsorted(np.cumsum((p * f)[order]), value, "right"))
    least = f[order[place]] if place < len(f) else float("inf")
    # In the arithmetic of f: a bound may be so large that the rounding of t to a double costs much slack.
    t = 1 / f.dtype.type(least)
    if t == float("inf"):
        return float("inf"), 0.0
    return float(t * value) + float(p @ np.maximum(1.0 - t * f, 0.0)), least


def lower_bound(problem: MarginProblem, lam: Array, dual_norm: float) -> tuple[float, float]:
    """Return the dual objective of the best multiple of λ (n,) of this dual norm, and max_i λ_i/p_i (0 if hard)."""
    reach = 0.0 if problem.hard else float((lam / problem.upper_bounds).max())
    size = max(dual_norm, reach)
    total = float((problem.required_margin * lam).sum())
    return (total / size if size > 0 else float("inf") if total > 0 else 0.0), reach


def constant(problem: MarginProblem) -> tuple[float, float]:
    """Return the objective of zero weights and the best intercept among 0 and ± the extreme required margins."""
    if problem.hard:
        return np.inf, 0.0
    m = np.broadcast_to(problem.required_margin, problem.features.n)
    values = [0.0, *(sign * end for sign in (1, -1) for end in (m.min(), m.max()))][: 1 + 4 * problem.intercept]
    return min((float(problem.upper_bounds @ np.maximum(m - problem.y * b, 0.0)), float(b)) for b in values)


class Incumbent:
    """The best weights and the best λ that the phases of a solve have offered: only better ones replace them.

    A longer limit never gives a worse answer if it offers whatever a shorter one offers. Hence iterates between two
    checks are not offered when a limit ends a phase. `outer` is that of a problem which this one restricts.
    """

    def __init__(self, problem: MarginProblem, outer: "Incumbent | None" = None) -> None:
        features = problem.features
        self.problem, self.outer = problem, outer
        #: Bounds by `weights` and `intercept`, and by `dual`.
        slack = np.inf if problem.hard else float((problem.upper_bounds * problem.required_margin).sum())
        self.bounds = Bounds(0.0, slack)
        self.weights, self.intercept, self.dual = np.zeros((features.k, features.d)), 0.0, np.zeros(features.n)

    def offer(self, answer: Answer, bounds: Bounds | None = None, checked: bool = True) -> None:
        """Keep the weights and λ of an answer that are better; `bounds` are those they give, computed by default."""
        proven = bounds or self._bounds(answer)
        if proven.upper < self.bounds.upper or self.bounds.upper == np.inf:
            self.weights, self.intercept = answer.weights, answer.intercept
        if proven.lower > self.bounds.lower:
            self.dual = answer.dual
        self.bounds = Bounds(max(proven.lower, self.bounds.lower), min(proven.upper, self.bounds.upper))
        if self.outer is not None and checked:
            self.outer.offer(answer)

    def _bounds(self, answer: Answer) -> Bounds:
        problem = self.problem
        box = None if problem.hard else problem.upper_bounds * problem.required_margin
        f = problem.margins(answer.weights, answer.intercept) / problem.required_margin
        upper = upper_bound(problem.norm.value(answer.weights), f, box)[0]
        return Bounds(lower_bound(problem, answer.dual, problem.norm.dual(problem.adjoint(answer.dual)))[0], upper)

    def even(self) -> Array:
        """Return λ_i = 1/‖φ(x_i)‖ (n,); with a free intercept, those of one class are scaled down to Σ y_iλ_i = 0."""
        norms = self.problem.features.row_norms()
        lam = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
        return balanced(lam, self.problem.y) if self.problem.intercept else lam

    def answer(self, iterations: int, stopped: Status | None, reason: str = "") -> Answer:
        return Answer(self.weights, self.dual, iterations, stopped, self.intercept, reason=reason)
