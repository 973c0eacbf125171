"""The ends of descents and the contrasts between them at every size, as tables of a page."""

import pandas as pd

from implicit_bias.studies.limit.verdicts import CELL, Contrast, contrasts
from implicit_bias.studies.runner.verdicts import markdown, percent

#: Where a network may be, in the order of its columns.
PLACES = {"sgd": "after training", "plain": "plain descent", "loss-scaled": "at the limit"}


def tables(last: pd.DataFrame) -> str:
    """All ends, and with several seeds all contrasts, a table for each number of samples.

    >>> place = {"train_size": 9, "units": 3, "momentum": 0.0, "network": "gln", "seed": 1, "descent": "loss-scaled"}
    >>> ends = pd.DataFrame([place | {"error": 0.1, "svm_error": 0.2, "ratio": 1.0, "inconsistency": 0.0}])
    >>> print(tables(ends).splitlines()[-1])
    | 3, 0 | `gln` | 10.00 | 20.00 | 1.000 | 0.00 |
    """
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
        found.setdefault(one.claim, {})[one.units] = _told(one) + (f" (momentum {one.momenta[0]:g})" if alone else "")
    rows = [["claim", *(f"H = {units}" for units in sizes)]]
    rows += [[claim, *(own.get(units, "–") for units in sizes)] for claim, own in found.items()]
    return markdown(rows)


def _told(one: Contrast) -> str:
    (low, high), mean = one.test.interval, one.test.values.mean()
    told = f"{mean:.2f} ± {(high - low) / 2:.2f}".replace("-", "−")
    return f"**{told}**" if low > 0 or high < 0 else told
