"""GaLURegressor and GaLUClassifier are the closed form, inside scikit-learn."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_diabetes, load_iris
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from implicit_bias import ConstantGate, HyperplaneGates, ReLUGates, SoftGates, SubsetGates, load_network, save_network
from implicit_bias.extensions.galu import GaLUClassifier, GaLUFeatures, GaLURegressor, GaLURegressorCV, improve_filters
from tests.cases import assert_refused, interrupt, refusals, scaled


@pytest.fixture(scope="module")
def table():
    return scaled(load_diabetes, 150)


def constant(X):
    return np.c_[X, np.ones(len(X))]


SOFT = SoftGates(np.random.default_rng(5).normal(size=(3, 11)), 2.0)


@pytest.mark.parametrize(
    "options", [{"sharpness": 0.7}, {"ridge": 0.01, "units": 7}, {"gates": HyperplaneGates(4)}, {"gates": SOFT}]
)
def test_it_is_ridge_regression_on_the_gated_features(table, options):
    """Weights and predictions are those of scikit-learn's Ridge on the dense Φ, with inputs and targets centred."""
    X, y = table
    model = GaLURegressor(random_state=3, **options).fit(X, y)
    values, centre = model.gates_.transform(constant(X)), X.mean(axis=0)
    dense = np.einsum("nk,nd->nkd", values, constant(X - centre)).reshape(len(X), -1)
    oracle = Ridge(alpha=len(X) * model.ridge, fit_intercept=False, solver="svd").fit(dense, y - y.mean())
    np.testing.assert_allclose(model.predict(X), oracle.predict(dense) + y.mean(), rtol=1e-9)
    W = oracle.coef_.reshape(values.shape[1], -1)
    assert model.solution_.norm == pytest.approx(np.linalg.norm(W), rel=1e-8)
    W[:, -1] -= W[:, :-1] @ centre
    np.testing.assert_allclose(model.weights_, W, atol=1e-8 * np.abs(W).max())
    assert model.solution_.gap <= 1e-9 * model.solution_.loss


@pytest.mark.parametrize(
    "model",
    [
        GaLURegressor(20, 1e-3, random_state=0),
        GaLURegressor(20, 1e-3, sharpness=1.0, random_state=0),
        GaLURegressor(8, 1e-3, steps=20, random_state=0),
        GaLURegressor(gates=HyperplaneGates(4), ridge=1e-3),
    ],
    ids=["hard", "soft", "search", "hyperplanes"],
)
@pytest.mark.parametrize("shift", [1e3, 1e6, 1e9])
def test_the_origin_of_the_inputs_changes_nothing(table, model, shift):
    X, y = np.round(table[0] * 2**10) / 2**10, table[1]
    weight = np.arange(len(X)) % 3
    near = clone(model).fit(X, y, weight).predict(X)
    far = clone(model).fit(X + shift, y, weight)
    # Sums over inputs of products of this size have an error of 11 u each.
    atol = 11 * 2.0**-53 * shift * np.abs(far.weights_).sum()
    np.testing.assert_allclose(far.predict(X + shift), near, rtol=1e-9, atol=atol)


def test_several_targets_share_the_gates_and_have_weights_of_their_own(table):
    X, y = table
    Y = np.column_stack([y, np.sin(X[:, 0]), 3.0 * y - 1.0])
    model = GaLURegressor(15, random_state=2).fit(X, Y)
    assert model.predict(X).shape == Y.shape
    for column, target in enumerate(Y.T):
        alone = clone(model).fit(X, target)
        np.testing.assert_allclose(model.predict(X)[:, column], alone.predict(X), rtol=1e-9)
    np.testing.assert_allclose(model.predict(X)[:, 2], 3 * model.predict(X)[:, 0] - 1, rtol=1e-9)


@pytest.mark.parametrize("sharpness", [None, 1.0])
def test_better_filters_are_those_of_algorithm_1(table, sharpness):
    X, y = table
    options = {"units": 6, "ridge": 0.1, "sharpness": sharpness, "random_state": 4}
    first, better = (GaLURegressor(steps=steps, **options).fit(X, y) for steps in (0, 60))
    assert first.search_ is None
    # The filters of centred inputs, moved to the inputs as given.
    filters = improve_filters(constant(X - X.mean(axis=0)), y, 6, steps=0, seed=4).directions
    filters[:, -1] -= filters[:, :-1] @ X.mean(axis=0)
    np.testing.assert_allclose(first.gates_.directions_, filters, rtol=1e-12)
    kept = (better.gates_.directions_ == first.gates_.directions_).all(axis=1)
    assert better.search_.accepted > 0
    assert not kept.all()
    assert (np.diff(better.search_.history) <= 0).all()
    objective = [m.solution_.loss + 0.1 * m.solution_.norm**2 for m in (first, better)]
    assert objective == pytest.approx(better.search_.history[[0, -1]], rel=1e-6)
    assert better.score(X, y) > first.score(X, y)


