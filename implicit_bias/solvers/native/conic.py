"""Margin problems for norms that CVXPY expresses by half-lines and second-order cones, in many digits.

CVXPY reduces minimising ‖W‖ to minimising cᵀu with g − Gu ∈ K and Au = a, where u contains W. Together with the rows of
the samples and of linear constraints this is a program of the form that `homogeneous` solves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from implicit_bias._utils.memory import TooLargeError
from implicit_bias._utils.scaling import length, nearest_power_of_two
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.solvers.native.homogeneous import Element, Scaling

#: Largest number of products of a normal matrix, about a second.
MOST_PRODUCTS = 5e6


@dataclass(frozen=True)
class ConicProgram:
    """minimise cᵀx subject to Gx + s = h, s ∈ K, Eᵀx = e; x is u, then b if it is free, then the slack of a soft margin.

    `lines` (l, N), `cones` (H, 1 + r, N) and `blocks` (d, d, N) are the rows of G. The first n half-lines are the samples. The program is
    in units in which W is multiplied by `scale`, and its required margins are 1; the objective is multiplied, too.
    """

    c: Any
    lines: Any
    cones: Any
    blocks: list[Any]
    h: Element
    E: Any
    e: Any
    scale: float
    #: Length of u, places of the weights in it, and lengths of the constraints, by which their rows are divided.
    variables: int
    place: np.ndarray
    sizes: Any

    def image(self, x: Any) -> Element:
        """Return Gx."""
        return Element(self.lines @ x, self.cones @ x, tuple(rows @ x for rows in self.blocks))

    def adjoint(self, z: Element) -> Any:
        """Return Gᵀz (N,)."""
        parts = zip((z.cones, *z.blocks), (self.cones, *self.blocks), strict=True)
        return self.lines.T @ z.lines + sum(np.tensordot(part, rows, axes=2) for part, rows in parts)

    def normal(self, scaling: Scaling) -> Any:
        """Return GᵀD⁻²G (N, N)."""
        half = self.lines / scaling.lines[:, None]
        M = half.T @ half
        for rows, w, size in zip(self.cones, scaling.w, scaling.size, strict=True):
            along = w[0] * rows[0] - w[1:] @ rows[1:]
            M = M + (2 * np.outer(along, along) - np.outer(rows[0], rows[0]) + rows[1:].T @ rows[1:]) / size**2
        for rows, inverse in zip(self.blocks, scaling.inverses, strict=True):
            scaled = np.tensordot(inverse, np.tensordot(inverse, rows, axes=1), axes=([1], [1])).reshape(-1, len(M))
            M = M + scaled.T @ scaled
        return M


def reduced_norm(norm: Any, shape: tuple[int, int]) -> tuple[Any, np.ndarray] | None:
    """Return CVXPY's data of the norm of weights (k, d), and the places of the weights among its variables.

    The result is None if the norm has exponential or power cones.
    """
    import cvxpy as cp

    W = cp.Variable(shape)
    data = cp.Problem(cp.Minimize(norm.expression(W))).get_problem_data("CLARABEL", canon_backend="SCIPY")[0]
    dims = data["dims"]
    if dims.exp or dims.p3d or data.get("P") is not None:
        return None
    first = data["param_prob"].var_id_to_col[W.id]
    return data, first + np.arange(W.size).reshape(shape, order="F").ravel()


def conic_program(problem: MarginProblem, rows: Any, exact: Any) -> ConicProgram | None:
    """Return the program of a margin problem; None if the norm has exponential or power cones.

    `rows` (n, k·d) are y_iφ(x_i), and `exact` converts arrays to many digits.

    Raises
    ------
    TooLargeError
        If an iteration would take too long.
    """
    found = reduced_norm(problem.norm, problem.features.shape[1:])
    if found is None:
        return None
    (data, place), n, constraints = found, problem.features.n, problem.constraints
    dims, A, b = data["dims"], data["A"].toarray(), data["b"]
    zero, first = dims.zero, dims.zero + dims.nonneg
    size, width = A.shape[1], max([2, *dims.soc])
    N = size + problem.intercept + (0 if problem.hard else n)
    H = max(len(dims.soc), 1)
    if ((n + len(A)) * N + H * width * N) * N > MOST_PRODUCTS:
        raise TooLargeError(f"{n} samples and {size} variables are too many for arithmetic of 60 digits")
    m = exact(np.broadcast_to(problem.required_margin, n))
    scale = nearest_power_of_two(float(length(problem.features.row_norms() / problem.required_margin)) / n**0.5)

    def wide(part: Any) -> Any:
        return np.hstack([exact(part), exact(np.zeros((len(part), N - part.shape[1])))])

    E, h = np.zeros((0, size)), np.zeros(0)
    equal = np.zeros(0, dtype=bool)
    if constraints is not None:
        E, h, equal = np.zeros((len(constraints.h), size)), constraints.h, constraints.equal
        E[:, place] = constraints.E.toarray()
    sizes = exact(np.maximum(length(E, axis=1), np.where(E.any(axis=1), 0.0, 1.0)))
    E, h = wide(E) / sizes[:, None], exact(h) * scale / sizes
    samples = wide(np.zeros((n, size)))
    samples[:, place] = -rows / m[:, None] / scale
    if problem.intercept:
        samples[:, size] = -problem.y / m
    parts, right = [samples, wide(A[zero:first]), E[~equal]], [0 * m - 1, exact(b[zero:first]), h[~equal]]
    c = exact(np.append(data["c"], np.zeros(N - size)))
    if not problem.hard:
        samples[:, N - n :] = exact(-np.eye(n))
        c[N - n :] = exact(problem.upper_bounds) * m * scale
        positive = np.hstack([exact(np.zeros((n, N - n))), exact(-np.eye(n))])
        parts, right = [samples, positive, *parts[1:]], [right[0], 0 * m, *right[1:]]
    # Without cones there is one without rows.
    cones, ends = exact(np.zeros((H, width, N))), exact(np.zeros((H, width)))
    ends[:, 0] += not dims.soc
    for i, rows_of in enumerate(dims.soc):
        cones[i, :rows_of], ends[i, :rows_of] = wide(A[first : first + rows_of]), exact(b[first : first + rows_of])
        first += rows_of
    blocks, sides = [], []
    for d in dims.psd:
        # The upper triangle, column by column, off the diagonal times √2.
        i, j = np.tril_indices(d)[::-1]
        own, count = exact(np.where(i == j, 1.0, 0.5)) ** 0.5, len(i)
        block, side = exact(np.zeros((d, d, N))), exact(np.zeros((d, d)))
        block[i, j] = block[j, i] = wide(A[first : first + count]) * own[:, None]
        side[i, j] = side[j, i] = exact(b[first : first + count]) * own
        blocks, sides, first = [*blocks, block], [*sides, side], first + count
    return ConicProgram(
        c,
        np.vstack(parts),
        cones,
        blocks,
        Element(np.concatenate(right), ends, tuple(sides)),
        np.vstack([wide(A[:zero]), E[equal]]).T,
        np.concatenate([exact(b[:zero]), h[equal]]),
        scale,
        size,
        place,
        sizes,
    )
