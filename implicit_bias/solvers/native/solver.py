"""The native solver: the choice of a method by the norm, and the solve for sums of group norms."""

from dataclasses import replace
from functools import partial

import numpy as np

from implicit_bias._utils.checks import Array, shown
from implicit_bias._utils.threads import one_thread
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solution import Status
from implicit_bias.norms import GroupForm
from implicit_bias.solvers.base import Answer, Options, Progress, Solver, end_line
from implicit_bias.solvers.native.ball import BallDescent
from implicit_bias.solvers.native.interior_point import Outcome
from implicit_bias.solvers.native.interpolation import interpolate
from implicit_bias.solvers.native.loop import Bounds, Incumbent, Pace, constant
from implicit_bias.solvers.native.nuclear import NuclearProgram
from implicit_bias.solvers.native.polyhedral import PolyhedralProgram
from implicit_bias.solvers.native.scaled import scaled
from implicit_bias.solvers.native.screening import screen
from implicit_bias.solvers.native.settings import Settings
from implicit_bias.solvers.native.spectral import SpectralProgram
from implicit_bias.solvers.native.working_set import GroupSet, SampleSet


class NativeSolver(Solver):
    """The package's interior-point method, with NumPy, or with torch on an explicit device; by default `Settings()`."""

    name = "NATIVE"
    needs = "native"
    takes = frozenset({"max_seconds", "start", "callback", "device"})

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()

    def __call__(self, problem: MarginProblem, options: Options, outer: Incumbent | None = None) -> Answer:
        """Return weights and dual of a margin problem to a relative gap of `options.tol`; `outer` gets answers, too.

        Nuclear norms and norms with a polyhedral or a spectral form have their own methods. For the others, with
        W = TŴ, the norm is Σ_h ‖Ŵ_h‖ over the groups of its group form, and the features have the gate values GT. At
        the optimum Ŵ_h = η_h Φ_hᵀ(λ∘y). If there are many groups, most Ŵ_h are 0, and working sets of groups are
        solved.
        """
        if problem.constraints is not None:
            return interpolate(problem, options)
        incumbent, before, stopped = Incumbent(problem, outer), 0, options.stop()
        if options.limited:
            # A screening or a round that is cut short may end with less than this.
            lam = incumbent.even()
            incumbent.offer(Answer(problem.adjoint(lam), lam, 0))
        if stopped is not None:
            return incumbent.answer(0, stopped)
        if not problem.hard and largest_bound(problem) > self.settings.large_bound:
            # If no λ of the hard margin exceeds its upper bound, the solution is the same.
            hard = self(problem.replace(C=np.inf), replace(options, callback=None), incumbent)
            separate = (problem.margins(hard.weights, hard.intercept) > 0).all()
            if hard.stopped is None and separate and (hard.dual <= problem.upper_bounds).all():
                return hard
            before = hard.iterations
            stopped = Status.ITERATION_LIMIT if before == options.max_iterations else hard.stopped
            if stopped is not None:
                return incumbent.answer(before, stopped, hard.reason)
            if options.max_iterations is not None:
                options = replace(options, max_iterations=options.max_iterations - before)
        answer = _answer(incumbent, options, self.settings)
        objective, b = constant(problem)
        if (1 - options.tol / 2) * objective <= incumbent.bounds.lower:
            # Other weights would only be what the tolerance leaves.
            answer = replace(answer, weights=0 * answer.weights, intercept=b)
        if options.verbose:
            end_line()
        return replace(answer, iterations=before + answer.iterations)

    def refusal(self, problem: MarginProblem, options: Options) -> str | None:
        reason = super().refusal(problem, options)
        if reason:
            return reason
        k, norm = problem.features.k, problem.norm
        if "device" not in options.special:
            return None
        forms = problem.constraints, norm.polyhedral_form(k), norm.spectral_form(k)
        if norm.has_atoms or forms != (None, None, None):
            return f"for {problem!r} NATIVE computes on 'cpu' only; leave device out"
        name = options.device
        try:
            import torch

            device = torch.device(name)
        except ImportError as error:
            return f"a device other than 'cpu' needs torch ({error}); use 'cpu', or pip install torch"
        except (RuntimeError, TypeError, ValueError, OverflowError):
            return f"{shown(name)} is no device; use 'cpu' or 'cuda'"
        if device.type not in ("cpu", "cuda"):
            return f"NATIVE computes in float64 on 'cpu' or 'cuda', not on {name!r}"
        if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
            return f"torch sees no device {name!r} here; use 'cpu'"
        return None


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

    def report(count: int, size: int, bounds: Bounds, gap: float, checked: Outcome | None) -> None:
        """Offer and report an iterate after `count` iterations; `bounds` are in the solver's coordinates."""
        if checked is not None and options.limited:
            # Bounds of some of the groups are no bounds for all of them.
            incumbent.offer(ours.answer(checked), checked.bounds.over(ours.scale) if known is None else None)
        if options.callback is not None or options.verbose:
            bounds = bounds.over(ours.scale)
            if known is not None:
                bounds = Bounds(known.lower, min(known.upper, bounds.upper))
            seconds = options.deadline.seconds
            options.report(Progress(before + count, seconds, bounds.lower, bounds.upper, gap, size, ours.n))

    def watch(earlier: int, step: int, size: int, bounds: Bounds, gap: float, checked: Outcome | None) -> Status | None:
        report(earlier + step, size, bounds, gap, checked)
        return pace.stop(step, ours.step_work(size))

    def screened(epoch: int, best: Outcome) -> Status | None:
        report(epoch, ours.n, best.bounds, best.bounds.gap, best if best.iterations == epoch else None)
        return epochs.stop(epoch, 1.0)

    limit = (settings.max_iterations if options.max_iterations is None else options.max_iterations) - before
    outcome = ours.nothing_known()
    if ours.screening_pays(start):
        with one_thread():
            outcome = screen(ours, tol, limit, screened, options.deadline.passed)
    if outcome.stopped is None:
        # Later, and after screening, an error would discard the results so far.
        rounds = SampleSet(ours, start, outcome, tol, limit, watch, options.limited)
        outcome = rounds.run(strict=before == 0 and outcome.iterations == 0)
    return ours.answer(outcome), outcome.bounds.over(ours.scale)
