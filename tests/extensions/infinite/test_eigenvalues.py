"""Smallest eigenvalues of Gram matrices: their bounds, known values, singular cases, the circle and depth."""

import mpmath
import numpy as np
import pytest
import torch

from implicit_bias import InputError
from implicit_bias.extensions.infinite import (
    circle_eigenvalue,
    custom_activation,
    deep_gram,
    gram_matrix,
    leaky_relu,
    polynomial,
    smallest_eigenvalue,
)
from implicit_bias.extensions.infinite.activations import ACTIVATIONS
from tests.cases import assert_refused, refusals, unit


def least(X, name):
    return smallest_eigenvalue(gram_matrix(X, name))


def test_bounds_hold_the_eigenvalue_of_matrices_whose_spectrum_is_known():
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.normal(size=(30, 30)))[0]
    for smallest in (1.0, 1e-6, 1e-20, 0.0, -0.5):
        values = Q @ np.diag([smallest, *rng.uniform(2, 3, 29)]) @ Q.T
        found = smallest_eigenvalue((values + values.T) / 2)
        # The products of Q with itself, of 30 terms, are rounded twice.
        assert abs(found.value - smallest) <= found.error + 3e-14
        assert found.error < 1e-11
        assert found.is_positive == (smallest >= 1e-6)


@pytest.mark.parametrize(
    "values",
    [[[0.0]], np.zeros((3, 3)), [[0.0, 1.0], [1.0, 0.0]], [[1e-279, 0.0], [0.0, -1e-279]], [[1e279, 2e279]] * 2],
    ids=["zero", "zeros", "no trace", "tiny", "huge"],
)
def test_matrices_without_a_trace_and_of_every_size_have_bounds(values):
    matrix = np.array(values)
    matrix = (matrix + matrix.T) / 2
    found, size = smallest_eigenvalue(matrix), abs(matrix).max()
    assert abs(found.value - np.linalg.eigvalsh(matrix)[0]) <= found.error
    assert found.error <= 1e-13 * size + 1e-300


def test_multiprecision_sees_what_doubles_do_not():
    X = unit(20, 2, seed=3)
    doubles = least(X, "erf")
    many = smallest_eigenvalue(gram_matrix(X, "erf", digits=40), digits=10)
    assert not doubles.is_positive
    assert many.is_positive
    assert abs(float(many.value) - doubles.value) <= doubles.error
    known = mpmath.mp.clone()
    known.dps = 80
    spectrum = known.eigsy(known.matrix(gram_matrix(X, "erf", digits=40).values.tolist()), eigvals_only=True)
    assert abs(min(spectrum) - many.value) <= many.error
    with pytest.raises(InputError, match=r"does not have 3 correct digits, .* gram_matrix\(X, …, digits=…\)"):
        smallest_eigenvalue(gram_matrix(X, "erf"), digits=3)
    assert_refused(lambda: smallest_eigenvalue(gram_matrix(X, "erf", digits=20), digits=30), "with more digits")


@pytest.mark.parametrize("gap", [2.0**-40, 1e-25])
def test_points_that_nearly_meet_keep_their_digits(gap):
    """For unit points at angles θ near 0 or π, λ_min = ½ − |(½ − θ/2π) cos θ| is within the error."""
    for sign in (1, -1):
        gram = gram_matrix([[1.0, 0.0], [sign, gap]], "relu", normalise=True, digits=30)
        entry = gram.values[0, 1]
        found = smallest_eigenvalue(gram, digits=12 if sign > 0 else None)
        context = entry.context
        theta = context.atan(context.mpf(gap))
        angle = theta if sign > 0 else context.pi - theta
        expected = (context.pi - angle) / (2 * context.pi) * context.cos(angle)
        assert abs(entry - expected) <= gram.error
        assert abs(found.value - (context.mpf(1) / 2 - abs(expected))) <= found.error
    coarse, fine = (gram_matrix([[1.0, 0.5], [1.0, 0.5 + gap]], "relu", digits=digits) for digits in (12, 80))
    assert abs(smallest_eigenvalue(coarse).value - smallest_eigenvalue(fine).value) <= smallest_eigenvalue(coarse).error


