"""GaLU networks: their gates, effective weights and files."""

import numpy as np
import pytest
import torch

from implicit_bias import SGD, Adam, ReLUGates, SoftGates, solve, stationarity, svm_lc, train
from implicit_bias.extensions.galu import GaLU0Network, GaLUNetwork
from implicit_bias.gates import ProductGates
from tests.cases import assert_refused, refusals
from tests.training.test_stack import NETWORKS

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 4))
Y = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)


@pytest.mark.parametrize(
    ("name", "outputs"), [(name, 1 + 2 * (i % 2)) for i, name in enumerate(NETWORKS) if "deep" not in name]
)
def test_effective_weights_on_the_gates_are_the_network(name, outputs):
    network = NETWORKS[name](outputs=outputs).double()
    W = network.effective_weights()
    assert W.shape[:-2] == (() if outputs == 1 else (3,))
    features = network.gates()(X)
    predicted = features @ W if outputs == 1 else np.stack([features @ w for w in W], axis=1)
    np.testing.assert_allclose(network.decision_function(X), predicted, atol=1e-12)


def test_galu_written_out():
    network = GaLUNetwork(4, [6, 5], outputs=2, seed=3).double()
    z = X
    for A, U in zip(list(network.layers)[:-1], network.filters(), strict=True):
        A, U = A.detach().numpy(), U.numpy()
        z = (z @ U.T >= 0) * (z @ A.T)
    np.testing.assert_allclose(network.decision_function(X), z @ network.layers[-1].detach().numpy().T, atol=1e-12)
    deep = GaLU0Network(4, [6, 5], sharpness=2.0, seed=3).double()
    z = X
    for A, U in zip(list(deep.layers)[:-1], deep.filters(), strict=True):
        z = 1 / (1 + np.exp(-2.0 * X @ U.numpy().T)) * (z @ A.detach().numpy().T)
    np.testing.assert_allclose(deep.decision_function(X), z @ deep.layers[-1].detach().numpy()[0], atol=1e-12)
    assert isinstance(deep.gates(), ProductGates)
    assert isinstance(GaLUNetwork(4, 6, sharpness=1.0).gates(), SoftGates)
    assert_refused(network.gates, "2 gated layers")


def test_the_tools_of_margins_take_galu_networks():
    network = GaLUNetwork(4, 20, seed=1)
    train(network, X, Y, SGD(steps=600, batch_size=40, lr=0.1, loss="hinge"))
    assert (Y * network.decision_function(X)).min() > 0
    problem = svm_lc(X, Y, network)
    assert solve(problem).gap < 1e-6
    assert np.isfinite(stationarity(network, X, Y).residual)


test_bad_input = refusals(
    (lambda: GaLUNetwork(4, []), "units is empty"),
    (lambda: GaLUNetwork(4, 3, sharpness=0), "sharpness"),
    (lambda: ProductGates([]), "fitted gates"),
    (lambda: ProductGates([ReLUGates([[1.0]]), ReLUGates([[1.0, 2.0]])]), "same number of inputs"),
    (lambda: Adam(loss="focal"), "squared, logistic, hinge"),
    (lambda: Adam(lr=0), "lr"),
)


# Found by tests/fuzz/reliability.py


def test_gates_of_any_sharpness():
    assert SoftGates([[1.0]], 1e300).transform([[1e300], [0.0], [-1e300]]).tolist() == [[1.0], [0.5], [0.0]]
    for dtype in (torch.float16, torch.float32, torch.float64):
        network = GaLUNetwork(2, 3, sharpness=1e300).to(dtype)
        assert np.isfinite(network.decision_function([[0.0, 0.0], [1.0, 2.0]])).all()
