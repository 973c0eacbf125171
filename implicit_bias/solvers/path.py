"""Solution path of a soft margin over several values of C, and scales of C."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from implicit_bias._utils.blocks import row_blocks
from implicit_bias._utils.checks import CONVERSION_ERRORS, Array, InputError, as_positive, as_reals
from implicit_bias._utils.limits import Deadline
from implicit_bias.certificate import certify
from implicit_bias.margin.problem import MarginProblem, balanced, check_problem
from implicit_bias.margin.solution import Solution, Status
from implicit_bias.solvers.dispatch import solve

#: λ_i below this share of its upper bound C c_i counts as free.
FREE = 0.999
#: Number and seed of the random labels at which the dual norm of a norm without groups is averaged.
RANDOM_LABELS, _SEED = 8, 1


def margin_path(problem: MarginProblem, C: Any, **options: Any) -> list[Solution]:
    """Solve a soft margin at several values of C, each solve warm-started from the previous solution.

    A solution without slack and with all λ_i below C c_i solves the problem at every C above all λ_i/c_i. It is then
    certified again without a solve. Descending values are fastest, because the first ones have few support vectors.

    Parameters
    ----------
    problem : MarginProblem
        The problem; its own C is ignored.
    C : sequence of float
        Values of C, solved in this order; `inf` is the hard margin. Warm starts help most if neighbours are close.
    **options
        Options of `solve`; `max_seconds` is the limit of the whole path, which ends with the solve that it stops.

    Returns
    -------
    list of Solution
        One certified solution per value; fewer after Ctrl-C or the time limit, which the last status tells.

    Raises
    ------
    InputError
        If `solve` raises it, or a value of C is not positive.

    Examples
    --------
    >>> from implicit_bias import HyperplaneGates, load_binary, margin_path, svm_gln
    >>> task = load_binary("digits", train_size=100)
    >>> problem = svm_gln(task.X_train, task.y_train, HyperplaneGates(5, 2, seed=1).fit(task.X_pool))
    >>> path = margin_path(problem, C=[0.001, 0.01, 0.1])
    >>> all(point.gap < 1e-6 for point in path), path[0].objective < path[2].objective
    (True, True)
    """
    check_problem(problem)
    try:
        values = as_reals(C)
    except CONVERSION_ERRORS:
        values = np.empty((0, 0))
    if values.ndim != 1 or values.size == 0:
        raise InputError("C must be a list of positive numbers, such as [0.01, 0.1, 1.0]")
    path, deadline = list[Solution](), Deadline(options.get("max_seconds"))
    points = [problem.replace(C=as_positive(value, "C", infinite=True)) for value in values.tolist()]
    for point in points:
        point.check_upper_bounds()
    with deadline:
        for before, point in zip([points[0], *points], points, strict=False):
            warm = {"start": path[-1]} if path and path[-1].solver == "NATIVE" else {}
            known = _recertified(path[-1], before, point) if path else None
            limited = options | warm | {"max_seconds": deadline.left()}
            path.append(solve(point, **limited) if known is None else known)
            if deadline.interrupted:
                path[-1] = replace(path[-1], status=Status.INTERRUPTED)
            if deadline.passed() or path[-1].status in (Status.INTERRUPTED, Status.TIME_LIMIT):
                break
    return path


def _recertified(earlier: Solution, before: MarginProblem, now: MarginProblem) -> Solution | None:
    """Certify an earlier solution at a new C; None unless it is OPTIMAL at both, with all λ_i below both bounds."""
    time = Deadline()
    bounds = FREE * np.minimum(before.upper_bounds, now.upper_bounds)
    if earlier.status is not Status.OPTIMAL or not (earlier.dual < bounds).all():
        return None
    certificate = certify(now, earlier.weights, earlier.dual, earlier.intercept, earlier.multipliers)
    if certificate.gap > earlier.tol:
        return None
    return replace(earlier, **vars(certificate), iterations=0, seconds=time.seconds)


def zero_weights_up_to(problem: MarginProblem) -> float:
    """Return a C₀ up to which zero weights are optimal if they satisfy the constraints; 1 if they are for every C.

    C₀ = 1/‖Φᵀ(λ∘y)‖_* for λ = c; with a free intercept, λ of the heavier class are scaled down to Σ y_iλ_i = 0. Then
    Cλ is feasible for C ≤ C₀, and its dual objective C Σ m_iλ_i is the slack of zero weights if all m_i are equal.
    This bound is ours.

    >>> from implicit_bias import ConstantGate, svm_gln
    >>> zero_weights_up_to(svm_gln([[2.0], [-2.0]], [1, -1], ConstantGate()))
    0.25
    """
    lam = np.full(problem.features.n, problem.sample_weight)
    if problem.intercept:
        lam = balanced(lam, problem.y)
    size = problem.norm.dual(problem.adjoint(lam))
    return 1 / size if 0 < size < np.inf else 1.0


def path_values(problems: Iterable[MarginProblem], count: int, ratio: float) -> Array:
    """Return `count` values of C in geometric progression, ascending, rounded to two digits.

    They begin above C₀, the least `zero_weights_up_to` of the problems, and end at `ratio` times C₀.

    >>> from implicit_bias import ConstantGate, svm_gln
    >>> path_values([svm_gln([[2.0], [-2.0]], [1, -1], ConstantGate())], 2, 1e4).tolist()
    [25.0, 2500.0]
    """
    least = min(map(zero_weights_up_to, problems))
    return np.array([float(f"{C:.2g}") for C in least * np.geomspace(1, ratio, count + 1)[1:]])


def balanced_weights(problem: MarginProblem) -> Array:
    """Return λ = c (n,); with a free intercept, the larger class's c_i times the ratio of sizes (Σ c_i)²/Σ c_i²."""
    lam = np.full(problem.features.n, problem.sample_weight)
    classes = [(problem.y == sign) & (lam > 0) for sign in (1, -1)]
    if problem.intercept and all(one.any() for one in classes):
        sizes = [np.sum(lam[one] / lam[one].max()) ** 2 / np.sum((lam[one] / lam[one].max()) ** 2) for one in classes]
        for one, size in zip(classes, sizes, strict=True):
            lam[one] *= min(sizes) / size
    return lam


