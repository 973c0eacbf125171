"""The figures of localisation: tiny cells, drawings, and findings of tables made up for each verdict."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from implicit_bias.dynamics import ipr, pixel_moments
from implicit_bias.experiments.localization import biases, fields, flips, frozen, gain, pixels, pulses, scales
from implicit_bias.experiments.localization.figures import COLLECTION, MODULES
from implicit_bias.experiments.localization.networks import MANY, ONE, process_of, spread, trained
from implicit_bias.experiments.runner.experiment import product
from implicit_bias.experiments.runner.results import load

ROOT = Path(__file__).parent.parent
TINY = {"steps": 20, "batch": 20, "repeats": 2, "seed": 3}
PROCESS = {"process": "NLGP", "gain": 3.0}
CELLS = [
    (gain, ONE | PROCESS | TINY),
    (fields, MANY | PROCESS | TINY),
    (scales, MANY | PROCESS | TINY),
    (flips, ONE | PROCESS | TINY),
    (frozen, MANY | PROCESS | TINY | {"units": 2, "times": 3, "samples": 200}),
    (pixels, pixels.grid(True)[0]),
    (pulses, pulses.grid(True)[2] | TINY),
    (biases, biases.grid(True)[-1] | TINY),
]


def tabulated(tmp_path, settings, rows):
    """As the results' folder does it: through a file."""
    pd.DataFrame([settings | row for row in rows]).to_csv(tmp_path / "table.csv", index=False)
    return pd.read_csv(tmp_path / "table.csv")


@pytest.mark.parametrize(("module", "settings"), CELLS, ids=lambda value: getattr(value, "__name__", "")[-8:])
def test_a_tiny_cell_is_computed_drawn_and_told(module, settings, tmp_path):
    rows = module.rows(settings)
    # NaN differs from itself.
    assert str(rows) == str(module.rows(settings))
    table = tabulated(tmp_path, settings, rows)
    module.draw(table).savefig(tmp_path / "figure.png")
    assert module.finding(table).split(":")[0] in ("Yes", "No", "Partly", "Undecided")
    assert module.EXPERIMENT.cost(settings) > 0


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.EXPERIMENT.name)
def test_the_settings_of_every_cell_are_refused_by_nothing(module):
    """Processes can be made of all settings, and full grids hold all that a drawing has a place for."""
    for settings in module.grid(False):
        if "xi0" in settings:
            assert process_of(settings).n == settings["n"]


def test_networks_are_those_of_their_settings():
    training = trained(ONE | PROCESS | TINY | {"biases": True, "lr": 0.3, "scale": 2.0})
    assert training.weights.shape == (2, 2, 1, 40)
    assert training.biases[-1].any()
    assert training.times.tolist() == [0.0, 6.0]
    assert 1.5 < np.linalg.norm(training.weights[0, 0]) < 2.5
    clone = process_of(ONE | PROCESS | {"process": "Gaussian"})
    np.testing.assert_allclose(clone.covariance(0), process_of(ONE | PROCESS).covariance(0), atol=1e-12)


def test_a_cell_whose_training_is_interrupted_is_no_result():
    def progress(step, loss):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(ONE | PROCESS | TINY, progress=progress)


def test_the_reference_medians_of_one_unit():
    """.21 at g = 1 and .38 at g = 3, and the clone below .05."""
    found = {}
    for process, g in (("NLGP", 1.0), ("NLGP", 3.0), ("Gaussian", 3.0)):
        cell = ONE | {"process": process, "gain": g, "steps": 800, "batch": 300, "repeats": 12, "seed": 5}
        found[process, g] = gain.rows(cell)[0]["ipr"]
    assert found["NLGP", 1.0] == pytest.approx(0.21, abs=0.03)
    assert found["NLGP", 3.0] == pytest.approx(0.38, abs=0.03)
    assert found["Gaussian", 3.0] < 0.05


def test_pixel_gates_are_those_of_the_closed_form():
    settings = {cell["gain"]: cell for cell in pixels.grid(True) if cell["xi0"] == 5.0}
    for g, expected, mse in ((0.01, 0.162, 0.263), (1.0, 0.200, 0.217), (3.0, 0.269, 0.187), (100.0, 0.414, 0.173)):
        row = pixels.rows(settings[g])[0]
        assert (row["ipr"], row["mse"]) == pytest.approx((expected, mse), abs=6e-4)
        assert row["sampled_mse"] == pytest.approx(mse, abs=pixels.NEAR)
    found = pixel_moments(process_of(settings[3.0]), 20)
    weights = [row["weight"] for row in pixels.rows(settings[3.0])]
    np.testing.assert_allclose(weights, found.best_weights[0], atol=1e-5)
    assert spread(found.best_weights)["ipr"] == pytest.approx(ipr(found.best_weights)[0])


