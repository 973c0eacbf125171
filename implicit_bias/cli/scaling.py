"""The work of `implicit-bias reproduce scale`: chosen cells of the study of all sizes, and what all stored ones say."""

import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas as pd

from implicit_bias.cli.execution import Outcome
from implicit_bias.cli.scale import OPTIONS
from implicit_bias.cli.sweeps import computed, ended, redrawn
from implicit_bias.studies.runner.cells import Cell, cells_of
from implicit_bias.studies.runner.results import ResultTable, load_alone, result_table, resume_from, write_alone
from implicit_bias.studies.runner.run import stored
from implicit_bias.studies.runner.store import Store
from implicit_bias.studies.scale.config import GRID, chosen, grid
from implicit_bias.studies.scale.study import EXPERIMENT


def scale(options: Namespace) -> Outcome:
    """Compute the chosen cells that are not stored; write table, figures and findings of all that are."""
    given = {name: getattr(options, option[2:].replace("-", "_")) for name, (option, _) in OPTIONS.items()}
    wanted = {name: values for name, values in given.items() if values != GRID[name]}
    ending = "-redrawn" if options.redraw else "-quick" if options.quick else ""
    out = Path(options.out or f"results/scale{ending}")
    if options.redraw:
        out = redrawn(out, wanted or options.quick or options.list or options.extend or options.scheduler)
        found = _earlier(options.redraw)
        return ended([found], write_alone(found, out), found.record, 0)
    experiment = replace(EXPERIMENT, grid=partial(grid, max_seconds=options.max_seconds))
    asked = replace(experiment, grid=lambda quick: chosen(experiment.grid(quick), wanted))
    store = Store(out / "cells")
    if options.extend:
        cells = cells_of(experiment, experiment.grid(options.quick))
        for cell, result in resume_from(_earlier(options.extend), cells).items():
            own = store.get(cell)
            if own is None or cell.cut_off(own.rows):
                store.put(cell, result)
    costs = listed(cells_of(asked, asked.grid(options.quick)), store)
    left = f"{costs.cells.sum()} cells, {costs.stored.sum()} of them stored; hours left: {costs.hours_left.sum():.2f}"
    print(costs.to_string(index=False), left, sep="\n", file=sys.stdout if options.list else sys.stderr)
    if options.list:
        return Outcome(0, {"sizes": costs.to_dict("records")})
    (part,) = computed([asked], options, out)
    everything = stored(cells_of(experiment, experiment.grid(options.quick)), store)
    found = result_table(everything, experiment, quick=options.quick)
    code = 130 if part.record["missing"] else 0
    return ended([found], write_alone(found, out), found.record, code)


def _earlier(folder: str) -> ResultTable:
    return load_alone(EXPERIMENT, Path(folder), "reproduce scale")


def listed(cells: Sequence[Cell], store: Store) -> pd.DataFrame:
    """For every size the cells, how many are stored, and about how many hours of one core the others take."""
    rows = []
    for cell in cells:
        result = store.get(cell)
        done = result is not None and not cell.cut_off(result.rows)
        size = {name: cell.settings[name] for name in ("train_size", "units", "descent")}
        rows.append(size | {"cells": 1, "stored": int(done), "hours_left": 0.0 if done else cell.cost / 3600})
    return pd.DataFrame(rows).groupby(["train_size", "units", "descent"], as_index=False, sort=True).sum().round(3)
