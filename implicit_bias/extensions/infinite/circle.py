"""Equally spaced points of the circle: a circulant Gram matrix, its smallest eigenvalue to any number of digits."""

from typing import Any

import numpy as np

from implicit_bias._utils.checks import as_count
from implicit_bias.extensions.infinite.activations import Activation
from implicit_bias.extensions.infinite.activations import activation as activation_of
from implicit_bias.extensions.infinite.angles import unit_pairs
from implicit_bias.extensions.infinite.eigenvalues import SmallestEigenvalue
from implicit_bias.extensions.infinite.gram import as_digits, pair_mean
from implicit_bias.extensions.infinite.special import multiprecision

#: Working digits: the first attempt, and how many beyond those asked for show an eigenvalue to be 0.
FIRST_DIGITS, LAST_DIGITS = 32, 512
#: The latter of a Hermite series: more take hours.
LAST_OF_SERIES = 64
#: More points than this take hours.
MOST_POINTS = 2000


def circle_eigenvalue(n: int, activation: str | Activation = "relu", digits: int = 10) -> SmallestEigenvalue:
    """λ_min of the Gram matrix of n equally spaced points of the unit circle, with so many correct digits.

        λ_k = Σ_j E(2πj/n) cos(2πj/n) cos(2πjk/n),    k = 0 … n/2,    E(θ) = E[σ'(z)σ'(z')] at the angle θ

    in multiprecision, with twice the digits until they are enough. The points are exact, which no doubles are. Of an
    even n, all come with their opposites, and λ_min is 0 where σ' is even or odd, and from n = 6 on where
    σ'(z) + σ'(−z) is constant: known without a sum.

    Parameters
    ----------
    n : int
        From 1 to 2000.
    activation, and errors : as for `gram_matrix`
        One of your own is refused, for it is known in doubles only.
    digits : int
        Correct digits. An eigenvalue that is 0 up to about 1e-500 (1e-60 of a Hermite series) is returned as such.

    References
    ----------
    Ours, for what Panigrahi, Shetty & Goyal (2020), abstract, say of data that span few dimensions.

    Examples
    --------
    >>> from implicit_bias.extensions.infinite.circle import circle_eigenvalue
    >>> print(circle_eigenvalue(41, "erf"))
    λ_min = 2.49204e-23 ± 1.2e-39
    """
    chosen, digits = activation_of(activation), as_digits(digits)
    count = as_count(n, "n", most=MOST_POINTS)
    if is_singular(count, chosen):
        none = multiprecision(digits).mpf(0)
        return SmallestEigenvalue(none, none)
    working, last = max(FIRST_DIGITS, digits + 10), digits + (LAST_DIGITS if chosen.is_exact else LAST_OF_SERIES)
    while True:
        found = smallest_of_circle(count, chosen, working)
        if found.error * 2 * 10**digits <= abs(found.value):
            return found
        if working >= last:
            return SmallestEigenvalue(0 * found.value, abs(found.value) + found.error)
        working = min(2 * working, last)


def is_singular(n: int, activation: Activation) -> bool:
    """Whether pairs of opposite points leave λ_k = 0 for all even k, for all odd k, or for all odd k but 1.

    E(θ) cos θ changes its sign with θ → θ + π if σ' is even and keeps it if σ' is odd, where only λ_k of odd and of
    even k are left; if σ'(z) + σ'(−z) is constant, it keeps its sign but for a multiple of cos θ.
    """
    return n % 2 == 0 and (activation.parity in ("even", "odd") or (activation.parity == "half" and n >= 6))


def smallest_of_circle(n: int, activation: Activation, digits: int) -> SmallestEigenvalue:
    """λ_min of n points in an arithmetic of so many digits."""
    context = multiprecision(digits + 10)
    half = n // 2
    angles = np.array([2 * context.pi * j / n for j in range(half + 1)], dtype=object)
    pairs = unit_pairs(angles)
    steep = abs(pairs.cosine[1:]).max() if half else context.mpf(0)
    mean, error, _ = pair_mean(activation, np.array([context.mpf(1)]), steep, context.mpf(10) ** -digits, 2)
    entries = mean(pairs) * pairs.cosine
    # The points j and n − j are the same but for 0 and, of an even n, n/2.
    shares: Any = np.array([1 if 2 * j in (0, n) else 2 for j in range(half + 1)], dtype=object) * entries
    turns = np.array([context.cos(2 * context.pi * j / n) for j in range(n)], dtype=object)
    index = np.arange(half + 1)
    value = min(shares @ turns[index * k % n] for k in range(half + 1))
    return SmallestEigenvalue(value, n * entries[0] * (error + 8 * (n + 10) * context.eps))
