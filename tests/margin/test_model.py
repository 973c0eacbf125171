"""Models: they predict as the estimators do, load equal, and are refused where parts do not belong together."""

import dataclasses
import json
from pathlib import Path

import cloudpickle
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris

import implicit_bias as ib
from implicit_bias.cli.predict import matched
from implicit_bias.datasets.scaling import Scaling
from implicit_bias.datasets.tables import Columns, read_inputs
from implicit_bias.extensions.galu import GaLUClassifier, GaLURegressor
from tests.cases import assert_refused, problem, refusals
from tests.cli.commands import interrupted, run

X, CODES = (part[np.arange(150) != 142] for part in load_iris(return_X_y=True))  # Without the copy of a sample.
NAMES = np.array(["setosa", "versicolor", "virginica"])[CODES]


@pytest.fixture(scope="module")
def model():
    """Return a model of three classes over shared gates, with a soft margin."""
    gates, inputs = ib.HyperplaneGates(4, 2, seed=1), np.hstack([X, np.ones((len(X), 1))])
    first = ib.svm_gln(inputs, np.where(CODES == 0, 1, -1), gates, C=1.0)
    problems = [first, *(dataclasses.replace(first, y=np.where(code == CODES, 1, -1)) for code in (1, 2))]
    return ib.MarginModel(problems, [ib.solve(one) for one in problems], classes=list(np.unique(NAMES)), constant=True)


def two_classes(labels=("cat", "dog"), **more):
    case = ib.svm_shallow([[2.0, 1.0], [-1.0, 1.0]], [1, -1], ib.ConstantGate())
    return ib.MarginModel([case], [ib.solve(case)], classes=labels, **more)


def test_a_model_predicts_as_the_estimator_of_the_same_problems(model):
    estimator = ib.GLNClassifier(units=4, C=1.0, cutoff="median", free_intercept=False, random_state=1).fit(X, NAMES)
    np.testing.assert_allclose(model.decision_function(X), estimator.decision_function(X), atol=1e-5)
    assert (model.predict(X) == estimator.predict(X)).all()


def test_margins_are_positive_where_the_prediction_is_right(model):
    scores = model.decision_function(X)
    margins = model.margins(scores, NAMES)
    assert ((margins > 0) == (model.predict(X) == NAMES)).all()
    best = [max(row[j] for j in range(3) if j != code) for row, code in zip(scores, CODES, strict=True)]
    np.testing.assert_allclose(margins, scores[np.arange(len(X)), CODES] - best)
    pair = two_classes()
    np.testing.assert_allclose(
        pair.margins(pair.decision_function([[2.0, 1.0], [-1.0, 1.0]]), ["dog", "cat"]), pair.solutions[0].margins
    )


@pytest.mark.parametrize("order", [1.0, 1.5, 2.0, np.inf])
@pytest.mark.parametrize("kind", ["one against the rest", "joint", "pair"])
def test_distances_are_those_of_the_affine_scores_at_fixed_gates(model, kind, order):
    """Gradients are differences of scores over a step that changes no gate."""
    scaling = Scaling([("subtract", X.mean(axis=0)), ("divide", np.arange(1.0, 5.0))])
    inputs = np.hstack([scaling(X), np.ones((len(X), 1))])
    if kind == "joint":
        joint = ib.svm_classes(inputs, CODES, model.problems[0].gates, C=1.0)
        model = ib.MarginModel([joint], [ib.solve(joint)], classes=[0, 1, 2], constant=True)
    elif kind == "pair":
        model = ib.MarginModel(model.problems[:1], model.solutions[:1], constant=True, offset=0.1)
    model, step = dataclasses.replace(model, scaling=scaling), 1e-6
    moved = np.stack([model.decision_function(X + step * unit) for unit in np.eye(4)], axis=-1)
    scores = model.decision_function(X)
    slopes, dual = (moved - scores[..., None]) / step, {1.0: np.inf, 1.5: 3.0, 2.0: 2.0, np.inf: 1.0}[order]
    if kind == "pair":
        expected = np.abs(scores) / np.linalg.norm(slopes, dual, axis=1)
    else:
        best = scores.argmax(axis=1)
        pairs = [[(c, e) for e in range(3) if e != c] for c in best]
        expected = [
            min((scores[i, c] - scores[i, e]) / np.linalg.norm(slopes[i, c] - slopes[i, e], dual) for c, e in pairs[i])
            for i in range(len(X))
        ]
    np.testing.assert_allclose(model.distances(X, order=order), expected, rtol=1e-6)


