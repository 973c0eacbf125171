"""Findings on the ends of descents: the distance to the optimum, and effects of finite time, gates and norm.

Verdicts, and the tables of a page, from the table of the study.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from implicit_bias.studies.limit.config import PLACE
from implicit_bias.studies.runner.mean_test import MeanTest, decided, difference
from implicit_bias.studies.runner.verdicts import Verdict, markdown, percent, where

#: A ratio up to which a descent counts as at the optimum.
REACHED = 1.01
#: Ratio up to which a claim holds of several gated layers.
HALF = 2.0
#: Columns that identify a cell of a network.
CELL = ["train_size", "units", "momentum"]
#: Stages of a network, in the order of the columns.
PLACES = {"sgd": "after training", "plain": "plain descent", "loss-scaled": "at the limit"}
#: An end of a descent, and a column of it: network, descent, column.
Side = tuple[str, str, str]
#: Claims that the first is above the second, on the same cells.
CONTRASTS: dict[str, tuple[Side, Side]] = {
    "GD-GLN errs more than its limit":
        (("gln", "sgd", "error"), ("gln", "loss-scaled", "error")),
    "GD-ReLU errs more than the limit behind its frozen gates":
        (("learned-relu", "sgd", "error"), ("relu", "loss-scaled", "error")),
    "GD-ReLU errs more than the limit of learned gates":
        (("learned-relu", "sgd", "error"), ("learned-relu", "loss-scaled", "error")),
    "the limit behind frozen gates errs more than that of learned gates":
        (("relu", "loss-scaled", "error"), ("learned-relu", "loss-scaled", "error")),
    "GD-FReLU with random gates errs more than its limit, SVM-RC":
        (("random-relu", "sgd", "error"), ("random-relu", "sgd", "svm_error")),
    "GD-FReLU with learned gates errs more than its limit, SVM-LC":
        (("retrained-relu", "sgd", "error"), ("retrained-relu", "sgd", "svm_error")),
    "GD-FReLU with random gates errs more than GD-FReLU with learned gates":
        (("random-relu", "sgd", "error"), ("retrained-relu", "sgd", "error")),
    "SVM-RC errs more than SVM-LC":
        (("random-relu", "sgd", "svm_error"), ("retrained-relu", "sgd", "svm_error")),
    "GD-ReLU errs more than GD-FReLU with its gates":
        (("learned-relu", "sgd", "error"), ("retrained-relu", "sgd", "error")),
    "GD-ReLU disagrees with SVM-LC more than GD-FReLU with its gates":
        (("learned-relu", "sgd", "inconsistency"), ("retrained-relu", "sgd", "inconsistency")),
    "GD-ReLU disagrees with SVM-LC more than the limit of learned gates with that of its own":
        (("learned-relu", "sgd", "inconsistency"), ("learned-relu", "loss-scaled", "inconsistency")),
    "SVM-Fro errs more than SVM-GLN":
        (("gln", "sgd", "frobenius_error"), ("gln", "sgd", "svm_error")),
    "GD-GLN disagrees with SVM-Fro more than with SVM-GLN":
        (("gln", "sgd", "frobenius_inconsistency"), ("gln", "sgd", "inconsistency")),
    "the limit of GD-GLN disagrees with SVM-Fro more than with SVM-GLN":
        (("gln", "loss-scaled", "frobenius_inconsistency"), ("gln", "loss-scaled", "inconsistency")),
    "GD-ReLU disagrees with the Frobenius norm on its gates more than with SVM-LC":
        (("learned-relu", "sgd", "frobenius_inconsistency"), ("learned-relu", "sgd", "inconsistency")),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Contrast:
    """A claim's difference at one size, over the momenta at which all seeds have both sides."""

    train_size: int
    units: int
    momenta: tuple[float, ...]
    test: MeanTest


