"""Algorithm 1 against a new solution at every step, and alternate convex search."""

import numpy as np
import pytest

from implicit_bias import InputError, ReLUGates, SoftGates
from implicit_bias.extensions.galu import alternate_convex_search, improve_filters, least_squares
from implicit_bias.extensions.galu.filters import RECOMPUTE_AFTER
from tests.cases import assert_refused, drawn, interrupt


def solved_anew(X, y, units, steps, seed, ridge, sharpness=None):
    """Return filters and history of Algorithm 1, with the least value solved by dense algebra at every step.

    Without ridge and with at least as many features as samples, the value is the squared norm of the least-norm
    solution.
    """
    rng = np.random.default_rng(seed)
    filters = rng.normal(size=(units, X.shape[1]))

    def value(filters):
        gates = ReLUGates(filters) if sharpness is None else SoftGates(filters, sharpness)
        dense, m = gates(X).dense(), len(X)
        if ridge:
            gram = dense.T @ dense + m * ridge * np.eye(dense.shape[1])
            return np.sum(y * (y - dense @ np.linalg.solve(gram, dense.T @ y))) / m
        W = np.linalg.pinv(dense, rcond=1e-9) @ y
        return np.sum((dense @ W - y) ** 2) / m if dense.shape[1] < m else np.sum(W**2)

    history = [value(filters)]
    for _ in range(steps):
        unit, candidate = int(rng.integers(units)), rng.normal(size=X.shape[1])
        trial = filters.copy()
        trial[unit] = candidate
        found = value(trial)
        if found <= history[-1]:
            filters = trial
        history.append(min(found, history[-1]))
    return filters, np.array(history)


@pytest.mark.parametrize(
    ("n", "d", "units", "ridge", "steps"),
    [(60, 6, 3, 0.0, 100), (60, 6, 9, 0.05, 100), (60, 6, 30, 0.0, 60), (30, 3, 30, 0.05, 700)],
)
def test_algorithm_1_takes_the_steps_of_solving_anew(n, d, units, ridge, steps):
    """Filters and history equal those of `solved_anew`, with fewer features than samples, about as many, and more."""
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(n, d)), rng.normal(size=n)
    found = improve_filters(X, y, units, steps=steps, ridge=ridge, seed=3)
    filters, history = solved_anew(X, y, units, steps, 3, ridge)
    assert (found.accepted > RECOMPUTE_AFTER) == (steps == 700)
    np.testing.assert_array_equal(found.directions, filters)
    # More features than samples and no ridge: nothing but the norm is left to lower.
    wide = d * units >= n and not ridge
    lowered = found.history / found.ridge if wide else found.history
    np.testing.assert_allclose(lowered, history, rtol=1e-5)
    best = found.solution.norm**2 if wide else found.solution.loss + ridge * found.solution.norm**2
    assert best == pytest.approx(lowered[-1], rel=1e-6)
    again = improve_filters(X, y, units, steps=steps, ridge=ridge, seed=3)
    np.testing.assert_array_equal(again.history, found.history)


@pytest.mark.parametrize(("sharpness", "units"), [(None, 30), (1.5, 3)])
def test_algorithm_1_of_several_targets_and_soft_gates_takes_the_steps_of_solving_anew(units, sharpness):
    rng = np.random.default_rng(5)
    X, Y = rng.normal(size=(60, 6)), rng.normal(size=(60, 3))
    found = improve_filters(X, Y, units, steps=80, ridge=0.05, seed=3, sharpness=sharpness)
    filters, history = solved_anew(X, Y, units, 80, 3, 0.05, sharpness)
    np.testing.assert_array_equal(found.directions, filters)
    np.testing.assert_allclose(found.history, history, rtol=1e-6)
    assert found.solution.weights.shape == (3, units, 6)
    again = least_squares(found.gates()(X), Y, ridge=0.05)
    np.testing.assert_array_equal(found.predict(X[:5])[:, 1], found.gates()(X[:5]) @ found.solution.weights[1])
    np.testing.assert_allclose(found.solution.weights, again.weights, rtol=1e-9)


@pytest.mark.parametrize("units", [3, 30])
def test_algorithm_1_counts_weights_as_copies(units):
    rng = np.random.default_rng(6)
    X, y, weight = rng.normal(size=(50, 5)), rng.normal(size=50), rng.integers(0, 3, 50)
    options = {"units": units, "steps": 60, "ridge": 0.02, "sharpness": 2.0}
    weighted = improve_filters(X, y, sample_weight=weight, **options)
    repeated = improve_filters(X.repeat(weight, axis=0), y.repeat(weight), **options)
    np.testing.assert_array_equal(weighted.directions, repeated.directions)
    np.testing.assert_allclose(weighted.history, repeated.history, rtol=1e-6)
    np.testing.assert_allclose(weighted.solution.weights, repeated.solution.weights, atol=1e-8)
    for bad, words in (([-1.0] * 50, "at least 0"), (np.zeros(50), "not all"), (np.ones(3), "3 weights for 50")):
        with pytest.raises(InputError, match=words):
            improve_filters(X, y, sample_weight=bad, **options)


