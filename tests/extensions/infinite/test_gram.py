"""Gram matrices of activations against quadrature, sampling and multiprecision, and what is refused."""

import math

import mpmath
import numpy as np
import pytest
import scipy.special
import torch

from implicit_bias.extensions.infinite import (
    InfiniteNetwork,
    activation,
    custom_activation,
    elu,
    empirical_gram,
    gram_matrix,
    leaky_relu,
    mean_square,
    polynomial,
    spline,
)
from implicit_bias.extensions.infinite.activations import ACTIVATIONS
from implicit_bias.extensions.infinite.angles import GaussianPairs
from implicit_bias.extensions.infinite.series import means
from tests.cases import assert_refused, refusals

NAMES = list(ACTIVATIONS)
SERIES = ["tanh", "sigmoid", "softplus", "swish"]
#: Pairs of lengths of points.
LENGTHS = [(0.05, 2.0), (3.5, 1.5)]


def panels(edges, nodes=24):
    """Return nodes and weights of the Gauss–Legendre rule on each panel between `edges`."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    half = np.diff(edges)[:, None] / 2
    return ((edges[1:] + edges[:-1])[:, None] / 2 + half * x).ravel(), (half * w).ravel()


def by_quadrature(sigma, r, s, angle):
    """Return E[σ(z)σ(z')] in polar coordinates of the points' plane, cut where z or z' is 0."""
    cuts = np.sort(np.mod([np.pi / 2, -np.pi / 2, angle + np.pi / 2, angle - np.pi / 2], 2 * np.pi))
    ends = np.append(cuts, cuts[0] + 2 * np.pi)
    edges = np.unique(np.concatenate([np.linspace(ends[i], ends[i + 1], 9) for i in range(4)]))
    phi, turn = panels(edges)
    t, step = panels(np.concatenate([[0.0], np.geomspace(0.02, 1, 6), np.arange(2, 10)]))
    z, other = r * np.outer(t, np.cos(phi)), s * np.outer(t, np.cos(phi - angle))
    return (step * t * np.exp(-t * t / 2)) @ (sigma(z) * sigma(other)) @ turn / (2 * np.pi)


@pytest.mark.parametrize(("name", "r", "s"), [(name, *LENGTHS[i % 2]) for i, name in enumerate(NAMES)])
def test_entries_are_the_means_for_points_of_any_length(name, r, s):
    sigma, angles = activation(name), np.array([0.0, 0.01, 0.7, np.pi / 2 + 0.2, 2.9, np.pi])
    found = gram_matrix(np.vstack([[r, 0.0], s * np.column_stack([np.cos(angles), np.sin(angles)])]), sigma)
    root = math.sqrt(mean_square(name, r) * mean_square(name, s))
    for value, angle in zip(found.values[0, 1:], angles, strict=True):
        expected = by_quadrature(sigma.derivative, r, s, angle) * r * s * np.cos(angle)
        assert value == pytest.approx(expected, abs=1e-12 * r * s * root)
    assert found.values[0, 0] == pytest.approx(by_quadrature(sigma.derivative, r, r, 0.0) * r * r, rel=1e-11)
    np.testing.assert_array_equal(found.values, found.values.T)


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_are_derivatives(name):
    sigma, z = activation(name), np.array([-3.0, -0.7, -0.1, 0.2, 1.0, 4.0])
    slopes = (sigma.function(z + 1e-6) - sigma.function(z - 1e-6)) / 2e-6
    np.testing.assert_allclose(sigma.derivative(z), slopes, atol=1e-8, rtol=1e-8)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("sigmoid", "swish")])
def test_doubles_agree_with_multiprecision_within_the_error(name):
    X = np.random.default_rng(3).normal(size=(3, 2))
    doubles, many = gram_matrix(X, name, normalise=True), gram_matrix(X, name, normalise=True, digits=8)
    difference = (many.values - doubles.values).astype(float)
    assert np.linalg.norm(difference, 2) <= doubles.error + many.error
    assert doubles.error < 1e-11
    assert many.error < 1e-10


