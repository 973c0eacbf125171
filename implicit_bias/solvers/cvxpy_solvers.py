"""Solvers that are called through CVXPY, each in another process, which Ctrl-C and time limits end."""

import contextlib
import warnings
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np

from implicit_bias._utils.lazy import cp
from implicit_bias._utils.limits import Deadline
from implicit_bias._utils.processes import call_apart, load
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solution import Status
from implicit_bias.solvers.base import Answer, Options, Solver

#: Names of the tolerances of first-order solvers.
EPSILONS = ("eps_abs", "eps_rel")
#: Largest iteration limit, because the solvers count in 32-bit integers.
MAX_ITERATIONS = 2**31 - 1
#: Modules that a solve needs, CVXPY among them.
MODULES = (__name__, "implicit_bias.margin.program")
#: Seconds after the time limit in which a solver may return its best answer; then its process is killed.
GRACE = 0.1


@dataclass(frozen=True)
class CvxpySolver(Solver):
    """A solver called through CVXPY, with the names of its options."""

    name: str
    tolerances: tuple[str, ...]
    limit_option: str
    #: None if the solver has no time limit and is killed.
    time_option: str | None
    #: Largest tolerance; smaller ones are a tenth of the relative gap.
    max_tolerance: float = 1e-8
    settings: dict[str, Any] = field(default_factory=dict)
    needs: str = "cone"
    takes: frozenset[str] = frozenset({"max_seconds"})

    @property
    def installed(self) -> bool:
        return find_spec(self.name.lower()) is not None

    def refusal(self, problem: MarginProblem, options: Options) -> str | None:
        """Explain why the solver does not support `problem`; its package may be missing, as ECOS for Python 3.13."""
        if not self.installed:
            return f"{self.name} is not installed: pip install {self.name.lower()}, or choose another solver"
        return super().refusal(problem, options)

    def load(self) -> None:
        with Deadline() as deadline:
            call_apart(load, *MODULES, deadline=deadline)

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

        Weights or dual are zero if the solver returned none or was interrupted.
        """
        nothing, reason = np.zeros((problem.features.k, problem.features.d)), ""
        grace = 0.0 if self.time_option is None else GRACE
        try:
            call_apart(load, *MODULES, deadline=options.deadline)
            # Gates are not needed, and may be large networks.
            given = problem.replace(gates=None), options
            answer = call_apart(self._answer, *given, deadline=options.deadline, grace=grace)
            if answer is not None:
                return answer
        except ChildProcessError as error:
            # CLARABEL panics if an eigenvalue computation fails.
            reason = f"{self.name} returned no answer: {error}; try another solver"
        return Answer(nothing, np.zeros(problem.features.n), -1, options.stop(), reason=reason)

    def _answer(self, problem: MarginProblem, options: Options) -> Answer:
        features, scale = problem.features, problem.features.scale()
        margin = float(np.mean(problem.required_margin))
        rows, required = features.scaled(1 / scale), problem.required_margin / margin
        constraints = None if problem.constraints is None else problem.constraints.scaled(scale / margin)
        unit = problem.replace(features=rows, C=problem.C * scale, required_margin=required, constraints=constraints)
        program = unit.cvxpy(quadratic=self.needs == "quadratic")
        chosen = {"solver": self.name, "canon_backend": "SCIPY"}
        with warnings.catch_warnings():
            # CVXPY warns about inaccurate answers; the certificate measures them.
            warnings.simplefilter("ignore")
            # ECOS rejects some programs with a ValueError.
            with contextlib.suppress(cp.SolverError, ValueError):
                # Compiled first, and kept by the program, so that the solver's limit is the time that is left then.
                program.get_problem_data(**chosen)
                program.solve(**chosen, verbose=options.verbose, **self.translated(options))
        weights, dual = program.weights.value, program.margin_constraint.dual_value
        b, stats = program.intercept.value, program.solver_stats
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
