"""One thread of torch at a time, for work too small to share."""

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

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
