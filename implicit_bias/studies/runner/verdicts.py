"""Verdicts on claims: the number found, the threshold that it is compared with, and the outcome; as tables.

Claims of a paper and their thresholds are read from a study's `claims.toml`. A threshold that was set after the data is
called post hoc in its verdict. A record contains the digest of every claim, so that a threshold that was changed later
is noticed.
"""

from __future__ import annotations

import hashlib
import json
import math
import operator
import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, wraps
from pathlib import Path
from typing import Any

import pandas as pd

#: Relations between a number and its threshold.
RELATIONS = {"above": operator.gt, "below": operator.lt, "at least": operator.ge, "at most": operator.le}
#: Least share of the seeds that decides a claim.
AGREED = 0.8
#: Added to a threshold that was set when a table was already known.
LATE = "post hoc"
NUMBER = re.compile(r"(?<![\w.])[−-]?\d+(?:\.\d+)?(?:e[-+]\d+)?")


@dataclass(frozen=True)
class Verdict:
    """Outcome of one claim: decided by the numbers of a table, or undecided.

    The texts have no full stop: `claim`, `found`, the numbers with their units, and their limit `threshold`. `holds` is
    None if the claim is undecided, for example because cells are missing.

    >>> print(Verdict("gap and norm are proportional", "correlation 0.98", "above 0.9", True))
    Yes: gap and norm are proportional; found: correlation 0.98; threshold: above 0.9.
    """

    claim: str
    found: str
    threshold: str
    holds: bool | None

    @property
    def outcome(self) -> str:
        """'yes', 'no' or 'undecided', from `holds`."""
        return "undecided" if self.holds is None else "yes" if self.holds else "no"

    def __str__(self) -> str:
        return f"{self.outcome.capitalize()}: {self.claim}; found: {self.found}; threshold: {self.threshold}."

    def row(self) -> dict[str, str]:
        """Return claim, found, threshold and outcome as texts, a row of a table."""
        return {"claim": self.claim, "found": self.found, "threshold": self.threshold, "outcome": self.outcome}


def decide(claim: str, found: str, value: float, relation: str, limit: float, unit: str = "") -> Verdict:
    """Return the verdict that `value` is 'above', 'below', 'at least' or 'at most' a limit.

    `found` is the text to show. The verdict is undecided if `value` or `limit` is NaN.

    >>> print(decide("the loss falls", "to 40 %", 40, "below", 50, " %"))
    Yes: the loss falls; found: to 40 %; threshold: below 50 %.
    >>> decide("the loss falls", "to nan %", float("nan"), "below", 50, " %").found
    'too few cells'
    """
    threshold = f"{relation} {float(f'{limit:.3g}'):g}{unit}"
    if math.isnan(value) or math.isnan(limit):
        return Verdict(claim, "too few cells", threshold, None)
    return Verdict(claim, found, threshold, bool(RELATIONS[relation](value, limit)))


def over_seeds(verdicts: Callable[[pd.DataFrame], list[Verdict]]) -> Callable[[pd.DataFrame], list[Verdict]]:
    """Decorate a function from a table to verdicts, to judge each value of the column `seed` and count the outcomes.

    A claim holds or fails if it does in at least `AGREED` of the seeds, and is undecided otherwise. Numbers that differ
    between seeds become ranges. With one seed, its verdicts are returned unchanged.

    >>> table = pd.DataFrame({"seed": [1, 2], "loss": [0.25, 0.4]})
    >>> print(over_seeds(lambda own: [decide("low", f"loss {own.loss.max():g}", own.loss.max(), "below", 1)])(table)[0])
    Yes: low; found: yes in 2 of 2 seeds; loss 0.25–0.4; threshold: below 1.
    """

    @wraps(verdicts)
    def counted(table: pd.DataFrame) -> list[Verdict]:
        each = [verdicts(part) for _, part in table.groupby("seed")]
        claims = dict.fromkeys(verdict.claim for part in each for verdict in part)
        grouped = [[verdict for part in each for verdict in part if verdict.claim == claim] for claim in claims]
        return [_counted(parts) if len(each) > 1 else parts[0] for parts in grouped]

    return counted


def _counted(parts: list[Verdict]) -> Verdict:
    """Return one verdict on a claim, given those of several seeds; see `over_seeds`."""
    counts = {name: sum(verdict.outcome == name for verdict in parts) for name in ("yes", "no", "undecided")}
    share = {name: count / len(parts) for name, count in counts.items()}
    holds = True if share["yes"] >= AGREED else False if share["no"] >= AGREED else None
    listed = ", ".join(f"{name} in {count}" for name, count in counts.items() if count)
    found, threshold = (_ranges([getattr(verdict, name) for verdict in parts]) for name in ("found", "threshold"))
    return Verdict(parts[0].claim, f"{listed} of {len(parts)} seeds; {found}", threshold, holds)


