"""Flows behind gates that change over time, and behind all shifts of a gate: against integration and dense moments."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from implicit_bias import GatedFeatures, InputError
from implicit_bias.extensions.gated_flow import (
    Moments,
    OrbitMoments,
    changing_flow,
    gradient_flow,
    nonlinear_gaussian_process,
)
from tests.cases import refusals
from tests.extensions.gated_flow.flows import general, made

TIMES = np.array([0.0, 0.3, 1.0, 2.5, 4.0])


def at_time(t):
    """Return the moments of two soft gates whose directions turn with t."""
    features, y, *_ = made(general)
    turned = features.X @ np.array([[np.cos(t), 1.0], [np.sin(t), -1.0], [0.3, 0.5]])
    return Moments.from_samples(GatedFeatures(features.X, 1 / (1 + np.exp(-turned))), y)


def integrated(moments_at, w0, times, tau=1.0):
    """Return w (T, k, d) of Kτ dw/dt = b(t) − A(t)w by DOP853."""

    def slope(t, w):
        moments = moments_at(t)
        return (moments.b.ravel() - moments.dense() @ w) / (moments.k * tau)

    found = solve_ivp(slope, (0.0, times[-1]), w0.ravel(), "DOP853", t_eval=times, rtol=1e-10, atol=1e-11)
    return found.y.T.reshape(len(times), *w0.shape)


def test_gates_constant_in_pieces_are_the_closed_form_of_each():
    """Weights and losses equal those by integration piece by piece, at times in, between and at the changes."""
    changes = [0.0, 0.5, 1.0, 3.0]
    pieces = [(t, at_time(3 * t)) for t in changes]
    w0 = np.random.default_rng(0).normal(size=(2, 3))
    found = changing_flow(pieces, w0, TIMES, tau=0.5)
    expected, w = np.empty((5, 2, 3)), w0
    for (begin, moments), end in zip(pieces, [*changes[1:], 4.0], strict=True):
        inside = [i for i, t in enumerate(TIMES) if begin <= t <= end]
        stops = np.array([0.0, *(TIMES[inside] - begin), end - begin])
        reached = integrated(lambda _, moments=moments: moments, w, np.unique(stops), 0.5)
        expected[inside] = reached[np.searchsorted(np.unique(stops), TIMES[inside] - begin)]
        w = reached[-1]
    np.testing.assert_allclose(found.weights, expected, atol=1e-8)
    held = [pieces[i][1] for i in (0, 0, 2, 2, 3)]
    np.testing.assert_allclose(found.losses, [m.loss(w) for m, w in zip(held, expected, strict=True)], atol=1e-8)
    assert (found.pieces, found.error) == (4, 0.0)


def test_one_piece_is_gradient_flow():
    moments, w0 = at_time(0.0), np.ones((2, 3))
    one, flow = changing_flow([(0.0, moments)], w0, TIMES, tau=2.0), gradient_flow(moments, w0, TIMES, tau=2.0)
    np.testing.assert_allclose(one.weights, flow.weights(), atol=1e-13)
    np.testing.assert_allclose(one.losses, flow.losses, atol=1e-13)
    constant = changing_flow(lambda _: moments, w0, TIMES, tau=2.0)
    np.testing.assert_allclose(constant.weights, flow.weights(), atol=1e-13)
    assert constant.error < 1e-13


@pytest.mark.parametrize("tolerance", [1e-3, 1e-6])
def test_gates_that_change_all_the_time_are_integrated_to_the_error_that_is_told(tolerance):
    w0 = np.random.default_rng(1).normal(size=(2, 3))
    told = []
    found = changing_flow(at_time, w0, TIMES, tolerance=tolerance, progress=lambda *row: told.append(row))
    away = np.abs(found.weights - integrated(at_time, w0, TIMES)).max()
    # Richardson's estimate is of the error before extrapolation.
    assert away <= found.error <= tolerance * np.abs(found.weights).max()
    assert told[-1] == (found.pieces, found.error)
    assert [pieces for pieces, _ in told] == [8 * 2**j for j in range(len(told))]


def ring(m=60):
    process = nonlinear_gaussian_process(6, (0.8, 0.3), gain=3.0, labels=(1.0, 0.0))
    return process.sample(m, seed=3)


def dense_orbit(gate, X, y):
    """Return the `Moments` of all shifts of a gate over all shifts of X (m, n), with pixels counted from each gate."""
    n = X.shape[1]
    rolled = np.concatenate([np.roll(X, -s, axis=1) for s in range(n)])
    G = np.stack([gate(np.roll(rolled, -k, axis=1)) for k in range(n)], axis=1).astype(float)
    phi = np.stack([G[:, [k]] * np.roll(rolled, -k, axis=1) for k in range(n)], axis=1).reshape(len(rolled), -1)
    targets = np.tile(y, n)
    m = len(rolled)
    return Moments.from_arrays((phi.T @ targets / m).reshape(n, n), phi.T @ phi / m, float(y @ y / len(y)))


GATES = {
    "half-space": lambda X: X[:, 0] + 0.5 * X[:, 1] > 0.2,
    "even": lambda X: (X**2).sum(axis=1) > 6,
    "two sided": lambda X: (X[:, 0] > 0) & (X[:, 2] < 0.5),
}


@pytest.mark.parametrize("gate", GATES.values(), ids=GATES)
def test_fourier_takes_apart_what_the_dense_moments_hold(gate):
    """Flow, best weights and losses equal those of the dense moments, also for a gate that shifts do not change."""
    X, y = ring()
    orbit, dense = OrbitMoments.from_samples(gate, X, y), dense_orbit(gate, X, y)
    w0 = np.random.default_rng(2).normal(size=(6, 6))
    flow = gradient_flow(dense, w0, TIMES * 100, tau=0.5)
    np.testing.assert_allclose(orbit.moved(w0, TIMES * 100 / 3), flow.weights(), atol=1e-9)
    assert orbit.best_loss == pytest.approx(dense.best_loss, abs=1e-11)
    np.testing.assert_allclose(orbit.best_weights, dense.best_weights, atol=1e-9)
    assert orbit.loss(w0) == pytest.approx(dense.loss(w0), rel=1e-11)


def test_a_frequency_that_is_small_beside_the_others_is_solved_all_the_same():
    """A frequency whose eigenvalues are 1e-12 of the largest is solved, and its fields fit y."""
    delta, rng = 5e-7, np.random.default_rng(6)
    low, high = np.zeros((2, 50, 4), dtype=complex)
    low[:, 1], high[:, 2] = rng.normal(size=(2, 50))
    low[:, 1] += 1j * rng.normal(size=50)
    X = np.fft.irfft(low + delta * high, 6)

    def gate(X):
        return np.fft.irfft(np.fft.rfft(X) * [0, 0, 1 / delta, 0], 6)[:, 0]

    shifted = [np.roll(X, -k, axis=1) for k in range(6)]
    fields = sum(gate(part)[:, None] * part for part in shifted) / delta
    y = fields @ rng.normal(size=6)
    orbit = OrbitMoments.from_samples(gate, X, y)
    greatest = np.linalg.eigvalsh(np.fft.ifft(orbit.A, axis=0) * 6)[:, -1]
    assert greatest[0] < 1e-12 * greatest.max()
    assert abs(orbit.best_loss) < 0.02 * orbit.power


def test_jumps_of_gates_are_counted_or_refused():
    """The error of a jump that two grids place alike by chance is bounded by `error`, or InputError is raised."""
    early, late = (Moments.from_arrays([[b]], [[1.0]], 9.0) for b in (0.0, 1.0))

    def jumping(t):
        return late if t > 0.26 else early

    for tolerance in (1e-2, 3e-3):
        found = changing_flow(jumping, [[0.0]], [0.0, 1.0], tolerance=tolerance)
        away = abs(found.weights[-1].item() - (1 - np.exp(-0.74)))
        assert 0 < away <= found.error <= tolerance
    with pytest.raises(InputError, match="more than 16384 pieces between two times; give them in pieces if they jump"):
        changing_flow(jumping, [[0.0]], [0.0, 1.0], tolerance=1e-6)


def test_thresholds_that_rise_on_the_fourier_basis():
    """Rising thresholds in pieces agree with the dense moments; units that start alike remain alike."""
    X, y = ring(200)
    pieces = [(t, lambda X, c=c: X[:, 0] > c) for t, c in ((0.0, 0.0), (20.0, 0.2), (50.0, 0.4))]
    w0 = np.tile(np.random.default_rng(3).normal(size=6), (6, 1))
    times = [0.0, 30.0, 80.0]
    ways = [
        changing_flow([(t, make(gate, X, y)) for t, gate in pieces], w0, times)
        for make in (OrbitMoments.from_samples, dense_orbit)
    ]
    np.testing.assert_allclose(ways[0].weights, ways[1].weights, atol=1e-10)
    np.testing.assert_allclose(ways[0].losses, ways[1].losses, atol=1e-10)
    assert np.ptp(ways[0].weights, axis=1).max() < 1e-12
    assert np.abs(ways[0].weights[2] - ways[0].weights[0]).max() > 0.1


def of_ring(gate):
    return OrbitMoments.from_samples(gate, np.ones((3, 2)), np.ones(3))


def test_pieces_after_the_last_time_do_not_matter():
    moments = at_time(0.0)
    found = changing_flow([(0.0, moments), (1e200, moments)], np.ones((2, 3)), TIMES)
    np.testing.assert_array_equal(found.weights, gradient_flow(moments, np.ones((2, 3)), TIMES).weights())


test_bad_input_is_refused = refusals(
    (lambda m: changing_flow([], [[0.0]], [0.0]), "gates must be a list of"),
    (lambda m: changing_flow([(0.0, 3)], [[0.0]], [0.0]), "must be Moments or OrbitMoments, not 3"),
    (lambda m: changing_flow([(1.0, m)], [[0.0]], [0.0]), "must begin with 0 and rise"),
    (lambda m: changing_flow([(0.0, m), (0.0, m)], [[0.0]], [0.0]), "must begin with 0 and rise"),
    (lambda m: changing_flow([(0.0, m)], [[0.0, 1.0]], [0.0]), "w0 must have shape"),
    (lambda m: changing_flow([(0.0, m)], [[0.0]], [-1.0]), "times must start at 0"),
    (lambda m: changing_flow([(0.0, m), (1.0, at_time(0.0))], [[0.0]], [0.0]), "are of 2 gates and 3 inputs"),
    (lambda m: changing_flow([(0.0, m)], [[np.nan]], [0.0, 1.0]), "w0 holds NaN"),
    (lambda m: changing_flow([(0.0, m)], [[1e300]], [0.0, 1.0]), "the weights w0 have sizes"),
    (lambda m: changing_flow(lambda t: m, [[0.0]], [0.0, 1.0], tolerance=0.0), "tolerance must be a positive"),
    (lambda m: of_ring(None), "the gate must be a function of samples"),
    (lambda m: of_ring(lambda X: X), "the gate's values must have 1 dimension"),
    (lambda m: of_ring(lambda X: X[:, 0] * np.nan), "the gate's values holds NaN"),
    (lambda m: of_ring(lambda X: X[:, 0] * 1e200), "the gate's values have sizes"),
    (lambda m: of_ring(lambda X: ["open"] * len(X)), "the gate's values must hold real numbers"),
    call=lambda call: call(Moments.from_arrays([[1.0]], [[1.0]], power=1.0)),
)
