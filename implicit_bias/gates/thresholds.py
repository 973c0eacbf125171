"""Gates made of hyperplanes, and where their cutoffs divide the samples."""

import math
import numbers
from typing import Any, Self, cast

import numpy as np
from scipy.special import ndtr

from implicit_bias._utils.checks import Array, InputError, as_numbers, as_real, shown
from implicit_bias.features.inputs import ChunkedInputs
from implicit_bias.gates.base import Gates

#: Hyperplanes whose projections of all inputs are held at once.
FIT_AT_ONCE = 64


Cutoff = str | float | tuple[float, float]


class ThresholdGates(Gates):
    """Base of the gates made of hyperplanes: `directions_` v (p, d), whose ⟨v, x⟩ is compared with `cutoffs_` (p,)."""

    directions_: Array
    cutoffs_: Array
    learned = ("n_features_in_", "directions_", "cutoffs_")

    def restore(self, **learned: Any) -> Self:
        """As for all gates; one direction of n_features_in_ numbers per cutoff, none at all for one context."""
        planes, inputs = np.size(learned["cutoffs_"]), int(learned["n_features_in_"])
        as_numbers(learned["cutoffs_"], (planes,), "the gates' cutoffs")
        as_numbers(learned["directions_"], (planes, inputs), "the gates' directions")
        return super().restore(**learned)

    def _first_inputs(self, X: Any, sample_weight: Any) -> tuple[Any, Array | None]:
        """As for all gates; `ChunkedInputs` stay as they are, for only their projections are asked for."""
        if not isinstance(X, ChunkedInputs):
            return super()._first_inputs(X, sample_weight)
        if sample_weight is not None:
            raise InputError("fit the gates on ChunkedInputs without sample_weight, or on an array of some samples")
        self.__dict__.pop(self.learned[-1], None)
        self.n_features_in_ = X.shape[1]
        return X, None

    def _project(self, X: Any) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            projections: Array = self._fitted_inputs(X) @ self.directions_.T
        if not np.isfinite(projections).all():
            raise InputError("the inputs are so large that their projections overflow; scale them down")
        return projections

    def _fit_cutoffs(self, X: Any, random: Array, spread: float, cutoff: Cutoff, weight: Array | None) -> Array:
        """The cutoffs (p,) that `cutoff` asks for; `random` are the drawn ones, N(0, spread²)."""
        if cutoff == "random":
            return random
        if isinstance(cutoff, numbers.Real):
            return np.full(len(random), float(cutoff))
        cutoffs = np.empty(len(random))
        for first in range(0, len(random), FIT_AT_ONCE):
            block = slice(first, first + FIT_AT_ONCE)
            cutoffs[block] = self._divide(X @ self.directions_[block].T, random[block] / spread, cutoff, weight)
        return cutoffs

    @staticmethod
    def _divide(projections: Array, levels: Array, cutoff: Cutoff, weight: Array | None) -> Array:
        """The median, or the quantile at a normally distributed level, of each projection (N, p)."""
        size = np.abs(projections).max(axis=0, initial=0.0)
        constant = np.ptp(projections, axis=0) <= 1e-12 * size
        if constant.any():
            raise InputError(
                f"a hyperplane's projections are the same for all inputs (n_samples = {len(projections)}), so "
                f"cutoff={cutoff!r} cannot divide them; give more varied inputs, or cutoff='random' or a number"
            )
        # Raised at rounding level: a sample that is the median or quantile itself is closed however it is computed.
        if cutoff == "median" and weight is None:
            return np.asarray(np.median(projections, axis=0) + 1e-12 * size)
        low, high = (0.5, 0.5) if cutoff == "median" else cast(tuple[float, float], cutoff)
        shares = zip(projections.T, low + (high - low) * ndtr(levels), strict=True)
        return np.array([quantile(p, share, weight) for p, share in shares]) + 1e-12 * size


def quantile(values: Array, share: float, weight: Array | None = None) -> float:
    """The least of the values (N,) that `share` of all weight does not exceed; midway to the next where it is exact.

    The inverse of the distribution function, averaged at its jumps: the median for a half, and the same for weights 2
    as for two copies.

    >>> quantile(np.array([1.0, 2.0, 4.0]), 0.5, np.array([1.0, 1.0, 2.0])), quantile(np.array([1.0, 1.0, 4.0]), 0.5)
    (3.0, 1.0)
    """
    if weight is None:
        return float(np.quantile(values, share, method="averaged_inverted_cdf"))
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weight[order])
    aim, slack = share * reached[-1], 1e-12 * reached[-1]
    first, last = np.searchsorted(reached, [aim - slack, aim + slack])
    return float(values[order[[first, min(last, len(order) - 1)]]].mean())


def check_cutoff(cutoff: Any) -> None:
    """Refuse a cutoff that is not 'median', 'random', a finite number or a range of quantile levels."""
    if isinstance(cutoff, str) and cutoff in ("median", "random"):
        return
    if math.isfinite(as_real(cutoff)):
        return
    pair = isinstance(cutoff, (tuple, list)) and len(cutoff) == 2 and all(isinstance(q, numbers.Real) for q in cutoff)
    if pair and 0 <= cutoff[0] <= cutoff[1] <= 1:
        return
    raise InputError(
        "cutoff must be 'median', 'random', a finite number or a range of quantile levels such as (0.25, 0.75), "
        f"not {shown(cutoff)}"
    )
