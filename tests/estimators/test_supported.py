"""The guide's table of what each estimator supports: every cell is tried."""

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.pipeline import Pipeline

import implicit_bias as ib
from implicit_bias.extensions.galu import GaLUClassifier, GaLURegressor, GaLURegressorCV
from implicit_bias.saving.models import load_model
from tests import ROOT

PAGE = ROOT / "docs" / "guide" / "classifiers.md"
X, Y = (part[50:] for part in load_iris(return_X_y=True))
X = np.round(X - X.mean(axis=0), 1)
NAMES = ["sepal length", "sepal width", "petal length", "petal width"]
WEIGHT = np.random.default_rng(1).uniform(0.2, 3.0, len(X))
GLN = ib.GLNClassifier(2, C=0.02, random_state=1)
#: By the columns of the table.
ESTIMATORS = {
    "the five classifiers": [
        GLN,
        ib.InteractionClassifier(2, C=0.02, rounds=1, candidates=20, random_state=1),
        ib.GatedReLUClassifier(3, C=0.02, random_state=1),
        ib.HiddenLayerClassifier(8, C=0.02, training=ib.SGD(steps=60), random_state=1),
        ib.MultipleKernelClassifier(C=0.02),
    ],
    "`MarginClassifierCV`": [ib.MarginClassifierCV(GLN, Cs=[0.02], cv=2)],
    "`OneClassMargin`": [ib.OneClassMargin(clone(GLN).set_params(fit_intercept=False), nu=0.3)],
    "`GaLURegressor(CV)`": [GaLURegressor(3, random_state=1), GaLURegressorCV(3, [1.0], random_state=1)],
    "`GaLUClassifier`": [GaLUClassifier(3, random_state=1)],
    "gates": [ib.HyperplaneGates(3, 2)],
}


def output(estimator, samples):
    names = ("decision_function", "transform", "predict")
    return np.asarray(next(getattr(estimator, name) for name in names if hasattr(estimator, name))(samples))


def differs(one, other):
    return not np.allclose(output(one, X), output(other, X), atol=1e-4)


def frames(estimator):
    expected = output(clone(estimator).fit(X, Y), X)
    for frame in (pd.DataFrame(X, columns=NAMES), pl.DataFrame(X, schema=NAMES)):
        model = clone(estimator).fit(frame, Y)
        if list(model.feature_names_in_) != NAMES or not (output(model, frame) == expected).all():
            return False
    return True


def sparse(estimator):
    try:
        found = output(clone(estimator).fit(sp.csr_array(X), Y), sp.csr_array(X))
    except (ib.InputError, TypeError):
        return False
    return (found == output(clone(estimator).fit(X, Y), X)).all()


def weighted(estimator):
    return differs(clone(estimator).fit(X, Y, sample_weight=WEIGHT), clone(estimator).fit(X, Y))


def routed(estimator):
    expected = clone(estimator).fit(X, Y, sample_weight=WEIGHT)
    with sklearn.config_context(enable_metadata_routing=True):
        model = Pipeline([("last", clone(estimator).set_fit_request(sample_weight=True))])
        return not differs(model.fit(X, Y, sample_weight=WEIGHT)[-1], expected)


def with_parameter(estimator, name, value, deep=True):
    known = [each for each in estimator.get_params(deep) if each in (name, f"estimator__{name}")]
    return clone(estimator).set_params(**{known[0]: value}) if known else None


def class_weighted(estimator):
    model = with_parameter(estimator, "class_weight", {1: 1.0, 2: 4.0})
    return model is not None and differs(model.fit(X, Y), clone(estimator).fit(X, Y))


def jobs(estimator):
    model = with_parameter(estimator, "n_jobs", 2, deep=False)
    if model is None:
        return False
    with joblib.parallel_config("threading"):
        return not differs(model.fit(X, Y), clone(estimator).fit(X, Y))


def device(estimator):
    """True if `device` and `max_seconds` are parameters; invalid values must raise InputError."""
    for name, wrong in (("device", "nowhere"), ("max_seconds", -1)):
        model = with_parameter(estimator, name, wrong)
        if model is None:
            return False
        with pytest.raises(ib.InputError, match=name):
            model.fit(X, Y)
    return True


def verbose(estimator, capsys):
    model = with_parameter(estimator, "verbose", True)
    if model is None:
        return False
    capsys.readouterr()
    model.fit(X, Y)
    return "gap" in "".join(capsys.readouterr())


def warm(estimator):
    """True if `warm_start` is a parameter; a fit for another C must then end at the same optimum."""
    model = with_parameter(estimator, "warm_start", True, deep=False)
    if model is None:
        return False
    found = model.fit(X, Y).set_params(C=0.05).fit(X, Y).certificate_
    cold = clone(estimator).set_params(C=0.05).fit(X, Y).certificate_
    return (found.weights != cold.weights).any() and abs(found.objective / cold.objective - 1) < 2e-6


def set_output(estimator):
    return hasattr(estimator, "set_output") and isinstance(
        clone(estimator).set_output(transform="pandas").fit_transform(X), pd.DataFrame
    )


def saved(estimator, folder):
    model = clone(estimator).fit(X, Y)
    try:
        return not differs(load_model(ib.save_model(model, folder / "model.npz")), model)
    except ib.InputError:
        return False


TRIALS = {
    "pandas, polars and `feature_names_in_`": frames,
    "sparse X, made dense": sparse,
    "`sample_weight`": weighted,
    "metadata routing": routed,
    "`class_weight`": class_weighted,
    "`n_jobs`": jobs,
    "`device` and `max_seconds`": device,
    "`verbose`": verbose,
    "`warm_start`": warm,
    "`set_output`": set_output,
    "`save_model`": saved,
}


def table():
    """Return the cells of the guide's table by (row, column)."""
    lines = (
        PAGE.read_text(encoding="utf-8").split("<!-- supported -->")[1].split("<!-- end -->")[0].strip().splitlines()
    )
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {(row[0], name): cell for row in rows for name, cell in zip(head[1:], row[1:], strict=True)}


def test_rows_and_columns():
    assert set(table()) == {(row, column) for row in TRIALS for column in ESTIMATORS}


@pytest.mark.filterwarnings("ignore:.* at C=.*; increase C:UserWarning")
@pytest.mark.parametrize(("row", "column"), table())
def test_cell(row, column, capsys, tmp_path):
    more = {verbose: (capsys,), saved: (tmp_path,)}.get(TRIALS[row], ())
    for estimator in ESTIMATORS[column]:
        assert TRIALS[row](estimator, *more) == (table()[row, column] == "yes"), estimator
