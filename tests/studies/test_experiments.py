"""Promises of every experiment, whichever paper it is from."""

import functools
import io
import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from implicit_bias.studies import best, classes, deeper, galu, gram, limit, localization, optimisers, paper, scale
from implicit_bias.studies.paper import COMPARISONS
from implicit_bias.studies.runner.cells import cells_of
from implicit_bias.studies.runner.results import load, result_table
from implicit_bias.studies.runner.run import run
from implicit_bias.studies.runner.store import Store
from implicit_bias.studies.runner.verdicts import as_markdown
from tests import ROOT

DATA = ROOT / "data"
EXPECTED = Path(__file__).parent / "expected_rows.json"
COLLECTIONS = [study.COLLECTION for study in (best, classes, deeper, galu, gram, localization, optimisers)]
PAPER, LIMIT, SCALE = (study.COLLECTION for study in (paper, limit, scale))
EXPERIMENTS = {
    **{f"{collection.name} {one.name}": one for collection in COLLECTIONS for one in collection.chosen("all")},
    **{f"paper {name}": collection.figures["comparison"] for name, collection in COMPARISONS.items()},
    **{collection.name: collection.chosen("all")[0] for collection in (PAPER, LIMIT, SCALE)},
}
#: Settings that make a quick run's cheapest cell cheaper still.
SHORTER = {
    "paper": {"dataset": "digits", "train_size": 60, "units": 3, "steps": 40},
    "paper compare_gln": {"train_size": 60, "units": 3, "steps": 40},
    "paper compare_relu": {"train_size": 60, "units": 3, "steps": 40},
    "paper compare_shallow_gln": {"train_size": 60, "steps": 40},
    "limit": {"network": "linear", "max_seconds": 1e6, "tolerance": 0.05},
    "scale": {"train_size": 60, "units": 3, "steps": 40, "max_steps": 40},
    "best planar": {"n": 12, "units": [8], "steps": 50, "max_steps": 50},
    "best images": {"train_size": 12, "units": [8], "steps": 50, "max_steps": 50},
    "best pairs": {"n": 20, "units": [8], "steps": 50, "max_steps": 50},
    "classes descent": {"train_size": 30, "units": 2, "tolerance": 0.03},
    "classes classifiers": {"train_size": 60, "units": 3, "method": ["ovr", "joint"]},
    "deeper limits": {"dataset": "digits", "train_size": 20, "layers": 3, "units": 2, "steps": 50, "max_steps": 600},
    **{f"galu {name}": {"steps": 50} for name in ("memorisation", "under-parametrised", "images")},
    **{f"galu {name}": {"steps": 50} for name in ("separable", "clusters", "shallow-images", "alternation")},
    "galu filters": {"updates": 20},
    "gram speed": {"steps": 100},
    "optimisers ratios": {"train_size": 20, "units": 3, "steps": 200, "searches": 200},
    "optimisers width": {"train_size": 20, "copies": "1 3", "steps": 100, "searches": 200},
    "optimisers learned": {"train_size": 20, "units": 4, "steps": 100},
    "optimisers decay": {"train_size": 20, "units": 3, "steps": 50},
    "optimisers batches": {"train_size": 20, "units": 3, "steps": 50, "batch": [20, 5]},
    "optimisers classes": {"train_size": 20, "steps": 50},
    "optimisers errors": {"train_size": 60, "units": 3},
    **{f"localization {name}": {"steps": 100} for name in ("gain", "fields", "scales", "flips", "frozen", "pulses")},
    "localization theory": {"lr": 0.2, "batch": 50},
}
#: Studies whose page has a table of claims instead of all verdicts.
SHORT = ("gram", "localization", "optimisers")
#: The committed tables of the limit.
LIMITS = {"limit deep", "limit one_layer", "limit plain"}
#: An optimal network may have other units, of a norm within the gap, with other libraries' rounding.
UNITS = "best_units"
#: Tolerance of a value relative to the largest of its column.
TOLERANCE = 1e-3
each_experiment = pytest.mark.parametrize("name", EXPERIMENTS)


def cheapest(name):
    """Return the settings of the cell with the least cost, shortened by `SHORTER`."""
    return min(EXPERIMENTS[name].grid(True), key=EXPERIMENTS[name].cost) | SHORTER.get(name, {})


