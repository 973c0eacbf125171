"""Solve a margin problem on your own samples (CSV or NPZ) and save the certified solution; see --help."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from implicit_bias import (
    ConstantGate,
    Frobenius,
    GatedFeatures,
    GroupLasso,
    HyperplaneGates,
    InputError,
    MarginProblem,
    RandomHalfSpaces,
    Status,
    read_samples,
    save_solution,
    solve,
    solver_names,
    svm_gln,
    svm_l2,
    svm_rc,
    svm_shallow,
)
from implicit_bias.datasets import Samples, with_constant
from implicit_bias.experiments.command import guarded
from implicit_bias.files import require_writable

FORMULATIONS = ("svm-gln", "svm-l2", "svm-rc", "svm-shallow", "linear")


def build(samples: Samples, X: np.ndarray, options: argparse.Namespace) -> MarginProblem:
    """The margin problem that the options ask for, with the file's own gates if it has any."""
    name, C = options.formulation, options.C
    if samples.gate_values is not None:
        if name not in ("svm-gln", "svm-shallow"):
            raise InputError(f"{name} makes its own gates, but the file has some; use svm-gln or svm-shallow")
        k = samples.gate_values.shape[1]
        groups = np.arange(k) if samples.groups is None else samples.groups
        norm = GroupLasso(groups) if name == "svm-gln" else Frobenius()
        return MarginProblem(GatedFeatures(X, samples.gate_values), samples.y, norm, C, name=name)
    if name == "linear":
        return svm_shallow(X, samples.y, ConstantGate(), C)
    if name == "svm-rc":
        return svm_rc(X, samples.y, RandomHalfSpaces(options.units, options.seed), C)
    if name == "svm-shallow":
        return svm_shallow(X, samples.y, HyperplaneGates(1, options.contexts, options.seed), C)
    gates = HyperplaneGates(options.units, options.contexts, options.seed)
    return (svm_gln if name == "svm-gln" else svm_l2)(X, samples.y, gates, C)


def run(options: argparse.Namespace) -> int:
    samples = read_samples(options.file, options.label)
    out = Path(options.out or Path(options.file).with_suffix("").name + "-solution.npz")
    if out.resolve() == Path(options.file).resolve() or out.is_dir():
        raise InputError(f"--out {out} is the input or a folder; name another file")
    require_writable(out.parent)
    X = samples.X if options.no_constant else with_constant(samples.X)
    problem = build(samples, X, options)
    print(f"{problem.features.n} samples, {problem.features.d} inputs, {problem.features.k} gates, {problem.norm!r}")
    print(f"class −1 is {samples.classes[0]!r}, class +1 is {samples.classes[1]!r}")
    solution = solve(problem, options.solver, tol=options.tol, verbose=options.verbose)
    print(solution)
    gates = {name: getattr(problem.gates, name) for name in ("directions_", "cutoffs_") if hasattr(problem.gates, name)}
    print(f"wrote {save_solution(solution, out, classes=np.array(samples.classes), **gates)}")
    return 0 if solution.status in (Status.OPTIMAL, Status.NOT_SEPARABLE) else 1


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="CSV: the label column (default: the last), columns named gate_… as gate values, all others inputs. "
        "NPZ: arrays X (n, p), y (n,), optionally gates (n, k) and groups (k,). Exit code 0: OPTIMAL or NOT_SEPARABLE, "
        "1: worse than asked, 2: bad input.",
    )
    add = parser.add_argument
    add("file", help="the samples, .csv or .npz")
    add("--label", help="the label's column of a CSV file")
    add("--formulation", default="svm-gln", choices=FORMULATIONS)
    add("--units", type=int, default=10, help="hidden units H (default 10)")
    add("--contexts", type=int, default=2, help="contexts a unit (default 2)")
    add("--seed", type=int, default=1, help="seed of the gates (default 1)")
    add("--C", type=float, default=np.inf, help="price of slack; default inf, the hard margin")
    add("--no-constant", action="store_true", help="do not append the constant input 1")
    add("--solver", help=f"one of {', '.join(solver_names())}")
    add("--tol", type=float, default=1e-6, help="relative gap asked for (default 1e-6)")
    add("--verbose", action="store_true", help="show the solver's log")
    add("--out", help="where to save the solution (npz); default NAME-solution.npz in this folder")
    options = parser.parse_args()
    return guarded(lambda: run(options))


if __name__ == "__main__":
    raise SystemExit(main())
