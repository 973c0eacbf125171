"""Training of networks with a mean readout: against torch, against the closed-form flow, and its refusals."""

import numpy as np
import pytest
import torch

from implicit_bias import GatedFeatures
from implicit_bias.extensions.gated_flow import (
    SinglePulse,
    gradient_flow,
    ipr,
    nonlinear_gaussian_process,
    train_online,
)
from tests.cases import assert_refused, interrupt, refusals

PROCESS = nonlinear_gaussian_process(n=12, length_scales=(1.5, 0.5), gain=3.0, labels=(1.0, 0.0))
TORCH = {"relu": torch.relu, "sigmoid": torch.sigmoid, "tanh": torch.tanh, "erf": lambda a: torch.erf(a / 2**0.5)}
SMALL = {"units": 3, "repeats": 2, "steps": 30, "batch_size": 50, "scale": 1.0, "seed": 4}


@pytest.mark.parametrize(
    ("activation", "biases", "loss"),
    [
        ("relu", False, "squared"),
        ("relu", True, "cross-entropy"),
        ("sigmoid", False, "cross-entropy"),
        ("tanh", True, "squared"),
        ("erf", True, "cross-entropy"),
    ],
)
def test_torch_trains_the_same_networks(activation, biases, loss):
    """Weights, biases and losses equal those of torch, without biases and with b_k and b₂."""
    options = {"lr": 0.2, "biases": biases, "output_bias": biases, "loss": loss, "record": [7]}
    found = train_online(PROCESS, activation=activation, **options, **SMALL)
    w, b, c = (torch.tensor(part[0], requires_grad=True) for part in (found.weights, found.biases, found.output_biases))
    trained = (w, b, c) if biases else (w,)
    assert found.steps.tolist() == [0, 7, 30]
    for step, (X, y) in enumerate(PROCESS.stream(31, 50, seed=4)):
        X, y = torch.tensor(X), torch.tensor(y)
        outputs = TORCH[activation](torch.einsum("rkn,mn->rkm", w, X) + b[..., None]).mean(dim=1) + c[:, None]
        if loss == "squared":
            losses, factor = ((y - outputs) ** 2).mean(dim=1), 0.5
        else:
            each = torch.nn.functional.binary_cross_entropy_with_logits
            losses, factor = each(outputs, y.expand_as(outputs), reduction="none").mean(dim=1), 1.0
        if step in found.steps:
            at = found.steps.tolist().index(step)
            for part, value in (("weights", w), ("biases", b), ("output_biases", c), ("losses", losses)):
                np.testing.assert_allclose(getattr(found, part)[at], value.detach(), atol=1e-12)
        gradients = torch.autograd.grad(factor * losses.sum(), trained)
        with torch.no_grad():
            for parameter, gradient in zip(trained, gradients, strict=True):
                parameter -= 0.2 * (1 if parameter is c else 3) * gradient
    assert np.abs(found.fields - found.weights[0]).max() > 0.02
    assert (found.output_biases[-1] != 0).all() == biases


@pytest.mark.parametrize("biases", [False, True])
def test_small_steps_follow_the_flow_as_long_as_no_gate_flips(biases):
    """Without flips, descent follows the flow, and half the step halves the distance; b_k weights a constant."""
    X, y = PROCESS.sample(8, seed=2)
    errors, trained = [], {"units": 3, "scale": 3.0, "record": 2, "seed": 0}
    for steps in (100, 200):
        found = train_online((X, y), steps=steps, lr=1.0 / steps, biases=biases, **trained)
        assert not found.flips(X).any()
        inputs = np.column_stack([X, np.ones(8)]) if biases else X
        start, end = (np.concatenate([w, b[..., None]], axis=-1)[0][:, : inputs.shape[1]]
                      for w, b in zip(found.weights[[0, -1]], found.biases[[0, -1]], strict=True))  # fmt: skip
        gates = found.gates(X)[0, 0].T.astype(float)
        flow = gradient_flow(GatedFeatures(inputs, gates), start / 3, found.times, y=y)
        np.testing.assert_allclose(found.losses[0], flow.losses[0], rtol=1e-12)
        moved = 3 * flow.weights(found.times[-1]) - start
        errors.append(np.abs(end - start - moved).max() / np.abs(moved).max())
    assert errors[0] < 0.05
    assert errors[1] / errors[0] == pytest.approx(0.5, abs=0.05)


def test_repeats_are_networks_of_their_own():
    """The first of three repeats equals a single one: repeats do not influence one another."""
    alone, three = (train_online(PROCESS, units=2, repeats=repeats, steps=20, seed=1) for repeats in (1, 3))
    np.testing.assert_allclose(three.fields[0], alone.fields[0], atol=1e-12)
    assert np.abs(three.weights[0][0] - three.weights[0][1]).max() > 1e-3
    again = train_online(PROCESS, units=2, repeats=3, steps=20, seed=1)
    assert again.fields.tobytes() == three.fields.tobytes()
    assert train_online(PROCESS, units=2, repeats=3, steps=20, seed=2).fields.tobytes() != again.fields.tobytes()


