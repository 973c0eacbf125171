"""Margin problems of kernels at given samples, solved and certified as the kernel expansions that predict."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.utils.parallel import Parallel, delayed

from implicit_bias._utils.blocks import row_blocks
from implicit_bias._utils.checks import Array
from implicit_bias._utils.deadline import Deadline
from implicit_bias._utils.rounding import precise_product
from implicit_bias._utils.scaling import length
from implicit_bias.certificate import certify
from implicit_bias.features.expansion import ExpansionFeatures
from implicit_bias.gates.fitted_kernels import FittedKernels
from implicit_bias.gates.half_space_kernel import half_spaces_error
from implicit_bias.margin.problem import MarginProblem, balanced
from implicit_bias.margin.solution import Certificate, Solution, Status
from implicit_bias.solvers.base import Options
from implicit_bias.solvers.dispatch import solve
from implicit_bias.solvers.native.kernel_matrices import solve_kernel_matrices
from implicit_bias.solvers.one_kernel import ADDED, Expansion, solve_one_kernel

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
#: Statuses after which no factors follow.
CONCLUSIVE = {Status.OPTIMAL, Status.TIME_LIMIT}
#: Share of the norm up to which the weights of a kernel count as zero.
NEGLIGIBLE = 1e-6
#: Relative thresholds, tried in order, up to which λ_i is set to zero; the first that keeps the gap is taken.
THRESHOLDS = (1e-5, 1e-6, 1e-7, 1e-8, 0.0)

#: For each class the certified solution, and its coefficients a (k, n).
Answers = list[tuple[Solution, Array]]


def solve_expansions(
    problems: list[MarginProblem],
    costs: list[float],
    starts: list[Solution | None],
    options: Options,
    solver: str | None = None,
    n_jobs: int | None = None,
) -> Iterator[Answers]:
    """Yield certified solutions of the problems of all classes, and their coefficients, for each C until the deadline.

    The features of the problems are the same `FittedKernels`, and their norm is the group lasso of the kernels. Several
    kernels are solved by their matrices, and one by its rows, which are not stored as a whole. Other solvers than
    NATIVE take factors of the matrices. These also follow if rounding leaves too large a gap. Certificates are those of
    weights w_m = Σ_i a_mi φ_m(x_i) for the coefficients a (k, n), and include the rounding of the kernels' values.
    """
    workers, classes, known = effective_n_jobs(n_jobs), len(problems), starts

    def each(method: Callable[..., Any], whole: list[MarginProblem], deadline: Deadline) -> Answers:
        def tasks() -> Iterator[Any]:
            for c, (problem, start) in enumerate(zip(whole, known, strict=True)):
                limit = deadline.left(min(workers / (classes - c), 1.0))
                yield delayed(method)(problem, replace(options, start=start, deadline=Deadline(limit)), solver)

        answers = Parallel(n_jobs)(tasks())
        if any(solution.status is Status.INTERRUPTED for solution, _ in answers):
            raise KeyboardInterrupt  # A search over many fits must end, too.
        return answers

    factors = solver not in (None, "NATIVE") or str(options.device) != "cpu"
    for C in costs:
        whole, share = [problem.replace(C=C) for problem in problems], options.deadline.left()
        whole[0].check_upper_bounds()
        if problems[0].features.k == 1 and not factors:
            answers = _solve_one_kernel(whole, known, replace(options, deadline=Deadline(share)))
        else:
            answers = each(_factored if factors else _solved, whole, Deadline(share))
        statuses, gap = {solution.status for solution, _ in answers}, max(solution.gap for solution, _ in answers)
        few = problems[0].features.k > 1 or problems[0].features.n <= FACTORED or gap == np.inf
        if not factors and few and not statuses <= CONCLUSIVE and Status.NOT_SEPARABLE_BELOW not in statuses:
            # Factors, and sums without rounding, lose fewer digits.
            pairs = zip(each(_factored, whole, Deadline(share)), answers, strict=True)
            answers = [min(pair, key=lambda one: (not one[0].status.inseparable, one[0].gap)) for pair in pairs]
        known, late = [solution for solution, _ in answers], Status.TIME_LIMIT in {one.status for one, _ in answers}
        yield answers
        if late or options.deadline.passed():
            return


def _features_of(problems: Sequence[MarginProblem]) -> FittedKernels:
    features = problems[0].features
    assert isinstance(features, FittedKernels)
    return features


def _solve_one_kernel(problems: list[MarginProblem], starts: list[Solution | None], options: Options) -> Answers:
    """Return answers with coefficients (1, n), where all classes are solved together."""
    known, single_error = [start.dual for start in starts if start is not None], _single_error(_features_of(problems))
    # Rows in single precision are tried first if they suffice for the tolerance.
    for error in [single_error, None] if single_error < options.tol else [None]:
        start, limit = np.stack(known, axis=1) if len(known) == len(problems) else None, options.deadline.part(1.0)
        found, errors = _expansion_of(problems, start, options, limit, error)
        cost = {"tol": options.tol, "seconds": limit.seconds, "iterations": found.rounds}
        answers = [_solution_of_class(problem, found, c, errors, **cost) for c, problem in enumerate(problems)]
        known = [solution.dual for solution, _ in answers]
        if max(solution.gap for solution, _ in answers) <= options.tol or found.reason == "max_seconds":
            break
    return answers


def _expansion_of(
    problems: list[MarginProblem], start: Array | None, options: Options, limit: Deadline, single_error: float | None
) -> tuple[Expansion, Array]:
    """Return the expansions of all classes, and the errors (n, c) of entries of K in their outputs.

    Rows of K are in single precision if its error is given.
    """
    features, intercept, single = _features_of(problems), bool(problems[0].intercept), single_error is not None
    signs = np.stack([problem.y for problem in problems], axis=1)
    upper = np.repeat(problems[0].upper_bounds[:, None], len(problems), axis=1)
    kernel, dtype = (features.of_half_spaces(np.float32), np.float32) if single else (features.values, float)
    with limit:
        rest = start, options.verbose, dtype
        found = solve_one_kernel(kernel, signs, upper, intercept, options.tol / 2, limit, *rest)
    if limit.interrupted:
        raise KeyboardInterrupt  # A search over many fits must end, too.
    # After the time limit, errors of single precision remain.
    error = features.entry_errors[0] if single_error is None else single_error
    if not single or found.reason == "max_seconds":
        return found, np.full(signs.shape, error)
    return _recomputed(features, found, signs, error)


def _single_error(features: FittedKernels) -> float:
    """Error of an entry of K/√(k_ii k_jj) in an output from single precision; infinity if it is not faster."""
    kernel = features.kernels[0]
    if callable(kernel) or kernel[0] != "half-spaces":
        return np.inf
    entry = half_spaces_error(kernel[1], features.samples.shape[1], np.float32)
    positive = features.lengths[features.lengths > 0]
    moderate = (positive < SINGLE_RANGE).all() and (positive > 1 / SINGLE_RANGE).all()
    return entry + (ADDED + 4) * 2.0**-24 if moderate else np.inf


def _recomputed(features: FittedKernels, found: Expansion, signs: Array, error: float) -> tuple[Expansion, Array]:
    """Return the expansions with outputs in double precision, and the errors (n, c) of entries of K in them."""
    lengths, used = features.lengths[0], found.coefficients.any(axis=1, keepdims=True)
    reach = 1.01 * error * np.outer(lengths, np.abs(found.coefficients).T @ lengths)
    # Other margins of samples without coefficients exceed 1 by more than their error.
    near = ~used & (signs * (found.outputs + found.intercepts) < 1 + reach)
    support, outputs, exact = np.flatnonzero(used), found.outputs.copy(), features.of_half_spaces(float)
    a = found.coefficients[support]
    outputs[support] = 0.0
    for rows in row_blocks(len(support), ROWS * features.n // max(len(support), 1)):
        # K is symmetric.
        values = exact(support[rows], support[rows.start :])
        outputs[support[rows]] += values @ a[rows.start :]
        outputs[support[rows.stop :]] += values[:, rows.stop - rows.start :].T @ a[rows]
    for c, own in enumerate(found.coefficients.T):
        others, columns = np.flatnonzero(near[:, c]), np.flatnonzero(own)
        for rows in row_blocks(len(others), ROWS * features.n // max(len(columns), 1)):
            outputs[others[rows], c] = exact(others[rows], columns) @ own[columns]
    return replace(found, outputs=outputs), np.where(used | near, features.entry_errors[0], error)


def _solved(problem: MarginProblem, options: Options, solver: str | None) -> tuple[Solution, Array]:
    """Return the certified solution by the matrices of several kernels, and a (k, n) with w_m = Σ_i a_mi φ_m(x_i)."""
    features = _features_of([problem])
    assert features.stack is not None
    with options.deadline as deadline:
        found, dual = solve_kernel_matrices(problem, features.stack, options)
        candidates = (
            one
            for lam in (dual, found.dual)
            for one in _along_dual(problem, lam, lambda lengths: found.weights * lengths)
        )
        bounds, a, resolved = _certified(problem, features, candidates, found.intercept, options.tol, deadline)
    stopped = Status.INTERRUPTED if deadline.interrupted else found.stopped
    cost = {"tol": options.tol, "seconds": deadline.seconds, "iterations": found.iterations}
    return _concluded(problem, bounds, resolved, stopped, found.reason, **cost), a


def _factored(problem: MarginProblem, options: Options, solver: str | None) -> tuple[Solution, Array]:
    """Return the same by factors of the matrices, whose bounds are not those of the kernels, which are certified."""
    start = options.start if solver in (None, "NATIVE") else None
    given: dict[str, Any] = {
        "max_seconds": options.deadline.left(),
        "device": options.device,
        "verbose": options.verbose,
    }
    found = solve(problem, solver, tol=options.tol, start=start, **given)
    features, weights = _features_of([problem]), np.nan_to_num(found.weights)
    candidates = itertools.chain(
        _along_dual(problem, found.dual, partial(lambda sizes, _: sizes, length(weights, axis=1))),
        _along_weights(features, weights, found.dual),
    )
    rest = found.intercept, found.tol, options.deadline
    bounds, a, resolved = _certified(problem, features, candidates, *rest, exact=True)
    stopped = found.status if found.status in (Status.TIME_LIMIT, Status.INTERRUPTED) else None
    cost = {name: getattr(found, name) for name in ("tol", "seconds", "iterations")}
    solution = _concluded(problem, bounds, resolved, stopped, found.reason if found.gap > found.tol else "", **cost)
    return replace(solution, solver=found.solver), a


def _along_dual(problem: MarginProblem, dual: Array, sizes: Callable[[Array], Array]) -> Iterator[Any]:
    """Yield candidates of `_certified` with a_mi = λ_i y_i, where more and more of the smallest λ_i are kept."""
    for threshold in THRESHOLDS:
        lam = np.where(dual > threshold * dual.max(), dual, 0.0)
        lam = balanced(lam, problem.y) if problem.intercept and lam.any() else lam
        yield (problem.y * lam)[None], sizes, lam


def _along_weights(features: FittedKernels, weights: Array, dual: Array) -> Iterator[Any]:
    """Yield a candidate of `_certified` whose a_m (n,) are nearest to the weights w_m: they may not belong to λ."""
    blocks = features.factors.transpose(1, 2, 0)
    yield np.stack([np.linalg.lstsq(A, w)[0] for A, w in zip(blocks, weights, strict=True)]), lambda sizes: sizes, dual


def _certified(
    problem: MarginProblem,
    features: FittedKernels,
    candidates: Iterable[tuple[Array, Callable[[Array], Array], Array]],
    b: float,
    tol: float,
    deadline: Deadline,
    exact: bool = False,
) -> tuple[Certificate, Array, bool]:
    """Return the best bounds of expansions, the a (k, n) of the upper one, and whether that of λ is resolved.

    The candidates are a (k, n) or (1, n), a function from the lengths (k,) of Σ_i a_mi φ_m(x_i) to those of the w_m,
    and λ (n,). They end when the `deadline` passes. Sums K_m a_m are rounded once if `exact`.
    """
    found = list[tuple[Certificate, Array, bool]]()
    for a, norms, lam in candidates:
        a = np.broadcast_to(a, (features.k, features.n))
        given = a, _products(features.matrices, a, exact), features.lengths, features.entry_errors[:, None]
        along = ExpansionFeatures(*given, terms=0 if exact else None)
        sizes = norms(along.sizes).copy()
        sizes[sizes <= NEGLIGIBLE * sizes.sum()] = 0.0
        bounds = certify(problem.replace(features=along), sizes[:, None], lam, b)
        by = np.divide(bounds.weights, along.sizes[:, None], out=np.zeros((features.k, 1)), where=sizes[:, None] > 0)
        found.append((bounds, by * a, along.resolved or not a.any()))
        upper, lower = min(found, key=lambda one: one[0].objective), max(found, key=lambda one: one[0].lower_bound)
        best = _merged(upper[0], lower[0])
        if best.gap <= tol or (deadline.passed() and best.gap < np.inf):
            break
    return best, upper[1], lower[2]


def _products(stack: Array, coefficients: Array, exact: bool) -> Array:
    found = np.zeros_like(coefficients)
    for K, a, own in zip(stack, coefficients, found, strict=True):
        used = np.flatnonzero(a)
        if exact and len(used):
            upper, lower, _ = precise_product(a[None, used], K[used])
            own[:] = (upper + lower)[0]
        else:
            own[:] = a[used] @ K[used]
    return found


def _merged(upper: Certificate, lower: Certificate) -> Certificate:
    """Return the upper bound of one certificate with its weights, and the lower bound of another with its dual."""
    gap = (upper.objective - lower.lower_bound) / upper.objective if 0 < upper.objective < np.inf else upper.gap
    proof = {name: getattr(lower, name) for name in ("dual", "lower_bound", "farkas_residual")}
    return replace(upper, **proof, gap=gap)


def _concluded(
    problem: MarginProblem, bounds: Certificate, resolved: bool, stopped: Status | None, reason: str, **cost: Any
) -> Solution:
    optimal = bounds.gap <= cost["tol"] and stopped is not Status.INTERRUPTED
    status = Status.OPTIMAL if optimal else stopped or Status.INACCURATE
    # Neither a margin nor Σ_i λ_i y_i φ_m(x_i) exceeds its error.
    if problem.hard and np.isinf(bounds.objective) and not resolved and stopped is None:
        status, reason = Status.NOT_SEPARABLE_BELOW, INSEPARABLE.format(bounds.lower_bound)
    elif status is not Status.INACCURATE:
        reason = ""
    elif not reason:
        reason = ROUNDED
    return Solution(**vars(bounds), status=status, reason=reason, solver="NATIVE", **cost)


def _solution_of_class(
    problem: MarginProblem, found: Expansion, c: int, errors: Array, **cost: Any
) -> tuple[Solution, Array]:
    """Return the certified solution of class number c with one kernel, and coefficients a (1, n)."""
    a, stopped = found.coefficients[:, c], Status.TIME_LIMIT if found.reason == "max_seconds" else None
    along = ExpansionFeatures(a[None], found.outputs[None, :, c], _features_of([problem]).lengths, errors[None, :, c])
    b = float(found.intercepts[c])
    bounds = certify(problem.replace(features=along), along.sizes[:, None], np.abs(a), b)
    solution = _concluded(problem, bounds, along.resolved, stopped, found.reason, **cost)
    return solution, a[None] * (bounds.weights[0, 0] / (along.sizes[0] or 1.0))
