"""`implicit-bias solve`: options, documents, limits, interruptions and what is refused of the samples."""

import io
import json
import re
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from sklearn.datasets import make_classification
from sklearn.model_selection import PredefinedSplit
from sklearn.preprocessing import StandardScaler

from implicit_bias import GLNClassifier, MarginClassifierCV, Status, load_model
from implicit_bias.cli.main import main
from implicit_bias.cli.solve import FOLDS, FORMULATIONS, GATES, PATIENCE, RATIO, VALUES, _places
from implicit_bias.solvers import path
from implicit_bias.solvers.path import path_values
from tests.cli.commands import answer, interrupted, posix, run


def test_a_solution_as_json(samples):
    code, document = answer("solve", "s.csv", "--label", "label", "--verbose")
    assert (code, document["status"]) == (0, "OPTIMAL")
    assert document["solutions"][0]["objective"] == load_model(document["files"][0]).solutions[0].objective
    expected = {"classes": ["down", "up"], "inputs": 5, "C": None}
    assert {name: document["problem"][name] for name in expected} == expected


VERBOSE = ("solve", "s.npz", "--verbose", "--tol", "1e-3", "--C", "1", "--units", "3", "--json")


@posix
@pytest.mark.parametrize("solver", ["NATIVE", "ECOS", "SCS", "CLARABEL"])
def test_json_alone_on_standard_output(samples, capfd, solver):
    assert main([*VERBOSE, "--solver", solver]) == 0
    out, err = capfd.readouterr()
    assert (json.loads(out)["solutions"][0]["solver"], "40 samples" in err) == (solver, True)
    assert len(err.splitlines()) > 6


def test_inseparable_samples_leave_no_model(samples):
    code, document = answer("solve", "none.npz", "--formulation", "linear")
    assert (code, document["status"], document["solutions"][0]["objective"]) == (3, "NOT_SEPARABLE", None)
    assert (document["solutions"][0]["farkas_residual"] < 1e-10, document["files"]) == (True, [])
    done = run("solve", "none.npz", "--formulation", "linear")
    assert done.stdout.splitlines()[-1] == "wrote no file; next: the same command with --C auto, a soft margin"
    assert not Path("none-model.npz").exists()


def test_sample_weights_of_csv_and_npz(samples):
    options = ("--formulation", "linear", "--C", "0.1", "--tol", "1e-8")
    _, by_column = answer("solve", "s.csv", *options, "--weights", "weight")
    _, by_array = answer("solve", "s.npz", *options)
    np.savez(samples / "plain.npz", **{k: v for k, v in np.load("s.npz").items() if k != "sample_weight"})
    _, without = answer("solve", "plain.npz", *options)
    column, array, plain_one = (document["solutions"][0]["objective"] for document in (by_column, by_array, without))
    assert column == pytest.approx(array, rel=1e-6)
    assert column > 1.01 * plain_one
    assert [one["problem"]["weighted"] for one in (by_column, by_array, without)] == [True, True, False]


def test_weights_on_a_hard_margin_are_warned_of(samples):
    done = run("solve", "s.npz")
    assert (done.returncode, "no effect on a hard margin; give a finite --C" in done.stderr) == (0, True)


