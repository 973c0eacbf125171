"""Pairs of points as a Gram matrix needs them: lengths and angles, in doubles or in multiprecision."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from implicit_bias.ground.checks import Array, as_floats, check_range, check_size
from implicit_bias.ground.scaling import length, unit_samples
from implicit_bias.kernels.special import Number, Numbers, arctan2, cos, multiprecision, pi, sqrt

#: Cosines this large hide the angle from arccos, which loses half the digits at ±1.
STEEP = 0.9
#: Pairs of samples whose differences are held at once.
PAIRS_AT_ONCE = 4096
#: Entries of a block of the Gram matrix: few enough to stay in the processor's cache.
BLOCK = 2**16


@dataclass(frozen=True)
class GaussianPairs:
    """Centred Gaussian pairs z = ⟨w, x⟩, z' = ⟨w, x'⟩, w ~ N(0, I), as arrays that broadcast.

    Attributes
    ----------
    r, s : array
        The standard deviations ‖x‖ and ‖x'‖.
    cosine, angle : array
        cos θ, the correlation of z and z', and θ itself, which a cosine near ±1 would not tell.
    """

    r: Numbers
    s: Numbers
    cosine: Numbers
    angle: Numbers

    @property
    def pi(self) -> Number:
        """π in the arithmetic of the pairs."""
        return pi(self.angle)


@dataclass(frozen=True)
class Points:
    """Points of any length but 0, their rows divided by it.

    Attributes
    ----------
    rows, directions : array, shape (n, d)
    norms : array, shape (n,)
        All float64, or all mpmath's numbers in arrays of objects.
    """

    rows: Numbers
    directions: Numbers
    norms: Numbers

    @classmethod
    def of(cls, X: ArrayLike, digits: int | None = None, normalise: bool = False) -> Points:
        """Checked points (n, d), of length 1 if `normalise`; with `digits`, X is exact and the rest has so many digits.

        Raises InputError for a bad array, a row of zeros, and lengths outside 1e-60 … 1e60.
        """
        rows = as_floats(X, "X", 2)
        directions, norms = unit_samples(rows, normalise=True), length(rows, axis=1)
        check_range(norms, "the points", 1e-60, 1e60)
        check_size(len(rows) ** 2, "the Gram matrix")
        if digits is None:
            return cls(directions, directions, np.ones(len(rows))) if normalise else cls(rows, directions, norms)
        exact = np.frompyfunc(multiprecision(digits).mpf, 1, 1)(rows)
        many = sqrt((exact * exact).sum(axis=1))
        unit = exact / many[:, None]
        return cls(unit, unit, 0 * many + 1) if normalise else cls(exact, unit, many)

    def __len__(self) -> int:
        return len(self.norms)

    def blocks(self) -> Iterator[tuple[slice, GaussianPairs]]:
        """The pairs of some rows i with all j from the first of them on; together, every pair i ≤ j."""
        n, first = len(self), 0
        while first < n:
            rows = slice(first, min(n, first + max(1, BLOCK // (n - first))))
            yield rows, self.gaussian_pairs(rows)
            first = rows.stop

    def gaussian_pairs(self, rows: slice) -> GaussianPairs:
        """The pairs of these rows with those from the first of them on."""
        chosen, others = self.directions[rows], self.directions[rows.start :]
        r, s = self.norms[rows, None], self.norms[None, rows.start :]
        cosine = chosen @ others.T
        if self.norms.dtype == object:
            angle = many_angles(chosen, others, cosine)
        else:
            cosine, angle = np.clip(cosine, -1.0, 1.0), np.pi - 2 * np.pi * open_together(chosen, others)
        # A point and itself, whatever rounding says.
        own = np.arange(len(chosen))
        cosine[own, own], angle[own, own] = 1 + 0 * self.norms[rows], 0 * self.norms[rows]
        return GaussianPairs(r, s, cosine, angle)


def open_together(X: Array, Z: Array) -> Array:
    """P(⟨u, x⟩ > 0, ⟨u, z⟩ > 0) = ½ − θ(x, z)/2π for unit rows X (m, d) and Z (m', d), shape (m, m').

    The angle is arccos⟨x, z⟩, or 2 arctan(‖x − z‖/‖x + z‖) where the samples are nearly parallel.
    """
    check_size(len(X) * len(Z), "the kernel")
    cosines = np.clip(X @ Z.T, -1.0, 1.0)
    angles: Array = np.arccos(cosines)
    steep = np.argwhere(np.abs(cosines) > STEEP)
    for first in range(0, len(steep), PAIRS_AT_ONCE):
        i, j = steep[first : first + PAIRS_AT_ONCE].T
        apart = np.linalg.norm(X[i] - Z[j], axis=1), np.linalg.norm(X[i] + Z[j], axis=1)
        angles[i, j] = 2 * np.arctan2(*apart)
    return (np.pi - angles) / (2 * np.pi)


def many_angles(X: Numbers, Z: Numbers, cosines: Numbers) -> Numbers:
    """Angles (m, m') of unit rows X (m, d), Z (m', d) in multiprecision, each known to some units of its last digit.

    2 arctan(‖x − z‖/‖x + z‖) where the points are so nearly parallel that the cosine would hide half the digits.
    """
    angles = np.empty(cosines.shape, dtype=object)
    steep = abs(cosines) > STEEP
    flat = cosines[~steep]
    angles[~steep] = arctan2(sqrt(1 - flat * flat), flat)
    i, j = np.nonzero(steep)
    apart, along = X[i] - Z[j], X[i] + Z[j]
    angles[steep] = 2 * arctan2(sqrt((apart * apart).sum(axis=1)), sqrt((along * along).sum(axis=1)))
    return angles


def symmetric(points: Points, entries: Callable[[GaussianPairs], Numbers]) -> Numbers:
    """The symmetric matrix (n, n) whose blocks above the diagonal `entries` computes, times ⟨x, x'⟩."""
    n = len(points)
    values = np.empty((n, n), dtype=points.norms.dtype)
    for rows, pairs in points.blocks():
        # No −0.0 where a mean is 0.
        block = entries(pairs) * (points.rows[rows] @ points.rows[rows.start :].T) + 0.0
        corner = np.tril_indices(len(block))
        block[corner] = block.T[corner]
        values[rows, rows.start :] = block
        values[rows.start :, rows] = block.T
    return values


def unit_pairs(angles: Numbers) -> GaussianPairs:
    """Pairs of unit points at these angles (…)."""
    angles = np.asarray(angles)
    ones = np.ones((), dtype=angles.dtype) if angles.dtype != object else 0 * angles + 1
    return GaussianPairs(ones, ones, cos(angles), angles)
