"""Cases about the classifiers of scikit-learn's contract, and about gates, norms and solvers of one's own."""

from __future__ import annotations

import pickle
from typing import Any

import cvxpy as cp
import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from implicit_bias import (
    SGD,
    Answer,
    ConstantGate,
    ExpressionNorm,
    Frobenius,
    FunctionGates,
    GatedFeatures,
    GatedReLUClassifier,
    GLNClassifier,
    GroupForm,
    HiddenActivations,
    HiddenLayerClassifier,
    InputError,
    MarginProblem,
    Norm,
    NotSeparableError,
    PredictorL2,
    RandomHalfSpaces,
    ReLUNetwork,
    Status,
    solve,
    svm_gln,
)
from odd import data
from odd.draw import Array, Draw, Given, close, expect, is_count, is_number
from odd.judge import Raw, judge
from odd.surface import entry

CLASSES: list[tuple[Any, ...]] = [(0, 1), (-1, 1), ("cat", "dog"), (2.0, 5.0), (False, True), (0, 1, 2)]
CLASSES += [("a", "b", "c")]
BAD_LABELS: list[Any] = [None, [], "ab", [0.5, 1.5] * 20, object(), [[1, 0]], {1: 2}, [None] * 40, np.array(3)]


def _parameters(draw: Draw, special: dict[str, Any]) -> dict[str, Any]:
    """Some parameters of a classifier, odd ones among them; they are checked by fit."""
    candidates: dict[str, Any] = {
        "units": lambda: draw.scalar([1, 3, np.int8(2)], is_count(most=2000)),
        "C": lambda: draw.scalar([1.0, 0.1, np.inf, np.float32(2)], lambda v: is_number(0)(v) or v == np.inf),
        "fit_intercept": lambda: draw.scalar([True, False], lambda v: True),
        "solver": lambda: draw.scalar([None, "NATIVE", "CLARABEL"], lambda v: v is None, functions=False),
        "tol": lambda: draw.scalar([1e-6, 1e-3], is_number(0)),
        "max_seconds": lambda: draw.scalar([None, 10.0], lambda v: v is None or is_number(0)(v)),
        "random_state": lambda: draw.scalar([0, 7, None, np.random.RandomState(1)], is_count(0, 2**31)),
        "class_weight": lambda: draw.scalar([None, "balanced"], lambda v: v is None),
    } | special
    names = draw.rng.permutation(list(candidates))[: draw.whole(0, 4)]
    return {str(name): candidates[str(name)]() for name in names}


def _classifier(draw: Draw, kind: Any, special: dict[str, Any], fixed: dict[str, Any]) -> str:
    """Fit a classifier and check it: shapes, classes, the certificate of each class, pickling, data left alone."""
    X, y = data.clean_task(draw)
    classes = draw.pick(CLASSES)
    labels = np.array([classes[int(sign > 0)] for sign in y])
    if len(classes) == 3:
        labels[2:4] = classes[2]
    given = draw.array(X)
    target = Given(draw.pick([labels, labels.tolist(), pd.Series(labels)]), labels, f"labels {classes}")
    if draw.chance(draw.badness):
        value = draw.pick([*BAD_LABELS, labels[:-1], np.full(len(y), classes[0])])
        target = Given(value, None, f"labels {str(value)[:40]}", "bad")
    n = len(y)
    weights: list[Any] = [None, None, None, np.exp(draw.normal(n)), np.r_[0.0, np.ones(n - 1)], np.ones(3), -np.ones(n)]
    weight = draw.pick([*weights, "w"])
    options = _parameters(draw, special)
    # A parameter that is no number may be refused by scikit-learn or by us, both of which is well.
    odd = any(option.verdict != "good" or option.note.startswith(("int", "float")) for option in options.values())
    hard = "C" in options and options["C"].value == np.inf

    def fit(inputs: Any, targets: Any, weights: Any, **parameters: Any) -> Any:
        return kind(**(fixed | parameters)).fit(inputs, targets, sample_weight=weights)

    # It warns where an answer is not certified, or no weights are worth their price.
    odd_weight = weight is not None and (isinstance(weight, str) or len(weight) != len(y) or min(weight) < 0)
    model = draw.call(
        fit,
        given,
        target,
        weight,
        must_refuse=odd_weight,
        may_refuse=odd or hard or weight is not None,
        may_warn=True,
        **options,
    )
    return _check_model(draw, model, given.plain, labels)


