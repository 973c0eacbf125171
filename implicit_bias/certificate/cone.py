"""Moves of weights into the feasible set of linear constraints, in rational arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from implicit_bias._utils.checks import Array, InputError
from implicit_bias._utils.rounding import UNIT
from implicit_bias.certificate.rational import exact_rows, to_fractions
from implicit_bias.margin.constraints import LinearConstraints
from implicit_bias.margin.problem import MarginProblem

#: Coefficients by column: of a row of A, or of a dependent entry as a combination of free entries.
Row = dict[int, Fraction]
#: Number of rounds that turn violated inequalities into equalities.
ROUNDS = 5
#: Largest number of coefficients that exact elimination of the equalities may process.
MAX_COEFFICIENTS = 200_000
#: Largest share by which weights may miss a hard margin before they are moved.
MAX_SHORTFALL = 0.01


@dataclass(frozen=True)
class Cone:
    """Cone of the x (N,) with Ax ≤ 0, with equality in the rows `equal` (m,); A is rounded, `rows` are exact.

    The entry of x in the column `kept` (−1: none) is computed from others only if an equality has no other column.
    """

    A: sp.csr_array
    rows: list[Row]
    equal: np.ndarray
    kept: int = -1

    @classmethod
    def of(cls, A: sp.csr_array, equal: np.ndarray, kept: int = -1) -> Cone:
        """Return the cone of the floats in A, taken as exact rational numbers."""
        rows = [
            {int(j): Fraction(float(v)) for j, v in zip(A.indices[a:b], A.data[a:b], strict=True) if v != 0}
            for a, b in pairwise(A.indptr)
        ]
        return cls(A, rows, equal, kept)

    def point_near(self, x: Array) -> list[Fraction] | None:
        """Return a point of the cone near x (N,), in exact fractions; None if none is found.

        Violated inequalities become equalities, which determine some entries of x. If inequalities are still violated
        after `ROUNDS` rounds, x moves along the direction of `_interior` until all hold.
        """
        exact = [Fraction(float(value)) for value in x]
        equations = [row for row, equal in zip(self.rows, self.equal, strict=True) if equal]
        if self._violated(exact, self.equal) is None and all(_value(row, exact) == 0 for row in equations):
            return exact
        # Most small violations are of constraints that hold with equality at the optimum.
        kept = self.equal.copy()
        for _ in range(ROUNDS):
            pivots = self._eliminated(kept)
            if pivots is None:
                break
            point = _substituted(exact, pivots)
            violated = self._violated(point, kept)
            if violated is None:
                return point
            kept |= violated
        direction, tight = self._interior()
        pivots = self._eliminated(tight)
        if pivots is None:
            raise InputError(
                "the constraints have too many equalities, or too dense ones, for exact elimination; "
                "give fewer, or replace gates that share weights by one gate"
            )
        point, inward = (_substituted(one, pivots) for one in (exact, [Fraction(float(v)) for v in direction]))
        return self._moved(point, inward, tight)

    def _violated(self, x: list[Fraction], known: np.ndarray) -> np.ndarray | None:
        """Return a mask of the violated inequalities that are not `known` to hold; None if there are none."""
        found = np.array([not k and _value(row, x) > 0 for row, k in zip(self.rows, known, strict=True)], dtype=bool)
        return found if found.any() else None

    def _moved(self, point: list[Fraction], inward: list[Fraction], tight: np.ndarray) -> list[Fraction] | None:
        """Return the first point along `inward` at which all rows but the `tight` ones hold; None if there is none."""
        step, outward = Fraction(0), False
        for row in (row for row, is_tight in zip(self.rows, tight, strict=True) if not is_tight):
            excess, gain = _value(row, point), -_value(row, inward)
            if excess > 0 and not gain > 0:
                return None
            step, outward = max(step, excess / gain) if excess > 0 else step, outward or gain < 0
        return None if step > 0 and outward else [p + step * i for p, i in zip(point, inward, strict=True)]

    def _interior(self) -> tuple[Array, np.ndarray]:
        """Return a direction D (N,) into the cone, and a mask of the rows that hold with equality in the whole cone.

        Linear program: maximise Σ s_i subject to A_i D + s_i ≤ 0, 0 ≤ s_i ≤ 1. At the optimum every s_i is 0 or 1,
        because multiples of D are feasible. If the solver fails, D is zero and the mask marks only the equalities.
        """
        A = sp.csr_array(sp.diags_array(1 / np.maximum(np.abs(self.A).max(axis=1).toarray().ravel(), 1e-300)) @ self.A)
        room, equal = A[~self.equal], A[self.equal]
        m, size = room.shape
        from scipy.optimize import linprog

        found = linprog(
            np.append(np.zeros(size), -np.ones(m)),
            A_ub=sp.hstack([room, sp.eye_array(m)]) if m else None,
            b_ub=np.zeros(m) if m else None,
            A_eq=sp.hstack([equal, sp.csr_array((equal.shape[0], m))]) if equal.shape[0] else None,
            b_eq=np.zeros(equal.shape[0]) if equal.shape[0] else None,
            bounds=[(None, None)] * size + [(0, 1)] * m,
            method="highs",
        )
        tight = self.equal.copy()
        if found.status != 0:
            return np.zeros(size), tight
        tight[~self.equal] = found.x[size:] < 0.5
        return found.x[:size], tight

    def _eliminated(self, chosen: np.ndarray) -> dict[int, Row] | None:
        """Return {j: row} with x_j = Σ_l row[l] x_l for each entry j that the `chosen` equalities determine.

        All x_l are free. The method is Gauss–Jordan elimination, with the largest coefficient of each equality as its
        pivot (`kept` only if there is no other). The result is None after more than MAX_COEFFICIENTS coefficients.
        """
        pivots: dict[int, Row] = {}
        # users[j] are the pivots whose combinations contain the free column j.
        users: dict[int, set[int]] = {}
        work = 0
        for equality in (row for row, is_chosen in zip(self.rows, chosen, strict=True) if is_chosen):
            row: Row = {}
            for j, v in equality.items():
                for column, factor in pivots.get(j, {j: Fraction(1)}).items():
                    row[column] = row.get(column, Fraction(0)) + v * factor
            row = {j: v for j, v in row.items() if v != 0}
            work += len(row)
            if not row:
                continue
            pivot = max(row, key=lambda j: (j != self.kept, abs(row[j])))
            pivots[pivot] = {j: -v / row[pivot] for j, v in row.items() if j != pivot}
            for j in pivots[pivot]:
                users.setdefault(j, set()).add(pivot)
            for other in users.pop(pivot, set()):
                factor = pivots[other].pop(pivot)
                for j, v in pivots[pivot].items():
                    pivots[other][j] = pivots[other].get(j, Fraction(0)) + factor * v
                    users.setdefault(j, set()).add(other)
                work += len(pivots[pivot])
            if work > MAX_COEFFICIENTS:
                return None
        return pivots


def into_cone(constraints: LinearConstraints, W: Array) -> tuple[Array, Array]:
    """Return weights (k, d) near W, and the distances of each entry from weights that satisfy homogeneous constraints.

    Both are zero if none are found (`Cone.point_near`).

    >>> import numpy as np
    >>> bounds = LinearConstraints.of(lambda W: [W >= 0, W[0, 0] == W[0, 1]], (1, 3))
    >>> into_cone(bounds, np.array([[0.5, 0.500001, -1e-9]]))[0].tolist()
    [[0.500001, 0.500001, 0.0]]
    """
    point = Cone.of(constraints.E, constraints.equal).point_near(W.ravel())
    floats, distances = _floats(point or [Fraction(0)] * W.size)
    return floats.reshape(W.shape), distances.reshape(W.shape)


def into_polyhedron(problem: MarginProblem, W: Array, b: float) -> tuple[Array, float, Array, float] | None:
    """Return weights (k, d) and b near W and b, and the distances of each entry, and of b, from a feasible point.

    A feasible point satisfies all constraints exactly and, for a hard margin, y_i((ΦW)_i + b) ≥ m_i. It is found as a
    point (vec(W), b, 1) of the cone of E vec(W) ≤ hτ, τ ≥ 0, and of the margins near m_i; the result may be None.

    >>> import numpy as np
    >>> from implicit_bias import Frobenius, GatedFeatures, MarginProblem
    >>> problem = MarginProblem(GatedFeatures([[1.0, 0.0]]), [1], Frobenius(), constraints=lambda W: W[0, 1] <= 0.1)
    >>> W, b, distances, _ = into_polyhedron(problem, np.array([[0.99999, 0.100001]]), 0.0)
    >>> W.tolist(), float(distances.max())
    ([[1.0, 0.1]], 0.0)
    """
    x = np.concatenate([W.ravel(), [b] * problem.intercept, [1.0]])
    cone = _homogenised(problem.constraints, problem.intercept)
    near = np.zeros(0, dtype=int)
    for _ in range(ROUNDS):
        point = cone.point_near(x)
        if point is None or not point[-1] > 0:
            return None
        exact = [value / point[-1] for value in point[:-1]]
        floats, distances = _floats(exact)
        if not np.isfinite(floats).all():
            return None
        found, D = (values[: W.size].reshape(W.shape) for values in (floats, distances))
        intercept, distance = (float(values[W.size :].sum()) for values in (floats, distances))
        short = _short(problem, found, intercept, exact, near)
        if short is None or not len(short):
            return None if short is None else (found, intercept, D, distance)
        near = np.union1d(near, short)
        cone = _with_margins(cone, problem, short)
    return None


def _homogenised(constraints: LinearConstraints, intercept: bool) -> Cone:
    """Return the cone of the (w, b, τ) with Ew ≤ hτ and τ ≥ 0; b is left out without an intercept."""
    free = sp.csr_array((len(constraints.equal), int(intercept)))
    A = sp.hstack([constraints.E, free, sp.csr_array(-constraints.h[:, None])])
    positive = sp.csr_array(([-1.0], ([0], [A.shape[1] - 1])), shape=(1, A.shape[1]))
    return Cone.of(sp.csr_array(sp.vstack([A, positive])), np.append(constraints.equal, False), A.shape[1] - 1)


def _short(problem: MarginProblem, W: Array, b: float, exact: list[Fraction], near: np.ndarray) -> np.ndarray | None:
    """Return indices, not in `near`, of samples with margins < m_i at `exact`, near W and b; None if one is far off."""
    if not problem.hard:
        return near[:0]
    upper, lower, error = problem.features.apply_bounded(W, False)
    f = problem.y * (upper + b + lower)
    error = error + 8 * UNIT * (problem.features.magnitudes(W) + abs(b))
    if not (f >= (1 - MAX_SHORTFALL) * problem.required_margin).all():
        return None
    unsure = np.setdiff1d(np.flatnonzero(~(f - error >= problem.required_margin)), near)
    if not len(unsure):
        return unsure
    return unsure[(_margin_rows(problem, unsure) @ np.array([*exact, Fraction(1)]) > 0).astype(bool)]


def _margin_rows(problem: MarginProblem, samples: np.ndarray) -> Any:
    """Return the exact coefficients of m_iτ − y_i(⟨w, φ(x_i)⟩ + b) for these samples, a matrix with columns w, b, τ."""
    features, y = problem.features.select(samples), problem.y[samples]
    m = np.broadcast_to(problem.required_margin, problem.features.n)[samples]
    table = -exact_rows(features, np.arange(features.k * features.d)) * y.astype(int)[:, None]
    return np.hstack([table, to_fractions(np.column_stack([-y] * problem.intercept + [m]))])


def _with_margins(cone: Cone, problem: MarginProblem, samples: np.ndarray) -> Cone:
    """Return the cone with y_i(⟨w, φ(x_i)⟩ + b) ≥ m_iτ for these samples."""
    exact = _margin_rows(problem, samples)
    rows = [{int(j): row[j] for j in np.flatnonzero(row)} for row in exact]
    A = sp.csr_array(sp.vstack([cone.A, sp.csr_array(exact.astype(np.float64))]))
    return Cone(A, cone.rows + rows, np.append(cone.equal, np.zeros(len(rows), dtype=bool)), cone.kept)


def _floats(point: list[Fraction]) -> tuple[Array, Array]:
    """Return the nearest doubles and, rounded up, their distances from a point."""
    floats = np.array([float(value) for value in point])
    distances = np.nextafter([float(abs(Fraction(v) - e)) for v, e in zip(floats, point, strict=True)], np.inf)
    distances[floats == point] = 0.0
    return floats, distances


def _value(row: Row, w: list[Fraction]) -> Fraction:
    return sum((v * w[j] for j, v in row.items()), Fraction(0))


def _substituted(exact: list[Fraction], pivots: dict[int, Row]) -> list[Fraction]:
    """Return a copy of x (N,) with x_j replaced by Σ_l row[l] x_l for each {j: row} of `pivots`."""
    return [_value(pivots[j], exact) if j in pivots else value for j, value in enumerate(exact)]
