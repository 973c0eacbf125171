"""Measure least squares on gated features against dense algebra, and Algorithm 1 against solving anew; see --help.

Rivals form Φ, or (GGᵀ)∘(XXᵀ), in each run, and solve by Cholesky, scikit-learn's Ridge, or lstsq, all with
one thread in CPU seconds, in turn.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg
from common import alternately, run
from sklearn.linear_model import Ridge

from implicit_bias import GatedFeatures, ReLUGates
from implicit_bias._utils.checks import Array
from implicit_bias.extensions.galu import improve_filters, least_squares

#: Samples, inputs, units and ridge of the closed form; the paper's case, fewer features than samples, comes first.
SOLVED = (
    *((1024, 32, 16, 0.0), (2048, 32, 32, 0.0), (3000, 20, 75, 0.0), (1024, 32, 64, 0.0), (2000, 20, 1000, 0.0)),
    *((300, 10, 20, 0.1), (1024, 32, 16, 0.1), (3000, 20, 100, 0.1), (3000, 20, 140, 0.1), (20_000, 20, 50, 0.1)),
    *((500, 10, 200, 0.01), (1500, 20, 150, 0.1), (1501, 20, 150, 0.1), (1000, 784, 20, 0.1)),
)
#: Samples, inputs, units and ridge of Algorithm 1: with more features than samples a ridge gives it something to lower.
SEARCHED = ((1024, 32, 64, 0.01), (1024, 32, 16, 0.0))
STEPS = 512
#: Entries of Φ above which it is not formed.
DENSE_UP_TO = 2**25
#: Samples above which ΦΦᵀ is not formed.
SAMPLES_UP_TO = 5000


def layer(m: int, d: int, k: int) -> tuple[GatedFeatures, Array]:
    """Return Gaussian inputs (m, d) with the gates of k Gaussian filters, as features, and Gaussian targets (m,)."""
    rng = np.random.default_rng(0)
    X, U = rng.normal(size=(m, d)), rng.normal(size=(k, d))
    return GatedFeatures(X, ReLUGates(U).transform(X)), rng.normal(size=m)


def solved(K: Array, right: Array, shift: float) -> Array:
    """Return (K + shift · I)⁻¹ `right` by a Cholesky factorisation; K is overwritten."""
    K[np.diag_indices(len(K))] += shift
    return np.asarray(scipy.linalg.cho_solve(scipy.linalg.cho_factor(K, overwrite_a=True), right))


def pseudo_inverse(features: GatedFeatures, y: Array) -> Any:
    """Return the least-norm weights Φ⁺y, by NumPy's pinv."""
    return np.linalg.pinv(features.dense()) @ y


def rivals(features: GatedFeatures, y: Array, ridge: float) -> dict[str, Callable[[], Any]]:
    """Return functions that compute the weights (kd,), by name; only those that apply to these sizes and this ridge."""
    X, G, shift, size = features.X, features.gate_values, features.n * ridge, features.k * features.d

    def samples() -> Array:
        dense = features.dense()
        return dense.T @ solved(dense @ dense.T, y, shift)

    def product() -> Array:
        return features.adjoint(solved((G @ G.T) * (X @ X.T), y, shift)).ravel()

    def weights() -> Array:
        dense = features.dense()
        return solved(dense.T @ dense, dense.T @ y, shift)

    def ridge_() -> Array:
        return np.asarray(Ridge(alpha=shift, fit_intercept=False, copy_X=False).fit(features.dense(), y).coef_)

    formed = features.n * size <= DENSE_UP_TO
    found: dict[str, Callable[[], Any]] = {}
    if features.n <= SAMPLES_UP_TO and (ridge or features.n <= size):
        found |= ({"ΦΦᵀ": samples} if formed else {}) | {"(GGᵀ)∘(XXᵀ)": product}
    if formed and size <= 1.5 * features.n and (ridge or size <= features.n):
        found["ΦᵀΦ"] = weights
    if formed:
        dense = features.dense
        found |= {"Ridge": ridge_} if ridge else {"lstsq": lambda: np.linalg.lstsq(dense(), y, rcond=None)[0]}
    return found


