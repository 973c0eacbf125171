"""Cases about networks."""

from typing import Any, Self

import numpy as np
import torch
from torch import nn

import implicit_bias as ib
from implicit_bias import SGD, HyperplaneGates, ReLUGates
from tests.fuzz import problems
from tests.fuzz.draw import Draw, expect
from tests.fuzz.strategies import SEED, count, is_count, number
from tests.fuzz.table import drawn, entry
from tests.fuzz.values import Array

DTYPES = [torch.float32, torch.float32, torch.float64, torch.bfloat16, torch.float16]
LAYERED: dict[str, Any] = {
    "relu": lambda d, seed: ib.ReLUNetwork(d, 3, seed=seed),
    "deep relu": lambda d, seed: ib.ReLUNetwork(d, [3, 2], seed=seed),
    "frozen": lambda d, seed: ib.FrozenReLUNetwork(d, 3, seed=seed),
    "linear": lambda d, seed: ib.LinearNetwork(d, [3, 2], seed=seed),
    "readout": lambda d, seed: ib.ReadoutNetwork(d, 3, seed=seed),
    "galu": lambda d, seed: ib.GaLUNetwork(d, 3, seed=seed),
    "soft galu": lambda d, seed: ib.GaLUNetwork(d, 3, sharpness=2.0, seed=seed),
    "galu0": lambda d, seed: ib.GaLU0Network(d, [3, 2], seed=seed),
    "soft galu0": lambda d, seed: ib.GaLU0Network(d, [3, 2], sharpness=2.0, seed=seed),
}


def network(draw: Draw, X: Array) -> ib.GatedNetwork:
    """A network of any kind for inputs like X, with one output."""
    kind, seed = draw.kind("network", ["gln", "shallow", "deep gln", *LAYERED]), draw.whole(0, 99)
    if kind in LAYERED:
        made: ib.GatedNetwork = LAYERED[kind](X.shape[1], seed)
        return made
    if kind == "shallow":
        return ib.GatedLinearNetwork(HyperplaneGates(1, 4, cutoff=0.0).fit(X), readout=False, seed=seed)
    gates = [problems.fitted_gates(draw, X) for _ in range(1 + (kind == "deep gln"))]
    return ib.GatedLinearNetwork(gates if kind == "deep gln" else gates[0], seed=seed)


def check_network(draw: Draw, net: Any, d: int) -> None:
    """Outputs, hidden layer, gates and effective weights of a network, in every dtype."""
    deep = len(net.shape if isinstance(net, ib.GatedLinearNetwork) else net.units) > 1
    no_gates = deep and not isinstance(net, ib.GaLU0Network | ib.LinearNetwork)
    # Rounding opens and closes the gates that hang on weights.
    dtype = torch.float64 if deep and isinstance(net, ib.GaLUNetwork) else draw.pick(DTYPES)
    net.to(dtype)
    draw.story.append(f"in {dtype}")
    # The constant input comes last: it carries the bias of the readout.
    new = draw.array(np.hstack([draw.normal(4, draw.pick([d, d, d, d + 1]) - 1), np.ones((4, 1))]))
    outputs = draw.call(lambda X: net.decision_function(X), X=new, must=lambda c: c.X.shape[1] != d, same=0.0)
    gates, W = (draw.call(method, must=no_gates) for method in (net.gates, net.effective_weights))
    found = gates(new.plain) @ (W if outputs.ndim == 1 else W[0])
    expect(np.isfinite(found).all() and len(draw.call(net.hidden, new)) == 4 == len(outputs), "W is not the network")
    if isinstance(net, ib.ReLUNetwork):
        expect(draw.call(net.freeze).decision_function(new.plain).shape == outputs.shape, "frozen it has other outputs")


@entry(ib.GatedLinearNetwork, share=4)
def _gln(draw: Draw) -> None:
    """Gates fitted or not, of one width or several, with and without a readout."""
    X, _ = problems.clean_task(draw)
    d, fitted = X.shape[1], problems.fitted_gates(draw, X)
    other = HyperplaneGates(2, 2, cutoff=0.0).fit(np.ones((2, d + 1)))
    bad: list[Any] = [HyperplaneGates(2, 2), [fitted, other], [], ib.ConstantGate().fit(X), [fitted, None], "gates"]
    gates, readout = draw.either(draw.pick([fitted, [fitted], (fitted, fitted)]), bad), draw.chance(0.7)
    seed = count(None, 0, 5, least=0, most=2**63 - 1, vast=2**63)(draw)
    must = not readout and fitted.units != 1
    check_network(draw, draw.call(ib.GatedLinearNetwork, gates=gates, readout=readout, seed=seed, must=must), d)


def _layered(kind: Any, **more: Any) -> None:
    """A network of bias-free layers, of sizes of every kind."""

    def run(draw: Draw) -> None:
        # Sequences of counts are layers.
        units = draw.scalar([1, 3, [2, 3], (1,), np.array([2])], is_count(1))
        units.verdict = "doubtful" if isinstance(units.value, list | tuple | range | np.ndarray) else units.verdict
        sizes: dict[str, Any] = {"inputs": count(1, 3, np.int32(4), vast=10**4), "outputs": count(1, 1, 3, vast=10**4)}
        given = {name: drawn(value, draw) for name, value in (sizes | {"seed": SEED} | more).items()}
        vast = lambda c: not isinstance(c.units, int) or c.units > 10**4  # noqa: E731
        net = draw.call(kind, units=units, may=vast, **given)
        check_network(draw, net, int(given["inputs"].plain))

    entry(kind, share=3)(run)


SHARPNESS = number(None, None, None, None, 1.0, 0.1, 50, 1e-300, 1e300, np.float32(2))
for _kind in (ib.ReLUNetwork, ib.FrozenReLUNetwork, ib.LinearNetwork, ib.ReadoutNetwork):
    _layered(_kind)
_layered(ib.GaLUNetwork, sharpness=SHARPNESS)
_layered(ib.GaLU0Network, sharpness=SHARPNESS)


class Own(ib.GatedNetwork):
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


@entry(ib.GatedNetwork)
def _own_network(draw: Draw) -> None:
    """A network of the user's own in `train`: broken outputs are refused."""
    X, y = problems.clean_task(draw)
    fault = draw.kind("fault", ["no", "no", "column", "nan", "text", "short"])
    net = Own(np.linspace(-1, 1, X.shape[1]).astype(np.float32), fault)
    history = draw.call(ib.train, net, X, y, SGD(steps=3), must=fault != "no")
    expect(bool(np.isfinite(history.table["loss"]).all()), "no finite loss")
