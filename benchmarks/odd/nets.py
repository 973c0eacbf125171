"""Cases about networks, their training, and their limit."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

from implicit_bias import (
    SGD,
    ConstantGate,
    Descent,
    FrozenReLUNetwork,
    GaLU0Network,
    GaLUNetwork,
    GatedLinearNetwork,
    GatedNetwork,
    History,
    HyperplaneGates,
    LinearNetwork,
    LossScaled,
    PlainDescent,
    ReadoutNetwork,
    ReLUGates,
    ReLUNetwork,
    Stationarity,
    descend_to_limit,
    stationarity,
    train,
)
from implicit_bias.networks import LayeredNetwork
from odd import data
from odd.draw import Array, Draw, Given, close, expect, in_range, is_count, is_number
from odd.surface import entry

DTYPES = [torch.float32, torch.float32, torch.float64, torch.bfloat16, torch.float16]


def network(draw: Draw, X: Array) -> GatedNetwork:
    """A network of any kind for inputs like X, with one output."""
    kinds = ["gln", "shallow", "deep gln", "relu", "deep relu", "frozen", "galu", "soft galu", "galu0", "linear"]
    kind = draw.pick([*kinds, "readout"])
    draw.story.append(f"network: {kind}")
    d, seed = X.shape[1], draw.whole(0, 99)
    if kind == "gln":
        return GatedLinearNetwork(data.fitted_gates(draw, X), seed=seed)
    if kind == "shallow":
        return GatedLinearNetwork(HyperplaneGates(1, 4, cutoff=0.0).fit(X), readout=False, seed=seed)
    if kind == "deep gln":
        return GatedLinearNetwork([data.fitted_gates(draw, X), data.fitted_gates(draw, X)], seed=seed)
    if kind == "galu":
        return GaLUNetwork(d, 3, seed=seed)
    if kind == "soft galu":
        return GaLUNetwork(d, 3, sharpness=2.0, seed=seed)
    if kind == "galu0":
        return GaLU0Network(d, [3, 2], sharpness=draw.pick([None, 2.0]), seed=seed)
    layered: dict[str, Any] = {"frozen": FrozenReLUNetwork, "linear": LinearNetwork, "readout": ReadoutNetwork}
    units: Any = [3, 2] if kind in ("deep relu", "linear") else 3
    return layered.get(kind, ReLUNetwork)(d, units, seed=seed)


def own_forward(net: GatedNetwork, X: Array) -> Array:
    """What a network says, in NumPy and float64, from its parameters."""
    state = {k: v.double().numpy() for k, v in net.state_dict().items() if isinstance(v, torch.Tensor)}
    if not isinstance(net, GatedLinearNetwork):
        assert isinstance(net, LayeredNetwork)
        return _layered(net, state, X)
    a, first = X, 0
    contexts = net.contexts(X).numpy()
    for index, (units, count) in enumerate(net.shape):
        weights = state[f"hidden_weights.{index}"].reshape(units, count, -1)
        chosen = contexts[:, first : first + units]
        first += units
        a = np.stack([[weights[h, c] @ row for h, c in enumerate(cs)] for row, cs in zip(a, chosen, strict=True)])
    return a[:, 0] if net.readout is None else a @ state["readout.weight"][0] + state["readout.bias"][0]


def _layered(net: LayeredNetwork, state: dict[str, Array], X: Array) -> Array:
    """The same of bias-free layers."""
    trained, fixed = ([v for k, v in state.items() if k.startswith(name)] for name in ("layers", "filters"))
    *hidden, readout = [*fixed, *trained] if isinstance(net, ReadoutNetwork) else trained
    a = frozen = X
    for index, weights in enumerate(hidden):
        linear = a @ weights.T
        if isinstance(net, FrozenReLUNetwork):
            frozen = frozen @ fixed[index].T
            a, frozen = np.where(frozen >= 0, linear, 0.0), np.maximum(frozen, 0)
        elif isinstance(net, GaLUNetwork):
            into = (X if isinstance(net, GaLU0Network) else a) @ fixed[index].T
            with np.errstate(over="ignore"):
                soft = None if net.sharpness is None else 1 / (1 + np.exp(-net.sharpness * into))
            a = np.where(into >= 0, linear, 0.0) if soft is None else soft * linear
        else:
            a = linear if isinstance(net, LinearNetwork) else np.maximum(linear, 0)
    outputs = a @ readout.T
    return outputs[:, 0] if net.outputs == 1 else outputs


def check_network(draw: Draw, net: GatedNetwork, d: int) -> str:
    """Outputs, hidden layer, gates and effective weights of a network belong together, in every dtype."""
    deep = (isinstance(net, GatedLinearNetwork) and len(net.shape) > 1) or len(getattr(net, "units", [1])) > 1
    linear = isinstance(net, GaLU0Network | LinearNetwork)
    # Rounding opens and closes the gates that hang on weights.
    jumps = deep and isinstance(net, GaLUNetwork) and not linear and net.sharpness is None
    dtype = torch.float64 if jumps else draw.pick(DTYPES)
    net.to(dtype)
    draw.story.append(f"in {dtype}")
    # The constant input comes last: it carries the bias of the readout.
    new = draw.array(np.hstack([draw.normal(4, draw.pick([d, d, d, d + 1]) - 1), np.ones((4, 1))]))
    found = draw.call(net.decision_function, new, must_refuse=new.plain is not None and new.plain.shape[1] != d)
    rel = {torch.float64: 1e-12, torch.float32: 1e-4}.get(dtype, 0.1)
    expected = own_forward(net, new.plain)
    expect(close(found, expected, rel) or np.abs(found - expected).max() < rel, "other outputs")
    what = draw.pick(["hidden", "effective weights", "gates", "freeze", "norm"])
    if what == "hidden":
        expect(len(draw.call(net.hidden, new)) == 4, "no activations")
    elif what == "effective weights":
        W = draw.call(net.effective_weights, must_refuse=deep and not linear)
        features = net.gates()(new.plain)
        found = features @ W if expected.ndim == 1 else np.stack([features @ w for w in W], axis=1)
        expect(close(found, expected, max(rel, 1e-6)) or np.abs(found - expected).max() < rel, "W is not the network")
    elif what == "gates":
        gates = draw.call(net.gates, must_refuse=deep and not linear)
        expect(gates.transform(new.plain).shape == (4, len(gates.groups)), "no gates")
    elif what == "freeze" and isinstance(net, ReLUNetwork):
        frozen = draw.call(net.freeze)
        difference = np.abs(frozen.decision_function(new.plain) - expected).max()
        expect(difference <= rel * (1 + np.abs(expected).max()), "another network")
    else:
        weights = np.concatenate([p.detach().double().numpy().ravel() for p in net.parameters()])
        expect(close(draw.call(net.norm), np.linalg.norm(weights), 1e-9), "another norm")
    return "correct"


@entry("GatedLinearNetwork", share=4)
def _gln(draw: Draw) -> str:
    """Gates fitted or not, of one width or several, with and without a readout."""
    X, _ = data.clean_task(draw)
    d = X.shape[1]
    fitted = data.fitted_gates(draw, X)
    gates = draw.scalar([fitted, [fitted], (fitted, fitted)], lambda v: False)
    if draw.chance(draw.badness):
        other = HyperplaneGates(2, 2, cutoff=0.0).fit(np.ones((2, d + 1)))
        kinds: list[Any] = [HyperplaneGates(2, 2), [fitted, other], [], ConstantGate().fit(X), [fitted, None], "gates"]
        bad = draw.pick(kinds)
        gates = Given(bad, None, f"gates {bad!r:.40}", "bad")
    readout = draw.chance(0.7)
    seed = draw.scalar([None, 0, 5], lambda v: v is None or is_count(0, 2**63 - 1)(v))
    without = not readout and gates.verdict == "good" and fitted.units != 1
    net = draw.call(GatedLinearNetwork, gates, readout, seed, must_refuse=without)
    return check_network(draw, net, d)


def sizes(draw: Draw) -> dict[str, Given]:
    """Inputs, units, seed and outputs of a network of bias-free layers."""
    inputs = draw.scalar([1, 3, np.int32(4)], is_count(most=10**4))
    units = draw.scalar([1, 3, [2, 3], (1,), np.array([2])], lambda v: is_count(most=10**4)(v))
    if isinstance(units.value, list | tuple | range | np.ndarray):
        # Sequences of counts are layers.
        units.verdict = "doubtful"
    seed, outputs = draw.scalar([0, 1, 2**50], is_count(0, 2**63 - 1)), draw.scalar([1, 1, 3], is_count(most=10**4))
    return {"inputs": inputs, "units": units, "seed": seed, "outputs": outputs}


def of_sizes(draw: Draw, kind: type[LayeredNetwork], **more: Given) -> str:
    """A network of sizes of every kind."""
    given: dict[str, Any] = sizes(draw) | more
    vast = any(is_count(most=10**500)(v.value) and v.value > 10**4 for v in given.values())
    net = draw.call(kind, may_refuse=vast, **given)
    return check_network(draw, net, int(given["inputs"].value))


for _kind in (ReLUNetwork, FrozenReLUNetwork, LinearNetwork, ReadoutNetwork):
    entry(_kind.__name__, share=3)(partial(of_sizes, kind=_kind))


class _Own(GatedNetwork):
    """A network of the user's own, whose outputs may have a wrong shape or be NaN."""

    def __init__(self, inputs: int, fault: str) -> None:
        super().__init__()
        self.inputs, self.fault = inputs, fault
        self.weight = nn.Parameter(torch.linspace(-1, 1, inputs))

    def forward(self, X: torch.Tensor, contexts: torch.Tensor | None = None) -> Any:
        out = X @ self.weight
        faults: dict[str, Any] = {"column": out[:, None], "nan": out * torch.nan, "text": "out", "short": out[:1]}
        return faults.get(self.fault, out)

    def gates(self) -> ReLUGates:
        return ReLUGates(np.ones((1, self.inputs)))

    def effective_weights(self) -> Array:
        return self.weight.detach().double().numpy()[None]

    @property
    def degree(self) -> int:
        return 1

    def config(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> _Own:
        return cls(1, "no")


@entry("GatedNetwork")
def _own_network(draw: Draw) -> str:
    """A network of the user's own in `train`: broken outputs are refused."""
    X, y = data.clean_task(draw)
    fault = draw.pick(["no", "no", "column", "nan", "text", "short"])
    net = _Own(X.shape[1], fault)
    draw.story.append(f"fault: {fault}")
    history = draw.call(train, net, X, y, SGD(steps=3), must_refuse=fault != "no")
    expect(bool(np.isfinite(history.table["loss"]).all()), "no finite loss")
    return "correct"


# ------------------------------------------------------------------------------------------------------------ training


@entry("SGD")
def _sgd(draw: Draw) -> str:
    """Values out of range are refused one by one."""
    options: dict[str, Any] = {
        "steps": draw.scalar([1, 100, 10**9], is_count(most=10**600)),
        "batch_size": draw.scalar([1, 128], is_count(most=10**600)),
        "lr": draw.scalar([0.1, 1, np.float32(0.5)], is_number(0)),
        "lr_factor": draw.scalar([0.1, 1, 3.0], is_number(0)),
        "momentum": draw.scalar([0, 0.9, np.float32(0.5)], lambda v: is_number(0, 1)(v) or (is_number()(v) and v == 0)),
        "loss": draw.scalar(["logistic", "exponential", "hinge", "squared"], lambda v: False),
    }
    config = draw.call(SGD, **options)
    n = draw.scalar([1, 500], is_count(most=10**600))
    epochs = draw.call(config.epochs, n)
    steps, batch = int(options["steps"].value), int(options["batch_size"].value)
    expect(epochs == max(1, steps // -(-int(n.value) // batch)), "other epochs")
    return "correct"


@entry("train", share=6)
def _train(draw: Draw) -> str:
    """A few steps of any network on any data: a finite history, and the margin that the network has."""
    X, y = data.samples(draw)
    net = network(draw, np.clip(X, -1e3, 1e3) + draw.normal(*X.shape))
    net.to(draw.pick(DTYPES[:3]))
    given_X, given_y = draw.array(X), draw.array(y)
    odd = given_y.plain is not None and (set(given_y.plain.tolist()) != {-1.0, 1.0})
    config = SGD(
        steps=draw.pick([1, 5, 20]),
        batch_size=draw.pick([1, 3, 1000]),
        lr=draw.pick([0.04, 1e-300, 10.0, 1e300]),
        momentum=draw.pick([0.0, 0.9]),
        loss=draw.pick(["logistic", "exponential", "hinge", "squared"]),
    )
    draw.story.append(repr(config))
    options: dict[str, Any] = {}
    if draw.chance(0.3):
        options["seed"] = draw.scalar([0, 7], is_count(0, 2**63 - 1))
        options["device"] = draw.scalar(["cpu", torch.device("cpu")], lambda v: v == "cpu")
        options["every"] = draw.scalar([1, 2, 10**9], is_count(most=10**600))
        nothing = lambda epoch, epochs: None  # noqa: E731
        options["progress"] = draw.scalar([None, nothing], lambda v: v is None, functions=False)
    # Large inputs or rates make training diverge, which is said; 'auto' and numbers may name devices to torch.
    # So do the exponential loss on samples that are not separable, and the squared one.
    wild = (
        np.abs(X).max(initial=0) > 1e3
        or config.lr > 1
        or config.loss in ("exponential", "squared")
        or "device" in options
    )
    history = draw.call(
        train, net, given_X, given_y, config, must_refuse=odd, may_refuse=wild or "device" in options, **options
    )
    expect(isinstance(history, History) and repr(history), "no history")
    rows = history.table
    expect(bool(np.isfinite(rows["loss"]).all()), "a loss that is not finite")
    outputs = own_forward(net, given_X.plain) * given_y.plain
    tolerance = 0.1 if next(net.parameters()).dtype is torch.bfloat16 else 1e-3
    size = 1 + np.abs(outputs).max()
    expect(not np.isfinite(size) or abs(outputs.min() - rows["margin"].iloc[-1]) <= tolerance * size, "another margin")
    return "correct"


@entry("History", share=1)
def _history(draw: Draw) -> str:
    history = draw.call(History, pd.DataFrame({"loss": [np.nan]}), SGD(), 1, np.inf)
    expect("DataFrame" not in repr(history), "it prints its table")
    return "correct"


@entry("LossScaled")
def _loss_scaled(draw: Draw) -> str:
    """Values out of range are refused."""
    options: dict[str, Any] = {
        "tolerance": draw.scalar([1e-3, 1], is_number(0)),
        "stationarity": draw.scalar([0.02, 0.5], is_number(0, 1)),
        "growth": draw.scalar([1.02, 2], is_number(1)),
        "momentum": draw.scalar([True, False], lambda v: True),
        "max_steps": draw.scalar([1, 10**9], is_count(most=10**600)),
        "max_seconds": draw.scalar([1, np.inf], lambda v: is_number(0)(v) or v == np.inf),
    }
    expect(repr(draw.call(LossScaled, **options)), "no text")
    return "correct"


@entry("PlainDescent")
def _plain_descent(draw: Draw) -> str:
    """Values out of range are refused."""
    options: dict[str, Any] = {
        "lr": draw.scalar([1e-3, 1], is_number(0)),
        "max_steps": draw.scalar([1, 10**9], is_count(most=10**600)),
        "max_seconds": draw.scalar([1, np.inf], lambda v: is_number(0)(v) or v == np.inf),
    }
    expect(repr(draw.call(PlainDescent, **options)), "no text")
    return "correct"


@entry("descend_to_limit", share=4)
def _descend(draw: Draw) -> str:
    """A few steps of any network on any data: finite rows, weights of the last step, no worse than the start."""
    X, y = data.samples(draw)
    net = network(draw, np.clip(X, -1e3, 1e3) + draw.normal(*X.shape))
    given_X, given_y = draw.array(X), draw.array(y)
    odd = given_y.plain is not None and (set(given_y.plain.tolist()) != {-1.0, 1.0})
    steps = draw.pick([1, 7, 60])
    config = draw.pick([LossScaled(max_steps=steps), PlainDescent(lr=draw.pick([1e-3, 1.0]), max_steps=steps)])
    if draw.chance(0.1):
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.zero_()
        draw.story.append("all weights are zero")
    zero = not any(bool(p.any()) for p in net.parameters())
    size = np.longdouble(np.abs(X).max())
    # Plain descent may diverge, and the squares of inputs overflow, which is said.
    wild = isinstance(config, PlainDescent) or not in_range(1e180 * size, 1e-180 * size)
    given = draw.scalar([net], lambda v: False)
    descent = draw.call(descend_to_limit, given, given_X, given_y, config, must_refuse=odd or zero, may_refuse=wild)
    expect(isinstance(descent, Descent) and repr(descent), "no descent")
    last = descent.table.iloc[-1]
    expect(bool(np.isfinite(descent.table.drop(columns="seconds")).all(axis=None)), "a row that is not finite")
    outputs = own_forward(net, given_X.plain) * given_y.plain
    size = np.abs(outputs).max()
    room = 1e-6 * size + 1e-12 * np.abs(given_X.plain).max()
    expect(abs(outputs.min() - last["margin"]) <= room, f"margin {last['margin']}, not {outputs.min()}")
    if isinstance(config, LossScaled):
        expect(last["log_loss"] <= descent.table["log_loss"].iloc[0] + 1e-9 * (1 + size), "uphill")
    return "correct"


@entry("Descent", share=1)
def _descent(draw: Draw) -> str:
    descent = draw.call(Descent, pd.DataFrame({"step": [0]}), LossScaled(), "max_steps", 0.0)
    expect("DataFrame" not in repr(descent), "it prints its table")
    return "correct"


class _Fixed(nn.Module):
    """A linear network (or one of its faults) for `stationarity`."""

    def __init__(self, weight: Array, fault: str) -> None:
        super().__init__()
        self.weight, self.fault = nn.Parameter(torch.tensor(weight)), fault

    def forward(self, X: torch.Tensor) -> Any:
        out = X @ self.weight
        faults: dict[str, Any] = {"shape": X, "detached": out.detach(), "nan": out * torch.nan, "none": None}
        # A bias that counts whatever the size of the inputs.
        return faults.get(self.fault, out + out.detach().abs().max() if self.fault == "bias" else out)


@entry("stationarity", share=4)
def _stationarity(draw: Draw) -> str:
    """The residual of a linear network is the angle to the cone of its supporting samples."""
    X, y = data.clean_task(draw)
    X = X * draw.pick([1.0, 1.0, 1e-150, 1e150, 1e-300, 1e300])
    weight = np.zeros(X.shape[1])
    weight[0] = draw.pick([1.0, 1e-200, 1e200, 0.0, np.nan, -1.0])
    fault = draw.pick(["no"] * 6 + ["bias", "shape", "detached", "nan", "none"])
    tolerance = draw.scalar([0.05, 1, 1e-9], is_number(0))
    draw.story.append(f"fault: {fault}, weight {weight[0]}")
    net = draw.scalar([_Fixed(weight, fault)], lambda v: False)
    given = draw.array(X, rounded=False)
    broken = fault != "no" or not weight[0] > 0
    found = draw.call(stationarity, net, given, y, tolerance, must_refuse=broken)
    expect(isinstance(found, Stationarity) and repr(found), "no stationarity")
    unit = weight / np.abs(weight).max()
    q = y * (X[:, 0])
    support = q <= (1 + float(tolerance.value)) * q.min()
    scaled = X / np.abs(X).max()
    size = np.abs(X).max()
    combination = (found.dual * size) @ (y[:, None] * scaled)
    expect(abs(np.linalg.norm(unit - combination) - found.residual) <= 1e-6, "another residual")
    expect((found.dual >= 0).all() and not found.dual[~support].any(), "λ away from the support")
    expect(abs(found.degree - 1) < 1e-6, "another degree")
    return "correct"


@entry("Stationarity", share=1)
def _stationarity_record(draw: Draw) -> str:
    record = draw.call(Stationarity, np.nan, draw.normal(2), 0, np.inf, 1.0)
    expect("array" not in repr(record), "it prints its arrays")
    return "correct"
