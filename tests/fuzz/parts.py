"""Cases about features, norms and the builders of problems."""

from functools import partial
from typing import Any

import cvxpy as cp
import numpy as np
import pandas as pd
import torch

import implicit_bias as ib
from implicit_bias import Frobenius, GatedFeatures, KernelFeatures, MarginProblem, datasets
from implicit_bias.features import Features
from implicit_bias.norms import Norm
from tests.cases import OwnFeatures, OwnNorm
from tests.fuzz import problems
from tests.fuzz.draw import DIMENSIONS, Draw, Given, expect, in_range
from tests.fuzz.strategies import count, numbers
from tests.fuzz.table import entry, row
from tests.fuzz.values import NOT_FINITE

# ------------------------------------------------------------------------------------------------------------ features


def _operation(draw: Draw, features: Any) -> None:
    """Products of features and another factor have their shape, and are the same for every disguise of the other."""
    n, k, d = features.shape
    rows = draw.either([0, 0], [[99], "x", [[0, 0]], 1.5, None])
    operations: dict[str, tuple[Any, Any, tuple[int, ...]]] = {
        "apply": (features.apply, draw.array(draw.normal(k, d), but=NOT_FINITE), (n,)),
        "adjoint": (features.adjoint, draw.array(draw.normal(n), but=NOT_FINITE), (k, d)),
        "mixed": (lambda T: features.mixed(T).dense(), draw.array(draw.normal(k, 2), but=["sparse"]), (n, 2 * d)),
        "select": (lambda rows: features.select(rows).dense(), rows, (2, k * d)),
        "scaled": (lambda v: features.scaled(v).dense(), draw.either(-2.0, ["2", None, np.nan]), (n, k * d)),
    }
    function, given, shape = draw.among("operation", operations)
    # What leaves floating point is refused.
    sizes = np.abs(features.dense()).max() * np.array([1e-100, 1e100], np.longdouble)
    with np.errstate(over="ignore", invalid="ignore"):
        found = draw.call(function, given, may=not in_range(sizes), same=1e-12)
    expect(found.shape == shape, f"shape {found.shape}, not {shape}")


@entry(GatedFeatures, share=5)
def _features(draw: Draw) -> None:
    _operation(draw, problems.features(draw)[0])


@entry(ib.SubsetFeatures)
def _subset_features(draw: Draw) -> None:
    n, d, units, count = (draw.whole(1, 4) for _ in range(4))
    contexts, subsets = draw.rng.integers(0, count, (n, units)), draw.rng.integers(0, d, (units, draw.whole(1, 2)))
    parts = {"contexts": draw.either(contexts, [contexts + count, contexts[0], contexts + 0.5])}
    parts |= {"subsets": draw.either(subsets, [subsets + d, subsets[0], -1 - subsets])}
    X = draw.array(draw.normal(n, d))
    _operation(draw, draw.call(lambda **given: ib.SubsetFeatures(**given, count=count), X=X, **parts))


@entry(Features)
def _own_features(draw: Draw) -> None:
    features, _ = problems.features(draw)
    _operation(draw, OwnFeatures(features.dense().reshape(features.shape)))


def _kernels(draw: Draw) -> Given:
    """Kernels (k, n, n), which may be of no features."""
    n, k = draw.whole(2, 8), draw.whole(1, 3)
    factors = draw.normal(n, k, draw.whole(1, 4)) * draw.pick([1.0, 1e-100, 1e100, 0.0])
    kernels = np.einsum("nkr,mkr->knm", factors, factors)
    top = 1.0 + 2 * abs(kernels).max()
    bad = {"not symmetric": kernels + top * np.eye(n, k=1), "not definite": kernels - top * np.eye(n)}
    variants: dict[str, Any] = {"kernels": (kernels, "good")} | {name: (v, "bad") for name, v in bad.items()}
    return draw.variant("kernels", variants)


row(KernelFeatures.from_kernels, name="KernelFeatures", kernels=_kernels, same=None)
row(ib.PrecomputedKernel, K=numbers("k k"), finite=False)

# --------------------------------------------------------------------------------------------------------------- norms