def test_gates_and_flips_are_those_of_the_weights():
    found = train_online(PROCESS, units=2, repeats=3, steps=40, biases=True, record=4)
    X, _ = PROCESS.sample(30, seed=9)
    gates = found.gates(X)
    assert gates.shape == (len(found.steps), 3, 2, 30)
    for t, r, k in np.ndindex(gates.shape[:3]):
        assert (gates[t, r, k] == (X @ found.weights[t, r, k] + found.biases[t, r, k] > 0)).all()
    expected = [[np.mean(gates[t, r] != gates[-1, r]) for t in range(len(gates))] for r in range(3)]
    np.testing.assert_allclose(found.flips(X), expected)
    assert found.flips(X)[:, 0].min() > 0


def test_what_is_recorded_and_told():
    told = []
    found = train_online(
        SinglePulse(n=9, lengths=(3, 1)), steps=1000, batch_size=4, progress=lambda *row: told.append(row)
    )
    assert found.steps[[0, 1, -1]].tolist() == [0, 1, 1000]
    # Of 20 times two are step 1, rounded.
    assert len(found.steps) == 19
    assert [step for step, _ in told] == found.steps.tolist()
    np.testing.assert_allclose([loss for _, loss in told], found.losses.mean(axis=1))
    for record, steps in (([], [0, 5]), (2, [0, 5]), (10**30, [0, 1, 2, 3, 4, 5]), (np.array([3, 3, 0]), [0, 3, 5])):
        assert train_online(SinglePulse(n=9, lengths=(3, 1)), steps=5, record=record).steps.tolist() == steps


def test_training_ends_when_the_fields_stay():
    """Training ends at the first checkpoint at which the mean change of IPRs since half the time is at most `stay`."""
    process = nonlinear_gaussian_process(40, (3.0, 1.0), gain=3.0, labels=(1.0, 0.0))
    options = {"units": 2, "repeats": 3, "batch_size": 100, "steps": 1600, "lr": 0.2, "record": []}
    whole = train_online(process, stay=1e-9, **options)
    assert whole.steps.tolist() == [0, 100, 200, 400, 800, 1600]
    changes = np.abs(np.diff(ipr(whole.weights[1:]), axis=0)).mean(axis=(1, 2))
    assert whole.change == pytest.approx(changes[-1])
    assert changes.argmin() > 0
    for k, change in enumerate(changes):
        if change < changes[:k].min(initial=np.inf):
            cut = train_online(process, stay=1.0001 * change, **options)
            assert cut.steps[-1] == whole.steps[k + 2]
            assert cut.fields.tobytes() == whole.weights[k + 2].tobytes()
            assert cut.change == pytest.approx(change)
    free = train_online(process, **options)
    assert free.change is None
    assert free.fields.tobytes() == whole.fields.tobytes()


def test_an_output_bias_alone_learns_the_mean():
    """With inactive units and K = 1, b₂ = ⟨y⟩ (1 − (1 − lr)^s) after s steps."""
    X, y = PROCESS.sample(10, seed=2)
    found = train_online((np.zeros_like(X), y), output_bias=True, lr=0.1, steps=20, record=[10])
    np.testing.assert_allclose(found.output_biases[:, 0], y.mean() * (1 - 0.9**found.steps), rtol=1e-12)


def test_an_interruption_keeps_what_was_recorded():
    options = {"biases": True, "record": 10} | SMALL
    whole = train_online(PROCESS, **options)
    assert not whole.interrupted
    cut = train_online(PROCESS, progress=interrupt(lambda step, loss: step >= 10), **options)
    assert cut.interrupted
    count = int(np.argmax(whole.steps >= 10)) + 1
    assert 2 < count < len(whole.steps)
    for part in ("steps", "weights", "biases", "losses"):
        assert getattr(cut, part).tobytes() == getattr(whole, part)[:count].tobytes()
    assert cut.fields.tobytes() == whole.weights[count - 1].tobytes()
    assert cut.flips(PROCESS.sample(20)[0])[:, -1].tolist() == [0.0, 0.0]
    assert train_online(PROCESS, progress=interrupt(), **options).steps.tolist() == [0]


