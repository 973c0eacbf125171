"""Gradient descent on a layer: its target and its rate, known in advance or not (Theorem 1)."""

import numpy as np
import pytest

from implicit_bias import GatedFeatures
from implicit_bias.extensions.galu import (
    a_priori_rate,
    descent_rate,
    descent_target,
    least_squares,
    memorisation_width,
)
from tests.cases import layer, unit


def descend(features, y, w, step, steps):
    for _ in range(steps):
        yield w
        w = w - step * 2 / features.n * features.adjoint(features @ w - y)


@pytest.mark.parametrize(("m", "k"), [(20, 12), (60, 3)])
def test_descent_converges_to_target_at_rate(m, k):
    """Theorem 1, proof: the printed bound of ‖w_t − w*‖ is false for a start with a part outside the row space."""
    rng = np.random.default_rng(7)
    features = layer(unit(m, 5, seed=8), k, rng)
    # The third input repeats the second, so that Φ has a null space at every width.
    features = GatedFeatures(features.X[:, [0, 1, 1, 2, 3]], features.gate_values)
    y, start = rng.normal(size=m), 3 * rng.normal(size=(k, 5))
    found, target = descent_rate(features), descent_target(features, y, start)
    least_norm = least_squares(features, y).weights
    projected = least_squares(features, features @ start).weights
    np.testing.assert_allclose(target, least_norm + start - projected, atol=1e-7)
    first, broken = np.linalg.norm(projected - least_norm), False
    for t, w in enumerate(descend(features, y, start, found.step, 300)):
        assert np.linalg.norm(w - target) <= found.rate**t * first * (1 + 1e-9) + 1e-9
        broken |= np.linalg.norm(w - least_norm) > found.rate**t * np.linalg.norm(start - least_norm) * (1 + 1e-9)
    assert broken


@pytest.mark.parametrize("shape", [(10, 4, 6), (40, 4, 2), (12, 4, 3)])
def test_rate_from_singular_values(shape):
    m, d, k = shape
    features = layer(unit(m, d, seed=9), k, np.random.default_rng(10))
    values = np.linalg.svd(features.dense(), compute_uv=False)
    values = values[values > 1e-9 * values[0]]
    found = descent_rate(features)
    assert (found.largest, found.smallest) == pytest.approx((values[0], values[-1]), rel=1e-8)
    assert found.step == pytest.approx(m / (values[0] ** 2 + values[-1] ** 2), rel=1e-8)
    ratio = (values[0] ** 2 - values[-1] ** 2) / (values[0] ** 2 + values[-1] ** 2)
    assert found.rate == pytest.approx(ratio, rel=1e-8)
    assert found.rate ** found.steps(1e-3) <= 1e-3 < found.rate ** (found.steps(1e-3) - 1)
    scaled = descent_rate(features.scaled(1e80))
    assert (scaled.rate, scaled.step) == pytest.approx((found.rate, found.step * 1e-160), rel=1e-8)


@pytest.mark.parametrize("length", [1.0, 3.0])
def test_a_priori_rate_holds_for_drawn_gates(length):
    X, rng = unit(8, 20, seed=4), np.random.default_rng(11)
    X[::2] *= length
    k = memorisation_width(X, 0.01).width
    found = a_priori_rate(X, k)
    features = layer(X, k, rng)
    exact = descent_rate(features)
    assert exact.largest <= found.largest
    assert found.smallest <= exact.smallest
    assert exact.rate <= found.rate < 1
    assert found.failure <= 0.01
    y, start = rng.normal(size=8), np.zeros((k, 20))
    target = descent_target(features, y, start)
    for t, w in enumerate(descend(features, y, start, found.step, 50)):
        assert np.linalg.norm(w - target) <= found.rate**t * np.linalg.norm(target) * (1 + 1e-9)


def test_theorem_1_loss_after_steps():
    """½ of the mean squared loss is at most ε after the printed steps, from any start; ours are half as many."""
    X, rng, epsilon = unit(8, 20, seed=4), np.random.default_rng(35), 1e-3
    lemma = memorisation_width(X, 0.01)
    features, y = layer(X, lemma.width, rng), rng.normal(size=8)
    found, start = a_priori_rate(X, lemma.width), rng.normal(size=(lemma.width, 20))
    distance = np.linalg.norm(start - least_squares(features, y).weights)
    ratio = lemma.squared_norm / lemma.eigenvalue
    argument = lemma.width * lemma.squared_norm * distance**2 / (8 * epsilon)
    steps = found.steps_to(2 * epsilon, distance)
    assert steps <= ratio * np.log(argument) + 1
    *_, last = descend(features, y, start, found.step, steps + 1)
    assert np.mean((features @ last - y) ** 2) / 2 <= epsilon
    exact = descent_rate(features).steps_to(2 * epsilon, distance)
    *_, last = descend(features, y, start, descent_rate(features).step, exact + 1)
    assert exact <= steps
    assert np.mean((features @ last - y) ** 2) / 2 <= epsilon


def test_rate_of_1_up_to_rounding():
    found = descent_rate(GatedFeatures([[1.0, 0.0], [0.0, 5e-9]]))
    assert found.rate == 1.0
    assert found.steps(0.5) == pytest.approx(np.log(2) * 4e16, rel=1e-6)
