"""Run cells: stored results are used again, new ones are stored at once, and Ctrl-C keeps them."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import pandas as pd

from implicit_bias._utils.threads import Interruptible
from implicit_bias._utils.version import __version__
from implicit_bias.studies.runner.cells import Cell, Result
from implicit_bias.studies.runner.engines import Engine, local, machine_kind
from implicit_bias.studies.runner.experiment import Experiment
from implicit_bias.studies.runner.store import Store

#: Called with each finished cell, and whether an earlier run has stored it.
Progress = Callable[[Cell, bool], None]
#: Separator of several machines if it is unknown which of them computed a cell.
MACHINES = "; "
PACKAGES = ("numpy", "scipy", "torch", "cvxpy", "clarabel", "ecos", "osqp", "scs")


@dataclass(frozen=True, eq=False)
class Run:
    """Cells in the order they were given, the results of the finished ones, and the seconds of this run."""

    cells: Sequence[Cell]
    results: dict[Cell, Result]
    seconds: float
    #: Rows of cells that Ctrl-C or a limit ended: the table includes them, and the next run starts these cells again.
    partial: dict[Cell, Result] = field(default_factory=dict)
    interrupted: bool = False

    @property
    def missing(self) -> int:
        """Number of cells that are not finished."""
        return len(self.cells) - len(self.results)

    @property
    def end(self) -> str:
        """'finished', 'interrupted', 'cut off' (a limit ended the missing cells) or 'begun' (not computed)."""
        if not self.missing:
            return "finished"
        return "interrupted" if self.interrupted else "cut off" if self.partial else "begun"

    def of(self, experiment: Experiment) -> Run:
        """Return the part of this run that belongs to one experiment."""
        own = [cell for cell in self.cells if cell.experiment is experiment]
        results, partial = ({c: part[c] for c in own if c in part} for part in (self.results, self.partial))
        return Run(own, results, self.seconds, partial, self.interrupted)

    def table(self) -> pd.DataFrame:
        """Return all rows, settings first, in the order of the cells."""
        known = self.partial | self.results
        done = [cell for cell in self.cells if cell in known]
        rows = [cell.settings | row for cell in done for row in known[cell].rows]
        columns = next((list(cell.experiment.columns) for cell in done), [])
        return pd.DataFrame(rows, columns=columns or None)

    def record(self) -> dict[str, Any]:
        """Return machine, date, versions and seconds of the computation, and the number of missing cells."""
        results = self.results.values()
        return {
            "versions": {"python": platform.python_version(), "implicit-bias": __version__}
            | {name: version(name) for name in PACKAGES},
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
    """Compute the cells that are not in `store`, the longest first; Ctrl-C ends the work and keeps what is done.

    Raises InputError for missing data, before any work; for a store that cannot be written, a lost scheduler and the
    like, with all finished cells stored.

    >>> from implicit_bias.studies.galu import COLLECTION
    >>> from implicit_bias.studies.runner.cells import cells_of
    >>> (norms,) = COLLECTION.chosen("norms")
    >>> len(run(cells_of(norms, norms.grid(True)[:1])).table())
    1
    """
    start = time.perf_counter()
    done: dict[Cell, Result] = {}
    partial: dict[Cell, Result] = {}

    def keep(cell: Cell, result: Result, stored: bool) -> None:
        """Keep a result, and report it."""
        (partial if cell.cut_off(result.rows) else done)[cell] = result
        if progress is not None and (cell in done or not stored):
            progress(cell, stored)

    if store is not None:
        store.warn_of_others(cells)
        for cell in cells:
            if (found := store.get(cell)) is not None:
                keep(cell, found, True)
    left = [cell for cell in cells if cell not in done]
    for cell in left:
        cell.data()
    with Interruptible() as run:
        for cell, result in (engine or local())(sorted(left, key=lambda cell: -cell.cost)) if left else ():
            if store is not None:
                store.put(cell, result)
            keep(cell, result, False)
    partial |= dict(run.carried)
    return Run(cells, done, time.perf_counter() - start, partial, run.interrupted)


def stored(cells: Sequence[Cell], store: Store) -> Run:
    """Return what earlier runs have stored of some cells, without computing any.

    >>> import tempfile
    >>> from implicit_bias.studies.galu import COLLECTION
    >>> from implicit_bias.studies.runner.cells import cells_of
    >>> (norms,) = COLLECTION.chosen("norms")
    >>> found = stored(cells_of(norms, norms.grid(True)), Store(tempfile.mkdtemp()))
    >>> found.missing == len(found.cells), found.end
    (True, 'begun')
    """
    known = {cell: result for cell in cells if (result := store.get(cell)) is not None}
    partial = {cell: result for cell, result in known.items() if cell.cut_off(result.rows)}
    return Run(cells, {cell: result for cell, result in known.items() if cell not in partial}, 0.0, partial)
