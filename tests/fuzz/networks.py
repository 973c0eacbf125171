"""Cases about activation patterns and best networks, about networks of every kind, and about chains of layers."""

from typing import Any

import numpy as np
import torch
from torch import nn

import implicit_bias as ib
from implicit_bias import SGD, HyperplaneGates
from implicit_bias._utils.floats import TINY
from implicit_bias.extensions import best_networks
from implicit_bias.extensions.galu import GaLU0Network, GaLUConv2d, GaLULinear, GaLUNetwork
from implicit_bias.networks import GatedNetwork, LinearNetwork, ReadoutNetwork
from tests.fuzz import problems
from tests.fuzz.draw import Draw, expect
from tests.fuzz.judge import expect_certified
from tests.fuzz.strategies import ARGUMENTS, count, layers, number, one_of
from tests.fuzz.table import arguments, entry, row
from tests.fuzz.values import Array

# ------------------------------------------------------------------------------------------------- the best networks


def _few_samples(draw: Draw) -> problems.Samples:
    X, y = problems.samples(draw, scaled=False) if draw.chance(0.5) else problems.clean_task(draw)
    if len(X) < 6 or len(set(y[:6].tolist())) < 2:
        X, y = problems.clean_task(draw)
    return X[:6, :3], y[:6]


def _task(draw: Draw) -> dict[str, Any]:
    X, y = _few_samples(draw)
    return {"X": draw.array(X, rounded=False), "y": draw.either(y, [y[:5], 0 * y, None, "y"])}


def _all_there(X: Array, patterns: np.ndarray) -> bool:
    """True if no pattern occurs twice and those of random directions occur."""
    X = X / np.maximum(np.abs(X).max(axis=1, keepdims=True), TINY)
    scores = np.random.default_rng(1).normal(size=(300, X.shape[1])) @ X.T
    clear = scores[(np.abs(scores) > 1e-9).all(axis=1, where=X.any(axis=1))] >= 0
    known = {row.tobytes() for row in patterns}
    return len(known) == len(patterns) and {row.tobytes() for row in clear} <= known


row(
    best_networks.activation_patterns,
    X=lambda draw: draw.array(problems.samples(draw)[0][:8, :4], rounded=False),
    finite=False,
    fine=lambda c, found: _all_there(c.X, found.patterns),
)
row(
    best_networks.svm_relu,
    _task,
    patterns=one_of([None], "all", [[0.5]], [[1, 0]], np.ones((2, 2, 2)), 3),
    C=one_of([1.0], 0.0, -1.0, "C", np.nan),
    same=None,
    finite=False,
    fine=lambda c, problem: expect_certified(ib.solve(problem, tol=1e-4), 1e-4),
)


@entry(best_networks.best_network, share=1)
def _best_network(draw: Draw) -> None:
    """Bounds of hard and soft margins are in order, for limits and starts of any kind."""
    given = _task(draw)
    given |= {
        "tol": number(1e-4, 0.01, high=1.0)(draw),
        "max_rounds": count(1, 3, 10)(draw),
        "max_seconds": ARGUMENTS["max_seconds"](draw),
        "nodes": count(1, 100)(draw),
        "start": draw.either(None, ["network", 3, ib.ReLUNetwork(40, 2)]),
        "progress": draw.either(None, [3, "print"]),
    }
    given |= arguments(best_networks.best_network, draw, but=list(given))
    found = draw.call(best_networks.best_network, **given)
    expect(0 <= found.lower_bound <= found.objective, "bounds out of order")
    soft = draw.call(best_networks.best_network, **(given | {"C": draw.pick([0.1, 1.0, np.float32(10)])}))
    expect(0 <= soft.lower_bound <= soft.objective < np.inf, "bounds out of order")


# -------------------------------------------------------------------------------------------------- of every kind

DTYPES = [torch.float32, torch.float32, torch.float64, torch.bfloat16, torch.float16]
#: Networks of layers, and those of them whose gates may be soft.
LAYERED: list[Any] = [ib.ReLUNetwork, ib.FrozenReLUNetwork, LinearNetwork, ReadoutNetwork]
GATED: list[Any] = [GaLUNetwork, GaLU0Network]


