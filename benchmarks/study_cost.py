"""Study behind the default C and number of units of GLNClassifier and GatedReLUClassifier on twelve tables; see --help.

Settled before any table was run:

- Sizes n = 100, 1000, 3000, 10 000 and 20 000, up to 70 % of a table's samples; at most 5000 others test. Splits: ten
  at n = 100, three at 1000, one above. Inputs are standardised by the training samples; several classes are one against
  the rest; cutoffs are at quantiles from 0.1 to 0.9. A solve may take ten seconds; its best weights so far count.
- The grid: C = κ/s for κ = 1, 2.2, 4.6, 10, 22, 46 and 100, s of `random_dual_norm`, times three numbers of units. The
  best of its 21 mean accuracies is what a default is compared with; the mean over splits is taken first.
- Candidates: κ/s, κ C₀ (C₀ of `zero_weights_up_to`, for each class), κ/n and κ, each with the κ and the units that
  have the least mean regret over the other eleven tables (leave one table out), among those that take at most three
  CPU seconds on clusters with n = 15 000. Of a table, the mean regret over its sizes counts.
- Goal: a regret of at most one point on nine of twelve tables, both at the largest n and on average over n.

Finished cells are kept in --store: the same command goes on.
"""

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from common import Store, run
from sklearn.preprocessing import StandardScaler
from tables import TABLES, available, table
from tqdm import tqdm

from implicit_bias import HyperplaneGates, RandomHalfSpaces, solve, svm_gln, svm_rc
from implicit_bias.datasets.task import with_constant
from implicit_bias.solvers.path import random_dual_norm, zero_weights_up_to

SIZES = (100, 1000, 3000, 10_000, 20_000)
#: κ of the grid.
KAPPA = 10 ** (np.arange(7) / 3)
MULTIPLES = 10 ** (np.arange(17) / 6)
UNITS = {"GLN": (10, 30, 100), "gated ReLU": (20, 60, 200)}
CUTOFF = (0.1, 0.9)
SECONDS, TIMED_N, MOST_SECONDS = 10.0, 15_000, 3.0


def splits_of(n: int) -> int:
    return 10 if n <= 100 else 3 if n <= 1000 else 1


def measure(data: str, n: int, kind: str, units: int, split: int) -> dict[str, Any]:
    """Return accuracies and CPU seconds at every κ/s, accuracies at multiples of each class's C₀, and the scales."""
    X, y = table(data)
    rows = np.random.default_rng([split, n]).permutation(len(X))
    fit, test = rows[:n], rows[n:][:5000]
    scaler = StandardScaler().fit(X[fit])
    inputs, others = with_constant(scaler.transform(X[fit])), with_constant(scaler.transform(X[test]))
    gates: Any = HyperplaneGates(units, 2, split, CUTOFF) if kind == "GLN" else RandomHalfSpaces(units, split, CUTOFF)
    gates, build = gates.fit(inputs), svm_gln if kind == "GLN" else svm_rc
    classes = np.unique(y)
    least, scores, seconds, late = [], [], np.zeros(len(KAPPA)), 0
    for label in classes if len(classes) > 2 else classes[1:]:
        problem = build(inputs, np.where(y[fit] == label, 1.0, -1.0), gates).replace(intercept=True)
        if len(set(problem.y.tolist())) < 2:
            raise RuntimeError(f"{data} has too few samples of {label} at n = {n}")
        s, start = random_dual_norm(problem), None
        least.append(zero_weights_up_to(problem) * s)
        found = []
        for k, kappa in reversed(list(enumerate(KAPPA))):
            begin = time.process_time()
            solution = solve(problem.replace(C=kappa / s), max_seconds=SECONDS, start=start)
            seconds[k] += time.process_time() - begin
            start = solution if solution.solver == "NATIVE" else None
            late += solution.status.name == "TIME_LIMIT"
            gated = gates(others)
            found.append(gated @ solution.weights + solution.intercept)
        scores.append(found[::-1])
    values = np.array(scores)

    def accuracy(chosen: np.ndarray) -> float:
        picked = classes[chosen.argmax(axis=0)] if len(chosen) > 1 else classes[(chosen[0] > 0).astype(int)]
        return float((picked == y[test]).mean())

    def nearest(C: np.ndarray) -> np.ndarray:
        return np.abs(np.log(KAPPA) - np.log(C)[:, None]).argmin(axis=1)

    each = np.arange(len(values))
    return {
        "n_test": len(test),
        "s": s,
        "least": least,
        "late": int(late),
        "seconds": seconds.tolist(),
        "accuracy": [accuracy(values[:, k]) for k in range(len(KAPPA))],
        "of_least": [accuracy(values[each, nearest(multiple * np.array(least))]) for multiple in MULTIPLES],
    }


def report(options: argparse.Namespace) -> Iterator[Any]:
    store = Store(options.store)
    names = [name for name in available() if name in options.data]
    sizes = {name: [n for n in SIZES if n <= 0.7 * len(table(name)[0])] for name in names}
    keys = [
        {"data": name, "n": n, "kind": kind, "units": units, "split": split}
        for n in SIZES
        for name in names
        if n in sizes[name]
        for kind, several in UNITS.items()
        for units, split in product(several, range(splits_of(n)))
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for key in tqdm(keys):
            if store.find(key) is None:
                store.add(key | measure(**key))
    yield json.dumps({"cells": len(store.rows)})


if __name__ == "__main__":
    run(
        __doc__,
        report,
        data=(list(TABLES), "tables", list(TABLES)),
        store=("results/cost.jsonl", "finished cells"),
    )