def test_distances_need_gates_of_the_inputs_and_a_norm(model):
    assert_refused(lambda: model.distances(X, order=0.5), "order must be")
    hidden = ib.HiddenLayerClassifier(C=1.0, random_state=0).fit(X, CODES == 0)
    assert not hasattr(hidden, "coef_")
    assert_refused(lambda: hidden.as_model().distances(X), "gates of the inputs")


def test_what_is_saved_loads_equal_and_proves_itself_again(model, tmp_path):
    columns = Columns(["a", "b", "c", "d"], [], "species")
    path = ib.save_model(dataclasses.replace(model, columns=columns), tmp_path / "m.npz", samples=True)
    again = ib.load_model(path)
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert (again.classes, again.constant, again.columns) == (tuple(NAMES[[0, 50, 100]].tolist()), True, columns)
    for case, solution, before in zip(again.problems, again.solutions, model.solutions, strict=True):
        judged = ib.certify(case, solution.weights, solution.dual)
        assert (judged.gap, judged.objective) == pytest.approx((before.gap, before.objective), rel=1e-6)
    with np.load(path) as held:
        assert [name for name in held if name.endswith(".X")] == ["problem0.X"]


def test_what_predicts_is_kept_without_the_samples(model, tmp_path):
    path = ib.save_model(model, tmp_path / "m.npz")
    again = ib.load_model(path)
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert repr(again) == repr(model)
    with np.load(path) as held:
        assert not [name for name in held if name.endswith((".X", ".gate_values"))]
    case, solution = again.problems[1], again.solutions[1]
    assert_refused(lambda: ib.certify(case, solution.weights, solution.dual), "149 samples were not saved")
    features = case.gates(np.hstack([X, np.ones((len(X), 1))]))
    judged = ib.certify(dataclasses.replace(case, features=features), solution.weights, solution.dual)
    assert judged.gap == pytest.approx(model.solutions[1].gap, rel=1e-6)
    # A model without samples is saved without them again, whatever is asked for.
    twice = ib.load_model(ib.save_model(again, tmp_path / "twice.npz", samples=True))
    np.testing.assert_array_equal(twice.decision_function(X), model.decision_function(X))


def test_an_interrupted_model_is_kept_and_says_what_is_missing(model, tmp_path):
    part = dataclasses.replace(model, solutions=model.solutions[:2])
    again = ib.load_model(ib.save_model(part, tmp_path / "m.npz"))
    assert again.status is ib.Status.INTERRUPTED
    assert_refused(lambda: again.predict(X), "'virginica' has no solution")


def test_gate_values_and_kernels():
    G = np.stack([X[:, 0] > 5.5, X[:, 0] <= 5.5], axis=1)
    case = ib.MarginProblem(ib.GatedFeatures(X, G), np.where(CODES == 0, 1, -1), ib.Frobenius())
    model = ib.MarginModel([case], [ib.solve(case)])
    np.testing.assert_allclose(
        model.margins(model.decision_function(X, G), case.y.astype(int)), model.solutions[0].margins
    )
    assert_refused(lambda: model.predict(X), "give those of the new inputs")
    kernels = ib.MarginProblem(ib.KernelFeatures.from_kernels([X @ X.T + 1]), case.y, ib.Frobenius())
    with pytest.raises(ib.InputError, match="built from kernels"):
        ib.MarginModel([kernels], [ib.solve(kernels)]).predict(np.ones((1, kernels.features.d)))


