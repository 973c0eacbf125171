"""Standard output and error that ignore a closed pipe, and remember a full disk."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import IO, Any, TextIO, cast


class Outlet:
    """Text stream that discards its output once it cannot be written, so that the computation continues.

    Then either `unread` is True, because its pipe is closed, or `failure` is the reason, such as a full disk.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.unread, self.failure = stream, False, ""

    def write(self, text: str) -> int:
        self._or_discard(self.stream.write, text)
        return len(text)

    def flush(self) -> None:
        self._or_discard(self.stream.flush)

    def _or_discard(self, action: Callable[..., Any], *arguments: Any) -> None:
        try:
            action(*arguments)
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                self.unread = True
            else:
                self.failure = error.strerror or str(error)
            # The stream's buffer is flushed to the null device, now or when Python ends.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.stream.fileno())
            os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def outlets() -> Iterator[tuple[Outlet, Outlet]]:
    """Replace standard output and error in the block by a pair (out, err) of outlets, which is yielded.

    >>> with outlets() as (out, err):
    ...     print("read", file=sys.stdout)
    read
    >>> out.unread or err.unread
    False
    """
    with ExitStack() as stack:
        # A stream that was closed from the start is None.
        nowhere = stack.enter_context(Path(os.devnull).open("w"))
        out, err = Outlet(sys.stdout or nowhere), Outlet(sys.stderr or nowhere)
        stack.callback(out.flush)
        stack.enter_context(redirect_stdout(cast(IO[str], out)))
        stack.enter_context(redirect_stderr(cast(IO[str], err)))
        yield out, err
