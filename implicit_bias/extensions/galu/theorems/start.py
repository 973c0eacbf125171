"""How large the first gradient of a ReLU or GaLU network is over the draw of its gates (Theorem 4)."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from implicit_bias._utils.checks import as_floats, as_number_of, as_positive, as_signs
from implicit_bias.extensions.galu.theorems.kernel import gate_kernel


@dataclass(frozen=True)
class FirstGradientNorm:
    """‖∂L_S/∂W‖ over u_j ~ N(0, I), |α_j| = 1, for networks of 1/√k Σ_j, the same of ReLU and of GaLU.

    Attributes
    ----------
    mean_square : float
        E‖∂L_S/∂W‖² = yᵀκ(X)y/m², at every width.
    largest : float
        ‖X‖/√m, which the norm never exceeds.
    k : int

    Examples
    --------
    >>> from implicit_bias.extensions.galu.theorems.start import first_gradient_norm
    >>> found = first_gradient_norm([[1.0, 0.0], [-1.0, 0.0]], [1, 1], k=50)
    >>> found.mean_square, found.at_most(0.5), round(found.at_most(0.6), 2)
    (0.25, 0.0, 0.7)
    """

    mean_square: float
    largest: float
    k: int

    def at_most(self, epsilon: float) -> float:
        """A lower bound of P(‖∂L_S/∂W‖ ≤ ε), for ε² above the mean square: Markov's or Hoeffding's; else 0."""
        square = _squared(epsilon)
        if square <= self.mean_square:
            return 0.0
        return 1 - min(self.mean_square / square, self._tail(square))

    def at_least(self, epsilon: float) -> float:
        """A lower bound of P(‖∂L_S/∂W‖ ≥ ε), for ε² below the mean square: Hoeffding's; else 0."""
        square = _squared(epsilon)
        return 1 - self._tail(square) if square < self.mean_square else 0.0

    def _tail(self, square: float) -> float:
        """exp(−2k(ε² − mean)²/largest⁴), the square being a mean of k independent terms from 0 to largest²."""
        apart = (square - self.mean_square) / self.largest**2
        return math.exp(-2 * self.k * apart * apart)


def _squared(epsilon: float) -> float:
    """ε², infinite if it leaves floating point."""
    epsilon = as_positive(epsilon, "epsilon")
    return epsilon * epsilon


def first_gradient_norm(X: ArrayLike, y: ArrayLike, k: int) -> FirstGradientNorm:
    """Theorem 4 in probability: how small the first gradient of the hinge loss is, for GaLU and for ReLU alike.

        N^R = 1/√k Σ_j α_j [⟨u_j, x⟩]₊,  N^G = 1/√k Σ_j α_j 1(⟨u_j, x⟩ ≥ 0)⟨w_j, x⟩,  y_i N(x_i) < 1 for all i:

        ∂L_S/∂w_j = ∂L_S/∂u_j = −(α_j/(m√k)) Σ_i y_i 1(⟨u_j, x_i⟩ ≥ 0) x_i

    With the same U and α both networks have the same gradient, so one fails where the other does. Its square is a
    mean of k independent terms, each of mean yᵀκ(X)y/m².

    Parameters
    ----------
    X : array, shape (m, d)
        Samples of any length but 0.
    y : array, shape (m,)
        Labels −1 and +1.
    k : int
        Units.

    Raises
    ------
    InputError
        For bad arrays and labels, rows of zeros, and a k that is not positive and whole.

    References
    ----------
    Fiat, Malach & Shalev-Shwartz (2019), Theorem 4, which wants |N| ≤ 1 on the whole unit ball; y_i N(x_i) < 1 on the
    samples is what its proof uses. The mean and the tails are ours.

    Examples
    --------
    >>> from implicit_bias.extensions.galu.datasets import parity
    >>> from implicit_bias.extensions.galu.theorems.start import first_gradient_norm
    >>> easy, hard = (first_gradient_norm(*parity(400, 8, bits), k=100) for bits in (1, 7))
    >>> easy.mean_square > 5 * hard.mean_square
    True
    """
    X = as_floats(X, "X", 2)
    y, k = as_signs(y, len(X), both=False), as_number_of(k, "k")
    square = float(y @ gate_kernel(X) @ y) / len(X) ** 2
    return FirstGradientNorm(max(0.0, square), float(np.linalg.norm(X, 2)) / math.sqrt(len(X)), k)
