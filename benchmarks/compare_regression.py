"""Measure least squares on gated features against dense algebra, and Algorithm 1 against solving anew; see --help."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg
from common import alternately, markdown, repeats_of, surroundings, surroundings_line

from implicit_bias import GatedFeatures, ReLUGates
from implicit_bias._utils.checks import Array
from implicit_bias.cli.execution import guarded
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
    """Gaussian inputs and targets, Gaussian filters; seed 0 of PCG64."""
    rng = np.random.default_rng(0)
    X, U = rng.normal(size=(m, d)), rng.normal(size=(k, d))
    return GatedFeatures(X, ReLUGates(U).transform(X)), rng.normal(size=m)


def dense_ways(features: GatedFeatures, y: Array) -> dict[str, Callable[[], Any]]:
    """Dense algebra on Φ, which is formed anew each time, as by whoever has only its columns' formula."""

    def lstsq() -> Any:
        return np.linalg.lstsq(features.dense(), y, rcond=None)

    def pinv() -> Any:
        return np.linalg.pinv(features.dense()) @ y

    return {"dense lstsq": lstsq, "dense pinv": pinv}


def cholesky(features: GatedFeatures, y: Array, ridge: float) -> Array:
    """One solution by Cholesky's factor of the smaller Gram matrix, as fast as we know how."""
    wide = features.n <= features.k * features.d
    K = features.gram() if wide else features.weight_gram()
    K[np.diag_indices(len(K))] += max(features.n * ridge, 1e-9 * K.trace() / len(K))
    right = y if wide else features.adjoint(y).ravel()
    return np.asarray(scipy.linalg.cho_solve(scipy.linalg.cho_factor(K, overwrite_a=True), right))


def closed_forms(repeats: int) -> list[dict[str, str]]:
    """The least-norm solution: ours, and dense algebra on Φ, with how far the two are apart."""
    rows = []
    for m, d, k in SOLVED:
        features, y = layer(m, d, k)
        small = m * d * k <= DENSE_UP_TO
        dense = dense_ways(features, y) if small else {}
        ways: dict[str, Callable[[], Any]] = {"ours": partial(least_squares, features, y)} | dense
        seconds = alternately(ways, repeats)[0]
        found = least_squares(features, y)
        apart = np.nan
        if small:
            expected = dense["dense lstsq"]()[0]
            apart = float(np.linalg.norm(found.weights.ravel() - expected) / np.linalg.norm(expected))
        rows.append(
            {"m": str(m), "d": str(d), "k": str(k), "rank": str(found.rank), "condition": f"{found.condition:.0f}"}
            | {f"{name}, s": f"{seconds[name]:.2f}" if name in seconds else "–" for name in WAYS}
            | {"apart": f"{apart:.0e}" if small else "–"}
        )
    return rows


def searches(repeats: int) -> list[dict[str, str]]:
    """512 steps of Algorithm 1 as a whole, against as many solutions anew, of which `repeats` are measured."""
    rows = []
    for m, d, k, ridge in SEARCHED:
        features, y = layer(m, d, k)
        search = partial(improve_filters, features.X, y, k, steps=STEPS, ridge=ridge)
        whole, results = alternately({"ours": search}, repeats)
        found, ours = results["ours"], whole["ours"]
        ways: dict[str, Callable[[], Any]] = {"cholesky": partial(cholesky, features, y, ridge)}
        ways["pinv"] = dense_ways(features, y)["dense pinv"]
        anew = alternately(ways, repeats)[0]
        rows.append(
            {"m": str(m), "d": str(d), "k": str(k), "ridge": f"{ridge:g}", "taken": str(found.accepted)}
            | {"lowered": f"{found.history[0]:.3f} to {found.history[-1]:.3f}", "ours, s": f"{ours:.1f}"}
            | {"Cholesky anew, s": f"{STEPS * anew['cholesky']:.0f}", "times": f"{STEPS * anew['cholesky'] / ours:.1f}"}
            | {"pinv anew, s": f"{STEPS * anew['pinv']:.0f}", "times ": f"{STEPS * anew['pinv'] / ours:.0f}"}
        )
    return rows


def main() -> int:
    """Print both tables."""
    repeats = repeats_of(__doc__, 5)
    about = surroundings()
    print(surroundings_line(about, "all threads of the BLAS"))
    print(f"\nThe least-norm solution, medians of {repeats}:\n\n{markdown(closed_forms(repeats))}")
    print(f"\nAlgorithm 1, {STEPS} steps, medians of {repeats}; solving anew is {STEPS} times one solution:\n")
    print(markdown(searches(repeats)))
    return 0


if __name__ == "__main__":
    raise SystemExit(guarded(main))
