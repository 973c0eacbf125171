"""The judge: scores any weights and dual of a margin problem, whichever solver produced them."""

from typing import Any

import numpy as np

from implicit_bias.ground.checks import Array, InputError, as_numbers
from implicit_bias.ground.scaling import length
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solvers.solution import FARKAS_TOLERANCE, Certificate

#: The error of a margin (ΦW)_i + b, as a share of the sum of the sizes of its terms.
ROUNDING = 4 * np.finfo(float).eps


def certify(
    problem: MarginProblem, weights: Any, dual: Any, intercept: float = 0.0, multipliers: Any = None
) -> Certificate:
    """Score weights (k, d), dual (n,), intercept and multipliers (m,), from wherever: the bounds hold for any of them.

    Raises
    ------
    InputError
        If a shape is wrong, or an intercept or multipliers are given to a problem without.

    Examples
    --------
    >>> from implicit_bias import ConstantGate, certify, svm_gln
    >>> problem = svm_gln([[2.0, 1.0], [-2.0, 1.0]], [1, -1], ConstantGate())
    >>> certify(problem, weights=[[7.0, 0.0]], dual=[1.0, 1.0]).gap < 1e-14
    True
    """
    W = _finite(weights, (problem.features.k, problem.features.d), "weights")
    b = float(_finite(intercept, (), "intercept"))
    if b != 0 and not problem.intercept:
        raise InputError("the problem has no free intercept: build it with intercept=True, or leave intercept out")
    if problem.hard or problem.constraints is None:
        W, b = _sized(W, b)
    lam, mu = _sized(np.maximum(_finite(dual, (problem.features.n,), "dual"), 0.0), _multipliers(problem, multipliers))
    lam = _balanced(problem, lam)
    scale, objective = _upper_bound(problem, W, b)
    W, b = scale * W, scale * b
    margins = problem.margins(W, b)
    mu, pull, violation = _constrained(problem, W, mu)
    V = problem.adjoint(lam) - pull
    residual = _residual(problem, lam, V, problem.features.units())
    if problem.hard and np.isinf(objective) and residual <= FARKAS_TOLERANCE:
        size = lam.sum()
        return Certificate(W, lam / size, objective, np.inf, np.inf, margins, residual, b, mu / size, violation)
    scale, lower = _lower_bound(problem, lam, V)
    gap = (objective - lower) / objective if 0 < objective < np.inf else np.inf
    return Certificate(W, scale * lam, objective, lower, gap, margins, residual, b, scale * mu, violation)


def _residual(problem: MarginProblem, lam: Array, V: Array, units: Array) -> float:
    """‖V‖ as a share of Σ_i λ_i ‖φ(x_i)‖, inputs in `units` (d,); 0 for a proof by samples without features alone."""
    reach = float(lam @ problem.features.row_norms(units))
    if 0 < reach < np.inf:
        return float(length(V / units)) / reach
    return float(not (lam[problem.features.closed()] > 0).any())


def _sized(values: Array, companion: Any) -> tuple[Array, Any]:
    """Both over the largest entry of either: only the direction counts, and large numbers would overflow."""
    largest = max(np.abs(values).max(initial=0.0), np.abs(companion).max(initial=0.0))
    return (values / largest, companion / largest) if largest > 0 else (values, companion)


def _multipliers(problem: MarginProblem, multipliers: Any) -> Array:
    """μ (m,), finite; zeros if none are given."""
    if problem.constraints is None:
        if multipliers is not None and np.size(multipliers):
            raise InputError(
                "the problem has no linear constraints: build it with constraints=…, or leave multipliers out"
            )
        return np.zeros(0)
    rows = len(problem.constraints.equal)
    return np.zeros(rows) if multipliers is None else _finite(multipliers, (rows,), "multipliers")


def _constrained(problem: MarginProblem, W: Array, mu: Array) -> tuple[Array, Array | float, float]:
    """The feasible multipliers, Eᵀμ, and by how much W violates the constraints."""
    constraints = problem.constraints
    if constraints is None:
        return mu, 0.0, 0.0
    mu = constraints.feasible(mu)
    violation = constraints.violation(W, problem.features.largest() / np.min(problem.required_margin))
    return mu, constraints.pull(mu), violation


