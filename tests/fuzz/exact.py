"""A judge of margin problems in rational arithmetic, which shares no line with the package's.

It knows the problem as it is written down, minimise ‖W‖ + Σ p_i ξ_i subject to y_i((ΦW)_i + b) ≥ m_i − ξ_i, ξ ≥ 0 and
E vec(W) ≤ 0 (some rows = 0), and takes every float64 number of problem and answer for the fraction that it is. Nothing
is rounded but roots: upwards, by 2^−160 of themselves.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import gcd, inf, isqrt, lcm
from typing import Any

import numpy as np

from implicit_bias import Solution, Status

#: Room for the rounding of a stated bound, and of an entry of weights that lie on the border of a cone.
ROOM, ULP = Fraction(1, 10**15), Fraction(1, 2**52)
NEVER = Fraction(0)


def fractions(values: Any) -> Any:
    """Return numbers as Fractions, in an array of the same shape."""
    array = np.asarray(values, dtype=np.float64)
    return np.array([Fraction(v) for v in array.ravel().tolist()], dtype=object).reshape(array.shape)


def root(square: Fraction) -> Fraction:
    """Return the square root of a Fraction, rounded up."""
    p, q = square.numerator, square.denominator
    shift = max(0, 330 - (p * q).bit_length()) // 2
    wide = p * q << 2 * shift
    whole = isqrt(wide)
    return Fraction(whole + (whole * whole != wide), q << shift)


def separable(rows: Any, E: Any, equal: Any) -> bool:
    """Decide if some w has ⟨w, row⟩ > 0 for all rows, ⟨w, e⟩ ≤ 0 for the rows of E, and = 0 for the `equal` ones.

    If not, and only then, λ ≥ 0 and μ have Σλ > 0 and Σλ_i row_i = Eᵀμ, μ ≥ 0 where not `equal`: the first phase of the
    simplex method, by Bland's rule, on whole numbers over a common denominator.
    """
    columns = [_whole(row) for row in [*rows, *-E, *E[equal]]]
    samples = [int(i < len(rows)) for i in range(len(columns))] + [1]
    table = np.array([*zip(*columns, strict=True)], dtype=object)
    table = np.array([*(_whole([*row, 0]) for row in table), samples], dtype=object)
    # The last row is the infeasibility, the sum of the rows whose basic variable is artificial: these are negative.
    table, basis, denominator = np.vstack([table, table.sum(axis=0)]), [-i for i in range(1, len(table) + 1)], 1
    while table[-1, -1] > 0:
        entering = next((j for j, cost in enumerate(table[-1, :-1]) if cost > 0), None)
        if entering is None:
            return True
        rising = [i for i in range(len(basis)) if table[i, entering] > 0]
        leaving = min(rising, key=lambda i: (Fraction(table[i, -1], table[i, entering]), basis[i]))
        pivot, kept = table[leaving, entering], table[leaving].copy()
        table = (pivot * table - np.outer(table[:, entering], kept)) // denominator
        table[leaving], basis[leaving], denominator = kept, entering, pivot
    return False


def _whole(values: Any) -> list[int]:
    """Return the positive multiple of rational numbers that has coprime whole entries."""
    common = lcm(*(Fraction(v).denominator for v in values))
    wide = [int(v * common) for v in values]
    divisor = gcd(*wide) or 1
    return [v // divisor for v in wide]


def positive(values: Any) -> Any:
    """Return the positive parts of an array."""
    return np.where(values > 0, values, 0)


@dataclass
class Exact:
    """A margin problem in Fractions, weights as vectors of k·d numbers.

    The norm is Σ c ‖w_members‖ over `groups` (c, members), that of a GLN's predictors for `units` = (H, K), or the sum
    of the singular values of a matrix of shape `nuclear`, in floats.
    """

    rows: Any
    y: Any
    groups: list[tuple[Fraction, list[int]]]
    units: tuple[int, int] | None
    required: Any
    upper_bounds: Any
    intercept: bool
    E: Any
    equal: Any
    nuclear: tuple[int, int] | None = None

    def value(self, w: Any) -> Fraction:
        """Return ‖w‖ exactly, or rounded up by roots."""
        if self.nuclear is not None:
            return Fraction(float(np.linalg.norm(w.astype(float).reshape(self.nuclear), "nuc")))
        if self.units is None:
            return sum((c * root(sum(w[members] ** 2)) for c, members in self.groups), NEVER)
        W, K = w.reshape(*self.units, -1), self.units[1]
        sums = W.sum(axis=1)
        return root(K * (w @ w) + sum(sums.sum(axis=0) ** 2) - sum(sums.ravel() ** 2))

    def dual(self, v: Any) -> Fraction | None:
        """Return ‖v‖_*, or None if it is infinite."""
        if self.nuclear is not None:
            return Fraction(float(np.linalg.norm(v.astype(float).reshape(self.nuclear), 2)))
        if self.units is None:
            return max(root(sum(v[members] ** 2)) / c for c, members in self.groups)
        V, K = v.reshape(*self.units, -1), self.units[1]
        means = V.sum(axis=1) / Fraction(K)
        if (means != means[0]).any():
            return None
        return root(sum((V - means[:, None]).ravel() ** 2) / K + means[0] @ means[0])

    def upper(self, w: Any, b: Fraction) -> Fraction | None:
        """Return the objective of the best multiple of w and b, or None if it is infinite."""
        f, value = self.rows @ w + self.y * b, self.value(w)
        if self.upper_bounds is None:
            worst = min(f / self.required)
            return value / worst if worst > 0 else None
        t, slope = NEVER, value - self.upper_bounds @ f
        for at, i in sorted((m / g, i) for i, (m, g) in enumerate(zip(self.required, f, strict=True)) if g > 0):
            if slope < 0:
                t, slope = at, slope + self.upper_bounds[i] * f[i]
        return t * value + self.upper_bounds @ positive(self.required - t * f)

    def lower(self, lam: Any, mu: Any) -> Fraction | None:
        """Return the lower bound by the best multiple of λ and μ, or None if it is infinite."""
        if min(lam) < 0 or any(mu[~self.equal] < 0):
            return NEVER
        size = self.dual(lam @ self.rows - mu @ self.E)
        if size is None or max(lam) == 0:
            return NEVER
        size = size if self.upper_bounds is None else max(size, *(lam / self.upper_bounds))
        return self.required @ lam / size if size > 0 else None

    def separable(self) -> bool:
        """True if any weights separate: free intercepts are weights of the inputs y_i."""
        constant = np.array([[*self.y], [NEVER] * len(self.y)], dtype=object)[: int(self.intercept)].T
        E = np.hstack([self.E, np.full((len(self.E), constant.shape[1]), NEVER)])
        return separable(np.hstack([self.rows, constant]), E, self.equal)

    def outside(self, w: Any) -> float:
        """Return the violation of E by w over Σ|e_j| max|w_j|; 0 if weights within a bit of w satisfy E."""
        pull = self.E @ w
        excess = np.where(self.equal, abs(pull), positive(pull))
        if not any(excess > 0) or (all(excess <= ULP * (abs(self.E) @ abs(w))) and self._near(w)):
            return 0.0
        sizes = abs(self.E).sum(axis=1)
        return float(max(excess[sizes > 0] / sizes[sizes > 0]) / max(abs(w)))

    def _near(self, w: Any) -> bool:
        """True if some weights whose entries differ from w by at most one bit satisfy E."""
        one, nothing = np.diag(np.full(len(w), Fraction(1))), np.full((len(self.E), 1), NEVER)
        most, least = (w + ULP * abs(w))[:, None], (w - ULP * abs(w))[:, None]
        E = np.vstack([np.hstack([self.E, nothing]), np.hstack([one, -most]), np.hstack([-one, least])])
        return separable([[*nothing[:1, 0]] * len(w) + [Fraction(1)]], E, np.append(self.equal, [False] * 2 * len(w)))


def faults(problem: Exact, found: Solution, tol: float) -> dict[str, float]:
    """Return the faults of a solution, by kind, and their sizes; nothing if every claim holds."""
    wrong: dict[str, float] = {}
    objective, lower, w = found.objective, found.lower_bound, found.weights.ravel()
    if not isinstance(found.status, Status):
        wrong["unknown status"] = inf
    if not (objective > 0 and lower >= 0 and np.isfinite(found.dual).all() and np.isfinite(found.multipliers).all()):
        return wrong | {"no numbers": inf}
    if found.status is Status.NOT_SEPARABLE or lower == inf:
        if problem.upper_bounds is not None or problem.separable():
            wrong["false proof"] = inf
    else:
        wrong |= lower_faults(problem, found)
    if objective < inf:
        if not (np.isfinite(w).all() and np.isfinite(found.intercept)) or (found.intercept and not problem.intercept):
            return wrong | {"no numbers": inf}
        reached = problem.upper(fractions(w), Fraction(found.intercept))
        if reached is None or reached > Fraction(objective) * (1 + ROOM):
            wrong["upper bound"] = inf if reached is None else _share(reached, objective)
        if outside := problem.outside(fractions(w)):
            wrong["outside the cone"] = outside
        if lower > objective:
            wrong["crossed bounds"] = lower / objective - 1
        elif found.status is Status.OPTIMAL and Fraction(objective) - Fraction(lower) > Fraction(tol) * Fraction(
            objective
        ):
            wrong["OPTIMAL above tol"] = (objective - lower) / objective
    elif found.status is Status.OPTIMAL:
        wrong["OPTIMAL above tol"] = inf
    return wrong


def lower_faults(problem: Exact, found: Solution) -> dict[str, float]:
    """Return the faults of a lower bound and its dual."""
    if found.lower_bound == 0:
        return {}
    lam, mu = fractions(found.dual), fractions(found.multipliers)
    proved, wrong = problem.lower(lam, mu), {}
    if problem.intercept and (balance := problem.y @ lam) != 0:
        wrong["unbalanced dual"] = float(abs(balance) / sum(lam))
    if proved is not None and proved < Fraction(found.lower_bound) * (1 - ROOM):
        wrong["lower bound"] = inf if proved == 0 else -_share(proved, found.lower_bound)
    return wrong


def _share(true: Fraction, stated: float) -> float:
    return float(true / Fraction(stated) - 1)
