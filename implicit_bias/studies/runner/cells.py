"""Cells of an experiment: the unit of computation, storage and resumption, on every engine."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from implicit_bias._utils.checks import Array
from implicit_bias.datasets import BinaryTask, divided, load_signs
from implicit_bias.datasets.images import ImageClasses, load_classes
from implicit_bias.studies.runner.experiment import Experiment, Rows
from implicit_bias.studies.settings import Settings


@dataclass(frozen=True, eq=False)
class Cell:
    """One run of an experiment: its settings as plain JSON, and the folder of image files (None: the default folder).

    The folder `data_root` is not in the key, because the rows do not depend on it.
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
        """Return {experiment, settings without those named in `limits`, revision}, which identifies the stored rows."""
        about = self.experiment
        settings = {name: value for name, value in self.settings.items() if name not in about.limits}
        return {"experiment": about.name, "settings": settings, "revision": about.revision}

    def cut_off(self, rows: Rows) -> bool:
        """True if a limit ended the computation: the `end` of some row is one of the experiment's `limits`."""
        return any(row.get("end") in self.experiment.limits for row in rows)

    def data(self) -> list[Any]:
        """Return the arguments of `rows` after the settings, [data] or []; raise InputError if files are missing."""
        return [self.experiment.data(self.settings, self.data_root)] if self.experiment.data else []


@dataclass(frozen=True)
class Result:
    """Result of a cell: its rows, the seconds of its computation, and a description of the machine."""

    rows: Rows
    seconds: float
    machine: str


def cells_of(experiment: Experiment, grid: Iterable[Settings], data_root: str | None = None) -> list[Cell]:
    """Return one cell for each of the settings in `grid`, in this order and without duplicates."""
    texts = dict.fromkeys(json.dumps(settings) for settings in grid)
    return [Cell(experiment, json.loads(text), data_root) for text in texts]


_signs = lru_cache(maxsize=1)(load_signs)
_classes = lru_cache(maxsize=2)(load_classes)


@lru_cache(maxsize=1)
def _task(dataset: str, train_size: int, seed: int, root: str | None) -> BinaryTask:
    return divided(dataset, *_signs(dataset, root), train_size, seed)


def binary_task(settings: Settings, root: str | None) -> BinaryTask:
    """Return the task of a cell, split by seed 1 as published, or by `seed` if the setting `split` is "own"."""
    seed = settings["seed"] if settings.get("split") == "own" else 1
    return _task(settings["dataset"], settings["train_size"], seed, root)


def image_classes(settings: Settings, root: str | None) -> ImageClasses:
    """Return the data of an experiment on images of all classes; they do not depend on the setting `seed`.

    Inputs are the pixels in [−1, 1] and a constant. If the setting `components` is given, as many principal components
    replace the pixels. The setting `held_out` is the number of training images that are held out, 0 by default.
    """
    held_out = settings.get("held_out", 0)
    return _classes(settings["dataset"], settings.get("components"), held_out, root, seed=0)


def drawn_images(settings: Settings, images: ImageClasses) -> tuple[Array, np.ndarray]:
    """Return `train_size` random training samples of a cell, drawn by its seed: X (n, d) and labels (n,)."""
    chosen = np.random.default_rng(settings["seed"]).permutation(len(images.X_train))[: settings["train_size"]]
    return images.X_train[chosen], images.y_train[chosen]
