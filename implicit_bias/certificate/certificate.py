"""Certificate of any weights and dual: an upper and a lower bound, or a proof that no weights separate.

The bounds include the rounding errors of their computation. No code is shared with the solvers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import numpy as np
import scipy.sparse as sp

from implicit_bias._utils.checks import LARGEST, Array, InputError, as_numbers
from implicit_bias._utils.floats import TINY, UNIT, length, nearest_power_of_two, pair_sum, two_product
from implicit_bias.certificate.feasible import feasible_point
from implicit_bias.certificate.rational import null_vector
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solution import Certificate

#: Farkas residual up to which no weights of useful size separate.
NEARLY_ZERO = 1e-9
#: Farkas residual (with the terms of μ in its denominator) up to which rational arithmetic looks for an exact proof.
POSSIBLY_ZERO = 1e-6
#: Rounding errors above this share of the gap, and above `ACCEPTED_ERROR`, are removed by error-free summation.
ACCEPTED_SHARE_OF_GAP = 0.02
#: Relative rounding error of a bound that is always accepted.
ACCEPTED_ERROR = 1e-13
#: Relative distance from the required margin up to which a margin counts as near it.
NEAR_MARGIN = 1e-6
#: Distance of a multiple from 1 up to which 1 is tried, too: the multiple also makes up for rounding errors of margins.
NEAR_ONE = 0.5
#: Relative distance up to which a power of two may replace the best multiple of weights.
POWER_OF_TWO_TOL = 0.02
#: Largest float.
MOST = float(np.finfo(float).max)
#: Returns the bound of an `_Upper` or a `_Lower`.
BOUND = attrgetter("bound")


@np.errstate(all="ignore")
def certify(
    problem: MarginProblem, weights: Any, dual: Any, intercept: float = 0.0, multipliers: Any = None
) -> Certificate:
    """Compute rigorous bounds of the optimum from any weights and dual.

    The bounds include their rounding errors. If these are a large part of the gap, margins and Φᵀ(λ∘y) are computed
    again by error-free summation. Weights that violate linear constraints are moved to a feasible point, or, for many
    equations, to within a proved distance of one, for which the bounds account. If a constraint has a right-hand side,
    this includes a hard margin, because multiples may be infeasible.
    Rational arithmetic also decides whether a dual with Φᵀ(λ∘y) ≈ Eᵀμ proves that no weights are feasible.

    Parameters
    ----------
    problem : MarginProblem
    weights : array, shape (k, d)
        W; all positive multiples of W and b give the same bounds if some multiple satisfies all constraints. NaN and
        infinity are replaced by 0, here and in the following arrays.
    dual : array, shape (n,)
        λ, with negative entries set to 0; all positive multiples of λ and μ give the same bounds.
    intercept : float
        b, if it is free.
    multipliers : array, shape (m,), optional
        μ of the linear constraints; zeros by default.

    Returns
    -------
    Certificate

    Raises
    ------
    InputError
        If a shape is wrong, an intercept or multipliers are given for a problem that has none, or the norm's `value`
        and `dual` contradict each other.

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
    points = _feasible_points(problem, W, b)
    lam, mu = _multipliers(problem, np.maximum(_finite(dual, (problem.features.n,), "dual"), 0.0), multipliers)
    upper = _upper_bound(problem, points) if points else _Upper(W, b, problem.margins(W, b), np.inf, np.inf)
    lower = _lower_bound(problem, lam, mu)
    if _imprecise(upper, _gap(upper.bound, lower.bound)):
        upper = _precise_upper_bound(problem, points, upper)
    if _imprecise(lower, _gap(upper.bound, lower.bound)):
        lower = max(_lower_bound(problem, lam, mu, precise=True), lower, key=BOUND)
        if _imprecise(upper, _gap(upper.bound, lower.bound)):
            upper = _precise_upper_bound(problem, points, upper)
    if np.isinf(upper.bound) and (problem.hard or not points) and problem.features.unresolved == 0:
        # The multiples in `lower` are rounded once more than λ and μ.
        proof = _proof(problem, _with_zero_sum(problem, lam), mu)
        if proof is not None:
            farkas, _ = _farkas_residual(problem, *proof, _correlation(problem, *proof, precise=True)[0])
            return Certificate(upper.W, proof[0], np.inf, np.inf, np.inf, upper.margins, farkas, upper.b, proof[1])
    if problem.norm.needs_check:
        # Imported here because the checks load CVXPY, which takes a second, and only user-defined norms need them.
        from implicit_bias.norms.check import check_pair

        check_pair(problem.norm, upper.W, lower.V)
    if lower.bound > upper.bound:
        raise InputError(
            f"{problem.norm!r} contradicts itself: its value gives the objective {upper.bound:.9g}, below the lower "
            f"bound {lower.bound:.9g} from its dual; correct its `value` or `dual`"
        )
    gap, (farkas, _) = _gap(upper.bound, lower.bound), _farkas_residual(problem, lower.lam, lower.mu, lower.V)
    return Certificate(upper.W, lower.lam, upper.bound, lower.bound, gap, upper.margins, farkas, upper.b, lower.mu)