@each_experiment
def test_what_every_experiment_promises(name):
    experiment = EXPERIMENTS[name]
    assert experiment.claim.endswith(".")
    grids = {quick: experiment.grid(quick) for quick in (True, False)}
    cost = {quick: sum(map(experiment.cost, grid)) for quick, grid in grids.items()}
    assert 0 < cost[True] <= cost[False]
    for grid in grids.values():
        cells = [json.loads(json.dumps(settings)) for settings in grid]
        assert cells == [cell.settings for cell in cells_of(experiment, grid)] or name == "paper"
        places = {json.dumps(experiment.place(cell), sort_keys=True) for cell in cells}
        assert len(places) == len(cells_of(experiment, grid))
        for cell in cells:
            assert "seed" in cell
            values = [v for value in cell.values() for v in (value if isinstance(value, list) else [value])]
            assert all(isinstance(value, str | int | float | bool | None) for value in values)


@each_experiment
def test_a_single_cell_is_computed_as_expected_drawn_and_judged(name, tmp_path):
    """A cell has the same rows twice, those expected for its revision, figures and verdicts."""
    experiment, settings = EXPERIMENTS[name], cheapest(name)
    runs = [run(cells_of(experiment, [settings]), store=store) for store in (Store(tmp_path), None)]
    tables = [one.table() for one in runs]
    times = [column for column in tables[0] if "seconds" in column]
    assert not tables[0].map(lambda value: isinstance(value, list)).any(axis=None)
    pd.testing.assert_frame_equal(*(table.drop(columns=times) for table in tables))
    found = result_table(runs[0], experiment)
    for figure in experiment.figures(found.table).values():
        figure.savefig(io.BytesIO(), dpi=30)
    assert found.outcome() in ("yes", "no", "partly", "undecided")
    if UNITS in found.table:
        # A vertex has a unit for each margin of 1 at most; a single unit cannot have both signs.
        assert found.table[UNITS].between(2, settings.get("n", settings.get("train_size"))).all()
    expected = json.loads(EXPECTED.read_text()).get(name, {})
    changed = (
        f"the rows of {name} have changed: raise its revision, so that stored cells of before are not used, and then "
        f"let `python -m tests.studies.test_experiments '{name}'` write {EXPECTED.name} again"
    )
    found_rows = pinned(name, settings, found.table)
    assert found_rows.keys() == expected.keys(), changed
    for column, values in expected.items():
        assert found_rows[column] == near(values), changed


def pinned(name, settings, table):
    """Return the revision and the values of each column, in the order of the rows, that rounding does not change."""
    left = {UNITS, "patterns", "rounds", *settings}
    own = table.drop(columns=[column for column in table if column in left or "seconds" in column])
    own = own.replace([np.inf, -np.inf], np.nan).dropna(axis=1, how="all")
    columns = {}
    for column, values in own.items():
        is_number = pd.api.types.is_numeric_dtype(values) and values.dtype != bool
        columns[column] = [float(f"{one:.5g}") for one in values] if is_number else [*values.fillna("").astype(str)]
    return {"revision": EXPERIMENTS[name].revision} | columns


def near(values):
    """Return values to compare with: numbers within a tolerance relative to themselves and to the column's largest."""
    if not isinstance(values, list) or isinstance(values[0], str):
        return values
    return pytest.approx(values, rel=0.01, abs=1e-6 + TOLERANCE * np.nanmax(np.abs(values)), nan_ok=True)


@pytest.mark.parametrize("column", ["units", "train_loss", "test_loss"])
def test_exchanging_two_rows_of_a_column_is_noticed(column):
    table = pd.DataFrame({"units": [1, 2, 3], "train_loss": [0.1, 0.2, 0.3], "test_loss": [0.3, np.nan, 0.1]})
    exchanged = table.assign(**{column: table[column].iloc[[1, 0, 2]].to_numpy()})
    before, after = (pinned("galu norms", {}, one) for one in (table, exchanged))
    assert after[column] != near(before[column])


