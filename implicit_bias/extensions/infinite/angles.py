"""Lengths and angles of pairs of points for Gram matrices, in doubles or in multiprecision."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from implicit_bias._utils.blocks import row_blocks
from implicit_bias._utils.checks import Array, as_floats, check_callable, check_range, check_size
from implicit_bias._utils.floats import length, unit_samples
from implicit_bias.extensions.infinite.special import Numbers, arccos, arctan2, cos, multiprecision, pi, sin, sqrt

#: Size of a cosine above which the angle is not computed by arccos, which loses half the digits at ±1.
MAX_ARCCOS = 0.9
#: Number of pairs of points whose differences are in memory at once.
PAIRS_PER_BLOCK = 4096
#: Number of rows whose cosines are computed at once.
ROWS_PER_CHUNK = 512
#: Entries of a block of the Gram matrix, few enough to stay in the processor's cache.
BLOCK_ENTRIES = 2**16
#: Callback with the number of finished pairs of points and of all pairs.
PairsDone = Callable[[int, int], None]


@dataclass(frozen=True)
class GaussianPairs:
    """Centred Gaussian pairs z = ⟨w, x⟩, z' = ⟨w, x'⟩ with w ~ N(0, I), as arrays that broadcast.

    `r` and `s` are the standard deviations ‖x‖ and ‖x'‖. `cosine` is cos θ, the correlation of z and z'. `angle` is θ,
    which cannot be recovered accurately from a cosine near ±1.
    """

    r: Numbers
    s: Numbers
    cosine: Numbers
    angle: Numbers

    @property
    def pi(self) -> Any:
        """π as a double, or in the precision of the angles."""
        return pi(self.angle)

    @cached_property
    def sine(self) -> Numbers:
        """sin θ, accurate also for small angles."""
        return sin(self.angle)


@dataclass(frozen=True)
class Points:
    """Nonzero points (n, d), directions (n, d) and lengths (n,), in float64 or as mpmath numbers (object arrays)."""

    rows: Numbers
    directions: Numbers
    norms: Numbers

    @classmethod
    def of(cls, X: ArrayLike, digits: int | None = None, normalise: bool = False, name: str = "X") -> Points:
        """Check X (n, d), called `name` in errors, and compute directions and lengths; `normalise` makes lengths 1."""
        rows = as_floats(X, name, 2)
        directions, norms = unit_samples(rows, True, name), length(rows, axis=1)
        check_range(norms, "the points", 1e-60, 1e60)
        check_size(len(rows) ** 2, "the Gram matrix")
        if digits is None:
            return cls(directions, directions, np.ones(len(rows))) if normalise else cls(rows, directions, norms)
        exact = np.frompyfunc(multiprecision(digits).mpf, 1, 1)(rows)
        lengths = sqrt((exact * exact).sum(axis=1))
        unit = exact / lengths[:, None]
        return cls(unit, unit, 0 * lengths + 1) if normalise else cls(exact, unit, lengths)

    def __len__(self) -> int:
        return len(self.norms)

    def blocks(
        self, others: Points | None = None, progress: PairsDone | None = None
    ) -> Iterator[tuple[slice, slice, GaussianPairs]]:
        """Yield all pairs with `others` in blocks, as row slice, column slice and pairs.

        Without `others`, these are pairs of the points themselves: each block has the columns from its first row on,
        and a point has a cosine of exactly 1 and an angle of 0 with itself.
        """
        second = self if others is None else others
        check_callable(progress, "progress")
        for chunk in row_blocks(len(self), ROWS_PER_CHUNK):
            left = 0 if others is not None else chunk.start
            cosines = self.directions[chunk] @ second.directions[left:].T
            for rows in row_blocks(len(cosines), max(1, BLOCK_ENTRIES // cosines.shape[1])):
                # By symmetry, no column left of the diagonal is needed.
                skipped = 0 if others is not None else rows.start
                columns = slice(left + skipped, len(second))
                rows_of = slice(chunk.start + rows.start, chunk.start + rows.stop)
                directions, cosine = (self.directions[rows_of], second.directions[columns]), cosines[rows, skipped:]
                cosine = cosine if cosine.dtype == object else np.clip(cosine, -1.0, 1.0)
                lengths = self.norms[rows_of, None], second.norms[None, columns]
                pairs = GaussianPairs(*lengths, cosine, _angles(*directions, cosine))
                if others is None:
                    same = np.arange(rows.stop - rows.start)
                    pairs.cosine[same, same], pairs.angle[same, same] = 1 + 0 * pairs.r[:, 0], 0 * pairs.r[:, 0]
                yield rows_of, columns, pairs
                if progress is not None:
                    done, n = rows_of.stop, len(self)
                    twice = (done * (done - 1) // 2, n * (n - 1) // 2) if others is None else (0, 0)
                    progress(done * len(second) - twice[0], n * len(second) - twice[1])


def open_together(X: Array, Z: Array) -> Array:
    """Return P(⟨u, x⟩ > 0, ⟨u, z⟩ > 0) = ½ − θ(x, z)/2π, shape (m, m'), for unit rows X (m, d) and Z (m', d)."""
    check_size(len(X) * len(Z), "the kernel")
    return (np.pi - _angles(X, Z, np.clip(X @ Z.T, -1.0, 1.0))) / (2 * np.pi)


def _angles(X: Numbers, Z: Numbers, cosines: Numbers) -> Numbers:
    """Return the angles (m, m') of unit rows X (m, d) and Z (m', d), accurate to a few units in the last place.

    The angle is arccos⟨x, z⟩, or 2 arctan(‖x − z‖/‖x + z‖) for nearly parallel rows, where arccos loses half the
    digits.
    """
    angles = arccos(cosines)
    parallel = np.argwhere(abs(cosines) > MAX_ARCCOS)
    for first in range(0, len(parallel), PAIRS_PER_BLOCK):
        i, j = parallel[first : first + PAIRS_PER_BLOCK].T
        differences, sums = X[i] - Z[j], X[i] + Z[j]
        angles[i, j] = 2 * arctan2(sqrt((differences * differences).sum(axis=1)), sqrt((sums * sums).sum(axis=1)))
    return angles


def repeated(X: Array, Z: Array, angles: Array, parallel: bool = False) -> NDArray[np.bool_]:
    """Return a mask (m, m'): True where rows of X and Z are exactly equal or, if `parallel`, positive multiples.

    Only pairs with a computed angle of 0 in `angles` (m, m') are compared. The angle alone does not suffice: layers
    that separate points would magnify a difference that rounding hides.
    """
    same: NDArray[np.bool_] = angles == 0
    close = np.argwhere(same)
    for first in range(0, len(close), PAIRS_PER_BLOCK):
        i, j = close[first : first + PAIRS_PER_BLOCK].T
        equal = (X[i] == Z[j]).all(axis=1)
        if parallel:
            equal[~equal] = [_are_parallel(x, z) for x, z in zip(X[i[~equal]], Z[j[~equal]], strict=True)]
        same[i, j] = equal
    return same


def _are_parallel(x: Array, z: Array) -> bool:
    """Return True if nonzero x and z (d,) are exactly multiples of each other, in rational arithmetic."""
    largest = int(np.abs(x).argmax())
    up, down = Fraction(float(x[largest])), Fraction(float(z[largest]))
    return all(Fraction(a) * down == Fraction(b) * up for a, b in zip(x.tolist(), z.tolist(), strict=True))


def symmetric(
    points: Points, entries: Callable[[GaussianPairs], Numbers], progress: PairsDone | None = None
) -> Numbers:
    """Return the symmetric matrix (n, n) of ⟨x_i, x_j⟩ e_ij, where `entries(pairs)` is e for a block of pairs."""
    n = len(points)
    values = np.empty((n, n), dtype=points.norms.dtype)
    for rows, columns, pairs in points.blocks(progress=progress):
        # Adding 0.0 turns −0.0 into 0.0.
        mirror(values, rows, columns, entries(pairs) * (points.rows[rows] @ points.rows[columns].T) + 0.0)
    return values


def mirror(values: Numbers, rows: slice, columns: slice, block: Numbers) -> None:
    """Write `block`, made symmetric in place, and its transpose into `values`; `columns` begin where `rows` do."""
    corner = np.tril_indices(len(block))
    block[corner] = block.T[corner]
    values[rows, columns] = block
    values[columns, rows] = block.T


def unit_pairs(angles: Numbers) -> GaussianPairs:
    """Return pairs of unit points (r = s = 1) at the given angles, an array of any shape."""
    ones = 0 * angles + 1
    return GaussianPairs(ones, ones, cos(angles), angles)
