"""Cases about the classifiers of scikit-learn's contract, and about gates, norms and solvers of one's own."""

import pickle
from contextlib import suppress
from typing import Any

import cvxpy as cp
import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

import implicit_bias as ib
from implicit_bias import SGD, Frobenius, GatedFeatures, MarginProblem, Status, solve
from tests.fuzz import problems
from tests.fuzz.draw import Draw, Wrong, expect
from tests.fuzz.gates import halves
from tests.fuzz.judge import Raw, judge
from tests.fuzz.strategies import choice, count, is_count, is_number, is_power, number, numbers
from tests.fuzz.table import drawn, entry, row
from tests.fuzz.values import Array, close

CLASSES: list[tuple[Any, ...]] = [
    (0, 1),
    (-1, 1),
    ("cat", "dog"),
    (2.0, 5.0),
    (False, True),
    (0, 1, 2),
    ("a", "b", "c"),
]
BAD_LABELS: list[Any] = [None, [], "ab", [0.5, 1.5] * 20, object(), [[1, 0]], {1: 2}, [None] * 40, np.array(3)]
CUTOFF = choice("median", "random", 0.0, also=is_number(-1e9, 1e9))


def is_seed(value: Any) -> bool:
    """Whether scikit-learn takes a value for a seed."""
    return value is None or isinstance(value, bool) or is_count(0, 2**31)(value)


PARAMETERS: dict[str, Any] = {
    "units": count(1, 3, np.int8(2), most=2000),
    "C": number(1.0, 0.1, np.inf, np.float32(2), also=lambda v: v == np.inf),
    "fit_intercept": choice(True, False, also=lambda v: isinstance(v, bool)),
    "solver": choice(None, "NATIVE", "CLARABEL", also=lambda v: v is None, functions=False),
    "tol": number(1e-6, 1e-3, high=1.0),
    "max_seconds": number(None, 10.0),
    "random_state": choice(0, 7, None, np.random.RandomState(1), also=is_seed),
    "class_weight": choice(None, "balanced", also=lambda v: v is None),
}


def _classifier(kind: Any, share: int, fixed: dict[str, Any], **special: Any) -> None:
    """Fit a classifier with odd parameters and check it."""

    def fit(X: Any, y: Any, weights: Any, **parameters: Any) -> Any:
        return kind(**(fixed | parameters)).fit(X, y, sample_weight=weights)

    def run(draw: Draw) -> None:
        X, y = problems.clean_task(draw)
        classes = draw.pick(CLASSES)
        labels = np.array([classes[int(sign > 0)] for sign in y])
        if len(classes) == 3:
            labels[2:4] = classes[2]
        given = draw.array(X)
        bad = [*BAD_LABELS, labels[:-1], np.full(len(y), classes[0])]
        target = draw.either(draw.pick([labels, labels.tolist(), pd.Series(labels)]), bad)
        n = len(y)
        good: list[Any] = [None, None, None, None, np.exp(draw.normal(n)), np.r_[0.0, np.ones(n - 1)]]
        weight = draw.pick([*good, np.ones(3), -np.ones(n), "w"])
        odd_weight = weight is not None and (isinstance(weight, str) or len(weight) != n or min(weight) < 0)
        candidates = PARAMETERS | special
        options = {
            name: drawn(candidates[name], draw) for name in draw.random.sample(list(candidates), draw.whole(0, 4))
        }
        # A parameter that is no number may be refused by scikit-learn or by us, both of which is well.
        odd = any(o.verdict != "good" or o.note.startswith(("int", "float")) for o in options.values())
        hard = "C" in options and options["C"].value == np.inf
        may = odd or hard or weight is not None
        # It warns where an answer is not certified, or no weights are worth their price.
        model = draw.call(fit, given, target, weight, must=odd_weight, may=may, warns=True, **options)
        _check_model(draw, model, given.plain, labels)

    entry(kind, share)(run)


