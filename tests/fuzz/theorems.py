"""Cases about what the theorems say of samples."""

from typing import Any

import numpy as np

from implicit_bias import FrozenReLUNetwork, ReLUNetwork, norms
from implicit_bias.extensions import best_networks, galu
from tests.fuzz import problems
from tests.fuzz.draw import DIMENSIONS, Draw, Given
from tests.fuzz.strategies import ENDLESS, Strategy, choice, count, never, number, numbers
from tests.fuzz.table import row

ALL_SCALES = (1.0, 1.0, 1e-200, 1e200, 1e-300, 1e300)


def samples(draw: Draw) -> dict[str, Any]:
    return {"X": problems.points(draw)}


def centres(draw: Draw) -> Given:
    return problems.points(draw, scales=ALL_SCALES)


TARGETS = numbers("m", [1.0, 0.0, 1e-20], but=DIMENSIONS)
row(galu.gate_kernel, samples, share=3, fine=lambda c, r: np.abs(r).max() <= 0.5 * np.sum(c.X**2, axis=1).max() + 1e-9)
row(galu.memorisation_width, samples, fine=lambda c, found: found.failure(found.width) <= found.delta * (1 + 1e-9))
# So few gates may have a singular Gram matrix, and so may samples on a line.
row(galu.a_priori_rate, samples, k=count(10**4, 10**5, 7), may=True, fine=lambda c, found: 0 <= found.rate <= 1)
row(galu.generalisation_bound_a_priori, samples, y=TARGETS, may=True, fine=lambda c, r: r.bound >= r.complexity)
row(galu.sphere_width, samples, may=True, fine=lambda c, found: 0 < found.c1 <= 1 + 1e-9)
row(galu.fitted_samples, samples, k=count(10, 10**4), may=True, fine=lambda c, found: 0 <= found.loss <= 1)
row(
    galu.rkhs_bound, samples, y=TARGETS, radius=number(2.0, 1e3), may=True, fine=lambda c, r: r.energy <= r.radius * 1.1
)
row(galu.cluster_width, centres=centres, may=True, fine=lambda c, found: found.radius <= 1)
row(galu.gate_correlations, centres=centres, fine=lambda c, found: 0 <= found.min() <= found.max() <= 0.5)

CONTEXTS: dict[str, Any] = {"units": count(1, 2, 3, vast=10), "contexts": count(1, 2, 3, vast=10)}
row(norms.free_contexts, **CONTEXTS, may=lambda c: c.units * c.contexts > 100, fine=lambda c, r: r.max() < c.contexts)


def rows(name: str, tied: int) -> Strategy:
    """Rows for some units; as many as their contexts, or, if they are tied, as are free."""

    def drawn(draw: Draw) -> dict[str, Any]:
        units = draw.whole(1, 3)
        values = draw.normal(units * draw.whole(1, 3) + tied, draw.whole(1, 3))
        return {name: draw.array(values), "units": units}

    return drawn


row(norms.global_predictors, rows("zeta", 0), may=True, fine=lambda c, found: found.ndim == c.units + 1)
row(norms.weights_of_predictors, rows("predictors", 1), may=True, fine=lambda c, found: len(found) % c.units == 0)


def _layers(draw: Draw) -> dict[str, Any]:
    X, y = problems.clean_task(draw)
    net = draw.pick([ReLUNetwork(X.shape[1], [3, 2]), FrozenReLUNetwork(X.shape[1], 4)])
    return {"network": draw.scalar([net], never), "X": draw.array(X), "y": draw.array(y)}


TOLERANCE = number(1e-3, 0.1, high=1.0)
row(
    best_networks.margin_bound,
    _layers,
    tol=TOLERANCE,
    may=True,
    fine=lambda c, found: found is None or found.lower_bound > 0,
)


def features(draw: Draw) -> dict[str, Any]:
    return {"features": draw.scalar([problems.features(draw)[0]], never)}


def fit(weights: str) -> Strategy:
    def drawn(draw: Draw) -> dict[str, Any]:
        features, dense = problems.features(draw)
        size = float(draw.pick([0.0, 1.0, 1 / max(np.max(np.abs(dense)), 1e-100)]))
        W = draw.array(draw.normal(features.k, features.d) * size, but=DIMENSIONS)
        return {"features": features, "y": draw.array(draw.normal(features.n), but=DIMENSIONS), weights: W}

    return drawn


def _nothing(c: Any) -> bool:
    """Features that are not gated, or all zero."""
    return c.features.gate_values is None or not c.features.dense().any()


row(galu.expected_loss, features, must=_nothing, fine=lambda c, found: 0 <= found.generic <= found.value < 1)
row(galu.descent_rate, features, must=_nothing, fine=lambda c, found: 0 <= found.rate <= 1 and found.steps(0.5) >= 1)
row(galu.descent_target, fit("w0"), share=3, must=_nothing, same=1e-6)
# Samples are to be no longer than 1, and gate values no larger.
row(
    galu.generalisation_bound,
    fit("weights"),
    may=True,
    fine=lambda c, found: found.bound >= found.training_loss and found.loss_range >= found.radius**2,
)

