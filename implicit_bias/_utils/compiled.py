"""Loops over arrays that Numba compiles when they are first called; its import alone takes .3 s."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from threading import Lock
from typing import Any

#: Freedom of the compiler: fused and reordered sums and products, reciprocals, zeros without signs, and no NaN.
ROUNDING = {"contract", "reassoc", "arcp", "nsz", "nnan"}


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs as machine code without Python's lock; the code is kept for later processes.

    >>> @compiled
    ... def doubled(x):
    ...     return 2 * x
    >>> doubled(1.5)
    3.0
    """
    lock = Lock()
    found: list[Any] = []

    @wraps(function)
    def call(*arguments: Any) -> Any:
        if not found:
            # Several threads may be the first.
            with lock:
                if not found:
                    found.append(_compiled(function))
        return found[0](*arguments)

    return call


def _compiled(function: Callable[..., Any]) -> Any:
    from numba import njit

    options = {"nogil": True, "fastmath": ROUNDING}
    # Kept code refers to the module by its name.
    keep = function.__module__.startswith(__name__.partition(".")[0] + ".")
    try:
        return njit(cache=keep, **options)(function)
    except RuntimeError:
        # Neither the folder of the module nor the user's own can be written.
        return njit(**options)(function)