SAVED = [
    ib.GLNClassifier(3, random_state=1),
    ib.GLNClassifier(3, norm="predictor-l2", fit_intercept=False, random_state=1),
    ib.GatedReLUClassifier(5, random_state=1),
    ib.GatedReLUClassifier(3, gates="learned", training=ib.SGD(steps=20), random_state=1),
    ib.GLNClassifier(2, C=0.3, multi_class="joint", random_state=1),
    ib.GatedReLUClassifier(3, C=0.3, multi_class="shared", random_state=1),
    ib.HiddenLayerClassifier(4, training=ib.SGD(steps=20), random_state=1),
    ib.MultipleKernelClassifier(),
    ib.MultipleKernelClassifier(["linear", ("half-spaces", {"columns": 2, "count": 5})]),
    ib.MultipleKernelClassifier([("half-spaces", {"sets": [np.array([0, 2]), (1,)]})]),
    ib.MultipleKernelClassifier([("poly", {"degree": 2}), ("rbf", {"gamma": None})], fit_intercept=True),
    ib.MarginClassifierCV(ib.GLNClassifier(2, random_state=1), Cs=[0.1, 1.0], cv=2),
    ib.OneClassMargin(nu=0.2),
    ib.OneClassMargin(ib.GLNClassifier(3, random_state=1), nu=0.2),
    ib.OneClassMargin(ib.MultipleKernelClassifier(), nu=0.2),
]


@pytest.mark.parametrize("classifier", SAVED, ids=repr)
def test_a_classifier_that_is_saved_predicts_the_same_and_proves_itself_again(classifier, tmp_path):
    standard = (X - X.mean(axis=0)) / X.std(axis=0)
    classifier = clone(classifier).fit(standard, NAMES)
    again = ib.load_model(ib.save_model(classifier, tmp_path / "m.npz"))
    np.testing.assert_allclose(again.decision_function(X), classifier.decision_function(X), rtol=1e-12, atol=1e-12)
    assert (again.predict(standard) == classifier.predict(standard)).all()
    if not isinstance(classifier, ib.MultipleKernelClassifier):
        # That computes each kernel once for all classes.
        np.testing.assert_array_equal(again.decision_function(X), classifier.decision_function(X))
    fitted = getattr(classifier, "estimator_", classifier)
    inputs = np.column_stack([standard, np.ones(len(X))]) if fitted.fit_intercept else standard
    rows = fitted.samples_
    for case, found in zip(again.problems, again.solutions, strict=True):
        features = case.gates(inputs[rows])
        if isinstance(case, ib.ClassMarginProblem):
            features = ib.svm_classes(inputs[rows], CODES[rows], case.gates).features
        whole = dataclasses.replace(case, features=features)
        judged = ib.certify(whole, found.weights, found.dual, intercept=found.intercept)
        assert judged.gap <= found.tol


def test_what_no_file_holds_of_a_classifier_is_told(tmp_path):
    model = ib.MultipleKernelClassifier([lambda X, Z: X @ Z.T], C=1.0).fit(X, NAMES)
    with pytest.raises(ib.InputError, match=r"is a function or a matrix.*save the classifier with cloudpickle"):
        ib.save_model(model, tmp_path / "m.npz")
    again = cloudpickle.loads(cloudpickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert_refused(lambda: ib.save_model(ib.OneClassMargin(), tmp_path / "m.npz"), "not fitted")
    for wrong in (3, ib.GLNClassifier, None):
        with pytest.raises(ib.InputError, match="a MarginModel, a fitted estimator"):
            ib.save_model(wrong, tmp_path / "m.npz")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("labels", "joint"),
    [
        (np.array([0, 1, 2], dtype=np.int64), "joint"),
        (np.array([3, 1, 7], dtype=np.uint8), "ovr"),
        (np.array([1.0, 5.0, 2.0], dtype=np.float32), "joint"),
        (np.array([1.0, 5.0, 2.0], dtype=np.longdouble), "ovr"),
        (np.array(["a", "a longer one", "c"]), "ovr"),
        (np.array(["a", "b", "c"], dtype="<U20"), "joint"),
        (np.array(["a", "b", "c"], dtype=object), "ovr"),
        (np.array([False, True, True]), "joint"),
    ],
    ids=lambda part: part if isinstance(part, str) else str(part.dtype),
)
def test_labels_keep_their_type(labels, joint, tmp_path):
    given = labels[CODES]
    classifier = ib.GLNClassifier(1, C=0.05, multi_class=joint, random_state=1).fit(X, given)
    expected = classifier.predict(X)
    again = ib.load_model(ib.save_model(classifier, tmp_path / "m.npz"))
    twice = ib.load_model(ib.save_model(dataclasses.replace(again), tmp_path / "m.npz"))
    for found in (again.predict(X), twice.predict(X)):
        assert found.dtype == expected.dtype == given.dtype
        np.testing.assert_array_equal(found, expected)
        assert {type(label) for label in found} == {type(label) for label in expected}


