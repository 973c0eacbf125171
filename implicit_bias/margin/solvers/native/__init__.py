"""The native solver of margin problems whose norm is a sum of group norms: an interior-point method."""

from implicit_bias.margin.solvers.native.solver import solve_native, unfit

__all__ = ["solve_native", "unfit"]
