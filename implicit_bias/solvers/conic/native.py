"""From a margin problem to the interior-point method and back."""

from __future__ import annotations

import time

import numpy as np
import torch

from implicit_bias.problems import MarginProblem
from implicit_bias.solvers.answer import Answer
from implicit_bias.solvers.conic.interior_point import Bounds
from implicit_bias.solvers.conic.samples import Samples
from implicit_bias.solvers.conic.working_set import ALL_UP_TO, FIRST, solve_in_rounds
from implicit_bias.solvers.options import Options
from implicit_bias.solvers.progress import Progress, end_line, print_line
from implicit_bias.solvers.solution import Solution, Status
from implicit_bias.threads import one_thread

#: Iterations after which the method gives up; a round usually needs 5 to 20.
DEFAULT_ITERATIONS = 500
#: Matrices of at least this many rows are worth all of torch's threads.
MANY_SAMPLES = 1000


def unfit(problem: MarginProblem, options: Options) -> str | None:
    """Why the native solver cannot take `problem`; None if it can."""
    if problem.norm.group_form(problem.features.k) is None:
        return (
            f"it needs a norm that is a sum of group norms, {problem.norm!r} gives no group_form(); use CLARABEL or SCS"
        )
    return None


def solve_native(problem: MarginProblem, options: Options) -> Answer:
    """Weights and dual of a margin problem to a relative gap of `options.tol`.

    With W = TŴ the norm is Σ_h ‖Ŵ_h‖ over the groups of its group form, and Φ sees the gate values GT. At the optimum
    Ŵ_h = η_h Φ_hᵀ(λ∘y).
    """
    begin = time.perf_counter()
    limit = DEFAULT_ITERATIONS if options.max_iterations is None else options.max_iterations
    samples = Samples(problem, options.device)

    def watch(iteration: int, size: int, inner: Bounds, whole: Bounds) -> Status | None:
        seconds = time.perf_counter() - begin
        if options.callback is not None or options.verbose:
            now = samples.original(Bounds(max(inner.lower, whole.lower), inner.upper if size == samples.n else whole.upper))
            progress = Progress(iteration, seconds, now.lower, now.upper, inner.gap, size, samples.n)
            if options.callback is not None:
                options.callback(progress)
            if options.verbose:
                print_line(progress)
        return Status.TIME_LIMIT if options.max_seconds is not None and seconds > options.max_seconds else None

    first = _first(samples, options.start)
    # Half the tolerance is kept for the rounding of the certificate in the original coordinates.
    found = solve_in_rounds(samples, options.tol / 2, limit, first, watch)
    if options.verbose:
        end_line()
    return Answer(samples.weights(*found.weights), samples.dual(found.lam), found.iterations, found.stopped)


def _first(samples: Samples, start: Solution | None) -> torch.Tensor:
    n = samples.n
    if n <= ALL_UP_TO:
        return torch.arange(n, device=samples.X.device)
    rng = np.random.default_rng(0)
    return torch.as_tensor(np.sort(rng.choice(n, min(n, FIRST), replace=False))).to(samples.X.device)
