"""GaLU networks and their comparisons, and many networks trained together."""

from functools import partial

import numpy as np
import pytest
import torch

from implicit_bias import (
    SGD,
    Adam,
    InputError,
    ReLUGates,
    ReLUNetwork,
    SoftGates,
    load_network,
    save_network,
    train,
)
from implicit_bias.extensions.galu import GaLU0Network, GaLUNetwork, train_together
from implicit_bias.extensions.galu.training import AutogradGradients, Stack, WrittenGradients, gradients_of, tensors_of
from implicit_bias.gates import ProductGates
from implicit_bias.networks import LinearNetwork, ReadoutNetwork
from implicit_bias.training.losses import mean_losses
from implicit_bias.training.optimisers import LOSSES

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
}
DEEP = {
    "galu": lambda **more: GaLUNetwork(4, [6, 5], **more),
    "soft galu": lambda **more: GaLUNetwork(4, [6, 5], sharpness=3.0, **more),
    "readout": lambda **more: ReadoutNetwork(4, [6, 5], **more),
    "relu": lambda **more: ReLUNetwork(4, [6, 5], **more),
}


@pytest.mark.parametrize(("name", "outputs"), [(name, 1 + 2 * (i % 2)) for i, name in enumerate(NETWORKS)])
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
    with pytest.raises(InputError, match="2 gated layers"):
        network.gates()


@pytest.mark.parametrize("name", ["soft galu", "galu0", "frozen", "readout"])
def test_filters_are_never_trained_and_survive_a_file(name, tmp_path):
    network = NETWORKS[name](seed=2)
    before = [u.clone() for u in network.filters()]
    weights = [w.detach().clone() for w in network.parameters()]
    history = train(network, X, Y, SGD(steps=30, batch_size=10))
    assert history.table.loss.iloc[-1] < history.table.loss.iloc[0]
    for old, new in zip(before, network.filters(), strict=True):
        assert torch.equal(old, new)
    assert not all(torch.equal(a, b) for a, b in zip(weights, network.parameters(), strict=True))
    loaded = load_network(save_network(network, tmp_path / "network.pt"))
    np.testing.assert_array_equal(loaded.decision_function(X), network.decision_function(X))
    assert loaded.config() == network.config()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: GaLUNetwork(4, []), "at least one hidden layer"),
        (lambda: GaLUNetwork(4, 3, sharpness=0), "sharpness"),
        (lambda: ProductGates([]), "fitted gates"),
        (lambda: ProductGates([ReLUGates([[1.0]]), ReLUGates([[1.0, 2.0]])]), "same input"),
        (lambda: GaLU0Network(3, [50] * 6).effective_weights(), "all paths"),
        (lambda: train_together([], X, Y), "list of networks"),
        (lambda: train_together([GaLUNetwork(4, 3), ReLUNetwork(4, 3)], X, Y), "one class"),
        (lambda: train_together([GaLUNetwork(4, 3), GaLUNetwork(4, [3, 3])], X, Y), "equal inputs, depth"),
        (lambda: train_together([GaLUNetwork(4, 3)], X[:, :3], Y), r"\(n, 4\)"),
        (lambda: train_together([GaLUNetwork(4, 3)], np.stack([X, X]), Y), r"\(1, n, 4\)"),
        (lambda: train_together([GaLUNetwork(4, 3)], X, Y[1:]), r"\(40, 1\)"),
        (lambda: train_together([GaLUNetwork(4, 3)], X, np.arange(40.0), Adam(loss="hinge")), "−1 and"),
        (lambda: train_together([GaLUNetwork(4, 3, outputs=2)], X, Y, Adam(loss="hinge")), "classes 0 to 1"),
        (lambda: train_together([GaLUNetwork(4, 3, outputs=2)], X, Y), r"\(40, 2\)"),
        (lambda: train_together([GaLUNetwork(4, 3)], 1e300 * X, Y), "scale them down"),
        (lambda: train_together([GaLUNetwork(4, 3)], X, Y, "adam"), r"Adam\(…\) or SGD\(…\)"),
        (lambda: train_together([GaLUNetwork(4, 3)], X, Y, SGD(lr=1e39)), "lr must be at most 3.4e"),
        (lambda: train_together([GaLUNetwork(4, 3, outputs=2)], X, Y, SGD(loss="exponential")), "several outputs take"),
        (lambda: train_together([GaLUNetwork(4, 3)], X, Y, Adam(steps=50, lr=1e30)), "diverged"),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(InputError, match=words):
        call()


