"""Measure how the native solver scales in n, H and K, up to all 60 000 images, against its floor; see --help.

Every cell has a process of its own and is written down as soon as it is finished: run the same command again to go on
after an interruption. The floor is the time of the steps' large products at the measured rate of matrix products; what
a round needs once (XXᵀ, the margins of all samples) and the sorting of the samples are not in it.
"""

import argparse
import itertools
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import common
import numpy as np
import pandas as pd
from common import markdown, seconds_text
from tqdm import tqdm

import implicit_bias as ib
from implicit_bias import MarginProblem, solve
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
#: What each section is called.
TITLES = {"grid": "Grid of n, H and K", "large": "Large", "threads": "Threads", "norms": "Other norms"}
#: A λ_i above this share of the largest makes a support vector.
SUPPORT = 1e-5


#: What a cell says: a problem, its tolerance, and the number of threads.
KEYS = ("section", "dataset", "problem", "n", "units", "contexts", "seed", "tol", "threads")
Cell = dict[str, Any]
RESULTS = [
    *("outcome", "status", "gap", "objective", "iterations", "seconds", "fastest", "slowest", "repeats"),
    *("working_set", "support_vectors", "memory_mib", "inputs", "gemm_gflops", "floor_gflop", "floor_seconds", "load"),
]
#: What the runs of one row have in common, and what it is called.
SIZES = {"problem": "problem", "dataset": "data", "n": "n", "units": "H", "contexts": "K", "tol": "tol"}
SIZES |= {"threads": "threads"}


def cells(options: argparse.Namespace) -> list[Cell]:
    """Return the cells of the chosen sections, in which given options replace the values of each section."""
    order = ("problems", "sizes", "units", "contexts", "seeds", "tol", "threads")
    given = {key: getattr(options, key) for key in order if getattr(options, key, None)}
    sections = {name: {"threads": [1]} | SECTIONS[name] | given for name in options.only}
    return [
        dict(zip(KEYS, (name, options.dataset, *each), strict=True))
        for name, of in sections.items()
        for each in itertools.product(*(of[key] for key in order))
    ]


def build(cell: Cell, root: str | None) -> MarginProblem:
    """Return the margin problem of a cell."""
    dataset, problem, n, units, contexts, seed = (cell[key] for key in KEYS[1:7])
    X, y, pool = common.load_samples(dataset, n, root)
    if problem in ("SVM-LC", "SVM-HL"):
        network = _trained(dataset, n, units, seed, root)
        return (ib.svm_lc if problem == "SVM-LC" else ib.svm_hl)(X, y, network)
    gates = ib.HyperplaneGates(units, contexts, seed).fit(pool)
    return (ib.svm_gln if problem == "SVM-GLN" else ib.svm_l2)(X, y, gates)


@lru_cache
def _trained(dataset: str, n: int, units: int, seed: int, root: str | None) -> ib.ReLUNetwork:
    """Return the ReLU network that gradient descent trains for SVM-LC and SVM-HL; networks are cached."""
    X, y, _ = common.load_samples(dataset, n, root)
    network = ib.ReLUNetwork(X.shape[1], units, seed=seed)
    ib.train(network, X, y, ib.SGD(), seed=seed)
    return network


def solve_repeatedly(problem: MarginProblem, begun: Callable[[], None], tol: float, repeats: int) -> dict[str, Any]:
    """Solve a problem `repeats` times, after a small one; return `timed_runs` and values of the last solution."""
    solve(common.small_problem(), "NATIVE")
    seen: list[Progress] = []

    def run() -> ib.Solution:
        seen.clear()
        return solve(problem, "NATIVE", tol=tol, callback=seen.append)

    timed = common.timed_runs(run, repeats, begun)
    solution = timed.pop("found")
    found = {name: getattr(solution, name) for name in ("gap", "objective", "iterations")} | timed
    return found | {
        "status": solution.status.name,
        "repeats": repeats,
        "working_set": seen[-1].working_set if seen else 0,
        "support_vectors": int(np.sum(solution.dual > SUPPORT * solution.dual.max())),
        "inputs": problem.features.d,
        "gemm_gflops": common.gemm_rate() / 1e9,
        "steps": step_sizes(seen),
    }


