"""`implicit-bias predict`: inputs far from those of the fit, labels that are ignored, and the last line."""

import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from implicit_bias import GLNClassifier, OneClassMargin, save_model
from tests.cli.commands import answer, run

FLOWERS, CODES = load_iris(return_X_y=True, as_frame=True)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a new working directory with the iris flowers, and with some of them in millimetres."""
    monkeypatch.chdir(tmp_path)
    FLOWERS.assign(species=CODES).to_csv("iris.csv", index=False)
    pd.concat([10 * FLOWERS[:10], FLOWERS[10:]]).to_csv("millimetres.csv", index=False)
    return tmp_path


ESTIMATORS = {
    "classifier": GLNClassifier(3, C=0.1, random_state=1),
    "outliers": OneClassMargin(),
    "outliers within limits": make_pipeline(MinMaxScaler(clip=True), OneClassMargin()),
}


@pytest.mark.parametrize("estimator", ESTIMATORS.values(), ids=ESTIMATORS)
def test_inputs_far_from_those_of_the_fit_are_warned_of(folder, estimator):
    save_model(estimator.fit(FLOWERS, CODES), "m.npz")
    near, far = (run("predict", "m.npz", f"{name}.csv", "--ignore-label") for name in ("iris", "millimetres"))
    assert (near.returncode, near.stderr) == (0, "")
    told = "10 of 150 samples are outside the range of the fit by more than its width, in 3 of 4 columns, such as"
    assert f"{told} 'sepal length (cm)'; check their units" in far.stderr
    assert answer("predict", "m.npz", "millimetres.csv")[1]["far_outside"] == 10


def test_labels_are_ignored(folder):
    assert run("solve", "iris.csv", "--C", 0.1).returncode == 0
    with_labels = run("predict", "iris-model.npz", "iris.csv")
    assert "error" in with_labels.stdout
    assert with_labels.stdout.endswith(
        "wrote iris-predictions.csv; next: inspect the misclassified samples, whose margins are at most 0\n"
    )
    assert "margin" in pd.read_csv("iris-predictions.csv")
    without = run("predict", "iris-model.npz", "iris.csv", "--ignore-label")
    assert "error" not in without.stdout
    assert without.stdout.endswith("wrote iris-predictions.csv; next: read its predictions\n")
    assert "margin" not in pd.read_csv("iris-predictions.csv")
