"""Least squares on gated features against dense algebra."""

import numpy as np
import pytest

from implicit_bias import GatedFeatures, InputError, KernelFeatures, ReLUGates
from implicit_bias.extensions.galu import alternate_convex_search, improve_filters, least_squares
from implicit_bias.extensions.galu.closed_form import _by_cholesky, _Spectrum, singular_extent
from tests.cases import drawn

GATES = ["hard", "soft", "contexts", "real"]
SIZES = [(60, 5, 3), (60, 5, 12), (60, 5, 13), (50, 10, 30), (64, 8, 8), (3, 4, 6), (30, 1, 1)]


@pytest.mark.parametrize(
    ("gates", "size"),
    [(GATES[i % 4], size) for i, size in enumerate(SIZES)] + [("soft", SIZES[0]), ("real", SIZES[1])],
    ids=str,
)
def test_is_the_dense_pseudo_inverse(size, gates):
    for seed in range(3):
        features, y = drawn(*size, seed, gates)
        dense = features.dense()
        expected = np.linalg.pinv(dense, rcond=1e-9) @ y
        found = least_squares(features, y)
        np.testing.assert_allclose(found.weights.ravel(), expected, rtol=0, atol=1e-8 * np.linalg.norm(expected))
        best = np.mean((dense @ expected - y) ** 2)
        assert found.loss == pytest.approx(best, rel=1e-8, abs=1e-12)
        assert 0 <= found.gap < 1e-12
        sizes = np.linalg.svd(dense, compute_uv=False)
        counted = sizes[sizes > 1e-9 * sizes[0]]
        assert found.rank == len(counted)
        assert singular_extent(features) == pytest.approx((sizes[0], counted[-1]), rel=1e-7)
        assert 0.8 <= found.condition / (sizes[0] / counted[-1]) <= 1 + 1e-7


@pytest.mark.parametrize(
    ("ridge", "size"), [([1e-6, 1e-2, 10.0][i % 3], size) for i, size in enumerate(SIZES)], ids=str
)
def test_ridge_is_the_dense_solution(size, ridge):
    features, y = drawn(*size, 0)
    dense, m = features.dense(), size[0]
    expected = np.linalg.solve(dense.T @ dense + m * ridge * np.eye(dense.shape[1]), dense.T @ y)
    found = least_squares(features, y, ridge=ridge)
    np.testing.assert_allclose(found.weights.ravel(), expected, atol=1e-8 * max(np.linalg.norm(expected), 1e-3))
    assert found.ridge == ridge


@pytest.mark.parametrize(("units", "shift"), [(20, 0.0), (20, 6.0), (5, 0.0), (12, 0.1), (11, 0.5), (13, 0.0)])
def test_both_ways_of_solving_agree(units, shift):
    """Cholesky's bound is below the least eigenvalue and not far; it returns None if rank is lost without a shift."""
    for seed in range(8):
        features, y = drawn(60, 5, units, seed)
        expected = _Spectrum.of(*features.reduced()).factor(shift, 1e-9)
        found = _by_cholesky(features, None, shift, 1e-9)
        assert (found is None) == (shift == 0 and expected.rank < min(60, 5 * units))
        if found is not None:
            assert expected.modulus / 50 <= found.modulus <= max(shift, expected.modulus)
            assert 0.8 * expected.condition <= found.condition <= expected.condition * (1 + 1e-9)
            pairs = zip(found.solve(y[:, None]), expected.solve(y[:, None]), strict=True)
            for one, other in pairs:
                np.testing.assert_allclose(one, other @ expected.back.T if one.ndim == 3 else other, atol=1e-9)


@pytest.mark.parametrize("scale", [1e-100, 1e8])
def test_scaling_inputs_and_targets_scales_the_solution(scale):
    features, y = drawn(60, 5, 12, 0)
    base = least_squares(features, y)
    larger = least_squares(features.scaled(scale), y)
    np.testing.assert_allclose(larger.weights * scale, base.weights, rtol=1e-6)
    assert larger.rank == base.rank
    steep = least_squares(features, y * min(scale, 1e50))
    np.testing.assert_allclose(steep.weights / min(scale, 1e50), base.weights, rtol=1e-6)


