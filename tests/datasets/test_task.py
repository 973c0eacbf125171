"""Binary tasks of files and of data sets of torch."""

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from torchvision.transforms.functional import to_tensor

from implicit_bias import BinaryTask, read_samples
from tests.cases import refusals

RNG = np.random.default_rng(0)


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = pd.DataFrame(RNG.normal(size=(20, 2)), columns=["a", "b"]).assign(kind=["x", "y", "z", "y"] * 5)
    table.to_csv("old.csv", index=False)
    table[::-1].to_csv("new.csv", index=False)
    table.rename(columns={"a": "b", "b": "a"}).to_csv("swapped.csv", index=False)
    table.assign(gate_a=1.0).to_csv("gates.csv", index=False)
    return table


def test_samples_of_files(table):
    X, y = table[["a", "b"]].to_numpy(), np.where(table.kind == "z", -1.0, 1.0)
    given = BinaryTask.from_file("old.csv", validation="new.csv", positive=["x", "y"], constant=False)
    np.testing.assert_array_equal(np.column_stack([given.X_train, given.y_train]), np.column_stack([X, y]))
    np.testing.assert_array_equal(np.column_stack([given.X_val, given.y_val]), np.column_stack([X, y])[::-1])
    split = BinaryTask.from_file("old.csv", validation=0.25, positive=["x", "y"], constant=False)
    assert (len(split.y_train), len(split.y_val)) == (15, 5)
    parts = np.column_stack([np.vstack([split.X_train, split.X_val]), np.append(split.y_train, split.y_val)])
    assert sorted(parts.tolist()) == sorted(np.column_stack([X, y]).tolist())
    assert len(BinaryTask.from_file("old.csv", validation=0, positive="x").y_val) == 20
    rare = BinaryTask.from_arrays([[0.0], [1.0]], [0, 1], [[2.0]], [2], positive=[1, 2])
    assert (rare.y_train.tolist(), rare.y_val.tolist()) == ([-1.0, 1.0], [1.0])


def test_images_and_their_tensors_are_the_same_inputs():
    images = [Image.fromarray(pixels) for pixels in RNG.integers(0, 256, (6, 4, 5, 3), dtype=np.uint8)]
    of_images = BinaryTask.from_dataset([(image, i % 2) for i, image in enumerate(images)])
    of_tensors = BinaryTask.from_dataset([(2 * to_tensor(image) - 1, i % 2) for i, image in enumerate(images)])
    np.testing.assert_allclose(of_images.X_pool, of_tensors.X_pool, atol=1e-6)
    np.testing.assert_array_equal(of_images.y_val, of_tensors.y_val)


test_bad_input = pytest.mark.usefixtures("table")(
    refusals(
        (lambda: read_samples("old.csv").signs("w"), "'w' is not a class; the classes are 'x', 'y', 'z'"),
        (lambda: BinaryTask.from_file("old.csv", validation="swapped.csv", positive="x"), "has other columns than"),
        (lambda: BinaryTask.from_file("gates.csv", "kind"), "has gate_values, which a task does not have"),
        (lambda: BinaryTask.from_file("old.csv"), "positive=… names those of"),
        (lambda: BinaryTask.from_file("old.csv", positive=["x", 7]), "positive names 7, but no sample has this label"),
        (lambda: BinaryTask.from_dataset("samples"), "must be a sequence of"),
        (lambda: BinaryTask.from_dataset([]), "dataset is empty"),
        (lambda: BinaryTask.from_dataset([(np.ones(2), 0), (np.ones(3), 1)]), r"input 1 of dataset has shape \(3,\)"),
        (lambda: BinaryTask.from_dataset([np.ones(2)]), "must be a pair"),
        (lambda: BinaryTask.from_dataset([("text", 0)]), "array of numbers, not str"),
        (lambda: BinaryTask.from_dataset([(np.ones(2), [0, 1])]), "one number or text"),
    )
)
