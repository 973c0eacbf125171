"""Cases about the classifiers of scikit-learn's contract."""

import pickle
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

import implicit_bias as ib
from implicit_bias import SGD, Frobenius
from implicit_bias.extensions.galu import GaLUClassifier, GaLUFeatures, GaLURegressor, GaLURegressorCV
from tests.fuzz import problems
from tests.fuzz.draw import Draw, Given, Wrong, expect
from tests.fuzz.judge import expect_certified
from tests.fuzz.strategies import ARGUMENTS, choice, count, equals, is_count
from tests.fuzz.table import arguments, entry
from tests.fuzz.values import Array

CLASSES: list[Any] = [(0, 1), (-1, 1), ("cat", "dog"), (2.0, 5.0), (False, True), (0, 1, 2), ("a", "b", "c")]
BAD_LABELS: list[Any] = [None, [], "ab", [0.5, 1.5] * 20, object(), [[1, 0]], {1: 2}, [None] * 40, np.array(3)]


def _is_seed(value: Any) -> bool:
    return value is None or isinstance(value, bool) or is_count(0, 2**31)(value)


#: Their parameters, beside those that other callables have as well.
PARAMETERS: dict[str, Any] = {
    "units": count(1, 3, np.int8(2), most=2000),
    "random_state": choice(0, 7, None, np.random.RandomState(1), also=_is_seed),
    # Whatever is empty weighs no class, says scikit-learn.
    "class_weight": choice(None, "balanced", also=lambda v: v is None or (hasattr(v, "__len__") and np.size(v) == 0)),
    "norm": choice("group-lasso", "predictor-l2", "frobenius", Frobenius()),
    "multi_class": choice("ovr", "joint", "shared"),
    "gates": choice("random", ib.RandomHalfSpaces(2, always_on=True), ib.ConstantGate()),
    "kernels": choice(None, ["linear", ("rbf", {"gamma": 0.5})], [lambda X, Z: X @ Z.T], also=equals(None)),
}

#: Sparse inputs, which these classifiers make dense.
SPARSE: dict[str, Any] = {
    "CSR": sp.csr_array,
    "CSC": sp.csc_matrix,
    "COO, float32": lambda X: sp.coo_array(X.astype(np.float32)),
    "LIL": sp.lil_array,
}


def _inputs(draw: Draw, X: Array) -> Given:
    if draw.chance(0.9):
        return draw.array(X, but=["sparse"])
    X = np.where(np.abs(X) > 0.5, X.astype(np.float32), 0.0)
    return Given(draw.among("sparse", SPARSE)(X), X, "sparse")


def _targets(draw: Draw, y: Array, *bad: Any) -> Given:
    return draw.either(draw.pick([y, y.tolist(), pd.Series(y)]), bad)


def _weights(draw: Draw, n: int, good: list[Any]) -> Given:
    return draw.either(draw.pick(good), [np.ones(3), -np.ones(n), "w"])


def _fitted(draw: Draw, kind: Any, X: Any, y: Any, weights: Any, may: bool, warns: bool, parameters: Any) -> Any:
    """An estimator fitted; it warns where an answer is not certified, or no weights are worth their bound."""

    def fit(X: Any, y: Any, weights: Any, **parameters: Any) -> Any:
        return kind(**parameters).fit(X, y, sample_weight=weights)

    if not isinstance(getattr(parameters.get("gates"), "value", "random"), str):
        # Gates that are given have their own units.
        parameters = {name: part for name, part in parameters.items() if name not in ("units", "cutoff")}
    return draw.call(fit, X, y, weights, may=may, warns=warns, **parameters)


