"""Figures of the GaLU papers: cells of the kinds that are not pinned, and verdicts on tables made for each outcome."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from implicit_bias.extensions.galu import GaLU0Network
from implicit_bias.networks import LinearNetwork, ReLUNetwork
from implicit_bias.studies.galu import COLLECTION, alternation, clusters, images, memorisation, separable
from implicit_bias.studies.galu.common import means
from implicit_bias.studies.galu.gaussian import closed_form, samples, trained, widths
from implicit_bias.studies.galu.least_units import least_width
from implicit_bias.studies.runner.results import load
from implicit_bias.studies.runner.verdicts import LATE, _read
from tests import ROOT
from tests.studies.pages import judged, told

FIGURES = COLLECTION.figures
SIZES = {"m": 16, "d": 4, "repeats": 2, "seed": 3}
ADAM = SIZES | {"steps": 100, "batch": 8, "lr": 0.01}
CLUSTERS = {"clusters": 3, "d": 4, "units": 5, "m": 60, "steps": 30}
#: A cell of each kind that the quick run's cheapest cell is not; of the quick run where a number says which.
CELLS = [
    ("memorisation", ADAM | {"network": "ReLU"}),
    ("under-parametrised", ADAM | {"network": "ReLU"}),
    ("filters", ADAM | {"network": "ReLU"}),
    ("outputs", ADAM | {"method": "GaLU", "outputs": 3}),
    ("clusters", 2, CLUSTERS | {"m": 30, "fresh": 20}),
    ("separable", 4, {"d": 6, "m": 60, "fresh": 40, "bits": 3, "steps": 30}),
    ("alternation", ADAM | {"m": 20, "outputs": 2, "rounds": 5}),
    ("images", 1, {"steps": 20, "components": 5, "held_out": 100, "widest": 6}),
    ("norms", -1, CLUSTERS),
]


def cell(name, which, *changes):
    """Return the cell `which` of the quick grid of a figure, with changes of settings."""
    return FIGURES[name].grid(True)[which] | changes[0] if changes else which


@pytest.mark.parametrize("which", CELLS, ids=lambda which: which[0])
def test_single_cell_of_other_kind_is_undecided(which, tmp_path):
    assert set(told(FIGURES[which[0]], cell(*which), tmp_path)) == {"undecided"}


@pytest.mark.parametrize("name", FIGURES)
def test_quick_and_full_grid_have_same_settings(name):
    full, quick = ({tuple(cell) for cell in FIGURES[name].grid(quick)} for quick in (False, True))
    assert full == quick


def memorised(**least):
    """Return a table in which `least`[network] are the least widths for m = 64 and 128; 0 if none suffices."""
    rows = [
        {"network": network, "m": m, "d": 8, "units": units, "loss": loss, "closed_form": loss / 2}
        for network, answers in least.items()
        for m, k in zip((64, 128), answers, strict=True)
        for units, loss in ((k - 1, 0.2), (k, 0.001 if k else 0.1))
    ]
    return pd.DataFrame(rows)


def shared(galu, relu):
    """Return a table of losses of GaLU and ReLU at kd/m = 0.25, 0.5 and 0.75."""
    share = np.array([0.25, 0.5, 0.75])
    common = {"m": 64, "d": 8, "units": share * 8, "repeat": 1}
    adam = {"network": "GaLU", "loss": np.array(galu) + 0.01, "closed_form": galu, "rank": share * 64}
    parts = [pd.DataFrame(common | part) for part in (adam, {"network": "ReLU", "loss": relu})]
    return pd.concat(parts, ignore_index=True)


def filtered(improved, relu):
    """Return a table in which GaLU's losses are 0.75 and 0.5, and those with better filters and ReLU's are given."""
    common = {"m": 64, "d": 8, "units": [2, 4], "repeat": 1}
    galu = {"network": "GaLU", "loss": [0.75, 0.5], "improved_loss": improved, "updates": 9.0}
    parts = [pd.DataFrame(common | part) for part in (galu, {"network": "ReLU", "loss": relu})]
    return pd.concat(parts, ignore_index=True)


def vector(galu, relu, outputs=(1, 8)):
    """Return a table in which the given widths are the least with losses below 0.3, for one output and for several."""
    rows = [
        {"method": method, "outputs": q, "m": 64, "d": 8, "units": units, "loss": loss}
        for method, least in (("GaLU", galu), ("ReLU", relu), ("alternation", galu))
        for q in outputs
        for units, loss in ((least[q > 1] - 1, 0.4), (least[q > 1], 0.2))
    ]
    return pd.DataFrame(rows)


def errors(galu, relu=0.02, linear=0.08, readout=0.2, units=16):
    """Return a table of test errors of the four networks on images."""
    columns = {"dataset": "mnist", "units": units, "repeat": 1, "lr": 1e-3, "sharpness": [0.0, 1.0, 0.0, 0.0]}
    found = {"network": list(images.BUILD), "held_out_error": 0.1, "test_error": [relu, galu, linear, readout]}
    return pd.DataFrame({**columns, **found})


def gated(soft, hard):
    """Return a table of test errors with two repeats of soft and hard gates, whose differences vary by 0.0002."""
    one = errors(soft, linear=0.3, readout=0.5)
    both = pd.concat([one, one[one.network == "GaLU0"].assign(sharpness=0.0, test_error=hard)])
    second = both.assign(repeat=2, test_error=both.test_error + 0.0002 * (both.sharpness == 1))
    third = both.assign(repeat=3, test_error=both.test_error - 0.0002 * (both.sharpness == 1))
    return pd.concat([both, second, third], ignore_index=True)


def learners(linear, odd, widths=3):
    """Return a table of test errors of GaLU and ReLU on the linear rule and on the parity, equal at several widths."""
    columns = {"network": ["GaLU", "ReLU"] * 2, "units": 8, "repeat": 1, "fresh": 10_000, "train_error": 0.1}
    table = pd.DataFrame({"task": ["separable"] * 2 + ["parity"] * 2, **columns, "test_error": [*linear, *odd]})
    return pd.concat([table.assign(units=8 * 4**power) for power in reversed(range(widths))], ignore_index=True)


CLEAN = [0, 0, 0.3, 0.3]
NONE = "undecided undecided"


def noisy(test, train=CLEAN):
    """Return a table of losses of GaLU and ReLU without noise and at noise 1."""
    columns = {"task": "regression", "steps": 9, "network": ["GaLU", "ReLU"] * 2, "noise": [0.0, 0.0, 1.0, 1.0]}
    return pd.DataFrame({**columns, "repeat": 1, "train_loss": train, "test_loss": test})


def stepped(early, late):
    """Return tables of over-fitting networks after 9 and 90 steps of Adam, and of SGD with rising test losses."""
    adam = pd.concat([noisy([0, 0, early, 1.5]), noisy([0, 0, late, 1.6]).assign(steps=90)])
    sgd = pd.concat([noisy([0, 0, loss, loss]).assign(steps=10 * loss) for loss in (4, 5)])
    return pd.concat([adam, sgd.assign(optimiser="SGD")], ignore_index=True)


def normed(power, noise=0.0, fits=("least squares", "both layers, SGD at 0.1")):
    """Return a table of fits at nine noise levels with three seeds.

    ‖w‖₂² is the gap to the power 1/`power`; ‖w‖₁² is the gap plus, at both ends, `noise` times 1, 0.1 or −1.
    """
    gap = np.linspace(1.0, 2.0, 9)
    bumps = noise * np.array([1, 0, 0, 0, 0, 0, 0, 0, 1])
    tables = [
        pd.DataFrame({"fit": fit, "sigma_y": range(9), "seed": seed, "train_loss": 0.0, "test_loss": gap}).assign(
            l2=gap ** (1 / power), l1=gap + sign * bumps
        )
        for fit in fits
        for seed, sign in ((1, 1.0), (2, 0.1), (3, -1.0))
    ]
    return pd.concat(tables, ignore_index=True)


def searched(acs, sgd, drift=0.0):
    """Return a table of losses of the search and of SGD's better rate at m = 64 and 128; Adam's are 0.2.

    The loss of the search differs between three repeats by up to 0.02, and `drift` is its drift at m = 64.
    """
    columns = {"method": np.repeat(["ACS", "Adam", "SGD at 0.5", "SGD at 0.1"], 2), "m": [64, 128] * 4, "d": 8}
    columns |= {"outputs": 4, "loss": [*acs, 0.2, 0.2, 0.5, sgd[1], sgd[0], 0.5], "drift": [drift, 0.0, *[np.nan] * 6]}
    table = pd.DataFrame(columns).sort_values("m")
    own = [table.assign(repeat=r, loss=table.loss + 0.01 * r * (table.method == "ACS")) for r in (-1, 0, 1)]
    return pd.concat(own, ignore_index=True)


def shallow(galu, relu):
    """Return a table of test errors of GaLU and ReLU at widths from 8 on."""
    few = len(galu)
    columns = {"network": ["GaLU"] * few + ["ReLU"] * few, "units": [8, 16, 32][:few] * 2, "train_error": 0.01}
    return pd.DataFrame(columns | {"dataset": "mnist", "test_error": [*galu, *relu], "repeat": 1})


@pytest.mark.parametrize(
    ("name", "table", "expected", "words"),
    [
        ("memorisation", memorised(GaLU=(8, 20), ReLU=(8, 16)), "yes yes", "d = 8: 8, 20 units (1.00, 1.25 m/d)"),
        ("memorisation", memorised(GaLU=(8, 28), ReLU=(8, 22)), "no no", "in closed form 8, 28 units (1.00, 1.75"),
        ("memorisation", memorised(GaLU=(8, 18), ReLU=(8, 0)), "yes no", "8, none units (1.00, none m/d)"),
        # Sizes below 8d are shown and do not count.
        (
            "memorisation",
            memorised(GaLU=(8, 18), ReLU=(30, 18)).assign(d=12),
            "undecided undecided",
            "30, 18 units (5.62, 1.69 m/d)",
        ),
        ("memorisation", memorised(GaLU=(8, 18), ReLU=(8, 16))[:6], "undecided undecided", "m = 64, d = 8: 8 units"),
        ("memorisation", memorised(GaLU=(8, 18)), "undecided undecided", "nothing"),
        ("under-parametrised", shared([0.75, 0.51, 0.25], [0.54, 0.3, 0.1]), "yes yes yes", "within 0.010 (0.010 of 1"),
        ("under-parametrised", shared([0.75, 0.51, 0.25], [0.6, 0.3, 0.1]), "yes yes no", "ReLU 0.600, GaLU with 2k"),
        ("under-parametrised", shared([0.75, 0.51, 0.25], [0.9, 0.3, 0.1]), "yes no no", "at 2 of 3 sizes"),
        ("under-parametrised", shared([0.9, 0.9, 0.9], [0.4, 0.3, 0.1]), "no no no", "Adam within 0.010 of"),
        ("under-parametrised", shared([0.9] * 3, [0.9, 0.3, 0.1])[3:], "undecided undecided undecided", "nothing"),
        ("filters", filtered([0.65, 0.33], [0.6, 0.3]), "yes yes", "67% (d = 8, kd/m = 0.25) to 85%"),
        ("filters", filtered([0.74, 0.45], [0.4, 0.3]), "no no", "larger at 0 of 1 sizes, by −0.100 to −0.100"),
        ("filters", filtered([0.65, 0.33], [0.8, 0.3]), "undecided yes", "nothing"),
        ("outputs", vector((22, 60), (20, 55), (1, 2, 4, 8)), "yes yes no", "60 : 55 at d′ = 4"),
        ("outputs", vector((22, 54), (20, 55), (1, 2, 4, 8)), "yes yes yes", "fewer at 3 of 3"),
        ("outputs", vector((22, 54), (20, 55)), "yes undecided undecided", "0.98 to 0.98 times as many (54 : 55 at"),
        ("outputs", vector((20, 90), (20, 55)), "no no no", "alternate convex search, ended early, needs 20 at d′ = 1"),
        ("outputs", vector((22, 60), (20, 55), (1,)), "yes undecided undecided", "22 : 20"),
        ("outputs", vector((22, 60), (20, 55), (8,)), "undecided undecided no", "nothing"),
        ("alternation", searched([0.1, 0.3], [0.2, 0.4]), "yes yes", "ACS 0.100, SGD at 0.1 0.200 (lower in 3 of 3"),
        ("alternation", searched([0.1, 0.3], [0.2, 0.2], drift=0.01), "no no", "drift 1.00%"),
        ("alternation", searched([0.2, 0.39], [0.2, 0.4]), "undecided no", "0.200 (lower in 1 of 3 repeats, p = 1"),
        ("alternation", searched([0.2, 0.3], [0.2, 0.4]), "yes no", "ACS 0.300, SGD at 0.5 0.400"),
        ("alternation", searched([0.25, 0.1], [0.1, 0.4]), "no no", "m = 64: ACS 0.250, SGD at 0.1 0.100"),
        ("alternation", searched([0.1, 0.3], [0.2, 0.4])[lambda t: t.m < 100], "undecided undecided", "nothing"),
        ("shallow-images", shallow([0.06, 0.05, 0.05], [0.05, 0.04, 0.04]), "yes yes", "k = 8: GaLU 6.0%, ReLU 5.0%"),
        ("shallow-images", shallow([0.06, 0.05], [0.05, 0.04]), "undecided undecided", "at most 1.25 times"),
        ("shallow-images", shallow([0.04, 0.08], [0.05, 0.04]), "no no", "GaLU has at most 2.00 times"),
        ("shallow-images", shallow([0.06], [0.05])[:1], "undecided undecided", "nothing"),
        ("images", pd.concat([errors(0.03), errors(0.07, units=32)]), "no yes yes undecided", "at 1 of 2 widths"),
        ("images", errors(0.07, linear=0.05, readout=0.1), "no no no undecided", "1.4 to 1.4 times the larger"),
        ("images", gated(0.04, 0.05), "yes yes yes yes", "hard gates 5.00%, sigmoid 4.00%; difference 1.00 [0.95"),
        ("images", gated(0.04, 0.03), "yes yes yes no", "difference −1.00"),
        ("images", gated(0.04, 0.0401), "yes yes yes undecided", "difference 0.01"),
        (
            "images",
            pd.concat([errors(0.03), errors(0.07).assign(dataset="digits")]),
            "yes yes yes undecided no yes yes undecided",
            "k = 16: ReLU 2.0%",
        ),
        ("images", errors(0.03)[:3], "undecided undecided undecided undecided", "nothing"),
        ("separable", learners([0.05, 0.01], [0.5, 0.49]), "yes yes yes", "at k = 128: GaLU 5.0%, ReLU 1.0%"),
        ("separable", learners([0.3, 0.3], [0.5, 0.49]), "no no yes", "test errors of at most 30.0%"),
        ("separable", learners([0.03, 0.02], [0.5, 0.4]), "yes yes no", "3 of 6 test as a coin does (40.0% to 50.0%)"),
        ("separable", learners([0.2, 0.1], [0.5, 0.4], 1)[1:], "undecided undecided no", "nothing"),
        ("separable", learners([0.2, 0.1], [0.5, 0.4], 1)[:3], "no undecided undecided", "nothing"),
        ("separable", learners([0.02, 0.01], [0.5, 0.49], 2), "undecided undecided undecided", "4 of 4 test as a coin"),
        ("clusters", noisy([0, 0.01, 2.0, 1.5]), f"yes yes yes yes {NONE}", "2 of 2 mean losses"),
        ("clusters", noisy([0, 0.01, 9.0, 1.5]), f"yes no yes yes {NONE}", "6.00 to 6.00 times"),
        ("clusters", noisy([0, 0.01, 1.1, 3.0]), f"yes no yes yes {NONE}", "0.37 to 0.37 times"),
        ("clusters", noisy([0, 0.3, 2.0, 1.5]), f"yes yes no yes {NONE}", "at most 0.3 in test"),
        ("clusters", noisy([0, 0, 2.0, 1.5], [0, 0, 1.1, 0.3]), f"no yes yes yes {NONE}", "1 of 2 mean losses"),
        ("clusters", noisy([0, 2.0, 1.2, 1.5]), f"yes yes no no {NONE}", "1 of 2 steps up in noise"),
        ("clusters", noisy([0, 0.0, 2.0, 1.5])[:3], f"{NONE} {NONE} {NONE}", "nothing"),
        ("clusters", noisy([0, 0.0, 2.0, 1.5])[2:], f"{NONE} {NONE} {NONE}", "nothing"),
        ("clusters", stepped(2.0, 3.0), "yes yes yes yes yes yes", "at noise 1, 9 steps: GaLU 2.00, ReLU 1.50; 90"),
        ("clusters", stepped(2.0, 1.7), "yes yes yes yes yes no", "90 steps: GaLU 1.70, ReLU 1.60"),
        ("norms", normed(1), "yes yes no no", "ratio 1.00 [1.00, 1.00], 3 repeats"),
        # A cubic, whose correlation is above 0.9, is no line.
        ("norms", normed(3), "no yes yes no", "correlation of the means 0.99"),
        ("norms", normed(1, noise=0.1), "yes undecided no undecided", "ratio 1.0"),
        ("norms", normed(1)[lambda t: t.seed == 1], f"{NONE} {NONE}", "nothing"),
        ("norms", normed(1)[lambda t: t.sigma_y < 4], f"{NONE} {NONE}", "nothing"),
    ],
)
def test_verdicts(name, table, expected, words):
    assert judged(FIGURES[name], table, words) == expected.split()


def test_every_claim_has_verdict_place_and_dates():
    assert set(FIGURES) == set(_read("galu"))
    for experiment in FIGURES.values():
        for claim in experiment.claims.values():
            assert claim.place.startswith(("v1, ", "v2, "))
            assert claim.by in ("us", "the paper")
            assert claim.words or claim.by == "us"


@pytest.mark.parametrize("name", FIGURES)
def test_thresholds_are_those_of_the_committed_record(name):
    """A claim that was changed after its table was recorded differs in its digest, and must say so."""
    (found,) = load(COLLECTION, ROOT / "data" / "galu", [name])
    digests = found.record["claims"]
    for key, claim in FIGURES[name].claims.items():
        assert claim.is_late or digests[key] == claim.digest
    # Digests of the run stay when it is drawn again.
    assert replace(found, record=found.record | {"claims": {"old": "0"}}).recorded().record["claims"] == {"old": "0"}


def test_page_has_outcome_of_every_verdict():
    page = (ROOT / "docs" / "galu.md").read_text()
    for found in load(COLLECTION, ROOT / "data" / "galu"):
        for verdict in found.verdicts:
            late = "\\*" if verdict.threshold.endswith(LATE) else ""
            assert f"| {verdict.claim} | {verdict.outcome}{late} | `{found.experiment.name}` |" in page


def test_numbers_of_page_are_those_of_tables():
    page = (ROOT / "docs" / "galu.md").read_text()
    shallow, searches = load(COLLECTION, ROOT / "data" / "galu", ["shallow-images", "alternation"])
    errors = means(shallow.table.query("dataset == 'mnist'"), ["units"], "test_error")
    assert f"up to {(errors.GaLU / errors.ReLU).max():.1f} times" in page
    sizes = searches.table.m
    assert f"({sizes.min()} to {sizes.max()} samples" in page


def test_appendix_is_made_of_the_tables():
    page = (ROOT / "docs" / "galu_verdicts.md").read_text()
    for found in load(COLLECTION, ROOT / "data" / "galu"):
        picture = f"figures/galu/{found.experiment.name.replace('-', '_')}.png"
        assert found.section([picture]) in page


def test_drift_is_fall_of_loss_over_last_half_of_rounds():
    half, full = (
        alternation.rows(ADAM | {"m": 60, "outputs": 2, "repeats": 1, "rounds": rounds})[0] for rounds in (4, 8)
    )
    assert full["drift"] > 0.1
    assert full["drift"] == pytest.approx(1 - full["loss"] / half["loss"])


def test_noise_levels_share_samples_and_losses_use_noisy_labels():
    settings = FIGURES["clusters"].grid(True)[0] | CLUSTERS | {"m": 30, "fresh": 20, "levels": 2, "repeats": 1}
    quiet, loud = (clusters.sample(settings, noise, 1) for noise in (0.0, 0.5))
    np.testing.assert_array_equal(quiet.X, loud.X)
    assert np.std(loud.y - quiet.y) == pytest.approx(0.5, rel=0.5)
    # A step too small to change anything: the losses are those of the first weights.
    row = clusters.rows(settings | {"most_noise": 0.5, "steps": 1, "lr": 1e-12})[1]
    network = clusters.NETWORKS[settings["network"]](4, 5, seed=1)
    residual = (network.decision_function(loud.X) - loud.y) ** 2
    assert (row["train_loss"], row["test_loss"]) == pytest.approx((residual[:30].mean(), residual[30:].mean()))


def test_labels_of_parity_and_linear_rule():
    settings = separable.grid(True)[0] | {"d": 6, "m": 60, "fresh": 40, "bits": 3, "margin": 1.0}
    X, y = separable.sample(settings | {"task": "parity"}, 1)
    np.testing.assert_array_equal(y, X[:, 0] * X[:, 1] * X[:, 2])
    X, y = separable.sample(settings, 1)
    assert (y * (X @ np.linalg.lstsq(X, y, rcond=None)[0]) > 0).mean() > 0.95


def test_held_out_error_alone_chooses():
    rates = pd.concat([errors(0.03), errors(0.01).assign(lr=3e-4, held_out_error=0.2)])
    assert set(images.chosen(rates).lr) == {1e-3}
    # Repeats choose together, and all of the chosen setting stay.
    assert len(images.chosen(pd.concat([rates, rates.assign(repeat=2)]))) == 8
    # Hard gates are not chosen, however low their error.
    hard = rates[rates.network == "GaLU0"].assign(sharpness=0.0, held_out_error=0.0)
    assert len(images.chosen(pd.concat([rates, hard]))) == 4


def test_networks_have_depth_and_sharpness_of_grid():
    grid = images.grid(False)
    built = {(cell["network"], cell["sharpness"]): images._network(cell, 65, 8, 1) for cell in grid}
    assert {name for name, sharpness in built if sharpness} == {"GaLU0"}
    soft, hard = (built["GaLU0", sharpness] for sharpness in (1.0, 0.0))
    assert isinstance(soft, GaLU0Network)
    assert (soft.units, soft.outputs, soft.sharpness, hard.sharpness) == ([8, 8], 10, 1.0, None)
    assert (type(built["ReLU", 0.0]), type(built["linear", 0.0])) == (ReLUNetwork, LinearNetwork)


def losses(units, least):
    """Return rows of two repeats per width, whose mean loss is below 1 from `least` on, and one of them before."""
    return [{"units": k, "repeat": r, "loss": loss} for k in units for r, loss in ((1, 0.5), (2, 1.0 + (k < least)))]


@pytest.mark.parametrize(
    ("least", "start", "step", "at_once"),
    [
        (1, 8, 1, 3),
        (1, 30, 4, 2),
        (2, 1, 1, 5),
        (9, 1, 4, 1),
        (9, 30, 4, 2),
        (23, 8, 4, 5),
        (23, 1, 1, 1),
        (40, 8, 1, 3),
    ],
)
def test_search_ends_at_least_width(least, start, step, at_once):
    asked = []

    def fit(units):
        assert 0 < len(units) <= at_once
        asked.extend(units)
        return losses(units, least)

    found, rows = least_width(fit, 1.0, start, 40, at_once=at_once, step=step)
    assert found is not None
    assert least <= found < least + step
    assert len(set(asked)) == len(asked)
    assert all(1 <= k <= 40 for k in asked)
    assert rows == losses(asked, least)


def test_search_returns_none_and_skips_failing_widths():
    none, rows = least_width(lambda units: losses(units, 21), 1.0, 3, 20, at_once=3)
    assert none is None
    assert max(row["units"] for row in rows) == 20
    found, rows = least_width(lambda units: losses(units, 7), 1.0, 6, 20, at_once=2, failing=5)
    assert (found, min(row["units"] for row in rows)) == (7, 6)


def test_closed_form_bounds_loss_of_trained_network():
    settings = ADAM | {"steps": 1000, "batch": 16, "lr": 0.03}
    for row in trained(settings, "GaLU", [1, 2]):
        best = closed_form(settings, row["units"], row["repeat"])
        assert best.loss * (1 - 1e-5) <= row["loss"] <= best.loss + 1e-2
        # A trained readout adds nothing to what the layer can do.
        assert best.rank <= row["units"] * 4


def test_samples_and_widths_of_settings():
    X, Y = samples(ADAM, 3)
    assert (X.shape, Y.shape) == ((16, 4), (16, 1))
    assert np.array_equal(X, samples(ADAM | {"outputs": 5}, 3)[0])
    assert not np.array_equal(X, samples(ADAM, 4)[0])
    assert widths({"m": 64, "d": 8}, (0.01, 0.25, 1.0)) == [1, 2, 8]


def test_insufficient_widths_are_not_trained():
    rows = memorisation.rows(ADAM | {"network": "GaLU"})
    untrained = [row for row in rows if row["loss"] is None]
    assert untrained
    best = pd.DataFrame(rows).groupby("units").closed_form.mean()
    assert all(best[row["units"]] > memorisation.LEVEL for row in untrained)
    assert all(row["closed_form"] <= row["loss"] * (1 + 1e-5) + 1e-12 for row in rows if row["loss"] is not None)
