"""The comparison on all of the data: its cells, its command, its verdicts and its page."""

import itertools
import json

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from implicit_bias import SGD, GatedLinearNetwork, HyperplaneGates, load_binary, solve, svm_gln, train
from implicit_bias.metrics import inconsistency
from implicit_bias.studies.runner.cells import cells_of
from implicit_bias.studies.runner.run import run as computed
from implicit_bias.studies.scale import COLLECTION
from implicit_bias.studies.scale.scale import FIGURES, draw, grid, tables, verdicts
from tests import ROOT
from tests.cli.commands import run

(EXPERIMENT,) = COLLECTION.chosen("all")
SMALL = {"dataset": "digits", "train_size": 60, "units": 8, "steps": 1600, "max_steps": 20_000}


def cell(**settings):
    """Return the rows of a quick cell with these settings, by model."""
    base = grid(True, network=(settings["network"],), descents=(settings["descent"],))[0]
    return computed(cells_of(EXPERIMENT, [base | SMALL | settings])).table().set_index("model")


@pytest.mark.parametrize(("network", "model"), [("gln", "GD-GLN"), ("retrained-relu", "GD-FReLU")])
def test_behind_fixed_gates_descent_ends_at_the_certified_optimum(network, model):
    """The ratio at the end is at most 1.01, although a smoothing of 10 % alone would end at 1.03."""
    before, after = (cell(network=network, descent=descent, tolerance=0.1) for descent in ("sgd", "limit"))
    assert 1.1 < before.ratio[model] < np.inf
    assert 1 <= after.ratio[model] <= 1.01
    problem = "SVM-GLN" if network == "gln" else "SVM-LC"
    assert after.inconsistency[problem] < before.inconsistency[problem]
    assert before.objective[problem] == pytest.approx(after.objective[problem])
    assert after.objective[model] == pytest.approx(after.ratio[model] * after.objective[problem], rel=1e-5)
    assert (before.end[model], after.end[model]) == ("finished", "converged")


def test_rows_are_those_of_the_network_and_its_problem_put_together_by_hand():
    settings = grid(True, network=("gln",), descents=("sgd",), seeds=(2,))[0] | SMALL
    found = computed(cells_of(EXPERIMENT, [settings])).table().set_index("model")
    task = load_binary("digits", 60, seed=2)
    gates = HyperplaneGates(8, 2, seed=2).fit(task.X_pool)
    network = GatedLinearNetwork(gates)
    train(network, task.X_train, task.y_train, SGD(steps=1600), seed=2)
    problem = svm_gln(task.X_train, task.y_train, gates)
    solution = solve(problem, "CLARABEL", tol=1e-6)
    apart = inconsistency(
        network.decision_function(task.X_val), problem.decision_function(solution.weights, task.X_val)
    )
    assert found.objective["SVM-GLN"] == pytest.approx(solution.objective, rel=1e-5)
    assert found.inconsistency["SVM-GLN"] == pytest.approx(apart, abs=1.5 / len(task.y_val))


def test_gates_that_cannot_separate_the_samples_end_the_cell_where_training_did():
    before, after = (cell(network="retrained-relu", descent=descent, units=1) for descent in ("sgd", "limit"))
    assert after.status["SVM-LC"] == "NOT_SEPARABLE"
    assert after.end["GD-FReLU"] == after.status["SVM-LC"]
    assert after.error["GD-FReLU"] == before.error["GD-FReLU"]
    assert np.isnan(after.inconsistency["SVM-LC"])
    assert after.iterations["GD-FReLU"] == before.iterations["GD-FReLU"]


def scale(tmp_path, *options):
    return run("reproduce", "scale", "--quick", "--jobs", "1", "--out", str(tmp_path), *options)


def test_chosen_cells_gather_in_one_table(tmp_path, unpainted):
    """Stored cells are not computed again, whichever are chosen, and --list counts those that are left."""
    first = ["--train-size", "100", "--network", "gln", "--descents", "sgd", "--seeds", "1"]
    assert scale(tmp_path, *first).returncode == 0
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "cells").iterdir()}
    assert scale(tmp_path, "--train-size", "100", "200", *first[2:]).returncode == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before
    table = pd.read_csv(tmp_path / "scale.csv")
    assert table.groupby(["train_size", "seed"]).ngroups == 2
    record = json.loads((tmp_path / "record.json").read_text())
    assert (record["cells"], record["missing"], record["end"]) == (2, 52, "begun")
    assert "(a quick run, 2 of 54 cells)" in (tmp_path / "findings.md").read_text()
    listed = scale(tmp_path, "--list", "--json")
    sizes = json.loads(listed.stdout)["sizes"]
    assert (sum(size["cells"] for size in sizes), sum(size["stored"] for size in sizes)) == (54, 2)
    assert sum(size["hours_left"] for size in sizes) > 0
    again = tmp_path / "again"
    assert run("reproduce", "scale", "--redraw", str(tmp_path), "--out", str(again)).returncode == 0
    assert (again / "scale.csv").read_bytes() == (tmp_path / "scale.csv").read_bytes()
    assert run("reproduce", "scale", "--extend", str(tmp_path), "--redraw", str(tmp_path)).returncode == 2


