"""Many classes at once: digits, MNIST and Fashion-MNIST, our classifiers next to SVC and LinearSVC; see --help.

MNIST's and Fashion-MNIST's pixels are centred and every image is scaled to length 1, for all models. They take
turns, with two threads; times are medians over the rounds, of the processor (CPU) and of the clock.
Finished runs are kept in --store: the same command goes on where it was stopped.
"""

import argparse
import pickle
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import product
from statistics import median
from typing import Any

import numpy as np
from common import Store, memory_baseline, memory_peak, run, timed
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from sklearn.svm import SVC, LinearSVC

from implicit_bias import GLNClassifier, MultipleKernelClassifier
from implicit_bias._utils.checks import Array
from implicit_bias.datasets.images import load_digits, load_images
from implicit_bias.extensions.galu import GaLUClassifier

#: Digits that train; the rest of the 1797 are the test part.
DIGITS = 1347
SKLEARN = {"SVC, rbf, C = 5": lambda: SVC(C=5), "LinearSVC": lambda: LinearSVC(max_iter=20_000)}


def gated(contexts: int, C: float) -> Callable[[], Any]:
    """Return a function that makes a GLNClassifier of 100 units, without constant input, for images of length 1."""
    return lambda: GLNClassifier(100, contexts, C, cutoff="median", fit_intercept=False, tol=1e-3, random_state=1)


def local(hyperplanes: int, C: float | str, side: int, stride: int) -> Callable[[], Any]:
    """Return a function that makes a classifier of images with local gates: all units of 2ᵇ contexts of patches.

    Patches have `side` × `side` pixels, and distances of `stride` pixels.
    """
    kernel = ("half-spaces", {"side": side, "stride": stride, "hyperplanes": hyperplanes})
    return lambda: MultipleKernelClassifier([kernel], C, tol=1e-3, random_state=1)


MODELS: dict[str, dict[str, Callable[[], Any]]] = {
    # Chosen on held-out digits: GaLU has 1.7 %, patches 1.4 %, and SVC 1.6 %, on four random quarters.
    "digits": {
        "GLN, 20 units": lambda: GLNClassifier(20, random_state=1),
        "half-spaces of 4 × 4 patches": local(8, "scale", 4, 2),
        "GaLU, 200 units": lambda: GaLUClassifier(200, ridge=0.1, random_state=1),
        "SVC": SVC,
        "LinearSVC": LinearSVC,
    },
    "mnist": {f"GLN, 100 units of {contexts}": gated(contexts, 1.0) for contexts in (2, 4)}
    | {f"half-spaces of {count} 8 × 8 patches": local(2, 0.4, 8, stride) for count, stride in ((16, 6), (36, 4))}
    | SKLEARN,
    "fashion-mnist": {f"GLN, 100 units of {contexts}": gated(contexts, 0.1) for contexts in (2, 4)}
    | {"half-spaces of 9 12 × 12 patches": local(3, 0.15, 12, 8)}
    | SKLEARN,
}
#: Data sets, and how many of their samples train.
ROWS = {
    "digits": ("digits", DIGITS),
    "mnist-5000": ("mnist", 5000),
    "mnist-6000": ("mnist", 6000),
    "mnist-20000": ("mnist", 20_000),
    "mnist": ("mnist", 60_000),
    "fashion-mnist-20000": ("fashion-mnist", 20_000),
    "fashion-mnist": ("fashion-mnist", 60_000),
}


@lru_cache(1)
def parts(data: str, root: str | None) -> tuple[Array, np.ndarray, Array, np.ndarray]:
    """Return training images (n, d) and labels, then test images and labels."""
    if data == "digits":
        X, y = load_digits()
        order = np.random.default_rng(1).permutation(len(X))
        X, y = X[order], y[order]
        return X[:DIGITS], y[:DIGITS], X[DIGITS:], y[DIGITS:]
    name, n = ROWS[data]
    (X, y), (X_test, y_test) = (load_images(name, root, train) for train in (True, False))
    rows = np.random.default_rng(1).permutation(len(X))[:n]
    prepare = make_pipeline(StandardScaler(with_std=False), Normalizer())
    return prepare.fit_transform(X[rows]), y[rows], prepare.transform(X_test), y_test


def measure(make: Callable[[], Any], X: Array, y: np.ndarray, X_test: Array, y_test: np.ndarray) -> dict[str, Any]:
    """Return a row: times of fit and prediction, error, memory, pickled size, support vectors, largest gap."""
    model, before = make(), memory_baseline()
    fit, _ = timed(lambda: model.fit(X, y), clocks)
    predict, labels = timed(lambda: model.predict(X_test), clocks)
    return {
        "fit": list(fit),
        "predict": list(predict),
        "error": float(100 * (labels != y_test).mean()),
        "memory": memory_peak() - before,
        "size": len(pickle.dumps(model)) / 2**20,
        "support": len(model.support_) if hasattr(model, "support_") else None,
        "gap": max((solution.gap for solution in getattr(model, "certificate_", [])), default=None),
    }


def clocks() -> Any:
    """Return the times of the processor and of the clock, in seconds."""
    return np.array([time.process_time(), time.perf_counter()])


def row(own: list[dict[str, Any]]) -> dict[str, str]:
    """Return the row of a model as texts: medians over its rounds."""
    first = own[0]
    times = {key: np.median([each[key] for each in own], axis=0) for key in ("fit", "predict")}
    return {
        "data": "{}, n = {}".format(*ROWS[first["data"]]),
        "model": first["model"],
        "runs": str(len(own)),
        **{f"{key}, {unit}": f"{both[i]:.3g}" for key, both in times.items() for i, unit in enumerate(("CPU s", "s"))},
        "error": f"{first['error']:.2f} %",
        "support vectors": "" if first["support"] is None else str(first["support"]),
        "gap at most": "" if first["gap"] is None else f"{first['gap']:.0e}",
        "memory above the data": f"{median(each['memory'] for each in own):.0f} MiB",
        "pickled": f"{first['size']:.1f} MiB",
    }


def report(options: argparse.Namespace) -> Iterator[Any]:
    """Run the fits that are not stored, all models in turn, and yield the table."""
    store = Store(options.store)
    # What the first fit of a process loads is part of no run.
    GLNClassifier(2, C=0.1).fit(*load_digits())
    for data in options.data:
        for turn, name in product(range(options.rounds), options.models or MODELS[ROWS[data][0]]):
            key = {"data": data, "model": name, "round": turn}
            if store.find(key) is None and name in MODELS[ROWS[data][0]]:
                found = measure(MODELS[ROWS[data][0]][name], *parts(data, options.data_root))
                print(store.add(key | found), flush=True)
    order = [{"data": data, "model": name} for data in ROWS for name in MODELS[ROWS[data][0]]]
    runs = [[cell for cell in store.rows if key.items() <= cell.items()] for key in order]
    yield [row(own) for own in runs if own]


if __name__ == "__main__":
    run(
        __doc__,
        report,
        2,
        data=(list(ROWS), "data sets", ROWS),
        models={"nargs": "+", "help": "names of models; all if not given"},
        rounds=(1, "how often each runs"),
        store=("results/classes.jsonl", "finished runs"),
    )