def test_long_nearly_parallel_points_of_a_series_are_refused():
    X, own = 8 * np.array([[1.0, 0.0], [np.cos(0.001), np.sin(0.001)]]), custom_activation(torch.tanh)
    refused = r"2048 terms of the series of the function leave an error of .*; scale the points down, "
    assert_refused(lambda: gram_matrix(X, own), refused + "remove nearly parallel ones, or raise the tolerance")
    # Later layers may bring any points close together.
    assert_refused(lambda: InfiniteNetwork(own, 1, 2.0).kernels(X), refused + "or raise the tolerance")


@pytest.mark.parametrize(
    ("function", "name"),
    [(torch.nn.functional.gelu, "gelu"), (torch.nn.functional.silu, "swish"), (lambda z: z**3, "cube")],
)
def test_functions_of_torch_have_the_gram_matrices_of_their_namesakes(function, name):
    X = np.random.default_rng(4).normal(size=(5, 3))
    found, known = gram_matrix(X, custom_activation(function)), gram_matrix(X, name)
    assert np.linalg.norm(found.values - known.values, 2) <= found.error + known.error
    assert known.is_certified
    assert not found.is_certified


def test_functions_that_bend_at_zero_agree_where_points_are_not_nearly_parallel():
    """The series of a custom ELU agrees with the closed form at large angles, and its error is below 1e-9."""
    X = np.vstack([np.eye(3), np.full((1, 3), 0.5)])
    bent = custom_activation(torch.nn.functional.elu, "own ELU")
    found, known = gram_matrix(X, bent), gram_matrix(X, "elu")
    assert np.linalg.norm(found.values - known.values, 2) <= found.error + known.error < 1e-9


@pytest.mark.parametrize(
    ("r", "apart", "name"), [(1e4, 1e-4, "gelu"), (1e6, 1e-6, "erf"), (1e6, 1e-6, "cube"), (1e4, 1e-4, "relu")]
)
def test_long_points_that_are_nearly_parallel_or_opposite_are_within_the_error(r, apart, name):
    x = r * np.array([1.0, 0.3])
    for sign in (1, -1):
        X = np.stack([x, sign * (x + r * apart * np.array([0.1, 1.0]))])
        found = gram_matrix(X, name)
        assert np.linalg.norm((gram_matrix(X, name, digits=60).values - found.values).astype(float)) <= found.error


def test_long_opposite_points_of_a_steep_elu_are_within_the_error():
    """The error bounds the distance from −r²α erfcx(r/√2), exact at θ = π, and from 25 digits near it."""
    X = np.array([[1e4, 3e3], [-1e4, -3e3]])
    found, r = gram_matrix(X, elu(1e3)), float(np.linalg.norm(X[0]))
    assert abs(found.values[0, 1] + r * r * 1e3 * scipy.special.erfcx(r / math.sqrt(2))) <= found.error
    rng = np.random.default_rng(6)
    for alpha, size in ((0.3, 1e-9), (30.0, 1e-16), (1e6, 1e-2)):
        x = rng.normal(size=2) * 3
        X = np.stack([x, -x + size * rng.normal(size=2)])
        found = gram_matrix(X, elu(alpha))
        many = gram_matrix(X, elu(alpha), digits=25).values
        assert np.linalg.norm((many - found.values).astype(float)) <= found.error


def test_an_empirical_gram_matrix_converges_to_the_exact_one_and_is_reproducible():
    X = np.random.default_rng(5).normal(size=(8, 3))
    exact = gram_matrix(X, "selu").values
    errors = [np.linalg.norm(empirical_gram(X, "selu", width, seed=1) - exact) for width in (1000, 100_000)]
    assert errors[1] < errors[0] / 4
    np.testing.assert_array_equal(empirical_gram(X, "selu", 100, seed=7), empirical_gram(X, "selu", 100, seed=7))