def _norm(kind: Any, *groups: Any, **options: Any) -> None:
    """The sizes of weights in a norm and in its dual, the same for a disguise."""

    def sizes(W: Any, **parts: Any) -> Any:
        norm = kind(**parts)
        return norm.value(W), norm.dual(np.ones(np.shape(W)))

    W = numbers("k d", [1.0, 1e-200, 1e200, 1e-300, 0.0])
    row(sizes, *groups, like=kind, name=kind.__name__, share=4, fine=lambda c, found: min(found) >= 0, W=W, **options)


def _groups(draw: Draw) -> dict[str, Any]:
    k = draw.sizes.setdefault("k", draw.whole(1, 6))
    groups = draw.rng.choice(draw.pick([[0], [0, 1], [-(2**62), 2**62], list(range(k))]), k)
    forms: dict[str, Any] = {"list": groups.tolist(), "uint64": groups.astype(np.uint64)}
    forms |= {"tensor": torch.tensor(groups)}
    forms |= {"pandas": pd.Series(groups, index=range(k, 0, -1)), "big-endian": groups.astype(">i8")}
    bad: list[Any] = [[0.5], [], [[0]], None, "01", [True], [2**70], [0, [1]], (i for i in [1]), np.array(["1"])]
    weights = draw.array(np.exp(draw.normal(len(set(groups)))), rounded=False, but=[*DIMENSIONS, "a number"])
    given: dict[str, Any] = {"groups": draw.either(draw.among("groups", forms), bad)}
    return given | {"weights": weights if draw.chance(0.5) else 1.0}


def _shape(draw: Draw) -> dict[str, Any]:
    """Units and contexts, and weights for all of them unless these are too many."""
    contexts = count(1, 2, 3, 5, np.int8(4), vast=64)(draw)
    shape = {"units": count(1, 2, 3, np.int8(2), vast=64)(draw), "contexts": contexts}
    good = all(part.verdict == "good" for part in shape.values())
    draw.sizes["k"] = min(100, shape["units"].plain * shape["contexts"].plain) if good else 1
    return shape


_norm(Frobenius)
_norm(ib.GroupLasso, _groups)
_norm(ib.PredictorL2, _shape, may=lambda c: c.units * c.contexts > 64)


def _matrices(draw: Draw) -> dict[str, Any]:
    """Groups of equal rows, in any order, or of unequal ones."""
    H, R, C = draw.whole(1, 3), draw.whole(1, 3), draw.whole(1, 2)
    order = draw.rng.permutation(H * R * C)
    groups, rows = np.repeat(np.arange(H), R * C)[order], np.tile(np.repeat(np.arange(R), C), H)[order]
    draw.sizes["k"] = len(groups)
    renamed = np.where(order == 0, 7, rows)
    bad: list[Any] = [rows[:-1], np.append(rows, 0), rows + 0.5, None, "rows", *[renamed] * (H * C > 1)]
    return {"groups": draw.either(groups, [None, "01", [0.5]]), "rows": draw.either(rows.tolist(), bad)}


_norm(ib.NuclearNorm, _matrices)


def _layers(draw: Draw) -> dict[str, Any]:
    """Groups, norms of two layers that are convex together or not, and multiplicities."""
    given = _groups(draw)
    inner = draw.pick(["frobenius", "rows", "entries", "l1", "spectral"])
    bad: list[Any] = ["Rows", None, 2, ""]
    outer = "l_inf" if inner in ("l1", "spectral") else "l2"
    return {
        "groups": given["groups"],
        "input_layer": draw.either(inner, bad),
        "output_layer": draw.either(outer, [*bad, *(["l1"] if outer == "l_inf" else [])]),
        "multiplicities": given["weights"],
    }


_norm(ib.TwoLayerNorm, _layers, may=lambda c: c.input_layer == "spectral")


def _of(draw: Draw, make: Any) -> Any:
    X, y = problems.clean_task(draw)
    features = GatedFeatures(X, problems.one_hot(draw, len(X), draw.whole(1, 2), 2))
    return draw.call(lambda make: MarginProblem(features, y, make()), make)


@entry(Norm)
def _own_norm(draw: Draw) -> str:
    """A norm of the user's own, which only CVXPY's solvers take."""
    return problems.judged(_of(draw, OwnNorm), "nuclear", draw.pick(["SCS", "CLARABEL"]), tol=1e-3, max_iterations=2000)


