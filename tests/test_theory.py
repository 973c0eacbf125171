"""The theorems on GaLU hold where they say so, and their printed forms fail where the errata say so."""

import itertools
import math
import re
import runpy
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from implicit_bias import GatedFeatures, InputError, KernelFeatures, least_squares
from implicit_bias.datasets import noisy_clusters, parity, separable
from implicit_bias.kernels import gram_matrix, smallest_eigenvalue
from implicit_bias.theory import (
    a_priori_rate,
    cluster_bounds,
    descent_rate,
    descent_target,
    expected_loss,
    expected_test_loss,
    gate_correlations,
    gate_kernel,
    gate_stability,
    gaussian_gradient,
    generalisation_bound,
    generalisation_bound_a_priori,
    incoherent_dimension,
    initial_gradients,
    memorisation_width,
    neumann_inverse,
    orthogonal_inverse,
    parity_gradient,
)

FEW = settings(max_examples=30, deadline=None, derandomize=True)


def unit(m, d, seed=0):
    X = np.random.default_rng(seed).normal(size=(m, d))
    return X / np.linalg.norm(X, axis=1)[:, None]


def layer(X, k, rng):
    """The features of k gates 1(⟨u, x⟩ > 0) with Gaussian u."""
    return GatedFeatures(X, (X @ rng.normal(size=(k, X.shape[1])).T > 0).astype(float))


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


def test_the_kernel_of_samples_of_other_lengths_is_another():
    """MATH: the formula is for unit vectors; with arccos⟨x, z⟩ of the raw samples it is no mean over gates."""
    x, z = np.array([0.5, 0.0]), np.array([0.3, 0.4])
    U = np.random.default_rng(2).normal(size=(400_000, 2))
    sampled = np.mean((U @ x > 0) & (U @ z > 0)) * (x @ z)
    printed = (0.5 - np.arccos(x @ z) / (2 * np.pi)) * (x @ z)
    ours = 0.25 * gate_kernel([x, z], normalise=True)[0, 1]
    assert ours == pytest.approx(sampled, abs=3 * 0.15 * 0.5 / np.sqrt(400_000))
    assert abs(printed - sampled) > 0.1 * sampled


@FEW
@given(arrays(float, (6, 3), elements=st.floats(-1, 1).filter(lambda x: abs(x) > 1e-3)), st.floats(1e-100, 1e100))
def test_kernels_are_symmetric_nonnegative_and_of_any_scale(X, scale):
    kernel = gate_kernel(X, normalise=True)
    np.testing.assert_array_equal(kernel, kernel.T)
    np.testing.assert_allclose(np.diag(kernel), 0.5, atol=1e-14)
    assert np.linalg.eigvalsh(kernel)[0] > -1e-13
    np.testing.assert_allclose(gate_kernel(scale * X, normalise=True), kernel, atol=1e-13)
    np.testing.assert_allclose(gate_kernel(X[:2], X, normalise=True), kernel[:2], atol=1e-14)


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
        with pytest.raises(InputError, match="0 up to rounding: samples repeat"):
            memorisation_width(rows)


# Lemma 1


def test_memorisation_at_the_width_of_lemma_1():
    X, delta, rng = unit(8, 20, seed=4), 0.1, np.random.default_rng(5)
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


def test_the_wide_matrix_is_bounded_not_the_tall_one():
    """MATH, Lemma 4: AAᵀ has the eigenvalues that are bounded below; AᵀA is singular whenever m < kd."""
    X = unit(3, 4, seed=4)
    lemma = memorisation_width(X, 0.1)
    A = layer(X, lemma.width, np.random.default_rng(6)).dense()
    assert A.shape[0] < A.shape[1]
    assert np.linalg.eigvalsh(A @ A.T)[0] >= lemma.width * lemma.eigenvalue / 2 > 1
    assert abs(np.linalg.eigvalsh(A.T @ A)[0]) < 1e-10


# Theorem 1


def descend(features, y, w, step, steps):
    for _ in range(steps):
        yield w
        w = w - step * 2 / features.n * features.adjoint(features @ w - y)


@pytest.mark.parametrize(("m", "k"), [(20, 12), (60, 3)])
def test_descent_converges_at_the_rate_to_its_target_and_not_to_the_least_norm(m, k):
    """MATH, Theorem 1: the printed bound of ‖w_t − w*‖ is false for a start with a part outside the row space."""
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


def test_the_rate_in_advance_holds_for_the_gates_that_are_drawn():
    X, rng = unit(8, 20, seed=4), np.random.default_rng(11)
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


# Theorem 6


