"""Mehrotra's predictor-corrector loop, for any problem that supplies its linearised optimality conditions."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

#: Share of the way to the boundary that a step of a linear program takes.
TO_BOUNDARY = 0.995


class Linearised(Protocol):
    """The optimality conditions, linearised at an iterate."""

    #: μ > 0, the mean product of a variable and its slack.
    mu: float

    def direction(self, target: float, guess: Any) -> Any:
        """Return the direction to products of `target`, including the second-order terms of `guess`, if it is given."""

    def ahead(self, guess: Any) -> float:
        """Return the mean product at the end of the longest step along `guess`."""

    def moved(self, direction: Any) -> Any:
        """Return the next iterate, or None if there is no progress."""


def descend_from(
    at: Any,
    observe: Callable[[Any], bool],
    linearised: Callable[[Any], Linearised],
    centring: float,
    predicts: bool = True,
) -> None:
    """Iterate from `at` until `observe(iterate)` is True, there is no progress, or the linear algebra breaks down.

    Nothing is returned: `observe` sees every iterate and keeps the results. `linearised` returns the conditions at an
    iterate, or raises ArithmeticError or LinAlgError.

    The first direction of an iteration aims at products of zero. The second one aims at σμ, with σ = (μ'/μ)³ for the
    mean product μ' that the first one would reach, and corrects its second-order terms. `centring` is the least σ; if
    the loop does not predict, it is σ, and there is no first direction.
    """
    while at is not None and not observe(at):
        try:
            system = linearised(at)
            guess = system.direction(0.0, None) if predicts else None
            sigma = min(1.0, max(centring, (system.ahead(guess) / system.mu) ** 3)) if predicts else centring
            at = system.moved(system.direction(system.mu * sigma, guess))
            # The next system needs the memory of this one.
            del system
        except (ArithmeticError, np.linalg.LinAlgError):
            return


def longest_step(values: Sequence[Any], changes: Sequence[Any]) -> float:
    """Return the longest step along `changes`, at most 1, that leaves none of the positive `values` negative."""
    falls = (float((-dv / v).max()) for v, dv in zip(values, changes, strict=True) if len(v))
    return 1 / max([*falls, 1.0])
