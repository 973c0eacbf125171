"""Accuracy, time and memory of classifiers of this package and of scikit-learn on twelve tables; see --help.

Every model gets standardised inputs. 70 % of a table's samples train, at most 40 000, the rest tests. Models of others
choose their one parameter of the search by three-fold cross-validation on at most 3000 training samples (trees have
none); ours have their defaults, the kernel 100 sets of 6 columns and tol=1e-3. "CV" chooses C in the same way, among
multiples of the default, seven for interactions and four for the kernel, which may instead be the one of all columns;
of n samples, C is √(m/n) times the choice on m. Then one fit and one prediction of the test samples are timed, in CPU
seconds of one thread, and the process's peak of memory is taken. Settled before InteractionClassifier or the kernel
with CV were run: on average at most a point below the best of the others (aim: .3), and at least SVC on ten of twelve
tables. --store keeps finished cells.

--held-out compares settings of InteractionClassifier and of the half-space kernel, one changed at a time, on a third of
at most 4000 training samples of split 0, on eighteen tables. The setting of the largest mean gain over the splits
replaces the default if it gains .2 points (one split for the former, three for the latter; of kernels within .1 points
of the best, the fastest). 100 sets of 6, b = 3, had gained .4 before the settings with 30 sets were added.
"""

import argparse
import warnings
from collections.abc import Callable, Iterator
from itertools import chain, product
from typing import Any

import numpy as np
import pandas as pd
from common import Store, memory_baseline, memory_peak, run, seconds_text, timed
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, ParameterGrid, train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import QuantileTransformer, StandardScaler
from sklearn.svm import SVC, LinearSVC
from tables import TABLES, available, table
from tqdm import tqdm

from implicit_bias import (
    GatedReLUClassifier,
    GLNClassifier,
    InteractionClassifier,
    MarginClassifierCV,
    MultipleKernelClassifier,
)

MOST_FIT, MOST_SEARCHED = 40_000, 3000
SETS_OF_SIX = {"columns": 6, "count": 100, "hyperplanes": 3}
#: Values of C for "CV", as multiples of the default.
MULTIPLES = np.array([0.1, 0.2, 0.4, 0.7, 1.0, 2.0, 4.0])
#: Tables of more training samples have one split.
ONE_SPLIT_FROM = 10_000


def half_spaces(seed: int, **parameters: Any) -> MultipleKernelClassifier:
    """Return the classifier of "half-spaces" with these parameters."""
    return MultipleKernelClassifier([("half-spaces", parameters)], fit_intercept=True, tol=1e-3, random_state=seed)


Model = tuple[Callable[[int], BaseEstimator], dict[str, Any]]
THEIRS: dict[str, Model] = {
    "boosted trees": (lambda seed: HistGradientBoostingClassifier(random_state=seed), {}),
    "random forest": (lambda seed: RandomForestClassifier(random_state=seed), {}),
    "SVC, rbf": (lambda seed: SVC(), {"C": [1.0, 10.0, 100.0]}),
    "MLP, 100 units": (
        lambda seed: MLPClassifier(early_stopping=True, random_state=seed),
        {"alpha": [1e-4, 1e-2, 1.0]},
    ),
    "LinearSVC": (lambda seed: LinearSVC(dual=False, random_state=seed), {"C": [0.01, 0.1, 1.0]}),
    "logistic": (lambda seed: LogisticRegression(max_iter=1000), {"C": [0.01, 0.1, 1.0]}),
}
OURS: dict[str, Model] = {
    "GLN": (lambda seed: GLNClassifier(random_state=seed), {}),
    "gated ReLU": (lambda seed: GatedReLUClassifier(random_state=seed), {}),
    "interactions": (lambda seed: InteractionClassifier(random_state=seed), {}),
    "interactions, CV": (lambda seed: InteractionClassifier(random_state=seed), {"C": MULTIPLES}),
    "half-space kernel": (lambda seed: half_spaces(seed, **SETS_OF_SIX), {}),
    "half-space kernel, CV": (
        lambda seed: half_spaces(seed, **SETS_OF_SIX),
        {"C": MULTIPLES[::2], "kernels": [[("half-spaces", SETS_OF_SIX)], [("half-spaces", {"hyperplanes": 2})]]},
    ),
}
SETTINGS: dict[str, dict[str, Any]] = {
    "interactions": {},
    **{f"columns={m}": {"columns": m} for m in (2, 4)},
    **{f"contexts={K}": {"contexts": K} for K in (2, 8)},
    **{f"rounds={rounds}": {"rounds": rounds} for rounds in (1, 6)},
    "normal quantiles": {},
    **{f"all columns, b = {b}": {"hyperplanes": b} for b in (2, 1, 3)},
    **{
        f"{n} sets of {m}, b = {b}": {"columns": m, "count": n, "hyperplanes": b}
        for n, m, b in ((100, 3, 2), (100, 4, 3), (100, 6, 3), (30, 6, 3), (30, 8, 3), (30, 12, 3), (30, 8, 2))
    },
}
MODELS = THEIRS | OURS


