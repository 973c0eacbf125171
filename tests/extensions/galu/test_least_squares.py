"""Least squares on gated features against dense algebra."""

from fractions import Fraction

import numpy as np
import pytest
from sklearn.linear_model import RidgeCV

from implicit_bias import GatedFeatures, KernelFeatures, ReLUGates
from implicit_bias.certificate.rational import exact_rows, to_fractions
from implicit_bias.extensions.galu import alternate_convex_search, improve_filters, least_squares
from implicit_bias.extensions.galu.closed_form import _by_cholesky, _GramSpectrum, singular_extent
from tests.cases import assert_refused, drawn, refusals

GATES = ["hard", "soft", "contexts", "real"]
#: Features of one's own from those of hard gates.
OTHERS = {
    "kernels": lambda f: KernelFeatures(f.dense().reshape(f.shape)),
    "dependent": lambda f: GatedFeatures(np.c_[f.X, f.X[:, 0]], np.c_[f.gate_values, 0 * f.gate_values]),
}
SIZES = [(60, 5, 3), (60, 5, 12), (60, 5, 13), (50, 10, 30), (64, 8, 8), (3, 4, 6), (30, 1, 1)]


@pytest.mark.parametrize(
    ("gates", "size"),
    [(GATES[i % 4], size) for i, size in enumerate(SIZES)]
    + [("soft", SIZES[0]), ("real", SIZES[1]), ("kernels", SIZES[0]), ("dependent", SIZES[0]), ("dependent", SIZES[4])],
    ids=str,
)
def test_is_the_dense_pseudo_inverse(size, gates):
    for seed in range(3):
        features, y = drawn(*size, seed, gates if gates in GATES else "hard")
        features = OTHERS[gates](features) if gates in OTHERS else features
        dense = features.dense()
        expected = np.linalg.pinv(dense, rcond=1e-9) @ y
        found = least_squares(features, y)
        np.testing.assert_allclose(found.weights.ravel(), expected, rtol=0, atol=1e-8 * np.linalg.norm(expected))
        best = np.mean((dense @ expected - y) ** 2)
        assert found.loss == pytest.approx(best, rel=1e-8, abs=1e-12)
        # Products of real gate values are dependent up to rounding, so that exact weights fit all targets.
        rounded = gates == "real" and found.rank < min(dense.shape)
        assert found.gap == pytest.approx(found.loss if rounded else 0.0, rel=1e-9, abs=1e-12)
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
    # Refinement ends at weights with a relative error of 1e-11, and the mean target is below 2.
    assert found.gap <= 1e-22


@pytest.mark.parametrize(("units", "shift"), [(20, 0.0), (20, 6.0), (5, 0.0), (12, 0.1), (11, 0.5), (13, 0.0)])
def test_both_ways_of_solving_agree(units, shift):
    """Cholesky's bound is below the least eigenvalue and not far; it returns None if rank is lost without a shift."""
    for seed in range(8):
        features, y = drawn(60, 5, units, seed)
        expected = _GramSpectrum.of(*features.reduced()).factor(shift, 1e-9)
        found = _by_cholesky(features, None, shift, 1e-9)
        assert (found is None) == (shift == 0 and expected.rank < min(60, 5 * units))
        if found is not None:
            assert expected.modulus / 50 <= found.modulus <= max(shift, expected.modulus)
            assert 0.8 * expected.condition <= found.condition <= expected.condition * (1 + 1e-9)
            W, other = found.solve(y[:, None]), expected.solve(y[:, None])
            np.testing.assert_allclose(W, other, atol=1e-9)


@pytest.mark.parametrize("scale", [1e-200, 1e-100, 1e8, 1e200])
def test_scaling_inputs_and_targets_scales_the_solution(scale):
    features, y = drawn(60, 5, 12, 0)
    base = least_squares(features, y)
    larger = least_squares(features.scaled(scale), y)
    np.testing.assert_allclose(larger.weights * scale, base.weights, rtol=1e-6)
    assert larger.rank == base.rank
    share = np.clip(scale, 1e-100, 1e50)
    np.testing.assert_allclose(least_squares(features, y * share).weights / share, base.weights, rtol=1e-6)


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
    """Objective − gap is at most the minimum ρ/(e² + ρ) of two nearly equal samples with opposite targets."""
    found = least_squares(GatedFeatures([[1.0, e], [1.0, -e]], np.ones((2, 1))), [1.0, -1.0], ridge=ridge)
    least, objective = ridge / (e**2 + ridge), found.loss + ridge * found.norm**2
    assert objective - found.gap <= least * (1 + 1e-12)
    assert found.rank == 2 or ridge == 0
    if found.rank == 2:
        assert objective == pytest.approx(least, rel=1e-9, abs=1e-22)
        assert found.gap <= 1e-22