@pytest.mark.parametrize("outputs", [2, 3])
def test_classes_in_one_problem_are_a_model(outputs, tmp_path):
    rows = np.flatnonzero(outputs > CODES)
    problem = ib.svm_classes(X[rows], CODES[rows], ib.HyperplaneGates(2, 2, seed=1), 0.3)
    solution = ib.solve(problem)
    model = ib.MarginModel([problem], [solution], classes=NAMES[[0, 50, 100]][:outputs])
    again = ib.load_model(ib.save_model(model, tmp_path / "m.npz"))
    for each in (model, again):
        scores = each.decision_function(X[rows])
        assert scores.shape == ((len(rows),) if outputs == 2 else (len(rows), 3))
        assert (each.predict(X[rows]) == each.classes[0]).any()
        np.testing.assert_array_equal(
            each.predict(X[rows]) == NAMES[rows], problem.predict(solution.weights, X[rows]) == CODES[rows]
        )
        margins = each.margins(scores, NAMES[rows])
        np.testing.assert_allclose(margins, solution.margins.reshape(len(rows), -1).min(axis=1), atol=1e-9)


def test_a_damaged_network_in_a_model_is_refused(tmp_path):
    path = ib.save_model(
        ib.HiddenLayerClassifier(3, training=ib.SGD(steps=3)).fit(X[:100], CODES[:100]), tmp_path / "m.npz"
    )
    content = dict(np.load(path))
    name = next(name for name in content if ".network." in name)
    for values in (content[name][:, :2], content[name] * np.nan, content[name].astype(complex)):
        np.savez(path, **content | {name: values})
        assert_refused(lambda: ib.load_model(path), "damaged or not a saved model")


test_parts_that_do_not_belong_together_are_refused = refusals(
    ({"dtype": "nonsense"}, "dtype must be"),
    ({"dtype": "M8[s]"}, "dtype must be"),
    ({"dtype": "U1", "classes": ["cat", "dog"]}, "represent the classes"),
    ({"dtype": "i1", "classes": [0, 300]}, "represent the classes"),
    ({"dtype": "bool", "classes": [2, 3]}, "represent the classes"),
    ({"offset": float("nan")}, "offset must be"),
    ({"offset": "1"}, "offset must be"),
    ({"classes": ["a"]}, "two or more"),
    ({"classes": ["a", "a"]}, "different"),
    ({"classes": [1.0, float("nan")]}, "finite"),
    ({"classes": ["a", "b", "c"]}, "one problem for two classes"),
    ({"classes": [None, "b"]}, "two or more"),
    ({"classes": "ab"}, "must be a list"),
    ({"classes": None}, "must be a list"),
    ({"problems": 3}, "must be a list"),
    ({"solutions": [1]}, "must be a list of Solution"),
    ({"solutions": [ib.solve(problem("contexts 2", "group lasso"))]}, "does not belong"),
    ({"constant": "yes"}, "constant must be"),
    ({"columns": ("a", "b")}, "columns must be Columns"),
    ({"columns": Columns(["a", 2], [], "y")}, "name of a column must be a text, not 2"),
    call=lambda change: dataclasses.replace(two_classes(), **change),
)


def test_labels_and_inputs_that_do_not_fit_are_refused():
    model = two_classes()
    assert_refused(lambda: model.predict(np.ones((1, 3))), "3 columns, but the model needs 2")
    assert_refused(lambda: model.margins(np.ones(1), ["eel"]), "not one of the model's classes")
    assert_refused(lambda: model.margins(np.ones(1), ["cat", "dog"]), "2 labels for 1 samples")


