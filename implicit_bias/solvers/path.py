"""Soft margins at several values of C."""

import time
from dataclasses import replace
from typing import Any

import numpy as np

from implicit_bias._utils.checks import CONVERSION_ERRORS, InputError, as_positive, as_reals
from implicit_bias._utils.threads import Interruptible
from implicit_bias.certificate import certify
from implicit_bias.margin.problem import MarginProblem, check_problem
from implicit_bias.margin.solution import Solution, Status
from implicit_bias.solvers.dispatch import solve

#: λ_i below this share of its upper bound C c_i counts as free.
FREE = 0.999


def margin_path(problem: MarginProblem, C: Any, **options: Any) -> list[Solution]:
    """Solve a problem's soft margin at every price of slack in `C`, each from the solution before it.

    A solution without slack and with every λ_i below C c_i also solves the problem at other prices above its λ_i/c_i:
    it is then certified again without a solve. Descending prices are fastest: the first ones have few support vectors.

    Parameters
    ----------
    problem : MarginProblem
        Its own C has no effect.
    C : sequence of float
        Prices of slack, solved in this order; `inf` is the hard margin. Neighbours should be close to each other.
    **options
        As for `solve`.

    Returns
    -------
    list of Solution
        One per price, each with its own certificate; fewer after an interruption.

    Raises
    ------
    InputError
        As `solve`, or if a price is not positive.

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
        prices = as_reals(C)
    except CONVERSION_ERRORS:
        prices = np.empty((0, 0))
    if prices.ndim != 1 or prices.size == 0:
        raise InputError("C must be a list of prices of slack, such as [0.01, 0.1, 1.0]")
    path: list[Solution] = []
    points = [problem.replace(C=as_positive(price, "C", infinite=True)) for price in prices.tolist()]
    for point in points:
        point.check_prices()
    for before, point in zip([points[0], *points], points, strict=False):
        warm = {"start": path[-1]} if path and path[-1].solver == "NATIVE" else {}
        known = _still(path[-1], before, point) if path else None
        with Interruptible() as run:
            path.append(solve(point, **(options | warm)) if known is None else known)
        if run.interrupted and not path:
            raise KeyboardInterrupt
        if run.interrupted or path[-1].status is Status.INTERRUPTED:
            break
    return path


def _still(earlier: Solution, before: MarginProblem, now: MarginProblem) -> Solution | None:
    """The earlier solution, if it is certified at the present price: no λ is near its bound, before and now."""
    begin = time.perf_counter()
    prices = FREE * np.minimum(before.prices, now.prices)
    if earlier.status is not Status.OPTIMAL or not (earlier.dual < prices).all():
        return None
    found = certify(now, earlier.weights, earlier.dual, earlier.intercept, earlier.multipliers)
    if found.gap > earlier.tol:
        return None
    return replace(earlier, **vars(found), iterations=0, seconds=time.perf_counter() - begin)


def smallest_price(problem: MarginProblem) -> float:
    """A price of slack C₀ up to which zero weights are optimal; 1 if they are optimal at every price.

    C₀ = 1/‖Φᵀ(λ∘y)‖_* for λ = c; with a free intercept, λ of the heavier class are scaled down to Σ y_iλ_i = 0. Then
    Cλ is feasible for C ≤ C₀ and attains the slack of zero weights, C Σ m_iλ_i, for equal margins m. (Ours.)

    >>> from implicit_bias import ConstantGate, svm_gln
    >>> smallest_price(svm_gln([[2.0], [-2.0]], [1, -1], ConstantGate()))
    0.25
    """
    lam, positive = np.full(problem.features.n, problem.sample_weight), problem.y > 0
    if problem.intercept:
        sums = [float(lam[side].sum()) for side in (~positive, positive)]
        lam = lam * (min(sums) / np.array(sums))[positive.astype(int)]
    size = problem.norm.dual(problem.adjoint(lam))
    return 1 / size if 0 < size < np.inf else 1.0
