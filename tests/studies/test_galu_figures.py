"""Figures of the GaLU papers: tiny cells, drawings, and the verdicts on tables made up for every outcome."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from implicit_bias.extensions.galu import GaLU0Network
from implicit_bias.networks import LinearNetwork, ReLUNetwork
from implicit_bias.studies.galu import COLLECTION, clusters, images, separable
from implicit_bias.studies.runner.verdicts import outcome
from tests.studies.pages import page_of

FIGURES = COLLECTION.figures
SIZES = {"m": 16, "d": 4, "repeats": 2, "seed": 3}
ADAM = SIZES | {"steps": 100, "batch": 8, "lr": 0.01}
BOTH = [ADAM | {"network": "GaLU"}, ADAM | {"network": "ReLU"}]
#: What is set in the cells of the quick run, or the cells themselves.
SMALL = {
    "memorisation": BOTH,
    "under-parametrised": BOTH,
    "filters": [ADAM | {"network": "ReLU"}, SIZES | {"network": "GaLU", "repeats": 1, "updates": 30}],
    "outputs": [
        ADAM | {"method": "GaLU", "outputs": 3},
        ADAM | {"method": "ReLU", "outputs": 1},
        SIZES | {"method": "alternation", "outputs": 2, "steps": 20},
    ],
    "clusters": [
        cell | {"clusters": 3, "d": 4, "units": 5, "m": 30, "fresh": 20, "batch_size": 8, "steps": cell["steps"] // 25}
        for cell in clusters.grid(True)
    ],
    "separable": {"d": 6, "m": 60, "fresh": 40, "bits": 3, "steps": 30, "batch_size": 8},
    "shallow-images": {"steps": 20, "repeats": 2},
    "alternation": [
        ADAM | {"m": m, "outputs": 2} | how
        for m in (16, 20)
        for how in ({"rounds": 5}, {"optimiser": "SGD", "lr": 0.1})
    ],
    "images": {"steps": 20, "components": 5, "held_out": 100, "widest": 6},
    "norms": {"clusters": 3, "d": 4, "units": 5, "m": 60, "steps": 30},
}


def tiny(name):
    """Cells of a figure that take no time."""
    small = SMALL[name]
    return small if isinstance(small, list) else [cell | small for cell in FIGURES[name].grid(True)]


def rows_of(experiment, cell):
    """A cell's rows, with its settings."""
    loaded = [experiment.data(cell, None)] if experiment.data else []
    return [cell | row for row in experiment.rows(cell, *loaded)]


def tabulated(rows, tmp_path):
    """As the results' folder does it: through a file."""
    pd.DataFrame(rows).to_csv(tmp_path / "table.csv", index=False)
    return pd.read_csv(tmp_path / "table.csv")


@pytest.mark.parametrize("name", FIGURES)
def test_tiny_cells_are_the_same_again_drawn_and_judged(name, tmp_path):
    experiment, cells = FIGURES[name], tiny(name)
    found = [rows_of(experiment, cell) for cell in cells]
    for cell, rows in zip(cells, found, strict=True):
        assert repr(rows_of(experiment, cell)) == repr(rows)
        # Runs are interrupted: any cell can be alone.
        alone = tabulated(rows, tmp_path)
        assert not alone.map(lambda value: isinstance(value, list)).any(axis=None)
        assert isinstance(experiment.draw(alone), Figure)
        assert outcome(experiment.verdicts(alone)) == "undecided"
        assert experiment.cost(cell) > 0
    table = tabulated([row for rows in found for row in rows], tmp_path)
    assert isinstance(experiment.draw(table), Figure)
    assert {type(verdict.holds) for verdict in experiment.verdicts(table)} <= {bool, type(None)}


@pytest.mark.parametrize("name", FIGURES)
def test_the_full_grid_costs_more_and_has_the_settings_of_the_quick_one(name):
    grids = [FIGURES[name].grid(quick) for quick in (False, True)]
    full, quick = ({tuple(cell) for cell in grid} for grid in grids)
    assert full == quick
    full_cost, quick_cost = (sum(map(FIGURES[name].cost, grid)) for grid in grids)
    assert full_cost > 5 * quick_cost > 0


def memorised(**least):
    """A table in which some widths suffice, for m = 32 and 64 in 8 dimensions; 0 where none does."""
    rows = []
    for network, answers in least.items():
        for m, k in zip((32, 64), answers, strict=True):
            for units, loss in ((k - 1, 0.2), (k, 0.001 if k else 0.1)):
                rows.append({"network": network, "m": m, "d": 8, "units": units, "loss": loss, "closed_form": loss / 2})
    return pd.DataFrame(rows)