@pytest.mark.parametrize("span", [4, 6])
def test_labels_that_can_be_fitted_are_fitted_whatever_the_condition(span):
    """The loss is 0 to 1e-20 for inputs of sizes 1 to 10^−span, with condition numbers up to 3e6."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24, 6)) * np.logspace(0, -span, 6)
    features, y = GatedFeatures(X, rng.random((24, 5)) < 0.6), rng.normal(size=24)
    found = least_squares(features, y)
    assert (found.form, found.rank) == ("samples", 24)
    assert found.condition > 1e4
    assert max(found.loss, found.gap) <= 1e-20


@pytest.mark.parametrize("ridge", [0.0, 1e-30, 1e-23, 1e-10])
@pytest.mark.parametrize("e", [1e-6, 5e-10, 1e-10, 1e-12])
def test_the_gap_counts_singular_values_that_are_left_out(e, ridge):
    """For two nearly equal samples with opposite targets, objective − gap is at most the minimum, ρ/(e² + ρ)."""
    found = least_squares(GatedFeatures([[1.0, e], [1.0, -e]], np.ones((2, 1))), [1.0, -1.0], ridge=ridge)
    least, objective = ridge / (e**2 + ridge), found.loss + ridge * found.norm**2
    assert objective - found.gap <= least * (1 + 1e-12)
    assert found.rank == 2 or ridge == 0
    if found.rank == 2:
        assert objective == pytest.approx(least, rel=1e-9, abs=1e-30)
        assert found.gap <= 1e-25


def test_several_targets_are_solved_each_for_itself():
    features, y = drawn(40, 4, 6, 0)
    Y = np.stack([y, 2 * y, np.roll(y, 1)], axis=1)
    found = least_squares(features, Y)
    assert found.weights.shape == (3, 6, 4)
    single = [least_squares(features, column) for column in Y.T]
    np.testing.assert_allclose(found.weights, [one.weights for one in single], atol=1e-10)
    assert found.loss == pytest.approx(sum(one.loss for one in single))


def test_dependent_inputs_and_closed_gates_get_the_least_norm():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3)) @ rng.normal(size=(3, 7))
    G = np.hstack([rng.integers(0, 2, size=(80, 4)), np.zeros((80, 2))])
    features, y = GatedFeatures(X, G), rng.normal(size=80)
    expected = np.linalg.pinv(features.dense(), rcond=1e-9) @ y
    found = least_squares(features, y)
    np.testing.assert_allclose(found.weights.ravel(), expected, atol=1e-9 * np.linalg.norm(expected))
    assert found.rank == np.linalg.matrix_rank(features.dense())
    assert not found.weights[4:].any()


def test_kernel_features():
    features = KernelFeatures(np.random.default_rng(0).normal(size=(30, 4, 3)))
    y = np.random.default_rng(1).normal(size=30)
    found = least_squares(features, y)
    np.testing.assert_allclose(found.weights.ravel(), np.linalg.lstsq(features.dense(), y)[0], atol=1e-10)


FEATURES, TARGETS = drawn(20, 3, 4, 0)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: least_squares(np.ones((3, 3)), np.ones(3)), "GatedFeatures"),
        (lambda: least_squares(FEATURES, TARGETS[:-1]), "19 targets for 20"),
        (lambda: least_squares(FEATURES, TARGETS, ridge=-1.0), "ridge"),
        (lambda: least_squares(FEATURES, TARGETS, tol=1e-15), "between 1e-10 and 0.1"),
        (lambda: least_squares(GatedFeatures(np.ones((2, 2)), np.zeros((2, 3))), [1, 2]), "every gate is closed"),
        (lambda: least_squares(FEATURES, TARGETS * 1e200), "rescale"),
        (lambda: improve_filters(FEATURES.X, TARGETS), "either units"),
        (lambda: improve_filters(FEATURES.X, TARGETS, directions=np.ones((2, 4))), "3 columns"),
        (lambda: improve_filters(FEATURES.X, TARGETS, 0.5), "units"),
        (lambda: alternate_convex_search(FEATURES.X, TARGETS), "GatedFeatures"),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(InputError, match=words):
        call()


@pytest.mark.long
def test_twenty_thousand_samples_and_features():
    rng = np.random.default_rng(0)
    X, U = rng.normal(size=(20_000, 40)), rng.normal(size=(600, 40))
    features, y = ReLUGates(U)(X), rng.normal(size=20_000)
    found = least_squares(features, y)
    assert found.rank == 20_000
    assert found.loss < 1e-20


# Found by tests/fuzz/reliability.py


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_sizes_whose_squares_leave_floating_point(scale):
    rng = np.random.default_rng(0)
    X, y, G = rng.normal(size=(30, 3)), rng.normal(size=30), rng.integers(0, 2, size=(30, 2))
    plain, scaled = least_squares(GatedFeatures(X, G), y), least_squares(GatedFeatures(scale * X, G), y)
    np.testing.assert_allclose(scaled.weights * scale, plain.weights, rtol=1e-9)
    with pytest.raises(InputError, match="rescale"):
        alternate_convex_search(GatedFeatures(scale * X, G), y)


@pytest.mark.parametrize(
    "call",
    [
        lambda X: least_squares(GatedFeatures(X), [1.0, 2.0], ridge=1e200),
        lambda X: least_squares(GatedFeatures(1e-250 * X), [1e100, 1e100]),
        lambda X: least_squares(GatedFeatures(X), [1.0, [2.0, 3.0]]),
        lambda X: improve_filters(0 * X, [1.0, 2.0], 2),
        lambda X: improve_filters(X, [1.0, 2.0], 2**31),
        lambda X: alternate_convex_search(GatedFeatures(1e-100 * X), [1.0, 2.0]),
        lambda X: alternate_convex_search(GatedFeatures(0 * X), [1.0, 2.0]),
    ],
)
def test_odd_input_is_refused(call):
    with pytest.raises(InputError):
        call(np.array([[1.0, 1.0], [1.0, 1.1]]))