@pytest.mark.parametrize("cut_at", [1, 8])
def test_an_interruption_between_records_is_one(cut_at, monkeypatch):
    """After Ctrl-C while samples are drawn, the last record has the current weights."""
    seen, every = [], train_online(PROCESS, record=range(31), **SMALL)

    def stream(self, *args, **kwargs):
        for batch in draws(self, *args, **kwargs):
            if len(seen) == cut_at:
                raise KeyboardInterrupt
            seen.append(batch)
            yield batch

    draws = type(PROCESS).stream
    monkeypatch.setattr(type(PROCESS), "stream", stream)
    found = train_online(PROCESS, record=[], **SMALL)
    assert found.interrupted
    assert found.steps.tolist() == sorted({0, cut_at - 1})
    assert found.fields.tobytes() == every.weights[cut_at - 1].tobytes()
    seen, cut_at = [], 0
    with pytest.raises(KeyboardInterrupt):
        train_online(PROCESS, **SMALL)


#: Losses of saturated or inactive units are finite, and b₂ = 1, −1.5, 2.25, … diverges behind an inactive one.
test_divergence_is_seen_where_units_saturate_or_fall_silent = refusals(
    *(
        (PROCESS, {"activation": name, "lr": lr, "steps": 20}, "training diverged by step 1; use a smaller lr than")
        for name, lr in (("relu", 1e12), ("sigmoid", 1e200), ("tanh", 1e12), ("erf", 1e200), ("relu", 1e200))
    ),
    (([[1.0], [1.0]], [1.0, 1.0]), {"lr": 2.5, "steps": 400, "output_bias": True}, "training diverged by step"),
    call=lambda data, options: train_online(data, **options),
)


def test_large_targets_inputs_and_starts_are_no_divergence():
    X, y = PROCESS.sample(40, seed=2)
    for data, options in (((X, 1e9 * y), {}), ((1e9 * X, y), {"lr": 1e-20}), ((X, y), {"scale": 1e9, "lr": 1e-9})):
        assert np.isfinite(train_online(data, units=2, steps=20, **options).losses).all()


def test_an_odd_network_cannot_tell_symmetric_classes_apart():
    """Without biases erf(wᵀx) is odd and each class symmetric, so that weights vanish."""
    process = nonlinear_gaussian_process(n=12, length_scales=(1.5, 0.5), gain=3.0)
    found = train_online(process, activation="erf", steps=300, lr=0.5, scale=1.0, batch_size=2000)
    assert np.abs(found.fields).max() < 0.05


def test_nonlinear_data_localize_one_relu_and_their_clone_does_not():
    process = nonlinear_gaussian_process(40, (3.0, 1.0), gain=3.0, labels=(1.0, 0.0))
    found = {data: train_online(data, repeats=10, steps=600, lr=0.1, batch_size=200, record=2)
             for data in (process, process.clone())}  # fmt: skip
    local, spread = (np.median(ipr(training.fields)) for training in found.values())
    assert local > 0.3
    assert spread < 0.06


test_bad_input_is_refused = refusals(
    ({"activation": "tahn"}, "unknown activation 'tahn'; known: relu, "),
    ({"units": 0}, "units must be a whole number of at least 1"),
    ({"steps": 1.5}, "steps must be"),
    ({"repeats": 0}, "repeats must be"),
    ({"lr": -1.0}, "lr must be a positive number"),
    ({"scale": 0.0}, "scale must be a positive number"),
    ({"batch_size": 0}, "batch_size must be"),
    ({"seed": -1}, "seed must be"),
    ({"record": 1}, "record must be a whole number of at least 2"),
    ({"record": ""}, "record must be a whole number of at least 2"),
    ({"record": [2001]}, "record must hold steps of at most 2000, not 2001"),
    ({"record": [0.5]}, "a recorded step must be"),
    ({"progress": 3}, "progress must be a function"),
    ({"stay": 0.0}, "stay must be a positive number"),
    ({"stay": 0.1, "steps": 15}, "stay needs at least 16 steps, not 15"),
    ({"loss": "hinge"}, "unknown loss 'hinge'; known: squared, cross-entropy"),
    ({"lr": 1e3, "seed": 0}, "training diverged by step .*; use a smaller lr than 1000"),
    ({"repeats": 10**9}, "the weights at all times would hold"),
    call=lambda options: train_online(
        SinglePulse(n=9, lengths=(3, 1), signs=True) if "lr" in options else PROCESS,
        **{"steps": 2000, "batch_size": 4} | options,
    ),
)


test_bad_data_are_refused = refusals(
    ("pulses", "data must be a process on a ring, or a pair"),
    ((np.ones((3, 2)), [1.0]), "y has 1 targets for 3 samples"),
    ((np.ones((3, 2)), [1.0, np.nan, 0.0]), "y holds NaN"),
    ((np.ones((3, 2)), [1.0, -1.0, 0.0]), "cross-entropy needs targets from 0 to 1"),
    call=lambda data: train_online(data, loss="cross-entropy"),
)


def test_gates_of_other_inputs_are_refused():
    assert_refused(lambda: train_online(PROCESS, steps=1).gates(np.ones((3, 2))), "X must have 12 columns")
