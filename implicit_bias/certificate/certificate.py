"""The certificate of any weights and dual: an upper and a lower bound, or the proof that nothing separates.

The bounds count the rounding of every sum on their way, and share no code with any solver.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from implicit_bias._utils.checks import LARGEST, Array, InputError, as_numbers
from implicit_bias._utils.rounding import UNIT, pair_sum
from implicit_bias._utils.scaling import TINY, length, nearest_power_of_two
from implicit_bias.certificate.cone import into_cone
from implicit_bias.certificate.rational import null_vector
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solution import Certificate

#: Share of Σ λ_i ‖φ(x_i)‖ below which ‖Φᵀ(λ∘y)‖ shows that no weights of useful size separate.
NEARLY_ZERO = 1e-9
#: The same, μ's terms included, below which ‖Φᵀ(λ∘y)‖ may be zero in truth: rational arithmetic decides.
PERHAPS_ZERO = 1e-6
#: Rounding errors above this share of the gap, and above `OF_A_BOUND`, are removed by error-free summation.
OF_THE_GAP = 0.02
#: Rounding errors up to this share of a bound are accepted.
OF_A_BOUND = 1e-13
#: Relative distance up to which a power of two replaces the best multiple of weights or a dual.
ABOUT = 0.02


@np.errstate(all="ignore")
def certify(
    problem: MarginProblem, weights: Any, dual: Any, intercept: float = 0.0, multipliers: Any = None
) -> Certificate:
    """Compute bounds from any weights (k, d), dual (n,), intercept and multipliers (m,), whatever their origin.

    The bounds count their own rounding, at a share per term; if that is a large part of the gap, margins and Φᵀ(λ∘y)
    are summed again without errors. Weights outside the cone of linear constraints are moved into it, in rational
    arithmetic. Rational arithmetic also decides whether a dual with Φᵀ(λ∘y) ≈ 0 proves that nothing separates.

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
    upper, lower = _upper_bound(problem, W, b), _lower_bound(problem, lam, mu)
    if upper.blurred(_gap(upper.bound, lower.bound)):
        upper = _precisely(problem, W, b, upper)
    if lower.blurred(_gap(upper.bound, lower.bound)):
        lower = max(_lower_bound(problem, lam, mu, precise=True), lower, key=lambda one: one.bound)
        if upper.blurred(_gap(upper.bound, lower.bound)):
            upper = _precisely(problem, W, b, upper)
    farkas, pull = _farkas_residual(problem, lower)
    if problem.hard and np.isinf(upper.bound) and farkas <= PERHAPS_ZERO * (1 + pull):
        proof = null_vector(problem, lower.lam, lower.mu)
        if proof is not None:
            V = _correlation(problem, *proof, precise=True)[0]
            farkas, _ = _farkas_residual(problem, _Lower(*proof, V, np.inf, np.inf))
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


def _precisely(problem: MarginProblem, W: Array, b: float, upper: _Upper) -> _Upper:
    """The upper bound summed again without errors, or the given one if underflow makes that worse."""
    return min(_upper_bound(problem, W, b, precise=True), upper, key=lambda one: one.bound)


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


def _exactly(t: float) -> list[float]:
    """Return a power of two near t, if there is one: multiplying by it rounds nothing."""
    power = nearest_power_of_two(t)
    return [power] if power != t and abs(t / power - 1) <= ABOUT else []


def _normal(scaled: Array, values: Array) -> bool:
    """True if no number has lost digits by underflow."""
    return not ((np.abs(scaled) < TINY) & (values != 0)).any()


def _differ(bounds: list[float]) -> bool:
    """True if the bounds differ by more than `OF_A_BOUND`."""
    return bool(max(bounds) > min(bounds) * (1 + OF_A_BOUND))


@dataclass(frozen=True)
class _Upper:
    """Weights and the objective of their best multiple: at most `bound`, and `hope` without rounding errors."""

    W: Array
    b: float
    margins: Array
    bound: float
    hope: float

    def blurred(self, gap: float) -> bool:
        """True if the rounding error is large compared with the gap."""
        if not self.bound < np.inf:
            return self.hope < np.inf
        return self.bound - self.hope > max(OF_THE_GAP * gap, OF_A_BOUND) * self.hope


def _upper_bound(problem: MarginProblem, W: Array, b: float, precise: bool = False) -> _Upper:
    """The best multiple t ≥ 0 of W and b, and the objective there."""
    f, error = _margins(problem, W, b, precise)
    t = _best_multiple(problem, problem.norm.value(W), f - error)
    if not precise and _normal(t * W, W):
        # The product with t is one more rounding of every term, next to at least six that are counted.
        return _reached(problem, t * W, t * b, t * f, t * (1.5 * error + 2 * UNIT * abs(b)))
    found = [
        _reached(problem, factor * W, factor * b, *_margins(problem, factor * W, factor * b, precise))
        for factor in [t, *_exactly(t)]
    ]
    return min(found, key=lambda one: one.bound) if _differ([one.bound for one in found]) else found[0]


