"""Moves of weights to a point that satisfies linear constraints and required margins, with a proof.

Few equations Ax = h are solved in rational arithmetic. For many, let X be an approximate right inverse of A with θ =
‖I − AX‖ < 1. Then AX is invertible, and

    x′ = x − Xz   with   AXz = ρ,   ρ = Ax − h,

satisfies Ax′ = h. Because of z = ρ + (I − AX)z, its distance from x is at most |X||z| with |z_i| ≤ |ρ_i| + θ_i‖ρ‖/(1 −
θ), in the maximum norm and with row sums θ_i (Krawczyk 1969; Rump 2010). Inequalities hold at x′ if they hold at x with
room for this distance and for rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import chain, pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import qr, solve_triangular

from implicit_bias._utils import floats
from implicit_bias._utils.checks import Array
from implicit_bias._utils.floats import TINY, UNIT
from implicit_bias.certificate.rational import signed_rows
from implicit_bias.margin.constraints import MAX_PRECISE_ENTRIES, LinearConstraints
from implicit_bias.margin.problem import MarginProblem

#: Coefficients by column; `RIGHT` is the column of the right-hand side.
Row = dict[int, Fraction]
RIGHT = -1
#: A condition ⟨a, x⟩ ≤ t: the vector a and t, less room for rounding.
Condition = tuple[Array, float]
#: Rounds that move a point into violated inequalities.
ROUNDS = 5
#: Largest number of bits of coefficients that exact elimination may process, first and if nothing else is proved: a
#: tenth of a second, and some ten seconds.
FEW_BITS, MANY_BITS = 2**21, 2**28
#: Largest number of coefficients of equations to be eliminated exactly.
MAX_FRACTIONS = 200_000
#: Pivot, relative to the largest, below which an equation counts as a combination of others, if this can be proved.
DEPENDENT = 1e-11
#: Largest denominator of the coefficients of such a combination.
MAX_DENOMINATOR = 1000
#: Room of an inequality after a move, as a multiple of the errors that it must outweigh.
ROOM = 64
#: Largest share by which weights may miss a hard margin before they are moved.
MAX_SHORTFALL = 0.01


@dataclass(frozen=True)
class NearPoint:
    """A point x (N,), the distances D (N,) of its entries from a solution, and this solution, if it is known."""

    x: Array
    D: Array
    exact: Any = None


class Equations:
    """Equations Ax = h (m, N), solved exactly if this takes few operations, else to a proved distance."""

    def __init__(self, A: sp.csr_array, h: Array, more: Any = ()) -> None:
        """Take the equations, and `more` rows that are only solved exactly."""
        self.exact = _eliminated(A, h, more, FEW_BITS)
        # Products with powers of two are exact.
        units = floats.nearest_power_of_two(np.sqrt(np.asarray((A**2).sum(axis=1))))
        self.A, self.h = sp.csr_array(sp.diags_array(1 / units) @ A), h / units

    def moved(self, x: Array, active: list[Condition]) -> Array | None:
        """Return a point near x (N,) with Ax ≈ h and ⟨a, x⟩ ≈ t for the `active` conditions; None if they are many."""
        if (len(self.h) + len(active)) * len(x) > MAX_PRECISE_ENTRIES:
            return None
        rows, targets = (np.array(part) for part in zip(*active, strict=True))
        units = np.maximum(floats.length(rows, axis=1), TINY)
        A, h = np.vstack([self.A.toarray(), rows / units[:, None]]), np.append(self.h, targets / units)
        X, kept, _ = _right_inverse(A)
        for _ in range(2):
            x = x - X @ (A @ x - h)[kept]
        return x

    def solved(self, x: Array) -> NearPoint | None:
        """Return a point near x (N,) and the distances of its entries from a solution; None if none is proved."""
        if self.exact is not None:
            exact = np.array([Fraction(v) for v in x.tolist()], dtype=object)
            for j, row in self.exact.items():
                exact[j] = _value(row, exact)
            x = exact.astype(np.float64)
            lost = np.array([float(abs(Fraction(v) - e)) for v, e in zip(x.tolist(), exact, strict=True)])
            return NearPoint(x, np.where(lost > 0, np.nextafter(lost, np.inf), 0.0), exact)
        if self.A.shape[0] * len(x) > MAX_PRECISE_ENTRIES:
            return None
        X, A, h, proved = self._inverse
        m, N = A.shape
        sizes = floats.length(A, axis=1) * floats.length(X, axis=0).sum()
        rest = np.abs(np.eye(m) - A @ X).sum(axis=1) * (1 + floats.share(2 * m)) + floats.share(2 * N + 16) * sizes
        theta = rest.max(initial=0.0)
        if not (proved and theta < 0.5):
            self.exact = _eliminated(self.A, self.h, (), MANY_BITS)
            return None if self.exact is None else self.solved(x)
        # The second of two steps removes the rounding of the first.
        for _ in range(2):
            x = x - X @ _residual(A, h, x)[0]
        # Twice each bound is more than its own rounding.
        z = 2 * np.sum(np.abs(_residual(A, h, x)), axis=0)
        z += 2 * rest * z.max(initial=0.0) / (1 - theta)
        return NearPoint(x, 2 * np.abs(X) @ z + m * TINY * X.any(axis=1))

    @cached_property
    def _inverse(self) -> tuple[Array, Array, Array, bool]:
        """An approximate right inverse X of A without combinations of other rows, this A and h; False if not proved."""
        A = self.A.toarray()
        X, kept, others = _right_inverse(A)
        return X, A[kept], self.h[kept], all(_is_combination(self.A, self.h, kept, i, c) for i, c in others)


def _residual(A: Array, h: Array, x: Array) -> tuple[Array, Array]:
    """Return Ax − h and bounds of its errors; (m,) each."""
    upper, lower, error = (part[:, 0] for part in floats.precise_product(A, x[:, None]))
    difference, lost = floats.two_sum(upper, -h)
    rest = lost + lower
    return difference + rest, error + 4 * UNIT * (np.abs(difference + rest) + np.abs(lost) + np.abs(lower))


def _right_inverse(A: Array) -> tuple[Array, np.ndarray, list[tuple[int, Array]]]:
    """Return X with A[kept] X ≈ I, the indices `kept`, and (i, c) with A_i ≈ cᵀA[kept] for all other rows."""
    (Q, R), order = qr(A.T, mode="economic", check_finite=False), np.arange(len(A))
    sizes = np.abs(np.diag(R))
    if len(sizes) < len(A) or sizes.min() <= DEPENDENT * sizes.max():
        # Pivots, which take twice as long, find the dependent rows.
        Q, R, order = qr(A.T, mode="economic", pivoting=True, check_finite=False)
        sizes = np.abs(np.diag(R))
    rank = int((sizes > DEPENDENT * sizes.max()).sum())
    corner = R[:rank, :rank]
    others = solve_triangular(corner, R[:rank, rank:]).T if 0 < rank < len(A) else np.zeros((len(A) - rank, rank))
    X = solve_triangular(corner, Q[:, :rank].T).T if rank else np.zeros((A.shape[1], 0))
    return X, order[:rank], list(zip(order[rank:].tolist(), others, strict=True))


def _is_combination(A: sp.csr_array, h: Array, kept: np.ndarray, i: int, c: Array) -> bool:
    """Return True if (A_i, h_i) = Σ_l c_l (A_l, h_l) over `kept` exactly, with c rounded to small denominators."""
    factors = np.array([*(Fraction(float(v)).limit_denominator(MAX_DENOMINATOR) for v in c), Fraction(-1)])
    rows, total = np.append(kept, i)[factors != 0], Row()
    for row, factor in zip(_exact_rows(A[rows], h[rows]), factors[factors != 0], strict=True):
        for j, v in row.items():
            total[j] = total.get(j, Fraction(0)) + factor * v
    return not any(total.values())


def _eliminated(A: sp.csr_array, h: Array, more: Any, bits: int) -> dict[int, Row] | None:
    """Return {j: row} with x_j = Σ_l row[l] x_l + row[RIGHT] for each entry j that Ax = h and `more` rows determine.

    All x_l are free. The method is Gauss–Jordan elimination, with the largest coefficient of each equation as its
    pivot. The result is None if equations contradict each other, or after coefficients of more than `bits` bits.
    """
    if A.nnz > MAX_FRACTIONS:
        return None
    pivots: dict[int, Row] = {}
    # users[j] are the pivots whose combinations contain the free column j.
    users: dict[int, set[int]] = {}
    work = 0
    for given in chain(_exact_rows(A, h), more):
        # Σ_j given[j] x_j + given[RIGHT] = 0.
        row: Row = {}
        for j, v in given.items():
            for column, factor in pivots.get(j, {j: Fraction(1)}).items():
                row[column] = row.get(column, Fraction(0)) + v * factor
        row = {j: v for j, v in row.items() if v != 0}
        work += _bits(row)
        if not row:
            continue
        if row.keys() == {RIGHT}:
            return None
        pivot = max(row, key=lambda j: (j != RIGHT, abs(row[j])))
        pivots[pivot] = {j: -v / row[pivot] for j, v in row.items() if j != pivot}
        for j in pivots[pivot]:
            users.setdefault(j, set()).add(pivot)
        for other in users.pop(pivot, set()):
            factor = pivots[other].pop(pivot)
            for j, v in pivots[pivot].items():
                pivots[other][j] = pivots[other].get(j, Fraction(0)) + factor * v
                users.setdefault(j, set()).add(other)
            work += _bits(pivots[other])
        if work > bits:
            return None
    return pivots


def _exact_rows(A: sp.csr_array, h: Array) -> Iterator[Row]:
    """Yield A_i x − h_i for each row i."""
    for (start, stop), right in zip(pairwise(A.indptr), h.tolist(), strict=True):
        values = zip(A.indices[start:stop].tolist(), A.data[start:stop].tolist(), strict=True)
        yield {j: Fraction(v) for j, v in values} | {RIGHT: -Fraction(right)}


def _bits(row: Row) -> int:
    """Return the bits of the coefficients of a row; each counts as at least 64."""
    return sum(64 + v.numerator.bit_length() for v in row.values())


def feasible_point(
    constraints: LinearConstraints, W: Array, b: float = 0.0, problem: MarginProblem | None = None
) -> tuple[Array, float, Array, float] | None:
    """Return weights (k, d) and b near W and b, and bounds of the distances of their entries from a feasible point.

    A feasible point satisfies all constraints and, for a `problem` with a hard margin, all required margins. Violated
    constraints become equations or, if this fails, they are satisfied with room. The result is None if both fail.

    >>> bounds = LinearConstraints.of(lambda W: [W >= 0, W[0, 0] == W[0, 1]], (1, 3))
    >>> feasible_point(bounds, np.array([[0.5, 0.500001, -1e-9]]))[0].tolist()
    [[0.500001, 0.500001, 0.0]]

    A hard margin, too:

    >>> from implicit_bias import Frobenius, GatedFeatures
    >>> problem = MarginProblem(GatedFeatures([[1.0, 0.0]]), [1], Frobenius(), constraints=lambda W: W[0, 1] <= 0.1)
    >>> W, _, distances, _ = feasible_point(problem.constraints, np.array([[0.99999, 0.100001]]), 0.0, problem)
    >>> W.round(9).tolist(), float(distances.max())
    ([[1.0, 0.1]], 0.0)
    """
    free = problem is not None and problem.intercept
    hard = problem if problem is not None and problem.hard else None
    for tight in (True, False):
        point = _search(constraints, np.append(W.ravel(), [b] * free), hard, tight)
        if point is not None:
            return *_split(point.x, W.shape), *_split(point.D, W.shape)
    return None


def _split(x: Array, shape: tuple[int, ...]) -> tuple[Array, float]:
    """Return the weights (k, d) in x (N,), and b, 0 if x has none."""
    size = int(np.prod(shape))
    return x[:size].reshape(shape), float(x[size:].sum())


def _search(constraints: LinearConstraints, x: Array, problem: MarginProblem | None, tight: bool) -> NearPoint | None:
    """Return a point near x (N,) that is proved to be near a feasible one; None if none is found in `ROUNDS` rounds.

    What is violated becomes an equation if `tight`, with margins only in rational arithmetic; else it gets room.
    """
    E, h, equal = constraints.E, constraints.h, constraints.equal.copy()
    E = sp.csr_array(sp.hstack([E, sp.csr_array((len(h), len(x) - E.shape[1]))]))
    equations, active, more = Equations(E[equal], h[equal]), dict[int, Condition](), list[Row]()
    for _ in range(ROUNDS):
        moved = equations.moved(x, [*active.values()]) if active else x
        point = None if moved is None else equations.solved(moved)
        if point is None or not np.isfinite([point.x, point.D]).all():
            return None
        violated = _violated(E, h, point, ~equal)
        margins = {} if problem is None else _violated_margins(problem, point)
        if margins is None or not (violated or margins):
            return None if margins is None else point
        x = point.x
        if not tight:
            active |= violated | {-1 - i: row for i, row in margins.items()}
        elif len(margins) * len(x) > MAX_FRACTIONS:
            return None
        else:
            equal[[*violated]] = True
            more += [] if problem is None else _margin_rows(problem, np.array([*margins], dtype=int))
            equations = Equations(E[equal], h[equal], more)
            if more and equations.exact is None:
                return None
    return None


def _violated(E: sp.csr_array, h: Array, at: NearPoint, among: np.ndarray) -> dict[int, Condition]:
    """Return {i: (E_i, t)} with t < h_i for each i in the mask `among` for which E_i x ≤ h_i is not proved."""
    sizes = abs(E)
    error = 2 * (floats.share(2 * E.shape[1] + 8) * (sizes @ np.abs(at.x)) + sizes @ at.D) + 4 * UNIT * np.abs(h)
    error += E.shape[1] * TINY
    excess = E @ at.x - h
    short = among & ~(excess + error <= 0)
    if at.exact is not None:
        close = np.flatnonzero(short & (excess <= error))
        short[close] = [_value(row, at.exact) > 0 for row in _exact_rows(E[close], h[close])]
    return {int(i): (E[[i]].toarray()[0], h[i] - ROOM * error[i]) for i in np.flatnonzero(short)}


def _violated_margins(problem: MarginProblem, at: NearPoint) -> dict[int, Condition] | None:
    """Return {i: (a, t)} with ⟨a, x⟩ ≤ t for a margin above m_i, if a margin m_i is not proved; None if one is far."""
    features, y, m = problem.features, problem.y, np.broadcast_to(problem.required_margin, problem.features.n)
    (W, b), (D, distance) = (_split(part, features.shape[1:]) for part in (at.x, at.D))
    f, error = problem.margins_bounded(W, b)
    if not (f >= (1 - MAX_SHORTFALL) * m).all():
        return None
    if not (f - error >= m).all():
        f, error = problem.margins_bounded(W, b, precise=True)
    error = error + 2 * (features.magnitudes(D) + distance)
    short = np.flatnonzero(~(f - error >= m))
    if at.exact is not None and (np.abs(f - m) <= error)[short].all():
        short = short[[_value(row, at.exact) < 0 for row in _margin_rows(problem, short)]]
    if not len(short):
        return {}
    rows = np.hstack([features.select(short).dense(), np.ones((len(short), int(problem.intercept)))]) * -y[short, None]
    return {int(i): (a, -m[i] - ROOM * error[i]) for i, a in zip(short, rows, strict=True)}


def _margin_rows(problem: MarginProblem, samples: np.ndarray) -> list[Row]:
    """Return y_i(⟨w, φ(x_i)⟩ + b) − m_i for these samples."""
    m, size = np.broadcast_to(problem.required_margin, problem.features.n)[samples], problem.features.shape[1:]
    return [
        {j: Fraction(row[j]) for j in np.flatnonzero(row).tolist()} | {RIGHT: -Fraction(at)}
        for row, at in zip(signed_rows(problem, samples, np.arange(np.prod(size))), m.tolist(), strict=True)
    ]


def _value(row: Row, x: Any) -> Fraction:
    return sum((v * (1 if j == RIGHT else x[j]) for j, v in row.items()), Fraction(0))
