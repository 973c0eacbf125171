"""One problem each that this package shares with SVC, LinearSVC, skglm and himalaya: time, and error; see --help.

The linear support vector machine without intercept: min ½‖w‖² + C̃ Σξ has the solution of min ‖w‖ + C Σξ for C̃ = C‖w‖.
The weights of every package are scored by this objective, against our certified lower bound. Gated least squares is
kernel ridge regression with the gates' kernel. Packages that are not installed are left out. Packages take turns; times
are medians of CPU seconds.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from common import alternately, installed, load_samples, run, seconds_text
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVC, LinearSVC

from implicit_bias import ConstantGate, MarginProblem, solve, svm_shallow
from implicit_bias.extensions.galu import GaLURegressor


def machines(problem: MarginProblem, X: np.ndarray, y: np.ndarray, C: float) -> dict[str, Callable[[], np.ndarray]]:
    """Return functions that compute w (d,) of least ½‖w‖² + C Σ max(0, 1 − y⟨w, x⟩), by package and tolerance."""

    def ours(tol: float) -> np.ndarray:
        return solve(problem, tol=tol).weights[0]

    def libsvm(tol: float) -> np.ndarray:
        # SVC has an intercept; a sample and its mirror image leave none.
        model = SVC(kernel="linear", C=C / 2, tol=tol, cache_size=1000).fit(np.vstack([X, -X]), np.append(y, -y))
        return np.asarray(model.coef_[0])

    def liblinear(tol: float) -> np.ndarray:
        model = LinearSVC(loss="hinge", C=C, tol=tol, fit_intercept=False, max_iter=10**5, random_state=1)
        return np.asarray(model.fit(X, y).coef_[0])

    found = {"solve": ours, "SVC on mirrored samples": libsvm, "LinearSVC": liblinear}
    if installed("skglm"):
        from skglm import LinearSVC as SparseLinearSVC

        def skglm(tol: float) -> np.ndarray:
            return np.ravel(SparseLinearSVC(C=C, tol=tol, fit_intercept=False).fit(X, y).coef_)

        found["skglm's LinearSVC"] = skglm
    return {f"{name}, tol={tol:g}": partial(run, tol) for name, run in found.items() for tol in (1e-3, 1e-6)}


def ridges(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> dict[str, Callable[[], np.ndarray]]:
    """Return functions that fit gated ridge regression to X and y and return predictions of `new`, by package."""
    ours = GaLURegressor(100, ridge=0.01, fit_intercept=False, random_state=1).fit(X, y)
    G, H = ours.gates_.transform(X), ours.gates_.transform(new)

    def kernels() -> tuple[np.ndarray, np.ndarray]:
        return (G @ G.T) * (X @ X.T), (H @ G.T) * (new @ X.T)

    def dual(kind: Any, **options: Any) -> np.ndarray:
        K, L = kernels()
        return np.ravel(kind(alpha=0.01 * len(X), kernel="precomputed", **options).fit(K, y).predict(L))

    found: dict[str, Callable[[], np.ndarray]] = {
        "GaLURegressor": lambda: ours.fit(X, y).predict(new),
        "scikit-learn's KernelRidge": lambda: dual(KernelRidge),
    }
    if installed("himalaya"):
        from himalaya.kernel_ridge import KernelRidge as Himalaya

        found["himalaya's KernelRidge"] = lambda: dual(Himalaya)
    return found


def report(options: argparse.Namespace) -> Iterator[Any]:
    X, y, _ = load_samples("mnist", options.n, options.data_root)
    problem = svm_shallow(X, y, ConstantGate(), options.C)
    certified = solve(problem, tol=1e-9)
    size = float(np.linalg.norm(certified.weights))
    yield f"n = {len(X)}, d = {X.shape[1]}; certified optimum {certified.objective:.9g}, gap {certified.gap:.1e}"
    # A first run is not timed, because some compile then.
    race = partial(alternately, repeats=options.repeats, clock=time.process_time, untimed=1)
    seconds, weights = race(machines(problem, X, y, options.C * size))
    rows = []
    for name, w in weights.items():
        reached = np.linalg.norm(w) + options.C * np.maximum(1 - problem.margins(w[None]), 0).sum()
        above = f"{reached / certified.lower_bound - 1:.1e}"
        rows.append({"linear machine": name, "CPU s": seconds_text(seconds[name]), "above the optimum": above})
    yield rows
    seconds, predictions = race(ridges(X, y, X[::-1] + 0.01))
    reference, rows = predictions["GaLURegressor"], []
    for name, found in predictions.items():
        apart = f"{np.abs(found - reference).max() / np.abs(reference).max():.1e}"
        rows.append({"gated ridge, 100 units": name, "CPU s": seconds_text(seconds[name]), "apart": apart})
    yield rows


if __name__ == "__main__":
    run(
        __doc__,
        report,
        n=(2000, "MNIST images, odd digits against even ones"),
        C=(0.1, "weight C of the slacks of the linear machine"),
        repeats=(3, "runs of each, of which the median counts"),
    )
