"""Verdicts on IPRs of trainings that may still drift, and declarations that these experiments share."""

import numpy as np
import pandas as pd

from implicit_bias._utils.checks import Array
from implicit_bias.studies.localization.drawing import LOCAL
from implicit_bias.studies.localization.networks import seconds
from implicit_bias.studies.runner import Verdict, claims

REVISION = 2
RULE = claims("localization", "drift")["local"]
CLAIMS = {"local": RULE}
cost = seconds


def sides(part: pd.DataFrame) -> Array:
    """Return 1 for every row of `part` whose ipr is above `LOCAL`, −1 if it is below, and 0 if it may yet cross it.

    An IPR may cross it if its distance from `LOCAL` is less than `RULE`'s multiple of `change`, or if the
    column `near` is given and true (see `approaches`).
    """
    away = part.ipr - LOCAL
    near = (away.abs() < RULE.limits["times"] * part.change) | part.get("near", False)
    return np.where(near, 0, np.sign(away)).astype(int)


def approaches(steps: pd.Series, iprs: pd.Series) -> bool:
    """True if an IPR came nearer to `LOCAL` in each of the last doublings of steps, and no more slowly in the last."""
    ends = steps.iloc[-1] / 2.0 ** np.arange(RULE.limits["doublings"], -1, -1)
    nearer = -np.diff(np.abs(np.interp(ends, steps, iprs) - LOCAL))
    return bool((nearer > 0).all() and nearer[-1] >= nearer[-2])


def decide_local(claim: str, found: str, part: pd.DataFrame, relation: str = "above", *, some: bool = False) -> Verdict:
    """Return the verdict that all IPRs, or one if `some`, are 'above' or 'below' `LOCAL`; undecided without `sides`."""
    threshold = f"{relation} {LOCAL:g} {RULE.verdict('', None).threshold}"
    part = part.dropna(subset="ipr")
    if part.empty:
        return Verdict(claim, "too few cells", threshold, None)
    hits = sides(part) * (1 if relation == "above" else -1)
    best, worst = (hits.max(), hits.min())
    side = best if some else worst
    found = f"{found}; drift up to {part.change.max():.3f}"
    return Verdict(claim, found, threshold, None if side == 0 else bool(side > 0))
