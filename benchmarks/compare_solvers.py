"""Measure the native solver against ECOS, OSQP, Clarabel and SCS, primal and reduced dual, side by side; see --help.

Every run has a process of its own, and the solvers take turns. The time is what a user waits for: translation, solving
and certificate. Solvers return weights and a dual; one certificate evaluates them all, outside the time. Finished runs
are kept in --store: the same command goes on where it was stopped.
"""

import argparse
import contextlib
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import common
import cvxpy as cp
import numpy as np
import pandas as pd
import scipy.linalg
import scipy.sparse as sp
from common import markdown, seconds_text
from tqdm import tqdm

import implicit_bias as ib
from implicit_bias import Certificate, GatedFeatures, GroupLasso, MarginProblem, certify
from implicit_bias._utils.checks import Array, InputError
from implicit_bias.solvers import Options
from implicit_bias.solvers.cvxpy_solvers import CVXPY_SOLVERS


def reduced_dual(problem: MarginProblem, solver: str, tol: float) -> Certificate:
    """The dual of SVM-GLN in CVXPY: as many unknowns as samples, a cone a group; zeros if CVXPY returns nothing.

        maximise 1ᵀλ   subject to   λ ≥ 0,   ‖A_h λ‖ ≤ 1,   A_hᵀA_h = K_h = (G_hG_hᵀ) ∘ (XXᵀ) ∘ (yyᵀ)

    A_h = Q_hᵀΦ_hᵀ diag(y) is triangular, a block a gate. With u_h the multiplier of cone h the weights are
    ζ_h = Q_h u_h: at the optimum η_h Φ_hᵀ(λ∘y) with η_h = ‖u_h‖, but much more exact than that before it.
    """
    norm = problem.norm
    if not isinstance(norm, GroupLasso) or not isinstance(problem.features, GatedFeatures) or not problem.hard:
        raise InputError("the reduced dual is written for a group lasso of gated features with a hard margin")
    reduced, V = problem.features.reduced()
    features = reduced.scaled(1 / reduced.scale())
    lam = cp.Variable(features.n, nonneg=True)
    gates, groups = range(features.k), norm.index
    bases, factors = zip(*(factorised(features, problem.y, j) for j in gates), strict=True)
    stacks = [sp.vstack([factors[j] for j in np.flatnonzero(groups == h)]) for h in range(len(norm.labels))]
    cones = [cp.SOC(cp.Constant(c), A @ lam) for c, A in zip(norm.weights, stacks, strict=True)]
    program = cp.Problem(cp.Maximize(cp.sum(lam)), cones)
    with warnings.catch_warnings(), contextlib.suppress(cp.SolverError):
        # CVXPY warns of inaccurate answers; the certificate says so with a number.
        warnings.simplefilter("ignore")
        program.solve(solver=solver, canon_backend="SCIPY", **CVXPY_SOLVERS[solver].translated(Options(tol)))
    if lam.value is None or any(cone.dual_value is None for cone in cones):
        return certify(problem, np.zeros((features.k, len(V))), np.zeros(features.n))
    weights = np.zeros((features.k, features.d))
    for h, cone in enumerate(cones):
        own = np.flatnonzero(groups == h)
        parts = np.split(-np.ravel(cone.dual_value[1]), np.cumsum([bases[j].shape[1] for j in own])[:-1])
        for j, part in zip(own, parts, strict=True):
            weights[j] = bases[j] @ part
    return certify(problem, weights @ V.T, lam.value)


def factorised(features: GatedFeatures, y: Array, gate: int) -> tuple[Array, sp.csr_array]:
    """Return Q (d, p) with orthonormal columns and A (p, n) with QA = Φ_jᵀ diag(y), triangular in the open samples."""
    rows = np.flatnonzero(features.gate_values[:, gate])
    signed = features.X[rows] * (y[rows] * features.gate_values[rows, gate])[:, None]
    Q, R = scipy.linalg.qr(signed.T, mode="economic", overwrite_a=True, check_finite=False)
    triangle = sp.coo_array(R)
    position = (triangle.row, rows[triangle.col])
    return Q, sp.csr_array((triangle.data, position), shape=(len(R), features.n))


#: The package's own solvers, as users call them, and the reduced dual.
SOLVERS: dict[str, Callable[..., Certificate]] = {
    **{name: partial(ib.solve, solver=name) for name in ("NATIVE", "CLARABEL", "ECOS", "SCS")},
    **{f"{name}-DUAL": partial(reduced_dual, solver=name) for name in ("CLARABEL", "SCS")},
    "OSQP": partial(ib.solve, solver="OSQP"),
}
#: Who solves which problem. OSQP takes quadratic norms only.
SECTIONS: dict[str, tuple[Callable[..., MarginProblem], tuple[str, ...]]] = {
    "SVM-GLN": (ib.svm_gln, ("NATIVE", "CLARABEL", "ECOS", "SCS", "CLARABEL-DUAL", "SCS-DUAL")),
    "SVM-L2": (ib.svm_l2, ("NATIVE", "OSQP", "CLARABEL")),
}
NOTE = (
    "Medians over the runs; the worst gap. MiB: the peak of memory above what the process held before. "
    "As in `solve`, Clarabel and ECOS are asked for 1e-8 or better, SCS and OSQP for a tenth of the tolerance."
)
#: Options that all runs of a table have in common.
SHARED = ("dataset", "train_size", "units", "contexts", "seed", "threads")
KEYS = ["problem", "solver", "tol"]
COLUMNS = [*KEYS, "repeat", "outcome", "seconds", "gap", "objective", "memory_mib"]


