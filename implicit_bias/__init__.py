"""Which max-margin problem does gradient descent on a gated network solve? Train, solve, certify, compare.

The public names are listed in `implicit_bias.public`, which is imported when the first of them is used: that loads
torch and CVXPY, which takes seconds, and the command line's help must not wait for them.
"""

import os
from typing import TYPE_CHECKING

from implicit_bias.version import __version__ as __version__

# Before torch is loaded: its threads must sleep while they wait. Spinning on busy cores made two of them many times
# slower than one.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

if TYPE_CHECKING:
    from implicit_bias.public import *  # noqa: F403
else:

    def __getattr__(name: str) -> object:
        """A public name, the list of them (`__all__`), or a submodule that they stand on."""
        if not name.startswith("_") or name == "__all__":
            from importlib import import_module

            public = import_module("implicit_bias.public")
            globals().update({known: getattr(public, known) for known in ("__all__", *public.__all__)})
            if name in globals():
                return globals()[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*__getattr__("__all__"), *globals()})
