"""`solve(problem, solver=…)` returns a certified `Solution`, whichever solver computes the answer."""

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from implicit_bias._utils.checks import InputError, one_of, shown
from implicit_bias.certificate import NEARLY_ZERO, certify
from implicit_bias.margin.problem import MarginProblem, check_problem
from implicit_bias.margin.solution import Solution, Status
from implicit_bias.solvers.base import Answer, Options, Progress, Solver
from implicit_bias.solvers.cvxpy_solvers import CVXPY_SOLVERS
from implicit_bias.solvers.diagnostics import diagnose
from implicit_bias.solvers.native import NativeSolver, PreciseSolver
from implicit_bias.solvers.separability import evident_conflict, farkas_candidate, is_final

#: The solvers by name, the preferred ones first.
SOLVERS: dict[str, Solver] = {"NATIVE": NativeSolver(), **CVXPY_SOLVERS, "PRECISE": PreciseSolver()}
#: How a solver may say that it stopped early. Only the certificate decides what is optimal or not separable.
STOPPED = (None, Status.ITERATION_LIMIT, Status.TIME_LIMIT, Status.INTERRUPTED)
#: Fallback solvers, tried in order if `solver` is not given and the first answer is inconclusive.
FALLBACK_SOLVERS = ("CLARABEL", "PRECISE", "ECOS")
#: Number of entries of Φ up to which they are tried: solvers of general cone programs then take seconds.
MAX_RETRY_ENTRIES = 3_000_000

#: A solver: any function of a problem and options.
Run = Callable[[MarginProblem, Options], Answer]


def solver_names() -> list[str]:
    """The solvers that `solve` knows.

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
        One of `solver_names()`. If not given: NATIVE, our interior-point method, where the norm is a sum of group
        norms and there are no constraints, else CLARABEL; where its answer is INACCURATE, or NOT_SEPARABLE_BELOW that
        others may sharpen, and the problem is not large, CLARABEL, PRECISE and ECOS in turn, and `solver` and `reason`
        of the solution say so. OSQP takes hard margins with a quadratic norm only. The choice changes the time, not the
        answer. A function of the problem and the options that returns an `Answer` is a solver of your own.
    tol : float
        The relative gap asked for, below 1. A larger certified gap gives INACCURATE.
    max_iterations : int, optional
        The solver's own limit; its default if not given. NATIVE counts the iterations of all its working sets,
        and the passes over all samples that sort a soft margin's.
    max_seconds : float, optional
        Time after which to stop with the best answer so far (TIME_LIMIT). ECOS has no such limit.
    start : Solution, optional
        NATIVE: an earlier answer for the same samples, at another C, norm or tolerance; the first working set is its
        support. Soft margins of which many samples are at their price begin anew: they are sorted faster than that.
    device : str
        NATIVE: 'cpu', which is NumPy, or a device of torch, which must be installed: 'cuda', 'cuda:1', or 'cpu:0',
        torch on the CPU. All computation is in float64.
    callback : function of a Progress, optional
        NATIVE: called at every iteration.
    verbose : bool
        Show the solver's own log; NATIVE renews one line on standard error.

    Returns
    -------
    Solution
        With the certificate recomputed from weights and dual in the original coordinates. Data that are not
        separable give the status NOT_SEPARABLE and, in `dual`, the λ that proves it in rational arithmetic, or, where
        that proof would be too long, NOT_SEPARABLE_BELOW: no weights of a norm below `lower_bound` separate. The
        weights are then NaN. INACCURATE comes with a `reason`.
        Ctrl-C gives INTERRUPTED, and from NATIVE the best answer so far.

    Raises
    ------
    InputError
        For an unknown solver, one that cannot take the problem, or bad options.

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
    name, run = _chosen(problem, solver)
    if isinstance(run, Solver):
        reason = run.refuses(problem, options)
        if reason:
            raise InputError(f"{name} cannot take {problem.name}: {reason}")
        run.load()
    begin = time.perf_counter()
    conflict = evident_conflict(problem)
    nowhere = np.zeros((problem.features.k, problem.features.d))
    answer = run(problem, options) if conflict is None else Answer(nowhere, conflict, 0)
    attempts = [_certified(problem, name, answer, options.tol)]
    best = attempts[0]
    if solver is None and problem.features.n * problem.features.k * problem.features.d <= MAX_RETRY_ENTRIES:
        best = _with_fallbacks(problem, options, begin, attempts)
    return replace(
        best,
        iterations=attempts[0].iterations + sum(max(attempt.iterations, 0) for attempt in attempts[1:]),
        seconds=time.perf_counter() - begin,
        solver=min(reversed(attempts), key=lambda attempt: attempt.gap).solver,
        reason=_reason(problem, best, attempts),
    )


def _chosen(problem: MarginProblem, solver: str | Run | None) -> tuple[str, Run]:
    """The name of the solver and the solver itself."""
    if isinstance(solver, Solver):
        return solver.name, solver
    if solver is not None and callable(solver):
        return getattr(solver, "__name__", type(solver).__name__), solver
    fitting = (name for name, known in SOLVERS.items() if problem.unsupported(known.needs) is None)
    name = next(fitting) if solver is None else one_of(solver, SOLVERS, "solver")
    return name, SOLVERS[name]


def _certified(problem: MarginProblem, name: str, answer: Answer, tol: float) -> Solution:
    """Certify a solver's answer; if its weights do not separate, search for a proof that none do."""
    counted = isinstance(answer, Answer) and isinstance(answer.iterations, int | np.integer)
    if not counted or answer.stopped not in STOPPED:
        raise InputError(
            f"the solver {name} must return an Answer(weights, dual, iterations), with a whole number of iterations, "
            f"and for `stopped` None or a limit's status, not {shown(answer)}"
        )
    bounds = certify(problem, answer.weights, answer.dual, answer.intercept, answer.multipliers)
    if problem.hard and _ended(answer.stopped) and bounds.separable and np.isinf(bounds.objective):
        candidate = farkas_candidate(problem, bounds.dual)
        if candidate is not None:
            proof = certify(problem, answer.weights, candidate[0], 0.0, candidate[1])
            bounds = max(bounds, proof, key=lambda one: one.lower_bound)
    found = Solution(
        **vars(bounds),
        status=Status.INACCURATE,
        iterations=answer.iterations,
        seconds=0.0,
        solver=name,
        tol=tol,
        reason=answer.reason,
    )
    return _concluded(problem, found, answer.stopped)


