"""Many networks trained together."""

from dataclasses import replace
from functools import partial
from itertools import cycle, product

import numpy as np
import pytest
import torch

from implicit_bias import SGD, Adam, InputError, ReLUNetwork, train
from implicit_bias.extensions.galu import GaLU0Network, GaLUNetwork
from implicit_bias.networks import LinearNetwork, ReadoutNetwork
from tests import cases
from tests.training.reference import gln, torch_training

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 4))
Y = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)
NETWORKS = {
    "galu": lambda **more: GaLUNetwork(4, 6, **more),
    "soft galu": lambda **more: GaLUNetwork(4, 6, sharpness=3.0, **more),
    "galu0": lambda **more: GaLU0Network(4, [5, 3, 2], **more),
    "soft galu0": lambda **more: GaLU0Network(4, [5, 3], sharpness=2.0, **more),
    "relu": lambda **more: ReLUNetwork(4, 6, **more),
    "frozen": lambda **more: ReLUNetwork(4, 6, **more).freeze(),
    "linear": lambda **more: LinearNetwork(4, [6, 3], **more),
    "readout": lambda **more: ReadoutNetwork(4, 6, **more),
    "deep readout": lambda **more: ReadoutNetwork(4, [6, 5], **more),
    "deep relu": lambda **more: ReLUNetwork(4, [6, 5], **more),
    "deep galu": lambda **more: GaLUNetwork(4, [6, 5], **more),
    "deep soft galu": lambda **more: GaLUNetwork(4, [6, 5], sharpness=3.0, **more),
}
OUTPUTS = [("squared", 1), ("squared", 2), ("logistic", 1), ("logistic", 3), ("hinge", 1), ("hinge", 3)]
OPTIMISERS = [Adam, SGD, partial(SGD, lr_factor=1.0, momentum=0.9)]
PAIRS = [(name, *each) for name, each in zip(cycle(NETWORKS), product(OUTPUTS, OPTIMISERS), strict=False)]


def targets_of(loss, outputs, shape):
    if loss == "squared":
        return RNG.normal(size=shape if outputs == 1 else (*shape, outputs))
    return RNG.integers(0, outputs, size=shape) if outputs > 1 else RNG.choice([-1.0, 1.0], size=shape)