@pytest.mark.parametrize("name", ["relu", "square"])
def test_errors_beyond_doubles_are_not_zero(name):
    gram = gram_matrix([[1.0, 0.2], [0.5, 1.0]], name, digits=400)
    assert 0 < gram.error < mpmath.mpf(10) ** -400
    assert smallest_eigenvalue(gram).error > gram.error
    assert "error=" in repr(gram)
    assert "e-41" in repr(gram)


@pytest.mark.parametrize("name", ["tanh", "erf", "square", "cube", "relu", "selu", "swish"])
def test_an_antipodal_pair_makes_even_derivatives_singular_and_squares_too(name):
    X = np.vstack([unit(4, 3), -unit(1, 3)])
    found = least(X, name)
    assert found.is_positive == (name in ("relu", "selu", "swish"))


@pytest.mark.parametrize(("name", "d"), [("relu", 2), ("gelu", 2), ("swish", 3)])
def test_more_pairs_than_dimensions_are_singular_where_the_derivatives_of_opposites_add_up_to_a_constant(name, d):
    X = unit(d + 1, d, seed=8)
    for pairs, positive in ((d, True), (d + 1, False)):
        found = least(np.vstack([X[:pairs], -X[:pairs]]), name)
        assert found.is_positive == positive
        assert found.value > 1e-6 or not positive
    assert found.error < 1e-10


@pytest.mark.parametrize(("name", "rank"), [("square", 15), ("cube", 35)])
def test_ranks_of_polynomials_in_five_dimensions(name, rank):
    values = np.linalg.eigvalsh(gram_matrix(unit(60, 5), name).values)
    assert np.count_nonzero(values > 1e-10) == rank


@pytest.mark.parametrize(("n", "value"), [(11, 1.9e-6), (81, 4.6e-46)])
def test_the_circle_with_erf(n, value):
    found = circle_eigenvalue(n, "erf")
    assert float(found.value) == pytest.approx(value, rel=0.02)
    assert found.error < 1e-9 * found.value


def test_the_circle_is_circulant_and_relu_comes_to_a_quarter():
    angles = 2 * np.pi * np.arange(15) / 15
    for name in ("relu", "selu", "gelu"):
        found = least(np.stack([np.cos(angles), np.sin(angles)], axis=1), name)
        assert abs(found.value - float(circle_eigenvalue(15, name, 5).value)) <= found.error
    scaled = [float(circle_eigenvalue(n, "relu", 5).value) * n for n in (11, 51, 201)]
    assert np.diff(np.abs(np.array(scaled) - 0.25)).max() < 0
    assert scaled[-1] == pytest.approx(0.25, abs=2e-4)


def test_the_circle_has_as_many_digits_as_are_asked_for():
    for digits in (3, 600):
        found = circle_eigenvalue(11, "erf", digits)
        assert found.error * 10**digits < found.value


def test_the_circle_of_a_polynomial_is_singular():
    found = circle_eigenvalue(9, "square")
    assert not found.is_positive
    assert found.error < mpmath.mpf(10) ** -500
    assert "0 up to" in str(found)


SYMMETRIC = [*ACTIVATIONS.values(), leaky_relu(-1), polynomial([0, 2, 1]), polynomial([0, 1, 1, 1]), polynomial([0, 1])]


@pytest.mark.parametrize("sigma", SYMMETRIC, ids=lambda sigma: sigma.name)
def test_parities_are_those_of_the_derivatives(sigma):
    z = np.linspace(0.1, 5, 40)
    right, left = (np.asarray(sigma.derivative(at), dtype=float) for at in (z, -z))
    constant = np.ptp(right + left) <= 1e-12
    even, odd = np.allclose(right, left, rtol=1e-12), np.allclose(right, -left, rtol=1e-12)
    assert sigma.parity == ("even" if even else "odd" if odd else "half" if constant else None)


