"""Theorem 3: labels from a ball of the kernel's function space, and a rate of log³m/m."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from implicit_bias._utils.checks import InputError, as_column, as_floats, as_positive, as_probability, check_range
from implicit_bias.extensions.galu.theorems.generalisation import kernel_energy
from implicit_bias.extensions.galu.theorems.kernel import check_lengths, positive_kernel


@dataclass(frozen=True)
class RKHSBound:
    """Theorem 3: E½(f(x) − y)² ≤ C · `rate` with probability at least 1 − 2δ, for a C that the paper does not give.

    Attributes
    ----------
    rate : float
        (2M² log³m + (2M² + √2M) log(1/δ))/m.
    width : int
        k ≥ (m/(M²λ) + 1)² (32‖X‖⁴/λ²) log(m/δ).
    radius : float
        M.
    energy : float
        √(yᵀκ(X)⁻¹y), the norm of the least function with these labels, less what rounding may add to it; at most
        ‖f*‖_κ ≤ M.
    norm : float
        √2 M, which ‖w‖ of the least squares solution does not exceed, for networks of 1/√k Σ_j.
    samples : int
        m.
    delta : float

    Examples
    --------
    >>> from implicit_bias.extensions.galu.theorems.rkhs import rkhs_bound
    >>> X = np.random.default_rng(0).normal(size=(50, 20))
    >>> X /= np.linalg.norm(X, axis=1)[:, None]
    >>> found = rkhs_bound(X, X[:, 0], radius=2.0)
    >>> found.energy < 2, found.width > 10**7, round(found.rate, 1)
    (True, True, 10.2)
    """

    rate: float
    width: int
    radius: float
    energy: float
    norm: float
    samples: int
    delta: float


def rkhs_bound(X: ArrayLike, y: ArrayLike, radius: float, delta: float = 0.05) -> RKHSBound:
    """Theorem 3: what least squares on random gates loses on new samples, for labels y = f*(x) with ‖f*‖_κ ≤ M.

    It holds if the samples are independent and of length at most 1, |y| ≤ 1, λ(X) > 0, and y = f*(x) with
    probability 1. The last is an assumption on the distribution; what the samples can tell against it is checked: the
    least function through them has the norm √(yᵀκ⁻¹y), and a larger one than M is refused. y = ⟨v, x⟩ has M = 2‖v‖.
    For labels with noise, of any distribution, and with all constants, see `generalisation_bound`.

    Parameters
    ----------
    X : array, shape (m, d)
        Of length at most 1.
    y : array, shape (m,)
        From −1 to 1.
    radius : float
        M > 0.
    delta : float
        δ, strictly between 0 and 1.

    Raises
    ------
    InputError
        For samples longer than 1 or with λ(X) = 0 up to rounding, labels beyond ±1, and labels of no function in the
        ball.

    References
    ----------
    Fiat, Malach & Shalev-Shwartz (2019), Theorem 3 and appendix C.

    Examples
    --------
    >>> from implicit_bias.extensions.galu.theorems.generalisation import generalisation_bound_a_priori
    >>> from implicit_bias.extensions.galu.theorems.rkhs import rkhs_bound
    >>> X = np.random.default_rng(0).normal(size=(300, 30))
    >>> X /= np.linalg.norm(X, axis=1)[:, None]
    >>> ours, theirs = generalisation_bound_a_priori(X, X[:, 0], label_bound=1.0), rkhs_bound(X, X[:, 0], radius=2.0)
    >>> ours.width < theirs.width
    True
    """
    X, radius, delta = as_floats(X, "X", 2), as_positive(radius, "radius"), as_probability(delta)
    y = as_column(y, len(X))
    check_range(np.array([radius]), "radius", 1e-100, 1e100)
    check_lengths(X)
    if np.abs(y).max() > 1:
        raise InputError(f"Theorem 3 is for labels from −1 to 1, and y reaches {np.abs(y).max():g}; divide them")
    m, eigenvalue = len(X), float(positive_kernel(X)[1].lower_bound)
    energy = math.sqrt(kernel_energy(X, y)[0])
    if energy > radius * (1 + 1e-9):
        raise InputError(f"no function of norm {radius:.6g} has these labels, which need {energy:.6g}; give a larger M")
    ratio, spread = m / eigenvalue / radius / radius + 1, float(np.linalg.norm(X, 2)) ** 2 / eigenvalue
    if not ratio < 1e40:
        raise InputError(f"radius {radius:.4g} asks for more than 1e80 gates; give a larger one")
    width = 32 * (ratio * spread) ** 2 * math.log(m / delta)
    square, root = 2 * radius**2, math.sqrt(2) * radius
    rate = (square * math.log(m) ** 3 + (square + root) * math.log(1 / delta)) / m
    return RKHSBound(rate, math.ceil(width), radius, energy, root, m, delta)
