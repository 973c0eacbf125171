"""Conversion of labels to signs."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from implicit_bias._utils.checks import Array, InputError, shown, without_torch


def positive_signs(labels: Sequence[ArrayLike], positive: Any) -> list[Array]:
    """Return arrays of labels as +1.0 in `positive`, one or several labels that must occur, and −1.0 elsewhere."""
    values = [labels_and_classes(part)[0].tolist() for part in labels]
    wanted = list(positive) if isinstance(positive, Iterable) and not isinstance(positive, str) else [positive]
    occurring = [value for part in values for value in part]
    missing = [label for label in wanted if label not in occurring]
    if missing:
        raise InputError(f"positive names {shown(missing[0])}, but no sample has this label; leave it out")
    return [np.array([1.0 if value in wanted else -1.0 for value in part]) for part in values]


def binary_labels(labels: ArrayLike, classes: tuple[Any, Any] | None = None) -> tuple[Array, tuple[Any, Any]]:
    """Return −1.0 for labels of classes[0] and +1.0 for classes[1], and the two classes, by default sorted labels."""
    values, distinct = labels_and_classes(labels)
    if classes is None:
        if len(distinct) != 2:
            listed = ", ".join(map(repr, distinct[:5])) + (", …" if len(distinct) > 5 else "")
            count = "is 1" if len(distinct) == 1 else f"are {len(distinct)}"
            raise InputError(f"labels must be two classes, but there {count}: {listed}; positive=… names those of +1")
        classes = (distinct[0], distinct[1])
    unknown = [value for value in distinct if value not in classes]
    if unknown:
        raise InputError(f"label {unknown[0]!r} is neither of the training classes {classes}; leave it out")
    return np.where(values == classes[1], 1.0, -1.0), classes


def labels_and_classes(labels: ArrayLike) -> tuple[np.ndarray, list[Any]]:
    """Return labels (n,) as an array, and the sorted classes; raise InputError for missing values and fractions."""
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
        text = f"labels contain fractions such as {fraction}, which are quantities, not classes"
        raise InputError(f"{text}; convert them to classes (numpy.digitize), or name the column of classes")
    return values, classes