def test_a_committed_table_is_extended_by_the_cells_that_it_lacks(tmp_path, unpainted):
    """Cells of an earlier table are kept unchanged, whatever their end, and only others are computed."""
    cell = ["--dataset", "mnist", "--train-size", "500", "--seeds", "1", "--units", "10", "--network", "gln"]
    table = ["--extend", str(ROOT / "data" / "scale"), "--out", str(tmp_path), "--data-root", "nowhere"]
    done = run("reproduce", "scale", *table, *cell, "--descents", "sgd")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "scale.csv").read_bytes() == (ROOT / "data" / "scale" / "scale.csv").read_bytes()
    before, after = (json.loads((folder / "record.json").read_text()) for folder in (ROOT / "data" / "scale", tmp_path))
    for name in ("cells", "missing", "end", "machines", "settings", "revision", "sha256"):
        assert after[name] == before[name]
    assert after["seconds_of_all_cells"] == pytest.approx(before["seconds_of_all_cells"])


def test_finished_cells_of_a_table_replace_those_that_were_cut_off(tmp_path, unpainted):
    """A table without finished cells can be extended, finished cells replace others, and machines are listed once."""
    one = ["--train-size", "100", "--network", "gln", "--descents", "limit", "--seeds", "1"]
    short, whole = tmp_path / "short", tmp_path / "whole"
    assert scale(short, *one, "--max-seconds", "0.01").returncode == 130
    assert scale(whole, *one, "--extend", str(short)).returncode == 0
    record = json.loads((whole / "record.json").read_text())
    record["machines"] = ["a, 2 cores", "b, 2 cores"]
    (whole / "record.json").write_text(json.dumps(record))
    assert scale(short, *one, "--extend", str(whole)).returncode == 0
    assert (short / "scale.csv").read_bytes() == (whole / "scale.csv").read_bytes()
    assert json.loads((short / "record.json").read_text())["machines"] == record["machines"]


def test_a_table_that_a_run_would_replace_is_not_extended(tmp_path):
    """A quick run refuses a table of the whole study, whose cells it would not keep."""
    for name in ("record.json", "scale.csv"):
        (tmp_path / name).write_bytes((ROOT / "data" / "scale" / name).read_bytes())
    done = scale(tmp_path, "--extend", str(tmp_path))
    assert done.returncode == 2
    assert "the table holds what this run would not keep, such as dataset fashion-mnist, train size 500" in done.stderr
    assert (tmp_path / "scale.csv").read_bytes() == (ROOT / "data" / "scale" / "scale.csv").read_bytes()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("revision", 1, "the table is of revision 1, not of 2"),
        ("tolerance", [0.1], "the table is of tolerance [0.1], not of [0.003]"),
        ("machines", None, "the table's record is damaged: KeyError 'machines'"),
    ],
)
def test_a_table_of_other_settings_is_not_extended(tmp_path, name, value, words):
    record = json.loads((ROOT / "data" / "scale" / "record.json").read_text())
    place = record if name in record else record["settings"]
    place.pop(name) if value is None else place.update({name: value})
    (tmp_path / "record.json").write_text(json.dumps(record))
    (tmp_path / "scale.csv").write_bytes((ROOT / "data" / "scale" / "scale.csv").read_bytes())
    done = run("reproduce", "scale", "--list", "--extend", str(tmp_path), "--out", str(tmp_path / "out"))
    assert done.returncode == 2
    assert words in done.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--train-size", "300"], "no cell has train size 300; choose from 100, 200, 400"),
        (["--network", "cnn"], "no cell has network cnn"),
        (["--max-seconds", "0"], "max_seconds"),
        (["--redraw", "nowhere"], "--redraw computes nothing"),
    ],
)
def test_bad_options_are_refused_in_a_sentence(tmp_path, options, words):
    done = scale(tmp_path, *options)
    assert done.returncode == 2
    assert words in done.stderr
    assert not list(tmp_path.glob("*.csv"))