def _classifier(kind: Any, but: tuple[str, ...] = (), **fixed: Any) -> None:
    @entry(kind, share=3)
    def _fit(draw: Draw) -> None:
        X, y = problems.clean_task(draw)
        (n, d), ordinary = X.shape, draw.chance(0.7)
        if not ordinary:
            # Tables in which gates are closed, or samples of both classes are equal.
            tables = {"one-hot": np.eye(d)[draw.rng.integers(0, d, n)], "few rows": X[draw.rng.integers(0, 3, n)]}
            X = draw.among("table", tables | {"constant columns": np.where(draw.rng.random(d) < 0.7, 0.0, X)})
        classes = draw.pick(CLASSES)
        labels = np.array([classes[int(sign > 0)] for sign in y])
        if len(classes) == 3:
            labels[2:4] = classes[2]
        given = _inputs(draw, X)
        target = _targets(draw, labels, *BAD_LABELS, labels[:-1], np.full(n, classes[0]))
        weight = _weights(draw, n, [*[None] * 4, np.exp(draw.normal(n)), np.r_[0.0, np.ones(n - 1)]])
        options = arguments(kind, draw, but=list(but), known=ARGUMENTS | PARAMETERS)
        # Some parameters are not looked at before others are, and numbers of every size may be none of these. Not every
        # classifier, nor every norm, has a problem of several classes at once.
        ordinary = ordinary and getattr(options.get("multi_class"), "value", "ovr") == "ovr"
        may = draw.badness > 0 or weight.value is not None or not ordinary
        may = may or getattr(options.get("C"), "value", 1.0) == np.inf
        model = _fitted(draw, kind, given, target, weight, may, True, fixed | options)
        _check_model(draw, model, given.plain, labels)


def _check_model(draw: Draw, model: Any, X: Array, labels: Array) -> None:
    """Classes, the certificate of each of them, and new samples; scikit-learn's own checks hold the rest."""
    scores = model.decision_function(X)
    expect(np.isfinite(scores).all() and set(model.predict(X)) <= set(labels), "other classes, or no scores")
    for certificate in model.certificate_ if isinstance(model.certificate_, list) else [model.certificate_]:
        expect_certified(certificate, certificate.tol)
    d = X.shape[1]
    new = _inputs(draw, draw.normal(3, draw.pick([d, d, d + 1])))
    found = draw.call(lambda X: model.decision_function(X), X=new, must=lambda c: c.X.shape[1] != d)
    expect(np.isfinite(found).all(), "scores are not finite")


_classifier(ib.GLNClassifier, units=3)
_classifier(ib.GatedReLUClassifier, units=4)
_classifier(ib.InteractionClassifier, ("fit_intercept", "multi_class"), columns=2, rounds=1, candidates=9)
_classifier(ib.HiddenLayerClassifier, units=4, training=SGD(steps=3))
_classifier(ib.MultipleKernelClassifier)


@entry(ib.MarginClassifierCV, share=3)
def _by_cross_validation(draw: Draw) -> None:
    X, y = problems.clean_task(draw)
    splits = [(np.arange(len(y)), np.arange(len(y)))]
    Cs = draw.either(draw.pick([2, [0.1, 1.0], np.array([10.0, 0.01])]), [0, -1, [], "ab", [0.0], [[1.0]], None])
    kind = ib.GLNClassifier(units=2, random_state=draw.whole(0, 9))
    options = {
        "estimator": draw.either(kind, [3, "gln", ib.GLNClassifier, ib.ConstantGate()]),
        "Cs": Cs,
        "cv": draw.either(splits, [0, "ab", 1, -2, 0.5]),
        "scoring": draw.either(draw.pick([None, "accuracy"]), ["nonsense", 3, "neg_log_loss"]),
    }
    given = _inputs(draw, X)
    target = _targets(draw, y, None, "ab", object(), y[:-1])
    model = _fitted(draw, ib.MarginClassifierCV, given, target, None, draw.badness > 0, True, options)
    expect(model.C_ in model.Cs_ and model.scores_.shape == model.gaps_.shape == (1, len(model.Cs_)), "no choice")
    _check_model(draw, model.estimator_, given.plain, y)


