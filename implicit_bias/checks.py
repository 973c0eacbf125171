"""Refusing bad input at the door, with one sentence that says what was wrong and what to do."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class InputError(ValueError):
    """Raised for every input that this toolkit refuses; its text says what to do.

    >>> from implicit_bias import InputError, load_binary
    >>> try:
    ...     load_binary("no such data")
    ... except InputError as error:
    ...     print(error)
    unknown data set 'no such data'; known: digits, mnist, fashion-mnist
    """


def as_floats(values: Any, name: str, ndim: int) -> Array:
    """A float64 array with `ndim` dimensions, finite and not empty."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    try:
        raw = np.asarray(values)
        if np.iscomplexobj(raw):
            raise TypeError("complex")
        array = raw.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"{name} must hold real numbers in a regular {ndim}-dimensional array; convert it first"
        ) from None
    if array.ndim != ndim:
        raise InputError(f"{name} must have {ndim} dimension(s), but its shape is {array.shape}; reshape it")
    if array.size == 0:
        raise InputError(f"{name} is empty (shape {array.shape}); give at least one sample and one column")
    if not np.isfinite(array).all():
        bad = np.argwhere(~np.isfinite(array))[0]
        raise InputError(f"{name} holds NaN or infinity (first at index {tuple(map(int, bad))}); clean it first")
    return np.ascontiguousarray(array)


def as_signs(values: Any, samples: int, name: str = "y") -> Array:
    """Labels −1 and +1, one a sample, both present."""
    y = as_floats(values, name, 1)
    if len(y) != samples:
        raise InputError(f"{name} has {len(y)} labels for {samples} samples; give one label a sample")
    classes = np.unique(y)
    if not np.isin(classes, (-1.0, 1.0)).all():
        shown = ", ".join(f"{c:g}" for c in classes[:5])
        raise InputError(
            f"{name} must hold −1 and +1, but holds {shown}; BinaryTask.from_arrays converts any two classes"
        )
    if len(classes) < 2:
        raise InputError(f"{name} holds one class only ({classes[0]:+g}); a margin needs samples of both")
    return y


def as_count(value: Any, name: str, least: int = 1) -> int:
    """A whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}, not {value!r}")
    return int(value)


def as_positive(value: Any, name: str, infinite: bool = False) -> float:
    """A positive real number, finite unless `infinite`."""
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not real or not value > 0 or (math.isinf(value) and not infinite):
        raise InputError(f"{name} must be a positive number{' or infinity' if infinite else ''}, not {value!r}")
    return float(value)


def context_bits(contexts: Any) -> int:
    """The b of C = 2^b contexts."""
    count = as_count(contexts, "contexts")
    if count & (count - 1):
        raise InputError(f"contexts must be a power of two (1, 2, 4, 8, …), not {count}")
    return count.bit_length() - 1


def one_of(value: Any, known: Iterable[str], what: str) -> str:
    """`value`, if it is one of the `known` names."""
    names = list(known)
    if not isinstance(value, str) or value not in names:
        raise InputError(f"unknown {what} {value!r}; known: {', '.join(names)}")
    return value
