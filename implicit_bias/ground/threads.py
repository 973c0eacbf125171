"""One thread of torch at a time, for work too small to share, and in forked processes."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_thread() -> Iterator[None]:
    """Run a block with one torch thread and restore the number afterwards.

    >>> import torch
    >>> with one_thread():
    ...     print(torch.get_num_threads())
    1
    """
    import torch  # Takes seconds, which what needs no tensors is spared.

    before, process = torch.get_num_threads(), os.getpid()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        # A process forked in the block keeps to one.
        if os.getpid() == process:
            torch.set_num_threads(before)


def _keep_to_one() -> None:
    """A forked process has none of torch's threads, but their pool, which would wait for them for ever."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_keep_to_one)
