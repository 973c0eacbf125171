"""From a margin problem to the interior-point method and back."""

from __future__ import annotations

import time
from contextlib import nullcontext

import numpy as np
import torch

from implicit_bias.ground.checks import shown
from implicit_bias.ground.threads import one_thread
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solvers.answer import Answer
from implicit_bias.margin.solvers.native.interior_point import Bounds
from implicit_bias.margin.solvers.native.samples import samples_of
from implicit_bias.margin.solvers.native.working_set import first_rows, solve_in_rounds
from implicit_bias.margin.solvers.options import Options
from implicit_bias.margin.solvers.progress import Progress, end_line, print_line
from implicit_bias.margin.solvers.solution import Status

#: Interior-point iterations, of all rounds, after which the method gives up; a round needs 5 to 20.
DEFAULT_ITERATIONS = 1000
#: Working sets from this size are worth all of torch's threads; below, threads wait more than they work.
MANY_SAMPLES = 1000


def unfit(problem: MarginProblem, options: Options) -> str | None:
    """Why the native solver cannot take `problem` with these options; None if it can."""
    if problem.constraints is not None:
        return "it takes no linear constraints; use CLARABEL or SCS"
    form = problem.norm.group_form(problem.features.k)
    if form is not None and form.expand.shape != (problem.features.k, len(form.groups)):
        return f"the group_form of {problem.norm!r} must expand {len(form.groups)} rows to {problem.features.k} gates"
    if form is None:
        return (
            f"it needs a norm that is a sum of group norms, {problem.norm!r} gives no group_form(); use CLARABEL or SCS"
        )
    if options.start is not None and np.shape(options.start.dual) != (problem.features.n,):
        return f"start is a solution for {len(options.start.dual)} samples, the problem has {problem.features.n}"
    try:
        device = torch.device(options.device)
    except (RuntimeError, TypeError, ValueError, OverflowError):
        return f"{shown(options.device)} is no device; use 'cpu' or 'cuda'"
    if device.type not in ("cpu", "cuda"):
        return f"it computes in float64 on 'cpu' or 'cuda', not on {options.device!r}"
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        return f"torch sees no device {options.device!r} here; use 'cpu'"
    return None


def solve_native(problem: MarginProblem, options: Options) -> Answer:
    """Weights and dual of a margin problem to a relative gap of `options.tol`.

    With W = TŴ the norm is Σ_h ‖Ŵ_h‖ over the groups of its group form, and Φ sees the gate values GT. At the optimum
    Ŵ_h = η_h Φ_hᵀ(λ∘y).
    """
    begin = time.perf_counter()
    samples = samples_of(problem, options.device)

    def watch(iteration: int, size: int, inner: Bounds, whole: Bounds) -> Status | None:
        seconds = time.perf_counter() - begin
        reached = inner.upper if size == samples.n else whole.upper
        now = Bounds(max(inner.lower, whole.lower) / samples.scale, reached / samples.scale)
        progress = Progress(iteration, seconds, now.lower, now.upper, inner.gap, size, samples.n)
        if options.callback is not None:
            options.callback(progress)
        if options.verbose:
            print_line(progress)
        return Status.TIME_LIMIT if options.max_seconds is not None and seconds > options.max_seconds else None

    rows = first_rows(samples, None if options.start is None else np.asarray(options.start.dual))
    limit = DEFAULT_ITERATIONS if options.max_iterations is None else options.max_iterations
    with nullcontext() if len(rows) >= MANY_SAMPLES else one_thread():
        # Half the tolerance is kept for the rounding of the certificate in the original coordinates.
        found = solve_in_rounds(samples, options.tol / 2, limit, rows, watch)
    if options.verbose:
        end_line()
    lam, eta, b = found.weights
    return Answer(
        samples.weights(lam, eta), samples.dual(found.lam), found.iterations, found.stopped, samples.intercept(b)
    )
