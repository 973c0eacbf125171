"""Measure the native solver against ECOS, OSQP, Clarabel and SCS, primal and reduced dual, side by side; see --help.

Every run has a process of its own, and the solvers take turns. The time is what a user waits for: translation, solving
and certificate. Contestants hand in weights and a dual; one judge scores them all, outside the time.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import (
    COLOURS,
    drawn,
    in_process,
    load_average,
    load_samples,
    markdown,
    memory_baseline,
    memory_peak,
    plain_logarithmic,
    require_samples,
    seconds_text,
    small_problem,
    store_problem,
    surroundings,
    surroundings_line,
)
from contestants import CONTESTANTS
from matplotlib.figure import Figure
from tqdm import tqdm

from implicit_bias import HyperplaneGates, MarginProblem, certify, svm_gln, svm_l2
from implicit_bias.command_line.execution import guarded
from implicit_bias.ground.checks import as_count, as_positive, one_of
from implicit_bias.ground.files import require_writable, write_atomically

#: Who solves which problem. OSQP takes quadratic norms only.
SECTIONS: dict[str, tuple[Callable[..., MarginProblem], tuple[str, ...]]] = {
    "SVM-GLN": (svm_gln, ("NATIVE", "CLARABEL", "ECOS", "SCS", "CLARABEL-DUAL", "SCS-DUAL")),
    "SVM-L2": (svm_l2, ("NATIVE", "OSQP", "CLARABEL")),
}
CURVE = (1e-2, 1e-4, 1e-6, 1e-8)
NOTE = (
    "Medians over the runs; the worst gap. MiB: the peak of memory above what the process held before. "
    "As in `solve`, Clarabel and ECOS are asked for 1e-8 or better, SCS and OSQP for a tenth of the tolerance."
)
KEYS = ["problem", "solver", "tol"]


@dataclass(frozen=True)
class Config:
    """What is measured; raises InputError for anything out of range."""

    dataset: str = "mnist"
    data_root: str | None = None
    train_size: int = 500
    units: int = 10
    contexts: int = 2
    seed: int = 1
    repeats: int = 3
    tol: float = 1e-6
    solvers: tuple[str, ...] = tuple(CONTESTANTS)
    gap_curve: bool = False
    time_limit: float = 600.0
    threads: int = 1

    def __post_init__(self) -> None:
        require_samples(self.dataset, as_count(self.train_size, "train_size"))
        HyperplaneGates(self.units, self.contexts, self.seed)
        for name in ("repeats", "threads"):
            as_count(getattr(self, name), name)
        for name in ("tol", "time_limit"):
            as_positive(getattr(self, name), name)
        for solver in self.solvers:
            one_of(solver, CONTESTANTS, "solver")

    def runs(self) -> list[dict[str, Any]]:
        """Every run: a turn of all solvers after another."""
        tolerances = sorted({self.tol, *(CURVE if self.gap_curve else ())}, reverse=True)
        sections = {
            problem: [solver for solver in names if solver in self.solvers]
            for problem, (_, names) in SECTIONS.items()
            if problem == "SVM-GLN" or "OSQP" in self.solvers
        }
        return [
            {"problem": problem, "solver": solver, "tol": tol, "repeat": repeat}
            for repeat in range(1, self.repeats + 1)
            for tol in tolerances
            for problem, solvers in sections.items()
            for solver in solvers
        ]


def contend(problem: MarginProblem, begun: Callable[[], None], solver: str, tol: float) -> dict[str, Any]:
    """One run of a contestant, in its own process."""
    contestant = CONTESTANTS[solver]
    contestant(small_problem(one_group=problem.name == "SVM-L2"), 1e-4)
    before = memory_baseline()
    begun()
    begin = time.perf_counter()
    answer = contestant(problem, tol)
    seconds = time.perf_counter() - begin
    memory = memory_peak() - before
    judged = certify(problem, answer.weights, answer.dual)
    return {
        "seconds": seconds,
        "gap": judged.gap,
        "objective": judged.objective,
        "lower_bound": judged.lower_bound,
        "memory_mib": memory,
    }


def measure(config: Config) -> tuple[pd.DataFrame, bool]:
    """A row for every run, and whether Ctrl-C ended it early; who failed once is not asked again."""
    rows: list[dict[str, Any]] = []
    failed: dict[tuple[str, str], float] = {}
    with tempfile.TemporaryDirectory() as folder:
        X, y, pool = load_samples(config.dataset, config.train_size, config.data_root)
        gates = HyperplaneGates(config.units, config.contexts, config.seed).fit(pool)
        for problem, (build, _) in SECTIONS.items():
            store_problem(build(X, y, gates), Path(folder, problem))
        try:
            for run in (bar := tqdm(config.runs(), unit="run", desc="compare_solvers")):
                name = (run["problem"], run["solver"])
                if run["tol"] <= failed.get(name, 0.0):
                    continue
                bar.set_postfix_str(f"{run['problem']} {run['solver']} {run['tol']:.0e}")
                settings = {"solver": run["solver"], "tol": run["tol"]}
                load = load_average()
                result = in_process(contend, Path(folder, name[0]), settings, config.time_limit, config.threads)
                rows.append(run | {"load": load} | result)
                if result["outcome"] != "ok":
                    failed[name] = run["tol"]
        except KeyboardInterrupt:
            return _table(rows), True
    return _table(rows), False


def _table(rows: list[dict[str, Any]]) -> pd.DataFrame:
    columns = [*KEYS, "repeat", "outcome", "seconds", "gap", "objective", "lower_bound", "memory_mib", "load"]
    return pd.DataFrame(rows, columns=columns)


def medians(table: pd.DataFrame) -> pd.DataFrame:
    """A row for each problem, solver and tolerance: median time and memory, the worst gap, and what went wrong."""
    grouped = table.groupby(KEYS, sort=False)
    columns = {
        "runs": ("seconds", "count"),
        "seconds": ("seconds", "median"),
        "fastest": ("seconds", "min"),
        "slowest": ("seconds", "max"),
        "gap": ("gap", "max"),
        "objective": ("objective", "median"),
        "memory_mib": ("memory_mib", "median"),
        "outcome": ("outcome", "last"),
    }
    result: pd.DataFrame = grouped.agg(**columns).reset_index()
    native = result[result.solver == "NATIVE"].set_index(["problem", "tol"]).seconds
    own = pd.MultiIndex.from_frame(result[["problem", "tol"]])
    result["ratio"] = result.seconds / native.reindex(own).to_numpy()
    return result


def readable(summary: pd.DataFrame, problem: str) -> str:
    """One problem's medians as a Markdown table."""
    rows = []
    for row in summary[summary.problem == problem].to_dict("records"):
        solved = row["runs"] > 0
        rows.append(
            {
                "solver": row["solver"],
                "tol": f"{row['tol']:.0e}",
                "seconds": seconds_text(row["seconds"]) if solved else "–",
                "fastest – slowest": f"{seconds_text(row['fastest'])} – {seconds_text(row['slowest'])}"
                if solved
                else "–",
                "× native": f"{row['ratio']:.3g}" if np.isfinite(row["ratio"]) else "–",
                "certified gap": f"{row['gap']:.1e}" if solved else "–",
                "objective": f"{row['objective']:.8g}" if solved else "–",
                "MiB": f"{row['memory_mib']:.0f}" if solved else "–",
                "runs": str(row["runs"]),
                "outcome": row["outcome"],
            }
        )
    return markdown(rows)


