"""`implicit-bias solve`: a margin problem on a user's own samples, solved and certified."""

from __future__ import annotations

import warnings
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from implicit_bias.command_line.execution import Outcome
from implicit_bias.command_line.parsers import EXIT_CODES, Parser, add_json
from implicit_bias.datasets.tables import Samples, read_samples
from implicit_bias.datasets.task import with_constant
from implicit_bias.features import GatedFeatures
from implicit_bias.gates import ConstantGate, HyperplaneGates, RandomHalfSpaces
from implicit_bias.ground.checks import Array, InputError
from implicit_bias.ground.files import require_writable
from implicit_bias.margin.formulations import svm_gln, svm_l2, svm_rc, svm_shallow
from implicit_bias.margin.norms import Frobenius, GroupLasso
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solvers import Solution, Status, solve, solver_names
from implicit_bias.saving.solutions import save_solution

FORMULATIONS = ("svm-gln", "svm-l2", "svm-rc", "svm-shallow", "linear")
#: The exit code of every status.
CODES = {Status.OPTIMAL: 0, Status.NOT_SEPARABLE: 0, Status.INTERRUPTED: 130}
TEXT = """\
Solve a margin problem on your own samples and save the certified solution.

CSV: the label column (the last, unless --label names it), columns named gate_… as gate values, all others inputs.
NPZ: arrays X (n, p) and y (n,), optionally gates (n, k), groups (k,) and sample_weight (n,)."""


def declare(parser: Parser, command: str) -> None:
    """Declare the options of `solve`."""
    parser.explain(
        TEXT,
        [
            ("samples.csv", "SVM-GLN with ten units of two contexts"),
            ("samples.csv --formulation linear --C 1", "the linear SVM with soft margin"),
            ("samples.csv --C 1 --weights importance", "slack of some samples costs more"),
            ("samples.npz --max-seconds 60 --json", "the best answer of a minute, as JSON"),
        ],
        {
            0: "OPTIMAL, or proved NOT_SEPARABLE",
            1: "an answer worse than asked, saved with its certified gap",
            2: EXIT_CODES[2],
            130: "interrupted; the best answer so far is saved",
        },
    )
    add = parser.add_argument
    add("file", metavar="FILE", help="the samples, .csv or .npz")
    add("--label", metavar="COLUMN", help="the label's column of a CSV file")
    add("--weights", metavar="COLUMN", help="a CSV file's column of sample weights: prices of slack in units of C")
    add("--formulation", default="svm-gln", choices=FORMULATIONS, help="the margin problem")
    add("--units", type=int, default=10, help="hidden units H")
    add("--contexts", type=int, default=2, help="contexts a unit, a power of two")
    add("--seed", type=int, default=1, help="seed of the gates")
    add("--C", type=float, default=np.inf, help="price of slack; inf is the hard margin")
    add("--no-constant", action="store_true", help="do not append the constant input 1")
    add("--solver", help=f"one of {', '.join(solver_names())}; else the default of solve()")
    add("--tol", type=float, default=1e-6, help="relative gap asked for")
    add("--max-seconds", type=float, help="end with the best answer so far after this time")
    add("--max-iterations", type=int, help="end with the best answer so far after as many iterations")
    add("--verbose", action="store_true", help="show the solver's log")
    add("--out", metavar="FILE", help="where to save the solution (npz); else NAME-solution.npz in this folder")
    add_json(parser)
    parser.set_defaults(run=solved)


def solved(options: Namespace) -> Outcome:
    """Read, solve and save."""
    samples = read_samples(options.file, options.label, options.weights)
    out = Path(options.out or Path(options.file).with_suffix("").name + "-solution.npz")
    if out.resolve() == Path(options.file).resolve() or out.is_dir():
        raise InputError(f"--out {out} is the input or a folder; name another file")
    require_writable(out.parent)
    problem = build(samples, options)
    print(f"{problem.features.n} samples, {problem.features.d} inputs, {problem.features.k} gates, {problem.norm!r}")
    print(f"class −1 is {samples.classes[0]!r}, class +1 is {samples.classes[1]!r}")
    limits = {"max_seconds": options.max_seconds, "max_iterations": options.max_iterations}
    solution = solve(problem, options.solver, tol=options.tol, verbose=options.verbose, **limits)
    print(solution)
    gates = {name: getattr(problem.gates, name) for name in ("directions_", "cutoffs_") if hasattr(problem.gates, name)}
    path = save_solution(solution, out, classes=np.array(samples.classes), **gates)
    print(f"wrote {path}")
    return Outcome(CODES.get(solution.status, 1), described(problem, samples, solution) | {"files": [path]})


def build(samples: Samples, options: Namespace) -> MarginProblem:
    """The margin problem that the options ask for, with the file's own gates and weights if it has any."""
    problem = _unweighted(samples, samples.X if options.no_constant else with_constant(samples.X), options)
    if samples.sample_weight is None:
        return problem
    if problem.hard:
        warnings.warn("sample weights have no effect on a hard margin; give a finite --C", stacklevel=2)
    return replace(problem, sample_weight=samples.sample_weight)


def _unweighted(samples: Samples, X: Array, options: Namespace) -> MarginProblem:
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


def described(problem: MarginProblem, samples: Samples, solution: Solution) -> dict[str, Any]:
    """The problem and its answer, without the arrays."""
    features = problem.features
    return {
        "status": solution.status.name,
        "meaning": solution.status.value,
        **{name: getattr(solution, name) for name in ("objective", "lower_bound", "gap", "minimum_margin")},
        **{name: getattr(solution, name) for name in ("farkas_residual", "tol", "iterations", "seconds", "solver")},
        "problem": {
            "name": problem.name,
            **{"samples": features.n, "inputs": features.d, "gates": features.k, "norm": repr(problem.norm)},
            **{"C": problem.C, "hard_margin": problem.hard, "weighted": samples.sample_weight is not None},
            "classes": samples.classes,
        },
    }
