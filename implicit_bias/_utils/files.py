"""Atomic writing of files, and archives: npz files of arrays with a JSON text; loading one executes no code."""

import io
import json
import math
import os
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.format import read_array, read_array_header_1_0, read_array_header_2_0, read_magic

from implicit_bias._utils.checks import InputError, as_file, as_path
from implicit_bias._utils.limits import TooLargeError, check_memory
from implicit_bias._utils.missing import MissingError
from implicit_bias._utils.version import __version__

#: Largest compression ratio of an npz member, slightly above the maximum of deflation.
MAX_COMPRESSION_RATIO = 1100


def write_atomically(path: str | os.PathLike[str], content: bytes) -> Path:
    """Write `content` by way of a temporary file and return the path; after InputError, the file is unchanged."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)
    return as_path(path, "the output")


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary file next to `path`; rename it to `path` if the block succeeds, else remove it.

    Missing folders are created. Any OSError, also one raised in the block, becomes an InputError.

    >>> target = Path(tempfile.mkdtemp(), "a.txt")
    >>> with replacing(target) as temporary:
    ...     _ = temporary.write_text("done")
    >>> target.read_text(), len(list(target.parent.iterdir()))
    ('done', 1)
    """
    target = as_path(path, "the output")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_dir():
            raise IsADirectoryError(21, "it is a folder")
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            umask = os.umask(0)
            os.umask(umask)
            temporary.chmod(0o666 & ~umask)
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InputError(f"{target} cannot be written ({error.strerror or error}); choose another place") from None


def require_writable(folder: str | os.PathLike[str]) -> Path:
    """Return the folder, created if it is missing; raise InputError if no file can be written into it."""
    path = as_path(folder, "the output folder")
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror or error}); choose another folder") from None
    return path


class Arrays(Mapping[str, np.ndarray]):
    """Arrays of an open npz file, without pickle; sizes are compared with the file's before memory is allocated.

    A damaged file raises exceptions of many types.
    """

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self.archive = archive
        self.members = {i.filename.removesuffix(".npy"): i for i in archive.infolist() if i.filename.endswith(".npy")}

    def __getitem__(self, name: str) -> np.ndarray:
        info = self.members[name]
        with self.archive.open(info) as member:
            header = {(1, 0): read_array_header_1_0, (2, 0): read_array_header_2_0}[read_magic(member)]
            shape, _, dtype = header(member)
            size = math.prod(shape) * dtype.itemsize
            dense = info.file_size > MAX_COMPRESSION_RATIO * (info.compress_size + 1)
            if size != info.file_size - member.tell() or dense:
                raise ValueError("an array is larger than the file")
        check_memory(size, f"its array {name!r}", "free some, or save a smaller one")
        with self.archive.open(info) as member:
            return np.asarray(read_array(member, allow_pickle=False))

    def __iter__(self) -> Iterator[str]:
        return iter(self.members)

    def __len__(self) -> int:
        return len(self.members)


def finite_numbers(values: Any, name: str) -> np.ndarray:
    """Return an array of any shape and real dtype; raise InputError unless all numbers are finite."""
    array = np.asarray(values)
    if array.dtype.kind not in "biuf" or not np.isfinite(array).all():
        raise InputError(f"{name} must hold finite numbers")
    return array


@contextmanager
def reading(path: str | os.PathLike[str], kind: str) -> Iterator[None]:
    """Convert every exception of the block into an InputError that names `path` and, for a damaged file, `kind`.

    Damaged files raise exceptions of many types. Ctrl-C is not converted.

    >>> with reading("a.npz", "solution"):
    ...     {}["weights"]
    Traceback (most recent call last):
        ...
    implicit_bias._utils.checks.InputError: a.npz is damaged or not a saved solution (KeyError)
    """
    try:
        yield
    except TooLargeError as error:
        raise InputError(f"{path}: {error}") from None
    except MissingError as error:
        raise MissingError(f"{path}: {error}") from None
    except Exception as error:
        reason = str(error) if isinstance(error, InputError) else type(error).__name__
        raise InputError(f"{path} is damaged or not a saved {kind} ({reason})") from None


def write_archive(path: str | os.PathLike[str], kind: str, about: dict[str, Any], arrays: dict[str, Any]) -> Path:
    """Write arrays, and a JSON text of `about`, the format `kind` ("problem 1") and the version, to an npz file."""
    text = json.dumps({"format": f"implicit_bias {kind}", "implicit_bias": __version__} | about, allow_nan=False)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, about=np.array(text), **arrays)
    return write_atomically(path, buffer.getvalue())


@contextmanager
def open_archive(path: str | os.PathLike[str], kind: str) -> Iterator[tuple[dict[str, Any], Arrays]]:
    """Open an archive of this `kind`; yield `about` and arrays, read on access. Every exception becomes InputError."""
    file, name = as_file(path), kind.split()[0]
    with reading(path, name), zipfile.ZipFile(file) as archive:
        arrays = Arrays(archive)
        about = json.loads(str(arrays["about"]))
        held = str(about["format"])
        if held != f"implicit_bias {kind}":
            raise InputError(f"it holds {held!r:.60}, not 'implicit_bias {kind}'; save it again with this version")
        yield about, arrays