@pytest.mark.parametrize("name", NAMES)
def test_the_means_of_an_activation_are_its_integrals(name):
    z, w = panels(np.arange(-14.0, 15.0))
    lengths = np.array([0.3, 1.0, 2.5])
    found, off = means(activation(name), lengths)
    values = activation(name).function(np.outer(lengths, z)) @ (w * np.exp(-z * z / 2)) / math.sqrt(2 * math.pi)
    np.testing.assert_allclose(found, values, rtol=1e-12, atol=1e-13 + off)
    assert off < 1e-10


@pytest.mark.parametrize(
    ("name", "r", "s"), [(name, *LENGTHS[i % 2]) for i, name in enumerate(NAMES) if name not in SERIES]
)
def test_duals_are_the_means_of_the_activations(name, r, s):
    sigma, angles = activation(name), np.array([0.0, 0.01, 0.7, np.pi / 2, 2.9, np.pi])
    found = sigma.dual(GaussianPairs(np.float64(r), np.float64(s), np.cos(angles), angles))
    root = math.sqrt(math.prod(by_quadrature(sigma.function, one, one, 0.0) for one in (r, s)))
    expected = [by_quadrature(sigma.function, r, s, angle) for angle in angles]
    bound = sigma.dual_rounding(np.array([r, s])) * 2.0**-52 + 1e-13
    np.testing.assert_allclose(found, expected, rtol=0, atol=bound * root)


SPLINES = {
    "hardtanh": ([-1, 1], [[-1], [0, 1], [1]], torch.nn.functional.hardtanh),
    "hardswish": ([-3, 3], [[0], [0, 1 / 2, 1 / 6], [0, 1]], torch.nn.functional.hardswish),
    "shifted leaky": ([0.7], [[-0.07, 0.1], [-0.7, 1]], lambda z: torch.nn.functional.leaky_relu(z - 0.7, 0.1)),
    "elu from 1": ([1], [[-1], [-1, 1]], [[(math.exp(-1), 1)], []], lambda z: torch.nn.functional.elu(z - 1)),
    "a peak and a parabola": (
        [-1.5, 0.5, 2],
        [[0, 0.2], [0], [-0.25, 0, 1], [1]],
        [[(2, 0.7), (-1, 3)], [(0.5, -1.2)], [(0.3, 0.9)], [(-3, -0.4)]],
        lambda z: torch.where(
            z < -1.5,
            0.2 * z + 2 * torch.exp(0.7 * z) - torch.exp(3 * z),
            torch.where(
                z < 0.5,
                0.5 * torch.exp(-1.2 * z),
                torch.where(z < 2, z * z - 0.25 + 0.3 * torch.exp(0.9 * z), 1 - 3 * torch.exp(-0.4 * z)),
            ),
        ),
    ),
}


def between_kinks(f, breaks, r, s, angle):
    """Return E[f(z)f(z')] by Gauss–Legendre over z, and over z' given z, on panels cut at the breakpoints."""

    def rule(cuts):
        nodes, weights = panels(np.unique(np.concatenate([np.linspace(-9, 9, 13), np.clip(cuts, -9, 9)])), 16)
        return nodes, weights * np.exp(-nodes * nodes / 2) / math.sqrt(2 * math.pi)

    cosine, sine, breaks = math.cos(angle), math.sin(angle), np.asarray(breaks, dtype=float)
    u, weights = rule(np.concatenate([breaks / r, breaks / (s * cosine)]))
    inner = []
    for at in u:
        v, own = rule((breaks / s - cosine * at) / sine)
        inner.append(f(s * (cosine * at + sine * v)) @ own)
    return (f(r * u) * np.array(inner)) @ weights


