"""Measures of a receptive field: its inverse participation ratio (localization) and its peak frequency."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from implicit_bias._utils.checks import Array, InputError, as_floats, dimensions

#: Relative difference below which amplitudes count as equal.
EQUAL = 1e-9


def ipr(w: ArrayLike) -> Array:
    """Return the inverse participation ratio Σ_i w_i⁴/(Σ_i w_i²)² of each receptive field, shape (…).

    The ratio is 1/n for a flat field, 1.5/n for a sinusoid and 1 for a single pixel. Roughly 1/IPR pixels are active.

    Parameters
    ----------
    w : array, shape (n,) or (…, n)
        Fields, with pixels along the last axis.

    Raises
    ------
    InputError
        If numbers are not finite, or a field is zero.

    Examples
    --------
    >>> from implicit_bias.extensions.gated_flow import ipr
    >>> ipr([[1.0, 1.0, 1.0, 1.0], [0.0, 1.0, 0.0, 0.0]]).tolist()
    [0.25, 1.0]
    """
    squares = _fields(w) ** 2
    return np.asarray(np.sum(squares**2, axis=-1) / np.sum(squares, axis=-1) ** 2)


def peak_frequency(w: ArrayLike) -> np.ndarray:
    """Return the frequency f, in waves around the ring from 0 to n/2, with the largest ``|Σ_l w_l e^{−2πifl/n}|``.

    If amplitudes are equal within a relative 1e-9, the lowest frequency is returned. The result has integers of shape
    (…), one per receptive field; parameter and errors are those of `ipr`.

    Examples
    --------
    >>> from implicit_bias.extensions.gated_flow import peak_frequency
    >>> turn = 2 * np.pi * np.arange(12) / 12
    >>> peak_frequency([np.cos(3 * turn), np.ones(12)]).tolist()
    [3, 0]
    """
    size = np.abs(np.fft.rfft(_fields(w), axis=-1))
    return np.asarray(np.argmax(size >= (1 - EQUAL) * size.max(axis=-1, keepdims=True), axis=-1))


def _fields(w: ArrayLike) -> Array:
    fields = as_floats(w, "w", max(1, dimensions(w)))
    if not fields.any(axis=-1).all():
        raise InputError("a receptive field is zero and has no location or frequency; remove such fields")
    return fields / np.abs(fields).max(axis=-1, keepdims=True)
