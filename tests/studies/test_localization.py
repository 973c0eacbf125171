"""The figures of localization: tiny cells, drawings, verdicts of tables made up for each outcome; their page."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from implicit_bias import GatedFeatures
from implicit_bias.extensions.gated_flow import Moments, ipr, pixel_moments
from implicit_bias.studies.localization import (
    COLLECTION,
    biases,
    fields,
    flips,
    frozen,
    gain,
    pixels,
    pulses,
    scales,
    theory,
    tiling,
)
from implicit_bias.studies.localization.networks import MANY, ONE, process_of, spread, trained
from implicit_bias.studies.runner.experiment import product
from tests.studies.pages import cell_name, outcomes, page_of, told

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
    (tiling, tiling.grid(True)[0] | {"samples": 200}),
    (tiling, tiling.grid(True)[3] | {"samples": 400}),
    (tiling, tiling.grid(True)[4] | {"samples": 200}),
    (theory, theory.grid(True)[3] | {"lr": 0.2, "batch": 50}),
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
    assert training.weights.shape[1:] == (2, 1, 40)
    assert training.biases[-1].any()
    assert training.times[[0, -1]].tolist() == pytest.approx([0.0, 0.3 * training.steps[-1]])
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
        cell = ONE | {"process": process, "gain": g, "batch": 300, "repeats": 12, "seed": 5}
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
    assert set(table.gates) == {"own", "random", "pixel", "chosen"}


#: A training whose fields stay, which the last verdict of all figures that train says.
STAYS = {"steps": 8000, "made": 1000, "change": 0.01}


def told_of(module, table):
    """The outcomes of a table of trainings that stay; they are what they are told to be, and the last says so."""
    *found, last = outcomes(module, table)
    assert last == "yes"
    moving = table.assign(made=8000, change=0.03)
    assert outcomes(module, moving) == [*found, "no"]
    assert "IPRs change by up to 0.030" in module.verdicts(moving)[-1].found
    return found


def trained_at(low, high, clone):
    """A table of `gain` in which NLGP goes from low to high."""
    cells = product(activation=gain.NAMES, process=("NLGP", "Gaussian"), gain=(0.01, 100.0))
    rows = []
    for cell in cells:
        value = clone if cell["process"] == "Gaussian" else low if cell["gain"] < 1 else high
        rows.append(cell | {"n": 40, "units": 1, "ipr_low": value, "ipr": value, "ipr_high": value} | STAYS)
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("low", "high", "clone", "expected"),
    [(0.04, 0.5, 0.04, "yes yes yes"), (0.04, 0.05, 0.04, "no yes yes"), (0.04, 0.5, 0.4, "yes no yes")],
)
def test_verdicts_of_gain(low, high, clone, expected):
    """Three of every activation: local, the clone not, nowhere falling."""
    table = trained_at(low, high, clone)
    assert told_of(gain, table) == 3 * expected.split()
    assert isinstance(gain.draw(table), Figure)
    half = table.assign(ipr=table.ipr.where(table.activation == "relu", 0.05))
    assert told_of(gain, half) == expected.split() + 2 * ["no", "yes", "yes"]
    fallen = pd.concat([table, table[table.gain > 1].assign(gain=300.0, ipr=0.9 * high)])
    fallen.loc[fallen.process == "Gaussian", "ipr"] = clone
    assert told_of(gain, fallen)[2] == "no"
    assert gain.verdicts(fallen)[2].found == f"{high:.3f} at g = 100 to {0.9 * high:.3f} at g = 300"
    assert told_of(gain, table[table.process == "NLGP"])[:3] == [expected.split()[0], "undecided", "undecided"]
    assert told_of(gain, table[table.process == "Gaussian"])[:3] == ["undecided", expected.split()[1], "undecided"]


def units_at(ipr_first, ipr_second, frequency):
    """A table of `scales`."""
    pairs = {(2.0, 1.0): (ipr_first, 1), (1.0, 2.0): (ipr_second, frequency)}
    parts = [
        {"n": 40, "xi0": one, "xi1": two, "gain": g, "unit": range(3), "ipr": value, "frequency": waves} | STAYS
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
    assert told_of(scales, table) == expected.split()
    assert isinstance(scales.draw(table), Figure)
    assert told_of(scales, table[table.xi0 > table.xi1]) == 3 * ["undecided"]
    assert told_of(scales, table[table.gain < 1]) == 3 * ["undecided"]


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
    part |= {"placed": [0.1, 0.8, 0.9, 1.0], "cosine": [0.1, 0.8, 0.85, 1.0], "length": [0.1, 0.2, 0.6, 1.0]} | STAYS
    table = pd.DataFrame(part | {"ipr": [0.0, 0.1, 0.5, 1.0], "ipr_low": 0.0, "ipr_high": 1.0})
    # In place at an IPR of .1, and half its length at a cosine of .85.
    assert told_of(flips, table) == [*expected.split(), "yes", "no", *4 * ["undecided"]]
    assert told_of(flips, table.assign(placed=0.5, cosine=0.95))[2:4] == ["no", "yes"]
    assert flips.verdicts(table)[0].found.endswith("30 % of the gates flip from start to end")
    assert isinstance(flips.draw(table), Figure)
    assert told_of(flips, table.assign(ipr=0.1)) == 8 * ["undecided"]
    assert told_of(flips, table.assign(recent=0.3))[:2] == 2 * ["undecided"]


@pytest.mark.parametrize(
    ("ends", "expected"),
    [([0.5, 0.5, 0.5], "yes yes yes"), ([0.1, 0.1, 0.46], "yes no no"), ([0.1, 0.1, 0.2], "no no no")],
)
def test_verdicts_of_frozen_gates(ends, expected):
    """Ahead of the network, early, and from the start; there are no ten units."""
    own = {"gates": "own", "time": [0.0, 1.0, 2.0, 3.0], "network": [0.1, 0.15, 0.4, 0.5], "ipr": [*ends, 0.5]}
    others = {"gates": ["random", "pixel", "chosen"], "time": 0.0, "network": 0.1, "ipr": [0.07, 0.4, 0.4]}
    table = pd.concat([pd.DataFrame(own), pd.DataFrame(others)], ignore_index=True)
    table = table.assign(units=1, gain=3.0, repeats=1, away=0.1, placed=0.4, ipr_low=table.ipr, ipr_high=table.ipr)
    table = table.assign(**STAYS)
    ahead, early, start = expected.split()
    assert told_of(frozen, table) == [ahead, early, "undecided", "undecided", "no", start]
    assert told_of(frozen, table.assign(placed=0.8))[4] == "yes"
    found = frozen.verdicts(table)
    assert found[0].found.startswith("g = 3 (one start): of 0.500 at the end, ")
    assert found[0].found.endswith("0.200 from s = 2") == (ahead == "no")
    assert found[5].found.endswith("random gates up to 0.070, pixel gates at least 0.40")
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
    table = table.assign(ipr_low=table.ipr, ipr_high=table.ipr, activation="relu", **STAYS)
    plain = "yes" if iprs[0] > 0.15 else "no"
    assert told_of(pulses, table) == [*expected.split(), plain]
    assert isinstance(pulses.draw(table), Figure)
    assert told_of(pulses, table[:1]) == ["undecided", "undecided", plain]
    more = pd.concat([table, table[:1].assign(activation="erf", ipr=0.2)])
    assert told_of(pulses, more)[2] == "yes"
    assert pulses.verdicts(more)[2].found.endswith("erf 0.200 to 0.200")


@pytest.mark.parametrize(
    ("relu", "others", "expected"),
    [
        ((0.4, 0.4), (0.2, 0.07), "yes yes yes yes"),
        ((0.4, 0.05), (0.2, 0.2), "yes no yes no"),
        ((0.05, 0.4), (0.07, 0.07), "no yes no yes"),
    ],
)
def test_verdicts_of_biases(relu, others, expected):
    """With both biases and without any, of ReLU and of the others; hidden biases alone decide nothing."""
    rows = []
    for cell in product(activation=biases.NAMES, label=(0.0, -1.0), kind=biases.KINDS, process=("NLGP", "Gaussian")):
        iprs = relu if cell["activation"] == "relu" else others
        value = {"both": iprs[0], "no biases": iprs[1], "hidden": 0.1}[cell["kind"]]
        value = 0.05 if cell["process"] == "Gaussian" else value
        hidden, output = biases.KINDS[cell.pop("kind")]
        rows.append(cell | {"biases": hidden, "output_bias": output, "units": 1} | STAYS)
        rows[-1] |= {"ipr_low": value, "ipr": value, "ipr_high": value}
    table = pd.DataFrame(rows)
    first, rest = expected.split()[:2], expected.split()[2:]
    assert told_of(biases, table) == [*first, *rest, *rest]
    assert isinstance(biases.draw(table), Figure)
    assert told_of(biases, table[table.activation == "relu"]) == [*first, *4 * ["undecided"]]
    some = table.assign(ipr=table.ipr.where(table.label == 0, 0.05))
    assert told_of(biases, some)[::2] == 3 * ["no"]


def test_verdicts_of_fields():
    """Of one unit and its clone; there are no forty."""
    pixel = np.arange(8)
    shapes = {"NLGP": np.where(pixel == 3, 1.0, 0.0), "Gaussian": np.ones(8)}
    one = {"n": 8, "units": 1, "gain": 100.0, "unit": 0, "pixel": pixel} | STAYS
    parts = [pd.DataFrame(one | {"process": process, "weight": w}) for process, w in shapes.items()]
    table = pd.concat(parts, ignore_index=True)
    assert told_of(fields, table) == ["yes", "yes", "undecided", "undecided"]
    assert fields.verdicts(table)[0].found == "1 of 8 pixels hold 90 % of Σw², IPR 1.000"
    assert told_of(fields, table.assign(weight=1.0))[:2] == ["no", "yes"]
    assert told_of(fields, parts[0])[:2] == ["yes", "undecided"]


def test_gates_with_one_span_have_one_loss_and_the_tiling_is_found():
    """K = 2: the constant gate and a pixel's span the same features as the pixel's gate and its complement."""
    settings = tiling.grid(True)[0]
    tile, others = tiling.rows(settings)
    assert (others["gates"], tile["kind"]) == ("0 -1", "tiling")
    assert others["loss"] == pytest.approx(tile["loss"], rel=1e-9)
    assert others["fresh"] == pytest.approx(tile["fresh"], rel=1e-9)
    assert tile["loss"] < pixel_moments(process_of(settings)).best_loss < tile["fresh"]


def test_the_best_set_of_pixel_gates_is_the_best_of_all():
    """Annealing against all sets of three of nine gates, by moments over the samples and all shifts."""
    settings = tiling.grid(True)[0] | {"n": 8, "xi0": 1.0, "xi1": 0.5, "units": 3, "steps": 400, "samples": 300}
    process = process_of(settings)
    best, tried = tiling._best_set(process, settings)
    X, y = process.sample(300, seed=1)
    shifted, targets = np.concatenate([np.roll(X, s, axis=1) for s in range(8)]), np.tile(y, 8)

    def loss(places):
        features = GatedFeatures(shifted, tiling._opened(shifted, places))
        return Moments.from_samples(features, targets).best_loss

    losses = {places: loss(places) for places in combinations(range(-1, 8), 3)}
    assert tried == 401
    assert loss(best) == pytest.approx(min(losses.values()), abs=1e-3)


def test_the_best_gates_of_any_kind_are_the_nearest_sets():
    """By hand: weights 1 and 2 on the input 1, targets 0, 3 and 1.1; the tiling has one gate open."""
    X, w = np.ones((3, 1)), np.array([[1.0], [2.0]])
    sets = np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]])
    y = np.array([0.0, 3.0, 1.1])
    assert tiling._chosen(X, y, w, sets).tolist() == [[0, 0], [1, 1], [1, 0]]
    assert tiling._chosen(X, y, w, np.eye(2)).tolist() == [[1, 0], [0, 1], [1, 0]]
    assert tiling._left(X, y, w, np.eye(2)) == pytest.approx((1 + 1 + 0.01) / 3)


@pytest.mark.parametrize(("tile", "others", "expected"), [(0.2, 0.2, "yes"), (0.2, 0.1, "no"), (0.1, 0.2, "yes")])
def test_verdicts_of_tiling(tile, others, expected):
    cells = {"units": 2, "kind": ["tiling", "overlapping"], "fresh": [tile, others], "sets": 7, "gates": "0 1"}
    table = pd.concat([pd.DataFrame(cells | {"family": family}) for family in tiling.FAMILIES], ignore_index=True)
    assert outcomes(tiling, table) == 2 * [expected]
    assert isinstance(tiling.draw(table), Figure)
    assert outcomes(tiling, table[table.kind == "tiling"]) == []


def test_moments_of_the_cases_are_those_of_samples():
    for case in theory.CASES:
        settings = theory.grid(True)[0] | {"case": case}
        X, y = process_of(settings).sample(40_000, seed=1)
        sampled = Moments.from_samples(GatedFeatures(X, theory._gates(X[:, 20] >= 0, case)), y)
        exact = theory.moments_of(settings)
        np.testing.assert_allclose(exact.dense(), sampled.dense(), atol=0.03)
        np.testing.assert_allclose(exact.b, sampled.b, atol=0.02)
        assert (exact.redundant, exact.power) == (sampled.redundant, sampled.power)


@pytest.mark.parametrize(("closed", "wrong", "expected"), [(0.01, 0.5, "yes no"), (0.5, 0.01, "no yes")])
def test_verdicts_of_theory(closed, wrong, expected):
    table = pd.DataFrame({"case": "single", "time": [1.0, 2.0], "closed": closed, "printed": wrong})
    assert outcomes(theory, table)[2:4] == expected.split()
    assert isinstance(theory.draw(table), Figure)


def test_the_page_says_what_the_committed_tables_say():
    page_of(COLLECTION)
