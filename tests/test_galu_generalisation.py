"""GaLU's figures of what networks learn of images, of linear rules and parities, and of clusters with noisy labels."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from implicit_bias import InputError
from implicit_bias.datasets.classes import load_classes
from implicit_bias.datasets.images import load_images
from implicit_bias.experiments.galu import clusters, images, separable
from implicit_bias.networks import GaLU0Network, LinearNetwork, ReLUNetwork

SMALL = {
    "clusters": {"clusters": 3, "d": 4, "units": 5, "m": 30, "fresh": 20, "steps": 30, "batch_size": 8},
    "separable": {"d": 6, "m": 60, "fresh": 40, "bits": 3, "steps": 30, "batch_size": 8, "widest": 16},
    "images": {"steps": 20, "components": 5, "held_out": 100, "widest": 6},
}


def cells(module):
    return [cell | SMALL[module.EXPERIMENT.name] for cell in module.EXPERIMENT.grid(True)]


def of(module, cell):
    loaded = [module.data(cell, None)] if module.EXPERIMENT.data else []
    return [cell | row for row in module.EXPERIMENT.rows(cell, *loaded)]


@pytest.mark.parametrize("module", [clusters, images, separable])
def test_tiny_cells_are_the_same_again_drawn_and_put_into_words(module):
    found = [of(module, cell) for cell in cells(module)]
    assert pd.DataFrame(of(module, cells(module)[0])).equals(pd.DataFrame(found[0]))
    table = pd.DataFrame([row for rows in found for row in rows])
    assert not table.map(lambda value: isinstance(value, list)).any(axis=None)
    # Runs are interrupted: any cell can be alone.
    for part in (table, pd.DataFrame(found[0])):
        assert isinstance(module.EXPERIMENT.draw(part), Figure)
        assert module.EXPERIMENT.finding(part).startswith(("Yes", "Partly", "No", "Undecided"))


@pytest.mark.parametrize("module", [clusters, images, separable])
def test_the_full_grid_costs_more_and_has_other_settings_than_the_quick_one(module):
    full, quick = module.EXPERIMENT.grid(False), module.EXPERIMENT.grid(True)
    assert full[0].keys() == quick[0].keys()
    assert sum(map(module.EXPERIMENT.cost, full)) > 5 * sum(map(module.EXPERIMENT.cost, quick)) > 0


def test_noise_levels_share_samples_and_training_is_measured_on_noisy_labels():
    cell = cells(clusters)[0]
    quiet, noisy = (clusters.sample(cell, noise, 1) for noise in (0.0, 0.5))
    np.testing.assert_array_equal(quiet.X, noisy.X)
    assert np.std(noisy.y - quiet.y) == pytest.approx(0.5, rel=0.5)
    # A step too small to change anything: the losses are those of the first weights.
    row = clusters.rows(cell | {"levels": 2, "most_noise": 0.5, "repeats": 1, "steps": 1, "lr": 1e-12})[1]
    network = clusters.NETWORKS[cell["network"]](4, 5, seed=1)
    residual = (network.decision_function(noisy.X) - noisy.y) ** 2
    assert row["train_loss"] == pytest.approx(residual[:30].mean())
    assert row["test_loss"] == pytest.approx(residual[30:].mean())


def fits(train, test, **more):
    columns = {"task": "regression", "network": ["GaLU", "ReLU"] * 2, "noise": [0.0, 0.0, 1.0, 1.0], "repeat": 1}
    return pd.DataFrame({**columns, "train_loss": train, "test_loss": test, **more})


@pytest.mark.parametrize(
    ("table", "word"),
    [
        (fits([0, 0, 0.3, 0.3], [0, 0.01, 2.0, 1.5]), "Yes: 2 of 2"),
        (fits([0, 0, 0.3, 0.3], [0, 0.01, 9.0, 1.5]), "Partly: 2 of 2"),
        (fits([0, 0, 0.3, 0.3], [0, 0.3, 2.0, 1.5]), "Partly: 2 of 2"),
        (fits([0, 0, 1.1, 0.3], [0, 0.0, 2.0, 1.5]), "Partly: 1 of 2"),
        (fits([0, 0, 1.1, 1.2], [0, 0.0, 2.0, 1.5]), "No: 0 of 2"),
        (fits([0, 0, 1.1, 1.2], [0, 0.0, 2.0, 1.5])[:3], "Undecided"),
    ],
)
def test_what_is_said_of_noisy_clusters(table, word):
    assert clusters.finding(table).startswith(word)


def learners(linear, odd):
    columns = {"network": ["GaLU", "ReLU"] * 2, "units": 8, "repeat": 1, "fresh": 10_000, "train_error": 0.1}
    return pd.DataFrame({"task": ["separable"] * 2 + ["parity"] * 2, **columns, "test_error": [*linear, *odd]})


@pytest.mark.parametrize(
    ("table", "word"),
    [
        (learners([0.02, 0.01], [0.5, 0.49]), "Yes"),
        (learners([0.05, 0.01], [0.5, 0.49]), "Partly"),
        (learners([0.3, 0.3], [0.5, 0.49]), "Partly"),
        (learners([0.02, 0.01], [0.5, 0.4]), "Partly"),
        (learners([0.2, 0.1], [0.5, 0.4]), "No"),
        (learners([0.2, 0.1], [0.5, 0.4])[1:], "Undecided"),
        (learners([0.2, 0.1], [0.5, 0.4])[:3], "Undecided"),
    ],
)
def test_what_is_said_of_a_rule_and_a_parity(table, word):
    assert separable.finding(table).startswith(word)


def test_both_tasks_are_what_they_are_called():
    cell = cells(separable)[0]
    X, y = separable.sample(cell | {"task": "parity"}, 1)
    np.testing.assert_array_equal(y, X[:, 0] * X[:, 1] * X[:, 2])
    X, y = separable.sample(cell | {"task": "separable", "margin": 1.0}, 1)
    direction = np.linalg.lstsq(X, y, rcond=None)[0]
    assert (y * (X @ direction) > 0).mean() > 0.95


def errors(galu, relu=0.02, linear=0.08, readout=0.2, units=16):
    columns = {"dataset": "mnist", "units": units, "repeat": 1, "lr": 1e-3, "sharpness": [0.0, 1.0, 0.0, 0.0]}
    found = {"network": list(images.BUILD), "held_out_error": 0.1, "test_error": [relu, galu, linear, readout]}
    return pd.DataFrame({**columns, **found})


@pytest.mark.parametrize(
    ("table", "word"),
    [
        (errors(0.03), "Yes: at 1 of 1"),
        (errors(0.07), "No: at 0 of 1"),
        (errors(0.07, linear=0.3, readout=0.1), "No: at 0 of 1"),
        (pd.concat([errors(0.03), errors(0.07, units=32)]), "Partly: at 1 of 2"),
        (errors(0.03)[:3], "Undecided"),
    ],
)
def test_what_is_said_of_images(table, word):
    assert images.finding(table).startswith(word)


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


def test_components_are_those_of_the_training_part():
    parts = load_classes("digits", components=10, held_out=300)
    X = parts.X_train[:, :-1]
    np.testing.assert_allclose(X.T @ X / len(X), np.eye(10), atol=1e-4)
    assert not np.allclose(parts.X_test.mean(axis=0)[:-1], 0, atol=1e-4)
    assert all((part[:, -1] == 1).all() for part in parts[::2])
    # No image is in two parts.
    rows = [tuple(row) for part in parts[::2] for row in part.round(6)]
    assert len(set(rows)) == len(rows) == 1797
    np.testing.assert_array_equal(X, load_classes("digits", components=10, held_out=300).X_train[:, :-1])
    assert not np.array_equal(X, load_classes("digits", components=10, held_out=300, seed=1).X_train[:, :-1])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": "cifar"}, "unknown data set"),
        ({"components": 0}, "components"),
        ({"components": 65}, "at most 64, the number of pixels"),
        ({"components": 64}, "only 60 components"),
        ({"held_out": 1348}, "held_out must be below 1348"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_parts(options, words):
    with pytest.raises(InputError, match=words):
        load_classes(**{"name": "digits", "components": 10, "held_out": 100} | options)


@pytest.mark.mnist
def test_test_images_are_others_than_training_images(mnist_root):
    pixels, labels = load_images("mnist", mnist_root, train=False)
    assert pixels.shape == (10_000, 784)
    assert np.bincount(labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


@pytest.mark.mnist
def test_only_the_files_that_are_read_must_be_whole(tmp_path, mnist_root):
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for file in (Path(mnist_root) / "MNIST" / "raw").iterdir():
        content = file.read_bytes()
        (raw / file.name).write_bytes(content[:1000] if file.name.startswith("t10k") else content)
    assert len(load_images("mnist", tmp_path)[1]) == 60_000
    with pytest.raises(InputError, match="t10k-images-idx3-ubyte is damaged"):
        load_images("mnist", tmp_path, train=False)
