"""The figures of memorisation: searches, tiny grids, drawings, and findings of tables made up for each verdict."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from implicit_bias.experiments.galu import filters, memorisation, outputs, under_parametrised
from implicit_bias.experiments.galu.gaussian import closed_form, mean_losses, samples, search, trained, widths

TINY = {"m": 16, "d": 4, "steps": 100, "batch": 8, "lr": 0.01, "repeats": 2, "seed": 3}
CELLS = [
    (memorisation, TINY | {"network": "GaLU"}),
    (memorisation, TINY | {"network": "ReLU"}),
    (under_parametrised, TINY | {"network": "GaLU"}),
    (under_parametrised, TINY | {"network": "ReLU"}),
    (filters, TINY | {"network": "ReLU"}),
    (filters, {"network": "GaLU", "m": 16, "d": 4, "repeats": 1, "seed": 3, "updates": 30}),
    (outputs, TINY | {"method": "GaLU", "outputs": 3}),
    (outputs, TINY | {"method": "ReLU", "outputs": 1}),
    (outputs, {"method": "alternation", "m": 16, "d": 4, "outputs": 2, "repeats": 2, "seed": 3, "steps": 20}),
]


def name(value):
    return value.__name__.rpartition(".")[2] if hasattr(value, "__name__") else value.get("network") or value["method"]


def tabulated(tmp_path, settings, rows):
    """As the results' folder does it: through a file."""
    pd.DataFrame([settings | row for row in rows]).to_csv(tmp_path / "table.csv", index=False)
    return pd.read_csv(tmp_path / "table.csv")


@pytest.mark.parametrize(("module", "settings"), CELLS, ids=name)
def test_a_tiny_cell_is_computed_drawn_and_told(module, settings, tmp_path):
    rows = module.rows(settings)
    assert rows == module.rows(settings)
    assert all({"units", "repeat", "loss"} <= row.keys() for row in rows)
    table = tabulated(tmp_path, settings, rows)
    assert isinstance(module.draw(table), Figure)
    assert module.finding(table).split(":")[0] in ("Undecided", "No")
    assert module.EXPERIMENT.cost(settings) > 0


@pytest.mark.parametrize("at_once", [1, 2, 3, 5])
@pytest.mark.parametrize("step", [1, 4])
@pytest.mark.parametrize("start", [1, 8, 30])
@pytest.mark.parametrize("least", [1, 2, 9, 23, 40])
def test_the_search_ends_at_the_least_width(least, start, step, at_once):
    asked = []

    def meets(units):
        assert 0 < len(units) <= at_once
        assert len(set(units)) == len(units)
        asked.extend(units)
        return {k for k in units if k >= least}

    found = search(meets, start, 40, at_once=at_once, step=step)
    assert found is not None
    assert least <= found < least + step
    assert len(set(asked)) == len(asked)
    assert all(1 <= k <= 40 for k in asked)


def test_the_search_says_when_no_width_suffices_and_believes_what_is_known():
    asked = []
    assert search(lambda units: asked.extend(units) or set(), 3, 20, at_once=3) is None
    assert max(asked) == 20
    asked.clear()
    assert search(lambda units: asked.extend(units) or {k for k in units if k > 6}, 6, 20, at_once=2, failing=5) == 7
    assert min(asked) == 6


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
    best = mean_losses([row | {"loss": row["closed_form"]} for row in rows])
    assert all(best[row["units"]] > memorisation.LEVEL for row in untrained)
    assert all(row["closed_form"] <= row["loss"] * (1 + 1e-5) + 1e-12 for row in rows if row["loss"] is not None)