@pytest.mark.parametrize(("sharpness", "fit_intercept", "targets"), [(None, False, 1), (None, True, 2), (1.0, True, 1)])
def test_the_network_of_a_fit_predicts_the_same_and_trains_on(table, tmp_path, sharpness, fit_intercept, targets):
    X, y = table
    Y = y if targets == 1 else np.column_stack([y, y**2])
    model = GaLURegressor(8, sharpness=sharpness, fit_intercept=fit_intercept, random_state=1).fit(X, Y)
    network = load_network(save_network(model.network(), tmp_path / "network.pt"))
    inputs = constant(X) if fit_intercept else X
    np.testing.assert_allclose(
        network.decision_function(inputs), model.predict(X), rtol=1e-8, atol=1e-8 * np.abs(Y).max()
    )
    assert all(p.dtype == torch.float64 and p.requires_grad for p in network.parameters())


def test_classes_are_signs_and_the_largest_score_wins():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = GaLUClassifier(30, 0.01, random_state=0).fit(X, names)
    signs = GaLURegressor(30, 0.01, random_state=0).fit(X, np.where(names[:, None] == model.classes_, 1.0, -1.0))
    np.testing.assert_allclose(model.decision_function(X), signs.predict(X), atol=1e-12)
    assert model.predict(X).tolist() == model.classes_[signs.predict(X).argmax(axis=1)].tolist()
    two = GaLUClassifier(30, 0.01, random_state=0).fit(X, y == 1)
    np.testing.assert_allclose(two.decision_function(X), model.decision_function(X)[:, 1], atol=1e-10)
    heavy = GaLUClassifier(5, class_weight={False: 1, True: 50}, random_state=0).fit(X, y == 1)
    assert heavy.predict(X).mean() > GaLUClassifier(5, random_state=0).fit(X, y == 1).predict(X).mean()


def test_a_failed_fit_leaves_the_earlier_one(table):
    model = GaLURegressor(3, random_state=0).fit(*table)
    before = model.predict(table[0])
    assert_refused(lambda: model.set_params(ridge=-1.0).fit(*table), "at least 0")
    np.testing.assert_array_equal(model.predict(table[0]), before)


def test_ctrl_c_ends_a_fit(table, monkeypatch):
    monkeypatch.setattr("implicit_bias.extensions.galu.filters._LeastValue.replace", interrupt())
    with pytest.raises(KeyboardInterrupt):
        GaLURegressor(3, steps=5).fit(*table)


test_bad_parameters = refusals(
    (GaLURegressor(gates="learned"), "known: random"),
    (GaLURegressor(gates=ReLUGates(np.eye(3))), "features"),
    (GaLURegressor(steps=3, gates=HyperplaneGates(2)), "HyperplaneGates have none"),
    (GaLURegressor(gates=SubsetGates(2)), "SubsetGates multiply some inputs"),
    (GaLURegressor(fit_intercept="no"), "fit_intercept"),
    (GaLURegressor(gates=ReLUGates(-np.eye(1, 11, 10))), "closed"),
    (GaLUClassifier(class_weight="even"), "class_weight"),
    call=lambda model: model.fit(np.random.default_rng(0).normal(size=(150, 10)), np.arange(150) % 2),
)


@pytest.mark.parametrize("options", [{"random_state": 3}, {"gates": HyperplaneGates(4), "fit_intercept": False}])
def test_features_are_those_of_the_regressor(table, options):
    X, y = table[0], table[1] - table[1].mean()
    ridge = Ridge(alpha=len(X) * 0.1, fit_intercept=False, solver="svd")
    pipeline = make_pipeline(GaLUFeatures(12, **options), ridge).fit(X, y)
    model = GaLURegressor(12, 0.1, **options).fit(X, y)
    np.testing.assert_allclose(pipeline.predict(X + 0.1), model.predict(X + 0.1), rtol=1e-8)
    names = pipeline[0].get_feature_names_out()
    assert len(names) == pipeline[0].transform(X[:2]).shape[1] == model.weights_.size
    assert_refused(lambda: GaLUFeatures().transform(X), "not fitted")


