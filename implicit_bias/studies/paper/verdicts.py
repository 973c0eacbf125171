"""Verdicts on the paper's claims: paired differences over draws, certificates, and published numbers."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from implicit_bias._utils.checks import InputError
from implicit_bias.studies.paper.claims import CLAIMS, SHALLOW, Claim, Quantity
from implicit_bias.studies.runner.mean_test import MeanTest, decided, difference
from implicit_bias.studies.runner.verdicts import Verdict, where

#: Columns that identify a cell of one study and version.
CELL = ["train_size", "units", "contexts", "cutoff", "momentum", "seed"]
#: Correlation above which a correlation is "reasonable", and below which it is "weak".
STRONG = 0.5
#: Known published numbers and their cells: (study, model, n, H, contexts, seed, quantity, published value).
PUBLISHED = (
    ("compare_gln", "GD-GLN", 500, 10, 2, 1, "accuracy", 0.83900),
    ("compare_gln", "SVM-GLN", 500, 10, 2, 1, "accuracy", 0.84975),
    ("compare_gln", "SVM-GLN", 500, 10, 2, 1, "agreement", 0.8600),
    ("compare_gln", "SVM-GLN", 2000, 50, 2, 2, "agreement", 0.8905),
    ("compare_gln", "SVM-GLN", 1000, 20, 4, 3, "agreement", 0.844),
    ("compare_relu", "SVM-RC", 500, 20, 2, 1, "accuracy", 0.84633),
)
#: Tolerances of the difference from published numbers; an agreement also depends on the order of the batches.
NEAR = {"accuracy": 0.001, "agreement": 0.005}


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    """Return every verdict for which the table has cells.

    The value of a claim in a draw is the mean over the cells that have all quantities of the claim. Draws are those
    with separate splits of the data, if the table has such cells, otherwise the seeds of the published split. A claim
    is decided if Student's test of the mean over draws is significant, adjusted for all tests by Holm's method.

    >>> cell = dict(study="compare_gln", train_size=9, units=2, contexts=2, cutoff="median", momentum=0.0)
    >>> cell |= dict(version="corrected", split="own", status="OPTIMAL", gap=1e-8, closed=0)
    >>> cell |= dict(inconsistency=0.0, expected_inconsistency=0.0)
    >>> rows = [cell | dict(model=m, error=e + s**2 / 1000 * (m == "SVM-L2"), seed=s)
    ...         for m, e in (("SVM-L2", 0.12), ("SVM-GLN", 0.10)) for s in (1, 2, 3)]
    >>> verdict = verdicts(pd.DataFrame(rows))[0]
    >>> verdict.claim, verdict.found
    ('4.1, 2a, 2d: SVM-GLN errs less than SVM-L2', '12.47 − 10.00 = 2.47 [1.46, 3.47] %; 3 draws')
    """
    if not {"study", "version", "model", "split", *CELL} <= set(table.columns):
        raise InputError("verdicts are made from the table of reproduce_paper.py")
    return [*decided(examine(table)), *_best_depth(table), *_certificates(table), *_published(table)]


def examine(table: pd.DataFrame) -> list[MeanTest]:
    """Return the tests of all claims for which the table has cells, before any adjustment."""
    parts = {split: where(table, split=split) for split in ("own", "published")}
    return [test for claim in CLAIMS for test in _tests(parts, claim)]


def _tests(parts: dict[str, pd.DataFrame], claim: Claim) -> Iterator[MeanTest]:
    """Yield the test of a claim and those of each value of `claim.by`, on the first split in `parts` with cells."""
    pairs = {
        split: pd.concat([weight * _values(part, quantity) for weight, quantity in claim.terms], axis=1).dropna()
        for split, part in parts.items()
    }
    split = next((split for split, cells in pairs.items() if len(cells)), "")
    if not split:
        return
    cells, about, own = pairs[split], f"{claim.place}: {claim.text}", split == "own"
    if claim.correlation:
        if claim.within:
            cells = cells - cells.groupby(level=["train_size", "seed"]).transform("mean")
        if len(found := _correlations(cells)):
            limit = float(np.arctanh(STRONG))
            yield MeanTest(about, claim.correlation, limit, found, "r = ", own, correlation=True)
        return
    groups = list(cells.groupby(level=claim.by)) if claim.by else []
    named = {f"{about}, {claim.by}={value}": group for value, group in groups} if len(groups) > 1 else {}
    for name, group in ({about: cells} | named).items():
        yield difference(name, group.groupby(level="seed").mean(), split=own, limit=claim.limit)


def _values(table: pd.DataFrame, quantity: Quantity) -> pd.Series:
    """Return a quantity in percent, indexed by the coordinates that `quantity.rows` does not fix."""
    fixed = {name for name, value in quantity.rows.items() if not isinstance(value, tuple)}
    cells = where(table, model=quantity.model, **quantity.rows)
    if quantity.best:
        return 100 * cells.groupby(["train_size", "seed"])[quantity.column].min()
    return 100 * cells.set_index([name for name in CELL if name not in fixed])[quantity.column]


def _correlations(cells: pd.DataFrame) -> pd.Series:
    """Return Fisher's arctanh r of the two columns for every seed with at least three cells."""
    draws = {seed: part for seed, part in cells.groupby(level="seed") if len(part) > 2}
    found = {seed: np.corrcoef(part.to_numpy().T)[0, 1] for seed, part in draws.items()}
    return pd.Series(found, dtype=float).clip(-1 + 1e-12, 1 - 1e-12).map(np.arctanh).dropna()


