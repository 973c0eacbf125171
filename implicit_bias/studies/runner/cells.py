"""Cells of an experiment: the unit of computation, storage and resumption, on every engine."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from implicit_bias.datasets import BinaryTask, divided, load_signs
from implicit_bias.datasets.images import ImageClasses, load_classes
from implicit_bias.studies.runner.experiment import Experiment, Rows
from implicit_bias.studies.settings import Settings

#: Splits of the data: as published, by a seed of 1, or by the seed of the cell.
SPLITS = ("published", "own")


@dataclass(frozen=True, eq=False)
class Cell:
    """A grid point of an experiment: settings as plain JSON, and the folder of image files, which changes no rows.

    >>> from implicit_bias.studies.galu import COLLECTION
    >>> (norms,) = COLLECTION.chosen("norms")
    >>> sorted(cells_of(norms, norms.grid(True))[0].key())
    ['experiment', 'revision', 'settings']
    """

    experiment: Experiment
    settings: Settings
    data_root: str | None = None

    def __str__(self) -> str:
        values = (f"{name}={value}" for name, value in self.experiment.place(self.settings).items())
        return f"{self.experiment.name}: {', '.join(values)}"

    @property
    def cost(self) -> float:
        """Approximate seconds on one core."""
        return self.experiment.cost(self.settings)

    def key(self) -> dict[str, Any]:
        """Return everything that the rows depend on; stored results are found by it."""
        about = self.experiment
        settings = {name: value for name, value in self.settings.items() if name not in about.limits}
        return {"experiment": about.name, "settings": settings, "revision": about.revision}

    def cut_off(self, rows: Rows) -> bool:
        """True if one of the experiment's limits ended the cell."""
        return any(row.get("end") in self.experiment.limits for row in rows)

    def data(self) -> list[Any]:
        """Load what the rows need besides the settings; raise InputError for missing files."""
        return [self.experiment.data(self.settings, self.data_root)] if self.experiment.data else []


@dataclass(frozen=True)
class Result:
    """Result of a cell: its rows, the seconds of its computation, and the machine."""

    rows: Rows
    seconds: float
    machine: str


def cells_of(experiment: Experiment, grid: Iterable[Settings], data_root: str | None = None) -> list[Cell]:
    """Return the cells of some settings, each once."""
    texts = dict.fromkeys(json.dumps(settings) for settings in grid)
    return [Cell(experiment, json.loads(text), data_root) for text in texts]


_signs = lru_cache(maxsize=1)(load_signs)
_classes = lru_cache(maxsize=2)(load_classes)


@lru_cache(maxsize=1)
def _task(dataset: str, train_size: int, seed: int, root: str | None) -> BinaryTask:
    return divided(dataset, *_signs(dataset, root), train_size, seed)


def binary_task(settings: Settings, root: str | None) -> BinaryTask:
    """The `data` of experiments on one of the binary tasks, with the published split unless `split` is "own"."""
    seed = settings["seed"] if settings.get("split") == "own" else 1
    return _task(settings["dataset"], settings["train_size"], seed, root)


def image_classes(settings: Settings, root: str | None) -> ImageClasses:
    """The `data` of experiments on images of all classes, pixels in [−1, 1] and a constant, the same for every seed.

    With `components` so many principal components instead of the pixels; `held_out` training images are set apart.
    """
    held_out = settings.get("held_out", 0)
    return _classes(settings["dataset"], settings.get("components"), held_out, root, seed=0)
