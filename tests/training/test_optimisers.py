"""Adam, Signum, Muon, and optimisers of torch in `train`."""

from functools import partial

import cvxpy as cp
import numpy as np
import pytest
import torch
from torch import nn

from implicit_bias import SGD, Adam, InputError, ReLUNetwork, svm_of_optimiser, train
from implicit_bias.networks import TorchNetwork
from implicit_bias.training import Muon, Signum, TorchOptimiser
from tests.training.reference import X, Y, gln

momentum = partial(torch.optim.SGD, lr=0.1, momentum=0.9)
STEPS = {"steps": 30, "batch_size": 25}


@pytest.mark.parametrize(
    ("make", "ours"),
    [
        (momentum, SGD(**STEPS, lr=0.1, lr_factor=1.0, momentum=0.9)),
        (partial(torch.optim.Adam, lr=0.01), Adam(**STEPS, lr=0.01, loss="logistic")),
        (lambda weights: torch.optim.Adam([{"params": weights, "lr": 0.01}]), Adam(**STEPS, lr=0.01, loss="logistic")),
        (
            partial(torch.optim.AdamW, lr=0.01, betas=(0.8, 0.9), eps=1e-12, weight_decay=2.0),
            Adam(**STEPS, lr=0.01, momentum=0.8, second_momentum=0.9, epsilon=1e-12, weight_decay=2.0, loss="logistic"),
        ),
    ],
)
@pytest.mark.parametrize("network", [gln, lambda: ReLUNetwork(12, [6, 5])])
def test_optimisers_of_torch_make_the_steps_of_ours(network, make, ours):
    one, other = network().double(), network().double()
    config = TorchOptimiser(make, **STEPS)
    tables = [train(one, X, Y, config).table, train(other, X, Y, ours, every=3).table]
    assert train(one, X, Y, config).config is config
    np.testing.assert_allclose(tables[0], tables[1], rtol=1e-9, atol=1e-12)
    assert all(weight.grad is None for weight in one.parameters())


def polar(M):
    left, _, right = np.linalg.svd(M, full_matrices=False)
    return left @ right


@pytest.mark.parametrize(
    ("config", "hidden", "readout"),
    [
        (Signum, np.sign, np.sign),
        (Muon, polar, polar),
        (partial(Muon, vectors="l_inf"), polar, np.sign),
    ],
    ids=["signum", "muon", "muon-sign"],
)
def test_full_batch_steps_by_their_formulas(config, hidden, readout):
    """Steps of the matrix U, a row for both contexts of a unit, and of v, with rates ∝ 1/√t and decay."""
    network = gln().double()
    network.readout.bias.requires_grad_(False).zero_()
    U, v = network.hidden_weights[0].detach().numpy().reshape(4, -1).copy(), network.readout.weight.detach().numpy()
    v, mean = v.copy(), [0.0, 0.0]
    values = np.einsum("nhm,nd->nhmd", network.layer_gates(X)[0], X).reshape(len(X), 4, -1)
    for t in range(1, 6):
        units = np.einsum("nhk,hk->nh", values, U)
        slopes = -Y / (1 + np.exp(Y * (units @ v[0]))) / len(X)
        gradients = np.einsum("n,nhk->hk", slopes, values) * v.T, (slopes @ units)[None]
        mean = [0.7 * m + 0.3 * g for m, g in zip(mean, gradients, strict=True)]
        rate = 0.1 / t**0.5
        U, v = (1 - rate * 0.5) * U - rate * hidden(mean[0]), (1 - rate * 0.5) * v - rate * readout(mean[1])
    options = {"lr": 0.1, "lr_decay": 0.5, "momentum": 0.7, "weight_decay": 0.5}
    train(network, X, Y, config(steps=5, batch_size=len(X), **options))
    np.testing.assert_allclose(network.hidden_weights[0].detach().reshape(4, -1), U, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(network.readout.weight.detach(), v, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("sign", Signum),
        ("adam", partial(Adam, loss="logistic", epsilon=1e-30, second_momentum=0.9)),
        ("muon", Muon),
        ("muon-sign", partial(Muon, vectors="l_inf")),
    ],
)
def test_weight_decay_bounds_the_norm_of_the_effective_weights(name, config):
    """With full batches, decay λ leads to the least loss of all W with ‖W‖ ≤ 1/λ², a convex problem."""
    network, decay = gln().double(), 1.0
    network.readout.bias.requires_grad_(False).zero_()
    problem = svm_of_optimiser(X, Y, network.gates(), name)
    W = cp.Variable((problem.features.k, problem.features.d))
    outputs = problem.features.dense() @ cp.vec(W, order="C")
    loss = cp.sum(cp.logistic(-cp.multiply(Y, outputs))) / len(Y)
    best = cp.Problem(cp.Minimize(loss), [problem.norm.expression(W) <= 1 / decay**2]).solve(solver="CLARABEL")
    options = {"lr": 0.5 / decay, "lr_decay": 0.7, "weight_decay": decay}
    trained = train(network, X, Y, config(steps=1000, batch_size=len(X), **options), every=1000)
    assert problem.norm.value(network.effective_weights()) == pytest.approx(1 / decay**2, rel=1e-3)
    assert best * (1 - 1e-4) <= trained.table.loss.iloc[-1] <= best * 1.002


