"""Verdicts on several seeds: four of five decide, and numbers that differ become ranges."""

from dataclasses import replace

import pandas as pd
import pytest

from implicit_bias.studies.runner import decide, over_seeds


@pytest.mark.parametrize(
    ("losses", "outcome", "found"),
    [
        ([0.1, 0.1, 0.1, 0.1, 3e-05], "yes", "yes in 5 of 5 seeds; −0.1 at K = 2, loss 3e-05–0.1"),
        ([0.1, 0.1, 0.1, 0.1, 2.0], "yes", "yes in 4, no in 1 of 5 seeds; −0.1 at K = 2, loss 0.1–2"),
        ([0.1, 0.1, 0.1, 3.0, 2.0], "undecided", "yes in 3, no in 2 of 5 seeds; −0.1 at K = 2, loss 0.1–3"),
        ([2.0, 2.0, 2.0, 2.0, None], "no", "no in 4, undecided in 1 of 5 seeds; −0.1 at K = 2, loss 2; or nothing"),
        ([0.1], "yes", "−0.1 at K = 2, loss 0.1"),
    ],
)
def test_four_of_five_seeds_decide(losses, outcome, found):
    table = pd.DataFrame({"seed": range(len(losses)), "loss": losses})

    def judged(own):
        verdict = decide("low", f"−0.1 at K = 2, loss {own.loss.iloc[0]:g}", own.loss.iloc[0], "below", 1)
        return [replace(verdict, found="nothing") if verdict.holds is None else verdict]

    (verdict,) = over_seeds(judged)(table)
    assert (verdict.outcome, verdict.found) == (outcome, found)
