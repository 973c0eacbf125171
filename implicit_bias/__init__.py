"""Which max-margin problem does gradient descent on a gated network solve? Train, solve, certify, compare.

The public names of the core are listed in `__init__.pyi`, and each is loaded when it is first used: torch and CVXPY
take seconds, a light installation has no torch, and the help of the command line must not wait for them. Extensions of
the core are imported from `implicit_bias.extensions`.
"""

import os

# Set before torch is loaded, so that its threads sleep while they wait. On busy cores, two threads that spin are many
# times slower than one.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# Imported before any fork, so that forked processes use one thread.
from implicit_bias._utils import threads as _threads  # noqa: F401
from implicit_bias._utils.lazy import attach
from implicit_bias._utils.version import __version__ as __version__

__getattr__, __dir__ = attach(__name__, __file__)
