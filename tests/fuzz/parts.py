"""Cases about features, norms and the builders of problems."""

import math
from typing import Any

import numpy as np
import pandas as pd
import torch

import implicit_bias as ib
from implicit_bias import Frobenius, GatedFeatures, KernelFeatures, solve
from tests.fuzz import problems
from tests.fuzz.draw import DIMENSIONS, Draw, expect, in_range
from tests.fuzz.judge import Raw, judge
from tests.fuzz.strategies import choice, count, is_power, never, number
from tests.fuzz.table import entry, row
from tests.fuzz.values import NOT_FINITE, Array

# ------------------------------------------------------------------------------------------------------------ features


@entry(GatedFeatures, share=5)
def _gated_features(draw: Draw) -> None:
    """What is made of features has its shape, and is the same for whatever the other factor came as."""
    X, _ = problems.samples(draw)
    features, raw = problems.gated_features(draw, X, problems.gate_values(draw, len(X)))
    (n, k, d), rows = raw.blocks.shape, draw.either([0, 0], [[99], "x", [[0, 0]], 1.5, None])
    operations: dict[str, tuple[Any, Any, tuple[int, ...]]] = {
        "apply": (features.apply, draw.array(draw.normal(k, d), but=NOT_FINITE), (n,)),
        "adjoint": (features.adjoint, draw.array(draw.normal(n), but=NOT_FINITE), (k, d)),
        "mixed": (lambda T: features.mixed(T).dense(), draw.array(draw.normal(k, 2)), (n, 2 * d)),
        "select": (lambda rows: features.select(rows).dense(), rows, (2, k * d)),
        "scaled": (lambda v: features.scaled(v).dense(), draw.either(-2.0, ["2", None, np.nan]), (n, k * d)),
    }
    function, given, shape = operations[draw.kind("operation", list(operations))]
    # What leaves floating point is refused.
    found = draw.call(function, given, may=bool(np.abs(raw.blocks).max(initial=0) > 1e140), same=0.0)
    expect(found.shape == shape, f"shape {found.shape}, not {shape}")
    expect(np.array_equal(draw.call(features.closed), draw.call(features.row_norms) == 0), "closed samples have sizes")
    expect(draw.call(features.gram, may=True).shape == (n, n), "another Gram matrix")


@entry(KernelFeatures, share=3)
def _kernel_features(draw: Draw) -> None:
    """Blocks from factors and from kernels, which new samples extend."""
    n, k = draw.whole(2, 8), draw.whole(1, 3)
    factors = draw.normal(n, k, draw.whole(1, 4)) * draw.pick([1.0, 1e-100, 1e100, 0.0])
    draw.call(KernelFeatures, draw.array(factors))
    kernels = np.einsum("nkr,mkr->knm", factors, factors)
    top = 1.0 + 2 * abs(kernels).max()
    odd = {"not symmetric": kernels + top * np.eye(n, k=1), "not definite": kernels - top * np.eye(n)}
    variants: dict[str, Any] = {"kernels": (kernels, "good")} | {name: (v, "bad") for name, v in odd.items()}
    features = draw.call(KernelFeatures.from_kernels, draw.variant("kernels", variants))
    extended = draw.call(features.extended, draw.array(kernels[:, :2], rounded=False))
    expect(np.isfinite(extended @ features.adjoint(np.ones(n))).all(), "no scores of new samples")


# --------------------------------------------------------------------------------------------------------------- norms


def _check_norm(draw: Draw, norm: Any, k: int) -> None:
    """A norm and its dual: finite sizes, the same for a disguise, that bound ⟨W, V⟩ between them."""
    factor, columns = draw.pick([1.0, 1e-200, 1e200, 1e-300, 0.0]), draw.whole(1, 4)
    W, V = factor * draw.normal(k, columns), draw.normal(k, columns)
    value = draw.call(norm.value, draw.array(W), same=1e-9)
    most = norm.value(W) * norm.dual(V)
    expect(value >= 0 and abs(np.sum(W * V)) <= most * (1 + 1e-9) + 1e-300 and repr(norm), "its dual is another norm's")


entry(Frobenius)(lambda draw: _check_norm(draw, draw.call(Frobenius), draw.whole(1, 4)))
BAD_GROUPS: list[Any] = [
    *([0.5], [], [[0]], None, "01", [None], [True], [2**70], [0, [1]], 3, np.array(1), {0: 1}, object(), [math.nan]),
    *(torch.tensor([1.0], requires_grad=True), np.array([1j]), pd.Series(["a"]), (i for i in [1]), np.array(["1"])),
    *(np.ma.masked_array([0, 1], [False, True]), torch.tensor([[1]])),
]


