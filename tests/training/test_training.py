"""Training of one network."""

import copy
from dataclasses import replace
from functools import partial
from itertools import cycle

import numpy as np
import pytest
import torch

from implicit_bias import SGD, Adam, GatedLinearNetwork, HyperplaneGates, InputError, descend_to_limit, train
from implicit_bias.extensions.galu import GaLU0Network, GaLUNetwork, least_squares
from implicit_bias.gates import FunctionContexts
from implicit_bias.networks import GatedNetwork, ReLUNetwork
from implicit_bias.training import TorchOptimiser
from implicit_bias.training.iterations import LossScaled, PlainDescent
from implicit_bias.training.losses import MARGIN_LOSSES
from implicit_bias.training.steppers import SpanUpdates, TwoLayerSpanUpdates, WeightUpdates, updates_of
from tests.cases import refusals
from tests.training.reference import X, Y, gln, mean_loss, torch_training


@pytest.mark.parametrize(
    ("loss", "options"),
    zip(MARGIN_LOSSES, ({}, {"momentum": 0.9}, {"momentum": 0.9, "loader": True}, {"loader": True}), strict=True),
)
def test_training_is_the_published_loop(loss, options):
    network, twin = gln().double(), gln().double()
    config = SGD(steps=30, batch_size=25, lr=0.1, loss=loss, **options)
    train(network, X, Y, config, seed=7)
    torch_training(twin, X, Y, config, seed=7)
    for p, q in zip(network.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-9, atol=1e-11)


def several():
    return [GaLU0Network(12, units, sharpness=2.0) for units in ([6, 6], [5, 3])]


@pytest.mark.parametrize(
    "run",
    [
        lambda seed: train(gln(), X, Y, SGD(steps=50), seed=seed),
        lambda seed: train(several(), X, Y, SGD(steps=50), seed=seed),
        lambda seed: descend_to_limit(gln(seed=seed), X, Y, LossScaled(max_steps=300)),
        lambda seed: descend_to_limit(gln(seed=seed), X, Y, PlainDescent(max_steps=300)),
    ],
)
def test_same_seed_same_weights_bit_for_bit_whatever_the_threads(run):
    results, before = [], torch.get_num_threads()
    for threads, seed in ((1, 1), (2, 1), (1, 2)):
        torch.set_num_threads(threads)
        networks = run(seed).networks
        results.append([network.decision_function(X) for network in networks])
        assert torch.get_num_threads() == threads
    torch.set_num_threads(before)
    np.testing.assert_array_equal(results[0], results[1])
    assert not np.array_equal(results[0], results[2])


def test_epochs_are_the_published_ones():
    assert [SGD().epochs(n) for n in (500, 1000, 2000)] == [800, 400, 200]
    assert SGD(steps=1).epochs(10_000) == 1


def test_history():
    network = gln().double()
    calls = []
    history = train(network, X, Y, SGD(steps=20), progress=lambda *at: calls.append(at))
    table = history.table
    assert len(table) == 21
    assert calls == [(step, 20) for step in range(21)]
    assert table.loss.iloc[-1] < table.loss.iloc[0]
    last = Y * network.decision_function(X)
    assert table.margin.iloc[-1] == pytest.approx(last.min(), abs=1e-9)
    assert table.error.iloc[-1] == np.mean(last <= 0)
    assert table.norm.iloc[-1] == pytest.approx(network.norm())
    assert table.normalised_margin.iloc[-1] == pytest.approx(last.min() / network.norm() ** 2, abs=1e-9)
    assert history.seconds > 0


class Detached(GatedNetwork):
    degree = 1

    def __init__(self):
        super().__init__(12)
        self.w = torch.nn.Parameter(torch.ones(12))

    def forward(self, X, contexts=None):
        return X @ self.w.detach()


