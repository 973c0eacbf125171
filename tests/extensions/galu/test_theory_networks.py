"""Networks: the landscape in both layers (section 3), gates that move, and Theorem 5 on trained ReLU networks."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from implicit_bias import GatedFeatures
from implicit_bias.extensions.galu import galu_excess, landscape, moved_gates, neighbouring_gates
from tests.cases import FEW, drawn, layer, unit

# Section 3: (W, α)


def tensor_loss(features, y):
    """The loss of (W, α), all in one vector, in torch."""
    k, d = features.k, features.d
    G, X, target = (torch.tensor(A) for A in (features.gate_values, features.X, y))

    def loss(v):
        return torch.mean(((G * (X @ v[: k * d].reshape(k, d).T)) @ v[k * d :] - target) ** 2)

    return loss


@pytest.mark.parametrize("gates", ["hard", "soft"])
@pytest.mark.parametrize("zeros", [0, 2, 4])
def test_gradient_and_curvature_are_those_of_autograd(gates, zeros):
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


def test_the_saddle_at_zero_is_strict_at_every_size():
    """At W = 0, α = 0 the least eigenvalue is −‖G‖, G = −2xy, whose square may be no float."""
    for x, y in ((1e-80, 1e-90), (1.0, 3.0), (1e60, 1e90)):
        found = landscape(GatedFeatures([[x]]), [y], [[0.0]], [0.0])
        assert found.gradient == 0
        assert found.curvature == pytest.approx(-2 * x * y, rel=1e-12, abs=0)


def test_descent_on_both_layers_ends_in_a_minimum():
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


# Lemma 11


@pytest.mark.parametrize(("d", "k", "epsilon"), [(2, 3000, 0.02), (5, 1000, 0.2), (30, 300, 0.1)])
def test_gates_that_move_change_little(d, k, epsilon):
    """The worst w_j for a sample moves straight across it: the share within ε of the hyperplane."""
    rng, delta, broken = np.random.default_rng(20), 0.1, []
    found = moved_gates(d, k, epsilon, delta)
    for _ in range(40):
        U, x = rng.normal(size=(k, d)), unit(400, d, seed=int(rng.integers(10**6)))
        worst = np.mean(np.abs(x @ U.T) <= epsilon, axis=1)
        way = rng.normal(size=(k, d))
        moved = U + epsilon * way / np.linalg.norm(way, axis=1)[:, None]
        assert (np.mean((x @ U.T >= 0) != (x @ moved.T >= 0), axis=1) <= worst).all()
        broken.append((worst.mean() > found.mean, worst.max() > found.uniform))
    assert (np.mean(broken, axis=0) <= delta).all()


@FEW
@given(st.integers(1, 3000), st.floats(1e-5, 1.0), st.floats(1e-6, 0.9))
def test_the_printed_constant_holds_at_the_printed_width(d, epsilon, delta):
    """The steps of the proof of Lemma 11 with B² = √6·d give the printed share and width; ours is below it."""
    width = moved_gates(d, 1, epsilon, delta).printed_width
    found = moved_gates(d, math.ceil(width), epsilon, delta)
    assert found.uniform <= found.printed or found.printed >= 1
    assert found.mean <= found.uniform
    B = math.sqrt(math.sqrt(6) * d)
    assert found.printed == pytest.approx(5 * B * epsilon / math.sqrt(2 * np.pi), rel=1e-12)
    exponent = 2 * width * (B * epsilon / math.sqrt(2 * np.pi)) ** 2
    assert exponent == pytest.approx(math.log(2 / delta) + d * math.log(3 / epsilon), rel=1e-12)


@pytest.mark.parametrize(("d", "k", "epsilon"), [(2, 20_000, 0.02), (3, 8000, 0.05)])
def test_neighbours_share_their_gates(d, k, epsilon):
    rng, delta, broken = np.random.default_rng(21), 0.1, []
    for _ in range(10):
        U, x = rng.normal(size=(k, d)), unit(300, d, seed=int(rng.integers(10**6)))
        step = rng.normal(size=x.shape)
        step -= np.sum(step * x, axis=1, keepdims=True) * x
        near = x + epsilon * step / np.linalg.norm(step, axis=1)[:, None]
        near /= np.linalg.norm(near, axis=1)[:, None]
        assert np.linalg.norm(near - x, axis=1).max() <= epsilon
        share = np.mean((x @ U.T > 0) != (near @ U.T > 0), axis=1).max()
        broken.append(share > neighbouring_gates(d, k, epsilon, delta))
    assert np.mean(broken) <= delta


# Theorem 5


def trained_relu(X, y, k, seed, steps=100, lr=1.0):
    """Start, weights and signs of a normalised ReLU network after gradient descent on the absolute loss, by torch."""
    rng = np.random.default_rng(seed)
    start, signs = rng.normal(size=(k, X.shape[1])), rng.choice([-1.0, 1.0], size=k)
    U, inputs, target, readout = torch.tensor(start, requires_grad=True), *(torch.tensor(A) for A in (X, y, signs))
    for _ in range(steps):
        error = torch.relu(inputs @ U.T) @ readout / math.sqrt(k) - target
        (gradient,) = torch.autograd.grad(error.abs().mean(), U)
        with torch.no_grad():
            U -= lr * gradient
    return start, U.detach().numpy(), signs


@pytest.mark.parametrize("k", [5, 40, 2000])
def test_theorem_5_for_trained_relu_networks(k):
    """The best GaLU network by linear programming; the ReLU network's own weights on its first gates; the bounds."""
    X, y = unit(40, 12, seed=5), np.sign(np.random.default_rng(6).normal(size=40))
    start, trained, signs = trained_relu(X, y, k, seed=7)
    found = galu_excess(X, start, trained, signs, delta=0.05)
    opened, outputs = X @ start.T >= 0, X @ trained.T
    relu = np.abs(np.maximum(outputs, 0) @ signs / math.sqrt(k) - y).mean()
    copied = np.abs((opened * outputs) @ signs / math.sqrt(k) - y).mean()
    assert found.epsilon == pytest.approx(np.linalg.norm(trained - start, axis=1).max())
    assert found.flips == np.mean(opened != (outputs >= 0)) > 0
    assert abs(copied - relu) <= found.on_samples <= found.bound
    if k <= 40:
        dense = GatedFeatures(X, opened.astype(float)).dense()
        columns = np.hstack([dense, -dense, np.eye(40), -np.eye(40)])
        cost = np.concatenate([np.zeros(2 * dense.shape[1]), np.full(80, 1 / 40)])
        best = linprog(cost, A_eq=columns, b_eq=y).fun
        assert best <= copied + 1e-9
        assert best <= relu + found.bound


