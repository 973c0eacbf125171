"""Cases about the training of networks, alone and together, and its limit."""

from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

import implicit_bias as ib
from implicit_bias import SGD, LossScaled, PlainDescent, datasets
from tests.fuzz import problems
from tests.fuzz.draw import DIMENSIONS, Draw, Given, expect, in_range, meaning
from tests.fuzz.networks import DTYPES, Own, network
from tests.fuzz.strategies import SEED, choice, count, is_zero, never, number
from tests.fuzz.table import drawn, entry, records, row
from tests.fuzz.values import close

STEPS, SECONDS = count(1, 100, 10**9, vast=10**600), number(1, np.inf, also=lambda v: v == np.inf)
LR, BATCH = number(0.1, 1, np.float32(0.5)), count(1, 128, vast=10**600)
MOMENTUM, YES_OR_NO = number(0, 0.9, np.float32(0.5), high=1.0, also=is_zero), choice(True, False, also=lambda v: True)
CONFIGURED: dict[str, Any] = {"lr": LR, "batch_size": BATCH, "same": None}
TOGETHER, LOSSES = ("logistic", "hinge", "squared"), ("logistic", "exponential", "hinge", "squared")
EPOCHS: dict[str, Any] = {"fine": lambda c, found: found.epochs(9) >= 1} | CONFIGURED
row(SGD, steps=STEPS, lr_factor=LR, momentum=MOMENTUM, loss=choice(*LOSSES), **EPOCHS)
row(ib.Adam, steps=count(0, 1, 10**9, least=0, vast=10**600), loss=choice(*TOGETHER), **CONFIGURED)
SCALED: dict[str, Any] = {"stationarity": number(0.02, 0.5, high=1.0), "growth": number(1.02, 2, low=1.0)}
SCALED |= {"tolerance": LR, "momentum": YES_OR_NO, "same": None, "finite": False}
row(LossScaled, max_steps=STEPS, max_seconds=SECONDS, **SCALED)
row(PlainDescent, max_steps=STEPS, max_seconds=SECONDS, lr=LR, same=None, finite=False)


def _not_signs(c: Any) -> bool:
    return set(c.y.tolist()) != {-1.0, 1.0}


def _trained(draw: Draw, trainer: Any, net: Any, rel: float, **options: Any) -> Any:
    """A table of finite rows, whose last margin is that of the network as it is now."""
    found = draw.call(trainer, network=net, **options)
    net, X, y = (meaning(value) for value in (net, options["X"], options["y"]))
    outputs = net.decision_function(X) * y
    size, stated = np.abs(outputs).max(), found.table["margin"].iloc[-1]
    expect(bool(np.isfinite(found.table["loss" if "loss" in found.table else "log_loss"]).all()), "no finite loss")
    room = rel * (1 + size) if rel > 1e-4 else rel * size + 1e-12 * np.abs(X).max()
    expect(not np.isfinite(size) or abs(outputs.min() - stated) <= room, f"margin {stated}, not {outputs.min()}")
    return found.table


def _task(draw: Draw) -> tuple[Any, dict[str, Any]]:
    """A network of any kind and samples of every scale."""
    X, y = problems.samples(draw)
    net = network(draw, np.clip(X, -1e3, 1e3) + draw.normal(*X.shape))
    return net, {"X": draw.array(X), "y": draw.array(y)}


@entry(ib.train, share=6)
def _train(draw: Draw) -> None:
    """A few steps of any network on any data."""
    net, options = _task(draw)
    net.to(draw.pick(DTYPES[:3]))
    lr, loss, momentum = draw.pick([0.04, 1e-300, 10.0, 1e300]), draw.pick(LOSSES), draw.pick([0.0, 0.9])
    steps, batch = draw.pick([1, 5, 20]), draw.pick([1, 3, 1000])
    options["config"] = SGD(steps=steps, batch_size=batch, lr=lr, loss=loss, momentum=momentum)
    nothing = lambda epoch, epochs: None  # noqa: E731
    more = {"seed": SEED, "every": count(1, 2, 10**9, vast=10**600)}
    more["device"] = choice("cpu", torch.device("cpu"), also=lambda v: v == "cpu")
    more["progress"] = choice(None, nothing, also=lambda v: v is None, functions=False)
    options |= {name: strategy(draw) for name, strategy in more.items()} if draw.chance(0.3) else {}
    # Large inputs or rates make training diverge, which is said, and so do two losses on samples that are not
    # separable; 'auto' and numbers may name devices to torch.
    wild = lr > 1 or loss in ("exponential", "squared") or "device" in options
    may = lambda c: wild or np.abs(c.X).max(initial=0) > 1e3  # noqa: E731
    half = next(net.parameters()).dtype is torch.bfloat16
    _trained(draw, ib.train, net, 0.1 if half else 1e-3, must=_not_signs, may=may, **options)


