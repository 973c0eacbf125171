"""Gates that move (Lemma 11), and Theorem 5 on trained ReLU networks."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from implicit_bias import GatedFeatures
from implicit_bias.extensions.galu import galu_excess, moved_gates, neighbouring_gates
from tests.cases import FEW, unit


@pytest.mark.parametrize(("d", "k", "epsilon"), [(2, 3000, 0.02), (30, 300, 0.1)])
def test_moved_gates_change_little(d, k, epsilon):
    """`mean` and `uniform` bound the shares of gates with |⟨u_j, x⟩| ≤ ε, the worst that moves by ε can change."""
    rng, delta, broken = np.random.default_rng(20), 0.1, []
    found = moved_gates(d, k, epsilon, delta)
    for _ in range(20):
        U, x = rng.normal(size=(k, d)), unit(400, d, seed=int(rng.integers(10**6)))
        worst = np.mean(np.abs(x @ U.T) <= epsilon, axis=1)
        way = rng.normal(size=(k, d))
        moved = U + epsilon * way / np.linalg.norm(way, axis=1)[:, None]
        assert (np.mean((x @ U.T >= 0) != (x @ moved.T >= 0), axis=1) <= worst).all()
        broken.append((worst.mean() > found.mean, worst.max() > found.uniform))
    assert (np.mean(broken, axis=0) <= delta).all()


@FEW
@given(st.integers(1, 3000), st.floats(1e-5, 1.0), st.floats(1e-6, 0.9))
def test_printed_constant_at_printed_width(d, epsilon, delta):
    """With B² = √6·d, the proof of Lemma 11 gives the printed share and width, and our bound is below the share."""
    width = moved_gates(d, 1, epsilon, delta).printed_width
    found = moved_gates(d, math.ceil(width), epsilon, delta)
    assert found.uniform <= found.printed or found.printed >= 1
    assert found.mean <= found.uniform
    B = math.sqrt(math.sqrt(6) * d)
    assert found.printed == pytest.approx(5 * B * epsilon / math.sqrt(2 * np.pi), rel=1e-12)
    exponent = 2 * width * (B * epsilon / math.sqrt(2 * np.pi)) ** 2
    assert exponent == pytest.approx(math.log(2 / delta) + d * math.log(3 / epsilon), rel=1e-12)


@pytest.mark.parametrize(("d", "k", "epsilon"), [(3, 8000, 0.05)])
def test_neighbours_share_gates(d, k, epsilon):
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


def trained_relu(X, y, k, seed, steps=100, lr=1.0):
    """Return start U, weights U* and signs α of a ReLU network with 1/√k after descent on the mean absolute loss."""
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
def test_theorem_5_of_trained_relu(k):
    """At W = U* the loss exceeds ReLU's by at most `on_samples` ≤ `bound`, and so does the least loss, by LP."""
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


def test_theorem_5_for_worst_moves():
    """If all gates within ε flip, √k ‖α‖_∞ ε s bounds the difference, and the printed max_j ‖α_j u*_j‖ √s does not."""
    epsilon, x = 0.5, np.eye(3)[:1]
    for k, lost in ((100, False), (10_000, True)):
        start = np.random.default_rng(8).normal(size=(k, 3))
        near = (start @ x[0] >= 0) & (start @ x[0] < epsilon)
        trained = start - epsilon * near[:, None] * x
        found = galu_excess(x, start, trained, np.ones(k), lipschitz=2.0)
        chain = 2 * np.linalg.norm(trained, axis=1).max() * math.sqrt(found.flips)
        assert found.on_samples <= found.bound
        assert found.on_samples <= chain * math.sqrt(k)
        assert (found.on_samples > chain) == lost


@pytest.mark.parametrize(("m", "delta"), [(1, 0.05), (30, 0.5)])
def test_theorem_5_share_for_all_moves(m, delta):
    """For the worst ε of each draw, the share within ε exceeds `share` in at most δ of the draws."""
    X, rng, k, beyond = unit(m, 3, seed=10), np.random.default_rng(11), 25, []
    for _ in range(100):
        start = rng.normal(size=(k, 3))
        moves = np.sort(np.abs(X @ start.T).ravel())
        excess = np.arange(1, m * k + 1) / (m * k) - np.array([math.erf(move / math.sqrt(2)) for move in moves])
        epsilon = moves[excess.argmax()]
        found = galu_excess(X, start, start + epsilon * np.eye(1, 3), np.ones(k), delta=delta)
        assert found.epsilon == pytest.approx(epsilon)
        beyond.append(np.mean(moves <= epsilon) > found.share)
    assert np.mean(beyond) <= delta


def test_excess_zero_without_moves():
    start = np.random.default_rng(9).normal(size=(6, 3))
    found = galu_excess(unit(5, 3), start, start, np.ones(6))
    assert (found.epsilon, found.flips, found.on_samples, found.bound) == (0, 0, 0, 0)
