"""Execution of a command: errors as sentences and exit codes, and output as JSON if requested."""

import json
import math
import os
import sys
import warnings
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from implicit_bias._utils.checks import InputError
from implicit_bias._utils.files import require_writable
from implicit_bias._utils.missing import torch_is_needed


class Output(NamedTuple):
    """Exit code, document of --json, what to do next (None to print no last line), and files that were written."""

    code: int
    document: dict[str, Any]
    then: str | None
    files: Sequence[Path] = ()

    def last_line(self) -> str:
        """Return one line: what was written, and what to do next.

        >>> Output(0, {}, "read it", [Path("out/a.csv")]).last_line()
        'wrote out/a.csv; next: read it'
        >>> Output(0, {}, "look at out/b.png", [Path("out", name) for name in ("a.csv", "b.png")]).last_line()
        'wrote 2 files in out; next: look at out/b.png'
        """
        written = ", ".join(map(str, self.files)) or "no file"
        if len(self.files) > 1:
            written = f"{len(self.files)} files in {os.path.commonpath([path.parent for path in self.files])}"
        return f"wrote {written}; next: {self.then}"


def guarded(action: Callable[[], int], on_error: Callable[[str], Any] = lambda sentence: None) -> int:
    """Run `action` and return its exit code; print errors and warnings as one sentence each on standard error.

    InputError and MemoryError give the code 2, Ctrl-C gives 130. `on_error` is called with the sentence of an error.
    """
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            return action()
    except InputError as error:
        code, kind, sentence = 2, "error: ", str(error)
    except MemoryError:
        code, kind, sentence = 2, "error: ", "out of memory; ask for fewer samples, units or contexts, or fewer --jobs"
    except KeyboardInterrupt:
        code, kind, sentence = 130, "", "interrupted: nothing was finished"
    print(f"{kind}{sentence}", file=sys.stderr)
    on_error(sentence)
    return code


def _show_warning(message: Any, *_: Any, **__: Any) -> None:
    # tqdm.write keeps a progress bar intact. The import is here because help does not need it.
    from tqdm import tqdm

    tqdm.write(f"warning: {message}", sys.stderr)


def execute(options: Namespace) -> int:
    """Run `options.run(options)`; return its exit code. With --json, print its document, or the error, as JSON."""
    document: dict[str, Any] = {}

    def work() -> int:
        # Studies import networks, which need torch, when they first need them.
        with torch_is_needed("this command"):
            outcome = options.run(options)
        document.update(outcome.document | {"files": list(outcome.files)})
        if outcome.then is not None:
            print(outcome.last_line())
        return int(outcome.code)

    if not options.json:
        return guarded(work)
    with messages_on_stderr():
        code = guarded(work, lambda sentence: document.update(error=sentence))
    print(json.dumps(plain(document), indent=2, allow_nan=False, ensure_ascii=True))
    return code


def counted(number: int, thing: str) -> str:
    """Return number and noun, in the plural unless the number is 1.

    >>> counted(1, "sample"), counted(2, "sample")
    ('1 sample', '2 samples')
    """
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def place_of(out: str | None, ending: str, inputs: Sequence[str]) -> Path:
    """Return the path of a result: `out` or, in the current folder, the stem of the last input followed by `ending`.

    InputError is raised if the path is a folder or an input, or its folder cannot be written to.
    """
    # Standard input, "-", has no stem.
    path = Path(out or (Path(inputs[-1]).stem.removesuffix(".csv") + ending).lstrip("-"))
    if path.is_dir() or path.resolve() in [Path(one).resolve() for one in inputs]:
        raise InputError(f"--out {path} is an input or a folder; name another file")
    require_writable(path.parent)
    return path


@contextmanager
def messages_on_stderr() -> Iterator[None]:
    """Redirect standard output to standard error in the block, including that of the processes started there."""
    sys.stdout.flush()
    saved = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)


def plain(value: Any) -> Any:
    """Return `value` as plain JSON: tables as lists of rows, paths as text, infinities and NaN as None.

    >>> plain({"gap": np.float64("inf"), "seeds": (1, 2)})
    {'gap': None, 'seeds': [1, 2]}
    """
    # This is a data frame; the test avoids the import of pandas.
    if hasattr(value, "to_dict"):
        value = value.to_dict("records")
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value
