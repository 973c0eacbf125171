"""The work of `implicit-bias solve`: margin problems on a user's own samples, certified, and saved as a model."""

import sys
import time
import warnings
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from implicit_bias._utils.checks import Array, InputError, as_count, as_positive, as_seed, context_bits, one_of
from implicit_bias.cli.execution import Outcome, counted, place_of
from implicit_bias.datasets.tables import LabelledSamples, read_samples
from implicit_bias.datasets.task import with_constant
from implicit_bias.features import GatedFeatures
from implicit_bias.gates import ConstantGate, HyperplaneGates, RandomHalfSpaces
from implicit_bias.margin.formulations import svm_gln, svm_l2, svm_rc, svm_shallow
from implicit_bias.margin.model import MarginModel
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solution import Solution, Status
from implicit_bias.norms import Frobenius, GroupLasso
from implicit_bias.saving.models import load_model, save_model
from implicit_bias.solvers import Progress, solve, solver_names
from implicit_bias.solvers.base import Options, end_line, print_line

#: The exit code of every status.
CODES = {Status.OPTIMAL: 0, Status.NOT_SEPARABLE: 0, Status.NOT_SEPARABLE_BELOW: 0, Status.INTERRUPTED: 130}

#: Seconds of a solve after which a terminal shows how far it is.
PATIENCE = 2.0
#: Inputs this many times apart are warned of.
APART = 1e3


class Line:
    """How far the native solver is, as a line that renews itself."""

    shown = False

    def __call__(self, progress: Progress) -> None:
        """Show it, once the solve has taken `PATIENCE`."""
        if progress.seconds >= PATIENCE:
            print_line(progress)
            self.shown = True

    def end(self) -> None:
        """End it, if it was shown."""
        if self.shown:
            end_line()
            self.shown = False


def solved(options: Namespace) -> Outcome:
    """Read, solve and save."""
    out = place_of(options.out, options.file, "-model.npz", [options.file])
    check(options)
    before = {} if options.start is None else known(options.start)
    samples = read_samples(options.file, options.label, options.weights, options.margins)
    warn_of_scales(samples)
    problems = build(samples, options)
    features, classes = problems[0].features, samples.classes
    sizes = [counted(features.n, "sample"), counted(features.d, "input"), counted(features.k, "gate")]
    print(", ".join([*sizes, repr(problems[0].norm)]))
    if len(classes) == 2:
        print(f"class −1 is {classes[0]!r}, class +1 is {classes[1]!r}")
    else:
        print(f"{len(classes)} classes, each against the rest: {', '.join(map(repr, classes))}")
    positives = classes[1:] if len(problems) == 1 else classes
    if before and not set(before) & set(positives):
        raise InputError(f"--start {options.start} is of other classes ({', '.join(map(repr, before))})")
    for positive, problem in zip(positives, problems, strict=True):
        y = before[positive][0] if positive in before else problem.y
        if len(y) != features.n:
            raise InputError(f"--start {options.start} is of {len(y)} samples, {options.file} has {features.n}")
        if (y != problem.y).any():
            raise InputError(f"--start {options.start} is of samples with other labels, or in another order")
    starts = {positive: solution for positive, (_, solution) in before.items()}
    solutions = answers(problems, positives, starts, options)
    constant = not options.no_constant
    model = MarginModel(problems, solutions, classes=classes, constant=constant, columns=samples.columns)
    path = save_model(model, out, samples=options.keep_samples)
    print(f"wrote {path}")
    code = max(CODES.get(status, 1) for status in [model.status, *(one.status for one in solutions)])
    return Outcome(code, described(model, samples) | {"files": [path]})


def check(options: Namespace) -> None:
    """Refuse values that no samples could go with, before any are read."""
    Options(options.tol, options.max_iterations, options.max_seconds)
    as_positive(options.C, "C", infinite=True)
    as_count(options.units, "units")
    as_seed(options.seed)
    context_bits(options.contexts)
    if options.solver is not None:
        one_of(options.solver, solver_names(), "solver")


def warn_of_scales(samples: LabelledSamples) -> None:
    """Warn of inputs that are `APART`, of which the norm uses the largest and the solver takes long."""
    sizes = np.abs(samples.X).max(axis=0)
    used = np.flatnonzero(sizes)
    if len(used) and np.ptp(np.log10(sizes[used])) >= np.log10(APART):
        most, least = used[sizes[used].argmax()], used[sizes[used].argmin()]
        names = range(len(sizes)) if samples.columns is None else samples.columns.inputs
        warnings.warn(
            f"input {names[most]!r} is {sizes[most] / sizes[least]:.0e} times as large as input {names[least]!r}, and "
            "the norm weighs them alike: bring them to one scale first (StandardScaler), which is solved faster, too",
            stacklevel=2,
        )


