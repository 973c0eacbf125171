"""Cases about features, norms, gates, builders, comparisons and tasks: each has its formula to be checked against."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import torch

from implicit_bias import (
    BinaryTask,
    ConstantGate,
    Frobenius,
    GatedFeatures,
    Gates,
    GroupLasso,
    HyperplaneGates,
    InputError,
    KernelFeatures,
    MarginProblem,
    OccupiedRegions,
    PredictorL2,
    RandomHalfSpaces,
    ReLUGates,
    ReLUNetwork,
    alignment,
    dataset_names,
    error,
    expected_inconsistency,
    inconsistency,
    load_binary,
    normalised_margin,
    optimality_ratio,
    predictions,
    solve,
    summarise,
    svm_gln,
    svm_hl,
    svm_l2,
    svm_lc,
    svm_rc,
    svm_shallow,
)
from odd import data
from odd.draw import NOT_FINITE, Array, Draw, Given, Verdict, close, copied, expect, in_range, is_count, is_number
from odd.judge import Raw, judge
from odd.surface import entry

# ------------------------------------------------------------------------------------------------------------ features


def _features(draw: Draw) -> tuple[GatedFeatures, Array]:
    """Features and their dense matrix (n, k, d) in longdouble."""
    X, _ = data.samples(draw)
    X_given = draw.array(X)
    G_given = draw.array(data.gate_values(draw, len(X)))
    if G_given.value is None:
        G_given = Given(None, np.ones((len(X), 1)), "no gates")
    features = draw.call(GatedFeatures, X_given, G_given, may_refuse=not data.features_in_range(X_given, G_given))
    return features, Raw.gated(X_given.plain, G_given.plain, np.ones(len(X)), "frobenius").blocks


def _linear_in(found: Any, expected: Any, sizes: Any) -> None:
    """Equality up to 1e-13 of the sum of the sizes of what was added, and underflow."""
    room = 1e-13 * np.asarray(sizes, dtype=np.longdouble) + np.longdouble(1e-300)
    difference = np.abs(np.asarray(found, dtype=np.longdouble) - expected)
    expect(found.shape == expected.shape, f"shape {found.shape}, not {expected.shape}")
    # A sum beyond float64 is an infinity, and nothing else may be one.
    beyond = sizes > np.finfo(float).max / 2
    expect(np.all((difference <= room) | beyond), "other values")


@entry("GatedFeatures", share=5)
def _gated_features(draw: Draw) -> str:
    """The operator and what belongs to it, against its dense matrix."""
    features, dense = _features(draw)
    n, k, d = dense.shape
    expect((features.n, features.k, features.d) == (n, k, d), "other sizes")
    what = draw.pick(["apply", "adjoint", "gram", "rows", "dense", "select", "scaled", "mixed", "reduced"])
    size = np.abs(dense)
    found: Any
    if what == "apply":
        W = draw.array(draw.normal(k, d))
        if W.note in NOT_FINITE:
            return "correct"
        found = draw.call(features.apply, W)
        _linear_in(found, np.einsum("nkd,kd->n", dense, W.plain), np.einsum("nkd,kd->n", size, abs(W.plain)))
    elif what == "adjoint":
        a = draw.array(draw.normal(n))
        if a.note in NOT_FINITE:
            return "correct"
        found = draw.call(features.adjoint, a)
        _linear_in(found, np.einsum("nkd,n->kd", dense, a.plain), np.einsum("nkd,n->kd", size, abs(a.plain)))
    elif what == "gram":
        flat = dense.reshape(n, -1)
        squares = abs(flat) @ abs(flat).T
        _linear_in(draw.call(features.gram, may_refuse=bool((squares > 1e300).any())), flat @ flat.T, squares)
    elif what == "rows":
        expected = np.sqrt(np.sum(dense**2, axis=(1, 2)))
        _linear_in(draw.call(features.row_norms), expected, expected)
        expect(np.array_equal(draw.call(features.closed), ~dense.any(axis=(1, 2))), "closed samples")
    elif what == "dense":
        _linear_in(draw.call(features.dense), dense.reshape(n, -1), size.reshape(n, -1))
    elif what == "select":
        rows: Any = draw.pick([[0], [n - 1, 0], np.arange(n) % 2 == 0, slice(0, 1), [n], "x", [[0, 0]], 1.5, None, []])
        outside = isinstance(rows, str | float | None) or (isinstance(rows, list) and rows in ([n], [[0, 0]], []))
        chosen = draw.call(features.select, rows, must_refuse=outside)
        _linear_in(chosen.dense(), dense[rows].reshape(-1, k * d), size[rows].reshape(-1, k * d))
    elif what == "scaled":
        factor = draw.scalar([2.0, 0.5, 1, -1.0], is_number())
        # Any other factor may lead out of range.
        found = draw.call(features.scaled, factor, may_refuse=factor.note not in ("2.0", "0.5", "1", "-1.0"))
        sized = size.reshape(n, -1) * abs(np.longdouble(factor.plain))
        _linear_in(found.dense(), dense.reshape(n, -1) * np.longdouble(factor.plain), sized)
    elif what == "mixed":
        T = draw.array(draw.normal(k, 2))
        found = draw.call(features.mixed, T).dense()
        expected = np.einsum("nkd,kj->njd", dense, T.plain).reshape(n, -1)
        _linear_in(found, expected, np.einsum("nkd,kj->njd", size, abs(T.plain)).reshape(n, -1))
    else:
        turned, V = draw.call(features.reduced)
        back = np.einsum("nkr,dr->nkd", turned.dense().reshape(n, k, -1).astype(np.longdouble), V)
        room = np.broadcast_to(np.max(size, axis=(0, 2), initial=0)[None, :, None] * max(n, d), back.shape)
        _linear_in(back.reshape(n, -1), dense.reshape(n, -1), 100 * room.reshape(n, -1))
    return "correct"


@entry("KernelFeatures", share=3)
def _kernel_features(draw: Draw) -> str:
    """Blocks from factors or kernels: their Gram matrix is the sum of the kernels; new samples extend it."""
    n, k = draw.whole(1, 8), draw.whole(1, 3)
    factors = draw.normal(n, k, draw.whole(1, 4)) * draw.pick([1.0, 1e-100, 1e100, 0.0])
    if draw.chance(0.3):
        given = draw.array(factors)
        features = draw.call(KernelFeatures, given)
        flat = given.plain.astype(np.longdouble).reshape(n, -1)
        _linear_in(draw.call(features.gram), flat @ flat.T, abs(flat) @ abs(flat).T)
        return "correct"
    kernels = np.einsum("nkr,mkr->knm", factors, factors)
    spoil = draw.pick(["no", "no", "no", "not symmetric", "not definite"])
    if spoil == "not symmetric" and n > 1:
        kernels[0, 0, 1] += 1.0 + 2 * abs(kernels).max()
    if spoil == "not definite":
        kernels[0] -= (1.0 + 2 * abs(kernels).max()) * np.eye(n)
    given = draw.array(kernels)
    # Rounded kernels may no longer be definite.
    spoiled = spoil != "no" and not (spoil == "not symmetric" and n == 1)
    rounded = given.plain is not None and not np.array_equal(given.plain, kernels)
    features = draw.call(KernelFeatures.from_kernels, given, may_refuse=rounded, must_refuse=spoiled and not rounded)
    total = np.sum(given.plain, axis=0)
    room = np.broadcast_to(1e4 * np.max(np.abs(given.plain), initial=0), total.shape)
    if not spoiled:
        _linear_in(features.gram(), total, room * (1e6 if rounded else 1))
    rows = draw.array(given.plain[:, : min(2, n)])
    extended = draw.call(features.extended, rows)
    if not rounded and not spoiled and np.array_equal(rows.plain, given.plain[:, : min(2, n)]):
        W = features.adjoint(np.ones(n))
        _linear_in(extended @ W, (features @ W)[: extended.n], 1e3 * np.broadcast_to(room.max() * n, extended.n))
    return "correct"


# --------------------------------------------------------------------------------------------------------------- norms


def _norm_of(draw: Draw, norm: Any, raw: Raw, k: int, scaled: bool = True) -> str:
    """A norm's value and dual norm, against their formulas."""
    factor = draw.pick([1.0, 1e-200, 1e200, 1e-300, 0.0]) if scaled else 1.0
    W = draw.array(factor * draw.normal(k, draw.whole(1, 4)))
    which = draw.pick(["value", "dual"])
    found = draw.call(getattr(norm, which), W)
    expected = getattr(raw, which)(W.plain)
    fine = expected > 1e308 or abs(np.longdouble(found) - expected) <= 1e-9 * expected + 1e-320
    expect(fine, f"{which} is {found!r}, not {float(expected)!r}")
    expect(repr(norm), "no name")
    return "correct"