def _ended(stopped: Status | None) -> bool:
    """True unless a time limit or Ctrl-C stopped the solver."""
    return stopped in (None, Status.ITERATION_LIMIT)


def _concluded(problem: MarginProblem, found: Solution, stopped: Status | None) -> Solution:
    """Set the status that the bounds imply after an answer; without weights if nothing separates."""
    unbounded = problem.hard and _ended(stopped) and np.isinf(found.objective)
    if not found.separable or (unbounded and found.farkas_residual <= NEARLY_ZERO):
        status = Status.NOT_SEPARABLE_BELOW if found.separable else Status.NOT_SEPARABLE
        nothing = {name: getattr(found, name) * np.nan for name in ("weights", "margins")}
        return replace(found, **nothing, intercept=0.0, status=status)
    return replace(found, status=Status.OPTIMAL if found.gap <= found.tol else stopped or Status.INACCURATE)


def _with_fallbacks(problem: MarginProblem, options: Options, begin: float, attempts: list[Solution]) -> Solution:
    """Run the fallback solvers until one is conclusive; append each to `attempts`; return the best bounds."""
    best = attempts[0]
    for name in FALLBACK_SOLVERS:
        left = None if options.max_seconds is None else options.max_seconds - (time.perf_counter() - begin)
        inconclusive = best.status is Status.INACCURATE or (
            best.status is Status.NOT_SEPARABLE_BELOW and not is_final(best)
        )
        if not inconclusive or (left is not None and left <= 0):
            break
        limited = replace(options, max_seconds=left, start=None, callback=None, device="cpu")
        if name != attempts[0].solver and not SOLVERS[name].refuses(problem, limited):
            attempts.append(_certified(problem, name, SOLVERS[name](problem, limited), options.tol))
            best = _merged(problem, best, attempts[-1])
    return best


def _merged(problem: MarginProblem, best: Solution, attempt: Solution) -> Solution:
    """The better upper bound of two solutions and the better lower one, each with what proves it."""
    upper = min(best, attempt, key=lambda one: one.objective)
    lower = max(best, attempt, key=lambda one: one.lower_bound)
    gap = (upper.objective - lower.lower_bound) / upper.objective if upper.objective < np.inf else np.inf
    proof = {name: getattr(lower, name) for name in ("dual", "lower_bound", "farkas_residual", "multipliers")}
    stopped = attempt.status if attempt.status in STOPPED else None
    found = _concluded(problem, replace(upper, **proof, gap=gap), stopped)
    # A proof stays a proof if a limit ends the next solver.
    proved = best.status.inseparable and not found.status.inseparable and np.isinf(found.objective)
    return replace(found, status=best.status) if proved else found


def _reason(problem: MarginProblem, best: Solution, attempts: list[Solution]) -> str:
    """Explain how the inconclusive attempts ended, and what keeps an INACCURATE gap from `tol`."""
    inaccurate = best.status is Status.INACCURATE
    several = attempts if inaccurate else attempts[:-1]
    parts = [f"{one.solver} ended at a gap of {one.gap:.1e}" for one in several if len(attempts) > 1]
    return "; ".join([*parts, attempts[-1].reason or diagnose(problem, best)] if inaccurate else parts)