def random_dual_norm(problem: MarginProblem) -> float:
    """Return s, the size of ‖Φᵀ(λ∘y)‖_* at random labels y, for the scale 1/s of C.

        s = max_h √(Σ_i λ_i² ‖φ_h(x_i)‖²) = max_h √E ‖Φ_hᵀ(λ∘y)‖²   for independent y_i = ±1 and ‖W‖ = Σ_h ‖w_h‖₂

    h are the groups of the norm, and λ those of `balanced_weights`. For a norm without groups, ‖·‖_*² is averaged over
    a few random y. If the labels are random, zero weights are optimal up to about C = 1/s; larger C begin to fit noise.
    1/s falls as 1/√n. 1 is returned if all features are zero. This scale is ours.

    >>> from implicit_bias import ConstantGate, svm_gln
    >>> random_dual_norm(svm_gln([[3.0], [-4.0]], [1, -1], ConstantGate()))
    5.0
    """
    features, form, lam = problem.features, problem.group_form, balanced_weights(problem)
    largest = float(lam.max()) or 1.0
    lam /= largest
    if form is None:
        random = np.random.default_rng(_SEED).choice([-1.0, 1.0], (RANDOM_LABELS, features.n))
        squares = np.array([problem.norm.dual(features.adjoint(lam * signs)) ** 2 for signs in random])
        size = float(np.sqrt(squares.mean()))
    else:
        total = np.zeros(form.count)
        for rows in row_blocks(features.n):
            lengths = lam[rows, None] * features.select(rows).mixed(form.expand).block_lengths()
            total += np.bincount(form.index, (lengths**2).sum(axis=0), len(total))
        size = float(np.sqrt(total.max()))
    return size * largest if 0 < size * largest < np.inf else 1.0
