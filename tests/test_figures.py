"""Figures of papers: run, interrupted, resumed, gathered, drawn again, damaged; and what all of them promise."""

import ast
import json
import os
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from implicit_bias.experiments.runner.collect import collect
from implicit_bias.experiments.runner.digests import closure_of
from implicit_bias.experiments.runner.figure_jobs import jobs_of
from matplotlib.figure import Figure

from implicit_bias import InputError
from implicit_bias.command_line.main import main
from implicit_bias.experiments.galu.figures import COLLECTION
from implicit_bias.experiments.galu.norms import correlations
from implicit_bias.experiments.gram.figures import COLLECTION as GRAM
from implicit_bias.experiments.localization.figures import COLLECTION as LOCALIZATION
from implicit_bias.experiments.runner import engines
from implicit_bias.experiments.runner.drawing import COLOURS, band, panels
from implicit_bias.experiments.runner.experiment import Experiment, product
from implicit_bias.experiments.runner.results import load
from implicit_bias.experiments.runner.store import Store

#: The cells that were computed, in order; an element "stop" before is a Ctrl-C.
COMPUTED: list = []
WIDTHS = (3, 2, 1)
FIGURES = COLLECTION.figures
COLLECTIONS = (COLLECTION, GRAM, LOCALIZATION)
REAL = [(collection, experiment) for collection in COLLECTIONS for experiment in collection.chosen("all")]
each_figure = pytest.mark.parametrize(
    ("collection", "experiment"), REAL, ids=[f"{collection.name}-{experiment.name}" for collection, experiment in REAL]
)


def rows(settings):
    if "stop" in COMPUTED and settings["width"] == 1:
        raise KeyboardInterrupt
    COMPUTED.append(settings["width"])
    return [{"model": model, "loss": settings["width"] / 3} for model in ("GaLU", "ReLU")]


def draw(table):
    with panels("Toy") as axes:
        band(axes[0, 0], table.set_index("width").loss, color=COLOURS["GaLU"])
    return axes[0, 0].figure


TOY = Experiment(
    name="toy",
    title="A toy",
    source="no version, figure 0",
    claim="Loss grows with width.",
    grid=lambda quick: product(width=WIDTHS[: 2 if quick else 3], seed=(1,)),
    rows=rows,
    cost=lambda settings: settings["width"],
    draw=draw,
    finding=lambda table: f"Yes: {table.loss.mean():.9f} over {len(table)} rows.",
)


@pytest.fixture(autouse=True)
def toys(monkeypatch):
    COMPUTED.clear()
    monkeypatch.setitem(FIGURES, "toy", TOY)
    monkeypatch.setitem(FIGURES, "twin", replace(TOY, name="twin"))


def reproduce(capsys, *options, name="galu"):
    code = main(["reproduce", name, "--jobs", "1", "--json", *map(str, options)])
    out, err = capsys.readouterr()
    return code, json.loads(out), err


def test_a_figure_is_computed_written_and_told(tmp_path, capsys):
    code, document, _ = reproduce(capsys, "--figure", "toy", "--out", tmp_path)
    assert code == 0
    assert COMPUTED == [3, 2, 1]
    assert document["findings"] == {"toy": "Yes: 0.666666667 over 6 rows."}
    names = ["toy.csv", "toy.png", "toy.pdf", "findings.md", "record.json"]
    assert [Path(path).name for path in document["files"]] == names
    table = pd.read_csv(tmp_path / "toy.csv")
    assert list(table.columns) == ["width", "seed", "model", "loss"]
    assert len(table) == 6
    record = json.loads((tmp_path / "record.json").read_text())["figures"]["toy"]
    assert record["settings"] == {"width": [3, 2, 1], "seed": [1]}
    assert (record["cells"], record["missing"]) == (3, 0)
    assert {"versions", "machine", "code", "sha256", "seconds_of_all_cells"} <= set(record)
    page = (tmp_path / "findings.md").read_text()
    assert "no version, figure 0: Loss grows with width." in page
    assert "**Yes: 0.666666667 over 6 rows.**" in page
    main(["reproduce", "galu", "--figure", "toy", "--out", str(tmp_path)])
    assert "toy: Loss grows with width.\n    Yes: 0.666666667" in capsys.readouterr().out
    assert COMPUTED == [3, 2, 1]


def test_an_interrupted_run_draws_what_there_is_and_goes_on(tmp_path, capsys):
    COMPUTED.append("stop")
    code, document, err = reproduce(capsys, "--figure", "toy", "--out", tmp_path)
    assert code == 130
    assert document["findings"] == {"toy": "Yes: 0.833333333 over 4 rows. (2 of 3 cells)"}
    assert "2 of 3 cells are stored" in err
    assert (tmp_path / "toy.png").stat().st_size > 1000
    COMPUTED.clear()
    code, document, _ = reproduce(capsys, "--figure", "toy", "--out", tmp_path)
    assert (code, COMPUTED) == (0, [1])
    assert document["record"]["toy"]["missing"] == 0