@pytest.mark.parametrize(("name", "outputs", "optimiser"), PAIRS)
def test_networks_are_trained_as_each_would_be_alone(name, outputs, optimiser):
    loss, q = outputs
    config = optimiser(steps=23, batch_size=16, lr=1e-2, loss=loss)
    many, single = ([NETWORKS[name](seed=seed, outputs=q) for seed in (1, 2)] for _ in range(2))
    own, targets = np.stack([X, X[::-1] + 1]), targets_of(loss, q, (2, 40))
    training = train(many, own, targets, config, seed=4, every=500)
    for network, twin, inputs, wanted, measured in zip(many, single, own, targets, training.losses, strict=True):
        torch_training(twin, inputs, wanted, config, 4)
        for a, b in zip(network.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
        if outputs == ("squared", 1):
            assert measured == pytest.approx(np.mean((network.decision_function(inputs) - wanted) ** 2), rel=1e-4)


@pytest.mark.parametrize("name", [name for name, (config, _) in cases.OPTIMISERS.items() if config.stacks])
def test_networks_of_several_widths_are_trained_as_each_would_be_alone(name):
    config = replace(cases.OPTIMISERS[name][0], steps=9, batch_size=16)
    many, single = ([ReLUNetwork(4, units, seed=units) for units in (6, 3)] for _ in range(2))
    train(many, X, Y, config)
    for network, twin in zip(many, single, strict=True):
        train(twin, X, Y, config)
        for a, b in zip(network.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


def test_gradients_of_unknown_networks_are_autograds():
    class Squared(ReLUNetwork):
        def activations(self, weights, filters, X, opened=None):
            return super().activations(weights, filters, X, opened) ** 2

    config = Adam(steps=20, batch_size=8, lr=1e-2)
    many, twin = [Squared(4, 3, seed=1), Squared(4, 6, seed=2)], Squared(4, 6, seed=2)
    train(many, X, Y, config, seed=4)
    torch_training(twin, X, Y, config, 4)
    np.testing.assert_allclose(many[1].decision_function(X), twin.decision_function(X), atol=1e-5)


@pytest.mark.parametrize("cls", [GaLUNetwork, GaLU0Network, ReLUNetwork, LinearNetwork, ReadoutNetwork])
def test_widths_may_differ(cls):
    shapes = [[3, 8], [7, 2], [5, 5]]
    many, single = ([cls(4, shape, seed=seed) for seed, shape in enumerate(shapes)] for _ in range(2))
    config = Adam(steps=40, batch_size=8, lr=1e-2)
    train(many, X, Y, config)
    for network, twin in zip(many, single, strict=True):
        train([twin], X, Y, config)
        np.testing.assert_allclose(network.decision_function(X), twin.decision_function(X), atol=1e-5)


def test_training_ends_at_the_target_and_at_ctrl_c():
    networks = [GaLUNetwork(4, 40, seed=seed) for seed in (1, 2)]
    looks = []
    training = train(
        networks, X, Y, Adam(steps=20_000, batch_size=20, lr=1e-2), target=0.05, every=50,
        progress=lambda step, steps: looks.append(step),
    )  # fmt: skip
    assert (training.losses < 0.05).all()
    assert training.end == "converged"
    assert looks[-1] == training.table.step.max() < 20_000
    assert (training.table.step % 50 == 0).all()
    stop = cases.interrupt(lambda step, steps: step > 0)
    for trained, steps in ((networks, [0, 0, 10, 10]), (networks[0], [0, 10])):
        training = train(trained, X, Y, Adam(steps=100), every=10, progress=stop)
        assert training.interrupted
        assert training.table.step.tolist() == steps


def test_short_integers_do_not_overflow():
    config = Adam(steps=np.int16(130), batch_size=np.int8(8))
    training = train([ReLUNetwork(1, 2)], np.ones((200, 1)), np.ones(200), config, every=np.int8(3))
    assert np.isfinite(training.losses).all()


test_bad_input_is_refused = cases.refusals(
    ([], (X, Y), Adam(), "a list of networks"),
    ([GaLUNetwork(4, 3), None], (X, Y), Adam(), "a list of networks"),
    ([GaLUNetwork(4, 3)], (X, Y), "adam", r"SGD\(…\), Adam\(…\), Muon\(…\) or TorchOptimiser"),
    ([GaLUNetwork(4, 3), ReLUNetwork(4, 3)], (X, Y), Adam(), "one class"),
    ([gln(X), gln(X)], (X, Y), Adam(), "layered ones of one class"),
    ([GaLUNetwork(4, 3), GaLUNetwork(4, [3, 3])], (X, Y), Adam(), "equal inputs, depth"),
    ([GaLUNetwork(4, 3)], (X[:, :3], Y), Adam(), r"\(n, 4\)"),
    ([GaLUNetwork(4, 3)], (np.stack([X, X]), Y), Adam(), r"\(1, n, 4\)"),
    ([GaLUNetwork(4, 3)], (X, Y[1:]), Adam(loss="squared"), "39 targets for 40"),
    ([GaLUNetwork(4, 3), GaLUNetwork(4, 3)], (np.stack([X, X]), Y[None]), Adam(), "each of the 2 networks"),
    ([GaLUNetwork(4, 3)], (X, np.arange(40.0)), Adam(loss="hinge"), "−1 and"),
    ([GaLUNetwork(4, 3, outputs=2)], (X, Y), Adam(loss="hinge"), "class from 0 to 1"),
    ([GaLUNetwork(4, 3, outputs=2)], (X, Y), Adam(loss="squared"), "1 targets per sample"),
    ([GaLUNetwork(4, 3, outputs=2)], (X, Y), SGD(loss="exponential"), "several outputs take"),
    ([GaLUNetwork(4, 3)], (1e300 * X, Y), Adam(), "scale them down"),
    ([GaLUNetwork(4, 3)], (X, Y), SGD(lr=1e39), "lr must be at most 3.4e"),
    ([GaLUNetwork(4, 3)], (X, Y), Adam(steps=50, lr=1e30), "diverged"),
    ([ReLUNetwork(1, 2)], ([[1e30]], [1.0]), Adam(steps=0, loss="squared"), "overflows before any training"),
    ([ReLUNetwork(1, 2)], ([[1.0], [2.0]], [1.0, [2.0, 3.0]]), Adam(), "regular"),
    call=lambda networks, data, config: train(networks, *data, config),
)


def test_bad_options_are_refused():
    for options, words in (({"target": -1.0}, "target"), ({"every": 0}, "every"), ({"every": "7"}, "every")):
        with pytest.raises(InputError, match=words):
            train([GaLUNetwork(4, 3)], X, Y, Adam(), **options)
