"""Least-norm interpolation for sums of group norms: minimise ‖W‖ subject to E vec(W) = h, without margins.

The dual is to maximise hᵀx subject to ‖A_gᵀx‖ ≤ 1 for the rows of E in the coordinates of each group g, a program of
`homogeneous` in doubles. The multipliers of its cones are the weights of the groups.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from implicit_bias._utils.blocks import Cholesky
from implicit_bias._utils.checks import Array
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solution import Status
from implicit_bias.norms.base import padding
from implicit_bias.solvers.base import Answer, Options, Progress
from implicit_bias.solvers.native.homogeneous import EmbeddedIterate, dual_program, maximise

#: Iterations after which the method ends if `solve` has no limit; it needs about 10.
ITERATIONS = 100
#: Share of the mean diagonal that is added to the matrix of a step, for dependent equations.
SHIFT = 1e-14


def interpolate(problem: MarginProblem, options: Options) -> Answer:
    """Return weights and multipliers to a gap of `options.tol`; λ = 0."""
    form, constraints, (_, k, d) = problem.group_form, problem.constraints, problem.features.shape
    assert form is not None
    E, h = constraints.E.toarray(), constraints.h
    sizes = np.maximum(np.linalg.norm(E, axis=1), np.finfo(float).tiny)
    unit = float(np.abs(h / sizes).max())
    # W is `expand` times the rows of all groups.
    expand = form.expand @ padding(form.index).T
    rows = expand.T @ (E / sizes[:, None]).reshape(-1, k, d).transpose(1, 2, 0).reshape(k, -1)
    A = rows.reshape(form.count, -1, len(h)).transpose(2, 0, 1)
    program = dual_program(A, h / sizes / unit, 0 * A[0], None, A[:, 0, :0], h[:0], free=True)
    best = Answer(np.zeros((k, d)), np.zeros(problem.features.n), 0, multipliers=np.zeros(len(h)))
    gap, count, limit = np.inf, -1, options.max_iterations or ITERATIONS

    def observe(at: EmbeddedIterate) -> bool:
        nonlocal best, gap, count
        count += 1
        W, mu = -unit * (expand @ (at.z.cones[:, 1:] / at.tau).reshape(-1, d)), -at.x / at.tau / sizes
        missing = constraints.E @ W.ravel() - h
        size = problem.norm.dual((constraints.E.T @ mu).reshape(k, d))
        lower, upper = float(-h @ mu) / max(size, 1.0), problem.norm.value(W)
        # Missing shares of the targets change the norm by about their product with the multipliers.
        now = abs(1 - lower / upper) + float(np.abs(missing) @ np.abs(mu)) / upper if upper > 0 else np.inf
        if now < gap:
            gap, best = now, Answer(W, best.dual, count, multipliers=mu / max(size, 1.0))
        options.report(Progress(count, options.deadline.seconds, lower, upper, now, len(h), len(h)))
        return gap <= options.tol / 4 or count >= limit or options.stop() is not None

    maximise(program, _factorised, observe)
    stopped = Status.ITERATION_LIMIT if count >= limit and gap > options.tol / 4 else None
    return Answer(best.weights, best.dual, count, options.stop() or stopped, multipliers=best.multipliers)


def _factorised(M: Array) -> Any:
    M[np.diag_indices_from(M)] += SHIFT * M.trace() / len(M)
    return Cholesky(M)
