"""The loss in both layers (section 3): gradient, curvature, and stationary points."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from implicit_bias import GatedFeatures
from implicit_bias.extensions.galu import landscape
from tests.cases import FEW, drawn, layer


def tensor_loss(features, y):
    """The loss of (W, α), all in one vector, in torch."""
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
    found, loss = landscape(features, y, W, alpha), tensor_loss(features, y)
    point = torch.tensor(np.concatenate([W.ravel(), alpha]), requires_grad=True)
    value = loss(point)
    (gradient,) = torch.autograd.grad(value, point)
    assert found.loss == pytest.approx(float(value.detach()), rel=1e-12)
    assert found.gradient == pytest.approx(float(torch.linalg.norm(gradient)), rel=1e-10)
    hessian = torch.autograd.functional.hessian(loss, point.detach())
    assert found.curvature >= float(torch.linalg.eigvalsh(hessian)[0]) - 1e-10


def stationary(features, y, closed, rng):
    """A stationary point: least squares over the other units, and for the closed ones α_j = 0 and w_j ⊥ G_j."""
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
    found = landscape(features, y, *stationary(features, y, closed, rng))
    assert found.gradient < 1e-9
    assert (found.excess < 1e-9) or found.curvature < -1e-9


def test_saddle_at_zero_strict_at_every_size():
    """At W = 0, α = 0 the least eigenvalue is −‖G‖, G = −2xy, whose square may be no float."""
    for x, y in ((1e-80, 1e-90), (1.0, 3.0), (1e60, 1e90)):
        found = landscape(GatedFeatures([[x]]), [y], [[0.0]], [0.0])
        assert found.gradient == 0
        assert found.curvature == pytest.approx(-2 * x * y, rel=1e-12, abs=0)


def test_descent_on_both_layers_ends_in_minimum():
    features, y = drawn(15, 4, 10, seed=3)
    rng, loss = np.random.default_rng(4), tensor_loss(features, y)
    point = torch.tensor(0.1 * rng.normal(size=50), requires_grad=True)
    optimiser = torch.optim.LBFGS([point], max_iter=500, tolerance_grad=1e-10, tolerance_change=0.0)

    def closure():
        optimiser.zero_grad()
        value = loss(point)
        value.backward()
        return value

    optimiser.step(closure)
    end = point.detach().numpy()
    found = landscape(features, y, end[:40].reshape(10, 4), end[40:])
    assert found.excess < 1e-8
    assert landscape(features, y, np.zeros((10, 4)), np.zeros(10)).excess > 0.1