def test_inputs_of_unlike_sizes_are_standardised(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("far.csv").write_text("metres,microns,nothing,kind\n1.5,2e6,0,a\n2,1e6,0,b\n1,3e6,0,a\n")
    Path("near.csv").write_text("metres,decimetres,kind\n1.5,15,a\n2,26,b\n1,12,a\n")
    told = "input 'microns' is 2e+06 times as large as input 'metres': all are standardised"
    cases = {("far.csv",): True, ("near.csv",): False, ("far.csv", "--no-standardise"): False}
    cases |= {("near.csv", "--standardise"): True}
    for arguments, expected in cases.items():
        done = run("solve", *arguments, "--out", "m.npz")
        assert (done.returncode, told in done.stdout) == (0, arguments == ("far.csv",))
        model = load_model("m.npz")
        assert (model.scaling is not None) == expected
        X = pd.read_csv(arguments[0]).drop(columns="kind").to_numpy()
        np.testing.assert_array_equal(model.ranges, [X.min(axis=0), X.max(axis=0)])
        inputs = StandardScaler().fit_transform(X) if expected else X
        np.testing.assert_allclose(model.inputs(X), np.column_stack([inputs, np.ones(3)]), rtol=1e-12, atol=1e-12)
        assert "error 0.00 %" in run("predict", "m.npz", arguments[0]).stdout


@pytest.fixture
def noisy(tmp_path, monkeypatch):
    """Return the folder with 150 noisy samples of two classes, and 60 more, as tables; their arrays."""
    monkeypatch.chdir(tmp_path)
    X, y = make_classification(210, 6, flip_y=0.1, random_state=1)
    table = pd.DataFrame(X, columns=list("abcdef")).assign(kind=np.where(y, "yes", "no"))
    table[:150].to_csv("old.csv", index=False)
    table[150:].to_csv("new.csv", index=False)
    return X[:150], table.kind[:150].to_numpy()


@pytest.mark.parametrize("gates", [{}, {"gate_a": lambda table: (table.a > 0).astype(int)}], ids=["drawn", "given"])
def test_errors_of_training_and_of_a_file(noisy, gates):
    for name in ("old.csv", "new.csv"):
        pd.read_csv(name).assign(**gates).to_csv(name, index=False)
    label = ("--label", "kind")
    done = run("solve", "old.csv", "--C", "0.1", "--validate", "new.csv", *label)
    assert done.returncode == 0, done.stderr
    _, document = answer("solve", "old.csv", "--C", "0.1", "--validate", "new.csv", *label)
    for name, part in (("old", "training"), ("new", "held_out")):
        _, predicted = answer("predict", "old-model.npz", f"{name}.csv")
        assert document[part]["wrong"] == predicted["wrong"] > 0
        assert document[part]["samples"] == predicted["samples"]
    counts = document["held_out"]
    low, high = counts["interval"]
    # Clopper and Pearson: as few or as many wrong labels have a probability of 2.5 %.
    tails = binom.sf(counts["wrong"] - 1, 60, low), binom.cdf(counts["wrong"], 60, high)
    assert tails == pytest.approx([0.025, 0.025], rel=1e-9)
    assert f"error {100 * counts['error']:.2f} % ({counts['wrong']} of 60 wrong), 95 % interval" in done.stdout
    assert done.stdout.splitlines()[-1] == "wrote old-model.npz; next: implicit-bias predict old-model.npz NEW.csv"


def test_a_share_is_held_out_of_each_class(noisy):
    table = pd.read_csv("old.csv")
    rare = pd.concat([table, table[:1].assign(kind="once")])
    rare.to_csv("rare.csv", index=False)
    _, document = answer("solve", "rare.csv", "--C", "0.1", "--validate", "0.2")
    held = round(0.2 * (table.kind == "yes").sum()) + round(0.2 * (table.kind == "no").sum())
    assert document["held_out"]["samples"] == held
    assert document["training"]["samples"] == document["problem"]["samples"] == 151 - held
    assert document["problem"]["classes"] == ["no", "once", "yes"]
    assert "class once has one sample" in run("solve", "rare.csv", "--C", "auto").stderr


@pytest.mark.parametrize("finished", [1, 4])
def test_values_of_c_that_are_late_are_not_compared(noisy, finished, monkeypatch):
    """The time limit ends a fold after its largest values of C."""
    whole, calls = path.solve, []

    def limited(problem, *arguments, **options):
        calls.append(problem.C)
        folds = sum(calls[0] == C for C in calls)
        late = folds == 2 and sorted(set(calls))[::-1].index(problem.C) == finished
        return whole(problem, *arguments, **(options | {"max_seconds": 1e-9} if late else options))

    monkeypatch.setattr(path, "solve", limited)
    done = run("solve", "old.csv", "--C", "auto", "--max-seconds", 1000)
    C, tried = load_model("old-model.npz").problems[0].C, sorted(set(calls))[::-1]
    assert (done.returncode, calls.count(calls[0]), tried[0]) == (0, 2 if finished == 1 else FOLDS, calls[0])
    assert f"had finished {0 if finished == 1 else 4} of 10 values of C; allow more" in done.stderr
    if finished == 1:
        assert f"C = {C:.3g} is the default of the classifiers" in done.stdout
        alike = GLNClassifier(cutoff="median", random_state=1, free_intercept=False)
        assert pytest.approx(alike.fit(*noisy).C_, rel=0.01) == C
        assert "cross-validation" not in done.stdout
    else:
        assert re.search(r"in 5-fold cross-validation, .* %, of 4 values from", done.stdout)
        assert C in tried[:4]


def test_the_chosen_cost_is_that_of_the_search_over_the_same_folds(noisy):
    X, kinds = noisy
    code, document = answer("solve", "old.csv", "--C", "auto", "--units", 3)
    gates = GLNClassifier(units=3, cutoff="median", free_intercept=False, random_state=1)
    folds = PredefinedSplit(_places(kinds, 1)[0] % FOLDS)
    model = load_model("old-model.npz")
    (problem,) = model.problems
    costs = path_values([problem.replace(features=problem.gates(model.inputs(X)))], VALUES, RATIO)
    search = MarginClassifierCV(gates, Cs=costs, cv=folds).fit(X, kinds)
    assert (code, document["problem"]["C"]) == (0, search.C_)
    assert not document["constant"]


def test_sample_weights_count_in_cross_validation(noisy):
    """The errors on wrongly labelled copies with negligible weights are not counted."""
    table = pd.read_csv("old.csv").assign(w=1.0)
    wrong = table.assign(kind=table.kind.map({"yes": "no", "no": "yes"}), w=1e-6)
    pd.concat([table, wrong])[["w", *table.columns[:-1]]].to_csv("old.csv", index=False)
    done = run("solve", "old.csv", "--C", "auto", "--weights", "w")
    assert float(re.search(r"5-fold cross-validation, (.*) %", done.stdout)[1]) < 30


@pytest.mark.parametrize("table", ["old.csv", "three.csv"])
def test_a_constant_model_is_warned_of(noisy, table):
    pd.read_csv("old.csv").assign(kind=np.arange(150) % 3).to_csv("three.csv", index=False)
    done = run("solve", table, "--C", "1e-9")
    assert done.returncode == 0
    assert re.search(r"predicts ('no'|0) for every sample: all weights are zero up to C = ", done.stderr)
    assert done.stdout.endswith("next: the same command with --C auto\n")
    assert "margin -0" not in done.stdout + run("predict", f"{Path(table).stem}-model.npz", table).stdout
    assert answer("solve", table, "--C", "1e-9")[1]["constant"]
    assert "every sample" not in run("solve", table, "--max-seconds", "1e-9").stderr


@pytest.mark.parametrize(
    ("validate", "words"),
    [
        ("1.5", "must be a share between 0 and 1"),
        ("0.001", "holds out none of 150 samples"),
        ("bare.csv", "must hold a label for each sample"),
        ("other.csv", "must hold a label for each sample"),
        ("nowhere.csv", "check the path"),
    ],
)
def test_invalid_validation(noisy, validate, words):
    table = pd.read_csv("new.csv")
    table.drop(columns="kind").to_csv("bare.csv", index=False)
    table.assign(kind="maybe").to_csv("other.csv", index=False)
    done = run("solve", "old.csv", "--validate", validate)
    assert (done.returncode, words in done.stderr) == (2, True)


@pytest.mark.parametrize("limit", [["--max-seconds", "1e-9"], ["--max-iterations", "1"]])
def test_limits_and_exit_code_1(samples, limit):
    code, document = answer("solve", "s.npz", "--C", "1", *limit)
    assert (code, document["status"]) == (1, "TIME_LIMIT" if "seconds" in limit[0] else "ITERATION_LIMIT")
    assert load_model(document["files"][0]).status is Status[document["status"]]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_of_a_long_solve(samples):
    rng = np.random.default_rng(0)
    np.savez("long.npz", X=rng.normal(size=(6000, 60)), y=rng.integers(0, 2, 6000))
    done = interrupted("", "solve", "long.npz", "--units", 100, "--C", 1, "--tol", 1e-9, terminal=True)
    first, line = done.stderr.split("\r\x1b[K")
    assert (done.returncode, "gap" in first) == (130, False)
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
    # predict needs a solution of every class.
    X = np.random.default_rng(0).normal(size=(40, 3))
    np.savez("three.npz", X=X, y=np.arange(40) % 3)
    done = interrupted("\n  3  ", "solve", "three.npz", "--C", "1", "--tol", "1e-9", "--verbose")
    assert done.stdout.endswith("wrote three-model.npz; next: the same command with --start three-model.npz\n")


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_own_problems(samples, formulation):
    options = [word for name in FORMULATIONS[formulation] for word in (f"--{name}", "4")]
    solve = ("solve", "s.csv", "--formulation", formulation, "--C", "10")
    done = run(*solve, *options)
    assert done.returncode == 0, done.stderr
    assert "class +1 is 'up'" in done.stdout
    assert load_model("s-model.npz").solutions[0].status is Status.OPTIMAL
    void = [f"--{name}" for name in GATES if name not in FORMULATIONS[formulation]]
    done = run(*solve, *(word for name in void for word in (name, "4")))
    text = f"{' and '.join(void)} would have no effect with --formulation {formulation}"
    assert (done.returncode, text in done.stderr) == ((2, True) if void else (0, False))


def test_columns_that_are_gates_by_their_names_or_inputs(samples):
    pd.read_csv("s.csv").rename(columns={"c": "gate_voltage"}).assign(note="x").to_csv("own.csv")
    told = "gate values: gate_voltage, by their names"
    solve = ("solve", "own.csv", "--label", "label", "--C", "1", "--drop", "", "weight", "note")
    for options, gates, inputs in [
        ([], ["gate_voltage"], ["a", "b"]),
        (["--gates", "b"], ["b"], ["a", "gate_voltage"]),
        (["--gates"], [], ["a", "b", "gate_voltage"]),
    ]:
        done = run(*solve, *options)
        assert (done.returncode, told in done.stdout) == (0, not options), done.stderr
        model = load_model("own-model.npz")
        assert (model.columns.gates, model.columns.inputs) == (gates, inputs)
        assert model.problems[0].features.k == (len(gates) or 20)
        # Other columns are ignored, those without a name too.
        assert run("predict", "own-model.npz", "own.csv").returncode == 0
    done = run(*solve, "--units", "3", "--contexts", "4")
    assert (done.returncode, "--units and --contexts would have no effect with the gate" in done.stderr) == (2, True)
    assert "values that are not numbers, such as 'x'" in run(*solve[:-1]).stderr


def test_a_start_is_of_the_same_labels(samples):
    first = "s-model.npz"
    assert run("solve", "s.csv", "--C", "1", "--keep-samples").returncode == 0
    assert load_model(first).problems[0].features.X.shape == (40, 5)
    assert run("solve", "s.csv", "--C", "2", "--start", first, "--out", "again.npz").returncode == 0
    table = pd.read_csv("s.csv")
    table.iloc[::-1].to_csv("turned.csv", index=False)
    done = run("solve", "turned.csv", "--start", first)
    assert (done.returncode, "of samples with other labels, or in another order" in done.stderr) == (2, True)
    table[:39].to_csv("fewer.csv", index=False)
    assert "is of 40 samples" in run("solve", "fewer.csv", "--start", first).stderr


def test_own_gates(samples):
    np.savez("own.npz", **np.load("s.npz"), gates=np.ones((40, 2)), groups=np.array([0, 0]))
    done = run("solve", "own.npz")
    assert done.returncode == 0, done.stderr
    assert load_model("own-model.npz").solutions[0].weights.shape == (2, 4)
    done = run("solve", "own.npz", "--formulation", "svm-l2", "--out", "t.npz")
    assert (done.returncode, Path("t.npz").exists()) == (2, False)
