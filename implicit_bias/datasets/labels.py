"""Base class of the models: inputs in, scores and classes out."""

from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from implicit_bias._utils.checks import Array, InputError, as_floats, shown
from implicit_bias.datasets.tables import Columns
from implicit_bias.datasets.task import with_constant


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Labelled(ABC):
    """Base of the models, which score inputs and may have classes.

    Two classes are decided by one score, the second where f(x) > 0; more by the largest f_c(x). Without classes, f(x)
    is what is predicted. The fields are those of `MarginModel`. Raises InputError for classes that are none, or that
    `dtype` does not hold, and a constant that is not True or False.

    >>> from implicit_bias import ConstantGate
    >>> from implicit_bias.extensions.galu import LeastSquaresModel, least_squares
    >>> gates = ConstantGate().fit([[1.0], [2.0]])
    >>> cats = LeastSquaresModel(gates, least_squares(gates([[1.0], [2.0]]), [1.0, 2.0]), classes=("cat", "dog"))
    >>> cats.chosen(np.array([0.5, -1.0])).tolist(), cats.margins(np.array([0.5, -1.0]), ["dog", "dog"]).tolist()
    (['dog', 'cat'], [0.5, -1.0])
    """

    classes: Any = None
    constant: bool = False
    columns: Columns | None = None
    dtype: Any = None

    def __post_init__(self) -> None:
        if not isinstance(self.constant, bool | np.bool_):
            raise InputError(f"constant must be True or False, not {shown(self.constant)}")
        given, dtype = as_labels(self.classes, self.dtype)
        object.__setattr__(self, "dtype", dtype)
        if given is None:
            return
        listed = given if isinstance(given, list) and all(isinstance(one, str | int | float) for one in given) else []
        numbers = [label for label in listed if isinstance(label, float)]
        if len(set(listed)) < max(2, len(listed)) or not np.isfinite(numbers).all():
            raise InputError(
                f"classes must be a list of two or more different texts or finite numbers, not {shown(given)}"
            )
        object.__setattr__(self, "classes", tuple(listed))

    @property
    @abstractmethod
    def width(self) -> int:
        """Number of inputs of the gates or features."""

    @property
    def n_features_in(self) -> int:
        """Number of inputs of the model."""
        return self.width - bool(self.constant)

    def inputs(self, X: Any) -> Array:
        """X (n, p) as what gates take, (n, d). InputError for other numbers of columns, and what is not finite."""
        inputs = as_floats(X, "X", 2)
        if inputs.shape[1] != self.n_features_in:
            raise InputError(f"X has {inputs.shape[1]} columns, the model takes {self.n_features_in}")
        return with_constant(inputs) if self.constant else inputs

    def chosen(self, scores: Array) -> np.ndarray:
        """Return the classes (n,) of scores, or the scores themselves if there are no classes."""
        if self.classes is None:
            return scores
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
