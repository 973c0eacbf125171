"""Pairs of points as a Gram matrix needs them: lengths and angles, in doubles or in multiprecision."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from implicit_bias._utils.blocks import row_blocks
from implicit_bias._utils.checks import Array, as_floats, check_callable, check_range, check_size
from implicit_bias._utils.scaling import length, unit_samples
from implicit_bias.extensions.infinite.special import Number, Numbers, arccos, arctan2, cos, multiprecision, pi, sqrt

#: Cosines this large hide the angle from arccos, which loses half the digits at ±1.
STEEP = 0.9
#: Pairs of samples whose differences are held at once.
PAIRS_AT_ONCE = 4096
#: Rows whose cosines are computed at once.
ROWS = 512
#: Entries of a block of the Gram matrix: few enough to stay in the processor's cache.
BLOCK = 2**16
#: Called with how many pairs of points are done, and of how many.
PairsDone = Callable[[int, int], None]


@dataclass(frozen=True)
class GaussianPairs:
    """Centred Gaussian pairs z = ⟨w, x⟩, z' = ⟨w, x'⟩, w ~ N(0, I), as arrays that broadcast.

    `r` and `s` are the standard deviations ‖x‖ and ‖x'‖, `cosine` is cos θ, the correlation of z and z', and `angle` is
    θ itself, which a cosine near ±1 would not tell.
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
    """Points of any length but 0, and their rows divided by it: float64, or mpmath's numbers in arrays of objects."""

    rows: Numbers
    directions: Numbers
    norms: Numbers

    @classmethod
    def of(cls, X: ArrayLike, digits: int | None = None, normalise: bool = False, name: str = "X") -> Points:
        """Checked points (n, d), of length 1 if `normalise`; with `digits`, X is exact and the rest has so many digits.

        Raises InputError for a bad array, a row of zeros, and lengths outside 1e-60 … 1e60.
        """
        rows = as_floats(X, name, 2)
        directions, norms = unit_samples(rows, True, name), length(rows, axis=1)
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

    def blocks(
        self, others: Points | None = None, progress: PairsDone | None = None
    ) -> Iterator[tuple[slice, slice, GaussianPairs]]:
        """All pairs with the others, by rows and columns; without others, every pair i ≤ j of these, and more.

        Blocks without others begin on the diagonal, where the angle is 0, whatever rounding says. `progress` is called
        when the next block is asked for.
        """
        second = self if others is None else others
        check_callable(progress, "progress")
        for chunk in row_blocks(len(self), ROWS):
            left = 0 if others is not None else chunk.start
            cosines = self.directions[chunk] @ second.directions[left:].T
            for rows in row_blocks(len(cosines), max(1, BLOCK // cosines.shape[1])):
                # Without others nothing left of the diagonal is needed.
                skipped = 0 if others is not None else rows.start
                columns = slice(left + skipped, len(second))
                rows_of = slice(chunk.start + rows.start, chunk.start + rows.stop)
                found = self.gaussian_pairs(second, rows_of, columns, cosines[rows, skipped:])
                if others is None:
                    own = np.arange(rows.stop - rows.start)
                    found.cosine[own, own], found.angle[own, own] = 1 + 0 * found.r[:, 0], 0 * found.r[:, 0]
                yield rows_of, columns, found
                if progress is not None:
                    done, n = rows_of.stop, len(self)
                    twice = (done * (done - 1) // 2, n * (n - 1) // 2) if others is None else (0, 0)
                    progress(done * len(second) - twice[0], n * len(second) - twice[1])

    def gaussian_pairs(self, others: Points, rows: slice, columns: slice, cosine: Numbers) -> GaussianPairs:
        """The pairs of these rows with columns of others, at angles with these cosines but for rounding."""
        X, Z = self.directions[rows], others.directions[columns]
        cosine = cosine if self.norms.dtype == object else np.clip(cosine, -1.0, 1.0)
        return GaussianPairs(self.norms[rows, None], others.norms[None, columns], cosine, _angles(X, Z, cosine))


def open_together(X: Array, Z: Array) -> Array:
    """P(⟨u, x⟩ > 0, ⟨u, z⟩ > 0) = ½ − θ(x, z)/2π for unit rows X (m, d) and Z (m', d), shape (m, m')."""
    check_size(len(X) * len(Z), "the kernel")
    return (np.pi - _angles(X, Z, np.clip(X @ Z.T, -1.0, 1.0))) / (2 * np.pi)


def _angles(X: Numbers, Z: Numbers, cosines: Numbers) -> Numbers:
    """Angles (m, m') of unit rows X (m, d) and Z (m', d) from their cosines, known to some units of the last digit.

    The angle is arccos⟨x, z⟩, or 2 arctan(‖x − z‖/‖x + z‖) where the samples are so nearly parallel that the cosine
    would hide half the digits.
    """
    angles = arccos(cosines)
    steep = np.argwhere(abs(cosines) > STEEP)
    for first in range(0, len(steep), PAIRS_AT_ONCE):
        i, j = steep[first : first + PAIRS_AT_ONCE].T
        apart, along = X[i] - Z[j], X[i] + Z[j]
        angles[i, j] = 2 * arctan2(sqrt((apart * apart).sum(axis=1)), sqrt((along * along).sum(axis=1)))
    return angles


def repeated(X: Array, Z: Array, angles: Array, parallel: bool = False) -> NDArray[np.bool_]:
    """Which rows of X (m, d) and Z (m', d) at these angles (m, m') are one point, or parallel, without any rounding.

    An angle that rounds to 0 is not enough: layers that pull points apart double what rounding hid of it.
    """
    same: NDArray[np.bool_] = angles == 0
    close = np.argwhere(same)
    for first in range(0, len(close), PAIRS_AT_ONCE):
        i, j = close[first : first + PAIRS_AT_ONCE].T
        equal = (X[i] == Z[j]).all(axis=1)
        if parallel:
            equal[~equal] = [_are_parallel(x, z) for x, z in zip(X[i[~equal]], Z[j[~equal]], strict=True)]
        same[i, j] = equal
    return same


def _are_parallel(x: Array, z: Array) -> bool:
    """Whether two rows (d,) of no large angle are multiples of each other, in rational arithmetic."""
    most = int(np.abs(x).argmax())
    up, down = Fraction(float(x[most])), Fraction(float(z[most]))
    return all(Fraction(a) * down == Fraction(b) * up for a, b in zip(x.tolist(), z.tolist(), strict=True))


def symmetric(
    points: Points, entries: Callable[[GaussianPairs], Numbers], progress: PairsDone | None = None
) -> Numbers:
    """The symmetric matrix (n, n) whose blocks above the diagonal `entries` computes, times ⟨x, x'⟩."""
    n = len(points)
    values = np.empty((n, n), dtype=points.norms.dtype)
    for rows, columns, pairs in points.blocks(progress=progress):
        # No −0.0 where a mean is 0.
        block = entries(pairs) * (points.rows[rows] @ points.rows[columns].T) + 0.0
        mirror(values, rows, columns, block)
    return values


def mirror(values: Numbers, rows: slice, columns: slice, block: Numbers) -> None:
    """Set a block from the diagonal on, and its mirror image."""
    corner = np.tril_indices(len(block))
    block[corner] = block.T[corner]
    values[rows, columns] = block
    values[columns, rows] = block.T


def unit_pairs(angles: Numbers) -> GaussianPairs:
    """Pairs of unit points at these angles (…)."""
    angles = np.asarray(angles)
    ones = np.ones((), dtype=angles.dtype) if angles.dtype != object else 0 * angles + 1
    return GaussianPairs(ones, ones, cos(angles), angles)
