"""What every solver returns to the judge."""

from __future__ import annotations

from dataclasses import dataclass

from implicit_bias.checks import Array
from implicit_bias.solvers.solution import Status


@dataclass(frozen=True, eq=False)
class Answer:
    """A solver's word: weights (k, d) and dual (n,), zeros where it gave none, and why it stopped before its end."""

    weights: Array
    dual: Array
    iterations: int
    stopped: Status | None = None