@entry(ib.OneClassMargin, share=3)
def _one_class(draw: Draw) -> None:
    X, _ = problems.clean_task(draw)
    kinds = [None, ib.GLNClassifier(units=2, random_state=1), ib.MultipleKernelClassifier(["linear", "rbf"])]
    others = [3, "gln", ib.GLNClassifier, ib.ConstantGate(), ib.HiddenLayerClassifier()]
    estimator = draw.either(draw.pick(kinds), others)
    nu = draw.either(draw.pick([0.01, 0.2, 0.7]), [0, 1, -0.1, np.inf, np.nan, "ab", []])
    weight = _weights(draw, len(X), [None, np.exp(draw.normal(len(X)))])
    inputs = _inputs(draw, X)
    # Samples may lie all around the origin, where there is no Gaussian kernel and no constant input.
    options = {"estimator": estimator, "nu": nu}
    model = _fitted(draw, ib.OneClassMargin, inputs, None, weight, True, True, options)
    given = np.ones(len(X)) if weight.value is None else weight.value
    expect(given[model.predict(inputs.plain) < 0].sum() <= nu.value * given.sum() * (1 + 1e-9), "too many outliers")
    expect_certified(model.certificate_, model.certificate_.tol)


#: Parameters of the least squares.
GATED: dict[str, Any] = {
    **{name: PARAMETERS[name] for name in ("units", "random_state", "class_weight")},
    "gates": choice("random", ib.ConstantGate(), ib.RandomHalfSpaces(2, always_on=True)),
    "steps": count(0, 0, 3, least=0, cap=20),
}


def _least_squares(kind: Any) -> None:
    @entry(kind, share=3)
    def _fit(draw: Draw) -> None:
        X, y = problems.clean_task(draw)
        given = _inputs(draw, X)
        target = _targets(draw, y, None, [], "ab", object(), y[:-1])
        weight = _weights(draw, len(y), [None, None, np.exp(draw.normal(len(y)))])
        options = arguments(kind, draw, but=["ridge", "sharpness"], known=ARGUMENTS | GATED)
        # A few filters may be closed for all samples, and gates of one's own have no filters to improve.
        fixed = {"units": 9} if kind is GaLURegressorCV else {"units": 9, "ridge": 0.1}
        model = _fitted(draw, kind, given, target, weight, True, True, fixed | options)
        found = draw.call(lambda X: model.predict(X), given)
        expect(found.shape == (len(X),) and np.isfinite(np.asarray(found, dtype=float)).all(), "no predictions")
        expect(model.solution_.gap >= 0, "no bound")


_least_squares(GaLURegressor)
_least_squares(GaLURegressorCV)
_least_squares(GaLUClassifier)


@entry(GaLUFeatures)
def _gated_features(draw: Draw) -> None:
    X, _ = problems.clean_task(draw)
    options = arguments(GaLUFeatures, draw, but=[], known=ARGUMENTS | GATED)

    def columns(X: Any, **parameters: Any) -> Any:
        return GaLUFeatures(**parameters).fit(X).transform(X)

    found = draw.call(columns, _inputs(draw, X), may=True, warns=True, **({"units": 3} | options))
    expect(len(found) == len(X) and np.isfinite(found).all(), "no features")


@entry(ib.NotSeparableError)
def _not_separable(draw: Draw) -> None:
    """A hard margin on conflicting samples ends in this error, which holds the proof and can be pickled."""
    X, y = problems.clean_task(draw)
    X[1] = X[0]
    try:
        ib.GLNClassifier(units=2, C=np.inf, cutoff=0.0, random_state=draw.whole(0, 9)).fit(X, y)
    except ib.NotSeparableError as error:
        copy = pickle.loads(pickle.dumps(draw.call(ib.NotSeparableError, str(error), error.certificate)))
        expect(str(copy) == str(error) and copy.certificate.status.inseparable, "no proof")
    else:
        raise Wrong("a conflict was separated")
