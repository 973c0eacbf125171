"""Base class of models, which map inputs to scores and classes."""

from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from implicit_bias._utils.checks import Array, InputError, as_flag, as_floats, as_text, shown, without_torch
from implicit_bias.datasets.scaling import Scaling
from implicit_bias.datasets.tables import Columns
from implicit_bias.datasets.task import with_constant


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Labelled(ABC):
    """Base class of models, which score inputs and may have classes.

    With two classes, the prediction is the second if f(x) > 0. With more, it is the class with the largest f_c(x).
    Without classes, the prediction is f(x). `MarginModel` explains the fields.

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
    scaling: Scaling | None = None
    ranges: Any = None

    def __post_init__(self) -> None:
        as_flag(self.constant, "constant")
        if self.columns is not None:
            value: Any = self.columns
            if not isinstance(value, Columns) or not all(isinstance(names, list | tuple) for names in value[:2]):
                raise InputError(f"columns must be Columns(inputs, gates, label), not {shown(value)}")
            each = (*value[:2], value.categories, *value.categories.values())
            inputs, gates, named, *texts = ([as_text(name, "the name of a column") for name in names] for names in each)
            label = as_text(value.label, "the name of the label")
            decimal, categories = as_text(value.decimal, "the decimal separator"), dict(zip(named, texts, strict=True))
            object.__setattr__(self, "columns", Columns(inputs, gates, label, categories, decimal))
        given, dtype = as_labels(self.classes, self.dtype)
        object.__setattr__(self, "dtype", dtype)
        if given is None:
            return
        listed = given if isinstance(given, list) and all(isinstance(one, str | int | float) for one in given) else []
        numbers = [label for label in listed if isinstance(label, float)]
        if len(set(listed)) < max(2, len(listed)) or not np.isfinite(numbers).all():
            text = "classes must be a list of two or more different strings or finite numbers"
            raise InputError(f"{text}, not {shown(given)}")
        object.__setattr__(self, "classes", tuple(listed))

    @property
    @abstractmethod
    def width(self) -> int:
        """Number d of inputs of the gates or features, with the constant input."""

    @property
    def n_features_in(self) -> int:
        """Number of inputs of the model, without the constant input that it appends."""
        return self.width - bool(self.constant)

    def _check_inputs(self) -> None:
        if not isinstance(self.scaling, Scaling | None):
            raise InputError(f"scaling must be a Scaling or None, not {shown(self.scaling)}")
        if self.ranges is not None:
            object.__setattr__(self, "ranges", as_floats(self.ranges, "ranges", 2))
            if len(self.ranges) != 2 or (self.ranges[0] > self.ranges[1]).any():
                raise InputError("ranges must be two rows, the smallest and the largest value of each input")
        for name, values in (("scaling", getattr(self.scaling, "values", None)), ("ranges", self.ranges)):
            if values is not None and values.shape[1] != self.n_features_in:
                raise InputError(f"{name} has {values.shape[1]} columns, but the model has {self.n_features_in} inputs")

    def inputs(self, X: Any) -> Array:
        """Return X (n, p) as the inputs (n, d) of gates: scaled, with the constant input.

        InputError is raised if X is not finite (NaN that the scaling fills aside) or has another number of columns.
        """
        inputs = as_floats(X, "X", 2, self.scaling is not None and self.scaling.fills)
        if inputs.shape[1] != self.n_features_in:
            raise InputError(f"X has {inputs.shape[1]} columns, but the model needs {self.n_features_in}")
        if self.scaling is not None:
            single = np.asarray(without_torch(X)).dtype == np.float32
            inputs = as_floats(self.scaling(inputs.astype(np.float32) if single else inputs), "X", 2)
        return with_constant(inputs) if self.constant else inputs

    def far_outside(self, X: Array) -> np.ndarray:
        """True, shape (n, p), for each input outside the range of the fit by more than its width.

        All are False if the model has no `ranges`.
        """
        if self.ranges is None:
            return np.zeros(X.shape, dtype=bool)
        low, high = self.ranges
        return np.maximum(low - X, X - high) > high - low

    def chosen(self, scores: Array) -> np.ndarray:
        """Return the classes (n,) of scores (n,) or (n, K), or the scores themselves if there are no classes."""
        if self.classes is None:
            return scores
        index = scores.argmax(axis=1) if scores.ndim > 1 else (scores > 0).astype(int)
        return np.array(self.classes, dtype=self.dtype)[index]

    def margins(self, scores: Array, labels: Any) -> Array:
        """Margins (n,): y_i f(x_i) for two classes, else the score of the label minus the largest other score.

        A margin is at most 0 if the prediction is wrong.

        Raises
        ------
        InputError
            If a label is not one of the classes, or the number of labels is wrong.
        """
        places = {label: place for place, label in enumerate(self.classes)}
        listed = np.asarray(labels).tolist()
        unknown = next((label for label in listed if label not in places), None)
        if unknown is not None:
            raise InputError(f"label {unknown!r} is not one of the model's classes; leave it out, or predict without")
        codes = np.array([places[label] for label in listed])
        if len(codes) != len(scores):
            raise InputError(f"there are {len(codes)} labels for {len(scores)} samples; give one label per sample")
        if scores.ndim == 1:
            return np.where(codes == 1, scores, -scores)
        rows, others = np.arange(len(scores)), scores.copy()
        others[rows, codes] = -np.inf
        return np.asarray(scores[rows, codes] - others.max(axis=1))


def columns_of(fitted: Any) -> Columns | None:
    """Return the names of the inputs of an estimator or transformer that was fitted to a data frame, else None."""
    names = getattr(fitted, "feature_names_in_", None)
    return None if names is None else Columns(names.tolist(), [], "")


def ranges_of(X: Array) -> Array:
    """Return the smallest and the largest value of each column of X (n, p), NaN aside, shape (2, p).

    >>> ranges_of(np.array([[1.0, 5.0], [3.0, 4.0]])).tolist()
    [[1.0, 4.0], [3.0, 5.0]]
    """
    return np.stack([np.nanmin(X, axis=0), np.nanmax(X, axis=0)])


def as_labels(classes: Any, dtype: Any) -> tuple[Any, np.dtype[Any] | None]:
    """Return classes as a list of Python values, and the dtype of predictions.

    The dtype is the given one, else that of an array of classes, else None (NumPy's choice). Classes that do not fit
    into it are an error if it is given, and objects otherwise. Values of other types are returned unchanged, with None.

    >>> as_labels(np.array([0, 1], dtype=np.uint8), None)
    ([0, 1], dtype('uint8'))
    >>> as_labels(["a", 3], None)
    (['a', 3], dtype('O'))
    """
    listed = classes.tolist() if isinstance(classes, np.ndarray) else classes
    if not isinstance(listed, list | tuple):
        return listed, None
    plain = [float(one) if isinstance(one, np.floating) else one for one in listed]
    given = classes.dtype if isinstance(classes, np.ndarray) else None
    with suppress(TypeError, ValueError, OverflowError):
        kind = None if dtype is None and given is None else np.dtype(given if dtype is None else dtype)
        if np.array(plain, dtype=kind).tolist() == plain and (kind is None or kind.kind in "biufUO"):
            return plain, kind
    if dtype is not None:
        raise InputError(f"dtype must be a NumPy type that can represent the classes, not {shown(dtype)}")
    return plain, np.dtype(object)