def _feasible_points(problem: MarginProblem, W: Array, b: float) -> list[Any]:
    """Return points (W, b) near a multiple of the given one, with bounds D of distances from feasible ones, if any."""
    if problem.affine:
        multiples = (feasible_point(problem.constraints, *one, problem) for one in _feasible_multiples(problem, W, b))
        return [moved for moved in multiples if moved is not None]
    W, b = _normalised(W, b)
    if problem.constraints is None:
        return [(W, b)]
    point = feasible_point(problem.constraints, W)
    given = np.zeros((2, *W.shape)) if point is None else np.stack(point[::2])
    (W, D), b = _normalised(given, b)
    return [(W, b, D if _normal(np.stack([W, D]), given) else D + TINY)]


def _precise_upper_bound(problem: MarginProblem, points: list[Any], upper: _Upper) -> _Upper:
    """Return the upper bound by error-free summation, or `upper` if underflow makes the new bound worse."""
    return min(_upper_bound(problem, points, precise=True), upper, key=BOUND)


def _gap(objective: float, lower: float) -> float:
    if objective == 0:
        return 0.0
    return (objective - lower) / objective if objective < np.inf else np.inf


def _finite(values: Any, shape: tuple[int, ...], name: str) -> Array:
    """Return an array of this shape with NaN and infinity replaced by 0; raise InputError for other shapes."""
    array = as_numbers(values, shape, name)
    return np.where(np.isfinite(array), array, 0.0)


def _normalised(values: Array, companion: Any) -> tuple[Array, Any]:
    """Return both, divided by one power of two near their largest entry, which is exact and prevents overflow later."""
    largest = nearest_power_of_two(max(np.abs(values).max(initial=0.0), np.abs(companion).max(initial=0.0)))
    return values / largest, companion / largest


def _multipliers(problem: MarginProblem, lam: Array, multipliers: Any) -> tuple[Array, Array]:
    """Return λ (n,) and μ (m,), both divided by a power of two near their largest entry; m = 0 without constraints."""
    constraints = problem.constraints
    if constraints is None:
        if multipliers is not None and np.size(multipliers):
            raise InputError(
                "the problem has no linear constraints: build it with constraints=…, or leave multipliers out"
            )
        return _normalised(lam, np.zeros(0))
    rows = len(constraints.equal)
    mu = np.zeros(rows) if multipliers is None else _finite(multipliers, (rows,), "multipliers")
    return _normalised(lam, constraints.feasible(mu))


