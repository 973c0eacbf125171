"""The homogeneous method in doubles, compared with CVXPY, and its proof of inseparability."""

import cvxpy as cp
import numpy as np
import pytest

from implicit_bias.solvers.native.homogeneous import Element, EmbeddedProgram, NesterovTodd, dual_program, maximise


class Inverse:
    def __init__(self, matrix):
        self.matrix = matrix

    def solve(self, right):
        return np.linalg.solve(self.matrix, right)


def program(rng, *, soft, intercept, fixed, samples=12, groups=2, width=8):
    """Return a program of which `fixed` samples have a fixed λ, and all samples' rows, bounds and column."""
    A, y = rng.normal(size=(samples, groups, width)), np.where(rng.random(samples) < 0.5, 1.0, -1.0)
    p, free = rng.uniform(0.02, 0.05, samples), slice(0, samples - fixed)
    rest = slice(samples - fixed, None)
    return (
        dual_program(
            A[free],
            np.ones(samples - fixed),
            np.tensordot(p[rest], A[rest], axes=1) if fixed else np.zeros((groups, width)),
            p[free] if soft else None,
            y[free][:, None][:, :intercept],
            -np.array([y[rest] @ p[rest]])[:intercept],
        ),
        A,
        p,
        y,
    )


def last_iterate(problem):
    """Return the first iterate with products below 1e-6: below about 1e-7, doubles no longer solve for steps."""
    found = []

    def observe(at):
        found.append(at)
        return at.product() < 1e-6

    maximise(problem, Inverse, observe)
    return found[-1]


@pytest.mark.parametrize(
    ("soft", "intercept", "fixed"), [(0, 0, 0), (0, 1, 0), (1, 0, 0), (1, 1, 0), (1, 0, 3), (1, 1, 3)]
)
def test_the_optimum_is_that_of_cvxpy(soft, intercept, fixed):
    problem, A, p, y = program(np.random.default_rng(soft + 2 * fixed), soft=soft, intercept=intercept, fixed=fixed)
    at = last_iterate(problem)
    W, b, lam = -at.z.cones[:, 1:] / at.tau, at.b.sum() / at.tau, at.x / at.tau
    w, c = cp.Variable(W.shape), cp.Variable()
    f = sum(A[:, h] @ w[h] for h in range(len(W))) + (y * c if intercept else 0.0)
    slack = cp.pos(1 - f[: len(lam)])
    # Samples with λ_i = p_i cost p_i (1 − f_i), also beyond the margin.
    cost = (p[: len(lam)] @ slack if soft else 0.0) + (p[len(lam) :] @ (1 - f[len(lam) :]) if fixed else 0.0)
    norms = sum(cp.norm(w[h]) for h in range(len(W)))
    best = cp.Problem(cp.Minimize(norms + cost), [] if soft else [f >= 1]).solve(solver="CLARABEL")
    margins = np.tensordot(A, W, axes=2) + (y * b if intercept else 0.0)
    value = np.linalg.norm(W, axis=1).sum()
    value += p[: len(lam)] @ np.maximum(1 - margins[: len(lam)], 0) if soft else 0.0
    value += p[len(lam) :] @ (1 - margins[len(lam) :])
    assert value == pytest.approx(best, rel=1e-6)
    assert lam.sum() + (p[len(lam) :].sum() if fixed else 0.0) == pytest.approx(best, rel=1e-6)
    assert soft or margins.min() > 1 - 1e-7


def test_semidefinite_blocks_and_equations_have_the_optimum_of_cvxpy():
    """minimise x₀ subject to x₀I − M(x) ⪰ 0 and 0 ≤ x₁, x₁ + … = 1, for a symmetric M that is linear in x₁, …"""
    M = np.random.default_rng(0).normal(size=(5, 5, 4))
    M, x = M + M.transpose(1, 0, 2), cp.Variable(4)
    largest = cp.lambda_max(sum(x[i] * M[:, :, i] for i in range(4)))
    best = cp.Problem(cp.Minimize(largest), [cp.sum(x) == 1, x[0] >= 0]).solve(solver="CLARABEL")
    c = np.eye(5)[0]
    blocks = np.concatenate([-np.eye(5)[:, :, None], M], axis=2)
    h = Element(np.zeros(1), np.zeros((0, 2)), (np.zeros((5, 5)),))
    at = last_iterate(
        EmbeddedProgram(
            c,
            1 - c[:, None],
            np.ones(1),
            h,
            (np.array([1]), -np.ones(1)),
            np.zeros((0, 5)),
            np.zeros((0, 2, 5)),
            (blocks,),
        )
    )
    assert at.x[0] / at.tau == pytest.approx(best, rel=1e-6)
    assert -at.b[0] / at.tau == pytest.approx(best, rel=1e-6)


def test_inseparable_samples_have_a_null_vector():
    A = np.array([[[1.0, 2.0]], [[-1.0, -2.0]], [[1.0, 0.0]]])
    ones = np.ones(3)
    at = last_iterate(dual_program(A, ones, np.zeros((1, 2)), None, ones[:, None][:, :0], ones[:0]))
    assert at.tau < 1e-6 * at.kappa
    np.testing.assert_allclose(at.x / at.x.max(), [1.0, 1.0, 0.0], atol=1e-4)


def test_the_scaling_takes_both_elements_to_one_point():
    rng = np.random.default_rng(0)
    s, z = (
        Element(rng.uniform(1, 2, 3), np.hstack([rng.uniform(3, 4, (2, 1)), rng.normal(size=(2, 3))])) for _ in range(2)
    )
    W = NesterovTodd(s, z)
    point, other = W.times(z), W.inverse(s)
    np.testing.assert_allclose(point.lines, other.lines)
    np.testing.assert_allclose(point.cones, other.cones)
    back = point.product(s).divided_by(point)
    np.testing.assert_allclose(back.cones, s.cones)
    change = Element(-s.lines, np.zeros((2, 4)))
    assert s.room(change) == 1.0
    assert s.room(change.plus(3, change)) == pytest.approx(0.25)
    outwards = Element(np.zeros(3), np.hstack([np.zeros((2, 1)), 10 * s.cones[:, 1:]]))
    step = s.room(outwards)
    reach = s.cones + step * outwards.cones
    assert (np.linalg.norm(reach[:, 1:], axis=1) / reach[:, 0]).max() == pytest.approx(1.0)
