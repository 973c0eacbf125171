"""Arbitrarily many images: training images of MNIST and Fashion-MNIST, rotated and shifted, on disk as bytes."""

import shutil
from os import PathLike
from typing import NamedTuple

import numpy as np

from implicit_bias._utils.checks import InputError, as_count, as_path, as_seed, one_of
from implicit_bias._utils.files import replacing, require_writable
from implicit_bias._utils.missing import torch_is_needed
from implicit_bias._utils.threads import one_thread
from implicit_bias.datasets.images import IMAGE_SETS, raw_images

#: Largest shift along each axis, in pixels.
MAX_SHIFT = 2.0
#: Largest rotation, in degrees.
MAX_ROTATION = 12.0
#: Number of images per chunk; each chunk has its own random numbers.
CHUNK = 10_000


class DistortedImages(NamedTuple):
    """Memory-mapped images (n, 784) as bytes, and labels (n,) from 0 to 9.

    >>> DistortedImages._fields
    ('images', 'labels')
    """

    images: np.ndarray
    labels: np.ndarray


def distorted_images(
    name: str, n: int, folder: str | PathLike[str], root: str | PathLike[str] | None = None, *, seed: int = 1
) -> DistortedImages:
    """Generate n images: the N = 60 000 training images of a set, followed by distorted copies.

    Image i is made of training image i mod N. For i ≥ N it is rotated about its centre by an angle uniform in ±12°,
    then shifted along each axis by a number of pixels uniform in ±2. Interpolation is bilinear, pixels outside the
    image are black, and values are rounded.

    The images are written to `folder/NAME-n-seed.npy`, completely or not at all. If this file exists, it is opened.

    Parameters
    ----------
    name : 'mnist' or 'fashion-mnist'
    n : int
        Number of images.
    folder : path
    root : path, optional
        As for `load_binary`.
    seed : int
        Seed of angles and shifts, for NumPy's PCG64.

    Raises
    ------
    InputError
        As for `load_binary`, and if the folder cannot be written, has too little free space, or contains another file
        of this name.

    Examples
    --------
    >>> from implicit_bias import ChunkedInputs, HyperplaneGates, svm_gln
    >>> from implicit_bias.datasets import distorted_images
    >>> def even_or_odd(n, folder):
    ...     images, labels = distorted_images("mnist", n, folder)
    ...     X = ChunkedInputs(images, scale=2 / 255, offset=-1, constant=True)
    ...     return svm_gln(X, 1 - 2 * (labels % 2), HyperplaneGates(100, 2, seed=1))
    """
    one_of(name, IMAGE_SETS, "image set")
    n, seed = as_count(n, "n"), as_seed(seed)
    place = as_path(folder, "the folder")
    path = place / f"{name}-{n}-{seed}.npy"
    pixels, labels = raw_images(name, root)
    all_labels = labels[np.arange(n) % len(labels)]
    if not path.exists():
        # Imported here because other data sets do not need it.
        from tqdm import tqdm

        free, size = shutil.disk_usage(require_writable(place)).free, n * pixels.shape[1]
        if size > free:
            raise InputError(f"{place} has {free / 2**30:.1f} GiB free of {size / 2**30:.1f} needed; use fewer images")
        with replacing(path) as temporary:
            images = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.uint8, shape=(n, pixels.shape[1]))
            for first in tqdm(range(0, n, CHUNK), f"writing {path.name}", unit="chunk", delay=2, disable=None):
                images[first : first + CHUNK] = _chunk(pixels, first, min(CHUNK, n - first), seed)
            images.flush()
    try:
        images = np.load(path, mmap_mode="r")
    except (OSError, ValueError):
        raise InputError(f"{path} is not an array file; move it away") from None
    if images.shape != (n, pixels.shape[1]) or images.dtype != np.uint8:
        raise InputError(f"{path} contains {images.dtype} {images.shape}, not these images; move it away")
    return DistortedImages(images, all_labels)


def _chunk(pixels: np.ndarray, first: int, count: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng([seed, first])
    angles = rng.uniform(-MAX_ROTATION, MAX_ROTATION, CHUNK)[:count]
    shifts = rng.uniform(-MAX_SHIFT, MAX_SHIFT, (CHUNK, 2))[:count]
    numbers = first + np.arange(count)
    chosen, copies = pixels[numbers % len(pixels)], numbers >= len(pixels)
    if copies.any():
        chosen[copies] = _distorted(chosen[copies], np.deg2rad(angles[copies]), shifts[copies])
    return chosen


def _distorted(images: np.ndarray, angles: np.ndarray, shifts: np.ndarray) -> np.ndarray:
    with torch_is_needed("a set of distorted images"):
        import torch
        from torch.nn.functional import affine_grid, grid_sample

    side = round(images.shape[1] ** 0.5)
    cos, sin = np.cos(angles), np.sin(angles)
    back = np.stack([np.stack([cos, sin], 1), np.stack([-sin, cos], 1)], 1)
    # Maps of each pixel to its origin, in units of half a side: the inverse shift, then the inverse rotation.
    maps = np.concatenate([back, -back @ (2 / side * shifts)[:, :, None]], axis=2)
    # With several threads, sums would differ from run to run.
    with one_thread():
        stack = torch.as_tensor(images.reshape(-1, 1, side, side)).to(torch.float32)
        grid = affine_grid(torch.as_tensor(maps, dtype=torch.float32), list(stack.shape), align_corners=False)
        moved = grid_sample(stack, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
    return np.asarray(moved.round().clip(0, 255).to(torch.uint8).numpy().reshape(images.shape))