def _balanced(problem: MarginProblem, lam: Array) -> Array:
    """λ with Σ y_iλ_i = 0 where the intercept is free: the λ of the heavier class scaled down; else λ itself."""
    if not problem.intercept:
        return lam
    upper, lower = lam[problem.y > 0].sum(), lam[problem.y < 0].sum()
    least = min(upper, lower)
    if not 0 < least < np.inf or not max(upper, lower) < np.inf:
        return np.zeros_like(lam)
    return lam * np.where(problem.y > 0, least / upper, least / lower)


def _finite(values: Any, shape: tuple[int, ...], name: str) -> Array:
    array = as_numbers(values, shape, name)
    return np.where(np.isfinite(array), array, 0.0)


def _upper_bound(problem: MarginProblem, W: Array, b: float) -> tuple[float, float]:
    """The best multiple t ≥ 0 of W and b, and the objective there."""
    # Margins less their rounding: large prices, or weights that nearly cancel, would turn it into a false bound.
    f = problem.margins(W, b) - ROUNDING * (problem.features.magnitudes(W) + abs(b))
    value = problem.norm.value(W)
    if problem.hard:
        worst = float((f / problem.required_margin).min())
        return (1.0 / worst, value / worst) if worst > 0 else (1.0, np.inf)
    required = np.broadcast_to(problem.required_margin, len(f))
    if problem.constraints is not None:
        # A multiple would magnify weights that are zero up to the constraints' tolerance.
        return 1.0, value + float(problem.prices @ np.maximum(required - f, 0.0))
    return _best_multiple(value, f, required, problem.prices)


def _best_multiple(value: float, f: Array, required: Array, prices: Array) -> tuple[float, float]:
    """The t ≥ 0 that minimises t‖W‖ + Σ p_i (m_i − t f_i)₊, and that minimum; ‖W‖ = `value`.

    Convex and piecewise linear in t: the slope rises by p_i f_i at m_i/f_i (f_i > 0), up to ‖W‖ − Σ_{f_i<0} p_i f_i;
    summed from that end, it loses nothing to large prices.
    """
    positive = f > 0
    with np.errstate(over="ignore", invalid="ignore"):
        breaks = required[positive] / f[positive]
        order = np.argsort(breaks)
        to_come = np.cumsum((prices[positive] * f[positive])[order][::-1])[::-1]
        slopes = value - prices[~positive] @ f[~positive] - np.append(to_come, 0.0)
        first = int(np.argmax(slopes >= 0))
        t = 0.0 if first == 0 or not (slopes >= 0).any() else float(breaks[order[first - 1]])
        cost = t * value + float(prices @ np.maximum(required - t * f, 0.0))
    # Beyond floating point nothing is known of it.
    return t, cost if np.isfinite(cost) else np.inf


def _lower_bound(problem: MarginProblem, lam: Array, V: Array) -> tuple[float, float]:
    """The largest multiple of λ and V that is feasible, and its Σ m_iλ_i."""
    if not lam.any():
        return 1.0, 0.0
    size = float(as_numbers(problem.norm.dual(V), (), f"the dual norm of {problem.norm!r}"))
    if V.any() and not size > 0:
        raise InputError(f"{problem.norm!r} gave the dual norm {size:g} for V other than 0; mend its `dual`")
    size = _with_rounding(problem, lam, V, size)
    used = lam > 0
    scale = min(1.0 / size if size > 0 else np.inf, float((problem.prices[used] / lam[used]).min()))
    if not np.isfinite(scale):
        return 1.0, np.inf
    return scale, float(np.sum(problem.required_margin * (scale * lam)))


def _with_rounding(problem: MarginProblem, lam: Array, V: Array, size: float) -> float:
    """How large ‖V‖_* = `size` may be in truth: V is a sum of terms, and known up to their rounding."""
    # Group by group where the norm allows it: a light group may be all cancellation beside heavy ones.
    error = problem.norm.dual_bound(ROUNDING * problem.features.adjoint_magnitudes(lam))
    if error is not None:
        return size + error
    plain = _residual(problem, lam, V, np.ones(problem.features.d))
    return size * (1 + ROUNDING / plain) if plain > 0 else size