def shared(galu, relu):
    """Losses of both networks with half as many parameters as samples, and fewer, and more."""
    share = np.array([0.25, 0.5, 0.75])
    common = {"m": 64, "d": 8, "units": share * 8, "repeat": 1}
    adam = np.array(galu) + 0.01
    parts = [
        pd.DataFrame(common | {"network": "GaLU", "loss": adam, "closed_form": galu, "rank": share * 64}),
        pd.DataFrame(common | {"network": "ReLU", "loss": relu}),
    ]
    return pd.concat(parts, ignore_index=True)


def filtered(improved, relu):
    """GaLU's losses with better filters and ReLU's, where GaLU's are 0.75 and 0.5."""
    common = {"m": 64, "d": 8, "units": [2, 4], "repeat": 1}
    galu = pd.DataFrame(common | {"network": "GaLU", "loss": [0.75, 0.5], "improved_loss": improved, "updates": 9.0})
    return pd.concat([galu, pd.DataFrame(common | {"network": "ReLU", "loss": relu})], ignore_index=True)


def widths(galu, relu):
    """Widths that bring losses below 0.3, for 1 and 8 outputs."""
    rows = [
        {"method": method, "outputs": q, "m": 64, "d": 8, "units": units, "loss": loss}
        for method, least in (("GaLU", galu), ("ReLU", relu), ("alternation", galu))
        for q, k in zip((1, 8), least, strict=True)
        for units, loss in ((k - 1, 0.4), (k, 0.2))
    ]
    return pd.DataFrame(rows)


def at_more(table):
    """The same widths for 2 and 4 outputs as for 8."""
    more = table[table.outputs > 1]
    return pd.concat([table, more.assign(outputs=2), more.assign(outputs=4)], ignore_index=True)


def errors(galu, relu=0.02, linear=0.08, readout=0.2, units=16):
    """Test errors of the four networks on images."""
    columns = {"dataset": "mnist", "units": units, "repeat": 1, "lr": 1e-3, "sharpness": [0.0, 1.0, 0.0, 0.0]}
    found = {"network": list(images.BUILD), "held_out_error": 0.1, "test_error": [relu, galu, linear, readout]}
    return pd.DataFrame({**columns, **found})


def learners(linear, odd, widths=3):
    """Test errors of GaLU and ReLU on the linear rule, and on the parity; the same at several widths."""
    columns = {"network": ["GaLU", "ReLU"] * 2, "units": 8, "repeat": 1, "fresh": 10_000, "train_error": 0.1}
    table = pd.DataFrame({"task": ["separable"] * 2 + ["parity"] * 2, **columns, "test_error": [*linear, *odd]})
    return pd.concat([table.assign(units=8 * 4**power) for power in reversed(range(widths))], ignore_index=True)


def noisy(train, test):
    """Losses of GaLU and ReLU without noise, and of both at noise 1."""
    columns = {
        "task": "regression",
        "steps": 9,
        "network": ["GaLU", "ReLU"] * 2,
        "noise": [0.0, 0.0, 1.0, 1.0],
        "repeat": 1,
    }
    return pd.DataFrame({**columns, "train_loss": train, "test_loss": test})


def stepped(early, late):
    """Over-fitting networks after 9 and after 90 steps, with GaLU's test loss at noise 1; by SGD it rises."""
    adam = pd.concat([noisy(CLEAN, [0, 0, early, 1.5]), noisy(CLEAN, [0, 0, late, 1.6]).assign(steps=90)])
    sgd = pd.concat([noisy(CLEAN, [0, 0, loss, loss]).assign(steps=10 * loss) for loss in (4, 5)])
    return pd.concat([adam, sgd.assign(optimiser="SGD")], ignore_index=True)


def normed(l1):
    """Fits, both ways, whose gaps are 1, 2 and 3, and whose ‖w‖₂² are in proportion."""
    levels = {"sigma_y": [0.0, 0.5, 1.0], "train_loss": 0.0, "test_loss": [1.0, 2.0, 3.0]}
    own = pd.DataFrame({**levels, "l2": [2.0, 4.0, 6.0], "l1": l1})
    fits = ("least squares", "both layers", "both layers, SGD at 0.1")
    return pd.concat([own.assign(fit=fit) for fit in fits], ignore_index=True)


