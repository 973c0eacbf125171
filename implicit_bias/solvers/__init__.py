"""The one door: `solve(problem, solver=…)` returns a certified `Solution`."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from implicit_bias.checks import InputError, as_count, as_positive, one_of
from implicit_bias.problems import MarginProblem
from implicit_bias.solvers.answer import Answer
from implicit_bias.solvers.certificate import Certificate, certify
from implicit_bias.solvers.conic import solve_native, unfit
from implicit_bias.solvers.cvxpy_solvers import CVXPY_SOLVERS
from implicit_bias.solvers.farkas import closed_sample, farkas_candidate
from implicit_bias.solvers.files import load_solution, save_solution
from implicit_bias.solvers.options import Options
from implicit_bias.solvers.progress import Progress
from implicit_bias.solvers.solution import Solution, Status

__all__ = ["Certificate", "Solution", "Status", "certify", "load_solution", "save_solution", "solve", "solver_names"]

#: The solvers by name: from (problem, options) to an `Answer`.
SOLVERS: dict[str, Callable[[MarginProblem, Options], Answer]] = {
    "NATIVE": solve_native,
    **CVXPY_SOLVERS,
}


def solver_names() -> list[str]:
    """The solvers that `solve` knows.

    >>> from implicit_bias import solver_names
    >>> solver_names()
    ['NATIVE', 'CLARABEL', 'ECOS', 'OSQP', 'SCS']
    """
    return list(SOLVERS)


def solve(
    problem: MarginProblem,
    solver: str | None = None,
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
    solver : str, optional
        One of `solver_names()`. If not given: NATIVE, our interior-point method for hard margins, where it takes the
        problem, else CLARABEL. OSQP takes hard margins with a quadratic norm only. The choice changes the time, not
        the answer.
    tol : float
        The relative gap asked for. A larger certified gap gives INACCURATE.
    max_iterations : int, optional
        The solver's own limit; its default if not given.
    verbose : bool
        Show the solver's own log.

    Returns
    -------
    Solution
        With the certificate recomputed from weights and dual in the original coordinates. Data that are not
        separable give the status NOT_SEPARABLE and, in `dual`, the λ that proves it; the weights are then NaN.

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
    if not isinstance(problem, MarginProblem):
        raise InputError(f"problem must be a MarginProblem (from a builder such as svm_gln), not {problem!r:.60}")
    tol = as_positive(tol, "tol")
    if max_iterations is not None:
        max_iterations = as_count(max_iterations, "max_iterations")
    if max_seconds is not None:
        max_seconds = as_positive(max_seconds, "max_seconds")
    options = Options(tol, max_iterations, max_seconds, start, device, callback, verbose)
    name = ("CLARABEL" if unfit(problem, options) else "NATIVE") if solver is None else one_of(solver, SOLVERS, "solver")
    reason = unfit(problem, options) if name == "NATIVE" else CVXPY_SOLVERS[name].unfit(problem, options)
    if reason:
        raise InputError(f"{name} cannot take {problem.name}: {reason}")
    begin = time.perf_counter()
    proof = closed_sample(problem) if problem.hard else None
    if proof is not None:
        return _not_separable(problem, proof, 0, name, begin, tol)
    answer = SOLVERS[name](problem, options)
    certificate = certify(problem, answer.weights, answer.dual)
    if problem.hard and np.isinf(certificate.objective):
        proof = answer.dual if not certificate.separable else farkas_candidate(problem, answer.dual)
        if proof is not None and not certify(problem, answer.weights, proof).separable:
            return _not_separable(problem, proof, answer.iterations, name, begin, tol)
    status = Status.INACCURATE
    if certificate.gap <= tol:
        status = Status.OPTIMAL
    elif answer.stopped is not None:
        status = answer.stopped
    return _solution(certificate, status, answer.iterations, name, begin, tol)


def _not_separable(
    problem: MarginProblem, proof: np.ndarray, iterations: int, name: str, begin: float, tol: float
) -> Solution:
    certificate = certify(problem, np.zeros((problem.features.k, problem.features.d)), proof)
    nothing = {
        "weights": np.full_like(certificate.weights, np.nan),
        "margins": np.full(problem.features.n, np.nan),
    }
    return _solution(
        Certificate(**{**vars(certificate), **nothing}), Status.NOT_SEPARABLE, iterations, name, start, tol
    )


def _solution(
    certificate: Certificate, status: Status, iterations: int, name: str, begin: float, tol: float
) -> Solution:
    return Solution(
        **vars(certificate),
        status=status,
        iterations=iterations,
        seconds=time.perf_counter() - begin,
        solver=name,
        tol=tol,
    )