def _best_depth(table: pd.DataFrame) -> Iterator[Verdict]:
    """Yield the verdict that the mean error of SVM-shallow is least at neither end of the numbers of contexts.

    It is undecided for fewer than three numbers; means cover the sizes with the most numbers. None without cells.
    """
    errors = _values(where(table, split="published"), Quantity(SHALLOW, "SVM-shallow"))
    if errors.empty:
        return
    # Sizes that lack some numbers of contexts would shift the means.
    counts = errors.reset_index().groupby("train_size").contexts.nunique()
    whole = errors[errors.index.get_level_values("train_size").isin(counts.index[counts == counts.max()])]
    means = whole.groupby(level="contexts").mean()
    best = means.idxmin()
    yield Verdict(
        "SVM-shallow errs least between the fewest and the most contexts",
        f"{means.min():.2f} % at contexts={best}; {means.iloc[0]:.2f} % at {means.index[0]}, "
        f"{means.iloc[-1]:.2f} % at {means.index[-1]}",
        "least at neither end",
        bool(means.index[0] < best < means.index[-1]) if len(means) > 2 else None,
    )


def _certificates(table: pd.DataFrame) -> Iterator[Verdict]:
    """Yield verdicts on the corrected margin problems: all are certified, and inseparable ones have closed samples."""
    part = table[(table.version == "corrected") & ~table.model.str.startswith("GD-")]
    # Only the problems of a ReLU network's own gates and activations differ between momenta.
    once = part.momentum.where(part.model.isin(["SVM-LC", "SVM-HL"]), 0.0)
    keys = ["study", "model", "train_size", "units", "contexts", "cutoff", "split", "seed"]
    part = part[~part[keys].assign(momentum=once).duplicated()]
    if part.empty:
        return
    optimal, inseparable = part[part.status == "OPTIMAL"], part[part.status.str.startswith("NOT_SEPARABLE")]
    gaps = f", with gaps up to {optimal.gap.max():.1e}" if len(optimal) else ""
    yield Verdict(
        "every margin problem is OPTIMAL or proved NOT_SEPARABLE",
        f"{len(optimal)} and {len(inseparable)} of {len(part)}{gaps}",
        "all",
        len(optimal) + len(inseparable) == len(part),
    )
    if len(inseparable):
        closed = int((inseparable.closed > 0).sum())
        yield Verdict(
            "problems that are not separable hold samples whose every gate is closed",
            f"{closed} of {len(inseparable)}",
            "all",
            closed == len(inseparable),
        )


def _published(table: pd.DataFrame) -> Iterator[Verdict]:
    """Yield a verdict on each of the `PUBLISHED` numbers whose cell is in a table of MNIST alone."""
    if set(table.get("dataset", ())) != {"mnist"}:
        return
    for study, model, n, units, contexts, seed, quantity, published in PUBLISHED:
        values = {"study": study, "version": "published", "model": model, "train_size": n, "units": units}
        values |= {"contexts": contexts, "seed": seed, "cutoff": "median", "momentum": 0.0, "split": "published"}
        column = "error" if quantity == "accuracy" else "inconsistency"
        for value in table.loc[(table[list(values)] == pd.Series(values)).all(axis=1), column]:
            yield Verdict(
                f"the simulation has the published {quantity} of {model} at n={n}, units={units}, contexts={contexts}, "
                f"seed={seed}",
                f"{1 - value:.5f}, published {published:.5f}",
                f"within {NEAR[quantity]}",
                bool(abs(1 - value - published) <= NEAR[quantity]),
            )