def _check_model(draw: Draw, model: Any, X: Array, labels: Array) -> str:
    scores, found = model.decision_function(X), model.predict(X)
    names = np.unique(labels).tolist()
    several = len(model.classes_) > 2
    expect(set(model.classes_.tolist()) <= set(names), f"classes {model.classes_}")
    expect(scores.shape == ((len(X), len(model.classes_)) if several else (len(X),)), "the shape of the scores")
    chosen = model.classes_[scores.argmax(axis=1)] if several else model.classes_[(scores > 0).astype(int)]
    expect(np.array_equal(found, chosen), "predictions are not those of the scores")
    for certificate in model.certificate_ if several else [model.certificate_]:
        expect(certificate.gap <= certificate.tol or certificate.status is not Status.OPTIMAL, "OPTIMAL with a gap")
    again = pickle.loads(pickle.dumps(model))
    expect(np.array_equal(again.decision_function(X), scores), "pickled otherwise")
    new = draw.array(draw.normal(3, draw.pick([X.shape[1], X.shape[1], X.shape[1] + 1])))
    other = new.plain is not None and new.plain.shape[1] != X.shape[1]
    expect(np.isfinite(draw.call(model.decision_function, new, must_refuse=other)).all(), "scores are not finite")
    try:
        type(model)().predict(X)
    except NotFittedError:
        return "correct"
    raise AssertionError("it predicts before it is fitted")


@entry("GLNClassifier", share=4)
def _gln_classifier(draw: Draw) -> str:
    """Random contexts; norms by name or as objects."""
    special = {
        "contexts": lambda: draw.scalar([1, 2, 4], lambda v: is_count(most=256)(v) and bin(int(v)).count("1") == 1),
        "norm": lambda: draw.scalar(["group-lasso", "predictor-l2", "frobenius", Frobenius()], lambda v: False),
        "cutoff": lambda: draw.scalar(["median", "random", 0.0, (0.2, 0.8)], lambda v: is_number(-1e9, 1e9)(v)),
        "free_intercept": lambda: draw.scalar([True, False], lambda v: False),
    }
    return _classifier(draw, GLNClassifier, special, {"units": 3})


@entry("GatedReLUClassifier", share=3)
def _relu_classifier(draw: Draw) -> str:
    """Random, learned or given gates."""
    special = {
        "gates": lambda: draw.scalar(["random", RandomHalfSpaces(2, always_on=True), ConstantGate()], lambda v: False),
        "cutoff": lambda: draw.scalar(["median", "random", 0.0], lambda v: is_number(-1e9, 1e9)(v)),
        # Of no use to gates that are not learned, and not looked at then.
        "training": lambda: draw.scalar([SGD(steps=3)], lambda v: True),
    }
    return _classifier(draw, GatedReLUClassifier, special, {"units": 4})


@entry("HiddenLayerClassifier", share=3)
def _hidden_classifier(draw: Draw) -> str:
    """A network is trained for a few steps first."""
    special = {"training": lambda: draw.scalar([SGD(steps=4)], lambda v: False)}
    return _classifier(draw, HiddenLayerClassifier, special, {"units": 4, "training": SGD(steps=3)})


@entry("NotSeparableError", share=2)
def _not_separable(draw: Draw) -> str:
    """A hard margin on conflicting samples ends in this error, and its certificate is a proof."""
    X, y = data.clean_task(draw)
    X[1] = X[0]
    try:
        GLNClassifier(units=2, C=np.inf, cutoff=0.0, random_state=draw.whole(0, 9)).fit(X, y)
    except NotSeparableError as error:
        expect(isinstance(error, InputError) and error.certificate.status is Status.NOT_SEPARABLE, "another error")
        copy = pickle.loads(pickle.dumps(error))
        expect(str(copy) == str(error) and copy.certificate.farkas_residual < 1e-12, "pickled otherwise")
        again = draw.call(NotSeparableError, "text", error.certificate)
        expect(str(again) == "text", "another text")
        return "correct"
    except ConvergenceWarning:
        pass
    raise AssertionError("a conflict was separated")


