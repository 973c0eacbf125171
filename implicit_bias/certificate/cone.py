"""Projection of weights into the cone of linear constraints, in rational arithmetic."""

from fractions import Fraction

import numpy as np
import scipy.sparse as sp

from implicit_bias._utils.checks import Array, InputError
from implicit_bias.margin.constraints import LinearConstraints

#: A row of E, or a weight in terms of the free ones: coefficients by column.
Row = dict[int, Fraction]
#: Rounds in which violated inequalities become equalities.
ROUNDS = 5
#: Coefficients of equalities, and those that their elimination makes of them, up to which it is exact.
ELIMINATED_UP_TO = 200_000


def into_cone(constraints: LinearConstraints, W: Array) -> Array:
    """Weights (k, d) near W that satisfy E vec(W) ≤ 0 and its equalities, up to the rounding of their own entries.

    Violated inequalities count as equalities, and the weights that equalities determine are computed from the others.
    If others are then violated after `ROUNDS` rounds, W moves along a direction D into the cone, as far as the worst
    violation needs: ED < 0 in every row that leaves room and ED = 0 in the others. Zeros if D is no such direction.

    Raises
    ------
    InputError
        If the equalities are too many to be solved exactly.

    Examples
    --------
    >>> import numpy as np
    >>> bounds = LinearConstraints.of(lambda W: [W >= 0, W[0, 0] == W[0, 1]], (1, 3))
    >>> into_cone(bounds, np.array([[0.5, 0.500001, -1e-9]])).tolist()
    [[0.500001, 0.500001, 0.0]]
    """
    w = W.ravel()
    rows = _rows(constraints)
    if all(_keeps(row, equal, w) for row, equal in zip(rows, constraints.equal, strict=True)):
        return W
    # A small violation mostly stems from a constraint that holds with equality.
    kept = constraints.equal.copy()
    for _ in range(ROUNDS):
        point = _determined(w, _solved([row for row, is_kept in zip(rows, kept, strict=True) if is_kept]))
        violated = np.array([_value(row, point) > 0 for row in rows]) & ~kept
        if not violated.any():
            return np.array([float(value) for value in point]).reshape(W.shape)
        kept |= violated
    direction, tight = _interior(constraints)
    pivots = _solved([row for row, is_tight in zip(rows, tight, strict=True) if is_tight])
    point, inward = _determined(w, pivots), _determined(direction, pivots)
    step = Fraction(0)
    for row in (row for row, is_tight in zip(rows, tight, strict=True) if not is_tight):
        excess, gain = _value(row, point), -_value(row, inward)
        if excess > 0 and not gain > 0:
            return np.zeros_like(W)
        step = max(step, excess / gain) if excess > 0 else step
    if step > 0 and any(_value(row, inward) > 0 for row, is_tight in zip(rows, tight, strict=True) if not is_tight):
        return np.zeros_like(W)
    return np.array([float(p + step * i) for p, i in zip(point, inward, strict=True)]).reshape(W.shape)


def _rows(constraints: LinearConstraints) -> list[Row]:
    E = constraints.E
    return [
        {int(j): Fraction(float(v)) for j, v in zip(E.indices[a:b], E.data[a:b], strict=True) if v != 0}
        for a, b in zip(E.indptr[:-1], E.indptr[1:], strict=True)
    ]


def _value(row: Row, w: list[Fraction]) -> Fraction:
    return sum((v * w[j] for j, v in row.items()), Fraction(0))


def _keeps(row: Row, equal: bool, w: Array) -> bool:
    """True if w satisfies one constraint exactly."""
    excess = sum((v * Fraction(float(w[j])) for j, v in row.items()), Fraction(0))
    return excess == 0 if equal else excess <= 0


def _interior(constraints: LinearConstraints) -> tuple[Array, np.ndarray]:
    """A direction D (k·d,) into the cone, and the rows (m,) that hold with equality in all of it.

    maximise Σ s_i subject to E_i D + s_i ≤ 0, 0 ≤ s_i ≤ 1: the cone being one, s_i is 1 wherever there is room.
    """
    E = sp.csr_array(sp.diags_array(1 / np.maximum(np.abs(constraints.E).max(axis=1).toarray().ravel(), 1e-300)))
    E = sp.csr_array(E @ constraints.E)
    room, equal = E[~constraints.equal], E[constraints.equal]
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
    tight = constraints.equal.copy()
    if found.status != 0:
        return np.zeros(size), tight
    tight[~constraints.equal] = found.x[size:] < 0.5
    return found.x[:size], tight


def _solved(equalities: list[Row]) -> dict[int, Row]:
    """Of weights that equalities determine, what they are in terms of the free ones (Gauss–Jordan elimination)."""
    pivots: dict[int, Row] = {}
    #: The pivots whose rows name a column.
    named: dict[int, set[int]] = {}
    work = 0
    for equality in equalities:
        row: Row = {}
        for j, v in equality.items():
            for column, factor in pivots.get(j, {j: Fraction(1)}).items():
                row[column] = row.get(column, Fraction(0)) + v * factor
        row = {j: v for j, v in row.items() if v != 0}
        work += len(row)
        if not row:
            continue
        pivot = max(row, key=lambda j: abs(row[j]))
        pivots[pivot] = {j: -v / row[pivot] for j, v in row.items() if j != pivot}
        for j in pivots[pivot]:
            named.setdefault(j, set()).add(pivot)
        for other in named.pop(pivot, set()):
            factor = pivots[other].pop(pivot)
            for j, v in pivots[pivot].items():
                pivots[other][j] = pivots[other].get(j, Fraction(0)) + factor * v
                named.setdefault(j, set()).add(other)
            work += len(pivots[pivot])
        if work > ELIMINATED_UP_TO:
            raise InputError(
                "the equalities among the constraints are too many and too dense to be solved exactly; "
                "give fewer, or replace gates that share weights by one"
            )
    return pivots


def _determined(w: Array, pivots: dict[int, Row]) -> list[Fraction]:
    """w with the determined entries computed from the others."""
    exact = [Fraction(float(value)) for value in w]
    for pivot, row in pivots.items():
        exact[pivot] = _value(row, exact)
    return exact
