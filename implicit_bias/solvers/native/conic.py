"""Margin problems of any norm and with linear constraints as programs of `homogeneous`, in many digits.

CVXPY reduces minimising ‖W‖ to minimising cᵀu with b − Au ∈ K, where u contains W. The rows of the samples and of
linear constraints are added exactly.
"""

from dataclasses import dataclass, replace
from typing import Any

import gmpy2
import numpy as np
import scipy.linalg

from implicit_bias._utils.floats import length, nearest_power_of_two
from implicit_bias._utils.lazy import cp
from implicit_bias._utils.limits import TooLargeError
from implicit_bias.features import Features
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.solvers.native.homogeneous import Element, EmbeddedIterate, EmbeddedProgram

#: Bits of a number.
BITS = 200
#: Largest number of products of an iteration, about a second.
MOST_PRODUCTS = 5e6
#: Distance of an equality's row, of length 1, from the span of others up to which it depends on them.
INDEPENDENT = 1e-13

#: Convert an array to numbers of as many digits as the context has.
many_digits = np.vectorize(gmpy2.mpfr, otypes=[object])


def exact_blocks(features: Features) -> Any:
    """Return φ_j(x_i) in many digits, shape (n, k, d); the products of gate values and inputs are exact."""
    if features.gate_values is None:
        return many_digits(features.dense()).reshape(features.shape)
    return many_digits(features.gate_values)[:, :, None] * many_digits(features.X)[:, None]  # type: ignore[attr-defined]


def signed(problem: MarginProblem, rows: np.ndarray) -> Any:
    """Return y_iφ(x_i) of the samples `rows`, in many digits, shape (len(rows), k·d)."""
    return exact_blocks(problem.features.select(rows)).reshape(len(rows), -1) * problem.y[rows, None]


@dataclass(frozen=True)
class ConicForm:
    """A margin problem as a program over x: u, b if it is free, and the slack of a soft margin.

    W is x[`place`] (k·d,) over `scale`. Margins were divided by `m` (n,), and constraints by `sizes`. `equal` are the
    indices of linearly independent equalities.
    """

    problem: MarginProblem
    program: EmbeddedProgram
    scale: float
    place: np.ndarray
    m: Any
    sizes: Any
    equal: np.ndarray

    def solution(self, at: EmbeddedIterate) -> tuple[Any, Any, Any, Any]:
        """Return W (k, d), b, λ (n,) and μ of an iterate, in the coordinates of the problem."""
        problem, n, slack = self.problem, len(self.m), len(self.program.single[0])
        x, lines, multipliers = (part / at.tau for part in (at.x, at.z.lines[slack:], at.b))
        mu = 0 * self.sizes
        if problem.constraints is not None:
            positive = ~problem.constraints.equal
            mu[positive] = lines[len(lines) - np.count_nonzero(positive) :]
            mu[self.equal] = multipliers[len(multipliers) - len(self.equal) :]
        W, b = x[self.place].reshape(problem.features.shape[1:]), x[len(x) - slack - 1] * problem.intercept
        return W / self.scale, b, lines[:n] / self.m / self.scale, mu / self.sizes


