"""Measure least squares on gated features against dense algebra, and Algorithm 1 against solving anew; see --help."""

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg
from common import alternately, run

from implicit_bias import GatedFeatures, ReLUGates
from implicit_bias._utils.checks import Array
from implicit_bias.extensions.galu import improve_filters, least_squares

#: Samples, inputs and units of the closed form: more features than samples, fewer, and many more.
SOLVED = ((1024, 32, 64), (2048, 32, 32), (2000, 20, 1000))
#: Samples, inputs, units and ridge of Algorithm 1: with more features than samples a ridge gives it something to lower.
SEARCHED = ((1024, 32, 64, 0.01), (1024, 32, 16, 0.0))
STEPS = 512
#: Entries of Φ above which dense algebra is not tried.
DENSE_UP_TO = 2**23
WAYS = ("ours", "dense lstsq", "dense pinv")


def layer(m: int, d: int, k: int) -> tuple[GatedFeatures, Array]:
    """Return Gaussian inputs (m, d) behind k Gaussian filters, and targets, by seed 0 of PCG64."""
    rng = np.random.default_rng(0)
    X, U = rng.normal(size=(m, d)), rng.normal(size=(k, d))
    return GatedFeatures(X, ReLUGates(U).transform(X)), rng.normal(size=m)


def dense_ways(features: GatedFeatures, y: Array) -> dict[str, Callable[[], Any]]:
    """Return ways to solve by dense algebra on Φ, which is formed in each run."""
    return {
        "dense lstsq": lambda: np.linalg.lstsq(features.dense(), y, rcond=None)[0],
        "dense pinv": lambda: np.linalg.pinv(features.dense()) @ y,
    }


def cholesky(features: GatedFeatures, y: Array, ridge: float) -> Array:
    """Return one solution by a Cholesky factor of the smaller Gram matrix."""
    wide = features.n <= features.k * features.d
    K = features.gram() if wide else features.weight_gram()
    K[np.diag_indices(len(K))] += max(features.n * ridge, 1e-9 * K.trace() / len(K))
    right = y if wide else features.adjoint(y).ravel()
    return np.asarray(scipy.linalg.cho_solve(scipy.linalg.cho_factor(K, overwrite_a=True), right))


def closed_forms(repeats: int) -> Iterator[dict[str, str]]:
    """Return rows of the least-norm solution: ours and dense algebra on Φ, and their distance."""
    for m, d, k in SOLVED:
        features, y = layer(m, d, k)
        ways: dict[str, Callable[[], Any]] = {"ours": partial(least_squares, features, y)}
        ways |= dense_ways(features, y) if m * d * k <= DENSE_UP_TO else {}
        seconds, results = alternately(ways, repeats)
        found, apart = results["ours"], "–"
        if (expected := results.get("dense lstsq")) is not None:
            apart = f"{np.linalg.norm(found.weights.ravel() - expected) / np.linalg.norm(expected):.0e}"
        row = {"m": str(m), "d": str(d), "k": str(k), "rank": str(found.rank), "condition": f"{found.condition:.0f}"}
        row |= {f"{name}, s": f"{seconds[name]:.2f}" if name in seconds else "–" for name in WAYS}
        yield row | {"apart": apart}


def searches(repeats: int) -> Iterator[dict[str, str]]:
    """Return rows of all steps of Algorithm 1, and of as many new solutions, `repeats` of which are measured."""
    for m, d, k, ridge in SEARCHED:
        features, y = layer(m, d, k)
        search = partial(improve_filters, features.X, y, k, steps=STEPS, ridge=ridge)
        whole, results = alternately({"ours": search}, repeats)
        found, ours = results["ours"], whole["ours"]
        ways: dict[str, Callable[[], Any]] = {"cholesky": partial(cholesky, features, y, ridge)}
        again = alternately(ways | {"pinv": dense_ways(features, y)["dense pinv"]}, repeats)[0]
        lowered = f"{found.history[0]:.3f} to {found.history[-1]:.3f}"
        yield {
            **{"m": str(m), "d": str(d), "k": str(k), "ridge": f"{ridge:g}", "taken": str(found.accepted)},
            **{"lowered": lowered, "ours, s": f"{ours:.1f}", "Cholesky anew, s": f"{STEPS * again['cholesky']:.0f}"},
            **{"times": f"{STEPS * again['cholesky'] / ours:.1f}", "pinv anew, s": f"{STEPS * again['pinv']:.0f}"},
            "times ": f"{STEPS * again['pinv'] / ours:.0f}",
        }


def report(options: argparse.Namespace) -> Iterator[Any]:
    repeats = options.repeats
    yield f"The least-norm solution, medians of {repeats}:"
    yield closed_forms(repeats)
    yield f"Algorithm 1, {STEPS} steps, medians of {repeats}; solving anew is {STEPS} times one solution:"
    yield searches(repeats)


if __name__ == "__main__":
    run(__doc__, report, "all threads of the BLAS", repeats=(5, "runs of each, of which the median counts"))