@pytest.mark.parametrize(("n", "d"), [(1, 4), (3, 7), (5, 5)])
def test_the_inverse_of_the_correlations_has_n_in_it_not_d(n, d):
    """MATH, Lemmas 3 and 10: printed d + 1, right only if d = n."""
    T = gate_correlations(3 * np.eye(n, d))
    np.testing.assert_allclose(T, (np.eye(n) + 1) / 4, atol=1e-15)
    np.testing.assert_allclose(T @ orthogonal_inverse(n), np.eye(n), atol=1e-14)
    printed = 4 * np.eye(n) - 4 / (d + 1)
    assert np.allclose(T @ printed, np.eye(n)) == (n == d)


def test_correlations_are_shares_of_open_gates():
    C = np.random.default_rng(24).normal(size=(4, 6))
    G = (np.random.default_rng(25).normal(size=(200_000, 6)) @ C.T > 0).astype(float)
    np.testing.assert_allclose(gate_correlations(C), G.T @ G / len(G), atol=4 * 0.5 / np.sqrt(len(G)))


@FEW
@given(st.integers(0, 1000), st.integers(2, 8), st.integers(2, 400))
def test_cluster_bounds_are_bounds(seed, n, d):
    C = np.random.default_rng(seed).normal(size=(n, d))
    bounds = cluster_bounds(C)
    assert bounds.gates <= np.linalg.eigvalsh(gate_correlations(C))[0] + 1e-12
    assert bounds.kernel <= smallest_eigenvalue(gram_matrix(C, normalise=True)).value + 1e-12
    assert bounds.say_something == (bounds.gates > 0 and bounds.kernel > 0)


