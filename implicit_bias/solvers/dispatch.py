"""The one door: `solve(problem, solver=…)` returns a certified `Solution`."""

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from implicit_bias._utils.checks import InputError, one_of, shown
from implicit_bias.certificate import NEARLY_ZERO, certify
from implicit_bias.margin.problem import MarginProblem, check_problem
from implicit_bias.margin.solution import Certificate, Solution, Status
from implicit_bias.solvers.base import Answer, Options, Progress, Solver
from implicit_bias.solvers.cvxpy_solvers import CVXPY_SOLVERS
from implicit_bias.solvers.diagnostics import obstacle
from implicit_bias.solvers.native import NativeSolver, PreciseSolver
from implicit_bias.solvers.separability import closed_sample, farkas_candidate, final, opposite_copies

#: The solvers by name, the preferred ones first. What is called with a problem and options, and answers.
SOLVERS: dict[str, Solver] = {"NATIVE": NativeSolver(), **CVXPY_SOLVERS, "PRECISE": PreciseSolver()}
#: What may end a solver early; that an answer is optimal, or that there is none, only the judge says.
STOPPED = (None, Status.ITERATION_LIMIT, Status.TIME_LIMIT, Status.INTERRUPTED)
#: Who tries in turn where nobody was named and the first one's answer leaves room, up to how many entries of Φ.
AFTERWARDS, TRIED_AGAIN_UP_TO = ("CLARABEL", "PRECISE", "ECOS"), 3_000_000


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
    solver: str | Callable[[MarginProblem, Options], Answer] | None = None,
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
    plain = None
    if problem.hard:
        plain = closed_sample(problem)
        plain = opposite_copies(problem) if plain is None else plain
    if plain is None:
        answer = _asked(problem, name, run, options)
    else:
        answer = Answer(np.zeros((problem.features.k, problem.features.d)), plain, 0)
    status, certificate = _judged(problem, answer, tol)
    tried = [(name, answer, certificate.gap)]
    if solver is None and _small(problem):
        status, certificate = _tried_again(problem, options, begin, status, certificate, tried)
    return Solution(
        **vars(certificate),
        status=status,
        iterations=answer.iterations + sum(max(other.iterations, 0) for _, other, _ in tried[1:]),
        seconds=time.perf_counter() - begin,
        solver=min(reversed(tried), key=lambda one: one[2])[0],
        tol=tol,
        reason=_reason(problem, status, certificate, tried, tol),
    )


#: The name of a solver that was asked, its answer, and the gap that the judge found.
Tried = tuple[str, Answer, float]


def _tried_again(
    problem: MarginProblem, options: Options, begin: float, status: Status, certificate: Certificate, tried: list[Tried]
) -> tuple[Status, Certificate]:
    """What all make of it who are asked after an answer without a conclusion; each is added to those `tried`."""
    for other in AFTERWARDS:
        left = None if options.max_seconds is None else options.max_seconds - (time.perf_counter() - begin)
        unsettled = status is Status.INACCURATE or (status is Status.NOT_SEPARABLE_BELOW and not final(certificate))
        if not unsettled or (left is not None and left <= 0):
            break
        limited = replace(options, max_seconds=left, start=None, callback=None, device="cpu")
        if other == tried[0][0] or SOLVERS[other].refuses(problem, limited):
            continue
        answer = _asked(problem, other, SOLVERS[other], limited)
        _, again = _judged(problem, answer, options.tol)
        concluded, certificate = _concluded(problem, _best(certificate, again), answer, options.tol)
        # What was proved before stays proved where a limit ends the next one.
        if not status.inseparable or concluded.inseparable or certificate.objective < np.inf:
            status = concluded
        tried.append((other, answer, again.gap))
    return status, certificate


