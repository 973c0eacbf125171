"""Runs that survive: stored, interrupted, resumed, gathered, drawn again, damaged; and what is refused."""

import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from implicit_bias import InputError
from implicit_bias._utils import files
from implicit_bias.cli.main import main
from implicit_bias.studies.galu import COLLECTION
from implicit_bias.studies.runner import engines
from implicit_bias.studies.runner.cells import Result, cells_of
from implicit_bias.studies.runner.results import load
from implicit_bias.studies.runner.run import run
from implicit_bias.studies.runner.store import Store
from implicit_bias.studies.settings import product
from tests.cases import assert_refused
from tests.cli import commands
from tests.studies.toys import COMPUTED, TOY, cells

ROWS = [{"model": "GaLU", "loss": 0.1, "gap": float("inf")}]


def told(mean, count):
    """Return the verdict rows of a table with `count` rows and this mean loss."""
    found = f"{mean:.9f} over {count} rows"
    return [{"claim": "loss grows", "found": found, "threshold": "above 0", "outcome": "yes"}]


@pytest.fixture(autouse=True)
def toy_figures(monkeypatch):
    COMPUTED.clear()
    monkeypatch.setitem(COLLECTION.figures, "toy", TOY)
    monkeypatch.setitem(COLLECTION.figures, "twin", replace(TOY, name="twin"))


def reproduce(*options, jobs=1):
    done = commands.run("--jobs", jobs, "--json", *options, command="reproduce galu")
    return done.returncode, json.loads(done.stdout), done.stderr


def test_a_figure_is_computed_written_and_told(tmp_path, capsys):
    code, document, _ = reproduce("--figure", "toy", "--out", tmp_path)
    assert code == 0
    assert COMPUTED == [3, 2, 1]
    assert document["findings"] == {"toy": {"outcome": "yes", "verdicts": told(2 / 3, 6)}}
    names = ["toy.csv", "toy.png", "toy.pdf", "findings.md", "record.json"]
    assert [Path(path).name for path in document["files"]] == names
    table = pd.read_csv(tmp_path / "toy.csv")
    assert list(table.columns) == ["width", "seed", "model", "loss"]
    assert len(table) == 6
    record = json.loads((tmp_path / "record.json").read_text())["figures"]["toy"]
    assert record["settings"] == {"width": [3, 2, 1], "seed": [1]}
    assert (record["cells"], record["missing"], record["revision"]) == (3, 0, 1)
    assert {"versions", "machine", "sha256", "seconds_of_all_cells"} <= set(record)
    page = (tmp_path / "findings.md").read_text()
    assert "no version, figure 0: Loss grows with width." in page
    assert "**Yes**\n\n| claim | found | threshold | outcome |" in page
    assert "| loss grows | 0.666666667 over 6 rows | above 0 | yes |" in page
    main(["reproduce", "galu", "--figure", "toy", "--out", str(tmp_path)])
    out = capsys.readouterr().out
    assert "toy: Loss grows with width.\n    Yes\n    Yes: loss grows; found: 0.666666667 over 6 rows; thr" in out
    assert COMPUTED == [3, 2, 1]


def test_finished_cells_are_not_computed_again(tmp_path):
    first, seen = run(cells(), store=Store(tmp_path)), []
    again = run(cells(), store=Store(tmp_path), progress=lambda cell, stored: seen.append(stored))
    pd.testing.assert_frame_equal(first.table(), again.table())
    assert (COMPUTED, seen, again.missing) == ([3, 2, 1], [True] * 3, 0)
    run(cells_of(TOY, product(width=(2, 5, 7, 5), seed=(1,))), store=Store(tmp_path))
    assert COMPUTED == [3, 2, 1, 7, 5]


def test_an_interrupted_run_draws_what_there_is_and_goes_on(tmp_path):
    COMPUTED.append("stop")
    code, document, err = reproduce("--figure", "toy", "--out", tmp_path)
    assert code == 130
    assert document["findings"] == {"toy": {"outcome": "yes (2 of 3 cells)", "verdicts": told(5 / 6, 4)}}
    assert "2 of 3 cells are stored" in err
    assert (tmp_path / "toy.png").stat().st_size > 1000
    COMPUTED.clear()
    code, document, _ = reproduce("--figure", "toy", "--out", tmp_path)
    assert (code, COMPUTED) == (0, [1])
    assert document["record"]["toy"]["missing"] == 0
    undisturbed = run(cells()).table()
    pd.testing.assert_frame_equal(load(COLLECTION, tmp_path)[0].table, undisturbed, rtol=1e-8)