def excess(features, y, W, ridge):
    """Return objective − minimum = gᵀ(ΦᵀΦ + nρ)⁺g/n in rational arithmetic, by elimination."""
    A, w, shift = exact_rows(features, np.arange(W.size)), to_fractions(W.ravel()), features.n * Fraction(ridge)
    H, g, total = A.T @ A + shift * np.eye(len(w), dtype=int), A.T @ (to_fractions(y) - A @ w) - shift * w, 0
    for j in range(len(w)):
        if H[j, j]:
            total += g[j] ** 2 / H[j, j]
            share = H[j] / H[j, j]
            g, H = g - share * g[j], H - np.outer(H[:, j], share)
    return total / len(y)


def collinear(kind, bits, rng):
    """Return features whose columns, or samples if they are wide, differ by 2^−bits or not at all."""
    near = lambda values: values + rng.integers(-8, 9, size=values.shape) * 2.0**-bits  # noqa: E731
    X = rng.integers(-8, 9, size=(5 if kind == "wide" else 9, 3)).astype(float)
    X[:, 2] = near(X[:, 1]) if kind != "exact" else X[:, 1] - X[:, 0]
    gates = rng.integers(0, 2, size=(len(X), {"gated": 2, "wide": 3}.get(kind, 1))).astype(float)
    if kind == "wide":
        X[4], gates[4] = near(X[3]), gates[3]
    return GatedFeatures(near(np.hstack([X, X[:, 1:2]])) if kind == "three" else X, gates)


@pytest.mark.parametrize("ridge", [0.0, 2.0**-60, 2.0**-20])
@pytest.mark.parametrize("kind", ["two", "three", "gated", "wide", "exact"])
def test_the_gap_bounds_the_excess_in_rational_arithmetic(kind, ridge):
    """The bound is exact and tight, whether directions are used, left out, rounding alone, or dropped beforehand."""
    for bits in (14, 24, 33, 43, 50):
        rng = np.random.default_rng(bits)
        features = collinear(kind, bits, rng)
        y = rng.integers(-8, 9, size=features.n).astype(float)
        for found in (least_squares(features, y, ridge=ridge), *least_squares(features, y, ridge=[ridge]).solutions):
            least = excess(features, y, found.weights, ridge)
            assert least <= Fraction(found.gap)
            assert found.gap <= 1.01 * float(least) + 1e-15 * np.mean(y**2)
            assert found.gap <= 1e-20 or kind != "exact"
            assert found.rank == np.linalg.matrix_rank(features.dense()) or kind != "exact" or ridge


def test_a_coarse_tolerance_leaves_its_excess_in_the_gap():
    """Singular values of 0.05 σ_1 are left out at tol = 0.1, and the gap includes what they would gain."""
    found = least_squares(GatedFeatures([[1.0, 0.0], [0.0, 0.05], [0.0, 0.0]]), [0.0, 1.0, 0.0], tol=0.1)
    assert (found.rank, found.loss) == (1, pytest.approx(1 / 3))
    assert found.gap == pytest.approx(1 / 3)
    wide = least_squares(GatedFeatures(np.diag([1.0, 0.05])), [0.0, 1.0], tol=0.1)
    assert (wide.form, wide.rank, wide.gap) == ("samples", 1, pytest.approx(0.5))


def without(features, y, i, shift):
    """Return the error on sample i of the solution for the other samples."""
    dense = features.dense()
    rest = np.delete(dense, i, axis=0)
    root = np.vstack([rest, np.sqrt(shift) * np.eye(dense.shape[1])]) if shift else rest
    targets = np.append(np.delete(y, i), np.zeros(len(root) - len(rest)))
    return y[i] - dense[i] @ np.linalg.lstsq(root, targets, rcond=1e-10)[0]


@pytest.mark.parametrize("size", [(30, 3, 4), (20, 4, 9), (20, 4, 5)], ids=str)
@pytest.mark.parametrize("gates", ["hard", "contexts"])
def test_leave_one_out_errors_are_those_of_refits(size, gates):
    """Ridge 0 and least norms are included, ranks below n and kd, and a sample that alone opens a gate."""
    features, y = drawn(*size, 0, gates)
    G = features.gate_values.copy()
    G[3, 0], G[np.arange(len(G)) != 3, 0] = 1.0, 0.0
    for each in (features, GatedFeatures(features.X, G)):
        path = least_squares(each, y, ridge=[0.0, 1e-3, 0.1, 10.0])
        for ridge, solution, errors in zip(path.ridges, path.solutions, path.leave_one_out, strict=True):
            expected = [without(each, y, i, len(y) * ridge) for i in range(len(y))]
            np.testing.assert_allclose(errors, expected, rtol=1e-6, atol=1e-8)
            alone = least_squares(each, y, ridge=ridge)
            np.testing.assert_allclose(solution.weights, alone.weights, atol=1e-9 * alone.norm)
            assert solution.gap <= 1e-12


