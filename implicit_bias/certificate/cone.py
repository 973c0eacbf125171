"""Projection of weights into the cone of linear constraints, in rational arithmetic."""

from fractions import Fraction

import numpy as np
import scipy.sparse as sp

from implicit_bias._utils.checks import Array, InputError
from implicit_bias.margin.constraints import LinearConstraints

#: Coefficients by column: of a row of E, or of a dependent weight as a combination of free weights.
Row = dict[int, Fraction]
#: Number of rounds that turn violated inequalities into equalities.
ROUNDS = 5
#: Largest number of coefficients that exact elimination of the equalities may process.
MAX_COEFFICIENTS = 200_000


def into_cone(constraints: LinearConstraints, W: Array) -> Array:
    """Return weights (k, d) near W that satisfy E vec(W) ≤ 0 and its equalities, up to the rounding of each entry.

    If W satisfies them, W is returned. Otherwise violated inequalities become equalities, and the weights that
    equalities determine are computed from the others. If some inequalities are still violated after `ROUNDS` rounds, W
    moves along a direction D until all hold: ED = 0 in the rows that hold with equality in the whole cone, ED < 0 in
    all others. The result is zero if no such D is found.

    Raises
    ------
    InputError
        If there are too many equalities for exact elimination.

    Examples
    --------
    >>> import numpy as np
    >>> bounds = LinearConstraints.of(lambda W: [W >= 0, W[0, 0] == W[0, 1]], (1, 3))
    >>> into_cone(bounds, np.array([[0.5, 0.500001, -1e-9]])).tolist()
    [[0.500001, 0.500001, 0.0]]
    """
    w = W.ravel()
    rows = _rows(constraints)
    if all(_satisfies(w, row, equal) for row, equal in zip(rows, constraints.equal, strict=True)):
        return W
    # Most small violations are of constraints that hold with equality at the optimum.
    kept = constraints.equal.copy()
    for _ in range(ROUNDS):
        point = _substituted(w, _eliminated([row for row, is_kept in zip(rows, kept, strict=True) if is_kept]))
        violated = np.array([_value(row, point) > 0 for row in rows]) & ~kept
        if not violated.any():
            return np.array([float(value) for value in point]).reshape(W.shape)
        kept |= violated
    direction, tight = _interior(constraints)
    pivots = _eliminated([row for row, is_tight in zip(rows, tight, strict=True) if is_tight])
    point, inward = _substituted(w, pivots), _substituted(direction, pivots)
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


def _satisfies(w: Array, row: Row, equal: bool) -> bool:
    excess = sum((v * Fraction(float(w[j])) for j, v in row.items()), Fraction(0))
    return excess == 0 if equal else excess <= 0


def _interior(constraints: LinearConstraints) -> tuple[Array, np.ndarray]:
    """Return a direction D (k·d,) into the cone, and a mask (m,) of the rows that hold with equality in the whole cone.

    Linear program: maximise Σ s_i subject to E_i D + s_i ≤ 0, 0 ≤ s_i ≤ 1. At the optimum every s_i is 0 or 1, because
    multiples of D are feasible. If the solver fails, D is zero and the mask marks only the equalities.
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


def _eliminated(equalities: list[Row]) -> dict[int, Row]:
    """Return {j: row} with w_j = Σ_l row[l] w_l for each weight j that the equalities determine; all w_l are free.

    The method is Gauss–Jordan elimination, with the largest coefficient of each equality as its pivot. A row maps
    columns to nonzero coefficients. InputError is raised after more than MAX_COEFFICIENTS of them.
    """
    pivots: dict[int, Row] = {}
    # users[j] are the pivots whose combinations contain the free column j.
    users: dict[int, set[int]] = {}
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
            users.setdefault(j, set()).add(pivot)
        for other in users.pop(pivot, set()):
            factor = pivots[other].pop(pivot)
            for j, v in pivots[pivot].items():
                pivots[other][j] = pivots[other].get(j, Fraction(0)) + factor * v
                users.setdefault(j, set()).add(other)
            work += len(pivots[pivot])
        if work > MAX_COEFFICIENTS:
            raise InputError(
                "the constraints have too many equalities, or too dense ones, for exact elimination; "
                "give fewer, or replace gates that share weights by one gate"
            )
    return pivots


def _substituted(w: Array, pivots: dict[int, Row]) -> list[Fraction]:
    """Return w (k·d,) as exact fractions, with w_j replaced by Σ_l row[l] w_l for each {j: row} of `pivots`."""
    exact = [Fraction(float(value)) for value in w]
    for pivot, row in pivots.items():
        exact[pivot] = _value(row, exact)
    return exact
