"""Exact moments of pixel gates 1(x_i ≥ 0) on a process on a ring."""

from typing import Any

import numpy as np

from implicit_bias._utils.checks import Array, InputError, as_count, shown
from implicit_bias.extensions.gated_flow.moments import Moments
from implicit_bias.extensions.gated_flow.rings import RingProcess


def pixel_moments(process: RingProcess, pixel: int = 0, *, both: bool = True) -> Moments:
    """Return the exact moments of one pixel's gate 1(x_i ≥ 0) and, if `both`, of its complement 1(x_i < 0).

        A_11 = A_22 = ¼(Σ⁽⁰⁾ + Σ⁽¹⁾),   A_12 = 0,   b_2 = −b_1,
        b_1 = Σ_c y_c/(2πZ) · arcsin(C⁽ᶜ⁾_{i·} √(2g²/(1 + 2g²))),   ⟨y²⟩ = ½(y_0² + y_1²)

    Here Σ⁽ᶜ⁾ = Cov(x), C⁽ᶜ⁾ = Cov(z), and y_c is the label of class c = 0, 1; z, Z and g are as for `RingProcess`. For
    a Gaussian process, arcsin(…)/Z is C⁽ᶜ⁾_{i·} √(π/(2C⁽ᶜ⁾_ii)).

    Parameters
    ----------
    process : RingProcess
        Other data are not symmetric and raise InputError.
    pixel : int
        i, from 0 to n − 1.
    both : bool
        True for K = 2 gates, exactly one of which is open; False for K = 1.

    Examples
    --------
    >>> from implicit_bias.extensions.gated_flow import ipr, nonlinear_gaussian_process, pixel_moments
    >>> process = nonlinear_gaussian_process(gain=1.0, labels=(1.0, 0.0))
    >>> found = pixel_moments(process)
    >>> found.exclusive, ipr(found.best_weights).round(3).tolist(), round(found.best_loss, 4)
    (True, [0.2, 0.2], 0.217)
    """
    if not isinstance(process, RingProcess):
        raise InputError(f"moments of pixel gates are exact for a RingProcess, not for {shown(process)}")
    pixel = as_count(pixel, "pixel", least=0)
    if pixel >= process.n:
        raise InputError(f"pixel must be below n = {process.n}, not {pixel}")
    A = (process.covariance(0) + process.covariance(1)) / 4
    b = np.array(process.labels) / 2 @ np.stack([_open_mean(process, which, pixel) for which in (0, 1)])
    power = sum(label**2 for label in process.labels) / 2
    if not both:
        return Moments.from_arrays(b[None], A, power)
    zero = np.zeros_like(A)
    return Moments.from_arrays(np.stack([b, -b]), np.block([[A, zero], [zero, A]]), power)


def _open_mean(process: RingProcess, which: int, pixel: int) -> Array:
    """Return E[1(x_i ≥ 0) x], shape (n,), for i = `pixel` and the class 0 or 1."""
    row: Any = process.latent(which)[pixel]
    if process.gain is None:
        return np.asarray(row / np.sqrt(2 * np.pi * row[pixel]))
    return np.asarray(np.arcsin(np.sqrt(process.saturation) * np.minimum(row, 1.0)) / (np.pi * process.normaliser))
