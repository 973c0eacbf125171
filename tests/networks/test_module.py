"""Torch modules as networks."""

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

import implicit_bias as ib
from implicit_bias.networks import TorchNetwork
from implicit_bias.training import TorchOptimiser
from tests.cases import assert_refused, refusals
from tests.training.reference import X, Y

FEW = ib.SGD(steps=40, batch_size=25, lr=0.1)


def stack(*widths, activation=nn.ReLU, bias=False, seed=0):
    """Return layers of these widths with activations between them."""
    torch.manual_seed(seed)
    found = [nn.Linear(widths[0], widths[1], bias=bias)]
    for into, out in pairwise(widths[1:]):
        found += [activation(), nn.Linear(into, out, bias=False)]
    return nn.Sequential(*found)


def conv(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 4, 2), nn.LeakyReLU(0.1), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(4, 1, bias=False)
    ).double()


BUILT = {
    "relu": lambda: ib.ReLUNetwork(12, 7),
    "deep relu": lambda: ib.ReLUNetwork(12, [7, 5]),
    "frozen": lambda: ib.ReLUNetwork(12, 7).freeze(),
    "shallow gln": lambda: ib.GatedLinearNetwork(ib.HyperplaneGates(1, 4, seed=1).fit(X), readout=False),
    "classes": lambda: ib.ReLUNetwork(12, [7, 5], outputs=3),
}


class Keeping(nn.Sequential):
    """A module that keeps its last outputs, and whose outputs for one sample have no dimension of samples."""

    def forward(self, X):
        self.kept = {"last": [super().forward(X)]}
        return self.kept["last"][0].squeeze()


@pytest.mark.parametrize("name", BUILT)
def test_wrapped_networks_are_trained_and_judged_as_they_are(name):
    """A network of the package and the same one as a module have one degree, history, limit and residual."""
    plain, inner = BUILT[name]().double(), Keeping(BUILT[name]().double())
    network, y = TorchNetwork(inner, 12), X[:, :3].argmax(1) if name == "classes" else Y
    inner(torch.as_tensor(X))
    assert (network.degree, network.outputs) == (plain.degree, plain.outputs)
    tables = [ib.train(each, X, y, FEW).table for each in (plain, network)]
    np.testing.assert_allclose(*tables, rtol=1e-9, atol=1e-12)
    for inputs in (X, X[:1]):
        scores = plain.decision_function(inputs)
        np.testing.assert_allclose(network.decision_function(inputs), scores, rtol=1e-9, atol=1e-11)
    tables = [ib.descend_to_limit(each, X, y, ib.LossScaled(max_steps=200)).table for each in (plain, network)]
    for column in ("log_loss", "normalised_margin", "norm"):
        np.testing.assert_allclose(tables[0][column], tables[1][column], rtol=1e-6)
    residuals = [ib.stationarity(each, X, y) for each in (plain, inner)]
    assert residuals[0].residual == pytest.approx(residuals[1].residual, rel=1e-4)
    assert residuals[0].support == residuals[1].support


@pytest.mark.parametrize(
    ("make", "inputs", "degree"),
    [
        (lambda: stack(12, 1), 12, 1),
        (lambda: stack(12, 4, 1, bias=True), 12, 2),
        (lambda: stack(12, 4, 4, 3, 2, activation=nn.LeakyReLU), 12, 4),
        (conv, (1, 3, 4), 2),
        (lambda: nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(12, 1, bias=False))), 12, 1),
        (lambda: nn.Sequential(nn.Linear(12, 4, bias=False), nn.MaxPool1d(2), nn.Linear(2, 1, bias=False)), 12, 2),
    ],
)
def test_degree(make, inputs, degree):
    """The measured degree is that with which a fresh module's outputs grow."""
    network, c = TorchNetwork(make().double(), inputs), 1.7
    assert network.degree == TorchNetwork(network.module, inputs, degree=degree).degree == degree
    before = network.decision_function(X)
    for parameter in network.parameters():
        parameter.data *= c
    np.testing.assert_allclose(network.decision_function(X), c**degree * before, rtol=1e-9, atol=1e-12)


