"""More images than there are: MNIST and Fashion-MNIST, shifted and turned a little, on disk as bytes."""

import shutil
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np

from implicit_bias._utils.checks import InputError, as_count, as_path, as_seed, one_of
from implicit_bias._utils.files import replacing
from implicit_bias._utils.missing import torch_is_needed
from implicit_bias._utils.threads import one_thread
from implicit_bias.datasets.images import IMAGE_SETS, raw_images

#: Largest shift along each axis, in pixels.
SHIFT = 2.0
#: Largest turn, in degrees.
TURN = 12.0
#: Images that are turned at a time; each chunk has random numbers of its own.
CHUNK = 10_000


class DistortedImages(NamedTuple):
    """Images (n, 784) as bytes, memory-mapped, and labels (n,) from 0 to 9.

    >>> DistortedImages._fields
    ('images', 'labels')
    """

    images: np.ndarray
    labels: np.ndarray


def distorted_images(
    name: str, n: int, folder: str | PathLike[str], root: str | PathLike[str] | None = None, *, seed: int = 1
) -> DistortedImages:
    """n images made of the N = 60 000 training images of a set: these first, then copies of them, distorted.

    Image i shows training image i mod N. From i = N on it is turned about its centre by an angle uniform in ±12° and
    then shifted by numbers of pixels uniform in ±2, along each axis; between pixels bilinear, black outside, rounded.

    They are written chunk by chunk to `folder/NAME-n-seed.npy`, whole or not at all, with progress; a file that is
    there is opened.

    Parameters
    ----------
    name : 'mnist' or 'fashion-mnist'
    n : int
    folder : path
    root : as for `load_binary`
    seed : int
        Of angles and shifts (NumPy's PCG64).

    Raises
    ------
    InputError
        As `load_binary`; for a folder that cannot be written or has too little room, and a file there of another shape.

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
    every = labels[np.arange(n) % len(labels)]
    if not path.exists():
        from tqdm import tqdm  # Which other data sets do without.

        _require_room(place, n * pixels.shape[1])
        with replacing(path) as temporary:
            images = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.uint8, shape=(n, pixels.shape[1]))
            for first in tqdm(range(0, n, CHUNK), f"writing {path.name}", unit="chunk", delay=2, disable=None):
                images[first : first + CHUNK] = _chunk(pixels, first, min(CHUNK, n - first), seed)
            images.flush()
    try:
        images = np.load(path, mmap_mode="r")
    except (OSError, ValueError):
        raise InputError(f"{path} is no array file; move it away") from None
    if images.shape != (n, pixels.shape[1]) or images.dtype != np.uint8:
        raise InputError(f"{path} holds {images.dtype} {images.shape}, not these images; move it away")
    return DistortedImages(images, every)


def _require_room(folder: Path, size: int) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise InputError(f"{folder} cannot be written ({error.strerror or error}); choose another folder") from None
    if size > free:
        raise InputError(
            f"{folder} has {free / 2**30:.1f} GiB free and the images take {size / 2**30:.1f}; ask for fewer"
        )


def _chunk(pixels: np.ndarray, first: int, count: int, seed: int) -> np.ndarray:
    """Images first … first + count − 1; the same ones whatever n."""
    rng = np.random.default_rng([seed, first])
    angles, shifts = rng.uniform(-TURN, TURN, CHUNK)[:count], rng.uniform(-SHIFT, SHIFT, (CHUNK, 2))[:count]
    numbers = first + np.arange(count)
    chosen, copies = pixels[numbers % len(pixels)], numbers >= len(pixels)
    if copies.any():
        chosen[copies] = _moved(chosen[copies], np.deg2rad(angles[copies]), shifts[copies])
    return chosen


def _moved(images: np.ndarray, angles: np.ndarray, shifts: np.ndarray) -> np.ndarray:
    """Square images (m, p) as bytes, turned by angles (m,) and shifted by pixels (m, 2)."""
    with torch_is_needed("an endless set of distorted images"):
        import torch
        from torch.nn.functional import affine_grid, grid_sample

    side = round(images.shape[1] ** 0.5)
    cos, sin = np.cos(angles), np.sin(angles)
    back = np.stack([np.stack([cos, sin], 1), np.stack([-sin, cos], 1)], 1)
    # Where a pixel comes from, in units of half a side: back along the shift, then turned back.
    maps = np.concatenate([back, -back @ (2 / side * shifts)[:, :, None]], axis=2)
    # Sums of many threads differ from run to run.
    with one_thread():
        stack = torch.as_tensor(images.reshape(-1, 1, side, side)).to(torch.float32)
        grid = affine_grid(torch.as_tensor(maps, dtype=torch.float32), list(stack.shape), align_corners=False)
        found = grid_sample(stack, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
    return np.asarray(found.round().clip(0, 255).to(torch.uint8).numpy().reshape(images.shape))
