"""Computation and output shared by the commands that run experiments."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from tqdm import tqdm

from implicit_bias._utils.checks import InputError, one_of
from implicit_bias._utils.files import require_writable
from implicit_bias.cli.execution import Output
from implicit_bias.studies.collection import Collection
from implicit_bias.studies.runner.cells import Cell, cells_of
from implicit_bias.studies.runner.engines import ENGINES
from implicit_bias.studies.runner.experiment import Experiment
from implicit_bias.studies.runner.results import ResultTable, records_of, result_tables, resume_from, write
from implicit_bias.studies.runner.run import run, stored
from implicit_bias.studies.runner.store import Store


def computed(experiments: Sequence[Experiment], options: argparse.Namespace, out: Path) -> list[ResultTable]:
    """Compute the cells of experiments with the engine of `options`; return the tables of those with results.

    A progress bar is shown, and cells are stored in `out`/cells; stored ones are not computed again. InputError is
    raised before any computation if the engine is unknown, the scheduler cannot be reached, or the folder cannot be
    written to; KeyboardInterrupt if no cell has a result.
    """
    engine = ENGINES[one_of(options.engine, ENGINES, "engine")](options.jobs, options.scheduler)
    cells = [cell for one in experiments for cell in cells_of(one, one.grid(options.quick), options.data_root)]
    store, names = require_writable(out) / "cells", _labels(cells)
    with tqdm(
        total=(1 + 1e-9) * sum(cell.cost for cell in cells),
        bar_format="{desc} {percentage:3.0f}% |{bar}| {elapsed} passed, {remaining} left{postfix}",
    ) as bar:
        done = earlier = 0

        def show(cell: Cell, was_stored: bool) -> None:
            nonlocal done, earlier
            done, earlier = done + 1, earlier + was_stored
            bar.set_description_str(f"{done} of {len(cells)} cells", refresh=False)
            if was_stored:
                # Stored cells count as done, but not for the speed that determines the remaining time.
                bar.initial += cell.cost
                bar.n += cell.cost
                bar.set_postfix_str(f"{earlier} stored earlier")
            else:
                bar.set_postfix_str(names[cell], refresh=False)
                bar.update(cell.cost)

        result = run(cells, engine, Store(store), show)
        if not result.missing:
            # The sum of the costs may have a rounding error.
            bar.n = bar.total
    if result.missing:
        finished = f"{len(result.results)} of {len(cells)} cells"
        print(f"{result.end}: {finished} are stored in {store}; run again to go on", file=sys.stderr)
    if not (result.results or result.partial):
        raise KeyboardInterrupt
    return result_tables(result, quick=options.quick)


def stored_tables(experiments: Sequence[Experiment], out: Path, quick: bool) -> list[ResultTable]:
    """Return the tables of stored cells, without computation; raise InputError if there are none."""
    store = Store(out / "cells")
    cells = [cell for one in experiments for cell in cells_of(one, one.grid(quick))]
    if not (tables := result_tables(stored(cells, store), quick=quick)):
        raise InputError(f"{store.folder} holds none of these cells; run the command without --stored")
    return tables


def extend(experiments: Sequence[Experiment], earlier: Sequence[ResultTable], out: Path, quick: bool) -> None:
    """Store the cells of earlier tables in `out`/cells, except those that are stored there and finished."""
    store = Store(out / "cells")
    for table in earlier:
        for one in (one for one in experiments if one.name == table.experiment.name):
            for cell, result in resume_from(table, cells_of(one, one.grid(quick))).items():
                stored_result = store.get(cell)
                if stored_result is None or cell.cut_off(stored_result.rows):
                    store.put(cell, result)


def costs(experiments: Sequence[Experiment], out: Path, quick: bool) -> pd.DataFrame:
    """Return a row for each figure and its `sizes`: cells, stored, and hours_left of one core, approximately."""
    store, tables = Store(out / "cells"), []
    for one in experiments:
        rows = []
        for cell in cells_of(one, one.grid(quick)):
            result = store.get(cell)
            done = result is not None and not cell.cut_off(result.rows)
            size = {"figure": one.name} | {name: cell.settings[name] for name in one.sizes}
            rows.append(size | {"cells": 1, "stored": int(done), "hours_left": 0.0 if done else cell.cost / 3600})
        tables.append(pd.DataFrame(rows).groupby(["figure", *one.sizes], as_index=False, sort=True).sum())
    return pd.concat(tables).round(3)


def folder_of(options: argparse.Namespace, default: str, computing: Any) -> Path:
    """Return --out, else `default`, or with --redraw, which excludes `computing`, `default`-redrawn."""
    if not options.redraw:
        return Path(options.out or default)
    if computing:
        raise InputError("--redraw computes nothing, so that no option of a computation goes with it")
    return require_writable(options.out or f"{default}-redrawn")


def _labels(cells: Sequence[Cell]) -> dict[Cell, str]:
    """Return a label for each cell: its experiment, if there are several, and the settings that differ.

    >>> from implicit_bias.studies.galu import COLLECTION
    >>> (norms,) = COLLECTION.chosen("norms")
    >>> list(_labels(cells_of(norms, norms.grid(True))).values())[0]
    'fit least squares, sigma y 0.0, seed 101'
    """
    labels: dict[Cell, str] = {}
    several = len({cell.experiment for cell in cells}) > 1
    for cell in cells:
        others = [other.settings for other in cells if other.experiment is cell.experiment]
        place = cell.experiment.place(cell.settings).items()
        words = [f"{name} {value}" for name, value in place if any(other.get(name) != value for other in others)]
        labels[cell] = ", ".join([cell.experiment.name] * several + words).replace("_", " ")
    return labels


def ended(collection: Collection, tables: Sequence[ResultTable], out: Path, missing: bool = False) -> Output:
    """Print findings and write the results; return the outcome, with code 130 if cells are `missing`."""
    for one in tables:
        print(one.lines())
    paths = write(collection, tables, out)
    findings = {one.experiment.name: one.findings() for one in tables}
    record = records_of(collection, tables)
    document = {"findings": findings, "record": record.get("figures", record)}
    then = f"read {next(path for path in paths[::-1] if path.name in ('report.html', 'findings.md'))}"
    if missing:
        then = "the same command, which computes the missing cells only"
    return Output(130 if missing else 0, document, then, paths)