test_bad_input = refusals(
    (lambda: train(Detached(), X, Y), "outputs have no gradient"),
    (lambda: descend_to_limit(Detached(), X, Y), "outputs have no gradient"),
    (lambda: train(gln(), X, Y[:-1]), "59 labels for 60"),
    (lambda: train(gln(), X, np.ones(60)), "one class"),
    (lambda: train(gln(), np.full((60, 12), np.nan), Y), "NaN"),
    (lambda: train(gln(), X[:, :5], Y), "5 columns"),
    (lambda: train(gln(), X, Y, device="cuda:99"), "use 'cpu'"),
    (lambda: train(gln(), X, Y, device="toaster"), "use 'cpu'"),
    (lambda: train(gln(), X, Y, seed="a"), "seed"),
    (lambda: train(ReLUNetwork(12, 50), X, Y, SGD(lr=1e6, steps=200, loss="exponential")), "diverged"),
    (lambda: SGD(steps=0), "steps"),
    (lambda: SGD(batch_size=1.5), "batch_size"),
    (lambda: SGD(lr=-1), "lr"),
    (lambda: SGD(momentum=1.0), "momentum"),
    (lambda: SGD(loss="focal"), "logistic, exponential"),
    (lambda: SGD(loader=1), "loader must be True or False"),
)


def test_weights_beyond_the_networks_numbers_are_refused():
    """Weights of a shallow GLN beyond float32 raise InputError, and are kept by a network in float64."""
    X, y = 1e38 * np.eye(2), [1, -1]
    with pytest.raises(InputError, match=r"weights beyond 3\.4e\+38.*scale X down.*double"):
        train(GatedLinearNetwork(hyperplanes(1, 1).fit(X), readout=False), X, y, SGD(steps=2, lr=100.0))
    network = GatedLinearNetwork(hyperplanes(1, 1).fit(X), readout=False).double()
    assert np.isfinite(train(network, X, y, SGD(steps=2, lr=100.0)).table).all(axis=None)
    assert np.isfinite(network.decision_function(X)).all()


@pytest.mark.parametrize("loss", MARGIN_LOSSES)
def test_slopes_are_those_of_autograd(loss):
    margins = torch.tensor([-800.0, -2.0, 0.0, 1.0, 1.5, 800.0], dtype=torch.float64, requires_grad=True)
    MARGIN_LOSSES[loss].value(margins).sum().backward()
    torch.testing.assert_close(MARGIN_LOSSES[loss].slope(margins.detach()), margins.grad, rtol=1e-12, atol=0.0)


def hyperplanes(units, contexts):
    return HyperplaneGates(units, contexts, seed=1).fit(X)


def thirds():
    return FunctionContexts(lambda X: np.digitize(X[:, :4], [-0.5, 0.5]), 3).fit(X)


#: Networks, and the way to train them besides autograd.
WAYS = {
    "shallow": (lambda: GatedLinearNetwork(hyperplanes(1, 8), readout=False), SpanUpdates),
    "1 context": (lambda: GatedLinearNetwork(hyperplanes(3, 1)), TwoLayerSpanUpdates),
    "2 contexts": (gln, TwoLayerSpanUpdates),
    "3 contexts": (lambda: GatedLinearNetwork(thirds()), TwoLayerSpanUpdates),
    "4 contexts": (lambda: GatedLinearNetwork(hyperplanes(3, 4)), TwoLayerSpanUpdates),
    "relu": (lambda: ReLUNetwork(12, 7), TwoLayerSpanUpdates),
    "frozen": (lambda: ReLUNetwork(12, 7).freeze(), TwoLayerSpanUpdates),
    "galu": (lambda: GaLUNetwork(12, 7), TwoLayerSpanUpdates),
    "soft galu": (lambda: GaLUNetwork(12, 7, sharpness=2.0), TwoLayerSpanUpdates),
}


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("name", WAYS)
def test_every_way_makes_the_steps_of_autograd(name, momentum):
    """Weights, outputs and norms after 40 steps equal those of autograd, for every way of updating."""
    inputs = np.where(np.arange(12) == 3, 0.0, X)
    make, way = WAYS[name]
    start = make().double()
    weights, outputs, norms = [], [], []
    for one in (way, WeightUpdates):
        network = copy.deepcopy(start)
        model = one(network, inputs, Y, SGD(momentum=momentum))
        for seed in range(40):
            batch = torch.randperm(60, generator=torch.Generator().manual_seed(seed))[:25]
            model.step(batch, 0.1)
        outputs.append(model.outputs().detach().numpy())
        norms.append(model.norm())
        model.write()
        weights.append(network.effective_weights())
    np.testing.assert_allclose(*weights, atol=1e-11)
    np.testing.assert_allclose(*outputs, atol=1e-11)
    np.testing.assert_allclose(*norms, rtol=1e-12)
    assert np.abs(weights[0] - start.effective_weights()).max() > 1e-2


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_networks_of_little_precision_are_trained_in_float32_at_least(dtype):
    start = gln().to(dtype)
    low, high = copy.deepcopy(start), copy.deepcopy(start).double()
    train(low, X, Y, SGD(steps=30, batch_size=25))
    train(high, X, Y, SGD(steps=30, batch_size=25))
    assert next(low.parameters()).dtype == dtype
    exact = high.effective_weights()
    # Each of 30 steps rounds both factors of a weight, and their slopes.
    np.testing.assert_allclose(low.effective_weights(), exact, atol=60 * torch.finfo(dtype).eps * np.abs(exact).max())


