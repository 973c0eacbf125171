import dataclasses

import numpy as np
import pytest

from implicit_bias import GatedFeatures, MarginProblem, TwoLayerNorm
from implicit_bias.solvers.native.loop import descend_from
from implicit_bias.solvers.native.spectral import SpectralConditions, SpectralProgram
from tests.cases import optimal
from tests.solvers.native.shapes import teacher

NORMS = {
    "2-summing": TwoLayerNorm([0, 1, 2, 0, 1, 2], "spectral", "l2"),
    "operator": TwoLayerNorm([0, 1, 2, 0, 1, 2], "spectral", "l_inf", [1, 2, 3]),
}
every_norm = pytest.mark.parametrize("norm", NORMS)


@every_norm
@pytest.mark.parametrize("shape", [(4, 4, 6), (20, 4, 6), (40, 12, 3), (6, 12, 3)])
def test_singular_metrics(norm, shape):
    """The optimal Q is singular for few inputs or few samples; W is accurate nevertheless."""
    features, y = teacher(shape[0], shape[1], shape[2], 7)
    values = features.gate_values.copy()
    values[:, 1] = 0.0
    layers = ("spectral", "l2" if norm == "2-summing" else "l_inf")
    case = MarginProblem(GatedFeatures(features.X, values), y, TwoLayerNorm(range(shape[1]), *layers))
    optimal(case, "NATIVE")


@every_norm
def test_a_metric_that_is_singular_in_double_precision_proves_nothing_and_ends_the_descent(norm):
    features, y = teacher(12, 6, 4, 3)
    program = SpectralProgram(MarginProblem(features, y, NORMS[norm]), NORMS[norm].spectral_form(features.k))
    at = dataclasses.replace(program.start(), Q=np.ones((3, 3)))
    assert program.sizes(at, np.ones((6, 4)), np.ones((6, 4)))[1] == np.inf
    seen = []
    descend_from(at, seen.append, program.linearised, 0.05)
    assert seen == [at]


@every_norm
@pytest.mark.parametrize("C", [np.inf, 0.1])
def test_directions_solve_the_linearised_conditions(norm, C):
    """Along a direction to products of 0, every residual falls in proportion to the step."""
    features, y = teacher(12, 6, 4, 3)
    case = MarginProblem(features, y, NORMS[norm], C, intercept=True)
    program = SpectralProgram(case, case.norm.spectral_form(features.k))
    at = dataclasses.replace(program.start(), b=0.3)

    def residuals(at):
        rows, S = program.rows, program.slack(at)
        hard = (1 - program.m @ at.lam, 1 - at.sigma.sum())
        soft = (1 - np.sum(at.Q * (at.W @ at.W.T)) - at.theta, at.T * at.theta)
        return [
            rows.adjoint(at.lam) - at.Q @ at.W,
            at.nu - program.B.T @ np.diag(at.Q),
            at.gamma * program.m + at.u - (at.xi if len(at.z) else 0) - at.T * rows.times(at.W) - y * at.b,
            at.lam * at.u,
            at.z * at.xi,
            np.sum(at.Q * S),
            y @ at.lam,
            *(hard if case.hard else soft),
        ]

    for _ in range(4):
        conditions, step = SpectralConditions(program, at), 1e-6
        ahead = residuals(at.plus(step, conditions.direction(0.0, None)))
        for now, then in zip(residuals(at), ahead, strict=True):
            np.testing.assert_allclose(
                (then - now) / step, -np.asarray(now), atol=1e-3 * (1 + np.abs(now).max(initial=0))
            )
        at = conditions.moved(conditions.direction(0.3 * conditions.mu, None))
