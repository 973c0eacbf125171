"""Findings on the ends of descents: the distance to the optimum, and effects of finite time, gates and norm.

Verdicts and the tables of a page, computed from the table of the study.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from implicit_bias.studies.limit.config import PLACE
from implicit_bias.studies.runner.mean_test import MeanTest, decided, difference
from implicit_bias.studies.runner.verdicts import Verdict, markdown, percent, where

#: Largest ratio at which the end of a descent counts as the optimum.
REACHED = 1.01
#: Largest ratio at which the claim on several gated layers holds.
HALF = 2.0
#: Columns that identify a cell of a network.
CELL = ["train_size", "units", "momentum"]
#: Stages of a network, in the order of the columns.
PLACES = {"sgd": "after training", "plain": "plain descent", "loss-scaled": "at the limit"}
#: A side of a contrast: network and descent, whose last rows are compared, and column.
Side = tuple[str, str, str]
GD_GLN, GD_RELU, RANDOM_GATES, ITS_GATES = (
    (network, "sgd", "error") for network in ("gln", "learned-relu", "random-relu", "retrained-relu")
)
GLN_LIMIT, RELU_LIMIT, FROZEN_LIMIT = ((name, "loss-scaled", "error") for name in ("gln", "learned-relu", "relu"))
RC, LC = ((network, "sgd", "svm_error") for network in ("random-relu", "retrained-relu"))
RELU_APART, GLN_APART = ((network, "sgd", "inconsistency") for network in ("learned-relu", "gln"))
#: Claims that the first side is above the second in the same cells.
CONTRASTS: dict[str, tuple[Side, Side]] = {
    "GD-GLN errs more than its limit": (GD_GLN, GLN_LIMIT),
    "GD-ReLU errs more than the limit behind its frozen gates": (GD_RELU, FROZEN_LIMIT),
    "GD-ReLU errs more than the limit of learned gates": (GD_RELU, RELU_LIMIT),
    "the limit behind frozen gates errs more than that of learned gates": (FROZEN_LIMIT, RELU_LIMIT),
    "GD-FReLU with random gates errs more than its limit, SVM-RC": (RANDOM_GATES, RC),
    "GD-FReLU with learned gates errs more than its limit, SVM-LC": (ITS_GATES, LC),
    "GD-FReLU with random gates errs more than GD-FReLU with learned gates": (RANDOM_GATES, ITS_GATES),
    "SVM-RC errs more than SVM-LC": (RC, LC),
    "GD-ReLU errs more than GD-FReLU with its gates": (GD_RELU, ITS_GATES),
    "GD-ReLU disagrees with SVM-LC more than GD-FReLU with its gates":
        (RELU_APART, ("retrained-relu", "sgd", "inconsistency")),
    "GD-ReLU disagrees with SVM-LC more than the limit of learned gates with that of its own":
        (RELU_APART, ("learned-relu", "loss-scaled", "inconsistency")),
    "SVM-Fro errs more than SVM-GLN": (("gln", "sgd", "frobenius_error"), ("gln", "sgd", "svm_error")),
    "GD-GLN disagrees with SVM-Fro more than with SVM-GLN": (("gln", "sgd", "frobenius_inconsistency"), GLN_APART),
    "the limit of GD-GLN disagrees with SVM-Fro more than with SVM-GLN":
        (("gln", "loss-scaled", "frobenius_inconsistency"), ("gln", "loss-scaled", "inconsistency")),
    "GD-ReLU disagrees with the Frobenius norm on its gates more than with SVM-LC":
        (("learned-relu", "sgd", "frobenius_inconsistency"), RELU_APART),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Contrast:
    """Test of a contrast at one size (train_size, units), over the momenta at which all seeds have both sides."""

    train_size: int
    units: int
    momenta: tuple[float, ...]
    test: MeanTest


def ends(table: pd.DataFrame) -> pd.DataFrame:
    """Return the last row of every descent, and of every cell that is not separable."""
    return table.groupby([*PLACE, "draw", "descent"], sort=False, dropna=False).tail(1)


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    """Return verdicts on the last rows of all descents.

    For every network, verdicts state whether loss-scaled descent ends at the certified optimum, and whether plain
    descent ends farther from it. If there are several seeds, contrasts of which the table has both sides follow. The
    value of a seed is the mean difference over all sizes and momenta that all seeds have. Student's t tests are
    adjusted for their number by Holm's method.

    >>> place = {"train_size": 9, "units": 3, "momentum": 0.0, "network": "gln", "ratio": float("nan"), "draw": 0}
    >>> ends = [dict(place, seed=s, descent=d, error=e + s * t / 1e4, end="finished")
    ...         for s in range(5) for d, e, t in (("sgd", 0.12, 2), ("loss-scaled", 0.10, 1))]
    >>> found = verdicts(pd.DataFrame(ends).assign(normalised_margin=0.1))
    >>> print([one for one in found if "GD-GLN" in one.claim][0].found)
    12.04 − 10.02 = 2.02 [2.00, 2.04] %; 5 seeds of one split
    """
    last = ends(table)
    reached = [one for network, part in last.groupby("network", sort=False) for one in _reached(str(network), part)]
    return reached + decided([_tested(claim, pair) for claim, pair in _pairs(last)])


def contrasts(table: pd.DataFrame) -> list[Contrast]:
    """Return every contrast at every size, without adjustment for the number of tests; none with one seed."""
    found = []
    for claim, pair in _pairs(ends(table)):
        size: Any
        for size, part in pair.groupby(level=["train_size", "units"]):
            momenta = tuple(part.index.unique("momentum"))
            found.append(Contrast(size[0], size[1], momenta, _tested(claim, part)))
    return found


def _reached(network: str, part: pd.DataFrame) -> list[Verdict]:
    """Return the verdicts on the ratios to the optimum at the ends of a network's descents; none without ratios.

    They are whether loss-scaled descent ends at a ratio of at most REACHED in all cells, and plain descent at a larger
    one than loss-scaled in all cells that have both. Deep networks have the verdict of `_bounded` instead.
    """
    scaled, plain = (part[part.descent == name] for name in ("loss-scaled", "plain"))
    known = scaled[scaled.ratio.notna()]
    if known.empty:
        return []
    if network.startswith("deep"):
        return [_bounded(network, known)]
    reached, cells = int((known.ratio <= REACHED).sum()), len(known)
    claim = f"loss-scaled descent of {network} ends at the certified optimum"
    found = f"{reached} of {cells} cells, {_about(known)}"
    verdicts = [Verdict(claim, found, f"ratio at most {REACHED} in all", reached == cells)]
    cell = [*CELL, "seed", "draw"]
    pair = pd.concat(
        [one.set_index(cell).ratio for one in (plain, scaled)], axis=1, keys=["above", "below"], join="inner"
    )
    if len(pair):
        farther = None if pair.isna().any(axis=None) else bool((pair.above > pair.below).all())
        claim = f"plain descent of {network} ends farther from it"
        verdicts.append(Verdict(claim, _about(plain), "a larger ratio", farther))
    return verdicts


def _bounded(network: str, known: pd.DataFrame) -> Verdict:
    """Return the verdict whether the best start of a deep network has a ratio of at most HALF in every cell of `known`.

    It is undecided otherwise, because the bound need not be attained.
    """
    best = known.groupby([*CELL, "seed"]).ratio.min()
    return Verdict(
        f"the best start of {network} has at least half of the largest margin that its gates allow",
        f"ratio to the certified bound {best.min():.3f} to {best.max():.3f} in {len(best)} cells; of all starts "
        f"{known.ratio.min():.3f} to {known.ratio.max():.3f}",
        f"at most {HALF:g} in all",
        True if best.max() <= HALF else None,
    )


def _about(part: pd.DataFrame) -> str:
    """Return the largest ratio and inconsistency of some rows as text."""
    if part.ratio.isna().all():
        return "no ratio is known"
    apart = part.inconsistency.max()
    told = f", inconsistency up to {100 * apart:.2f} %" if pd.notna(apart) else ""
    return f"ratio up to {part.ratio.max():.4f}{told}"


def _pairs(last: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield every claim with its two sides in percent: rows are cells that all seeds have, columns (side, seed)."""
    seeds = last.seed.unique()
    every = pd.MultiIndex.from_product([["above", "below"], seeds])
    for claim, sides in CONTRASTS.items():
        above, below = (_quantity(last, *side) for side in sides)
        both = pd.concat([above, below], axis=1, keys=["above", "below"], join="inner")
        pair = pd.DataFrame(both.unstack("seed")).reindex(columns=every).dropna()
        if len(seeds) > 1 and len(pair):
            yield claim, pair


