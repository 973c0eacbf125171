"""What the commands that compute cells share: options of versions and engines, and a bar with the time left."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from tqdm import tqdm

from implicit_bias.command_line.parsers import offer
from implicit_bias.experiments.paper.study import VERSIONS
from implicit_bias.experiments.runner.cells import Cell
from implicit_bias.experiments.runner.engines import ENGINES
from implicit_bias.experiments.runner.run import Run, run
from implicit_bias.experiments.runner.store import Store
from implicit_bias.ground.checks import InputError, one_of
from implicit_bias.ground.files import require_writable


def watched(cells: Sequence[Cell], options: argparse.Namespace, out: str | Path | None = None) -> Run:
    """Compute cells on the engine of the options, stored in `out`/cells, with a bar that shows the time left.

    Raises InputError for an unknown engine, an unreachable scheduler and an unwritable folder, before any work;
    KeyboardInterrupt if no cell was finished.
    """
    engine = ENGINES[one_of(options.engine, ENGINES, "engine")](options.jobs, options.scheduler)
    store = require_writable(out or options.out) / "cells"
    with tqdm(
        total=(1 + 1e-9) * sum(cell.cost for cell in cells),
        bar_format="{desc} {percentage:3.0f}% |{bar}| {elapsed} passed, {remaining} left{postfix}",
    ) as bar:
        done = stored = 0

        def show(cell: Cell, was_stored: bool) -> None:
            nonlocal done, stored
            done, stored = done + 1, stored + was_stored
            bar.set_description_str(f"{done} of {len(cells)} cells", refresh=False)
            if was_stored:
                # Counted as done, but not towards the speed from which the time left follows.
                bar.initial += cell.cost
                bar.n += cell.cost
                bar.set_postfix_str(f"{stored} stored earlier")
            else:
                bar.set_postfix_str(str(cell), refresh=False)
                bar.update(cell.cost)

        found = run(cells, engine, Store(store), show)
    if found.missing:
        print(f"interrupted: {done} of {len(cells)} cells are stored in {store}; run again to go on", file=sys.stderr)
    if not done:
        raise KeyboardInterrupt
    return found


def told(paths: Iterable[Path]) -> list[Path]:
    """Say which files were written."""
    written = list(paths)
    for path in written:
        print(f"wrote {path}")
    return written


def add_figure(parser: argparse.ArgumentParser, figures: Iterable[str]) -> None:
    """Options --figure, with the figures there are, and --quick."""
    names = list(figures)
    offer(parser.add_argument("--figure", default="all", help=f"{', '.join(names)} or all"), [*names, "all"])
    parser.add_argument("--quick", action="store_true", help="a part of every figure, in a few minutes")


def check_redraw(options: argparse.Namespace) -> None:
    """Refuse --redraw with options of a computation."""
    if options.quick or options.scheduler:
        raise InputError("--redraw computes nothing, so --quick and --scheduler do not go with it")


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
