"""Cases about the training of networks, alone and together, and its limit."""

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import nn

import implicit_bias as ib
from implicit_bias import SGD, Adam, LossScaled, PlainDescent
from implicit_bias.extensions import gated_flow
from implicit_bias.extensions.gated_flow import train_online
from implicit_bias.networks import ReadoutNetwork, TorchNetwork
from implicit_bias.training import Muon, ProjectedDescent, Signum, SteepestDescent, TorchOptimiser
from tests.fuzz import problems
from tests.fuzz.draw import DIMENSIONS, Draw, Given, expect, in_range
from tests.fuzz.networks import DTYPES, GATED, LAYERED, Own, network
from tests.fuzz.strategies import ARGUMENTS, ENDLESS, are_steps, choice, count, equals, is_number, never, number
from tests.fuzz.table import drawn, entry, row

TOGETHER, LOSSES = ("logistic", "hinge", "squared"), ("logistic", "exponential", "hinge", "squared")
MOMENTUM, SECONDS = (
    number(0, 0.9, np.float32(0.5), high=1.0, also=lambda v: is_number()(v) and v == 0),
    number(1, np.inf, also=equals(np.inf)),
)
SCALED: dict[str, Any] = {"stationarity": number(0.02, 0.5, high=1.0), "growth": number(1.02, 2, low=1.0)}
EPOCHS: dict[str, Any] = {"steps": count(1, 100, 10**9, vast=ENDLESS), "fine": lambda c, found: found.epochs(9) >= 1}
CONFIGURED: dict[str, Any] = {"same": None, "finite": False}
row(SGD, lr_factor=ARGUMENTS["lr"], momentum=MOMENTUM, loss=choice(*LOSSES, also=callable), **EPOCHS, **CONFIGURED)
TORCH = (torch.optim.AdamW, partial(torch.optim.SGD, lr=0.1), torch.optim.LBFGS)
STEPS = count(0, 1, 10**9, least=0, vast=ENDLESS)
MADE = choice(*TORCH, also=callable)
ZERO = number(0, 1.0, also=equals(0, 0.0, -0.0))
DECAYS: dict[str, Any] = {"momentum": MOMENTUM, "lr_decay": ZERO, "weight_decay": ZERO}
DECAYS["may"] = lambda c: (getattr(c, "lr", None) or 0) * (getattr(c, "weight_decay", None) or 0) > 1
row(
    ib.Adam,
    steps=STEPS,
    loss=choice(*TOGETHER, also=callable),
    beta2=MOMENTUM,
    eps=ARGUMENTS["lr"],
    **DECAYS,
    **CONFIGURED,
)
row(Signum, steps=STEPS, loss=choice(*LOSSES, also=callable), **DECAYS, **CONFIGURED)
row(
    Muon,
    steps=STEPS,
    loss=choice(*LOSSES, also=callable),
    vectors=choice("l2", "l_inf"),
    newton_schulz=choice(True, False, also=lambda v: isinstance(v, np.bool_)),
    **DECAYS,
    **CONFIGURED,
)
row(TorchOptimiser, make=MADE, steps=STEPS, loss=choice(*LOSSES, also=callable), **CONFIGURED)
row(LossScaled, max_seconds=SECONDS, tolerance=ARGUMENTS["lr"], **SCALED, **CONFIGURED)
row(PlainDescent, max_seconds=SECONDS, **CONFIGURED)
GEOMETRY: dict[str, Any] = {
    "optimiser": choice("gd", "sign", "adam", "muon", "muon-sign"),
    "tolerance": ARGUMENTS["lr"],
}
row(ProjectedDescent, max_seconds=SECONDS, **GEOMETRY, **CONFIGURED)
row(
    SteepestDescent,
    max_seconds=SECONDS,
    step=ARGUMENTS["lr"],
    decay=ZERO,
    momentum=MOMENTUM,
    beta2=MOMENTUM,
    **GEOMETRY,
    **CONFIGURED,
)


def _not_signs(c: Any) -> bool:
    return set(c.y.tolist()) != {-1.0, 1.0}


def _task(draw: Draw) -> dict[str, Any]:
    X, y = problems.samples(draw)
    net = network(draw, np.clip(X, -1e3, 1e3) + draw.normal(*X.shape))
    return {"network": net, "X": draw.array(X), "y": draw.array(y)}