def conic_form(problem: MarginProblem) -> ConicForm:
    """Return the form of all samples; raise TooLargeError if it is too large, or needs other cones."""
    n, constraints = problem.features.n, problem.constraints
    slack = 0 if problem.hard else n
    norm, place = _norm_program(problem, problem.intercept + slack)
    N, m = len(norm.c), many_digits(np.broadcast_to(problem.required_margin, n))
    scale = nearest_power_of_two(float(length(problem.features.row_norms() / problem.required_margin)) / n**0.5)
    # Rows of the samples: −y_i(⟨φ_i, W⟩ + b) − ξ_i ≤ −m_i.
    samples, slacks = many_digits(np.zeros((n, N))), np.arange(N - slack, N)
    samples[:, place] = -signed(problem, np.arange(n)) / m[:, None] / scale
    samples[:, N - slack - 1] -= problem.intercept * problem.y / m
    samples[np.arange(slack), slacks] = many_digits(-np.ones(slack))
    c = norm.c.copy()
    c[slacks] = (many_digits(problem.upper_bounds) * m * scale)[:slack]
    E, h, positive = many_digits(np.zeros((0, N))), m[:0], np.zeros(0, dtype=bool)
    if constraints is not None:
        h, positive = many_digits(constraints.h) * scale, ~constraints.equal
        E = many_digits(np.zeros((len(h), N)))
        E[:, place] = many_digits(constraints.E.toarray())
    sizes = (E**2).sum(axis=1) ** 0.5
    sizes[sizes == 0] += 1
    E, h, equal = E / sizes[:, None], h / sizes, np.flatnonzero(~positive)
    R, order = scipy.linalg.qr(E[equal].T.astype(np.float64), mode="r", pivoting=True)
    equal = equal[order[: np.count_nonzero(abs(R.diagonal()) > INDEPENDENT)]]
    program = replace(
        norm,
        c=c,
        E=np.hstack([norm.E, E[equal].T]),
        e=np.append(norm.e, h[equal]),
        h=replace(norm.h, lines=np.concatenate([0 * m[:slack], 0 * m - 1, norm.h.lines, h[positive]])),
        single=(slacks, 0 * m[:slack] - 1),
        lines=np.vstack([samples, norm.lines, E[positive]]),
    )
    return ConicForm(problem, program, scale, place, m, sizes, equal)


def _norm_program(problem: MarginProblem, more: int) -> tuple[EmbeddedProgram, np.ndarray]:
    """Return the program of minimising the norm, with `more` variables that it does not use, and the places of W."""
    n, k, d = problem.features.shape
    W = cp.Variable((k, d))
    data = cp.Problem(cp.Minimize(problem.norm.expression(W))).get_problem_data("CLARABEL", canon_backend="SCIPY")[0]
    dims, A = data["dims"], data["A"]
    N = A.shape[1] + more
    if dims.exp or dims.p3d or data.get("P") is not None:
        raise TooLargeError(f"{problem.norm!r} needs other cones than the method has")
    if (n + A.shape[0]) * N**2 + sum(2 * N * r**3 + N**2 * r**2 for r in dims.psd) > MOST_PRODUCTS:
        raise TooLargeError(f"{n} samples and {N} variables are too many for arithmetic of 60 digits")
    ends = np.cumsum([dims.zero, dims.nonneg, *dims.soc, *(r * (r + 1) // 2 for r in dims.psd)])[:-1]
    rows = np.split(many_digits(np.pad(A.toarray(), ((0, 0), (0, more)))), ends)
    right, last = np.split(many_digits(data["b"]), ends), 2 + len(dims.soc)
    G = many_digits(np.zeros((len(dims.soc), max([2, *dims.soc]), N)))
    h = many_digits(np.zeros(G.shape[:2]))
    for i, (part, value) in enumerate(zip(rows[2:last], right[2:last], strict=True)):
        G[i, : len(part)], h[i, : len(part)] = part, value
    blocks, sides = (
        tuple(_matrix(r, part) for r, part in zip(dims.psd, parts[last:], strict=True)) for parts in (rows, right)
    )
    c, none = many_digits(np.pad(data["c"], (0, more))), (np.zeros(0, dtype=int), many_digits(np.zeros(0)))
    place = data["param_prob"].var_id_to_col[W.id] + np.arange(k * d).reshape((k, d), order="F").ravel()
    return EmbeddedProgram(c, rows[0].T, right[0], Element(right[1], h, sides), none, rows[1], G, blocks), place


def _matrix(r: int, triangle: Any) -> Any:
    """Return symmetric matrices (r, r, …), given the upper triangle (·, …), column by column, times √2 outside."""
    j, i = np.tril_indices(r)
    matrix = many_digits(np.zeros((r, r, *triangle.shape[1:])))
    matrix[i, j] = matrix[j, i] = (triangle.T * many_digits(np.where(i == j, 1.0, 0.5)) ** 0.5).T
    return matrix