def _check_model(draw: Draw, model: Any, X: Array, labels: Array) -> None:
    """Shapes, classes, the certificate of each class, pickling, new data, and no predictions without a fit."""
    scores, found = model.decision_function(X), model.predict(X)
    several = len(model.classes_) > 2
    expect(set(model.classes_.tolist()) <= set(np.unique(labels).tolist()), f"classes {model.classes_}")
    expect(scores.shape == ((len(X), len(model.classes_)) if several else (len(X),)), "the shape of the scores")
    chosen = model.classes_[scores.argmax(axis=1)] if several else model.classes_[(scores > 0).astype(int)]
    expect(np.array_equal(found, chosen), "predictions are not those of the scores")
    for certificate in model.certificate_ if several else [model.certificate_]:
        expect(certificate.gap <= certificate.tol or certificate.status is not Status.OPTIMAL, "OPTIMAL with a gap")
    expect(np.array_equal(pickle.loads(pickle.dumps(model)).decision_function(X), scores), "pickled otherwise")
    d = X.shape[1]
    new = draw.array(draw.normal(3, draw.pick([d, d, d + 1])))
    found = draw.call(lambda X: model.decision_function(X), X=new, must=lambda c: c.X.shape[1] != d)
    expect(np.isfinite(found).all(), "scores are not finite")
    with suppress(NotFittedError):
        type(model)().predict(X)
        raise Wrong("it predicts before it is fitted")


_classifier(
    ib.GLNClassifier,
    4,
    {"units": 3},
    contexts=choice(1, 2, 4, also=is_power(256)),
    norm=choice("group-lasso", "predictor-l2", "frobenius", Frobenius()),
    cutoff=choice("median", "random", 0.0, (0.2, 0.8), also=is_number(-1e9, 1e9)),
    free_intercept=choice(True, False),
)
_classifier(
    ib.GatedReLUClassifier,
    3,
    {"units": 4},
    gates=choice("random", ib.RandomHalfSpaces(2, always_on=True), ib.ConstantGate()),
    cutoff=CUTOFF,
    # Of no use to gates that are not learned, and not looked at then.
    training=choice(SGD(steps=3), also=lambda v: True),
)
_classifier(
    ib.HiddenLayerClassifier,
    3,
    {"units": 4, "training": SGD(steps=3)},
    training=choice(SGD(steps=4), also=lambda v: v is None),
)


@entry(ib.NotSeparableError)
def _not_separable(draw: Draw) -> None:
    """A hard margin on conflicting samples ends in this error, which holds the proof and can be pickled."""
    X, y = problems.clean_task(draw)
    X[1] = X[0]
    try:
        ib.GLNClassifier(units=2, C=np.inf, cutoff=0.0, random_state=draw.whole(0, 9)).fit(X, y)
    except ib.NotSeparableError as error:
        copy = pickle.loads(pickle.dumps(draw.call(ib.NotSeparableError, str(error), error.certificate)))
        expect(str(copy) == str(error) and copy.certificate.farkas_residual < 1e-12, "no proof")
    else:
        raise Wrong("a conflict was separated")


# --------------------------------------------------------------------------------------------- what a user adds


#: What is no function of gates, no norm and no constraint.
NOTHING: list[Any] = [lambda W: "text", lambda W: None, lambda W: [True], 3, "W >= 0"]


def _own(draw: Draw, good: dict[str, Any], *bad: Any) -> tuple[str, Any]:
    """A function of the user's own and its name, or nothing by the name of \"\"."""
    kind = draw.kind("function", [*good, *good, ""])
    return kind, good[kind] if kind else draw.pick([*bad, *NOTHING])


@entry(ib.FunctionGates, share=3)
def _function_gates(draw: Draw) -> str:
    """Gates that a function computes, sound or broken."""
    X, y = problems.clean_task(draw)
    bad = (lambda X: halves(X) * np.nan, lambda X: halves(X)[:1], lambda X: X[:, 0], lambda X: halves(X) * 1j)
    kind, function = _own(draw, {"array": halves, "list": lambda X: halves(X).tolist()}, *bad)
    good: list[Any] = [None, None, None, [0, 0], [5, -5]]
    grouping = draw.pick([*good, [0], "ab", [0.5, 1.0], [[0, 1]], [None, 1]])
    must = not kind or grouping not in good
    problem = draw.call(lambda f, g: ib.svm_gln(X, y, ib.FunctionGates(f, g)), function, grouping, must=must)
    return judge(Raw.gated(X, halves(X), y, "groups", groups=[0, 1] if grouping is None else grouping), solve(problem))


def _activations(network: Any, X: Any) -> Any:
    return ib.HiddenActivations(network).fit(X)(X).X


def _hidden(draw: Draw) -> dict[str, Any]:
    network = ib.ReLUNetwork(draw.sizes.setdefault("d", 3), 3, seed=draw.whole(0, 9))
    return {"network": draw.either(network, [None, 3, "network", ib.ConstantGate(), np])}


NAME = "HiddenActivations"
row(_activations, _hidden, name=NAME, X=numbers("n d"), fine=lambda c, r: close(r, c.network.hidden(c.X), 1e-6))