def test_the_way_follows_network_and_samples():
    class Doubled(ReLUNetwork):
        def forward(self, X, contexts=None):
            return 2 * super().forward(X, contexts)

    wide = HyperplaneGates(2, 32).fit(X)
    deep = [hyperplanes(3, 2), hyperplanes(2, 2)]
    found = {
        "few": updates_of(gln(), X[:20], Y[:20], SGD()),
        "many": updates_of(gln(), X, Y, SGD()),
        "large": updates_of(gln(), 1e20 * X[:20], Y[:20], SGD()),
        "shallow": updates_of(WAYS["shallow"][0](), X, Y, SGD()),
        "custom": updates_of(WAYS["shallow"][0](), X, Y, SGD(loss=CUSTOM["logistic"])),
        "deep": updates_of(GatedLinearNetwork(deep), X, Y, SGD()),
        "wide": updates_of(GatedLinearNetwork(wide), X, Y, SGD()),
        "another's": updates_of(Doubled(12, 3), X, Y, SGD()),
    }
    assert {name: type(model) for name, model in found.items()} == {
        "few": TwoLayerSpanUpdates,
        "many": WeightUpdates,
        "large": WeightUpdates,
        "shallow": SpanUpdates,
        "custom": SpanUpdates,
        "deep": WeightUpdates,
        "wide": WeightUpdates,
        "another's": WeightUpdates,
    }


@pytest.mark.parametrize(
    ("make", "n"),
    [
        (lambda X: GatedLinearNetwork(HyperplaneGates(4, 2, seed=1).fit(X)), 20),
        (lambda X: ReLUNetwork(X.shape[1], 5), 60),
        (lambda X: GatedLinearNetwork(HyperplaneGates(1, 4, seed=1).fit(X), readout=False), 60),
    ],
)
def test_the_network_has_its_weights_whenever_progress_is_told(make, n):
    """The network has its current weights at each call of `progress`, and the call does not change the training."""
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 12))
    y, alone, watched, seen = np.sign(X[:, 0] + X[:, 1]), make(X).double(), make(X).double(), []

    def look(step, steps):
        margins = y * watched.decision_function(X)
        seen.append(float(np.logaddexp(0, -margins).mean()))

    config = SGD(steps=24, batch_size=10)
    train(alone, X, y, config)
    history = train(watched, X, y, config, progress=look)
    np.testing.assert_allclose(seen, history.table.loss, rtol=1e-9)
    np.testing.assert_allclose(alone.decision_function(X), watched.decision_function(X), rtol=1e-9, atol=1e-9)


def test_rows_of_some_steps_leave_the_end_as_it_is():
    networks, seen = [gln(), gln(), gln()], []
    for network, every in zip(networks, (None, 3, {2, 7, 1000}), strict=True):
        table = train(network, X, Y, SGD(steps=9, batch_size=20), every=every).table
        seen.append(table.step.tolist())
        np.testing.assert_array_equal(network.effective_weights(), networks[0].effective_weights())
    assert seen == [[0, 3, 6, 9], [0, 3, 6, 9], [0, 2, 7, 9]]