def runs(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the settings (problem, solver, tol, repeat) of every run; solvers alternate within each repeat."""
    asked = [
        (problem, solver)
        for problem, (_, names) in SECTIONS.items()
        for solver in names
        if solver in options.solvers and (problem == "SVM-GLN" or "OSQP" in options.solvers)
    ]
    turns = product(range(1, options.repeats + 1), asked)
    return [{"problem": p, "solver": solver, "tol": options.tol, "repeat": repeat} for repeat, (p, solver) in turns]


def solve_once(problem: MarginProblem, begun: Callable[[], None], solver: str, tol: float) -> dict[str, Any]:
    """Solve once, after a small problem that loads libraries; return times and our certificate of the answer."""
    chosen = SOLVERS[solver]
    chosen(common.small_problem(one_group=problem.name == "SVM-L2"), tol=1e-4)
    timed = common.timed_runs(lambda: chosen(problem, tol=tol), begun=begun)
    answer = timed.pop("found")
    certified = certify(problem, answer.weights, answer.dual)
    return timed | {name: getattr(certified, name) for name in ("gap", "objective", "lower_bound")}


def measure(options: argparse.Namespace, store: common.Store, shared: dict[str, Any]) -> None:
    """Store a row for every run that is missing, with the `shared` entries; solvers that failed are not run again."""
    failed: set[tuple[str, str]] = set()
    with tempfile.TemporaryDirectory() as folder:
        X, y, pool = common.load_samples(options.dataset, options.train_size, options.data_root)
        gates = ib.HyperplaneGates(options.units, options.contexts, options.seed).fit(pool)
        for problem, (build, _) in SECTIONS.items():
            ib.save_problem(replace(build(X, y, gates), gates=None), Path(folder, f"{problem}.npz"))
        for run in (bar := tqdm(runs(options), unit="run", desc="compare_solvers")):
            if (run["problem"], run["solver"]) in failed or store.find(shared | run | {"outcome": "ok"}):
                continue
            bar.set_postfix_str(f"{run['problem']} {run['solver']} {run['tol']:.0e}")
            settings, load = {"solver": run["solver"], "tol": run["tol"]}, common.load_average()
            path = Path(folder, f"{run['problem']}.npz")
            result = common.in_process(solve_once, path, settings, options.time_limit, options.threads)
            store.add(shared | run | {"load": load} | result)
            if result["outcome"] != "ok":
                failed.add((run["problem"], run["solver"]))


def medians(table: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each problem, solver and tolerance: seconds, largest gap, medians, and the last outcome."""
    seconds = {"runs": "count", "seconds": "median", "fastest": "min", "slowest": "max"}
    others = {"gap": "max", "objective": "median", "memory_mib": "median", "outcome": "last"}
    columns = {name: ("seconds", of) for name, of in seconds.items()} | {
        name: (name, of) for name, of in others.items()
    }
    result: pd.DataFrame = table.groupby(KEYS, sort=False).agg(**columns).reset_index()
    native = result[result.solver == "NATIVE"].set_index(["problem", "tol"]).seconds
    own = pd.MultiIndex.from_frame(result[["problem", "tol"]])
    result["ratio"] = result.seconds / native.reindex(own).to_numpy()
    return result


def readable(summary: pd.DataFrame, problem: str) -> str:
    """Return the rows of `medians` for a problem as a Markdown table."""
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


def report(options: argparse.Namespace) -> Iterator[str]:
    """Measure what is missing, and yield the tables of all stored runs with the options."""
    store, shared = common.Store(options.store), {name: getattr(options, name) for name in SHARED}
    try:
        measure(options, store, shared)
    except KeyboardInterrupt:
        yield "Interrupted: run the same command again to go on."
    table = pd.DataFrame([row for row in store.rows if shared.items() <= row.items()], columns=COLUMNS)
    summary = medians(table.drop_duplicates([*KEYS, "repeat"], keep="last"))
    yield f"# Solvers: {', '.join(f'{name} {value}' for name, value in shared.items())}"
    yield from (f"## {problem}\n\n{readable(summary, problem)}" for problem in dict.fromkeys(summary.problem))
    yield NOTE


if __name__ == "__main__":
    common.run(
        __doc__,
        report,
        "threads as listed",
        dataset=("mnist", "digits, mnist or fashion-mnist"),
        train_size=(500, "training samples n"),
        units=(10, "hidden units H"),
        contexts=(2, "contexts per unit"),
        seed=(1, "seed of the gates"),
        repeats=(3, "runs of each solver"),
        tol=(1e-6, "relative gap asked for"),
        solvers=(list(SOLVERS), "solvers", SOLVERS),
        time_limit=(600.0, "seconds after which a run is killed"),
        threads=(1, "threads of every process"),
        store=("results/solvers.jsonl", "finished runs"),
    )
