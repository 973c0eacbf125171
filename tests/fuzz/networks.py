"""Cases about networks."""

from typing import Any, Self

import numpy as np
import torch
from torch import nn

import implicit_bias as ib
from implicit_bias import SGD, HyperplaneGates, ReLUGates
from implicit_bias.extensions.best_networks import ChainNetwork
from implicit_bias.extensions.galu import GaLU0Network, GaLUConv2d, GaLULinear, GaLUNetwork
from implicit_bias.networks import GatedNetwork, LinearNetwork, ReadoutNetwork
from tests.fuzz import problems
from tests.fuzz.draw import Draw, expect
from tests.fuzz.strategies import count, layers
from tests.fuzz.table import entry, row
from tests.fuzz.values import Array

DTYPES = [torch.float32, torch.float32, torch.float64, torch.bfloat16, torch.float16]
#: Networks of layers, and those of them whose gates may be soft.
LAYERED: list[Any] = [ib.ReLUNetwork, ib.FrozenReLUNetwork, LinearNetwork, ReadoutNetwork]
GATED: list[Any] = [GaLUNetwork, GaLU0Network]


def network(draw: Draw, X: Array) -> GatedNetwork:
    """A network of any kind for inputs like X, with one output."""
    kinds = [*LAYERED, *GATED, *[ib.GatedLinearNetwork] * 3, ChainNetwork]
    kind, seed = draw.pick(kinds), draw.whole(0, 99)
    draw.story.append(kind.__name__)
    gates = [problems.fitted_gates(draw, X) for _ in range(draw.whole(1, 2))]
    shallow = HyperplaneGates(1, 4, cutoff=0.0).fit(X)
    if kind is ib.GatedLinearNetwork:
        return draw.pick([kind(gates, seed=seed), kind(shallow, readout=False, seed=seed)])
    if kind is ChainNetwork:
        return kind(gates[0], draw.whole(2, 4), seed=seed)
    units = draw.pick([3, [3, 2]])
    # Soft gates that read the layer before them have no degree.
    more = {"sharpness": draw.pick([None, 2.0])} if kind is GaLU0Network or (kind in GATED and units == 3) else {}
    made: GatedNetwork = kind(X.shape[1], units, seed=seed, **more)
    return made


def _is_network(c: Any, net: Any) -> bool:
    """Outputs and hidden layer in every dtype, for inputs in any disguise; gates and weights, if there are any."""
    draw, d = c.draw, net.inputs
    deep = len(net.shape if isinstance(net, ib.GatedLinearNetwork) else net.units) > 1
    no_gates = deep and not isinstance(net, GaLU0Network | LinearNetwork | ChainNetwork)
    net.to(draw.pick(DTYPES))
    # The constant input comes last: it carries the bias of the readout.
    new = draw.array(np.hstack([draw.normal(4, draw.pick([d, d, d, d + 1]) - 1), np.ones((4, 1))]))
    outputs = draw.call(lambda X: net.decision_function(X), X=new, must=lambda c: c.X.shape[1] != d, same=0.0)
    expect(np.isfinite(outputs).all() and len(draw.call(net.hidden, new)) == 4 == len(outputs), "no numbers")
    W = draw.call(net.effective_weights, must=no_gates)
    return bool(np.isfinite(W).all() and draw.call(net.gates).transform(new.plain).shape[1] == W.shape[-2])


NETWORK: dict[str, Any] = {"share": 3, "same": None, "finite": False, "fine": _is_network}


def _gates(draw: Draw) -> dict[str, Any]:
    """Gates fitted or not, of one width or several."""
    X, _ = problems.clean_task(draw)
    fitted, other = problems.fitted_gates(draw, X), HyperplaneGates(2, 2, cutoff=0.0).fit(np.ones((2, X.shape[1] + 1)))
    bad: list[Any] = [HyperplaneGates(2, 2), [fitted, other], [], ib.ConstantGate().fit(X), [fitted, None]]
    seed = count(None, 0, 5, least=0, most=2**63 - 1, vast=2**63)(draw)
    return {"gates": draw.either(draw.pick([fitted, [fitted], (fitted, fitted)]), bad), "seed": seed}


