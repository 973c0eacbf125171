"""`implicit-bias compare`: tables, figures, records, and what is refused."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from implicit_bias import __version__
from implicit_bias.studies.paper.summary import readable
from tests.cases import interrupt
from tests.cli.commands import answer, run

REQUIRED = {
    *("dataset", "train_size", "units", "contexts", "seed", "model", "status", "error", "inconsistency"),
    *("expected_inconsistency", "objective", "gap", "iterations", "seconds"),
}


SMALL = ["--train-size", "60", "--seeds", "1", "2", "--steps", "60", "--jobs", "1"]


@pytest.mark.parametrize(
    ("command", "options", "models"),
    [
        ("compare gln", ["--units", "3", "--contexts", "2", "4"], ["GD-GLN", "SVM-L2", "SVM-GLN", "SVM-Fro"]),
        ("compare relu", ["--units", "5", "--momentum", "0", "0.9"], ["GD-ReLU", "SVM-RC", "SVM-LC", "SVM-HL"]),
        ("compare shallow-gln", ["--contexts", "1", "4", "64"], ["GD-shallow", "SVM-shallow"]),
    ],
)
def test_comparisons(command, options, models, tmp_path, unpainted):
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
    assert (tmp_path / "out" / "comparison.png").is_file()
    record = json.loads((tmp_path / "out" / "record.json").read_text())
    assert record["settings"]["seed"] == [1, 2]
    assert models[-1] in done.stdout
    assert re.match(r"wrote \d+ files in (\S+/out); next: read \1/findings\.md$", done.stdout.splitlines()[-1])
    assert "100%" in done.stderr


def test_both_versions_as_json_have_a_figure_each(tmp_path):
    code, document = answer("compare", "gln", *SMALL, "--units", "3", "--both", "--out", tmp_path)
    assert code == 0
    pictures = {path.name: path.stat().st_size for path in tmp_path.glob("*.png")}
    assert pictures.keys() == {"comparison.png", "comparison_published.png"}
    assert min(pictures.values()) > 10_000
    # The published version has no SVM-Fro.
    published = {"GD-GLN", "SVM-L2", "SVM-GLN"}
    for version, models in (("corrected", published | {"SVM-Fro"}), ("published", published)):
        assert {row["model"] for row in document["summary"] if row["version"] == version} == models
    assert len(document["rows"]) == 2 * (4 + 3)
    assert document["record"]["versions"]["implicit-bias"] == __version__
    assert all(Path(path).is_file() for path in document["files"])


def test_table_of_one_and_two_processes(tmp_path, unpainted):
    tables = []
    for jobs in ("1", "2"):
        done = run(*SMALL, "--jobs", jobs, "--units", "3", "--out", tmp_path / jobs, command="compare gln")
        assert done.returncode == 0, done.stderr
        tables.append(pd.read_csv(tmp_path / jobs / "comparison.csv"))
    trained = [t[t.model == "GD-GLN"].error.tolist() for t in tables]
    assert trained[0] == trained[1]
    np.testing.assert_allclose(*(t.objective for t in tables), rtol=1e-5)


def test_unwritable_output(tmp_path):
    (tmp_path / "file").write_text("mine")
    done = run(*SMALL, "--out", tmp_path / "file", command="compare gln")
    assert (done.returncode, "cannot be written" in done.stderr) == (2, True)
    assert (tmp_path / "file").read_text() == "mine"


def test_results_of_other_settings(tmp_path, unpainted):
    """A run may add values of settings to those of the folder, but not replace any."""

    def compared(*options):
        small = ("--train-size", 60, "--units", 3, "--jobs", 1, "--out", tmp_path)
        done = run("compare", "gln", *small, *options)
        return done, (tmp_path / "comparison.csv").read_bytes()

    done, first = compared("--seeds", 1, 2, "--steps", 30)
    assert done.returncode == 0
    assert re.search(r"2 of 2 cells 100% \|#+\|", done.stderr)
    for options, words in [
        (("--seeds", 1, 3, "--steps", 30), "holds results of seed 2, which"),
        (("--seeds", 1, 2, "--steps", 31), "holds results of steps 30, which"),
        (("--seeds", 1, 2, "--steps", 30, "--as-published"), "holds results of versions corrected, which"),
    ]:
        done, table = compared(*options)
        assert (done.returncode, table) == (2, first)
        assert words in done.stderr
        assert "--out" in done.stderr
    done, table = compared("--seeds", 1, 2, 3, "--steps", 30)
    assert done.returncode == 0
    assert set(pd.read_csv(tmp_path / "comparison.csv").seed) == {1, 2, 3}


def test_proof_without_certified_row():
    cell = {"study": "compare_gln", "dataset": "digits", "train_size": 9, "units": 1, "contexts": 2, "seed": 1}
    cell |= {"momentum": 0.0, "version": "corrected", "split": "published", "cutoff": "median", "seconds": 0.1}
    cell |= {"inconsistency": np.nan, "expected_inconsistency": np.nan}
    rows = [cell | {"model": "GD-GLN", "status": "TRAINED", "error": 0.1}]
    rows += [cell | {"model": "SVM-L2", "status": "NOT_SEPARABLE", "error": np.nan}]
    *_, last = readable(pd.DataFrame(rows)).splitlines()
    assert last.startswith("1 × SVM-L2 has no solution to certify, which is proved: no weights separate")


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_ctrl_c_during_the_work(tmp_path, monkeypatch, options):
    monkeypatch.setattr("implicit_bias.studies.runner.engines.compute", interrupt())
    done = run("compare", "gln", "--jobs", 1, "--out", tmp_path, *options)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (130, "interrupted: nothing was finished")
    assert not options or json.loads(done.stdout)["error"] == "interrupted: nothing was finished"
