"""Losses on new samples: our bounds, that of Theorem 3, and linear predictors of the first version."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from implicit_bias import GatedFeatures
from implicit_bias.extensions import galu
from tests.cases import FEW, assert_refused, layer, unit


def test_bound_holds_on_fresh_samples():
    rng, m = np.random.default_rng(15), 20_000
    X = unit(2 * m, 3, seed=16)
    y = np.clip(X[:, 0] + 0.1 * rng.normal(size=2 * m), -1, 1)
    features = layer(X, 2, rng)
    train, test = features.select(slice(m)), features.select(slice(m, None))
    weights = galu.least_squares(train, y[:m]).weights
    found = galu.generalisation_bound(train, y[:m], weights, label_bound=1.0)
    fresh = np.mean((test @ weights - y[m:]) ** 2)
    assert found.training_loss == pytest.approx(np.mean((train @ weights - y[:m]) ** 2))
    assert found.training_loss < fresh <= found.bound < 1
    assert found.bound == pytest.approx(found.training_loss + found.complexity + found.confidence)
    assert np.abs(test @ weights).max() <= found.output <= found.radius < 2 * max(found.output, 1.0)


def test_loss_range_attained():
    """|ℓ(f) − ℓ(0)| = M² + 2√2 M is attained for |f| ≤ M and |y| ≤ √2; no smaller range bounds the losses."""
    m = 10_000
    features = GatedFeatures(np.ones((m, 1)))
    found = galu.generalisation_bound(features, np.full(m, -np.sqrt(2)), [[2 * np.sqrt(2)]], label_bound=np.sqrt(2))
    M = found.radius
    assert pytest.approx(2 * np.sqrt(2)) == M
    assert found.loss_range == pytest.approx(M**2 + 2 * np.sqrt(2) * M)
    assert found.training_loss - 2.0 == pytest.approx(found.loss_range)


def test_a_priori_bound_of_norm():
    X, delta, rng = unit(8, 20, seed=4), 0.1, np.random.default_rng(19)
    y = rng.uniform(-1, 1, size=8)
    found = galu.generalisation_bound_a_priori(X, y, label_bound=1.0, delta=delta)
    j = int(np.ceil(np.log2(galu.memorisation_width(X, delta / 2).width)))
    assert found.width == 2**j
    union = delta / (2 * (j + 1) * (j + 2))
    assert found.output**2 == pytest.approx(2 * y @ np.linalg.solve(galu.gate_kernel(X), y), rel=1e-9)
    held = []
    for _ in range(30):
        features = layer(X, found.width, rng)
        weights = galu.least_squares(features, y).weights
        by_hand = features.adjoint(np.linalg.solve(features.gram(), y))
        np.testing.assert_allclose(weights, by_hand, atol=1e-10)
        np.testing.assert_allclose(features @ weights, y, atol=1e-9)
        held.append(np.sqrt(found.width) * np.linalg.norm(weights) <= found.output)
        assert galu.generalisation_bound(features, y, weights, 1.0, union).bound <= found.bound * (1 + 1e-12)
    assert np.mean(held) >= 1 - delta / 2


@FEW
@given(st.integers(0, 1000))
def test_a_priori_output_of_linear_labels(seed):
    X = unit(15, 6, seed)
    v = np.random.default_rng(seed + 1).normal(size=6)
    y = X @ v
    output = galu.generalisation_bound_a_priori(X, y, label_bound=np.abs(y).max()).output
    assert output <= np.sqrt(8) * np.linalg.norm(v) * (1 + 1e-9)


@pytest.mark.parametrize(("size", "radius"), [(0.0, 1.0), (0.3, 1.0), (1.0, 1.0), (1.01, 2.0), (2.0, 2.0), (2.01, 4.0)])
def test_radii_are_doublings(size, radius):
    found = galu.generalisation_bound(GatedFeatures(np.ones((5, 1))), np.zeros(5), [[size]], label_bound=1.0)
    assert (found.output, found.radius) == (size, radius)


def test_theorem_3_by_hand():
    """Width, rate and energy are those written out; at the width, ‖w*‖² ≤ 2M² for networks with the factor 1/√k."""
    rng, m, delta = np.random.default_rng(36), 4, 0.1
    X, Z, c = unit(m, 10, seed=37), unit(3, 10, seed=38), rng.normal(size=3)
    M = float(np.sqrt(c @ galu.gate_kernel(Z) @ c))
    c, M = c / M, 1.0
    y = galu.gate_kernel(X, Z) @ c
    assert np.abs(y).max() <= M / np.sqrt(2)
    found = galu.rkhs_bound(X, y, M, delta)
    assert found.energy == pytest.approx(np.sqrt(y @ np.linalg.solve(galu.gate_kernel(X), y)), rel=1e-9)
    assert found.energy <= M
    lam, norm = np.linalg.eigvalsh(galu.gate_kernel(X))[0], np.linalg.norm(X, 2)
    width = (m / (M**2 * lam) + 1) ** 2 * 32 * norm**4 / lam**2 * np.log(m / delta)
    assert found.width == pytest.approx(width, rel=1e-9, abs=1)
    rate = (2 * M**2 * np.log(m) ** 3 + (2 * M**2 + np.sqrt(2) * M) * np.log(1 / delta)) / m
    assert found.rate == pytest.approx(rate, rel=1e-14)
    for _ in range(5):
        features = layer(X, 20_000, rng)
        # 1/√k in the network: the weights grow by √k.
        assert np.sqrt(20_000) * galu.least_squares(features, y).norm <= found.norm
    assert_refused(lambda: galu.rkhs_bound(X, y, 0.1), r"no function of norm 0\.1 has these labels")


@pytest.mark.parametrize("apart", [1.0, 2e-12])
def test_energy_of_linear_labels(apart):
    """The energy of y = ⟨v, x⟩ is at most 2‖v‖, even if rounding nearly hides the least eigenvalue of the kernel."""
    X = unit(20, 5, seed=39)
    X[1] = X[0] + apart * X[2]
    X[1] /= np.linalg.norm(X[1])
    assert galu.rkhs_bound(X, X[:, 0], radius=2.0).energy <= 2


def test_expected_losses_are_means():
    m, d = 16, 10
    rng, losses = np.random.default_rng(14), []
    for _ in range(1000):
        X, w = rng.normal(size=(m, d)), rng.normal(size=d)
        y = X @ w + 0.5 * rng.normal(size=m)
        fitted = np.linalg.lstsq(X, y, rcond=None)[0]
        losses.append((np.mean((X @ fitted - y) ** 2), 0.25 + (fitted - w) @ (fitted - w)))
    expected = galu.expected_train_loss(m, d, 0.5), galu.expected_test_loss(m, d, 0.5)
    assert (np.abs(np.mean(losses, axis=0) - expected) <= 3 * np.std(losses, axis=0) / np.sqrt(1000)).all()


def test_expected_losses_at_few_samples():
    assert galu.expected_test_loss(12, 10, 3.0) == pytest.approx(11 * 9)
    assert galu.expected_train_loss(12, 10, 3.0) == pytest.approx(2 * 9 / 12)
    assert galu.expected_train_loss(5, 10) == 0
    for m, d in [(7, 3), (20, 11), (101, 99)]:
        exact = 1 + Fraction(d, m) + Fraction(d, m) * Fraction(d + 1, m - d - 1)
        assert galu.expected_test_loss(m, d) == pytest.approx(float(exact), rel=1e-14)
        assert galu.expected_test_loss(d + 2, d) == d + 1 <= d + 3
    assert_refused(lambda: galu.expected_test_loss(11, 10), "m = d \\+ 2 = 12 samples on; m is 11")


@pytest.mark.parametrize("p", [1, 2])
def test_rademacher_bound_by_all_signs(p):
    """The bound is at least the exact mean over all 2^m signs of B‖Φᵀs‖_∞/m (p = 1) or B‖Φᵀs‖₂/m (p = 2)."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        features = layer(rng.normal(size=(10, 3)), 4, rng)
        dense = features.dense()
        dual = np.inf if p == 1 else 2
        exact = np.mean([np.linalg.norm(dense.T @ s, dual) for s in itertools.product([-1.0, 1.0], repeat=10)]) * 2 / 10
        assert 0.1 * galu.rademacher_bound(features, 2.0, p) < exact <= galu.rademacher_bound(features, 2.0, p)
        assert galu.rademacher_bound(dense, 2.0, p) == pytest.approx(galu.rademacher_bound(features, 2.0, p), rel=1e-14)
