"""Mixtures for tanh, sigmoid, softplus and swish: the bound of their error, and long points against quadrature."""

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.integrate

from implicit_bias import load_binary
from implicit_bias.extensions.infinite import InfiniteNetwork, activation, gram_matrix, predict
from implicit_bias.extensions.infinite.activations import MIXTURE_ERROR, SCALES, STEP, WEIGHTS, kolmogorov_density
from implicit_bias.extensions.infinite.angles import GaussianPairs
from tests.extensions.infinite.test_gram import SERIES, panels

#: Argument of the complex scales in the bound.
TURN = 0.75


def trapezoidal_error(power):
    """Return 2/(e^{2πa/h} − 1) ∫ |κ(k) k^{1 + p}| dk/k over the ray of argument a = TURN, κ the density."""
    j, cosine = np.arange(1.0, 200.0), math.cos(2 * TURN)

    def size(t):
        k = math.exp(t)
        q = ((2 * j - 1) * math.pi / k) ** 2 / 8
        far = 8 * k**2 * (j**2 * np.exp(-2 * (j * k) ** 2 * cosine)).sum()
        near = math.sqrt(2 * math.pi) / k * ((2 * q + 1) * np.exp(-q * cosine)).sum()
        return min(near, far) * k**power

    total, _ = scipy.integrate.quad(size, -5, 4, limit=300, points=[-2, -1, 0, 1])
    return 2 * total / math.expm1(2 * math.pi * TURN / STEP)


def test_error_is_what_the_proof_says():
    """ε_0, ε_{−1} and ε_1 of docs/gram_formulas.md, the number of scales, and the sum of the weights as computed."""
    assert len(SCALES) == 26
    errors = [trapezoidal_error(power) for power in (0, -1, 1)]
    assert errors[0] < 1.7e-14
    assert errors[1] < 2.6 * errors[0]
    assert errors[2] < errors[0]
    assert (STEP * SCALES * kolmogorov_density(SCALES)).sum() == pytest.approx(1, abs=2e-15)
    assert MIXTURE_ERROR > 2 * 11 * 1.9e-14


def test_mixture_is_tanh():
    z = np.concatenate([np.linspace(0, 3, 2000), np.linspace(3, 40, 2000)])[:, None]
    values = [math.erf(x) for x in (z / (math.sqrt(2) * SCALES)).ravel()]
    # ε_0 and the rounding of 26 terms whose sum is at most 1.
    np.testing.assert_allclose(np.reshape(values, (len(z), -1)) @ WEIGHTS, np.tanh(z[:, 0]), rtol=0, atol=2e-14)


def rule(centre):
    """Return nodes and weights of a normal mean, on panels that shrink towards `centre`."""
    away = np.concatenate([[0.0], np.geomspace(1e-6, 20, 30)])
    edges = np.concatenate(
        [np.clip(centre + sign * away, -9.5, 9.5) for sign in (1, -1)] + [np.linspace(-9.5, 9.5, 20)]
    )
    nodes, weights = panels(np.unique(edges))
    return nodes, weights * np.exp(-nodes * nodes / 2) / math.sqrt(2 * math.pi)


def by_refined_quadrature(f, r, s, angle):
    """Return E[f(z)f(z')] for f with a narrow feature at 0: over z, and over z' given z."""
    (u, weights), inner = rule(0.0), []
    for at in u:
        v, own = rule(-at / math.tan(angle))
        inner.append(f(s * (math.cos(angle) * at + math.sin(angle) * v)) @ own)
    return (f(r * u) * np.array(inner)) @ weights


LONG = [
    ("tanh", 60.0, 25.0, 0.02),
    ("sigmoid", 30.0, 30.0, 1e-3),
    ("softplus", 0.1, 20.0, 2.0),
    ("swish", 1e3, 5.0, 3.14),
]


@pytest.mark.parametrize(("name", "r", "s", "angle"), LONG)
def test_means_for_long_points_are_within_the_error(name, r, s, angle):
    sigma = activation(name)
    for f, mean in ((sigma.derivative, sigma.pair), (sigma.function, sigma.dual)):
        own = [float(mean(GaussianPairs(*np.array([x, x, 1.0, 0.0])))) for x in (r, s)]
        found = float(mean(GaussianPairs(*np.array([r, s, math.cos(angle), angle]))))
        assert abs(found - by_refined_quadrature(f, r, s, angle)) <= MIXTURE_ERROR / 50 * math.sqrt(own[0] * own[1])


@pytest.mark.parametrize("name", SERIES)
def test_series_and_mixture_agree_within_their_errors(name):
    """These points are short enough for a series, which an activation without a strip does not have."""
    X, sigma, found = 0.7 * np.random.default_rng(1).normal(size=(12, 3)), activation(name), []
    for chosen in (sigma, replace(sigma, strip=None)):
        kernels = InfiniteNetwork(chosen, 3, 1.5, 0.1).kernels(X)
        found.append((gram_matrix(X, chosen), kernels.nngp, kernels.ntk))
    for series, mixed in zip(*found, strict=True):
        assert series.terms > 0 == mixed.terms
        allowed = series.error + mixed.error
        assert np.linalg.norm(series.values - mixed.values, 2) <= allowed < 1e-9 * np.linalg.norm(series.values, 2)


@pytest.mark.parametrize("name", SERIES)
def test_points_of_any_length_are_taken(name):
    """Kernels of 60 standardised digits of lengths up to 10, and of np.eye(4) times 12 up to 1e20, are certified."""
    task = load_binary("digits", train_size=300)
    X = task.X_train[:, :-1] - task.X_train[:, :-1].mean(axis=0)
    X, y = (X / np.maximum(X.std(axis=0), 1e-9))[:60], task.y_train[:60]
    network = InfiniteNetwork(name, 1, 8.0, 0.1)
    kernel = network.kernels(X).ntk
    assert kernel.is_certified
    assert kernel.error < 1e-9 * np.linalg.norm(kernel.values, 2)
    assert np.isfinite(predict(network, X, y, X[:5]).std).all()
    for size in (12.0, 1e3, 1e6, 1e20):
        kernel = InfiniteNetwork(name).kernels(size * np.eye(4)).ntk
        # Angles are known to 1e-15, and the slope of tanh is felt within an angle of 1/size.
        assert kernel.error < 1e-11 * size * np.linalg.norm(kernel.values, 2)
