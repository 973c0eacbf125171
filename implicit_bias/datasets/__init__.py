"""Binary image tasks: digits (embedded), MNIST and Fashion-MNIST, and own arrays by the same type; synthetic tasks."""

import operator
from collections.abc import Iterable
from os import PathLike
from typing import Any

import numpy as np

from implicit_bias._utils.checks import Array, InputError, as_count, as_seed, one_of
from implicit_bias._utils.stream import TorchStream
from implicit_bias.datasets.distorted import DistortedImages, distorted_images
from implicit_bias.datasets.images import IMAGE_SETS, load_digits, load_images
from implicit_bias.datasets.tables import read_samples
from implicit_bias.datasets.task import BinaryTask, with_constant

__all__ = [
    "BinaryTask",
    "DistortedImages",
    "dataset_names",
    "distorted_images",
    "load_binary",
    "read_samples",
]


def dataset_names() -> list[str]:
    """Names of the data sets of `load_binary`.

    >>> from implicit_bias import dataset_names
    >>> dataset_names()
    ['digits', 'mnist', 'fashion-mnist']
    """
    return ["digits", *IMAGE_SETS]


def load_binary(
    name: str = "digits",
    train_size: int = 500,
    seed: int = 1,
    root: str | PathLike[str] | None = None,
    *,
    positive: Iterable[int] = (0, 1, 2, 3, 4),
    negative: Iterable[int] | None = None,
) -> BinaryTask:
    """A data set of ten labels as a binary task, split as published.

    Pixels are scaled to [−1, 1] and a constant 1 is appended. `torch.utils.data.random_split` with a generator of
    the given seed divides the N samples into training (train_size), unused, and validation (N // 5; 12 000 of MNIST's
    60 000 training images, the published split).

    Parameters
    ----------
    name : 'digits' (scikit-learn's 8×8 digits, embedded, N = 1797, d = 65), 'mnist' or 'fashion-mnist' (d = 785)
    train_size : int
        n, at most N − N // 5.
    seed : int
        Seed of the split (torch's Mersenne twister); published: 1.
    root : path, optional
        The folder that holds (or will receive) `MNIST/raw` or `FashionMNIST/raw`; default: the environment variable
        IMPLICIT_BIAS_DATA, else `data`. Missing images are downloaded there with progress.
    positive, negative : labels of the two classes
        Default: 0–4 are +1 and all the others −1. Labels in neither are left out before the split.

    Raises
    ------
    InputError
        For unknown names, sizes out of range, labels that overlap or leave a class empty, and for image files that are
        missing, damaged or cannot be downloaded.

    Examples
    --------
    >>> from implicit_bias import load_binary
    >>> task = load_binary("digits", train_size=500, seed=1)
    >>> task.X_train.shape, task.X_val.shape, task.X_pool.shape
    ((500, 65), (359, 65), (1797, 65))
    >>> float(task.X_train[:, -1].min()), sorted(set(task.y_train.tolist()))
    (1.0, [-1.0, 1.0])
    """
    seed, train_size = as_seed(seed), as_count(train_size, "train_size")
    X, y = load_signs(name, root, positive, negative)
    return divided(name, X, y, train_size, seed)


def load_signs(
    name: str,
    root: str | PathLike[str] | None = None,
    positive: Iterable[int] = (0, 1, 2, 3, 4),
    negative: Iterable[int] | None = None,
) -> tuple[Array, Array]:
    """All inputs (N, d) of a data set and their labels −1 and +1 (N,), before any split; arguments of `load_binary`."""
    one_of(name, dataset_names(), "data set")
    plus, minus = _label_sets(positive, negative)
    images, labels = load_digits() if name == "digits" else load_images(name, root)
    kept = np.isin(labels, [*plus, *minus])
    return with_constant(images[kept]), np.where(np.isin(labels[kept], plus), 1.0, -1.0)


def divided(name: str, X: Array, y: Array, train_size: int, seed: int) -> BinaryTask:
    """The task of all inputs X (N, d) and labels y (N,), split by a seed as `load_binary` says."""
    train, validation = _split(len(y), train_size, seed, name)
    return BinaryTask(name, X[train], y[train], X[validation], y[validation], X)


def _label_sets(positive: Any, negative: Any) -> tuple[list[int], list[int]]:
    try:
        plus = sorted({operator.index(label) for label in positive})
        minus = sorted(set(range(10)) - set(plus) if negative is None else {operator.index(n) for n in negative})
    except TypeError:
        raise InputError("positive and negative must be collections of labels from 0 to 9") from None
    both = set(plus) & set(minus)
    if both:
        raise InputError(f"labels {sorted(both)} are in both classes; give each label to one")
    if not plus or not minus or not set(plus) | set(minus) <= set(range(10)):
        raise InputError(f"each class needs labels from 0 to 9; got positive={plus}, negative={minus}")
    return plus, minus


def _split(total: int, train_size: int, seed: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    validation = total // 5
    if train_size > total - validation:
        raise InputError(
            f"train_size must be at most {total - validation} for {name}: "
            f"{validation} of its {total} samples validate; got {train_size}"
        )
    order = TorchStream(seed).permutation(total)
    return order[:train_size], order[total - validation :]
