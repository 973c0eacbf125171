"""The upper bound that weights reach and the lower bound that a dual proves, their rounding included."""

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from implicit_bias._utils.checks import LARGEST, Array
from implicit_bias._utils.rounding import UNIT, pair_sum
from implicit_bias._utils.scaling import TINY, length, nearest_power_of_two
from implicit_bias.margin.problem import MarginProblem

#: Rounding errors above this share of the gap, and above `OF_A_BOUND`, are removed by error-free summation.
OF_THE_GAP = 0.02
#: Rounding errors up to this share of a bound are accepted.
OF_A_BOUND = 1e-13
#: Relative distance up to which a power of two replaces the best multiple of weights or a dual.
ABOUT = 0.02


def exactly(t: float) -> list[float]:
    """Return a power of two near t, if there is one: multiplying by it rounds nothing."""
    power = nearest_power_of_two(t)
    return [power] if power != t and abs(t / power - 1) <= ABOUT else []


def normal(scaled: Array, values: Array) -> bool:
    """True if no number has lost digits by underflow."""
    return not ((np.abs(scaled) < TINY) & (values != 0)).any()


def differ(bounds: list[float]) -> bool:
    """True if the bounds differ by more than `OF_A_BOUND`."""
    return bool(max(bounds) > min(bounds) * (1 + OF_A_BOUND))


#: Number of entries of W up to which their norms are computed one by one.
ENTRIES = 1000


@dataclass(frozen=True)
class Upper:
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


def upper_bound(problem: MarginProblem, W: Array, b: float, precise: bool = False) -> Upper:
    """The best multiple t ≥ 0 of W and b, and the objective there."""
    f, error = _margins(problem, W, b, precise)
    t = _best_multiple(problem, problem.norm.value(W), f - error)
    if not precise and normal(t * W, W):
        # The product with t is one more rounding of every term, beside at least six that are counted.
        return _reached(problem, t * W, t * b, t * f, t * (1.5 * error + 2 * UNIT * abs(b)))
    found = [
        _reached(problem, factor * W, factor * b, *_margins(problem, factor * W, factor * b, precise))
        for factor in [t, *exactly(t)]
    ]
    return min(found, key=lambda one: one.bound) if differ([one.bound for one in found]) else found[0]


def _entries(problem: MarginProblem, W: Array) -> float:
    """No less than ‖Δ‖ of any Δ with |Δ_jl| ≤ |W_jl|: Σ_jl |W_jl| ‖±E_jl‖.

    Where these are too many to ask, √k ‖W‖: a bound for the package's norms (a group's nuclear norm is at most the root
    of its rows, k or fewer, times its length), an estimate for one's own.
    """
    norm, used = problem.norm, np.argwhere(W)
    if len(used) > ENTRIES:
        return float(np.sqrt(len(W))) * norm.value_bound(W)
    unit, total = np.zeros_like(W), 0.0
    for j, col in used:
        unit[j, col] = W[j, col]
        total += max(norm.value_bound(unit), norm.value_bound(-unit))
        unit[j, col] = 0.0
    return total


def _reached(problem: MarginProblem, W: Array, b: float, f: Array, error: Array) -> Upper:
    """The objective of W and b with margins f, or of their multiple with margins of at least m_i."""
    value = problem.norm.value_bound(W)
    if problem.constraints is not None:
        # The entries are rounded twice on the way from a point of the cone.
        value += 4 * UNIT * _entries(problem, W)
        error = error + 4 * UNIT * (problem.features.magnitudes(W) + abs(b))
    return Upper(W, b, f, _objective(problem, value, f - error), _objective(problem, value, f + error))


def _margins(problem: MarginProblem, W: Array, b: float, precise: bool) -> tuple[Array, Array]:
    """The margins y_i ((ΦW)_i + b), and bounds of their errors, that of subtracting these from them included."""
    upper, lower, error = problem.features.apply_bounded(W, precise)
    b_, zero = np.full_like(upper, b), np.zeros_like(upper)
    upper, lower, more = pair_sum(np.stack([upper, b_], axis=1), np.stack([lower, zero], axis=1))
    f = upper + lower
    return problem.y * f, error + more + 2 * UNIT * np.abs(f)


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


@dataclass(frozen=True)
class Lower:
    """λ, μ, V = Φᵀ(λ∘y) − Eᵀμ and the lower bound they prove: `bound`, and `hope` without rounding errors."""

    lam: Array
    mu: Array
    V: Array
    bound: float
    hope: float

    def blurred(self, gap: float) -> bool:
        """True if the rounding error is large compared with the gap."""
        return self.hope - self.bound > max(OF_THE_GAP * gap if gap < np.inf else 0.0, OF_A_BOUND) * self.hope


def lower_bound(problem: MarginProblem, lam: Array, mu: Array, precise: bool = False) -> Lower:
    """The largest multiple of λ and μ that is feasible, and its Σ m_iλ_i."""
    lam = _balanced(problem, lam)
    V, error = correlation(problem, lam, mu, precise)
    size = problem.norm.dual_upper(V, error)
    if not lam.any() or not size < np.inf:
        return Lower(lam, mu, V, 0.0, 0.0)
    used = lam > 0
    # At most so large that sums stay in floating point.
    scale = min(1 / max(size, 1 / LARGEST), float((problem.prices[used] / lam[used]).min()))
    factors = [scale, *(factor for factor in exactly(scale) if factor < scale)] if precise else [scale]
    found = []
    for factor in factors:
        scaled, multipliers = _balanced(problem, factor * lam), factor * mu
        summed = precise or problem.intercept or not normal(factor * lam, lam)
        V_, error_ = (
            correlation(problem, scaled, multipliers, precise) if summed else (factor * V, 1.5 * factor * error)
        )
        found.append(_proved(problem, scaled, multipliers, V_, error_))
    return max(found, key=lambda one: one.bound) if differ([one.bound for one in found]) else found[0]


def _proved(problem: MarginProblem, lam: Array, mu: Array, V: Array, error: Array) -> Lower:
    """Return the bound of the best multiple of λ and μ; V = Φᵀ(λ∘y) − Eᵀμ, its rows known up to `error`."""
    size, least = problem.norm.dual_upper(V, error + 4 * UNIT * length(V, axis=1)), float(problem.norm.dual(V))
    priced, n = float((lam / problem.prices).max()), len(lam)
    size = max(size, 1 / LARGEST**1.05)
    # No more than the largest numbers, and less what vanishes.
    total = max(math.fsum(np.minimum(problem.required_margin * lam, LARGEST).tolist()) - n * TINY, 0.0)
    # No finite λ proves an infinite bound.
    bound = float(min(total * (1 - 8 * UNIT) / max(size, priced * (1 + 2 * UNIT)), LARGEST))
    return Lower(lam, mu, V, bound, float(min(total / max(least, priced, 1 / LARGEST), LARGEST)))


def correlation(problem: MarginProblem, lam: Array, mu: Array, precise: bool) -> tuple[Array, Array]:
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
    # Multiples of a unit so large that all sums are exact. The excess of one class, at most n units, is taken from its
    # largest λ, which has 2^51/n units or more.
    unit = 2.0 ** (np.frexp(lam.sum())[1] - 52)
    lam = np.floor(lam / unit)
    excess = lam[positive].sum() - lam[~positive].sum()
    largest = np.argmax(np.where(positive if excess > 0 else ~positive, lam, -1.0))
    lam[largest] -= abs(excess)
    return lam * unit


def farkas_residual(problem: MarginProblem, lower: Lower) -> tuple[float, float]:
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
