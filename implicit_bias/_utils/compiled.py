"""Decorator that compiles loops with Numba at their first call, because importing Numba takes .3 s."""

import warnings
from collections.abc import Callable
from contextlib import suppress
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
    from numba.core.caching import FunctionCache

    class Cache(FunctionCache):
        """Numba's cache of machine code, which is renewed if it is damaged, and never needed."""

        def load_overload(self, *key: Any) -> Any:
            try:
                return super().load_overload(*key)
            except Exception as error:
                _warn(self.cache_path, f"{type(error).__name__}: {error}")
                # Without an index, code is saved anew.
                with suppress(OSError):
                    self.flush()

        def save_overload(self, *code: Any) -> None:
            try:
                super().save_overload(*code)
            except Exception as error:
                _warn(self.cache_path, f"{type(error).__name__}: {error}")

    code = njit(nogil=True, fastmath=FASTMATH)(function)
    # Machine code on disk belongs to a module by its name, so that only that of this package is kept.
    if function.__module__.startswith(__name__.partition(".")[0] + "."):
        # A RuntimeError says that neither the folder of the module nor the cache of the user can be written.
        with suppress(RuntimeError):
            code._cache = Cache(function)
    return code


@cache
def _warn(folder: str, error: str) -> None:
    text = f"Numba's cache in {folder} is damaged or full, and code is compiled again: {error}"
    warnings.warn(text, RuntimeWarning, stacklevel=5)
