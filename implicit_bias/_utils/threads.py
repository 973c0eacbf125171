"""One thread of linear algebra for work too small to share and in forked processes; Ctrl-C that ends a computation."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any


@contextmanager
def one_thread() -> Iterator[None]:
    """Run a block with one thread of BLAS, and of torch where it is loaded; restore the numbers afterwards.

    >>> import torch
    >>> with one_thread():
    ...     print(torch.get_num_threads(), [library["num_threads"] for library in _blas().info()][:1])
    1 [1]
    """
    torch, process = sys.modules.get("torch"), os.getpid()
    before = torch.get_num_threads() if torch else 1
    limits = _blas().limit(limits=1)
    if torch:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        # A process forked in the block keeps to one.
        if os.getpid() == process:
            limits.restore_original_limits()
            if torch:
                torch.set_num_threads(before)


class Interruptible:
    """Context that Ctrl-C leaves quietly: the caller keeps what it has and says 'interrupted'.

    `interrupted` is then True, and `carried` has the arguments of the KeyboardInterrupt.

    >>> with Interruptible() as run:
    ...     raise KeyboardInterrupt("half")
    >>> run.interrupted, run.carried
    (True, ('half',))
    """

    interrupted = False
    carried: tuple[Any, ...] = ()

    def __enter__(self) -> Interruptible:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> bool:
        if isinstance(error, KeyboardInterrupt):
            self.interrupted, self.carried = True, error.args
        return self.interrupted


@cache
def _blas() -> Any:
    """The BLAS libraries of NumPy and SciPy; finding them takes milliseconds."""
    # Each has its own, which is there once this is loaded.
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


def _keep_to_one() -> None:
    """A forked process has none of torch's threads, but their pool, which would wait for them for ever."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    if _blas.cache_info().currsize:
        _blas().limit(limits=1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_keep_to_one)
