"""Error message for functions that need torch in an installation without it."""

from collections.abc import Iterator
from contextlib import contextmanager

from implicit_bias._utils.checks import InputError


class MissingError(InputError, ImportError):
    """Error of a function that needs a package which is not installed."""


@contextmanager
def torch_is_needed(what: str) -> Iterator[None]:
    """Convert the failing import of a missing torch or torchvision in the block into a MissingError about `what`.

    >>> with torch_is_needed("this"):
    ...     import torch.nonsense
    Traceback (most recent call last):
        ...
    implicit_bias._utils.missing.MissingError: this needs torch.nonsense: pip install torch torchvision
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("torch", "torchvision"):
            raise
        raise MissingError(f"{what} needs {error.name}: pip install torch torchvision") from None
