"""From a margin problem to the interior-point method and back."""

import time
from functools import partial

import numpy as np

from implicit_bias._utils.checks import Array
from implicit_bias._utils.threads import one_thread
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solution import Status
from implicit_bias.norms import GroupForm
from implicit_bias.solvers.base import Answer, Options, Progress, end_line, print_line
from implicit_bias.solvers.native.atoms import solve_by_atoms
from implicit_bias.solvers.native.chunked import scaled
from implicit_bias.solvers.native.coordinate_ascent import ascend, many_priced
from implicit_bias.solvers.native.group_set import Found, many, solve_by_groups
from implicit_bias.solvers.native.interior_point import Bounds
from implicit_bias.solvers.native.working_set import at_once, few, first_set, solve_in_rounds

#: Interior-point iterations, of all rounds, after which the method gives up: a round needs 5 to 20, atoms many rounds.
DEFAULT_ITERATIONS = 5000
#: Seconds by which an iteration may overrun the time limit; one that would by more, judging by the last, is not begun.
OVERRUN = 0.5


def solve_native(problem: MarginProblem, options: Options) -> Answer:
    """Weights and dual of a margin problem to a relative gap of `options.tol`.

    With W = TŴ the norm is Σ_h ‖Ŵ_h‖ over the groups of its group form, and Φ sees the gate values GT. At the optimum
    Ŵ_h = η_h Φ_hᵀ(λ∘y). Of many groups few have weights: they are solved for in working sets.
    """
    begin = time.perf_counter()
    start = None if options.start is None else np.asarray(options.start.dual)
    # Half the tolerance is kept for the rounding of the certificate in the original coordinates.
    tol = options.tol / 2
    some = partial(_some_groups, problem, options, begin)
    form = problem.group_form
    if problem.norm.has_atoms:
        answer = solve_by_atoms(problem, problem.norm, tol, options.start, some)
    elif form is not None and many(len(np.unique(form.groups)), problem.features.n):
        answer = solve_by_groups(problem, form, tol, start, some)
    elif form is not None:
        answer = some(form, start, tol, 0, None).answer
    if options.verbose:
        end_line()
    return answer


def _some_groups(
    problem: MarginProblem,
    options: Options,
    begin: float,
    form: GroupForm,
    start: Array | None,
    tol: float,
    before: int,
    known: Bounds | None,
) -> Found:
    """Solve for the groups of `form`, after so many iterations; `known`: the bounds over all groups, if of more."""
    last: float | None = None
    ours = scaled(problem, form, str(options.device))

    def watch(inside: int, size: int, whole: Bounds, iteration: int, inner: Bounds) -> Status | None:
        """Tell of an iterate; a status if the time is up."""
        nonlocal last
        now = time.perf_counter()
        seconds, step, last = now - begin, 0.0 if last is None else now - last, now
        reached = inner.upper if size == ours.n else whole.upper
        lower, upper = max(inner.lower, whole.lower) / ours.scale, reached / ours.scale
        if known is not None:
            lower, upper = known.lower, min(known.upper, upper)
        progress = Progress(before + inside + iteration, seconds, lower, upper, inner.gap, size, ours.n)
        if options.callback is not None:
            options.callback(progress)
        if options.verbose:
            print_line(progress)
        ends = seconds + max(0.0, step - OVERRUN)
        return Status.TIME_LIMIT if options.max_seconds is not None and ends > options.max_seconds else None

    limit = (DEFAULT_ITERATIONS if options.max_iterations is None else options.max_iterations) - before
    found = ours.nothing()
    # An earlier answer leads faster than a sorting, unless most of it went from one price to another.
    leads = False
    if start is not None:
        share = ours.moved(start / problem.prices)
        leads = not many_priced(share, share.max() + 0 * share)
    if not leads and not (few(ours) if ours.prices is not None else at_once(ours)):
        with one_thread():
            found = ascend(ours, tol, limit, partial(watch, 0, ours.n, Bounds()))
    chosen = first_set(ours, start, found)
    if before == 0 and found.iterations == 0:
        # Later, and after a sorting, what was found so far is kept.
        ours.check_room(len(chosen.rows))
    found = solve_in_rounds(chosen, tol, limit, found, watch)
    lam, eta, b = found.weights
    weights, dual, intercept = ours.weights(lam, eta), ours.dual(found.lam), ours.intercept(b)
    bounds = Bounds(found.bounds.lower / ours.scale, found.bounds.upper / ours.scale)
    return Found(Answer(weights, dual, found.iterations, found.stopped, intercept, reason=found.reason), bounds)
