"""Verdicts on the paper's claims: tests over draws, counts of cells, certificates, and published numbers."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from implicit_bias._utils.checks import InputError
from implicit_bias.studies.paper.claims import CONTRASTS, SHALLOW, Contrast, Quantity
from implicit_bias.studies.runner.mean_test import MeanTest, difference, holm
from implicit_bias.studies.runner.verdicts import Verdict, span, where

#: Columns that identify a cell of one study and version.
CELL = ["train_size", "units", "contexts", "cutoff", "momentum", "seed"]
#: Share of misclassified training samples above which the training of a ReLU network failed.
FAILED = 0.25
#: Known published numbers and their cells: (study, model, n, H, contexts, seed, quantity, published value).
PUBLISHED = (
    ("compare_gln", "GD-GLN", 500, 10, 2, 1, "accuracy", 0.83900),
    ("compare_gln", "SVM-GLN", 500, 10, 2, 1, "accuracy", 0.84975),
    ("compare_gln", "SVM-GLN", 500, 10, 2, 1, "agreement", 0.8600),
    ("compare_gln", "SVM-GLN", 2000, 50, 2, 2, "agreement", 0.8905),
    ("compare_gln", "SVM-GLN", 1000, 20, 4, 3, "agreement", 0.844),
    ("compare_relu", "SVM-RC", 500, 20, 2, 1, "accuracy", 0.84633),
    ("compare_relu", "GD-ReLU", 2000, 10, 2, 3, "accuracy", 0.92017),
    ("compare_shallow_gln", "SVM-shallow", 500, 1, 256, 1, "accuracy", 0.54225),
    ("compare_shallow_gln", "SVM-shallow", 500, 1, 8, 1, "agreement", 0.73967),
)
#: Tolerances of the difference from published numbers.
NEAR = {"accuracy": 0.001, "agreement": 0.005}


@dataclass(frozen=True, eq=False)
class Tested:
    """A contrast, its test, and the p-value of the test, `adjusted` by Holm's method."""

    contrast: Contrast
    test: MeanTest
    adjusted: float

    @property
    def verdict(self) -> Verdict:
        if self.test.values.empty:
            found, holds = "a solution of all models in no cell", None
        else:
            inner = self.test.verdict(self.adjusted, 1)
            numbers, _, draws = inner.found.rpartition("; ")
            count, p = self.test.ranks
            found, holds = f"{numbers}; {count}/{draws}", inner.holds
            found += "" if np.isnan(p) else f", rank p = {p:.3f}"
        return replace(self.contrast.claim.verdict(found, holds, **self.contrast.names), claim=self.test.claim)


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    """Return every verdict for which the table has cells.

    The value of a claim in a draw is the mean over the cells that have all quantities of the claim; cells of ReLU
    networks whose training failed are left out. Draws are those with separate splits of the data, if the table has such
    cells, otherwise the seeds of the published split. A claim is decided if Student's test of the mean over draws is
    significant at 5 %, adjusted by Holm's method for all claims of the paper, or for all of ours. Claims on the
    simulation with the published faults are counted in its cells.
    """
    if not {"study", "version", "model", "split", "train_error", *CELL} <= set(table.columns):
        raise InputError("verdicts are made from the table of reproduce_paper.py")
    counted = (part(table) for part in (_counted, _trainings, _best_depth, _certificates, _published))
    return [*(one.verdict for one in claim_tests(table)), *itertools.chain(*counted)]


def claim_tests(table: pd.DataFrame) -> list[Tested]:
    """Return the tests of all claims on draws for which the table has cells, with their verdicts."""
    table = table[~_failed(table)]
    models, parts = set(table.model), {split: where(table, split=split) for split in ("own", "published")}
    contrasts = [one for one in CONTRASTS if one.part != "published" and models >= {q.model for _, q in one.terms}]
    tests = [(contrast, test) for contrast in contrasts for test in _tests(parts, contrast)]
    families = [[pair for pair in tests if (pair[0].part == "ours") == ours] for ours in (False, True)]
    adjusted = [p for family in families for p in holm([test.p for _, test in family])]
    return [Tested(*pair, p) for pair, p in zip(itertools.chain(*families), adjusted, strict=True)]


def _failed(table: pd.DataFrame) -> pd.Series:
    cell = [table[name] for name in ("study", "version", "split", *CELL)]
    return (table.train_error.where(table.model == "GD-ReLU") > FAILED).groupby(cell).transform("any")


def _about(contrast: Contrast) -> str:
    return f"{contrast.claim.place}: {contrast.claim.claim.format(**contrast.names)}"


def _cells(table: pd.DataFrame, contrast: Contrast) -> pd.DataFrame:
    return pd.concat([weight * _values(table, quantity) for weight, quantity in contrast.terms], axis=1).dropna()


def _tests(parts: dict[str, pd.DataFrame], contrast: Contrast) -> Iterator[MeanTest]:
    pairs = {split: _cells(part, contrast) for split, part in parts.items()}
    split = next((split for split, cells in pairs.items() if len(cells)), "")
    if not split:
        return
    cells, about, own_split = pairs[split], _about(contrast), split == "own"
    if contrast.correlated:
        if contrast.within:
            cells = cells - cells.groupby(level=["train_size", "seed"]).transform("mean")
        if len(correlations := _correlations(cells)):
            limit = float(np.arctanh(contrast.limit))
            yield MeanTest(about, contrast.relation, limit, correlations, "r = ", own_split, correlation=True)
        return
    groups = {about: cells}
    if contrast.by:
        rows = where(parts[split], model=contrast.terms[0][1].model, **contrast.terms[0][1].rows)
        values = sorted(rows[contrast.by].unique()) if rows[contrast.by].nunique() > 1 else []
        level = cells.index.get_level_values(contrast.by)
        groups |= {f"{about}, {contrast.by}={value}": cells[level == value] for value in values}
    for name, group in groups.items():
        test = difference(name, group.groupby(level="seed").mean(), split=own_split, limit=contrast.limit)
        yield replace(test, relation=contrast.relation)