OPPOSITES = {"tanh": 2, "sigmoid": 4, "erf": 6, "square": 8, "relu": 4, "gelu": 6, "selu": 8, "swish": 6, "softplus": 8}


@pytest.mark.parametrize(("name", "n"), OPPOSITES.items())
def test_the_circle_of_opposites_is_singular_where_it_should_be_and_known_without_a_sum(name, n):
    found, angles = circle_eigenvalue(n, name, 3), 2 * np.pi * np.arange(n) / n
    dense = least(np.stack([np.cos(angles), np.sin(angles)], axis=1), name)
    assert abs(float(found.value) - dense.value) <= dense.error
    assert (found.error == 0) == (name in ("tanh", "sigmoid", "erf", "square") or (name != "selu" and n >= 6))
    assert found.is_positive == (found.error != 0)


@pytest.mark.parametrize("layers", [2, 300])
def test_errors_of_depth_are_bounds_and_contract(layers):
    """The error of erf's deep Gram matrix bounds the distance from sixty digits, and stays below 1e-11."""
    X = unit(6, 3)
    found = deep_gram(X, "erf", layers)
    with mpmath.workdps(60):
        rows = mpmath.matrix(X.tolist())
        inner = rows * rows.T
        off = np.zeros((6, 6))
        for i in range(6):
            for j in range(i):
                rho = inner[i, j] / mpmath.sqrt(inner[i, i] * inner[j, j])
                for _ in range(layers - 1):
                    rho = mpmath.asin(rho / 2) / mpmath.asin(mpmath.mpf(1) / 2)
                exact = 2 / mpmath.pi / mpmath.sqrt(4 - rho**2) * rho
                off[i, j] = off[j, i] = float(exact - found.values[i, j])
    assert np.linalg.norm(off, 2) <= found.error < 1e-11


def test_centred_layers_are_covariances():
    """Centred ReLU layers have the covariance K − 1/2π of the arc-cosine kernel K; centring does not change tanh."""
    X = unit(6, 3)
    theta = np.arccos(np.clip(X @ X.T, -1, 1))
    for _ in range(2):
        K = (np.sin(theta) + (np.pi - theta) * np.cos(theta)) / (2 * np.pi)
        theta = np.arccos(np.clip((K - 1 / (2 * np.pi)) / (0.5 - 1 / (2 * np.pi)), -1, 1))
    expected = (np.pi - theta) / (2 * np.pi) * np.cos(theta)
    np.testing.assert_allclose(deep_gram(X, "relu", 3, centred=True).values, expected, atol=2e-8)
    tanh = [deep_gram(X, "tanh", 5, centred=centred) for centred in (False, True)]
    np.testing.assert_allclose(tanh[0].values, tanh[1].values, atol=tanh[0].error + tanh[1].error)


test_bad_input_is_refused_in_one_sentence = refusals(
    (lambda: smallest_eigenvalue([[1.0, 2.0]]), "must be symmetric"),
    (lambda: smallest_eigenvalue([[1.0, 2.0], [0.0, 1.0]]), "must be symmetric"),
    (lambda: smallest_eigenvalue([[1.0]], digits=10**30), "digits must be at most 1000"),
    (lambda: smallest_eigenvalue([[1.0]], digits=30), "does not have 30 correct digits"),
    (lambda: smallest_eigenvalue([[1e-300]]), "entries of the matrix have sizes"),
    (lambda: circle_eigenvalue(10**7), "n must be at most 2000"),
    (lambda: circle_eigenvalue(5, custom_activation(torch.sin)), "known in doubles only"),
    (lambda: deep_gram([[1.0]], "relu", 10**30), "layers must be at most 10000"),
)