@entry(ib.descend_to_limit, share=4)
def _descend(draw: Draw) -> None:
    """A few steps of any network on any data, that lead no worse than the start."""
    net, options = _task(draw)
    steps, zero = draw.pick([1, 7, 60]), draw.chance(0.1)
    config = draw.pick([LossScaled(max_steps=steps), PlainDescent(lr=draw.pick([1e-3, 1.0]), max_steps=steps)])
    for parameter in net.parameters() if zero else ():
        nn.init.zeros_(parameter)
    # Plain descent may diverge, and the squares of inputs overflow, which is said.
    plain, must = isinstance(config, PlainDescent), lambda c: zero or _not_signs(c)
    may = lambda c: plain or not in_range(*np.array([1e180, 1e-180], np.longdouble) * np.abs(c.X).max())  # noqa: E731
    given = draw.scalar([net], never)
    table = _trained(draw, ib.descend_to_limit, given, 1e-6, config=config, must=must, may=may, **options)
    size = np.abs(net.decision_function(options["X"].plain)).max()
    expect(plain or table["log_loss"].iloc[-1] <= table["log_loss"].iloc[0] + 1e-9 * (1 + size), "uphill")


@entry(ib.stationarity, share=4)
def _stationarity(draw: Draw) -> None:
    """A linear network of every size has degree 1 and a residual; broken outputs are refused."""
    X, y = problems.clean_task(draw)
    X = X * draw.pick([1.0, 1.0, 1e-150, 1e150, 1e-300, 1e300])
    weight = np.zeros(X.shape[1])
    weight[0] = draw.pick([1.0, 1e-200, 1e200, 0.0, np.nan, -1.0])
    fault = draw.kind(f"weight {weight[0]}, fault", ["no"] * 6 + ["bias", "short", "detached", "nan", "none"])
    options = {"network": draw.scalar([Own(weight, fault)], never), "X": draw.array(X, rounded=False)}
    options["tolerance"] = drawn(number(0.05, 1, 1e-9), draw)
    found = draw.call(ib.stationarity, y=y, must=fault != "no" or not weight[0] > 0, **options)
    expect(found.residual >= 0 and (found.dual >= 0).all(), "λ below 0")
    expect(abs(found.degree - 1) < 1e-6, "another degree")


@entry(ib.train_together, share=5)
def _train_together(draw: Draw) -> None:
    """Finite losses and weights, and filters as they were; or a refusal."""
    n, d, q, loss = draw.whole(1, 40), draw.whole(1, 4), draw.pick([1, 1, 3]), draw.pick(TOGETHER)
    kind: Any = draw.pick([ib.GaLUNetwork, ib.GaLU0Network, ib.ReLUNetwork, ib.FrozenReLUNetwork, ib.LinearNetwork])
    depth, more = draw.whole(1, 2), {"sharpness": draw.pick([None, 2.0])} if issubclass(kind, ib.GaLUNetwork) else {}
    units = [[draw.whole(1, 5) for _ in range(depth)] for _ in range(draw.whole(1, 3))]
    networks = [kind(d, k, outputs=q, seed=draw.whole(0, 99), **more) for k in units]
    draw.story.append(f"{kind.__name__}, units {units}, {q} outputs, {loss}")
    filters = [u.clone() for network in networks for u in network.filters()]
    shape, wrong = (len(networks), n) if draw.chance(0.3) else (n,), loss != "squared" and draw.chance(draw.badness / 2)
    values: Any = draw.rng.integers(0, q, shape) if q > 1 else draw.rng.choice([-1.0, 1.0], shape)
    values = draw.normal(*shape, *([q] if q > 1 else [])) if loss == "squared" else values + 0.5 * wrong
    gated = ib.GatedLinearNetwork(problems.fitted_gates(draw, np.ones((3, d))))
    others: list[Any] = [[], (), None, "networks", networks[0], iter(networks), [*networks, None]]
    others += [[*networks, ib.ReLUNetwork(d + 1, 2)], [*networks, gated]]
    given = draw.either(networks, others)
    lr, scale = draw.pick([1e-3, 0.1, 1e-300, 1e30]), draw.pick([1.0, 1e-30, 1e60])
    steps: Any = draw.pick([0, 1, 9, np.int8(3), 130])
    options: dict[str, Any] = {"every": count(1, 4, 500, np.int8(3), cap=100, vast=10**600), "seed": SEED}
    options = {name: strategy(draw) for name, strategy in (options | {"target": number(None, None, 1e-3, 1e3)}).items()}
    # Of another dimension they may be data of another kind.
    options["X"] = draw.array(draw.normal(*shape, d) * scale, but=DIMENSIONS)
    options["Y"] = draw.array(values, rounded=False, but=DIMENSIONS)
    options["config"] = ib.Adam(steps=steps, batch_size=draw.pick([1, 7, 999]), lr=lr, loss=loss)
    found = draw.call(ib.train_together, networks=given, must=wrong, may=scale > 1 or lr > 1, **options)
    expect(found.losses.shape == (len(networks),) and np.all((found.losses >= 0) & (found.losses < np.inf)), "losses")
    after = [u for network in networks for u in network.filters()]
    expect(all(torch.equal(a, b) for a, b in zip(filters, after, strict=True)), "other filters")
    expect(all(bool(w.isfinite().all()) for network in networks for w in network.parameters()), "no finite weights")
    expect(all(step == -1 or 0 < step <= steps for step in found.steps.tolist()), "other steps")


