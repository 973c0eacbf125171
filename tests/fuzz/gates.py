"""Cases about gates: of every kind, of the user's own, and of functions."""

from typing import Any

import numpy as np

import implicit_bias as ib
from implicit_bias import HyperplaneGates, ReLUGates
from implicit_bias.gates import FunctionContexts, HiddenActivations, LeakyReLUGates, ProductGates
from tests.cases import GATES, inputs
from tests.fuzz import problems
from tests.fuzz.draw import Draw, Given
from tests.fuzz.strategies import ARGUMENTS, choice, is_number, is_power, number, numbers, one_of
from tests.fuzz.table import row
from tests.fuzz.values import Array


def _gates(make: Any, X: Any = ARGUMENTS["X"], **parameters: Any) -> None:
    """Register gates: values (n, k) from 0 to 1 or a slope, the same for every disguise of the samples."""

    def values(X: Any, **given: Any) -> Any:
        return make(**given).fit(X).transform(X)

    def fine(c: Any, found: Any) -> bool:
        most = max(1.0, getattr(c, "slope", 1.0))
        return bool(found.shape[0] == len(c.X) and found.min() >= 0 and found.max() <= most)

    row(values, name=make.__qualname__, like=make, share=3, same=0.0, X=X, fine=fine, **parameters)


def _made(draw: Draw) -> dict[str, Any]:
    X = inputs()
    draw.sizes["d"] = X.shape[1]
    return {"gates": draw.among("gates", GATES)(X)}


def _samples(draw: Draw) -> Given:
    return draw.array(problems.samples(draw, scaled=False)[0])


def _planes(draw: Draw) -> Given:
    draw.sizes["p"] = draw.pick([2, 4, 3])
    return numbers("n d")(draw)


def _layers(draw: Draw) -> Given:
    d = draw.sizes.setdefault("d", draw.whole(1, 3))
    kinds: list[Any] = [ReLUGates(draw.normal(draw.whole(1, 3), d)), ib.SoftGates(draw.normal(2, d), 2.0)]
    kinds += [problems.fitted_gates(draw, draw.normal(5, d)), ib.ConstantGate().fit(np.ones((1, d)))]
    layers = [draw.pick(kinds) for _ in range(draw.whole(1, 3))]
    bad: list[Any] = [[], (), [*layers, ReLUGates(np.ones((2, d + 1)))], [*layers, ib.ConstantGate()], [*layers, None]]
    return draw.either(layers, [*bad, layers[0], {0: layers[0]}, iter(layers)])


def _inner(draw: Draw) -> Given:
    inner = HyperplaneGates(1, draw.pick([1, 2, 64, 2**20]), cutoff="random").fit(draw.normal(5, draw.sizes["d"]))
    return draw.either(inner, [HyperplaneGates(2, 2), HyperplaneGates(1, 2), None])


# What a median cannot divide, and too many gates, are refused.
_gates(HyperplaneGates, _samples, may=True)
_gates(ib.RandomHalfSpaces, _samples, may=True)
_gates(ib.SubsetGates, _samples, may=True, columns=one_of([1, 2, [[0]]], 0, [[99]], "x", []))
PLANES: dict[str, Any] = {"directions": numbers("p d"), "cutoffs": numbers("p")}
PLANES["contexts"] = choice(2, 4, also=is_power(2**62, 2))
_gates(HyperplaneGates.from_hyperplanes, _planes, may=True, **PLANES)
_gates(ib.ReLUGates)
SLOPE = number(0.1, 0.0, np.float32(0.5), also=lambda v: is_number()(v) and v == 0)
_gates(LeakyReLUGates, slope=SLOPE)
_gates(ib.ConstantGate)
_gates(ProductGates, layers=_layers)
_gates(ib.SoftGates, numbers("n d", [1.0, 0.0, 1e-150, 1e150, 1e300]), sharpness=number(1.0, 50, 1e-300, np.float32(2)))
_gates(ib.OccupiedRegions, regions=_inner)


def _hidden(draw: Draw) -> dict[str, Any]:
    network = ib.ReLUNetwork(draw.sizes.setdefault("d", 3), 3, seed=draw.whole(0, 9))
    return {"network": draw.either(network, [ib.ConstantGate()])}


def _activations(network: Any, X: Any) -> Any:
    return HiddenActivations(network).fit(X)(X).X


row(_activations, _hidden, name="HiddenActivations", fine=lambda c, found: found.shape == (len(c.X), 3))

# ---------------------------------------------------------------------------------------------------- the user's own


def _halves(X: Array) -> Array:
    return np.column_stack([X[:, 0] > 0, X[:, 0] <= 0]).astype(float)


BROKEN: list[Any] = [lambda X: _halves(X) * np.nan, lambda X: _halves(X)[:1], lambda X: "gates", lambda X: None]
BROKEN += [lambda X: X[:, 0], lambda X: _halves(X) * 1j]


def _parts(draw: Draw) -> dict[str, Any]:
    X, y = problems.clean_task(draw)
    function = draw.either(draw.pick([_halves, lambda X: _halves(X).tolist()]), BROKEN)
    return {"X": X, "y": y, "function": function, "grouping": draw.either([0, 1], [[0], [0.5, 1.0], "ab"])}


def _own(X: Array, y: Array, function: Any, grouping: Any) -> Any:
    return ib.svm_gln(X, y, ib.FunctionGates(function, grouping))


row(_own, _parts, name="FunctionGates", share=3, finite=False, fine=lambda c, problem: problems.judged(problem))


def _thirds(X: Array) -> np.ndarray:
    return np.digitize(X[:, :1] * [1.0, -1.0], [-0.5, 0.5])


UNKNOWN: list[Any] = [lambda X: _thirds(X) - 3, lambda X: _thirds(X) + 9, lambda X: _thirds(X) + 0.5]
UNKNOWN += [lambda X: _thirds(X)[:1], lambda X: _thirds(X)[:, 0], lambda X: "contexts", "contexts"]


def _contexts(draw: Draw) -> dict[str, Any]:
    X, y = problems.clean_task(draw)
    contexts = draw.either(draw.pick([3, 5, np.int8(4)]), [0, -3, 3.0, "3", None])
    return {"X": X, "y": y, "function": draw.either(_thirds, UNKNOWN), "contexts": contexts}


def _global(X: Array, y: Array, function: Any, contexts: Any) -> Any:
    return ib.svm_l2(X, y, FunctionContexts(function, contexts))


def _any_contexts(draw: Draw) -> dict[str, Any]:
    X = inputs()
    draw.sizes["d"] = X.shape[1]
    return {"gates": draw.among("gates", {name: GATES[name] for name in ("contexts 3", "contexts 4", "contexts 5")})(X)}


row(_global, _contexts, name="FunctionContexts", finite=False, fine=lambda c, problem: problems.judged(problem))
row(lambda gates, X: gates.contexts_of(X), _any_contexts, name="ContextGates", X=ARGUMENTS["X"], same=0.0)
row(lambda gates, X: gates.transform(X), _made, name="Gates", X=ARGUMENTS["X"], same=0.0)
