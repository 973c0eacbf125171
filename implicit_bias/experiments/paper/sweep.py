"""The cells of one or several studies: as jobs, and in a tidy table with its record."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import pandas as pd

from implicit_bias.experiments.paper.study import COLUMNS, SPLIT_SEED, Cell, Config, Study, run_cell, source
from implicit_bias.experiments.runner.collect import Collected, Progress, collect
from implicit_bias.experiments.runner.engines import Engine
from implicit_bias.experiments.runner.jobs import Job
from implicit_bias.experiments.runner.store import Store

Plan = Sequence[tuple[Study, Config]]


@dataclass(frozen=True)
class CellJob(Job):
    """One cell of a study under a configuration."""

    study: Study
    config: Config
    cell: Cell

    def __str__(self) -> str:
        return f"{self.study.name.removeprefix('compare_')} {self.cell}, {self.config.cutoff} cutoffs"

    @property
    def name(self) -> str:
        """The cell, as a part of a file's name."""
        cell = self.cell
        cutoff = re.sub(r"[^\w.]+", "_", str(self.config.cutoff))
        return f"{self.study.name}-n{cell.train_size}-H{cell.units}-C{cell.contexts}-{cutoff}-seed{cell.seed}"

    @property
    def cost(self) -> float:
        """As the study says."""
        return self.study.cost(self.config, self.cell)

    @property
    def order(self) -> tuple[float, ...]:
        """Samples of one size together, so that workers load them once, and then the longest first."""
        return (-self.cell.train_size, -self.cost)

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """What every study does for a cell, and the study's own part of it."""
        return run_cell, self.study.rows

    def settings(self) -> dict[str, Any]:
        """Study, cell, and the rest of the configuration."""
        apart = {"train_size", "units", "contexts", "seeds", "data_root"}
        rest = {name: value for name, value in asdict(self.config).items() if name not in apart}
        plain: dict[str, Any] = json.loads(
            json.dumps({"study": self.study.name, "cell": asdict(self.cell), "config": rest})
        )
        return plain

    def rows(self) -> list[dict[str, Any]]:
        """The cell's rows."""
        return run_cell(self.study, self.config, self.cell)

    @classmethod
    def prepare(cls, jobs: Sequence[Self]) -> None:
        """Load every data set once at its largest size: missing files and sizes out of range are told at once."""
        largest: dict[tuple[str, str | None], int] = {}
        for job in jobs:
            place = (job.config.dataset, job.config.data_root)
            largest[place] = max(largest.get(place, 0), job.cell.train_size)
        for (dataset, root), train_size in largest.items():
            source(dataset, root, train_size)
        source.cache_clear()


def jobs_of(study: Study, config: Config) -> list[CellJob]:
    """The jobs of a configuration, refused if it makes no sense for the study."""
    study.check(config)
    return [CellJob(study, config, cell) for cell in config.cells()]


def jobs_in(plan: Plan) -> list[CellJob]:
    """The jobs of every (study, configuration)."""
    return [job for study, config in plan for job in jobs_of(study, config)]


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
    plan: Plan,
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
    >>> from implicit_bias.experiments.paper.gln import STUDY
    >>> from implicit_bias.experiments.paper.study import Config
    >>> from implicit_bias.experiments.paper.sweep import run
    >>> table = run([(STUDY, Config(train_size=(60,), units=(3,), seeds=(1,), steps=50))]).table
    >>> table.model.tolist()
    ['GD-GLN', 'SVM-L2', 'SVM-GLN', 'SVM-Fro']
    """
    return tabulated(plan, collect(jobs_in(plan), engine, store, progress))


def tabulated(plan: Plan, collected: Collected) -> Run:
    """The table of what was collected of a plan's jobs, and its record."""
    record = {
        "studies": [{"study": study.name} | asdict(replace(config, data_root=None)) for study, config in plan],
        "split_seed": SPLIT_SEED,
        "code": {job.study.name: job.code for job in jobs_in(plan)},
    }
    return Run(pd.DataFrame(collected.rows(), columns=["study", *COLUMNS]), record | collected.record())
