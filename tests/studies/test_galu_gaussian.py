"""Searches for the least width, and networks fitted to Gaussian samples."""

import numpy as np
import pandas as pd
import pytest

from implicit_bias.studies.galu import memorisation
from implicit_bias.studies.galu.gaussian import closed_form, samples, trained, widths
from implicit_bias.studies.galu.least_units import least_width

TINY = {"m": 16, "d": 4, "steps": 100, "batch": 8, "lr": 0.01, "repeats": 2, "seed": 3}


def losses(units, least):
    """Two repeats for each width, of which one alone is below 1 too early; their mean is from `least` on."""
    return [{"units": k, "repeat": r, "loss": loss} for k in units for r, loss in ((1, 0.5), (2, 1.0 + (k < least)))]


@pytest.mark.parametrize("at_once", [1, 2, 3, 5])
@pytest.mark.parametrize("step", [1, 4])
@pytest.mark.parametrize("start", [1, 8, 30])
@pytest.mark.parametrize("least", [1, 2, 9, 23, 40])
def test_the_search_ends_at_the_least_width(least, start, step, at_once):
    asked = []

    def fit(units):
        assert 0 < len(units) <= at_once
        assert len(set(units)) == len(units)
        asked.extend(units)
        return losses(units, least)

    found, rows = least_width(fit, 1.0, start, 40, at_once=at_once, step=step)
    assert found is not None
    assert least <= found < least + step
    assert len(set(asked)) == len(asked)
    assert all(1 <= k <= 40 for k in asked)
    assert rows == losses(asked, least)


def test_the_search_says_when_no_width_suffices_and_believes_what_is_known():
    none, rows = least_width(lambda units: losses(units, 21), 1.0, 3, 20, at_once=3)
    assert none is None
    assert max(row["units"] for row in rows) == 20
    found, rows = least_width(lambda units: losses(units, 7), 1.0, 6, 20, at_once=2, failing=5)
    assert found == 7
    assert min(row["units"] for row in rows) == 6


def test_closed_forms_are_of_the_trained_networks_own_gates():
    settings = TINY | {"steps": 1000, "batch": 16, "lr": 0.03}
    for row in trained(settings, "GaLU", [1, 2]):
        best = closed_form(settings, row["units"], row["repeat"])
        assert best.loss * (1 - 1e-5) <= row["loss"] <= best.loss + 1e-2
        # A trained readout adds nothing to what the layer can do.
        assert best.rank <= row["units"] * 4


def test_samples_are_those_of_their_seed():
    X, Y = samples(TINY, 3)
    assert (X.shape, Y.shape) == ((16, 4), (16, 1))
    assert np.array_equal(X, samples(TINY | {"outputs": 5}, 3)[0])
    assert not np.array_equal(X, samples(TINY, 4)[0])
    assert widths({"m": 64, "d": 8}, (0.01, 0.25, 1.0)) == [1, 2, 8]


def test_galu_is_not_trained_where_no_weights_suffice():
    rows = memorisation.rows(TINY | {"network": "GaLU"})
    untrained = [row for row in rows if row["loss"] is None]
    assert untrained
    best = pd.DataFrame(rows).groupby("units").closed_form.mean()
    assert all(best[row["units"]] > memorisation.LEVEL for row in untrained)
    assert all(row["closed_form"] <= row["loss"] * (1 + 1e-5) + 1e-12 for row in rows if row["loss"] is not None)