def picture(summary: pd.DataFrame, title: str) -> Figure:
    """Certified gap against seconds, a panel a problem, a line a solver and a point a tolerance."""
    solved = summary[summary.runs > 0]
    problems = list(dict.fromkeys(solved.problem)) or ["SVM-GLN"]
    figure = Figure(figsize=(5.5 * len(problems), 4.2), layout="constrained")
    for ax, problem in zip(np.ravel(figure.subplots(1, len(problems))), problems, strict=True):
        for colour, solver in zip(COLOURS, CONTESTANTS, strict=True):
            rows = solved[(solved.problem == problem) & (solved.solver == solver)]
            if len(rows):
                gaps = rows.gap.clip(1e-16, 1.0)
                ax.loglog(rows.seconds, gaps, marker="o", markersize=4, linewidth=1.2, color=colour, label=solver)
        ax.set(title=problem, xlabel="seconds", ylabel="certified relative gap")
        plain_logarithmic(ax.xaxis)
        ax.grid(color="0.9")
    handles = {label: h for ax in figure.axes for h, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=7, frameon=False, fontsize=8)
    figure.suptitle(title, fontsize=10)
    return figure


def run(config: Config, out: Path) -> int:
    """Measure, print the tables, and write table, record and figure into `out`."""
    require_writable(out)
    about = surroundings()
    table, interrupted = measure(config)
    if table.empty:
        raise KeyboardInterrupt
    summary = medians(table)
    title = f"{config.dataset}, n = {config.train_size}, H = {config.units}, C = {config.contexts}, seed {config.seed}"
    parts = [f"# Solvers on {title}", surroundings_line(about, f"{config.threads} thread(s) each")]
    parts += [f"## {problem}\n\n{readable(summary, problem)}" for problem in dict.fromkeys(summary.problem)]
    parts.append(NOTE)
    if interrupted:
        parts.append("Interrupted: not every run was made.")
    text = "\n\n".join(parts) + "\n"
    print(text)
    record = {"config": asdict(replace(config, data_root=None)), **about, "interrupted": interrupted}
    record["runs"] = json.loads(table.to_json(orient="records", double_precision=15))
    contents = {
        "md": text.encode(),
        "csv": table.to_csv(index=False).encode(),
        "json": json.dumps(record, indent=2).encode(),
        "png": drawn(picture(summary, title)),
    }
    for kind, content in contents.items():
        print(f"wrote {write_atomically(out / f'compare_solvers.{kind}', content)}")
    return 130 if interrupted else 0


def main() -> int:
    """Parse the command line and run."""
    defaults = Config()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--dataset", default=defaults.dataset, help="digits, mnist or fashion-mnist")
    add("--data-root", help="folder of the MNIST files; else IMPLICIT_BIAS_DATA, else data")
    add("--train-size", type=int, default=defaults.train_size, help="training samples n")
    add("--units", type=int, default=defaults.units, help="hidden units H")
    add("--contexts", type=int, default=defaults.contexts, help="contexts a unit")
    add("--seed", type=int, default=defaults.seed, help="seed of the gates")
    add("--repeats", type=int, default=defaults.repeats, help="runs of each solver")
    add("--tol", type=float, default=defaults.tol, help="relative gap asked for")
    add("--solvers", nargs="+", default=list(defaults.solvers), help=f"some of {', '.join(CONTESTANTS)}")
    add("--gap-curve", action="store_true", help=f"measure at the tolerances {', '.join(f'{t:.0e}' for t in CURVE)}")
    add("--time-limit", type=float, default=defaults.time_limit, help="seconds after which a run is killed")
    add("--threads", type=int, default=defaults.threads, help="threads of every process")
    add("--out", default="results/benchmarks", help="folder for the results")
    options = vars(parser.parse_args())
    out = Path(options.pop("out"))
    return guarded(lambda: run(Config(**options | {"solvers": tuple(options["solvers"])}), out))


if __name__ == "__main__":
    raise SystemExit(main())