def memorised(**least):
    """A table in which some widths suffice, for m = 32 and 64 in 8 dimensions."""
    rows = []
    for network, answers in least.items():
        for m, k in zip((32, 64), answers, strict=True):
            for units, loss in ((k - 1, 0.2), (k, 0.001 if k else 0.1)):
                rows.append({"network": network, "m": m, "d": 8, "units": units, "loss": loss, "closed_form": loss / 2})
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("least", "word"),
    [
        ({"GaLU": (4, 10), "ReLU": (4, 8)}, "Yes"),
        ({"GaLU": (4, 11), "ReLU": (4, 8)}, "Partly"),
        ({"GaLU": (4, 14), "ReLU": (4, 15)}, "No"),
        ({"GaLU": (4, 9), "ReLU": (4, 0)}, "No"),
        ({"GaLU": (4, 9)}, "Undecided"),
    ],
)
def test_findings_of_memorisation(least, word):
    table = memorised(**least)
    text = memorisation.finding(table)
    assert text.startswith(f"{word}: ")
    assert f"GaLU 4, {least['GaLU'][1]}" in text
    assert isinstance(memorisation.draw(table), Figure)


def test_findings_of_memorisation_leave_out_what_was_not_run():
    table = memorised(GaLU=(4, 9), ReLU=(4, 8))
    part = table[(table.network == "GaLU") | (table.m == 32)]
    assert "for m = 32 in 8 dimensions the least widths are ReLU 4; GaLU 4;" in memorisation.finding(part)


def shared(galu, adam, relu):
    share = np.array([0.25, 0.5, 0.75])
    common = {"m": 64, "d": 8, "units": share * 8, "repeat": 1}
    parts = [
        pd.DataFrame(common | {"network": "GaLU", "loss": adam, "closed_form": galu, "rank": share * 64}),
        pd.DataFrame(common | {"network": "ReLU", "loss": relu}),
    ]
    return pd.concat(parts, ignore_index=True)


@pytest.mark.parametrize(
    ("galu", "relu", "word"),
    [
        ([0.75, 0.51, 0.25], [0.6, 0.3, 0.1], "Yes"),
        ([0.75, 0.51, 0.25], [0.9, 0.3, 0.1], "Partly"),
        ([0.9, 0.9, 0.9], [0.9, 0.3, 0.1], "No"),
    ],
)
def test_findings_of_too_few_parameters(galu, relu, word):
    table = shared(galu, np.array(galu) + 0.01, relu)
    assert under_parametrised.finding(table).startswith(f"{word}: ")
    assert isinstance(under_parametrised.draw(table), Figure)
    assert under_parametrised.finding(table[table.network == "ReLU"]).startswith("Undecided: ")


@pytest.mark.parametrize(
    ("improved", "relu", "word"),
    [([0.65, 0.33], [0.6, 0.3], "Yes"), ([0.65, 0.45], [0.6, 0.3], "Partly"), ([0.74, 0.45], [0.6, 0.3], "No"),
     ([0.65, 0.33], [0.8, 0.3], "Undecided")],
)  # fmt: skip
def test_findings_of_better_filters(improved, relu, word):
    common = {"m": 64, "d": 8, "units": [2, 4], "repeat": 1}
    galu = pd.DataFrame(common | {"network": "GaLU", "loss": [0.75, 0.5], "improved_loss": improved, "updates": 9.0})
    table = pd.concat([galu, pd.DataFrame(common | {"network": "ReLU", "loss": relu})], ignore_index=True)
    text = filters.finding(table)
    assert text.startswith(f"{word}: ")
    assert word == "Undecided" or "GaLU(9)" in text
    assert isinstance(filters.draw(table), Figure)


@pytest.mark.parametrize(
    ("galu", "relu", "word"), [((22, 60), (20, 55), "Yes"), ((30, 60), (20, 55), "Partly"), ((30, 90), (20, 55), "No")]
)
def test_findings_of_outputs(galu, relu, word):
    rows = [
        {"method": method, "outputs": q, "m": 64, "d": 8, "units": units, "loss": loss}
        for method, least in (("GaLU", galu), ("ReLU", relu), ("alternation", galu))
        for q, k in zip((1, 8), least, strict=True)
        for units, loss in ((k - 1, 0.4), (k, 0.2))
    ]
    table = pd.DataFrame(rows)
    text = outputs.finding(table)
    assert text.startswith(f"{word}: ")
    assert f"{galu[1]} : {relu[1]} at d′ = 8" in text
    assert isinstance(outputs.draw(table), Figure)
    assert outputs.finding(table.assign(loss=0.5)).startswith("Undecided: ")
