"""Binary tasks, and conversion of labels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from implicit_bias._utils.checks import Array, InputError, as_floats, as_signs, as_text, without_torch


@dataclass(frozen=True, eq=False)
class BinaryTask:
    """Training and validation samples of a two-class task, as float64.

    Attributes
    ----------
    name : str
    X_train, X_val : arrays, shapes (n, d) and (n_val, d)
        Inputs, usually with the constant input last.
    y_train, y_val : arrays, shapes (n,) and (n_val,)
        Labels −1 and +1.
    X_pool : array, shape (N, d)
        All inputs of the data set; the published cutoffs are medians over them.
    classes : tuple
        The original names of the classes −1 and +1.

    Raises
    ------
    InputError
        If an array is empty or not finite, shapes do not match, labels are not −1 and +1, or the training samples are
        of one class only.

    Examples
    --------
    >>> from implicit_bias import BinaryTask
    >>> task = BinaryTask.from_arrays([[0.0], [1.0], [2.0]], ["cat", "dog", "dog"])
    >>> task.X_train.tolist(), task.y_train.tolist(), task.classes
    ([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]], [-1.0, 1.0, 1.0], ('cat', 'dog'))
    """

    name: str
    X_train: Array = field(repr=False)
    y_train: Array = field(repr=False)
    X_val: Array = field(repr=False)
    y_val: Array = field(repr=False)
    X_pool: Array = field(repr=False)
    classes: tuple[Any, Any] = (-1, 1)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", as_text(self.name, "name"))
        for name in ("X_train", "X_val", "X_pool"):
            object.__setattr__(self, name, as_floats(getattr(self, name), name, 2))
        object.__setattr__(self, "y_train", as_signs(self.y_train, len(self.X_train), "y_train"))
        object.__setattr__(self, "y_val", as_signs(self.y_val, len(self.X_val), "y_val", both=False))
        columns = {getattr(self, name).shape[1] for name in ("X_train", "X_val", "X_pool")}
        if len(columns) > 1:
            raise InputError(f"X_train, X_val and X_pool must have the same number of columns, not {sorted(columns)}")

    @classmethod
    def from_arrays(
        cls,
        X_train: ArrayLike,
        y_train: ArrayLike,
        X_val: ArrayLike | None = None,
        y_val: ArrayLike | None = None,
        X_pool: ArrayLike | None = None,
        *,
        constant: bool = True,
        name: str = "own arrays",
    ) -> BinaryTask:
        """Return a task of arrays with labels of any two classes; the first in sorting order becomes −1.

        Parameters
        ----------
        X_train, X_val, X_pool : arrays, shapes (n, p), (n_val, p), (N, p)
            By default the validation samples are the training samples, and the pool is the training inputs. `X_val` and
            `y_val` are given together or not at all.
        y_train, y_val : arrays, shapes (n,), (n_val,)
            Numbers or strings of two classes.
        constant : bool
            Append the constant input 1, so that d = p + 1.
        name : str

        Raises
        ------
        InputError
            As for the class, and if the labels are not of exactly two classes.
        """
        X_train = as_floats(X_train, "X_train", 2)
        signs, classes = binary_labels(y_train)
        if (X_val is None) != (y_val is None):
            raise InputError("give X_val and y_val together, or neither")
        held_out = X_train if X_val is None else as_floats(X_val, "X_val", 2)
        held_out_signs = signs if y_val is None else binary_labels(y_val, classes)[0]
        pool = X_train if X_pool is None else as_floats(X_pool, "X_pool", 2)
        inputs = [X_train, held_out, pool]
        if constant:
            inputs = [with_constant(X) for X in inputs]
        return cls(name, inputs[0], signs, inputs[1], held_out_signs, inputs[2], classes)


def with_constant(X: Array) -> Array:
    """Return X (n, d − 1) with a column of ones appended, shape (n, d)."""
    return np.hstack([X, np.ones((len(X), 1))])


def binary_labels(labels: ArrayLike, classes: tuple[Any, Any] | None = None) -> tuple[Array, tuple[Any, Any]]:
    """Return −1.0 for labels of classes[0] and +1.0 for classes[1], shape (n,), and the pair of classes.

    By default, the classes are the two sorted labels. InputError is raised if there are not two, or for other labels.
    """
    values, found = labels_and_classes(labels)
    if classes is None:
        if len(found) != 2:
            shown = ", ".join(map(repr, found[:5])) + (", …" if len(found) > 5 else "")
            count = "is 1" if len(found) == 1 else f"are {len(found)}"
            raise InputError(f"labels must be of two classes, but there {count}: {shown}")
        classes = (found[0], found[1])
    unknown = [value for value in found if value not in classes]
    if unknown:
        raise InputError(
            f"label {unknown[0]!r} is neither of the training classes {classes[0]!r} and {classes[1]!r}; leave it out"
        )
    return np.where(values == classes[1], 1.0, -1.0), classes


def labels_and_classes(labels: ArrayLike) -> tuple[np.ndarray, list[Any]]:
    """Return labels (n,) as an array, and the sorted classes; raise InputError for fractions, as scikit-learn does."""
    try:
        values = np.asarray(without_torch(labels))
    except (TypeError, ValueError, RuntimeError):
        values = np.empty((0, 0))
    if values.ndim != 1 or values.size == 0:
        raise InputError(f"labels must be a non-empty one-dimensional array, not of shape {values.shape}")
    import pandas as pd

    if pd.isna(values).any() or (values.dtype.kind == "f" and not np.isfinite(values).all()):
        raise InputError("labels contain missing values, NaN or infinity; clean them first")
    try:
        classes = np.unique(values).tolist()
    except TypeError:
        raise InputError("labels mix types that cannot be sorted; use numbers or strings only") from None
    fraction = next((one for one in classes if isinstance(one, float) and one % 1), None)
    if fraction is not None:
        raise InputError(
            f"labels contain fractions such as {fraction}, which are quantities, not classes; convert them to classes "
            "(numpy.digitize), or name the column of classes"
        )
    return values, classes
