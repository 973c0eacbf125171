"""Binary tasks, of arrays, files and data sets of torch."""

from __future__ import annotations

import numbers
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from implicit_bias._utils import checks
from implicit_bias._utils.checks import Array, InputError, shown
from implicit_bias._utils.stream import TorchStream
from implicit_bias.datasets.tables import LabelledSamples, labels_and_classes, read_samples


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
        object.__setattr__(self, "name", checks.as_text(self.name, "name"))
        for name in ("X_train", "X_val", "X_pool"):
            object.__setattr__(self, name, checks.as_floats(getattr(self, name), name, 2))
        object.__setattr__(self, "y_train", checks.as_signs(self.y_train, len(self.X_train), "y_train"))
        object.__setattr__(self, "y_val", checks.as_signs(self.y_val, len(self.X_val), "y_val", both=False))
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
        positive: Any = None,
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
            Numbers or strings, of two classes unless `positive` is given.
        positive : label or collection of labels, optional
            The labels of +1; all others are −1.
        constant : bool
            Append the constant input 1, so that d = p + 1.
        name : str

        Raises
        ------
        InputError
            As for the class, if the labels are not of exactly two classes, and if a label in `positive` does not occur.
        """
        X_train = checks.as_floats(X_train, "X_train", 2)
        if (X_val is None) != (y_val is None):
            raise InputError("give X_val and y_val together, or neither")
        held_out = X_train if X_val is None else checks.as_floats(X_val, "X_val", 2)
        classes: tuple[Any, Any] = (-1, 1)
        if positive is None:
            signs, classes = _binary_labels(y_train)
            held_out_signs = signs if y_val is None else _binary_labels(y_val, classes)[0]
        else:
            signs, held_out_signs = _positive_signs([y_train, y_train if y_val is None else y_val], positive)
        inputs = [X_train, held_out, X_train if X_pool is None else checks.as_floats(X_pool, "X_pool", 2)]
        if constant:
            inputs = [with_constant(X) for X in inputs]
        return cls(name, inputs[0], signs, inputs[1], held_out_signs, inputs[2], classes)

    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike[str],
        label: str | None = None,
        validation: float | str | os.PathLike[str] = 0.2,
        *,
        positive: Any = None,
        constant: bool = True,
        seed: int = 1,
    ) -> BinaryTask:
        """Return a task of a CSV or NPZ file, which `read_samples` reads.

        Parameters
        ----------
        path : path
            The pool consists of all inputs of this file.
        label : str, optional
            Column of the labels in a CSV file, by default the last one.
        validation : float or path
            Share of the samples for validation, drawn at random; or another file with the same columns. With 0, the
            validation samples are the training samples.
        positive, constant
            As for `from_arrays`.
        seed : int
            Seed of the split (the permutation of torch).

        Raises
        ------
        InputError
            As for `read_samples` and `from_arrays`; for files with gates, weights or required margins, and files
            with different columns.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from implicit_bias import BinaryTask
        >>> path = pathlib.Path(tempfile.mkdtemp(), "animals.csv")
        >>> _ = path.write_text("height,animal\\n" + "1.0,cat\\n3.0,horse\\n3.5,cow\\n" * 5)
        >>> task = BinaryTask.from_file(path, label="animal", positive="cat")
        >>> task.X_train.shape, task.X_val.shape
        ((12, 2), (3, 2))
        """
        samples = _samples(path, label)
        other = None if isinstance(validation, numbers.Real) else _samples(validation, label)
        names = [one and one.columns and one.columns._replace(decimal="") for one in (samples, other)]
        if other is not None and names[0] != names[1]:
            raise InputError(f"{validation} has other columns than {path}; give both the same, in one order")
        held = None if other is None else (other.X, other.labels)
        return cls._divided(samples.X, samples.labels, held or validation, positive, constant, seed, str(path))

    @classmethod
    def from_dataset(
        cls, dataset: Any, validation: Any = 0.2, *, positive: Any = None, constant: bool = True, seed: int = 1
    ) -> BinaryTask:
        """Return a task of a data set of torch or torchvision, such as `torchvision.datasets.MNIST(root)`.

        Parameters
        ----------
        dataset : sequence of (input, label)
            Inputs are images, tensors or arrays of one shape, which become rows. Integers from 0 to 255 (uint8) are
            scaled to [−1, 1], other numbers are unchanged. The colours of an image (h, w, 3) come first, (3, h, w), as
            in `torchvision.transforms.ToTensor`. `torch.utils.data.Subset` takes a part of a data set.
        validation : float or sequence of (input, label)
            Share of the samples for validation, as for `from_file`; or another data set.
        positive, constant, seed
            As for `from_file`.

        Raises
        ------
        InputError
            As for `from_arrays`, and for items that are not such pairs.

        Examples
        --------
        >>> from implicit_bias import BinaryTask
        >>> images = np.arange(40, dtype=np.uint8).reshape(10, 2, 2)
        >>> task = BinaryTask.from_dataset(list(zip(images, range(10))), positive=range(5), constant=False)
        >>> task.X_train.shape, task.X_val.shape, float(task.X_pool[0, 0])
        ((8, 4), (2, 4), -1.0)
        """
        held = validation if isinstance(validation, numbers.Real) else _pairs(validation, "validation")
        X, labels = _pairs(dataset, "dataset")
        return cls._divided(X, labels, held, positive, constant, seed, type(dataset).__name__)

    @classmethod
    def _divided(
        cls, X: Array, labels: np.ndarray, held: Any, positive: Any, constant: bool, seed: int, name: str
    ) -> BinaryTask:
        options: Any = {"positive": positive, "constant": constant, "name": name}
        if isinstance(held, tuple):
            return cls.from_arrays(X, labels, *held, **options)
        first = len(X) - round(checks.as_fraction(held, "validation") * len(X))
        if first == len(X):
            return cls.from_arrays(X, labels, **options)
        order = TorchStream(checks.as_seed(seed)).permutation(len(X))
        train, validation = order[:first], order[first:]
        return cls.from_arrays(X[train], labels[train], X[validation], labels[validation], X, **options)


def with_constant(X: Array) -> Array:
    """Return X (n, p) with the constant input 1 as last column, shape (n, p + 1)."""
    return np.hstack([X, np.ones((len(X), 1))])


def _positive_signs(labels: Sequence[ArrayLike], positive: Any) -> list[Array]:
    """Return arrays of labels as +1.0 in `positive`, one or several labels that must occur, and −1.0 elsewhere."""
    values = [labels_and_classes(part)[0].tolist() for part in labels]
    wanted = list(positive) if isinstance(positive, Iterable) and not isinstance(positive, str) else [positive]
    occurring = [value for part in values for value in part]
    missing = [label for label in wanted if label not in occurring]
    if missing:
        raise InputError(f"positive names {shown(missing[0])}, but no sample has this label; leave it out")
    return [np.array([1.0 if value in wanted else -1.0 for value in part]) for part in values]


def _binary_labels(labels: ArrayLike, classes: tuple[Any, Any] | None = None) -> tuple[Array, tuple[Any, Any]]:
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


def _samples(path: Any, label: str | None) -> LabelledSamples:
    samples = read_samples(path, label)
    more = [kind for kind in ("gate_values", "sample_weight", "required_margin") if getattr(samples, kind) is not None]
    if more:
        raise InputError(f"{path} has {', '.join(more)}, which a task does not have; use read_samples")
    return samples


def _pairs(dataset: Any, name: str) -> tuple[Array, np.ndarray]:
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__") or isinstance(dataset, str | dict):
        raise InputError(f"{name} must be a sequence of (input, label), as in torchvision, not {shown(dataset)}")
    count = len(dataset)
    if not count:
        raise InputError(f"{name} is empty; give it at least one sample")
    rows: list[np.ndarray] = []
    labels: list[Any] = []
    for index in range(count):
        item = dataset[index]
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise InputError(f"item {index} of {name} must be a pair (input, label), not {shown(item)}")
        row, label = (np.asarray(checks.without_torch(part)) for part in item)
        if row.dtype.kind not in "biuf":
            kind = type(item[0]).__name__
            raise InputError(f"input {index} of {name} must be an image or array of numbers, not {kind}")
        if label.ndim:
            raise InputError(f"label {index} of {name} must be one number or text, not {shown(item[1])}")
        if row.dtype == np.uint8:
            # Images are (h, w, 3), tensors (3, h, w).
            is_image = row.ndim == 3 and not hasattr(item[0], "detach")
            row = (np.moveaxis(row, -1, 0) if is_image else row) / 127.5 - 1
        if rows and row.shape != rows[0].shape:
            raise InputError(f"input {index} of {name} has shape {row.shape}, but the first {rows[0].shape}; resize it")
        if not rows:
            checks.check_size(count * row.size, "the data set")
        rows.append(row)
        labels.append(label.item())
    return np.stack(rows).reshape(count, -1).astype(np.float64, copy=False), np.array(labels)
