"""Saved pipelines: loaded models scale their inputs as the pipelines do, and know the range of the fit."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, RobustScaler, StandardScaler

import implicit_bias as ib
from implicit_bias.extensions.galu import GaLUClassifier, GaLURegressor
from tests.cases import assert_refused

FRAME, CODES = load_wine(return_X_y=True, as_frame=True)
FRAME, CODES = FRAME[:-1], CODES[:-1]  # An odd number, so that samples lie on the hyperplanes through medians.
#: The wines, and inputs far from them.
NEW = pd.concat([FRAME, FRAME + 3 * np.random.default_rng(0).normal(size=FRAME.shape) * FRAME.std().to_numpy()])
SCALERS = {
    "standard": StandardScaler(),
    "only the mean": StandardScaler(with_std=False),
    "standard, not centred": StandardScaler(with_mean=False),
    "min-max": MinMaxScaler((-1, 2)),
    "min-max with limits": MinMaxScaler(clip=True),
    "robust": RobustScaler(),
    "robust, not centred": RobustScaler(with_centering=False),
    "max-abs": MaxAbsScaler(),
    "imputer": SimpleImputer(),
    "a chain": make_pipeline(RobustScaler(), "passthrough", MinMaxScaler(clip=True), StandardScaler()),
}
ESTIMATORS = {
    "gln": ib.GLNClassifier(3, C=0.1, random_state=1),
    "kernels": ib.MultipleKernelClassifier(C=1.0),
    "chosen C": ib.MarginClassifierCV(ib.GLNClassifier(2, random_state=1), cv=2, Cs=[0.1, 1.0]),
    "interactions": ib.InteractionClassifier(rounds=1, candidates=20, random_state=1, tol=1e-3),
    "outliers by kernels": ib.OneClassMargin(nu=0.1),
    "galu": GaLUClassifier(3, random_state=1),
    "galu targets": GaLURegressor(3, random_state=1),
}
PAIRS = [(scaler, "gln") for scaler in SCALERS]
PAIRS += [(scaler, name) for name in ESTIMATORS if name != "gln" for scaler in ("standard", "min-max with limits")]


@pytest.mark.parametrize(("scaler", "name"), PAIRS)
def test_a_loaded_pipeline_predicts_the_same(scaler, name, tmp_path):
    fitted = make_pipeline(clone(SCALERS[scaler]), clone(ESTIMATORS[name])).fit(FRAME, CODES)
    model = ib.load_model(ib.save_model(fitted, tmp_path / "m.npz"))
    scores = getattr(fitted, "decision_function", fitted.predict)(NEW)
    np.testing.assert_allclose(model.decision_function(NEW), scores, rtol=1e-12, atol=1e-12)
    if model.classes is not None:
        assert (model.predict(NEW) == fitted.predict(NEW)).all()
    assert model.columns.inputs == list(FRAME)
    np.testing.assert_allclose(model.ranges, [FRAME.min(), FRAME.max()], rtol=1e-12)
    again = ib.load_model(ib.save_model(model, tmp_path / "again.npz"))
    np.testing.assert_array_equal(again.decision_function(NEW), model.decision_function(NEW))


@pytest.mark.parametrize("scaler", SCALERS)
def test_inputs_in_single_precision_are_scaled_in_it(scaler, tmp_path):
    """Samples lie on the hyperplanes of gates, where the rounding of a scaler decides."""
    X = FRAME.astype(np.float32)
    fitted = make_pipeline(clone(SCALERS[scaler]), clone(ESTIMATORS["gln"])).fit(X, CODES)
    model = ib.load_model(ib.save_model(fitted, tmp_path / "m.npz"))
    np.testing.assert_allclose(model.decision_function(X), fitted.decision_function(X), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("pipeline", "words"),
    [
        (make_pipeline(Normalizer(), ib.GLNClassifier(2, random_state=1)), "Normalizer cannot be saved in front of a"),
        (make_pipeline(StandardScaler(), Normalizer(), GaLUClassifier(2)), "apply it to the inputs yourself"),
        (make_pipeline(StandardScaler(), LogisticRegression()), "a pipeline of scalers and such an estimator"),
        (GridSearchCV(ib.GLNClassifier(2, random_state=1), {"C": [0.1]}, cv=2), "of a search, its best_estimator_"),
    ],
    ids=str,
)
def test_other_steps_are_refused(pipeline, words, tmp_path):
    assert_refused(lambda: ib.save_model(pipeline.fit(FRAME, CODES), tmp_path / "m.npz"), words)
    assert not (tmp_path / "m.npz").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"scaling": np.ones((2, 3))},
        {"scaling": np.ones((3, 13))},
        {"scaling": np.zeros((2, 13))},
        {"scaling": np.full((2, 13), np.nan)},
        {"ranges": np.ones((2, 3))},
        {"ranges": np.arange(26.0).reshape(2, 13)[::-1]},
    ],
    ids=str,
)
def test_damaged_scalings_are_refused(change, tmp_path):
    path = ib.save_model(make_pipeline(StandardScaler(), GaLURegressor(2)).fit(FRAME, CODES), tmp_path / "m.npz")
    np.savez(path, **(dict(np.load(path)) | change))
    assert_refused(lambda: ib.load_model(path), "damaged")
