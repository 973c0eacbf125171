"""Base class of solvers, and the records that they exchange with `solve`: Options, Progress, Answer."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from implicit_bias._utils.checks import Array, InputError, as_count, as_floats, as_positive, shown
from implicit_bias._utils.limits import Deadline
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solution import Solution, Status


@dataclass(frozen=True)
class Progress:
    """State of the native solver after an iteration, passed to `solve(callback=…)`.

    Attributes
    ----------
    iteration : int
        Number of interior-point iterations so far, over all working sets.
    seconds : float
        Time since the start of the solver.
    lower_bound, objective : float
        Bounds of the optimum over all samples; `objective` is infinite until separating weights are found.
    gap : float
        Relative gap of the current working set, which is that of the problem if the set contains all samples.
    working_set, samples : int
        Number of samples in the current working set, and in total.

    Examples
    --------
    >>> from implicit_bias.solvers import Progress
    >>> print(Progress(7, 1.5, 1.70, 1.72, 1.2e-2, 500, 2000))
      7  1.7 … 1.72  gap 1.2e-02  500 of 2000 samples  1.5 s
    """

    iteration: int
    seconds: float
    lower_bound: float
    objective: float
    gap: float
    working_set: int
    samples: int

    def __str__(self) -> str:
        bounds = f"{self.iteration:3d}  {self.lower_bound:.8g} … {self.objective:.8g}  gap {self.gap:.1e}"
        return f"{bounds}  {self.working_set} of {self.samples} samples  {self.seconds:.1f} s"


def print_line(progress: Progress) -> None:
    """Print progress to standard error: one line that is rewritten on a terminal, else one line per iteration."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{progress}", end="", file=sys.stderr, flush=True)
    else:
        print(progress, file=sys.stderr, flush=True)


def end_line() -> None:
    """End the line that `print_line` rewrites on a terminal, so that the next output starts a new one."""
    if sys.stderr.isatty():
        print(file=sys.stderr)


def as_tolerance(tol: Any) -> float:
    """Return a tolerance of the relative gap; raise InputError unless it is positive and below 1."""
    tolerance = as_positive(tol, "tol")
    # Any weights that separate have a gap of at most 1, because 0 is a lower bound.
    if tolerance >= 1:
        raise InputError(f"tol is a relative gap and must be below 1, not {shown(tol)}")
    return tolerance


@dataclass(frozen=True, eq=False)
class Options:
    """Options of `solve`, checked; the fields are the parameters of `solve`, and their `deadline`.

    A solver ends as soon as `stop()` is a status. Copies of the options share the deadline.

    Raises
    ------
    InputError
        If an option is invalid.
    """

    tol: float
    max_iterations: int | None = None
    max_seconds: float | None = None
    start: Solution | None = None
    device: str = "cpu"
    callback: Callable[[Progress], None] | None = None
    verbose: bool = False
    deadline: Deadline = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        object.__setattr__(self, "tol", as_tolerance(self.tol))
        if self.max_iterations is not None:
            object.__setattr__(self, "max_iterations", as_count(self.max_iterations, "max_iterations"))
        if not isinstance(self.start, Solution | None):
            raise InputError(f"start must be a Solution of an earlier solve, not {type(self.start).__name__}")
        if self.start is not None:
            as_floats(self.start.dual, "the dual of start", 1)
        if not isinstance(self.verbose, int | np.bool_):
            raise InputError(f"verbose must be True or False, not {type(self.verbose).__name__}")
        if self.callback is not None and not callable(self.callback):
            raise InputError(f"callback must be a function of a Progress, not {type(self.callback).__name__}")
        if self.deadline is None:
            object.__setattr__(self, "deadline", Deadline(self.max_seconds))

    def stop(self, ahead: float = 0.0) -> Status | None:
        """Return INTERRUPTED after Ctrl-C, TIME_LIMIT if the time is up in `ahead` seconds, else None."""
        if not self.deadline.passed(ahead):
            return None
        return Status.INTERRUPTED if self.deadline.reason == "interrupted" else Status.TIME_LIMIT

    @property
    def limited(self) -> bool:
        """True if there is a limit of iterations or seconds."""
        return self.max_iterations is not None or self.deadline.left() is not None

    def report(self, progress: Progress) -> None:
        """Pass the progress to `callback`, and print it if `verbose`."""
        if self.callback is not None:
            self.deadline.call(self.callback, progress)
        if self.verbose:
            print_line(progress)

    @property
    def special(self) -> frozenset[str]:
        """Given options that not every solver supports: limit of seconds, start, callback, device except 'cpu'."""
        given = {name for name in ("max_seconds", "start", "callback") if getattr(self, name) is not None}
        return frozenset(given if str(self.device) == "cpu" else given | {"device"})


