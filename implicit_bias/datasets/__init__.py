"""Data sets: digits, MNIST and Fashion-MNIST as binary tasks, distorted images, and the user's arrays and tables."""

import operator
from collections.abc import Iterable
from os import PathLike

import numpy as np

from implicit_bias._utils.checks import Array, InputError, as_count, as_seed, one_of
from implicit_bias._utils.stream import TorchStream
from implicit_bias.datasets.images import IMAGE_SETS, DistortedImages, distorted_images, load_digits, load_images
from implicit_bias.datasets.tables import read_samples
from implicit_bias.datasets.task import BinaryTask, with_constant

__all__ = ["BinaryTask", "DistortedImages", "dataset_names", "distorted_images", "load_binary", "read_samples"]


def dataset_names() -> list[str]:
    """Return the names of the data sets of `load_binary`.

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
    """Load a data set of ten labels as a binary task, with the split of Lippl, Abbott & Chung.

    Pixels are scaled to [−1, 1] and a constant 1 is appended. The N samples are divided into train_size training
    samples, unused samples and N // 5 validation samples, with the random numbers of `torch.utils.data.random_split`.
    For MNIST with seed 1 this is the published split, with 12 000 of the 60 000 training images for validation.

    Parameters
    ----------
    name : 'digits', 'mnist' or 'fashion-mnist'
        'digits' are scikit-learn's 8×8 digits (N = 1797, d = 65); the others have d = 785.
    train_size : int
        n, at most N − N // 5.
    seed : int
        Seed of the split, for torch's Mersenne twister.
    root : path, optional
        Folder of `MNIST/raw` or `FashionMNIST/raw`; by default the environment variable IMPLICIT_BIAS_DATA, or else
        `data`. Missing images are downloaded into it.
    positive, negative : collections of int
        Labels of the classes +1 and −1. By default 0–4 are positive, and all other labels negative. Samples of other
        labels are removed before the split.

    Raises
    ------
    InputError
        If the name is unknown, a size is out of range, labels overlap or a class is empty, or image files are missing,
        damaged or cannot be downloaded.

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
    """Return all inputs (N, d) and labels −1 and +1 (N,) of a data set in its order; parameters as in `load_binary`."""
    one_of(name, dataset_names(), "data set")
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
    images, labels = load_digits() if name == "digits" else load_images(name, root)
    chosen = np.isin(labels, [*plus, *minus])
    return with_constant(images[chosen]), np.where(np.isin(labels[chosen], plus), 1.0, -1.0)


def divided(name: str, X: Array, y: Array, train_size: int, seed: int) -> BinaryTask:
    """Return the task of inputs X (N, d) and labels y (N,), with the split of `load_binary`."""
    total, validation = len(y), len(y) // 5
    if train_size > total - validation:
        text = f"train_size must be at most {total - validation} for {name}"
        raise InputError(f"{text}, not {train_size}: {validation} of its {total} samples are for validation")
    order = TorchStream(seed).permutation(total)
    train, held = order[:train_size], order[total - validation :]
    return BinaryTask(name, X[train], y[train], X[held], y[held], X)