def _raw(k: int, norm: str, **more: Any) -> Raw:
    return Raw(np.ones((1, k, 1)), np.ones(1), norm, **more)


@entry("Frobenius")
def _frobenius(draw: Draw) -> str:
    """‖W‖_F."""
    k = draw.whole(1, 4)
    return _norm_of(draw, draw.call(Frobenius), _raw(k, "frobenius"), k)


@entry("GroupLasso", share=4)
def _group_lasso(draw: Draw) -> str:
    """Odd groups and weights; the value is that of the formula."""
    k = draw.whole(1, 6)
    groups = draw.rng.choice(draw.pick([[0], [0, 1], [-(2**62), 2**62], list(range(k))]), k)
    kinds: dict[str, Any] = {
        "list": groups.tolist,
        "int8": lambda: (groups % 100).astype(np.int8),
        "uint64": lambda: groups.astype(np.uint64),
        "big-endian": lambda: groups.astype(">i8"),
        "pandas": lambda: pd.Series(groups, index=range(k, 0, -1)),
        "tensor": lambda: torch.tensor(groups),
        "strided": lambda: np.repeat(groups, 2)[::2],
    }
    kind = draw.pick(list(kinds))
    value = kinds[kind]()
    given = Given(value, np.asarray(value), f"groups: {kind}")
    if draw.chance(draw.badness):
        bad: list[Any] = [[0.5], [], [[0]], None, "01", [None], [True], [2**70], [0, [1]], 3, np.array(1), {0: 1}]
        bad += [torch.tensor([1.0], requires_grad=True), np.array([1j]), pd.Series(["a"]), object(), (i for i in [1])]
        bad += [np.ma.masked_array([0, 1], [False, True]), np.array(["1"]), [math.nan], torch.tensor([[1]])]
        value = draw.pick(bad)
        given = Given(value, None, f"groups {str(value)[:40]}", "bad")
    weights = None
    if draw.chance(0.5):
        labels = len(set(np.asarray(given.plain).tolist())) if given.plain is not None else 1
        weights = draw.array(np.exp(draw.normal(labels)), rounded=False)
        if weights.note in ("a number", "one dimension less"):
            weights = Given(2.0, np.full(labels, 2.0), "2.0")
    norm = draw.call(GroupLasso, given) if weights is None else draw.call(GroupLasso, given, weights)
    plain = given.plain.tolist()
    return _norm_of(draw, norm, _raw(k, "groups", groups=plain, weights=None if weights is None else weights.plain), k)