def measure(data: str, model: str, split: int) -> dict[str, Any]:
    """Return the row of a model on a random split of a table; test samples are never used to choose parameters.

    Columns: data, n (training samples), p (inputs), classes, model, split, accuracy (0 to 1), CPU `seconds` of the fit
    and `predict` of the prediction, memory (increase of the peak in MiB), and gap, the largest certified one or None.
    """
    X, y = table(data)
    size = min(MOST_FIT, int(0.7 * len(X)))
    X_fit, X_test, y_fit, y_test = train_test_split(X, y, train_size=size, stratify=y, random_state=split)
    make, grid = MODELS[model]
    pipeline = make_pipeline(StandardScaler(), make(split))
    name = pipeline.steps[-1][0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if grid and model in OURS:
            pipeline[-1].set_params(**chosen(pipeline, X_fit, y_fit, **grid))
        elif grid:
            search = GridSearchCV(pipeline, {f"{name}__{key}": values for key, values in grid.items()}, cv=3)
            search = search.set_params(refit=False).fit(X_fit[:MOST_SEARCHED], y_fit[:MOST_SEARCHED])
            pipeline.set_params(**search.best_params_)
        before = memory_baseline()
        seconds, _ = timed(lambda: pipeline.fit(X_fit, y_fit))
        memory = memory_peak() - before
        predict_seconds, accuracy = timed(lambda: pipeline.score(X_test, y_test))
    certificates = getattr(pipeline[-1], "certificate_", [])
    gaps = [c.gap for c in (certificates if isinstance(certificates, list) else [certificates])]
    return {
        "data": data,
        "n": size,
        "p": X.shape[1],
        "classes": len(np.unique(y)),
        "model": model,
        "split": split,
        "accuracy": float(accuracy),
        "seconds": seconds,
        "predict": predict_seconds,
        "memory": memory,
        "gap": max(gaps, default=None),
    }


def chosen(pipeline: Pipeline, X: np.ndarray, y: np.ndarray, C: np.ndarray, **grid: list[Any]) -> dict[str, Any]:
    """Return the best parameters of the last step for the first samples; C are multiples of the default, for all."""
    first, labels = clone(pipeline[0]).fit_transform(X[:MOST_SEARCHED]), y[:MOST_SEARCHED]
    found: list[tuple[float, dict[str, Any]]] = []
    for values in ParameterGrid(grid):
        default = clone(pipeline[1]).set_params(tol=1e-3, **values)
        search = MarginClassifierCV(default, np.max(clone(default).fit(first, labels).C_) * C, cv=3).fit(first, labels)
        values["C"] = float(search.C_ * np.sqrt(len(first) / len(X)))
        found.append((search.scores_.mean(axis=0).max(), values))
    return max(found, key=lambda pair: pair[0])[1]


def held_out(data: str, setting: str, split: int) -> dict[str, Any]:
    """Return a row with the accuracy (0 to 1) and CPU `seconds` of a setting, without the test samples of split 0."""
    X, y = table(data)
    X, _, y, _ = train_test_split(X, y, train_size=min(4000, int(0.7 * len(X))), stratify=y, random_state=0)
    X_fit, X_test, y_fit, y_test = train_test_split(X, y, test_size=1 / 3, stratify=y, random_state=split)
    normal = QuantileTransformer(n_quantiles=min(1000, len(X_fit)), output_distribution="normal", random_state=0)
    changes = SETTINGS[setting]
    model = (
        half_spaces(split, **changes)
        if "hyperplanes" in changes
        else InteractionClassifier(tol=1e-3, random_state=split, **changes)
    )
    pipeline = make_pipeline(normal if setting == "normal quantiles" else StandardScaler(), model)
    seconds, _ = timed(lambda: pipeline.fit(X_fit, y_fit))
    accuracy = float(pipeline.score(X_test, y_test))
    return {"data": data, "setting": setting, "split": split, "accuracy": accuracy, "seconds": seconds}


def tables(frame: pd.DataFrame) -> Iterator[Any]:
    """Yield our mean losses, then tables of accuracies, seconds and memory, and the largest gap."""
    grouped = frame.groupby(["model", "data"])
    columns = {"accuracy": "mean", "seconds": "median", "predict": "median", "memory": "max"}
    cells: Any = {name: getattr(grouped[name], how)().unstack() for name, how in columns.items()}
    cells = {name: cell.loc[frame.model.unique(), frame.data.unique()] for name, cell in cells.items()}
    mean = 100 * cells["accuracy"]
    ours, theirs = ([model in group for model in mean.index] for group in (OURS, THEIRS))
    if not any(ours) or not any(theirs):
        return
    differences = mean[ours] - mean[theirs].max()
    summary = {"mean difference to the best of the others, points": differences.mean(axis=1).map("{:+.1f}".format)}
    if "SVC, rbf" in mean.index:
        summary["tables where it is at least SVC"] = (mean[ours] >= mean.loc["SVC, rbf"]).sum(axis=1).astype(str)
    yield pd.DataFrame(summary).T.reset_index(names="").to_dict("records")
    texts = {
        "Accuracy, %": mean.map("{:.1f}".format),
        "CPU seconds of a fit": cells["seconds"].map(seconds_text),
        "CPU seconds of the prediction of the test samples": cells["predict"].map(seconds_text),
        "Increase of the peak of memory in a fit, MiB": cells["memory"].map("{:.0f}".format),
    }
    for title, text in texts.items():
        yield f"## {title}"
        yield text.where(mean.notna(), "–").T.reset_index(names="").to_dict("records")
    yield f"The largest certified gap is {frame.gap.max():.1e}."


def report(options: argparse.Namespace) -> Iterator[Any]:
    store, rows = Store(options.store), []
    names = [name for name in available() if name in options.data]
    splits = {name: 1 if 0.7 * len(table(name)[0]) > ONE_SPLIT_FROM else options.splits for name in names}
    if options.held_out:
        settings, kernel = list(SETTINGS), list(SETTINGS).index("all columns, b = 2")
        runs = product(available(), settings[:kernel], range(1)), product(available(), settings[kernel:], range(3))
        keys = [dict(zip(("data", "setting", "split"), cell, strict=True)) for cell in chain(*runs)]
        frame = pd.DataFrame([store.find(key) or store.add(held_out(**key)) for key in tqdm(keys)])
        cells = 100 * frame.pivot_table(index="data", columns="setting", values="accuracy")[settings]
        base = cells[[settings[0]] * kernel + [settings[kernel]] * (len(settings) - kernel)].set_axis(settings, axis=1)
        gains = (cells - base).mean().to_frame("mean gain").T
        seconds = frame.groupby("setting").seconds.sum().to_frame("CPU seconds of all tables").T
        yield pd.concat([cells, gains, seconds]).round(1).astype(str).T.reset_index(names="").to_dict("records")
        return
    for name, model in tqdm(list(product(names, options.models))):
        for split in range(splits[name]):
            key = {"data": name, "model": model, "split": split}
            row = store.find(key) or measure(**key)
            rows.append(row if row in store.rows else store.add(row))
    yield from tables(pd.DataFrame(rows))


if __name__ == "__main__":
    run(
        __doc__,
        report,
        data=(list(TABLES)[:12], "tables", list(TABLES)),
        models=(list(MODELS), "models", list(MODELS)),
        splits=(3, "random splits of tables of at most 10 000 training samples"),
        store=("results/estimators.jsonl", "finished cells"),
        held_out=(False, "compare settings of two of ours on training samples only"),
    )