# --------------------------------------------------------------------------------------------- what a user adds


@entry("FunctionGates", share=3)
def _function_gates(draw: Draw) -> str:
    """Gates that a function computes, sound or broken."""
    X, y = data.clean_task(draw)
    halves = lambda X: np.column_stack([X[:, 0] > 0, X[:, 0] <= 0])  # noqa: E731
    functions: dict[str, Any] = {
        "fine": halves,
        "list": lambda X: halves(X).tolist(),
        "nan": lambda X: halves(X) * np.nan,
        "rows": lambda X: halves(X)[:1],
        "flat": lambda X: X[:, 0],
        "text": lambda X: "gates",
        "none": lambda X: None,
        "complex": lambda X: halves(X) * 1j,
        "no function": 3,
    }
    kind = draw.pick(["fine", *functions])
    grouping = draw.pick([None, [0, 0], [5, -5], [0], "ab", [0.5, 1.0], [[0, 1]], [None, 1]])
    draw.story.append(f"function: {kind}, grouping {grouping}")
    odd = grouping not in (None, [0, 0], [5, -5]) or kind not in ("fine", "list")
    problem = draw.call(svm_gln, X, y, FunctionGates(functions[kind], grouping), must_refuse=odd)
    groups = [0, 1] if grouping is None else grouping
    return judge(Raw.gated(X, halves(X).astype(float), y, "groups", groups=groups), solve(problem), 1e-6)


@entry("HiddenActivations")
def _hidden_activations(draw: Draw) -> str:
    """The hidden layer of a network, or of something that is none."""
    X, _ = data.clean_task(draw)
    network = draw.scalar([ReLUNetwork(X.shape[1], 3, seed=draw.whole(0, 9))], lambda v: False)
    given = draw.array(X)

    def features(network: Any, inputs: Any) -> Any:
        return HiddenActivations(network).fit(inputs)(inputs)

    found = draw.call(features, network, given)
    expect(close(found.X, network.value.hidden(given.plain), 1e-6), "other activations")
    return "correct"


class _OwnLasso(Norm):
    """A group lasso of the user's own: with a group form the native solver takes it."""

    def value(self, W: Any) -> float:
        return float(np.linalg.norm(W, axis=1).sum())

    def dual(self, V: Any) -> float:
        return float(np.linalg.norm(V, axis=1).max())

    def expression(self, W: Any) -> Any:
        return cp.sum(cp.norm(W, 2, axis=1))

    def group_form(self, k: int) -> GroupForm:
        return GroupForm(sp.csr_array(np.eye(k)), np.arange(k))


@entry("GroupForm")
def _group_form(draw: Draw) -> str:
    """A norm with a group form is solved natively, to the optimum of the norm that it says it is."""
    X, y = data.clean_task(draw)
    G = data.one_hot(draw, len(X), draw.whole(1, 2), 2)
    problem = MarginProblem(GatedFeatures(X, G), y, draw.call(_OwnLasso), draw.pick([np.inf, 1.0]))
    found = draw.call(solve, problem, "NATIVE")
    return judge(Raw.gated(X, G, y, "groups", groups=np.arange(G.shape[1]), C=problem.C), found, 1e-6)


