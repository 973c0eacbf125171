"""Solvers that are called through CVXPY."""

import contextlib
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np

from implicit_bias._utils.deadline import Deadline, reclaim_signal
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solution import Status
from implicit_bias.solvers.base import Answer, Options, Solver

#: Names of the tolerances of first-order solvers.
EPSILONS = ("eps_abs", "eps_rel")
#: Largest iteration limit, because the solvers count in 32-bit integers.
MAX_ITERATIONS = 2**31 - 1
#: Seconds after the time limit in which a solver may return its best answer; then it is left behind.
GRACE = 0.1
#: Name of the threads of solvers.
LEFT_BEHIND = "solver that may be left behind"
#: Seconds between two looks at a solver that runs: its own handler of Ctrl-C is in place for no longer.
TICK = 0.005


@dataclass(frozen=True)
class CvxpySolver(Solver):
    """A solver called through CVXPY, with the names of its options and its own code for Ctrl-C."""

    name: str
    tolerances: tuple[str, ...]
    limit_option: str
    #: None if the solver has no time limit and is left behind.
    time_option: str | None
    #: Largest tolerance; smaller ones are a tenth of the relative gap.
    max_tolerance: float = 1e-8
    settings: dict[str, Any] = field(default_factory=dict)
    needs: str = "cone"
    takes: frozenset[str] = frozenset({"max_seconds"})
    #: True for a result that the solver's own handler of Ctrl-C ended, early in the solve.
    was_interrupted: Callable[[Any], bool] = lambda raw: False

    @property
    def installed(self) -> bool:
        return find_spec(self.name.lower()) is not None

    def refuses(self, problem: MarginProblem, options: Options) -> str | None:
        """Explain why the solver does not support `problem`; its package may be missing, as ECOS for Python 3.13."""
        if not self.installed:
            return f"it is not installed: pip install {self.name.lower()}, or choose another solver"
        return super().refuses(problem, options)

    def load(self) -> None:
        import implicit_bias.margin.program  # noqa: F401

    def translated(self, options: Options) -> dict[str, Any]:
        """Return the tolerance and limits of `solve` as options of this solver, by name."""
        settings = self.settings | dict.fromkeys(self.tolerances, min(self.max_tolerance, options.tol / 10))
        if options.max_iterations is not None:
            settings[self.limit_option] = min(options.max_iterations, MAX_ITERATIONS)
        left = options.deadline.left()
        if left is not None and self.time_option is not None:
            settings[self.time_option] = left
        return settings

    def __call__(self, problem: MarginProblem, options: Options) -> Answer:
        """Solve `problem` to a relative gap of about `options.tol`, with inputs and margins scaled to about 1.

        The answer is that of `problem` itself. Its weights or dual are zero if the solver returned none or was
        interrupted; `stopped` is the reason of an early stop (interrupt, time or iterations), else None.

        Right-hand sides of constraints forbid to scale weights up to a hard margin afterwards. There the required
        margins are first larger by a tenth of the tolerance.
        """
        if problem.hard and problem.affine:
            larger = problem.replace(required_margin=problem.required_margin * (1 + options.tol / 10))
            answer = self._answer(larger, options)
            if answer.weights.any() or answer.stopped is not None:
                return answer
        return self._answer(problem, options)

    def _answer(self, problem: MarginProblem, options: Options) -> Answer:
        import cvxpy as cp

        features, scale = problem.features, problem.features.scale()
        margin = float(np.mean(problem.required_margin))
        rows, required = features.scaled(1 / scale), problem.required_margin / margin
        constraints = None if problem.constraints is None else problem.constraints.scaled(scale / margin)
        unit = problem.replace(features=rows, C=problem.C * scale, required_margin=required, constraints=constraints)
        program = unit.cvxpy(quadratic=self.needs == "quadratic")
        chosen = {"solver": self.name, "canon_backend": "SCIPY"}

        def work() -> None:
            # Compiled first, and kept by the program, so that the solver's limit is the time that is left then.
            program.get_problem_data(**chosen)
            program.solve(**chosen, verbose=options.verbose, **self.translated(options))

        with warnings.catch_warnings():
            # CVXPY warns about inaccurate answers; the certificate measures them.
            warnings.simplefilter("ignore")
            # ECOS rejects some programs with a ValueError.
            with contextlib.suppress(cp.SolverError, ValueError):
                if not _on_a_thread(work, options.deadline):
                    return Answer(np.zeros((features.k, features.d)), np.zeros(features.n), -1, options.stop())
        if program.raw is not None and self.was_interrupted(program.raw):
            options.deadline.interrupt()
        weights, dual = program.weights.value, program.margin_constraint.dual_value
        b = program.intercept.value
        stats = program.solver_stats
        iterations = -1 if stats is None or stats.num_iters is None else int(stats.num_iters)
        stopped = options.stop()
        if stopped is None and iterations >= self.translated(options).get(self.limit_option, np.inf):
            stopped = Status.ITERATION_LIMIT
        return Answer(
            np.zeros((features.k, features.d)) if weights is None else weights * (margin / scale),
            np.zeros(features.n) if dual is None else dual / scale,
            iterations,
            stopped,
            0.0 if b is None else margin * float(b),
            None if constraints is None else constraints.multipliers(program.linear_constraints),
        )


def _on_a_thread(action: Callable[[], Any], deadline: Deadline) -> bool:
    """Run `action` on a thread, because compiled solvers ignore the deadline; return False if it passes first.

    Such solvers release the interpreter's lock. An abandoned thread ends by itself or with the process. An exception of
    `action` is raised here; one that is not an Exception, such as a panic, as a ValueError.
    """
    done, failures = threading.Event(), list[BaseException]()

    def run() -> None:
        try:
            action()
        except BaseException as error:
            failures.append(error)
        finally:
            done.set()

    threading.Thread(target=run, name=LEFT_BEHIND, daemon=True).start()
    while not done.wait(TICK):
        reclaim_signal()
        if deadline.passed(-GRACE):
            return False
    for failure in failures:
        # CLARABEL panics if an eigenvalue computation fails.
        raise failure if isinstance(failure, Exception) else ValueError(str(failure))
    return True


CVXPY_SOLVERS = {
    solver.name: solver
    for solver in (
        CvxpySolver("CLARABEL", ("tol_gap_rel", "tol_gap_abs", "tol_feas"), "max_iter", "time_limit"),
        CvxpySolver(
            "ECOS",
            ("abstol", "reltol", "feastol"),
            "max_iters",
            None,
            needs="second-order",
            # Interrupted before its first step, ECOS reports an inaccurate answer, with an exit flag from 10 to 12.
            was_interrupted=lambda raw: (
                raw["info"]["exitFlag"] == -4 or (raw["info"]["exitFlag"] >= 10 and raw["info"]["iter"] == 0)
            ),
        ),
        CvxpySolver(
            "OSQP",
            EPSILONS,
            "max_iter",
            "time_limit",
            np.inf,
            {"polishing": True, "max_iter": 100_000},
            needs="quadratic",
            was_interrupted=lambda raw: raw.info.status == "interrupted",
        ),
        CvxpySolver(
            "SCS",
            EPSILONS,
            "max_iters",
            "time_limit_secs",
            np.inf,
            {"max_iters": 100_000},
            was_interrupted=lambda raw: raw["info"]["status_val"] == -5,
        ),
    )
}
