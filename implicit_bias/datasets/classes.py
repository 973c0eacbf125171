"""Images of ten classes as principal components of unit variance, in training, held-out and test parts."""

from __future__ import annotations

from os import PathLike
from typing import NamedTuple

import numpy as np

from implicit_bias.datasets.images import IMAGE_SETS, load_digits, load_images
from implicit_bias.datasets.task import with_constant
from implicit_bias.ground.checks import Array, InputError, as_count, as_seed, one_of
from implicit_bias.ground.threads import one_thread

#: Directions of less than this part of the largest variance are rounding.
LEAST_VARIANCE = 1e-6


class ImageClasses(NamedTuple):
    """Inputs X (n, d), float64, the constant input last, and labels y (n,) from 0 to 9, of three parts.

    >>> from implicit_bias.datasets.classes import load_classes
    >>> parts = load_classes("digits", components=10, held_out=200)
    >>> [len(X) for X in parts[::2]]
    [1148, 200, 449]
    """

    X_train: Array
    y_train: np.ndarray
    X_held_out: Array
    y_held_out: np.ndarray
    X_test: Array
    y_test: np.ndarray


def load_classes(
    name: str, components: int, held_out: int, root: str | PathLike[str] | None = None, *, seed: int = 0
) -> ImageClasses:
    """An image set reduced to its principal components, x = Λ^{−½} Uᵀ(pixels − mean), and a constant 1 appended.

    Mean and the largest eigenvalues Λ and eigenvectors U of the covariance are those of the training part: the
    training images without `held_out` of them, drawn at random, on which to choose settings. MNIST and Fashion-MNIST
    have 10 000 test images of their own; of the digits a random quarter is the test part.

    Parameters
    ----------
    name : 'digits', 'mnist' or 'fashion-mnist'
    components : int
        d − 1.
    held_out : int
    root : path, optional
        The folder of the image files, as for `load_binary`.
    seed : int
        Of the draws; NumPy's PCG64.

    Raises
    ------
    InputError
        For unknown names, numbers out of range, more components than have any variance, and for image files as
        `load_binary` does.

    Examples
    --------
    >>> from implicit_bias.datasets.classes import load_classes
    >>> parts = load_classes("digits", components=10, held_out=200)
    >>> parts.X_train.shape, parts.X_train.std(axis=0).round(4).tolist()[::5]
    ((1148, 11), [1.0, 1.0, 0.0])
    """
    one_of(name, ["digits", *IMAGE_SETS], "data set")
    components, held_out = as_count(components, "components"), as_count(held_out, "held_out")
    rng = np.random.default_rng(as_seed(seed))
    if name == "digits":
        pixels, labels = load_digits()
        order = rng.permutation(len(labels))
        test, order = order[: len(order) // 4], order[len(order) // 4 :]
        (test_pixels, test_labels), pixels, labels = (pixels[test], labels[test]), pixels[order], labels[order]
    else:
        (pixels, labels), (test_pixels, test_labels) = (load_images(name, root, train) for train in (True, False))
    if held_out >= len(labels):
        raise InputError(f"held_out must be below {len(labels)}, the number of training images, not {held_out}")
    order = rng.permutation(len(labels))
    kept, held = np.sort(order[held_out:]), np.sort(order[:held_out])
    mean, directions = _principal(pixels[kept], components)
    parts = [with_constant((values - mean) @ directions) for values in (pixels[kept], pixels[held], test_pixels)]
    return ImageClasses(parts[0], labels[kept], parts[1], labels[held], parts[2], test_labels)


def _principal(pixels: Array, components: int) -> tuple[Array, Array]:
    """The mean (p,) and the directions U Λ^{−½} (p, components)."""
    if components > pixels.shape[1]:
        raise InputError(f"components must be at most {pixels.shape[1]}, the number of pixels, not {components}")
    import torch

    mean = pixels.mean(axis=0)
    # Sums of many threads differ from run to run; single precision halves their time and loses nothing here.
    with one_thread():
        centred = torch.as_tensor(pixels - mean, dtype=torch.float32)
        covariance = (centred.T @ centred).double() / len(pixels)
        values, vectors = torch.linalg.eigh(covariance)
    largest, axes = values.numpy()[::-1][:components], vectors.numpy()[:, ::-1][:, :components]
    if largest[-1] <= LEAST_VARIANCE * largest[0]:
        count = int((largest > LEAST_VARIANCE * largest[0]).sum())
        raise InputError(f"only {count} components of these images have any variance; ask for at most {count}")
    return mean, axes / np.sqrt(largest)
