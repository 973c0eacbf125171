"""The work of `implicit-bias solve`: a margin problem on a user's own samples, solved and certified."""

import sys
import warnings
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from implicit_bias.command_line.execution import Outcome
from implicit_bias.datasets.tables import LabelledSamples, read_samples
from implicit_bias.datasets.task import with_constant
from implicit_bias.features import GatedFeatures
from implicit_bias.gates import ConstantGate, HyperplaneGates, RandomHalfSpaces
from implicit_bias.ground.checks import Array, InputError
from implicit_bias.ground.files import require_writable
from implicit_bias.margin.formulations import svm_gln, svm_l2, svm_rc, svm_shallow
from implicit_bias.margin.norms import Frobenius, GroupLasso
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solvers import Progress, Solution, Status, solve
from implicit_bias.margin.solvers.progress import end_line, print_line
from implicit_bias.saving.solutions import save_solution

#: The exit code of every status.
CODES = {Status.OPTIMAL: 0, Status.NOT_SEPARABLE: 0, Status.NOT_SEPARABLE_BELOW: 0, Status.INTERRUPTED: 130}

#: Seconds of a solve after which a terminal shows how far it is.
PATIENCE = 2.0


class Line:
    """How far the native solver is, as a line that renews itself."""

    shown = False

    def __call__(self, progress: Progress) -> None:
        """Show it, once the solve has taken `PATIENCE`."""
        if progress.seconds >= PATIENCE:
            print_line(progress)
            self.shown = True


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
    line = Line() if sys.stderr.isatty() and not options.verbose and options.solver in (None, "NATIVE") else None
    solution = solve(problem, options.solver, tol=options.tol, verbose=options.verbose, callback=line, **limits)
    if line is not None and line.shown:
        end_line()
    print(solution)
    gates = {name: getattr(problem.gates, name) for name in ("directions_", "cutoffs_") if hasattr(problem.gates, name)}
    path = save_solution(solution, out, classes=np.array(samples.classes), **gates)
    print(f"wrote {path}")
    return Outcome(CODES.get(solution.status, 1), described(problem, samples, solution) | {"files": [path]})


def build(samples: LabelledSamples, options: Namespace) -> MarginProblem:
    """The margin problem that the options ask for, with the file's own gates and weights if it has any."""
    problem = _unweighted(samples, samples.X if options.no_constant else with_constant(samples.X), options)
    if samples.sample_weight is None:
        return problem
    if problem.hard:
        warnings.warn("sample weights have no effect on a hard margin; give a finite --C", stacklevel=2)
    return replace(problem, sample_weight=samples.sample_weight)


def _unweighted(samples: LabelledSamples, X: Array, options: Namespace) -> MarginProblem:
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


def described(problem: MarginProblem, samples: LabelledSamples, solution: Solution) -> dict[str, Any]:
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
