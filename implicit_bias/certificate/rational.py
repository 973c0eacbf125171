"""Proofs of infeasibility in rational arithmetic: λ ≥ 0 and μ with Φᵀ(λ∘y) − Eᵀμ = 0 and Σ m_iλ_i > hᵀμ exactly."""

from fractions import Fraction
from math import gcd
from typing import Any

import numpy as np

from implicit_bias._utils.checks import Array
from implicit_bias.features import Features, GatedFeatures
from implicit_bias.margin.problem import MarginProblem

#: Largest number of integer operations of a proof, a few seconds; integers above `BITS` bits count as more.
MAX_OPERATIONS = 400_000
#: Number of bits of an integer whose operation counts as one.
BITS = 4400
#: Number of rounds that drop samples with negative λ.
ROUNDS = 4

#: Converts arrays of doubles to arrays of Fractions.
to_fractions = np.vectorize(lambda v: Fraction(float(v)), otypes=[object])


def null_vector(problem: MarginProblem, lam: Array, mu: Array) -> tuple[Array, Array] | None:
    """Find λ ≥ 0 (n,) and μ (m,) near the given ones with Φᵀ(λ∘y) = Eᵀμ exactly, Σ m_iλ_i > hᵀμ, and 1ᵀλ = 1.

    With a free intercept also Σ y_iλ_i = 0. If λ = 0, as in all proofs for a soft margin, Σ |μ_j| = 1 instead. The
    equations hold for rational numbers; the returned floats are these numbers rounded. The result is None if there is
    no solution on the support of λ and μ, or if the support is too large. A proof needs at most rank + 1 samples, and
    `MAX_OPERATIONS` allows about 70.

    The third of three samples is minus the sum of the others, up to rounding:

    >>> import numpy as np
    >>> from implicit_bias import Frobenius, GatedFeatures, MarginProblem
    >>> third = np.array([[0.1, 0.3], [0.2, -0.7], [0.0, 0.0]])
    >>> third[2] = -third[0] - third[1]
    >>> problem = MarginProblem(GatedFeatures(third), [1, 1, 1], Frobenius())
    >>> lam = null_vector(problem, np.ones(3) / 3, np.zeros(0))[0]
    >>> bool(np.abs(lam - 1 / 3).max() < 1e-15)
    True
    """
    constraints, n = problem.constraints, len(lam)
    # Without constraints μ is empty.
    equal, h = (mu > 0, mu) if constraints is None else (constraints.equal, constraints.h)
    # These have one entry for each λ_i, then one for each μ_j.
    given, gains = np.append(lam, mu), np.append(np.broadcast_to(problem.required_margin, n), -h)
    signed = np.append(np.ones(n, dtype=bool), ~equal)
    # The order is descending, so that elimination solves for the largest λ, and the smallest keep their values.
    samples = np.flatnonzero(lam > 0)
    samples = samples[np.argsort(-lam[samples] * problem.features.row_norms()[samples], kind="stable")]
    used = np.append(samples, n + np.flatnonzero(mu))
    for _ in range(ROUNDS):
        # With homogeneous constraints only samples have a positive dual objective.
        if not gains[used].any():
            return None
        equations = _equations(problem, used[used < n], used[used >= n] - n)
        values = None if equations is None else _solution_near(equations, to_fractions(given[used]))
        if values is None:
            return None
        wrong = signed[used] & (values < 0)
        if not wrong.any() and to_fractions(gains[used]) @ values > 0:
            proof = np.zeros(len(given))
            proof[used] = values / (values[used < n].sum() or np.abs(values).sum())
            return proof[:n], proof[n:]
        used = used[~wrong & ((values != 0) | (used >= n))]
    return None


def _equations(problem: MarginProblem, samples: np.ndarray, rows: np.ndarray) -> Any:
    """Return Φᵀ(λ∘y) − Eᵀμ = 0 and Σ y_iλ_i = 0, if b is free, as an exact matrix; None if it is too large.

    It has a column for each λ_i of `samples`, then for each μ_j of `rows`; rows that are zero there are left out.
    """
    columns = _used_columns(problem.features.select(samples)) if len(samples) else np.zeros(0, dtype=int)
    if problem.constraints is not None:
        columns = np.union1d(columns, problem.constraints.E[rows].indices)
    if _operations(len(columns), len(samples) + len(rows)) > MAX_OPERATIONS:
        return None
    table = signed_rows(problem, samples, columns)
    if problem.constraints is not None:
        E = -problem.constraints.E[rows].toarray()[:, columns]
        table = np.vstack([table, to_fractions(np.hstack([E, np.zeros((len(rows), int(problem.intercept)))]))])
    return table.T


def signed_rows(problem: MarginProblem, samples: np.ndarray, columns: np.ndarray) -> Any:
    """Return y_i φ(x_i) in some columns, then y_i if b is free, as exact numbers, for each i of `samples`."""
    table, ones = np.zeros((0, len(columns))), np.ones((len(samples), int(problem.intercept)), dtype=object)
    if len(samples):
        table = exact_rows(problem.features.select(samples), columns)
    return np.hstack([table, ones]) * problem.y[samples, None].astype(int)


def _used_columns(features: Features) -> np.ndarray:
    if isinstance(features, GatedFeatures):
        # Factors are tested, because their products may underflow to zero.
        return np.flatnonzero(np.outer(features.gate_values.any(axis=0), features.X.any(axis=0)))
    return np.flatnonzero(features.dense().any(axis=0))


def exact_rows(features: Features, columns: np.ndarray) -> Any:
    """Return the entries of Φ in some columns as an object array of Fractions, shape (n, columns)."""
    if not isinstance(features, GatedFeatures):
        return to_fractions(features.dense()[:, columns])
    gates, inputs = features.gate_values[:, columns // features.d], features.X[:, columns % features.d]
    return to_fractions(gates) * to_fractions(inputs)


def _operations(equations: int, unknowns: int) -> int:
    return equations * unknowns * min(equations + 1, unknowns)


def _solution_near(equations: Any, given: Any) -> Any:
    """Return the solution (s,) of `equations` (c, s) = 0 with free unknowns as `given` (s,); None if it is only 0.

    The method is fraction-free Gauss–Jordan elimination (Bareiss 1968). The result is None if numbers become too long.
    """
    integers = [_as_integers(row) for row in equations]
    M = np.array([row for row in integers if any(row)], dtype=object).reshape(-1, len(given))
    # Minors of r rows have about r times as many bits as the entries.
    bits = min(M.shape) * max((int(v).bit_length() for v in M.flat), default=0)
    if _operations(*M.shape) * max(1.0, bits / BITS) ** 1.6 > MAX_OPERATIONS:
        return None
    pivots, last = list[int](), 1
    for j in range(M.shape[1]):
        pivot = next((i for i in range(len(pivots), len(M)) if M[i, j] != 0), None)
        if pivot is None:
            continue
        at = len(pivots)
        M[[at, pivot]] = M[[pivot, at]]
        others = np.arange(len(M)) != at
        M[others] = (M[others] * M[at, j] - np.outer(M[others, j], M[at])) // last
        last = M[at, j]
        pivots.append(j)
    free = [j for j in range(M.shape[1]) if j not in set(pivots)]
    if not free:
        return None
    values = given.copy()
    values[pivots] = -(M[: len(pivots), free] @ given[free]) / last
    return values


def _as_integers(row: Any) -> list[int]:
    """Return the multiple of a row of dyadic fractions that consists of integers without a common factor."""
    denominator = max(v.denominator for v in row)
    integers = [int(v * denominator) for v in row]
    common = gcd(*integers) or 1
    return [v // common for v in integers]
