"""Measure how the native solver scales in n, H and K, up to all 60 000 images, against its floor; see --help.

Every cell has a process of its own and is written down as soon as it is finished: run the same command again to go on
after an interruption. The floor is the time of the steps' large products at the measured rate of matrix products; what
a round needs once (XXᵀ, the margins of all samples) and the sorting of the samples are not in it.
"""

import argparse
import itertools
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import common
import numpy as np
import pandas as pd
from scaling_report import picture, section_text
from tqdm import tqdm

from implicit_bias import (
    SGD,
    HyperplaneGates,
    MarginProblem,
    ReLUNetwork,
    Solution,
    save_problem,
    solve,
    svm_gln,
    svm_hl,
    svm_l2,
    svm_lc,
    train,
)
from implicit_bias._utils.checks import InputError, as_count, as_positive
from implicit_bias._utils.files import require_writable, write_atomically
from implicit_bias.cli.execution import guarded
from implicit_bias.solvers import Progress

LARGE: dict[str, list[Any]] = {"units": [100], "contexts": [2], "seeds": [1], "tol": [1e-6], "problems": ["SVM-GLN"]}
#: What each section measures: every choice of one value of each, where the command line does not say otherwise.
SECTIONS: dict[str, dict[str, list[Any]]] = {
    "grid": LARGE
    | {"sizes": [500, 1000, 2000], "units": [10, 20, 50, 100], "contexts": [2, 4], "seeds": [1, 2, 3], "tol": [1e-8]},
    "large": LARGE | {"sizes": [12_000, 24_000, 48_000, 60_000]},
    "threads": LARGE | {"sizes": [500, 1000, 2000, 12_000], "threads": [1, 2]},
    "norms": LARGE | {"sizes": [2000], "units": [10, 100], "problems": ["SVM-L2", "SVM-HL", "SVM-LC"]},
}
#: A λ_i above this share of the largest makes a support vector.
SUPPORT = 1e-5


@dataclass(frozen=True)
class Cell:
    """What is measured once: a problem, how exactly, and on how many threads."""

    section: str
    dataset: str
    problem: str
    n: int
    units: int
    contexts: int
    seed: int
    tol: float
    threads: int

    def __str__(self) -> str:
        return f"{self.section}: {self.problem} n={self.n} H={self.units} K={self.contexts} seed {self.seed}"


KEYS = [field.name for field in fields(Cell)]
RESULTS = [
    *("outcome", "status", "gap", "objective", "iterations", "seconds", "fastest", "slowest", "repeats"),
    *("working_set", "support_vectors", "memory_mib", "inputs", "gemm_gflops", "floor_gflop", "floor_seconds", "load"),
]


def cells(options: argparse.Namespace) -> list[Cell]:
    """Every cell that the options ask for."""
    found: list[Cell] = []
    order = ("problems", "sizes", "units", "contexts", "seeds", "tol", "threads")
    given = {key: getattr(options, key) for key in order if hasattr(options, key)}
    for name in options.only:
        of = {"threads": [1]} | SECTIONS[name] | given
        found += [Cell(name, options.dataset, *each) for each in itertools.product(*(of[key] for key in order))]
    for cell in found:
        common.require_samples(cell.dataset, as_count(cell.n, "n"))
        HyperplaneGates(cell.units, cell.contexts, cell.seed)
        as_positive(cell.tol, "tol")
        as_count(cell.threads, "threads")
    return found


def build(cell: Cell, root: str | None) -> MarginProblem:
    """The cell's margin problem."""
    X, y, pool = common.load_samples(cell.dataset, cell.n, root)
    if cell.problem in ("SVM-LC", "SVM-HL"):
        network = _trained(cell.dataset, cell.n, cell.units, cell.seed, root)
        return (svm_lc if cell.problem == "SVM-LC" else svm_hl)(X, y, network)
    gates = HyperplaneGates(cell.units, cell.contexts, cell.seed).fit(pool)
    return (svm_gln if cell.problem == "SVM-GLN" else svm_l2)(X, y, gates)


@lru_cache
def _trained(dataset: str, n: int, units: int, seed: int, root: str | None) -> ReLUNetwork:
    X, y, _ = common.load_samples(dataset, n, root)
    network = ReLUNetwork(X.shape[1], units, seed=seed)
    train(network, X, y, SGD(), seed=seed)
    return network


def solve_repeatedly(problem: MarginProblem, begun: Callable[[], None], tol: float, repeats: int) -> dict[str, Any]:
    """Solve in a process of its own; medians of the times."""
    solve(common.small_problem(), "NATIVE")
    seen: list[Progress] = []

    def run() -> Solution:
        seen.clear()
        return solve(problem, "NATIVE", tol=tol, callback=seen.append)

    timed = common.timed_runs(run, repeats, begun)
    solution = timed.pop("found")
    return (
        {name: getattr(solution, name) for name in ("gap", "objective", "iterations")}
        | timed
        | {
            "status": solution.status.name,
            "repeats": repeats,
            "working_set": seen[-1].working_set if seen else 0,
            "support_vectors": int(np.sum(solution.dual > SUPPORT * solution.dual.max())),
            "inputs": problem.features.d,
            "gemm_gflops": common.gemm_rate() / 1e9,
            "steps": step_sizes(seen),
        }
    )