def test_wrapping_and_judging_leave_the_module_alone():
    module = stack(12, 4, 1)
    before = [parameter.clone() for parameter in module.parameters()]
    network = TorchNetwork(module, 12)
    network.gates(), network.effective_weights(), network.slopes(X)
    assert network.module is module
    assert all(map(torch.equal, before, module.parameters()))
    assert all(parameter.dtype == torch.float32 and parameter.grad is None for parameter in module.parameters())


def test_the_network_is_linear_behind_its_pattern():
    """The output f(x) is the product of the matrices W, with the slopes between them, times x."""
    module = stack(12, 6, 5, 1, activation=partial(nn.LeakyReLU, 0.2)).double()
    network = TorchNetwork(module, 12)
    W = [layer.weight.detach().numpy() for layer in module[::2]]
    first, second = network.slopes(X)
    assert set(np.unique(first)) == set(np.unique(second)) == {0.2, 1.0}
    values = np.einsum("h,nh,hg,ng,gd,nd->n", W[2][0], second, W[1], first, W[0], X)
    np.testing.assert_allclose(network.decision_function(X), values, atol=1e-12)


def test_slopes_of_a_convolution():
    (slopes,) = TorchNetwork(conv(), (1, 3, 4)).slopes(X)
    hidden = conv()[0](torch.as_tensor(X).reshape(-1, 1, 3, 4)).detach().numpy()
    np.testing.assert_array_equal(slopes, np.where(hidden >= 0, 1.0, 0.1))


def test_gates_and_effective_weights():
    network = TorchNetwork(stack(12, 6, 3, activation=partial(nn.LeakyReLU, 0.2)).double(), 12)
    np.testing.assert_allclose(
        np.column_stack([network.gates()(X) @ W for W in network.effective_weights()]),
        network.decision_function(X),
        atol=1e-12,
    )
    one = TorchNetwork(stack(12, 6, 1).double(), 12)
    np.testing.assert_allclose(
        ib.svm_lc(X, Y, one).margins(one.effective_weights()), Y * one.decision_function(X), atol=1e-12
    )


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: ib.ReLUNetwork(12, 7).freeze(), lambda inner: ib.svm_lc(X, Y, inner)),
        (
            lambda: stack(12, 4, 1, activation=nn.Identity),
            lambda inner: ib.MarginProblem(ib.GatedFeatures(X), Y, ib.Frobenius()),
        ),
    ],
)
def test_descent_reaches_the_certified_optimum(make, problem):
    """½‖w‖² over the margin ends within 1 % of the optimum for fixed gates, after training by an optimiser of torch."""
    network = TorchNetwork(make(), 12)
    ib.train(network, X, Y, TorchOptimiser(partial(torch.optim.Adam, lr=0.01), steps=200))
    ib.descend_to_limit(network, X, Y, ib.LossScaled(tolerance=3e-3))
    optimum = ib.solve(problem(network.module)).objective
    margin = (Y * network.decision_function(X)).min()
    assert 1 - 1e-6 <= network.norm() ** 2 / 2 / margin / optimum < 1.01
    assert ib.stationarity(network, X, Y).residual < 0.1


def test_biases_after_the_first_layer_are_weights_if_they_are_trained():
    """A later bias breaks homogeneity even if it is 0 at first, but not if it stays 0."""
    module = nn.Sequential(nn.Linear(12, 4), nn.ReLU(), nn.Linear(4, 1))
    for layer in module[::2]:
        nn.init.zeros_(layer.bias)
    assert_refused(lambda: TorchNetwork(module, 12), "no biases after the first layer")
    module[2].bias.requires_grad_(False)
    network = TorchNetwork(module, 12)
    ib.train(network, X, Y, FEW)
    assert network.degree == 2
    assert network.module[2].bias.item() == 0
    assert network.module[0].bias.abs().min() > 0


