"""The kernel of gates, widths that memorise, and the rate of descent (Lemmas 1, 2, Theorem 1, Corollary 1)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from implicit_bias import GatedFeatures, InputError
from implicit_bias.extensions.galu import (
    a_priori_rate,
    corollary_samples,
    descent_rate,
    descent_target,
    fitted_samples,
    gate_kernel,
    least_squares,
    memorisation_width,
    sphere_width,
)
from implicit_bias.extensions.infinite import gram_matrix, smallest_eigenvalue
from tests.cases import FEW, layer, unit

# The kernel


@pytest.mark.parametrize("angle", [0.0, 1e-3, 0.5, np.pi / 2, 2.0, np.pi - 1e-3, np.pi])
def test_the_kernel_is_the_mean_over_gaussian_gates(angle):
    X = np.array([[1.0, 0.0, 0.0], [np.cos(angle), np.sin(angle), 0.0]])
    draws = 400_000
    both = (np.random.default_rng(1).normal(size=(draws, 3)) @ X.T > 0).all(axis=1) * np.cos(angle)
    error = 3 * np.sqrt(both.var() / draws) + 3 / draws
    assert gate_kernel(X)[0, 1] == pytest.approx(both.mean(), abs=error)


def test_the_kernel_is_exact_where_arccos_is_not():
    small = np.array([1e-4, 1e-8, 1e-12])
    near = np.stack([np.cos(small), np.sin(small)], axis=1)
    slope = (0.5 - gate_kernel([[1.0, 0.0]], near)[0] / np.cos(small)) * 2 * np.pi
    np.testing.assert_allclose(slope, small, atol=2e-15)
    far = gate_kernel([[1.0, 0.0]], -near)[0]
    np.testing.assert_allclose(far, -small / (2 * np.pi), atol=1e-16, rtol=1e-6)


def test_the_kernel_of_samples_of_other_lengths():
    """Section 3.2 prints arccos⟨x, z⟩, which is no mean over gates unless x and z have length 1."""
    x, z = np.array([0.5, 0.0]), np.array([0.3, 0.4])
    U = np.random.default_rng(2).normal(size=(400_000, 2))
    sampled = np.mean((U @ x > 0) & (U @ z > 0)) * (x @ z)
    printed = (0.5 - np.arccos(x @ z) / (2 * np.pi)) * (x @ z)
    assert gate_kernel([x, z])[0, 1] == pytest.approx(sampled, abs=3 * 0.15 * 0.5 / np.sqrt(400_000))
    assert abs(printed - sampled) > 0.1 * sampled


@FEW
@given(arrays(float, (6, 3), elements=st.floats(-1, 1).filter(lambda x: abs(x) > 1e-3)), st.floats(1e-50, 1e50))
def test_kernels_are_symmetric_nonnegative_and_homogeneous(X, scale):
    kernel = gate_kernel(X)
    np.testing.assert_array_equal(kernel, kernel.T)
    np.testing.assert_allclose(np.diag(kernel), 0.5 * np.sum(X**2, axis=1), rtol=1e-14)
    assert np.linalg.eigvalsh(kernel)[0] > -1e-13
    np.testing.assert_allclose(gate_kernel(scale * X) / scale**2, kernel, atol=1e-13)
    np.testing.assert_allclose(gate_kernel(X[:2], X), kernel[:2], atol=1e-14)


def test_the_smallest_eigenvalue_is_the_limit_of_sampled_ones():
    X = unit(8, 20)
    exact = smallest_eigenvalue(gram_matrix(X))
    sampled = np.linalg.eigvalsh(layer(X, 200_000, np.random.default_rng(3)).gram() / 200_000)[0]
    assert exact.is_positive
    assert exact.error < 1e-12
    assert sampled == pytest.approx(exact.value, abs=3e-3)
    assert str(exact).startswith(f"λ_min = {exact.value:.6g} ± ")


def test_the_smallest_eigenvalue_is_zero_for_repeated_samples_and_dependent_antipodal_pairs():
    X = unit(3, 2)
    assert smallest_eigenvalue(gram_matrix(X)).is_positive
    assert smallest_eigenvalue(gram_matrix(np.vstack([X[:2], -X[:2]]))).is_positive
    for rows in (np.vstack([X, X[:1]]), np.vstack([X, -X])):
        found = smallest_eigenvalue(gram_matrix(rows))
        assert not found.is_positive
        assert str(found).startswith("λ_min is 0 up to ±")
        with pytest.raises(InputError, match="0 up to rounding: samples share a direction"):
            memorisation_width(rows)


# Lemma 1


@pytest.mark.parametrize("spread", [0.0, 0.3])
def test_memorisation_at_the_width_of_lemma_1(spread):
    """On the sphere, and for samples of other lengths."""
    X, delta, rng = unit(8, 20, seed=4), 0.1, np.random.default_rng(5)
    X = X * np.exp(spread * rng.normal(size=8))[:, None]
    lemma = memorisation_width(X, delta)
    assert lemma.failure(lemma.width) <= delta < lemma.failure(lemma.width - 1)
    kernel = gate_kernel(X)
    root = np.linalg.cholesky(np.linalg.inv(kernel))
    held = []
    for _ in range(200):
        gram = layer(X, lemma.width, rng).gram()
        relative = np.linalg.eigvalsh(root.T @ gram @ root)[0] / lemma.width
        held.append((relative >= 0.5, np.linalg.eigvalsh(gram)[0] >= lemma.width * lemma.eigenvalue / 2))
    assert (np.mean(held, axis=0) >= 1 - delta).all()


@pytest.mark.parametrize("seed", [1, 6, 7])
def test_widths_count_the_rounding_of_the_smallest_eigenvalue(seed):
    """Two samples so close that doubles leave few digits of λ(X), whose value multiprecision tells."""
    X = unit(5, 3, seed)
    X[1] = X[0] + 1e-12 * X[2]
    X[1] /= np.linalg.norm(X[1])
    exact = smallest_eigenvalue(gram_matrix(X, digits=40)).value
    lemma = memorisation_width(X, 0.1)
    assert 0 < lemma.eigenvalue <= exact < smallest_eigenvalue(gram_matrix(X)).value
    assert lemma.width >= 8 * np.linalg.norm(X, 2) ** 2 / float(exact) * np.log(5 / 0.1)


# Theorem 1


def descend(features, y, w, step, steps):
    for _ in range(steps):
        yield w
        w = w - step * 2 / features.n * features.adjoint(features @ w - y)


@pytest.mark.parametrize(("m", "k"), [(20, 12), (60, 3)])
def test_descent_converges_at_the_rate_to_its_target_and_not_to_the_least_norm(m, k):
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
def test_rates_come_from_the_singular_values(shape):
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
def test_the_rate_in_advance_holds_for_the_gates_that_are_drawn(length):
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


def test_theorem_1_the_loss_after_its_number_of_steps():
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


# Lemma 2, Corollary 1


@pytest.mark.parametrize(("m", "d"), [(20, 10), (40, 40), (60, 20)])
def test_the_khatri_rao_eigenvalue_is_below_that_of_the_kernel(m, d):
    X, delta = unit(m, d, seed=m), 0.1
    rows = np.einsum("ij,ik->ijk", X, X).reshape(m, -1)
    found = sphere_width(X, delta)
    assert found.c1 == pytest.approx(np.linalg.svd(rows, compute_uv=False)[-1], rel=1e-8)
    assert found.eigenvalue <= np.linalg.eigvalsh(gate_kernel(X))[0]
    assert memorisation_width(X, delta).width <= found.width
    printed = 64 * np.pi / found.c1**2 * m / d * np.log(m / delta)
    assert (found.width <= printed + 1) == (found.spread <= 2)


def test_widths_on_the_sphere_fit_random_labels():
    X, delta, rng = unit(12, 12, seed=5), 0.1, np.random.default_rng(40)
    found = sphere_width(X, delta)
    least = [np.linalg.eigvalsh(layer(X, found.width, rng).gram())[0] for _ in range(20)]
    assert np.mean(np.array(least) >= found.width * found.c1**2 / (4 * np.pi)) >= 1 - delta


@pytest.mark.parametrize("k", [10, 200, 700, 10_000])
def test_corollary_1_for_samples_at_hand(k):
    X, delta, rng = unit(15, 10, seed=6), 0.1, np.random.default_rng(41)
    found = fitted_samples(X, k, delta)
    fits = [memorisation_width(X[:m], delta).width <= k for m in range(1, 16)]
    assert found.fitted == sum(fits)
    assert fits == sorted(fits, reverse=True)
    ranks = [np.linalg.matrix_rank(layer(X, k, rng).dense()) for _ in range(5)]
    assert min(ranks) >= found.fitted
    assert found.loss == 1 - found.fitted / 15


def test_the_printed_corollary_is_weaker_than_that_of_the_samples():
    X = unit(100, 40, seed=7)
    for k in (5_000, 50_000):
        ours = fitted_samples(X, k).fitted
        printed = corollary_samples(k, 40, sphere_width(X).c1, 100 / 40**2)
        # The corollary does not ask for m' ≤ m, and its bound 1 − m'/m can be negative.
        assert min(printed, 100) <= ours
    assert 1 - printed / 100 < 0
