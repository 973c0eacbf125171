"""Lazy packages: their public names are listed in a stub, `__init__.pyi`, and loaded on first use; and CVXPY."""

from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

import lazy_loader

if TYPE_CHECKING:
    import cvxpy as cp
else:

    class _LazyCVXPY:
        def __getattr__(self, name: str) -> Any:
            return getattr(import_module("cvxpy"), name)

    cp = _LazyCVXPY()

__all__ = ["attach", "cp"]


def attach(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of the lazy package `package`, whose `__init__.py` is `file`.

    Without torch, a name that needs it raises MissingError, and `__all__` omits it, so that a star import skips it.
    """
    load, listed, names = lazy_loader.attach_stub(package, file)

    def __getattr__(name: str) -> Any:  # noqa: N807
        # Imported here because it loads NumPy, which `import implicit_bias` alone does not need.
        from implicit_bias._utils.missing import MissingError, torch_is_needed

        if name == "__all__":
            loadable = []
            for public in names:
                with suppress(MissingError):
                    __getattr__(public)
                    loadable.append(public)
            return loadable
        with torch_is_needed(name):
            return load(name)

    return __getattr__, listed
