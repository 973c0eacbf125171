"""What a caller may ask of a solver."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from implicit_bias._utils.checks import InputError, as_count, as_floats, as_positive, shown
from implicit_bias.margin.solution import Solution
from implicit_bias.solvers.progress import Progress


def as_tolerance(value: Any, name: str = "tol") -> float:
    """A relative gap to ask for: below 1, which any two bounds keep."""
    tolerance = as_positive(value, name)
    if tolerance >= 1:
        raise InputError(f"{name} is a relative gap and must be below 1, which any answer reaches; not {shown(value)}")
    return tolerance


@dataclass(frozen=True, eq=False)
class Options:
    """The options of `solve`; InputError for bad ones."""

    tol: float
    max_iterations: int | None = None
    max_seconds: float | None = None
    start: Solution | None = None
    device: str = "cpu"
    callback: Callable[[Progress], None] | None = None
    verbose: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "tol", as_tolerance(self.tol))
        if self.max_iterations is not None:
            object.__setattr__(self, "max_iterations", as_count(self.max_iterations, "max_iterations"))
        if self.max_seconds is not None:
            object.__setattr__(self, "max_seconds", as_positive(self.max_seconds, "max_seconds"))
        if not isinstance(self.start, Solution | None):
            raise InputError(f"start must be a Solution of an earlier solve, not {type(self.start).__name__}")
        if self.start is not None:
            as_floats(self.start.dual, "the dual of start", 1)
        if not isinstance(self.verbose, int | np.bool_):
            raise InputError(f"verbose must be True or False, not {type(self.verbose).__name__}")
        if self.callback is not None and not callable(self.callback):
            raise InputError(f"callback must be a function of a Progress, not {type(self.callback).__name__}")

    @property
    def special(self) -> frozenset[str]:
        """The names of those given that not every solver takes."""
        given = {name for name in ("max_seconds", "start", "callback") if getattr(self, name) is not None}
        return frozenset(given if str(self.device) == "cpu" else given | {"device"})
