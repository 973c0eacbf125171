"""Measure the native solver against ECOS, OSQP, Clarabel and SCS, primal and reduced dual, side by side; see --help.

Every run has a process of its own, and the solvers take turns. The time is what a user waits for: translation, solving
and certificate. Solvers return weights and a dual; one certificate evaluates them all, outside the time.
"""

import argparse
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import common
import numpy as np
import pandas as pd
from common import COLOURS, markdown, plain_logarithmic, seconds_text
from matplotlib.figure import Figure
from solvers import SOLVERS
from tqdm import tqdm

from implicit_bias import HyperplaneGates, MarginProblem, certify, save_problem, svm_gln, svm_l2
from implicit_bias._utils.checks import as_count, as_positive, one_of
from implicit_bias._utils.files import require_writable
from implicit_bias.cli.execution import guarded

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


def setting(default: Any, text: str, **how: Any) -> Any:
    """A field of the configuration that is an option of the command line."""
    how = {"action": "store_true"} if default is False else {"type": type(default), "default": default} | how
    return field(default=default, metadata=how | {"help": text})


@dataclass(frozen=True)
class Config:
    """What is measured; raises InputError for anything out of range."""

    dataset: str = setting("mnist", "digits, mnist or fashion-mnist")
    data_root: str | None = setting(None, "folder of the MNIST files; else IMPLICIT_BIAS_DATA, else data", type=str)
    train_size: int = setting(500, "training samples n")
    units: int = setting(10, "hidden units H")
    contexts: int = setting(2, "contexts per unit")
    seed: int = setting(1, "seed of the gates")
    repeats: int = setting(3, "runs of each solver")
    tol: float = setting(1e-6, "relative gap asked for")
    solvers: tuple[str, ...] = setting(tuple(SOLVERS), f"some of {', '.join(SOLVERS)}", type=str, nargs="+")
    gap_curve: bool = setting(False, f"measure at the tolerances {', '.join(f'{t:.0e}' for t in CURVE)}")
    time_limit: float = setting(600.0, "seconds after which a run is killed")
    threads: int = setting(1, "threads of every process")

    def __post_init__(self) -> None:
        common.require_samples(self.dataset, as_count(self.train_size, "train_size"))
        HyperplaneGates(self.units, self.contexts, self.seed)
        for name in ("repeats", "threads"):
            as_count(getattr(self, name), name)
        for name in ("tol", "time_limit"):
            as_positive(getattr(self, name), name)
        for solver in self.solvers:
            one_of(solver, SOLVERS, "solver")

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


def solve_once(problem: MarginProblem, begun: Callable[[], None], solver: str, tol: float) -> dict[str, Any]:
    """One run of a solver, in its own process."""
    chosen = SOLVERS[solver]
    chosen(common.small_problem(one_group=problem.name == "SVM-L2"), 1e-4)
    timed = common.timed_runs(lambda: chosen(problem, tol), begun=begun)
    answer = timed.pop("found")
    certified = certify(problem, answer.weights, answer.dual)
    return timed | {name: getattr(certified, name) for name in ("gap", "objective", "lower_bound")}


def measure(config: Config) -> tuple[pd.DataFrame, bool]:
    """A row for every run, and whether Ctrl-C ended it early; who failed once is not asked again."""
    rows: list[dict[str, Any]] = []
    failed: dict[tuple[str, str], float] = {}
    with tempfile.TemporaryDirectory() as folder:
        X, y, pool = common.load_samples(config.dataset, config.train_size, config.data_root)
        gates = HyperplaneGates(config.units, config.contexts, config.seed).fit(pool)
        for problem, (build, _) in SECTIONS.items():
            save_problem(replace(build(X, y, gates), gates=None), Path(folder, f"{problem}.npz"))
        try:
            for run in (bar := tqdm(config.runs(), unit="run", desc="compare_solvers")):
                name = (run["problem"], run["solver"])
                if run["tol"] <= failed.get(name, 0.0):
                    continue
                bar.set_postfix_str(f"{run['problem']} {run['solver']} {run['tol']:.0e}")
                settings = {"solver": run["solver"], "tol": run["tol"]}
                load = common.load_average()
                path = Path(folder, f"{name[0]}.npz")
                result = common.in_process(solve_once, path, settings, config.time_limit, config.threads)
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
        cells = {
            "seconds": seconds_text(row["seconds"]),
            "fastest – slowest": f"{seconds_text(row['fastest'])} – {seconds_text(row['slowest'])}",
            "× native": f"{row['ratio']:.3g}" if np.isfinite(row["ratio"]) else "–",
            "certified gap": f"{row['gap']:.1e}",
            "objective": f"{row['objective']:.8g}",
            "MiB": f"{row['memory_mib']:.0f}",
        }
        solved = cells if row["runs"] > 0 else dict.fromkeys(cells, "–")
        ends = {"runs": str(row["runs"]), "outcome": row["outcome"]}
        rows.append({"solver": row["solver"], "tol": f"{row['tol']:.0e}"} | solved | ends)
    return markdown(rows)


def picture(summary: pd.DataFrame, title: str) -> Figure:
    """Certified gap against seconds, a panel a problem, a line a solver and a point a tolerance."""
    solved = summary[summary.runs > 0]
    problems = list(dict.fromkeys(solved.problem)) or ["SVM-GLN"]
    figure = Figure(figsize=(5.5 * len(problems), 4.2), layout="constrained")
    for ax, problem in zip(np.ravel(figure.subplots(1, len(problems))), problems, strict=True):
        for colour, solver in zip(COLOURS, SOLVERS, strict=True):
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
    about = common.surroundings()
    table, interrupted = measure(config)
    if table.empty:
        raise KeyboardInterrupt
    summary = medians(table)
    title = f"{config.dataset}, n = {config.train_size}, H = {config.units}, K = {config.contexts}, seed {config.seed}"
    parts = [f"# Solvers on {title}", common.surroundings_line(about, f"{config.threads} thread(s) each")]
    parts += [f"## {problem}\n\n{readable(summary, problem)}" for problem in dict.fromkeys(summary.problem)]
    parts += [NOTE, "Interrupted: not every run was made."][: 1 + interrupted]
    record = {"config": asdict(replace(config, data_root=None)), **about, "interrupted": interrupted}
    return common.publish(out, "compare_solvers", parts, record, "runs", table, picture(summary, title))


def main() -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    for option in fields(Config):
        parser.add_argument(f"--{option.name.replace('_', '-')}", **option.metadata)
    parser.add_argument("--out", default="results/benchmarks", help="folder for the results")
    options = vars(parser.parse_args())
    out = Path(options.pop("out"))
    return guarded(lambda: run(Config(**options | {"solvers": tuple(options["solvers"])}), out))


if __name__ == "__main__":
    raise SystemExit(main())