class _OwnLasso(ib.Norm):
    """A group lasso of the user's own: with a group form the native solver takes it."""

    def value(self, W: Any) -> float:
        return float(np.linalg.norm(W, axis=1).sum())

    def dual(self, V: Any) -> float:
        return float(np.linalg.norm(V, axis=1).max())

    def expression(self, W: Any) -> Any:
        return cp.sum(cp.norm(W, 2, axis=1))

    def group_form(self, k: int) -> ib.GroupForm:
        return ib.GroupForm(sp.csr_array(np.eye(k)), np.arange(k))


@entry(ib.GroupForm)
def _group_form(draw: Draw) -> str:
    """A norm with a group form is solved natively, to the optimum of the norm that it says it is."""
    X, y = problems.clean_task(draw)
    G = problems.one_hot(draw, len(X), draw.whole(1, 2), 2)
    problem = MarginProblem(GatedFeatures(X, G), y, draw.call(_OwnLasso), draw.pick([np.inf, 1.0]))
    found = draw.call(solve, problem, "NATIVE")
    return judge(Raw.gated(X, G, y, "groups", groups=np.arange(G.shape[1]), C=problem.C), found)


@entry(ib.ExpressionNorm, share=3)
def _expression_norm(draw: Draw) -> str:
    """A norm from a CVXPY expression; what is no norm is refused."""
    X, y = problems.clean_task(draw)
    bad = (cp.sum_squares, lambda W: -cp.norm(W, "fro"), lambda W: W, lambda W: 3.0, cp.sum)
    kind, function = _own(draw, {"frobenius": lambda W: cp.norm(W, "fro"), "nuclear": cp.normNuc}, *bad)
    duals = {"frobenius": lambda V: float(np.linalg.norm(V)), "nuclear": lambda V: float(np.linalg.norm(V, 2))}
    dual = duals.get(kind) if draw.chance(0.5) else None
    build = lambda f, dual: MarginProblem(GatedFeatures(X), y, ib.ExpressionNorm(f, dual))  # noqa: E731
    problem = draw.call(build, function, dual, must=not kind)
    raw = Raw.gated(X, np.ones((len(X), 1)), y, kind)
    return judge(raw, draw.call(solve, problem, tol=1e-4), 1e-4, limited=True)


@entry(ib.Answer, share=3)
def _own_solver(draw: Draw) -> str:
    """A solver of the user's own, whose word may be anything: never OPTIMAL unless it is."""
    problem, raw = problems.problem(draw, scaled=False)
    n, k, d = raw.blocks.shape
    truth = solve(problem)
    W, dual = np.nan_to_num(truth.weights), truth.dual
    good = {"right": ib.Answer(W, dual, 3, None, truth.intercept), "nothing": ib.Answer(0 * W, 0 * dual, 3)}
    good |= {"nan": ib.Answer(W * np.nan, dual * np.nan, 3), "huge": ib.Answer(W * 1e200, dual * 1e300, 3)}
    good |= {"noise": ib.Answer(draw.normal(k, d), draw.normal(n), 3)}
    bad = {"shape": ib.Answer(W.T if k != d else W[:0], dual, 3), "no answer": (W, dual), "None": None}
    bad |= {"text": ib.Answer("weights", dual, 3)}  # type: ignore[arg-type]
    words: dict[str, Any] = good | bad
    kind = draw.kind("the solver's word", list(words))
    broken = kind in bad
    # What single samples prove needs no solver.
    must = broken and truth.status is not Status.NOT_SEPARABLE
    found = draw.call(solve, problem, lambda problem, options: words[kind], must=must, may=broken)
    return judge(raw, found, limited=True)


@entry("MarginProblem, constraints", share=3)
def _constraints(draw: Draw) -> None:
    """Linear constraints on the weights, and functions that give none."""
    X, y = problems.clean_task(draw)
    good = {"sign": lambda W: [W[0, 0] >= 0], "equal": lambda W: W[0, 1] == W[0, 0] * 0.1}
    kind, function = _own(draw, good, lambda W: [], lambda W: [W >= 1], lambda W: [cp.sum_squares(W) <= 0])
    parts = (GatedFeatures(X), y, Frobenius(), 1.0)
    found = draw.call(solve, draw.call(MarginProblem, *parts, constraints=function, must=not kind))
    W = found.weights[0]
    kept = W[0] >= -1e-6 if kind == "sign" else abs(W[1] - 0.1 * W[0]) <= 1e-6 * (1 + np.abs(W).max())
    expect(found.status is not Status.OPTIMAL or kept, "the constraint is broken")
    expect(found.objective >= solve(MarginProblem(*parts)).lower_bound * (1 - 1e-9), "a constraint makes it cheaper")
