"""Accuracy and time of the classifiers against SVC, LinearSVC and a small MLP on real data; see --help.

Every model gets standardised inputs and the same search: its one price (C, or the MLP's weight decay) by three-fold
cross-validation on the training part, then one timed fit. Times are of the processor, which other work on the machine
changes little; every fit uses one thread, and models take turns on each split. Finished cells are kept in --store: the
same command goes on.
"""

import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import command_line, markdown, seconds_text, stored_rows, surroundings, surroundings_line
from sklearn.base import BaseEstimator
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from implicit_bias import SGD, GatedReLUClassifier, GLNClassifier, HiddenLayerClassifier
from implicit_bias._utils.files import write_atomically
from implicit_bias.datasets.images import load_images

GRID = {"C": [0.01, 0.1, 1.0]}
SQUARED = {"C": [0.1, 1.0, 10.0]}
UNITS, STEPS = 20, 300
KEYS = ("data", "model", "split")
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
    """3000 images of all ten classes, drawn with a fixed seed."""
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
    """Accuracy on held-out samples, seconds of the last fit, and the worst certified gap of one cell."""
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
        begin = time.process_time()
        pipeline.fit(X_fit, y_fit)
        seconds = time.process_time() - begin
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


def report(table: pd.DataFrame, about: dict[str, Any], command: str) -> str:
    """The page of docs: what was done, a table of accuracies and one of times, and what they amount to."""
    columns = {"mean": ("accuracy", "mean"), "spread": ("accuracy", "std"), "seconds": ("seconds", "median")}
    cells: Any = table.groupby(["model", "data"]).agg(**columns).unstack()
    mean, spread, seconds = (cells[name].loc[table.model.unique(), table.data.unique()] for name in columns)

    def rows(cell: Callable[[str, str], str]) -> list[dict[str, str]]:
        return [
            {"model": m} | {d: "–" if np.isnan(mean.at[m, d]) else cell(m, d) for d in mean.columns} for m in mean.index
        ]

    shape = "; ".join(
        f"{r.data}: n = {r.n}, {r.p} inputs, {r.classes} classes" for r in table.drop_duplicates("data").itertuples()
    )
    parts = [
        "# The classifiers on real data",
        "Accuracy on held-out samples and the processor's time for one fit, for the classifiers of this package and "
        "for scikit-learn's. All get standardised inputs; the price (C, or the MLP's weight decay) is chosen for each "
        f"by three-fold cross-validation on the training part. Means over {table.split.nunique()} stratified random "
        f"splits. The gated models have {UNITS} units of two contexts, or {2 * UNITS} half-spaces, and no free "
        "intercept; networks behind learned gates and hidden layers are trained for "
        f"{STEPS} steps. One thread per fit.",
        f"Training samples: {shape}.",
        "## Accuracy, % (± standard deviation over splits)",
        markdown(rows(lambda m, d: f"{100 * mean.at[m, d]:.1f} ± {100 * spread.at[m, d]:.1f}")),
        "## Seconds of the processor for one fit (median)",
        markdown(rows(lambda m, d: seconds_text(seconds.at[m, d]))),
        *_standing(mean, table.gap.dropna()),
        "A certified margin is no reason to expect a better accuracy. Where a kernel machine is better and faster, use "
        "it; what these classifiers add is the certificate, and a decision function that is linear in every region.",
        f"Command: `{command}`. {surroundings_line(about, '1 thread')}",
    ]
    return "\n\n".join(parts) + "\n"


def _standing(mean: pd.DataFrame, gaps: pd.Series) -> list[str]:
    """How exact our fits are, and how our best classifier compares; nothing if none was run."""
    ours = mean[[model in OURS for model in mean.index]]
    if ours.empty:
        return []
    lead = ", ".join(f"{name} {points:+.1f}" for name, points in (100 * (ours.max() - mean.max())).items())
    return [
        f"Of the certified gaps of our fits at the chosen prices the largest is {gaps.max():.1e}.",
        f"Our best classifier against the best of all, in points: {lead}. These are the mean accuracies of several "
        "models of ours with the best named afterwards, which favours us; the spread over splits says how little a "
        "difference of a point means on the small sets.",
    ]


def main() -> None:
    """Measure what is missing and write the page."""
    parser = command_line(__doc__)
    add = parser.add_argument
    add("--data", nargs="+", choices=DATA, default=list(DATA))
    add("--models", nargs="+", choices=MODELS, default=list(MODELS))
    add("--splits", type=int, default=5, help="random splits of each data set")
    add("--store", default="results/estimators.jsonl", help="finished cells")
    add("--out", default="docs/estimators.md")
    options = parser.parse_args()
    threadpool_limits(1)
    done, add_row = stored_rows(options.store)
    kept = {tuple(cell[key] for key in KEYS): cell for cell in done}
    about = surroundings()
    cells = [(d, m, s) for d in options.data for s in range(options.splits) for m in options.models]
    with threadpool_limits(1):
        for data, model, split in tqdm([cell for cell in cells if cell not in kept]):
            kept[data, model, split] = measure(data, model, split, options.data_root)
            add_row(kept[data, model, split])
    command = f"python benchmarks/compare_estimators.py --splits {options.splits}"
    write_atomically(options.out, report(pd.DataFrame([kept[cell] for cell in cells]), about, command).encode())
    print(Path(options.out).read_text())


if __name__ == "__main__":
    main()
