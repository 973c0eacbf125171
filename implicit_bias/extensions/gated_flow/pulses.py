"""Single pulses: one block of ones on a ring, longer in one class than in the other."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from implicit_bias._utils.checks import Array, InputError, as_count, check_size, shown
from implicit_bias.extensions.gated_flow.rings import Ring, as_class


@dataclass(frozen=True, eq=False)
class SinglePulse(Ring):
    """One circular block of ones on zeros, at a uniform start, its length uniform in the range of its class.

    Variants: `signs` has −1 in place of 0; `flip` turns the sign of each pattern with probability ½.

    Parameters
    ----------
    n : int
        Pixels.
    lengths : two ranges
        Lengths of class 0 and of class 1: a whole number, or the pair of the least and the largest; from 1 to n.
    signs, flip : bool
    labels, balanced, and errors : as for `RingProcess`

    References
    ----------
    Ours; the notes on localization, section 1, name a single pulse, a subset of {0, 1}^n, and do not define it.

    Examples
    --------
    >>> from implicit_bias.extensions.gated_flow.pulses import SinglePulse
    >>> X, y = SinglePulse(n=40, lengths=((5, 8), (1, 4))).sample(1000, seed=1)
    >>> sorted(set(X[y == 1].sum(axis=1).tolist()))
    [5.0, 6.0, 7.0, 8.0]
    >>> sorted(set(SinglePulse(signs=True, flip=True).sample(1000)[0].sum(axis=1).tolist()))
    [-34.0, -18.0, 18.0, 34.0]
    """

    n: int = 40
    lengths: Any = (11, 3)
    signs: bool = False
    flip: bool = False
    labels: tuple[float, float] = (1.0, -1.0)
    balanced: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", as_count(self.n, "n"))
        check_size(self.n, "a pattern")
        if not isinstance(self.lengths, tuple | list) or len(self.lengths) != 2:
            raise InputError(f"lengths must be two ranges, one per class, not {shown(self.lengths)}")
        ranges = []
        for given in self.lengths:
            pair = given if isinstance(given, tuple | list) else (given, given)
            if len(pair) != 2:
                raise InputError(f"a range of lengths is a pair of the least and the largest, not {shown(given)}")
            low, high = as_count(pair[0], "a length"), as_count(pair[1], "a length")
            if not low <= high <= self.n:
                raise InputError(f"lengths must rise and be at most n = {self.n}, not {low} to {high}")
            ranges.append((low, high))
        object.__setattr__(self, "lengths", tuple(ranges))
        self._check_labels()

    def mean(self, which: int) -> float:
        """E[x_i] of class 0 or 1, the same for every pixel i."""
        if self.flip:
            return 0.0
        share = sum(self.lengths[as_class(which)]) / (2 * self.n)
        return 2 * share - 1 if self.signs else share

    def second_moment(self, which: int) -> Array:
        """E[xxᵀ] of class 0 or 1, exact, shape (n, n): two pixels are in a block of ℓ for (ℓ−d)₊ + (ℓ−n+d)₊ starts."""
        low, high = self.lengths[as_class(which)]
        check_size(self.n**2, "a second moment")
        length, distance = np.arange(low, high + 1)[:, None], np.arange(self.n)
        starts = np.maximum(length - distance, 0) + np.where(distance > 0, np.maximum(length - self.n + distance, 0), 0)
        both = starts.mean(axis=0) / self.n
        if self.signs:
            both = 4 * both - 2 * (low + high) / self.n + 1
        return np.asarray(scipy.linalg.circulant(both))

    def _inputs(self, first: np.ndarray, rng: np.random.Generator) -> Array:
        low, high = np.array(self.lengths)[np.where(first, 0, 1)].T
        start, length = rng.integers(self.n, size=len(first)), rng.integers(low, high + 1)
        turned = np.where(rng.random(len(first)) < 0.5, -1.0, 1.0) if self.flip else np.ones(len(first))
        X = ((np.arange(self.n) - start[:, None]) % self.n < length[:, None]).astype(float)
        return turned[:, None] * (2 * X - 1 if self.signs else X)