@entry(ib.ExpressionNorm, share=3)
def _expression_norm(draw: Draw) -> str:
    """A norm from a CVXPY expression; what is no norm is refused."""
    good = {"frobenius": lambda W: cp.norm(W, "fro"), "nuclear": cp.normNuc}
    bad: list[Any] = [cp.sum_squares, lambda W: -cp.norm(W, "fro"), lambda W: W, lambda W: 3.0, cp.sum, 3, "W >= 0"]
    kind = draw.kind("norm", list(good))
    given = draw.either(good[kind], bad)
    given.value = partial(ib.ExpressionNorm, given.value)
    return problems.judged(_of(draw, given), kind, tol=1e-4, max_iterations=10**4)


# ------------------------------------------------------------------------------------------------------------ builders


class _Pretender:
    gates = None
    hidden = 3


def _task(draw: Draw) -> dict[str, Any]:
    X, y = problems.clean_task(draw)
    draw.sizes["d"] = X.shape[1]
    return {"X": draw.array(X, rounded=False), "y": draw.array(y, rounded=False)}


def _network(draw: Draw) -> Given:
    d = draw.sizes["d"]
    return draw.either(
        ib.ReLUNetwork(d, 3, seed=draw.whole(0, 9)), [_Pretender(), ib.ReLUNetwork(99, 2), None, "network"]
    )


def _contexts(draw: Draw) -> Given:
    gates = problems.fitted_gates(draw, draw.normal(20, draw.sizes["d"]))
    return draw.either(gates, [_Pretender(), ib.HyperplaneGates, None, "gates", 3])


def _optimiser(draw: Draw) -> Given:
    good = ["gd", "sign", "adam", "muon", "muon-sign", ("rows", "l_inf"), ("entries", "l1")]
    return draw.either(draw.pick(good), ["Adam", ("spectral", "l1"), ("rows",), ["rows", "l2"], None, 3])


def _certified(problem: Any) -> bool:
    """True if the answer is proved, and its objective is that of its weights."""
    found = ib.solve(problem)
    if found.status.inseparable:
        return problem.hard
    slack = np.maximum(problem.required_margin - problem.margins(found.weights, found.intercept), 0.0)
    cost = problem.norm.value(found.weights) + (0.0 if problem.hard else problem.upper_bounds @ slack)
    return found.status.name == "OPTIMAL" and bool(np.isclose(found.objective, cost, rtol=1e-9))


def _builder(builder: Any, fine: Any = problems.judged, **part: Any) -> None:
    small = lambda c: getattr(c, "C", 1.0) != np.inf and not in_range(float(getattr(c, "C", 1.0)) * 1e3)  # noqa: E731
    row(builder, _task, share=2, finite=False, may=small, fine=lambda c, problem: fine(problem), **part)


_builder(ib.svm_gln, gates=_contexts)
_builder(ib.svm_rc, gates=_contexts)
_builder(ib.svm_l2, gates=_contexts)
_builder(ib.svm_shallow, gates=_contexts)
_builder(ib.svm_of_optimiser, _certified, gates=_contexts, optimiser=_optimiser)
_builder(ib.svm_lc, network=_network)
_builder(ib.svm_hl, network=_network)


@entry(ib.svm_classes)
def _classes(draw: Draw) -> str:
    """Several classes at once, solved to the optimum of their pairs."""
    X, _ = problems.clean_task(draw)
    n = len(X)
    labels = np.array(draw.pick([["a", "b", "c"], [0, 1, 2], [2.0, -1.0, 7.0]]))[np.arange(n) % draw.pick([2, 3])]
    bad = [labels[:-1], np.zeros(n), np.arange(n) / 4, None, [[1], [2]], 3]
    gates = draw.either(problems.fitted_gates(draw, X), [None, "gates", ib.HyperplaneGates])
    parts: dict[str, Any] = {"C": 0.1, "shared": draw.chance(0.5)}
    problem = draw.call(ib.svm_classes, draw.array(X, rounded=False), draw.either(labels, bad), gates, **parts)
    solution = ib.solve(problem, tol=1e-4)
    expect(solution.gap <= 1e-4 or solution.status is not ib.Status.OPTIMAL, "OPTIMAL with a gap")
    scores = problem.decision_function(solution.weights, X)
    expect(scores.shape == (n, len(set(labels.tolist()))) and np.isfinite(scores).all(), "scores of another shape")
    return "correct"


