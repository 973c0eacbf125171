"""Images of ten classes: scikit-learn's digits, MNIST and Fashion-MNIST, and their principal components.

Rotated and shifted training images are arbitrarily many, on disk as bytes.
"""

import hashlib
import os
import shutil
import tempfile
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np

from implicit_bias._utils.checks import Array, InputError, as_count, as_path, as_seed, one_of
from implicit_bias._utils.files import replacing, require_writable
from implicit_bias._utils.missing import torch_is_needed
from implicit_bias._utils.threads import one_thread
from implicit_bias.datasets.task import with_constant

#: Relative variance, compared with the largest, up to which a principal direction counts as rounding.
MIN_VARIANCE = 1e-6
#: Largest shift along each axis, in pixels.
MAX_SHIFT = 2.0
#: Largest rotation, in degrees.
MAX_ROTATION = 12.0
#: Number of images per chunk; each chunk has its own random numbers.
CHUNK = 10_000
#: Folder and MD5 sums of the uncompressed files of each image set, in torchvision's layout `ROOT/FOLDER/raw`.
IMAGE_SETS = {
    "mnist": (
        "MNIST",
        {
            "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
            "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
            "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
            "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
        },
    ),
    "fashion-mnist": (
        "FashionMNIST",
        {
            "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
            "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
            "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
            "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
        },
    ),
}


def data_root(root: str | PathLike[str] | None) -> Path:
    """Return the folder of the image files: `root`, else the environment variable IMPLICIT_BIAS_DATA, else `data`."""
    return as_path(root or os.environ.get("IMPLICIT_BIAS_DATA") or "data", "the data root")


def load_digits() -> tuple[Array, np.ndarray]:
    """Return scikit-learn's digits: pixels (1797, 64), scaled from 0 … 16 to [−1, 1], and labels (1797,)."""
    from sklearn.datasets import load_digits as embedded

    pixels, labels = embedded(return_X_y=True)
    return pixels / 8.0 - 1.0, labels


def load_images(name: str, root: str | PathLike[str] | None, train: bool = True) -> tuple[Array, np.ndarray]:
    """Return the 60 000 training or 10 000 test images of a set: pixels (N, 784) in [−1, 1] and labels (N,)."""
    pixels, labels = raw_images(name, root, train)
    return pixels / 127.5 - 1.0, labels