@pytest.mark.parametrize("name", SPLINES)
def test_splines_are_torchs_and_have_the_means_of_their_pieces(name):
    *given, function = SPLINES[name]
    breaks, sigma, z = given[0], spline(*given), np.linspace(-7.3, 8.1, 50)
    np.testing.assert_allclose(sigma.function(z), function(torch.as_tensor(z)).numpy(), atol=1e-12)
    slopes = (sigma.function(z + 1e-6) - sigma.function(z - 1e-6)) / 2e-6
    np.testing.assert_allclose(sigma.derivative(z), slopes, atol=1e-8)
    r, s, angle = (0.8, 2.5, 2.0) if len(breaks) > 1 else (1.0, 1.0, 0.3)
    pair = GaussianPairs(np.float64(r), np.float64(s), np.array([math.cos(angle)]), np.array([angle]))
    for found, f in ((sigma.dual, sigma.function), (sigma.pair, sigma.derivative)):
        expected = between_kinks(f, breaks, r, s, angle)
        assert found(pair)[0] == pytest.approx(expected, rel=1e-10, abs=1e-12)


def test_splines_at_equal_points_are_the_mean_square_of_their_slopes():
    """Diagonal entries are r² E[σ'(rz)²], although a breakpoint meets itself only up to rounding."""
    lengths = np.random.default_rng(0).uniform(0.3, 2.0, 40)
    sigma = spline([0.1], [[0, 1, 2], [1, -1]])
    for r, value in zip(lengths, gram_matrix(lengths[:, None], sigma).values.diagonal(), strict=True):
        z, w = panels(np.sort([*np.arange(-12.0, 13.0), 0.1 / r]))
        mean = sigma.derivative(r * z) ** 2 @ (w * np.exp(-z * z / 2)) / math.sqrt(2 * math.pi)
        assert value == pytest.approx(r * r * mean, rel=1e-11)


def test_a_spline_that_bends_at_zero_is_the_relu_and_one_without_kinks_a_polynomial():
    X = np.random.default_rng(7).normal(size=(6, 3))
    X = np.vstack([X, X[0] * (1 + 1e-9), -X[1], X[2] + 1e-7])
    for own, known in (
        (spline([0], [[0], [0, 1]]), leaky_relu(0)),
        (spline([0], [[0, 0.3], [0, 1]]), leaky_relu(0.3)),
        (spline([-1, 2], [[1, 2, 3]] * 3), polynomial([1, 2, 3])),
        (spline([0], [[-0.5], [0, 1]], [[(0.5, 1)], []]), elu(0.5)),
    ):
        found, expected = gram_matrix(X, own), gram_matrix(X, known)
        assert np.linalg.norm(found.values - expected.values, 2) <= found.error + expected.error < 1e-9
        deep, same = (InfiniteNetwork(sigma, 2, 1.5, 0.1).kernels(X).ntk for sigma in (own, known))
        assert np.linalg.norm(deep.values - same.values, 2) <= deep.error + same.error


@pytest.mark.parametrize(("r", "s", "angle"), [(400.0, 400.0, 3.1), (0.02, 5.0, 1.2)])
def test_exponentials_with_kinks_elsewhere_are_right_to_their_error_however_long_the_points_are(r, s, angle):
    """E[σ'(z)σ'(z')] of an ELU with its kink at −0.7 is within its error of mpmath's quadrature."""
    t, context = -0.7, mpmath.mp.clone()
    context.dps = 30
    sigma = spline([t], [[-1], [-t, 1]], [[(math.exp(-t), 1)], []])

    def given(at):
        middle, spread = s / r * context.cos(angle) * at, s * context.sin(angle)
        below, moved = (t - middle) / spread, (t - middle) / spread - spread
        return context.ncdf(-below) + context.exp(middle - t + spread**2 / 2) * context.ncdf(moved)

    def outer(at):
        return given(at) * context.exp(min(at - t, 0) - (at / r) ** 2 / 2) / (context.sqrt(2 * context.pi) * r)

    centre, width = t * r / (s * math.cos(angle)), r * math.tan(angle)
    cuts = {t, *(centre + c * width for c in (-30, -9, -3, 0, 3, 9, 30)), *(t - 2.0**k for k in range(-3, 8))}
    cuts |= {r * c for c in (-14, -5, -2, 0, 2, 5, 14)}
    expected = context.quad(outer, sorted(cut for cut in cuts if abs(cut) <= 14 * r))
    pair = GaussianPairs(np.float64(r), np.float64(s), np.array([math.cos(angle)]), np.array([angle]))
    allowed = sigma.rounding(np.array([r, s])) * np.finfo(float).eps
    assert abs(float(sigma.pair(pair)[0] - expected)) <= allowed < 1e-12


