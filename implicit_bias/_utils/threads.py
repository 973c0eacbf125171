"""Threads: linear algebra in one of them, for small tasks and forked processes, and functions in several."""

import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any


@contextmanager
def one_thread() -> Iterator[None]:
    """Run the block with one thread of BLAS and, if it is loaded, of torch; restore their numbers afterwards.

    A process that is forked in the block keeps one thread.

    >>> import torch
    >>> with one_thread():
    ...     print(torch.get_num_threads(), [library["num_threads"] for library in _blas().info()][:1])
    1 [1]
    """
    torch, process = sys.modules.get("torch"), os.getpid()
    before = torch.get_num_threads() if torch else 1
    # `limit` of threadpoolctl takes ten times as long.
    parallel = [(library, count) for library in _blas().lib_controllers if (count := library.num_threads) > 1]
    for library, _ in parallel:
        library.set_num_threads(1)
    if torch:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        if os.getpid() == process:
            for library, count in parallel:
                library.set_num_threads(count)
            if torch:
                torch.set_num_threads(before)


def in_threads(function: Callable[[Any], None], items: Iterable[Any], most: float = math.inf) -> None:
    """Call a function for all items, in as many threads as BLAS has, at most `most`; each has one thread of BLAS."""
    count = int(min(thread_count(), most))
    with one_thread(), ThreadPoolExecutor(count) as pool:
        for _ in pool.map(function, items):
            pass


def thread_count() -> int:
    """Return the number of threads of BLAS."""
    return max((library["num_threads"] for library in _blas().info()), default=1)


@cache
def _blas() -> Any:
    """Return a controller of the BLAS libraries of NumPy and SciPy, cached because the search takes milliseconds."""
    # NumPy and SciPy have different libraries; this import loads SciPy's.
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


def _use_one_thread() -> None:
    """Use one thread in a forked process, because torch's thread pool would wait for threads that do not exist."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    if _blas.cache_info().currsize:
        _blas().limit(limits=1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_use_one_thread)
