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
import time
import warnings
from collections.abc import Iterator
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
#: κ of the grid, of κ/s, and of κ C₀.
KAPPA = 10 ** (np.arange(7) / 3)
VALUES = 10 ** (np.arange(13) / 6)
MULTIPLES = 10 ** (np.arange(17) / 6)

Curve = tuple[np.ndarray, np.ndarray]

UNITS = {"GLN": (10, 30, 100), "gated ReLU": (20, 60, 200)}
CUTOFF = (0.1, 0.9)
SECONDS, TIMED, TIMED_N, MOST_SECONDS = 10.0, "clusters", 15_000, 3.0


def splits_of(n: int) -> int:
    """Return the number of random splits at n training samples."""
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
            # The timed fits start anew.
            usable = solution.solver == "NATIVE" and solution.status.name == "OPTIMAL"
            start = solution if usable and n != TIMED_N else None
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


def keys_of(names: list[str]) -> list[dict[str, Any]]:
    """Return the cells of the study, as keyword arguments of `measure`; `TIMED_N` samples give seconds only."""
    sizes = {name: [n for n in SIZES if n <= 0.7 * len(table(name)[0])] for name in names}
    cells = [(n, name, split) for n in SIZES for name in names if n in sizes[name] for split in range(splits_of(n))]
    cells += [(TIMED_N, name, 0) for name in names if name == TIMED]
    return [
        {"data": name, "n": n, "kind": kind, "units": units, "split": split}
        for n, name, split in cells
        for kind, several in UNITS.items()
        for units in several
    ]


def curves(rows: pd.DataFrame, column: str) -> dict[str, Curve]:
    """Return for each formula its values of κ and the mean of a column (accuracy or seconds) over cells of one kind."""
    values, least = np.array(rows[column].tolist()), rows["least"].map(np.mean).to_numpy()[:, None]

    def at(multiples: np.ndarray) -> np.ndarray:
        """Return the means at C = multiples/s, interpolated in log C."""
        logs = np.log(np.broadcast_to(multiples, (len(rows), multiples.shape[-1])))
        return np.mean([np.interp(log, np.log(KAPPA), curve) for log, curve in zip(logs, values, strict=True)], axis=0)

    s, n = rows.s.to_numpy()[:, None], rows.n.to_numpy()[:, None]
    fine = 10 ** (np.arange(-24, 25) / 6)
    # For accuracies each class has its own C₀.
    of_least = np.array(rows.of_least.tolist()).mean(axis=0) if column == "accuracy" else at(MULTIPLES * least)
    return {
        "κ/s": (VALUES, at(VALUES)),
        "κ C₀": (MULTIPLES, of_least),
        "κ/n": (10 * fine, at(10 * fine * s / n)),
        "κ": (fine, at(fine * s)),
    }


def regrets(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the regret of every formula, κ and number of units on every table and n, in points, and seconds."""
    rows = []
    times = frame[frame.n == TIMED_N].groupby(["kind", "units"])
    seconds = {key: curves(cells, "seconds") for key, cells in times}
    for (kind, data, n), cells in frame[frame.n != TIMED_N].groupby(["kind", "data", "n"]):
        best = max(np.mean(some.accuracy.tolist(), axis=0).max() for _, some in cells.groupby("units"))
        for units, some in cells.groupby("units"):
            for formula, (kappas, found) in curves(some, "accuracy").items():
                regret = 100 * (best - found)
                timed = seconds[kind, units][formula][1]
                head = {"kind": kind, "data": data, "n": n, "units": units, "formula": formula}
                rows.append(pd.DataFrame(head | {"kappa": kappas.round(6), "regret": regret, "seconds": timed}))
    return pd.concat(rows)


def fixed(found: pd.DataFrame) -> Iterator[dict[str, str]]:
    """Yield the regret of C = κ/s for each number of units and each κ of the grid, without a limit of time."""
    some = found[(found.formula == "κ/s") & found.kappa.isin(KAPPA[1:5].round(6))]
    for (units, kappa), cells in some.groupby(["units", "kappa"]):
        mean = cells.groupby("data").regret.mean()
        largest = cells[cells.n == cells.groupby("data").n.transform("max")].regret
        yield {
            "units": str(units),
            "κ": f"{kappa:.2g}",
            "mean regret": f"{mean.mean():.2f}",
            "tables within a point": f"{(mean <= 1).sum()} of {len(mean)}",
            "at the largest n": f"{(largest <= 1).sum()} of {len(largest)}",
            "worst": f"{mean.max():.1f} ({mean.idxmax()})",
            "seconds": f"{cells.seconds.iloc[0]:.1f}",
        }


def choices(found: pd.DataFrame) -> Iterator[dict[str, str]]:
    """Yield a row for each formula: its choice on all tables, and its regret where it was chosen without the table."""
    for formula, some in found[found.seconds <= MOST_SECONDS].groupby("formula", sort=False):
        by: Any = some.groupby(["units", "kappa", "data"]).regret.mean().unstack()
        last: Any = (
            some[some.n == some.groupby("data").n.transform("max")].groupby(["units", "kappa", "data"]).regret.mean()
        )
        left = {data: by.drop(columns=data).mean(axis=1).idxmin() for data in by}
        out: Any = pd.Series({data: by.loc[chosen, data] for data, chosen in left.items()})
        largest: Any = pd.Series({data: last.loc[(*chosen, data)] for data, chosen in left.items()})
        best = by.mean(axis=1).idxmin()
        yield {
            "C": str(formula),
            "units, κ on all": f"{best[0]}, {best[1]:.3g}",
            "units, κ without a table": "; ".join(sorted({f"{units}, {kappa:.3g}" for units, kappa in left.values()})),
            "mean regret": f"{out.mean():.2f}",
            "tables within a point": f"{(out <= 1).sum()} of {len(out)}",
            "at the largest n": f"{(largest <= 1).sum()} of {len(out)}",
            "worst": f"{out.max():.1f} ({out.idxmax()})",
        }


def report(options: argparse.Namespace) -> Iterator[Any]:
    store = Store(options.store)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = [
            store.find(key) or store.add(key | measure(**key))
            for key in tqdm(keys_of([name for name in available() if name in options.data]))
        ]
    frame = pd.DataFrame(rows)
    found = regrets(frame)
    for kind in UNITS:
        times = frame[(frame.kind == kind) & (frame.n == TIMED_N)]
        yield f"## {kind}: CPU seconds of {TIMED_N} samples of {TIMED}; regrets in points"
        yield [
            {"units": str(row["units"])}
            | {f"κ = {kappa:.2g}": f"{t:.2f}" for kappa, t in zip(KAPPA, row["seconds"], strict=True)}
            for row in times.to_dict("records")
        ]
        yield list(choices(found[found.kind == kind]))
        yield list(fixed(found[found.kind == kind]))


if __name__ == "__main__":
    run(
        __doc__,
        report,
        data=(list(TABLES), "tables", list(TABLES)),
        store=("results/cost.jsonl", "finished cells"),
    )
