"""What `solve` returns."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from implicit_bias.margin.solvers.judge import Certificate


class Status(Enum):
    """How a solve ended; each value's text is a remedy.

    >>> from implicit_bias import Status
    >>> print(Status.ITERATION_LIMIT.value)
    stopped at the iteration limit; increase max_iterations
    """

    OPTIMAL = "certified to the tolerance; nothing to do"
    INACCURATE = "the gap is larger than asked; scale inputs alike, loosen tol, raise max_iterations, change the solver"
    NOT_SEPARABLE = "no weights separate these samples; use more units or contexts, or a soft margin (finite C)"
    ITERATION_LIMIT = "stopped at the iteration limit; increase max_iterations"
    TIME_LIMIT = "stopped at the time limit; increase max_seconds"
    INTERRUPTED = "interrupted; this is the best answer so far: solve again with start= this solution to go on"


@dataclass(frozen=True, eq=False)
class Solution(Certificate):
    """The certified answer to a margin problem: a `Certificate` and how it was obtained.

    Attributes
    ----------
    status : Status
    iterations : int
        Of the solver; −1 where it does not tell.
    seconds : float
        Wall-clock time of the whole solve: translation, solver and certificate.
    solver : str
    tol : float
        The relative gap that was asked for.

    Examples
    --------
    >>> from implicit_bias import ConstantGate, solve, svm_gln
    >>> solution = solve(svm_gln([[2.0, 1.0], [-2.0, 1.0]], [1, -1], ConstantGate()))
    >>> solution.status, round(solution.objective, 6), solution.gap < 1e-6
    (<Status.OPTIMAL: 'certified to the tolerance; nothing to do'>, 0.5, True)
    """

    status: Status
    iterations: int
    seconds: float
    solver: str
    tol: float

    def __str__(self) -> str:
        head = f"{self.status.name}: {self.status.value}"
        how = f"{self.solver}, {self.iterations} iterations, {self.seconds:.2f} s"
        if self.status is Status.NOT_SEPARABLE:
            return f"{head}\n  Farkas residual {self.farkas_residual:.1e}   ({how})"
        return (
            f"{head}\n  objective {self.objective:.9g}, lower bound {self.lower_bound:.9g}, "
            f"gap {self.gap:.1e}, minimum margin {self.minimum_margin:.6g}   ({how})"
        )