def test_a_cell_that_a_limit_ended_is_computed_again_with_more(tmp_path):
    def rows(settings):
        return [{"loss": settings["time"] / 10, "end": "time" if settings["time"] < 2 else "done"}]

    limited = replace(TOY, rows=rows, limits=("time",))
    first, second = (run(cells(limited, time=time), store=Store(tmp_path)) for time in (1, 2))
    assert (first.end, first.missing, first.table().loss.tolist()) == ("cut off", 3, [0.1] * 3)
    assert (second.end, second.missing, second.table().loss.tolist()) == ("finished", 0, [0.2] * 3)
    assert len(list(tmp_path.glob("*.json"))) == 3


def test_ctrl_c_between_two_cells_keeps_those_that_are_done(tmp_path):
    def stop(cell, stored):
        raise KeyboardInterrupt

    partial = run(cells(), store=Store(tmp_path), progress=stop)
    assert (partial.missing, partial.end) == (2, "interrupted")
    assert partial.table().width.unique().tolist() == [3]


def test_a_run_interrupted_before_anything_is_done_writes_nothing(tmp_path, monkeypatch):
    COMPUTED.append("stop")
    monkeypatch.setitem(COLLECTION.figures, "toy", replace(TOY, grid=lambda quick: product(width=(1,), seed=(1,))))
    code, document, _ = reproduce("--figure", "toy", "--out", tmp_path)
    assert code == 130
    assert document == {"error": "interrupted: nothing was finished"}
    assert not list(tmp_path.glob("toy*"))


def test_figures_of_several_runs_gather_in_a_folder(tmp_path):
    reproduce("--figure", "twin", "--out", tmp_path)
    reproduce("--figure", "toy", "--quick", "--out", tmp_path)
    assert list(json.loads((tmp_path / "record.json").read_text())["figures"]) == ["toy", "twin"]
    page = (tmp_path / "findings.md").read_text()
    assert page.index("`toy`") < page.index("**Yes (a quick run)**") < page.index("0.833333333 over 4 rows")
    assert page.index("`twin`") < page.index("**Yes**") < page.index("0.666666667 over 6 rows")
    redrawn = tmp_path / "redrawn"
    _, document, _ = reproduce("--redraw", tmp_path, "--out", redrawn)
    assert document["findings"]["toy"]["outcome"] == "yes (a quick run)"
    # A second name of a file: what is replaced as a whole keeps its content there.
    before, kept = (tmp_path / "toy.csv").read_bytes(), tmp_path / "kept.csv"
    kept.hardlink_to(tmp_path / "toy.csv")
    _, document, _ = reproduce("--figure", "toy", "--out", tmp_path)
    assert document["findings"]["toy"]["outcome"] == "yes"
    assert kept.read_bytes() == before != (tmp_path / "toy.csv").read_bytes()


def test_results_are_drawn_again(tmp_path):
    for name in ("toy", "twin"):
        reproduce("--figure", name, "--out", tmp_path / "a")
    COMPUTED.clear()
    code, document, _ = reproduce("--redraw", tmp_path / "a", "--out", tmp_path / "b")
    assert (code, COMPUTED) == (0, [])
    assert list(document["findings"]) == ["toy", "twin"]
    for name in ("toy.csv", "twin.csv", "toy.png", "record.json", "findings.md"):
        assert (tmp_path / "b" / name).read_bytes() == (tmp_path / "a" / name).read_bytes()
    reproduce("--figure", "twin", "--redraw", tmp_path / "b", "--out", tmp_path / "c")
    _, document, _ = reproduce("--figure", "toy", "--redraw", tmp_path / "c")
    assert document["error"].endswith("holds no figure 'toy', but twin; run reproduce galu for it")


def test_stored_cells_are_drawn_without_computing(tmp_path):
    reproduce("--figure", "toy", "--quick", "--out", tmp_path)
    COMPUTED.clear()
    code, document, _ = reproduce("--figure", "toy", "--stored", "--out", tmp_path)
    assert (code, COMPUTED) == (0, [])
    assert document["findings"] == {"toy": {"outcome": "yes (2 of 3 cells)", "verdicts": told(5 / 6, 4)}}
    record = document["record"]["toy"]
    assert (record["cells"], record["missing"], record["end"]) == (2, 1, "begun")


def test_a_damaged_table_is_refused_and_does_not_stop_other_figures(tmp_path):
    for name in ("toy", "twin"):
        reproduce("--figure", name, "--out", tmp_path)
    (tmp_path / "toy.csv").write_text("width\n1\n")
    code, document, _ = reproduce("--redraw", tmp_path)
    assert code == 2
    assert document["error"] == f"{tmp_path}/toy.csv is damaged; run reproduce galu --figure toy again"
    code, _, err = reproduce("--figure", "twin", "--out", tmp_path)
    assert code == 0
    assert "toy.csv is damaged" in err
    assert "go on without it" in err
    assert [found.experiment.name for found in load(COLLECTION, tmp_path)] == ["twin"]
    (tmp_path / "record.json").write_text("[1]")
    assert_refused(lambda: load(COLLECTION, tmp_path), "damaged results or none of reproduce galu")