def test_theorem_5_holds_for_the_worst_moves_and_the_printed_chain_does_not():
    """All gates that ε reaches flipped against one sample: √k ‖α‖_∞ ε s bounds it, max ‖α_j u*_j‖ √s does not."""
    epsilon, x = 0.5, np.eye(3)[:1]
    for k, lost in ((100, False), (1_000_000, True)):
        start = np.random.default_rng(8).normal(size=(k, 3))
        near = (start @ x[0] >= 0) & (start @ x[0] < epsilon)
        trained = start - epsilon * near[:, None] * x
        found = galu_excess(x, start, trained, np.ones(k), lipschitz=2.0)
        chain = 2 * np.linalg.norm(trained, axis=1).max() * math.sqrt(found.flips)
        assert found.on_samples <= found.bound
        assert found.on_samples <= chain * math.sqrt(k)
        assert (found.on_samples > chain) == lost


@pytest.mark.parametrize("delta", [0.05, 0.5, 0.9])
@pytest.mark.parametrize("m", [1, 30])
def test_the_share_of_theorem_5_holds_for_every_move_at_once(m, delta):
    """The ε that is worst for the gates drawn, over all ε, in a share of at most δ of the draws beyond the bound."""
    X, rng, k, beyond = unit(m, 3, seed=10), np.random.default_rng(11), 25, []
    for _ in range(300):
        start = rng.normal(size=(k, 3))
        moves = np.sort(np.abs(X @ start.T).ravel())
        excess = np.arange(1, m * k + 1) / (m * k) - np.array([math.erf(move / math.sqrt(2)) for move in moves])
        epsilon = moves[excess.argmax()]
        found = galu_excess(X, start, start + epsilon * np.eye(1, 3), np.ones(k), delta=delta)
        assert found.epsilon == pytest.approx(epsilon)
        beyond.append(np.mean(moves <= epsilon) > found.share)
    assert np.mean(beyond) <= delta


def test_weights_that_stay_lose_nothing():
    start = np.random.default_rng(9).normal(size=(6, 3))
    found = galu_excess(unit(5, 3), start, start, np.ones(6))
    assert (found.epsilon, found.flips, found.on_samples, found.bound) == (0, 0, 0, 0)


def test_lazily_trained_networks_leave_no_excess():
    """With ε = 1/√k, as of one unit of motion in function space, the bound falls like 1/√k."""
    bounds = []
    for k in (10**4, 10**6):
        start = np.zeros((k, 2))
        moved = start + np.array([1 / math.sqrt(k), 0.0])
        bounds.append(galu_excess(np.eye(2), start, moved, np.ones(k)).bound)
    assert bounds[1] < 0.15 * bounds[0] < 0.01