@pytest.mark.parametrize("seed", [21, 30, 35])
def test_updates_past_nearly_singular_filters_keep_their_digits(seed):
    """The history stays exact to 1e-6 if units are open for fewer samples than inputs, where updates lose digits."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(43, 4)), rng.normal(size=43)
    found = improve_filters(X, y, 9, steps=60)
    anew = improve_filters(X, y, directions=found.directions, steps=0)
    assert found.history[-1] == pytest.approx(anew.history[0], abs=1e-6)


def test_a_singular_update_is_no_step():
    X = [[-16616.946119518623, 6826.800324386942], [-7.698205141422477, 7.9381497179483045]]
    found = improve_filters(X, [-0.0234832763671875, -0.31640625], units=1, steps=90, seed=1)
    assert np.isfinite(found.history).all()


def test_algorithm_1_says_what_it_lowers_where_rank_is_lost():
    """The loss of three equal samples is the variance of the targets, whatever the filters."""
    found = improve_filters(np.ones((3, 2)), [1.0, 2.0, 4.0], 3, steps=5)
    assert found.history[-1] == pytest.approx(found.solution.loss, rel=1e-6)
    assert found.solution.loss == pytest.approx(np.var([1.0, 2.0, 4.0]))


def test_algorithm_1_goes_on_from_given_filters_and_stops_when_asked():
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(60, 6)), rng.normal(size=60)
    first = improve_filters(X, y, 4, steps=50)
    stop = interrupt(lambda step, steps: step == 10)
    later = improve_filters(X, y, directions=first.directions, steps=50, seed=2, progress=stop)
    assert later.interrupted
    assert len(later.history) == 11
    assert later.history[0] == pytest.approx(first.solution.loss)
    assert not first.interrupted


def test_alternation_never_rises_and_each_half_step_is_exact():
    features, _ = drawn(60, 4, 5, 0)
    Y = np.random.default_rng(1).normal(size=(60, 3))
    found = alternate_convex_search(features, Y, steps=300, tol=1e-9)
    assert (np.diff(found.history) <= 0).all()
    assert found.converged
    W = found.effective_weights()
    predicted = np.stack([features @ w for w in W], axis=1)
    assert found.loss == pytest.approx(np.sum((predicted - Y) ** 2) / 60)
    # Neither half can be improved by dense least squares any more.
    hidden = features.gate_values * (features.X @ found.hidden.T)
    readout = np.linalg.lstsq(hidden, Y)[0]
    assert np.sum((hidden @ readout - Y) ** 2) / 60 == pytest.approx(found.loss, rel=1e-6)
    stacked = np.concatenate([features.mixed(np.diag(row)).dense() for row in found.readout])
    layer = np.linalg.lstsq(stacked, Y.T.ravel())[0]
    assert np.sum((stacked @ layer - Y.T.ravel()) ** 2) / 60 == pytest.approx(found.loss, rel=1e-6)
    np.testing.assert_allclose(np.linalg.norm(found.hidden, axis=1), np.linalg.norm(found.readout, axis=0), rtol=1e-6)


@pytest.mark.parametrize("size", [(60, 5, 3), (30, 3, 15)], ids=str)
def test_alternation_with_one_output_is_least_squares(size):
    features, y = drawn(*size, 0)
    found = alternate_convex_search(features, y, steps=50, tol=0.0)
    assert found.loss == pytest.approx(least_squares(features, y).loss, abs=1e-9)


def test_alternation_stops_at_ctrl_c():
    features, y = drawn(60, 5, 3, 0)
    found = alternate_convex_search(features, np.stack([y, y[::-1]], axis=1), progress=interrupt())
    assert not found.converged
    assert len(found.history) == 3


def test_filters_are_those_of_any_scale():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), rng.normal(size=40)
    for size in (2.0**-330, 2.0**330):
        plain, scaled = improve_filters(X, y, 3, steps=20), improve_filters(size * X, y, 3, steps=20)
        np.testing.assert_allclose(scaled.history, plain.history, rtol=1e-9)
        np.testing.assert_allclose(
            improve_filters(X, size * y, 3, steps=20).history, plain.history * size**2, rtol=1e-9
        )


def test_filters_are_never_closed_for_all_samples():
    X = np.array([[1.0, 1.0], [1.0, 1.1]])
    assert_refused(lambda: improve_filters(X, [1.0, 2.0], directions=[[-1.0, -1.0]]), "closed for every sample")
    found = improve_filters(X, [0.0, 0.0], directions=[[1.0, 1.0]], steps=50)
    assert found.gates().transform(X).all(axis=0).any()
