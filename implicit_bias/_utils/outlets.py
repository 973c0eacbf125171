"""Standard output and error that outlive their readers."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import IO, Any, TextIO, cast


class Outlet:
    """A stream of text that goes on where its reader goes away: the rest is lost, and the work is not."""

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.unread = stream, False

    def write(self, text: str) -> int:
        """Write, or lose, a text."""
        self._kept(self.stream.write, text)
        return len(text)

    def flush(self) -> None:
        """Let go of what was written."""
        self._kept(self.stream.flush)

    def _kept(self, action: Callable[..., Any], *arguments: Any) -> None:
        try:
            action(*arguments)
        except BrokenPipeError:
            self.unread = True
            # What the stream still holds goes there, too, now or when Python ends.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.stream.fileno())
            os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def outlets() -> Iterator[tuple[Outlet, Outlet]]:
    """Standard output and error as outlets, until the block ends.

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
