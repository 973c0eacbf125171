"""What both figures read: images of ten classes as they are."""

from functools import lru_cache

import numpy as np

from implicit_bias.datasets.images import ImageClasses, load_classes
from implicit_bias.experiments.runner import Settings
from implicit_bias.ground.checks import Array

_loaded = lru_cache(maxsize=2)(load_classes)


def data(settings: Settings, root: str | None) -> ImageClasses:
    """Pixels in [−1, 1] and the constant; the parts are the same for every cell."""
    return _loaded(settings["dataset"], None, settings["held_out"], root, seed=0)


def drawn(settings: Settings, images: ImageClasses) -> tuple[Array, np.ndarray]:
    """The training samples of a cell."""
    rows = np.random.default_rng(settings["seed"]).permutation(len(images.X_train))[: settings["train_size"]]
    return images.X_train[rows], images.y_train[rows]
