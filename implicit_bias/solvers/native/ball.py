"""Margin problems as programs over the unit ball of a norm: bounds, limits, and the loop of their solvers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from implicit_bias._utils.checks import Array
from implicit_bias.margin.problem import MarginProblem, balanced
from implicit_bias.margin.solution import Status
from implicit_bias.solvers.base import Answer, Options, Progress
from implicit_bias.solvers.native.incumbent import Incumbent, Pace, lower_bound
from implicit_bias.solvers.native.interior_point import Bounds, upper_bound
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


class BallDescent:
    """State of `solve_in_ball` for `descend_from`: every iterate is offered to `incumbent`.

    `program` is in units in which weights are `size` times, and λ is 1/`scale` times those of the problem.
    `ends(count, gap)` is called at every iterate and returns the status of a limit, or None.
    """

    def __init__(self, program: BallProgram, incumbent: Incumbent, ends: Callable[..., Status | None], tol: float):
        self.program, self.incumbent, self.ends, self.tol = program, incumbent, ends, tol
        self.scale = incumbent.problem.features.scale()
        self.margin = float(np.mean(incumbent.problem.required_margin))
        self.count = -1
        self.stopped: Status | None = None

    def linearised(self, at: Any) -> Linearised:
        return self.program.linearised(at)

    def finished(self, at: Any) -> bool:
        """Update the bounds, and return True at the tolerance, at a limit, or if the margin is zero."""
        self.count += 1
        program, problem, (W, b, dual) = self.program, self.program.problem, self.program.solution(at)
        lam, unit = balanced(dual, problem.y) if program.intercept else dual, self.margin / self.scale
        value, size = program.sizes(at, W, problem.adjoint(lam))
        box = None if program.p is None else program.p * program.m
        upper = upper_bound(value, problem.margins(W, b) / program.m, box)[0]
        bounds = Bounds(lower_bound(problem, lam, size)[0] * unit, upper * unit)
        self.incumbent.offer(Answer(W * unit, lam / self.scale, 0, None, b * self.margin), bounds)
        best = self.incumbent.bounds
        self.stopped = self.ends(self.count, best)
        inseparable = program.hard and best.lower > LARGEST_NORM * unit
        return self.stopped is not None or best.gap <= self.tol or inseparable


def solve_in_ball(
    incumbent: Incumbent,
    program_of: Callable[[MarginProblem], BallProgram],
    options: Options,
    settings: Settings,
    least_centring: float,
) -> Answer:
    """Return weights and dual of a margin problem to a gap of `options.tol`.

    `program_of` takes the problem in units in which inputs and required margins are about 1.
    """
    problem = incumbent.problem
    # Inputs of length about 1, and required margins of mean 1.
    scale, margin = problem.features.scale(), float(np.mean(problem.required_margin))
    ours = problem.replace(
        features=problem.features.scaled(1 / scale),
        required_margin=problem.required_margin / margin,
        C=problem.C * scale,
    )
    limit = ITERATIONS if options.max_iterations is None else options.max_iterations
    pace, (n, k, d) = Pace(options, settings), problem.features.shape

    def ends(count: int, best: Bounds) -> Status | None:
        options.report(Progress(count, options.deadline.seconds, best.lower, best.upper, best.gap, n, n))
        return Status.ITERATION_LIMIT if count >= limit else pace.stop(count, n**2 * (n / 3 + k * d))

    program = program_of(ours)
    descent = BallDescent(program, incumbent, ends, options.tol / 2)
    descend_from(program.start(), descent, least_centring)
    return incumbent.answer(descent.count, descent.stopped)