def network(draw: Draw, X: Array) -> GatedNetwork:
    kinds = [*LAYERED, *GATED, *[ib.GatedLinearNetwork] * 3, best_networks.ChainNetwork]
    kind, seed = draw.pick(kinds), draw.whole(0, 99)
    draw.story.append(kind.__name__)
    gates = [problems.fitted_gates(draw, X) for _ in range(draw.whole(1, 2))]
    shallow = HyperplaneGates(1, 4, cutoff=0.0).fit(X)
    if kind is ib.GatedLinearNetwork:
        return draw.pick([kind(gates, seed=seed), kind(shallow, readout=False, seed=seed)])
    if kind is best_networks.ChainNetwork:
        return kind(gates[0], draw.whole(2, 4), seed=seed)
    units = draw.pick([3, [3, 2]])
    # Soft gates that read the layer before them have no degree.
    more = {"sharpness": draw.pick([None, 2.0])} if kind is GaLU0Network or (kind in GATED and units == 3) else {}
    made: GatedNetwork = kind(X.shape[1], units, seed=seed, **more)
    return made


def _has_extreme_scale(c: Any) -> bool:
    # Half precision knows few scales.
    return not 1e-3 <= getattr(c, "scale", 1.0) <= 1e3


def _is_network(c: Any, net: Any) -> bool:
    """True if outputs, hidden layer and weights are finite in a random dtype, and gates fit the weights."""
    draw, d = c.draw, net.inputs
    deep = len(net.shape if isinstance(net, ib.GatedLinearNetwork) else net.units) > 1
    no_gates = deep and not isinstance(net, GaLU0Network | LinearNetwork | best_networks.ChainNetwork)
    net.to(draw.pick(DTYPES))
    # The constant input comes last: it carries the bias of the readout.
    new = draw.array(np.hstack([draw.normal(4, draw.pick([d, d, d, d + 1]) - 1), np.ones((4, 1))]))
    outputs = draw.call(lambda X: net.decision_function(X), X=new, must=lambda c: c.X.shape[1] != d, same=0.0)
    finite = _has_extreme_scale(c) or np.isfinite(outputs).all()
    expect(finite and len(draw.call(net.hidden, new)) == 4 == len(outputs), "no numbers")
    W = draw.call(net.effective_weights, must=no_gates)
    return bool(np.isfinite(W).all() and draw.call(net.gates).transform(new.plain).shape[1] == W.shape[-2])


NETWORK: dict[str, Any] = {"share": 3, "same": None, "finite": False, "fine": _is_network}


def _gates(draw: Draw) -> dict[str, Any]:
    X, _ = problems.clean_task(draw)
    fitted, other = problems.fitted_gates(draw, X), HyperplaneGates(2, 2, cutoff=0.0).fit(np.ones((2, X.shape[1] + 1)))
    bad: list[Any] = [HyperplaneGates(2, 2), [fitted, other], [], ib.ConstantGate().fit(X), [fitted, None]]
    seed = count(None, 0, 5, least=0, most=2**63 - 1, vast=2**63)(draw)
    return {"gates": draw.either(draw.pick([fitted, [fitted], (fitted, fitted)]), bad), "seed": seed}


# Without a readout there is one unit.
row(ib.GatedLinearNetwork, _gates, may=lambda c: not getattr(c, "readout", True), **NETWORK)
for _kind in LAYERED + GATED:
    row(_kind, units=layers, **NETWORK)


class Own(GatedNetwork):
    """A linear network of the user's own, whose outputs may be broken."""

    def __init__(self, weight: Array, fault: str = "no") -> None:
        super().__init__(len(weight))
        self.fault = fault
        self.weight = nn.Parameter(torch.tensor(weight))

    def forward(self, X: torch.Tensor, contexts: torch.Tensor | None = None) -> Any:
        out = X.to(self.weight.dtype) @ self.weight
        faults: dict[str, Any] = {"column": out[:, None], "nan": out * torch.nan, "text": "out", "short": out[:1]}
        # A bias that counts whatever the size of the inputs.
        faults |= {"bias": out + out.detach().abs().max(), "detached": out.detach(), "none": None}
        return faults.get(self.fault, out)

    @property
    def degree(self) -> int:
        return 1


def _layer(kind: Any, shape: tuple[int, ...], **sizes: int) -> None:
    @entry(kind)
    def _outputs(draw: Draw) -> None:
        sharpness = draw.either(draw.pick([None, 2.0, 1e300]), [0.0, -1.0, "soft", np.nan])
        layer = draw.call(kind, **sizes, bias=draw.chance(0.5), sharpness=sharpness)
        right = draw.chance(0.6)
        inputs = torch.as_tensor(draw.normal(3, *shape[:-1], shape[-1] if right else 1)).float()
        inputs = inputs if right else inputs[:, None, None]
        outputs = draw.call(layer, inputs, must=not right)
        expect(bool(outputs.isfinite().all()) and len(outputs) == 3, "no numbers")


