"""What a solver reports while it works."""

import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """The state of a solve after an iteration of the native solver, handed to `solve(callback=…)`.

    Attributes
    ----------
    iteration : int
        Interior-point iterations so far, of all rounds.
    seconds : float
        Since the solver was called.
    lower_bound, objective : float
        Between these lies the optimum of the problem over all samples; `objective` is infinite as long as no weights
        are known to separate.
    gap : float
        Relative gap of the present round: over all samples if the working set holds them all.
    working_set, samples : int
        Samples in the present round, and in all.

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
        return (
            f"{self.iteration:3d}  {self.lower_bound:.8g} … {self.objective:.8g}  gap {self.gap:.1e}  "
            f"{self.working_set} of {self.samples} samples  {self.seconds:.1f} s"
        )


def print_line(progress: Progress) -> None:
    """Show progress on standard error: one line that renews itself on a terminal, else one line per iteration."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{progress}", end="", file=sys.stderr, flush=True)
    else:
        print(progress, file=sys.stderr, flush=True)


def end_line() -> None:
    """End the live line, so that what follows starts a new one."""
    if sys.stderr.isatty():
        print(file=sys.stderr)
