"""Error and time of GaLURegressor against ridge, kernel ridge and MLPRegressor on real tables; see --help.

Inputs and real targets are standardised. Classes are targets of −1 and +1, this class against the rest, and the largest
prediction wins. Each model's one hyperparameter is chosen on a quarter of the training part; then a fit of all of it is
timed, in seconds of the processor with one thread.
"""

import argparse
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from common import run, seconds_text, timed
from sklearn.base import BaseEstimator
from sklearn.datasets import load_diabetes, load_digits
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, ShuffleSplit, train_test_split
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import StandardScaler
from tqdm import tqdm

from implicit_bias._utils.checks import Array
from implicit_bias.datasets.images import load_images
from implicit_bias.extensions.galu import GaLURegressor

#: Units of all layers.
UNITS = 100
#: Units of those whose filters Algorithm 1 improves.
FEW = 20
#: Steps of Algorithm 1.
STEPS = 100
RIDGES = [0.01, 0.1, 1.0, 10.0]
#: Above so many numbers in Φ of the few units, Algorithm 1 is left out.
SEARCHED_UP_TO = 10**6
#: Split by which a hyperparameter is chosen.
CHOICE = ShuffleSplit(1, test_size=0.25, random_state=0)
Model = tuple[Callable[[int, int], BaseEstimator], dict[str, list[float]]]
MODELS: dict[str, Model] = {
    "ridge": (lambda p, seed: Ridge(), {"alpha": [1.0, 10.0, 100.0, 1000.0]}),
    "kernel ridge, rbf": (lambda p, seed: KernelRidge(kernel="rbf"), {"alpha": [0.01, 0.1, 1.0, 10.0]}),
    f"MLP, {UNITS} units": (
        lambda p, seed: MLPRegressor(hidden_layer_sizes=(UNITS,), random_state=seed),
        {"alpha": [1e-4, 1e-2, 1.0, 10.0]},
    ),
    f"GaLU, {UNITS} units": (lambda p, seed: GaLURegressor(UNITS, random_state=seed), {"ridge": RIDGES}),
    f"GaLU, {UNITS} soft units": (
        lambda p, seed: GaLURegressor(UNITS, sharpness=2 * p**-0.5, random_state=seed),
        {"ridge": RIDGES},
    ),
    f"GaLU, {FEW} units": (lambda p, seed: GaLURegressor(FEW, random_state=seed), {"ridge": RIDGES}),
    f"GaLU, {FEW} better units": (
        lambda p, seed: GaLURegressor(FEW, steps=STEPS, random_state=seed),
        {"ridge": RIDGES},
    ),
}


def parity(samples: int, root: str | None) -> tuple[Array, Array]:
    """Return `samples` MNIST images, drawn with a fixed seed, and labels: 1 for odd digits, 0 for even ones."""
    X, y = load_images("mnist", root)
    rows = np.random.default_rng(0).choice(len(X), samples, replace=False)
    return X[rows], y[rows] % 2


#: Inputs and targets, and whether these are real numbers.
DATA: dict[str, tuple[Callable[[int, str | None], tuple[Array, Array]], bool]] = {
    "diabetes": (lambda samples, root: load_diabetes(return_X_y=True), True),
    "digits": (lambda samples, root: load_digits(return_X_y=True), False),
    "parity": (parity, False),
}


def measure(X: Array, y: Array, real: bool, model: str, split: int) -> dict[str, Any]:
    """Return the row of a model on a split: test error, and CPU seconds of fit and prediction."""
    X_fit, X_test, y_fit, y_test = train_test_split(X, y, train_size=0.7, random_state=split)
    scale = StandardScaler().fit(X_fit)
    inputs, new = scale.transform(X_fit), scale.transform(X_test)
    spread, centre = (y_fit.std(), y_fit.mean()) if real else (1.0, 0.0)
    classes = np.unique(y_fit)
    signs = np.where(y_fit[:, None] == classes, 1.0, -1.0)
    make, grid = MODELS[model]
    targets = (y_fit - centre) / spread if real else signs[:, 1] if len(classes) == 2 else signs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # An MLP that is not done after its 200 epochs.
        search = GridSearchCV(make(X.shape[1], split), grid, cv=CHOICE, refit=False).fit(inputs, targets)
        chosen = make(X.shape[1], split).set_params(**search.best_params_)
        fit, _ = timed(lambda: chosen.fit(inputs, targets))
    predict, found = timed(lambda: chosen.predict(new))
    if real:
        error = float(np.sqrt(np.mean((spread * found + centre - y_test) ** 2)))
    else:
        answer = classes[found.argmax(axis=1) if found.ndim == 2 else (found > 0).astype(int)]
        error = 100 * float(np.mean(answer != y_test))
    return {"model": model, "error": error, "fit": fit, "predict": predict}


def compared(name: str, X: Array, y: Array, real: bool, splits: int) -> Iterator[Any]:
    """Yield a description of a data set, and the table of all models on it."""
    few = 0.7 * len(X) * FEW * X.shape[1] <= SEARCHED_UP_TO
    models = [model for model in MODELS if few or "better" not in model]
    cells = [(model, split) for split in range(splits) for model in models]
    table = pd.DataFrame([measure(X, y, real, *cell) for cell in tqdm(cells, desc=name)])
    kind, digits = ("root mean square error", 1) if real else ("error in %", 2)
    used = int(0.7 * len(X))
    yield f"{name}: {used} training samples of {X.shape[1]} inputs, {kind} on {len(X) - used} others"
    yield [
        {"model": model, "error": f"{own.error.mean():.{digits}f} ± {own.error.std():.{digits}f}"}
        | {f"{key}, s": seconds_text(own[key].median()) for key in ("fit", "predict")}
        for model, own in table.groupby("model", sort=False)
    ]


def report(options: argparse.Namespace) -> Iterator[Any]:
    for name in options.data:
        load, real = DATA[name]
        yield from compared(name, *load(options.images, options.data_root), real, options.splits)


if __name__ == "__main__":
    run(
        __doc__,
        report,
        data=(list(DATA), "data sets", DATA),
        splits=(2, "random splits of each data set"),
        images=(1000, "MNIST images, 7 of 10 for training"),
    )
