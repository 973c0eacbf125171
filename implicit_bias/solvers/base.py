"""What a solver of this package is: the structure it needs and the options it takes, as data, and how it is called."""

from abc import ABC, abstractmethod

from implicit_bias.margin.problem import MarginProblem
from implicit_bias.solvers.answer import Answer
from implicit_bias.solvers.options import Options


class Solver(ABC):
    """Base of the solvers that `solve` knows by name.

    A solver of your own needs no class: `solve` takes any function of a problem and its options that returns an
    `Answer`, and judges it alike.
    """

    name: str
    #: The structure that a problem must have, as `MarginProblem.lacks` names it.
    needs: str = "cone"
    #: Of the options that not every solver has, those it takes.
    takes: frozenset[str] = frozenset()

    @abstractmethod
    def __call__(self, problem: MarginProblem, options: Options) -> Answer:
        """Weights and dual of `problem` to a relative gap of about `options.tol`."""

    def load(self) -> None:
        """Import what a solve needs, before its time is taken."""
        return None

    def refuses(self, problem: MarginProblem, options: Options) -> str | None:
        """Why this solver does not take `problem` with these options; None if it does."""
        missing = options.special - self.takes
        if missing - {"max_seconds"}:
            return "start, callback and device are options of NATIVE"
        if missing:
            return "it has no time limit; use CLARABEL, OSQP or SCS"
        return problem.lacks(self.needs)
