"""`implicit-bias solve`: options, documents, limits, interruptions and what is refused of the samples."""

import io
import json
import os
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from implicit_bias import Status, load_model
from implicit_bias.cli.main import main
from implicit_bias.cli.solve import PATIENCE
from tests.cli.commands import answer, interrupted, run

posix = pytest.mark.skipif(os.name != "posix", reason="sends a POSIX signal, or runs a POSIX shell")


def test_a_solution_as_json(samples):
    code, document = answer("solve", "s.csv", "--label", "label", "--verbose")
    assert code == 0
    assert document["status"] == "OPTIMAL"
    assert document["solutions"][0]["objective"] == load_model(document["files"][0]).solutions[0].objective
    assert document["problem"]["classes"] == ["down", "up"]
    assert document["problem"]["inputs"] == 5
    assert document["problem"]["C"] is None


VERBOSE = ("solve", "s.npz", "--verbose", "--tol", "1e-3", "--C", "1", "--json")


@posix
@pytest.mark.parametrize("solver", ["NATIVE", "ECOS", "SCS", "CLARABEL"])
def test_json_alone_on_standard_output(samples, capfd, solver):
    assert main([*VERBOSE, "--solver", solver]) == 0
    out, err = capfd.readouterr()
    assert json.loads(out)["solutions"][0]["solver"] == solver
    assert "40 samples" in err
    assert len(err.splitlines()) > 6


def test_inseparable_problem_as_json(samples):
    code, document = answer("solve", "none.npz", "--formulation", "linear")
    assert (code, document["status"], document["solutions"][0]["objective"]) == (0, "NOT_SEPARABLE", None)
    assert document["solutions"][0]["farkas_residual"] < 1e-10


def test_sample_weights_of_csv_and_npz(samples):
    options = ("--formulation", "linear", "--C", "0.1", "--tol", "1e-8")
    _, by_column = answer("solve", "s.csv", *options, "--weights", "weight")
    _, by_array = answer("solve", "s.npz", *options)
    np.savez(samples / "plain.npz", **{k: v for k, v in np.load("s.npz").items() if k != "sample_weight"})
    _, without = answer("solve", "plain.npz", *options)
    column, array, plain_one = (document["solutions"][0]["objective"] for document in (by_column, by_array, without))
    assert column == pytest.approx(array, rel=1e-6)
    assert column > 1.01 * plain_one
    weights = [document["problem"]["weighted"] for document in (by_column, by_array, without)]
    assert weights == [True, True, False]


def test_weights_on_a_hard_margin_are_warned_of(samples):
    done = run("solve", "s.npz")
    assert done.returncode == 0
    assert "no effect on a hard margin; give a finite --C" in done.stderr


def test_inputs_out_of_scale_are_warned_of(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("far.csv").write_text("metres,microns,nothing,kind\n1.5,2e6,0,a\n2,1e6,0,b\n1,3e6,0,a\n")
    Path("near.csv").write_text("metres,centimetres,kind\n1.5,150,a\n2,260,b\n1,120,a\n")
    told = "input 'microns' is 2e+06 times as large as input 'metres'"
    assert [told in run("solve", name).stderr for name in ("far.csv", "near.csv")] == [True, False]


@pytest.mark.parametrize("limit", [["--max-seconds", "1e-9"], ["--max-iterations", "1"]])
def test_limits_and_exit_code_1(samples, limit):
    code, document = answer("solve", "s.npz", "--C", "1", *limit)
    assert code == 1
    assert document["status"] == ("TIME_LIMIT" if "seconds" in limit[0] else "ITERATION_LIMIT")
    assert load_model(document["files"][0]).status is Status[document["status"]]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_of_a_long_solve(samples):
    rng = np.random.default_rng(0)
    np.savez("long.npz", X=rng.normal(size=(6000, 60)), y=rng.integers(0, 2, 6000))
    done = interrupted("", "solve", "long.npz", "--units", 100, "--C", 1, "--tol", 1e-9, terminal=True)
    first, line = done.stderr.split("\r\x1b[K")
    assert done.returncode == 130
    assert "gap" not in first
    assert float(line.split()[-2]) >= PATIENCE
    assert done.stdout.splitlines()[2].startswith("INTERRUPTED")


@pytest.mark.parametrize("options", [[], ["--solver", "SCS", "--tol", "1e-3"]])
def test_no_progress_of_a_short_solve(options, samples):
    with redirect_stderr(Terminal()) as terminal, redirect_stdout(io.StringIO()):
        assert main(["solve", "s.npz", *options]) == 0
    assert "samples" not in terminal.getvalue()


def test_an_interrupted_solve_saves_the_best_answer(samples):
    done = interrupted("\n  3  ", "solve", "s.npz", "--C", "1", "--tol", "1e-9", "--json", "--verbose")
    assert (done.returncode, json.loads(done.stdout)["status"]) == (130, "INTERRUPTED")
    assert load_model("s-model.npz").status is Status.INTERRUPTED


@pytest.fixture
def own(tmp_path):
    """Return a folder with 40 separable samples as a table, and as arrays with two gates in one group."""
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
def test_own_problems(own, formulation):
    done = run("solve", own / "samples.csv", "--formulation", formulation, "--C", "10", "--units",
               "4", "--out", own / "s.npz")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "class +1 is 'up'" in done.stdout
    assert load_model(own / "s.npz").solutions[0].status is Status.OPTIMAL


def test_a_start_is_of_the_same_labels(own):
    first, again = own / "s.npz", own / "again.npz"
    assert run("solve", own / "samples.csv", "--C", "1", "--keep-samples", "--out", first).returncode == 0
    assert load_model(first).problems[0].features.X.shape == (40, 4)
    assert run("solve", own / "samples.csv", "--C", "2", "--start", first, "--out", again).returncode == 0
    table = pd.read_csv(own / "samples.csv")
    table.iloc[::-1].to_csv(own / "turned.csv", index=False)
    done = run("solve", own / "turned.csv", "--start", first, "--out", own / "turned.npz")
    assert done.returncode == 2
    assert "of samples with other labels, or in another order" in done.stderr
    table[:39].to_csv(own / "fewer.csv", index=False)
    assert "is of 40 samples" in run("solve", own / "fewer.csv", "--start", first).stderr


def test_own_gates(own):
    out = own / "s.npz"
    done = run("solve", own / "samples.npz", "--out", out)
    assert done.returncode == 0, done.stderr
    assert load_model(out).solutions[0].weights.shape == (2, 4)
    done = run("solve", own / "samples.npz", "--formulation", "svm-l2", "--out", own / "t.npz")
    assert done.returncode == 2
    assert not (own / "t.npz").exists()
