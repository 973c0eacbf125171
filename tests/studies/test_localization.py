"""The figures of localization: cells of the kinds that are not pinned, verdicts on tables made for each outcome."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from implicit_bias import GatedFeatures
from implicit_bias.extensions.gated_flow import Moments, ipr, pixel_moments
from implicit_bias.studies.localization import (
    COLLECTION,
    biases,
    common,
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
from implicit_bias.studies.localization.common import ONE, process_of, spread, stayed, trained
from implicit_bias.studies.runner import product
from tests.studies.pages import judged, outcomes, told

TINY = {"steps": 20, "batch": 20, "repeats": 2, "seed": 3}
PROCESS = {"process": "NLGP", "gain": 3.0}
#: Cells of kinds that the quick run's cheapest cells are not.
CELLS = [
    (pulses, pulses.grid(True)[2] | TINY),
    (tiling, tiling.grid(True)[3] | {"samples": 400}),
    (tiling, tiling.grid(True)[4] | {"samples": 200}),
    (theory, theory.grid(True)[3] | {"lr": 0.2, "batch": 50}),
]


@pytest.mark.parametrize(("module", "settings"), CELLS)
def test_single_cell_of_other_kind(module, settings, tmp_path):
    assert set(told(module, settings, tmp_path)) <= {"yes", "no", "undecided"}


@pytest.mark.parametrize("figure", COLLECTION.figures)
def test_settings_of_every_cell_make_a_process(figure):
    for settings in COLLECTION.figures[figure].grid(False):
        if "xi0" in settings:
            assert process_of(settings).n == settings["n"]


def test_network_has_settings_of_cell():
    training = trained(ONE | PROCESS | TINY | {"biases": True, "lr": 0.3, "scale": 2.0})
    assert training.weights.shape[1:] == (2, 1, 40)
    assert training.biases[-1].any()
    assert training.times[[0, -1]].tolist() == pytest.approx([0.0, 0.3 * training.steps[-1]])
    assert 1.5 < np.linalg.norm(training.weights[0, 0]) < 2.5
    clone = process_of(ONE | PROCESS | {"process": "Gaussian"})
    np.testing.assert_allclose(clone.covariance(0), process_of(ONE | PROCESS).covariance(0), atol=1e-12)


def test_interrupted_training_raises():
    def progress(step, loss):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(ONE | PROCESS | TINY, progress=progress)


@pytest.mark.long
def test_reference_medians_of_one_unit():
    """Median IPRs are 0.21 at g = 1 and 0.38 at g = 3, and that of the clone is below 0.05."""
    found = {}
    for process, g in (("NLGP", 1.0), ("NLGP", 3.0), ("Gaussian", 3.0)):
        cell = ONE | {"process": process, "gain": g, "batch": 300, "repeats": 12, "seed": 5}
        found[process, g] = common.rows(cell)[0]["ipr"]
    assert found["NLGP", 1.0] == pytest.approx(0.21, abs=0.03)
    assert found["NLGP", 3.0] == pytest.approx(0.38, abs=0.03)
    assert found["Gaussian", 3.0] < 0.05


def test_pixel_rows_equal_closed_form():
    settings = {cell["gain"]: cell for cell in pixels.grid(True) if cell["xi0"] == 5.0}
    for g, expected, mse in ((0.01, 0.162, 0.263), (1.0, 0.200, 0.217), (3.0, 0.269, 0.187), (100.0, 0.414, 0.173)):
        row = pixels.rows(settings[g])[0]
        assert (row["ipr"], row["mse"]) == pytest.approx((expected, mse), abs=6e-4)
        assert row["sampled_mse"] == pytest.approx(mse, abs=pixels.NEAR)
    found = pixel_moments(process_of(settings[3.0]), 20)
    weights = [row["weight"] for row in pixels.rows(settings[3.0])]
    np.testing.assert_allclose(weights, found.best_weights[0], atol=1e-5)
    assert spread(found.best_weights)["ipr"] == pytest.approx(ipr(found.best_weights)[0])


def test_gates_frozen_late_lead_nearer_to_network():
    settings = ONE | PROCESS | {"steps": 300, "batch": 300, "repeats": 3, "seed": 2, "times": 4, "samples": 4000}
    table = pd.DataFrame(frozen.rows(settings))
    own = table[table.gates == "own"].sort_values("time")
    assert own.away.iloc[-1] == 0.0
    assert own.ipr.iloc[-1] == own.network.iloc[-1]
    # Gates of late times lead nearer to the network than those of the start.
    assert own.away.iloc[-2] < own.away.iloc[0]
    assert set(table.gates) == {"own", "random", "pixel", "chosen"}


#: A training whose fields stay, which the last verdict of all figures that train says.
STAYS = {"steps": 8000, "made": 1000, "change": 0.001, "seed": 1}


def test_fields_stay_if_all_trainings_do():
    table = pd.DataFrame({"made": [10, 80], "change": [0.01, 0.02]})
    assert stayed(table).outcome == "yes"
    found = stayed(table.assign(change=[0.01, 0.03]))
    assert found.outcome == "no"
    assert found.found == "in 1 of 2 trainings of 10 to 80 steps; IPRs change by up to 0.030 in the second half"


@pytest.mark.parametrize(
    ("ipr", "change", "near", "relation", "expected"),
    [
        ([0.4, 0.2], [0.02, 0.004], False, "above", ("yes", "yes")),
        ([0.4, 0.2], [0.02, 0.006], False, "above", ("undecided", "yes")),
        ([0.4, 0.2], [0.02, 0.004], [False, True], "above", ("undecided", "yes")),
        ([0.4, 0.1], [0.02, 0.004], False, "above", ("no", "yes")),
        ([0.1, 0.14], [0.004, 0.02], False, "above", ("no", "undecided")),
        ([0.1, 0.1], [0.004, 0.004], False, "above", ("no", "no")),
        ([0.1, 0.1], [0.004, 0.004], False, "below", ("yes", "yes")),
    ],
)
def test_verdict_within_drift_is_undecided(ipr, change, near, relation, expected):
    table = pd.DataFrame({"ipr": ipr, "change": change, "near": near})
    found = [common.decide_local("local", "x", table, relation, some=some) for some in (False, True)]
    assert tuple(verdict.outcome for verdict in found) == expected


def test_steady_approach_to_the_threshold_is_seen():
    steps = pd.Series([1000, 2000, 4000, 8000])
    for iprs, expected in (
        ([0.30, 0.28, 0.26, 0.24], True),
        ([0.30, 0.28, 0.26, 0.25], False),
        ([0.30, 0.28, 0.29, 0.24], False),
        ([0.24, 0.26, 0.28, 0.30], False),
        ([0.06, 0.08, 0.10, 0.125], True),
    ):
        assert common.approaches(steps, pd.Series(iprs)) == expected


def iprs(values):
    return dict.fromkeys(("ipr_low", "ipr", "ipr_high"), values)


def trained_at(low, high, clone, others=None):
    """Return a table of `gain`: NLGP's IPR is `low`, then `high` (`others` unless ReLU); the clone's is `clone`."""
    rows = []
    for cell in product(activation=gain.NAMES, process=("NLGP", "Gaussian"), gain=(0.01, 100.0)):
        last = high if cell["activation"] == "relu" or others is None else others
        value = clone if cell["process"] == "Gaussian" else low if cell["gain"] < 1 else last
        rows.append(cell | {"n": 40, "units": 1} | iprs(value) | STAYS)
    return pd.DataFrame(rows)


def units_at(ipr_first, ipr_second, frequency):
    """Return a table of `scales` with these IPRs of both orders and this frequency of the second."""
    pairs = {(2.0, 1.0): (ipr_first, 1), (1.0, 2.0): (ipr_second, frequency)}
    parts = [
        {"n": 40, "xi0": one, "xi1": two, "gain": g, "unit": range(3), "ipr": value, "frequency": waves} | STAYS
        for (one, two), (value, waves) in pairs.items()
        for g in (0.01, 3.0)
    ]
    return pd.concat([pd.DataFrame(part) for part in parts], ignore_index=True)


def flipped(*flips, **changed):
    """Return a table of `flips` with one unit, in which noise is 0.1 and three quarters of the flips end at 0.15."""
    part = {"units": 1, "gain": 3.0, "time": [0.0, 1.0, 2.0, 21.0], "flips": flips, "recent": 0.1, "loss": 0.1}
    part |= {"placed": [0.1, 0.8, 0.9, 1.0], "cosine": [0.1, 0.8, 0.85, 1.0], "length": [0.1, 0.2, 0.6, 1.0]} | STAYS
    return pd.DataFrame(part | {"ipr": [0.0, 0.1, 0.5, 1.0], "ipr_low": 0.0, "ipr_high": 1.0}).assign(**changed)


def continued(*ends, placed=0.4):
    """Return a table of `frozen` with one unit, in which frozen gates end at these IPRs and the network at 0.5."""
    own = {"gates": "own", "time": [0.0, 1.0, 2.0, 3.0], "network": [0.1, 0.15, 0.4, 0.5], "ipr": [*ends, 0.5]}
    others = {"gates": ["random", "pixel", "chosen"], "time": 0.0, "network": 0.1, "ipr": [0.07, 0.4, 0.4]}
    table = pd.concat([pd.DataFrame(own), pd.DataFrame(others)], ignore_index=True)
    return table.assign(units=1, gain=3.0, repeats=1, away=0.1, placed=placed, **iprs(table.ipr), **STAYS)


def pixels_at(first, last, away=0.0):
    """Return a table of `pixels` with two pixels, for the first and the last pair of length-scales."""
    parts = [
        {"xi0": one, "xi1": two, "gain": g, "place": [0, 1], "weight": [1.0, g], "mse": 0.2, "ipr": value}
        for (one, two), values in (((5.0, 1.0), first), ((1.0, 2.0), last))
        for g, value in zip((0.01, 100.0), values, strict=True)
    ]
    return pd.concat([pd.DataFrame(part) for part in parts], ignore_index=True).assign(sampled_mse=0.2 + away)


def pulsed(*values, erf=()):
    """Return a table of `pulses` with these IPRs: plain ReLU, variants, plain ReLU, then plain erf units."""
    names = ["relu"] * len(values) + ["erf"] * len(erf)
    columns = {"activation": names, "signs": [0 < i < len(values) for i in range(len(names))]}
    return pd.DataFrame(columns | {"lengths": "11 / 3", "flip": False, "label": 0.0} | iprs([*values, *erf]) | STAYS)


def biased(relu, others, label=None):
    """Return a table of `biases` with IPRs (both biases, none) of ReLU and of the others; hidden ones have 0.1."""
    rows = []
    for cell in product(activation=biases.NAMES, label=(0.0, -1.0), kind=biases.KINDS, process=("NLGP", "Gaussian")):
        both, none = relu if cell["activation"] == "relu" else others
        value = {"both": both, "no biases": none, "hidden": 0.1}[cell["kind"]]
        value = 0.05 if cell["process"] == "Gaussian" or cell["label"] == label else value
        hidden, output = biases.KINDS[cell.pop("kind")]
        rows.append(cell | {"biases": hidden, "output_bias": output, "units": 1} | iprs(value) | STAYS)
    return pd.DataFrame(rows)


def shaped(**weights):
    """Return a table of `fields` with one unit, of these weights for each process."""
    one = {"n": 8, "units": 1, "gain": 100.0, "unit": 0, "pixel": np.arange(8)} | STAYS
    return pd.concat([pd.DataFrame(one | {"process": process, "weight": w}) for process, w in weights.items()])


def tiled(tile, others):
    """Return a table of `tiling` with two gates and these losses on new samples."""
    cells = {
        "seed": 1,
        "units": 2,
        "kind": ["tiling", "overlapping"],
        "fresh": [tile, others],
        "sets": 7,
        "gates": "0 1",
    }
    return pd.concat([pd.DataFrame(cells | {"family": family}) for family in tiling.FAMILIES], ignore_index=True)


LOCAL, SPREAD = np.where(np.arange(8) == 3, 1.0, 0.0), np.ones(8)
GROWN = trained_at(0.04, 0.5, 0.04)
FALLEN = pd.concat([GROWN, GROWN[(GROWN.gain > 1) & (GROWN.process == "NLGP")].assign(gain=300.0, ipr=0.45)])
ORDERED = units_at(0.2, 0.06, 15)
SETTLED = (0.3, 0.11, 0.05, 0.0)
BUMPS = pixels_at((0.1, 0.4), (0.5, 0.6))
BIASED = biased((0.4, 0.4), (0.2, 0.07))
NONE = " undecided"


@pytest.mark.parametrize(
    ("module", "table", "expected", "words"),
    [
        (gain, GROWN, 3 * "yes yes yes ", "median IPR 0.040/0.500 at g = 0.01/100, quartiles at last 0.50 and 0.50"),
        (gain, trained_at(0.04, 0.05, 0.4), 3 * "no no yes ", "median IPR up to 0.400"),
        (gain, trained_at(0.04, 0.5, 0.04, 0.05), "yes yes yes" + 2 * " no yes yes", "median IPR 0.040/0.050"),
        (gain, FALLEN, 3 * "yes yes no ", "0.500 at g = 100 to 0.450 at g = 300"),
        (gain, GROWN[GROWN.process == "NLGP"], 3 * ("yes" + 2 * NONE + " "), "few"),
        (gain, GROWN[GROWN.process == "Gaussian"], 3 * (NONE + " yes" + NONE), "few"),
        (scales, ORDERED, "yes yes yes", "median peak frequency 15 at g = 3; ξ₁ > ξ₂: 1"),
        (scales, units_at(0.2, 0.06, 1), "yes yes no", "0/0 % of the units"),
        (scales, units_at(0.06, 0.3, 15), "no no yes", "100/100 % of the units"),
        (scales, ORDERED[ORDERED.xi0 > 1], 3 * NONE, "few"),
        (scales, ORDERED[ORDERED.gain < 1], 3 * NONE, "few"),
        # In place at an IPR of .1, and half its length at a cosine of .85.
        (flips, flipped(*SETTLED), "yes yes yes yes no" + 5 * NONE, "30 % of the gates flip from start to end"),
        (flips, flipped(0.3, 0.3, 0.14, 0.0), "yes yes no yes no" + 5 * NONE, "10 % gone"),
        (flips, flipped(0.3, 0.3, 0.17, 0.0), "yes no no yes no" + 5 * NONE, "100 % gone"),
        (flips, flipped(*SETTLED, placed=0.5, cosine=0.95), "yes yes yes no yes" + 5 * NONE, "50 % of the units"),
        (flips, flipped(*SETTLED, ipr=0.1), "no" + 9 * NONE, "few"),
        (flips, flipped(*SETTLED, recent=0.3), "yes" + 2 * NONE + " yes no" + 5 * NONE, "few"),
        (frozen, continued(0.5, 0.5, 0.5), "yes yes" + 2 * NONE + " no yes", "pixel gates at least 0.40"),
        (frozen, continued(0.1, 0.1, 0.46), "yes no" + 2 * NONE + " no no", "random gates up to 0.070"),
        (frozen, continued(0.1, 0.1, 0.2), "no no" + 2 * NONE + " no no", "of 0.500 at the end, 0.200 from s = 2"),
        (frozen, continued(0.5, 0.5, 0.5, placed=0.8), "yes yes" + 2 * NONE + " yes yes", "g = 3 (one start): of 0.5"),
        (pixels, BUMPS, "yes yes" + 2 * NONE + " yes", "IPR 0.10 to 0.40; 0.100/0.400 at g = 0.01/100"),
        (pixels, pixels_at((0.1, 0.4), (0.6, 0.5), 0.1), "no yes" + 2 * NONE + " no", "off by at most 0.1000"),
        (pixels, BUMPS[BUMPS.xi0 > 1], "yes yes" + 3 * NONE, "few"),
        (pixels, BUMPS[BUMPS.gain > 1], "yes" + 4 * NONE, "few"),
        (pulses, pulsed(0.5, 0.4), "yes yes yes", "±1; labels 1 and 0); of 2 variants 2 are local"),
        (pulses, pulsed(0.03, 0.2), "no yes no", "ReLU 0.030 to 0.030"),
        (pulses, pulsed(0.03, 0.1), "no no no", "of 2 variants 0 are local, 2 are not"),
        (pulses, pulsed(0.5), 2 * NONE + " yes", "few"),
        (pulses, pulsed(0.03, 0.2, erf=(0.2,)), "no yes yes", "erf 0.200 to 0.200"),
        (biases, BIASED, "yes yes" + 2 * " yes yes", "0 not, IPR 0.40 to 0.40; with hidden biases alone 0 of 2"),
        (biases, biased((0.05, 0.05), (0.07, 0.2)), "no no" + 2 * " no no", "the clone's IPR up to 0.05"),
        (biases, BIASED[BIASED.activation == "relu"], "yes yes" + 4 * NONE, "few"),
        (biases, biased((0.4, 0.4), (0.2, 0.07), label=-1.0), "no no" + 2 * " no yes", "1 of 2 local"),
        (fields, shaped(NLGP=LOCAL, Gaussian=SPREAD), "yes yes" + 2 * NONE, "1 of 8 pixels hold 90 % of Σw², IPR 1"),
        (fields, shaped(NLGP=SPREAD, Gaussian=LOCAL), "no no" + 2 * NONE, "8 of 8 pixels"),
        (fields, shaped(NLGP=LOCAL), "yes" + 3 * NONE, "few"),
        (tiling, tiled(0.2, 0.2), "yes yes", "0.200 for tilings (best of 7), 0.200 for others (0 1)"),
        (tiling, tiled(0.2, 0.1), "no no", "0.100 for others"),
        (tiling, tiled(0.2, 0.2)[::2], "", ""),
    ],
)
def test_verdicts(module, table, expected, words):
    assert judged(module, table, words) == expected.split() + ["yes"] * ("made" in table)


@pytest.mark.parametrize(("closed", "printed", "expected"), [(0.01, 0.5, "yes no"), (0.5, 0.01, "no yes")])
def test_verdicts_of_theory(closed, printed, expected):
    table = pd.DataFrame({"case": "single", "time": [1.0, 2.0], "closed": closed, "printed": printed})
    assert outcomes(theory, table)[2:4] == expected.split()


def test_gates_of_one_span_have_one_loss():
    """For K = 2, the constant gate and a pixel's have the loss of the pixel's gate and its complement."""
    settings = tiling.grid(True)[0]
    tile, others = tiling.rows(settings)
    assert (others["gates"], tile["kind"]) == ("0 -1", "tiling")
    assert others["loss"] == pytest.approx(tile["loss"], rel=1e-9)
    assert others["fresh"] == pytest.approx(tile["fresh"], rel=1e-9)
    assert tile["loss"] < pixel_moments(process_of(settings)).best_loss < tile["fresh"]


def test_annealed_set_of_pixel_gates_is_best_of_all():
    """Annealing finds a set of three of nine gates whose loss is least among all sets, to 1e-3."""
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


def test_best_gates_of_any_kind_are_nearest_sets():
    """Chosen sets are those whose output, of weights 1 and 2 on the input 1, is nearest to the targets."""
    X, w = np.ones((3, 1)), np.array([[1.0], [2.0]])
    sets = np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]])
    y = np.array([0.0, 3.0, 1.1])
    assert tiling._chosen(X, y, w, sets).tolist() == [[0, 0], [1, 1], [1, 0]]
    assert tiling._chosen(X, y, w, np.eye(2)).tolist() == [[1, 0], [0, 1], [1, 0]]
    assert tiling._left(X, y, w, np.eye(2)) == pytest.approx((1 + 1 + 0.01) / 3)


def test_moments_of_cases_equal_those_of_samples():
    for case in theory.CASES:
        settings = theory.grid(True)[0] | {"case": case}
        X, y = process_of(settings).sample(40_000, seed=1)
        sampled = Moments.from_samples(GatedFeatures(X, theory._gates(X[:, 20] >= 0, case)), y)
        exact = theory.moments_of(settings)
        np.testing.assert_allclose(exact.dense(), sampled.dense(), atol=0.03)
        np.testing.assert_allclose(exact.b, sampled.b, atol=0.02)
        assert (exact.redundant, exact.power) == (sampled.redundant, sampled.power)