@entry(ib.interpolation)
def _interpolation(draw: Draw) -> str:
    """Targets of one or two outputs, met to their tolerances by certified weights."""
    n, outputs, tolerance = draw.whole(1, 6), draw.whole(1, 2), draw.pick([0.0, 0.1])
    X, t = draw.normal(n, 8), draw.normal(n, outputs)
    parts = {"norm": draw.either(draw.pick([None, ib.Frobenius(), ib.GroupLasso(range(outputs))]), ["l2", 3])}
    problem = draw.call(
        ib.interpolation,
        draw.array(X, rounded=False),
        # One target of one sample needs no second dimension.
        draw.array(t, rounded=False, but=["one dimension less"] if t.size == 1 else []),
        tolerance=tolerance,
        **parts,
    )
    found = ib.solve(problem)
    expect(found.status.name == "OPTIMAL", found.status.name)
    expect(np.abs(X @ found.weights.T - t).max() <= tolerance + 1e-9, "targets missed")
    return "correct"


@entry(ib.ClassMarginProblem, share=1)
def _class_problem(draw: Draw) -> None:
    """One made by hand: classes that do not belong to its weights are refused."""
    X, _ = problems.clean_task(draw)
    made = ib.svm_classes(X, np.arange(len(X)) % 3, problems.fitted_gates(draw, X), shared=draw.chance(0.5))
    parts = {"y": made.y, "norm": made.norm, "C": 1.0, "gates": made.gates}
    classes = draw.either([0, 1, 2], [[0], [[0, 1, 2]]])
    again = draw.call(ib.ClassMarginProblem, made.features, classes=classes, **parts)
    expect(repr(again) != "" and again.outputs(np.zeros(made.features.shape[1:])).shape[0] == 3, "other outputs")


@entry(ib.ChunkedInputs)
def _chunked_inputs(draw: Draw) -> None:
    """Bytes or floats that are scaled chunk by chunk are what they are scaled at once."""
    n, d = draw.whole(1, 9), draw.whole(1, 4)
    source = draw.rng.integers(0, 256, (n, d)).astype(draw.pick([np.uint8, np.int16, np.float32, np.float64]))
    bad: list[Any] = [None, "bytes", source.astype(str), source[:0], source[0], source.astype(complex)]
    given = draw.either(source, bad)
    options = {
        "scale": draw.either(draw.pick([1.0, 1 / 255, 0.5]), ["x", np.nan, [1.0] * (d + 1)]),
        "offset": draw.either(draw.pick([0.0, -1.0]), ["x", np.inf]),
        "chunk": draw.either(draw.pick([1, 2, 5, None]), [-3, "two", 1.5]),
    }
    inputs = draw.call(ib.ChunkedInputs, given, **options)
    expected = source.astype(np.float64) * options["scale"].plain + options["offset"].plain
    expect(np.array_equal(np.asarray(inputs), expected), "other numbers than those scaled at once")


@entry(ib.ChunkedFeatures)
def _chunked_features(draw: Draw) -> None:
    """Features in chunks are those of the whole."""
    n, k, d = draw.whole(1, 9), draw.whole(1, 3), draw.whole(1, 4)
    X, values = draw.normal(n, d), draw.rng.integers(0, 2, (n, k)).astype(draw.pick([np.int8, np.float64]))
    inputs = draw.either(ib.ChunkedInputs(X, chunk=draw.whole(1, 4)), [X, None, "X"])
    found = draw.call(ib.ChunkedFeatures, inputs, draw.either(values, [values[:-1], "G", values[0]]))
    whole, W = GatedFeatures(X, values), draw.normal(k, d)
    expect(np.allclose(found @ W, whole @ W, rtol=1e-12, atol=1e-12), "another ΦW")


@entry(datasets.distorted_images, share=1)
def _distorted(draw: Draw) -> None:
    """Distorted copies of a data set whose files are missing are refused, and nothing is written."""
    name = draw.either("mnist", ["digits", "cifar", None])
    draw.call(datasets.distorted_images, name, draw.either(5, [0, -1, "5"]), draw.folder, root=draw.folder, must=True)
    expect(not list(draw.folder.glob("*.npy")), "something was written")
