"""Cases about features, norms and the builders of problems."""

import math
from typing import Any

import numpy as np
import pandas as pd
import torch

import implicit_bias as ib
from implicit_bias import Frobenius, GatedFeatures, KernelFeatures, solve
from tests.fuzz import problems
from tests.fuzz.draw import DIMENSIONS, Draw, Given, expect, in_range
from tests.fuzz.judge import Raw, judge
from tests.fuzz.strategies import choice, count, is_power, never, number
from tests.fuzz.table import entry, row
from tests.fuzz.values import NOT_FINITE, Array, close

# ------------------------------------------------------------------------------------------------------------ features


def _linear_in(found: Any, expected: Any, sizes: Any) -> None:
    """Equality up to 1e-13 of the sum of the sizes of what was added, and underflow."""
    expect(found.shape == expected.shape, f"shape {found.shape}, not {expected.shape}")
    room = 1e-13 * np.asarray(sizes, dtype=np.longdouble) + np.longdouble(1e-300)
    difference = np.abs(np.asarray(found, dtype=np.longdouble) - expected)
    # A sum beyond float64 is an infinity, and nothing else may be one.
    expect(np.all((difference <= room) | (sizes > np.finfo(float).max / 2)), "other values")


@entry(GatedFeatures, share=5)
def _gated_features(draw: Draw) -> None:
    """The operator and what belongs to it, against its dense matrix."""
    X, _ = problems.samples(draw)
    features, raw = problems.gated_features(draw, X, problems.gate_values(draw, len(X)))
    dense, (n, k, d) = raw.blocks, raw.blocks.shape
    flat, identity = dense.reshape(n, -1), Given(np.eye(k * d), np.eye(k * d).reshape(k, d, -1), "all weights")
    rows = [n - 1, 0]
    operations: dict[str, tuple[Any, Given, str]] = {
        "apply": (features.apply, draw.array(draw.normal(k, d), but=NOT_FINITE), "nkd,kd->n"),
        "adjoint": (features.adjoint, draw.array(draw.normal(n), but=NOT_FINITE), "nkd,n->kd"),
        "mixed": (lambda T: features.mixed(T).dense(), draw.array(draw.normal(k, 2)), "nkd,kj->njd"),
        "gram": (features.gram, Given(None, dense, ""), "nkd,mkd->nm"),
        "dense": (features.dense, Given(None, identity.plain, ""), "nkd,kdj->nj"),
        "select": (lambda rows: features.select(rows).dense(), Given(rows, np.eye(n)[rows], "rows"), "nkd,mn->mkd"),
        "scaled": (lambda v: features.scaled(v).dense(), Given(-2.0, np.array(-2.0), "-2.0"), "nkd,->nkd"),
    }
    function, given, formula = operations[draw.kind("operation", list(operations))]
    sizes = np.einsum(formula, np.abs(dense), np.abs(given.plain)) if given.plain is not None else np.zeros(1)
    # A Gram matrix of large features is refused.
    found = draw.call(function, *([] if given.value is None else [given]), may=bool((sizes > 1e300).any()))
    _linear_in(found.reshape(sizes.shape), np.einsum(formula, dense, given.plain), sizes)
    odd: Any = draw.pick([[n], "x", [[0, 0]], 1.5, None, []])
    _linear_in(draw.call(features.row_norms), np.sqrt(np.sum(flat**2, axis=1)), np.sqrt(np.sum(flat**2, axis=1)))
    expect(np.array_equal(draw.call(features.closed), ~flat.any(axis=1)), "closed samples")
    if draw.chance(draw.badness):
        draw.call(features.select, odd, must=True)


@entry(KernelFeatures, share=3)
def _kernel_features(draw: Draw) -> None:
    """Blocks from kernels: their Gram matrix is the sum of the kernels; new samples extend it."""
    n, k = draw.whole(2, 8), draw.whole(1, 3)
    factors = draw.normal(n, k, draw.whole(1, 4)) * draw.pick([1.0, 1e-100, 1e100, 0.0])
    draw.call(KernelFeatures, draw.array(factors))
    kernels = np.einsum("nkr,mkr->knm", factors, factors)
    top = 1.0 + 2 * abs(kernels).max()
    odd = {"not symmetric": kernels + top * np.eye(n, k=1), "not definite": kernels - top * np.eye(n)}
    variants: dict[str, Any] = {"kernels": (kernels, "good")} | {name: (v, "bad") for name, v in odd.items()}
    features = draw.call(KernelFeatures.from_kernels, draw.variant("kernels", variants))
    room = np.broadcast_to(1e10 * np.max(np.abs(kernels)), (n, n))
    _linear_in(features.gram(), kernels.sum(axis=0), room)
    extended, W = draw.call(features.extended, draw.array(kernels[:, :2], rounded=False)), features.adjoint(np.ones(n))
    _linear_in(extended @ W, (features @ W)[:2], n * room[0, :2])


# --------------------------------------------------------------------------------------------------------------- norms


def _check_norm(draw: Draw, norm: Any, k: int, about: str, scaled: bool = True, **more: Any) -> None:
    """A norm's value and dual norm, against their formulas."""
    raw = Raw(np.ones((1, k, 1)), np.ones(1), about, **more)
    factor = draw.pick([1.0, 1e-200, 1e200, 1e-300, 0.0]) if scaled else 1.0
    W, which = draw.array(factor * draw.normal(k, draw.whole(1, 4))), draw.pick(["value", "dual"])
    found = draw.call(getattr(norm, which), W)
    expected = getattr(raw, which)(W.plain)
    fine = expected > 1e308 or abs(np.longdouble(found) - expected) <= 1e-9 * expected + 1e-320
    expect(fine and repr(norm), f"{which} is {found!r}, not {float(expected)!r}")


entry(Frobenius)(lambda draw: _check_norm(draw, draw.call(Frobenius), draw.whole(1, 4), "frobenius"))
BAD_GROUPS: list[Any] = [
    *([0.5], [], [[0]], None, "01", [None], [True], [2**70], [0, [1]], 3, np.array(1), {0: 1}, object(), [math.nan]),
    *(torch.tensor([1.0], requires_grad=True), np.array([1j]), pd.Series(["a"]), (i for i in [1]), np.array(["1"])),
    *(np.ma.masked_array([0, 1], [False, True]), torch.tensor([[1]])),
]


@entry(ib.GroupLasso, share=4)
def _group_lasso(draw: Draw) -> None:
    """Odd groups and weights; the value is that of the formula."""
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
    norm = draw.call(ib.GroupLasso, groups=given, **more)
    _check_norm(draw, norm, k, "groups", groups=given.plain.tolist(), weights=weights.plain if more else None)


def _is_predictor_norm(c: Any, norm: Any) -> bool:
    """‖β‖ over all global contexts, where they can be counted."""
    H, K = c.units, c.contexts
    if max(H, K) > 64 or K**H * H * K > 10_000:
        return True
    raw = Raw(np.ones((1, H * K, 1)), np.ones(1), "predictor", shape=(H, K))
    # The dual norm is finite for what one-hot contexts give.
    V, W = problems.one_hot(c.draw, 5, H, K).T @ c.draw.normal(5, 3), c.draw.normal(H * K, 2)
    return close(norm.dual(V), raw.dual(V), 1e-7) and close(norm.value(W), raw.value(W))


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