# Without a readout there is one unit.
row(ib.GatedLinearNetwork, _gates, may=lambda c: not getattr(c, "readout", True), **NETWORK)
for _kind in LAYERED + GATED:
    row(_kind, units=layers, **NETWORK)


@entry(ib.ParallelNetwork)
def _parallel(draw: Draw) -> None:
    """Outputs are those of the parts, in their order; parts of other shapes are refused."""
    d, count, seed = draw.whole(1, 4), draw.whole(2, 3), draw.whole(0, 9)
    parts = [ib.ReLUNetwork(d, 3, seed=seed) for _ in range(count)]
    others = [ib.ReLUNetwork(d + 1, 3), ib.ReLUNetwork(d, [3, 2]), ib.ReLUNetwork(d, 3, outputs=2), None, "network"]
    bad = [parts[:1], parts[0], 3, None, *[[*parts, other] for other in others]]
    made = draw.call(ib.ParallelNetwork, draw.either(parts, bad))
    X = draw.normal(4, d)
    expect(np.array_equal(made.decision_function(X)[:, -1], parts[-1].decision_function(X)), "another output")
    expect(made.effective_weights().shape == (count, 3, d) and made.degree == 2, "other weights")


class Own(GatedNetwork):
    """A linear network of the user's own, whose outputs may be broken."""

    def __init__(self, weight: Array, fault: str = "no") -> None:
        super().__init__()
        self.inputs, self.fault = len(weight), fault
        self.weight = nn.Parameter(torch.tensor(weight))

    def forward(self, X: torch.Tensor, contexts: torch.Tensor | None = None) -> Any:
        out = X.to(self.weight.dtype) @ self.weight
        faults: dict[str, Any] = {"column": out[:, None], "nan": out * torch.nan, "text": "out", "short": out[:1]}
        # A bias that counts whatever the size of the inputs.
        faults |= {"bias": out + out.detach().abs().max(), "detached": out.detach(), "none": None}
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
    def from_config(cls, config: dict[str, Any]) -> Self:
        return cls(np.ones(1))


def _layer(kind: Any, shape: tuple[int, ...], sizes: dict[str, Any]) -> None:
    """A layer of any kind of gates on inputs of its shape, and of others."""

    def run(draw: Draw) -> None:
        sharpness = draw.either(draw.pick([None, 2.0, 1e300]), [0.0, -1.0, "soft", np.nan])
        layer = draw.call(kind, **sizes, bias=draw.chance(0.5), sharpness=sharpness)
        right = draw.chance(0.6)
        inputs = torch.as_tensor(draw.normal(3, *shape[:-1], shape[-1] if right else 1)).float()
        inputs = inputs if right else inputs[:, None, None]
        outputs = draw.call(layer, inputs, must=not right)
        expect(bool(outputs.isfinite().all()) and len(outputs) == 3, "no numbers")

    entry(kind)(run)


_layer(GaLULinear, (5,), {"in_features": 5, "out_features": 4})
_layer(GaLUConv2d, (2, 6, 6), {"in_channels": 2, "out_channels": 3, "kernel_size": 3})


@entry(GatedNetwork)
def _own_network(draw: Draw) -> None:
    """A network of the user's own in `train`: broken outputs are refused."""
    X, y = problems.clean_task(draw)
    fault = draw.kind("fault", ["no", "no", "column", "nan", "text", "short"])
    net = Own(np.linspace(-1, 1, X.shape[1]).astype(np.float32), fault)
    history = draw.call(ib.train, net, X, y, SGD(steps=3), must=fault != "no")
    expect(bool(np.isfinite(history.table["loss"]).all()), "no finite loss")