def searched(acs, sgd):
    """Losses of the search and of SGD's better rate at two numbers of samples; Adam's are 0.2, the other rate's 0.5."""
    columns = {"method": np.repeat(["ACS", "Adam", "SGD at 0.5", "SGD at 0.1"], 2), "m": [64, 128] * 4, "d": 8}
    columns |= {"outputs": 4, "loss": [*acs, 0.2, 0.2, 0.5, sgd[1], sgd[0], 0.5]}
    table = pd.DataFrame(columns | {"repeat": 1}).sort_values("m")
    # The second repeat differs by a hundredth.
    return pd.concat([table, table.assign(repeat=2, loss=table.loss + 0.01 * (table.method == "ACS"))])


def shallow(galu, relu):
    """Test errors of both networks at some widths."""
    few = len(galu)
    columns = {"network": ["GaLU"] * few + ["ReLU"] * few, "units": [8, 16, 32][:few] * 2, "train_error": 0.01}
    return pd.DataFrame(columns | {"dataset": "mnist", "test_error": [*galu, *relu], "repeat": 1})


CLEAN = [0, 0, 0.3, 0.3]


@pytest.mark.parametrize(
    ("name", "table", "outcomes", "told"),
    [
        ("memorisation", memorised(GaLU=(4, 10), ReLU=(4, 8)), "yes yes", "d = 8: 4, 10 units (1.00, 1.25 m/d)"),
        ("memorisation", memorised(GaLU=(4, 11), ReLU=(4, 8)), "no yes", "4, 11 units"),
        ("memorisation", memorised(GaLU=(6, 8), ReLU=(4, 8)), "no yes", "6, 8 units (1.50, 1.00 m/d)"),
        ("memorisation", memorised(GaLU=(4, 14), ReLU=(4, 15)), "no no", "in closed form 4, 14 units (1.00, 1.75 m/d)"),
        ("memorisation", memorised(GaLU=(4, 9), ReLU=(4, 0)), "yes no", "4, none units (1.00, none m/d)"),
        ("memorisation", memorised(GaLU=(4, 9), ReLU=(0, 8)), "yes no", "none, 8 units (none, 1.00 m/d)"),
        ("memorisation", memorised(GaLU=(4, 9), ReLU=(4, 8))[:6], "undecided undecided", "m = 32, d = 8: 4 units"),
        ("memorisation", memorised(GaLU=(4, 9)), "undecided", "nothing"),
        ("under-parametrised", shared([0.75, 0.51, 0.25], [0.6, 0.3, 0.1]), "yes yes", "within 0.010 (0.010 of 1"),
        ("under-parametrised", shared([0.75, 0.51, 0.25], [0.9, 0.3, 0.1]), "yes no", "at 2 of 3 sizes"),
        ("under-parametrised", shared([0.75, 0.51, 0.25], [0.4, 0.3, 0.1]), "yes no", "at 2 of 3 sizes"),
        ("under-parametrised", shared([0.9, 0.9, 0.9], [0.9, 0.3, 0.1]), "no no", "Adam within 0.010 of"),
        ("under-parametrised", shared([0.9, 0.9, 0.9], [0.9, 0.3, 0.1])[3:], "undecided", "nothing"),
        ("filters", filtered([0.65, 0.33], [0.6, 0.3]), "yes", "67% (d = 8, kd/m = 0.25) to 85% (d = 8, kd/m = 0.5)"),
        ("filters", filtered([0.65, 0.45], [0.6, 0.3]), "no", "46% in the median of 2 sizes"),
        ("filters", filtered([0.74, 0.45], [0.6, 0.3]), "no", "7% (d = 8, kd/m = 0.25)"),
        ("filters", filtered([0.65, 0.33], [0.8, 0.3]), "undecided", "nothing"),
        ("outputs", widths((22, 60), (20, 55)), "yes undecided no", "22 : 20 at d′ = 1"),
        ("outputs", at_more(widths((22, 60), (20, 55))), "yes yes no", "60 : 55 at d′ = 4"),
        ("outputs", at_more(widths((22, 54), (20, 55))), "yes yes yes", "fewer at 3 of 3"),
        (
            "outputs",
            widths((22, 54), (20, 55)),
            "yes undecided undecided",
            "0.98 to 0.98 times as many (54 : 55 at d′ = 8)",
        ),
        ("outputs", widths((20, 90), (20, 55)), "no no no", "by alternate convex search GaLU needs 20 at d′ = 1"),
        ("outputs", widths((22, 30), (20, 55)), "yes no undecided", "fewer at 1 of 1"),
        ("outputs", widths((22, 60), (20, 55))[lambda t: t.outputs == 1], "yes undecided undecided", "22 : 20"),
        ("outputs", widths((22, 60), (20, 55))[lambda t: t.outputs > 1], "undecided undecided no", "nothing"),
        ("outputs", widths((22, 60), (20, 55)).assign(loss=0.5), "undecided undecided undecided", "nothing"),
        (
            "alternation",
            searched([0.1, 0.3], [0.2, 0.4]),
            "yes yes",
            "ACS 0.105, SGD at 0.1 0.200 (2 of 2 repeats lower)",
        ),
        ("alternation", searched([0.1, 0.3], [0.2, 0.4]), "yes yes", "ACS 0.305, SGD at 0.5 0.400 (2 of 2 repeats"),
        ("alternation", searched([0.195, 0.395], [0.2, 0.4]), "undecided no", "0.200 (1 of 2 repeats"),
        ("alternation", searched([0.195, 0.3], [0.2, 0.4]), "yes no", "0.200 (1 of 2 repeats"),
        ("alternation", searched([0.195, 0.5], [0.2, 0.4]), "no no", "0.200 (1 of 2 repeats"),
        ("alternation", searched([0.3, 0.1], [0.2, 0.4]), "no no", "m = 64: ACS 0.305, Adam 0.200 (0 of 2"),
        ("alternation", searched([0.15, 0.1], [0.1, 0.4]), "no yes", "m = 64: ACS 0.155, SGD at 0.1 0.100"),
        ("alternation", searched([0.1, 0.3], [0.2, 0.4])[lambda t: t.m < 100], "undecided undecided", "nothing"),
        (
            "shallow-images",
            shallow([0.06, 0.05, 0.05], [0.05, 0.04, 0.04]),
            "yes yes",
            "k = 8: GaLU 6.0%, ReLU 5.0%; k = 16",
        ),
        ("shallow-images", shallow([0.06, 0.05], [0.05, 0.04]), "undecided undecided", "at most 1.25 times"),
        ("shallow-images", shallow([0.04, 0.08], [0.05, 0.04]), "no no", "GaLU has at most 2.00 times"),
        ("shallow-images", shallow([0.06], [0.05])[:1], "undecided", "nothing"),
        ("images", errors(0.03), "yes", "at 1 of 1 widths; test errors at k = 16: ReLU 2.0%, GaLU0 3.0%"),
        ("images", errors(0.07), "no", "at 0 of 1 widths"),
        ("images", errors(0.07, linear=0.3, readout=0.1), "no", "at 0 of 1 widths"),
        ("images", pd.concat([errors(0.03), errors(0.07, units=32)]), "no", "at 1 of 2 widths"),
        ("images", pd.concat([errors(0.03), errors(0.07).assign(dataset="digits")]), "yes no", "at 0 of 1 widths"),
        ("images", errors(0.03)[:3], "undecided", "nothing"),
        ("separable", learners([0.02, 0.01], [0.5, 0.49]), "yes yes yes", "higher by 1.00% to 1.00%"),
        ("separable", learners([0.05, 0.01], [0.5, 0.49]), "yes yes yes", "at k = 128: GaLU 5.0%, ReLU 1.0%"),
        ("separable", learners([0.3, 0.3], [0.5, 0.49]), "no no yes", "test errors of at most 30.0%"),
        ("separable", learners([0.03, 0.02], [0.5, 0.4]), "yes yes no", "3 of 6 test as a coin does (40.0% to 50.0%)"),
        ("separable", learners([0.2, 0.1], [0.5, 0.4]), "no yes no", "at k = 128: GaLU 10.0%, ReLU 10.0%"),
        ("separable", learners([0.2, 0.1], [0.5, 0.4], 1)[1:], "undecided undecided no", "nothing"),
        ("separable", learners([0.2, 0.1], [0.5, 0.4], 1)[:3], "no undecided undecided", "nothing"),
        ("separable", learners([0.02, 0.01], [0.5, 0.49], 2), "undecided undecided undecided", "4 of 4 test as a coin"),
        ("clusters", noisy(CLEAN, [0, 0.01, 2.0, 1.5]), "yes yes yes undecided undecided", "2 of 2 mean losses"),
        ("clusters", noisy(CLEAN, [0, 0.01, 9.0, 1.5]), "yes no yes undecided undecided", "6.00 to 6.00 times"),
        ("clusters", noisy(CLEAN, [0, 0.01, 1.1, 3.0]), "yes no yes undecided undecided", "0.37 to 0.37 times"),
        ("clusters", noisy(CLEAN, [0, 0.3, 2.0, 1.5]), "yes yes no undecided undecided", "at most 0.3 in test"),
        (
            "clusters",
            noisy([0, 0, 1.1, 0.3], [0, 0.0, 2.0, 1.5]),
            "no yes yes undecided undecided",
            "1 of 2 mean losses",
        ),
        (
            "clusters",
            noisy([0, 0, 1.1, 1.2], [0, 0.0, 2.0, 1.5]),
            "no yes yes undecided undecided",
            "GaLU 1.1, ReLU 1.2 in training",
        ),
        ("clusters", noisy(CLEAN, [0, 0.01, 0.9, 1.5]), "no yes yes undecided undecided", "GaLU 0.9, ReLU 1.5 in test"),
        ("clusters", noisy([0, 0, 1.1, 1.2], [0, 0.0, 2.0, 1.5])[:3], "undecided", "nothing"),
        ("clusters", noisy([0, 0, 1.1, 1.2], [0, 0.0, 2.0, 1.5])[2:], "undecided", "nothing"),
        (
            "clusters",
            stepped(2.0, 3.0),
            "yes yes yes yes yes",
            "at noise 1, 9 steps: GaLU 2.00, ReLU 1.50; 90 steps: GaLU 3.00",
        ),
        ("clusters", stepped(2.0, 1.7), "yes yes yes yes no", "90 steps: GaLU 1.70, ReLU 1.60"),
        ("norms", normed([1.0, 2.0, 3.0]), "yes yes no no no no", "correlation 1.000 over the means of 3 noise levels"),
        ("norms", normed([1.0, 3.0, 2.0]), "yes no no yes no yes", "0.500 over 3 single fits"),
        ("norms", normed([1.0, 2.0, 3.0])[:3], "undecided", "nothing"),
        ("norms", normed([1.0, 2.0, 3.0])[1:5], "undecided", "nothing"),
    ],
)
def test_verdicts(name, table, outcomes, told):
    found = FIGURES[name].verdicts(table)
    assert [verdict.outcome for verdict in found] == outcomes.split()
    assert told in " | ".join(verdict.found for verdict in found)
    assert isinstance(FIGURES[name].draw(table), Figure)


