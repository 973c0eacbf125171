"""Many classes at once: digits, MNIST and Fashion-MNIST, our classifiers beside SVC and LinearSVC; see --help.

MNIST's and Fashion-MNIST's pixels are centred and every image is scaled to length 1, for all models. They take
turns, one thread each; figures are medians over the rounds, in seconds of the processor. Finished runs are kept in
--store: the same command goes on where it was stopped.
"""

import pickle
import time
from collections.abc import Callable
from itertools import product
from statistics import median
from typing import Any

import numpy as np
from common import command_line, markdown, memory_baseline, memory_peak, stored_rows, surroundings, surroundings_line
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from sklearn.svm import SVC, LinearSVC
from threadpoolctl import threadpool_limits

from implicit_bias import GLNClassifier
from implicit_bias._utils.checks import Array
from implicit_bias.datasets.images import load_digits, load_images

Parts = tuple[Array, np.ndarray, Array, np.ndarray]
#: Digits that train; the rest of the 1797 are the test part.
DIGITS = 1347
SKLEARN = {"SVC, rbf, C = 5": lambda: SVC(C=5), "LinearSVC": lambda: LinearSVC(max_iter=20_000)}


def gated(contexts: int, C: float) -> Callable[[], Any]:
    """100 units; centred images of length 1 need no constant input."""
    return lambda: GLNClassifier(100, contexts, C, fit_intercept=False, tol=1e-3, random_state=1)


MODELS: dict[str, dict[str, Callable[[], Any]]] = {
    "digits": {"GLN, 20 units": lambda: GLNClassifier(20, random_state=1), "SVC": SVC, "LinearSVC": LinearSVC},
    "mnist": {f"GLN, 100 units of {contexts}": gated(contexts, 1.0) for contexts in (2, 4)} | SKLEARN,
    "fashion": {f"GLN, 100 units of {contexts}": gated(contexts, 0.1) for contexts in (2, 4)} | SKLEARN,
}
#: Data sets, and how many of their samples train.
ROWS = {
    "digits": ("digits", DIGITS),
    "mnist-5000": ("mnist", 5000),
    "mnist-20000": ("mnist", 20_000),
    "mnist": ("mnist", 60_000),
    "fashion-mnist": ("fashion-mnist", 60_000),
}


def models_of(data: str) -> dict[str, Callable[[], Any]]:
    """Who runs on which data."""
    return MODELS[data.split("-")[0]]


def parts(data: str, root: str | None) -> Parts:
    """Training and test images, and their labels."""
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
    """Seconds of the processor to fit and to predict, error, memory, size of the model, certified gap."""
    model, before = make(), memory_baseline()
    begin = time.process_time()
    model.fit(X, y)
    fitted = time.process_time()
    labels = model.predict(X_test)
    predicted = time.process_time()
    found = getattr(model, "certificate_", [])
    return {
        "fit": fitted - begin,
        "predict": predicted - fitted,
        "error": float(100 * (labels != y_test).mean()),
        "memory": memory_peak() - before,
        "size": len(pickle.dumps(model)) / 2**20,
        "support": len(model.support_) if hasattr(model, "support_") else None,
        "gap": max((solution.gap for solution in found), default=None),
    }


def report(cells: list[dict[str, Any]]) -> str:
    """The table: medians over the rounds."""
    rows = []
    for data in ROWS:
        for name in models_of(data):
            runs = [cell for cell in cells if (cell["data"], cell["model"]) == (data, name)]
            if not runs:
                continue
            fit, predict = (median(run[key] for run in runs) for key in ("fit", "predict"))
            gap, support = runs[0]["gap"], runs[0]["support"]
            rows.append(
                {
                    "data": "{}, n = {}".format(*ROWS[data]),
                    "model": name,
                    "runs": str(len(runs)),
                    "fit, s": f"{fit:.3g}",
                    "predict, s": f"{predict:.3g}",
                    "error": f"{runs[0]['error']:.2f} %",
                    "support vectors": "" if support is None else str(support),
                    "gap at most": "" if gap is None else f"{gap:.0e}",
                    "memory above the data": f"{median(run['memory'] for run in runs):.0f} MiB",
                    "pickled": f"{runs[0]['size']:.1f} MiB",
                }
            )
    return markdown(rows)


def main() -> None:
    """Run what is missing and print the table."""
    parser = command_line(__doc__)
    add = parser.add_argument
    add("--data", nargs="+", choices=ROWS, default=list(ROWS))
    add("--models", nargs="+", help="names of models; all if not given")
    add("--rounds", type=int, default=1, help="how often each runs")
    add("--store", default="results/classes.jsonl", help="finished runs")
    options = parser.parse_args()
    cells, add_cell = stored_rows(options.store)
    about = surroundings()
    # What the first fit of a process loads is part of no run.
    GLNClassifier(2, C=0.1).fit(*load_digits())
    with threadpool_limits(1):
        for data in options.data:
            samples: Parts | None = None
            for turn, name in product(range(options.rounds), models_of(data)):
                key = {"data": data, "model": name, "round": turn}
                if any(key.items() <= cell.items() for cell in cells) or name not in (options.models or [name]):
                    continue
                samples = samples or parts(data, options.data_root)
                add_cell(key | measure(models_of(data)[name], *samples))
                print(cells[-1], flush=True)
    print(report(cells), surroundings_line(about, "one thread"), sep="\n\n")


if __name__ == "__main__":
    main()
