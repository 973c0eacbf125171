"""Moments from any source: streams, pixel gates, searches for fields; and what the dynamics refuse."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from implicit_bias import GatedFeatures
from implicit_bias.extensions.galu import search_gates
from implicit_bias.extensions.gated_flow import (
    Moments,
    RingProcess,
    SinglePulse,
    gradient_flow,
    ipr,
    nonlinear_gaussian_process,
    peak_frequency,
    pixel_moments,
)
from tests.cases import refusals
from tests.extensions.gated_flow.flows import CASES, made

# Moments


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_streamed_moments_are_those_of_all_samples(case):
    """Streamed moments equal those of all samples, although later chunks split copies and join blocks."""
    features, y, dense, w0 = made(case)
    rows = np.lexsort(features.gate_values.T)
    chunks = ((features.select(part), y[part]) for part in np.array_split(rows, 7))
    streamed, whole = Moments.accumulate(chunks), Moments.from_samples(features, y)
    assert streamed.samples == features.n
    np.testing.assert_array_equal(streamed.inverse, whole.inverse)
    assert [b.gates.tolist() for b in streamed.blocks] == [b.gates.tolist() for b in whole.blocks]
    np.testing.assert_allclose(streamed.dense(), dense.T @ dense / features.n, atol=1e-13)
    times = [1.0, 10.0]
    ways = [gradient_flow(moments, w0, times).weights() for moments in (streamed, whole)]
    np.testing.assert_allclose(*ways, atol=1e-11)


def test_many_exclusive_gates_take_no_matrix_of_them_all():
    rng = np.random.default_rng(0)
    X, G = rng.normal(size=(4000, 30)), np.eye(300)[rng.integers(300, size=4000)]
    found = Moments.from_samples(GatedFeatures(X, G), X[:, 0])
    assert sum(block.A.size for block in found.blocks) == 300 * 30 * 30
    assert found.best_loss == pytest.approx(0.0, abs=1e-12)


# Pixel gates


NLGP = {gain: nonlinear_gaussian_process(40, (5.0, 1.0), gain, labels=(1.0, 0.0)) for gain in (0.01, 1.0, 3.0, 100.0)}
#: IPR, and the mean squared error (without the ½) of the two gates with labels 0 and 1.
PIXELS = {0.01: (0.162, 0.263), 1.0: (0.200, 0.217), 3.0: (0.269, 0.188), 100.0: (0.414, 0.173)}


@pytest.mark.parametrize("gain", NLGP)
def test_pixel_gates_localize_as_stated(gain):
    found = pixel_moments(NLGP[gain], pixel=7)
    share, error = PIXELS[gain]
    np.testing.assert_allclose(ipr(found.best_weights), share, atol=2e-3)
    assert found.best_loss == pytest.approx(error, abs=2e-3)
    assert np.argmax(np.abs(found.best_weights[0])) == 7
    one = pixel_moments(NLGP[gain], both=False)
    assert float(ipr(one.best_weights)[0]) == pytest.approx(share, abs=2e-3)
    assert one.power - one.best_loss == pytest.approx((found.power - found.best_loss) / 2, rel=1e-9)


@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize(
    "process",
    [
        nonlinear_gaussian_process(12, (1.5, 0.6), 3.0),
        nonlinear_gaussian_process(12, (1.5, 0.6), 100.0, labels=(1.0, 0.0)),
        nonlinear_gaussian_process(12, (1.5, 0.6), 3.0).clone(),
        RingProcess([[4.0, 1.0, 0.0, 1.0], [0.0, 1.0, 2.0, 1.0]], labels=(2.0, 0.5)),
    ],
    ids=["erf", "signs", "clone", "spectra"],
)
def test_pixel_moments_are_those_of_samples(process, both):
    exact = pixel_moments(process, pixel=2, both=both)
    draws = process.stream(chunks=4, size=50_000, seed=1)
    opened = ((X, np.stack([X[:, 2] >= 0, X[:, 2] < 0][: 1 + both], axis=1).astype(float), y) for X, y in draws)
    sampled = Moments.accumulate((GatedFeatures(X, G), y) for X, G, y in opened)
    assert exact.exclusive
    assert sampled.exclusive
    size = np.abs(exact.dense()).max()
    np.testing.assert_allclose(sampled.dense(), exact.dense(), atol=0.02 * size)
    np.testing.assert_allclose(sampled.b, exact.b, atol=0.01 * np.sqrt(size))
    assert sampled.power == pytest.approx(exact.power, rel=1e-12)


def test_single_pulses_have_moments_by_the_stream():
    data = SinglePulse(n=12, lengths=(4, 2), labels=(1.0, 0.0))
    found = Moments.accumulate((GatedFeatures(X), y) for X, y in data.stream(chunks=20, size=1000))
    A = (data.second_moment(0) + data.second_moment(1)) / 2
    np.testing.assert_allclose(found.dense(), A, atol=0.02)
    np.testing.assert_allclose(found.b, data.mean(0) / 2, atol=0.02)


# Fields and gates


def test_participation_of_known_shapes():
    place = np.arange(400)
    bump = np.exp(-(((place - 200) / 4.0) ** 2))
    shapes = np.stack([np.ones(400), np.sin(2 * np.pi * 7 * place / 400), bump, place == 3])
    expected = [1 / 400, 1.5 / 400, 1 / (4 * np.sqrt(np.pi)), 1.0]
    np.testing.assert_allclose(ipr(1e-200 * shapes), expected, rtol=1e-6)
    assert peak_frequency(shapes).tolist() == [0, 7, 0, 0]
    assert ipr(shapes[0]).shape == ()


def test_the_search_reports_every_start():
    X, y = nonlinear_gaussian_process(n=8, length_scales=(1.0, 0.5), gain=3.0).sample(300)
    found = search_gates(X, y, units=4, restarts=3, steps=60, seed=1)
    again = search_gates(X, y, units=4, restarts=3, steps=60, seed=1)
    np.testing.assert_array_equal(found.losses, again.losses)
    assert found.losses.shape == found.first.shape == (3,)
    assert (found.losses < found.first).all()
    moments = Moments.from_samples(found.best.gates()(X), y)
    assert moments.best_loss == pytest.approx(found.losses.min(), rel=1e-9)
    assert len(set(found.losses)) == 3


# What is refused

ONE = Moments.from_arrays([[1.0]], [[2.0]], power=1.0)
FEATURES = GatedFeatures([[1.0], [2.0]])


test_what_has_no_answer_is_refused = refusals(
    (lambda: Moments.from_samples(FEATURES, [1.0]), "1 targets for 2 samples"),
    (lambda: GatedFeatures([[1.0], [2.0]], [[1.0]]), "X has 2 rows, gate_values has 1"),
    (lambda: Moments.from_samples(FEATURES, [[1.0, 2.0], [3.0, 4.0]]), "one target per sample"),
    (lambda: Moments.from_samples(GatedFeatures([[1e90]]), [1.0]), "rescale them"),
    (lambda: Moments.from_samples(GatedFeatures([[1e-59]], [[1e-59]]), [1.0]), "the features have sizes"),
    (lambda: Moments.from_samples(GatedFeatures([[1e59]], [[1e59]]), [1.0]), "the features have sizes"),
    (lambda: Moments.from_samples([[1.0]], [1.0]), "features must be GatedFeatures, such as"),
    (lambda: Moments.accumulate([]), "no chunks"),
    (lambda: Moments.accumulate([(FEATURES, [1.0, 2.0]), (GatedFeatures([[1.0, 2.0]]), [1.0])]), "all chunks the"),
    (lambda: Moments.accumulate([FEATURES]), "must be a pair"),
    (lambda: Moments.from_arrays([[1.0, 0.0]], [[1.0, 0.5], [0.4, 1.0]], 1.0), "not symmetric"),
    (lambda: Moments.from_arrays([[1.0, 0.0]], [[1.0, 2.0], [2.0, 1.0]], 1.0), "the eigenvalue -1"),
    (lambda: Moments.from_arrays([[0.0]], [[-1.0]], 1.0), "the eigenvalue -1"),
    (lambda: Moments.from_arrays([[1.0, 0.5]], np.diag([2.0, 0.0]), 1.0), "outside the range of A"),
    (lambda: Moments.from_arrays([[2.0, 0.0]], np.eye(2), 1.0), "the loss would be negative"),
    (lambda: Moments.from_arrays([[0.0]], [[1.0]], -1.0), "cannot be negative"),
    (lambda: Moments.from_arrays([[1.0]], np.eye(2), 1.0), "A must have the shape"),
    (lambda: gradient_flow(ONE, [[0.0]], [-1.0, 0.0]), "times must start at 0"),
    (lambda: gradient_flow(ONE, [[0.0]], [1.0, 0.5]), "in order"),
    (lambda: gradient_flow(ONE, [[0.0]], [np.inf]), "NaN or infinity"),
    (lambda: gradient_flow(ONE, [[0.0, 0.0]], [1.0]), "w0 must have shape"),
    (lambda: gradient_flow(ONE, [[np.nan]], [1.0]), "finite weights"),
    (lambda: gradient_flow(ONE, [[0.0]], [1.0], tau=0.0), "tau must be a positive number"),
    (lambda: gradient_flow(ONE, [[0.0]], [1e300], tau=1e-300), "for later ones take `limit`"),
    (lambda: gradient_flow(ONE, [[0.0]], [1e300]), "at most 1e.100, not 1e.300"),
    (lambda: gradient_flow(ONE, [[0.0]], [1.0]).weights(1e300), "for later ones take `limit`"),
    (lambda: gradient_flow(ONE, [[0.0]], [1.0], y=[1.0]), "leave y out"),
    (lambda: gradient_flow(FEATURES, [[0.0]], [1.0]), "need their targets"),
    (lambda: gradient_flow("moments", [[0.0]], [1.0]), "give Moments"),
    (lambda: gradient_flow(ONE, [[0.0]], [1.0]).weights([2.0, 1.0]), "in order"),
    (lambda: pixel_moments(SinglePulse()), "for a RingProcess"),
    (lambda: pixel_moments(NLGP[1.0], pixel=40), "below n = 40"),
    (lambda: ipr([0.0, 0.0]), "receptive field is zero"),
    (lambda: ipr([[1.0], 2.0]), "regular 1-dimensional array"),
    (lambda: Moments.from_arrays([[1.0]], [[1.0], 2.0], 1.0), "regular 2-dimensional array"),
    (lambda: gradient_flow(ONE, [[0.0]], [1.0]).weights([[1.0], 2.0]), "must hold real numbers"),
    (lambda: peak_frequency([[1.0, np.nan]]), "NaN or infinity"),
    (lambda: gradient_flow(Moments.from_arrays([[0.0]], [[1.0]], 1.0), [[0.0]], []), "times is empty"),
    (lambda: gradient_flow(ONE, [[0.0]], np.array(1.0)), "times must have 1 dimension"),
    (lambda: gradient_flow(ONE, [[0.0]], csr_array([[1.0]])), "times must hold real numbers"),
    (lambda: search_gates(np.eye(4), np.ones(4), units=1), "fit 4 samples with almost any gates"),
    (lambda: search_gates(np.ones((4, 1)), np.ones(4), units=1, restarts=10**30), "restarts must be at most"),
)
