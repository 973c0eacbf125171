"""How local a receptive field is: its inverse participation ratio, and its frequency."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from implicit_bias._utils.checks import Array, InputError, as_floats, dimensions

#: Amplitudes that differ by less than this share are equal but for rounding.
EQUAL = 1e-9


def ipr(w: ArrayLike) -> Array:
    """The inverse participation ratio Σ_i w_i⁴/(Σ_i w_i²)² of each receptive field: 1/n if flat, 1 for a single pixel.

    A sinusoid has 1.5/n; a share 1/IPR of the pixels, roughly, takes part. Float64 of shape (…).

    Parameters
    ----------
    w : array, shape (n,) or (…, n)
        Fields, the pixels along the last axis.

    Raises
    ------
    InputError
        For numbers that are not finite, and for fields that are zero.

    Examples
    --------
    >>> from implicit_bias.extensions.gated_flow.receptive_fields import ipr
    >>> ipr([[1.0, 1.0, 1.0, 1.0], [0.0, 1.0, 0.0, 0.0]]).tolist()
    [0.25, 1.0]
    """
    squares = _fields(w) ** 2
    return np.asarray(np.sum(squares**2, axis=-1) / np.sum(squares, axis=-1) ** 2)


def peak_frequency(w: ArrayLike) -> np.ndarray:
    """The frequency f (waves around the ring, 0 to n/2) of the largest |Σ_l w_l e^{−2πifl/n}|, of each receptive field.

    The lowest of equal frequencies counts, to 1e-9. Integers of shape (…); fields and errors as for `ipr`.

    Examples
    --------
    >>> from implicit_bias.extensions.gated_flow.receptive_fields import peak_frequency
    >>> turn = 2 * np.pi * np.arange(12) / 12
    >>> peak_frequency([np.cos(3 * turn), np.ones(12)]).tolist()
    [3, 0]
    """
    size = np.abs(np.fft.rfft(_fields(w), axis=-1))
    return np.asarray(np.argmax(size >= (1 - EQUAL) * size.max(axis=-1, keepdims=True), axis=-1))


def _fields(w: ArrayLike) -> Array:
    """Fields whose largest entry is ±1."""
    fields = as_floats(w, "w", max(1, dimensions(w)))
    if not fields.any(axis=-1).all():
        raise InputError("a receptive field is zero, which has neither place nor frequency; leave such fields out")
    return fields / np.abs(fields).max(axis=-1, keepdims=True)
