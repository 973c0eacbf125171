"""The bounds that weights and dual prove, their own rounding counted."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from implicit_bias.ground.checks import LARGEST, Array, InputError, as_numbers
from implicit_bias.ground.rounding import UNIT, pair_sum
from implicit_bias.ground.scaling import TINY, length, nearest_power_of_two
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solvers.judge.cone import into_cone
from implicit_bias.margin.solvers.judge.rational import null_vector
from implicit_bias.margin.solvers.solution import Certificate

#: Rounding that takes more than this share of the gap, and more than this share of a bound, is computed away.
OF_THE_GAP, OF_A_BOUND = 0.02, 1e-13
#: Entries of W whose norms are asked one by one.
ENTRIES = 1000
#: How much shorter than it could be a dual may stay, and how far from the margins asked for weights may.
ABOUT = 0.02
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
    upper, lower = _upper_bound(problem, W, b), _lower_bound(problem, lam, mu)
    if upper.blurred(_gap(upper.bound, lower.bound)):
        upper = _upper_bound(problem, W, b, precise=True)
    if lower.blurred(_gap(upper.bound, lower.bound)):
        lower = _lower_bound(problem, lam, mu, precise=True)
        if upper.blurred(_gap(upper.bound, lower.bound)):
            upper = _upper_bound(problem, W, b, precise=True)
    farkas, pulled = _farkas_residual(problem, lower)
    if problem.hard and np.isinf(upper.bound) and farkas <= PERHAPS_ZERO * (1 + pulled):
        proof = null_vector(problem, lower.lam, lower.mu)
        if proof is not None:
            V = _pulled(problem, *proof, precise=True)[0]
            farkas, _ = _farkas_residual(problem, Lower(*proof, V, np.inf, np.inf))
            return Certificate(W, proof[0], np.inf, np.inf, np.inf, upper.margins, farkas, b, proof[1])
    contradiction = problem.norm.contradiction(upper.W, lower.V)
    if contradiction is not None:
        raise InputError(contradiction)
    if lower.bound > upper.bound:
        raise InputError(
            f"{problem.norm!r} contradicts itself: weights reach {upper.bound:.9g}, below the lower bound "
            f"{lower.bound:.9g} by its dual; mend its `value` or `dual`"
        )
    gap = _gap(upper.bound, lower.bound)
    return Certificate(upper.W, lower.lam, upper.bound, lower.bound, gap, upper.margins, farkas, upper.b, lower.mu)


@dataclass(frozen=True)
class Upper:
    """Weights and what their best multiple reaches: an objective of at most `bound`; if rounding is kind, of `hope`."""

    W: Array
    b: float
    margins: Array
    bound: float
    hope: float

    def blurred(self, gap: float) -> bool:
        """Whether rounding takes too much."""
        if not self.bound < np.inf:
            return self.hope < np.inf
        return self.bound - self.hope > max(OF_THE_GAP * gap, OF_A_BOUND) * self.hope


@dataclass(frozen=True)
class Lower:
    """λ, μ and V = Φᵀ(λ∘y) − Eᵀμ, and what they prove: at least `bound`; if rounding is kind, `hope`."""

    lam: Array
    mu: Array
    V: Array
    bound: float
    hope: float

    def blurred(self, gap: float) -> bool:
        """Whether rounding takes too much."""
        return self.hope - self.bound > max(OF_THE_GAP * gap if gap < np.inf else 0.0, OF_A_BOUND) * self.hope


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


def _upper_bound(problem: MarginProblem, W: Array, b: float, precise: bool = False) -> Upper:
    """The best multiple t ≥ 0 of W and b, and the objective there."""
    f, error = _margins(problem, W, b, precise)
    t = _best_multiple(problem, problem.norm.value(W), f - error)
    if not precise and _normal(t * W, W):
        # The product with t is one more rounding of every term, beside at least six that are counted.
        return _reached(problem, t * W, t * b, t * f, t * (1.5 * error + 2 * UNIT * abs(b)))
    found = [
        _reached(problem, factor * W, factor * b, *_margins(problem, factor * W, factor * b, precise))
        for factor in [t, *_exactly(t)]
    ]
    return min(found, key=lambda one: one.bound) if _differ([one.bound for one in found]) else found[0]


def _exactly(t: float) -> list[float]:
    """Where rounding matters, a power of two about t: digits that were chosen with care are not rounded again."""
    power = nearest_power_of_two(t)
    return [power] if power != t and abs(t / power - 1) <= ABOUT else []


def _entries(problem: MarginProblem, W: Array) -> float:
    """No less than ‖Δ‖ of any Δ with |Δ_jl| ≤ |W_jl|: Σ_jl |W_jl| ‖±E_jl‖; ‖W‖ where these are too many to ask."""
    norm, used = problem.norm, np.argwhere(W)
    if len(used) > ENTRIES:
        return norm.value_bound(W)
    unit, total = np.zeros_like(W), 0.0
    for j, col in used:
        unit[j, col] = W[j, col]
        total += max(norm.value_bound(unit), norm.value_bound(-unit))
        unit[j, col] = 0.0
    return total


def _normal(scaled: Array, values: Array) -> bool:
    """Whether no number has lost digits on its way to 0."""
    return not ((np.abs(scaled) < TINY) & (values != 0)).any()


def _differ(bounds: list[float]) -> bool:
    return bool(max(bounds) > min(bounds) * (1 + OF_A_BOUND))


def _reached(problem: MarginProblem, W: Array, b: float, f: Array, error: Array) -> Upper:
    """The objective of W and b with margins f, or of their multiple with margins of at least m_i."""
    value = problem.norm.value_bound(W)
    if problem.constraints is not None:
        # The entries are rounded twice on the way from a point of the cone.
        value += 4 * UNIT * _entries(problem, W)
        error = error + 4 * UNIT * (problem.features.magnitudes(W) + abs(b))
    return Upper(W, b, f, _objective(problem, value, f - error), _objective(problem, value, f + error))


def _margins(problem: MarginProblem, W: Array, b: float, precise: bool) -> tuple[Array, Array]:
    """The margins y_i ((ΦW)_i + b), and bounds of their errors."""
    upper, lower, error = problem.features.apply_bounded(W, precise)
    b_, zero = np.full_like(upper, b), np.zeros_like(upper)
    upper, lower, more = pair_sum(np.stack([upper, b_], axis=1), np.stack([lower, zero], axis=1))
    f = upper + lower
    return problem.y * f, error + more + UNIT * np.abs(f)


def _objective(problem: MarginProblem, value: float, f: Array) -> float:
    """What weights of norm `value` and margins of at least f reach, rounded up; of hard margins, their multiple."""
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


def _lower_bound(problem: MarginProblem, lam: Array, mu: Array, precise: bool = False) -> Lower:
    """The largest multiple of λ and μ that is feasible, and its Σ m_iλ_i."""
    lam = _balanced(problem, lam)
    V, error = _pulled(problem, lam, mu, precise)
    size = problem.norm.dual_upper(V, error)
    if not lam.any() or not size < np.inf:
        return Lower(lam, mu, V, 0.0, 0.0)
    used = lam > 0
    # At most so large that sums stay in floating point.
    scale = min(1 / max(size, 1 / LARGEST), float((problem.prices[used] / lam[used]).min()))
    factors = [scale, *(factor for factor in _exactly(scale) if factor < scale)] if precise else [scale]
    found = []
    for factor in factors:
        scaled, pull = _balanced(problem, factor * lam), factor * mu
        summed = precise or problem.intercept or not _normal(factor * lam, lam)
        V_, error_ = _pulled(problem, scaled, pull, precise) if summed else (factor * V, 1.5 * factor * error)
        found.append(_proved(problem, scaled, pull, V_, error_))
    return max(found, key=lambda one: one.bound) if _differ([one.bound for one in found]) else found[0]


def _proved(problem: MarginProblem, lam: Array, mu: Array, V: Array, error: Array) -> Lower:
    """What λ and μ prove by their best multiple; V = Φᵀ(λ∘y) − Eᵀμ, its rows known up to `error`."""
    size, least = problem.norm.dual_upper(V, error + 4 * UNIT * length(V, axis=1)), float(problem.norm.dual(V))
    priced, n = float((lam / problem.prices).max()), len(lam)
    size = max(size, 1 / LARGEST**1.05)
    # No more than the largest numbers, and less what vanishes.
    total = max(math.fsum(np.minimum(problem.required_margin * lam, LARGEST).tolist()) - n * TINY, 0.0)
    # No finite λ proves an infinite bound.
    bound = float(min(total * (1 - 8 * UNIT) / max(size, priced * (1 + 2 * UNIT)), LARGEST))
    return Lower(lam, mu, V, bound, float(min(total / max(least, priced, 1 / LARGEST), LARGEST)))


def _pulled(problem: MarginProblem, lam: Array, mu: Array, precise: bool) -> tuple[Array, Array]:
    """V = Φᵀ(λ∘y) − Eᵀμ (k, d), and how far its rows may be off (k,)."""
    constraints = problem.constraints
    upper, lower, error = problem.features.adjoint_bounded(problem.y * lam, precise)
    if constraints is not None:
        E_upper, E_lower, E_error = constraints.pull_bounded(mu, precise)
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
    # Whole multiples of a unit so large that all sums are exact; what one class then has too much, its largest give.
    unit = 2.0 ** (np.frexp(lam.sum())[1] - 52)
    lam = np.floor(lam / unit)
    excess = lam[positive].sum() - lam[~positive].sum()
    for i in np.argsort(-lam * (positive if excess > 0 else ~positive), kind="stable"):
        given = min(lam[i], abs(excess))
        lam[i], excess = lam[i] - given, excess - np.copysign(given, excess)
        if excess == 0:
            break
    return lam * unit


def _farkas_residual(problem: MarginProblem, lower: Lower) -> tuple[float, float]:
    """‖V‖ and Σ_j |μ_j| ‖E_j‖ as shares of Σ_i λ_i ‖φ(x_i)‖, inputs in units of their sizes; infinity without λ."""
    units = problem.features.units()
    reach = float(lower.lam @ problem.features.row_norms(units))
    if 0 < reach < np.inf:
        E = (
            None
            if problem.constraints is None
            else problem.constraints.E @ sp.diags_array(np.tile(1 / units, len(lower.V)))
        )
        pulled = 0.0 if E is None else float(np.abs(lower.mu) @ np.sqrt((E**2).sum(axis=1)))
        return float(length(lower.V / units)) / reach, pulled / reach
    return (0.0 if (lower.lam[problem.features.closed()] > 0).any() else np.inf), 0.0
