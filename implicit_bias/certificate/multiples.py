"""Multiples of weights and duals, and when their rounding matters."""

import numpy as np

from implicit_bias._utils.checks import Array
from implicit_bias._utils.scaling import TINY, nearest_power_of_two

#: Rounding that takes more than this share of the gap, and more than this share of a bound, is computed away.
OF_THE_GAP, OF_A_BOUND = 0.02, 1e-13
#: How much shorter than it could be a dual may stay, and how far from the margins asked for weights may.
ABOUT = 0.02


def exactly(t: float) -> list[float]:
    """Where rounding matters, a power of two about t: digits that were chosen with care are not rounded again."""
    power = nearest_power_of_two(t)
    return [power] if power != t and abs(t / power - 1) <= ABOUT else []


def normal(scaled: Array, values: Array) -> bool:
    """Whether no number has lost digits on its way to 0."""
    return not ((np.abs(scaled) < TINY) & (values != 0)).any()


def differ(bounds: list[float]) -> bool:
    """Whether it matters which of them is taken."""
    return bool(max(bounds) > min(bounds) * (1 + OF_A_BOUND))