def test_a_run_interrupted_before_anything_is_done_writes_nothing(tmp_path, capsys):
    COMPUTED.append("stop")
    one = replace(TOY, grid=lambda quick: product(width=(1,), seed=(1,)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(FIGURES, "toy", one)
        code, document, _ = reproduce(capsys, "--figure", "toy", "--out", tmp_path)
    assert code == 130
    assert document == {"error": "interrupted: nothing was finished"}
    assert not list(tmp_path.glob("toy*"))


def test_figures_of_several_runs_gather_in_a_folder(tmp_path, capsys):
    reproduce(capsys, "--figure", "twin", "--out", tmp_path)
    reproduce(capsys, "--figure", "toy", "--quick", "--out", tmp_path)
    assert list(json.loads((tmp_path / "record.json").read_text())["figures"]) == ["toy", "twin"]
    page = (tmp_path / "findings.md").read_text()
    assert page.index("--figure toy") < page.index("--figure twin")
    assert "0.833333333 over 4 rows. (a quick run)**" in page
    assert "0.666666667 over 6 rows.**" in page
    redrawn = tmp_path / "redrawn"
    _, document, _ = reproduce(capsys, "--redraw", tmp_path, "--out", redrawn)
    assert document["findings"]["toy"].endswith(" (a quick run)")
    _, document, _ = reproduce(capsys, "--figure", "toy", "--out", tmp_path)
    assert document["findings"]["toy"].endswith("over 6 rows.")


def test_results_are_drawn_again(tmp_path, capsys):
    for name in ("toy", "twin"):
        reproduce(capsys, "--figure", name, "--out", tmp_path / "a")
    COMPUTED.clear()
    code, document, _ = reproduce(capsys, "--redraw", tmp_path / "a", "--out", tmp_path / "b")
    assert (code, COMPUTED) == (0, [])
    assert list(document["findings"]) == ["toy", "twin"]
    for name in ("toy.csv", "twin.csv", "toy.png", "record.json", "findings.md"):
        assert (tmp_path / "b" / name).read_bytes() == (tmp_path / "a" / name).read_bytes()
    reproduce(capsys, "--figure", "twin", "--redraw", tmp_path / "b", "--out", tmp_path / "c")
    assert not (tmp_path / "c" / "toy.csv").exists()


def test_a_damaged_table_is_refused_and_does_not_stop_other_figures(tmp_path, capsys):
    for name in ("toy", "twin"):
        reproduce(capsys, "--figure", name, "--out", tmp_path)
    (tmp_path / "toy.csv").write_text("width\n1\n")
    code, document, _ = reproduce(capsys, "--redraw", tmp_path)
    assert code == 2
    assert document["error"] == f"{tmp_path}/toy.csv is damaged; run reproduce galu --figure toy again"
    code, _, err = reproduce(capsys, "--figure", "twin", "--out", tmp_path)
    assert code == 0
    assert "toy.csv is damaged" in err
    assert "go on without it" in err
    assert [figured.experiment.name for figured in load(COLLECTION, tmp_path)] == ["twin"]
    (tmp_path / "record.json").write_text("[1]")
    with pytest.raises(InputError, match="damaged results or none of reproduce galu"):
        load(COLLECTION, tmp_path)


def test_a_damaged_cell_is_computed_anew(tmp_path, capsys):
    reproduce(capsys, "--figure", "toy", "--out", tmp_path)
    COMPUTED.clear()
    cell = Store(tmp_path / "cells").path(jobs_of(TOY)[1])
    cell.write_text(cell.read_text().replace("0.66", "0.77"))
    code, document, err = reproduce(capsys, "--figure", "toy", "--out", tmp_path)
    assert (code, COMPUTED) == (0, [2])
    assert document["findings"]["toy"].startswith("Yes: 0.666666667")
    assert "is damaged; it is kept as" in err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--figure", "cats"], "unknown figure 'cats'; known: "),
        (["--redraw", "/nowhere"], "/nowhere/record.json is not a readable file"),
        (["--redraw", "/nowhere", "--quick"], "do not go with it"),
        (["--out", "/proc/none"], "/proc/none cannot be written"),
        (["--engine", "slurm"], "unknown engine"),
        (["--jobs", "0"], "jobs must be"),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_computed(options, words, capsys):
    code, document, _ = reproduce(capsys, *options)
    assert code == 2
    assert words in document["error"]
    assert COMPUTED == []


def test_a_figure_that_a_folder_lacks_is_told(tmp_path, capsys):
    reproduce(capsys, "--figure", "toy", "--out", tmp_path)
    code, document, _ = reproduce(capsys, "--redraw", tmp_path, "--figure", "twin")
    assert code == 2
    assert document["error"].endswith("holds no figure 'twin', but toy; run reproduce galu for it")


def needs_files(settings, root):
    if root is None:
        raise InputError("no files; give --data-root")
    return len(root)


def test_files_are_asked_for_before_any_work_and_their_place_is_no_setting(tmp_path, capsys, monkeypatch):
    filed = replace(TOY, data=needs_files, rows=lambda settings, data: [{"model": "GaLU", "loss": data}])
    for name in COLLECTION.figures.keys() - {"toy", "twin"}:
        monkeypatch.delitem(FIGURES, name)
    monkeypatch.setitem(FIGURES, "toy", filed)
    code, document, _ = reproduce(capsys, "--figure", "all", "--out", tmp_path)
    assert (code, document) == (2, {"error": "no files; give --data-root"})
    assert COMPUTED == []
    code, document, _ = reproduce(capsys, "--figure", "toy", "--data-root", "abc", "--out", tmp_path)
    assert document["findings"] == {"toy": "Yes: 3.000000000 over 3 rows."}
    one, other = (jobs_of(filed, data_root=root)[0] for root in ("abc", "abcd"))
    assert one.key() == other.key()
    assert "abc" not in (tmp_path / "record.json").read_text()


def where(settings):
    return [{"process": os.getpid(), "width": settings["width"]}]


def test_cells_are_shared_among_processes(tmp_path):
    jobs = jobs_of(replace(TOY, rows=where, grid=lambda quick: product(width=range(1, 9), seed=(1,))))
    collected = collect(jobs, engines.local(2), Store(tmp_path))
    table = pd.DataFrame(collected.rows())
    assert table.width.tolist() == list(range(1, 9))
    assert os.getpid() not in set(table.process)
    assert collected.record()["cells"] == 8


def test_cells_of_other_code_are_told(tmp_path):
    store = Store(tmp_path)
    job, other = jobs_of(TOY)[0], jobs_of(replace(TOY, rows=where))[0]
    collect([job], store=store)
    assert store.path(job) == store.path(jobs_of(TOY)[0])
    assert store.path(job) != store.path(other)
    with pytest.warns(UserWarning, match="1 cells that differ in the code's version"):
        collect([other], store=store)


def test_bands_and_panels():
    with panels("Two", columns=2) as axes:
        band(axes[0, 1], pd.Series([1.0, 3.0], index=[5, 5]))
    assert axes.shape == (1, 2)
    assert isinstance(axes[0, 0].figure, Figure)
    assert axes[0, 1].get_lines()[0].get_ydata().tolist() == [2.0]


@each_figure
def test_what_every_figure_promises(collection, experiment):
    assert collection.figures[experiment.name] is experiment
    assert experiment.claim.endswith(".")
    grids = {quick: experiment.grid(quick) for quick in (True, False)}
    cost = {quick: sum(map(experiment.cost, grid)) for quick, grid in grids.items()}
    assert 0 < cost[True] < cost[False]
    for cells in grids.values():
        assert json.loads(json.dumps(cells)) == cells
        assert len({json.dumps(cell, sort_keys=True) for cell in cells}) == len(cells)
        for cell in cells:
            assert "seed" in cell
            values = [v for value in cell.values() for v in (value if isinstance(value, list) else [value])]
            assert all(isinstance(value, str | int | float | bool | None) for value in values)
    own = closure_of(experiment.rows).parts[experiment.rows.__module__]
    assert not {"draw", "finding"} & {node.name for node in own if isinstance(node, ast.FunctionDef)}


@each_figure
def test_every_figure_is_drawn_of_a_single_cell(collection, experiment, tmp_path, capsys):
    """The cheapest cell of the quick run, twice: the same rows, a drawing and a sentence."""
    if experiment.data is not None:
        pytest.skip("needs image files")
    cheapest = min(experiment.grid(True), key=experiment.cost)
    if experiment.cost(cheapest) > 3:
        pytest.skip("too long")
    one = replace(experiment, grid=lambda quick: [cheapest])
    tables = [pd.DataFrame(collect(jobs_of(one)).rows()) for _ in range(2)]
    times = [name for name in tables[0] if "seconds" in name]
    assert not tables[0].map(lambda value: isinstance(value, list)).any(axis=None)
    pd.testing.assert_frame_equal(*(table.drop(columns=times) for table in tables))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(collection.figures, experiment.name, one)
        code, document, _ = reproduce(capsys, "--figure", experiment.name, "--out", tmp_path, name=collection.name)
    assert code == 0
    assert document["findings"][experiment.name].split(":")[0] in ("Yes", "No", "Partly", "Undecided")


def test_the_correlation_of_gap_and_norm():
    table = pd.DataFrame({"sigma_y": [0, 0, 1, 1, 2, 2], "train_loss": 0.0, "test_loss": [0.0, 2, 3, 5, 6, 8]})
    found = correlations(table.assign(l2=table.test_loss, l1=[0.0, 0, 3, 3, 6, 6]))
    assert found["l2 means"] == found["l2 fits"] == found["l1 means"] == 1.0
    assert 0.9 < found["l1 fits"] < 1.0