def _reason(problem: MarginProblem, status: Status, certificate: Certificate, tried: list[Tried], tol: float) -> str:
    """How those ended who gave no conclusion, if several were asked; of INACCURATE, what keeps the gap from `tol`."""
    inaccurate = status is Status.INACCURATE
    ended = tried if inaccurate else tried[:-1]
    story = [f"{name} ended at a gap of {gap:.1e}" for name, _, gap in ended if len(tried) > 1]
    why = [tried[-1][1].reason or obstacle(problem, certificate, tol)] if inaccurate else []
    return "; ".join([*story, *why])


def _asked(
    problem: MarginProblem, name: str, run: Callable[[MarginProblem, Options], Answer], options: Options
) -> Answer:
    """The answer of one solver."""
    answer = run(problem, options)
    counted = isinstance(answer, Answer) and isinstance(answer.iterations, int | np.integer)
    if not counted or answer.stopped not in STOPPED:
        raise InputError(
            f"the solver {name} must return an Answer(weights, dual, iterations), with a whole number of iterations, "
            f"and for `stopped` None or a limit's status, not {shown(answer)}"
        )
    return answer


def _judged(problem: MarginProblem, answer: Answer, tol: float) -> tuple[Status, Certificate]:
    """What the judge makes of an answer; where it has no separating weights, a proof that there are none is sought."""
    certificate = certify(problem, answer.weights, answer.dual, answer.intercept, answer.multipliers)
    ended = answer.stopped in (None, Status.ITERATION_LIMIT)
    if problem.hard and ended and certificate.separable and np.isinf(certificate.objective):
        candidate = farkas_candidate(problem, certificate.dual)
        if candidate is not None:
            proof = certify(problem, answer.weights, candidate[0], 0.0, candidate[1])
            certificate = max(certificate, proof, key=lambda one: one.lower_bound)
    return _concluded(problem, certificate, answer, tol)


def _concluded(
    problem: MarginProblem, certificate: Certificate, answer: Answer, tol: float
) -> tuple[Status, Certificate]:
    """The status that belongs to bounds after this answer; without weights where nothing separates."""
    ended = answer.stopped in (None, Status.ITERATION_LIMIT)
    if not certificate.separable or (
        problem.hard and ended and np.isinf(certificate.objective) and certificate.farkas_residual <= NEARLY_ZERO
    ):
        nothing = {name: getattr(certificate, name) * np.nan for name in ("weights", "margins")}
        proved = Status.NOT_SEPARABLE_BELOW if certificate.separable else Status.NOT_SEPARABLE
        return proved, replace(certificate, **nothing, intercept=0.0)
    if certificate.gap <= tol:
        return Status.OPTIMAL, certificate
    return answer.stopped or Status.INACCURATE, certificate


def _best(one: Certificate, other: Certificate) -> Certificate:
    """The better upper bound of two and the better lower one, each with what proves it."""
    upper = min(one, other, key=lambda found: found.objective)
    lower = max(one, other, key=lambda found: found.lower_bound)
    gap = (upper.objective - lower.lower_bound) / upper.objective if upper.objective < np.inf else np.inf
    proof = {name: getattr(lower, name) for name in ("dual", "lower_bound", "farkas_residual", "multipliers")}
    return replace(upper, **proof, gap=gap)


def _small(problem: MarginProblem) -> bool:
    """Whether solvers of general cone programs take no longer than a user waits unasked."""
    return problem.features.n * problem.features.k * problem.features.d <= TRIED_AGAIN_UP_TO


def _chosen(
    problem: MarginProblem, solver: str | Callable[[MarginProblem, Options], Answer] | None
) -> tuple[str, Callable[[MarginProblem, Options], Answer]]:
    """The name of the solver and the solver itself."""
    if isinstance(solver, Solver):
        return solver.name, solver
    if solver is not None and callable(solver):
        return getattr(solver, "__name__", type(solver).__name__), solver
    fitting = (name for name, known in SOLVERS.items() if problem.lacks(known.needs) is None)
    name = next(fitting) if solver is None else one_of(solver, SOLVERS, "solver")
    return name, SOLVERS[name]