@entry("ExpressionNorm", share=3)
def _expression_norm(draw: Draw) -> str:
    """A norm from a CVXPY expression; what is no norm is refused."""
    X, y = data.clean_task(draw)
    functions: dict[str, Any] = {
        "frobenius": lambda W: cp.norm(W, "fro"),
        "nuclear": lambda W: cp.normNuc(W),
        "square": lambda W: cp.sum_squares(W),
        "concave": lambda W: -cp.norm(W, "fro"),
        "matrix": lambda W: W,
        "number": lambda W: 3.0,
        "none": lambda W: None,
        "sum": lambda W: cp.sum(W),
        "no function": 3,
    }
    kind = draw.pick(["frobenius", "nuclear", "frobenius", *functions])
    duals = {"frobenius": lambda V: float(np.linalg.norm(V)), "nuclear": lambda V: float(np.linalg.norm(V, 2))}
    dual = duals.get(kind) if draw.chance(0.5) else None
    draw.story.append(f"norm: {kind}, dual {'given' if dual else 'computed'}")

    def build(function: Any, dual: Any) -> MarginProblem:
        return MarginProblem(GatedFeatures(X), y, ExpressionNorm(function, dual))

    problem = draw.call(build, functions[kind], dual, must_refuse=kind not in duals)
    raw = Raw.gated(X, np.ones((len(X), 1)), y, kind)
    return judge(raw, draw.call(solve, problem, tol=1e-4), 1e-4, limited=True)


@entry("Answer", share=3)
def _own_solver(draw: Draw) -> str:
    """A solver of the user's own, whose word may be anything: never OPTIMAL unless it is."""
    problem, raw = data.problem(draw, scaled=False)
    n, k, d = raw.blocks.shape
    truth = solve(problem)
    W = np.nan_to_num(truth.weights)
    words: dict[str, Any] = {
        "right": lambda: Answer(W, truth.dual, 3, None, truth.intercept),
        "nothing": lambda: Answer(np.zeros((k, d)), np.zeros(n), 3),
        "noise": lambda: Answer(draw.normal(k, d), draw.normal(n), 3),
        "nan": lambda: Answer(W * np.nan, truth.dual * np.nan, 3),
        "huge": lambda: Answer(W * 1e200, truth.dual * 1e300, 3),
        "shape": lambda: Answer(W.T if k != d else W[:0], truth.dual, 3),
        "text": lambda: Answer("weights", truth.dual, 3),  # type: ignore[arg-type]
        "no answer": lambda: (W, truth.dual),
        "None": lambda: None,
    }
    kind = draw.pick(list(words))
    draw.story.append(f"the solver's word: {kind}")
    word = words[kind]()

    def own(problem: MarginProblem, options: Any) -> Any:
        return word

    broken = kind in ("shape", "text", "no answer", "None")
    # What single samples prove needs no solver.
    asked = truth.status is not Status.NOT_SEPARABLE
    found = draw.call(solve, problem, own, must_refuse=broken and asked, may_refuse=broken)
    return judge(raw, found, 1e-6, limited=True)


@entry("MarginProblem, constraints", share=3)
def _constraints(draw: Draw) -> str:
    """Linear constraints on the weights, and functions that give none."""
    X, y = data.clean_task(draw)
    d = X.shape[1]
    functions: dict[str, Any] = {
        "sign": lambda W: [W[0, 0] >= 0],
        "equal": lambda W: W[0, 1] == W[0, 0] * 0.1,
        "nothing": lambda W: [],
        "one": lambda W: [W >= 1],
        "square": lambda W: [cp.sum_squares(W) <= 0],
        "text": lambda W: "W >= 0",
        "none": lambda W: None,
        "true": lambda W: [True],
        "no function": 3,
    }
    kind = draw.pick(["sign", "equal", *functions])
    draw.story.append(f"constraint: {kind}")
    features = GatedFeatures(X)
    odd = kind not in ("sign", "equal")
    problem = draw.call(MarginProblem, features, y, Frobenius(), 1.0, constraints=functions[kind], must_refuse=odd)
    found = draw.call(solve, problem)
    W = found.weights[0]
    kept = W[0] >= -1e-6 if kind == "sign" else abs(W[1] - 0.1 * W[0]) <= 1e-6 * (1 + np.abs(W).max())
    expect(found.status is not Status.OPTIMAL or kept, "the constraint is broken")
    free = solve(MarginProblem(features, y, Frobenius(), 1.0))
    expect(found.objective >= free.lower_bound * (1 - 1e-9), "a constraint makes it cheaper")
    expect(PredictorL2(1, 1) is not None and d == found.weights.shape[1], "another shape")
    return "correct"
