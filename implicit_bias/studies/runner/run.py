"""Run cells: stored results are used again, new ones are stored at once, and Ctrl-C keeps them."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from implicit_bias._utils.limits import Interruptible
from implicit_bias._utils.version import __version__, installed_version
from implicit_bias.studies.runner.cells import Cell, Result
from implicit_bias.studies.runner.engines import Engine, local, machine_kind
from implicit_bias.studies.runner.experiment import Experiment
from implicit_bias.studies.runner.store import Store

#: Called with each finished cell, and whether an earlier run has stored it.
Progress = Callable[[Cell, bool], None]
#: Separator of several machines if it is unknown which of them computed a cell.
MACHINES = "; "
PACKAGES = ("numpy", "scipy", "torch", "cvxpy", "clarabel", "ecos", "osqp", "scs")


@dataclass(eq=False)
class Run:
    """Result of a run: all `cells`, the results of those that are finished, and the seconds of the run."""

    cells: Sequence[Cell]
    results: dict[Cell, Result] = field(default_factory=dict)
    #: Rows of cells that Ctrl-C or a limit ended: the table includes them, and the next run starts these cells again.
    partial: dict[Cell, Result] = field(default_factory=dict)
    seconds: float = 0.0
    interrupted: bool = False

    def keep(self, cell: Cell, result: Result) -> None:
        """Add a result to `partial` if a limit of the experiment cut it off, else to `results`."""
        (self.partial if cell.cut_off(result.rows) else self.results)[cell] = result

    @property
    def missing(self) -> int:
        """Number of cells that are not finished, including those in `partial`."""
        return len(self.cells) - len(self.results)

    @property
    def end(self) -> str:
        """State: 'finished', 'interrupted', 'cut off' (cells ended by a limit) or 'begun' (cells not yet computed)."""
        if not self.missing:
            return "finished"
        return "interrupted" if self.interrupted else "cut off" if self.partial else "begun"

    def of(self, experiment: Experiment) -> Run:
        """Return a run with the cells of one experiment and their results; `seconds` stay those of the whole run."""
        cells = [cell for cell in self.cells if cell.experiment is experiment]
        results, partial = ({c: part[c] for c in cells if c in part} for part in (self.results, self.partial))
        return Run(cells, results, partial, self.seconds, self.interrupted)

    def table(self) -> pd.DataFrame:
        """Return the rows of all finished and partial cells, in the order of `cells`, with settings first."""
        results = self.partial | self.results
        cells = [cell for cell in self.cells if cell in results]
        rows = [cell.settings | row for cell in cells for row in results[cell].rows]
        columns = next((list(cell.experiment.columns) for cell in cells), [])
        return pd.DataFrame(rows, columns=columns or None)

    def record(self) -> dict[str, Any]:
        """Return versions, machines, date, seconds, numbers of finished and missing cells, and `end`, as plain JSON."""
        results = self.results.values()
        return {
            "versions": {"python": platform.python_version(), "implicit-bias": __version__}
            | {name: installed_version(name) for name in PACKAGES},
            "machine": machine_kind(),
            "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "machines": sorted({machine for result in results for machine in result.machine.split(MACHINES)}),
            "seconds_of_this_run": round(self.seconds, 2),
            "seconds_of_all_cells": round(sum(result.seconds for result in results), 2),
            "cells": len(results),
            "missing": self.missing,
            "end": self.end,
        }


def run(
    cells: Sequence[Cell], engine: Engine | None = None, store: Store | None = None, progress: Progress | None = None
) -> Run:
    """Compute the cells that are not in `store`, in order of decreasing cost; return all results.

    Ctrl-C ends the run without an exception: finished cells are kept. `engine` computes in this process by default.
    `progress` is called with each cell and True if it was stored, False if it was computed.
    Raises InputError before any computation if data are missing; later if, for example, the store cannot be written or
    the scheduler is lost, after every finished cell is stored.
    """
    start, show = time.perf_counter(), progress or (lambda cell, stored: None)
    if store is not None:
        store.warn_of_others(cells)
    this_run = stored(cells, store)
    for cell in this_run.results:
        show(cell, True)
    remaining = sorted((cell for cell in cells if cell not in this_run.results), key=lambda cell: -cell.cost)
    for cell in remaining:
        cell.data()
    with Interruptible() as attempt:
        for cell, result in (engine or local())(remaining) if remaining else ():
            if store is not None:
                store.put(cell, result)
            this_run.keep(cell, result)
            show(cell, False)
    this_run.partial |= dict(attempt.carried)
    this_run.interrupted, this_run.seconds = attempt.interrupted, time.perf_counter() - start
    return this_run


def stored(cells: Sequence[Cell], store: Store | None) -> Run:
    """Return a run with the stored results of `cells`, without computation; it is empty if `store` is None."""
    this_run = Run(cells)
    for cell in cells:
        result = store.get(cell) if store is not None else None
        if result is not None:
            this_run.keep(cell, result)
    return this_run
