"""Samples that the commands read."""

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def samples(tmp_path, monkeypatch):
    """Return the working directory, a new folder with separable, weighted and inseparable samples."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    y = np.where(X[:, 0] > 0, "up", "down")
    weights = rng.uniform(1, 3, 40)
    pd.DataFrame(X, columns=["a", "b", "c"]).assign(weight=weights, label=y).to_csv(tmp_path / "s.csv", index=False)
    np.savez(tmp_path / "s.npz", X=X, y=y, sample_weight=weights)
    np.savez(tmp_path / "short.npz", X=X, y=y, sample_weight=weights[1:])
    (tmp_path / "single.csv").write_text("w\n1\n2\n")
    np.savez(tmp_path / "none.npz", X=[[1.0], [1.0]], y=[0, 1])
    np.savez(tmp_path / "objects.npz", X=X, y=y.astype(object))
    monkeypatch.chdir(tmp_path)
    return tmp_path
