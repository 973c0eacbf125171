"""Samples in clusters: Theorems 6 and 7 with their lemmas, and the inverses in their proofs."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from implicit_bias import GatedFeatures
from implicit_bias.extensions import galu
from tests.cases import FEW

CENTRES = np.array([[1.0, 1.0, 1.0, 1.0, 1.0], [1.0, -1.0, 1.0, -1.0, 1.0], [1.0, 1.0, -1.0, -1.0, 1.0]])


def test_theorem_7_rank_and_losses():
    """Every exact solution, of least norm or not, predicts new samples in the span of the training samples."""
    delta, rng = 0.05, np.random.default_rng(1)
    plan = galu.cluster_width(CENTRES, delta)
    assert plan.eigenvalue == pytest.approx(np.linalg.eigvalsh(galu.gate_correlations(CENTRES))[0])
    assert plan.width == math.ceil(8 * 3 / plan.eigenvalue * math.log(3 / delta))
    held = []
    for seed in range(5):
        data = galu.linear_clusters(300, CENTRES, plan.radius, seed=seed)
        U = rng.normal(size=(plan.width, 5))
        A = (data.centres @ U.T >= 0).astype(float)
        features = GatedFeatures(data.X, (data.X @ U.T >= 0).astype(float))
        train = features.select(slice(100))
        found = galu.least_squares(train, data.y[:100])
        start = rng.normal(size=found.weights.shape)
        other = found.weights + start - galu.least_squares(train, train @ start).weights
        whole = np.array_equal(features.gate_values, A[data.cluster])
        assert not whole or found.rank == 15
        errors = [np.abs(features @ w - data.y).max() for w in (found.weights, other)]
        good = np.linalg.eigvalsh(A @ A.T)[0] >= plan.width * plan.eigenvalue / 2
        held.append((whole, good, max(errors) < 1e-6))
    assert (np.mean(held, axis=0) >= [0.8, 0.9, 0.8]).all()


def test_lemma_4_of_centres_by_gates():
    """For the n × k matrix A, λ_min(AAᵀ) ≥ kμ/2, whereas AᵀA is singular for n < k."""
    plan, rng = galu.cluster_width(CENTRES, 0.1), np.random.default_rng(3)
    A = (CENTRES @ rng.normal(size=(5, plan.width)) >= 0).astype(float)
    assert A.shape == (3, plan.width)
    assert np.linalg.eigvalsh(A @ A.T)[0] >= plan.width * plan.eigenvalue / 2 > 1
    assert abs(np.linalg.eigvalsh(A.T @ A)[0]) < 1e-9


@FEW
@given(st.integers(2, 500), st.floats(1e-6, 1.0))
def test_lemma_5_bounds_slab_probability(d, r):
    assert galu.slab_probability(d, r) <= r * math.sqrt(d)


def test_slab_probability_by_sampling():
    u = np.random.default_rng(4).normal(size=(50_000, 5))
    inside = np.mean(np.abs(u[:, 0]) <= 0.3 * np.linalg.norm(u, axis=1))
    assert galu.slab_probability(5, 0.3) == pytest.approx(inside, abs=3 * 0.5 / np.sqrt(50_000))
    assert galu.slab_probability(2, 0.5) == pytest.approx(2 / np.pi * math.asin(0.5), rel=1e-14)


def test_lemmas_6_and_7_split_clusters():
    """One gate splits one cluster with a probability of at most δ/(kn), which can exceed the printed δ/(kd); any, δ."""
    n, k, d, delta = 2, 10, 50, 0.9
    r, rng = delta / (n * k * math.sqrt(d)), np.random.default_rng(5)
    across = np.abs(rng.normal(size=(100_000, d)) @ np.eye(d)[0])
    lengths = np.sqrt(across**2 + rng.chisquare(d - 1, size=100_000))
    # Some x within r of v has the other gate if the angle of v to the gate's hyperplane is below that of the cap.
    share = np.mean(np.arcsin(across / lengths) < 2 * math.asin(r / 2))
    assert delta / (k * d) < share <= delta / (k * n)
    assert 1 - (1 - share) ** (k * n) <= delta


def test_theorem_6_samples_span_clusters():
    """With m samples, clusters that are not spanned have a share above ε in at most δ of the draws; m is least."""
    epsilon, delta, d = 0.2, 0.2, 2
    shares = np.array([0.6, 0.25, 0.15])
    m, rng, missed = galu.cluster_samples(3, d, epsilon, delta), np.random.default_rng(6), []
    for _ in range(400):
        seen = np.bincount(rng.choice(3, size=m, p=shares), minlength=3)
        # In general position a cluster is spanned by d samples.
        missed.append(shares[seen < d].sum())
    assert np.mean(np.array(missed) > epsilon) <= delta
    for n, d, e, b in ((4, 20, 0.125, 0.05), (10, 5, 0.25, 1e-6)):
        m = galu.cluster_samples(n, d, e, b)
        assert m <= 2 * (n * d + math.log(1 / b)) / e + 1
        assert m <= 2 * (n * d * math.log(1 / e) + math.log(1 / b)) / e + 1 or e > 1 / math.e
        share, other = Fraction(e), 1 - Fraction(e)
        tails = [sum(math.comb(size, i) * share**i * other ** (size - i) for i in range(n * d)) for size in (m, m - 1)]
        assert tails[0] <= Fraction(b) * Fraction(1 + 1e-9)
        assert tails[1] >= Fraction(b) * Fraction(1 - 1e-9)


@pytest.mark.parametrize("epsilon", [0.3, 1e-12, 1e-100])
def test_cluster_samples_of_one_direction(epsilon):
    """For n = d = 1, m is the least number with (1 − ε)^m ≤ δ, however small ε is."""
    found = galu.cluster_samples(1, 1, epsilon, 0.05)
    assert found == pytest.approx(math.ceil(math.log(0.05) / math.log1p(-epsilon)), rel=1e-9)


def test_lemma_3_is_false_for_two_centres():
    """For n = 2, P(μ < 1/8), by exact counting, exceeds δ at the printed d for small δ, and not at ours."""
    for delta, false in ((1e-3, False), (1e-4, True), (1e-6, True)):
        d = math.ceil(2 * math.log(8 / delta))
        few = Fraction(sum(math.comb(d, j) for j in range(d) if d > 2 * j and 2 * (d - 2 * j) ** 2 > d * d), 2**d)
        assert (few > Fraction(delta)) == false
        large = next(j for j in range(d + 1) if not 2 * (d - 2 * j) ** 2 > d * d)
        for flips, below in ((large - 1, True), (large, False)):
            pair = np.ones((2, d))
            pair[1, :flips] = -1
            assert (np.linalg.eigvalsh(galu.gate_correlations(pair))[0] < 1 / 8) == below
        ours = galu.cluster_dimension(2, delta)
        rare = sum(math.comb(ours, j) for j in range(ours) if ours > 2 * j and 2 * (ours - 2 * j) ** 2 > ours**2)
        assert Fraction(rare, 2**ours) <= Fraction(delta)


@FEW
@given(st.integers(0, 1000), st.integers(1, 8), st.integers(2, 40))
def test_correlations_keep_quarter_of_eigenvalue(seed, n, d):
    C = np.random.default_rng(seed).normal(size=(n, d))
    C /= np.linalg.norm(C, axis=1)[:, None]
    assert np.linalg.eigvalsh(galu.gate_correlations(C))[0] >= np.linalg.eigvalsh(C @ C.T)[0] / 4 - 1e-12


def test_cluster_dimension_of_random_centres():
    n, delta, rng = 12, 0.1, np.random.default_rng(7)
    d = galu.cluster_dimension(n, delta)
    least = [np.linalg.eigvalsh(galu.gate_correlations(rng.choice([-1.0, 1.0], size=(n, d))))[0] for _ in range(50)]
    assert np.mean(np.array(least) >= 1 / 8) >= 1 - delta
    # The printed d is as large from n = 14 on.
    for many, rarely in ((14, 1e-100), (14, 0.5), (1000, 0.05)):
        assert galu.cluster_dimension(many, rarely) <= math.ceil(many**2 / 2 * math.log(2 * many**2 / rarely))


@pytest.mark.parametrize(("n", "d"), [(3, 7), (5, 5)])
def test_orthogonal_inverse_has_n_not_d(n, d):
    """T⁻¹ has n + 1; the d + 1 printed in the proof of Lemma 3 is right only for d = n."""
    T = galu.gate_correlations(3 * np.eye(n, d))
    np.testing.assert_allclose(T, (np.eye(n) + 1) / 4, atol=1e-15)
    np.testing.assert_allclose(T @ galu.orthogonal_inverse(n), np.eye(n), atol=1e-14)
    printed = 4 * np.eye(n) - 4 / (d + 1)
    assert np.allclose(T @ printed, np.eye(n)) == (n == d)


@FEW
@given(st.integers(0, 1000), st.floats(0.01, 0.2))
def test_neumann_series_is_inverse(seed, size):
    """B⁻¹ = A⁻¹Σ((A − B)A⁻¹)ⁿ (Theorem 3); with A⁻¹ on the other side, or B − A, the sum is not the inverse."""
    rng = np.random.default_rng(seed)
    A = np.diag(rng.uniform(1, 3, size=4))
    change = rng.normal(size=(4, 4))
    B = A - size * change / np.linalg.norm(change, 2)
    exact = np.linalg.inv(B)
    for terms in (1, 3, 30):
        found = galu.neumann_inverse(A, B, terms)
        assert np.linalg.norm(found.inverse - exact, 2) <= found.error + 1e-14
    other = np.linalg.inv(A) @ np.linalg.inv(np.eye(4) + (A - B) @ np.linalg.inv(A))
    turned = np.linalg.inv(np.eye(4) - (A - B) @ np.linalg.inv(A)) @ np.linalg.inv(A)
    assert np.linalg.norm(found.inverse - exact) < 1e-9 < np.linalg.norm(other - exact)
    assert np.linalg.norm(turned - exact) > 1e-9