@pytest.mark.parametrize("damage", [lambda text: text[: len(text) // 2], lambda text: text.replace("0.1", "0.2"),
                                    lambda text: text.replace('"width": 3', '"width": 2'),
                                    lambda text: "[]", lambda text: "\0" * 100])  # fmt: skip
def test_a_damaged_cell_is_named_kept_aside_and_computed_anew(tmp_path, damage):
    store, (cell, *_) = Store(tmp_path), cells()
    store.put(cell, Result(ROWS, 1.0, "here"))
    assert store.get(cell).rows == ROWS
    path = store.path(cell)
    text = damage(path.read_text())
    path.write_text(text)
    with pytest.warns(UserWarning, match=rf"{path.name} is damaged.*computed anew"):
        assert run([cell], store=store).missing == 0
    assert path.with_suffix(".damaged").read_text() == text
    assert COMPUTED == [3]


@pytest.mark.parametrize(("change", "word"), [({"tol": 2}, "tol"), ({}, "revision")])
def test_stored_cells_of_other_options_or_another_revision_are_told_and_left(tmp_path, change, word):
    """A warning names options or revision that differ; cells of other coordinates cause none."""
    toy = replace(TOY, coordinates=("width", "seed"))
    asked = replace(toy, revision=2) if word == "revision" else toy
    store, stored, other = Store(tmp_path), cells(toy, tol=1)[0], cells(asked, **{"tol": 1} | change)
    store.put(stored, Result(ROWS, 1.0, "here"))
    with pytest.warns(UserWarning, match=f"holds 1 cells that differ in {word}; they stay there and are not used"):
        store.warn_of_others(other)
    store.warn_of_others(other[1:])
    assert store.get(other[0]) is None
    assert store.get(stored) is not None


def test_a_full_disk_ends_with_a_sentence_and_keeps_what_is_stored(tmp_path, monkeypatch):
    real, calls = files.Path.write_bytes, []

    def full_at_the_second(path, content):
        calls.append(path)
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(path, content)

    monkeypatch.setattr(files.Path, "write_bytes", full_at_the_second)
    assert_refused(lambda: run(cells(), store=Store(tmp_path)), "No space left on device")
    monkeypatch.undo()
    assert [path.suffix for path in tmp_path.iterdir()] == [".json"]
    assert sum(Store(tmp_path).get(cell) is not None for cell in cells()) == 1


def needs_files(settings, root):
    if root is None:
        raise InputError("no files; give --data-root")
    return len(root)


def test_files_are_asked_for_before_any_work_and_their_place_is_no_setting(tmp_path, monkeypatch):
    filed = replace(
        TOY, cost=lambda settings: 0.5, data=needs_files, rows=lambda settings, data: [{"model": "GaLU", "loss": data}]
    )
    monkeypatch.setitem(COLLECTION.figures, "toy", filed)
    code, document, _ = reproduce("--figure", "twin", "toy", "--out", tmp_path)
    assert (code, document) == (2, {"error": "no files; give --data-root"})
    assert COMPUTED == []
    code, document, _ = reproduce("--figure", "toy", "--data-root", "abc", "--out", tmp_path)
    assert document["findings"]["toy"]["verdicts"] == told(3, 3)
    one, other = (cells_of(filed, filed.grid(True), root)[0] for root in ("abc", "abcd"))
    assert one.key() == other.key()
    assert "abc" not in (tmp_path / "record.json").read_text()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--figure", "7"], "unknown figure '7'; known: "),
        (["--engine", "slurm"], "unknown engine 'slurm'; known: local, dask"),
        (["--engine", "dask"], "needs the address"),
        (["--engine", "dask", "--scheduler", "nonsense"], "no Dask scheduler answers at nonsense"),
        (["--jobs", "0"], "jobs must be"),
        (["--stored"], "holds none of these cells; run the command without --stored"),
        (["--redraw", "/nowhere"], "/nowhere/record.json is not a readable file"),
        (["--redraw", "/nowhere", "--quick"], "--redraw computes nothing"),
        (["--redraw", "/nowhere", "--scheduler", "tcp://127.0.0.1:9"], "--redraw computes nothing"),
        (["--scheduler", "tcp://127.0.0.1:9"], "add --engine dask"),
        (["--out", "/proc/none"], "/proc/none cannot be written"),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_computed(options, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = commands.run(*([] if "--figure" in options else ["--figure", "toy"]), *options, command="reproduce galu")
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert COMPUTED == []
    assert not list(tmp_path.rglob("*.csv"))


def test_a_scheduler_that_does_not_answer_is_refused():
    pytest.importorskip("distributed")
    with pytest.raises(InputError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9"):
        run(cells(), engines.dask("tcp://127.0.0.1:9", answer=0.5))