@pytest.mark.parametrize(
    "change",
    [
        lambda about: about | {"classes": [["a"], "b"]},
        lambda about: about | {"constant": True},
        lambda about: about | {"solutions": about["solutions"] * 2},
        lambda about: about | {"problems": [None]},
        lambda about: about | {"columns": {"inputs": [1], "gates": [], "label": "x"}},
        lambda about: about | {"format": "implicit_bias model 99"},
    ],
)
def test_tampered_models_are_refused_or_take_other_inputs(change, tmp_path):
    path = ib.save_model(two_classes(), tmp_path / "m.npz")
    content = dict(np.load(path))
    np.savez(path, **content | {"about": np.array(json.dumps(change(json.loads(str(content["about"])))))})
    with pytest.raises(ib.InputError):
        ib.load_model(path).predict(np.ones((1, 2)))


LEAST_SQUARES = [
    GaLURegressor(5, random_state=1),
    GaLURegressor(5, sharpness=2.0, fit_intercept=False, random_state=1),
    GaLURegressor(gates=ib.HyperplaneGates(3, 2, seed=1)),
    GaLURegressor(5, steps=2, random_state=1),
    GaLUClassifier(5, random_state=1),
]


@pytest.mark.parametrize(
    ("estimator", "targets"),
    [*((one, 1 + place % 2) for place, one in enumerate(LEAST_SQUARES)), (LEAST_SQUARES[0], 2)],
)
def test_least_squares_load_equal(estimator, targets, tmp_path):
    rows = np.arange(len(X)) if targets > 1 else np.flatnonzero(CODES > 0)
    y = NAMES[rows] if isinstance(estimator, GaLUClassifier) else X[rows][:, :targets].squeeze() ** 2
    fitted = clone(estimator).fit(X[rows], y)
    again = ib.load_model(ib.save_model(fitted, tmp_path / "m.npz"))
    found, expected = again.predict(X), fitted.predict(X)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    # By hand, which shares nothing with the model.
    inputs = np.column_stack([X, np.ones(len(X))]) if fitted.fit_intercept else X
    whole = np.einsum("nk,nd,...kd->n...", fitted.gates_.transform(inputs), inputs, fitted.weights_) + fitted.intercept_
    np.testing.assert_allclose(again.decision_function(X), whole, atol=1e-9)
    for name, value in vars(fitted.solution_).items():
        np.testing.assert_array_equal(getattr(again.solution, name), value)


test_parts_of_least_squares_that_do_not_belong_together_are_refused = refusals(
    ({"gates": 3}, "gates must be fitted Gates"),
    ({"gates": ib.HyperplaneGates(2, 2)}, "gates must be fitted"),
    ({"gates": ib.HyperplaneGates(2, 2).fit(X)}, "the gates need"),
    ({"solution": None}, "solution must be a LeastSquares"),
    ({"intercept": np.nan}, "intercept"),
    ({"intercept": [1.0, 2.0]}, "intercept"),
    ({"classes": ["a", "b", "c"]}, "of 2 classes"),
    ({"classes": ["a", "a"]}, "different"),
    ({"classes": [0.0, np.inf]}, "finite"),
    ({"constant": 1}, "constant must be"),
    call=lambda change: dataclasses.replace(GaLURegressor(3, random_state=1).fit(X, CODES).as_model(), **change),
)


@pytest.mark.parametrize(
    "name", ["solution.weights", "solution.rank", "solution.form", "intercept", "gates.directions_"]
)
def test_damaged_least_squares_are_refused(name, tmp_path):
    path = ib.save_model(GaLURegressor(3, random_state=1).fit(X, CODES), tmp_path / "m.npz")
    content = dict(np.load(path))
    for values in (np.array("x"), np.full((2, 2), np.nan), np.ones(7)):
        np.savez(path, **content | {name: values})
        assert_refused(lambda: ib.load_model(path), "damaged or not a saved model")


