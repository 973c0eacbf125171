"""The floor: what the products of an interior-point method cost at the measured rate of matrix products."""

from collections.abc import Sequence
from itertools import pairwise

from implicit_bias import Progress


def step_sizes(seen: Sequence[Progress]) -> list[int]:
    """The working-set size of every interior-point step, from what `solve(callback=…)` told at every iterate."""
    return [before.working_set for before, after in pairwise(seen) if after.iteration > before.iteration]


def step_flops(m: int, d: int, units: int, contexts: int) -> float:
    """Floating-point operations of one step for m samples of d inputs with one-hot contexts.

        Cholesky m³/3 + K(η) 2m²k + triangular solves 2m²r + two sweeps 8mdk

    k = H(K − 1) + 1 gate columns remain after the contrasts, r = H + 2 right-hand sides.
    """
    k, r = units * (contexts - 1) + 1, units + 2
    return m**3 / 3 + 2 * m**2 * k + 2 * m**2 * r + 8 * m * d * k
