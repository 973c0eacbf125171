"""The native solver: interior-point methods for sums of group norms, and for norms with polyhedral unit balls."""

from implicit_bias.solvers.native.settings import Settings
from implicit_bias.solvers.native.solver import NativeSolver

__all__ = ["NativeSolver", "Settings"]