def _ranges(texts: Sequence[str]) -> str:
    """Merge texts that differ only in numbers into one with ranges: '0.1–0.3 %'; join other texts by '; or '."""
    same: dict[str, list[list[str]]] = {}
    for text in texts:
        same.setdefault(NUMBER.sub("{}", text), []).append(NUMBER.findall(text))
    merged = []
    for words, numbers in same.items():
        columns = zip(*numbers, strict=True)
        ends = [sorted(set(column), key=lambda number: float(number.replace("−", "-"))) for column in columns]
        merged.append(
            words.format(*(values[0] if len(values) == 1 else f"{values[0]}–{values[-1]}" for values in ends))
        )
    return "; or ".join(merged)


def where(table: pd.DataFrame, **values: Any) -> pd.DataFrame:
    """Return the rows whose columns have the given values; a tuple (low, high) accepts all values from low to high.

    >>> where(pd.DataFrame({"units": [1, 1, 40], "gain": [3, 100, 3]}), units=(1, 10), gain=3).to_dict("records")
    [{'units': 1, 'gain': 3}]
    """
    chosen = pd.Series(True, index=table.index)
    for name, value in values.items():
        column = table[name]
        chosen &= column.between(*value) if isinstance(value, tuple) else column == value
    return table[chosen]


def span(values: pd.Series, form: str) -> str:
    """Return smallest and largest value as text, each in the format `form`: '25% to 75%'."""
    return f"{values.min():{form}} to {values.max():{form}}"


def named(values: pd.Series, form: str) -> str:
    """Return text with the index and value of every entry, the value in the format `form`.

    >>> named(pd.Series({"GaLU": 0.24, "ReLU": -0.2}), ".0%")
    'GaLU 24%, ReLU −20%'
    """
    return ", ".join(f"{name} {value:{form}}".replace(" -", " −") for name, value in values.items())


def outcome(verdicts: Sequence[Verdict]) -> str:
    """Return 'yes', 'no', 'partly' (some hold, some do not) or 'undecided' (all are undecided).

    Undecided verdicts are ignored if others are decided.

    >>> outcome([Verdict("a", "1", "below 2", True), Verdict("b", "3", "below 2", False)])
    'partly'
    """
    decided = {verdict.outcome for verdict in verdicts} - {"undecided"}
    return decided.pop() if len(decided) == 1 else "partly" if decided else "undecided"


def as_markdown(verdicts: Sequence[Verdict]) -> str:
    """Return a Markdown table of verdicts: claim, found, threshold and outcome."""
    return markdown([["claim", "found", "threshold", "outcome"], *(list(one.row().values()) for one in verdicts)])


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of texts as a Markdown table; the first row is the head."""
    head, *others = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([head, "|---" * len(rows[0]) + "|", *others])


@dataclass(frozen=True)
class Claim:
    """A claim and its threshold; the fields are explained at the top of `claims.toml`.

    >>> about = claims("galu", "memorisation")["GaLU"]
    >>> about.limits["about"], about.is_late
    (1.25, True)
    >>> about.verdict("1.5 m/d", False).threshold
    'at most 1.25 m/d at every m ≥ 8 d; post hoc'
    """

    place: str
    words: str
    claim: str
    threshold: str
    limits: dict[str, Any]
    by: str
    set: datetime
    seen: datetime

    @property
    def is_late(self) -> bool:
        """True if the threshold was set (`set`) when cells that it is compared with were known (`seen`)."""
        return self.set >= self.seen

    def verdict(self, found: str, holds: bool | None, **names: str) -> Verdict:
        """Return the verdict on the claim; `found` is the text shown, and `names` fill the braces of the claim."""
        threshold = self.threshold.format(**self.limits) + (f"; {LATE}" if self.is_late else "")
        return Verdict(self.claim.format(**names), found, threshold, holds)

    def undecided(self, needs: str, **names: str) -> Verdict:
        """Return an undecided verdict; `needs` names the missing cells, and `names` fill the braces of the claim."""
        return Verdict(self.claim.format(**names).removesuffix("."), "nothing to compare", f"needs {needs}", None)

    @property
    def digest(self) -> str:
        """Twelve hexadecimal digits of a checksum of place, threshold, limits and `by`."""
        content = json.dumps([self.place, self.threshold, self.limits, self.by], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:12]


@cache
def _read(study: str) -> dict[str, dict[str, Claim]]:
    content = tomllib.loads((Path(__file__).parents[1] / study / "claims.toml").read_text("utf-8"))
    # Fields that a claim lacks are those of [common].
    common = content.pop("common", {})
    return {figure: {key: Claim(**common | fields) for key, fields in part.items()} for figure, part in content.items()}


def claims(study: str, figure: str) -> dict[str, Claim]:
    """Return the claims of one figure of a study, by key in `claims.toml`; the file is read once."""
    return _read(study)[figure]
