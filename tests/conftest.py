"""Shared fixtures: the embedded digits, and MNIST where its files are."""

import os
from pathlib import Path

import pytest

from implicit_bias import HyperplaneGates, load_binary, svm_gln
from implicit_bias.solvers.native import NativeSolver
from implicit_bias.solvers.native.settings import Settings
from implicit_bias.studies.runner import results
from tests.cases import MISSING_SOLVERS


def pytest_runtest_setup(item):
    values = item.callspec.params.values() if hasattr(item, "callspec") else ()
    for name in MISSING_SOLVERS.intersection(value for value in values if isinstance(value, str)):
        pytest.skip(f"{name} is not installed")


@pytest.fixture(scope="session")
def digits():
    return load_binary("digits", train_size=80)


@pytest.fixture(scope="session")
def mnist_root():
    root = os.environ.get("IMPLICIT_BIAS_DATA")
    if not root or not (Path(root) / "MNIST" / "raw" / "train-images-idx3-ubyte").is_file():
        pytest.skip("no MNIST files: set IMPLICIT_BIAS_DATA to the folder that holds MNIST/raw")
    return root


@pytest.fixture(scope="session")
def tiny_sets():
    """Native solver that uses working sets already for problems of 20 samples."""
    return NativeSolver(Settings(all_samples_up_to=20, first_samples=20, known_support_up_to=80))


@pytest.fixture(scope="session")
def gln():
    task = load_binary("digits", train_size=300)
    return svm_gln(task.X_train, task.y_train, HyperplaneGates(6, 2, seed=1).fit(task.X_pool))


@pytest.fixture
def unpainted(monkeypatch):
    """Figures are drawn, but their files are empty: painting one as PNG and PDF takes as long as a small study."""
    monkeypatch.setattr(results, "pictures", lambda figure, name: {f"{name}.{kind}": b"" for kind in ("png", "pdf")})
