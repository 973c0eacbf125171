"""`implicit-bias predict`: inputs far from those of the fit, labels that are ignored, and the last line."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler

from implicit_bias import GLNClassifier, OneClassMargin, load_model, read_samples, save_model
from implicit_bias.cli.solve import _places
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


def test_texts_are_encoded_and_empty_cells_filled_as_by_scikit_learn(folder):
    rng = np.random.default_rng(1)
    table = FLOWERS.iloc[:, :2].assign(colour=rng.choice(["red", "blue", None], 150), species=CODES)
    table = table.mask(rng.random(table.shape) < [0.2, 0, 0, 0])
    table.to_csv("gaps.csv", index=False)
    options = ("--C", 1, "--encode", "--impute", "median", "--standardise", "--validate", 0.2)
    assert run("solve", "gaps.csv", *options).returncode == 0
    model, samples = load_model("gaps-model.npz"), read_samples("gaps.csv", encode=True, keep_missing=True)
    place, size = _places(samples.labels, 1)
    fitted = place >= np.minimum(np.round(0.2 * size), size - 1)
    numbers = SimpleImputer(strategy="median")
    each = ColumnTransformer([("n", numbers, [0, 1]), ("t", OneHotEncoder(sparse_output=False), [2])])
    texts = table.fillna({"colour": ""})
    expected = make_pipeline(each, StandardScaler()).fit(texts[fitted]).transform(texts)
    np.testing.assert_allclose(model.inputs(samples.X)[:, :-1], expected, rtol=1e-12, atol=1e-12)
    table.assign(colour="green", id=range(700, 850))[100:].to_csv("new.csv", index=False)
    done = run("predict", "gaps-model.npz", "new.csv", "--keep", "id")
    assert "has 50 texts that the fit had not, such as 'green'" in done.stderr
    found = pd.read_csv("new-predictions.csv")
    assert (found.row.tolist(), found.id.tolist()) == (list(range(1, 51)), list(range(800, 850)))


def test_standard_input(folder, monkeypatch):
    assert run("solve", "iris.csv", "--C", 0.1).returncode == 0
    for command in (("solve", "-", "--C", 0.1), ("predict", "model.npz", "-")):
        with (folder / "iris.csv").open() as file:
            monkeypatch.setattr("sys.stdin", file)
            assert run(*command).returncode == 0
    weights = [load_model(name).solutions[0].weights.tolist() for name in ("model.npz", "iris-model.npz")]
    assert (weights[0], len(pd.read_csv("predictions.csv"))) == (weights[1], len(CODES))
    assert "standard input is read once; give" in run("solve", "-", "--validate", "-").stderr


def test_validation_samples_that_the_fit_has_are_counted(folder):
    FLOWERS.assign(species=CODES)[:40].to_csv("part.csv", index=False)
    done = run("solve", "iris.csv", "--C", 0.1, "--validate", "part.csv")
    assert "40 of 40 samples of part.csv are also in iris.csv" in done.stderr


def test_labels_are_ignored(folder):
    assert run("solve", "iris.csv", "--C", 0.1).returncode == 0
    inspect = "inspect the misclassified samples, whose margins are at most 0"
    for options, then in ([], inspect), (["--ignore-label"], "read its predictions"):
        done = run("predict", "iris-model.npz", "iris.csv", *options)
        assert done.stdout.endswith(f"wrote iris-predictions.csv; next: {then}\n")
        assert ("error" in done.stdout) == ("margin" in pd.read_csv("iris-predictions.csv")) == (not options)
