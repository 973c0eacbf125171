"""Writing results, to a temporary file first, then renamed, so that nothing half-written is ever seen; and archives.

Archives are files of arrays: NumPy's npz format with a JSON text inside; loading executes no code.
"""

import io
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from implicit_bias import __version__
from implicit_bias.ground.checks import InputError, as_file, as_path


def write_atomically(path: str | os.PathLike[str], content: bytes) -> Path:
    """Write `content` to a temporary file beside `path` and rename it to `path`.

    Raises InputError if the folder cannot be created or written; an earlier file at `path` then stays as it was.

    >>> import tempfile, pathlib
    >>> folder = tempfile.mkdtemp()
    >>> write_atomically(pathlib.Path(folder, "a.txt"), b"done").read_text()
    'done'
    """
    target = as_path(path, "the output")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_dir():
            raise IsADirectoryError(21, "it is a folder")
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            umask = os.umask(0)
            os.umask(umask)
            Path(temporary).chmod(0o666 & ~umask)
            Path(temporary).replace(target)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InputError(f"{target} cannot be written ({error.strerror or error}); choose another place") from None
    return target


def require_writable(folder: str | os.PathLike[str]) -> Path:
    """The folder, created if need be; refused before any long work if it cannot be written.

    >>> require_writable(tempfile.mkdtemp()).is_dir()
    True
    """
    path = as_path(folder, "the output folder")
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror or error}); choose another --out") from None
    return path


def read_arrays(file: Path) -> dict[str, np.ndarray]:
    """The arrays of an NPZ file, none of them pickled; a damaged one provokes errors of many kinds."""
    # NumPy leaves a damaged file open unless it is ours.
    with file.open("rb") as stream, np.load(stream, allow_pickle=False) as content:
        return {name: content[name] for name in content.files}


@contextmanager
def reading(path: str | os.PathLike[str], kind: str) -> Iterator[None]:
    """Turn whatever the content of a file provokes into one sentence: a damaged file raises errors of many kinds.

    >>> with reading("a.npz", "solution"):
    ...     {}["weights"]
    Traceback (most recent call last):
        ...
    implicit_bias.ground.checks.InputError: a.npz is damaged or not a saved solution (KeyError)
    """
    try:
        yield
    except Exception as error:
        reason = str(error) if isinstance(error, InputError) else type(error).__name__
        raise InputError(f"{path} is damaged or not a saved {kind} ({reason})") from None


def write_archive(
    path: str | os.PathLike[str], kind: str, about: dict[str, Any], arrays: dict[str, np.ndarray]
) -> Path:
    """Write arrays, and in the array `about`, as JSON: the format `kind` ("problem 1"), our version, and `about`."""
    text = json.dumps({"format": f"implicit_bias {kind}", "implicit_bias": __version__} | about, allow_nan=False)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, about=np.array(text), **arrays)  # type: ignore[arg-type]
    return write_atomically(path, buffer.getvalue())


def read_archive(path: str | os.PathLike[str], kind: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What `write_archive` wrote to `path` as this `kind`: about and arrays.

    Raises InputError if the file is missing, damaged or of another kind.

    >>> import numpy as np, pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "example.npz")
    >>> path = write_archive(path, "example 1", {"colour": "red"}, {"a": np.ones(2)})
    >>> about, arrays = read_archive(path, "example 1")
    >>> about["colour"], arrays["a"].tolist()
    ('red', [1.0, 1.0])
    """
    file, name = as_file(path), kind.split()[0]
    with reading(path, name):
        arrays = read_arrays(file)
        about = json.loads(str(arrays.pop("about")))
        found = str(about["format"])
    if found != f"implicit_bias {kind}":
        raise InputError(f"{path} holds {found!r:.60}, not 'implicit_bias {kind}'; save it again with this version")
    return about, arrays
