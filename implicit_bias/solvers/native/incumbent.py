"""The state of a solve over all of its phases: its best answer, and the pace of its iterations."""

import numpy as np

from implicit_bias._utils.checks import Array
from implicit_bias.margin.problem import MarginProblem, balanced
from implicit_bias.margin.solution import Status
from implicit_bias.solvers.base import Answer, Options
from implicit_bias.solvers.native.interior_point import Bounds, upper_bound
from implicit_bias.solvers.native.settings import Settings


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
        self.bounds = Bounds(0.0, np.inf if problem.hard else float((problem.upper_bounds * self._required).sum()))
        self.weights, self.intercept, self.dual = np.zeros((features.k, features.d)), 0.0, np.zeros(features.n)

    @property
    def _required(self) -> Array:
        return np.broadcast_to(self.problem.required_margin, self.problem.features.n)

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
        problem, box = self.problem, None if self.problem.hard else self.problem.upper_bounds * self._required
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