@entry("PredictorL2")
def _predictor(draw: Draw) -> str:
    """‖β‖ over all global contexts."""
    units = draw.scalar([1, 2, 3, np.int8(2)], is_count(most=10**600))
    contexts = draw.scalar([1, 2, 4], lambda v: is_count(most=2**70)(v) and bin(int(v)).count("1") == 1)
    huge = any(is_count(most=10**600)(g.value) and not is_count(most=64)(g.value) for g in (units, contexts))
    norm = draw.call(PredictorL2, units, contexts, may_refuse=huge)
    H, C = int(units.value), int(contexts.value)
    if huge or C**H * H * C > 10_000:
        return "correct"
    # The dual norm is finite for what one-hot contexts give.
    V = data.one_hot(draw, 5, H, C).T @ draw.normal(5, 3)
    raw = _raw(H * C, "predictor", shape=(H, C))
    expect(abs(norm.dual(V) - float(raw.dual(V))) <= 1e-7 * float(raw.dual(V)), "another dual norm")
    W = draw.normal(H * C, 2)
    expect(close(norm.value(W), raw.value(W), 1e-9), "another norm")
    return "correct"


# --------------------------------------------------------------------------------------------------------------- gates

CUTOFFS: list[Any] = ["median", "random", 0.0, -0.1, 3, (0.25, 0.75), [0.5, 0.5], (0, 1), np.float32(0.1)]


