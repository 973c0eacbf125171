"""Findings on the ends of descents: the distance to the optimum, and effects of finite time, gates and norm.

Verdicts computed from the table of the study.
"""

from collections.abc import Iterator

import pandas as pd

from implicit_bias.studies.runner.mean_test import MeanTest, decided, difference
from implicit_bias.studies.runner.verdicts import Verdict, where

#: Largest ratio at which the end of a descent counts as the optimum.
REACHED = 1.01
#: Largest ratio at which the claim on several gated layers holds.
HALF = 2.0
#: Columns that identify a cell on one data set, and a cell of a network.
PLACE = ["network", "train_size", "units", "seed", "momentum"]
CELL = ["train_size", "units", "momentum"]
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
    "GD-GLN has a higher error than its limit": (GD_GLN, GLN_LIMIT),
    "GD-ReLU has a higher error than the limit behind its frozen gates": (GD_RELU, FROZEN_LIMIT),
    "GD-ReLU has a higher error than the limit of learned gates": (GD_RELU, RELU_LIMIT),
    "the limit behind frozen gates has a higher error than that of learned gates": (FROZEN_LIMIT, RELU_LIMIT),
    "GD-FReLU with random gates has a higher error than its limit, SVM-RC": (RANDOM_GATES, RC),
    "GD-FReLU with learned gates has a higher error than its limit, SVM-LC": (ITS_GATES, LC),
    "GD-FReLU with random gates has a higher error than GD-FReLU with learned gates": (RANDOM_GATES, ITS_GATES),
    "SVM-RC has a higher error than SVM-LC": (RC, LC),
    "GD-ReLU has a higher error than GD-FReLU with its gates": (GD_RELU, ITS_GATES),
    "GD-ReLU disagrees with SVM-LC more than GD-FReLU with its gates":
        (RELU_APART, ("retrained-relu", "sgd", "inconsistency")),
    "GD-ReLU disagrees with SVM-LC more than the limit of learned gates with that of its own":
        (RELU_APART, ("learned-relu", "loss-scaled", "inconsistency")),
    "SVM-Fro has a higher error than SVM-GLN": (("gln", "sgd", "frobenius_error"), ("gln", "sgd", "svm_error")),
    "GD-GLN disagrees with SVM-Fro more than with SVM-GLN": (("gln", "sgd", "frobenius_inconsistency"), GLN_APART),
    "the limit of GD-GLN disagrees with SVM-Fro more than with SVM-GLN":
        (("gln", "loss-scaled", "frobenius_inconsistency"), ("gln", "loss-scaled", "inconsistency")),
    "GD-ReLU disagrees with the Frobenius norm on its gates more than with SVM-LC":
        (("learned-relu", "sgd", "frobenius_inconsistency"), RELU_APART),
}  # fmt: skip


def ends(table: pd.DataFrame) -> pd.DataFrame:
    """Return the last row of every descent, and of every cell that is not separable."""
    return table.groupby([*PLACE, "draw", "descent"], sort=False, dropna=False).tail(1)


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    """Return verdicts on the last rows of all descents.

    For every network, verdicts state whether loss-scaled descent ends at the certified optimum, and whether plain
    descent ends farther from it. If there are several seeds, contrasts of which the table has both sides follow. The
    value of a seed is the mean difference over all sizes and momenta that all seeds have. Student's t tests are
    adjusted for their number by Holm's method.
    """
    last = ends(table)
    reached = [one for network, part in last.groupby("network", sort=False) for one in _reached(str(network), part)]
    return reached + decided([*_tests(last)])


def _reached(network: str, part: pd.DataFrame) -> list[Verdict]:
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


def _tests(last: pd.DataFrame) -> Iterator[MeanTest]:
    """Yield the test of every claim over cells that all seeds have; cells that differ only in momentum count once."""
    seeds = last.seed.unique()
    every = pd.MultiIndex.from_product([["above", "below"], seeds])
    for claim, sides in CONTRASTS.items():
        above, below = (_quantity(last, *side) for side in sides)
        both = pd.concat([above, -below], axis=1, keys=["above", "below"], join="inner")
        pair = pd.DataFrame(both.unstack("seed")).reindex(columns=every).dropna()
        pair = pair[~pair.reset_index("momentum", drop=True).reset_index().duplicated().to_numpy()]
        if len(seeds) > 1 and len(pair):
            yield difference(claim, pair.mean().unstack(0), split=False)


def _quantity(last: pd.DataFrame, network: str, descent: str, column: str) -> pd.Series:
    part = where(last, network=network, descent=descent).set_index([*CELL, "seed"])
    return 100 * part.reindex(columns=[column])[column].dropna()
