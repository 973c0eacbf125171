"""What the ends of descents say: whether they are at the optimum, and what is finite time, gates and norm."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from implicit_bias.studies.limit.config import PLACE
from implicit_bias.studies.runner.mean_test import MeanTest, holm
from implicit_bias.studies.runner.verdicts import Verdict, where

#: A ratio up to which a descent counts as at the optimum.
REACHED = 1.01
#: And one that is said of several gated layers.
HALF = 2.0
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
#: What makes a cell of a network.
CELL = ["train_size", "units", "momentum"]


@dataclass(frozen=True, eq=False)
class Contrast:
    """A claim's difference at one size, over the momenta at which all seeds have both sides.

    >>> Contrast("GD-GLN errs more than its limit", 500, 10, (0.0, 0.9), None).momenta
    (0.0, 0.9)
    """

    claim: str
    train_size: int
    units: int
    momenta: tuple[float, ...]
    test: MeanTest


def ends(table: pd.DataFrame) -> pd.DataFrame:
    """The last row of every descent.

    >>> place = {"network": "gln", "train_size": 9, "units": 3, "seed": 1, "momentum": 0.0, "draw": 0}
    >>> ends(pd.DataFrame(place | {"descent": "plain", "step": [0, 9]})).step.tolist()
    [9]
    """
    return table.groupby([*PLACE, "draw", "descent"], sort=False, dropna=False).tail(1)


def verdicts(last: pd.DataFrame) -> list[Verdict]:
    """What the last rows of all descents say.

    For every network whether descent ended at the certified optimum, and a plain one farther from it. For several seeds
    also the contrasts of which the table has both sides: in each seed the mean of the difference over all sizes and
    momenta at which all seeds have it, tested by Student's t, and adjusted for their number by Holm's method.

    >>> place = {"train_size": 9, "units": 3, "momentum": 0.0, "network": "gln", "ratio": float("nan")}
    >>> ends = [dict(place, seed=s, descent=d, error=e + s * t / 1e4, end="finished")
    ...         for s in range(5) for d, e, t in (("sgd", 0.12, 2), ("loss-scaled", 0.10, 1))]
    >>> found = verdicts(pd.DataFrame(ends).assign(normalised_margin=0.1))
    >>> print([one for one in found if "GD-GLN" in one.claim][0].found)
    12.04 − 10.02 = 2.02 [2.00, 2.04] %; 5 seeds of one split
    """
    found = []
    for network, part in last.groupby("network", sort=False):
        found += _reached(network, part)
    tests = [_tested(claim, pair) for claim, pair in _pairs(last)]
    adjusted = holm([test.p for test in tests])
    return found + [test.verdict(p, len(tests)) for test, p in zip(tests, adjusted, strict=True)]


def contrasts(last: pd.DataFrame) -> list[Contrast]:
    """Every contrast at every size, without any adjustment for their number."""
    found = []
    for claim, pair in _pairs(last):
        size: Any
        for size, part in pair.groupby(level=["train_size", "units"]):
            momenta = tuple(part.index.unique("momentum"))
            found.append(Contrast(claim, size[0], size[1], momenta, _tested(claim, part)))
    return found


def _reached(network: Any, part: pd.DataFrame) -> list[Verdict]:
    """The ends of a network's cells, at the optimum or not, and the plain ones beside them."""
    scaled, plain = (part[part.descent == name] for name in ("loss-scaled", "plain"))
    known = scaled[scaled.ratio.notna()]
    if known.empty:
        return []
    if str(network).startswith("deep"):
        return [_bounded(network, known)]
    reached = int((known.ratio <= REACHED).sum())
    found = [Verdict(
        f"loss-scaled descent of {network} ends at the certified optimum",
        f"{reached} of {len(known)} cells, {_about(known)}", f"ratio at most {REACHED} in all", reached == len(known),
    )]  # fmt: skip
    pair = _paired(plain, scaled, "ratio")
    if len(pair):
        claim = f"plain descent of {network} ends farther from it"
        farther = None if pair.isna().any(axis=None) else bool((pair.above > pair.below).all())
        found.append(Verdict(claim, _about(plain), "a larger ratio", farther))
    return found


def _bounded(network: Any, known: pd.DataFrame) -> Verdict:
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


def _paired(above: pd.DataFrame, below: pd.DataFrame, column: str) -> pd.DataFrame:
    cell = [name for name in (*CELL, "seed", "draw") if name in above]
    sides = [part.set_index(cell)[column] for part in (above, below)]
    return pd.concat(sides, axis=1, keys=["above", "below"], join="inner")


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
    above, below = (pd.DataFrame(pair[side]).mean() for side in ("above", "below"))
    return MeanTest(claim, "above", 0.0, above - below, f"{above.mean():.2f} − {below.mean():.2f} = ", split=False)