def _entries(problem: MarginProblem, W: Array) -> float:
    """No less than ‖Δ‖ of any Δ with |Δ_jl| ≤ |W_jl|.

    √k ‖W‖ for the package's norms: a group's nuclear norm is at most the root of its rows, k or fewer, times its
    length. Σ_jl |W_jl| ‖±E_jl‖ for user-defined ones.
    """
    norm = problem.norm
    if not norm.needs_check:
        return float(np.sqrt(len(W))) * norm.value_bound(W)
    sizes = np.abs(W)
    each = np.where(sizes > 0, norm.entries("value", W.shape), 0.0)
    return float((sizes * each).sum()) * (1 + norm.rounding(*W.shape))


def _reached(problem: MarginProblem, W: Array, b: float, f: Array, error: Array) -> _Upper:
    """The objective of W and b with margins f, or of their multiple with margins of at least m_i."""
    value = problem.norm.value_bound(W)
    if problem.constraints is not None:
        # The entries are rounded twice on the way from a point of the cone.
        value += 4 * UNIT * _entries(problem, W)
        error = error + 4 * UNIT * (problem.features.magnitudes(W) + abs(b))
    return _Upper(W, b, f, _objective(problem, value, f - error), _objective(problem, value, f + error))


def _margins(problem: MarginProblem, W: Array, b: float, precise: bool) -> tuple[Array, Array]:
    """The margins y_i ((ΦW)_i + b), and bounds of their errors, that of subtracting these from them included."""
    upper, lower, error = problem.features.apply_bounded(W, precise)
    b_, zero = np.full_like(upper, b), np.zeros_like(upper)
    upper, lower, more = pair_sum(np.stack([upper, b_], axis=1), np.stack([lower, zero], axis=1))
    f = upper + lower
    return problem.y * f, error + more + 2 * UNIT * np.abs(f)


def _objective(problem: MarginProblem, value: float, f: Array) -> float:
    """Objective of weights of norm `value` and margins of at least f, rounded up; hard margins: of their multiple."""
    if problem.hard:
        worst = float((f / problem.required_margin).min())
        return float(value / worst * (1 + 4 * UNIT)) if worst > 0 else np.inf
    slack = problem.prices * np.maximum(problem.required_margin - f, 0.0)
    if not slack.max() < LARGEST:
        return np.inf
    cost = (math.fsum([float(value), *slack.tolist()]) + len(slack) * float(TINY)) * (1 + 4 * UNIT)
    return cost if np.isfinite(cost) else np.inf


def _best_multiple(problem: MarginProblem, value: float, f: Array) -> float:
    """The t ≥ 0 with margins of at least m_i, or that minimises t‖W‖ + Σ p_i (m_i − t f_i)₊; ‖W‖ = `value`.

    The latter is convex and piecewise linear in t: the slope rises by p_i f_i at m_i/f_i (f_i > 0), up to
    ‖W‖ − Σ_{f_i<0} p_i f_i; summed from that end, it loses nothing to large prices.
    """
    if problem.hard:
        worst = float((f / problem.required_margin).min())
        return 1.0 / worst if worst > 0 else 1.0
    positive, prices = f > 0, problem.prices
    with np.errstate(over="ignore", invalid="ignore"):
        breaks = np.broadcast_to(problem.required_margin, len(f))[positive] / f[positive]
        order = np.argsort(breaks)
        to_come = np.cumsum((prices[positive] * f[positive])[order][::-1])[::-1]
        slopes = value - prices[~positive] @ f[~positive] - np.append(to_come, 0.0)
        first = int(np.argmax(slopes >= 0))
        return 0.0 if first == 0 or not (slopes >= 0).any() else float(breaks[order[first - 1]])


@dataclass(frozen=True)
class _Lower:
    """λ, μ, V = Φᵀ(λ∘y) − Eᵀμ and the lower bound they prove: `bound`, and `hope` without rounding errors."""

    lam: Array
    mu: Array
    V: Array
    bound: float
    hope: float

    def blurred(self, gap: float) -> bool:
        """True if the rounding error is large compared with the gap."""
        return self.hope - self.bound > max(OF_THE_GAP * gap if gap < np.inf else 0.0, OF_A_BOUND) * self.hope


