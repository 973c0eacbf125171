"""Which max-margin problem does gradient descent on a gated network solve? Train, solve, certify, compare.

The public names are listed in `__init__.pyi`, and each is loaded when it is first used: torch and CVXPY take seconds,
a light installation has no torch, and the help of the command line must not wait for them.
"""

import os
from contextlib import suppress
from typing import Any

import lazy_loader

__version__ = "0.1.0"

# Before torch is loaded: its threads must sleep while they wait. Spinning on busy cores made two of them many times
# slower than one.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# Before anything forks: its processes keep to one thread.
from implicit_bias.ground import threads as _threads  # noqa: F401

_loaded, __dir__, _names = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    # Loads NumPy, which the import of this package alone can spare.
    from implicit_bias.ground.missing import MissingError, torch_is_needed

    if name == "__all__":
        # What a star brings: without torch, all that needs none.
        found = []
        for public in _names:
            with suppress(MissingError):
                __getattr__(public)
                found.append(public)
        return found
    with torch_is_needed(name):
        return _loaded(name)