TARGETS = np.column_stack([np.abs(X[:, 0]), X[:, 1] - 0.3, X[:, 2] * (X[:, 3] > 0)])
CLASSES = TARGETS.argmax(axis=1)
CONFIGS = SGD(steps=30, batch_size=25, lr=0.02, momentum=0.5), Adam(steps=30, batch_size=25)
#: Networks, targets and losses that are no labels of a margin.
AIMS = {
    "deep galu, one real target": (lambda: GaLUNetwork(12, (9, 8), seed=1), TARGETS[:, 0], "squared"),
    "deep galu0, targets": (lambda: GaLU0Network(12, (9, 8), outputs=3, seed=1), TARGETS, "squared"),
    "soft galu, classes": (lambda: GaLUNetwork(12, 9, outputs=3, sharpness=1.0), CLASSES, "logistic"),
    "deep galu, classes by hinge": (lambda: GaLUNetwork(12, (9, 8), outputs=3), CLASSES, "hinge"),
    "relu, a column of targets": (lambda: ReLUNetwork(12, 9), TARGETS[:, :1], "squared"),
    "gln, a real target": (gln, TARGETS[:, 2], "squared"),
    "galu, signs": (lambda: GaLUNetwork(12, 9), Y, "logistic"),
}


@pytest.mark.parametrize(("name", "config"), [*zip(AIMS, cycle(CONFIGS), strict=False), ("galu, signs", CONFIGS[1])])
def test_training_on_targets_is_torchs_loop(name, config):
    make, y, loss = AIMS[name]
    network, twin, config = make().double(), make().double(), replace(config, loss=loss)
    history = train(network, X, y, config, seed=7, every=9)
    torch_training(twin, X, y, config, seed=7)
    x, aims = torch.as_tensor(X), torch.as_tensor(y, dtype=torch.float64)
    for p, q in zip(network.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-9, atol=1e-10)
        assert p.grad is None
    table = history.table
    assert table.step.tolist() == [0, 9, 18, 27, 30]
    assert table.loss.iloc[-1] == pytest.approx(float(mean_loss(twin(x), aims, loss).detach()), rel=1e-9)
    assert table.norm.iloc[-1] == pytest.approx(twin.norm())
    wrong = {"classes": lambda: twin(x).argmax(1) != aims, "signs": lambda: twin(x) * aims <= 0}
    for kind, errs in wrong.items():
        if kind in name:
            assert table.error.iloc[-1] == float(errs().double().mean())
    assert ("error" in table) == any(kind in name for kind in wrong)


CUSTOM = {
    "logistic": lambda f, y: torch.log(1 + torch.exp(-y * f)),
    "exponential": lambda f, y: torch.exp(-y * f).mean(),
    "hinge": lambda f, y: torch.clamp(1 - y * f, min=0),
    "squared": torch.nn.functional.mse_loss,
}


