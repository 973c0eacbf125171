"""Translation of a margin problem for the interior-point method, and of its answer."""

from dataclasses import replace
from functools import partial

import numpy as np

from implicit_bias._utils.checks import Array
from implicit_bias._utils.threads import one_thread
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solution import Status
from implicit_bias.norms import GroupForm
from implicit_bias.solvers.base import Answer, Options, Progress, end_line
from implicit_bias.solvers.native.ball import BallDescent
from implicit_bias.solvers.native.incumbent import Incumbent, Pace, constant
from implicit_bias.solvers.native.interior_point import Bounds, Outcome
from implicit_bias.solvers.native.nuclear import NuclearProgram
from implicit_bias.solvers.native.polyhedral import PolyhedralProgram
from implicit_bias.solvers.native.scaled import scaled
from implicit_bias.solvers.native.screening import many_bounded, screen
from implicit_bias.solvers.native.settings import Settings
from implicit_bias.solvers.native.spectral import SpectralProgram
from implicit_bias.solvers.native.working_set import GroupSet, SampleSet


def solve_native(
    problem: MarginProblem, options: Options, settings: Settings, outer: Incumbent | None = None
) -> Answer:
    """Return weights and dual of a margin problem to a relative gap of `options.tol`.

    Nuclear norms and norms with a polyhedral or a spectral form have their own methods. For the others, with W = TŴ the
    norm is Σ_h ‖Ŵ_h‖ over the groups of its group form, and the features have the gate values GT. At the optimum
    Ŵ_h = η_h Φ_hᵀ(λ∘y). If there are many groups, most Ŵ_h are 0, and working sets of groups are solved.
    """
    incumbent, before, stopped = Incumbent(problem, outer), 0, options.stop()
    if options.limited:
        # A screening or a round that is cut short may end with less than this.
        lam = incumbent.even()
        incumbent.offer(Answer(problem.adjoint(lam), lam, 0))
    if stopped is not None:
        return incumbent.answer(0, stopped)
    if not problem.hard and largest_bound(problem) > settings.large_bound:
        # If no λ of the hard margin exceeds its upper bound, the solution is the same.
        hard = solve_native(problem.replace(C=np.inf), replace(options, callback=None), settings, incumbent)
        separate = (problem.margins(hard.weights, hard.intercept) > 0).all()
        if hard.stopped is None and separate and (hard.dual <= problem.upper_bounds).all():
            return hard
        before = hard.iterations
        stopped = Status.ITERATION_LIMIT if before == options.max_iterations else hard.stopped
        if stopped is not None:
            return incumbent.answer(before, stopped, hard.reason)
        if options.max_iterations is not None:
            options = replace(options, max_iterations=options.max_iterations - before)
    answer = _answer(incumbent, options, settings)
    objective, b = constant(problem)
    if (1 - options.tol / 2) * objective <= incumbent.bounds.lower:
        # Other weights would only be what the tolerance leaves.
        answer = replace(answer, weights=0 * answer.weights, intercept=b)
    if options.verbose:
        end_line()
    return replace(answer, iterations=before + answer.iterations)


def _answer(incumbent: Incumbent, options: Options, settings: Settings) -> Answer:
    problem, norm, k = incumbent.problem, incumbent.problem.norm, incumbent.problem.features.k
    if (polyhedral := norm.polyhedral_form(k)) is not None:
        return BallDescent(incumbent, partial(PolyhedralProgram, form=polyhedral), options, settings).run()
    if (spectral := norm.spectral_form(k)) is not None:
        return BallDescent(incumbent, partial(SpectralProgram, form=spectral), options, settings).run()
    if norm.has_atoms:
        return BallDescent(incumbent, partial(NuclearProgram, settings=settings), options, settings).run()
    # Half the tolerance is kept for the rounding of the certificate in the original coordinates.
    tol, start = options.tol / 2, None if options.start is None else np.asarray(options.start.dual)
    solve = partial(_solve_form, incumbent, Pace(options, settings), settings)
    form = problem.group_form
    assert form is not None
    per_sample = settings.groups_per_sample * min(problem.features.n, settings.counted_samples)
    if form.count > settings.all_groups_up_to and form.count > per_sample:
        return GroupSet(incumbent, form, tol, start, solve, settings).run()
    answer, bounds = solve(form, start, tol, 0, None)
    incumbent.offer(answer, bounds, checked=answer.stopped is None)
    return incumbent.answer(answer.iterations, answer.stopped, answer.reason)


