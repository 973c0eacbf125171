"""Running cells: what is stored is not computed again, what is computed is stored at once, and Ctrl-C keeps it."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import pandas as pd

from implicit_bias._utils.version import __version__
from implicit_bias.studies.runner.cells import Cell, Result
from implicit_bias.studies.runner.engines import Engine, local, machine_kind
from implicit_bias.studies.runner.experiment import Experiment
from implicit_bias.studies.runner.store import Store

#: Called with a cell when its rows are there, and whether they were stored by an earlier run.
Progress = Callable[[Cell, bool], None]
#: What joins several machines, where it is not known which of them computed a cell.
MACHINES = "; "
PACKAGES = ("numpy", "scipy", "torch", "cvxpy", "clarabel", "ecos", "osqp", "scs")


@dataclass(frozen=True, eq=False)
class Run:
    """Cells in the order they were given, the results of those that are done, and the seconds this run took."""

    cells: Sequence[Cell]
    results: dict[Cell, Result]
    seconds: float
    #: Rows so far of cells that Ctrl-C or a limit ended: they are tabulated, and the next run begins the cell again.
    partial: dict[Cell, Result] = field(default_factory=dict)
    interrupted: bool = False

    @property
    def missing(self) -> int:
        """How many cells are not finished."""
        return len(self.cells) - len(self.results)

    @property
    def end(self) -> str:
        """'finished', 'interrupted', 'cut off' for want of cells that a limit ended, 'begun' of those not asked for."""
        if not self.missing:
            return "finished"
        return "interrupted" if self.interrupted else "cut off" if self.partial else "begun"

    def of(self, experiment: Experiment) -> Run:
        """The cells of one experiment only."""
        own = [cell for cell in self.cells if cell.experiment is experiment]
        results, partial = ({c: part[c] for c in own if c in part} for part in (self.results, self.partial))
        return Run(own, results, self.seconds, partial, self.interrupted)

    def table(self) -> pd.DataFrame:
        """All rows, settings first, in the order of the cells, whatever order they ended in."""
        known = self.partial | self.results
        done = [cell for cell in self.cells if cell in known]
        rows = [cell.settings | row for cell in done for row in known[cell].rows]
        columns = next((list(cell.experiment.columns) for cell in done), [])
        return pd.DataFrame(rows, columns=columns or None)

    def record(self) -> dict[str, Any]:
        """Where, when and with what versions the results were computed, how long it took, and how many are missing."""
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
    interrupted = False

    def keep(cell: Cell, result: Result, stored: bool) -> None:
        """Take a result, and tell of it."""
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
    try:
        for cell, result in (engine or local())(sorted(left, key=lambda cell: -cell.cost)) if left else ():
            if store is not None:
                store.put(cell, result)
            keep(cell, result, False)
    except KeyboardInterrupt as stop:
        partial |= dict(stop.args)
        interrupted = True
    return Run(cells, done, time.perf_counter() - start, partial, interrupted)


def stored(cells: Sequence[Cell], store: Store) -> Run:
    """What earlier runs have stored of some cells; nothing is computed.

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