_layer(GaLULinear, (5,), in_features=5, out_features=4)
_layer(GaLUConv2d, (2, 6, 6), in_channels=2, out_channels=3, kernel_size=3)


@entry(GatedNetwork)
def _own_network(draw: Draw) -> None:
    """A network of the user's own in `train`: broken outputs are refused."""
    X, y = problems.clean_task(draw)
    fault = draw.kind("fault", ["no", "no", "column", "nan", "text", "short"])
    net = Own(np.linspace(-1, 1, X.shape[1]).astype(np.float32), fault)
    history = draw.call(ib.train, net, X, y, SGD(steps=3), must=fault != "no")
    expect(bool(np.isfinite(history.table["loss"]).all()), "no finite loss")


# ------------------------------------------------------------------------------------------------------------- chains


def _chain(draw: Draw) -> dict[str, Any]:
    X, _ = problems.clean_task(draw)
    bad = [HyperplaneGates(2, 2), None, X, [problems.fitted_gates(draw, X)]]
    gated = draw.either(draw.pick([None, 1, 2]), [0, -1, 7, 1.5, "one"])
    shape = {"layers": draw.either(draw.pick([2, 3, 4]), [1, 0, -2, 2.5, "three", True]), "gated": gated}
    return {"gates": draw.either(problems.fitted_gates(draw, X), bad), "scale": number(1.0, 0.1)(draw)} | shape


row(best_networks.ChainNetwork, _chain, **NETWORK, may=_has_extreme_scale)


def _gated_task(draw: Draw) -> dict[str, Any]:
    X, y = _few_samples(draw)
    fitted = HyperplaneGates(draw.whole(1, 2), 2, draw.whole(0, 9), "random").fit(X)
    given = {"X": draw.array(X, rounded=False), "y": draw.either(y, [y[:5], 0 * y, None, "y"])}
    return given | {"gates": draw.either(fitted, [None, "gates", X])}


row(
    best_networks.best_chains,
    _gated_task,
    layers=one_of([2, 3], 1, 0, 2.5, "three"),
    gated=one_of([None], 0, 9, "one"),
    start=one_of([None], "network", np.ones((1, 1)), ib.ReLUNetwork(40, 2)),
    starts=count(1, 2, cap=3),
    nodes=count(0, 3, least=0, cap=10),
    tol=number(0.01, 0.1, high=1.0),
    max_seconds=ARGUMENTS["max_seconds"],
    progress=one_of([None], 3, "print"),
    share=1,
    same=None,
    finite=False,
    fine=lambda c, found: 0 <= found.lower_bound <= found.objective,
)


@entry(best_networks.ReLUMarginProblem, share=1)
def _relu_problem(draw: Draw) -> None:
    """Gates of both signs are refused."""
    X, y = problems.clean_task(draw)
    made = best_networks.svm_relu(X, y, np.ones((2, len(X))))
    mixed = ib.GatedFeatures(X, np.where(np.arange(len(X)) % 2, 1.0, -1.0)[:, None] * np.ones((1, 4)))
    features = draw.either(made.features, [mixed, ib.GatedFeatures(X, np.full((len(X), 4), 0.5)), X])
    again = draw.call(best_networks.ReLUMarginProblem, features, y, made.norm)
    network = draw.call(again.network, draw.either(np.ones((4, X.shape[1])), [np.ones(4), np.zeros((4, X.shape[1]))]))
    expect(network.units == [4], "another number of units")


@entry(ib.ParallelNetwork)
def _parallel(draw: Draw) -> None:
    """Outputs are those of the parts, in their order; parts of other shapes are refused."""
    d, count, seed = draw.whole(1, 4), draw.whole(2, 3), draw.whole(0, 9)
    parts = [ib.ReLUNetwork(d, 3, seed=seed) for _ in range(count)]
    others = [ib.ReLUNetwork(d + 1, 3), ib.ReLUNetwork(d, [3, 2]), ib.ReLUNetwork(d, 3, outputs=2), None, "network"]
    made = draw.call(
        ib.ParallelNetwork, draw.either(parts, [parts[:1], parts[0], 3, None, *([*parts, o] for o in others)])
    )
    X = draw.normal(4, d)
    expect(np.array_equal(made.decision_function(X)[:, -1], parts[-1].decision_function(X)), "another output")
    expect(made.effective_weights().shape == (count, 3, d) and made.degree == 2, "other weights")