def largest_bound(problem: MarginProblem) -> float:
    """Return max_i C c_i · max_i ‖φ(x_i)‖, which no choice of units changes."""
    return float(problem.upper_bounds.max()) * float(problem.features.row_norms().max())


def _solve_form(
    incumbent: Incumbent,
    pace: Pace,
    settings: Settings,
    form: GroupForm,
    start: Array | None,
    tol: float,
    before: int,
    known: Bounds | None,
) -> tuple[Answer, Bounds]:
    """Return the solution for the groups of `form` to a relative gap of `tol`, from a λ (n,) in `start`, if any.

    `before` iterations have led to the bounds `known` over all groups, None if `form` has them all.
    """
    problem, options, epochs = incumbent.problem, pace.options, Pace(pace.options, settings)
    ours = None if options.stop() else scaled(problem, form, str(options.device), settings)
    if ours is None or options.stop():
        return incumbent.answer(0, options.stop()), incumbent.bounds

    def answer(outcome: Outcome) -> Answer:
        """Return a result for all samples in the original coordinates."""
        lam, eta, b = outcome.weights
        weights, dual, intercept = ours.weights(lam, eta), ours.dual(outcome.lam), ours.intercept(b)
        return Answer(weights, dual, outcome.iterations, outcome.stopped, intercept, reason=outcome.reason)

    def watch(
        inside: int,
        size: int,
        whole: Bounds,
        iteration: int,
        inner: Bounds,
        checked: Outcome | None,
        epochs: Pace | None = None,
    ) -> Status | None:
        """Report an iterate; return a status after Ctrl-C, or near `max_seconds`. See `WatchAll`; `epochs` screens."""
        if checked is not None and options.limited:
            # Bounds of some of the groups are no bounds for all of them.
            lower, upper = checked.bounds.lower / ours.scale, checked.bounds.upper / ours.scale
            incumbent.offer(answer(checked), Bounds(lower, upper) if known is None else None)
        if options.callback is not None or options.verbose:
            upper = (inner.upper if size == ours.n else whole.upper) / ours.scale
            lower = whole.lower / ours.scale if known is None else known.lower
            upper = upper if known is None else min(known.upper, upper)
            seconds = options.deadline.seconds
            options.report(Progress(before + inside + iteration, seconds, lower, upper, inner.gap, size, ours.n))
        return pace.stop(iteration, ours.step_work(size)) if epochs is None else epochs.stop(iteration, 1.0)

    def screened(epoch: int, best: Outcome) -> Status | None:
        return watch(0, ours.n, best.bounds, epoch, best.bounds, best if best.iterations == epoch else None, epochs)

    limit = (settings.max_iterations if options.max_iterations is None else options.max_iterations) - before
    outcome = ours.nothing_known()
    # An earlier solution is a faster start than screening, unless many of its λ are at their bound.
    share = None if start is None else ours.to_device(start / problem.upper_bounds)
    warm = share is not None and not many_bounded(share, share.max() + 0 * share, settings)
    pays = not ours.few or (ours.sparse_groups and start is None)
    if not warm and pays and (ours.box is not None or not ours.few_features):
        with one_thread():
            outcome = screen(ours, tol, limit, screened, options.deadline.passed)
    if outcome.stopped is None:
        # Later, and after screening, an error would discard the results so far.
        rounds = SampleSet(ours, start, outcome, tol, limit, watch, options.limited)
        outcome = rounds.run(strict=before == 0 and outcome.iterations == 0)
    return answer(outcome), Bounds(outcome.bounds.lower / ours.scale, outcome.bounds.upper / ours.scale)