def _is_cutoff(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return len(value) == 2 and all(is_number(0, 1, ends=True)(v) for v in value) and value[0] <= value[1]
    return is_number(-1e308, 1e308)(value)


def _inputs(draw: Draw) -> Given:
    X, _ = data.samples(draw, scaled=False)
    return draw.array(X)


def _constant_projections(X: Array) -> bool:
    return bool((X[0] == X).all())


@entry("HyperplaneGates", share=5)
def _hyperplanes(draw: Draw) -> str:
    """Contexts: one open gate a unit, as the hyperplanes say; the same whatever the batch; params may be odd."""
    seed = draw.scalar([0, 1, 2**62, np.int64(3)], is_count(0, 2**63 - 1))
    units = draw.scalar([1, 2, 3], is_count(most=10**4))
    contexts = draw.scalar([1, 2, 4, 8], lambda v: is_count(most=2**10)(v) and bin(int(v)).count("1") == 1)
    cutoff = draw.scalar(CUTOFFS, _is_cutoff)
    given = _inputs(draw)
    # Data that a median cannot divide, and more gates than memory holds, are refused.
    gates = draw.call(_fitted(HyperplaneGates), given, units, contexts, seed, cutoff, may_refuse=True)
    values = draw.call(gates.transform, given, may_refuse=True)
    H, C = int(units.value), int(contexts.value)
    bits = C.bit_length() - 1
    opened = (given.plain @ gates.directions_.T > gates.cutoffs_).reshape(len(given.plain), H, bits)
    context = np.zeros((len(given.plain), H), dtype=object)
    for b in range(bits):
        context = 2 * context + opened[:, :, b]
    expected = np.array([[float(c == j) for c in row for j in range(C)] for row in context.tolist()])
    expect(np.array_equal(values, expected), "other contexts")
    expect(np.array_equal(gates.groups, np.repeat(np.arange(H), C)), "other groups")
    return "correct"


def _fitted(kind: type[Gates]) -> Callable[..., Any]:
    """Parameters are checked when gates are fitted, as scikit-learn asks."""

    def fit(X: Any, *parameters: Any) -> Any:
        return kind(*parameters).fit(X)

    return fit


@entry("HyperplaneGates.from_hyperplanes")
def _from_hyperplanes(draw: Draw) -> str:
    """Hyperplanes of the user's own."""
    p, d = draw.whole(1, 6), draw.whole(1, 4)
    contexts = draw.scalar([2, 4], lambda v: is_count(most=2**62)(v) and bin(int(v)).count("1") == 1 and v > 1)
    directions, cutoffs = draw.array(draw.normal(p, d)), draw.array(draw.normal(p))
    gates = draw.call(HyperplaneGates.from_hyperplanes, directions, cutoffs, contexts, may_refuse=True)
    new = draw.array(draw.normal(4, d))
    bits = int(contexts.value).bit_length() - 1
    opened = (new.plain @ directions.plain.T > cutoffs.plain) if new.plain is not None else np.zeros((4, p))
    found = draw.call(gates.contexts_of, new)
    expected = opened.reshape(4, -1, bits) @ [2**b for b in range(bits)][::-1]
    expect(np.array_equal(found, expected), "other contexts")
    return "correct"


@entry("RandomHalfSpaces", share=3)
def _half_spaces(draw: Draw) -> str:
    """Half-spaces: open where the projection exceeds the cutoff."""
    seed = draw.scalar([0, 1, np.int64(3)], is_count(0, 2**63 - 1))
    units = draw.scalar([1, 2, 3], is_count(most=10**4))
    cutoff = draw.scalar(CUTOFFS, _is_cutoff)
    always_on = draw.chance(0.5)
    given = _inputs(draw)
    gates = draw.call(_fitted(RandomHalfSpaces), given, units, seed, cutoff, always_on, may_refuse=True)
    values = draw.call(gates.transform, given)
    expected = (given.plain @ gates.directions_.T > gates.cutoffs_).astype(float)
    expect(np.array_equal(values[:, : int(units.value)], expected), "other gates")
    expect(values.shape[1] == len(gates.groups) == int(units.value) + always_on, "another number of gates")
    return "correct"


@entry("ReLUGates")
def _relu_gates(draw: Draw) -> str:
    """Open where the projection is not negative, zero included."""
    H, d = draw.whole(1, 4), draw.whole(1, 4)
    weights, new = draw.array(draw.normal(H, d)), draw.array(np.round(draw.normal(3, d)))
    gates = draw.call(ReLUGates, weights)
    found = draw.call(gates.transform, new)
    expect(np.array_equal(found, (new.plain @ weights.plain.T >= 0).astype(float)), "other gates")
    return "correct"


@entry("ConstantGate")
def _constant_gate(draw: Draw) -> str:
    """Ones, for inputs of the fitted width only; not before they are fitted."""
    gate = draw.call(ConstantGate)
    X = draw.array(draw.normal(4, 3))
    if draw.chance(0.2):
        draw.call(gate.transform, X, must_refuse=True)
    gate = draw.call(gate.fit, X)
    d = draw.whole(2, 3)
    new = draw.array(draw.normal(2, d))
    expect(np.array_equal(draw.call(gate.transform, new, must_refuse=d != 3), np.ones((2, 1))), "not ones")
    return "correct"


@entry("OccupiedRegions")
def _regions(draw: Draw) -> str:
    """One-hot gates of the regions that hold samples."""
    X = draw.array(draw.normal(6, 3))
    inner: Any = HyperplaneGates(1, draw.pick([1, 2, 64, 2**20]), cutoff="random").fit(draw.normal(5, 3))
    must_refuse = False
    if draw.chance(draw.badness):
        inner, must_refuse = draw.pick([(HyperplaneGates(2, 2), True), (HyperplaneGates(1, 2), True), (None, True)])
    regions = draw.call(draw.call(OccupiedRegions, inner).fit, X, must_refuse=must_refuse)
    found = draw.call(regions.transform, X)
    contexts = inner.contexts_of(X.plain)[:, 0]
    expected = np.array([[float(c == j) for j in sorted(set(contexts.tolist()))] for c in contexts.tolist()])
    expect(np.array_equal(found, expected), "other regions")
    return "correct"


class _Halves(Gates):
    """Gates of the user's own; `kind` says what is wrong with them."""

    def __init__(self, kind: str = "fine") -> None:
        self.kind = kind

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> _Halves:
        self.n_features_in_ = np.shape(X)[1]
        self.groups = np.array({"float groups": [0.5, 1.0], "few groups": [0]}.get(self.kind, [0, 1]))
        return self

    def transform(self, X: Any) -> Any:
        X = self._fitted_inputs(X)
        values: Any = np.column_stack([X[:, 0] > 0, X[:, 0] <= 0]).astype(float)
        changes: dict[str, Any] = {"nan": values * np.nan, "few rows": values[:1], "text": "gates", "none": None}
        return changes.get(self.kind, values)


@entry("Gates")
def _own_gates(draw: Draw) -> str:
    """Gates of the user's own, sound or broken, and the abstract base class itself."""
    X, y = data.clean_task(draw)
    kind = draw.pick(["fine", "fine", "nan", "few rows", "text", "float groups", "few groups", "abstract", "none"])
    gates = draw.call(Gates) if kind == "abstract" else _Halves(kind)
    problem = draw.call(svm_gln, X, y, gates, must_refuse=kind not in ("fine", "none"), may_refuse=True)
    G = np.column_stack([X[:, 0] > 0, X[:, 0] <= 0]).astype(float)
    return judge(Raw.gated(X, G, y, "groups", groups=[0, 1]), solve(problem), 1e-6)


# ------------------------------------------------------------------------------------------------------------ builders


def _build(draw: Draw, builder: Any, gates: Any, norm: str, fine: Any) -> str:
    """A builder on given inputs: the problem is the one that its gate values make."""
    X, y = data.clean_task(draw)
    given_X, given_y = draw.array(X, rounded=False), draw.array(y, rounded=False)
    chosen = gates(draw, X)
    value = draw.scalar([chosen], fine)
    C = draw.scalar([np.inf, 1.0, 0.1], lambda v: is_number(0)(v) or v == np.inf)
    small = isinstance(C.value, float) and C.value < np.inf and not in_range(C.value * 1e3, C.value / 1e3)
    problem = draw.call(builder, given_X, given_y, value, C, may_refuse=value.value is not chosen or small)
    G = problem.features.gate_values
    H = problem.gates
    raw = Raw.gated(given_X.plain, G, given_y.plain, norm, C=float(C.value))
    if norm == "groups":
        raw.groups = H.groups
    if norm == "predictor":
        raw.shape = H.units, H.contexts
    return judge(raw, solve(problem), 1e-6)


def _no(value: Any) -> bool:
    return False


@entry("svm_gln", share=3)
def _svm_gln(draw: Draw) -> str:
    """Contexts, fitted or not."""
    return _build(draw, svm_gln, lambda draw, X: data.fitted_gates(draw, X), "groups", _no)


@entry("svm_rc")
def _svm_rc(draw: Draw) -> str:
    """Half-spaces that are always on, fitted by the builder."""
    return _build(draw, svm_rc, lambda draw, X: RandomHalfSpaces(3, draw.whole(0, 9), 0.0, True), "groups", _no)


@entry("svm_l2")
def _svm_l2(draw: Draw) -> str:
    """Contexts only."""
    if draw.chance(0.1):
        draw.call(svm_l2, [[1.0], [-1.0]], [1, -1], ConstantGate(), must_refuse=True)
    return _build(draw, svm_l2, lambda draw, X: data.fitted_gates(draw, X), "predictor", _no)


@entry("svm_shallow")
def _svm_shallow(draw: Draw) -> str:
    """One region or several."""
    one_or_several = lambda draw, X: draw.pick([ConstantGate(), data.fitted_gates(draw, X)])  # noqa: E731
    return _build(draw, svm_shallow, one_or_several, "frobenius", _no)


class _Pretender:
    """What has attributes of the right names, and nothing behind them."""

    gates = None
    hidden = 3


@entry("svm_lc")
def _svm_lc(draw: Draw) -> str:
    """The network's own half-spaces; networks that are none."""
    X, y = data.clean_task(draw)
    problem_like = svm_gln(X, y, ConstantGate())
    network = draw.scalar([ReLUNetwork(X.shape[1], 3, seed=draw.whole(0, 9))], _no)
    if draw.chance(draw.badness):
        deep, wide, several = ReLUNetwork(X.shape[1], [2, 2]), ReLUNetwork(99, 2), ReLUNetwork(X.shape[1], 2, outputs=2)
        bad: Any = draw.pick([_Pretender(), problem_like, GatedFeatures(X), deep, wide, several])
        network = Given(bad, None, type(bad).__name__, "bad")
    given = draw.array(X)
    problem = draw.call(svm_lc, given, y, network, 1.0)
    opened = (given.plain @ network.value.gates().directions_.T >= 0).astype(float)
    return judge(Raw.gated(given.plain, opened, y, "groups", groups=[0, 1, 2], C=1.0), solve(problem), 1e-6)


@entry("svm_hl")
def _svm_hl(draw: Draw) -> str:
    """The network's hidden layer; networks that are none."""
    X, y = data.clean_task(draw)
    network = draw.scalar([ReLUNetwork(X.shape[1], 3, seed=draw.whole(0, 9))], _no)
    if draw.chance(draw.badness):
        network = Given(_Pretender(), None, "pretender", "bad")
    given = draw.array(X)
    problem = draw.call(svm_hl, given, y, network, 1.0)
    hidden = network.value.hidden(given.plain)
    return judge(Raw.gated(hidden, np.ones((len(X), 1)), y, "frobenius", C=1.0), solve(problem), 1e-6)


# --------------------------------------------------------------------------------------------------------- comparisons


@entry("predictions")
def _predictions(draw: Draw) -> str:
    """+1 for positive scores, −1 else."""
    scores = draw.array(np.round(draw.normal(draw.whole(1, 9)), 1) * draw.pick([1.0, 1e-300, 1e300]))
    found = draw.call(predictions, scores)
    expect(found.tolist() == [1.0 if s > 0 else -1.0 for s in scores.plain], "other labels")
    return "correct"


@entry("error")
def _error(draw: Draw) -> str:
    """The fraction of wrong signs."""
    n = draw.whole(1, 9)
    scores, y = draw.array(draw.normal(n)), draw.array(draw.rng.choice([-1.0, 1.0], draw.pick([n, n, n + 1])))
    odd = y.plain is not None and (len(y.plain) != n or not set(y.plain.tolist()) <= {-1.0, 1.0})
    found = draw.call(error, scores, y, must_refuse=odd)
    expect(found == np.mean([(s > 0) != (t > 0) for s, t in zip(scores.plain, y.plain, strict=True)]), "another error")
    return "correct"


@entry("inconsistency")
def _inconsistency(draw: Draw) -> str:
    """The fraction of different signs."""
    n = draw.whole(1, 9)
    a, b = draw.array(draw.normal(n)), draw.array(draw.normal(draw.pick([n, n, n + 1])))
    found = draw.call(inconsistency, a, b, must_refuse=b.plain is not None and len(b.plain) != n)
    expect(found == np.mean((a.plain > 0) != (b.plain > 0)), "another inconsistency")
    return "correct"


@entry("expected_inconsistency")
def _expected(draw: Draw) -> str:
    """e_a (1 − e_b) + e_b (1 − e_a) of two fractions."""
    a, b = (draw.scalar([0, 0.5, 1.0, np.float32(0.25)], is_number(0, 1, ends=True)) for _ in range(2))
    found = draw.call(expected_inconsistency, a, b)
    x, z = float(a.value), float(b.value)
    expect(abs(found - (x * (1 - z) + z * (1 - x))) < 1e-12, "another number")
    return "correct"


def _small_problem(draw: Draw) -> tuple[MarginProblem, Raw]:
    X, y = data.clean_task(draw)
    return MarginProblem(GatedFeatures(X), y, Frobenius()), Raw.gated(X, np.ones((len(X), 1)), y, "frobenius")


@entry("normalised_margin")
def _normalised(draw: Draw) -> str:
    """min y(ΦW)/‖W‖, whatever the size of W."""
    problem, raw = _small_problem(draw)
    W = draw.array(draw.normal(1, raw.blocks.shape[2]) * draw.pick([1.0, 0.0, 1e-200, 1e200, 1e300, 1e-310]))
    zero = W.plain is not None and not W.plain.any()
    given: Any = problem if not draw.chance(draw.badness) else Given(draw.normal(2), None, "no problem", "bad")
    found = draw.call(normalised_margin, given, W, must_refuse=zero)
    expected = (raw.phi @ W.plain.ravel()).min() / raw.value(W.plain)
    expect(abs(found - expected) <= 1e-9 * np.abs(raw.blocks).max() * raw.blocks.size, f"{found}, not {expected}")
    return "correct"


@entry("optimality_ratio")
def _ratio(draw: Draw) -> str:
    """(‖W‖/margin)/optimum: at least 1 at any weights, infinite where they do not separate."""
    problem, raw = _small_problem(draw)
    solution = solve(problem)
    W = draw.array(solution.weights + draw.pick([0.0, 1.0]) * draw.normal(*solution.weights.shape), rounded=False)
    optimum = draw.scalar([solution.objective], is_number(0))
    found = draw.call(optimality_ratio, problem, W, optimum)
    margin = (raw.phi @ W.plain.ravel()).min() / raw.value(W.plain)
    expected = 1 / (margin * np.longdouble(optimum.value)) if margin > 0 else np.inf
    expect(expected > 1e300 or abs(found - expected) <= 1e-9 * expected, f"{found}, not {float(expected)}")
    return "correct"


@entry("alignment")
def _alignment(draw: Draw) -> str:
    """The cosine, for numbers of every size."""
    shape = draw.whole(1, 3), draw.whole(1, 3)
    a = draw.array(draw.normal(*shape) * draw.pick([1.0, 1e-200, 1e200, 1e300, 1e-300, 0.0]))
    b = draw.array(draw.normal(*draw.pick([shape, shape, (4, 1)])) * draw.pick([1.0, 1e-200, 1e200]))
    known = a.plain is not None and b.plain is not None
    different = known and (a.plain.shape != b.plain.shape or not a.plain.any() or not b.plain.any())
    found = draw.call(alignment, a, b, must_refuse=different)
    x, z = a.plain.astype(np.longdouble), b.plain.astype(np.longdouble)
    expected = np.sum(x * z) / np.sqrt(np.sum(x * x) * np.sum(z * z))
    expect(abs(found - expected) <= 1e-12, f"{found}, not {float(expected)}")
    return "correct"


@entry("summarise")
def _summarise(draw: Draw) -> str:
    """Means over seeds, of tables with and without the usual columns."""
    rows = draw.whole(1, 6)
    columns = {"model": draw.rng.choice(["a", "b"], rows), "error": draw.normal(rows), "seed": range(rows)}
    table = pd.DataFrame(columns).assign(status="OPTIMAL")
    change = draw.pick(["no", "no", "no status", "no rows", "NaN", "text", "no keys", "odd by"])
    by: Any = draw.pick([None, ["model"], ("model",)])
    if change == "no status":
        table = table.drop(columns="status")
    elif change == "no rows":
        table = table[:0]
    elif change == "NaN":
        table.loc[0, "error"] = np.nan
    elif change == "text":
        table["error"] = "much"
    elif change == "no keys":
        table, by = table.drop(columns="model"), None
    elif change == "odd by":
        by = draw.pick([["nowhere"], 3, "model", [None], [["model"]], object()])
    draw.story.append(f"the table is changed: {change}")
    value = Given(table, table, "a table") if not draw.chance(draw.badness) else draw.scalar([table], _no)
    refused = change in ("no status", "text", "no keys", "odd by")
    summary = draw.call(summarise, value, by, must_refuse=refused, may_refuse=change == "no rows")
    for name, part in table.groupby("model"):
        row = summary[summary["model"] == name].iloc[0]
        expected = np.mean([e for e in part["error"] if e == e]) if part["error"].notna().any() else np.nan
        same = row["error_mean"] == expected or abs(row["error_mean"] - expected) < 1e-12 or expected != expected
        expect(same and row["seeds"] == len(part), "another mean")
    return "correct"


# --------------------------------------------------------------------------------------------------------------- tasks


@entry("BinaryTask", share=2)
def _task(draw: Draw) -> str:
    """A task of ready-made arrays."""
    X, y = data.clean_task(draw)
    parts = [draw.array(a) for a in (X, y, X[:3], y[:3], X)]
    labels = [part.plain for part in (parts[1], parts[3]) if part.plain is not None]
    signs = [set(part.tolist()) for part in labels]
    odd = any(not found <= {-1.0, 1.0} for found in signs) or any(len(found) < 2 for found in signs[:1])
    task = draw.call(BinaryTask, "own", *parts, may_refuse=odd)
    expect(close(task.X_train, parts[0].plain, 0) and close(task.y_train, parts[1].plain, 0), "other samples")
    return "correct"


@entry("BinaryTask.from_arrays", share=3)
def _from_arrays(draw: Draw) -> str:
    """Any two classes become −1 and +1, in sorting order."""
    X, y = data.clean_task(draw)
    pairs: list[tuple[Any, Any]] = [(-1, 1), (0, 1), ("cat", "dog"), (2.5, 7.0), (False, True), (10**30, 2**200)]
    low, high = draw.pick(pairs)
    values = [high if sign > 0 else low for sign in y]
    forms: dict[str, Any] = {
        "list": lambda: values,
        "array": lambda: np.array(values),
        "objects": lambda: np.array(values, dtype=object),
        "pandas": lambda: pd.Series(values, index=range(len(y), 0, -1)),
        "tuple": lambda: tuple(values),
        "categories": lambda: pd.Series(values, dtype="category"),
    }
    form = draw.pick(list(forms))
    verdict: Verdict = "doubtful" if form == "categories" else "good"
    labels = Given(forms[form](), y, f"labels {low!r}, {high!r} as {form}", verdict)
    if draw.chance(draw.badness):
        bad: list[Any] = [None, [], y[:-1], np.ones(len(y)), [*values[:-1], "third"], [*values[:-1], None], y[:, None]]
        bad += [y + 0j * np.nan, [*values[:-1], math.nan], [object() for _ in y], "ab" * 5, {1, 2}, np.array(3)]
        bad += [np.array(["NaT"] * len(y), "M8"), pd.array([None] * len(y), "Float64"), torch.tensor(y * np.nan)]
        bad += [[[v] for v in values], dict.fromkeys(values, 1), [*values[:-1], [1]]]
        labels = Given(draw.pick(bad), None, "bad labels", "bad")
    given = draw.array(X)
    constant = draw.chance(0.5)
    task = draw.call(BinaryTask.from_arrays, given, labels, constant=constant)
    expected = np.hstack([given.plain, np.ones((len(X), 1))]) if constant else given.plain
    expect(np.array_equal(task.y_train, y), "other labels")
    expect(np.array_equal(task.X_train, expected) and np.array_equal(task.X_pool, expected), "other inputs")
    return "correct"


@entry("load_binary", share=2)
def _load_binary(draw: Draw) -> str:
    """The embedded digits with options of any kind; image sets only where there are none, so that nothing is read."""
    name = draw.scalar(["digits"], lambda v: False)
    train_size = draw.scalar([1, 50, 500, np.int16(9)], is_count(most=1438))
    seed = draw.scalar([0, 1, 2**40], is_count(0, 2**63 - 1))
    # One sample, or a few, may be of one class.
    small = is_count(most=20)(train_size.value)
    options: dict[str, Any] = {}
    if draw.chance(0.4):
        options["positive"] = draw.scalar([(0, 1), {7}, range(5), np.array([1, 2])], lambda v: False)
        options["positive"].verdict = "doubtful"
    task = draw.call(load_binary, name, train_size, seed, may_refuse=small, **options)
    expect(task.X_train.shape[0] == int(train_size.value) and task.X_train.shape[1] == 65, "another size")
    chosen = {name: copied(option.value) for name, option in options.items()}
    again = load_binary("digits", int(train_size.value), int(seed.value), **chosen)
    expect(np.array_equal(task.X_train, again.X_train), "another split")
    return "correct"


@entry("load_binary, image files", share=1)
def _load_images(draw: Draw) -> str:
    """Image files that are missing in part, empty, cut or not images at all: always refused, never repaired."""
    raw = draw.folder / "MNIST" / "raw"
    raw.mkdir(parents=True)
    names = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
    for name in names[: draw.whole(1, 4)]:
        content = draw.pick([b"", b"\0\0\x08\x03", bytes(draw.rng.integers(0, 256, 999, dtype=np.uint8)), b"\x80\x04."])
        (raw / name).write_bytes(content)
    before = {path.name: path.read_bytes() for path in raw.iterdir()}
    try:
        draw.call(load_binary, "mnist", 10, root=draw.folder, must_refuse=True)
    finally:
        expect(before == {path.name: path.read_bytes() for path in raw.iterdir()}, "it changed the files")
    return "correct"


@entry("dataset_names", share=1)
def _dataset_names(draw: Draw) -> str:
    expect("digits" in draw.call(dataset_names), "no digits")
    return "correct"


@entry("InputError", share=1)
def _input_error(draw: Draw) -> str:
    expect(issubclass(InputError, ValueError) and str(draw.call(InputError, "text")) == "text", "another error")
    return "correct"
