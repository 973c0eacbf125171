"""What the theorems ask of their inputs: gated features, unit samples, probabilities between 0 and 1, counts."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np

from implicit_bias.checks import Array, InputError, as_count, as_floats, length, shown
from implicit_bias.features import GatedFeatures

#: Larger counts are no floats, or lead beyond them.
MOST = 10**100
#: Smaller probabilities leave floating point in the formulas.
LEAST_PROBABILITY = 1e-100
#: A sample counts as unit if its length differs from 1 by at most this much.
UNIT_TOLERANCE = 1e-8


def unit_samples(X: Any, normalise: bool = False, name: str = "X") -> Array:
    """Samples of length 1, shape (m, d): refused if they are not, or divided by their lengths if `normalise`.

    Raises InputError for a length that differs from 1 by more than 1e-8 and, with `normalise`, for a row of zeros.

    >>> from implicit_bias.theory.inputs import unit_samples
    >>> unit_samples([[3.0, 4.0]], normalise=True).round(3).tolist()
    [[0.6, 0.8]]
    """
    rows = as_floats(X, name, 2)
    if normalise:
        largest = np.abs(rows).max(axis=1, keepdims=True)
        if not largest.all():
            raise InputError(
                f"row {int(np.argmin(largest))} of {name} is zero, which has no direction; leave such rows out"
            )
        # Twice, so that neither the squares nor the quotients of extreme rows leave floating point.
        rows = rows / largest
        return rows / length(rows, axis=1)[:, None]
    lengths = length(rows, axis=1)
    off = np.abs(lengths - 1) > UNIT_TOLERANCE
    if off.any():
        first = int(np.argmax(off))
        raise InputError(
            f"row {first} of {name} has length {lengths[first]:.6g}, and the theorem is about samples of length 1; "
            "pass normalise=True, or divide each row by its length"
        )
    return rows


def as_probability(value: Any, name: str = "delta") -> float:
    """A number strictly between 0 and 1; at least 1e-100.

    >>> from implicit_bias.theory.inputs import as_probability
    >>> as_probability(0.05)
    0.05
    """
    number: Any = value if isinstance(value, numbers.Real) and not isinstance(value, bool) else math.nan
    if not LEAST_PROBABILITY <= number < 1:
        least = f" (at least {LEAST_PROBABILITY:g})" if 0 < number < 1 else ""
        raise InputError(f"{name} must be a number strictly between 0 and 1{least}, not {shown(value)}")
    return float(number)


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