@entry(ib.train, share=6)
def _train(draw: Draw) -> None:
    options = _task(draw)
    options["network"].to(draw.pick(DTYPES[:3]))
    lr, loss, momentum = draw.pick([0.04, 1e-300, 10.0, 1e300]), draw.pick(LOSSES), draw.pick([0.0, 0.9])
    steps, batch = draw.pick([1, 5, 20]), draw.pick([1, 3, 1000])
    adam = loss != "exponential" and draw.chance(0.3)
    other = Adam(steps=steps, batch_size=batch, lr=lr, loss=loss) if adam else None
    options["config"] = other or SGD(steps=steps, batch_size=batch, lr=lr, loss=loss, momentum=momentum)
    more = {name: ARGUMENTS[name] for name in ("seed", "every", "device")}
    more["progress"] = choice(None, lambda step, steps: None, also=equals(None), functions=False)
    options |= {name: strategy(draw) for name, strategy in more.items()} if draw.chance(0.3) else {}
    # Large inputs or rates make training diverge, which is said, and so do two losses on samples that are not
    # separable; 'auto' and numbers may name devices to torch.
    wild = lr > 1 or loss in ("exponential", "squared") or "device" in options
    may = lambda c: wild or np.abs(c.X).max(initial=0) > 1e3  # noqa: E731
    # The squared loss takes any real targets.
    must = lambda c: loss != "squared" and _not_signs(c)  # noqa: E731
    table = draw.call(ib.train, must=must, may=may, networks=options.pop("network"), **options).table
    expect(bool(np.isfinite(table["loss"]).all()), "no finite loss")


@entry(ib.descend_to_limit, share=4)
def _descend(draw: Draw) -> None:
    """A few steps of any network on any data; without kinks to cross they lead no worse than the start."""
    options = _task(draw)
    net, steps, zero = options["network"], draw.pick([1, 7, 60]), draw.chance(0.1)
    lr, metric = draw.pick([1e-3, 1.0]), draw.chance(0.3)
    config = draw.pick([LossScaled(max_steps=steps, preconditioned=metric), PlainDescent(lr=lr, max_steps=steps)])
    for parameter in net.parameters() if zero else ():
        nn.init.zeros_(parameter)
    # Plain descent may diverge, and the squares of inputs overflow, which is said.
    plain, kinks = isinstance(config, PlainDescent), net.contexts(np.zeros((1, net.inputs))) is None
    layer = net.one_layer(np.random.default_rng(0).normal(size=(9, net.inputs)))
    steered = not plain and metric and (kinks or layer is None or not layer.has_formulas)
    must = lambda c: zero or steered or _not_signs(c)  # noqa: E731
    may = lambda c: plain or not in_range(*np.array([1e180, 1e-180], np.longdouble) * np.abs(c.X).max())  # noqa: E731
    options["network"] = draw.scalar([net], never)
    losses = draw.call(ib.descend_to_limit, config=config, must=must, may=may, **options).table["log_loss"]
    size = np.abs(net.decision_function(options["X"].plain)).max()
    expect(plain or kinks or losses.iloc[-1] <= losses.iloc[0] + 1e-9 * (1 + size), "uphill")


@entry(TorchNetwork)
def _module(draw: Draw) -> None:
    """Layers of any depth have that degree and the module's outputs; others are refused, in one sentence."""
    d, depth = draw.whole(1, 5), draw.whole(1, 4)
    widths = [d, *(draw.whole(1, 4) for _ in range(depth - 1)), draw.pick([1, 1, 3])]
    with torch.random.fork_rng():
        torch.manual_seed(draw.whole(0, 99))
        layers = [nn.Linear(into, out, bias=False) for into, out in pairwise(widths)]
        bad: list[Any] = [nn.Sequential(*layers, nn.Dropout(), nn.Tanh()), nn.Linear(d + 1, 1), nn.LSTM(d, 1)]
        bad += [nn.Linear(d, 1).half(), nn.Flatten(), nn.Linear(d, 1).requires_grad_(False)]
        bad += [nn.Sequential(nn.Linear(d, 1), nn.Linear(1, 1))]
    module = nn.Sequential(*(part for layer in layers for part in (layer, nn.LeakyReLU(0.1))))
    inputs = draw.either(draw.pick([d, (d,), [d], np.int64(d)]), [0, -1, 1.5, (), "d", d + 1, (d, 2)])
    made = draw.call(TorchNetwork, draw.either(module, bad), inputs, degree=draw.either(draw.pick([None, depth]), [0]))
    X = draw.normal(3, d)
    outputs = module.double()(torch.as_tensor(X)).detach().numpy()
    expect(np.allclose(made.decision_function(X).reshape(outputs.shape), outputs), "other outputs")
    expect(made.degree == depth, "another degree")


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
    expect(found.residual >= 0 and (found.dual >= 0).all() and abs(found.degree - 1) < 1e-6, "another degree")


