"""Claims of a paper with the thresholds they are tested by, read from a study's `claims.toml`.

A threshold that was set after the data is called post hoc in its verdict. A record contains the digest of every claim,
so that a threshold that was changed later is noticed.
"""

import hashlib
import json
import tomllib
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from implicit_bias.studies.runner.verdicts import Verdict

#: Added to a threshold that was set when a table was already known.
LATE = "post hoc"


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
