"""Student's t test of a mean over random draws: confidence interval, p-value and verdict."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from implicit_bias.studies.runner.verdicts import Verdict

#: Confidence level of intervals, and of all decisions together.
LEVEL = 0.95


def student_interval(values: pd.Series, level: float = LEVEL) -> tuple[float, float]:
    """Return Student's confidence interval (low, high) of the mean; NaN for a single value.

    >>> student_interval(pd.Series([1.0, 2.0, 3.0]), 0.9)
    (0.31414..., 3.68585...)
    """
    mean = float(values.mean())
    half = float(stats.t.ppf((1 + level) / 2, len(values) - 1) * values.std() / np.sqrt(len(values)))
    return mean - half, mean + half


def student_p(values: pd.Series, limit: float = 0.0) -> float:
    """Return the two-sided p-value of Student's test that the mean equals a limit; NaN for a single value."""
    distance, error = values.mean() - limit, values.std() / np.sqrt(len(values))
    if error == 0:
        return float(distance == 0)
    return float(2 * stats.t.sf(abs(distance / error), len(values) - 1))


@dataclass(frozen=True, eq=False)
class MeanTest:
    """Student's t test of the claim that the mean of `values`, one for each seed, is above or below a limit."""

    claim: str
    #: Side of the limit on which the claim holds: 'above' or 'below'.
    relation: str
    limit: float
    #: A value for each random draw of data, gates and batches: in percent, or artanh of a correlation.
    values: pd.Series
    #: Text before the mean in the verdict.
    sides: str
    #: True if each draw has a separate split of the data.
    split: bool
    #: True if the values are artanh of correlations; the verdict then shows correlations.
    correlation: bool = False

    @property
    def interval(self) -> tuple[float, float]:
        """Confidence interval (low, high) of the mean at `LEVEL`; NaN for a single draw."""
        return student_interval(self.values)

    @property
    def p(self) -> float:
        """Two-sided p-value of the null hypothesis that the mean equals the limit; NaN for a single draw."""
        return student_p(self.values, self.limit)

    @property
    def ranks(self) -> tuple[int, float]:
        """Number of draws on the claim's side of the limit, and Wilcoxon's two-sided p; NaN for under five draws."""
        distance = (self.values - self.limit) * (1 if self.relation == "above" else -1)
        p = float(stats.wilcoxon(distance).pvalue) if len(distance) > 4 and distance.any() else np.nan
        return int((distance > 0).sum()), p

    def verdict(self, adjusted: float, count: int) -> Verdict:
        """Return the verdict by the side of the mean; undecided if `adjusted`, p for `count` tests, is ≥ 0.05."""
        shown = (lambda z: f"{np.tanh(z):.3f}") if self.correlation else (lambda z: f"{z:.2f}")
        low, high = self.interval
        found = f"{self.sides}{shown(self.values.mean())}"
        found += "" if np.isnan(low) else f" [{shown(low)}, {shown(high)}]"
        found += "" if self.correlation else " %"
        noun = ("draw" if self.split else "seed") + "s" * (len(self.values) != 1)
        draws = f"{len(self.values)} {noun}{'' if self.split else ' of one split'}"
        limit = shown(self.limit) if self.correlation else f"{self.limit:g} %" if self.limit else "0"
        above = (self.values.mean() > self.limit) == (self.relation == "above")
        return Verdict(
            self.claim,
            f"{found}; {draws}".replace("-", "−"),
            f"{self.relation} {limit} (Holm over {count})",
            bool(above) if adjusted < 1 - LEVEL else None,
        )


def difference(claim: str, terms: pd.DataFrame, *, split: bool, limit: float = 0.0) -> MeanTest:
    """Return the test that the sum of `terms` is above a limit; a row is a draw, a column a term in percent.

    If there are two terms, the second must have a minus sign, and the verdict shows the difference of the two means.
    """
    means = terms.mean().tolist()
    sides = f"{means[0]:.2f} − {-means[1]:.2f} = " if len(means) == 2 else ""
    return MeanTest(claim, "above", limit, terms.sum(axis=1), sides, split)


def decided(tests: Sequence[MeanTest]) -> list[Verdict]:
    """Return the verdict of each test, with p-values adjusted for the number of tests by Holm's method."""
    adjusted = holm([test.p for test in tests])
    return [test.verdict(p, len(tests)) for test, p in zip(tests, adjusted, strict=True)]


def holm(values: Sequence[float]) -> list[float]:
    """Return p-values adjusted by Holm's method, in the same order; NaN values stay NaN and do not count as tests."""
    order = np.argsort(values)
    tested = int(np.isfinite(values).sum())
    adjusted = np.array(values, dtype=float)
    steps = adjusted[order[:tested]] * np.arange(tested, 0, -1)
    adjusted[order[:tested]] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted.round(12).tolist()
