"""Gradient flow in closed form against integration and against torch; the notes' errata."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import block_diag

from implicit_bias import GatedFeatures
from implicit_bias.extensions.galu import least_squares
from implicit_bias.extensions.gated_flow import Moments, gradient_flow
from implicit_bias.extensions.gated_flow.gate_blocks import phi
from tests.cases import FEW
from tests.extensions.gated_flow.flows import CASES, STRUCTURE, TIMES, exclusive, general, integrated, made

# The flow


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_closed_form_is_what_integration_gives(case):
    features, y, dense, w0 = made(case)
    flow = gradient_flow(features, w0, TIMES, y=y, tau=0.5)
    A, b = dense.T @ dense / features.n, dense.T @ y / features.n
    reference = integrated(A, b, w0.ravel(), TIMES, features.k * 0.5)
    np.testing.assert_allclose(flow.weights().reshape(len(TIMES), -1), reference, atol=1e-9)
    losses = [np.mean((y - dense @ w) ** 2) for w in reference]
    np.testing.assert_allclose(flow.losses, losses, atol=1e-9)
    np.testing.assert_allclose([flow.moments.loss(w) for w in flow.weights()], losses, atol=1e-9)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_structure_is_found(case):
    features, y, dense, _ = made(case)
    found = Moments.from_samples(features, y)
    blocks, largest, copies = STRUCTURE[case]
    assert (len(found.blocks), max(len(s.values) for s in found.spectra), found.redundant) == (blocks, largest, copies)
    assert found.exclusive == (case is exclusive)
    np.testing.assert_allclose(found.dense(), dense.T @ dense / features.n, atol=1e-13)
    np.testing.assert_allclose(found.b.ravel(), dense.T @ y / features.n, atol=1e-13)
    assert found.power == pytest.approx(np.mean(y**2), rel=1e-13)
    assert found.samples == features.n


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_limit_is_the_solution_nearest_to_the_start(case):
    features, y, dense, w0 = made(case)
    flow = gradient_flow(features, w0, [1e9], y=y)
    least_norm = np.linalg.pinv(dense, rcond=1e-10) @ y
    kept = w0.ravel() - np.linalg.pinv(dense, rcond=1e-10) @ (dense @ w0.ravel())
    np.testing.assert_allclose(flow.limit.ravel(), least_norm + kept, atol=1e-9)
    np.testing.assert_allclose(flow.weights(1e13), flow.limit, atol=1e-9)
    np.testing.assert_allclose(flow.moments.best_weights.ravel(), least_norm, atol=1e-9)
    best = least_squares(features, y).loss
    ways = [flow.moments.best_loss, np.mean((y - features @ flow.limit) ** 2), flow.moments.loss(flow.limit)]
    np.testing.assert_allclose(ways, best, atol=1e-10)


def test_the_best_loss_by_second_moments_of_each_class():
    """The best loss for labels 0 and 1 is ½ − ½ m̄ᵀ(S₁ + S₀)⁻¹m̄: the notes' (15) and (16), without the ½ of the loss."""
    features, _, dense, _ = made(general)
    y = np.repeat([1.0, 0.0], 30)
    second = [dense[y == label].T @ dense[y == label] / 30 for label in (1.0, 0.0)]
    mean = dense[y == 1].mean(axis=0)
    by_class = 0.5 - 0.5 * mean @ np.linalg.solve(second[0] + second[1], mean)
    assert Moments.from_samples(features, y).best_loss == pytest.approx(by_class, abs=1e-10)


@pytest.mark.parametrize(("case", "mean_readout"), [(case, bool(i % 2)) for i, case in enumerate(CASES)])
def test_torch_descends_along_the_flow(case, mean_readout):
    features, y, _, w0 = made(case)
    share = features.k if mean_readout else 1
    X, G, target = (torch.tensor(a) for a in (features.X, features.gate_values, y))
    w = torch.tensor(w0 * share, requires_grad=True)
    # Of v = Kw the gradient is 1/K of that of w.
    step, steps = 5e-3, 400
    optimizer = torch.optim.SGD([w], lr=step * share**2)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = 0.5 * torch.mean((target - torch.einsum("nk,kd,nd->n", G, w, X) / share) ** 2)
        loss.backward()
        optimizer.step()
    # τ dv/dt = −∂L/∂v with τ = 1; without the mean, Kτ dw/dt = −∂L/∂w with Kτ = 1.
    tau, time = (share, step * steps * share**2) if mean_readout else (1 / features.k, step * steps)
    flow = gradient_flow(features, w0, [0.0, time], y=y, tau=tau)
    trained = w.detach().numpy() / share
    moved = np.abs(flow.weights()[1] - w0).max()
    assert moved > 0.1
    assert np.abs(trained - flow.weights()[1]).max() < 5e-3 * moved