def raw_images(name: str, root: str | PathLike[str] | None, train: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Return the images of 'mnist' or 'fashion-mnist' as bytes (N, 784) and labels (N,), downloaded if none exists."""
    folder, sums = IMAGE_SETS[name]
    top = data_root(root)
    raw = top / folder / "raw"
    missing = [file for file in sums if not _stored(raw, file).is_file()]
    if len(missing) == len(sums):
        _download(folder, top, list(sums))
    elif missing:
        text = f"{raw / missing[0]} is missing, but other files of {folder} exist"
        raise InputError(f"{text}; put it back, or move {raw} away to download all of them again")
    part = "train" if train else "t10k"
    pixels, labels = (_verified(_stored(raw, file), sums[file]) for file in sums if file.startswith(part))
    # Image files begin with a header of 16 bytes, label files with one of 8.
    return pixels[16:].reshape(-1, 784), labels[8:].astype(np.int64)


def _stored(raw: Path, file: str) -> Path:
    """Return the path of an IDX file in a folder, which some tools name train-images.idx3-ubyte when they unpack it."""
    dotted = raw / file.replace("-idx", ".idx")
    return dotted if dotted.is_file() else raw / file


def _verified(file: Path, expected: str) -> np.ndarray:
    try:
        content = file.read_bytes()
    except OSError as error:
        raise InputError(f"{file} cannot be read ({error.strerror}); check its permissions") from None
    actual = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if actual != expected:
        text = f"{file} is damaged: its MD5 sum is {actual}, not {expected}"
        raise InputError(f"{text}; replace it, or move {file.parent} away to download all files again")
    return np.frombuffer(content, np.uint8)


def _torchvision(folder: str) -> type:
    import torchvision.datasets

    return getattr(torchvision.datasets, folder)


def _download(folder: str, top: Path, files: list[str]) -> None:
    """Download an image set into a temporary folder in `top`, then move the `files`, by name, to `top/folder/raw`."""
    by_hand = f"put the four uncompressed IDX files into {top / folder / 'raw'} by hand, or give another data root"
    try:
        dataset = _torchvision(folder)
    except (ImportError, RuntimeError) as error:
        raise InputError(f"torchvision, which downloads {folder}, cannot be imported ({error}); {by_hand}") from None
    try:
        top.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=".download-", dir=top))
    except OSError as error:
        raise InputError(f"the data root {top} cannot be written ({error.strerror}); {by_hand}") from None
    try:
        dataset(str(work), train=True, download=True)
        (top / folder / "raw").mkdir(parents=True, exist_ok=True)
        for file in files:
            (work / folder / "raw" / file).rename(top / folder / "raw" / file)
    except (OSError, RuntimeError) as error:
        raise InputError(f"{folder} could not be downloaded ({type(error).__name__}); {by_hand}") from None
    finally:
        shutil.rmtree(work, ignore_errors=True)


def image_files(name: str, root: str | PathLike[str] | None) -> dict[str, str]:
    """Return a dict from the path of each file of an image set to 'found', 'missing' or 'damaged'; download nothing.

    >>> set(image_files("mnist", tempfile.mkdtemp()).values())
    {'missing'}
    """
    folder, sums = IMAGE_SETS[name]
    states = {}
    for file, expected in sums.items():
        path = _stored(data_root(root) / folder / "raw", file)
        try:
            states[str(path)] = "found" if path.is_file() and len(_verified(path, expected)) else "missing"
        except (InputError, OSError):
            states[str(path)] = "damaged"
    return states


class ImageClasses(NamedTuple):
    """Inputs X (n, d) with the constant input last, labels y (n,) from 0 to 9: training, held out and test parts."""

    X_train: Array
    y_train: np.ndarray
    X_held_out: Array
    y_held_out: np.ndarray
    X_test: Array
    y_test: np.ndarray


def load_classes(
    name: str, components: int | None, held_out: int, root: str | PathLike[str] | None = None, *, seed: int = 1
) -> ImageClasses:
    """Load an image set with ten classes as principal components or pixels, with a constant 1 appended.

    The components are whitened, x = Λ^{−½} Uᵀ(pixels − mean), with the covariance UΛUᵀ of the training part. The test
    part is the 10 000 test images, or a random quarter of the digits. Random parts are drawn by NumPy's PCG64.
    """
    one_of(name, ["digits", *IMAGE_SETS], "data set")
    components = None if components is None else as_count(components, "components")
    held_out = as_count(held_out, "held_out", least=0)
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
    training, held = np.sort(order[held_out:]), np.sort(order[:held_out])
    parts = [pixels[training], pixels[held], test_pixels]
    if components is not None:
        mean, directions = _principal(parts[0], components)
        parts = [(values - mean) @ directions for values in parts]
    parts = [with_constant(values) for values in parts]
    return ImageClasses(parts[0], labels[training], parts[1], labels[held], parts[2], test_labels)


def _principal(pixels: Array, components: int) -> tuple[Array, Array]:
    if components > pixels.shape[1]:
        raise InputError(f"components must be at most {pixels.shape[1]}, the number of pixels, not {components}")
    with torch_is_needed("PCA of images as published"):
        import torch

    mean = pixels.mean(axis=0)
    # With several threads, sums would differ from run to run. Single precision is accurate enough and twice as fast.
    with one_thread():
        centred = torch.as_tensor(pixels - mean, dtype=torch.float32)
        values, vectors = torch.linalg.eigh((centred.T @ centred).double() / len(pixels))
    largest, axes = values.numpy()[::-1][:components], vectors.numpy()[:, ::-1][:, :components]
    if largest[-1] <= MIN_VARIANCE * largest[0]:
        count = int((largest > MIN_VARIANCE * largest[0]).sum())
        raise InputError(f"only {count} components of these images have any variance; use at most {count}")
    return mean, axes / np.sqrt(largest)


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
