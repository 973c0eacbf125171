"""The cells of an experiment, as jobs that are stored and resumed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from implicit_bias.experiments.runner.digests import digest
from implicit_bias.experiments.runner.experiment import Experiment, Rows, Settings
from implicit_bias.experiments.runner.jobs import Job


@dataclass(frozen=True)
class FigureJob(Job):
    """One cell of an experiment: its settings as JSON, and the folder of image files."""

    experiment: Experiment
    text: str
    data_root: str | None = None

    def __str__(self) -> str:
        values = (f"{name} {value}" for name, value in self.cell.items())
        return f"{self.experiment.name}: {', '.join(values)}"

    @property
    def cell(self) -> Settings:
        """The settings."""
        settings: Settings = json.loads(self.text)
        return settings

    @property
    def name(self) -> str:
        """The figure and a digest of the settings."""
        return f"{self.experiment.name}-{digest(self.cell)}"

    @property
    def cost(self) -> float:
        """As the experiment says."""
        return self.experiment.cost(self.cell)

    @property
    def functions(self) -> tuple[Callable[..., Any], ...]:
        """What computes the rows, and what loads data for it."""
        return (self.experiment.rows, *([self.experiment.data] if self.experiment.data else []))

    def settings(self) -> dict[str, Any]:
        """The figure and the cell's settings."""
        return {"figure": self.experiment.name, "settings": self.cell}

    def rows(self) -> Rows:
        """The cell's rows, each with the settings before it."""
        data = [self.experiment.data(self.cell, self.data_root)] if self.experiment.data else []
        return [self.cell | row for row in self.experiment.rows(self.cell, *data)]

    @classmethod
    def prepare(cls, jobs: Sequence[Self]) -> None:
        """Load what every cell needs."""
        for job in jobs:
            if job.experiment.data is not None:
                job.experiment.data(job.cell, job.data_root)


def jobs_of(experiment: Experiment, *, quick: bool = False, data_root: str | None = None) -> list[FigureJob]:
    """The jobs of an experiment's grid, each once.

    >>> from implicit_bias.experiments.runner.figure_jobs import jobs_of
    >>> from implicit_bias.experiments.galu.norms import EXPERIMENT
    >>> len(jobs_of(EXPERIMENT))
    176
    """
    texts = dict.fromkeys(json.dumps(settings) for settings in experiment.grid(quick))
    return [FigureJob(experiment, text, data_root) for text in texts]
