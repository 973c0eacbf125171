"""What the commands that compute cells share: options of versions and engines, and a bar with the time left."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from implicit_bias.checks import one_of
from implicit_bias.experiments.engines import ENGINES
from implicit_bias.experiments.store import Job, Store, jobs_of
from implicit_bias.experiments.study import VERSIONS, Config, Study
from implicit_bias.experiments.sweep import Run, run
from implicit_bias.files import require_writable


def watched(
    plan: Sequence[tuple[Study, Config]], out: Path, engine: str = "local", jobs: int = 1, scheduler: str | None = None
) -> Run:
    """Run a plan with its cells stored in `out`/cells, and a bar with the time left.

    Raises InputError for an unknown engine, an unreachable scheduler and an unwritable folder, before any work;
    KeyboardInterrupt if no cell was finished.
    """
    chosen = ENGINES[one_of(engine, ENGINES, "engine")](jobs, scheduler)
    require_writable(out)
    work = [job for study, config in plan for job in jobs_of(study, config)]
    with tqdm(
        total=(1 + 1e-9) * sum(job.cost for job in work),
        bar_format="{desc} {percentage:3.0f}% |{bar}| {elapsed} passed, {remaining} left{postfix}",
    ) as bar:
        done = stored = 0

        def show(job: Job, was_stored: bool) -> None:
            nonlocal done, stored
            done, stored = done + 1, stored + was_stored
            bar.set_description_str(f"{done} of {len(work)} cells", refresh=False)
            if was_stored:
                # Counted as done, but not towards the speed from which the time left follows.
                bar.initial += job.cost
                bar.n += job.cost
                bar.set_postfix_str(f"{stored} stored earlier")
            else:
                bar.set_postfix_str(str(job), refresh=False)
                bar.update(job.cost)

        result = run(plan, chosen, Store(out / "cells"), show)
    if result.missing:
        print(f"interrupted: {done} of {len(work)} cells are stored in {out / 'cells'}; run again to go on",
              file=sys.stderr)  # fmt: skip
    if result.table.empty:
        raise KeyboardInterrupt
    return result


def add_versions(parser: argparse.ArgumentParser, default: tuple[str, ...]) -> None:
    """Options --corrected, --as-published and --both."""
    choice = parser.add_mutually_exclusive_group()
    kinds = (("--corrected", VERSIONS[:1], "without"), ("--as-published", VERSIONS[1:], "with"))
    for name, versions, with_out in kinds:
        text = f"{with_out} the published faults (docs/errata.md)" + " (default)" * (default == versions)
        choice.add_argument(name, dest="versions", action="store_const", const=versions, default=default, help=text)
    text = "both, side by side" + " (default)" * (default == VERSIONS)
    choice.add_argument("--both", dest="versions", action="store_const", const=VERSIONS, help=text)


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Options --engine, --jobs and --scheduler."""
    add = parser.add_argument
    add("--engine", default="local", help=f"where cells are computed: {' or '.join(ENGINES)}")
    add("--jobs", type=int, default=os.cpu_count(), help="local processes that share the cells")
    add("--scheduler", help="address of a running Dask scheduler, for --engine dask")
