"""Decorator that compiles loops with Numba at their first call, because importing Numba takes .3 s."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from threading import Lock
from typing import Any

#: What the compiler may do: fuse and reorder operations, multiply by reciprocals, ignore the sign of zero and NaN.
FASTMATH = {"contract", "reassoc", "arcp", "nsz", "nnan"}
#: Several threads may call a function first.
LOCK = Lock()


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs as machine code without the GIL, for arguments without NaN.

    >>> @compiled
    ... def doubled(x):
    ...     return 2 * x
    >>> doubled(1.5)
    3.0
    """

    @wraps(function)
    def call(*arguments: Any) -> Any:
        with LOCK:
            code = _compiled(function)
        return code(*arguments)

    return call


@cache
def _compiled(function: Callable[..., Any]) -> Any:
    from numba import njit

    options = {"nogil": True, "fastmath": FASTMATH}
    # Machine code on disk belongs to a module by its name, so that only that of this package is kept.
    keep = function.__module__.startswith(__name__.partition(".")[0] + ".")
    try:
        return njit(cache=keep, **options)(function)
    except RuntimeError:
        # Neither the folder of the module nor the cache of the user can be written.
        return njit(**options)(function)