@entry(ib.GroupLasso, share=4)
def _group_lasso(draw: Draw) -> None:
    """Odd groups and weights; the norm and its dual belong together."""
    k = draw.whole(1, 6)
    groups = draw.rng.choice(draw.pick([[0], [0, 1], [-(2**62), 2**62], list(range(k))]), k)
    kinds: dict[str, Any] = {
        "list": groups.tolist(),
        "int8": (groups % 100).astype(np.int8),
        "uint64": groups.astype(np.uint64),
        "big-endian": groups.astype(">i8"),
        "pandas": pd.Series(groups, index=range(k, 0, -1)),
        "tensor": torch.tensor(groups),
        "strided": np.repeat(groups, 2)[::2],
    }
    given = draw.either(kinds[draw.kind("groups", list(kinds))], BAD_GROUPS)
    given.plain = None if given.plain is None else np.asarray(given.value)
    labels = 1 if given.plain is None else len(set(given.plain.tolist()))
    weights = draw.array(np.exp(draw.normal(labels)), rounded=False, but=[*DIMENSIONS, "a number"])
    more = {"weights": weights} if draw.chance(0.5) else {}
    _check_norm(draw, draw.call(ib.GroupLasso, groups=given, **more), k)


def _is_predictor_norm(c: Any, norm: Any) -> bool:
    """Finite where its global contexts are few, and zero for no weights alone."""
    size = c.units * c.contexts
    W = np.zeros((size, 2)) if size <= 64 else None
    return W is None or bool(norm.value(W) == 0 and 0 < norm.value(W + 1) < np.inf)


UNITS, CONTEXTS = count(1, 2, 3, np.int8(2), vast=64), choice(1, 2, 4, also=is_power(2**70))
row(ib.PredictorL2, units=UNITS, contexts=CONTEXTS, may=lambda c: c.contexts > 64, fine=_is_predictor_norm)

# ------------------------------------------------------------------------------------------------------------ builders


class _Pretender:
    """What has attributes of the right names, and nothing behind them."""

    gates = None
    hidden = 3


def _builder(builder: Any, raw: Any, share: int = 2, gates: Any = None, deep: bool = True) -> None:
    """A builder on given inputs: the problem is the one that its gates make, or those of a network."""

    def run(draw: Draw) -> str:
        X, y = problems.clean_task(draw)
        d = X.shape[1]
        given: dict[str, Any] = {"X": draw.array(X, rounded=False), "y": draw.array(y, rounded=False)}
        if gates is None:
            bad: list[Any] = [_Pretender(), ib.svm_gln(X, y, ib.ConstantGate()), ib.ReLUNetwork(99, 2), None, "network"]
            bad += [] if deep else [ib.ReLUNetwork(d, [2, 2]), ib.ReLUNetwork(d, 2, outputs=2)]
            given["network"] = draw.either(ib.ReLUNetwork(d, 3, seed=draw.whole(0, 9)), bad)
        else:
            given["gates"] = draw.scalar([gates(draw, X)], never)
        given["C"] = C = number(np.inf, 1.0, 0.1, also=lambda v: v == np.inf)(draw)
        small = lambda c: np.inf != c.C and not in_range(float(c.C) * 1e3, float(c.C) / 1e3)  # noqa: E731
        problem = draw.call(builder, may=small, **given)
        about = raw(problem, given["X"].plain, given["network"].plain if gates is None else None)
        return judge(Raw.gated(y=given["y"].plain, C=float(C.value), **about), solve(problem))

    entry(builder, share)(run)


def _of_gates(norm: str) -> Any:
    """What the gate values of a problem make of it."""

    def raw(problem: Any, X: Array, network: Any) -> dict[str, Any]:
        shape = {"shape": (problem.gates.units, problem.gates.contexts)} if norm == "predictor" else {}
        groups = {"groups": problem.gates.groups} if norm == "groups" else {}
        return {"X": X, "G": problem.features.gate_values, "norm": norm} | shape | groups

    return raw


def _opened(problem: Any, X: Array, network: Any) -> dict[str, Any]:
    G = X @ network.gates().directions_.T >= 0
    return {"X": X, "G": G, "norm": "groups", "groups": [0, 1, 2]}


def _hidden(problem: Any, X: Array, network: Any) -> dict[str, Any]:
    return {"X": network.hidden(X), "G": np.ones((len(X), 1)), "norm": "frobenius"}


def _spaces(draw: Draw, X: Array) -> Any:
    return ib.RandomHalfSpaces(3, seed=draw.whole(0, 9), cutoff=0.0, always_on=True)


_builder(ib.svm_gln, _of_gates("groups"), 3, problems.fitted_gates)
_builder(ib.svm_rc, _of_gates("groups"), 2, _spaces)
_builder(ib.svm_l2, _of_gates("predictor"), 2, problems.fitted_gates)
_builder(ib.svm_shallow, _of_gates("frobenius"), 2, problems.fitted_gates)
_builder(ib.svm_lc, _opened, deep=False)
_builder(ib.svm_hl, _hidden)
