"""What weights reach: the upper bound, its rounding counted."""

import math
from dataclasses import dataclass

import numpy as np

from implicit_bias._utils.checks import LARGEST, Array
from implicit_bias._utils.rounding import UNIT, pair_sum
from implicit_bias._utils.scaling import TINY
from implicit_bias.certificate.multiples import OF_A_BOUND, OF_THE_GAP, differ, exactly, normal
from implicit_bias.margin.problem import MarginProblem

#: Entries of W whose norms are asked one by one.
ENTRIES = 1000


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