def test_muon_takes_a_convolution_as_a_matrix_and_approximates_polar_factors():
    module = nn.Sequential(nn.Conv1d(1, 3, 4), nn.ReLU(), nn.Flatten(), nn.Linear(27, 1, bias=False)).double()
    network, before = TorchNetwork(module, (1, 12)), module[0].weight.detach().clone()
    train(network, X, Y, Muon(steps=1, lr=0.01, newton_schulz=True))
    singular = torch.linalg.svdvals((before - module[0].weight.detach()).view(3, 4)) / 0.01
    assert 0.6 < singular.min() < singular.max() < 1.3


def test_weight_decay_and_frozen_weights():
    """AdamW shrinks weights without gradient, and leaves frozen ones alone."""
    module = nn.Sequential(nn.Linear(12, 5), nn.ReLU(), nn.Linear(5, 1, bias=False)).double()
    module[0].requires_grad_(False)
    network, first, before = TorchNetwork(module, 12), module[0].weight.clone(), module[2].weight.detach().clone()
    config = TorchOptimiser(partial(torch.optim.AdamW, lr=0.1, weight_decay=0.5), steps=1, loss=lambda f, y: 0 * f)
    history = train(network, X, Y, config)
    torch.testing.assert_close(module[2].weight, before * 0.95)
    assert torch.equal(module[0].weight, first)
    assert history.table.norm.iloc[-1] == pytest.approx(float(module[2].weight.detach().norm()))
    assert network.degree == 1


def test_steps_of_a_custom_optimiser_need_no_closure_argument():
    class Plain(torch.optim.SGD):
        def step(self):
            super().step()

    ours, other = ReLUNetwork(12, 3), ReLUNetwork(12, 3)
    for network, make in ((ours, Plain), (other, torch.optim.SGD)):
        train(network, X, Y, TorchOptimiser(make, steps=3))
    assert all(map(torch.equal, ours.parameters(), other.parameters()))


def striped():
    module = nn.Linear(12, 1, bias=False).double()
    module.weight.data = torch.ones(1, 24, dtype=torch.float64)[:, ::2]
    return TorchNetwork(module, 12)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Signum(momentum=1.0), "momentum must be a number from 0 to below 1, not 1.0"),
        (lambda: Adam(second_momentum=-0.1), "second_momentum must be"),
        (lambda: Adam(epsilon=0), "epsilon"),
        (lambda: Muon(lr=0.1, weight_decay=20), "weight_decay must be from 0 to 1/lr = 10, not 20"),
        (lambda: Muon(lr_decay=-0.5), "lr_decay must be at least 0"),
        (lambda: Muon(vectors="adam"), "unknown vectors 'adam'; known: l2, l_inf"),
        (lambda: train(striped(), X, Y, Muon(steps=1)), "contiguous weights"),
        (lambda: Muon(newton_schulz=5), "newton_schulz must be True or False"),
        (lambda: TorchOptimiser(3), "a class of torch.optim, or a function"),
        (lambda: TorchOptimiser(torch.optim.Adam(gln().parameters())), "a class of torch.optim, or a function"),
        (lambda: TorchOptimiser(torch.optim.Adam, steps=-1), "steps"),
        (lambda: TorchOptimiser(torch.optim.Adam, loss="focal"), "logistic, exponential"),
        (lambda: train(gln(), X, Y, TorchOptimiser(torch.optim.LBFGS)), "LBFGS need a closure"),
        (lambda: train(gln(), X, Y, TorchOptimiser(torch.optim.SparseAdam)), "SparseAdam cannot train"),
        (lambda: train(gln(), X, Y, TorchOptimiser(partial(torch.optim.Adam, lr=-1))), "makes no optimiser"),
        (lambda: train(gln(), X, Y, TorchOptimiser(len)), "must return a torch.optim.Optimizer, not 3"),
        (
            lambda: train(gln(), X, Y, TorchOptimiser(lambda weights: torch.optim.Adam(gln().parameters()))),
            "other parameters",
        ),
        (lambda: train([ReLUNetwork(12, 3)], X, Y, TorchOptimiser(torch.optim.Adam)), "one network at a time"),
        (lambda: train(gln(), X, Y, torch.optim.Adam), "TorchOptimiser"),
        (
            lambda: train(gln(), X, Y, TorchOptimiser(partial(torch.optim.SGD, lr=1e9), loss="exponential")),
            "diverged by step 1; use a smaller lr$",
        ),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(InputError, match=words):
        call()
