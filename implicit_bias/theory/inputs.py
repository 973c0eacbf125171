"""What the theorems ask of their inputs: gated features, unit samples, probabilities between 0 and 1, counts."""

from __future__ import annotations

from typing import Any

from implicit_bias.features import GatedFeatures
from implicit_bias.ground.checks import InputError, as_count, as_real, shown

#: Larger counts are no floats, or lead beyond them.
MOST = 10**100
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
    """A whole number from 1 to 10¹⁰⁰, which formulas take for a float.

    >>> from implicit_bias.theory.inputs import as_number_of
    >>> as_number_of(3, "k")
    3
    """
    count = as_count(value, name)
    if count > MOST:
        raise InputError(f"{name} must be at most 10^100, not {shown(value)}")
    return count


def as_gated(features: Any) -> GatedFeatures:
    """Features that are gated inputs.

    >>> from implicit_bias import GatedFeatures
    >>> from implicit_bias.theory.inputs import as_gated
    >>> as_gated(GatedFeatures([[1.0]])).n
    1
    """
    if not isinstance(features, GatedFeatures):
        raise InputError(f"features must be GatedFeatures, not {shown(features)}")
    return features
