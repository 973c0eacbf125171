"""Cases about GaLU networks, the gates that belong to them, training together, and synthetic tasks."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from implicit_bias import (
    Adam,
    ConstantGate,
    FrozenReLUNetwork,
    GaLU0Network,
    GaLUNetwork,
    GatedLinearNetwork,
    LinearNetwork,
    ProductGates,
    ReadoutNetwork,
    ReLUGates,
    ReLUNetwork,
    SoftGates,
    Training,
    train_together,
)
from implicit_bias.datasets import Clusters, noisy_clusters, parity, separable
from implicit_bias.networks import LayeredNetwork
from odd import data
from odd.draw import Array, Draw, Given, close, expect, is_count, is_number
from odd.nets import of_sizes, own_forward
from odd.regression import count
from odd.surface import entry

LOSSES = ["squared", "logistic", "hinge"]


def _sharpness(draw: Draw, hard: bool = True) -> Given:
    good: list[Any] = [1.0, 0.1, 50, 1e-300, 1e300, np.float32(2)]
    return draw.scalar([*([None] * 4 if hard else []), *good], lambda v: (hard and v is None) or is_number(0)(v))


@entry("GaLUNetwork", share=3)
def _galu(draw: Draw) -> str:
    """Sizes and sharpnesses of every kind."""
    return of_sizes(draw, GaLUNetwork, sharpness=_sharpness(draw))


@entry("GaLU0Network", share=3)
def _galu0(draw: Draw) -> str:
    """The same, whose gates all read the input."""
    return of_sizes(draw, GaLU0Network, sharpness=_sharpness(draw))


# --------------------------------------------------------------------------------------------------------------- gates


@entry("SoftGates")
def _soft_gates(draw: Draw) -> str:
    """σ(s⟨u, x⟩), for projections and sharpnesses of every size."""
    k, d = draw.whole(1, 4), draw.whole(1, 4)
    weights, sharpness = draw.array(draw.normal(k, d)), _sharpness(draw, hard=False)
    gates = draw.call(SoftGates, weights, sharpness)
    new = draw.array(draw.normal(3, d) * draw.pick([1.0, 1.0, 0.0, 1e-150, 1e150, 1e300]))
    found = draw.call(gates.transform, new)
    s = np.longdouble(sharpness.value)
    values = s * (new.plain.astype(np.longdouble) @ weights.plain.T.astype(np.longdouble))
    sizes = s * (np.abs(new.plain).astype(np.longdouble) @ np.abs(weights.plain).T)
    # σ has a slope of at most σ(1 − σ).
    expected = 1 / (1 + np.exp(np.clip(-values, -11000, 11000)))
    room = 1e-14 * sizes * expected * (1 - expected) + 1e-13 * expected + 1e-300
    expect(np.all((np.abs(found - expected) <= room) | (sizes > 1e13 * np.abs(values))), "other gates")
    expect(np.all((found >= 0) & (found <= 1)), "gates beyond 0 and 1")
    expect(gates.groups.tolist() == list(range(k)), "other groups")
    return "correct"


@entry("ProductGates")
def _product_gates(draw: Draw) -> str:
    """A gate a path, the last layer running fastest; layers that do not fit are refused."""
    d = draw.whole(1, 3)
    kinds: list[Any] = [lambda: ReLUGates(draw.normal(draw.whole(1, 3), d)), lambda: SoftGates(draw.normal(2, d), 2.0)]
    kinds += [lambda: data.fitted_gates(draw, draw.normal(5, d)), lambda: ConstantGate().fit(np.ones((1, d)))]
    layers = [draw.pick(kinds)() for _ in range(draw.whole(1, 3))]
    given = Given(draw.pick([list, tuple])(layers), layers, f"{len(layers)} layers")
    if draw.chance(draw.badness):
        other = ReLUGates(np.ones((2, d + 1)))
        bad: list[Any] = [[], (), [*layers, other], [*layers, ConstantGate()], [*layers, None], layers[0], "gates", 3]
        given = Given(draw.pick([*bad, None, {0: layers[0]}, iter(layers), np.array([1.0])]), None, "bad layers", "bad")
    gates = draw.call(ProductGates, given)
    new = draw.array(draw.normal(4, d))
    found = draw.call(gates.transform, new)
    expected = []
    for row in new.plain:
        paths = np.ones(1)
        for layer in layers:
            paths = np.concatenate([path * layer.transform(row[None])[0] for path in paths])
        expected.append(paths)
    expect(close(found, np.array(expected), 1e-12), "other gates")
    expect(len(gates.groups) == found.shape[1], "another number of gates")
    if draw.chance(0.05):
        vast = ProductGates([ReLUGates(np.ones((2000, d)))] * 4)
        draw.call(vast.transform, new, must_refuse=True)
    return "correct"


# ------------------------------------------------------------------------------------------------------------ training


@entry("Adam")
def _adam(draw: Draw) -> str:
    """Values out of range are refused one by one."""
    options: dict[str, Any] = {
        "steps": draw.scalar([0, 1, 10**9], is_count(0, 10**600)),
        "batch_size": draw.scalar([1, 128], is_count(most=10**600)),
        "lr": draw.scalar([0.1, 1, np.float32(0.5)], is_number(0)),
        "loss": draw.scalar(LOSSES, lambda v: False),
    }
    expect(repr(draw.call(Adam, **options)), "no text")
    return "correct"


@entry("Training", share=1)
def _training(draw: Draw) -> str:
    record = draw.call(Training, draw.normal(2), np.array([1, -1]), False, 0.0)
    expect("steps" not in repr(record), "it prints its arrays")
    return "correct"


def _networks(draw: Draw, d: int, outputs: int) -> list[LayeredNetwork]:
    """Networks of one class and depth."""
    kinds = [GaLUNetwork, GaLU0Network, ReLUNetwork, FrozenReLUNetwork, LinearNetwork, ReadoutNetwork]
    kind, depth, soft = draw.pick(kinds), draw.whole(1, 2), draw.pick([None, 2.0])
    # Gates that jump where weights change hang on rounding.
    soft = 2.0 if depth == 2 and kind is GaLUNetwork else soft
    made: list[LayeredNetwork] = []
    for _ in range(draw.whole(1, 3)):
        more: dict[str, Any] = {"sharpness": soft} if issubclass(kind, GaLUNetwork) else {}
        units = [draw.whole(1, 5) for _ in range(depth)]
        made.append(
            kind(d, units, seed=draw.whole(0, 99), outputs=outputs, **more).to(draw.pick([None, torch.float64]))
        )
    draw.story.append(f"{kind.__name__}, units {[n.units for n in made]}, {outputs} outputs")
    return made


def _targets(draw: Draw, shape: tuple[int, ...], outputs: int, loss: str) -> tuple[Any, bool]:
    """Targets of a loss, and whether they are wrong for it."""
    wrong = draw.chance(draw.badness / 2)
    if loss == "squared":
        return draw.normal(*shape, *([outputs] if outputs > 1 else draw.pick([[], [1]]))), False
    if outputs > 1:
        return draw.rng.integers(0, outputs, shape) + (0.5 if wrong else 0.0), wrong
    return draw.rng.choice([-1.0, 1.0], (*shape, *draw.pick([[], [1]]))) * (2.0 if wrong else 1.0), wrong


def own_losses(outputs: Array, targets: Array, loss: str) -> float:
    """The mean loss of outputs (n,) or (n, q), in NumPy."""
    if loss == "squared":
        return float(np.mean((outputs - targets.reshape(outputs.shape)) ** 2))
    if outputs.ndim == 1:
        margins = outputs * targets.reshape(-1)
        values = np.logaddexp(0, -margins) if loss == "logistic" else np.maximum(0, 1 - margins)
        return float(np.mean(values))
    rows, classes = np.arange(len(outputs)), targets.astype(int)
    right = outputs[rows, classes]
    if loss == "logistic":
        return float(np.mean(np.logaddexp.reduce(outputs, axis=1) - right))
    others = outputs.copy()
    others[rows, classes] = -np.inf
    return float(np.mean(np.maximum(0, 1 + others.max(axis=1) - right)))


@entry("train_together", share=5)
def _train_together(draw: Draw) -> str:
    """Finite losses, which are those that the networks have, and filters as they were; or a refusal."""
    n, d, outputs, loss = draw.whole(1, 40), draw.whole(1, 4), draw.pick([1, 1, 3]), draw.pick(LOSSES)
    networks = _networks(draw, d, outputs)
    filters = [u.clone() for network in networks for u in network.filters()]
    leading = (len(networks), n) if draw.chance(0.3) else (n,)
    scale = draw.pick([1.0, 1.0, 1.0, 1e-30, 1e30, 1e60])
    X = draw.array(draw.normal(*leading, d) * scale)
    values, wrong = _targets(draw, leading, outputs, loss)
    Y = draw.array(values, rounded=False)
    for given in (X, Y):
        if given.note in ("one dimension more", "one dimension less"):
            # Which may be data of another kind.
            given.value = None
    others: list[Any] = [[], (), None, "networks", networks[0], iter(networks), [*networks, None]]
    others += [
        [*networks, ReLUNetwork(d + 1, 2)],
        [*networks, GatedLinearNetwork(data.fitted_gates(draw, np.ones((3, d))))],
    ]
    together = draw.scalar([networks, tuple(networks)], lambda v: False)
    if draw.chance(draw.badness / 2):
        together = Given(draw.pick(others), None, "other networks", "bad")
    sizes: list[Any] = [1, 7, 1000, np.int8(8)]
    lengths: list[Any] = [0, 1, 9, np.int8(3), 130]
    looks: list[Any] = [1, 4, 500, np.int8(3)]
    batch, lr = draw.pick(sizes), draw.pick([1e-3, 0.1, 1e-300, 1e30])
    config = Adam(steps=draw.pick(lengths), batch_size=batch, lr=lr, loss=loss)
    draw.story.append(repr(config))
    options: dict[str, Any] = {"every": count(draw, looks)}
    options["target"] = draw.scalar([None, None, 1e-3, 1e3], lambda v: v is None or is_number(0)(v))
    options["seed"] = draw.scalar([0, 1, 2**40], is_count(0, 2**63 - 1))
    wild = scale > 1 or lr > 1
    found = draw.call(train_together, together, X, Y, config, must_refuse=wrong, may_refuse=wild, **options)
    expect(found.losses.shape == found.steps.shape == (len(networks),), "other shapes")
    expect(np.isfinite(found.losses).all(), "a loss that is not finite")
    after = [u for network in networks for u in network.filters()]
    expect(all(torch.equal(a, b) for a, b in zip(filters, after, strict=True)), "other filters")
    for r, network in enumerate(networks):
        expect(all(bool(torch.isfinite(w).all()) for w in network.parameters()), "weights that are not finite")
        mine = X.plain[r] if len(leading) == 2 else X.plain, Y.plain[r] if len(leading) == 2 else Y.plain
        outputs_ = own_forward(network, mine[0].astype(np.float32).astype(float))
        own = own_losses(outputs_, mine[1].astype(np.float32).astype(float), loss)
        room = 1e-3 * (1 + own + np.abs(outputs_).max())
        expect(abs(own - found.losses[r]) <= room, f"loss {found.losses[r]}, not {own}")
    expect(all(step == -1 or 0 < step <= config.steps for step in found.steps.tolist()), "other steps")
    return "correct"


# ------------------------------------------------------------------------------------------------------ synthetic tasks


def _sizes(draw: Draw, names: str) -> dict[str, Any]:
    return {name: draw.scalar([1, 2, 5, 30], is_count(most=200)) for name in names}


def _vast(options: dict[str, Any]) -> bool:
    """Whether a count is so large that more than memory holds may be asked for."""
    return any(is_count(201, 10**500)(given.value) for given in options.values())


def _capped(options: dict[str, Any]) -> dict[str, Any]:
    """Counts that would take gigabytes, but be allowed, made small."""
    return {k: Given(50, 50, "50") if is_count(201, 10**11)(v.value) else v for k, v in options.items()}


@entry("noisy_clusters")
def _noisy_clusters(draw: Draw) -> str:
    """Samples around their centres, and labels of their clusters; the same centres for any noise."""
    options = _capped(_sizes(draw, "mnd"))
    options["sigma_x"] = draw.scalar([0, 0.1, 1e100], lambda v: is_number(0)(v) or (is_number()(v) and v == 0))
    options["sigma_y"] = draw.scalar([0, 0.0], lambda v: is_number(0)(v) or (is_number()(v) and v == 0))
    options["flip"] = draw.scalar([None, 0, 0.3, 1], lambda v: v is None or is_number(0, 1, ends=True)(v))
    options["seed"] = draw.scalar([0, 3], is_count(0, 2**63 - 1))
    both = options["flip"].value is not None and options["sigma_y"].value != 0
    found = draw.call(noisy_clusters, may_refuse=_vast(options) or _is(both), must_refuse=False, **options)
    m, n, d = (int(options[name].value) for name in "mnd")
    expect(found.X.shape == (m, d) and found.centres.shape == (n, d), "other shapes")
    expect(found.y.shape == found.cluster.shape == (m,), "other shapes")
    sigma = float(options["sigma_x"].value)
    plain = noisy_clusters(m, n, d, 0.0, seed=int(options["seed"].value))
    expect(
        np.array_equal(plain.centres, found.centres) and np.array_equal(plain.X, plain.centres[plain.cluster]), "others"
    )
    expect(np.abs(found.X - found.centres[found.cluster]).max() <= 10 * sigma, "samples far from their centres")
    if options["flip"].value is not None:
        expect(set(found.y.tolist()) <= {-1.0, 1.0}, "other labels")
    elif options["sigma_y"].value == 0:
        expect(all(len(set(found.y[found.cluster == i].tolist())) < 2 for i in range(n)), "labels differ in a cluster")
    return "correct"


def _is(value: Any) -> bool:
    return isinstance(value, bool | np.bool_) and bool(value)


@entry("Clusters", share=1)
def _clusters(draw: Draw) -> str:
    X, y, cluster, centres = draw.call(Clusters, draw.normal(2, 1), draw.normal(2), np.zeros(2, int), draw.normal(1, 1))
    expect(X.shape == (2, 1) and y.shape == cluster.shape == (2,) and centres.shape == (1, 1), "other parts")
    return "correct"


@entry("separable")
def _separable(draw: Draw) -> str:
    """Labels that some direction gives with the margin: along it classes are apart by two margins."""
    options = _capped(_sizes(draw, "md"))
    options["margin"] = draw.scalar([0, 0.5, 3, 35.0], is_number(0, 35, ends=True))
    options["seed"] = draw.scalar([0, 3], is_count(0, 2**63 - 1))
    X, y = draw.call(separable, may_refuse=_vast(options), **options)
    expect(X.shape == (int(options["m"].value), int(options["d"].value)) and np.isfinite(X).all(), "other samples")
    expect(set(y.tolist()) <= {-1.0, 1.0}, "other labels")
    if X.shape[1] == 1:
        side = y * X[:, 0]
        margin = float(options["margin"].value)
        expect(np.all(side >= margin * (1 - 1e-12)) or np.all(-side >= margin * (1 - 1e-12)), "within the margin")
    return "correct"


@entry("parity")
def _parity(draw: Draw) -> str:
    """Products of the first signs."""
    options = _capped(_sizes(draw, "md"))
    options["bits"] = draw.scalar([1, 2, 5], is_count(most=10**500))
    options["seed"] = draw.scalar([0, 3], is_count(0, 2**63 - 1))
    d, bits = options["d"].value, options["bits"].value
    beyond = is_count(most=10**500)(bits) and is_count(most=10**500)(d) and bits > d
    X, y = draw.call(parity, may_refuse=_vast(options), must_refuse=beyond, **options)
    expect(X.shape == (int(options["m"].value), int(d)) and set(np.abs(X).ravel().tolist()) == {1.0}, "other samples")
    expect(np.array_equal(y, np.prod(X[:, : int(bits)], axis=1)), "other labels")
    return "correct"
