"""What the ends of descents say: whether they are at the optimum, and what is finite time, gates and norm."""

from typing import Any

import numpy as np
import pandas as pd
import scipy.stats

from implicit_bias.experiments.runner.verdicts import Verdict

#: A ratio up to which a descent counts as at the optimum.
REACHED = 1.01
#: And one that is said of several gated layers.
HALF = 2.0
#: Seeds that a verdict on a difference needs, and the confidence of its interval.
SEEDS, CONFIDENCE = 5, 0.95
#: A difference below this, in percentage points, is none: one of the 12 000 validation images is 0.008.
RESOLUTION = 0.01
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


def verdicts(last: pd.DataFrame) -> list[Verdict]:
    """What the last rows of all descents say.

    For every network whether descent ended at the certified optimum, and a plain one farther from it; the contrasts of
    which the table has both sides, over all cells and for each size and momentum.

    >>> place = {"train_size": 9, "units": 3, "momentum": 0.0, "network": "gln", "ratio": np.nan}
    >>> ends = [dict(place, seed=s, descent=d, error=e + s / 1e4, end="finished")
    ...         for s in range(5) for d, e in (("sgd", 0.12), ("loss-scaled", 0.10))]
    >>> found = verdicts(pd.DataFrame(ends).assign(normalised_margin=0.1))
    >>> print([one for one in found if "GD-GLN" in one.claim][0])
    Yes: GD-GLN errs more than its limit; found: 12.02 − 10.02 = 2.00 ± 0.00 %, 5 seeds; threshold: 95 % interval > 0.
    """
    found = []
    for network, part in last.groupby("network", sort=False):
        found += _reached(network, part)
    several = last.seed.nunique() > 1
    for claim, sides in CONTRASTS.items() if several else ():
        found += _contrasted(claim, *(_quantity(last, *side) for side in sides))
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
    return f"ratio up to {part.ratio.max():.4f}, inconsistency up to {100 * part.inconsistency.max():.2f} %"


def _paired(above: pd.DataFrame, below: pd.DataFrame, column: str) -> pd.DataFrame:
    cell = [name for name in ("train_size", "units", "momentum", "seed", "draw") if name in above]
    sides = [part.set_index(cell)[column] for part in (above, below)]
    return pd.concat(sides, axis=1, keys=["above", "below"], join="inner")


def _quantity(last: pd.DataFrame, network: str, descent: str, column: str) -> pd.Series:
    """A column in percent of a network's ends, by cell and seed."""
    part = last[(last.network == network) & (last.descent == descent)]
    return 100 * part.set_index([*CELL, "seed"])[column].dropna() if column in part else pd.Series(dtype=float)


def _contrasted(claim: str, above: pd.Series, below: pd.Series) -> list[Verdict]:
    """A contrast over the cells that have both quantities for all seeds, and over all of each size and momentum."""
    pair = pd.concat([above, below], axis=1, keys=["above", "below"], join="inner")
    if pair.empty:
        return []
    # What momentum does not touch, such as the SVM of gates as drawn, counts once.
    pair = pair[~pair.reset_index().duplicated(["train_size", "units", "seed", "above", "below"]).to_numpy()]
    counts = pair.groupby(level=CELL).above.transform("size")
    whole = pair[counts == counts.max()]
    groups = list(pair.groupby(level=CELL))
    parts = [_told(f"{claim}, n={n}, H={units}, momentum={momentum:g}", part) for (n, units, momentum), part in groups]
    several = len(parts) == 1 or whole.groupby(level=CELL).ngroups > 1
    return ([_told(claim, whole)] if several else []) + (parts if len(parts) > 1 else [])


def _told(claim: str, pair: pd.DataFrame) -> Verdict:
    """Decided if Student's interval of the seeds' mean differences is on one side of 0."""
    seeds = (pair.above - pair.below).groupby(level="seed").mean()
    mean, count = float(seeds.mean()), len(seeds)
    half = float(scipy.stats.t.ppf(0.5 + CONFIDENCE / 2, count - 1) * seeds.std() / np.sqrt(count)) if count > 1 else 0
    found = f"{pair.above.mean():.2f} − {pair.below.mean():.2f} = {mean:.2f} ± {half:.2f} %, {count} seeds"
    clear = count >= SEEDS and abs(mean) > max(half, RESOLUTION)
    threshold = f"{100 * CONFIDENCE:.0f} % interval > 0" if count >= SEEDS else f"needs {SEEDS} seeds"
    return Verdict(claim, found.replace("= -", "= −"), threshold, bool(mean > 0) if clear else None)
