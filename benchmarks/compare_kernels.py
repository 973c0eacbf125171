"""Accuracy and time of MultipleKernelClassifier against MKLpy's EasyMKL and SVC on the mean kernel; see --help.

Every model gets the same kernels of standardised inputs. Its one price is chosen on a third of the training part, then
one fit is timed, in seconds of the processor and without the kernels themselves. Models take turns on each split.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from common import markdown, seconds_text, surroundings, surroundings_line
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from implicit_bias import MultipleKernelClassifier, PrecomputedKernel

#: γ of the Gaussian kernels, times the number of inputs that they see.
WIDTHS = (1 / 16, 1 / 4, 1.0, 4.0, 16.0)
#: Columns of each property of a cell: its mean, standard error and worst value.
PROPERTIES = [list(range(j, 30, 10)) for j in range(10)]
DATA: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "cancer-properties": (load_breast_cancer, PROPERTIES),
    "cancer": (load_breast_cancer, [slice(None)]),
    "wine": (load_wine, [slice(None)]),
    "digits": (load_digits, [slice(None)]),
}


def kernels_of(X: np.ndarray, parts: list[Any]) -> np.ndarray:
    """All kernels (k, n, n) over all samples: of five widths of all inputs, or of one width of each part of them."""
    widths = WIDTHS if len(parts) == 1 else (1.0,)
    each = [(X[:, part], width) for part in parts for width in widths]
    return np.stack([rbf_kernel(own, gamma=width / own.shape[1]) for own, width in each])


def ours(price: float, K: np.ndarray, rows: np.ndarray, y: np.ndarray) -> tuple[Any, Callable[..., Any], str]:
    """Fitted on some rows; predicts others, and says its worst certified gap."""
    model = MultipleKernelClassifier([PrecomputedKernel(one) for one in K], C=price).fit(rows[:, None], y)
    solutions = model.certificate_ if isinstance(model.certificate_, list) else [model.certificate_]
    return model, lambda new: model.predict(new[:, None]), f"{max(found.gap for found in solutions):.1e}"


def mean_kernel(price: float, K: np.ndarray, rows: np.ndarray, y: np.ndarray) -> tuple[Any, Callable[..., Any], str]:
    """SVC on the mean of the kernels."""
    mean = K.mean(axis=0)
    model = SVC(kernel="precomputed", C=price).fit(mean[np.ix_(rows, rows)], y)
    return model, lambda new: model.predict(mean[np.ix_(new, rows)]), ""


def easy_mkl(price: float, K: np.ndarray, rows: np.ndarray, y: np.ndarray) -> tuple[Any, Callable[..., Any], str]:
    """MKLpy's EasyMKL, whose λ mixes the margin with that of the classes' centres."""
    from MKLpy.algorithms import EasyMKL

    model = EasyMKL(lam=price).fit([one[np.ix_(rows, rows)] for one in K], y)
    return model, lambda new: np.asarray(model.predict([one[np.ix_(new, rows)] for one in K])), ""


MODELS: dict[str, tuple[Callable[..., Any], tuple[float, ...]]] = {
    "MultipleKernelClassifier": (ours, (0.05, 0.2, 1.0, 5.0)),
    "SVC, mean kernel": (mean_kernel, (0.1, 1.0, 10.0, 100.0)),
    "EasyMKL (MKLpy)": (easy_mkl, (0.0, 0.1, 0.5, 0.9)),
}


def cells(sets: list[str], splits: int, models: list[str]) -> Iterator[dict[str, Any]]:
    """A row for each data set, split and model."""
    for data in sets:
        load, parts = DATA[data]
        X, y = load(return_X_y=True)
        K = kernels_of(StandardScaler().fit_transform(X), parts)
        for split in range(1, splits + 1):
            halved = partial(train_test_split, random_state=split)
            fit, test = halved(np.arange(len(y)), stratify=y)
            inner, held = halved(fit, test_size=1 / 3, stratify=y[fit])
            for name in models:
                run, prices = MODELS[name]
                scores = [np.mean(run(price, K, inner, y[inner])[1](held) == y[held]) for price in prices]
                begin = time.process_time()
                _, predict, told = run(prices[int(np.argmax(scores))], K, fit, y[fit])
                seconds = time.process_time() - begin
                yield {
                    "data": data,
                    "model": name,
                    "accuracy": 100 * np.mean(predict(test) == y[test]),
                    "seconds": seconds,
                    "told": told,
                }


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--data", nargs="+", choices=DATA, default=[*DATA], metavar="NAME")
    options, about = parser.parse_args(), surroundings()
    models = list(MODELS)
    try:
        import MKLpy  # noqa: F401
    except ImportError:
        models.remove("EasyMKL (MKLpy)")
        print("MKLpy is not installed: pip install MKLpy cvxopt\n")
    with threadpool_limits(1):
        table = pd.DataFrame(cells(options.data, options.splits, models))
    grouped = table.groupby(["data", "model"], sort=False)
    found = grouped.agg(accuracy=("accuracy", "mean"), spread=("accuracy", "std"), seconds=("seconds", "median"))
    found["told"] = grouped.told.max()
    shown = [
        {
            "data": row["data"],
            "model": row["model"],
            "accuracy, %": f"{row['accuracy']:.1f} ± {row['spread']:.1f}",
            "CPU s of a fit": seconds_text(row["seconds"]),
            "largest certified gap": row["told"] or "none",
        }
        for row in found.reset_index().to_dict("records")
    ]
    command = (
        f"Command: `python benchmarks/compare_kernels.py --splits {options.splits} --data {' '.join(options.data)}`."
    )
    print(f"{markdown(shown)}\n\n{command} {surroundings_line(about, '1 thread')}")


if __name__ == "__main__":
    main()
