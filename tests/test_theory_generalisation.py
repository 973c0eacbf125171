"""What GaLU loses on the samples and on fresh ones, and stable gates (Theorems 2, 3 and 5)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from implicit_bias import GatedFeatures, InputError, least_squares
from implicit_bias.theory import (
    expected_loss,
    expected_test_loss,
    gate_kernel,
    gate_stability,
    generalisation_bound,
    generalisation_bound_a_priori,
    memorisation_width,
)
from tests.cases import FEW, layer, unit

# Theorem 2 and the lemma on plain inputs


@pytest.mark.parametrize(("m", "d", "k", "expected", "within"), [(60, 5, 3, 0.75, 0.01), (300, 10, 12, 0.6, 0.01)])
def test_the_mean_of_least_losses(m, d, k, expected, within):
    rng, losses, values = np.random.default_rng(12), [], []
    for _ in range(200):
        features = layer(rng.normal(size=(m, d)), k, rng)
        found = least_squares(features, rng.normal(size=m))
        losses.append(found.loss)
        values.append(1 - found.rank / m)
    assert expected_loss(features).value == values[-1]
    assert np.mean(losses) == pytest.approx(expected, abs=within)
    assert np.mean(values) == pytest.approx(expected, abs=1e-3)
    assert np.mean(losses) == pytest.approx(np.mean(values), abs=3 * np.std(losses) / np.sqrt(200))


def test_the_rank_is_not_always_what_the_shape_allows():
    """MATH, Theorem 2: rank(Φ) = min(m, kd) fails in about 16 % of draws at (60, 5, 12)."""
    rng, deficient = np.random.default_rng(13), []
    for _ in range(300):
        features = layer(rng.normal(size=(60, 5)), 12, rng)
        found = expected_loss(features)
        assert found.rank == np.linalg.matrix_rank(features.dense())
        assert found.is_deficient == (found.rank < 60)
        assert found.value == 1 - found.rank / 60
        deficient.append(found.is_deficient)
    assert 0.10 < np.mean(deficient) < 0.23


@pytest.mark.parametrize(("m", "d"), [(30, 10), (16, 10)])
def test_the_mean_test_loss_of_least_squares(m, d):
    rng, losses = np.random.default_rng(14), []
    for _ in range(4000):
        X, w = rng.normal(size=(m, d)), rng.normal(size=d)
        excess = np.linalg.lstsq(X, X @ w + 0.5 * rng.normal(size=m), rcond=None)[0] - w
        losses.append(0.25 + excess @ excess)
    assert np.mean(losses) == pytest.approx(expected_test_loss(m, d, 0.5), abs=3 * np.std(losses) / np.sqrt(4000))


def test_the_test_loss_at_the_least_number_of_samples():
    assert expected_test_loss(12, 10, 3.0) == pytest.approx(11 * 9)
    with pytest.raises(InputError, match="m = d \\+ 2 = 12 samples on; m is 11"):
        expected_test_loss(11, 10)


# Theorem 3


def test_the_bound_of_the_loss_holds_on_fresh_samples():
    rng, m = np.random.default_rng(15), 20_000
    X = unit(2 * m, 3, seed=16)
    y = np.clip(X[:, 0] + 0.1 * rng.normal(size=2 * m), -1, 1)
    features = layer(X, 2, rng)
    train, test = features.select(slice(m)), features.select(slice(m, None))
    weights = least_squares(train, y[:m]).weights
    found = generalisation_bound(train, y[:m], weights, label_bound=1.0)
    fresh = np.mean((test @ weights - y[m:]) ** 2)
    assert found.training_loss == pytest.approx(np.mean((train @ weights - y[:m]) ** 2))
    assert found.training_loss < fresh <= found.bound < 1
    assert found.bound == pytest.approx(found.training_loss + found.complexity + found.confidence)
    assert np.abs(test @ weights).max() <= found.output <= found.radius < 2 * max(found.output, 1.0)


def test_the_complexity_bounds_the_suprema_it_stands_for():
    """sup over ‖w‖ ≤ R of Σσ_i f(x_i) is R‖Φᵀσ‖, of mean at most R√trace(ΦΦᵀ) ≤ R√(mk)."""
    rng = np.random.default_rng(17)
    features = layer(unit(50, 4, seed=18), 30, rng)
    suprema = [np.linalg.norm(features.adjoint(rng.choice([-1.0, 1.0], size=50))) for _ in range(400)]
    assert np.mean(suprema) <= np.sqrt(np.trace(features.gram())) <= np.sqrt(50 * 30)


def test_the_range_of_the_loss_is_attained():
    """MATH, Theorem 3: |ℓ(f) − ℓ(0)| reaches M² + 2√2 M for |f| ≤ M, |y| ≤ √2, so no smaller range will do."""
    m = 10_000
    features = GatedFeatures(np.ones((m, 1)))
    found = generalisation_bound(features, np.full(m, -np.sqrt(2)), [[2 * np.sqrt(2)]], label_bound=np.sqrt(2))
    M = found.radius
    assert pytest.approx(2 * np.sqrt(2)) == M
    assert found.loss_range == pytest.approx(M**2 + 2 * np.sqrt(2) * M)
    assert found.training_loss - 2.0 == pytest.approx(found.loss_range)


def test_the_norm_of_the_solution_is_bounded_by_the_kernel():
    X, delta, rng = unit(8, 20, seed=4), 0.1, np.random.default_rng(19)
    y = rng.uniform(-1, 1, size=8)
    found = generalisation_bound_a_priori(X, y, label_bound=1.0, delta=delta)
    assert found.width == memorisation_width(X, delta / 2).width
    assert found.output**2 == pytest.approx(2 * y @ np.linalg.solve(gate_kernel(X), y), rel=1e-9)
    held = []
    for _ in range(100):
        features = layer(X, found.width, rng)
        weights = least_squares(features, y).weights
        by_hand = features.adjoint(np.linalg.solve(features.gram(), y))
        np.testing.assert_allclose(weights, by_hand, atol=1e-10)
        np.testing.assert_allclose(features @ weights, y, atol=1e-9)
        held.append(np.sqrt(found.width) * np.linalg.norm(weights) <= found.output)
        assert generalisation_bound(features, y, weights, 1.0, delta / 2).bound <= found.bound
    assert np.mean(held) >= 1 - delta / 2


@FEW
@given(st.integers(0, 1000))
def test_linear_labels_have_solutions_of_bounded_norm(seed):
    X = unit(15, 6, seed)
    v = np.random.default_rng(seed + 1).normal(size=6)
    y = X @ v
    output = generalisation_bound_a_priori(X, y, label_bound=np.abs(y).max()).output
    assert output <= np.sqrt(8) * np.linalg.norm(v) * (1 + 1e-9)


@pytest.mark.parametrize(("size", "radius"), [(0.0, 1.0), (0.3, 1.0), (1.0, 1.0), (1.01, 2.0), (2.0, 2.0), (2.01, 4.0)])
def test_radii_are_doublings(size, radius):
    found = generalisation_bound(GatedFeatures(np.ones((5, 1))), np.zeros(5), [[size]], label_bound=1.0)
    assert (found.output, found.radius) == (size, radius)


# Theorem 5


@pytest.mark.parametrize(("d", "epsilon"), [(2, 0.02), (3, 0.05)])
def test_neighbours_share_their_gates(d, epsilon):
    rng, delta = np.random.default_rng(20), 0.1
    found = gate_stability(d, epsilon, delta)
    assert found.sphere_share < found.share < 1
    broken = []
    for _ in range(20):
        U = rng.normal(size=(found.width, d))
        x = unit(500, d, seed=int(rng.integers(10**6)))
        step = rng.normal(size=x.shape)
        step -= np.sum(step * x, axis=1, keepdims=True) * x
        near = x + epsilon * step / np.linalg.norm(step, axis=1)[:, None]
        near /= np.linalg.norm(near, axis=1)[:, None]
        assert np.linalg.norm(near - x, axis=1).max() <= epsilon
        share = np.mean((x @ U.T > 0) != (near @ U.T > 0), axis=1).max()
        broken.append((share > found.share, share > found.sphere_share))
    assert (np.mean(broken, axis=0) <= delta / 2).all()


def test_stable_gates_make_stable_outputs():
    rng, found = np.random.default_rng(21), gate_stability(3, 0.05)
    x = unit(2, 3, seed=22)
    x[1] = x[0] + 0.04 * (x[1] - x[0])
    x /= np.linalg.norm(x, axis=1)[:, None]
    features = layer(x, found.width, rng)
    W = rng.normal(size=(found.width, 3))
    assert abs(np.diff(features @ W)[0]) <= found.output_change(np.linalg.norm(W), found.width)
    assert found.distance == pytest.approx(np.sqrt(found.share))


@FEW
@given(st.integers(2, 2000), st.floats(1e-4, 0.99), st.floats(1e-6, 0.9))
def test_the_share_on_the_sphere_is_the_smaller_one(d, epsilon, delta):
    found = gate_stability(d, epsilon, delta)
    assert min(found.sphere_share, 1.0) <= found.share
    assert found.is_vacuous == (found.share >= 1)


def test_the_lengths_of_the_directions_are_what_the_paper_pays_for():
    rng, found = np.random.default_rng(23), gate_stability(2, 0.02, 0.1)
    long = np.mean((rng.normal(size=(400, 100, 2)) ** 2).sum(axis=2).max(axis=1) > 12)
    assert found.norm_failure(100) == pytest.approx(100 * np.exp(-6))
    assert 0 < long <= 100 * np.exp(-6) + 3 * np.sqrt(0.2 * 0.8 / 400)
    assert found.norm_failure(found.width) == 1.0


def test_the_condition_on_the_width_is_what_hoeffding_needs():
    """MATH, Lemma 11: with B = √(6d), exp(−2k(Bε/√(2π))²) (3/ε)^d ≤ δ/2 from this width on, and not before."""
    for d, epsilon, delta in [(2, 0.02, 0.1), (10, 0.01, 0.05), (50, 0.001, 0.2)]:
        k = gate_stability(d, epsilon, delta).width
        slack = np.sqrt(6 * d) * epsilon / np.sqrt(2 * np.pi)
        log_tail = [d * np.log(3 / epsilon) - 2 * width * slack**2 for width in (k, k - 1)]
        assert log_tail[0] <= np.log(delta / 2) < log_tail[1]