def _quantity(last: pd.DataFrame, network: str, descent: str, column: str) -> pd.Series:
    """Return a column of a side in percent, without NaN, indexed by `CELL` and seed."""
    part = where(last, network=network, descent=descent).set_index([*CELL, "seed"])
    return 100 * part.reindex(columns=[column])[column].dropna()


def _tested(claim: str, pair: pd.DataFrame) -> MeanTest:
    """Return the test of the mean difference of each seed; cells that differ only in momentum count once."""
    pair = pair[~pair.reset_index("momentum", drop=True).reset_index().duplicated().to_numpy()]
    sides = pd.DataFrame({"above": pair["above"].mean(), "below": -pair["below"].mean()})
    return difference(claim, sides, split=False)


def tables(table: pd.DataFrame) -> str:
    """Return Markdown with a table of ends for each n and, if there are several seeds, a table of contrasts."""
    last = ends(table)
    parts = [
        "### Ends\n\nErrors, and inconsistencies with the SVM of the network's gates, in percent: means over seeds. "
        "Ratios are those at the limit. `relu` is trained as `learned-relu` is."
    ]
    parts += [f"#### n = {n}\n\n{_ends(part)}" for n, part in last.groupby("train_size")]
    if last.seed.nunique() > 1:
        parts.append(
            "### Differences\n\nIn percentage points, over the momenta at which all seeds have both sides (of one of "
            "them alone where it is named), ± half of Student's 95 % interval; bold where that leaves 0 out. No "
            "interval knows of the others."
        )
        parts += [f"#### n = {n}\n\n{_differences(part)}" for n, part in last.groupby("train_size")]
    return "\n\n".join(parts)