def ends(table: pd.DataFrame) -> pd.DataFrame:
    """The last row of every descent."""
    return table.groupby([*PLACE, "draw", "descent"], sort=False, dropna=False).tail(1)


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    """Verdicts on the last rows of all descents.

    For every network whether descent ended at the certified optimum, and a plain one farther from it. For several seeds
    also the contrasts of which the table has both sides: in each seed the mean of the difference over all sizes and
    momenta at which all seeds have it, tested by Student's t, and adjusted for their number by Holm's method.

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
    """Every contrast at every size, without any adjustment for their number."""
    found = []
    for claim, pair in _pairs(ends(table)):
        size: Any
        for size, part in pair.groupby(level=["train_size", "units"]):
            momenta = tuple(part.index.unique("momentum"))
            found.append(Contrast(size[0], size[1], momenta, _tested(claim, part)))
    return found


def _reached(network: str, part: pd.DataFrame) -> list[Verdict]:
    """The ends of a network's cells, at the optimum or not, and the plain ones next to them."""
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
    """The best start of several layers: the bound need not be attained, so that a larger ratio decides nothing."""
    best = known.groupby([*CELL, "seed"]).ratio.min()
    return Verdict(
        f"the best start of {network} has at least half of the largest margin that its gates allow",
        f"ratio to the certified bound {best.min():.3f} to {best.max():.3f} in {len(best)} cells; of all starts "
        f"{known.ratio.min():.3f} to {known.ratio.max():.3f}",
        f"at most {HALF:g} in all",
        True if best.max() <= HALF else None,
    )


def _about(part: pd.DataFrame) -> str:
    if part.ratio.isna().all():
        return "no ratio is known"
    apart = part.inconsistency.max()
    told = f", inconsistency up to {100 * apart:.2f} %" if pd.notna(apart) else ""
    return f"ratio up to {part.ratio.max():.4f}{told}"


def _pairs(last: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Both sides of every contrast in percent: a row for each cell that all seeds have, columns side and seed."""
    seeds = last.seed.unique()
    every = pd.MultiIndex.from_product([["above", "below"], seeds])
    for claim, sides in CONTRASTS.items():
        above, below = (_quantity(last, *side) for side in sides)
        both = pd.concat([above, below], axis=1, keys=["above", "below"], join="inner")
        pair = pd.DataFrame(both.unstack("seed")).reindex(columns=every).dropna()
        if len(seeds) > 1 and len(pair):
            yield claim, pair


def _quantity(last: pd.DataFrame, network: str, descent: str, column: str) -> pd.Series:
    part = where(last, network=network, descent=descent).set_index([*CELL, "seed"])
    return 100 * part.reindex(columns=[column])[column].dropna()


def _tested(claim: str, pair: pd.DataFrame) -> MeanTest:
    """The seeds' mean differences; what momentum does not touch, such as the SVM of gates as drawn, counts once."""
    pair = pair[~pair.reset_index("momentum", drop=True).reset_index().duplicated().to_numpy()]
    sides = pd.DataFrame({"above": pair["above"].mean(), "below": -pair["below"].mean()})
    return difference(claim, sides, split=False)


def tables(table: pd.DataFrame) -> str:
    """All ends, and with several seeds all contrasts, a Markdown table for each number of samples."""
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
    momenta = last.groupby(CELL[:2]).momentum.nunique()
    sizes = sorted(set(last.units))
    found: dict[str, dict[int, str]] = {}
    for one in contrasts(last):
        alone = len(one.momenta) == 1 < momenta[one.train_size, one.units]
        told = _told(one) + (f" (momentum {one.momenta[0]:g})" if alone else "")
        found.setdefault(one.test.claim, {})[one.units] = told
    rows = [["claim", *(f"H = {units}" for units in sizes)]]
    rows += [[claim, *(own.get(units, "–") for units in sizes)] for claim, own in found.items()]
    return markdown(rows)


def _told(one: Contrast) -> str:
    (low, high), mean = one.test.interval, one.test.values.mean()
    told = f"{mean:.2f} ± {(high - low) / 2:.2f}".replace("-", "−")
    return f"**{told}**" if low > 0 or high < 0 else told