def _feasible_multiples(problem: MarginProblem, W: Array, b: float) -> list[tuple[Array, float]]:
    """Return the best multiple of W and b with E vec(W) ≤ h; also W and b if it is close to 1, or none is feasible."""
    f, error = problem.margins_bounded(W, b)
    t = _best_multiple(problem, W, f - error)
    E, h, equal = problem.constraints.E, problem.constraints.h, problem.constraints.equal
    e = E @ W.ravel()
    # te ≤ h is an upper limit of t if h > 0, a lower limit if h < 0, and both for an equality.
    limited = (h != 0) & ((e * h > 0) | equal)
    at = h / e
    least, most = at[limited & (equal | (h < 0))].max(initial=0.0), at[limited & (equal | (h > 0))].min(initial=np.inf)
    t = float(np.clip(t, least, most)) if least <= most else 1.0
    given = [(W, b)] if abs(t - 1) <= NEAR_ONE or not np.isfinite(t * W).all() else []
    return given if t == 1 or not np.isfinite(t * W).all() else [*given, (t * W, t * b)]


def _normal(scaled: Array, values: Array) -> bool:
    """True if no nonzero entry of `values` has become subnormal or 0 in `scaled`."""
    return not ((np.abs(scaled) < TINY) & (values != 0)).any()


@dataclass(frozen=True)
class _Upper:
    """Best multiple of W and b, its margins (n,), and `optimistic` ≤ objective ≤ `bound` in exact arithmetic."""

    W: Array
    b: float
    margins: Array
    bound: float
    optimistic: float


def _upper_bound(problem: MarginProblem, points: list[Any], precise: bool = False) -> _Upper:
    """Return the best multiple t ≥ 0 of W and b with rigorous bounds of its objective, infinite if none is feasible.

    `points` is [(W, b)] or, for multiples of a feasible point that is at most D from W, [(W, b, D)]. If a constraint
    has a right-hand side, the best of the `points`, of `feasible_point`, is returned.
    """
    if problem.affine:
        each = (_bounded_objective(problem, W, b, *problem.margins_bounded(W, b, precise), D) for W, b, *D in points)
        return min(each, key=BOUND)
    W, b, *D = points[0]
    f, error = problem.margins_bounded(W, b, precise)
    t = _best_multiple(problem, W, f - error)
    if not precise and (t == 0 or _normal(t * W, W)):
        # The product with t rounds every term once more; `error` counts at least six roundings of each.
        more = t * (1.5 * error + 2 * UNIT * abs(b))
        rounding = _distances(t, W, b, D[0]) if D else None
        scaled = _bounded_objective(problem, t * W, t * b, t * f, more, rounding)
        # Large errors reduce t, up to 0, where they vanish.
        most = _best_multiple(problem, W, f + error)
        least = _objective(problem, most * problem.norm.value(W), most * (f + error))
        return replace(scaled, optimistic=min(scaled.optimistic, least))
    power = nearest_power_of_two(t)
    # Products with a power of two are exact.
    close = [power] if power != t and abs(t / power - 1) <= POWER_OF_TWO_TOL else []
    # In a soft margin, a slightly larger multiple leaves no slack for the errors of margins near m_i.
    near = (f > 0) & (abs(t * f - problem.required_margin) <= NEAR_MARGIN * problem.required_margin)
    larger = [] if problem.hard or not near.any() else [t * (1 + 4 * float((error[near] / f[near]).max()))]
    multiples = [(s, s * W, s * b) for s in [t, *larger, *close]]
    tried = []
    for s, sW, sb in multiples:
        rounding = _distances(s, W, b, D[0]) if D else None
        tried.append(_bounded_objective(problem, sW, sb, *problem.margins_bounded(sW, sb, precise), rounding))
    return _best(min, tried)


def _entrywise_bound(problem: MarginProblem, W: Array) -> float:
    """Return an upper bound of ‖Δ‖ over all Δ with |Δ_jl| ≤ |W_jl|: √k ‖W‖, or Σ_jl |W_jl| ‖±E_jl‖ for users' norms."""
    norm = problem.norm
    if not norm.needs_check:
        # The nuclear norm of a group with r ≤ k rows is at most √r times its Frobenius norm.
        return float(np.sqrt(len(W))) * norm.value_bound(W)
    sizes = np.abs(W)
    each = np.where(sizes > 0, norm.entries("value", W.shape), 0.0)
    return float((sizes * each).sum()) * (1 + norm.rounding(*W.shape))


