"""The laws of optimisers, swept over all that `cases.py` lists, and what only some of them do."""

from dataclasses import replace
from functools import partial

import cvxpy as cp
import numpy as np
import pytest
import torch
from torch import nn

from implicit_bias import Adam, ReLUNetwork, svm_of_optimiser, train
from implicit_bias.networks import TorchNetwork
from implicit_bias.training import Muon, Signum, TorchOptimiser, optimisers
from tests.cases import OPTIMISERS, refusals
from tests.training.reference import X, Y, gln

STEPS = {"steps": 30, "batch_size": 25}
#: Optimisers of torch whose steps are ours.
TORCHS = {
    "momentum": partial(torch.optim.SGD, lr=0.1, momentum=0.9),
    "adam": lambda weights: torch.optim.Adam([{"params": weights, "lr": 0.1, "betas": (0.8, 0.9), "eps": 0.1}]),
}
RATES = (0.1, 0.3, 0.2, 0.05, 0.15)
RNG = np.random.default_rng(5)
#: Weights of a wide, a tall and another wide layer and of a readout, and gradients of five steps.
LAYERS = [RNG.normal(size=shape) for shape in ((4, 6), (6, 4), (4, 6), (1, 5))]
GRADIENTS = [RNG.normal(size=(len(RATES), *layer.shape)) for layer in LAYERS]
every_optimiser = pytest.mark.parametrize("name", OPTIMISERS)


def after(config, layers, gradients, rates=RATES):
    """Return the weights after steps on all layers at once."""
    weights = [torch.tensor(layer) for layer in layers]
    step = config.update(weights)
    for t, rate in enumerate(rates):
        step([torch.tensor(each[t]) for each in gradients], rate)
    return [weight.numpy() for weight in weights]


def assert_equal(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@every_optimiser
def test_steps_are_the_formulas(name):
    """Also with decoupled decay, and a second time: no state outlives the steps."""
    config, formula = OPTIMISERS[name]
    for each in (config, replace(config, weight_decay=0.5) if hasattr(config, "weight_decay") else config):
        expected = [formula(each, w, g, RATES) for w, g in zip(LAYERS, GRADIENTS, strict=True)]
        assert_equal(after(each, LAYERS, GRADIENTS), expected)


@every_optimiser
def test_steps_are_equivariant(name):
    """Units and inputs may change places and signs; weights shift their steps; rates scale them."""
    config, _ = OPTIMISERS[name]
    moved = after(config, LAYERS, GRADIENTS)

    def turned(M):
        rows, columns = (np.roll(np.diag((-1.0) ** np.arange(m)), 1, axis=0) for m in M.shape[-2:])
        return rows @ M @ columns

    assert_equal(after(config, list(map(turned, LAYERS)), list(map(turned, GRADIENTS))), map(turned, moved))
    assert_equal(after(config, [w + 3 for w in LAYERS], GRADIENTS), [w + 3 for w in moved])
    if not np.isnan(config.lr):
        longer = after(config, LAYERS, GRADIENTS, [2 * rate for rate in RATES])
        assert_equal(longer, [2 * m - w for m, w in zip(moved, LAYERS, strict=True)])


@pytest.mark.parametrize("name", [name for name, row in OPTIMISERS.items() if hasattr(row[0], "weight_decay")])
def test_decay_is_decoupled(name):
    """Weights shrink by 1 − ηλ in each step, and all else is as without decay; rates fall by a power of the epoch."""
    config, _ = OPTIMISERS[name]
    assert list(replace(config, lr=0.5, lr_decay=2.0).rates(3)) == [0.5, 0.125, 0.5 / 9]
    zeros = [np.zeros_like(layer) for layer in LAYERS]
    decayed = replace(config, weight_decay=0.5)
    shrunk = [w * np.prod([1 - rate * 0.5 for rate in RATES]) for w in LAYERS]
    assert_equal(after(decayed, LAYERS, [np.zeros_like(g) for g in GRADIENTS]), shrunk)
    moved = after(decayed, zeros, GRADIENTS)
    assert_equal(after(decayed, LAYERS, GRADIENTS), [w + m for w, m in zip(shrunk, moved, strict=True)])


@every_optimiser
def test_what_optimisers_say_of_their_steps(name):
    """`plain_momentum`; one row of all layers (`entrywise`); and a leading axis of networks (`stacks`)."""
    config, _ = OPTIMISERS[name]
    moved, momentum = after(config, LAYERS, GRADIENTS), config.plain_momentum()
    if momentum is not None:
        powers = [sum(rate * momentum ** (s - t) for s, rate in enumerate(RATES) if s >= t) for t in range(len(RATES))]
        assert_equal(moved, [w - np.tensordot(powers, g, 1) for w, g in zip(LAYERS, GRADIENTS, strict=True)])
    if config.entrywise:
        row = [g.reshape(len(RATES), -1) for g in GRADIENTS]
        together = after(config, [np.concatenate([w.ravel() for w in LAYERS])], [np.concatenate(row, axis=1)])
        assert_equal(together, [np.concatenate([w.ravel() for w in moved])])
    if config.stacks:
        stacks = [np.stack([w, 2 * w]) for w in LAYERS], [np.stack([g, -9 * g[::-1]], axis=1) for g in GRADIENTS]
        other = after(config, [w[1] for w in stacks[0]], [g[:, 1] for g in stacks[1]])
        assert_equal(after(config, *stacks), [np.stack(pair) for pair in zip(moved, other, strict=True)])


@pytest.mark.parametrize("network", [gln, lambda: ReLUNetwork(12, [6, 5])])
@pytest.mark.parametrize("name", TORCHS)
def test_optimisers_of_torch_make_the_steps_of_ours(name, network):
    one, other = network().double(), network().double()
    config = TorchOptimiser(TORCHS[name], **STEPS)
    tables = [
        train(one, X, Y, config).table,
        train(other, X, Y, replace(OPTIMISERS[name][0], **STEPS, lr=0.1), every=3).table,
    ]
    np.testing.assert_allclose(tables[0], tables[1], rtol=1e-9, atol=1e-12)
    assert all(weight.grad is None for weight in one.parameters())


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("sign", Signum),
        ("adam", partial(Adam, loss="logistic", eps=1e-30, beta2=0.9)),
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


def test_muon_takes_a_convolution_as_a_matrix():
    module = nn.Sequential(nn.Conv1d(1, 3, 4), nn.ReLU(), nn.Flatten(), nn.Linear(27, 1, bias=False)).double()
    network, before = TorchNetwork(module, (1, 12)), module[0].weight.detach().clone()
    train(network, X, Y, Muon(steps=1, lr=0.01))
    step = (before - module[0].weight.detach()).view(3, 4) / 0.01
    torch.testing.assert_close(torch.linalg.svdvals(step), torch.ones(3, dtype=torch.float64))


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


test_bad_input = refusals(
    (lambda: Signum(momentum=1.0), "momentum must be a number from 0 to below 1, not 1.0"),
    (lambda: Adam(beta2=-0.1), "beta2 must be"),
    (lambda: Adam(eps=0), "eps"),
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
)


def test_every_optimiser_has_one_default_loss():
    losses = {kind.__name__: kind.loss for kind in vars(optimisers).values() if hasattr(kind, "loss")}
    assert losses.keys() > {"SGD", "Adam", "Signum", "Muon", "TorchOptimiser"}
    assert set(losses.values()) == {"logistic"}