def step_sizes(seen: Sequence[Progress]) -> list[int]:
    """Return the working-set size of every interior-point step, from the progress seen at every iterate.

    With working sets, the iterates before the first set belong to screening.
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
    """Return the result without `steps`, for SVM-GLN with the Gflop and seconds that its steps take at least."""
    sizes = result.pop("steps", [])
    if cell["problem"] == "SVM-GLN" and sizes:
        flops = sum(step_flops(m, result["inputs"], cell["units"], cell["contexts"]) for m in sizes)
        result["floor_gflop"] = flops / 1e9
        result["floor_seconds"] = result["floor_gflop"] / result["gemm_gflops"]
    return result


def measure(options: argparse.Namespace, store: common.Store) -> None:
    """Run the cells without a stored result of outcome "ok", and store each."""
    for cell in (bar := tqdm(cells(options), unit="cell", desc="scaling")):
        if store.find(cell | {"outcome": "ok"}):
            continue
        bar.set_postfix(cell)
        load = common.load_average()
        with tempfile.TemporaryDirectory() as folder:
            path = ib.save_problem(replace(build(cell, options.data_root), gates=None), Path(folder, "problem.npz"))
            settings, limit = {"tol": cell["tol"], "repeats": options.repeats}, options.time_limit * options.repeats
            result = common.in_process(solve_repeatedly, path, settings, limit, cell["threads"])
        store.add(cell | with_floor(cell, result) | {"load": load})


def section_text(name: str, table: pd.DataFrame) -> str:
    """Return one section as Markdown: heading, a row for all seeds of each size, and a summary."""
    solved = table[table.outcome == "ok"]
    rows = [_row(runs) for _, runs in solved.groupby(list(SIZES), sort=True)]
    parts = [f"## {TITLES[name]}", markdown(rows), _summary(table, solved)]
    bad = table[table.outcome != "ok"]
    parts += [f"- {row.problem} n = {row.n}, H = {row.units}: {row.outcome}" for row in bad.itertuples()]
    return "\n\n".join(parts)


def _summary(table: pd.DataFrame, solved: pd.DataFrame) -> str:
    """Return a sentence on how many cells reached the tolerance or are proved not separable."""
    reached = int((solved.gap <= solved.tol).sum())
    proved = int(solved.status.str.startswith("NOT_SEPARABLE").sum())
    others = f", {proved} were proved not separable" if proved else ""
    most = f"; at most {solved.iterations.max():.0f} iterations" if len(solved) else ""
    return f"**{reached} of {len(table)} reached the certified gap asked for{others}{most}.**"


def _range(values: pd.Series) -> str:
    """Return the range of whole numbers as text: '7' or '7 – 9'."""
    least, most = format(values.min(), ".0f"), format(values.max(), ".0f")
    return least if least == most else f"{least} – {most}"


def _row(runs: pd.DataFrame) -> dict[str, str]:
    """Return the row of all seeds of a size as texts."""
    first, known = runs.iloc[0], runs.dropna(subset=["floor_seconds"])
    floor = dict.fromkeys(("Gflop/s", "floor", "time / floor"), "–")
    if len(known):
        floor = {
            "Gflop/s": f"{known.gemm_gflops.median():.0f}",
            "floor": seconds_text(float(known.floor_seconds.median())),
            "time / floor": f"{(known.seconds / known.floor_seconds).median():.2f}",
        }
    return {head: f"{first[name]:.0e}" if name == "tol" else str(first[name]) for name, head in SIZES.items()} | {
        "optimal": f"{int((runs.status == 'OPTIMAL').sum())} of {len(runs)}",
        "worst gap": f"{runs.gap.max():.1e}",
        "iterations": _range(runs.iterations),
        "seconds": seconds_text(float(runs.seconds.median())),
        "working set": _range(runs.working_set),
        "support vectors": _range(runs.support_vectors),
        "MiB": f"{runs.memory_mib.max():.0f}",
        **floor,
    }


def report(options: argparse.Namespace) -> Iterator[str]:
    """Measure what is missing, and yield the section texts of all that is stored."""
    store = common.Store(options.store)
    try:
        measure(options, store)
    except KeyboardInterrupt:
        yield "Interrupted: run the same command again to go on."
    table = pd.DataFrame(store.rows, columns=[*KEYS, *RESULTS]).drop_duplicates(KEYS, keep="last")
    yield from (section_text(name, table[table.section == name]) for name in SECTIONS if name in set(table.section))


def several(kind: type, text: str) -> dict[str, Any]:
    """Return an option whose values replace those of every section."""
    return {"nargs": "+", "type": kind, "help": f"{text}; of every section"}


if __name__ == "__main__":
    common.run(
        __doc__,
        report,
        "threads as listed",
        only=(list(SECTIONS), "the sections to run", SECTIONS),
        dataset=("mnist", "digits, mnist or fashion-mnist"),
        sizes=several(int, "training samples n; 60000 is every image"),
        units=several(int, "hidden units H"),
        seeds=several(int, "of the gates"),
        contexts=several(int, "contexts per unit K"),
        threads=several(int, "of the process"),
        tol=several(float, "relative gaps asked for"),
        repeats=(1, "solves of a cell; their median counts"),
        time_limit=(3600.0, "seconds per solve after which a cell is killed"),
        store=("results/scaling.jsonl", "finished cells"),
    )
