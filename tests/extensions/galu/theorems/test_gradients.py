"""First gradients: Gaussian samples, parities, and their norm in probability (Theorem 4)."""

import itertools
import math

import numpy as np
import pytest

from implicit_bias.extensions.galu import (
    first_gradient_norm,
    gaussian_gradient,
    initial_gradients,
    parity,
    parity_gradient,
)
from tests.cases import unit


def test_gaussian_gradient_is_mean_for_every_gate():
    rng, m, d = np.random.default_rng(27), 50_000, 6
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
def test_initial_gradients_of_relu_and_galu(loss):
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


def test_parity_gradient_is_fourier_coefficients():
    u = np.random.default_rng(30).normal(size=6)
    X = np.array(list(itertools.product([1.0, -1.0], repeat=6)))
    opened = X @ u > 0
    for bits in (1, 4, 6):
        y = X[:, :bits].prod(axis=1)
        found = parity_gradient(u, bits)
        np.testing.assert_array_equal(found.mean, np.mean((y * opened)[:, None] * X, axis=0))
        rows = (y * opened)[:, None] * X - found.mean
        assert found.noise == pytest.approx(np.mean(np.sum(rows**2, axis=1)), rel=1e-12)


def test_parity_gradient_exponentially_small():
    d, b = 8, 4
    u = np.random.default_rng(33).normal(size=d)
    sets = itertools.combinations(range(d), b)
    orders = ([*chosen, *(i for i in range(d) if i not in chosen)] for chosen in sets)
    sizes = [np.sum(parity_gradient(u[order], b).mean ** 2) for order in orders]
    assert np.mean(sizes) <= (b + 1) / (2 * math.comb(d, b))
    assert not any(parity_gradient(u, odd).mean.any() for odd in (3, 5, 7))
    assert parity_gradient(np.zeros(3), 1).samples == np.inf


def test_parity_gradient_of_inputs_on_hyperplane():
    found = parity_gradient([1.0, 1.0, 1.0, 1.0], 3)
    assert found.mean.tolist() == [1 / 16, 1 / 16, 1 / 16, -3 / 16]
    assert type(found.noise) is float


def test_parity_gradient_closes_gates_at_ties():
    shares = parity_gradient([0.1, 0.2, -0.3], 1)
    integers = parity_gradient([1, 2, -3], 1)
    np.testing.assert_array_equal(shares.mean, integers.mean)


def test_first_gradient_norm_below_overflow():
    found = first_gradient_norm([[1.0, 0.0], [0.6, 0.8]], [1, -1], 5)
    assert (found.at_most(1e200), found.at_least(1e200)) == (1, 0)


def test_first_gradient_norm_of_networks():
    """The mean square over random gates and signs is yᵀκy/m², and both tail bounds hold."""
    rng, k, draws = np.random.default_rng(34), 40, 200
    X, y = parity(60, 6, 2, seed=3)
    X = X / np.sqrt(6)
    found, norms = first_gradient_norm(X, y, k), []
    for _ in range(draws):
        signs = rng.choice([-1.0, 1.0], size=k)
        norms.append(np.linalg.norm(initial_gradients(X, y, rng.normal(size=(k, 6)), signs / np.sqrt(k))))
    squares = np.square(norms)
    assert np.mean(squares) == pytest.approx(found.mean_square, abs=4 * np.std(squares) / np.sqrt(draws))
    assert squares.max() <= found.largest**2 * (1 + 1e-12)
    for factor in (0.5, 0.8, 1.2, 2.0):
        epsilon = factor * np.sqrt(found.mean_square)
        share = np.mean(np.array(norms) <= epsilon)
        assert found.at_most(epsilon) <= share + 0.1
        assert found.at_least(epsilon) <= 1 - share + 0.1
    assert found.at_most(3 * np.sqrt(found.mean_square)) > 0.88
    assert first_gradient_norm(X, y, 10**6).at_least(0.5 * np.sqrt(found.mean_square)) > 0.9
