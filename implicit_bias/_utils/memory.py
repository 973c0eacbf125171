"""Free memory, and a check of it before large allocations."""

import math
from contextlib import suppress
from pathlib import Path

from implicit_bias._utils.checks import InputError

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
        most, used = (int((CONTAINER / f"memory.{name}").read_text()) for name in ("max", "current"))
        rows = dict(line.split() for line in (CONTAINER / "memory.stat").read_text().splitlines())
        # `current` includes the file cache, which can be freed.
        free.append(float(max(0, most - used + int(rows.get("inactive_file", 0)))))
    return min(free)


def check_memory(need: float, what: str, remedy: str, free: float | None = None) -> None:
    """Raise TooLargeError if `need` bytes exceed `free`, by default the free memory of this machine.

    >>> check_memory(6.1 * 2**30, "this", "use fewer units", free=3 * 2**30)
    Traceback (most recent call last):
        ...
    implicit_bias._utils.memory.TooLargeError: this needs about 6.1 GiB of memory, 3.0 GiB are free; use fewer units
    """
    free = free_memory() if free is None else free
    if need > free:
        numbers = f"needs about {need / 2**30:.1f} GiB of memory, {free / 2**30:.1f} GiB are free"
        raise TooLargeError(f"{what} {numbers}; {remedy}")