@dataclass(frozen=True, eq=False)
class Answer:
    """Uncertified result of a solver; `solve` certifies it.

    Attributes
    ----------
    weights : array, shape (k, d)
        The weights W.
    dual : array, shape (n,)
        λ; zeros if the solver computes none.
    iterations : int
        Number of iterations; −1 if unknown.
    stopped : Status, optional
        The limit that ended the solver early.
    intercept : float
        b; 0 unless the problem has a free intercept.
    multipliers : array, shape (m,), optional
        μ of the linear constraints.
    reason : str
        Cause of an early end, if known; `Solution.reason` if the certified answer is INACCURATE.

    Examples
    --------
    A custom solver is a function of a problem and options, for example a perceptron:

    >>> import numpy as np
    >>> from implicit_bias.solvers import Answer
    >>> from implicit_bias import ConstantGate, solve, svm_gln
    >>> def perceptron(problem, options):
    ...     visits = np.zeros(problem.features.n)
    ...     for step in range(1000):
    ...         visits[problem.margins(problem.adjoint(visits)).argmin()] += 1
    ...     return Answer(problem.adjoint(visits), dual=visits, iterations=1000)
    >>> problem = svm_gln([[2.0, 1.0], [-1.0, 1.0]], [1, -1], ConstantGate())
    >>> print(solve(problem, perceptron, tol=0.01).status.name)
    OPTIMAL
    """

    weights: Array
    dual: Array
    iterations: int
    stopped: Status | None = None
    intercept: float = 0.0
    multipliers: Array | None = None
    reason: str = ""


class Solver(ABC):
    """Base class of the solvers in `SOLVERS`."""

    name: str
    #: Structure that a problem must have; see `MarginProblem.unsupported`.
    needs: str = "cone"
    #: Supported options among `max_seconds`, `start`, `callback` and `device`.
    takes: frozenset[str] = frozenset()

    @abstractmethod
    def __call__(self, problem: MarginProblem, options: Options) -> Answer:
        """Return weights and dual of `problem` with a relative gap of about `options.tol`."""

    def load(self) -> None:
        """Import the modules that a solve needs, so that its measured time excludes them."""
        return None

    @property
    def installed(self) -> bool:
        """True if the package of the solver is installed."""
        return True

    def refusal(self, problem: MarginProblem, options: Options) -> str | None:
        """Explain why the solver does not support `problem` with these options; None if it does."""
        missing = options.special - self.takes
        if missing - {"max_seconds"}:
            return f"{self.name} does not support all of start, callback and device; leave them out, or choose NATIVE"
        if missing:
            return f"{self.name} does not support max_seconds; leave it out, or choose one of the package's solvers"
        if options.start is not None and np.shape(options.start.dual) != (problem.features.n,):
            counts = f"{len(options.start.dual)} samples, but the problem has {problem.features.n}"
            return f"start is a solution for {counts}; leave it out"
        return self.structure_refusal(problem, self.needs)

    def structure_refusal(self, problem: MarginProblem, structure: str) -> str | None:
        """Explain why the solver does not support a problem without this structure; None if the problem has it."""
        reason = problem.unsupported(structure)
        return reason and f"{self.name} does not support {problem.name}: {reason}"
