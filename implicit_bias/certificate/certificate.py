"""The certificate of any weights and dual: both bounds, or the proof that nothing separates."""

from typing import Any

import numpy as np

from implicit_bias._utils.checks import Array, InputError, as_numbers
from implicit_bias._utils.scaling import nearest_power_of_two
from implicit_bias.certificate.bounds import Lower, Upper, correlation, farkas_residual, lower_bound, upper_bound
from implicit_bias.certificate.cone import into_cone
from implicit_bias.certificate.rational import null_vector
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solution import Certificate

#: ‖Φᵀ(λ∘y)‖ below this share of Σ λ_i ‖φ(x_i)‖ says that no weights of useful size separate. Below the second, μ's
#: terms included, it may be zero in truth, which rational arithmetic then decides.
NEARLY_ZERO, PERHAPS_ZERO = 1e-9, 1e-6


@np.errstate(all="ignore")
def certify(
    problem: MarginProblem, weights: Any, dual: Any, intercept: float = 0.0, multipliers: Any = None
) -> Certificate:
    """Score weights (k, d), dual (n,), intercept and multipliers (m,), from wherever: the bounds hold for any of them.

    The bounds count their own rounding, at a share per term; where that is much of the gap, margins and Φᵀ(λ∘y) are
    summed again without errors. Weights outside the cone of linear constraints are moved into it, in rational
    arithmetic. Whether a dual with Φᵀ(λ∘y) ≈ 0 proves that nothing separates is decided in rational arithmetic, too.

    Raises
    ------
    InputError
        If a shape is wrong, an intercept or multipliers are given to a problem without, or the norm's `value` and
        `dual` contradict each other.

    Examples
    --------
    >>> from implicit_bias import ConstantGate, certify, svm_gln
    >>> problem = svm_gln([[2.0, 1.0], [-2.0, 1.0]], [1, -1], ConstantGate())
    >>> certify(problem, weights=[[7.0, 0.0]], dual=[1.0, 1.0]).gap < 1e-12
    True
    """
    W = _finite(weights, (problem.features.k, problem.features.d), "weights")
    b = float(_finite(intercept, (), "intercept"))
    if b != 0 and not problem.intercept:
        raise InputError("the problem has no free intercept: build it with intercept=True, or leave intercept out")
    W, b = _sized(W, b)
    if problem.constraints is not None:
        W, b = _sized(into_cone(problem.constraints, W), b)
    lam, mu = _multipliers(problem, np.maximum(_finite(dual, (problem.features.n,), "dual"), 0.0), multipliers)
    upper, lower = upper_bound(problem, W, b), lower_bound(problem, lam, mu)
    if upper.blurred(_gap(upper.bound, lower.bound)):
        upper = _precisely(problem, W, b, upper)
    if lower.blurred(_gap(upper.bound, lower.bound)):
        lower = max(lower_bound(problem, lam, mu, precise=True), lower, key=lambda one: one.bound)
        if upper.blurred(_gap(upper.bound, lower.bound)):
            upper = _precisely(problem, W, b, upper)
    farkas, pull = farkas_residual(problem, lower)
    if problem.hard and np.isinf(upper.bound) and farkas <= PERHAPS_ZERO * (1 + pull):
        proof = null_vector(problem, lower.lam, lower.mu)
        if proof is not None:
            V = correlation(problem, *proof, precise=True)[0]
            farkas, _ = farkas_residual(problem, Lower(*proof, V, np.inf, np.inf))
            return Certificate(W, proof[0], np.inf, np.inf, np.inf, upper.margins, farkas, b, proof[1])
    if problem.norm.needs_check:
        # The checks load CVXPY, which takes a second; norms of the package need none.
        from implicit_bias.norms.check import check_pair

        check_pair(problem.norm, upper.W, lower.V)
    if lower.bound > upper.bound:
        raise InputError(
            f"{problem.norm!r} contradicts itself: weights reach {upper.bound:.9g}, below the lower bound "
            f"{lower.bound:.9g} by its dual; mend its `value` or `dual`"
        )
    gap = _gap(upper.bound, lower.bound)
    return Certificate(upper.W, lower.lam, upper.bound, lower.bound, gap, upper.margins, farkas, upper.b, lower.mu)


def _precisely(problem: MarginProblem, W: Array, b: float, upper: Upper) -> Upper:
    """The upper bound summed again without errors, unless so much vanishes on its way that it is no better."""
    return min(upper_bound(problem, W, b, precise=True), upper, key=lambda one: one.bound)


def _gap(objective: float, lower: float) -> float:
    if objective == 0:
        return 0.0
    return (objective - lower) / objective if objective < np.inf else np.inf


def _finite(values: Any, shape: tuple[int, ...], name: str) -> Array:
    array = as_numbers(values, shape, name)
    return np.where(np.isfinite(array), array, 0.0)


def _sized(values: Array, companion: Any) -> tuple[Array, Any]:
    """Both over about the largest entry of either: only the direction counts, and large numbers would overflow.

    A power of two changes no digit.
    """
    largest = nearest_power_of_two(max(np.abs(values).max(initial=0.0), np.abs(companion).max(initial=0.0)))
    return values / largest, companion / largest


def _multipliers(problem: MarginProblem, lam: Array, multipliers: Any) -> tuple[Array, Array]:
    """λ (n,) and μ (m,), finite and of size 1; a μ of zeros if none is given, no negative one of an inequality."""
    constraints = problem.constraints
    if constraints is None:
        if multipliers is not None and np.size(multipliers):
            raise InputError(
                "the problem has no linear constraints: build it with constraints=…, or leave multipliers out"
            )
        return _sized(lam, np.zeros(0))
    rows = len(constraints.equal)
    mu = np.zeros(rows) if multipliers is None else _finite(multipliers, (rows,), "multipliers")
    return _sized(lam, constraints.feasible(mu))
