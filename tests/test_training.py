import copy

import numpy as np
import pytest
import torch

from implicit_bias import SGD, GatedLinearNetwork, HyperplaneGates, InputError, ReLUNetwork, train
from implicit_bias.training.losses import MARGIN_LOSSES
from implicit_bias.training.updates import SpanUpdates, WeightUpdates
from tests.cases import inputs

X = inputs(n=60)
Y = np.where(X[:, 0] > 0, 1.0, -1.0)


def gln():
    return GatedLinearNetwork(HyperplaneGates(4, 2, seed=1).fit(X))


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("loss", MARGIN_LOSSES)
def test_training_is_the_published_loop(momentum, loss):
    """Against the update written out: batches of a permutation an epoch, the rate divided by 4 at half time."""
    network, twin = gln().double(), gln().double()
    config = SGD(steps=30, batch_size=25, lr=0.1, momentum=momentum, loss=loss)
    train(network, X, Y, config, seed=7)
    generator = torch.Generator().manual_seed(7)
    velocity = [torch.zeros_like(p) for p in twin.parameters()]
    x, y = torch.as_tensor(X), torch.as_tensor(Y)
    for epoch in range(10):
        rate = 0.1 if epoch < 5 else 0.025
        order = torch.randperm(60, generator=generator)
        for start in (0, 25, 50):
            batch = order[start : start + 25]
            margins = y[batch] * twin(x[batch])
            values = {
                "logistic": torch.log(1 + torch.exp(-margins)),
                "exponential": torch.exp(-margins),
                "hinge": (1 - margins) * (margins < 1),
                "squared": margins**2 - 2 * margins + 1,
            }[loss]
            gradients = torch.autograd.grad(values.mean(), list(twin.parameters()))
            with torch.no_grad():
                for v, p, g in zip(velocity, twin.parameters(), gradients, strict=True):
                    v.mul_(momentum).add_(g)
                    p.sub_(rate * v)
    for p, q in zip(network.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-9, atol=1e-11)


def test_same_seed_same_weights_bit_for_bit_whatever_the_threads():
    results = []
    before = torch.get_num_threads()
    for threads, seed in ((1, 1), (2, 1), (1, 2)):
        torch.set_num_threads(threads)
        network = gln()
        train(network, X, Y, SGD(steps=50), seed=seed)
        results.append(network.effective_weights())
        assert torch.get_num_threads() == threads
    torch.set_num_threads(before)
    np.testing.assert_array_equal(results[0], results[1])
    assert not np.array_equal(results[0], results[2])


def test_epochs_are_the_published_ones():
    assert [SGD().epochs(n) for n in (500, 1000, 2000)] == [800, 400, 200]
    assert SGD(steps=1).epochs(10_000) == 1


def test_history():
    network = gln()
    calls = []
    history = train(network, X, Y, SGD(steps=20), progress=lambda *at: calls.append(at))
    table = history.table
    assert len(table) == 21
    assert calls == [(epoch, 20) for epoch in range(1, 21)]
    assert table.loss.iloc[-1] < table.loss.iloc[0]
    last = Y * network.decision_function(X)
    assert table.margin.iloc[-1] == pytest.approx(last.min(), abs=1e-6)
    assert table.error.iloc[-1] == np.mean(last <= 0)
    assert table.norm.iloc[-1] == pytest.approx(network.norm())
    assert table.normalised_margin.iloc[-1] == pytest.approx(last.min() / network.norm() ** 2, rel=1e-5, abs=1e-7)
    assert history.seconds > 0


def test_interrupted_training_keeps_the_network_and_says_so():
    def stop(epoch, epochs):
        if epoch == 3:
            raise KeyboardInterrupt

    network = gln()
    history = train(network, X, Y, SGD(steps=20), progress=stop)
    assert history.interrupted
    assert len(history.table) == 4
    assert np.isfinite(network.decision_function(X)).all()


@pytest.mark.parametrize(
    ("call", "words"),
    [
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
    ],
)
def test_bad_input(call, words):
    with pytest.raises(InputError, match=words):
        call()


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_steps_in_the_span_are_the_steps_on_the_weights(digits, momentum):
    """A shallow GLN trains through its kernel; the weights come out as if each had been updated."""
    shallow = GatedLinearNetwork(HyperplaneGates(1, 8, seed=1).fit(digits.X_pool), readout=False).double()
    weights, outputs, norms = [], [], []
    for way in (SpanUpdates, WeightUpdates):
        network = copy.deepcopy(shallow)
        model = way(network, digits.X_train, digits.y_train)
        for seed in range(20):
            batch = torch.randperm(80, generator=torch.Generator().manual_seed(seed))[:30]
            model.step(batch, MARGIN_LOSSES["logistic"], 0.1, momentum)
        outputs.append(model.outputs().numpy())
        norms.append(model.norm())
        model.finish()
        weights.append(network.effective_weights())
    np.testing.assert_allclose(*weights, atol=1e-12)
    np.testing.assert_allclose(*outputs, atol=1e-12)
    np.testing.assert_allclose(*norms, rtol=1e-12)
    assert np.abs(weights[0] - shallow.effective_weights()).max() > 1e-2


def test_a_loader_draws_a_seed_for_its_workers_before_each_permutation():
    """Against the update written out: the batches of the published version of torch's DataLoader."""
    network, twin = gln().double(), gln().double()
    train(network, X, Y, SGD(steps=6, batch_size=25, lr=0.1, lr_factor=1.0, loader=True), seed=3)
    generator = torch.Generator().manual_seed(3)
    inputs, contexts = twin.tensors(X)
    signs, descent = torch.as_tensor(Y), torch.optim.SGD(twin.parameters(), lr=0.1)
    for _ in range(2):
        torch.empty((), dtype=torch.int64).random_(generator=generator)
        for batch in torch.randperm(60, generator=generator).split(25):
            descent.zero_grad()
            torch.nn.functional.softplus(-signs[batch] * twin(inputs[batch], contexts[batch])).mean().backward()
            descent.step()
    np.testing.assert_allclose(network.effective_weights(), twin.effective_weights(), rtol=1e-9, atol=1e-12)
    with pytest.raises(InputError, match="loader must be True or False"):
        SGD(loader=1)
