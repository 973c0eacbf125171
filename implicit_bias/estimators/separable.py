"""A margin problem's solutions at some prices, or the error that says, with its proof, that nothing separates."""

from collections.abc import Sequence
from typing import Any

from implicit_bias._utils.checks import InputError
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solution import Solution, Status
from implicit_bias.solvers import margin_path


class NotSeparableError(InputError):
    """A hard margin was asked for, and no weights separate the samples; `certificate` holds the proof.

    Attributes
    ----------
    certificate : Solution
        Its `dual` λ (n,) ≥ 0 has Φᵀ(λ∘y) = 0 (a Farkas certificate).

    Examples
    --------
    >>> from implicit_bias import GLNClassifier, NotSeparableError
    >>> try:
    ...     GLNClassifier(units=1, contexts=1, C=float("inf")).fit([[0.0], [1.0], [2.0]], [0, 1, 0])
    ... except NotSeparableError as error:
    ...     print(error.certificate.status.name, error.certificate.farkas_residual < 1e-12)
    NOT_SEPARABLE True
    """

    def __init__(self, message: str, certificate: Solution) -> None:
        super().__init__(message, certificate)
        self.certificate = certificate

    def __str__(self) -> str:
        return str(self.args[0])


def separated(problem: MarginProblem, prices: Sequence[Any], name: str, **options: Any) -> list[Solution]:
    """The solutions of a problem at each price, which an interruption and a proof that there is none end."""
    path = margin_path(problem, prices, **options)
    if path[-1].status is Status.INTERRUPTED or len(path) < len(prices):
        raise KeyboardInterrupt  # A search over many fits must end, too.
    for solution in path:
        if solution.status.inseparable:
            message = f"{name}: {solution.status.value} (lower bound {solution.lower_bound:.3g})"
            raise NotSeparableError(message, solution)
    return path
