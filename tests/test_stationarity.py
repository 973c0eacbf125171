"""The residual of Theorem 3.1, of gated networks and of any homogeneous module."""

import numpy as np
import pytest
import torch

from implicit_bias import (
    GatedLinearNetwork,
    HyperplaneGates,
    InputError,
    solve,
    svm_gln,
    train,
)
from implicit_bias.training.stationarity import stationarity
from tests.cases import inputs

X = inputs(n=60)
Y = np.where(X[:, 0] > 0, 1.0, -1.0)


def gln(d=X):
    return GatedLinearNetwork(HyperplaneGates(4, 2, seed=1).fit(d))


def balanced(network, problem, W):
    """Give a two-layer GLN the weights ζ with |w2_h| = ‖w1_h‖, where ½‖w‖² = Σ_h ‖ζ_h‖."""
    units, contexts = network.shape[0]
    blocks = torch.as_tensor(W).reshape(units, contexts, -1)
    roots = blocks.flatten(1).norm(dim=1).sqrt()
    network.double()
    with torch.no_grad():
        safe = torch.where(roots > 0, roots, 1.0)
        network.hidden_weights[0].copy_((blocks / safe[:, None, None]).flatten(0, 1))
        network.readout.weight.copy_(roots[None])
        network.readout.bias.zero_()


def test_stationarity_at_the_balanced_solution_and_elsewhere():
    network = gln()
    problem = svm_gln(X, Y, network.gates())
    solution = solve(problem, tol=1e-8)
    balanced(network, problem, solution.weights)
    np.testing.assert_allclose(Y * network.decision_function(X), problem.margins(solution.weights), atol=1e-9)
    exact = stationarity(network, X, Y, tolerance=1e-3)
    assert exact.residual <= 1e-3
    with torch.no_grad():
        network.readout.weight *= 4
    assert stationarity(network, X, Y, tolerance=1e-3).residual >= 0.1
    trained = gln()
    train(trained.double(), X, Y)
    with torch.no_grad():
        trained.readout.bias.zero_()
    assert stationarity(trained, X, Y).residual >= 0.3


def test_stationarity_takes_any_homogeneous_module():
    class Cubic(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.tensor([1.0, 0.0]))

        def forward(self, x):
            return (x @ self.w) ** 3

    result = stationarity(Cubic(), [[1.0, 3.0], [-1.0, 3.0], [2.0, 0.0]], [1, -1, 1])
    assert result.degree == pytest.approx(3)
    assert result.residual <= 1e-9
    assert result.support == 2


class Wide(torch.nn.Module):
    """A homogeneous module with an unused parameter and outputs of shape (n, 1)."""

    def __init__(self):
        super().__init__()
        self.used = torch.nn.Parameter(torch.tensor([[1.0, 0.0]]))
        self.unused = torch.nn.Parameter(torch.zeros(3))

    def forward(self, X):
        return X @ self.used.T


def test_stationarity_of_any_module():
    assert stationarity(Wide(), [[1.0, 3.0], [-1.0, 3.0]], [1, -1]).residual < 1e-12
    with pytest.raises(InputError, match="does not take inputs of shape"):
        stationarity(Wide(), [[1.0, 3.0, 2.0], [-1.0, 3.0, 2.0]], [1, -1])
    broken = Wide()
    broken.used.data[0, 0] = float("nan")
    with pytest.raises(InputError, match="norm nan"):
        stationarity(broken, [[1.0, 3.0], [-1.0, 3.0]], [1, -1])