def test_gates_frozen_at_the_end_lead_nowhere_and_the_flow_goes_on_from_the_weights():
    settings = ONE | PROCESS | {"steps": 300, "batch": 300, "repeats": 3, "seed": 2, "times": 4, "samples": 4000}
    table = pd.DataFrame(frozen.rows(settings))
    own = table[table.gates == "own"].sort_values("time")
    assert own.away.iloc[-1] == 0.0
    assert own.ipr.iloc[-1] == own.network.iloc[-1]
    # Gates of late times lead nearer to the network than those of the start.
    assert own.away.iloc[-2] < own.away.iloc[0]
    assert set(table.gates) == {"own", "random", "pixel"}


def trained_at(low, high, clone):
    """A table of `gain` in which NLGP goes from low to high."""
    cells = product(activation=gain.NAMES, process=("NLGP", "Gaussian"), gain=(0.01, 100.0))
    rows = []
    for cell in cells:
        value = clone if cell["process"] == "Gaussian" else low if cell["gain"] < 1 else high
        rows.append(cell | {"n": 40, "units": 1, "ipr_low": value, "ipr": value, "ipr_high": value})
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("low", "high", "clone", "word"), [(0.04, 0.5, 0.04, "Yes"), (0.04, 0.05, 0.04, "No"), (0.04, 0.5, 0.4, "No")]
)
def test_findings_of_gain(low, high, clone, word):
    table = trained_at(low, high, clone)
    assert gain.finding(table).startswith(f"{word}: ")
    assert isinstance(gain.draw(table), Figure)
    half = table.assign(ipr=table.ipr.where(table.activation == "relu", 0.05))
    assert gain.finding(half).startswith("Partly: " if word == "Yes" else "No: ")
    fallen = pd.concat([table, table[table.gain > 1].assign(gain=300.0, ipr=0.9 * high)])
    fallen.loc[fallen.process == "Gaussian", "ipr"] = clone
    assert gain.finding(fallen).startswith("Partly: " if word == "Yes" else "No: ")
    assert f"not with ReLU ({high:.2f} at g = 100, {0.9 * high:.2f} at g = 300)" in gain.finding(fallen)
    assert gain.finding(table[table.process == "NLGP"]).startswith("Undecided: ")


def units_at(ipr_first, ipr_second, frequency):
    """A table of `scales`."""
    pairs = {(2.0, 1.0): (ipr_first, 1), (1.0, 2.0): (ipr_second, frequency)}
    parts = [
        {"n": 40, "xi0": one, "xi1": two, "gain": g, "unit": range(3), "ipr": value, "frequency": waves}
        for (one, two), (value, waves) in pairs.items()
        for g in (0.01, 3.0)
    ]
    return pd.concat([pd.DataFrame(part) for part in parts], ignore_index=True)


@pytest.mark.parametrize(
    ("first", "second", "frequency", "word"),
    [(0.2, 0.06, 15, "Yes"), (0.2, 0.06, 1, "Partly"), (0.2, 0.3, 15, "Partly"), (0.06, 0.3, 1, "No")],
)
def test_findings_of_scales(first, second, frequency, word):
    table = units_at(first, second, frequency)
    assert scales.finding(table).startswith(f"{word}: ")
    assert isinstance(scales.draw(table), Figure)
    assert scales.finding(table[table.xi0 > table.xi1]).startswith("Undecided: ")


@pytest.mark.parametrize(
    ("flipped", "word"),
    [
        ([0.3, 0.11, 0.05, 0.0], "Yes"),
        ([0.3, 0.3, 0.14, 0.0], "Partly"),
        ([0.3, 0.3, 0.17, 0.0], "No"),
    ],
)
def test_findings_of_flips(flipped, word):
    """Three quarters are over from .15 on, where noise makes .1."""
    part = {"units": 1, "gain": 3.0, "time": [0.0, 1.0, 2.0, 21.0], "flips": flipped, "recent": 0.1, "loss": 0.1}
    table = pd.DataFrame(part | {"ipr": [0.0, 0.1, 0.5, 1.0], "ipr_low": 0.0, "ipr_high": 1.0})
    assert flips.finding(table).startswith(f"{word}: 30 % of the gates")
    assert isinstance(flips.draw(table), Figure)
    assert flips.finding(table.assign(ipr=0.1)).startswith("Undecided: ")
    assert flips.finding(table.assign(recent=0.3)).startswith("Undecided: ")


@pytest.mark.parametrize(
    ("ends", "word"), [([0.5, 0.5, 0.5], "Yes"), ([0.1, 0.1, 0.46], "Partly"), ([0.1, 0.1, 0.2], "No")]
)
def test_findings_of_frozen_gates(ends, word):
    own = {"gates": "own", "time": [0.0, 1.0, 2.0, 3.0], "network": [0.1, 0.15, 0.4, 0.5], "ipr": [*ends, 0.5]}
    others = {"gates": ["random", "pixel"], "time": 0.0, "network": 0.1, "ipr": [0.07, 0.4]}
    table = pd.concat([pd.DataFrame(own), pd.DataFrame(others)], ignore_index=True)
    table = table.assign(units=1, gain=3.0, repeats=1, away=0.1, ipr_low=table.ipr, ipr_high=table.ipr)
    text = frozen.finding(table)
    assert text.startswith(f"{word}: ")
    assert "networks end at median IPRs of 0.50 (K = 1, g = 3, one start)" in text
    assert "random ones to 0.070, pixel gates to at least 0.40" in text
    assert ("if frozen never before the end (K = 1, g = 3; 0.200 of 0.500 from s = 2)" in text) == (word == "No")
    assert isinstance(frozen.draw(table), Figure)


