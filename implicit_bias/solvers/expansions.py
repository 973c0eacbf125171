"""Margin problems of kernels at given samples, solved and certified as the kernel expansions that predict."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.utils.parallel import Parallel, delayed

from implicit_bias._utils.blocks import row_blocks
from implicit_bias._utils.checks import Array
from implicit_bias._utils.floats import length
from implicit_bias._utils.limits import Deadline
from implicit_bias.features.expansion import ExpansionFeatures
from implicit_bias.gates.fitted_kernels import FittedKernels
from implicit_bias.gates.half_space_kernel import half_spaces_error
from implicit_bias.margin.problem import MarginProblem, balanced
from implicit_bias.margin.solution import Solution, Status
from implicit_bias.solvers.base import Answer, Options
from implicit_bias.solvers.dispatch import certified, merged, solve
from implicit_bias.solvers.native.kernel_matrices import products, solve_kernel_matrices
from implicit_bias.solvers.native.loop import constant
from implicit_bias.solvers.one_kernel import ADDED, solve_one_kernel

#: Rows of a kernel matrix that are computed at a time.
ROWS = 1000
#: Largest √(k(x, x)/s), and largest inverse, for single precision.
SINGLE_RANGE = 1e6
#: Reason of a gap that only the rounding of the certificate leaves.
ROUNDED = (
    "the rounding of the kernel's values, multiplied by coefficients as large as these, exceeds the gap; use a smaller "
    "C, a larger tol, or a kernel with a larger margin"
)
#: Reason why samples count as inseparable, with a place for the lower bound.
INSEPARABLE = (
    "no weights of a norm below {:.3g} separate these samples, and the rounding of the kernel's values hides larger "
    "ones; use another kernel, or a soft margin (finite C)"
)
#: Largest number of samples of one kernel whose factors follow if rounding leaves too large a gap.
FACTORED = 2000
#: Share of the norm up to which the weights of a kernel count as zero.
NEGLIGIBLE = 1e-6
#: Relative thresholds, tried in order, up to which λ_i is set to zero; the first that keeps the gap is taken.
THRESHOLDS = (1e-5, 1e-6, 1e-7, 1e-8, 0.0)

#: The certified solution of a class, and its coefficients a (k, n) with w_m = Σ_i a_mi φ_m(x_i).
Expanded = tuple[Solution, Array]
#: An answer, whose weights (k, 1) and λ are those of a problem with these features.
Candidate = tuple[Answer, ExpansionFeatures]


def solve_expansions(
    features: FittedKernels,
    problems: list[MarginProblem],
    starts: list[Solution | None],
    options: Options,
    solver: str | None = None,
    n_jobs: int | None = None,
) -> list[Expanded]:
    """Return certified solutions of the problems of all classes, and their coefficients.

    All problems have these `features`, and their norm is the group lasso of the kernels. Several kernels are solved by
    their matrices, and one by its rows, which are not stored as a whole. Other solvers than NATIVE take factors of the
    matrices. These also follow if rounding leaves too large a gap. Certificates are those of weights w_m = Σ_i a_mi
    φ_m(x_i) for the coefficients a (k, n), and include the rounding of the kernels' values.
    """
    factors = solver not in (None, "NATIVE") or str(options.device) != "cpu"
    solutions: list[Any] = [None] * len(problems)
    if features.k == 1 and not factors:
        solutions = _by_rows(features, problems, starts, options)
    left = [c for c, one in enumerate(solutions) if one is None or _may_be_rounded(problems[c], one[0])]
    workers = effective_n_jobs(n_jobs)

    def tasks() -> Iterator[Any]:
        for number, c in enumerate(left):
            limit = options.deadline.left(min(workers / (len(left) - number), 1.0))
            limited = replace(options, start=starts[c], deadline=Deadline(limit))
            yield delayed(_solved)(features, problems[c], limited, solver, factors, solutions[c])

    for c, one in zip(left, Parallel(n_jobs)(tasks()), strict=True):
        solutions[c] = one
    return solutions


def _may_be_rounded(problem: MarginProblem, solution: Solution) -> bool:
    """Return True if factors, and sums without rounding, may improve the solution: they lose fewer digits."""
    n, inconclusive = problem.features.n, solution.status in (Status.INACCURATE, Status.ITERATION_LIMIT)
    return inconclusive and (problem.features.k > 1 or n <= FACTORED or solution.gap == np.inf)


def _by_rows(
    features: FittedKernels, problems: list[MarginProblem], starts: list[Solution | None], options: Options
) -> list[Expanded]:
    """Return solutions with coefficients (1, n), where all classes are solved together."""
    single_error, own_error = _single_error(features), features.entry_errors[0]
    with options.deadline as deadline:
        # Rows in single precision are tried first if they suffice for the tolerance.
        for dtype in [np.float32, float] if single_error < options.tol else [float]:
            single = dtype is np.float32
            kernel, error = (features.of_half_spaces(dtype), single_error) if single else (features.values, own_error)
            answers, outputs = solve_one_kernel(kernel, problems, starts, options, dtype)
            errors = np.full(outputs.shape, error)
            # After the time limit, errors of single precision remain.
            if single and answers[0].stopped is None:
                outputs, errors = _recomputed(features, problems, answers, outputs, error)
            results = []
            for c, (problem, answer) in enumerate(zip(problems, answers, strict=True)):
                along = ExpansionFeatures(answer.weights, outputs[None, :, c], features.lengths, errors[None, :, c])
                sized = replace(answer, weights=along.sizes[:, None])
                results.append(_best(problem, "NATIVE", [(sized, along)], options))
            starts = [solution for solution, _ in results]
            if max(solution.gap for solution, _ in results) <= options.tol or deadline.passed():
                break
    if deadline.interrupted:
        raise KeyboardInterrupt  # A search over many fits must end, too.
    return results


def _single_error(features: FittedKernels) -> float:
    """Error of an entry of K/√(k_ii k_jj) in an output from single precision; infinity if it is not faster."""
    kernel = features.kernels[0]
    if callable(kernel) or kernel[0] != "half-spaces":
        return np.inf
    entry = half_spaces_error(kernel[1], features.samples.shape[1], np.float32)
    positive = features.lengths[features.lengths > 0]
    moderate = (positive < SINGLE_RANGE).all() and (positive > 1 / SINGLE_RANGE).all()
    return entry + (ADDED + 4) * 2.0**-24 if moderate else np.inf


def _recomputed(
    features: FittedKernels, problems: list[MarginProblem], answers: list[Answer], outputs: Array, error: float
) -> tuple[Array, Array]:
    """Return outputs in double precision, and the errors (n, c) of entries of K in them."""
    coefficients = np.stack([answer.weights[0] for answer in answers], axis=1)
    signs, b = np.stack([problem.y for problem in problems], axis=1), [answer.intercept for answer in answers]
    lengths, used = features.lengths[0], coefficients.any(axis=1, keepdims=True)
    reach = 1.01 * error * np.outer(lengths, np.abs(coefficients).T @ lengths)
    # Other margins of samples without coefficients exceed 1 by more than their error.
    near = ~used & (signs * (outputs + b) < 1 + reach)
    support, outputs, exact = np.flatnonzero(used), outputs.copy(), features.of_half_spaces(float)
    a = coefficients[support]
    outputs[support] = 0.0
    for rows in row_blocks(len(support), ROWS * features.n // max(len(support), 1)):
        # K is symmetric.
        values = exact(support[rows], support[rows.start :])
        outputs[support[rows]] += values @ a[rows.start :]
        outputs[support[rows.stop :]] += values[:, rows.stop - rows.start :].T @ a[rows]
    for c, column in enumerate(coefficients.T):
        others, columns = np.flatnonzero(near[:, c]), np.flatnonzero(column)
        for rows in row_blocks(len(others), ROWS * features.n // max(len(columns), 1)):
            outputs[others[rows], c] = exact(others[rows], columns) @ column[columns]
    return outputs, np.where(used | near, features.entry_errors[0], error)


def _solved(
    features: FittedKernels,
    problem: MarginProblem,
    options: Options,
    solver: str | None,
    factors: bool,
    known: Expanded | None,
) -> Expanded:
    """Return the solution of a class; unless it is `known`, by matrices, and by `factors` if it may be rounded."""
    with options.deadline as deadline:
        if known is None and not factors:
            answer, dual = solve_kernel_matrices(problem, features.matrices, options)
            pairs = chain(_along_dual(problem, dual), _along_dual(problem, answer.dual))
            candidates = _candidates(features, answer, pairs, lambda lengths: answer.weights * lengths)
            known = _best(problem, "NATIVE", candidates, options)
        if known is None or _may_be_rounded(problem, known[0]):
            known = _by_factors(features, problem, options, solver, known)
    if deadline.interrupted:
        raise KeyboardInterrupt  # A search over many fits must end, too.
    return known


def _by_factors(
    features: FittedKernels, problem: MarginProblem, options: Options, solver: str | None, known: Expanded | None
) -> Expanded:
    """Return the solution by factors of the matrices; not their bounds are certified, but those of the kernels."""
    start = options.start if solver in (None, "NATIVE") else None
    more: dict[str, Any] = {name: getattr(options, name) for name in ("tol", "device", "verbose")}
    solution = solve(problem, solver, start=start, max_seconds=options.deadline.left(), **more)
    stopped = solution.status if solution.status in (Status.TIME_LIMIT, Status.INTERRUPTED) else None
    reason = solution.reason if solution.gap > solution.tol else ""
    weights = np.nan_to_num(solution.weights)
    answer = Answer(weights, solution.dual, solution.iterations, stopped, solution.intercept, reason=reason)
    along_dual = _along_dual(problem, solution.dual)
    candidates = chain(
        _candidates(features, answer, along_dual, lambda _: length(weights, axis=1), exact=True),
        _candidates(features, answer, _along_weights(features, weights), lambda lengths: lengths, exact=True),
    )
    return _best(problem, solution.solver, candidates, options, known)


def _along_dual(problem: MarginProblem, dual: Array) -> Iterator[tuple[Array, Array]]:
    """Yield a_mi = λ_i y_i, shape (1, n), and λ, where more and more of the smallest λ_i are kept."""
    for threshold in THRESHOLDS:
        lam = np.where(dual > threshold * dual.max(), dual, 0.0)
        lam = balanced(lam, problem.y) if problem.intercept and lam.any() else lam
        yield (problem.y * lam)[None], lam


def _along_weights(features: FittedKernels, weights: Array) -> Iterator[tuple[Array, Array]]:
    """Yield the a_m (n,) that are nearest to the weights w_m, shape (k, n), and λ = 0: no λ belongs to them."""
    blocks = features.factors.transpose(1, 2, 0)
    yield np.stack([np.linalg.lstsq(A, w)[0] for A, w in zip(blocks, weights, strict=True)]), np.zeros(features.n)


def _candidates(
    features: FittedKernels,
    answer: Answer,
    pairs: Iterable[tuple[Array, Array]],
    norms: Callable[[Array], Array],
    exact: bool = False,
) -> Iterator[Candidate]:
    """Yield `answer` along other coefficients a, (k, n) or (1, n), with another λ (n,), for each pair of them.

    `norms` maps the lengths (k,) of Σ_i a_mi φ_m(x_i) to those of the w_m. Sums K_m a_m are rounded once if `exact`.
    """
    for a, lam in pairs:
        a = np.broadcast_to(a, (features.k, features.n))
        given = a, products(features.matrices, a, exact), features.lengths, features.entry_errors[:, None]
        along = ExpansionFeatures(*given, terms=0 if exact else None)
        sizes = norms(along.sizes)
        sizes = np.where(sizes > NEGLIGIBLE * sizes.sum(), sizes, 0.0)
        yield replace(answer, weights=sizes[:, None], dual=lam), along


def _best(
    problem: MarginProblem, solver: str, candidates: Iterable[Candidate], options: Options, best: Expanded | None = None
) -> Expanded:
    """Return the best bounds of `best` and the candidates, which end when the gap is closed or the deadline passes."""
    proved = problem
    for answer, along in candidates:
        candidate = problem.replace(features=along)
        new = certified(candidate, solver, answer, options)
        # The features of the lower bound tell whether only rounding is left of them.
        proved = candidate if best is None or new.lower_bound > best[0].lower_bound else proved
        by = np.divide(new.weights, along.sizes[:, None], out=np.zeros_like(new.weights), where=new.weights != 0)
        upper = (new, by * along.coefficients)
        if best is None:
            best = upper
        else:
            upper = min(best, upper, key=lambda one: one[0].objective)
            best = merged(proved, best[0], new), upper[1]
        if best[0].gap <= options.tol or (options.deadline.passed() and best[0].gap < np.inf):
            break
    assert best is not None
    solution, a = best
    objective, b = constant(problem)
    if (1 - options.tol / 2) * objective <= solution.lower_bound and a.any():
        # Other weights would only be what the tolerance leaves.
        zero = Answer(0 * solution.weights, solution.dual, solution.iterations, intercept=b)
        solution, a = certified(proved, solver, zero, options), 0 * a
    reason = ""
    if solution.status is Status.NOT_SEPARABLE_BELOW:
        reason = INSEPARABLE.format(solution.lower_bound)
    elif solution.status is Status.INACCURATE:
        reason = solution.reason or ROUNDED
    return replace(solution, reason=reason, seconds=options.deadline.seconds), a
