"""A judge of margin problems in rational arithmetic, which shares no line with the package's.

It knows the problem as it is written down, minimise ‖W‖ + Σ p_i ξ_i subject to y_i((ΦW)_i + b) ≥ m_i − ξ_i, ξ ≥ 0 and
E vec(W) ≤ h (some rows = h), and takes every float64 number of problem and answer for the fraction that it is. Nothing
is rounded but roots: upwards, by 2^−160 of themselves.
"""

from dataclasses import dataclass, replace
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
    return np.where(values > 0, values, 0)


@dataclass
class Exact:
    """A margin problem in Fractions, weights as vectors of k·d numbers.

    The norm is Σ c ‖w_members‖ over `groups` (c, members), that of a GLN's predictors for `units` = (H, K), or the sum
    of the singular values of a matrix of shape `nuclear`, in floats; or that of `layers`, with its own value and dual.
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
    h: Any
    nuclear: tuple[int, int] | None = None
    layers: Any = None

    def value(self, w: Any) -> Fraction:
        """Return ‖w‖ exactly, or rounded up by roots."""
        if self.layers is not None:
            size: Fraction = self.layers.value(w)
            return size
        if self.nuclear is not None:
            return Fraction(float(np.linalg.norm(w.astype(float).reshape(self.nuclear), "nuc")))
        if self.units is None:
            return sum((c * root(sum(w[members] ** 2)) for c, members in self.groups), NEVER)
        W, K = w.reshape(*self.units, -1), self.units[1]
        sums = W.sum(axis=1)
        return root(K * (w @ w) + sum(sums.sum(axis=0) ** 2) - sum(sums.ravel() ** 2))

    def dual(self, v: Any) -> Fraction | None:
        """Return ‖v‖_*, or None if it is infinite."""
        if self.layers is not None:
            size: Fraction = self.layers.dual(v)
            return size
        if self.nuclear is not None:
            return Fraction(float(np.linalg.norm(v.astype(float).reshape(self.nuclear), 2)))
        if self.units is None:
            return max(root(sum(v[members] ** 2)) / c for c, members in self.groups)
        V, K = v.reshape(*self.units, -1), self.units[1]
        means = V.sum(axis=1) / Fraction(K)
        if (means != means[0]).any():
            return None
        return root(sum((V - means[:, None]).ravel() ** 2) / K + means[0] @ means[0])

    @property
    def affine(self) -> bool:
        """True if multiples of w that satisfies E may violate it."""
        return any(self.h != 0)

    def upper(self, w: Any, b: Fraction) -> Fraction | None:
        """Return the objective of the best multiple of w and b, or None if it is infinite.

        If E has right-hand sides, it is the objective of w and b themselves; `outside` judges a hard margin.
        """
        f, value = self.rows @ w + self.y * b, self.value(w)
        if self.affine:
            return value if self.upper_bounds is None else value + self.upper_bounds @ positive(self.required - f)
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
        size, gain = self.dual(lam @ self.rows - mu @ self.E), self.required @ lam - mu @ self.h
        if size is None or gain <= 0:
            return NEVER
        size = size if self.upper_bounds is None else max(size, *(lam / self.upper_bounds))
        return gain / size if size > 0 else None

    def feasible(self, near: Any = ()) -> bool:
        """True if some w and b satisfy E and a hard margin; and those of `near` (w, b), if given, up to a bit each.

        Variables are w, b (if it is free), and τ > 0, by which all right-hand sides are multiplied.
        """
        if self.upper_bounds is not None and not self.affine and not len(near):
            return True
        n, m = len(self.rows), len(self.E)
        nothing = np.full((max(n, m, 1), 1), NEVER)
        A = np.hstack([self.E, nothing[:m], -self.h[:, None]])
        if self.upper_bounds is None and (self.affine or not len(near)):
            A = np.vstack([A, np.hstack([-self.rows, -self.y[:, None], self.required[:, None]])])
        if len(near):
            one, none = np.diag(np.full(len(near), Fraction(1))), ULP * abs(near)
            A = np.vstack([A, np.hstack([one, -(near + none)[:, None]]), np.hstack([-one, (near - none)[:, None]])])
        equal = np.append(self.equal, np.zeros(len(A) - m, dtype=bool))
        if not self.intercept:
            A = np.delete(A, -2, axis=1)
        return separable([[NEVER] * (A.shape[1] - 1) + [Fraction(1)]], A, equal)

    def outside(self, w: Any, b: Fraction) -> float:
        """Return the largest relative violation of E by w; 0 if weights within a bit of w satisfy E.

        If E has right-hand sides, this includes a hard margin.
        """
        pull, scale = self.E @ w - self.h, abs(self.E) @ abs(w) + abs(self.h)
        excess = np.where(self.equal, abs(pull), positive(pull))
        if self.affine and self.upper_bounds is None:
            excess = np.append(excess, positive(self.required - self.rows @ w - self.y * b))
            scale = np.append(scale, abs(self.rows) @ abs(w) + abs(b) + self.required)
        if not any(excess > 0) or (all(excess <= 4 * ULP * scale) and self.feasible(np.array([*w, b], dtype=object))):
            return 0.0
        return float(max(excess[scale > 0] / scale[scale > 0], default=1))


def faults(problem: Exact, found: Solution, tol: float) -> dict[str, float]:
    """Return the faults of a solution, by kind, and their sizes; nothing if every claim holds."""
    wrong: dict[str, float] = {}
    objective, lower, w = found.objective, found.lower_bound, found.weights.ravel()
    if not isinstance(found.status, Status):
        wrong["unknown status"] = inf
    if not (objective > 0 and lower >= 0 and np.isfinite(found.dual).all() and np.isfinite(found.multipliers).all()):
        return wrong | {"no numbers": inf}
    if found.status in (Status.NOT_SEPARABLE, Status.INFEASIBLE) or lower == inf:
        # INFEASIBLE is a claim about the constraints alone, which are those of a soft margin.
        claimed = replace(problem, upper_bounds=problem.required) if found.status is Status.INFEASIBLE else problem
        if claimed.feasible():
            wrong["false proof"] = inf
    else:
        wrong |= lower_faults(problem, found)
    if objective < inf:
        if not (np.isfinite(w).all() and np.isfinite(found.intercept)) or (found.intercept and not problem.intercept):
            return wrong | {"no numbers": inf}
        reached = problem.upper(fractions(w), Fraction(found.intercept))
        if reached is None or reached > Fraction(objective) * (1 + ROOM):
            wrong["upper bound"] = inf if reached is None else _share(reached, objective)
        if outside := problem.outside(fractions(w), Fraction(found.intercept)):
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