def test_moments_of_a_distribution_need_no_samples():
    """Flow and structure of moments from arrays, some singular, equal those by integration and construction."""
    rng = np.random.default_rng(1)
    root = rng.normal(size=(3, 5, 2))
    A = block_diag(*[part @ part.T for part in root.transpose(0, 2, 1)])
    A = block_diag(A, np.kron(np.ones((2, 2)), np.diag([1.0, 0.0])))
    w = rng.normal(size=len(A))
    w[-2:] = w[-4:-2]
    moments = Moments.from_arrays((A @ w).reshape(5, 2), A, power=2 * w @ A @ w)
    assert (moments.k, moments.redundant, len(moments.blocks), moments.samples) == (5, 1, 4, None)
    start = rng.normal(size=(5, 2))
    reference = integrated(A, A @ w, start.ravel(), TIMES, 5.0)
    flow = gradient_flow(moments, start, TIMES)
    np.testing.assert_allclose(flow.weights().reshape(5, -1), reference, atol=1e-9)
    np.testing.assert_allclose(flow.weights(TIMES[2]).ravel(), reference[2], atol=1e-9)
    assert moments.best_loss == pytest.approx(w @ A @ w, rel=1e-12)
    np.testing.assert_allclose(moments.dense(), A, atol=1e-14)
    again = Moments.from_arrays((A @ w).reshape(5, 2), A.reshape(5, 2, 5, 2), power=2 * w @ A @ w)
    assert again.best_loss == moments.best_loss


@FEW
@given(st.floats(-12, 12), st.floats(-12, 12))
def test_phi_is_exact_from_tiny_to_huge(exponent, scale):
    """λφ(λ) = 1 − e^{−x} for x = λs: by series below 1e-3, directly above."""
    x, value = 10.0**exponent, 10.0**scale
    expected = x * (1 - x / 2 * (1 - x / 3 * (1 - x / 4))) if x < 1e-3 else 1 - np.exp(-x)
    found = phi(np.array([value]), np.array([x / value]))[0, 0] * value
    assert found == pytest.approx(expected, rel=1e-12)


def test_eigenvalues_24_orders_apart_are_each_exact():
    """Exclusive gates with eigenvalues from 1e-12 to 1e12 are each exact to 1e-14 in one flow."""
    values = 10.0 ** np.arange(-12, 13)
    moments = Moments.from_arrays(values[:, None], np.diag(values), power=2 * values.sum())
    found = gradient_flow(moments, np.zeros((25, 1)), [25.0]).weights()[0].ravel()
    np.testing.assert_allclose(found, -np.expm1(-values), rtol=1e-14)


def test_rounding_over_many_samples_makes_no_eigenvalue():
    """Along the null space of dependent inputs, weights are constant although sums leave eigenvalues of about 1e-14."""
    rng = np.random.default_rng(3)
    X, w0 = rng.normal(size=(30_000, 3)), rng.normal(size=(2, 4))
    X, y = np.column_stack([X, X[:, 0] + X[:, 1]]), rng.normal(size=30_000)
    flow = gradient_flow(GatedFeatures(X, (X[:, :2] > 0).astype(float)), w0, [1e12], y=y)
    kernel = np.array([1.0, 1.0, 0.0, -1.0]) / np.sqrt(3)
    np.testing.assert_allclose(flow.weights()[0] @ kernel, w0 @ kernel, atol=1e-12)
    np.testing.assert_allclose(flow.weights()[0], flow.limit, atol=1e-12)


def test_sizes_near_the_ends_of_the_range_neither_overflow_nor_vanish():
    for size in (1e-59, 1e59):
        features, y = GatedFeatures([[size, 0.0], [size, size]]), np.array([size, 3 * size])
        flow = gradient_flow(features, [[0.0, 1e-50]], [0.0, 1e-30, 1e90], y=y)
        np.testing.assert_allclose(flow.limit, [[1.0, 2.0]])
        assert flow.losses[0] == pytest.approx(5 * size**2)
        assert (np.diff(flow.losses) <= 0).all()
        assert flow.moments.best_loss <= 1e-12 * size**2


