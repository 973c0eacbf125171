"""Running the cells of one or several studies into a tidy table: stored, resumed, on any engine."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from typing import Any

import pandas as pd

from implicit_bias.experiments.engines import Engine, local, machine_kind
from implicit_bias.experiments.store import Job, Result, Store, code_version, jobs_of
from implicit_bias.experiments.study import COLUMNS, SPLIT_SEED, Config, Study, source
from implicit_bias.version import __version__

#: Called with a job when its result is there, and whether it was stored from an earlier run.
Progress = Callable[[Job, bool], None]
PACKAGES = ("numpy", "scipy", "torch", "cvxpy", "clarabel", "ecos", "osqp", "scs")


@dataclass(frozen=True, eq=False)
class Run:
    """A finished (or interrupted) sweep: its table, and a record of everything needed to repeat it."""

    table: pd.DataFrame
    record: dict[str, Any]

    @property
    def missing(self) -> int:
        """How many cells are not finished."""
        return int(self.record["missing"])


def run(
    plan: Sequence[tuple[Study, Config]],
    engine: Engine | None = None,
    store: Store | None = None,
    progress: Progress | None = None,
) -> Run:
    """Run every cell of every (study, configuration), the longest first; Ctrl-C keeps the cells that are done.

    Cells found in `store` are not computed again. The table is in the plan's order, whatever order the cells ended in.

    Raises
    ------
    InputError
        For a configuration or data that make no sense, before any work; for a store that cannot be written, a lost
        scheduler and the like, with all finished cells stored.

    Examples
    --------
    >>> from implicit_bias.experiments.gln import STUDY
    >>> from implicit_bias.experiments.study import Config
    >>> from implicit_bias.experiments.sweep import run
    >>> table = run([(STUDY, Config(train_size=(60,), units=(3,), seeds=(1,), steps=50))]).table
    >>> table.model.tolist()
    ['GD-GLN', 'SVM-L2', 'SVM-GLN', 'SVM-Fro']
    """
    start = time.perf_counter()
    jobs = [job for study, config in plan for job in jobs_of(study, config)]
    done: dict[Job, Result] = {}
    if store is not None:
        store.warn_of_others(jobs)
        for job in jobs:
            stored = store.get(job)
            if stored is not None:
                done[job] = stored
                if progress is not None:
                    progress(job, True)
    left = [job for job in jobs if job not in done]
    _require_data(left)
    try:
        for job, result in (engine or local())(_ordered(left)) if left else ():
            if store is not None:
                store.put(job, result)
            done[job] = result
            if progress is not None:
                progress(job, False)
    except KeyboardInterrupt:
        pass
    rows = [{"study": job.study.name} | row for job in jobs if job in done for row in done[job].rows]
    table = pd.DataFrame(rows, columns=["study", *COLUMNS])
    record = _record(plan, list(done.values()), time.perf_counter() - start) | {"missing": len(jobs) - len(done)}
    return Run(table, record)


def _require_data(jobs: Sequence[Job]) -> None:
    """Load every data set once at its largest size: missing files and sizes out of range are told before any work."""
    largest: dict[tuple[str, str | None], int] = {}
    for job in jobs:
        place = (job.config.dataset, job.config.data_root)
        largest[place] = max(largest.get(place, 0), job.cell.train_size)
    for (dataset, root), train_size in largest.items():
        source(dataset, root, train_size)
    source.cache_clear()


def _ordered(jobs: Sequence[Job]) -> list[Job]:
    """Samples of one size together, so that workers load them once, and the longest first, so that none ends late."""
    return sorted(jobs, key=lambda job: (-job.cell.train_size, -job.cost))


def surroundings() -> dict[str, Any]:
    """Versions, kind of machine and time: what a record of any results says besides its configuration.

    >>> from implicit_bias.experiments.sweep import surroundings
    >>> sorted(surroundings())
    ['finished', 'machine', 'versions']
    """
    return {
        "versions": {"python": platform.python_version(), "implicit-bias": __version__}
        | {name: version(name) for name in PACKAGES},
        "machine": machine_kind(),
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _record(plan: Sequence[tuple[Study, Config]], results: Sequence[Result], seconds: float) -> dict[str, Any]:
    return {
        "studies": [{"study": study.name} | asdict(replace(config, data_root=None)) for study, config in plan],
        "split_seed": SPLIT_SEED,
        "code": code_version(),
        **surroundings(),
        "machines": sorted({result.machine for result in results}),
        "seconds_of_this_run": round(seconds, 2),
        "seconds_of_all_cells": round(sum(result.seconds for result in results), 2),
        "cells": len(results),
    }