class Gated(nn.Module):
    """f(x) = ⟨w, x⟩ where x_0 > 0, and ⟨w∘w, x⟩ elsewhere."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.linspace(0.5, 2.0, 12))

    def forward(self, X):
        return torch.where(X[:, 0] > 0, X @ self.w, X @ self.w.square())


class Output(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.layer, self.function = nn.Linear(12, 1, bias=False), function

    def forward(self, X):
        return self.function(self.layer(X))


test_modules_that_are_refused = refusals(
    (nn.Sequential(nn.Linear(12, 4), nn.Tanh(), nn.Linear(4, 1)), r"multiplied by .* at c = 0\.5, .* at c = 4"),
    (nn.Sequential(nn.Linear(12, 4, bias=False), nn.LayerNorm(4), nn.Linear(4, 1)), "not homogeneous"),
    (Output(lambda f: f + 1e-5 * f * f.abs()), r"4\.000\d+ at c = 4"),
    (nn.LazyLinear(1), "uninitialized parameter"),
    (nn.Sequential(nn.Linear(12, 4), nn.Dropout(), nn.Linear(4, 1)), "remove dropout"),
    (nn.Sequential(nn.Linear(12, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)), "batch normalisation"),
    (nn.Sequential(nn.Linear(12, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)).eval(), "not homogeneous"),
    (Gated(), "degrees from 1 to 2 .*give the lowest as degree"),
    (Output(lambda f: f.abs().sqrt()), "degree 0.5 .*not a whole number"),
    (Output(lambda f: f / f.detach().norm() * 3), "other samples|not a whole number"),
    (Output(lambda f: 0 * f), "all 0"),
    (Output(lambda f: f.reshape(-1, 1, 1)), r"shape \(16, 1, 1\)"),
    (Output(lambda f: (f, f)), "returns tuple"),
    (Output(lambda f: f.float() * torch.nan), "NaN"),
    (nn.Linear(11, 1), r"fails on float64 inputs of shape \(n, 12\): .*mat1"),
    (nn.Linear(12, 1).half(), "float16; call module.float"),
    (nn.Sequential(nn.Linear(12, 1), nn.Linear(1, 1).double()), "float32, float64"),
    (nn.Linear(12, 1, device="meta"), "on meta; call module.cpu"),
    (nn.Flatten(0), "no trainable parameters"),
    (nn.Linear(12, 1).requires_grad_(False), "no trainable parameters"),
    ("module", "torch.nn.Module"),
    call=lambda module: TorchNetwork(module, 12),
)


test_bad_input = refusals(
    (lambda: TorchNetwork(stack(12, 1), 12, degree=2), "homogeneous of degree 1 .*not 2"),
    (lambda: TorchNetwork(stack(12, 1), 12, degree=0), "degree"),
    (lambda: TorchNetwork(stack(12, 1), ()), "inputs"),
    (lambda: TorchNetwork(stack(12, 1), (3, -4)), "inputs"),
    (lambda: TorchNetwork(conv(), (1, 3, 4)).gates(), "one row of W"),
    (lambda: TorchNetwork(stack(12, 4, 1, bias=True), 12).gates(), "pass the module to svm_lc"),
    (lambda: TorchNetwork(stack(12, 4, 3, 1), 12).effective_weights(), "2 times"),
    (lambda: TorchNetwork(stack(12, 1), 12).config(), "state_dict"),
    (lambda: TorchNetwork.from_config({}), "state_dict"),
    (lambda: TorchNetwork(stack(12, 1), 12).decision_function(X[:, :3]), "3 columns"),
    (lambda: ib.descend_to_limit(stack(12, 1), X, Y), "TorchNetwork"),
    (lambda: ib.train(stack(12, 1), X, Y), "TorchNetwork"),
)


def test_the_lowest_degree_may_be_given():
    assert TorchNetwork(Gated(), 12, degree=1).degree == 1