@entry("train, several networks", share=5)
def _train_together(draw: Draw) -> None:
    """Finite losses and weights, or a refusal."""
    n, d, q, loss = draw.whole(1, 40), draw.whole(1, 4), draw.pick([1, 1, 3]), draw.pick(TOGETHER)
    kind, depth = draw.pick([each for each in LAYERED + GATED if each is not ReadoutNetwork]), draw.whole(1, 2)
    units = [[draw.whole(1, 5) for _ in range(depth)] for _ in range(draw.whole(1, 3))]
    networks = [kind(d, k, outputs=q, seed=draw.whole(0, 99)) for k in units]
    draw.story.append(f"{kind.__name__}, units {units}, {q} outputs, {loss}")
    shape, wrong = (len(networks), n) if draw.chance(0.3) else (n,), loss != "squared" and draw.chance(draw.badness / 2)
    values: Any = draw.rng.integers(0, q, shape) if q > 1 else draw.rng.choice([-1.0, 1.0], shape)
    values = draw.normal(*shape, *([q] if q > 1 else [])) if loss == "squared" else values + 0.5 * wrong
    others: list[Any] = [[], (), None, "networks", iter(networks), [*networks, None]]
    others += [[*networks, ib.ReLUNetwork(d + 1, 2)], [*networks, Own(np.ones(d))]]
    lr, scale = draw.pick([1e-3, 0.1, 1e-300, 1e30]), draw.pick([1.0, 1e-30, 1e60])
    steps: Any = draw.pick([0, 1, 9, np.int8(3), 130])
    options: dict[str, Any] = {"every": count(1, 4, 500, np.int8(3), cap=100, vast=ENDLESS, also=are_steps)(draw)}
    options |= {"seed": ARGUMENTS["seed"](draw), "target": number(None, None, 1e-3, 1e3)(draw)}
    # Of another dimension they may be data of another kind.
    options["X"] = draw.array(draw.normal(*shape, d) * scale, but=DIMENSIONS)
    options["y"] = draw.array(values, rounded=False, but=DIMENSIONS)
    how = draw.pick([ib.Adam, ib.Adam, ib.SGD]) if steps else ib.Adam
    options["config"] = how(steps=steps, batch_size=draw.pick([1, 7, 999]), lr=lr, loss=loss)
    given = draw.either(networks, others)
    found = draw.call(
        ib.train, networks=given, must=wrong, may=scale > 1 or lr > 1 or (how is ib.SGD and lr > 0.01), **options
    )
    expect(found.losses.shape == (len(networks),) and np.all((found.losses >= 0) & (found.losses < np.inf)), "losses")
    expect(all(bool(w.isfinite().all()) for network in networks for w in network.parameters()), "no finite weights")


def _online(draw: Draw) -> dict[str, Any]:
    gain = draw.pick([0.1, 3.0])
    process = gated_flow.nonlinear_gaussian_process(draw.whole(3, 8), length_scales=(0.4, 0.2), gain=gain)
    if draw.chance(0.7):
        return {"data": draw.scalar([process], never), "batch_size": count(1, 8, 20, cap=100, vast=ENDLESS)(draw)}
    X, y = draw.array(draw.normal(6, process.n)), draw.array(draw.normal(6))
    bad = "bad" in (X.verdict, y.verdict) and y.note != "one dimension more"
    pair = Given((X.value, y.value), (X.plain, y.plain), "a pair", "bad" if bad else "doubtful")
    return {"data": pair, "batch_size": 8, "record": [1]}


def _is_online(c: Any, found: Any) -> bool:
    """True if start and end are recorded, and gates of new samples exist for each record."""
    gates = c.draw.call(found.gates, c.draw.normal(9, found.weights.shape[-1]))
    return found.steps[0] == 0 and found.steps[-1] == c.steps and gates.shape[0] == len(found.steps)


ONLINE: dict[str, Any] = dict.fromkeys(("units", "repeats"), count(1, 3, cap=50, vast=10**3))
ONLINE |= {
    "loss": choice("squared"),
    "activation": choice("relu", "sigmoid", "erf"),
    "scale": number(0.1, 1, 1e-9),
    "fine": _is_online,
}
ONLINE |= {"steps": count(1, 2, 9, cap=100, vast=ENDLESS), "lr": ARGUMENTS["lr"]}
row(train_online, _online, share=3, **ONLINE, may=lambda c: max(float(c.lr), float(c.scale)) > 10)
