"""Findings of the table of all sizes: trends with n, effects of time, and lower errors at the largest size.

Verdicts and the tables of a page, computed from the table of the study.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd

from implicit_bias.studies.limit.findings import REACHED
from implicit_bias.studies.runner.drawing import DATASETS
from implicit_bias.studies.runner.mean_test import LEVEL, MeanTest, difference, holm
from implicit_bias.studies.runner.verdicts import Verdict, markdown, span, where
from implicit_bias.studies.scale import MODELS

#: A quantity of the table: network, descent and model of its rows, and its column.
Quantity = tuple[str, str, str, str]
L2, GLN, GD_GLN = (("gln", "sgd", model, "error") for model in ("SVM-L2", "SVM-GLN", "GD-GLN"))
RC, LC, HL, GD_RELU = (("learned-relu", "sgd", model, "error") for model in ("SVM-RC", "SVM-LC", "SVM-HL", "GD-ReLU"))
GD_FRELU = ("retrained-relu", "sgd", "GD-FReLU", "error")
#: Inconsistency of every network with the margin problem of its bias, after training and after the further descent.
APART = {
    f"{MODELS[network]} and {model}": tuple((network, when, model, "inconsistency") for when in ("sgd", "limit"))
    for network, model in (("gln", "SVM-GLN"), ("learned-relu", "SVM-LC"), ("retrained-relu", "SVM-LC"))
}
#: Claims on a quantity, or on the first minus the second of two, by kind. 'trend': the slope per doubling of n is below
#: 0; 'mean': the average over all sizes is above 0; 'largest': the value at the largest size is above 0.
CLAIMS: dict[str, dict[str, tuple[Quantity, ...]]] = {
    "trend": {
        "SVM-GLN's advantage over SVM-L2 shrinks with n": (L2, GLN),
        **{f"{pair} agree more with n": (trained,) for pair, (trained, _) in APART.items()},
    },
    "mean": {f"{pair} agree more with time": both for pair, both in APART.items()},
    "largest": {
        "SVM-GLN has a lower error than SVM-L2": (L2, GLN),
        "SVM-GLN has a lower error than GD-GLN": (GD_GLN, GLN),
        "GD-ReLU has a lower error than GD-GLN": (GD_GLN, GD_RELU),
        "GD-ReLU has a lower error than GD-FReLU with its gates": (GD_FRELU, GD_RELU),
        "GD-ReLU has a lower error than SVM-LC": (LC, GD_RELU),
        "SVM-HL has a lower error than GD-ReLU": (GD_RELU, HL),
        "SVM-LC has a lower error than SVM-RC": (RC, LC),
    },
}


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    """Return verdicts on every claim for each data set, then on the optimality of limits, then on certificates.

    A claim is decided by Student's 95 % interval over seeds, without adjustment for the number of claims. The value of
    a seed is the mean over H. Only sizes that all seeds have are used; for a trend only values of H with all n, and for
    a mean only values of n with all H. Limits with fixed gates count only if their ratio is at most `REACHED`.

    >>> place = {"dataset": "digits", "units": 5, "network": "gln", "descent": "sgd", "model": "SVM-GLN", "gap": 1e-8}
    >>> rows = [place | {"train_size": n, "seed": s, "inconsistency": 0.4 / n + s / 1e3, "error": 0.1, "ratio": 1.0}
    ...         for n in (4, 8) for s in (1, 2)]
    >>> found = verdicts(pd.DataFrame(rows).assign(status="OPTIMAL"))[0]
    >>> print(found.claim, found.found, sep="; ")
    GD-GLN and SVM-GLN agree more with n, digits, n=4 8, H=5; 10.15, 5.15; a doubling −5.00 [−5.00, −5.00] %; 2 draws
    """
    intervals = (
        replace(test.verdict(test.p, 1), threshold=f"95 % interval {test.relation} 0") for test in tests(table)
    )
    return [*intervals, *_reached(table), _certified(table)]


def tests(table: pd.DataFrame) -> list[MeanTest]:
    """Return the test of every claim on every data set for which the table has cells."""
    return [
        test
        for kind, claims in CLAIMS.items()
        for claim, terms in claims.items()
        for name, part in table.groupby("dataset", sort=False)
        for test in _tests(part, kind, f"{claim}, {name}", terms)
    ]


def quantity(table: pd.DataFrame, rows: Quantity) -> pd.DataFrame:
    """Return percent by (units, train_size) and seed; NaN at limits of fixed gates whose ratio is above `REACHED`."""
    network, descent, model, column = rows
    part = where(table, network=network, descent=descent).set_index(["units", "train_size", "seed"])
    own = part[part.model == model][column]
    if descent == "limit" and network != "learned-relu":
        own = own[part[part.model == MODELS[network]].ratio.reindex(own.index) <= REACHED]
    return 100 * own.unstack("seed")


def _tests(table: pd.DataFrame, kind: str, claim: str, terms: tuple[Quantity, ...]) -> Iterator[MeanTest]:
    """Yield the test of a claim of `CLAIMS` on one data set; none if the table lacks its cells."""
    first, *others = (quantity(table, rows) for rows in terms)
    values = (first - others[0] if others else first).dropna(axis=1, how="all").dropna()
    sizes = values.index.to_frame(index=False)
    if kind == "trend":
        counts, every = sizes.groupby("units").train_size.transform("size"), max(sizes.train_size.nunique(), 2)
    elif kind == "mean":
        counts, every = sizes.groupby("train_size").units.transform("size"), sizes.units.nunique()
    else:
        counts, every = sizes.train_size, sizes.train_size.max()
    values = values[(counts == every).to_numpy()]
    if values.empty:
        return
    place = values.index.to_frame(index=False)
    claim += f", n={_listed(place.train_size)}, H={_listed(place.units)}"
    if kind == "trend":
        means = values.mean(axis=1).groupby("train_size").mean()
        shown = f"{', '.join(f'{mean:.2f}' for mean in means)}; a doubling "
        slopes = pd.Series(values.groupby("units").apply(_slopes).mean())
        yield MeanTest(claim, "below", 0.0, slopes, shown, split=True)
    else:
        above, below = (side.loc[values.index, values.columns].mean() for side in (first, *others))
        yield difference(claim, pd.DataFrame({"above": above, "below": -below}), split=True)


def _listed(values: pd.Series) -> str:
    return " ".join(map(str, sorted(set(values))))


def _slopes(part: pd.DataFrame) -> pd.Series:
    """Return the slope of each column (seed) per doubling of n, by least squares over the rows."""
    sizes = np.log2(part.index.get_level_values("train_size").to_numpy(float))
    return pd.Series(np.polyfit(sizes, part.to_numpy(), 1)[0], part.columns)


def _reached(table: pd.DataFrame) -> Iterator[Verdict]:
    """Yield a verdict for each trained model: ratios at the limit are at most `REACHED` in all cells with a ratio."""
    ends = table[(table.descent == "limit") & table.model.isin(MODELS.values()) & table.ratio.notna()]
    for model, part in ends.groupby("model", sort=False):
        near, sizes = int((part.ratio <= REACHED).sum()), _listed(part.train_size)
        claim = f"descent of {model} ends at the certified optimum, n={sizes}"
        found = f"{near} of {len(part)} cells, ratios {span(part.ratio, '.4f')}"
        yield Verdict(claim, found, f"ratio at most {REACHED} in all", near == len(part))


def _certified(table: pd.DataFrame) -> Verdict:
    """Return the verdict that every margin problem is OPTIMAL or NOT_SEPARABLE."""
    problems = table[table.model.str.startswith("SVM")]
    counts = ", ".join(f"{count} {name}" for name, count in problems.status.value_counts().items())
    worst = problems.gap[problems.status == "OPTIMAL"].max()
    proved = bool(problems.status.isin(("OPTIMAL", "NOT_SEPARABLE")).all())
    claim = "every margin problem is certified, or proved not separable"
    return Verdict(claim, f"{counts}; gaps up to {worst:.0e}", "all", proved)


def tables(table: pd.DataFrame) -> str:
    """Return Markdown with a row for each claim and, for each data set, mean, interval and outcome."""
    found, rows = tests(table), dict[str, dict[str, str]]()
    for test, adjusted in zip(found, holm([one.p for one in found]), strict=True):
        claim, dataset, *_ = test.claim.split(", ")
        (low, high), mean = test.interval, test.values.mean()
        text = f"{mean:.2f} [{low:.2f}, {high:.2f}] {test.verdict(test.p, 1).outcome}".replace("-", "−")
        rows.setdefault(claim, {})[dataset] = f"**{text}**" if adjusted < 1 - LEVEL else text
    names = list(table.dataset.unique())
    head = ["claim", *(DATASETS[name] for name in names)]
    return markdown([head, *([claim, *(own.get(name, "–") for name in names)] for claim, own in rows.items())])
