"""What a caller may ask of a solver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from implicit_bias.solvers.progress import Progress
from implicit_bias.solvers.solution import Solution


@dataclass(frozen=True, eq=False)
class Options:
    """The options of `solve`, checked."""

    tol: float
    max_iterations: int | None = None
    max_seconds: float | None = None
    start: Solution | None = None
    device: str = "cpu"
    callback: Callable[[Progress], None] | None = None
    verbose: bool = False