@pytest.mark.parametrize("kind", ["gaussian", "signs"])
def test_random_centres_are_incoherent_in_enough_dimensions(kind):
    """MATH, Lemma 10: Hoeffding and a union over pairs; at a sixteenth of the dimension it fails."""
    n, delta, rng = 5, 0.1, np.random.default_rng(26)
    d = incoherent_dimension(n, delta)
    assert d <= 8 * n**2 * np.log(2 * n**2 / delta)

    def coherent(inputs):
        draws = (rng.normal(size=(n, inputs)) for _ in range(200))
        centres = draws if kind == "gaussian" else (np.sign(C) for C in draws)
        return np.mean([cluster_bounds(C).coherence <= 1 / (2 * n) for C in centres])

    assert coherent(d) >= 1 - delta
    assert coherent(d // 16) < 1 - delta
    assert 0.25 - (n - 1) * np.arcsin(1 / (2 * n)) / (2 * np.pi) > 1 / 6


@FEW
@given(st.integers(0, 1000), st.floats(0.01, 0.2))
def test_the_neumann_series_is_the_inverse(seed, size):
    """MATH, Theorem 3: B⁻¹ = A⁻¹Σ((A − B)A⁻¹)ⁿ; with A on the other side, or B − A, it is not."""
    rng = np.random.default_rng(seed)
    A = np.diag(rng.uniform(1, 3, size=4))
    change = rng.normal(size=(4, 4))
    B = A - size * change / np.linalg.norm(change, 2)
    exact = np.linalg.inv(B)
    for terms in (1, 3, 30):
        found = neumann_inverse(A, B, terms)
        assert np.linalg.norm(found.inverse - exact, 2) <= found.error + 1e-14
    other = np.linalg.inv(A) @ np.linalg.inv(np.eye(4) + (A - B) @ np.linalg.inv(A))
    turned = np.linalg.inv(np.eye(4) - (A - B) @ np.linalg.inv(A)) @ np.linalg.inv(A)
    assert np.linalg.norm(found.inverse - exact) < 1e-9 < np.linalg.norm(other - exact)
    assert np.linalg.norm(turned - exact) > 1e-9


# Theorem 4


def test_gaussian_gradients_are_the_expected_ones_for_every_gate():
    rng, m, d = np.random.default_rng(27), 200_000, 6
    X, U = rng.normal(size=(m, d)), rng.normal(size=(3, d))
    target = unit(1, d, seed=28)[0]
    y = np.where(X @ target > 0, 1.0, -1.0)
    expected = gaussian_gradient(5 * target)
    np.testing.assert_allclose(expected.mean, target / np.sqrt(2 * np.pi), atol=1e-15)
    alpha = np.array([1.0, -2.0, 0.5])
    for loss, c in (("hinge", 1.0), ("logistic", 0.5)):
        found = initial_gradients(X, y, U, alpha, loss) / (-c * alpha[:, None])
        deviation = np.sqrt(0.5 / m)
        assert np.abs(found - expected.mean).max() < 3.5 * deviation
    single = y[:, None] * (X @ U[0] > 0)[:, None] * X - expected.mean
    assert np.mean(np.sum(single**2, axis=1)) == pytest.approx(expected.noise, rel=0.02)
    assert expected.samples == pytest.approx(2 * np.pi * (d / 2 - 1 / (2 * np.pi)))


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_relu_and_galu_networks_start_with_these_gradients(loss):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(29)
    X, U = rng.normal(size=(40, 5)), rng.normal(size=(3, 5))
    U = np.vstack([U, U])
    y, alpha = np.where(rng.normal(size=40) > 0, 1.0, -1.0), np.repeat([0.3, -0.3], 3)
    inputs, labels = torch.tensor(X), torch.tensor(y)

    def gradient(output, weights):
        margins = labels * output
        assert float(margins.detach().abs().max()) < 1e-12
        losses = torch.relu(1 - margins) if loss == "hinge" else torch.nn.functional.softplus(-margins)
        losses.mean().backward()
        return weights.grad.numpy()

    relu = torch.tensor(U, requires_grad=True)
    galu = torch.tensor(U, requires_grad=True)
    opened = (inputs @ torch.tensor(U).T > 0).double()
    expected = initial_gradients(X, y, U, alpha, loss)
    readout = torch.tensor(alpha)
    np.testing.assert_allclose(gradient(torch.relu(inputs @ relu.T) @ readout, relu), expected, atol=1e-12)
    np.testing.assert_allclose(gradient((opened * (inputs @ galu.T)) @ readout, galu), expected, atol=1e-12)


def test_parity_gradients_are_fourier_coefficients():
    u = np.random.default_rng(30).normal(size=6)
    X = np.array(list(itertools.product([1.0, -1.0], repeat=6)))
    opened = X @ u > 0
    for bits in range(1, 7):
        y = X[:, :bits].prod(axis=1)
        found = parity_gradient(u, bits)
        np.testing.assert_array_equal(found.mean, np.mean((y * opened)[:, None] * X, axis=0))
        rows = (y * opened)[:, None] * X - found.mean
        assert found.noise == pytest.approx(np.mean(np.sum(rows**2, axis=1)), rel=1e-12)


def test_parity_gradients_are_the_means_of_samples():
    u, m = np.random.default_rng(31).normal(size=18), 400_000
    X, y = parity(m, 18, 3, seed=32)
    found = -initial_gradients(X, y, u[None])[0]
    assert np.abs(found - parity_gradient(u, 3).mean).max() < 3.5 * np.sqrt(0.5 / m)


def test_parity_gradients_are_exponentially_small():
    d, b = 10, 5
    u = np.random.default_rng(33).normal(size=d)
    sets = itertools.combinations(range(d), b)
    orders = ([*chosen, *(i for i in range(d) if i not in chosen)] for chosen in sets)
    sizes = [np.sum(parity_gradient(u[order], b).mean ** 2) for order in orders]
    assert np.mean(sizes) <= (b + 1) / (2 * math.comb(d, b))
    assert not any(parity_gradient(u, odd).mean.any() for odd in (3, 5, 7, 9))
    assert parity_gradient(np.zeros(3), 1).samples == np.inf


def test_ties_of_sums_are_closed_gates():
    shares = parity_gradient([0.1, 0.2, -0.3], 1)
    integers = parity_gradient([1, 2, -3], 1)
    np.testing.assert_array_equal(shares.mean, integers.mean)


# Synthetic tasks


def test_clusters_keep_their_draws_whatever_the_noise():
    quiet = noisy_clusters(500, 4, 3, 0.0, 0.0, seed=1)
    loud = noisy_clusters(500, 4, 3, 0.2, 0.5, seed=1)
    np.testing.assert_array_equal(quiet.X, quiet.centres[quiet.cluster])
    np.testing.assert_array_equal(quiet.cluster, loud.cluster)
    assert np.std(loud.X - quiet.X) == pytest.approx(0.2, rel=0.05)
    assert np.std(loud.y - quiet.y) == pytest.approx(0.5, rel=0.1)
    assert len(set(quiet.y)) == 4
    again = noisy_clusters(500, 4, 3, 0.2, 0.5, seed=1)
    assert all(np.array_equal(a, b) for a, b in zip(loud, again, strict=True))


def test_flipped_labels():
    kept, flipped = noisy_clusters(20_000, 6, 3, flip=0.0, seed=2), noisy_clusters(20_000, 6, 3, flip=0.2, seed=2)
    assert set(kept.y) <= {-1.0, 1.0}
    assert all(len(set(kept.y[kept.cluster == i])) == 1 for i in range(6))
    assert np.mean(kept.y != flipped.y) == pytest.approx(0.2, abs=3 * 0.4 / np.sqrt(20_000))
    np.testing.assert_array_equal(noisy_clusters(50, 6, 3, flip=1.0).y, -noisy_clusters(50, 6, 3, flip=0.0).y)


@pytest.mark.parametrize("margin", [0.0, 0.5, 6.0])
def test_separable_samples_keep_the_margin_and_the_distribution(margin):
    X, y = separable(4000, 3, margin, seed=3)
    # The direction is drawn first, from the same seed.
    w = np.random.default_rng(3).normal(size=3)
    along = X @ (w / np.linalg.norm(w))
    assert (y * along).min() >= margin - 1e-12
    across = np.eye(3)[0] - (w[0] / (w @ w)) * w
    assert stats.kstest(X @ across / np.linalg.norm(across), "norm").pvalue > 1e-3
    tail = lambda t: 1 - stats.norm.sf(t) / stats.norm.sf(margin)  # noqa: E731
    assert stats.kstest(y * along, tail).pvalue > 1e-3


# The scripts of the errata


def printed(name, capsys):
    """The numbers in each line of what a script prints."""
    runpy.run_path(str(Path(__file__).parent.parent / "docs" / "errata" / f"galu_{name}.py"))
    lines = capsys.readouterr().out.splitlines()
    return [[float(number) for number in re.findall(r"\d+\.\d+(?:e-\d+)?", line)] for line in lines]


def test_the_script_on_the_kernel(capsys):
    (sampled,), (ours,), (raw,) = printed("kernel", capsys)
    assert sampled == pytest.approx(ours, abs=2e-4)
    assert abs(raw - sampled) > 0.01


def test_the_script_on_descent(capsys):
    _, first, middle, last = printed("descent", capsys)
    assert first[0] == first[1]
    assert middle[0] > middle[1]
    assert last[0] > 1e5 * last[1]
    assert all(ours <= bound for *_, ours, bound in (first, middle, last))


def test_the_script_on_the_inverse(capsys):
    ours, with_d = zip(*printed("inverse", capsys), strict=True)
    assert not any(ours)
    assert [error > 0.5 for error in with_d] == [False, True, True]


# Refusals


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: gate_kernel([[1.0, 0.0], [2.0, 0.0]]), r"row 1 of X has length 2, .* normalise=True"),
        (lambda: gate_kernel([[1.0]], [[0.5]]), "row 0 of Z has length 0.5"),
        (lambda: gate_kernel([[1.0]], [[1.0, 0.0]]), "X has 1 columns and Z has 2"),
        (lambda: memorisation_width([[1.0], [0.0]], normalise=True), "row 1 of X is zero"),
        (lambda: memorisation_width([[np.nan]]), "NaN"),
        (lambda: memorisation_width([[1.0]], 1.0), "delta must be a number strictly between 0 and 1, not 1.0"),
        (lambda: memorisation_width([[1.0]], True), "delta must be a number"),
        (lambda: memorisation_width([[1.0]], 1e-200), r"strictly between 0 and 1 \(at least 1e-100\)"),
        (lambda: expected_test_loss(10, 2, 1e200), "sigma have sizes"),
        (lambda: generalisation_bound(GatedFeatures([[1.0]]), [0.0], [[1e200]], 1.0), "outputs .* have sizes"),
        (lambda: gate_stability(10**400, 0.1), "a direction would hold far too many"),
        (lambda: orthogonal_inverse(10**6), "the inverse would hold"),
        (lambda: incoherent_dimension(10**6), "the correlations would hold"),
        (lambda: a_priori_rate(unit(4, 3), 1), "k = 1 gates are too few for a rate in advance; take more than"),
        (lambda: a_priori_rate(unit(4, 3), 0), "k must be a whole number"),
        (lambda: descent_rate(GatedFeatures([[0.0]])), "all zero"),
        (lambda: descent_rate(GatedFeatures([[1.0]])).steps(0), "share must be"),
        (lambda: descent_target(GatedFeatures([[1.0]]), [1.0], [[np.inf]]), "w0 holds NaN"),
        (lambda: descent_target(GatedFeatures([[1.0]]), [1.0], [1.0]), r"w0 must have shape \(1, 1\)"),
        (lambda: descent_target(GatedFeatures([[1.0]]), [1.0, 2.0], [[1.0]]), "y must have shape"),
        (lambda: expected_test_loss(10, 2, 0), "sigma must be a positive"),
        (lambda: generalisation_bound(GatedFeatures([[2.0]]), [1.0], [[1.0]], 1.0), "length at most 1"),
        (lambda: generalisation_bound(GatedFeatures([[1.0]], [[-2.0]]), [1.0], [[1.0]], 1.0), "gate values"),
        (lambda: generalisation_bound(GatedFeatures([[1.0]]), [2.0], [[1.0]], 1.0), "y reaches 2, beyond label_bound"),
        (lambda: generalisation_bound(GatedFeatures([[1.0]]), [1.0], [[np.nan]], 1.0), "weights hold NaN"),
        (lambda: generalisation_bound(GatedFeatures([[1.0]]), [1.0, 1.0], [[1.0]], 1.0), "2 labels for 1 samples"),
        (lambda: generalisation_bound_a_priori([[1.0]], [1.0], -1.0), "label_bound must be a positive"),
        (lambda: gate_stability(1, 0.1), "d must be a whole number of at least 2"),
        (lambda: gate_stability(3, 1.5), "epsilon must be"),
        (lambda: gate_stability(3, 0.1).output_change(0.0, 5), "weight_norm must be"),
        (lambda: cluster_bounds([[0.0, 0.0]]), "row 0 of centres is zero"),
        (lambda: incoherent_dimension(1), "n must be a whole number of at least 2"),
        (lambda: orthogonal_inverse(0), "n must be"),
        (lambda: neumann_inverse([[1.0]], [[3.0]]), "needs less than 1"),
        (lambda: neumann_inverse([[0.0]], [[3.0]]), "A has no inverse"),
        (lambda: neumann_inverse([[1.0, 2.0]], [[3.0, 1.0]]), "must be square"),
        (lambda: neumann_inverse([[1.0]], [[1.0]], 0), "terms must be"),
        (lambda: initial_gradients([[1.0]], [2.0], [[1.0]]), "must hold −1 and"),
        (lambda: initial_gradients([[1.0]], [1.0], [[1.0, 2.0]]), "directions must have the 1 columns"),
        (lambda: initial_gradients([[1.0]], [1.0], [[1.0]], [1.0, 2.0]), "readout must have 1 numbers"),
        (lambda: initial_gradients([[1.0]], [1.0], [[1.0]], loss="square"), "unknown loss 'square'; known: hinge"),
        (lambda: gaussian_gradient([0.0, 0.0]), "target is all zeros"),
        (lambda: parity_gradient(np.ones(21), 2), "at most 20"),
        (lambda: parity_gradient([1.0, 1.0], 3), "bits must be at most d = 2"),
        (lambda: noisy_clusters(5, 2, 2, -0.1), "sigma_x must be a number of at least 0"),
        (lambda: noisy_clusters(5, 2, 2, sigma_y="a"), "sigma_y must be"),
        (lambda: noisy_clusters(5, 2, 2, sigma_y=0.1, flip=0.1), "not both"),
        (lambda: noisy_clusters(5, 2, 2, flip=2), "flip must be a number from 0 to 1"),
        (lambda: noisy_clusters(10**9, 2, 10**3), "the samples would hold"),
        (lambda: separable(5, 2, 100), "margin must be at most 35"),
        (lambda: parity(5, 2, 3), "bits must be at most d = 2"),
    ],
)
def test_bad_input_is_refused(call, words):
    with pytest.raises(InputError, match=words):
        call()