@pytest.mark.parametrize("criterion", ["leave-one-out", "gcv"])
def test_the_ridge_is_chosen_by_errors_of_refits(table, criterion):
    X, y, ridges = table[0][:40], table[1][:40], [1e-3, 0.1, 10.0]
    weight = 1.0 + np.arange(len(X)) % 3
    model = GaLURegressorCV(6, ridges, sharpness=1.0, criterion=criterion, random_state=0).fit(X, y, weight)
    mean, centre = np.average(y, weights=weight), np.average(X, axis=0, weights=weight)
    inputs = constant(X - centre)
    dense = np.einsum("nk,nd->nkd", model.gates_.transform(constant(X)), inputs).reshape(len(X), -1)
    root = np.sqrt(weight / weight.mean())
    scores = []
    for ridge in ridges:
        penalty = np.sqrt(len(X) * ridge) * np.eye(dense.shape[1])
        rows = root[:, None] * dense
        if criterion == "gcv":
            hat = rows @ np.linalg.solve(rows.T @ rows + penalty**2, rows.T)
            errors = root * (y - mean) - hat @ (root * (y - mean))
            scores.append(-np.mean(errors**2) / (1 - np.trace(hat) / len(X)) ** 2)
            continue
        errors = []
        for i in range(len(X)):
            others = np.delete(np.arange(len(X)), i)
            targets = np.append((root * (y - mean))[others], np.zeros(len(penalty)))
            w = np.linalg.lstsq(np.vstack([rows[others], penalty]), targets)[0]
            errors.append(y[i] - mean - dense[i] @ w)
        scores.append(-np.average(np.square(errors), weights=weight))
    np.testing.assert_allclose(model.scores_, scores, rtol=1e-7)
    assert model.ridge_ == ridges[np.argmax(scores)]
    assert model.gaps_.shape == (3,)
    alone = GaLURegressor(6, model.ridge_, sharpness=1.0, random_state=0).fit(X, y, weight)
    np.testing.assert_allclose(model.predict(X), alone.predict(X), rtol=1e-9)
    assert_refused(lambda: GaLURegressorCV(criterion="aic").fit(X, y), "criterion")
    assert_refused(lambda: GaLURegressorCV(ridges=[1.0, -1.0]).fit(X, y), "ridge must be")


def test_inputs_out_of_scale_are_warned_of(table):
    X, y = pd.DataFrame(table[0] * np.r_[1000.0, np.ones(9)]).rename(columns="x{}".format), table[1]
    for kind in (GaLURegressor, GaLURegressorCV, GaLUFeatures):
        with pytest.warns(
            UserWarning, match="'x0' is at least 100 times as large as input 'x.'.*StandardScaler"
        ) as seen:
            kind(3, random_state=0).fit(X, y)
        assert seen[0].filename == __file__


def test_the_classifier_has_probabilities_once_it_is_calibrated(table):
    X, y = table[0], table[1] > 120
    with pytest.raises(AttributeError, match="CalibratedClassifierCV"):
        GaLUClassifier().predict_proba(X)
    assert not hasattr(GaLUClassifier(), "predict_proba")
    model = CalibratedClassifierCV(GaLUClassifier(10, random_state=0), cv=3).fit(X, y)
    assert model.predict_proba(X).shape == (len(X), 2)


test_bad_samples = refusals(
    (lambda: GaLURegressor().predict([[1.0]]), "not fitted"),
    (lambda: GaLUClassifier().network(), "not fitted"),
    (lambda: GaLUClassifier().fit([[1.0], [2.0]], [1, 1]), "one class"),
    (lambda: GaLURegressor(gates=ConstantGate()).fit([[1.0], [2.0]], [1, 2]).network(), "ReLUGates"),
    (lambda: GaLURegressor().fit([[1.0], [2.0]], ["a", "a"]), "could not convert string to float"),
    (lambda: GaLURegressor().fit([[1.0], [2j]], [1, 2]), "[Cc]omplex"),
    (lambda: GaLURegressor().fit([[1.0], [2.0]], [1.7e308, 1.7e308]), "the targets y have sizes"),
)