def test_the_loss_of_weights_beyond_floats_is_infinite():
    moments = Moments.from_arrays([[1.0, 0.0]], np.diag([2.0, 0.0]), power=1.0)
    assert [moments.loss([[w, 1.0]]) for w in (np.inf, -np.inf, 1e300)] == [np.inf] * 3
    assert np.isnan(moments.loss([[np.nan, np.inf]]))


def test_directions_that_are_cut_off_are_counted():
    """`unresolved` is 0 for eigenvalues that are rounding alone, and 1 for an input 3e-7 times as large."""
    for case in CASES:
        features, y, *_ = made(case)
        assert Moments.from_samples(features, y).unresolved == 0
    X = np.random.default_rng(0).normal(size=(50, 3)) * [1.0, 1.0, 3e-7]
    found = Moments.from_samples(GatedFeatures(X), X[:, 2] * 1e7)
    assert found.unresolved == 1
    assert found.best_loss > 0.2


# Errata of the notes


def test_erratum_the_mean_readout_has_a_second_factor():
    """The limit of the printed τẇ = (1/K)(b − Aw) is not optimal for a mean readout; that of (1/K)(b − Aw/K) is."""
    features, y, dense, _ = made(general)
    A, b = dense.T @ dense / 60, dense.T @ y / 60
    printed, correct = np.linalg.solve(A, b), features.k * np.linalg.solve(A, b)
    losses = [np.mean((y - dense @ w / features.k) ** 2) for w in (printed, correct)]
    assert losses[1] == pytest.approx(Moments.from_samples(features, y).best_loss, abs=1e-12)
    assert losses[0] > losses[1] + 0.02


@pytest.mark.parametrize("case", [general, exclusive], ids=lambda case: case.__name__)
def test_printed_solutions_hold_with_eigenvectors_of_suitable_signs(case):
    """(9)–(11), (21)–(25): A⁻¹(P e^{−Λt/Kτ + C}1 + b) for P with q = Pᵀ(Aw₀ − b) > 0, C = log q; no C gives q_j = 0."""
    features, y, dense, w0 = made(case)
    K, of_one = features.k, slice(None) if case is general else slice(3)
    A, b = dense.T @ dense / features.n, dense.T @ y / features.n
    reference = integrated(A, b, w0.ravel(), TIMES, K)[:, of_one]
    A, b, start = A[of_one, of_one], b[of_one], w0.ravel()[of_one]
    values, P = np.linalg.eigh(A)
    P = P * np.sign(P.T @ (A @ start - b))
    C = np.log(P.T @ (A @ start - b))
    printed = [np.linalg.solve(A, P @ np.exp(-values * t / K + C) + b) for t in TIMES]
    np.testing.assert_allclose(printed, reference, atol=1e-9)
    # From the best weights plus a single eigenvector, all other entries of q are 0.
    q = P.T @ (A @ (np.linalg.solve(A, b) + P[:, -1]) - b)
    assert q[-1] > 0.1
    np.testing.assert_allclose(q[:-1], 0.0, atol=1e-12)


def test_erratum_swapped_labels_change_the_best_gate():
    """Before (17), "WLOG": of gates open for one class only, the one of the class with y = 1 is best, not the other."""
    X, y = np.array([[1.0], [2.0]]), np.array([1.0, 0.0])
    for labels, losses in ((y, [0.0, 0.5]), (1 - y, [0.5, 0.0])):
        gates = (np.array([[1.0], [0.0]]), np.array([[0.0], [1.0]]))
        found = [Moments.from_samples(GatedFeatures(X, gate), labels).best_loss for gate in gates]
        assert found == pytest.approx(losses, abs=1e-15)


def test_erratum_a_third_gate_must_not_overlap_the_copies():
    """(27)–(32): copies of a gate follow these equations if all other gates exclude it, and not if one overlaps it."""
    rng = np.random.default_rng(4)
    X, y, w0 = rng.normal(size=(50, 3)), rng.normal(size=50), rng.normal(size=(3, 3))
    gate = (X[:, :1] > 0).astype(float)
    A, b, delta = (gate * X).T @ X / 50, (gate * X).T @ y / 50, (w0[0] - w0[1]) / 2
    values, P = np.linalg.eigh(A)
    q = P.T @ (2 * A @ (w0[0] - delta) - b)
    alone = np.linalg.solve(A, P @ (np.exp(-2 * values * 3.0 / 3) * q) + b) / 2 + delta
    for other, near in ((1 - gate, True), (np.ones_like(gate), False)):
        w = gradient_flow(GatedFeatures(X, np.hstack([gate, gate, other])), w0, [3.0], y=y).weights(3.0)[0]
        assert (np.abs(w - alone).max() < 1e-10) == near
        assert near or np.abs(w - alone).max() > 0.1


