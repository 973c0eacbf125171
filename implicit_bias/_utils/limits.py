"""Time limits and Ctrl-C of computations, and checks of free memory."""

import math
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, TypeVar

from implicit_bias._utils.checks import InputError, as_positive

T = TypeVar("T")


class Interruptible:
    """Context manager whose block a KeyboardInterrupt ends silently, so that the caller can return partial results.

    `interrupted` is then True, and `carried` has the arguments of the KeyboardInterrupt, such as partial results. The
    one of a second Ctrl-C in the block of a `Deadline` is not caught: it leaves all blocks.

    >>> with Interruptible() as run:
    ...     raise KeyboardInterrupt("half")
    >>> run.interrupted, run.carried
    (True, ('half',))
    """

    interrupted = False
    carried: tuple[Any, ...] = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> bool:
        if not isinstance(error, KeyboardInterrupt) or isinstance(error, _SecondInterrupt):
            return False
        self.interrupted, self.carried = True, error.args
        return True


class Deadline:
    """Time limit of a computation that also ends on Ctrl-C; every long loop of the computation tests `passed()`.

    The time starts when the object is made, not when its block begins. In the block of a `with` statement the first
    Ctrl-C raises nothing: it sets `interrupted`, also in the deadlines of the blocks around it, and the loops end with
    their best results. The second one raises KeyboardInterrupt, which leaves all blocks.

    Without a block, outside the main thread, or if the program has its own handler of SIGINT, Ctrl-C acts as usual.
    `max_seconds` None and inf stand for no limit. In a `part`, test `passed()` or `reason`, not `interrupted`.
    """

    def __init__(self, max_seconds: float | None = None) -> None:
        self._seconds = math.inf if max_seconds is None else as_positive(max_seconds, "max_seconds", infinite=True)
        self._begin, self.interrupted = time.perf_counter(), False
        #: True while `call` runs a function of the user, in which Ctrl-C raises KeyboardInterrupt as usual.
        self._outside = False
        #: The deadline that Ctrl-C interrupts: of a `part` the one that it is a part of, otherwise this one.
        self._whole = self

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._begin

    def left(self, share: float = 1.0) -> float | None:
        """Return `share` of the seconds left, at least 1e-9 so that it is a valid `max_seconds`; None if unlimited."""
        return None if self._seconds == math.inf else max(share * (self._seconds - self.seconds), 1e-9)

    def passed(self, ahead: float = 0.0) -> bool:
        """Return True after Ctrl-C, or if the time will be up in `ahead` seconds: before a step that takes so long."""
        return self._whole.interrupted or self.seconds + ahead > self._seconds

    @property
    def reason(self) -> str:
        """'interrupted' after Ctrl-C, 'max_seconds' if only the time is up, or '' if the computation may go on."""
        return "interrupted" if self._whole.interrupted else "max_seconds" if self.passed() else ""

    def part(self, share: float) -> "Deadline":
        """Return a deadline, without a block, that has `share` of the time left from now on; Ctrl-C here ends both."""
        part = Deadline(self.left(share))
        part._whole = self._whole
        return part

    def interrupt(self) -> None:
        """Set `interrupted` here, for a part in the whole, and in the blocks around."""
        whole = self._whole
        for one in _blocks[: _blocks.index(whole) + 1] if whole in _blocks else [whole]:
            one.interrupted = True

    def call(self, function: Callable[..., T], *arguments: Any) -> T | None:
        """Return the result of a function of the user; Ctrl-C ends it at once, and None is returned."""
        with Interruptible() as run:
            self._whole._outside = True
            try:
                return function(*arguments)
            finally:
                self._whole._outside = False
        if run.interrupted:
            self.interrupt()
        return None

    def __enter__(self) -> Self:
        ours = signal.getsignal(signal.SIGINT) in (signal.default_int_handler, _set_interrupted)
        if ours and threading.current_thread() is threading.main_thread():
            # In this order, and in the reverse one at the end, no exception leaves a deadline behind.
            signal.signal(signal.SIGINT, _set_interrupted)
            _blocks.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        if self in _blocks:
            _blocks.remove(self)
            if not _blocks:
                signal.signal(signal.SIGINT, signal.default_int_handler)


class _SecondInterrupt(KeyboardInterrupt):
    """Second Ctrl-C, in a computation that the first one has not ended yet; `Interruptible` does not catch it."""


#: The deadlines whose blocks the main thread is in, the outermost first; those under a custom handler are left out.
_blocks: list[Deadline] = []


def _set_interrupted(number: int, frame: Any) -> None:
    """Interrupt all blocks on SIGINT; raise KeyboardInterrupt the second time, without a block, or in a `call`."""
    if any(one.interrupted for one in _blocks):
        raise _SecondInterrupt
    if not _blocks or _blocks[-1]._outside:
        signal.default_int_handler(number, frame)
    _blocks[-1].interrupt()


def _leave_blocks() -> None:
    """Let Ctrl-C end a forked process as usual: the blocks are those of its parent process."""
    if _blocks:
        _blocks.clear()
        signal.signal(signal.SIGINT, signal.default_int_handler)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_blocks)


#: Memory of a Linux system.
SYSTEM = Path("/proc/meminfo")
#: Memory limits of a Linux container.
CONTAINER = Path("/sys/fs/cgroup")


class TooLargeError(InputError):
    """Error of a computation that needs more than the free memory."""


def free_memory() -> float:
    """Return the free memory in bytes, below the limit of a container if there is one; infinity if it is unknown."""
    free = [math.inf]
    with suppress(OSError, ValueError, IndexError):
        free.append(1024.0 * int(SYSTEM.read_text().partition("MemAvailable:")[2].split(maxsplit=1)[0]))
    with suppress(OSError, ValueError):
        most, used = int((CONTAINER / "memory.max").read_text()), int((CONTAINER / "memory.current").read_text())
        rows = dict(line.split() for line in (CONTAINER / "memory.stat").read_text().splitlines())
        # `current` includes the file cache, which can be freed.
        free.append(float(max(0, most - used + int(rows.get("inactive_file", 0)))))
    return min(free)


def check_memory(need: float, what: str, remedy: str, free: float | None = None) -> None:
    """Raise TooLargeError if `need` bytes exceed `free`, by default the free memory of this machine.

    >>> check_memory(6.1 * 2**30, "this", "use fewer units", free=3 * 2**30)
    Traceback (most recent call last):
        ...
    implicit_bias._utils.limits.TooLargeError: this needs about 6.1 GiB of memory, 3.0 GiB are free; use fewer units
    """
    free = free_memory() if free is None else free
    if need > free:
        numbers = f"needs about {need / 2**30:.1f} GiB of memory, {free / 2**30:.1f} GiB are free"
        raise TooLargeError(f"{what} {numbers}; {remedy}")