def _distances(t: float, W: Array, b: float, D: Array) -> tuple[Array, float]:
    """Return distances of rounded tW and tb from t times a point that is at most D (k, d) from W."""
    share = 0.0 if math.frexp(t)[0] == 0.5 and _normal(t * np.append(W, b), np.append(W, b)) else UNIT
    return t * D + share * np.abs(t * W) + TINY * ((D > 0) | (share > 0)), share * abs(t * b) + TINY * (share > 0)


def _bounded_objective(problem: MarginProblem, W: Array, b: float, f: Array, error: Array, rounding: Any) -> _Upper:
    """Return W and b, of margins f ± `error`, with bounds of the objective of the point at distances `rounding`."""
    value = problem.norm.value_bound(W)
    if rounding is not None:
        # Distances are doubled for their own rounding.
        D, distance = rounding
        value += 2 * _entrywise_bound(problem, D)
        error = error + 2 * (problem.features.magnitudes(D) + distance)
    return _Upper(W, b, f, _objective(problem, value, f - error), _objective(problem, value, f + error))


def _objective(problem: MarginProblem, value: float, f: Array) -> float:
    """Return the objective, rounded up, of weights with norm `value` and margins f (n,): ‖W‖ + Σ C c_i (m_i − f_i)₊."""
    if problem.hard and problem.affine:
        return value
    if problem.hard:
        worst = float((f / problem.required_margin).min())
        return float(value / worst * (1 + 4 * UNIT)) if worst > 0 else np.inf
    slack = problem.upper_bounds * np.maximum(problem.required_margin - f, 0.0)
    if not slack.max() < LARGEST:
        return np.inf
    cost = (math.fsum([float(value), *slack.tolist()]) + len(slack) * float(TINY)) * (1 + 4 * UNIT)
    return cost if np.isfinite(cost) else np.inf


def _best_multiple(problem: MarginProblem, W: Array, f: Array) -> float:
    """Return the t ≥ 0 that minimises the objective of tW: t‖W‖ + Σ p_i (m_i − t f_i)₊, p_i = C c_i.

    It is convex and piecewise linear in t. Its slope increases by p_i f_i at m_i/f_i (f_i > 0), up to
    ‖W‖ − Σ_{f_i<0} p_i f_i. The slopes are summed from that end, so that large p_i cause no cancellation. For a hard
    margin, t is the smallest multiple with margins of at least m_i, or 1 if there is none.
    """
    if problem.hard:
        worst = float((f / problem.required_margin).min())
        return 1.0 / worst if worst > 0 else 1.0
    positive, p = f > 0, problem.upper_bounds
    with np.errstate(over="ignore", invalid="ignore"):
        breaks = np.broadcast_to(problem.required_margin, len(f))[positive] / f[positive]
        order = np.argsort(breaks)
        remaining = np.cumsum((p[positive] * f[positive])[order][::-1])[::-1]
        slopes = problem.norm.value(W) - p[~positive] @ f[~positive] - np.append(remaining, 0.0)
        first = int(np.argmax(slopes >= 0))
        return 0.0 if first == 0 or not (slopes >= 0).any() else float(breaks[order[first - 1]])


@dataclass(frozen=True)
class _Lower:
    """λ, μ and V = Φᵀ(λ∘y) − Eᵀμ; `bound` ≤ dual objective of the largest feasible multiple ≤ `optimistic`."""

    lam: Array
    mu: Array
    V: Array
    bound: float
    optimistic: float


def _imprecise(one: _Upper | _Lower, gap: float) -> bool:
    """Return True if rounding errors of the bound are a large part of the relative `gap`."""
    accepted = max(ACCEPTED_SHARE_OF_GAP * min(gap, 1.0), ACCEPTED_ERROR)
    return abs(one.bound - one.optimistic) > accepted * one.optimistic


