"""Accuracy and time of the classifiers against SVC, LinearSVC and a small MLP on real data; see --help.

Every model gets standardised inputs and the same search: its one price (C, or the MLP's weight decay) by three-fold
cross-validation on the training part, then one timed fit. Times are of the processor, which other work on the machine
changes little; every fit uses one thread, and models take turns on each split. Finished cells are kept in --store: the
same command goes on.
"""

import argparse
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from common import Store, run, seconds_text, timed
from sklearn.base import BaseEstimator
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from tqdm import tqdm

from implicit_bias import SGD, GatedReLUClassifier, GLNClassifier, HiddenLayerClassifier
from implicit_bias.datasets.images import load_images

GRID = {"C": [0.01, 0.1, 1.0]}
SQUARED = {"C": [0.1, 1.0, 10.0]}
UNITS, STEPS = 20, 300
PLAIN: dict[str, Any] = {"free_intercept": False}
TRAINED: dict[str, Any] = {"units": 2 * UNITS, "training": SGD(steps=STEPS)} | PLAIN

Model = tuple[Callable[[int], BaseEstimator], dict[str, list[float]]]
SKLEARN: dict[str, Model] = {
    "LinearSVC": (lambda seed: LinearSVC(max_iter=20_000, random_state=seed), {"C": [0.001, 0.01, 0.1]}),
    "SVC, rbf": (lambda seed: SVC(), SQUARED),
    "MLP, 50 units": (lambda seed: MLPClassifier(50, max_iter=1000, random_state=seed), {"alpha": [1e-4, 1e-2, 1.0]}),
}
OURS: dict[str, Model] = {
    "GLN (SVM-GLN)": (lambda seed: GLNClassifier(UNITS, **PLAIN, random_state=seed), GRID),
    "GLN (SVM-L2)": (lambda seed: GLNClassifier(UNITS, norm="predictor-l2", **PLAIN, random_state=seed), GRID),
    "gated ReLU, random": (lambda seed: GatedReLUClassifier(2 * UNITS, **PLAIN, random_state=seed), GRID),
    "gated ReLU, learned": (lambda seed: GatedReLUClassifier(**TRAINED, gates="learned", random_state=seed), GRID),
    "hidden layer": (lambda seed: HiddenLayerClassifier(**TRAINED, random_state=seed), GRID),
}
MODELS = SKLEARN | OURS


def image_set(name: str, root: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Return 3000 images of all ten classes and their labels, drawn with a fixed seed."""
    X, y = load_images(name, root)
    rows = np.random.default_rng(0).choice(len(X), 3000, replace=False)
    return X[rows], y[rows]


#: Samples (n, p), labels (n,), and how many of them train.
DATA: dict[str, tuple[Callable[[str | None], tuple[np.ndarray, np.ndarray]], float]] = {
    "iris": (lambda root: load_iris(return_X_y=True), 0.7),
    "wine": (lambda root: load_wine(return_X_y=True), 0.7),
    "breast cancer": (lambda root: load_breast_cancer(return_X_y=True), 0.7),
    "digits": (lambda root: load_digits(return_X_y=True), 1 / 3),
    **{name: (partial(image_set, name), 1 / 3) for name in ("mnist", "fashion-mnist")},
}


def measure(data: str, model: str, split: int, root: str | None) -> dict[str, Any]:
    """Return a row with accuracy on held-out samples, CPU seconds of the last fit, and the largest certified gap."""
    load, share = DATA[data]
    X, y = load(root)
    X_fit, X_test, y_fit, y_test = train_test_split(X, y, train_size=share, stratify=y, random_state=split)
    make, grid = MODELS[model]
    pipeline = make_pipeline(StandardScaler(), make(split))
    name = pipeline.steps[-1][0]
    with warnings.catch_warnings():
        # At the smallest prices all weights are zero; the search then prefers others.
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        search = GridSearchCV(pipeline, {f"{name}__{key}": values for key, values in grid.items()}, cv=3, refit=False)
        search.fit(X_fit, y_fit)
        pipeline.set_params(**search.best_params_)
        seconds, _ = timed(lambda: pipeline.fit(X_fit, y_fit))
    certificates = getattr(pipeline[-1], "certificate_", [])
    gaps = [c.gap for c in (certificates if isinstance(certificates, list) else [certificates])]
    return {
        "data": data,
        "n": len(X_fit),
        "p": X.shape[1],
        "classes": len(np.unique(y)),
        "model": model,
        "split": split,
        "chosen": next(iter(search.best_params_.values())),
        "accuracy": float(pipeline.score(X_test, y_test)),
        "seconds": seconds,
        "gap": max(gaps, default=None),
    }


def tables(table: pd.DataFrame) -> Iterator[Any]:
    """Yield sizes, tables of accuracies and times, and a line with the largest gap and our lead in points."""
    for row in table.drop_duplicates("data").itertuples():
        yield f"{row.data}: {row.n} training samples, {row.p} inputs, {row.classes} classes"
    columns = {"mean": ("accuracy", "mean"), "spread": ("accuracy", "std"), "seconds": ("seconds", "median")}
    cells: Any = table.groupby(["model", "data"]).agg(**columns).unstack()
    mean, spread, seconds = (cells[name].loc[table.model.unique(), table.data.unique()] for name in columns)
    accuracy = (100 * mean).map("{:.1f}".format) + " ± " + (100 * spread).map("{:.1f}".format)
    texts = {
        "Accuracy, % (± standard deviation over splits)": accuracy,
        "Seconds of the processor for one fit (median)": seconds.map(seconds_text),
    }
    for title, text in texts.items():
        yield f"## {title}"
        yield text.where(mean.notna(), "–").reset_index().to_dict("records")
    ours = mean[[model in OURS for model in mean.index]]
    if len(ours):
        lead = ", ".join(f"{name} {points:+.1f}" for name, points in (100 * (ours.max() - mean.max())).items())
        yield f"Largest certified gap {table.gap.max():.1e}; our best model against the best of all, in points: {lead}."


def report(options: argparse.Namespace) -> Iterator[Any]:
    store = Store(options.store)
    cells = product(options.data, range(options.splits), options.models)
    keys = [{"data": data, "model": model, "split": split} for data, split, model in cells]
    rows = [store.find(key) or store.add(measure(**key, root=options.data_root)) for key in tqdm(keys)]
    yield from tables(pd.DataFrame(rows))


if __name__ == "__main__":
    run(
        __doc__,
        report,
        data=(list(DATA), "data sets", DATA),
        models=(list(MODELS), "models", MODELS),
        splits=(5, "random splits of each data set"),
        store=("results/estimators.jsonl", "finished cells"),
    )
