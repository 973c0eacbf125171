"""Writing results: to a temporary file first, then renamed, so that nothing half-written is ever seen."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from implicit_bias.ground.checks import InputError, as_path


def write_atomically(path: str | os.PathLike[str], content: bytes) -> Path:
    """Write `content` to a temporary file beside `path` and rename it to `path`.

    Raises
    ------
    InputError
        If the folder cannot be created or written; an earlier file at `path` then stays as it was.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from implicit_bias.ground.files import write_atomically
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

    >>> import tempfile
    >>> from implicit_bias.ground.files import require_writable
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