def _best(choose: Any, bounds: list[Any]) -> Any:
    """Return the best of the bounds, by `min` or `max`, or the first one unless they differ by more than rounding."""
    least, most = min(bounds, key=BOUND).bound, max(bounds, key=BOUND).bound
    return choose(bounds, key=BOUND) if most > least * (1 + ACCEPTED_ERROR) else bounds[0]


def _lower_bound(problem: MarginProblem, lam: Array, mu: Array, precise: bool = False) -> _Lower:
    """Return λ of zero sum and μ, scaled to be feasible, with rigorous bounds of the dual objective Σ m_iλ_i − hᵀμ."""
    lam = _with_zero_sum(problem, lam)
    V, error = _correlation(problem, lam, mu, precise)
    size = problem.norm.dual_upper(V, error)
    if not (lam.any() or (problem.affine and mu.any())) or not size < np.inf:
        return _Lower(lam, mu, V, 0.0, 0.0)
    used = lam > 0
    # The factor is limited so that sums do not overflow.
    scale = min(1 / max(size, 1 / LARGEST), float((problem.upper_bounds[used] / lam[used]).min(initial=np.inf)))
    # Products with a power of two are exact, and a multiple of λ has the same bound.
    bounds = []
    for factor in [scale, math.ldexp(0.5, math.frexp(scale)[1])] if precise else [scale]:
        scaled, scaled_mu = _with_zero_sum(problem, factor * lam), factor * mu
        exact = _normal(np.append(factor * lam, scaled_mu), np.append(lam, mu))
        summed = not exact or (factor == scale and (precise or problem.intercept))
        V_, error_ = _correlation(problem, scaled, scaled_mu, precise) if summed else (factor * V, 1.5 * factor * error)
        # A product with huge gate values may overflow.
        if np.isfinite(V_).all():
            bounds.append(_bounded_dual_objective(problem, scaled, scaled_mu, V_, error_))
    return _best(max, bounds) if bounds else _Lower(lam, mu, V, 0.0, 0.0)


def _bounded_dual_objective(problem: MarginProblem, lam: Array, mu: Array, V: Array, error: Array) -> _Lower:
    """Return λ, μ and V with bounds of the dual objective Σ m_iλ_i − hᵀμ of their largest feasible multiple."""
    size, least = problem.norm.dual_upper(V, error + 4 * UNIT * length(V, axis=1)), float(problem.norm.dual(V))
    # Rounding may move V out of the range of a seminorm; then only the relative size of λ limits the bound.
    least = least if least < np.inf else 0.0
    relative = float((lam / problem.upper_bounds).max())
    size = max(size, 1 / LARGEST**1.05)
    total = _dual_objective(problem, lam, mu)
    bound = total * (1 - 8 * UNIT) / max(size, relative * (1 + 2 * UNIT))
    # A finite λ never proves an infinite bound.
    return _Lower(lam, mu, V, min(bound, MOST), min(total / max(least, relative, 1 / LARGEST), MOST))


def _dual_objective(problem: MarginProblem, lam: Array, mu: Array) -> float:
    """Return Σ m_iλ_i − hᵀμ, relative rounding errors excepted, minus a bound of underflow; 0 if it is negative."""
    if not problem.affine:
        terms, count = np.minimum(problem.required_margin * lam, LARGEST), len(lam)
    else:
        gains = np.append(np.broadcast_to(problem.required_margin, len(lam)), -problem.constraints.h)
        # The terms may cancel, so that their products must be exact.
        terms, count = np.concatenate(two_product(gains, np.append(lam, mu))), len(gains)
        if not np.isfinite(terms).all():
            return 0.0
    return max(math.fsum(terms.tolist()) - count * float(TINY), 0.0)