@pytest.mark.parametrize("size", [(40, 3, 5), (30, 4, 20)], ids=str)
def test_scores_are_those_of_scikit_learn_and_of_the_hat_matrix(size):
    features, y = drawn(*size, 1, "soft")
    Y, dense, ridges = np.stack([y, np.roll(y, 1)], axis=1), features.dense(), [1e-3, 0.1, 10.0]
    path = least_squares(features, Y, ridge=ridges)
    oracle = RidgeCV(len(y) * np.array(ridges), fit_intercept=False, store_cv_results=True).fit(dense, Y)
    np.testing.assert_allclose(path.leave_one_out**2, np.moveaxis(oracle.cv_results_, 2, 0), rtol=1e-6, atol=1e-12)
    for ridge, score in zip(ridges, path.gcv, strict=True):
        hat = dense @ np.linalg.solve(dense.T @ dense + len(y) * ridge * np.eye(dense.shape[1]), dense.T)
        rest = np.sum((Y - hat @ Y) ** 2) / len(y)
        assert score == pytest.approx(rest / (1 - np.trace(hat) / len(y)) ** 2, rel=1e-6)


@pytest.mark.parametrize("gates", ["hard", "contexts"])
@pytest.mark.parametrize("size", [(40, 5, 9), (40, 5, 6)], ids=str)
def test_the_form_of_samples_serves_fewer_features_if_that_is_cheaper(monkeypatch, size, gates):
    """Both Gram matrices give the same solution of a ridge problem."""
    features, y = drawn(*size, 0, gates)
    found = []
    for cost in (0, 10**9):
        monkeypatch.setattr("implicit_bias.extensions.galu.closed_form.ENTRY_COST", cost)
        found.append(least_squares(features, y, ridge=0.1))
    assert [one.form for one in found] == ["samples", "weights"]
    np.testing.assert_allclose(found[0].weights, found[1].weights, atol=1e-10)


@pytest.mark.parametrize("ridge", [1e6, 1e12])
def test_leave_one_out_errors_of_a_sample_that_dominates(ridge):
    """Its leverage without a ridge is 1 − 1e-12, which a ridge makes far smaller."""
    features, y = GatedFeatures([[1e6], [1.0], [2.0]], np.ones((3, 1))), np.array([3.0, -1.0, 1.0])
    (errors,) = least_squares(features, y, ridge=[ridge]).leave_one_out
    np.testing.assert_allclose(errors, [without(features, y, i, 3 * ridge) for i in range(3)], rtol=1e-9)


def test_inputs_of_samples_whose_gates_are_closed_have_no_effect():
    features = GatedFeatures([[1.0, 1.0], [3e23, 7e23]], [[1.0], [0.0]])
    path = least_squares(features, [2.0, -3.0], ridge=[0.0, 1.0])
    for solution, expected in zip(path.solutions, ([[1.0, 1.0]], [[0.5, 0.5]]), strict=True):
        np.testing.assert_allclose(solution.weights, expected, rtol=1e-11)


def test_several_targets_are_solved_each_for_itself():
    features, y = drawn(40, 4, 6, 0)
    Y = np.stack([y, 2 * y, np.roll(y, 1)], axis=1)
    found = least_squares(features, Y)
    assert found.weights.shape == (3, 6, 4)
    single = [least_squares(features, column) for column in Y.T]
    np.testing.assert_allclose(found.weights, [one.weights for one in single], atol=1e-10)
    predicted = np.stack([one.predict(features) for one in single], axis=1)
    np.testing.assert_allclose(found.predict(features), predicted, atol=1e-9)
    np.testing.assert_allclose(predicted[3], found.weights.reshape(3, -1) @ features.dense()[3], atol=1e-9)
    assert_refused(lambda: found.predict(features.X), "gates")
    assert found.loss == pytest.approx(sum(one.loss for one in single))


FEATURES, TARGETS = drawn(20, 3, 4, 0)
PAIR = np.array([[1.0, 1.0], [1.0, 1.1]])


test_bad_input = refusals(
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
    (lambda: alternate_convex_search(FEATURES.scaled(1e-200), TARGETS), "rescale"),
    (lambda: alternate_convex_search(FEATURES.scaled(1e200), TARGETS), "rescale"),
    (lambda: alternate_convex_search(GatedFeatures(0 * PAIR), [1.0, 2.0]), "every gate is closed"),
    (lambda: least_squares(GatedFeatures(PAIR), [1.0, 2.0], ridge=1e200), "take a smaller one"),
    (lambda: least_squares(GatedFeatures(1e-250 * PAIR), [1e100, 1e100]), "the targets over the features"),
    (lambda: least_squares(GatedFeatures(PAIR), [1.0, [2.0, 3.0]]), "regular 1-dimensional"),
    (lambda: improve_filters(0 * PAIR, [1.0, 2.0], 2), "every filter is closed"),
    (lambda: improve_filters(PAIR, [1.0, 2.0], 2**31), "use fewer units"),
)


@pytest.mark.long
def test_twenty_thousand_samples_and_features():
    rng = np.random.default_rng(0)
    X, U = rng.normal(size=(20_000, 40)), rng.normal(size=(600, 40))
    features, y = ReLUGates(U)(X), rng.normal(size=20_000)
    found = least_squares(features, y)
    assert found.rank == 20_000
    assert found.loss < 1e-20
