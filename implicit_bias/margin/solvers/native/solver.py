"""From a margin problem to the interior-point method and back."""

import time
from contextlib import nullcontext

import numpy as np
import torch

from implicit_bias.ground.memory import check_memory
from implicit_bias.ground.threads import one_thread
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solvers.answer import Answer
from implicit_bias.margin.solvers.native.interior_point import Bounds
from implicit_bias.margin.solvers.native.scaled import scaled
from implicit_bias.margin.solvers.native.working_set import first_rows, solve_in_rounds
from implicit_bias.margin.solvers.options import Options
from implicit_bias.margin.solvers.progress import Progress, end_line, print_line
from implicit_bias.margin.solvers.solution import Status

#: Interior-point iterations, of all rounds, after which the method gives up; a round needs 5 to 20.
DEFAULT_ITERATIONS = 1000
#: Seconds by which an iteration may overrun the time limit; one that would by more, judging by the last, is not begun.
OVERRUN = 0.5
#: Working sets from this size are worth all of torch's threads; below, threads wait more than they work.
MANY_SAMPLES = 1000


def solve_native(problem: MarginProblem, options: Options) -> Answer:
    """Weights and dual of a margin problem to a relative gap of `options.tol`.

    With W = TŴ the norm is Σ_h ‖Ŵ_h‖ over the groups of its group form, and Φ sees the gate values GT. At the optimum
    Ŵ_h = η_h Φ_hᵀ(λ∘y).
    """
    begin = last = time.perf_counter()
    ours = scaled(problem, options.device)

    def watch(before: int, size: int, whole: Bounds, iteration: int, inner: Bounds) -> Status | None:
        nonlocal last
        now = time.perf_counter()
        seconds, step, last = now - begin, now - last if before + iteration else 0.0, now
        reached = inner.upper if size == ours.n else whole.upper
        lower, upper = max(inner.lower, whole.lower) / ours.scale, reached / ours.scale
        progress = Progress(before + iteration, seconds, lower, upper, inner.gap, size, ours.n)
        if options.callback is not None:
            options.callback(progress)
        if options.verbose:
            print_line(progress)
        ends = seconds + max(0.0, step - OVERRUN)
        return Status.TIME_LIMIT if options.max_seconds is not None and ends > options.max_seconds else None

    rows = first_rows(ours, None if options.start is None else np.asarray(options.start.dual))
    check_memory(
        ours.need(len(rows)),
        f"a step of {len(rows)} samples in {ours.H} groups",
        "use fewer units or samples, or solver='CLARABEL'",
        torch.cuda.mem_get_info(options.device)[0] if torch.device(options.device).type == "cuda" else None,
    )
    limit = DEFAULT_ITERATIONS if options.max_iterations is None else options.max_iterations
    with nullcontext() if len(rows) >= MANY_SAMPLES else one_thread():
        # Half the tolerance is kept for the rounding of the certificate in the original coordinates.
        found = solve_in_rounds(ours, options.tol / 2, limit, rows, watch)
    if options.verbose:
        end_line()
    lam, eta, b = found.weights
    return Answer(ours.weights(lam, eta), ours.dual(found.lam), found.iterations, found.stopped, ours.intercept(b))