def _correlation(problem: MarginProblem, lam: Array, mu: Array, precise: bool) -> tuple[Array, Array]:
    """Return V = Φᵀ(λ∘y) − Eᵀμ (k, d), and bounds (k,) of the errors of its rows in Euclidean length."""
    constraints = problem.constraints
    upper, lower, error = problem.features.adjoint_bounded(problem.y * lam, precise)
    if constraints is not None:
        E_upper, E_lower, E_error = constraints.adjoint_bounded(mu, precise)
        upper, lower, more = pair_sum(np.stack([upper, -E_upper], axis=2), np.stack([lower, -E_lower], axis=2))
        error = error + E_error + length(more, axis=1)
    V = upper + lower
    return V, error + 2 * UNIT * length(V, axis=1)


def _with_zero_sum(problem: MarginProblem, lam: Array) -> Array:
    """Return λ with Σ y_iλ_i = 0 exactly, if the intercept is free; zeros if a class has a sum of 0 or infinity."""
    if not problem.intercept:
        return lam
    positive = problem.y > 0
    if math.fsum((problem.y * lam).tolist()) == 0:
        return lam
    sums = lam[positive].sum(), lam[~positive].sum()
    if not (min(sums) > 0 and max(sums) < np.inf):
        return np.zeros_like(lam)
    lam = lam * np.where(positive, min(sums) / sums[0], min(sums) / sums[1])
    # λ becomes multiples of a unit so large that all sums are exact. The excess of one class, at most n units, is
    # subtracted from its largest λ, which is at least 2^51/n units.
    unit = 2.0 ** (np.frexp(lam.sum())[1] - 52)
    lam = np.floor(lam / unit)
    excess = lam[positive].sum() - lam[~positive].sum()
    lam[np.argmax(np.where(positive if excess > 0 else ~positive, lam, -1.0))] -= abs(excess)
    return lam * unit


def _proof(problem: MarginProblem, lam: Array, mu: Array) -> tuple[Array, Array] | None:
    """Return λ and μ near the given ones that prove in rational arithmetic that no weights are feasible, or None."""
    # Constraints that contradict each other have a proof with λ = 0. A soft margin has no other, because λ is bounded.
    candidates = [0 * lam] * problem.affine + [lam] * problem.hard
    if not min(_farkas_residual(problem, one, mu)[1] for one in candidates) <= POSSIBLY_ZERO:
        return None
    return next((proof for one in candidates if (proof := null_vector(problem, one, mu)) is not None), None)


def _farkas_residual(problem: MarginProblem, lam: Array, mu: Array, V: Array | None = None) -> tuple[float, float]:
    """Return ‖V‖_F over Σ_i λ_i ‖φ(x_i)‖, and over this sum plus Σ_j |μ_j| ‖E_j‖; inputs are divided by their `units`.

    If Σ_i λ_i ‖φ(x_i)‖ is 0 or infinite, both are 0 if a sample with φ(x_i) = 0 has λ_i > 0, and else infinity.
    """
    units = problem.features.units()
    reach = float(lam @ problem.features.row_norms(units))
    slack = 0.0
    V = _correlation(problem, lam, mu, precise=False)[0] if V is None else V
    if problem.constraints is not None:
        E = problem.constraints.E @ sp.diags_array(np.tile(1 / units, len(V)))
        slack = float(np.abs(mu) @ np.sqrt((E**2).sum(axis=1)))
    size = float(length(V / units))
    if problem.affine:
        terms = np.append(problem.required_margin * lam, problem.constraints.h * mu)
        gain = _dual_objective(problem, lam, mu)
        # With λ = μ = 0, or terms that overflow, nothing is proved.
        share = size / (reach + slack) if reach + slack > 0 else 0.0 if size == 0 < gain else np.inf
        return (share / (gain / float(np.abs(terms).sum())) if gain > 0 else np.inf), share
    if 0 < reach < np.inf:
        return size / reach, size / (reach + slack)
    residual = 0.0 if (lam[problem.features.closed()] > 0).any() else np.inf
    return residual, residual