def _lower_bound(problem: MarginProblem, lam: Array, mu: Array, precise: bool = False) -> _Lower:
    """The largest multiple of λ and μ that is feasible, and its Σ m_iλ_i."""
    lam = _balanced(problem, lam)
    V, error = _correlation(problem, lam, mu, precise)
    size = problem.norm.dual_upper(V, error)
    if not lam.any() or not size < np.inf:
        return _Lower(lam, mu, V, 0.0, 0.0)
    used = lam > 0
    # At most so large that sums stay in floating point.
    scale = min(1 / max(size, 1 / LARGEST), float((problem.prices[used] / lam[used]).min()))
    factors = [scale, *(factor for factor in _exactly(scale) if factor < scale)] if precise else [scale]
    found = []
    for factor in factors:
        scaled, multipliers = _balanced(problem, factor * lam), factor * mu
        summed = precise or problem.intercept or not _normal(factor * lam, lam)
        V_, error_ = (
            _correlation(problem, scaled, multipliers, precise) if summed else (factor * V, 1.5 * factor * error)
        )
        found.append(_proved(problem, scaled, multipliers, V_, error_))
    return max(found, key=lambda one: one.bound) if _differ([one.bound for one in found]) else found[0]


def _proved(problem: MarginProblem, lam: Array, mu: Array, V: Array, error: Array) -> _Lower:
    """Return the bound of the best multiple of λ and μ; V = Φᵀ(λ∘y) − Eᵀμ, its rows known up to `error`."""
    size, least = problem.norm.dual_upper(V, error + 4 * UNIT * length(V, axis=1)), float(problem.norm.dual(V))
    priced, n = float((lam / problem.prices).max()), len(lam)
    size = max(size, 1 / LARGEST**1.05)
    # No more than the largest numbers, and less what vanishes.
    total = max(math.fsum(np.minimum(problem.required_margin * lam, LARGEST).tolist()) - n * TINY, 0.0)
    # No finite λ proves an infinite bound.
    bound = float(min(total * (1 - 8 * UNIT) / max(size, priced * (1 + 2 * UNIT)), LARGEST))
    return _Lower(lam, mu, V, bound, float(min(total / max(least, priced, 1 / LARGEST), LARGEST)))


def _correlation(problem: MarginProblem, lam: Array, mu: Array, precise: bool) -> tuple[Array, Array]:
    """V = Φᵀ(λ∘y) − Eᵀμ (k, d), and how far its rows may be off (k,)."""
    constraints = problem.constraints
    upper, lower, error = problem.features.adjoint_bounded(problem.y * lam, precise)
    if constraints is not None:
        E_upper, E_lower, E_error = constraints.adjoint_bounded(mu, precise)
        upper, lower, more = pair_sum(np.stack([upper, -E_upper], axis=2), np.stack([lower, -E_lower], axis=2))
        error = error + E_error + length(more, axis=1)
    V = upper + lower
    return V, error + 2 * UNIT * length(V, axis=1)


def _balanced(problem: MarginProblem, lam: Array) -> Array:
    """λ with Σ y_iλ_i = 0, exactly, where the intercept is free: smaller λ for the heavier class; else λ itself."""
    if not problem.intercept:
        return lam
    positive = problem.y > 0
    if math.fsum((problem.y * lam).tolist()) == 0:
        return lam
    sums = lam[positive].sum(), lam[~positive].sum()
    if not (min(sums) > 0 and max(sums) < np.inf):
        return np.zeros_like(lam)
    lam = lam * np.where(positive, min(sums) / sums[0], min(sums) / sums[1])
    # Multiples of a unit so large that all sums are exact. The excess of one class, at most n units, is taken from its
    # largest λ, which has 2^51/n units or more.
    unit = 2.0 ** (np.frexp(lam.sum())[1] - 52)
    lam = np.floor(lam / unit)
    excess = lam[positive].sum() - lam[~positive].sum()
    largest = np.argmax(np.where(positive if excess > 0 else ~positive, lam, -1.0))
    lam[largest] -= abs(excess)
    return lam * unit


def _farkas_residual(problem: MarginProblem, lower: _Lower) -> tuple[float, float]:
    """‖V‖ and Σ_j |μ_j| ‖E_j‖ as shares of Σ_i λ_i ‖φ(x_i)‖, inputs in units of their sizes; infinity without λ."""
    units = problem.features.units()
    reach = float(lower.lam @ problem.features.row_norms(units))
    if 0 < reach < np.inf:
        E = (
            None
            if problem.constraints is None
            else problem.constraints.E @ sp.diags_array(np.tile(1 / units, len(lower.V)))
        )
        slack = 0.0 if E is None else float(np.abs(lower.mu) @ np.sqrt((E**2).sum(axis=1)))
        return float(length(lower.V / units)) / reach, slack / reach
    return (0.0 if (lower.lam[problem.features.closed()] > 0).any() else np.inf), 0.0
