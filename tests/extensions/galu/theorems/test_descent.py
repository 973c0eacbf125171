"""The loss of a layer: descent, its target and its rate (Theorem 1), and the landscape in both layers (section 3)."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from implicit_bias import GatedFeatures
from implicit_bias.extensions import galu
from tests.cases import FEW, drawn, layer, unit


def descend(features, y, w, step, steps):
    for _ in range(steps):
        yield w
        w = w - step * 2 / features.n * features.adjoint(features @ w - y)


@pytest.mark.parametrize(("m", "k"), [(20, 12), (60, 3)])
def test_descent_converges_to_target_at_rate(m, k):
    """‖w_t − w_∞‖ ≤ ρᵗ‖w_0 − w_∞‖; the printed bound of ‖w_t − w*‖ (Theorem 1) fails for w_0 outside the row space."""
    rng = np.random.default_rng(7)
    features = layer(unit(m, 5, seed=8), k, rng)
    # The third input repeats the second, so that Φ has a null space at every width.
    features = GatedFeatures(features.X[:, [0, 1, 1, 2, 3]], features.gate_values)
    y, start = rng.normal(size=m), 3 * rng.normal(size=(k, 5))
    found, target = galu.descent_rate(features), galu.descent_target(features, y, start)
    least_norm = galu.least_squares(features, y).weights
    projected = galu.least_squares(features, features @ start).weights
    np.testing.assert_allclose(target, least_norm + start - projected, atol=1e-7)
    first, broken = np.linalg.norm(projected - least_norm), False
    for t, w in enumerate(descend(features, y, start, found.step, 300)):
        assert np.linalg.norm(w - target) <= found.rate**t * first * (1 + 1e-9) + 1e-9
        broken |= np.linalg.norm(w - least_norm) > found.rate**t * np.linalg.norm(start - least_norm) * (1 + 1e-9)
    assert broken


@pytest.mark.parametrize("shape", [(10, 4, 6), (40, 4, 2)])
def test_rate_from_singular_values(shape):
    m, d, k = shape
    features = layer(unit(m, d, seed=9), k, np.random.default_rng(10))
    values = np.linalg.svd(features.dense(), compute_uv=False)
    values = values[values > 1e-9 * values[0]]
    found = galu.descent_rate(features)
    assert (found.largest, found.smallest) == pytest.approx((values[0], values[-1]), rel=1e-8)
    assert found.step == pytest.approx(m / (values[0] ** 2 + values[-1] ** 2), rel=1e-8)
    ratio = (values[0] ** 2 - values[-1] ** 2) / (values[0] ** 2 + values[-1] ** 2)
    assert found.rate == pytest.approx(ratio, rel=1e-8)
    assert found.rate ** found.steps(1e-3) <= 1e-3 < found.rate ** (found.steps(1e-3) - 1)
    scaled = galu.descent_rate(features.scaled(1e80))
    assert (scaled.rate, scaled.step) == pytest.approx((found.rate, found.step * 1e-160), rel=1e-8)


def test_a_priori_rate_holds_for_drawn_gates():
    X, rng = unit(8, 20, seed=4), np.random.default_rng(11)
    X[::2] *= 3.0
    k = galu.memorisation_width(X, 0.01).width
    found = galu.a_priori_rate(X, k)
    features = layer(X, k, rng)
    exact = galu.descent_rate(features)
    assert exact.largest <= found.largest
    assert found.smallest <= exact.smallest
    assert exact.rate <= found.rate < 1
    assert found.failure <= 0.01
    y, start = rng.normal(size=8), np.zeros((k, 20))
    target = galu.descent_target(features, y, start)
    for t, w in enumerate(descend(features, y, start, found.step, 50)):
        assert np.linalg.norm(w - target) <= found.rate**t * np.linalg.norm(target) * (1 + 1e-9)


def test_theorem_1_loss_after_steps():
    """Half the mean squared loss is at most ε after our number of steps, which is at most the printed one."""
    X, rng, epsilon = unit(8, 20, seed=4), np.random.default_rng(35), 1e-3
    lemma = galu.memorisation_width(X, 0.01)
    features, y = layer(X, lemma.width, rng), rng.normal(size=8)
    found, start = galu.a_priori_rate(X, lemma.width), rng.normal(size=(lemma.width, 20))
    distance = np.linalg.norm(start - galu.least_squares(features, y).weights)
    ratio = lemma.squared_norm / lemma.eigenvalue
    argument = lemma.width * lemma.squared_norm * distance**2 / (8 * epsilon)
    steps = found.steps_to(2 * epsilon, distance)
    assert steps <= ratio * np.log(argument) + 1
    *_, last = descend(features, y, start, found.step, steps + 1)
    assert np.mean((features @ last - y) ** 2) / 2 <= epsilon
    exact = galu.descent_rate(features).steps_to(2 * epsilon, distance)
    *_, last = descend(features, y, start, galu.descent_rate(features).step, exact + 1)
    assert exact <= steps
    assert np.mean((features @ last - y) ** 2) / 2 <= epsilon


def test_rate_of_1_up_to_rounding():
    found = galu.descent_rate(GatedFeatures([[1.0, 0.0], [0.0, 5e-9]]))
    assert found.rate == 1.0
    assert found.steps(0.5) == pytest.approx(np.log(2) * 4e16, rel=1e-6)


def tensor_loss(features, y):
    """Return the loss as a torch function of one vector, W (k, d) followed by α (k,)."""
    k, d = features.k, features.d
    G, X, target = (torch.tensor(A) for A in (features.gate_values, features.X, y))

    def loss(v):
        return torch.mean(((G * (X @ v[: k * d].reshape(k, d).T)) @ v[k * d :] - target) ** 2)

    return loss


@pytest.mark.parametrize(("gates", "zeros"), [("hard", 0), ("soft", 2), ("hard", 4)])
def test_gradient_and_curvature_by_autograd(gates, zeros):
    features, y = drawn(12, 3, 4, seed=zeros, gates=gates)
    rng = np.random.default_rng(zeros)
    W, alpha = rng.normal(size=(4, 3)), rng.normal(size=4) * (np.arange(4) >= zeros)
    found, loss = galu.landscape(features, y, W, alpha), tensor_loss(features, y)
    point = torch.tensor(np.concatenate([W.ravel(), alpha]), requires_grad=True)
    value = loss(point)
    (gradient,) = torch.autograd.grad(value, point)
    assert found.loss == pytest.approx(float(value.detach()), rel=1e-12)
    assert found.gradient == pytest.approx(float(torch.linalg.norm(gradient)), rel=1e-10)
    hessian = torch.autograd.functional.hessian(loss, point.detach())
    assert found.curvature >= float(torch.linalg.eigvalsh(hessian)[0]) - 1e-10


def stationary(features, y, closed, rng):
    """Return W (k, d) and α (k,) of a stationary point: the first `closed` units have α_j = 0 and w_j ⊥ G_j.

    The others are the least-squares solution with α_j = 2.
    """
    k, d = features.k, features.d
    opened = np.arange(k) >= closed
    dense = features.dense().reshape(features.n, k, d)
    W = np.zeros((k, d))
    if closed < k:
        W[opened] = np.linalg.lstsq(dense[:, opened].reshape(features.n, -1), y, rcond=None)[0].reshape(-1, d) / 2
    slopes = 2 / features.n * features.adjoint(features @ (2 * W) - y)
    free = rng.normal(size=(k, d))
    sizes = np.sum(slopes**2, axis=1, keepdims=True)
    free -= np.sum(free * slopes, axis=1, keepdims=True) / np.where(sizes > 1e-20, sizes, 1.0) * slopes
    W[~opened] = free[~opened]
    return W, 2.0 * opened


@FEW
@given(st.integers(0, 1000), st.integers(0, 3), st.integers(2, 20))
def test_stationary_points_are_minima_or_strict_saddles(seed, closed, m):
    rng = np.random.default_rng(seed)
    features, y = layer(rng.normal(size=(m, 3)), 3, rng), rng.normal(size=m)
    if not features.gate_values.any():
        return
    found = galu.landscape(features, y, *stationary(features, y, closed, rng))
    assert found.gradient < 1e-9
    assert (found.excess < 1e-9) or found.curvature < -1e-9


def test_saddle_at_zero_strict_at_every_size():
    """At W = 0, α = 0 the curvature is −‖G‖ for G = −2xy, also where its square under- or overflows."""
    for x, y in ((1e-80, 1e-90), (1.0, 3.0), (1e60, 1e90)):
        found = galu.landscape(GatedFeatures([[x]]), [y], [[0.0]], [0.0])
        assert found.gradient == 0
        assert found.curvature == pytest.approx(-2 * x * y, rel=1e-12, abs=0)