def _online(draw: Draw) -> dict[str, Any]:
    """A process on a ring, or a pair of samples, which may be odd."""
    gain = draw.pick([0.1, 3.0])
    process = datasets.nonlinear_gaussian_process(draw.whole(3, 8), length_scales=(0.4, 0.2), gain=gain)
    if draw.chance(0.7):
        return {"data": draw.scalar([process], never), "batch_size": count(1, 8, 20, cap=100, vast=10**600)(draw)}
    X, y = draw.array(draw.normal(6, process.n)), draw.array(draw.normal(6 + draw.chance(0.1)))
    bad = "bad" in (X.verdict, y.verdict) and y.note != "one dimension more"
    pair = Given((X.value, y.value), (X.plain, y.plain), "a pair", "bad" if bad else "doubtful")
    return {"data": pair, "batch_size": 8, "record": [1]}


def _is_online(c: Any, found: Any) -> bool:
    """The start and the end are recorded; gates and flips of new samples belong together."""
    fresh = c.draw.normal(9, found.weights.shape[-1])
    gates = c.draw.call(found.gates, fresh)
    expect(found.steps[0] == 0 and found.steps[-1] == c.steps, "no record of the start, or of the end")
    expect(gates.shape == (len(found.steps), c.repeats, c.units, 9), "gates of another shape")
    return close(found.flips(fresh), (gates != gates[-1:]).mean(axis=(2, 3)).T, 1e-12)


ONLINE: dict[str, Any] = dict.fromkeys(("units", "repeats"), count(1, 3, cap=50, vast=10**3)) | {"seed": SEED}
ONLINE |= {"activation": choice("relu", "sigmoid", "erf"), "steps": count(1, 2, 9, cap=100, vast=10**600), "lr": LR}
ONLINE |= {"scale": number(0.1, 1, 1e-9), "biases": lambda draw: draw.chance(0.5)}
row(ib.train_online, _online, share=3, **ONLINE, may=lambda c: max(float(c.lr), float(c.scale)) > 10, fine=_is_online)


# ------------------------------------------------------------------------------------------------------------- records

_TABLE = pd.DataFrame({"loss": [np.nan]})
_FILTERS = ib.improve_filters(np.random.default_rng(0).normal(size=(9, 2)), np.ones(9), 2, steps=1)
records(
    {
        ib.History: (_TABLE, SGD(), 1, np.inf),
        ib.Descent: (_TABLE, LossScaled(), "max_steps", 0.0),
        ib.OnlineTraining: ("relu", 0.1, np.array([0, 5]), np.ones((2, 1, 3, 4)), np.ones((2, 1, 3)), np.ones((2, 1))),
        ib.Stationarity: (np.nan, np.ones(2), 0, np.inf, 1.0),
        ib.LeastSquares: (np.ones((1, 2)), 0.0, 1.0, 1, 1.0, np.nan, 0.0, "samples", 0.0),
        ib.FilterSearch: (np.ones((2, 3)), None, np.zeros(1), 0.0, 0, False, 0.0),
        ib.Alternation: (np.ones((2, 3)), np.ones((4, 2)), 0.0, np.zeros(1), True, 0.0),
    }
)
records(
    {
        ib.Training: (np.ones(2), np.array([1, -1]), False, 0.0),
        ib.GateSearch: (np.zeros(2), np.zeros(2), _FILTERS),
        datasets.Clusters: (np.ones((2, 1)), np.ones(2), np.zeros(2, int), np.ones((1, 1))),
    },
    brief=False,
)