def rows(quantity, sizes=(500, 2000), seeds=(1, 2, 3), **place):
    """Return rows of GLNs whose error or inconsistency is the function `quantity` of (model, n, seed)."""
    base = {"dataset": "mnist", "units": 10, "network": "gln", "descent": "sgd", "status": "OPTIMAL", "gap": 1e-8}
    models = ("GD-GLN", "SVM-GLN", "SVM-L2")
    values = itertools.product(models, sizes, seeds)
    return [
        base
        | {"model": m, "train_size": n, "seed": s, "ratio": 1.0, "inconsistency": np.nan}
        | quantity(m, n, s)
        | place
        for m, n, s in values
    ]


def claims(table):
    return [one.claim for one in verdicts(pd.DataFrame(table))]


@pytest.mark.parametrize(("exponent", "holds"), [(-1, True), (1, False), (0, None)])
def test_the_trend_of_an_advantage_is_students_test_of_its_slopes(exponent, holds):
    def errors(model, n, seed):
        return {"error": 0.1 + (model == "SVM-L2") * (0.02 * (n / 500) ** exponent + 1e-4 * (seed * n % 7))}

    found = verdicts(pd.DataFrame(rows(errors)))
    trend = next(one for one in found if one.claim.startswith("SVM-GLN's advantage"))
    assert trend.holds is holds
    slopes = [100 * (errors("SVM-L2", 2000, s)["error"] - errors("SVM-L2", 500, s)["error"]) / 2 for s in (1, 2, 3)]
    low, high = scipy.stats.t.interval(0.95, 2, np.mean(slopes), scipy.stats.sem(slopes))
    shown = f"a doubling {np.mean(slopes):.2f} [{low:.2f}, {high:.2f}] %; 3 draws".replace("-", "−")
    assert trend.found.endswith(shown)
    assert trend.claim.endswith("mnist, n=500 2000, H=10")


def test_only_sizes_that_every_seed_has_are_compared():
    def apart(model, n, seed):
        return {"error": 0.1, "inconsistency": 0.08 - 0.01 * (n > 500) + seed / 1e4}

    whole, more = rows(apart), rows(apart, sizes=(8000,), seeds=(1,))
    found = [
        next(o.claim for o in verdicts(pd.DataFrame(t)) if "more with n" in o.claim) for t in (whole, whole + more)
    ]
    assert found[0] == found[1]
    largest = next(one for one in verdicts(pd.DataFrame(whole + more)) if "lower error" in one.claim)
    assert "n=2000" in largest.claim


def test_the_limit_counts_where_its_ratio_is_near_one_only():
    def apart(model, n, seed):
        return {"error": 0.1, "inconsistency": 0.08 + seed / 1e4}

    def ended(ratio):
        return rows(lambda m, n, s: {"error": 0.1, "inconsistency": 0.001 * s, "ratio": ratio}, descent="limit")

    near, far = (rows(apart) + ended(ratio) for ratio in (1.005, 1.02))
    assert any("more with time" in claim for claim in claims(near))
    assert not any("more with time" in claim for claim in claims(far))
    assert [verdicts(pd.DataFrame(one))[-2].holds for one in (near, far)] == [True, False]


def test_gates_without_an_optimum_do_not_count_among_the_ends():
    ended = rows(lambda m, n, s: {"error": 0.1, "ratio": 1.005 if s > 1 else np.nan}, descent="limit")
    verdict = verdicts(pd.DataFrame(ended))[-2]
    assert verdict.holds is True
    assert verdict.found.startswith("4 of 4 cells")


def test_one_draw_decides_nothing():
    found = verdicts(pd.DataFrame(rows(lambda m, n, s: {"error": 0.1 + 0.05 * (m == "SVM-L2")}, seeds=(1,))))
    assert next(one for one in found if "has a lower error than SVM-L2" in one.claim).holds is None


TABLE = pd.read_csv(ROOT / "data" / "scale" / "scale.csv")
PAGE = (ROOT / "docs" / "scale.md").read_text()


def test_the_page_shows_the_numbers_of_the_committed_table():
    assert tables(TABLE) in PAGE


def test_every_line_of_the_figures_has_its_rows():
    drawn = draw(TABLE)
    assert list(drawn) == list(FIGURES)
    assert all(f"](figures/scale/{name.removeprefix('scale_')}.png)" in PAGE for name in drawn)
    for panels in FIGURES.values():
        for column, lines in panels.items():
            for network, descent, model, *_ in lines.values():
                part = TABLE[(TABLE.network == network) & (TABLE.descent == descent) & (TABLE.model == model)]
                assert part[column].notna().any(), (network, descent, model)
