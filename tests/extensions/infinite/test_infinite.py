"""Networks of infinite width against quadrature, exact arithmetic, torch's gradients, integration and other solvers."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import scipy.integrate
import torch

import implicit_bias as ib
from implicit_bias.extensions.infinite import (
    InfiniteNetwork,
    custom_activation,
    deep_gram,
    gram_matrix,
    predict,
    smallest_eigenvalue,
)
from implicit_bias.extensions.infinite.activations import ACTIVATIONS
from tests.cases import assert_refused, interrupt, refusals
from tests.extensions.infinite.test_gram import by_quadrature

NAMES = list(ACTIVATIONS)
RNG = np.random.default_rng(0)
X, Z = RNG.normal(size=(9, 4)), RNG.normal(size=(5, 4))


def by_recursion(sigma, x, z, layers, weight, bias):
    """Return K and Θ of one pair x, z (d,), with every mean by quadrature in polar coordinates."""
    K = [bias + weight * float(a @ b) / len(x) for a, b in ((x, x), (x, z), (z, z))]
    tangent = K[1]
    for _ in range(layers):
        r, s = math.sqrt(K[0]), math.sqrt(K[2])
        angle = math.acos(np.clip(K[1] / (r * s), -1, 1))
        f, own = sigma.function, ((r, r, 0.0), (r, s, angle), (s, s, 0.0))
        slope = by_quadrature(sigma.derivative, r, s, angle)
        K = [bias + weight * by_quadrature(f, *pair) for pair in own]
        tangent = K[1] + weight * slope * tangent
    return K[1], tangent


@pytest.mark.parametrize("name", NAMES)
def test_kernels_are_those_of_the_recursion_by_quadrature(name):
    network = InfiniteNetwork(name, layers=2, weight_variance=1.3, bias_variance=0.2)
    found = network.kernels(X, Z)
    for i, j in ((0, 0), (3, 4)):
        K, tangent = by_recursion(ACTIVATIONS[name], X[i], Z[j], 2, 1.3, 0.2)
        assert found.nngp.values[i, j] == pytest.approx(K, rel=1e-10, abs=1e-10 * abs(found.nngp.values).max())
        assert found.ntk.values[i, j] == pytest.approx(tangent, rel=1e-10, abs=1e-10 * abs(found.ntk.values).max())
    assert found.ntk.is_certified


def in_multiprecision(name, rows, layers, weight, bias):
    """Return K and Θ (n, n) of ReLU or erf with 60 digits for exact inputs `rows` (n, d)."""
    with mpmath.workdps(60):
        x, (w, b) = mpmath.matrix(rows.tolist()), (mpmath.mpf(weight), mpmath.mpf(bias))
        n = len(rows)
        K = x * x.T * w / x.cols + mpmath.ones(n) * b
        tangent = K.copy()
        for _ in range(layers):
            new, turned = mpmath.zeros(n), mpmath.zeros(n)
            for i in range(n):
                for j in range(n):
                    if name == "relu":
                        r = mpmath.sqrt(K[i, i] * K[j, j])
                        rho = min(mpmath.mpf(1), K[i, j] / r)
                        theta = mpmath.acos(rho)
                        new[i, j] = r * (mpmath.sin(theta) + (mpmath.pi - theta) * rho) / (2 * mpmath.pi)
                        slope = (mpmath.pi - theta) / (2 * mpmath.pi)
                    else:
                        product = (1 + K[i, i]) * (1 + K[j, j])
                        new[i, j] = 2 / mpmath.pi * mpmath.asin(K[i, j] / mpmath.sqrt(product))
                        slope = 2 / mpmath.pi / mpmath.sqrt(product - K[i, j] ** 2)
                    turned[i, j] = slope * tangent[i, j]
            K = new * w + mpmath.ones(n) * b
            tangent = K + w * turned
        return np.array(K.tolist()), np.array(tangent.tolist())


@pytest.mark.parametrize(("name", "layers", "bias"), [("relu", 4, 0.3), ("erf", 3, 0.0)])
def test_errors_are_bounds_against_sixty_digits_near_parallel_and_opposite_points_included(name, layers, bias):
    points = np.vstack([X[:3], X[0] * (1 + 1e-9), X[0] + 1e-7, -X[1], 30 * X[2], -X[0] + 1e-9])
    found = InfiniteNetwork(name, layers, 1.7, bias).kernels(points)
    for exact, kernel in zip(in_multiprecision(name, points, layers, 1.7, bias), (found.nngp, found.ntk), strict=True):
        off = np.linalg.norm((exact - kernel.values).astype(float), 2)
        assert 0 < off <= kernel.error < 1e-5 * np.linalg.norm(kernel.values, 2)


@pytest.mark.parametrize("name", ["elu", "swish"])
def test_cross_kernels_are_blocks_of_the_kernel_of_all_points_and_points_may_be_permuted(name):
    network = InfiniteNetwork(name, 3, 1.5, 0.1)
    own, cross = network.kernels(np.vstack([X, X[:1], Z])).ntk, network.kernels(X, np.vstack([X[:1], Z])).ntk
    np.testing.assert_allclose(cross.values, own.values[:9, 9:], atol=own.error + cross.error)
    np.testing.assert_array_equal(own.values, own.values.T)
    # The same point twice is no near pair.
    assert own.values[0, 9] == own.values[0, 0] == own.values[9, 9]
    turned = network.kernels(X[::-1]).ntk.values[::-1, ::-1]
    np.testing.assert_allclose(turned, own.values[:9, :9], atol=2 * own.error)


def test_many_points_are_blocks_of_few():
    """Kernels of 700 points, more than a chunk of rows, contain those between parts of them."""
    many = np.random.default_rng(1).normal(size=(700, 3))
    network = InfiniteNetwork("gelu", 2, 2.0, 0.1)
    whole, part = network.kernels(many), network.kernels(many[500:], many[:300])
    np.testing.assert_allclose(whole.ntk.values[500:, :300], part.ntk.values, atol=whole.ntk.error + part.ntk.error)
    assert smallest_eigenvalue(whole.nngp).value > -whole.nngp.error


def torch_network(layers, width, weight, bias, activation, seed):
    """Return f(parameters, x) of a network of this width, and parameters N(0, 1): weights, then biases."""
    generator = torch.Generator().manual_seed(seed)
    sizes = [4, *[width] * layers, 1]
    draw = {"generator": generator, "dtype": torch.float64}
    theta = [torch.randn(b, a, **draw) for a, b in itertools.pairwise(sizes)]
    theta += [torch.randn(b, **draw) for b in sizes[1:]]

    def f(parameters, x):
        for level in range(layers + 1):
            x = activation(x) if level else x
            W = parameters[level]
            x = math.sqrt(weight / W.shape[1]) * x @ W.mT + math.sqrt(bias) * parameters[layers + 1 + level]
        return x[:, 0]

    return f, theta


Y = np.sin(X[:, 0])


@pytest.mark.parametrize(("trained", "ridge", "noise"), [("all", 0.0, 0.0), ("all", 0.4, 0.3), ("readout", 0.4, 0.4)])
def test_predictions_at_any_time_are_those_of_the_integrated_flow(trained, ridge, noise):
    """The flow of f − f_0 on X and Z, which the ridge pulls back to 0, is linear in f_0 and the targets."""
    network, t = InfiniteNetwork("elu", 2, 1.5, 0.1), 3.0
    kernels = network.kernels(np.vstack([X, Z]))
    K, tangent = kernels.nngp.values, (kernels.ntk if trained == "all" else kernels.nngp).values[:, :9]

    def moved(f0, y):
        def flow(_, change):
            return 2 / 9 * (tangent @ (y - f0[:9] - change[:9]) - ridge * change)

        return f0[9:] + scipy.integrate.solve_ivp(flow, (0, t), np.zeros(14), rtol=1e-10, atol=1e-12).y[9:, -1]

    found = predict(network, X, Y, Z, time=t, trained=trained, ridge=ridge, noise=noise)
    np.testing.assert_allclose(found.mean, moved(np.zeros(14), Y), atol=1e-8)
    M = np.stack([moved(column, np.zeros(9)) for column in np.eye(14)], axis=1)
    A = np.stack([moved(np.zeros(14), column) for column in np.eye(9)], axis=1)
    np.testing.assert_allclose(found.covariance, M @ K @ M.T + noise * A @ A.T, atol=1e-8)


#: Means and variances of neural-tangents 0.6.5 at Z, from its function of the time 2t with an absolute diag_reg of 0.5.
PEER = {
    ("readout", np.inf): (
        [-0.4317286472, -0.3336083376, -0.2139236694, 0.4287044001, -0.1404526847],
        [0.1592319141, 0.2286857927, 0.2282263565, 0.3071711255, 0.1799655427],
    ),
    ("readout", 1.5): (
        [-0.1982143355, -0.1637225510, -0.1249677463, 0.0873028189, -0.1002969910],
        [0.2552404551, 0.3267859558, 0.3353508835, 0.4238362229, 0.2594150379],
    ),
    ("all", np.inf): (
        [-0.5497355064, -0.4198939388, -0.2291740325, 0.7101979388, -0.1615484385],
        [0.0260432030, 0.0781808767, 0.0824542430, 0.1157379553, 0.0510755858],
    ),
    ("all", 1.5): (
        [-0.3763080449, -0.2901487683, -0.1971550766, 0.3321208398, -0.1306247458],
        [0.0950351865, 0.1705165712, 0.1721266386, 0.2917049578, 0.1375689317],
    ),
}


@pytest.mark.parametrize(("trained", "time"), PEER)
def test_predictions_are_those_of_neural_tangents(trained, time):
    """Its regularised "nngp" has noise of the variance of the ridge, its "ntk" has none."""
    noise = 0.5 if trained == "readout" else 0.0
    found = predict(InfiniteNetwork("erf", 2, 1.5, 0.1), X, Y, Z, time=time, trained=trained, ridge=0.5, noise=noise)
    mean, variance = PEER[trained, time]
    np.testing.assert_allclose(found.mean, mean, atol=1e-9)
    np.testing.assert_allclose(found.std**2, variance, atol=1e-9)


def test_several_times_and_means_alone_are_those_of_single_calls():
    network, times, targets = InfiniteNetwork("relu", 2, 2.0, 0.1), [0.0, 2.0, np.inf], np.stack([Y, -2 * Y], axis=1)
    found, means = (predict(network, X, targets, Z, time=times, covariance=full) for full in (True, False))
    assert found.std.shape == (3, 5)
    np.testing.assert_array_equal(found.mean, means.mean)
    np.testing.assert_allclose(found.mean[..., 1], -2 * found.mean[..., 0])
    np.testing.assert_allclose(found.mean[1, :, 0], predict(network, X, Y, Z, time=2.0).mean)
    for i, time in enumerate(times):
        one = predict(network, X, targets, Z, time=time)
        np.testing.assert_allclose(found.mean[i], one.mean, atol=1e-12)
        np.testing.assert_allclose(found.covariance[i], one.covariance, atol=1e-12)
    with pytest.raises(ib.InputError, match="means only; call predict with covariance=True"):
        _ = means.std


def test_predictions_begin_with_the_prior_and_end_at_the_targets():
    network = InfiniteNetwork("relu", 2, 2.0, 0.1)
    first, last = (predict(network, X, Y, X, time=t) for t in (0, np.inf))
    np.testing.assert_allclose(first.covariance, network.kernels(X).nngp.values, atol=1e-12)
    assert not first.mean.any()
    np.testing.assert_allclose(last.mean, Y, atol=1e-9)
    assert last.std.max() < 1e-5
    assert np.allclose(predict(network, X, Y, Z, time=1e9).mean, predict(network, X, Y, Z).mean)
    twice = np.vstack([X, X[:1]]), np.append(Y, 5.0)
    assert_refused(lambda: predict(network, *twice, Z), r"singular up to rounding .* give a ridge or a time")
    # A repeated sample with two targets is fitted at their mean.
    between = predict(network, *twice, X[:1], time=1e6).mean[0]
    assert between == pytest.approx((Y[0] + 5) / 2, rel=1e-4)


def test_a_wide_network_trained_by_torch_follows_the_prediction():
    """Gradient descent of 16 384 units ends within 0.02 of f_0 plus the mean prediction for y − f_0(X)."""
    width, t, steps = 16_384, 2.0, 50
    f, theta = torch_network(1, width, 1.5, 0.1, torch.tanh, 1)
    inputs, targets = torch.as_tensor(X), torch.as_tensor(Y)
    theta = [part.requires_grad_() for part in theta]
    with torch.no_grad():
        f0 = f(theta, inputs).numpy(), f(theta, torch.as_tensor(Z)).numpy()
    for _ in range(steps):
        gradient = torch.autograd.grad(((f(theta, inputs) - targets) ** 2).mean(), theta)
        with torch.no_grad():
            theta = [(a - t / steps * g).requires_grad_() for a, g in zip(theta, gradient, strict=True)]
    found = predict(InfiniteNetwork("tanh", 1, 1.5, 0.1), X, Y - f0[0], Z, time=t).mean
    np.testing.assert_allclose(f(theta, torch.as_tensor(Z)).detach().numpy(), f0[1] + found, atol=0.02)


def test_activations_of_ones_own_are_estimates():
    own, known = (InfiniteNetwork(s, 2, 1.5, 0.1).kernels(X[:3]) for s in (custom_activation(torch.tanh), "tanh"))
    assert not own.ntk.is_certified
    assert np.linalg.norm(own.ntk.values - known.ntk.values, 2) <= own.ntk.error + known.ntk.error
    assert np.linalg.norm(own.nngp.values - known.nngp.values, 2) <= own.nngp.error + known.nngp.error


def test_layers_of_a_bent_function_need_a_larger_tolerance_and_take_it():
    bent = custom_activation(torch.nn.functional.elu)
    assert_refused(lambda: deep_gram(X[:3], bent, 2), r"leave an error of .*, or raise the tolerance")
    found, known = deep_gram(X[:3], bent, 2, tolerance=1e-2), deep_gram(X[:3], "elu", 2)
    assert np.linalg.norm(found.values - known.values, 2) <= found.error + known.error < 1e-2
    means = [predict(InfiniteNetwork(act), X[:3], Y[:3], Z[:2], tolerance=1e-2).mean for act in (bent, "elu")]
    np.testing.assert_allclose(*means, atol=1e-2)


test_bad_input_is_refused_in_one_sentence = refusals(
    (lambda: InfiniteNetwork("relu", 10**6), "layers must be at most 1000"),
    (lambda: InfiniteNetwork("relu", weight_variance=1e300), "the variances have sizes"),
    (lambda: InfiniteNetwork().kernels([[0.0, 0.0]]), "row 0 of X is zero"),
    (lambda: InfiniteNetwork().kernels([[1.0]], [[0.0]]), "row 0 of Z is zero"),
    (lambda: InfiniteNetwork().kernels([[1.0]], [[1.0, 2.0]]), "different numbers of columns"),
    (lambda: InfiniteNetwork("square", 60).kernels([[30.0]]), "leaves floating point; take fewer layers"),
    (lambda: InfiniteNetwork("tanh", 30, 1e-10).kernels([[1.0]]), "leaves floating point; take fewer layers"),
    (lambda: predict("relu", X, Y, Z), "network must be an InfiniteNetwork, not 'relu'"),
    (lambda: predict(InfiniteNetwork(), X, Y, Z, trained="some"), "unknown trained 'some'"),
    (lambda: predict(InfiniteNetwork(), X, Y, Z, time=[1.0, -1.0]), "time must be a number of at least 0 or infinity"),
    (lambda: predict(InfiniteNetwork(), X, Y, Z, time=[]), "time must be a number or a list of numbers"),
    (lambda: predict(InfiniteNetwork(), X, Y, Z, time=[[1.0]]), "time must be a number or a list of numbers"),
    (lambda: predict(InfiniteNetwork(), X, Y, Z, tolerance=2), "tolerance must be a number from 0 to 1"),
    (lambda: predict(InfiniteNetwork(), X, Y, Z, noise=-1.0), "noise must be a number of at least 0"),
    (lambda: smallest_eigenvalue(InfiniteNetwork().kernels(X, Z).ntk), "must be symmetric"),
)


def test_rows_of_zeros_need_a_bias():
    found = InfiniteNetwork("relu", 2, 2.0, 0.5).kernels(np.zeros((1, 3)))
    assert found.nngp.values[0, 0] == pytest.approx(1.5)


def test_points_that_only_rounding_makes_one_are_not_one():
    """Points at an angle that rounds to 0 have a large error after 700 layers; equal and parallel points do not."""
    rng = np.random.default_rng(0)
    while True:
        a = rng.normal(size=2)
        b = a * rng.uniform(0.1, 1.0)
        area = Fraction(a[0]) * Fraction(b[1]) - Fraction(a[1]) * Fraction(b[0])
        if area and (a / np.linalg.norm(a) == b / np.linalg.norm(b)).all():
            break
    for partner, one in ((b, False), (2 * a, True), (a, True)):
        found = deep_gram([a, partner], "tanh", 700)
        assert (found.error < 1e-10) == one
        diagonal, other = found.values[0]
        assert other == pytest.approx(diagonal) if one else diagonal < found.error < 100
    network = InfiniteNetwork("erf", layers=60, weight_variance=25.0)
    near = [[1.0], [np.nextafter(1.0, 2.0)]]
    assert network.kernels([[1.0], [1.0]]).nngp.error < 1e-6
    assert network.kernels(near).nngp.error > 1.0


def test_work_on_many_points_says_how_far_it_is_and_can_be_interrupted():
    """Progress counts each pair once, up to the total, and exceptions of the callback end the work."""
    X, Z = np.random.default_rng(4).normal(size=(700, 2)), np.random.default_rng(5).normal(size=(300, 2))
    network, halves = InfiniteNetwork("relu", 1), 700 * 701 // 2
    works = (
        (halves, lambda tell: network.kernels(X, progress=tell)),
        (210_000, lambda tell: network.kernels(X, Z, progress=tell)),
        (halves + 210_000 + 45_150, lambda tell: predict(network, X, X[:, 0], Z, time=1.0, progress=tell)),
        (halves, lambda tell: deep_gram(X, "relu", 2, progress=tell)),
    )
    for total, work in works:
        told = []
        work(lambda *row, told=told: told.append(row))
        done = [row[0] for row in told]
        assert done == sorted(set(done))
        assert told[-1] == (total, total)
        assert len(told) > 3
        assert {row[1] for row in told} == {total}
    with pytest.raises(KeyboardInterrupt):
        gram_matrix(X, progress=interrupt())
    assert_refused(lambda: network.kernels(X, progress=3), "progress must be a function")