def pixels_at(rising, away):
    """A table of `pixels` with two pixels."""
    parts = [
        {"xi0": one, "xi1": two, "gain": g, "place": [0, 1], "weight": [1.0, g], "mse": 0.2, "ipr": value}
        for (one, two), values in zip(((5.0, 1.0), (1.0, 2.0)), rising, strict=True)
        for g, value in zip((0.01, 100.0), values, strict=True)
    ]
    return pd.concat([pd.DataFrame(part) for part in parts], ignore_index=True).assign(sampled_mse=0.2 + away)


@pytest.mark.parametrize(
    ("rising", "away", "word"),
    [
        (((0.1, 0.4), (0.5, 0.6)), 0.0, "Yes"),
        (((0.1, 0.4), (0.6, 0.5)), 0.0, "Partly"),
        (((0.4, 0.1), (0.5, 0.6)), 0.0, "No"),
        (((0.1, 0.4), (0.5, 0.6)), 0.1, "No"),
    ],
)
def test_findings_of_pixel_gates(rising, away, word):
    table = pixels_at(rising, away)
    assert pixels.finding(table).startswith(f"{word}: ")
    assert isinstance(pixels.draw(table), Figure)
    assert pixels.finding(table[table.xi0 > 1]).startswith("Undecided: ")


@pytest.mark.parametrize(("iprs", "word"), [((0.5, 0.4), "Yes"), ((0.03, 0.2), "Partly"), ((0.03, 0.1), "No")])
def test_findings_of_pulses(iprs, word):
    table = pd.DataFrame({"lengths": "11 / 3", "signs": [False, True], "flip": False, "label": 0.0, "ipr": iprs})
    table = table.assign(ipr_low=table.ipr, ipr_high=table.ipr)
    assert pulses.finding(table).startswith(f"{word}: ")
    assert isinstance(pulses.draw(table), Figure)


@pytest.mark.parametrize(
    ("relu", "others", "word"),
    [(0.4, (0.2, 0.07), "Yes"), (0.4, (0.07, 0.07), "Partly"), (0.07, (0.07, 0.2), "No")],
)
def test_findings_of_biases(relu, others, word):
    """ReLU alike with and without biases, the others not."""
    cells = product(activation=biases.NAMES, label=(0.0, -1.0), biases=(True, False), process=("NLGP", "Gaussian"))
    rows = []
    for cell in cells:
        value = relu if cell["activation"] == "relu" else others[0 if cell["biases"] else 1]
        value = (0.4 if cell["biases"] else 0.05) if word == "No" and cell["activation"] == "relu" else value
        value = 0.05 if cell["process"] == "Gaussian" else value
        rows.append(cell | {"units": 1, "ipr_low": value, "ipr": value, "ipr_high": value})
    table = pd.DataFrame(rows)
    assert biases.finding(table).startswith(f"{word}: ")
    assert isinstance(biases.draw(table), Figure)
    assert biases.finding(table[table.activation == "relu"]).startswith("Undecided: ")
    some = table.assign(ipr=table.ipr.where(table.label == 0, 0.05))
    assert biases.finding(some).startswith("No: " if word == "No" else "Partly: ")


def test_findings_of_fields():
    pixel = np.arange(8)
    shapes = {"NLGP": np.where(pixel == 3, 1.0, 0.0), "Gaussian": np.ones(8)}
    one = {"n": 8, "units": 1, "gain": 100.0, "unit": 0, "pixel": pixel}
    parts = [pd.DataFrame(one | {"process": process, "weight": w}) for process, w in shapes.items()]
    table = pd.concat(parts, ignore_index=True)
    assert fields.finding(table).startswith("Yes: in the median field 1 of 8 pixels hold nine tenths of Σw² with K = 1")
    assert fields.finding(table.assign(weight=1.0)).startswith("No: ")
    assert fields.finding(parts[0]).startswith("Undecided: ")


def test_the_page_says_what_the_committed_tables_say():
    page = (ROOT / "docs" / "localization.md").read_text()
    found = load(COLLECTION, ROOT / "data" / "localization")
    assert [figured.experiment for figured in found] == list(COLLECTION.chosen("all"))
    for figured in found:
        assert figured.record["missing"] == 0
        assert f"**{figured.finding()}**" in page
        assert f"](localization_{figured.experiment.name}.png)" in page
