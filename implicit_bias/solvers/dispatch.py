"""The function `solve`: run a solver on a margin problem and certify its answer."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from implicit_bias._utils.checks import InputError, one_of, shown
from implicit_bias._utils.limits import Deadline
from implicit_bias.certificate import NEARLY_ZERO, certify
from implicit_bias.margin.problem import MarginProblem, check_problem
from implicit_bias.margin.solution import Solution, Status
from implicit_bias.solvers.base import Answer, Options, Progress, Solver
from implicit_bias.solvers.cvxpy_solvers import CVXPY_SOLVERS
from implicit_bias.solvers.diagnostics import diagnose
from implicit_bias.solvers.native import NativeSolver
from implicit_bias.solvers.native.precise import PreciseSolver
from implicit_bias.solvers.separability import farkas_candidate, is_final, presolve_certificate

#: The solvers by name, in order of preference.
SOLVERS: dict[str, Solver] = {"NATIVE": NativeSolver(), **CVXPY_SOLVERS, "PRECISE": PreciseSolver()}
#: Values of `Answer.stopped`: the limits. Only the certificate decides whether an answer is optimal or inseparable.
STOPPED = (None, Status.ITERATION_LIMIT, Status.TIME_LIMIT, Status.INTERRUPTED)
#: Those of a solver that ended by itself or at its iteration limit, not by a time limit or Ctrl-C. Only then do weights
#: that do not separate suggest that the samples are inseparable.
ENDED = STOPPED[:2]
#: Fallback solvers, tried in order if `solver` is not given and the first answer is inconclusive, and the number of
#: entries of Φ up to which each takes seconds. SCS runs only for linear constraints.
FALLBACK_SOLVERS = {"PRECISE": np.inf, "CLARABEL": 3_000_000, "ECOS": 3_000_000, "SCS": 30_000}
#: Iteration limit of SCS as a fallback solver.
SCS_ITERATIONS = 20_000
#: Time of a certificate, in units of that of a product with Φ.
CERTIFICATE_PRODUCTS = 8
#: Least share of the time left that a solver has.
LEAST_SHARE = 0.5

#: Type of a solver: any function of a problem and options.
Run = Callable[[MarginProblem, Options], Answer]


def solver_names() -> list[str]:
    """Return the names of the solvers, in order of preference.

    >>> from implicit_bias import solver_names
    >>> solver_names()
    ['NATIVE', 'CLARABEL', 'ECOS', 'OSQP', 'SCS', 'PRECISE']
    """
    return list(SOLVERS)


@np.errstate(all="ignore")
def solve(
    problem: MarginProblem,
    solver: str | Run | None = None,
    *,
    tol: float = 1e-6,
    max_iterations: int | None = None,
    max_seconds: float | None = None,
    start: Solution | None = None,
    device: str = "cpu",
    callback: Callable[[Progress], None] | None = None,
    verbose: bool = False,
) -> Solution:
    """Solve a margin problem and certify the answer.

    Parameters
    ----------
    problem : MarginProblem
    solver : str or function, optional
        One of `solver_names()`, or a custom solver: a function of the problem and the options that returns an
        `Answer`. The default is NATIVE, the package's interior-point methods, if the norm is a sum of group norms, a
        nuclear norm or polyhedral, and there are no linear constraints other than those of `interpolation`, for sums of
        group norms; else CLARABEL. If its answer is inconclusive,
        PRECISE and, if Φ has at most 3,000,000 entries, CLARABEL and ECOS run in turn until one is conclusive; for
        linear constraints and at most 30,000 entries also SCS. `reason` then lists the attempts. OSQP solves only hard
        margins with a quadratic norm.
    tol : float
        Largest relative gap of an OPTIMAL solution, below 1.
    max_iterations : int, optional
        Iteration limit of the solver; by default its own. NATIVE counts the iterations of all its working sets and
        the passes over all samples that screen a soft margin.
    max_seconds : float, optional
        Time limit in seconds, of all solvers together; the result is then the best answer so far (TIME_LIMIT);
        ECOS returns none.
    start : Solution, optional
        NATIVE and PRECISE: an earlier solution for the same samples, at another C, norm or tolerance. Its largest λ_i
        determine the first working set. If many of its λ_i are at their bound C c_i, the samples are screened instead,
        because that is faster. Norms without a group form make no use of it in NATIVE.
    device : str
        NATIVE only: 'cpu' for NumPy, or a device of torch, which must be installed: 'cuda', 'cuda:1', or 'cpu:0' for
        torch on the CPU. Results are in float64; large working sets are factorised in float32 and refined.
    callback : function of a Progress, optional
        NATIVE only: called after every iteration.
    verbose : bool
        Print the solver's log; NATIVE updates one line on standard error.

    Returns
    -------
    Solution
        Bounds, recomputed from weights and dual in the original coordinates, and a status. Inseparable data give
        NOT_SEPARABLE, and `dual` proves it in rational arithmetic. If this proof would be too long, the status is
        NOT_SEPARABLE_BELOW: no weights of a norm below `lower_bound` separate. INFEASIBLE proves that linear
        constraints contradict each other. The weights are NaN in all three cases.
        INACCURATE comes with a `reason`. Ctrl-C ends the solve at its next iterate with the best answer so far, and the
        status INTERRUPTED even if its gap is within `tol`. A second Ctrl-C raises KeyboardInterrupt.

    Raises
    ------
    InputError
        If the solver is unknown or does not support the problem, or an option is invalid.

    Examples
    --------
    >>> from implicit_bias import HyperplaneGates, load_binary, solve, svm_gln
    >>> task = load_binary("digits", train_size=100)
    >>> solution = solve(svm_gln(task.X_train, task.y_train, HyperplaneGates(5, 2, seed=1).fit(task.X_pool)))
    >>> solution.gap < 1e-6, round(solution.minimum_margin, 6)
    (True, 1.0)
    """
    check_problem(problem)
    options = Options(tol, max_iterations, max_seconds, start, device, callback, verbose)
    with Deadline() as loading:
        name, run = _chosen(problem, solver)
        if isinstance(run, Solver):
            reason = run.refusal(problem, options)
            if reason:
                raise InputError(reason)
            run.load()
    # Imports are not part of the time of a solve.
    options = replace(options, deadline=Deadline(options.max_seconds))
    if loading.interrupted:
        options.deadline.interrupt()
    with options.deadline as deadline:
        solution = _solved(problem, name, run, options, several=solver is None)
    # Also for an answer that was finished: a loop of solves must end.
    interrupted = deadline.interrupted and not solution.status.inseparable
    return replace(solution, status=Status.INTERRUPTED) if interrupted else solution


def _solved(problem: MarginProblem, name: str, run: Run, options: Options, several: bool) -> Solution:
    conflict = presolve_certificate(problem)
    nowhere = np.zeros((problem.features.k, problem.features.d))
    if conflict is not None:
        answer = Answer(nowhere, conflict, 0)
    elif isinstance(run, Solver):
        answer = run(problem, _without_certificate(problem, options))
    else:
        # A function of the user need not look at the deadline: Ctrl-C raises KeyboardInterrupt in it.
        called = options.deadline.call(lambda: (run(problem, options),))
        none = Answer(nowhere, np.zeros(problem.features.n), -1, Status.INTERRUPTED)
        answer = none if called is None else called[0]
    attempts = [certified(problem, name, answer, options)]
    best = _with_fallbacks(problem, options, attempts) if several else attempts[0]
    # Gaps of the inconclusive attempts, if there are several, and the cause if INACCURATE.
    inaccurate = best.status is Status.INACCURATE
    inconclusive = attempts if inaccurate and len(attempts) > 1 else attempts[:-1]
    reasons = [f"{one.solver} ended at a gap of {one.gap:.1e}" for one in inconclusive]
    if inaccurate:
        reasons.append(attempts[-1].reason or diagnose(problem, best))
    return replace(
        best,
        iterations=attempts[0].iterations + sum(max(attempt.iterations, 0) for attempt in attempts[1:]),
        seconds=options.deadline.seconds,
        solver=min(reversed(attempts), key=lambda attempt: attempt.gap).solver,
        reason="; ".join(reasons),
    )


def _chosen(problem: MarginProblem, solver: str | Run | None) -> tuple[str, Run]:
    if isinstance(solver, Solver):
        return solver.name, solver
    if solver is not None and callable(solver):
        return getattr(solver, "__name__", type(solver).__name__), solver
    fitting = (name for name, known in SOLVERS.items() if problem.unsupported(known.needs) is None)
    name = next(fitting) if solver is None else one_of(solver, SOLVERS, "solver")
    return name, SOLVERS[name]


def certified(problem: MarginProblem, name: str, answer: Answer, options: Options) -> Solution:
    """Return the certified answer; if no multiple of its weights is feasible, search for a proof that no weights are.

    An answer after the deadline counts as stopped.
    """
    counted = isinstance(answer, Answer) and isinstance(answer.iterations, int | np.integer)
    if not counted or answer.iterations < -1 or answer.stopped not in STOPPED:
        text = f"the solver {name} must return an Answer(weights, dual, iterations) with an integer number of"
        kind = "iterations, -1 if unknown, and `stopped` None or the status of a limit"
        raise InputError(f"{text} {kind}, not {shown(answer)}")
    bounds = certify(problem, answer.weights, answer.dual, answer.intercept, answer.multipliers)
    stopped = options.stop() or answer.stopped
    may_be_infeasible = (problem.hard or problem.affine) and problem.features.unresolved == 0 and stopped in ENDED
    if may_be_infeasible and np.isinf(bounds.objective) and bounds.separable:
        candidate = farkas_candidate(problem, bounds.dual, options.deadline)
        stopped = options.stop() or answer.stopped
        if candidate is not None:
            proof = certify(problem, answer.weights, candidate[0], 0.0, candidate[1])
            # After a limit only a proof counts: a longer limit may end without a search, and with a smaller bound.
            if stopped is None or not proof.separable or proof.farkas_residual <= NEARLY_ZERO:
                bounds = max(bounds, proof, key=lambda one: one.lower_bound)
    solution = Solution(
        **vars(bounds),
        status=Status.INACCURATE,
        iterations=answer.iterations,
        seconds=0.0,
        solver=name,
        tol=options.tol,
        reason=answer.reason,
    )
    return _concluded(problem, solution, stopped)


def _without_certificate(problem: MarginProblem, options: Options) -> Options:
    """Return the options with a deadline that leaves time for the certificate, measured by a product with all of Φ."""
    left = options.deadline.left()
    if left is None or options.stop():
        return options
    before = options.deadline.seconds
    problem.margins(np.ones((problem.features.k, problem.features.d)))
    share = CERTIFICATE_PRODUCTS * (options.deadline.seconds - before) / left
    return replace(options, deadline=options.deadline.part(max(1 - share, LEAST_SHARE)))


def _concluded(problem: MarginProblem, found: Solution, stopped: Status | None) -> Solution:
    """Return `found` with the status that its bounds imply; weights and margins of inseparable data become NaN."""
    if np.isinf(found.objective):
        nearly = problem.hard and found.farkas_residual <= max(NEARLY_ZERO, problem.features.unresolved)
        if not found.separable or (nearly and stopped in ENDED):
            proved = Status.NOT_SEPARABLE if found.dual.any() else Status.INFEASIBLE
            status = Status.NOT_SEPARABLE_BELOW if found.separable else proved
            nothing = {name: getattr(found, name) * np.nan for name in ("weights", "margins")}
            return replace(found, **nothing, intercept=0.0, status=status)
    return replace(found, status=Status.OPTIMAL if found.gap <= found.tol else stopped or Status.INACCURATE)


def _with_fallbacks(problem: MarginProblem, options: Options, attempts: list[Solution]) -> Solution:
    """Run fallback solvers until one is conclusive; append their solutions to `attempts`; return the merged bounds."""
    best, entries = attempts[0], problem.features.n * problem.features.k * problem.features.d
    for name, most in FALLBACK_SOLVERS.items():
        below = best.status is Status.NOT_SEPARABLE_BELOW and not is_final(best)
        if not (below or best.status is Status.INACCURATE):
            break
        stopped = options.stop()
        if stopped:
            # Not all solvers were tried.
            return replace(best, status=stopped) if best.status is Status.INACCURATE else best
        start = best if "start" in SOLVERS[name].takes else None
        limited = replace(options, start=start, callback=None, device="cpu")
        if name == "SCS":
            limited = replace(limited, max_iterations=min(options.max_iterations or SCS_ITERATIONS, SCS_ITERATIONS))
        fits = entries <= most and (name != "SCS" or problem.constraints is not None)
        if fits and name != attempts[0].solver and not SOLVERS[name].refusal(problem, limited):
            answer = SOLVERS[name](problem, _without_certificate(problem, limited))
            if options.max_iterations is None and answer.stopped is Status.ITERATION_LIMIT:
                answer = replace(answer, stopped=None)
            attempts.append(certified(problem, name, answer, limited))
            best = merged(problem, best, attempts[-1])
    return best


def merged(problem: MarginProblem, best: Solution, attempt: Solution) -> Solution:
    """Return one solution: the better upper bound and its weights, the better lower bound and its dual, the status."""
    upper = min(best, attempt, key=lambda one: one.objective)
    lower = max(best, attempt, key=lambda one: one.lower_bound)
    gap = (upper.objective - lower.lower_bound) / upper.objective if upper.objective < np.inf else np.inf
    proof = {name: getattr(lower, name) for name in ("dual", "lower_bound", "farkas_residual", "multipliers")}
    stopped = attempt.status if attempt.status in STOPPED else None
    joined = _concluded(problem, replace(upper, **proof, gap=gap), stopped)
    # A proof stays a proof if a limit ends the next solver.
    proved = best.status.inseparable and not joined.status.inseparable and np.isinf(joined.objective)
    return replace(joined, status=best.status) if proved else joined