VAST, MANY = count(12, 3, 10**6, vast=10**15), count(2, 10, 10**4, least=2)
SIGMA, EPSILON = number(1.0, 0.1, 1e30, low=1e-99, high=1e99), number(0.01, 0.5, 1e-5, low=1e-90, high=1.0)
TERMS = count(1, 3, 40, cap=10**4, vast=ENDLESS)
row(galu.expected_test_loss, m=VAST, d=VAST, sigma=SIGMA, must=lambda c: c.m < c.d + 2)
row(galu.expected_train_loss, m=VAST, d=VAST, sigma=SIGMA)
row(galu.cluster_dimension, n=VAST, fine=lambda c, found: found >= 1)
row(galu.cluster_samples, n=VAST, d=VAST, epsilon=EPSILON, fine=lambda c, found: found >= c.n * c.d)
row(galu.slab_probability, d=MANY, r=number(0.1, 1e-5, 2.0), fine=lambda c, found: 0 <= found <= 1)
row(galu.corollary_samples, k=VAST, d=VAST, c1=number(0.5, 1.0), c2=number(0.1, 1.0), may=True)
row(galu.orthogonal_inverse, n=count(1, 2, 7, cap=1000, vast=10**5), fine=lambda c, found: found.shape == (c.n, c.n))
MOVED = number(0.01, 0.3, 5.0, low=1e-100, high=1e100)
row(galu.moved_gates, d=VAST, k=VAST, epsilon=MOVED, may=True, fine=lambda c, r: 0 <= r.mean <= r.uniform <= 1)
row(galu.neighbouring_gates, d=MANY, k=VAST, epsilon=EPSILON, fine=lambda c, found: 0 < found <= 1)


def _matrices(draw: Draw) -> dict[str, Any]:
    n, scale = draw.whole(2, 4), draw.scale(1.0, 1.0, 1e-90, 1e90, 1e300, 1e-300)
    A, change = np.eye(n) + 0.05 * draw.normal(n, n), draw.normal(n, n)
    near: dict[str, tuple[Any, Any]] = {"near": (scale * (A + 0.02 * change), "good")}
    near |= {"apart": (scale * (A + change), "doubtful"), "far": (scale * (A - 9 * np.eye(n)), "bad")}
    return {"A": draw.array(scale * A, rounded=False), "B": draw.variant("B", near)}


GRADIENT: dict[str, Any] = {"X": numbers("m d"), "y": numbers("m", signs=True, but=DIMENSIONS)}
GRADIENT |= {"directions": numbers("k d~"), "readout": numbers("k~", but=[*DIMENSIONS, "None"])}
TARGET: dict[str, Any] = {"target": numbers("d", ALL_SCALES, rounded=False)}
row(galu.neumann_inverse, _matrices, terms=TERMS, fine=lambda c, found: 0 <= found.ratio < 1)
row(galu.initial_gradients, **GRADIENT, loss=choice("hinge", "logistic"), may=lambda c: not c.X.any())
row(galu.gaussian_gradient, **TARGET)
row(
    galu.first_gradient_norm,
    X=numbers("m d"),
    y=GRADIENT["y"],
    k=count(1, 10, 10**6),
    may=True,
    fine=lambda c, r: r.mean_square <= r.largest**2 * (1 + 1e-9),
)
MOVING: dict[str, Any] = {"X": numbers("m d"), "start": numbers("k d"), "trained": numbers("k d", but=DIMENSIONS)}
row(galu.galu_excess, **MOVING, readout=numbers("k~", but=DIMENSIONS), may=True, fine=lambda c, r: r.bound >= 0)
row(
    galu.rademacher_bound,
    samples=numbers("m d"),
    radius=number(1.0, 2.0, high=np.finfo(float).max, ends=True),
    p=count(1, 2, most=2),
    may=True,
)
row(
    galu.landscape,
    fit("weights"),
    readout=lambda draw: draw.array(np.ones(3), but=DIMENSIONS),
    may=True,
    fine=lambda c, found: found.excess >= 0,
)


def _direction(draw: Draw) -> dict[str, Any]:
    d = draw.pick([1, 2, 3, 5, 8, 21])
    values = draw.pick([draw.normal(d), draw.rng.integers(-2, 3, d).astype(float), np.zeros(d)])
    bits = count(1, 2, 3, vast=ENDLESS)(draw)
    return {"direction": draw.array(values * draw.scale(*ALL_SCALES)), "bits": bits}


def _many_bits(c: Any) -> bool:
    return len(c.direction) > 20 or c.bits > len(c.direction)


row(galu.parity_gradient, _direction, finite=False, must=_many_bits, fine=lambda c, r: np.abs(r.mean).max() <= 0.5)