test_bad_input_is_refused_in_one_sentence = refusals(
    (lambda: gram_matrix([[0.0, 0.0], [1.0, 0.0]]), "row 0 of X is zero"),
    (lambda: gram_matrix([[1e-200, 0.0]]), "points have sizes from"),
    (lambda: gram_matrix([[1.0]], "sine"), "unknown activation 'sine'; known: relu"),
    (lambda: gram_matrix([[1.0]], "tanh", tolerance=2), "tolerance must be a number from 0 to 1"),
    (lambda: gram_matrix([[1.0]], "tanh", tolerance=0), "known to .* at best here; raise the tolerance"),
    (lambda: gram_matrix([[1.0]], "relu", digits=10**6), "digits must be at most 1000"),
    (lambda: gram_matrix([[1e60]], polynomial([0, 0, 0, 0, 1])), "overflow; scale the inputs down"),
    (lambda: gram_matrix([[30.0]], "elu", digits=20), "at most 50; scale the points down"),
    (lambda: gram_matrix([[1e9]], "tanh", tolerance=1e-14), "too many nodes of quadrature; scale the points down"),
    (lambda: leaky_relu(1.0), "slope 1 is the identity"),
    (lambda: leaky_relu(10**400), "slope must be a number"),
    (lambda: elu(1.0, 1e300), "alpha and scale have sizes"),
    (lambda: polynomial([0.0, 5e-324]), "the coefficients have sizes"),
    (lambda: gram_matrix([[1e-60]], "cube"), "the squares of the features have sizes"),
    (lambda: polynomial([3.0]), "has a degree from 1 to 20, not 0"),
    (lambda: spline([1, 1], [[0], [1], [2]]), "breaks must ascend"),
    (lambda: spline([1], [[0]]), "a list of 2 polynomials"),
    (lambda: spline([1], [[0], [0, 0, 0, 1]]), "at most three coefficients"),
    (lambda: spline([1], [[0], [3]]), "constant between its breakpoints"),
    (lambda: spline([1e300], [[0], [0, 1]]), "breaks and coefficients have sizes"),
    (lambda: spline([1], [[0], [1]], [[(1, 1)]]), "exponentials must be a list of 2 lists"),
    (lambda: spline([1], [[0], [1]], [[(1, -1)], []]), "grows without bound on its piece; turn the sign"),
    (lambda: spline([1], [[0], [1]], [[(1, 0)], []]), "numbers other than 0"),
    (lambda: spline([1], [[0], [1]], [[(1, 300)], []]), "exponentials at the ends of their pieces have sizes"),
    (lambda: gram_matrix([[1.0]], spline([1], [[0], [0, 1]]), digits=20), "splines are known in doubles only"),
    (lambda: gram_matrix([[1e-3]], spline([1], [[0], [0, 1]])), "does not change where these points are"),
    (lambda: custom_activation("tanh"), "must be a function"),
    (lambda: custom_activation(lambda: 0), "must be a function of one tensor"),
    (lambda: custom_activation(lambda z: z.sum()), "must map a tensor to one of the same shape"),
    (lambda: custom_activation(lambda z: torch.tanh(z.float())), "maps float64 to float32, .* keep float64"),
    (lambda: gram_matrix([[1.0]], custom_activation(torch.sin), digits=20), "known in doubles only"),
    (lambda: gram_matrix([[1.0]], custom_activation(lambda z: torch.exp(z**2 / 4))), "grows so fast"),
    (lambda: gram_matrix([[1.0]], custom_activation(lambda z: abs(z) ** 0.5)), "not square-integrable"),
    (lambda: gram_matrix([[1.0]], custom_activation(lambda z: 0 * z)), "is 0 everywhere"),
    (lambda: empirical_gram([[1.0]], "relu", 10**30), "the products of weights and points would hold"),
)
