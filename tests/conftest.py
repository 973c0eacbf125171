"""Shared fixtures: the embedded digits, and MNIST where its files are."""

import os
from pathlib import Path

import pytest

from implicit_bias import load_binary


@pytest.fixture(scope="session")
def digits():
    return load_binary("digits", train_size=80)


@pytest.fixture(scope="session")
def mnist_root():
    root = os.environ.get("IMPLICIT_BIAS_DATA")
    if not root or not (Path(root) / "MNIST" / "raw" / "train-images-idx3-ubyte").is_file():
        pytest.skip("no MNIST files: set IMPLICIT_BIAS_DATA to the folder that holds MNIST/raw")
    return root
