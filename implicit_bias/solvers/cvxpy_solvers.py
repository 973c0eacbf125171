"""Solvers that are called through CVXPY."""

import contextlib
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np

from implicit_bias._utils.threads import Interruptible
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solution import Status
from implicit_bias.solvers.base import Answer, Options, Solver

#: Names of the tolerances of first-order solvers.
EPSILONS = ("eps_abs", "eps_rel")
#: Largest iteration limit, because the solvers count in 32-bit integers.
MAX_ITERATIONS = 2**31 - 1


@dataclass(frozen=True)
class CvxpySolver(Solver):
    """A solver called through CVXPY, with the names of its options."""

    name: str
    tolerances: tuple[str, ...]
    limit_option: str
    time_option: str | None
    #: Largest tolerance; smaller ones are a tenth of the relative gap.
    max_tolerance: float = 1e-8
    settings: dict[str, Any] = field(default_factory=dict)
    needs: str = "cone"

    @property
    def takes(self) -> frozenset[str]:  # type: ignore[override]
        """The option `max_seconds` if the solver has a time limit, else the empty set."""
        return frozenset() if self.time_option is None else frozenset({"max_seconds"})

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
        if options.max_seconds is not None and self.time_option is not None:
            settings[self.time_option] = options.max_seconds
        return settings

    def __call__(self, problem: MarginProblem, options: Options) -> Answer:
        """Solve `problem` to a relative gap of about `options.tol`, with inputs and margins scaled to about 1.

        The answer is that of `problem` itself. Its weights or dual are zero if the solver returned none or was
        interrupted; `stopped` is the reason of an early stop (interrupt, time or iterations), else None.
        """
        import cvxpy as cp

        features, scale = problem.features, problem.features.scale()
        margin = float(np.mean(problem.required_margin))
        rows, required = features.scaled(1 / scale), problem.required_margin / margin
        unit = problem.replace(features=rows, C=problem.C * scale, required_margin=required)
        begin = time.perf_counter()
        program = unit.cvxpy(quadratic=self.needs == "quadratic")
        settings = self.translated(options)
        with warnings.catch_warnings():
            # CVXPY warns about inaccurate answers; the certificate measures them.
            warnings.simplefilter("ignore")
            given = {"solver": self.name, "canon_backend": "SCIPY", "verbose": options.verbose} | settings
            # ECOS rejects some programs with a ValueError.
            with Interruptible() as run, contextlib.suppress(cp.SolverError, ValueError):
                _on_a_thread(lambda: program.solve(**given))
        if run.interrupted:
            return Answer(np.zeros((features.k, features.d)), np.zeros(features.n), -1, Status.INTERRUPTED)
        taken = time.perf_counter() - begin
        weights, dual = program.weights.value, program.margin_constraint.dual_value
        b = program.intercept.value
        stats = program.solver_stats
        iterations = -1 if stats is None or stats.num_iters is None else int(stats.num_iters)
        stopped = Status.TIME_LIMIT if options.max_seconds is not None and taken >= options.max_seconds else None
        if iterations >= settings.get(self.limit_option, np.inf):
            stopped = Status.ITERATION_LIMIT
        return Answer(
            np.zeros((features.k, features.d)) if weights is None else weights * (margin / scale),
            np.zeros(features.n) if dual is None else dual / scale,
            iterations,
            stopped,
            0.0 if b is None else margin * float(b),
            None if unit.constraints is None else unit.constraints.multipliers(program.linear_constraints),
        )


def _on_a_thread(action: Callable[[], Any]) -> None:
    """Run `action` on a thread, so that Ctrl-C returns at once: compiled solvers ignore it until they end.

    They release the interpreter's lock. An abandoned thread ends by itself or with the process. An exception of
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

    threading.Thread(target=run, daemon=True).start()
    # In short waits, because Windows cannot interrupt a wait without a timeout.
    while not done.wait(0.1):
        pass
    for failure in failures:
        # CLARABEL panics if an eigenvalue computation fails.
        raise failure if isinstance(failure, Exception) else ValueError(str(failure))


CVXPY_SOLVERS = {
    solver.name: solver
    for solver in (
        CvxpySolver("CLARABEL", ("tol_gap_rel", "tol_gap_abs", "tol_feas"), "max_iter", "time_limit"),
        CvxpySolver("ECOS", ("abstol", "reltol", "feastol"), "max_iters", None, needs="second-order"),
        CvxpySolver(
            "OSQP", EPSILONS, "max_iter", "time_limit", np.inf, {"polishing": True, "max_iter": 100_000}, "quadratic"
        ),
        CvxpySolver("SCS", EPSILONS, "max_iters", "time_limit_secs", np.inf, {"max_iters": 100_000}),
    )
}
