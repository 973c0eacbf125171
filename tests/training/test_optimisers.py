"""Optimisers of torch in `train`."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from implicit_bias import SGD, Adam, InputError, ReLUNetwork, train
from implicit_bias.networks import TorchNetwork
from implicit_bias.training import TorchOptimiser
from tests.training.reference import X, Y, gln

momentum = partial(torch.optim.SGD, lr=0.1, momentum=0.9)
STEPS = {"steps": 30, "batch_size": 25}


@pytest.mark.parametrize(
    ("make", "ours"),
    [
        (momentum, SGD(**STEPS, lr=0.1, lr_factor=1.0, momentum=0.9)),
        (partial(torch.optim.Adam, lr=0.01), Adam(**STEPS, lr=0.01, loss="logistic")),
        (lambda weights: torch.optim.Adam([{"params": weights, "lr": 0.01}]), Adam(**STEPS, lr=0.01, loss="logistic")),
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


@pytest.mark.parametrize(
    ("call", "words"),
    [
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
