"""The figures of localization: tiny cells, drawings, verdicts of tables made up for each outcome; their page."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from implicit_bias.dynamics import ipr, pixel_moments
from implicit_bias.experiments.localization import (
    COLLECTION,
    biases,
    fields,
    flips,
    frozen,
    gain,
    pixels,
    pulses,
    scales,
)
from implicit_bias.experiments.localization.networks import MANY, ONE, process_of, spread, trained
from implicit_bias.experiments.runner.experiment import product
from tests.experiments import cell_name, outcomes, page_of, told

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


@pytest.mark.parametrize(("module", "settings"), CELLS, ids=cell_name)
def test_a_tiny_cell_is_computed_drawn_and_told(module, settings, tmp_path):
    assert set(told(module, settings, tmp_path)) <= {"yes", "no", "undecided"}


@pytest.mark.parametrize("figure", COLLECTION.figures)
def test_the_settings_of_every_cell_are_refused_by_nothing(figure):
    """Processes can be made of all settings, and full grids hold all that a drawing has a place for."""
    for settings in COLLECTION.figures[figure].grid(False):
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
    ("low", "high", "clone", "expected"),
    [(0.04, 0.5, 0.04, "yes yes yes"), (0.04, 0.05, 0.04, "no yes yes"), (0.04, 0.5, 0.4, "yes no yes")],
)
def test_verdicts_of_gain(low, high, clone, expected):
    """Three of every activation: local, the clone not, nowhere falling."""
    table = trained_at(low, high, clone)
    assert outcomes(gain, table) == 3 * expected.split()
    assert isinstance(gain.draw(table), Figure)
    half = table.assign(ipr=table.ipr.where(table.activation == "relu", 0.05))
    assert outcomes(gain, half) == expected.split() + 2 * ["no", "yes", "yes"]
    fallen = pd.concat([table, table[table.gain > 1].assign(gain=300.0, ipr=0.9 * high)])
    fallen.loc[fallen.process == "Gaussian", "ipr"] = clone
    assert outcomes(gain, fallen)[2] == "no"
    assert gain.verdicts(fallen)[2].found == f"{high:.3f} at g = 100 to {0.9 * high:.3f} at g = 300"
    assert outcomes(gain, table[table.process == "NLGP"])[:3] == [expected.split()[0], "undecided", "undecided"]
    assert outcomes(gain, table[table.process == "Gaussian"])[:3] == ["undecided", expected.split()[1], "undecided"]


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
    ("first", "second", "frequency", "expected"),
    [
        (0.2, 0.06, 15, "yes yes yes"),
        (0.2, 0.06, 1, "yes yes no"),
        (0.2, 0.3, 15, "yes no yes"),
        (0.06, 0.3, 1, "no no no"),
    ],
)
def test_verdicts_of_scales(first, second, frequency, expected):
    table = units_at(first, second, frequency)
    assert outcomes(scales, table) == expected.split()
    assert isinstance(scales.draw(table), Figure)
    assert outcomes(scales, table[table.xi0 > table.xi1]) == 3 * ["undecided"]
    assert outcomes(scales, table[table.gain < 1]) == 3 * ["undecided"]


@pytest.mark.parametrize(
    ("flipped", "expected"),
    [
        ([0.3, 0.11, 0.05, 0.0], "yes yes"),
        ([0.3, 0.3, 0.14, 0.0], "yes no"),
        ([0.3, 0.3, 0.17, 0.0], "no no"),
    ],
)
def test_verdicts_of_flips(flipped, expected):
    """Three quarters are over from .15 on, where noise makes .1; there are no forty units."""
    part = {"units": 1, "gain": 3.0, "time": [0.0, 1.0, 2.0, 21.0], "flips": flipped, "recent": 0.1, "loss": 0.1}
    table = pd.DataFrame(part | {"ipr": [0.0, 0.1, 0.5, 1.0], "ipr_low": 0.0, "ipr_high": 1.0})
    assert outcomes(flips, table) == [*expected.split(), "undecided", "undecided"]
    assert flips.verdicts(table)[0].found.endswith("30 % of the gates flip from start to end")
    assert isinstance(flips.draw(table), Figure)
    assert outcomes(flips, table.assign(ipr=0.1)) == 4 * ["undecided"]
    assert outcomes(flips, table.assign(recent=0.3)) == 4 * ["undecided"]


@pytest.mark.parametrize(
    ("ends", "expected"),
    [([0.5, 0.5, 0.5], "yes yes yes"), ([0.1, 0.1, 0.46], "yes no no"), ([0.1, 0.1, 0.2], "no no no")],
)
def test_verdicts_of_frozen_gates(ends, expected):
    """Ahead of the network, early, and from the start; there are no ten units."""
    own = {"gates": "own", "time": [0.0, 1.0, 2.0, 3.0], "network": [0.1, 0.15, 0.4, 0.5], "ipr": [*ends, 0.5]}
    others = {"gates": ["random", "pixel"], "time": 0.0, "network": 0.1, "ipr": [0.07, 0.4]}
    table = pd.concat([pd.DataFrame(own), pd.DataFrame(others)], ignore_index=True)
    table = table.assign(units=1, gain=3.0, repeats=1, away=0.1, ipr_low=table.ipr, ipr_high=table.ipr)
    ahead, early, start = expected.split()
    assert outcomes(frozen, table) == [ahead, early, "undecided", "undecided", start]
    found = frozen.verdicts(table)
    assert found[0].found.startswith("g = 3 (one start): of 0.500 at the end, ")
    assert found[0].found.endswith("0.200 from s = 2") == (ahead == "no")
    assert found[4].found.endswith("random gates up to 0.070, pixel gates at least 0.40")
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
    ("rising", "away", "expected"),
    [
        (((0.1, 0.4), (0.5, 0.6)), 0.0, "yes yes yes"),
        (((0.1, 0.4), (0.6, 0.5)), 0.0, "yes yes no"),
        (((0.4, 0.1), (0.5, 0.6)), 0.0, "yes no yes"),
        (((0.1, 0.4), (0.5, 0.6)), 0.1, "no yes yes"),
    ],
)
def test_verdicts_of_pixel_gates(rising, away, expected):
    """The closed form, and the first and the last pair of length-scales; the others are missing."""
    table = pixels_at(rising, away)
    closed, first, last = expected.split()
    assert outcomes(pixels, table) == [closed, first, "undecided", "undecided", last]
    assert isinstance(pixels.draw(table), Figure)
    assert outcomes(pixels, table[table.xi0 > 1]) == [closed, first, *3 * ["undecided"]]
    assert outcomes(pixels, table[table.gain > 1]) == [closed, *4 * ["undecided"]]


@pytest.mark.parametrize(
    ("iprs", "expected"), [((0.5, 0.4), "yes yes"), ((0.03, 0.2), "no yes"), ((0.03, 0.1), "no no")]
)
def test_verdicts_of_pulses(iprs, expected):
    table = pd.DataFrame({"lengths": "11 / 3", "signs": [False, True], "flip": False, "label": 0.0, "ipr": iprs})
    table = table.assign(ipr_low=table.ipr, ipr_high=table.ipr)
    assert outcomes(pulses, table) == expected.split()
    assert isinstance(pulses.draw(table), Figure)
    assert outcomes(pulses, table[:1]) == ["undecided", "undecided"]


@pytest.mark.parametrize(
    ("relu", "others", "expected"),
    [
        ((0.4, 0.4), (0.2, 0.07), "yes yes yes"),
        ((0.4, 0.4), (0.07, 0.07), "yes yes no"),
        ((0.4, 0.05), (0.07, 0.2), "no no no"),
    ],
)
def test_verdicts_of_biases(relu, others, expected):
    """Of ReLU without biases, and of the others without and with; the iprs are those with biases and without."""
    cells = product(activation=biases.NAMES, label=(0.0, -1.0), biases=(True, False), process=("NLGP", "Gaussian"))
    rows = []
    for cell in cells:
        iprs = relu if cell["activation"] == "relu" else others
        value = 0.05 if cell["process"] == "Gaussian" else iprs[0 if cell["biases"] else 1]
        rows.append(cell | {"units": 1, "ipr_low": value, "ipr": value, "ipr_high": value})
    table = pd.DataFrame(rows)
    first, *rest = expected.split()
    assert outcomes(biases, table) == [first, *rest, *rest]
    assert isinstance(biases.draw(table), Figure)
    assert outcomes(biases, table[table.activation == "relu"]) == [first, *4 * ["undecided"]]
    some = table.assign(ipr=table.ipr.where(table.label == 0, 0.05))
    assert outcomes(biases, some) == ["no", rest[0], "no", rest[0], "no"]


def test_verdicts_of_fields():
    """Of one unit and its clone; there are no forty."""
    pixel = np.arange(8)
    shapes = {"NLGP": np.where(pixel == 3, 1.0, 0.0), "Gaussian": np.ones(8)}
    one = {"n": 8, "units": 1, "gain": 100.0, "unit": 0, "pixel": pixel}
    parts = [pd.DataFrame(one | {"process": process, "weight": w}) for process, w in shapes.items()]
    table = pd.concat(parts, ignore_index=True)
    assert outcomes(fields, table) == ["yes", "yes", "undecided", "undecided"]
    assert fields.verdicts(table)[0].found == "1 of 8 pixels hold 90 % of Σw², IPR 1.000"
    assert outcomes(fields, table.assign(weight=1.0))[:2] == ["no", "yes"]
    assert outcomes(fields, parts[0])[:2] == ["yes", "undecided"]


def test_the_page_says_what_the_committed_tables_say():
    page_of(COLLECTION)