def alone(network, inputs, targets, config, seed):
    """The training of one network by torch's own loop, Adam and SGD."""
    x, y = torch.as_tensor(inputs).float(), torch.as_tensor(targets)
    y = y.float() if config.loss == "squared" or network.outputs == 1 else y.long()
    if isinstance(config, SGD):
        optimiser = torch.optim.SGD(network.parameters(), lr=config.lr, momentum=config.momentum)
        batches = -(-len(x) // config.batch_size)
        epochs = config.steps // batches
        last, drop = epochs * batches, epochs // 2 * batches
    else:
        optimiser, last, drop = torch.optim.Adam(network.parameters(), lr=config.lr), config.steps, -1
    generator = torch.Generator().manual_seed(seed)
    step = 0
    while step < last:
        for batch in torch.randperm(len(x), generator=generator).split(config.batch_size):
            if step == drop:
                optimiser.param_groups[0]["lr"] *= config.lr_factor
            f = network(x[batch])
            wanted = y[batch]
            if config.loss == "squared":
                loss = torch.nn.functional.mse_loss(f, wanted)
            elif network.outputs > 1:
                name = {"logistic": "cross_entropy", "hinge": "multi_margin_loss"}[config.loss]
                loss = getattr(torch.nn.functional, name)(f, wanted)
            elif config.loss == "logistic":
                loss = torch.log1p(torch.exp(-wanted * f)).mean()
            else:
                loss = torch.clamp(1 - wanted * f, min=0).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            step += 1
            if step == last:
                return


#: Every network twice; every loss with every optimiser.
LOSSES_OF = [("squared", 1), ("squared", 2), ("logistic", 1), ("logistic", 3), ("hinge", 1)]
WAYS = [Adam, SGD, partial(SGD, lr_factor=1.0, momentum=0.9)]
TRAINED = [*NETWORKS, "deep galu", "deep soft galu", "deep readout", "deep relu"]
TOGETHER = [(name, *LOSSES_OF[i % 5], WAYS[i % 3]) for i, name in enumerate(TRAINED + TRAINED[1:] + TRAINED[:1])]


@pytest.mark.parametrize(("name", "loss", "outputs", "optimiser"), TOGETHER)
def test_networks_train_together_as_each_would_alone(name, loss, outputs, optimiser):
    build = NETWORKS.get(name) or DEEP[name.removeprefix("deep ")]
    config = optimiser(steps=23, batch_size=16, lr=1e-2, loss=loss)
    many, single = ([build(seed=seed, outputs=outputs) for seed in (1, 2)] for _ in range(2))
    own = np.stack([X, X[::-1] + 1])
    rng = np.random.default_rng(1)
    if loss == "squared":
        targets = rng.normal(size=(2, 40) if outputs == 1 else (2, 40, outputs))
    else:
        targets = rng.integers(0, outputs, size=(2, 40)) if outputs > 1 else np.stack([Y, -Y])
    training = train_together(many, own, targets, config, seed=4)
    for network, twin, inputs, wanted, measured in zip(many, single, own, targets, training.losses, strict=True):
        alone(twin, inputs, wanted, config, 4)
        for a, b in zip(network.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
        if outputs == 1 and loss == "squared":
            assert measured == pytest.approx(np.mean((network.decision_function(inputs) - wanted) ** 2), rel=1e-4)


WRITTEN = [*NETWORKS, "deep relu", "deep readout"]
CASES = [(loss, outputs) for loss in LOSSES for outputs in (1, 3)]


@pytest.mark.parametrize(
    ("name", "loss", "outputs"), [(n, *CASES[(i + j) % 6]) for i, n in enumerate(WRITTEN) for j in (0, 3)]
)
def test_written_gradients_are_those_of_autograd(name, loss, outputs):
    build = NETWORKS.get(name) or DEEP[name.removeprefix("deep ")]
    rng = np.random.default_rng(2)
    for shared, kept in ((True, 2**28), (False, 2**28), (False, 0)):
        stack = Stack([build(seed=seed, outputs=outputs) for seed in (1, 2, 3)])
        inputs = X if shared else rng.normal(size=(3, 40, 4))
        shape = inputs.shape[:-1]
        if loss == "squared":
            targets = rng.normal(size=shape if outputs == 1 else (*shape, outputs))
        else:
            targets = rng.integers(0, 3, size=shape) if outputs > 1 else rng.choice([-1.0, 1.0], size=shape)
        tensors, batch = tensors_of(stack, inputs, targets, loss), torch.tensor([3, 1, 17, 30, 5])
        assert isinstance(gradients_of(stack, *tensors, loss), WrittenGradients)
        written = WrittenGradients(stack, *tensors, loss, kept=kept)
        torch.testing.assert_close(written.at(batch), AutogradGradients(stack, *tensors, loss).at(batch))


def test_gradients_of_networks_that_are_not_known_are_autograds():
    class Squared(ReLUNetwork):
        def activations(self, weights, filters, X, opened=None):
            return super().activations(weights, filters, X, opened) ** 2

    for network in (Squared(4, 6), DEEP["galu"](), DEEP["soft galu"]()):
        stack = Stack([network])
        assert isinstance(gradients_of(stack, *tensors_of(stack, X, Y, "squared"), "squared"), AutogradGradients)
    many, twin = [Squared(4, 3, seed=1), Squared(4, 6, seed=2)], Squared(4, 6, seed=2)
    config = Adam(steps=20, batch_size=8, lr=1e-2)
    train_together(many, X, Y, config, seed=4)
    alone(twin, X, Y, config, 4)
    np.testing.assert_allclose(many[1].decision_function(X), twin.decision_function(X), atol=1e-5)


@pytest.mark.parametrize("cls", [GaLUNetwork, GaLU0Network, ReadoutNetwork])
def test_widths_may_differ(cls):
    shapes = [[3, 8], [7, 2], [5, 5]]
    many, single = ([cls(4, shape, seed=seed) for seed, shape in enumerate(shapes)] for _ in range(2))
    config = Adam(steps=40, batch_size=8, lr=1e-2)
    train_together(many, X, Y, config)
    for network, twin in zip(many, single, strict=True):
        train_together([twin], X, Y, config)
        np.testing.assert_allclose(network.decision_function(X), twin.decision_function(X), atol=1e-5)


def test_the_hinge_of_several_classes():
    outputs = torch.tensor([[[1.0, 0.5, -1.0], [0.0, 3.0, 1.0]]])
    assert mean_losses(outputs, torch.tensor([[0, 2]]), "hinge").item() == pytest.approx((0.5 + 3.0) / 2)


def test_training_together_ends_at_the_target_and_at_ctrl_c():
    networks = [GaLUNetwork(4, 40, seed=seed) for seed in (1, 2)]
    looks = []
    training = train_together(
        networks, X, Y, Adam(steps=20_000, batch_size=20, lr=2e-2), target=0.1, every=50,
        progress=lambda step, losses: looks.append(step),
    )  # fmt: skip
    assert (training.losses < 0.1).all()
    assert training.end == "converged"
    assert looks[-1] == training.table.step.max() < 20_000
    assert (training.table.step % 50 == 0).all()

    def stop(step, losses):
        raise KeyboardInterrupt

    training = train_together(networks, X, Y, Adam(steps=100), every=10, progress=stop)
    assert training.interrupted
    assert training.table.step.tolist() == [0, 0, 10, 10]


def test_sgd_makes_whole_epochs_and_no_more():
    steps = []
    config = SGD(steps=10, batch_size=16, loss="squared")
    train_together([GaLUNetwork(4, 3)], X, Y, config, every=1, progress=lambda step, losses: steps.append(step))
    assert steps == list(range(1, 10))


def test_training_together_is_reproducible():
    results = []
    for seed in (1, 1, 2):
        network = GaLU0Network(4, [6, 6], sharpness=2.0)
        train_together([network], X, Y, Adam(steps=30, batch_size=8), seed=seed)
        results.append(network.decision_function(X))
    np.testing.assert_array_equal(results[0], results[1])
    assert not np.array_equal(results[0], results[2])


# Found by tests/fuzz/reliability.py


def test_gates_of_any_sharpness():
    assert SoftGates([[1.0]], 1e300).transform([[1e300], [0.0], [-1e300]]).tolist() == [[1.0], [0.5], [0.0]]
    for dtype in (torch.float16, torch.float32, torch.float64):
        network = GaLUNetwork(2, 3, sharpness=1e300).to(dtype)
        assert np.isfinite(network.decision_function([[0.0, 0.0], [1.0, 2.0]])).all()


def test_training_together_takes_short_integers_and_refuses_losses_that_overflow():
    config = Adam(steps=np.int16(130), batch_size=np.int8(8))
    training = train_together([ReLUNetwork(1, 2)], np.ones((200, 1)), np.ones(200), config, every=np.int8(3))
    assert np.isfinite(training.losses).all()
    with pytest.raises(InputError, match="overflow before any training"):
        train_together([ReLUNetwork(1, 2)], [[1e30]], [1.0], Adam(steps=0))
    with pytest.raises(InputError, match="regular"):
        train_together([ReLUNetwork(1, 2)], [[1.0], [2.0]], [1.0, [2.0, 3.0]])