# Found by tests/fuzz/reliability.py


def test_descent_whose_rate_is_1_up_to_rounding():
    found = descent_rate(GatedFeatures([[1.0, 0.0], [0.0, 5e-9]]))
    assert found.rate == 1.0
    assert found.steps(0.5) == pytest.approx(np.log(2) * 4e16, rel=1e-6)


@pytest.mark.parametrize(
    "call",
    [
        lambda: expected_loss(np.eye(2)),
        lambda: expected_loss(KernelFeatures(np.ones((2, 1, 1)))),
        lambda: descent_rate("features"),
        lambda: descent_rate(GatedFeatures([[1e200]])),
        lambda: descent_target(np.eye(2), [1.0, 1.0], [[1.0, 1.0]]),
        lambda: generalisation_bound(np.eye(2), [1.0, 1.0], [[1.0, 1.0]], 1.0),
        lambda: descent_rate(GatedFeatures(np.eye(2))).steps(10**400),
        lambda: memorisation_width(np.eye(2), 10**400),
        lambda: memorisation_width(np.eye(2)).failure(10**400),
        lambda: a_priori_rate(np.eye(2), 10**400),
        lambda: expected_test_loss(10**400, 2),
        lambda: gate_stability(3, 0.1).output_change(1.0, 10**400),
        lambda: neumann_inverse([[1e300]], [[1e300]]),
    ],
)
def test_odd_input_is_refused(call):
    with pytest.raises(InputError):
        call()
