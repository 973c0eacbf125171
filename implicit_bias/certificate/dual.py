"""What a dual proves: the lower bound, its rounding counted."""

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from implicit_bias._utils.checks import LARGEST, Array
from implicit_bias._utils.rounding import UNIT, pair_sum
from implicit_bias._utils.scaling import TINY, length
from implicit_bias.certificate.multiples import OF_A_BOUND, OF_THE_GAP, differ, exactly, normal
from implicit_bias.margin.problem import MarginProblem


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


def lower_bound(problem: MarginProblem, lam: Array, mu: Array, precise: bool = False) -> Lower:
    """The largest multiple of λ and μ that is feasible, and its Σ m_iλ_i."""
    lam = _balanced(problem, lam)
    V, error = pulled(problem, lam, mu, precise)
    size = problem.norm.dual_upper(V, error)
    if not lam.any() or not size < np.inf:
        return Lower(lam, mu, V, 0.0, 0.0)
    used = lam > 0
    # At most so large that sums stay in floating point.
    scale = min(1 / max(size, 1 / LARGEST), float((problem.prices[used] / lam[used]).min()))
    factors = [scale, *(factor for factor in exactly(scale) if factor < scale)] if precise else [scale]
    found = []
    for factor in factors:
        scaled, pull = _balanced(problem, factor * lam), factor * mu
        summed = precise or problem.intercept or not normal(factor * lam, lam)
        V_, error_ = pulled(problem, scaled, pull, precise) if summed else (factor * V, 1.5 * factor * error)
        found.append(_proved(problem, scaled, pull, V_, error_))
    return max(found, key=lambda one: one.bound) if differ([one.bound for one in found]) else found[0]


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


def pulled(problem: MarginProblem, lam: Array, mu: Array, precise: bool) -> tuple[Array, Array]:
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
        pulled = 0.0 if E is None else float(np.abs(lower.mu) @ np.sqrt((E**2).sum(axis=1)))
        return float(length(lower.V / units)) / reach, pulled / reach
    return (0.0 if (lower.lam[problem.features.closed()] > 0).any() else np.inf), 0.0