@pytest.mark.parametrize(
    "estimator",
    [GaLURegressor(3, random_state=1), GaLUClassifier(3, random_state=1), ib.GLNClassifier(2), ib.OneClassMargin()],
    ids=repr,
)
def test_a_single_nan_in_any_array_is_refused(estimator, tmp_path):
    path = ib.save_model(clone(estimator).fit(X, CODES), tmp_path / "m.npz")
    content = dict(np.load(path))
    numbers = [name for name, values in content.items() if values.dtype.kind == "f" and values.size]
    assert len(numbers) > 5
    for name in numbers:
        values = content[name].copy()
        values.ravel()[:1] = np.nan
        np.savez(path, **content | {name: values})
        assert_refused(lambda: ib.load_model(path), "damaged or not a saved model")


# The command line


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Return the iris flowers with names; their table, and one with weights and margins, are in a new folder."""
    monkeypatch.chdir(tmp_path)
    flowers = pd.DataFrame(X, columns=["a", "b", "c", "d"]).assign(species=NAMES)
    flowers.to_csv("iris.csv", index=False)
    flowers.assign(price=1.0 + CODES, margin=1.0 + CODES % 2).to_csv("own.csv", index=False)
    return flowers


SOLVE = ("--units", 4, "--C", 1)


def test_solve_and_predict_several_classes(table, model):
    assert run("solve", "iris.csv", *SOLVE).returncode == 0
    done = run("predict", "iris-model.npz", "iris.csv", "--json")
    assert done.returncode == 0
    document, found = json.loads(done.stdout), pd.read_csv("iris-predictions.csv")
    scores = found[["score_setosa", "score_versicolor", "score_virginica"]].to_numpy()
    np.testing.assert_allclose(scores, model.decision_function(X), atol=1e-9)
    assert (found.prediction == model.predict(X)).all()
    assert document["wrong"] == (found.prediction != found.label).sum() == (found.margin <= 0).sum()
    assert sum(document["predictions"].values()) == document["samples"] == len(X)


def test_columns_are_found_by_name_and_others_left(table):
    assert run("solve", "iris.csv", *SOLVE).returncode == 0
    moved = table[["species", "d", "c", "b", "a"]].assign(note="none").drop(columns="species")
    moved.to_csv("moved.csv", index=False)
    table.drop(columns="b").to_csv("short.csv", index=False)
    for name in ("iris", "moved"):
        assert run("predict", "iris-model.npz", f"{name}.csv").returncode == 0
    first, second = (pd.read_csv(f"{name}-predictions.csv") for name in ("iris", "moved"))
    assert list(second) == [name for name in first if name not in ("label", "margin")]
    assert first[list(second)].equals(second)
    assert "no column 'b'" in run("predict", "iris-model.npz", "short.csv").stderr


def test_labels_of_digits_stay_texts_where_the_classes_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = pd.DataFrame({"a": [1.0, -1.0, 3.0], "kind": ["1", "x", "1"]})
    table.to_csv("train.csv", index=False)
    table.iloc[[0, 2]].to_csv("ones.csv", index=False)
    assert run("solve", "train.csv", "--formulation", "linear").returncode == 0
    done = run("predict", "train-model.npz", "ones.csv")
    assert "error 0.00 % (0 wrong)" in done.stdout


def test_labels_that_are_empty_or_of_no_class(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = pd.DataFrame({"a": [1.0, -1.0, 3.0, -3.0], "kind": [1, 0, 1, 0]})
    table.to_csv("train.csv", index=False)
    assert run("solve", "train.csv", "--formulation", "linear").returncode == 0
    Path("new.csv").write_text("a,kind\n1,1.0\n-1,\n3,0\n-3,none\n")
    done = run("predict", "train-model.npz", "new.csv")
    assert "error 50.00 % (1 wrong of 2 known labels), smallest margin -3" in done.stdout
    assert "labels such as 'none', 1 in all, are not classes of the model" in done.stderr
    found = pd.read_csv("new-predictions.csv", dtype=str, keep_default_na=False)
    assert found.prediction.tolist() == ["1", "0", "1", "0"]
    assert found.label.tolist() == ["1", "", "0", "none"]
    assert [text == "" for text in found.margin] == [False, True, False, True]
    Path("new.csv").write_text("a,kind\n1,\n-1,\n")
    assert run("predict", "train-model.npz", "new.csv").returncode == 0
    assert list(pd.read_csv("new-predictions.csv")) == ["row", "prediction", "score"]


def test_labels_next_to_an_integer_class_are_of_no_class():
    with pytest.warns(UserWarning, match="such as '9007199254740993', 2 in all"):
        found, known = matched([2**53, 0], np.array([str(2**53 + 1), "0.0", "9007199254740992.0", "", "1.5"]))
    assert found == [str(2**53 + 1), 0, 2**53, "", "1.5"]
    assert known.tolist() == [1, 2]


def test_columns_named_by_numbers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("s.csv").write_text("2019,2020,y\n1,2,a\n-3,4,b\n5,6,a\n-7,8,b\n")
    solved = run("solve", "s.csv", "--formulation", "linear")
    assert "the first row of s.csv has the names of its columns" in solved.stdout
    Path("new.csv").write_text("2020,2019\n4,1\n4,-5\n")
    assert run("predict", "s-model.npz", "new.csv").returncode == 0
    assert pd.read_csv("new-predictions.csv").prediction.tolist() == ["a", "b"]
    assert "3 classes for 5 samples" in run("solve", "s.csv", "--no-header").stderr


def test_a_model_without_names_takes_columns_by_their_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("train.npz", X=[[1.0, 0.0], [-1.0, 0.0]], y=[0, 1], gates=[[1.0], [1.0]])
    assert run("solve", "train.npz").returncode == 0
    columns = ib.load_model("train-model.npz").columns
    pd.DataFrame([[5.0, 0.0, 1.0]], columns=["u", "v", "gate_w"]).to_csv("new.csv", index=False)
    new = read_inputs("new.csv", columns, 2)
    assert (new.X.tolist(), new.gate_values.tolist(), new.labels) == ([[5.0, 0.0]], [[1.0]], None)
    assert run("predict", "train-model.npz", "new.csv").returncode == 0
    assert pd.read_csv("new-predictions.csv").prediction.tolist() == [0]
    pd.DataFrame(np.ones((1, 3)), columns=["u", "v", "w"]).to_csv("wide.csv", index=False)
    assert_refused(lambda: read_inputs("wide.csv", columns, 1), "3 columns of inputs, but the model needs 1")
    np.savez("drawn.npz", X=[[1.0, 0.0, 1.0], [-1.0, 0.0, 1.0]], y=[0, 1])
    assert run("solve", "drawn.npz").returncode == 0
    assert run("predict", "drawn-model.npz", "new.csv", "--out", "drawn.csv").returncode == 0
    assert pd.read_csv("drawn.csv").prediction.tolist() == [0]


@pytest.mark.parametrize("estimator", [None, ib.GLNClassifier(4, fit_intercept=False, random_state=1)])
def test_outliers_are_told_by_a_saved_model(table, estimator):
    flowers = table[["a", "b", "c", "d"]]
    model = ib.OneClassMargin(estimator, nu=0.1).fit(flowers[CODES == 0])
    ib.save_model(model, "setosa.npz")
    # The columns are found by their names.
    table[["species", "d", "c", "b", "a"]].to_csv("all.csv", index=False)
    done = run("predict", "setosa.npz", "all.csv", "--json")
    found, document = pd.read_csv("all-predictions.csv"), json.loads(done.stdout)
    assert list(found) == ["row", "prediction", "score"]
    assert (found.prediction == model.predict(flowers)).all()
    np.testing.assert_allclose(found.score, model.decision_function(flowers), atol=1e-12)
    assert document["predictions"] == {"-1": (found.prediction < 0).sum(), "1": (found.prediction > 0).sum()}


@pytest.mark.parametrize("targets", [1, 2])
def test_targets_are_predicted_by_a_saved_model(table, targets):
    flowers, y = table[["a", "b"]], X[:, 2 : 2 + targets].squeeze()
    fitted = GaLURegressor(3, random_state=1).fit(flowers, y)
    ib.save_model(fitted, "m.npz")
    done = run("predict", "m.npz", "iris.csv")
    found = pd.read_csv("iris-predictions.csv", index_col="row").to_numpy()
    np.testing.assert_allclose(found, fitted.predict(flowers).reshape(len(X), -1), atol=1e-12)
    assert (done.returncode, "149 samples" in done.stdout) == (0, True)
    np.savez("with.npz", X=flowers.to_numpy(), y=y)
    error = np.sqrt(np.mean((fitted.predict(flowers) - y) ** 2))
    document = json.loads(run("predict", "m.npz", "with.npz", "--json").stdout)
    assert document["root_mean_square_error"] == pytest.approx(error)
    assert "holds no margin problem" in run("solve", "iris.csv", "--start", "m.npz").stderr


@pytest.mark.parametrize(
    "estimator",
    [ib.GLNClassifier(2, C=0.3, multi_class="joint", random_state=1), GaLUClassifier(3, random_state=1)],
    ids=repr,
)
def test_classes_at_once_and_least_squares_are_predicted(table, estimator):
    flowers = table[["a", "b", "c", "d"]]
    fitted = estimator.fit(flowers, NAMES)
    ib.save_model(fitted, "m.npz")
    assert run("predict", "m.npz", "iris.csv").returncode == 0
    found = pd.read_csv("iris-predictions.csv")
    assert (found.prediction == fitted.predict(flowers)).all()
    scores = found[["score_setosa", "score_versicolor", "score_virginica"]]
    np.testing.assert_allclose(scores, fitted.decision_function(flowers), atol=1e-9)


def test_weights_and_margins_of_samples_are_columns(table):
    names = ("--label", "species", "--weights", "price", "--margins", "margin")
    assert run("solve", "own.csv", *SOLVE, *names).returncode == 0
    case = ib.load_model("own-model.npz").problems[1]
    np.testing.assert_array_equal(case.sample_weight, 1.0 + CODES)
    np.testing.assert_array_equal(case.required_margin, 1.0 + CODES % 2)
    assert ib.load_model("own-model.npz").columns.inputs == ["a", "b", "c", "d"]


def test_a_solve_starts_from_a_model(table):
    assert run("solve", "iris.csv", *SOLVE, "--max-iterations", 2).returncode == 1
    assert run("solve", "iris.csv", *SOLVE, "--start", "iris-model.npz", "--out", "b.npz").returncode == 0
    assert ib.load_model("b.npz").status is ib.Status.OPTIMAL
    table.iloc[:120].to_csv("part.csv", index=False)
    done = run("solve", "part.csv", *SOLVE, "--start", "b.npz")
    assert (done.returncode, "b.npz is of 149 samples, part.csv has 120" in done.stderr) == (2, True)
    table.assign(species=table.species.str.upper()).to_csv("loud.csv", index=False)
    assert "of other classes" in run("solve", "loud.csv", "--start", "b.npz").stderr


def test_a_time_limit_is_shared_by_the_classes_and_predict_warns(table):
    done = run("solve", "iris.csv", *SOLVE, "--max-seconds", 1e-6)
    assert done.returncode == 1
    assert len(ib.load_model("iris-model.npz").solutions) == 3
    assert "TIME_LIMIT" in done.stdout
    assert "stopped at the time limit" in run("predict", "iris-model.npz", "iris.csv").stderr


def test_ctrl_c_keeps_the_classes_that_are_done(table):
    assert interrupted("class 'setosa'", "solve", "iris.csv", *SOLVE, "--verbose").returncode == 130
    kept = ib.load_model("iris-model.npz")
    assert [one.status.name for one in kept.solutions] == ["OPTIMAL", "INTERRUPTED"]
    assert "has no solution" in run("predict", "iris-model.npz", "iris.csv").stderr


def test_values_are_refused_before_samples_are_read(tmp_path):
    for option, value, words in [("--tol", 2, "below 1"), ("--units", 0, "units"), ("--contexts", 3, "power of two"),
                                 ("--C", -1, "C must be"), ("--solver", "GUROBI", "unknown solver")]:  # fmt: skip
        assert words in run("solve", tmp_path / "none.csv", option, value).stderr
