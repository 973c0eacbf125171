"""What the theorems ask of numbers: probabilities between 0 and 1, and counts."""

from __future__ import annotations

from typing import Any

from implicit_bias.ground.checks import InputError, as_count, as_real, shown

#: Smaller probabilities leave floating point in the formulas.
LEAST_PROBABILITY = 1e-100


def as_probability(value: Any, name: str = "delta") -> float:
    """A number strictly between 0 and 1; at least 1e-100.

    >>> from implicit_bias.theory.inputs import as_probability
    >>> as_probability(0.05)
    0.05
    """
    number = as_real(value)
    if not LEAST_PROBABILITY <= number < 1:
        least = f" (at least {LEAST_PROBABILITY:g})" if 0 < number < 1 else ""
        raise InputError(f"{name} must be a number strictly between 0 and 1{least}, not {shown(value)}")
    return number


def as_number_of(value: Any, name: str) -> int:
    """A whole number from 1 to 10¹⁰⁰, which formulas take for a float; larger ones are none, or lead beyond them.

    >>> from implicit_bias.theory.inputs import as_number_of
    >>> as_number_of(3, "k")
    3
    """
    return as_count(value, name, most=10**100, limit="10^100")