def known(path: str) -> dict[Any, tuple[Array, Solution]]:
    """The signs and answers of a saved model, by the class that is +1."""
    model = load_model(path)
    if not isinstance(model, MarginModel):
        raise InputError(f"--start {path} holds no margin problem, but {model!r}")
    found = zip(model.positives, model.problems, model.solutions, strict=False)
    return {positive: (problem.y, solution) for positive, problem, solution in found}


def answers(
    problems: Sequence[MarginProblem], positives: Sequence[Any], before: dict[Any, Solution], options: Namespace
) -> list[Solution]:
    """The solutions, each printed; fewer if interrupted. The time left is shared by the problems left."""
    begin, found = time.perf_counter(), list[Solution]()
    watched = sys.stderr.isatty() and not options.verbose and options.solver in (None, "NATIVE")
    line = Line() if watched else None
    for problem, positive in zip(problems, positives, strict=True):
        limit = options.max_seconds
        if limit is not None:
            limit = max(limit - (time.perf_counter() - begin), 1e-9) / (len(problems) - len(found))
        limits = {"tol": options.tol, "max_seconds": limit, "max_iterations": options.max_iterations}
        solution = solve(
            problem, options.solver, **limits, start=before.get(positive), callback=line, verbose=options.verbose
        )
        if line is not None:
            line.end()
        print(solution if len(problems) == 1 else f"class {positive!r}: {solution}")
        found.append(solution)
        if solution.status is Status.INTERRUPTED:
            break
    return found


def build(samples: LabelledSamples, options: Namespace) -> list[MarginProblem]:
    """The margin problems that the options ask for, with the file's own gates, weights and margins if it has any."""
    positives = samples.classes[1:] if len(samples.classes) == 2 else samples.classes
    X = samples.X if options.no_constant else with_constant(samples.X)
    first = _plain(samples, X, samples.signs(positives[0]), options)
    own = {name: getattr(samples, name) for name in ("sample_weight", "required_margin")}
    first = replace(first, **{name: values for name, values in own.items() if values is not None})
    if first.hard and samples.sample_weight is not None:
        warnings.warn("sample weights have no effect on a hard margin; give a finite --C", stacklevel=2)
    return [first, *(first.replace(y=samples.signs(positive)) for positive in positives[1:])]


def _plain(samples: LabelledSamples, X: Array, y: Array, options: Namespace) -> MarginProblem:
    name, C = options.formulation, options.C
    if samples.gate_values is not None:
        if name not in ("svm-gln", "svm-shallow"):
            raise InputError(f"{name} makes its own gates, but the file has some; use svm-gln or svm-shallow")
        k = samples.gate_values.shape[1]
        groups = np.arange(k) if samples.groups is None else samples.groups
        norm = GroupLasso(groups) if name == "svm-gln" else Frobenius()
        return MarginProblem(GatedFeatures(X, samples.gate_values), y, norm, C, name=name)
    if name == "linear":
        return svm_shallow(X, y, ConstantGate(), C)
    if name == "svm-rc":
        return svm_rc(X, y, RandomHalfSpaces(options.units, options.seed), C)
    if name == "svm-shallow":
        return svm_shallow(X, y, HyperplaneGates(1, options.contexts, options.seed), C)
    gates = HyperplaneGates(options.units, options.contexts, options.seed)
    return (svm_gln if name == "svm-gln" else svm_l2)(X, y, gates, C)


def described(model: MarginModel, samples: LabelledSamples) -> dict[str, Any]:
    """The model and its certificates, without the arrays."""
    problem = model.problems[0]
    features = problem.features
    numbers = ("objective", "lower_bound", "gap", "minimum_margin", "farkas_residual", "tol", "iterations", "seconds")
    return {
        "status": model.status.name,
        "meaning": model.status.value,
        "solutions": [
            {"class": positive, "status": one.status.name, "meaning": one.status.value, "solver": one.solver}
            | {name: getattr(one, name) for name in numbers}
            for positive, one in zip(model.positives, model.solutions, strict=False)
        ],
        "problem": {
            "name": problem.name,
            **{"samples": features.n, "inputs": features.d, "gates": features.k, "norm": repr(problem.norm)},
            **{"C": problem.C, "hard_margin": problem.hard, "weighted": samples.sample_weight is not None},
            "classes": model.classes,
        },
    }