def _ends(last: pd.DataFrame) -> str:
    """Return a Markdown table of one n: rows are H, momentum and network; means over seeds of errors, and ratios."""
    known = [name for name in PLACES if name in set(last.descent)]
    far = [name for name in known if name != "plain"]
    apart = ", ".join(PLACES[name] for name in far)
    head = ["H, momentum", "`--network`", *(f"error {PLACES[name]}" for name in known)]
    seeds = last.seed.nunique()
    rows = [[*head, "of the SVM", "ratio", f"inconsistency {apart}"]]
    for (units, momentum), cells in last.groupby(["units", "momentum"]):
        for index, (name, part) in enumerate(cells.groupby("network", sort=False)):
            own = {descent: part[part.descent == descent] for descent in known}
            limit = own[known[-1]]
            place = f"{units}, {momentum:g}" if not index else ""
            errors = [percent(own[descent].error) + _fewer(own[descent], seeds) for descent in known]
            ratios = limit.ratio.dropna()
            span = " to ".join(dict.fromkeys((f"{ratios.min():.3f}", f"{ratios.max():.3f}"))) if len(ratios) else ""
            away = ", ".join(percent(own[descent].inconsistency) for descent in far)
            rows.append([place, f"`{name}`", *errors, percent(limit.svm_error), span, away])
    return markdown(rows)


def _fewer(part: pd.DataFrame, seeds: int) -> str:
    count = part.seed.nunique()
    return "" if count in (0, seeds) else f" ({count} of {seeds} seeds)"


def _differences(last: pd.DataFrame) -> str:
    """Return a Markdown table of contrasts of one n: rows are claims, columns H, with intervals without adjustment."""
    momenta = last.groupby(CELL[:2]).momentum.nunique()
    sizes = sorted(set(last.units))
    found: dict[str, dict[int, str]] = {}
    for one in contrasts(last):
        alone = len(one.momenta) == 1 < momenta[one.train_size, one.units]
        (low, high), mean = one.test.interval, one.test.values.mean()
        told = f"{mean:.2f} ± {(high - low) / 2:.2f}".replace("-", "−")
        told = f"**{told}**" if low > 0 or high < 0 else told
        told += f" (momentum {one.momenta[0]:g})" if alone else ""
        found.setdefault(one.test.claim, {})[one.units] = told
    rows = [["claim", *(f"H = {units}" for units in sizes)]]
    rows += [[claim, *(own.get(units, "–") for units in sizes)] for claim, own in found.items()]
    return markdown(rows)