def step_sizes(seen: Sequence[Progress]) -> list[int]:
    """The working-set size of every interior-point step, from what `solve(callback=…)` told at every iterate.

    Where there are working sets, what goes before the first is the sorting of all samples.
    """
    first = next((place for place, told in enumerate(seen) if told.working_set < told.samples), 0)
    pairs = itertools.pairwise(seen[first:])
    return [before.working_set for before, after in pairs if after.iteration > before.iteration]


def step_flops(m: int, d: int, units: int, contexts: int) -> float:
    """Floating-point operations of one step for m samples of d inputs with one-hot contexts.

        Cholesky m³/3 + K(η) 2m²k + triangular solves 2m²r + two sweeps 8mdk

    k = H(K − 1) + 1 gate columns remain after the contrasts, r = H + 2 right-hand sides.
    """
    k, r = units * (contexts - 1) + 1, units + 2
    return m**3 / 3 + 2 * m**2 * k + 2 * m**2 * r + 8 * m * d * k


def with_floor(cell: Cell, result: dict[str, Any]) -> dict[str, Any]:
    """The result with the floor in Gflop and seconds; SVM-GLN only, whose products the formula counts."""
    sizes = result.pop("steps", [])
    if cell.problem == "SVM-GLN" and sizes:
        flops = sum(step_flops(m, result["inputs"], cell.units, cell.contexts) for m in sizes)
        result["floor_gflop"] = flops / 1e9
        result["floor_seconds"] = result["floor_gflop"] / result["gemm_gflops"]
    return result


def finished(file: Path) -> list[dict[Any, Any]]:
    """The rows of an earlier run that came to an end; those that failed or were killed are tried again."""
    if not file.exists():
        return []
    table = pd.read_csv(file)
    if not {*KEYS, "outcome"} <= set(table.columns):
        raise InputError(f"{file} is no table of this benchmark; choose another --out")
    rows: list[dict[Any, Any]] = table[table.outcome == "ok"].to_dict("records")
    return rows


def measure(wanted: list[Cell], options: argparse.Namespace, file: Path) -> tuple[pd.DataFrame, bool]:
    """Run the cells that `file` lacks, writing it after each; its whole table, and whether Ctrl-C ended it early."""
    rows = finished(file)
    done = {_key(row) for row in rows}
    left = [cell for cell in wanted if _key(asdict(cell)) not in done]
    try:
        for cell in (bar := tqdm(left, unit="cell", desc="scaling")):
            bar.set_postfix_str(str(cell))
            load = common.load_average()
            with tempfile.TemporaryDirectory() as folder:
                path = save_problem(replace(build(cell, options.data_root), gates=None), Path(folder, "problem.npz"))
                settings = {"tol": cell.tol, "repeats": options.repeats}
                limit = options.time_limit * options.repeats
                result = common.in_process(solve_repeatedly, path, settings, limit, cell.threads)
            rows.append(asdict(cell) | with_floor(cell, result) | {"load": load})
            write_atomically(file, _table(rows).to_csv(index=False).encode())
    except KeyboardInterrupt:
        return _table(rows), True
    return _table(rows), False


def _key(row: dict[Any, Any]) -> tuple[str, ...]:
    """What tells a row's cell from the others, the same before and after a CSV file."""
    return tuple(f"{row[name]:.9g}" if isinstance(row[name], float) else str(row[name]) for name in KEYS)


def _table(rows: list[dict[Any, Any]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=[*KEYS, *RESULTS])


def run(options: argparse.Namespace) -> int:
    """Measure what is missing, print the tables of all that is there, and write table, record and figure."""
    out = require_writable(options.out)
    as_count(options.repeats, "repeats")
    as_positive(options.time_limit, "time_limit")
    about = common.surroundings()
    table, interrupted = measure(cells(options), options, out / "scaling.csv")
    if table.empty:
        raise KeyboardInterrupt
    parts = ["# The native solver's scaling", common.surroundings_line(about, "threads as listed")]
    parts += [section_text(name, table[table.section == name]) for name in SECTIONS if (table.section == name).any()]
    parts += ["Interrupted: run the same command again to go on."] * interrupted
    config = {name: value for name, value in vars(options).items() if name not in ("data_root", "out")}
    record = {"config": config, **about, "interrupted": interrupted}
    return common.publish(out, "scaling", parts, record, "cells", table, picture(table))


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS), help="the sections to run")
    add("--dataset", default="mnist", help="digits, mnist or fashion-mnist")
    add("--data-root", help="folder of the MNIST files; else IMPLICIT_BIAS_DATA, else data")
    texts = {"sizes": "training samples n; 60000 is every image", "units": "hidden units H", "seeds": "of the gates"}
    texts |= {"contexts": "contexts per unit K", "threads": "of the process"}
    for name, text in texts.items():
        add(
            f"--{name}", nargs="+", type=int, default=argparse.SUPPRESS, help=f"{text}; of every section", metavar="INT"
        )
    add("--tol", nargs="+", type=float, default=argparse.SUPPRESS, help="relative gaps asked for; of every section")
    add("--repeats", type=int, default=1, help="solves of a cell; their median counts")
    add("--time-limit", type=float, default=3600.0, help="seconds per solve after which a cell is killed")
    add("--out", default="results/benchmarks", help="folder for the results, and of the cells already finished")
    options = parser.parse_args()
    return guarded(lambda: run(options))


if __name__ == "__main__":
    raise SystemExit(main())
