"""Claims with dated thresholds: digests, and what their verdicts say of the date."""

from dataclasses import replace
from datetime import timedelta

import pytest

from implicit_bias.studies.runner.verdicts import LATE, claims

CLAIM = claims("galu", "images")["similar"]


@pytest.mark.parametrize(("wait", "late"), [(-1, False), (0, True), (1, True)])
def test_threshold_that_is_not_older_than_its_table_says_so(wait, late):
    claim = replace(CLAIM, set=CLAIM.seen + timedelta(seconds=wait))
    verdict = claim.verdict("at 1 of 2 widths", False, data="digits")
    assert verdict.claim.startswith("on digits, ")
    assert verdict.threshold.endswith(LATE) == late


@pytest.mark.parametrize(
    ("change", "same"),
    [({"limits": {"most": 2}}, False), ({"threshold": "at one width"}, False), ({"words": ""}, True)],
)
def test_digest_changes_with_threshold_and_limits_alone(change, same):
    assert (replace(CLAIM, **change).digest == CLAIM.digest) == same
