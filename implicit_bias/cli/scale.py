"""`implicit-bias reproduce scale`: compute chosen cells of the study of all sizes; report on all stored cells."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from implicit_bias.cli.execution import Outcome
from implicit_bias.cli.parsers import ENGINE, Parser
from implicit_bias.studies.scale.config import GRID, MAX_SECONDS, NETWORKS, chosen, grid

if TYPE_CHECKING:
    import pandas as pd

    from implicit_bias.studies.runner.cells import Cell
    from implicit_bias.studies.runner.store import Store

#: Options whose names differ from those of their coordinates.
COORDINATES = {"seeds": "seed", "descents": "descent"}
TEXTS = {
    "dataset": "data sets",
    "train_size": "training samples n",
    "seeds": "seeds of the split, gates, weights and batches",
    "units": "units H of a GLN's layer; a ReLU layer has twice as many",
    "network": "one or several of those above",
    "descents": "after the published training (sgd), and where descent from there ends (limit)",
}


def declare(parser: Parser, command: str) -> None:
    parser.explain(
        "The paper's comparison on up to 48 000 images: networks after the published training, and driven on towards\n"
        "their limit, against their margin problems. The whole study takes days; --list prints the cost of each size.\n"
        "Options that list values choose the cells to compute; figures and findings are of all stored cells.\n\n"
        "networks:\n" + "\n".join(f"  {name:16s}{text}" for name, text in NETWORKS.items()),
        [
            ("--quick", "the embedded digits, minutes"),
            ("--list", "compute nothing: cells, and hours of one core, for each size"),
            ("--train-size 500 2000 --units 10", "the cheapest cells, twenty minutes of one core"),
            ("--extend data/scale --train-size 48000", "cells of this size that the committed table lacks"),
            ("--redraw data/scale", "figures and findings of the committed table, in seconds"),
        ],
    )
    offered = {"dataset": GRID["dataset"], "network": GRID["network"], "descents": GRID["descent"]}
    parser.add_settings(lambda name: GRID[COORDINATES.get(name, name)], TEXTS, offered)
    add = parser.add_argument
    add("--max-seconds", type=float, default=MAX_SECONDS, help="time after which each descent is cut off")
    text = "the embedded digits at n = 100, 200 and 400, in minutes and without files"
    add("--quick", action="store_true", help=text)
    add("--list", action="store_true", help="compute nothing: print the number of cells and their cost")
    add("--extend", metavar="FOLDER", help="begin with the cells of an earlier table and its record")
    parser.add_shared("--redraw", "--data-root", *ENGINE)
    text = "folder for cells, table, figures and findings; else results/scale, with -quick or -redrawn for those"
    add("--out", help=text)
    parser.set_defaults(run=scale, loads=("studies.scale.study", "cli.sweeps"))


def scale(options: Namespace) -> Outcome:
    """Compute the chosen cells that are not stored; write results of all stored cells. Code 130: cells are missing."""
    from implicit_bias.cli.sweeps import computed, ended, folder_of, known
    from implicit_bias.studies.runner.cells import cells_of
    from implicit_bias.studies.runner.results import load_alone, resume_from, write_alone
    from implicit_bias.studies.runner.store import Store
    from implicit_bias.studies.scale.study import EXPERIMENT

    given = {COORDINATES.get(name, name): getattr(options, name) for name in TEXTS}
    wanted = {name: values for name, values in given.items() if values != GRID[name]}
    computing = wanted or options.quick or options.list or options.extend or options.scheduler
    out = folder_of(options, f"results/scale{'-quick' if options.quick else ''}", computing)
    if options.redraw:
        found = load_alone(EXPERIMENT, Path(options.redraw), "reproduce scale")
        return ended([found], write_alone(found, out), found.record, missing=False)
    experiment = replace(EXPERIMENT, grid=partial(grid, max_seconds=options.max_seconds))
    selected = replace(experiment, grid=lambda quick: chosen(experiment.grid(quick), wanted))
    store = Store(out / "cells")
    if options.extend:
        earlier = load_alone(EXPERIMENT, Path(options.extend), "reproduce scale")
        for cell, result in resume_from(earlier, cells_of(experiment, experiment.grid(options.quick))).items():
            own = store.get(cell)
            if own is None or cell.cut_off(own.rows):
                store.put(cell, result)
    costs = _costs(cells_of(selected, selected.grid(options.quick)), store)
    left = f"{costs.cells.sum()} cells, {costs.stored.sum()} of them stored; hours left: {costs.hours_left.sum():.2f}"
    print(costs.to_string(index=False), left, sep="\n", file=sys.stdout if options.list else sys.stderr)
    if options.list:
        return Outcome(0, {"sizes": costs.to_dict("records")}, "the same command without --list")
    (part,) = computed([selected], options, out)
    found = known(experiment, out, options.quick)
    return ended([found], write_alone(found, out), found.record, bool(part.record["missing"]))


def _costs(cells: Sequence[Cell], store: Store) -> pd.DataFrame:
    """Return a row for each train_size, units and descent: cells, stored, and hours_left of one core, approximately."""
    import pandas as pd

    rows = []
    for cell in cells:
        result = store.get(cell)
        done = result is not None and not cell.cut_off(result.rows)
        size = {name: cell.settings[name] for name in ("train_size", "units", "descent")}
        rows.append(size | {"cells": 1, "stored": int(done), "hours_left": 0.0 if done else cell.cost / 3600})
    return pd.DataFrame(rows).groupby(["train_size", "units", "descent"], as_index=False, sort=True).sum().round(3)
