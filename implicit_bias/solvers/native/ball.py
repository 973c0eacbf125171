"""Margin problems as programs over the unit ball of a norm: bounds, limits, and the loop of their solvers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from implicit_bias._utils.checks import Array
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solution import Status
from implicit_bias.solvers.base import Answer, Options, Progress, end_line
from implicit_bias.solvers.native.interior_point import balanced
from implicit_bias.solvers.native.mehrotra import Linearised, descend_from
from implicit_bias.solvers.native.settings import Settings

#: Iterations after which a method ends; it needs 10 to 40.
ITERATIONS = 200
#: Lower bound of the norm of separating weights, for inputs of length about 1, above which none are sought.
LARGEST_NORM = 1e9


class BallProgram(ABC):
    """The program of a margin problem: its required margins m, the bounds p of λ, and an interior point."""

    def __init__(self, problem: MarginProblem) -> None:
        self.problem, self.hard, self.intercept = problem, problem.hard, problem.intercept
        self.m = np.full(problem.features.n, problem.required_margin)
        self.p = None if problem.hard else problem.upper_bounds

    @abstractmethod
    def start(self) -> Any:
        """Return an iterate in the interior of the ball, at which all variables with a sign are positive."""

    @abstractmethod
    def linearised(self, at: Any) -> Linearised:
        """Return the optimality conditions at an iterate, or raise LinAlgError."""

    @abstractmethod
    def solution(self, at: Any) -> tuple[Array, float]:
        """Return the weights (k, d) and the intercept of an iterate; its attribute `lam` is λ."""

    def sizes(self, at: Any, W: Array, V: Array) -> tuple[float, float]:
        """Return ‖W‖ and ‖V‖_*, or upper bounds that are close to them near the optimum; W and V are (k, d)."""
        return self.problem.norm.value(W), self.problem.norm.dual(V)

    def balanced(self, lam: Array) -> Array:
        """Return λ with Σ y_iλ_i = 0 if the intercept is free: those of one class are reduced in proportion."""
        return np.asarray(balanced(lam, self.problem.y)) if self.intercept else lam


class BallDescent:
    """State of `solve_in_ball` for `descend_from`: the best weights, the best λ, their bounds, and the limit reached.

    `ends(count, lower, upper, gap)` is called at every iterate and returns the status of a limit, or None.
    """

    def __init__(self, program: BallProgram, ends: Callable[..., Status | None], tol: float) -> None:
        self.program, self.ends, self.tol = program, ends, tol
        self.count, self.lower, self.upper = -1, 0.0, np.inf
        self.weights: tuple[Array, float] = (np.zeros(0), 0.0)
        self.lam = np.zeros_like(program.m)
        self.stopped: Status | None = None

    def linearised(self, at: Any) -> Linearised:
        return self.program.linearised(at)

    def finished(self, at: Any) -> bool:
        """Update the bounds, and return True at the tolerance, at a limit, or if the margin is zero."""
        self.count += 1
        program, problem, (W, b) = self.program, self.program.problem, self.program.solution(at)
        m, f, lam = program.m, problem.margins(W, b), program.balanced(at.lam)
        value, size = program.sizes(at, W, problem.adjoint(lam))
        if program.p is None:
            least = float((f / m).min())
            upper = value / least if least > 0 else np.inf
            lower = float(m @ lam) / size if size > 0 else np.inf
        else:
            upper = value + float(program.p @ np.maximum(m - f, 0.0))
            lower = float(m @ lam) / max(size, 1.0)
        if upper < self.upper or self.count == 0:
            self.upper, self.weights = upper, (W, b)
        if lower > self.lower:
            self.lower, self.lam = lower, lam
        gap = 1 - self.lower / self.upper if self.upper < np.inf else np.inf
        self.stopped = self.ends(self.count, self.lower, self.upper, gap)
        inseparable = program.hard and self.lower > LARGEST_NORM
        return self.stopped is not None or gap <= self.tol or inseparable


def solve_in_ball(
    problem: MarginProblem,
    program_of: Callable[[MarginProblem], BallProgram],
    options: Options,
    settings: Settings,
    least_centring: float,
) -> Answer:
    """Return weights and dual of a margin problem to a gap of `options.tol`.

    `program_of` takes the problem in units in which inputs and required margins are about 1.
    """
    # Inputs of length about 1, and required margins of mean 1.
    scale, margin = problem.features.scale(), float(np.mean(problem.required_margin))
    ours = problem.replace(
        features=problem.features.scaled(1 / scale),
        required_margin=problem.required_margin / margin,
        C=problem.C * scale,
    )
    limit = ITERATIONS if options.max_iterations is None else options.max_iterations
    last: float | None = None

    def ends(count: int, lower: float, upper: float, gap: float) -> Status | None:
        nonlocal last
        seconds = options.deadline.seconds
        step, last = 0.0 if last is None else seconds - last, seconds
        n, unit = ours.features.n, margin / scale
        options.report(Progress(count, seconds, lower * unit, upper * unit, gap, n, n))
        if count >= limit:
            return Status.ITERATION_LIMIT
        return options.stop(ahead=max(0.0, step - settings.overrun))

    program = program_of(ours)
    descent = BallDescent(program, ends, options.tol / 2)
    descend_from(program.start(), descent, least_centring)
    if options.verbose:
        end_line()
    W, b = descent.weights
    return Answer(W * margin / scale, descent.lam / scale, descent.count, descent.stopped, b * margin)
