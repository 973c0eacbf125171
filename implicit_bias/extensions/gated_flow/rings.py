"""Two classes of patterns on a ring of pixels that differ in their length scale: Gaussian-type processes and pulses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
from scipy.special import erf

from implicit_bias._utils import checks
from implicit_bias._utils.checks import Array, InputError, shown

#: Relative size of negative eigenvalues that are set to 0; rounding and wrapping around the ring cause them.
NEGLIGIBLE = 1e-6
#: Smallest and largest gain; beyond them, 1 + 2g² and arcsin lose all digits.
GAINS = (1e-6, 1e6)
#: Smallest and largest label; beyond them, products with spectra under- or overflow.
LABELS = (1e-60, 1e60)
#: Smallest and largest eigenvalue.
SPECTRA = (1e-100, 1e100)


class Ring(ABC):
    """Patterns x ∈ R^n of two classes, 0 and 1, with a shift-invariant distribution on a ring of n pixels.

    Subclasses are `RingProcess` and `SinglePulse`. If `balanced`, half of the samples belong to each class, and the odd
    sample to either; otherwise each sample belongs to either class with probability ½.

    >>> from implicit_bias.extensions.gated_flow import SinglePulse
    >>> X, y = SinglePulse(n=8, lengths=(3, 1)).sample(4, seed=1)
    >>> X.sum(axis=1).tolist(), y.tolist()
    ([3.0, 3.0, 1.0, 1.0], [1.0, 1.0, -1.0, -1.0])
    """

    n: int
    labels: tuple[float, float]
    balanced: bool

    @abstractmethod
    def _inputs(self, first: np.ndarray, rng: np.random.Generator) -> Array:
        """Draw patterns (m, n), of class 0 where `first` (m,) is True and of class 1 elsewhere."""

    def sample(self, m: int, *, seed: int = 1) -> tuple[Array, Array]:
        """Return m samples X (m, n) in random order and their labels y (m,), `labels[c]` for class c.

        They are drawn by NumPy's PCG64 from a seed.
        """
        m = checks.as_count(m, "m")
        checks.check_size(m * self.n, "the samples")
        return self._draw(m, np.random.default_rng(checks.as_seed(seed)))

    def stream(self, chunks: int, size: int, *, seed: int = 1) -> Iterator[tuple[Array, Array]]:
        """Return an iterator over `chunks` independent samples X (size, n), y (size,), drawn by one random generator.

        Counts that are not positive raise InputError before the iteration starts.
        """
        chunks, size, seed = checks.as_count(chunks, "chunks"), checks.as_count(size, "size"), checks.as_seed(seed)
        checks.check_size(size * self.n, "a chunk")
        rng = np.random.default_rng(seed)
        return (self._draw(size, rng) for _ in range(chunks))

    def _draw(self, m: int, rng: np.random.Generator) -> tuple[Array, Array]:
        if self.balanced:
            first = np.arange(m) < (m + int(rng.integers(2))) // 2
            rng.shuffle(first)
        else:
            first = rng.random(m) < 0.5
        return self._inputs(first, rng), np.where(first, *self.labels)

    def _check_labels(self) -> None:
        labels = _as_pair(self.labels, "labels", "different", lambda pair: bool(pair[0] != pair[1]))
        checks.check_range(np.abs(labels), "labels", *LABELS)
        object.__setattr__(self, "labels", (float(labels[0]), float(labels[1])))
        checks.as_flag(self.balanced, "balanced")


@dataclass(frozen=True, eq=False)
class RingProcess(Ring):
    """Gaussian process with given spectra on a ring, optionally passed through erf.

        z ~ N(0, C),   C circulant with eigenvalues s_0, s_1, …, s_{n−1};   x = z, or
        x = erf(g z)/Z,   Z² = (2/π) arcsin(2g²/(1 + 2g²)),   Cov(x) = (2/(πZ²)) arcsin(2g²C/(1 + 2g²))

    Source: Williams (1998), "Computation with infinite neural networks", for the covariance. With erf(gz/√2), as
    elsewhere, the gain g of the same process is larger by a factor √2.

    Parameters
    ----------
    spectra : array, shape (2, n)
        s of each class, with s_f = s_{n−f}.
    gain : float, optional
        g, from 1e-6 to 1e6, which requires C_ii = 1. Without it x = z.
    labels : two numbers
        y of class 0 and of class 1.
    balanced : bool
        If True, half of the samples belong to each class; otherwise each sample is of either with probability ½.

    Raises
    ------
    InputError
        If a spectrum is negative (beyond 1e-6 of the largest, which counts as zero), not symmetric or all zero, C_ii is
        not 1 with a gain, or spectra, gain or labels are out of range.

    Examples
    --------
    >>> from implicit_bias.extensions.gated_flow import RingProcess
    >>> white = RingProcess([[1.0] * 4, [2.0] * 4])
    >>> white.covariance(1)[0].tolist(), white.sample(6)[0].shape
    ([2.0, 0.0, 0.0, 0.0], (6, 4))
    """

    spectra: Array
    gain: float | None = None
    labels: tuple[float, float] = (1.0, -1.0)
    balanced: bool = True

    def __post_init__(self) -> None:
        spectra = checks.as_floats(self.spectra, "spectra", 2)
        if len(spectra) != 2:
            raise InputError(f"spectra must have 2 rows, one per class, not {len(spectra)}")
        size = spectra.max(axis=1, keepdims=True)
        checks.check_range(np.abs(size[:, 0]), "spectra", *SPECTRA)
        if not (size > 0).all() or (spectra < -NEGLIGIBLE * size).any():
            raise InputError("spectra must be eigenvalues of covariances: none negative, and not all zero")
        if (np.abs(spectra[:, 1:] - spectra[:, :0:-1]) > NEGLIGIBLE * size).any():
            raise InputError("spectra must be symmetric: frequency f has the eigenvalue of frequency n − f")
        spectra = np.maximum((spectra + np.roll(spectra[:, ::-1], 1, axis=1)) / 2, 0.0)
        variances = spectra.mean(axis=1, keepdims=True)
        if self.gain is not None:
            gain = checks.as_positive(self.gain, "gain")
            if not GAINS[0] <= gain <= GAINS[1]:
                raise InputError(f"gain must lie between {GAINS[0]:g} and {GAINS[1]:g}, not {gain:g}")
            object.__setattr__(self, "gain", gain)
            if (np.abs(variances - 1) > NEGLIGIBLE).any():
                raise InputError("with a gain the latent variance must be 1; divide each spectrum by its mean")
            spectra = spectra / variances
        object.__setattr__(self, "spectra", spectra)
        self._check_labels()

    @property
    def n(self) -> int:  # type: ignore[override]
        """Number of pixels."""
        return int(self.spectra.shape[1])

    @property
    def saturation(self) -> float:
        """2g²/(1 + 2g²); 0 without a gain."""
        return 0.0 if self.gain is None else 2 * self.gain**2 / (1 + 2 * self.gain**2)

    @property
    def normaliser(self) -> float:
        """Z, the standard deviation of erf(g z); 1 without a gain."""
        return 1.0 if self.gain is None else float(np.sqrt(2 / np.pi * np.arcsin(self.saturation)))

    def latent(self, which: int) -> Array:
        """Return the covariance C of z for class 0 or 1, shape (n, n)."""
        checks.check_size(self.n**2, "a covariance")
        return np.asarray(scipy.linalg.circulant(np.fft.ifft(self.spectra[as_class(which)]).real))

    def covariance(self, which: int) -> Array:
        """Return the exact Cov(x) = E[xxᵀ] of class 0 or 1, shape (n, n)."""
        C = self.latent(which)
        if self.gain is None:
            return C
        return np.asarray(2 / np.pi * np.arcsin(self.saturation * np.minimum(C, 1.0)) / self.normaliser**2)

    def clone(self) -> RingProcess:
        """Return the Gaussian process with the covariances of this one.

        >>> from implicit_bias.extensions.gated_flow import nonlinear_gaussian_process
        >>> process = nonlinear_gaussian_process(gain=3.0)
        >>> bool(abs(process.clone().covariance(0) - process.covariance(0)).max() < 1e-12)
        True
        """
        spectra = np.stack([np.fft.fft(self.covariance(which)[0]).real for which in (0, 1)])
        return replace(self, spectra=spectra, gain=None)

    def _inputs(self, first: np.ndarray, rng: np.random.Generator) -> Array:
        # Half of the frequencies suffice for a real signal.
        roots = np.sqrt(self.spectra[:, : self.n // 2 + 1])[np.where(first, 0, 1)]
        z: Array = np.fft.irfft(np.fft.rfft(rng.normal(size=(len(first), self.n))) * roots, self.n)
        return z if self.gain is None else erf(self.gain * z) / self.normaliser


def nonlinear_gaussian_process(
    n: int = 40,
    length_scales: tuple[float, float] = (5.0, 1.0),
    gain: float = 1.0,
    labels: tuple[float, float] = (1.0, -1.0),
    balanced: bool = True,
) -> RingProcess:
    """Return the nonlinear Gaussian process (NLGP) with C_ij = exp(−d_ij²/ξ²) and gain g, as a `RingProcess`.

    d_ij is the distance on the ring. The process is Gaussian as g → 0, and its pixels are ±1 as g → ∞. This is ours,
    after Ingrosso & Goldt (2022), "Data-driven emergence of convolutional structure in neural networks", whose text we
    did not have. Section 1 of the notes on localization names the process and its gain without defining them.

    Parameters
    ----------
    n : int
        Number of pixels, at least 2.
    length_scales : two numbers
        ξ of class 0 and of class 1, positive and at most n/7; beyond about n/6.6, C is not a covariance (InputError).
        Near this limit, negative eigenvalues of up to 1e-6 of the largest are set to zero, which changes C by as
        little.
    gain, labels, balanced
        As for `RingProcess`, with the same errors.

    Examples
    --------
    >>> from implicit_bias.extensions.gated_flow import nonlinear_gaussian_process
    >>> process = nonlinear_gaussian_process(n=40, length_scales=(5.0, 1.0), gain=3.0)
    >>> process.covariance(0)[0, :3].round(3).tolist()
    [1.0, 0.919, 0.755]
    >>> X, y = process.sample(1000, seed=1)
    >>> X.shape, float(y.sum()), bool(abs(X).max() <= 1 / process.normaliser)
    ((1000, 40), 0.0, True)
    """
    n = checks.as_count(n, "n", least=2)
    checks.check_size(n * n, "a covariance")
    scales = _as_pair(length_scales, "length_scales", "positive", lambda pair: bool((pair > 0).all()))
    distance = np.minimum(np.arange(n), n - np.arange(n))
    with np.errstate(over="ignore"):
        spectra = np.fft.fft(np.exp(-((distance / scales[:, None]) ** 2))).real
    if (spectra < -NEGLIGIBLE * spectra.max(axis=1, keepdims=True)).any():
        raise InputError(
            f"exp(−d²/ξ²) is not a covariance on a ring of {n} pixels for length_scales of {scales.max():g}; "
            f"take them at most n/7 = {n / 7:.3g}"
        )
    spectra, gain = np.maximum(spectra, 0.0), checks.as_positive(gain, "gain")
    return RingProcess(spectra / spectra.mean(axis=1, keepdims=True), gain, labels, balanced)


def _as_pair(values: Any, name: str, kind: str, valid: Callable[[Array], bool]) -> Array:
    pair = checks.as_floats(values, name, 1) if checks.dimensions(values) == 1 else np.empty(0)
    if len(pair) != 2 or not valid(pair):
        raise InputError(f"{name} must be two {kind} numbers, one per class, not {shown(values)}")
    return pair


def as_class(which: Any) -> int:
    """Return the number of a class; raise InputError unless it is 0 or 1."""
    number = checks.as_count(which, "the class", least=0)
    if number > 1:
        raise InputError(f"the classes are numbered 0 and 1, not {shown(which)}")
    return number


@dataclass(frozen=True, eq=False)
class SinglePulse(Ring):
    """One block of ones on zeros, with a uniform start and a length uniform in the range of its class.

    The block may wrap around the ring. `signs` replaces 0 by −1; `flip` negates each pattern with probability ½. This
    is ours; section 1 of the notes on localization names a single pulse, a subset of {0, 1}^n, without defining it.

    Parameters
    ----------
    n : int
        Number of pixels.
    lengths : two ranges
        Lengths of class 0 and of class 1, from 1 to n: an integer, or a pair of the smallest and the largest length.
    signs, flip : bool
    labels, balanced
        As for `RingProcess`, with the same errors.

    Examples
    --------
    >>> from implicit_bias.extensions.gated_flow import SinglePulse
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
        object.__setattr__(self, "n", checks.as_count(self.n, "n"))
        checks.check_size(self.n, "a pattern")
        if not isinstance(self.lengths, tuple | list) or len(self.lengths) != 2:
            raise InputError(f"lengths must be two ranges, one per class, not {shown(self.lengths)}")
        ranges = []
        for given in self.lengths:
            pair = given if isinstance(given, tuple | list) else (given, given)
            if len(pair) != 2:
                raise InputError(f"a range of lengths is a pair of the least and the largest, not {shown(given)}")
            low, high = checks.as_count(pair[0], "a length"), checks.as_count(pair[1], "a length")
            if not low <= high <= self.n:
                raise InputError(f"lengths must rise and be at most n = {self.n}, not {low} to {high}")
            ranges.append((low, high))
        object.__setattr__(self, "lengths", tuple(ranges))
        self._check_labels()

    def mean(self, which: int) -> float:
        """Return E[x_i] of class 0 or 1, the same for every pixel i."""
        if self.flip:
            return 0.0
        share = sum(self.lengths[as_class(which)]) / (2 * self.n)
        return 2 * share - 1 if self.signs else share

    def second_moment(self, which: int) -> Array:
        """Return the exact E[xxᵀ] of class 0 or 1, shape (n, n).

        Of the n starts of a block of length ℓ on the ring, (ℓ−d)₊ + (ℓ−n+d)₊ cover both of two pixels at distance d,
        and ℓ cover one pixel. The result is the share of these starts, averaged over the lengths of the class; with
        `signs` it is converted to patterns of −1 and 1.
        """
        low, high = self.lengths[as_class(which)]
        checks.check_size(self.n**2, "a second moment")
        length, distance = np.arange(low, high + 1)[:, None], np.arange(self.n)
        starts = np.maximum(length - distance, 0) + np.where(distance > 0, np.maximum(length - self.n + distance, 0), 0)
        both = starts.mean(axis=0) / self.n
        if self.signs:
            both = 4 * both - 2 * (low + high) / self.n + 1
        return np.asarray(scipy.linalg.circulant(both))

    def _inputs(self, first: np.ndarray, rng: np.random.Generator) -> Array:
        low, high = np.array(self.lengths)[np.where(first, 0, 1)].T
        start, length = rng.integers(self.n, size=len(first)), rng.integers(low, high + 1)
        sign = np.where(rng.random(len(first)) < 0.5, -1.0, 1.0) if self.flip else np.ones(len(first))
        X = ((np.arange(self.n) - start[:, None]) % self.n < length[:, None]).astype(float)
        return sign[:, None] * (2 * X - 1 if self.signs else X)
