"""Running jobs: what is stored is not computed again, what is computed is stored at once, and Ctrl-C keeps it."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from implicit_bias import __version__
from implicit_bias.experiments.runner.engines import Engine, local, machine_kind
from implicit_bias.experiments.runner.jobs import Job, Result
from implicit_bias.experiments.runner.store import Store

#: Called with a job when its result is there, and whether it was stored from an earlier run.
Progress = Callable[[Job, bool], None]
PACKAGES = ("numpy", "scipy", "torch", "cvxpy", "clarabel", "ecos", "osqp", "scs")


@dataclass(frozen=True, eq=False)
class Collected:
    """Jobs in the order they were given, the results of those that are done, and the seconds this run took."""

    jobs: Sequence[Job]
    results: dict[Job, Result]
    seconds: float

    def rows(self) -> list[dict[str, Any]]:
        """All rows, in the order of the jobs, whatever order they ended in."""
        return [row for job in self.jobs if job in self.results for row in self.results[job].rows]

    def of(self, jobs: Sequence[Job]) -> Collected:
        """Some of the jobs only."""
        return Collected(jobs, {job: self.results[job] for job in jobs if job in self.results}, self.seconds)

    def record(self) -> dict[str, Any]:
        """Where and when the results were computed, how long that took, and how many are missing."""
        results = self.results.values()
        return {
            **surroundings(),
            "machines": sorted({result.machine for result in results}),
            "seconds_of_this_run": round(self.seconds, 2),
            "seconds_of_all_cells": round(sum(result.seconds for result in results), 2),
            "cells": len(results),
            "missing": len(self.jobs) - len(results),
        }


def collect(
    jobs: Sequence[Job], engine: Engine | None = None, store: Store | None = None, progress: Progress | None = None
) -> Collected:
    """Compute the jobs that are not in `store`; Ctrl-C ends the work and keeps the jobs that are done.

    Raises
    ------
    InputError
        For missing data, before any work; for a store that cannot be written, a lost scheduler and the like, with all
        finished jobs stored.

    Examples
    --------
    >>> from implicit_bias.experiments.runner.collect import collect
    >>> from implicit_bias.experiments.runner.figure_jobs import jobs_of
    >>> from implicit_bias.experiments.galu.norms import EXPERIMENT
    >>> len(collect(jobs_of(EXPERIMENT, quick=True)[:1]).rows())
    1
    """
    start = time.perf_counter()
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
    for kind in {type(job): None for job in left}:
        kind.prepare([job for job in left if type(job) is kind])
    try:
        for job, result in (engine or local())(sorted(left, key=lambda job: job.order)) if left else ():
            if store is not None:
                store.put(job, result)
            done[job] = result
            if progress is not None:
                progress(job, False)
    except KeyboardInterrupt:
        pass
    return Collected(jobs, done, time.perf_counter() - start)


def surroundings() -> dict[str, Any]:
    """Versions, kind of machine and time: what a record of any results says besides its configuration.

    >>> from implicit_bias.experiments.runner.collect import surroundings
    >>> sorted(surroundings())
    ['finished', 'machine', 'versions']
    """
    return {
        "versions": {"python": platform.python_version(), "implicit-bias": __version__}
        | {name: version(name) for name in PACKAGES},
        "machine": machine_kind(),
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
