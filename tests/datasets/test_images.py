"""Images of all classes in three parts, as pixels or principal components."""

from pathlib import Path

import numpy as np
import pytest

from implicit_bias.datasets.images import image_files, load_classes, load_digits, load_images
from tests.cases import assert_refused, refusals


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
    assert not np.array_equal(X, load_classes("digits", components=10, held_out=300, seed=2).X_train[:, :-1])


def test_pixels_are_kept_as_they_are_and_none_need_be_held_out():
    parts = load_classes("digits", components=None, held_out=0)
    assert [part.shape for part in parts] == [(1348, 65), (1348,), (0, 65), (0,), (449, 65), (449,)]
    pixels, labels = load_digits()
    order = np.lexsort(pixels.T)
    together = np.concatenate([parts.X_train, parts.X_test])
    again = np.lexsort(together[:, :-1].T)
    np.testing.assert_array_equal(together[again][:, :-1], pixels[order])
    np.testing.assert_array_equal(np.concatenate([parts.y_train, parts.y_test])[again], labels[order])
    assert (together[:, -1] == 1).all()


test_bad_parts = refusals(
    ({"name": "cifar"}, "unknown data set"),
    ({"components": 0}, "components"),
    ({"components": 65}, "at most 64, the number of pixels"),
    ({"components": 64}, "only 60 components"),
    ({"held_out": -1}, "held_out"),
    ({"held_out": 1348}, "held_out must be below 1348"),
    ({"seed": -1}, "seed"),
    call=lambda options: load_classes(**{"name": "digits", "components": 10, "held_out": 100} | options),
)


@pytest.mark.mnist
def test_test_images_are_others_than_training_images(mnist_root):
    pixels, labels = load_images("mnist", mnist_root, train=False)
    assert pixels.shape == (10_000, 784)
    assert np.bincount(labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


def test_names_that_unpacking_gives(tmp_path):
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    (raw / "train-images.idx3-ubyte").write_text("no images")
    assert image_files("mnist", tmp_path)[str(raw / "train-images.idx3-ubyte")] == "damaged"
    assert_refused(lambda: load_images("mnist", tmp_path), "train-labels-idx1-ubyte is missing, but other files")


@pytest.mark.mnist
def test_images_by_the_names_that_unpacking_gives(tmp_path, mnist_root):
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for file in (Path(mnist_root) / "MNIST" / "raw").glob("*ubyte"):
        (raw / file.name.replace("-idx", ".idx")).symlink_to(file)
    for found, usual in zip(*(load_images("mnist", root, train=False) for root in (tmp_path, mnist_root)), strict=True):
        np.testing.assert_array_equal(found, usual)


@pytest.mark.mnist
def test_only_the_files_that_are_read_must_be_whole(tmp_path, mnist_root):
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for file in (Path(mnist_root) / "MNIST" / "raw").iterdir():
        if file.name.startswith("t10k"):
            (raw / file.name).write_bytes(file.read_bytes()[:1000])
        else:
            (raw / file.name).symlink_to(file)
    assert len(load_images("mnist", tmp_path)[1]) == 60_000
    assert_refused(lambda: load_images("mnist", tmp_path, train=False), "t10k-images-idx3-ubyte is damaged")