def test_erratum_a_is_made_of_second_moments():
    """(18): A is the mean of ⟨(g⊗x)(g⊗x)ᵀ⟩ over classes, not of outer products of means, which have rank 2 at most."""
    features, _, dense, _ = made(general)
    y = np.repeat([1.0, 0.0], 30)
    parts = [dense[y == label] for label in (1.0, 0.0)]
    A = Moments.from_samples(features, y).dense()
    np.testing.assert_allclose(A, sum(part.T @ part / 30 for part in parts) / 2, atol=1e-13)
    printed = sum(np.outer(part.mean(axis=0), part.mean(axis=0)) for part in parts) / 2
    assert np.linalg.matrix_rank(printed) == 2 < np.linalg.matrix_rank(A)


def test_erratum_redundant_gates_always_make_a_singular():
    """(9)–(11), (13)–(16) need A⁻¹, but weights with Σw = 0 over copies of a gate are a null space of A."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X, gate = rng.normal(size=(60, 3)), rng.random((60, 1))
        dense = GatedFeatures(X, np.hstack([gate, gate, rng.random((60, 1))])).dense()
        values = np.linalg.eigvalsh(dense.T @ dense / 60)
        assert np.abs(values[:3]).max() < 1e-13 < 1e-3 < values[3]


def test_erratum_the_limit_of_an_exclusive_gate_has_no_transient():
    """(26): w₁(∞) = A₁₁⁻¹b₁ without the term P e^{−tΛ/Kτ+C}1, and K times as much for the mean readout (3)."""
    features, y, dense, w0 = made(exclusive)
    n, (K, d) = features.n, w0.shape
    A, b = dense.T @ dense / n, dense.T @ y / n
    A11, b1 = A[:d, :d], b[:d]
    assert not A[:d, d:].any()
    opened = features.gate_values[:, 0] > 0
    limit = np.linalg.lstsq(features.X[opened], y[opened])[0]
    for share in (1, K):
        late = 60 * share * K / np.linalg.eigvalsh(A11).min()
        end = integrated(A / share, b, w0.ravel(), [0.0, late], K)[-1, :d]
        np.testing.assert_allclose(end, share * limit, atol=1e-8)
    np.testing.assert_allclose(gradient_flow(features, w0, [0.0], y=y).limit[0], limit, atol=1e-12)
    values, P = np.linalg.eigh(A11)
    q = P.T @ (A11 @ w0[0] - b1)
    printed = np.linalg.solve(A11, P @ (np.exp(-values / features.k) * q) + b1)
    assert np.abs(printed - limit).max() > 0.1


def test_erratum_the_sum_of_m_copies_moves_m_times_as_fast():
    """(31), (32): w_{1,2} = ½A⁻¹(P e^{−2Λt/Kτ} q + b) ± Δ, q = Pᵀ(2Av₀ − b), 2Δ = w₁(0) − w₂(0)."""
    rng = np.random.default_rng(2)
    X, y, w0 = rng.normal(size=(50, 3)), rng.normal(size=50), rng.normal(size=(2, 3))
    gate = (X[:, :1] > 0).astype(float)
    features = GatedFeatures(X, np.hstack([gate, gate]))
    A, b = (gate * X).T @ X / 50, (gate * X).T @ y / 50
    values, P = np.linalg.eigh(A)
    q, delta = P.T @ (A @ (w0[0] + w0[1]) - b), (w0[0] - w0[1]) / 2
    w = gradient_flow(features, w0, [3.0], y=y).weights(3.0)
    correct, printed = (np.linalg.solve(A, P @ (np.exp(-rate * values * 3.0 / 2) * q) + b) / 2 for rate in (2.0, 1.0))
    np.testing.assert_allclose(w, [correct + delta, correct - delta], atol=1e-10)
    assert np.abs(w - [printed + delta, printed - delta]).max() > 0.01
    # For every C, (31) and (32) end at ½A⁻¹b and ½A⁻¹b − 2Δ.
    limit, end = gradient_flow(features, w0, [3.0], y=y).limit, np.linalg.solve(A, b) / 2
    np.testing.assert_allclose(limit, [end + delta, end - delta], atol=1e-10)
    assert np.abs(delta).max() > 0.1
