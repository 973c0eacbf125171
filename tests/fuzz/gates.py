"""Cases about gates: of every kind, of the user's own, and of functions."""

from typing import Any, Self

import numpy as np

import implicit_bias as ib
from implicit_bias import HyperplaneGates, ReLUGates, solve
from tests.fuzz import problems
from tests.fuzz.draw import Draw, Given
from tests.fuzz.judge import Raw, judge
from tests.fuzz.strategies import SEED, choice, count, is_number, is_power, number, numbers
from tests.fuzz.table import entry, row
from tests.fuzz.values import Array, close

SAMPLES = numbers("n d")
CUTOFFS: list[Any] = ["median", "random", 0.0, -0.1, 3, (0.25, 0.75), [0.5, 0.5], (0, 1), np.float32(0.1)]


def _is_cutoff(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return len(value) == 2 and all(is_number(0, 1, ends=True)(v) for v in value) and value[0] <= value[1]
    return is_number(-1e308, 1e308)(value)


def _gates(make: Any, may: bool = False, X: Any = SAMPLES, one_hot: bool = False, **parameters: Any) -> None:
    """Gates of samples: one column a group, from 0 to 1, the same in any batch and for whatever the samples came as."""

    def values(X: Any, **given: Any) -> Any:
        return make(**given).fit(X).transform(X)

    def fine(c: Any, found: Any) -> bool:
        plain = {name: value for name, value in vars(c).items() if name not in ("X", "draw")}
        gates = make(**plain).fit(c.X)
        shape = found.shape == (len(c.X), len(gates.groups)) and close(gates.transform(c.X[:1]), found[:1], 1e-12)
        hot = not one_hot or np.all(found.sum(axis=1) == len(set(gates.groups.tolist())))
        return bool(shape and hot and found.min() >= 0 and found.max() <= 1)

    row(values, name=make.__qualname__, share=3, may=may, same=0.0, X=X, fine=fine, **parameters)


def _samples(draw: Draw) -> Given:
    return draw.array(problems.samples(draw, scaled=False)[0])


def _planes(draw: Draw) -> Given:
    draw.sizes["p"] = draw.pick([2, 4, 3])
    return numbers("n d")(draw)


def _layers(draw: Draw) -> Given:
    """Layers of gates, or what is none."""
    d = draw.sizes.setdefault("d", draw.whole(1, 3))
    kinds: list[Any] = [ReLUGates(draw.normal(draw.whole(1, 3), d)), ib.SoftGates(draw.normal(2, d), 2.0)]
    kinds += [problems.fitted_gates(draw, draw.normal(5, d)), ib.ConstantGate().fit(np.ones((1, d)))]
    layers = [draw.pick(kinds) for _ in range(draw.whole(1, 3))]
    bad: list[Any] = [[], (), [*layers, ReLUGates(np.ones((2, d + 1)))], [*layers, ib.ConstantGate()], [*layers, None]]
    return draw.either(layers, [*bad, layers[0], "gates", 3, None, {0: layers[0]}, iter(layers), np.array([1.0])])


def _inner(draw: Draw) -> Given:
    inner = HyperplaneGates(1, draw.pick([1, 2, 64, 2**20]), cutoff="random").fit(draw.normal(5, draw.sizes["d"]))
    return draw.either(inner, [HyperplaneGates(2, 2), HyperplaneGates(1, 2), None])


UNITS: dict[str, Any] = {"units": count(1, 2, 3, most=10**4), "cutoff": choice(*CUTOFFS, also=_is_cutoff), "seed": SEED}
CONTEXTS, PAIRED = choice(1, 2, 4, 8, also=is_power(2**10)), choice(2, 4, also=is_power(2**62, 2))
SHARPNESS, WEIGHTS = number(1.0, 0.1, 50, 1e-300, 1e300, np.float32(2)), numbers("k d")
PLANES: dict[str, Any] = {"directions": numbers("p d"), "cutoffs": numbers("p"), "contexts": PAIRED}
# What a median cannot divide, and too many gates, are refused.
_gates(HyperplaneGates, True, _samples, one_hot=True, contexts=CONTEXTS, **UNITS)
_gates(ib.RandomHalfSpaces, True, _samples, always_on=lambda draw: draw.chance(0.5), **UNITS)
_gates(HyperplaneGates.from_hyperplanes, True, _planes, one_hot=True, **PLANES)
_gates(ib.ReLUGates, weights=WEIGHTS)
_gates(ib.ConstantGate, one_hot=True)
_gates(ib.ProductGates, layers=_layers)
_gates(ib.SoftGates, X=numbers("n d", [1.0, 0.0, 1e-150, 1e150, 1e300]), weights=WEIGHTS, sharpness=SHARPNESS)
_gates(ib.OccupiedRegions, one_hot=True, regions=_inner)


class _Halves(ib.Gates):
    """Gates of the user's own; `kind` says what is wrong with them."""

    def __init__(self, kind: str = "fine") -> None:
        self.kind = kind

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        self.n_features_in_ = np.shape(X)[1]
        self.groups = np.array({"float groups": [0.5, 1.0], "few groups": [0]}.get(self.kind, [0, 1]))
        return self

    def transform(self, X: Any) -> Any:
        values = halves(self._fitted_inputs(X))
        changes: dict[str, Any] = {"nan": values * np.nan, "few rows": values[:1], "text": "gates", "none": None}
        return changes.get(self.kind, values)


def halves(X: Array) -> Array:
    """Two gates, of which one is open."""
    return np.column_stack([X[:, 0] > 0, X[:, 0] <= 0]).astype(float)


@entry(ib.Gates)
def _own_gates(draw: Draw) -> str:
    """Gates of the user's own, sound or broken, and the abstract base class itself."""
    X, y = problems.clean_task(draw)
    kinds = ["fine", "fine", "nan", "few rows", "text", "float groups", "few groups", "abstract", "none"]
    kind = draw.kind("own gates", kinds)
    gates = draw.call(ib.Gates) if kind == "abstract" else _Halves(kind)
    problem = draw.call(ib.svm_gln, X=X, y=y, gates=gates, must=kind not in ("fine", "none"), may=True)
    return judge(Raw.gated(X, halves(X), y, "groups", groups=[0, 1]), solve(problem))
