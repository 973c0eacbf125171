"""Accuracy and time of MultipleKernelClassifier against MKLpy's EasyMKL and SVC on the mean kernel; see --help.

Every model gets the same kernels of standardised inputs. Its parameter is chosen on a third of the training part, then
one fit is timed, in seconds of the processor and without the kernels themselves. Models take turns on each split.
"""

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from common import installed, run, seconds_text, timed
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from implicit_bias import MultipleKernelClassifier, PrecomputedKernel

#: γ of the Gaussian kernels, times their number of inputs.
WIDTHS = (1 / 16, 1 / 4, 1.0, 4.0, 16.0)
#: Columns of each property of a cell nucleus: its mean, standard error and worst value.
PROPERTIES = [list(range(j, 30, 10)) for j in range(10)]
#: Function from new rows to their predicted classes, and the largest certified gap as text, empty without certificates.
Fitted = tuple[Callable[..., Any], str]
DATA: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "cancer-properties": (load_breast_cancer, PROPERTIES),
    "cancer": (load_breast_cancer, [slice(None)]),
    "wine": (load_wine, [slice(None)]),
    "digits": (load_digits, [slice(None)]),
}


def kernels_of(X: np.ndarray, parts: list[Any]) -> np.ndarray:
    """Return kernels (k, n, n) over all samples: five widths of all inputs, or one width for each part of them."""
    widths = WIDTHS if len(parts) == 1 else (1.0,)
    each = [(X[:, part], width) for part in parts for width in widths]
    return np.stack([rbf_kernel(own, gamma=width / own.shape[1]) for own, width in each])


def ours(parameter: float, K: np.ndarray, rows: np.ndarray, y: np.ndarray) -> Fitted:
    """Fit our classifier to `rows` of kernels K (k, n, n) with C = `parameter`; see `Fitted`."""
    model = MultipleKernelClassifier([PrecomputedKernel(one) for one in K], C=parameter).fit(rows[:, None], y)
    solutions = model.certificate_ if isinstance(model.certificate_, list) else [model.certificate_]
    return lambda new: model.predict(new[:, None]), f"{max(found.gap for found in solutions):.1e}"


def mean_kernel(parameter: float, K: np.ndarray, rows: np.ndarray, y: np.ndarray) -> Fitted:
    """Fit SVC to `rows` of the mean of K (k, n, n) with C = `parameter`; the gap of `Fitted` is empty."""
    mean = K.mean(axis=0)
    model = SVC(kernel="precomputed", C=parameter).fit(mean[np.ix_(rows, rows)], y)
    return lambda new: model.predict(mean[np.ix_(new, rows)]), ""


def easy_mkl(parameter: float, K: np.ndarray, rows: np.ndarray, y: np.ndarray) -> Fitted:
    """Fit MKLpy's EasyMKL to `rows` of K (k, n, n) with λ = `parameter`; the gap of `Fitted` is empty."""
    from MKLpy.algorithms import EasyMKL

    model = EasyMKL(lam=parameter).fit([one[np.ix_(rows, rows)] for one in K], y)
    return lambda new: np.asarray(model.predict([one[np.ix_(new, rows)] for one in K])), ""


MODELS: dict[str, tuple[Callable[..., Any], tuple[float, ...]]] = {
    "MultipleKernelClassifier": (ours, (0.05, 0.2, 1.0, 5.0)),
    "SVC, mean kernel": (mean_kernel, (0.1, 1.0, 10.0, 100.0)),
    "EasyMKL (MKLpy)": (easy_mkl, (0.0, 0.1, 0.5, 0.9)),
}


def cells(sets: list[str], splits: int, models: list[str]) -> Iterator[dict[str, Any]]:
    """Yield a row for each data set, split and model, with its parameter chosen on a third of the training part."""
    for data in sets:
        load, parts = DATA[data]
        X, y = load(return_X_y=True)
        K = kernels_of(StandardScaler().fit_transform(X), parts)
        for split in range(1, splits + 1):
            halved = partial(train_test_split, random_state=split)
            fit, test = halved(np.arange(len(y)), stratify=y)
            inner, held = halved(fit, test_size=1 / 3, stratify=y[fit])
            for name in models:
                fitted, values = MODELS[name]
                scores = [np.mean(fitted(value, K, inner, y[inner])[0](held) == y[held]) for value in values]
                seconds, (predict, gap) = timed(partial(fitted, values[int(np.argmax(scores))], K, fit, y[fit]))
                accuracy = 100 * np.mean(predict(test) == y[test])
                yield {"data": data, "model": name, "accuracy": accuracy, "seconds": seconds, "gap": gap}


def report(options: argparse.Namespace) -> Iterator[Any]:
    models = [name for name in MODELS if "MKLpy" not in name or installed("MKLpy")]
    table = pd.DataFrame(cells(options.data, options.splits, models))
    columns = {"mean": ("accuracy", "mean"), "spread": ("accuracy", "std")}
    columns |= {"seconds": ("seconds", "median"), "gap": ("gap", "max")}
    yield [
        {
            "data": row["data"],
            "model": row["model"],
            "accuracy, %": f"{row['mean']:.1f} ± {row['spread']:.1f}",
            "CPU s of a fit": seconds_text(row["seconds"]),
            "largest certified gap": row["gap"] or "none",
        }
        for row in table.groupby(["data", "model"], sort=False).agg(**columns).reset_index().to_dict("records")
    ]


if __name__ == "__main__":
    run(__doc__, report, splits=(5, "random splits of each data set"), data=(list(DATA), "data sets", DATA))
