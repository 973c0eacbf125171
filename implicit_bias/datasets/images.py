"""Reading ten-class images: scikit-learn's digits, and MNIST's files through torchvision."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from os import PathLike
from pathlib import Path

import numpy as np

from implicit_bias.ground.checks import Array, InputError, as_path

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
    """The folder of the image files: `root`, else the environment variable IMPLICIT_BIAS_DATA, else `data`."""
    return as_path(root or os.environ.get("IMPLICIT_BIAS_DATA") or "data", "the data root")


def load_digits() -> tuple[Array, np.ndarray]:
    """scikit-learn's digits: pixels (1797, 64) scaled from 0 … 16 to [−1, 1], labels (1797,)."""
    from sklearn.datasets import load_digits as embedded

    pixels, labels = embedded(return_X_y=True)
    return pixels / 8.0 - 1.0, labels


def load_images(name: str, root: str | PathLike[str] | None, train: bool = True) -> tuple[Array, np.ndarray]:
    """The 60 000 training or the 10 000 test images of a set: pixels (N, 784) in [−1, 1] and labels (N,)."""
    folder, sums = IMAGE_SETS[name]
    top = data_root(root)
    raw = top / folder / "raw"
    missing = [file for file in sums if not (raw / file).is_file()]
    if len(missing) == len(sums):
        _download(folder, top, list(sums))
    elif missing:
        raise InputError(
            f"{raw / missing[0]} is missing while other files of {folder} are there; put it back, "
            f"or move {raw} away to download all of them again"
        )
    for file in sums:
        if file.startswith("train" if train else "t10k"):
            _check_sum(raw / file, sums[file])
    dataset = _torchvision(folder)(str(top), train=train, download=False)
    return dataset.data.numpy().reshape(len(dataset.data), -1) / 127.5 - 1.0, dataset.targets.numpy()


def _torchvision(folder: str) -> type:
    # Imported here, because only image files need torchvision and some builds of it cannot be imported.
    try:
        import torchvision.datasets
    except (ImportError, RuntimeError) as error:
        raise InputError(f"torchvision cannot be imported ({error}); install one that fits your torch") from None
    return getattr(torchvision.datasets, folder)


def _check_sum(file: Path, expected: str) -> None:
    try:
        found = hashlib.md5(file.read_bytes(), usedforsecurity=False).hexdigest()
    except OSError as error:
        raise InputError(f"{file} cannot be read ({error.strerror}); mend its permissions") from None
    if found != expected:
        raise InputError(
            f"{file} is damaged: its MD5 sum is {found}, not {expected}; replace it, "
            f"or move {file.parent} away to download all files again"
        )


def _download(folder: str, top: Path, files: list[str]) -> None:
    """Download into a temporary folder beside the target and rename, so that nothing half-written stays."""
    by_hand = f"put the four uncompressed IDX files into {top / folder / 'raw'} by hand, or give another data root"
    dataset = _torchvision(folder)
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
    """Every file of an image set, and whether it is 'found', 'missing' or 'damaged'; nothing is downloaded.

    >>> import tempfile
    >>> from implicit_bias.datasets.images import image_files
    >>> set(image_files("mnist", tempfile.mkdtemp()).values())
    {'missing'}
    """
    folder, sums = IMAGE_SETS[name]
    states = {}
    for file, expected in sums.items():
        path = data_root(root) / folder / "raw" / file
        try:
            states[str(path)] = "missing" if not path.is_file() else "found"
            if path.is_file():
                _check_sum(path, expected)
        except (InputError, OSError):
            states[str(path)] = "damaged"
    return states