def committed():
    """Yield every committed table, with its name."""
    for collection in COLLECTIONS:
        folder = DATA / collection.name
        yield from ((f"{collection.name} {one.experiment.name}", one) for one in load(collection, folder))
    for collection in (PAPER, SCALE):
        yield collection.name, load(collection, DATA / collection.name)[0]
    for folder in sorted((DATA / "limit").iterdir()):
        yield f"limit {folder.name}", load(LIMIT, folder)[0]


COMMITTED = dict(committed())


@functools.cache
def verdicts_of(name):
    """Return the verdicts on a committed table; `ResultTable.verdicts` computes them each time."""
    return COMMITTED[name].verdicts


def page_of(study):
    """Return the text of the page that shows the verdicts of a study, its appendix if it has one."""
    appendix = ROOT / "docs" / f"{study}_verdicts.md"
    page = appendix if appendix.exists() else ROOT / "docs" / f"{'findings' if study == 'paper' else study}.md"
    return page.read_text()


@pytest.mark.parametrize("collection", COLLECTIONS, ids=lambda collection: collection.name)
def test_what_help_says_of_a_collection_holds(collection):
    # Fresh: other tests take figures out of the shared dictionary, and putting them back changes their order.
    collection = replace(collection)
    assert collection.names == tuple(collection.figures)
    assert collection.images == any(one.data for one in collection.figures.values())


def test_every_experiment_has_a_committed_table():
    """Every experiment has a committed table; single comparisons are parts of the paper's."""
    parts = {f"paper {name}" for name in COMPARISONS} | {"limit"}
    assert COMMITTED.keys() == EXPERIMENTS.keys() - parts | LIMITS


@pytest.mark.parametrize("name", COMMITTED)
def test_committed_tables_are_drawn_and_judged_and_their_verdicts_shown(name):
    found = COMMITTED[name]
    assert found.experiment.figures(found.table)
    assert verdicts_of(name)
    # With all cells, a verdict may be undecided by its numbers, but not for lack of them.
    assert found.record["missing"] or all(verdict.found != "nothing to compare" for verdict in verdicts_of(name))
    short = name in ("limit plain", "scale") or name.split()[0] in SHORT
    assert short or as_markdown(verdicts_of(name)) in page_of(name.split()[0])


@pytest.mark.parametrize("collection", COLLECTIONS, ids=lambda collection: collection.name)
def test_pages_show_all_figures_of_a_collection_and_no_other_verdicts(collection):
    page, shown = page_of(collection.name), set()
    for name in collection.names:
        found = COMMITTED[f"{collection.name} {name}"]
        assert found.record["missing"] == 0
        picture = f"figures/{collection.name}/{name.replace('-', '_')}.png"
        drawn = f"]({picture})" in page
        assert drawn or collection.name in SHORT
        assert (ROOT / "docs" / picture).is_file() == drawn
        shown.update(as_markdown(verdicts_of(f"{collection.name} {name}")).splitlines())
    told = [line for line in page.splitlines() if line.endswith((" yes |", " no |", " undecided |"))]
    if collection.name in SHORT:
        assert not wrong_numbers(collection.name, page)
    else:
        assert {line for line in told if line.count(" | ") == 3} <= shown


def wrong_numbers(study, page):
    """Return the decimal numbers in the table of claims that no verdict of the row's figure has."""
    rows = re.findall(r"^\| .+? \| (.+?) \| .+? \| `([\w-]+)` \|$", page, flags=re.M)
    found = {name: str(verdicts_of(f"{study} {name}")) for _, name in rows}
    return [
        number for text, name in rows for number in re.findall(r"\d+\.\d+(?:e-\d+)?", text) if number not in found[name]
    ]


def write_expected(names):
    """Renew the rows of these experiments, by default of all, that `test_a_single_cell_…` expects."""
    rows = json.loads(EXPECTED.read_text())
    for name in names or EXPERIMENTS:
        settings = cheapest(name)
        table = result_table(run(cells_of(EXPERIMENTS[name], [settings])), EXPERIMENTS[name]).table
        rows[name] = pinned(name, settings, table)
    lines = [f"{json.dumps(name)}: {json.dumps(rows[name])}" for name in EXPERIMENTS]
    EXPECTED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    write_expected(sys.argv[1:])
