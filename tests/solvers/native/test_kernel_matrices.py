"""Kernel matrices without factors: the optimum of the features, from sets of samples that grow."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from implicit_bias import GroupLasso, KernelFeatures, MarginProblem, Status, certify, solve
from implicit_bias._utils.limits import Deadline
from implicit_bias.solvers import Options
from implicit_bias.solvers.native.kernel_matrices import SETTINGS, products, solve_kernel_matrices


@pytest.fixture(scope="module")
def samples():
    """Kernels of two widths and signs; more samples than a first set has."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2 * SETTINGS.all_samples_up_to, 3))
    y = np.sign(X[:, 0] * X[:, 1] + 0.2 * rng.standard_normal(len(X)))
    return np.stack([rbf_kernel(X, gamma=gamma) for gamma in (0.1, 1.0)]), y


@pytest.mark.parametrize(("C", "intercept"), [(0.01, True), (0.3, True), (0.3, False), (np.inf, True)])
def test_optimum_is_that_of_the_features(samples, C, intercept):
    """At C = 0.01 most samples are at their bound, and their rows are merged into one."""
    stack, y = samples
    problem = MarginProblem(KernelFeatures.from_kernels(stack), y, GroupLasso(range(2)), C, intercept=intercept)
    found, lam = solve_kernel_matrices(problem, stack, Options(1e-6))
    assert (found.stopped, found.reason) == (None, "")
    weights = found.weights[:, None] * problem.adjoint(lam)
    certificate = certify(problem, weights, found.dual, found.intercept)
    assert certificate.gap <= 1e-6
    assert certificate.objective == pytest.approx(solve(problem, "CLARABEL", tol=1e-5).objective, rel=2e-5)


def test_an_earlier_solution_is_a_start(samples):
    stack, y = samples
    problem = MarginProblem(KernelFeatures.from_kernels(stack), y, GroupLasso(range(2)), 0.3)
    cold, _ = solve_kernel_matrices(problem, stack, Options(1e-6))
    warm, _ = solve_kernel_matrices(problem, stack, Options(1e-6, start=solve(problem)))
    assert warm.iterations < cold.iterations


def test_limit_and_products(samples):
    stack, y = samples
    problem = MarginProblem(KernelFeatures.from_kernels(stack), y, GroupLasso(range(2)), 0.3)
    assert solve_kernel_matrices(problem, stack, Options(1e-6, deadline=Deadline(1e-9)))[0].stopped is Status.TIME_LIMIT
    a = np.where(np.arange(len(y)) % 3 == 0, y, 0.0) * [[1], [2]]
    for exact in (False, True):
        np.testing.assert_allclose(products(stack, a, exact), np.einsum("hij,hj->hi", stack, a), rtol=1e-12, atol=1e-12)
