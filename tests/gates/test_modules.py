"""Gates that are read from torch modules, and SVM-LC behind them."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from implicit_bias import ReLUGates, solve, svm_lc
from implicit_bias.gates import LeakyReLUGates
from implicit_bias.gates.modules import activations_of, hidden_layer, learned_gates
from tests.cases import refusals
from tests.training.reference import X, Y

#: The inputs without the constant.
Z = X[:, :-1]


class Written(nn.Module):
    """Network with one hidden layer, written with a function instead of a module."""

    def __init__(self, function, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.function, self.u, self.v = function, nn.Parameter(torch.randn(5, 12)), nn.Parameter(torch.randn(5))

    def forward(self, X):
        return self.function(X @ self.u.T) @ self.v


def layers(activation=nn.ReLU, inputs=12, bias=False, outputs=1):
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(inputs, 5, bias=bias), activation(), nn.Linear(5, outputs, bias=bias))


@pytest.mark.parametrize(
    ("function", "slope"),
    [
        (torch.relu, 0.0),
        (functional.relu, 0.0),
        (lambda p: functional.relu(p, inplace=True), 0.0),
        (lambda p: p.relu_(), 0.0),
        (functional.leaky_relu, 0.01),
        (lambda p: functional.leaky_relu(p, negative_slope=0.3), 0.3),
        (nn.LeakyReLU(0.2, inplace=True), 0.2),
    ],
)
def test_the_layer_is_read_whatever_computes_it(function, slope):
    module = Written(function)
    layer = hidden_layer(module, 12)
    assert layer.slope == slope
    np.testing.assert_allclose(layer.weights, module.u.detach(), atol=1e-6)
    np.testing.assert_allclose(layer.readout, module.v.detach()[None], atol=1e-6)
    assert not layer.biases.any()
    gates = learned_gates(module, X)
    assert type(gates) is (LeakyReLUGates if slope else ReLUGates)
    opened = X @ module.u.detach().double().numpy().T >= 0
    np.testing.assert_array_equal(gates.transform(X), np.where(opened, 1.0, slope))


def test_values_before_an_activation_in_place_are_kept():
    module = nn.Sequential(nn.Linear(12, 5), nn.ReLU(inplace=True), nn.Linear(5, 4), nn.LeakyReLU(0.2, inplace=True))
    x = torch.as_tensor(X).float()
    outputs, found = activations_of(module, x)
    first = module[0](x)
    torch.testing.assert_close(found[0].values, first.detach())
    torch.testing.assert_close(found[1].values, module[2](torch.relu(first)).detach())
    torch.testing.assert_close(outputs, found[1].results)


@pytest.mark.parametrize("activation", [nn.ReLU, lambda: nn.LeakyReLU(0.2)])
@pytest.mark.parametrize(("bias", "inputs"), [(False, 12), (True, 12), (True, 11)])
def test_svm_lc_of_a_module(activation, bias, inputs):
    """The weights a_h (w_h, b_h) have the module's outputs, up to the readout's bias."""
    module = layers(activation, inputs, bias).double()
    problem = svm_lc(X, Y, module)
    w, a = module[0].weight.detach().numpy(), module[2].weight.detach().numpy()[0]
    if bias:
        b = module[0].bias.detach().numpy()
        w = np.column_stack([w, b]) if inputs == 11 else w + np.outer(b, np.eye(12)[-1])
    values = module(torch.as_tensor(X[:, :inputs])).detach().numpy()[:, 0]
    shift = module[2].bias.item() if bias else 0.0
    np.testing.assert_allclose(Y * problem.margins(a[:, None] * w), values - shift, atol=1e-12)
    slope = getattr(module[1], "negative_slope", 0.0)
    same = svm_lc(X, Y, type("Gates", (), {"gates": lambda self: LeakyReLUGates(w, slope)})())
    assert solve(problem).objective == pytest.approx(solve(same).objective, rel=1e-9)


class Pooled(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.readout = nn.Linear(12, 6, bias=False), nn.Linear(3, 1, bias=False)

    def forward(self, X):
        return self.readout(torch.relu(self.hidden(X)).unflatten(1, (3, 2)).amax(2))


test_modules_without_a_margin_problem = refusals(
    (lambda: svm_lc(Z, Y, layers(bias=True, inputs=11)), "append a column of ones to X"),
    (lambda: svm_lc(X, Y, layers(inputs=11)), "no biases; leave out the last column of X"),
    (lambda: svm_lc(X, Y, layers(inputs=10)), r"does not take float64 inputs of shape \(n, 12\)"),
    (lambda: svm_lc(X, Y, layers(outputs=2)), "2 outputs"),
    (lambda: svm_lc(X, Y, nn.LSTM(12, 1)), "returns tuple; return one tensor"),
    (lambda: svm_lc(X, Y, nn.Linear(12, 1)), "calls relu or leaky_relu 0 times"),
    (lambda: svm_lc(X, Y, nn.Sequential(layers(), nn.ReLU())), "calls relu or leaky_relu 2 times"),
    (lambda: svm_lc(X, Y, nn.Sequential(layers(), nn.Tanh())), "readout weight"),
    (lambda: svm_lc(X, Y, Pooled()), "readout weight"),
    (
        lambda: svm_lc(
            X,
            Y,
            nn.Sequential(
                nn.Unflatten(1, (1, 12)), nn.Conv1d(1, 2, 3), nn.Flatten(), nn.ReLU(), nn.Linear(20, 1, bias=False)
            ),
        ),
        "one row of W",
    ),
    (lambda: svm_lc(X, Y, "network"), "or a torch module, not str"),
    (lambda: LeakyReLUGates(np.eye(2), slope=-1.0), "slope"),
)
