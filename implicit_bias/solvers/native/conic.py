"""Margin problems of any norm and with linear constraints as programs of `homogeneous`, in many digits.

CVXPY reduces minimising ‖W‖ to minimising cᵀu with b − Au ∈ K, where u contains W. The rows of the samples and of
linear constraints are added exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from implicit_bias._utils.memory import TooLargeError
from implicit_bias._utils.scaling import length, nearest_power_of_two
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.solvers.native.homogeneous import Element, Iterate, Program

#: Largest number of products of an iteration, about a second.
MOST_PRODUCTS = 5e6
#: Distance of an equality's row, of length 1, from the span of others up to which it depends on them.
INDEPENDENT = 1e-13


@dataclass(frozen=True)
class ConicForm:
    """A margin problem as a program over x: u, b if it is free, and the slack of a soft margin.

    Its units are those of `PreciseSet`: required margins are 1, and W, Σ m_iλ_i and the objective are multiplied by
    `scale`.

    Attributes
    ----------
    place : array of int, shape (k·d,)
        Places of the weights in x.
    m, sizes : arrays, shapes (n,) and (number of constraints,)
        Required margins, and lengths by which constraints are divided.
    equal : array of int
        Equalities that are linearly independent; the others follow from them, or no weights are feasible.
    """

    problem: MarginProblem
    program: Program
    scale: float
    place: np.ndarray
    m: Any
    sizes: Any
    equal: np.ndarray

    def solution(self, at: Iterate) -> tuple[Any, Any, Any, Any]:
        """Return W (k, d), b, λ (n,) and μ of an iterate, in the coordinates of the problem."""
        problem, n, slack = self.problem, len(self.m), len(self.program.single[0])
        x, lines, multipliers = (part / at.tau for part in (at.x, at.z.lines[slack:], at.b))
        mu = 0 * self.sizes
        if problem.constraints is not None:
            positive = ~problem.constraints.equal
            mu[positive] = lines[len(lines) - np.count_nonzero(positive) :]
            mu[self.equal] = multipliers[len(multipliers) - len(self.equal) :]
        W, b = (
            x[self.place].reshape(problem.features.shape[1:]),
            x[len(x) - slack - 1] if problem.intercept else 0 * x[0],
        )
        return W / self.scale, b, lines[:n] / self.m / self.scale, mu / self.sizes


def conic_form(problem: MarginProblem, rows: Any, exact: Any) -> ConicForm:
    """Return the form of a problem; `rows` (n, k·d) are y_iφ(x_i), and `exact` converts arrays to many digits.

    Raises
    ------
    TooLargeError
        If an iteration would take too long, or if the norm has exponential or power cones.
    """
    import cvxpy as cp

    (n, k, d), constraints = problem.features.shape, problem.constraints
    W = cp.Variable((k, d))
    norm = cp.Problem(cp.Minimize(problem.norm.expression(W)))
    data = norm.get_problem_data("CLARABEL", canon_backend="SCIPY")[0]
    dims, A, size = data["dims"], data["A"].toarray(), data["A"].shape[1]
    place = data["param_prob"].var_id_to_col[W.id] + np.arange(k * d).reshape((k, d), order="F").ravel()
    N = size + problem.intercept + (0 if problem.hard else n)
    if dims.exp or dims.p3d or data.get("P") is not None:
        raise TooLargeError(f"{problem.norm!r} needs other cones than the method has")
    if (n + len(A)) * N**2 + sum(2 * N * d**3 + N**2 * d**2 for d in dims.psd) > MOST_PRODUCTS:
        raise TooLargeError(f"{n} samples and {size} variables are too many for arithmetic of 60 digits")

    def wide(part: Any) -> Any:
        """Return rows over u, as rows over x."""
        return np.hstack([exact(part), exact(np.zeros((len(part), N - size)))])

    m = exact(np.broadcast_to(problem.required_margin, n))
    scale = nearest_power_of_two(float(length(problem.features.row_norms() / problem.required_margin)) / n**0.5)
    counts = [dims.zero, dims.nonneg, *dims.soc, *(d * (d + 1) // 2 for d in dims.psd)]
    ends = np.cumsum(counts)[:-1]
    parts = list(zip(np.split(wide(A), ends), np.split(exact(data["b"]), ends), strict=True))
    (zero, right), (lines, bounds), cones = *parts[:2], parts[2 : 2 + len(dims.soc)]
    G, h = (
        exact(np.zeros((2, len(cones), max([2, *dims.soc]), N)))[0],
        exact(np.zeros((len(cones), max([2, *dims.soc])))),
    )
    for i, (part, own) in enumerate(cones):
        G[i, : len(part)], h[i, : len(part)] = part, own
    blocks = [_block(d, *part, exact) for d, part in zip(dims.psd, parts[2 + len(dims.soc) :], strict=True)]
    # Rows of the samples: −y_i(⟨φ_i, W⟩ + b) − ξ_i ≤ −m_i.
    samples, c = wide(np.zeros((n, size))), exact(np.append(data["c"], np.zeros(N - size)))
    samples[:, place] = -rows / m[:, None] / scale
    if problem.intercept:
        samples[:, size] = -problem.y / m
    slack = np.arange(N - n, N) if not problem.hard else np.zeros(0, dtype=int)
    if not problem.hard:
        samples[np.arange(n), slack] = exact(-np.ones(n))
        c[slack] = exact(problem.upper_bounds) * m * scale
    E, sizes, most, positive = wide(np.zeros((0, size))), m[:0], m[:0], np.zeros(0, dtype=bool)
    if constraints is not None:
        positive, E = ~constraints.equal, wide(np.zeros((len(constraints.equal), size)))
        E[:, place] = exact(constraints.E.toarray())
        sizes = (E**2).sum(axis=1) ** 0.5
        sizes[sizes == 0] += 1
        E, most = E / sizes[:, None], exact(constraints.h) * scale / sizes
    equal = np.flatnonzero(~positive)
    R, order = scipy.linalg.qr(E[equal].T.astype(np.float64), mode="r", pivoting=True)
    equal = equal[order[: np.count_nonzero(abs(R.diagonal()) > INDEPENDENT)]]
    program = Program(
        c,
        np.vstack([zero, E[equal]]).T,
        np.concatenate([right, most[equal]]),
        Element(
            np.concatenate([0 * m[: len(slack)], 0 * m - 1, bounds, most[positive]]),
            h,
            tuple(side for _, side in blocks),
        ),
        (slack, 0 * m[: len(slack)] - 1),
        np.vstack([samples, lines, E[positive]]),
        G,
        tuple(block for block, _ in blocks),
    )
    return ConicForm(problem, program, scale, place, m, sizes, equal)


def _block(d: int, rows: Any, right: Any, exact: Any) -> tuple[Any, Any]:
    """Return a block (d, d, N) and its side (d, d), given its upper triangle, column by column, times √2 outside."""
    j, i = np.tril_indices(d)
    own = exact(np.where(i == j, 1.0, 0.5)) ** 0.5
    block, side = exact(np.zeros((d, d, rows.shape[1]))), exact(np.zeros((d, d)))
    block[i, j] = block[j, i] = rows * own[:, None]
    side[i, j] = side[j, i] = right * own
    return block, side
