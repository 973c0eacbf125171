"""Comparisons and problems of one's own, as the scripts run them."""

import json

import numpy as np
import pandas as pd
import pytest

from implicit_bias import Status, load_model
from tests.cli.commands import run

REQUIRED = {
    *("dataset", "train_size", "units", "contexts", "seed", "model", "status", "error", "inconsistency"),
    *("expected_inconsistency", "objective", "gap", "iterations", "seconds"),
}
SMALL = ["--train-size", "60", "--seeds", "1", "2", "--steps", "60", "--jobs", "1"]


@pytest.mark.parametrize(
    ("command", "options", "models"),
    [
        ("compare gln", ["--units", "3,4", "--contexts", "2", "4"], ["GD-GLN", "SVM-L2", "SVM-GLN", "SVM-Fro"]),
        ("compare relu", ["--units", "5", "--momentum", "0", "0.9"], ["GD-ReLU", "SVM-RC", "SVM-LC", "SVM-HL"]),
        ("compare shallow-gln", ["--contexts", "1", "4", "64"], ["GD-shallow", "SVM-shallow"]),
    ],
)
def test_comparisons(command, options, models, tmp_path):
    done = run(*SMALL, *options, "--out", tmp_path / "out", command=command)
    assert done.returncode == 0, done.stderr
    table = pd.read_csv(tmp_path / "out" / "comparison.csv")
    assert set(table.columns) >= REQUIRED
    assert table.model.drop_duplicates().tolist() == models
    svm = table[table.status != "TRAINED"]
    assert svm.status.isin(["OPTIMAL", "NOT_SEPARABLE"]).all()
    assert (svm[svm.status == "OPTIMAL"].gap <= 1e-6).all()
    assert (svm.error.isna() == (svm.status == "NOT_SEPARABLE")).all()
    assert table.error.dropna().between(0, 1).all()
    assert (tmp_path / "out" / "comparison.png").stat().st_size > 10_000
    record = json.loads((tmp_path / "out" / "record.json").read_text())
    assert record["settings"]["seed"] == [1, 2]
    assert models[-1] in done.stdout
    assert "100%" in done.stderr


def test_both_versions_have_a_figure_each(tmp_path):
    done = run(*SMALL, "--units", "3", "--both", "--out", tmp_path, command="compare gln")
    assert done.returncode == 0, done.stderr
    assert {p.name for p in tmp_path.glob("*.png")} == {"comparison.png", "comparison_published.png"}
    assert "published" in done.stdout


def test_the_same_run_gives_the_same_table_on_one_and_two_processes(tmp_path):
    tables = []
    for jobs in ("1", "2"):
        done = run(*SMALL, "--jobs", jobs, "--units", "3", "--out", tmp_path / jobs, command="compare gln")
        assert done.returncode == 0, done.stderr
        tables.append(pd.read_csv(tmp_path / jobs / "comparison.csv"))
    trained = [t[t.model == "GD-GLN"].error.tolist() for t in tables]
    assert trained[0] == trained[1]
    np.testing.assert_allclose(*(t.objective for t in tables), rtol=1e-5)


@pytest.mark.parametrize(
    ("command", "options", "words"),
    [
        ("compare gln", ["--solver", "GUROBI"], "unknown solver"),
        ("compare gln", ["--contexts", "3"], "power of two"),
        ("compare gln", ["--units", "0"], "units"),
        ("compare gln", ["--seeds", "1", "1"], "twice"),
        ("compare gln", ["--momentum", "2"], "momentum"),
        ("compare gln", ["--train-size", "100000"], "at most 1438"),
        ("compare gln", ["--cutoff", "mean"], "median"),
        ("compare gln", ["--jobs", "0"], "jobs"),
        ("compare gln", ["--tol", "-1"], "tol"),
        ("compare gln", ["--solver", "OSQP"], "CLARABEL, ECOS or SCS"),
        ("compare gln", ["--dataset", "mnist", "--data-root", "/proc/none"], "by hand"),
        ("compare relu", ["--contexts", "4"], "contexts at 2"),
        ("compare shallow-gln", ["--units", "5"], "one unit"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(command, options, words, tmp_path):
    done = run(*SMALL, *options, "--out", tmp_path / "out", command=command)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.rglob("comparison*"))


def test_an_unwritable_output_is_refused_before_the_work(tmp_path):
    (tmp_path / "file").write_text("mine")
    done = run(*SMALL, "--out", tmp_path / "file", command="compare gln")
    assert done.returncode == 2
    assert "cannot be written" in done.stderr
    assert (tmp_path / "file").read_text() == "mine"


@pytest.fixture
def samples(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    y = np.where(X[:, 0] > 0, "up", "down")
    X[:, 0] += np.where(y == "up", 0.5, -0.5)
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(label=y)
    table.to_csv(tmp_path / "samples.csv", index=False)
    gates = (X[:, :2] > -10).astype(float)
    np.savez(tmp_path / "samples.npz", X=X, y=y, gates=gates, groups=np.array([0, 0]))
    return tmp_path


@pytest.mark.parametrize("formulation", ["svm-gln", "svm-l2", "svm-rc", "svm-shallow", "linear"])
def test_own_problems(samples, formulation):
    done = run("solve", samples / "samples.csv", "--formulation", formulation, "--C", "10", "--units",
               "4", "--out", samples / "s.npz")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "class +1 is 'up'" in done.stdout
    assert load_model(samples / "s.npz").solutions[0].status is Status.OPTIMAL


def test_a_start_is_of_the_same_labels(samples):
    first, again = samples / "s.npz", samples / "again.npz"
    assert run("solve", samples / "samples.csv", "--C", "1", "--keep-samples", "--out", first).returncode == 0
    assert load_model(first).problems[0].features.X.shape == (40, 4)
    assert run("solve", samples / "samples.csv", "--C", "2", "--start", first, "--out", again).returncode == 0
    table = pd.read_csv(samples / "samples.csv")
    table.iloc[::-1].to_csv(samples / "turned.csv", index=False)
    done = run("solve", samples / "turned.csv", "--start", first, "--out", samples / "turned.npz")
    assert done.returncode == 2
    assert "of samples with other labels, or in another order" in done.stderr
    table[:39].to_csv(samples / "fewer.csv", index=False)
    assert "is of 40 samples" in run("solve", samples / "fewer.csv", "--start", first).stderr


def test_own_gates(samples):
    out = samples / "s.npz"
    done = run("solve", samples / "samples.npz", "--out", out)
    assert done.returncode == 0, done.stderr
    assert load_model(out).solutions[0].weights.shape == (2, 4)
    done = run("solve", samples / "samples.npz", "--formulation", "svm-l2", "--out", samples / "t.npz")
    assert done.returncode == 2
    assert not (samples / "t.npz").exists()


def test_own_problem_that_is_not_separable(samples):
    X = np.array([[1.0, 2.0], [1.0, 2.0], [0.0, 1.0]])
    np.savez(samples / "n.npz", X=X, y=[0, 1, 1])
    done = run("solve", samples / "n.npz", "--formulation", "linear", "--out", samples / "s.npz")
    assert done.returncode == 0
    assert "NOT_SEPARABLE" in done.stdout
    assert load_model(samples / "s.npz").solutions[0].farkas_residual <= 1e-10
