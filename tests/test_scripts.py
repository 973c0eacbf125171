"""The scripts as a user runs them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from implicit_bias import Status, load_solution

SCRIPTS = Path(__file__).parent.parent / "scripts"
REQUIRED = {
    *("dataset", "train_size", "units", "contexts", "seed", "model", "status", "error", "inconsistency"),
    *("expected_inconsistency", "objective", "gap", "iterations", "seconds"),
}
SMALL = ["--train-size", "60", "--seeds", "1", "2", "--steps", "60", "--jobs", "1"]


def run(script, *arguments, **environment):
    command = [sys.executable, str(SCRIPTS / f"{script}.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | environment, timeout=300)


@pytest.mark.parametrize(
    ("script", "options", "models"),
    [
        ("compare_gln", ["--units", "3,4", "--contexts", "2", "4"], ["GD-GLN", "SVM-L2", "SVM-GLN", "SVM-Fro"]),
        ("compare_relu", ["--units", "5", "--momentum", "0", "0.9"], ["GD-ReLU", "SVM-RC", "SVM-LC", "SVM-HL"]),
        ("compare_shallow_gln", ["--contexts", "1", "4", "64"], ["GD-shallow", "SVM-shallow"]),
    ],
)
def test_comparisons(script, options, models, tmp_path):
    done = run(script, *SMALL, *options, "--out", tmp_path / "out")
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
    record = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert record["studies"][0]["seeds"] == [1, 2]
    assert models[-1] in done.stdout
    assert "100%" in done.stderr


def test_both_versions_have_a_figure_each(tmp_path):
    done = run("compare_gln", *SMALL, "--units", "3", "--both", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert {p.name for p in tmp_path.glob("*.png")} == {"comparison.png", "comparison_published.png"}
    assert "published" in done.stdout


def test_the_same_run_gives_the_same_table_on_one_and_two_processes(tmp_path):
    tables = []
    for jobs in ("1", "2"):
        done = run("compare_gln", *SMALL, "--jobs", jobs, "--units", "3", "--out", tmp_path / jobs)
        assert done.returncode == 0, done.stderr
        tables.append(pd.read_csv(tmp_path / jobs / "comparison.csv"))
    trained = [t[t.model == "GD-GLN"].error.tolist() for t in tables]
    assert trained[0] == trained[1]
    np.testing.assert_allclose(*(t.objective for t in tables), rtol=1e-5)


@pytest.mark.parametrize(
    ("script", "options", "words"),
    [
        ("compare_gln", ["--dataset", "cifar"], "unknown data set 'cifar'"),
        ("compare_gln", ["--solver", "GUROBI"], "unknown solver"),
        ("compare_gln", ["--contexts", "3"], "power of two"),
        ("compare_gln", ["--units", "ten"], "not a list of int values"),
        ("compare_gln", ["--units", "0"], "units"),
        ("compare_gln", ["--seeds", "1", "1"], "twice"),
        ("compare_gln", ["--momentum", "2"], "momentum"),
        ("compare_gln", ["--train-size", "100000"], "at most 1438"),
        ("compare_gln", ["--cutoff", "mean"], "median"),
        ("compare_gln", ["--jobs", "0"], "jobs"),
        ("compare_gln", ["--tol", "-1"], "tol"),
        ("compare_gln", ["--solver", "OSQP"], "CLARABEL, ECOS or SCS"),
        ("compare_gln", ["--dataset", "mnist", "--data-root", "/proc/none"], "by hand"),
        ("compare_relu", ["--contexts", "4"], "contexts at 2"),
        ("compare_shallow_gln", ["--units", "5"], "one unit"),
        ("solve_margin_problem", ["nowhere.csv"], "nowhere.csv is not a readable file"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(script, options, words, tmp_path):
    done = run(script, *options, *([] if script.startswith("solve") else ["--out", tmp_path / "out"]))
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.rglob("comparison*"))


def test_an_unwritable_output_is_refused_before_the_work(tmp_path):
    (tmp_path / "file").write_text("mine")
    done = run("compare_gln", *SMALL, "--out", tmp_path / "file")
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
    done = run("solve_margin_problem", samples / "samples.csv", "--formulation", formulation, "--C", "10", "--units",
               "4", "--out", samples / "s.npz")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "class +1 is 'up'" in done.stdout
    assert load_solution(samples / "s.npz").status is Status.OPTIMAL


def test_own_gates(samples):
    out = samples / "s.npz"
    done = run("solve_margin_problem", samples / "samples.npz", "--out", out)
    assert done.returncode == 0, done.stderr
    assert load_solution(out).weights.shape == (2, 4)
    done = run("solve_margin_problem", samples / "samples.npz", "--formulation", "svm-l2", "--out", samples / "t.npz")
    assert done.returncode == 2
    assert not (samples / "t.npz").exists()


def test_own_problem_that_is_not_separable(samples):
    X = np.array([[1.0, 2.0], [1.0, 2.0], [0.0, 1.0]])
    np.savez(samples / "n.npz", X=X, y=[0, 1, 1])
    done = run("solve_margin_problem", samples / "n.npz", "--formulation", "linear", "--out", samples / "s.npz")
    assert done.returncode == 0
    assert "NOT_SEPARABLE" in done.stdout
    assert load_solution(samples / "s.npz").farkas_residual <= 1e-10


def test_weights_that_do_not_separate_have_no_error(monkeypatch):
    """An unfinished answer must not enter the means as a classifier."""
    from implicit_bias.experiments.paper.gln import STUDY
    from implicit_bias.experiments.paper.study import Config
    from implicit_bias.experiments.paper.sweep import run as run_sweep
    from implicit_bias.margin.solvers.answer import Answer
    from implicit_bias.margin.solvers.native import NativeSolver

    def gives_up(solver, problem, options):
        return Answer(np.zeros((problem.features.k, problem.features.d)), np.ones(problem.features.n), 3)

    monkeypatch.setattr(NativeSolver, "__call__", gives_up)
    table = run_sweep([(STUDY, Config(train_size=(60,), units=(3,), seeds=(1,), steps=50))]).table
    unfinished = table[table.status == "INACCURATE"]
    assert len(unfinished) == 3
    assert unfinished.error.isna().all()
    assert unfinished.inconsistency.isna().all()
