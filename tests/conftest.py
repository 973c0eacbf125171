"""Shared fixtures: the embedded digits, and MNIST where its files are."""

import os
from pathlib import Path

import pytest

from implicit_bias import HyperplaneGates, load_binary, svm_gln
from implicit_bias.solvers.native import working_set


@pytest.fixture(scope="session")
def digits():
    return load_binary("digits", train_size=80)


@pytest.fixture(scope="session")
def mnist_root():
    root = os.environ.get("IMPLICIT_BIAS_DATA")
    if not root or not (Path(root) / "MNIST" / "raw" / "train-images-idx3-ubyte").is_file():
        pytest.skip("no MNIST files: set IMPLICIT_BIAS_DATA to the folder that holds MNIST/raw")
    return root


@pytest.fixture
def tiny_sets(monkeypatch):
    """Working sets at a size that small problems need."""
    for name, value in (("ALL_UP_TO", 20), ("FIRST", 20), ("SUPPORTING", 80)):
        monkeypatch.setattr(working_set, name, value)


@pytest.fixture(scope="session")
def gln():
    task = load_binary("digits", train_size=300)
    return svm_gln(task.X_train, task.y_train, HyperplaneGates(6, 2, seed=1).fit(task.X_pool))