def _counted(table: pd.DataFrame) -> Iterator[Verdict]:
    for contrast in (contrast for contrast in CONTRASTS if contrast.part == "published"):
        cells, claim = _cells(where(table, split="published"), contrast), contrast.claim
        if contrast.correlated:
            r = float(np.corrcoef(cells.T)[0, 1]) if len(cells) > 2 else np.nan
            found, holds = f"r = {r:.3f} over {len(cells)} cells", bool(r < contrast.limit)
        else:
            values = cells.sum(axis=1)
            count = int((values > contrast.limit).sum())
            found = f"{count} of {len(values)} cells, {span(values, '.2f')}, mean {values.mean():.2f}"
            holds = count >= claim.limits["share"] * len(values)
        if len(cells) > 2:
            yield replace(claim.verdict(found.replace("-", "−"), holds), claim=_about(contrast))


def _trainings(table: pd.DataFrame) -> Iterator[Verdict]:
    networks = where(table, model="GD-ReLU", version="corrected")
    failed = networks[networks.train_error > FAILED]
    if len(networks):
        cells = failed[["units", "momentum"]].value_counts(sort=False).reset_index().itertuples(index=False)
        listed = [f"{count} with {units} units and momentum {speed:g}" for units, speed, count in cells]
        found = f"{len(failed)} of {len(networks)} failed" + (f": {', '.join(listed)}" if listed else "")
        claim = "every GD-ReLU learns its training samples; the cells of the others are left out above"
        yield Verdict(claim, found, f"training error at most {FAILED:.0%}", failed.empty)


def _values(table: pd.DataFrame, quantity: Quantity) -> pd.Series:
    """Return a quantity in percent, by the columns of `CELL` that its `rows` leave free; if `best`, by n and seed."""
    fixed = {name for name, value in quantity.rows.items() if not isinstance(value, tuple)}
    # Tables of earlier revisions lack columns.
    table = table.assign(**{quantity.column: table.get(quantity.column, np.nan)})
    cells = where(table, model=quantity.model, **quantity.rows)
    if quantity.best:
        return 100 * cells.groupby(["train_size", "seed"])[quantity.column].min()
    return 100 * cells.set_index([name for name in CELL if name not in fixed])[quantity.column]


def _correlations(cells: pd.DataFrame) -> pd.Series:
    """Return Fisher's arctanh r of the two columns for every seed with at least three cells."""
    draws = {seed: part for seed, part in cells.groupby(level="seed") if len(part) > 2}
    correlations = {seed: np.corrcoef(part.to_numpy().T)[0, 1] for seed, part in draws.items()}
    return pd.Series(correlations, dtype=float).clip(-1 + 1e-12, 1 - 1e-12).map(np.arctanh).dropna()


def _best_depth(table: pd.DataFrame) -> Iterator[Verdict]:
    errors = _values(where(table, split="published"), Quantity(SHALLOW, "SVM-shallow"))
    if errors.empty:
        return
    # Sizes that lack some numbers of contexts would shift the means.
    counts = errors.reset_index().groupby("train_size").contexts.nunique()
    complete = errors[errors.index.get_level_values("train_size").isin(counts.index[counts == counts.max()])]
    means = complete.groupby(level="contexts").mean()
    best = means.idxmin()
    yield Verdict(
        "SVM-shallow's error is least between the fewest and the most contexts",
        f"{means.min():.2f} % at contexts={best}; {means.iloc[0]:.2f} % at {means.index[0]}, "
        f"{means.iloc[-1]:.2f} % at {means.index[-1]}",
        "least at neither end",
        bool(means.index[0] < best < means.index[-1]) if len(means) > 2 else None,
    )


def _certificates(table: pd.DataFrame) -> Iterator[Verdict]:
    solved = table[(table.version == "corrected") & ~table.model.str.startswith("GD-")]
    # Only the problems of a ReLU network's own gates and activations differ between momenta.
    momentum = solved.momentum.where(solved.model.isin(["SVM-LC", "SVM-HL"]), 0.0)
    keys = ["study", "model", "train_size", "units", "contexts", "cutoff", "split", "seed"]
    solved = solved[~solved[keys].assign(momentum=momentum).duplicated()]
    if solved.empty:
        return
    optimal, inseparable = solved[solved.status == "OPTIMAL"], solved[solved.status.str.startswith("NOT_SEPARABLE")]
    gaps = f", with gaps up to {optimal.gap.max():.1e}" if len(optimal) else ""
    yield Verdict(
        "every margin problem is OPTIMAL or proved NOT_SEPARABLE",
        f"{len(optimal)} and {len(inseparable)} of {len(solved)}{gaps}",
        "all",
        len(optimal) + len(inseparable) == len(solved),
    )
    if len(inseparable):
        closed = int((inseparable.closed > 0).sum())
        yield Verdict(
            "every problem that is not separable has samples whose gates are all closed",
            f"{closed} of {len(inseparable)}",
            "all",
            closed == len(inseparable),
        )


def _published(table: pd.DataFrame) -> Iterator[Verdict]:
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