def test_the_page_says_what_the_committed_tables_say():
    page = page_of(COLLECTION)
    for name, experiment in FIGURES.items():
        assert f"`--figure {name}`" in page
        assert experiment.claim[1:] in page


def test_noise_levels_share_samples_and_training_is_measured_on_noisy_labels():
    cell = tiny("clusters")[0]
    quiet, loud = (clusters.sample(cell, noise, 1) for noise in (0.0, 0.5))
    np.testing.assert_array_equal(quiet.X, loud.X)
    assert np.std(loud.y - quiet.y) == pytest.approx(0.5, rel=0.5)
    # A step too small to change anything: the losses are those of the first weights.
    row = clusters.rows(cell | {"levels": 2, "most_noise": 0.5, "repeats": 1, "steps": 1, "lr": 1e-12})[1]
    network = clusters.NETWORKS[cell["network"]](4, 5, seed=1)
    residual = (network.decision_function(loud.X) - loud.y) ** 2
    assert row["train_loss"] == pytest.approx(residual[:30].mean())
    assert row["test_loss"] == pytest.approx(residual[30:].mean())


def test_both_tasks_are_what_they_are_called():
    cell = tiny("separable")[0]
    X, y = separable.sample(cell | {"task": "parity"}, 1)
    np.testing.assert_array_equal(y, X[:, 0] * X[:, 1] * X[:, 2])
    X, y = separable.sample(cell | {"task": "separable", "margin": 1.0}, 1)
    direction = np.linalg.lstsq(X, y, rcond=None)[0]
    assert (y * (X @ direction) > 0).mean() > 0.95


def test_test_errors_choose_nothing():
    rates = pd.concat([errors(0.03), errors(0.01).assign(lr=3e-4, held_out_error=0.2)])
    assert set(images.chosen(rates).lr) == {1e-3}
    # Repeats choose together, and all of the chosen setting stay.
    repeats = pd.concat([rates, rates.assign(repeat=2)])
    assert len(images.chosen(repeats)) == 8


def test_every_kind_of_network_is_built_with_its_depth_and_only_gates_have_a_sharpness():
    grid = images.grid(False)
    assert all((cell["sharpness"] > 0) == (cell["network"] == "GaLU0") for cell in grid)
    gated = images._network(next(c for c in grid if c["network"] == "GaLU0"), 65, 8, 1)
    assert isinstance(gated, GaLU0Network)
    assert (gated.units, gated.outputs, gated.sharpness) == ([8, 8], 10, 1.0)
    others = {c["network"]: type(images._network(c, 65, 8, 1)) for c in grid}
    assert (others["ReLU"], others["linear"]) == (ReLUNetwork, LinearNetwork)