@pytest.mark.parametrize("make", [gln, lambda: ReLUNetwork(12, [6, 5]), WAYS["frozen"][0], WAYS["shallow"][0]])
@pytest.mark.parametrize("loss", CUSTOM)
def test_custom_losses_equal_the_named_ones(make, loss):
    """A loss written as a function gives the steps and the rows of the named one, on the weights and in the span."""
    named, own = make().double(), make().double()
    config = SGD(steps=20, batch_size=25, momentum=0.5, loss=loss)
    tables = [train(named, X, Y, config).table, train(own, X, Y, replace(config, loss=CUSTOM[loss])).table]
    np.testing.assert_allclose(*tables, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(named.decision_function(X), own.decision_function(X), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("make", [gln, WAYS["shallow"][0]])
def test_a_custom_loss_may_penalise_weights(make):
    """A penalty λ/2 ‖w‖² in the loss makes the steps of weight decay λ."""
    penalised, decayed = make().double(), make().double()

    def loss(f, y):
        penalty = sum((w**2).sum() for w in penalised.parameters())
        return torch.nn.functional.soft_margin_loss(f, y) + 0.3 / 2 * penalty

    start = penalised.norm()
    train(penalised, X, Y, SGD(steps=30, batch_size=25, lr=0.1, lr_factor=1.0, loss=loss))
    twin = TorchOptimiser(partial(torch.optim.SGD, lr=0.1, weight_decay=0.3), steps=30, batch_size=25)
    train(decayed, X, Y, twin)
    assert penalised.norm() < start
    np.testing.assert_allclose(penalised.decision_function(X), decayed.decision_function(X), rtol=1e-9, atol=1e-11)


def test_custom_losses_on_classes_and_of_several_networks():
    cross, square = torch.nn.functional.cross_entropy, torch.nn.functional.mse_loss
    for y, loss, name in ((CLASSES, cross, "logistic"), (TARGETS, square, "squared")):
        pair = [[ReLUNetwork(12, 5, outputs=3, seed=seed) for seed in (1, 2)] for _ in range(2)]
        for networks, own in zip(pair, (loss, name), strict=True):
            config = Adam(steps=20, batch_size=25, loss=own)
            train(networks, X, y, config)
            table = train(networks[0].double(), X, y, config).table
            assert ("error" in table) == (name == "logistic")
        outputs = [[network.decision_function(X) for network in networks] for networks in pair]
        np.testing.assert_allclose(*outputs, rtol=1e-4, atol=1e-5)


def test_a_custom_loss_takes_real_targets():
    history = train(gln(), X, (Y + 1) / 2, SGD(steps=60, loss=torch.nn.functional.binary_cross_entropy_with_logits))
    assert list(history.table) == ["step", "loss", "norm"]
    assert history.losses[0] < history.table.loss[0]


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (lambda f, y: 3.0, "must return a tensor.*not float"),
        (lambda f, y: f[:2], r"one for each of the \d+ samples, not shape \(2,\)"),
        (lambda f, y: f.detach(), "no gradient"),
        (lambda f: f, r"fails on outputs \(60,\) and targets \(60,\), torch.float32 .*it takes \(outputs, targets\)"),
        (lambda f, y: f * torch.nan, "overflows"),
    ],
)
def test_losses_that_are_refused(loss, words):
    for network in (gln(), ReLUNetwork(12, [3, 2])):
        with pytest.raises(InputError, match=words):
            train(network, X, Y, SGD(loss=loss))


def test_training_on_targets_nears_the_closed_form():
    gates = GaLUNetwork(12, 2, seed=1).gates()
    best = least_squares(gates(X), TARGETS[:, 0]).loss
    network = GaLUNetwork(12, 2, seed=1).double()
    history = train(network, X, TARGETS[:, 0], Adam(4000, 60, lr=1e-2, loss="squared"), every=500)
    assert (1 - 1e-9) * best <= history.table.loss.iloc[-1] < 1.01 * best
    assert len(train(network, X, TARGETS[:, 0], Adam(steps=0, loss="squared")).table) == 1


test_bad_targets = refusals(
    (lambda: train(GaLUNetwork(12, 3), X, TARGETS[:, 0]), r"must hold −1 and \+1"),
    (lambda: train(GaLUNetwork(12, 3), X, TARGETS, SGD(loss="squared")), "3 targets per sample.*1 output"),
    (
        lambda: train(GaLUNetwork(12, 3, outputs=3), X, TARGETS[:, 0], Adam(loss="squared")),
        "1 targets per sample.*3 output",
    ),
    (lambda: train(GaLUNetwork(12, 3, outputs=3), X, CLASSES, SGD(loss="exponential")), "squared, logistic, hinge"),
    (lambda: train(GaLUNetwork(12, 3, outputs=3), X, Y, Adam(loss="hinge")), "class from 0 to 2"),
    (lambda: train(GaLUNetwork(12, 3, outputs=3), X, CLASSES[1:], Adam(loss="hinge")), "60 samples"),
    (lambda: train(GaLUNetwork(12, 3), X, TARGETS[1:, 0], Adam(loss="squared")), "59 targets for 60"),
    (lambda: train(GaLUNetwork(12, 3), X, Y, "adam"), "SGD.*Adam.*TorchOptimiser"),
    (lambda: train(GaLUNetwork(12, (9, 9)), X, TARGETS[:, 0], SGD(lr=1e4, loss="squared")), "diverged"),
)
