"""Scores as classes: what models decide, and by how much."""

from contextlib import suppress
from typing import Any

import numpy as np

from implicit_bias.ground.checks import Array, InputError, shown


class Labelled:
    """What has `classes`, scores (n,) that are positive for the second of two, or (n, classes), and a type of labels.

    >>> cats = Labelled()
    >>> cats.classes, cats.dtype = ("cat", "dog"), None
    >>> cats.chosen(np.array([0.5, -1.0])).tolist(), cats.margins(np.array([0.5, -1.0]), ["dog", "dog"]).tolist()
    (['dog', 'cat'], [0.5, -1.0])
    """

    classes: Any
    dtype: Any

    def chosen(self, scores: Array) -> np.ndarray:
        """The classes that scores decide for; shape (n,)."""
        index = scores.argmax(axis=1) if scores.ndim > 1 else (scores > 0).astype(int)
        return np.array(self.classes, dtype=self.dtype)[index]

    def margins(self, scores: Array, labels: Any) -> Array:
        """y_i f(x_i), or for several classes the score of the label less the largest other; shape (n,).

        Not positive where the prediction is wrong. InputError for labels that are none of the classes.
        """
        places = {label: place for place, label in enumerate(self.classes)}
        listed = np.asarray(labels).tolist()
        unknown = next((label for label in listed if label not in places), None)
        if unknown is not None:
            raise InputError(
                f"label {unknown!r} is none of the model's classes; predict without labels, or leave it out"
            )
        codes = np.array([places[label] for label in listed])
        if len(codes) != len(scores):
            raise InputError(f"there are {len(codes)} labels for {len(scores)} samples; give one label a sample")
        if scores.ndim == 1:
            return np.where(codes == 1, scores, -scores)
        rows = np.arange(len(scores))
        others = scores.copy()
        others[rows, codes] = -np.inf
        return np.asarray(scores[rows, codes] - others.max(axis=1))


def as_labels(classes: Any, dtype: Any) -> tuple[Any, np.dtype[Any] | None]:
    """Classes as Python's own values, and the type of what is predicted: the given one, or that of an array of classes.

    Raises InputError for a type that does not hold the classes; what are no classes at all comes back as it is.

    >>> as_labels(np.array([0, 1], dtype=np.uint8), None)
    ([0, 1], dtype('uint8'))
    >>> as_labels(["a", 3], None)
    (['a', 3], dtype('O'))
    """
    listed = classes.tolist() if isinstance(classes, np.ndarray) else classes
    if not isinstance(listed, list | tuple):
        return listed, None
    plain = [float(one) if isinstance(one, np.floating) else one for one in listed]
    own = classes.dtype if isinstance(classes, np.ndarray) else None
    with suppress(TypeError, ValueError, OverflowError):
        found = None if dtype is None and own is None else np.dtype(own if dtype is None else dtype)
        if np.array(plain, dtype=found).tolist() == plain and (found is None or found.kind in "biufUO"):
            return plain, found
    if dtype is not None:
        raise InputError(f"dtype must be a NumPy type that holds the classes, not {shown(dtype)}")
    return plain, np.dtype(object)