def closed_forms(repeats: int) -> Iterator[dict[str, str]]:
    """Yield rows of the least-norm or ridge solution: ours, rivals, and the relative distance to the slowest one."""
    for m, d, k, ridge in SOLVED:
        features, y = layer(m, d, k)
        ways: dict[str, Callable[[], Any]] = {"ours": partial(least_squares, features, y, ridge=ridge)}
        ways |= rivals(features, y, ridge)
        seconds, results = alternately(ways, repeats, time.process_time, untimed=1)
        found, (name, *others) = results.pop("ours"), sorted(set(ways) - {"ours"}, key=seconds.__getitem__)
        expected = results[others[-1] if others else name]
        apart = np.linalg.norm(found.weights.ravel() - expected) / np.linalg.norm(expected)
        row = {"m": f"{m}", "d": f"{d}", "k": f"{k}", "ridge": f"{ridge:g}", "ours, ms": f"{1e3 * seconds['ours']:.3g}"}
        for rival in ("ΦᵀΦ", "ΦΦᵀ", "(GGᵀ)∘(XXᵀ)", "Ridge", "lstsq"):
            row[rival] = f"{1e3 * seconds[rival]:.3g}" if rival in seconds else "–"
        yield row | {"ours / best": f"{seconds['ours'] / seconds[name]:.2f}", "apart": f"{apart:.0e}"}


def cholesky(features: GatedFeatures, y: Array, ridge: float) -> Array:
    """Return dual coefficients (n,) if n ≤ kd, else weights (kd,), by a Cholesky factor of the smaller Gram matrix."""
    wide = features.n <= features.k * features.d
    K = features.gram() if wide else features.weight_gram()
    right = y if wide else features.adjoint(y).ravel()
    return solved(K, right, max(features.n * ridge, 1e-9 * K.trace() / len(K)))


def searches(repeats: int) -> Iterator[dict[str, str]]:
    """Yield rows: seconds of all steps of Algorithm 1, and `STEPS` times those of one new solution (medians)."""
    for m, d, k, ridge in SEARCHED:
        features, y = layer(m, d, k)
        search = partial(improve_filters, features.X, y, k, steps=STEPS, ridge=ridge)
        whole, results = alternately({"ours": search}, repeats, time.process_time)
        found, ours = results["ours"], whole["ours"]
        ways: dict[str, Callable[[], Any]] = {"cholesky": partial(cholesky, features, y, ridge)}
        ways["pinv"] = partial(pseudo_inverse, features, y)
        again = alternately(ways, repeats, time.process_time)[0]
        lowered = f"{found.history[0]:.3f} to {found.history[-1]:.3f}"
        yield {
            **{"m": str(m), "d": str(d), "k": str(k), "ridge": f"{ridge:g}", "taken": str(found.accepted)},
            **{"lowered": lowered, "ours, s": f"{ours:.1f}", "Cholesky anew, s": f"{STEPS * again['cholesky']:.0f}"},
            **{"times": f"{STEPS * again['cholesky'] / ours:.1f}", "pinv anew, s": f"{STEPS * again['pinv']:.0f}"},
            "times ": f"{STEPS * again['pinv'] / ours:.0f}",
        }


def report(options: argparse.Namespace) -> Iterator[Any]:
    repeats = options.repeats
    yield f"One solution, medians of {repeats}, milliseconds:"
    yield closed_forms(repeats)
    yield f"Algorithm 1, {STEPS} steps, medians of {repeats}; solving anew is {STEPS} times one solution:"
    yield searches(repeats)


if __name__ == "__main__":
    run(__doc__, report, 1, repeats=(5, "runs of each, of which the median counts"))
