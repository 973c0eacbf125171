"""`implicit-bias solve`: solve margin problems on a user's samples, certify them, and save a model."""

from __future__ import annotations

import math
import sys
import warnings
from argparse import Namespace
from dataclasses import replace
from typing import Any

import numpy as np

# The names of the package are loaded when first used, so that help does not wait for them.
import implicit_bias as core
from implicit_bias._utils.checks import Array, InputError, as_count, as_positive, as_seed, context_bits, one_of
from implicit_bias._utils.deadline import Deadline
from implicit_bias.cli.execution import Outcome, counted, place_of, report_files, say_header
from implicit_bias.cli.parsers import EXIT_CODES, Parser
from implicit_bias.datasets.tables import LabelledSamples, read_samples
from implicit_bias.datasets.task import with_constant

FORMULATIONS = ("svm-gln", "svm-l2", "svm-rc", "svm-shallow", "linear")
TEXT = """\
Solve a margin problem on your own samples and save the certified model, for `implicit-bias predict`.

CSV: the label column (the last, unless --label names it), columns named gate_… as gate values, all others inputs.
NPZ: arrays X (n, p) and y (n,), optionally gates (n, k), groups (k,), sample_weight (n,) and required_margin (n,).
Labels are numbers or texts. More than two classes are one problem per class, this class against the rest."""

#: Seconds of a solve after which a terminal shows its progress.
PATIENCE = 2.0
#: Least ratio of the sizes of two inputs that causes a warning.
APART = 1e3


def declare(parser: Parser, command: str) -> None:
    """Declare the options of `solve`."""
    parser.explain(
        TEXT,
        [
            ("samples.csv", "SVM-GLN with ten units of two contexts"),
            ("samples.csv --formulation linear --C 1", "the linear SVM with soft margin"),
            ("samples.csv --C 1 --weights importance", "slack of some samples costs more"),
            ("samples.npz --max-seconds 60 --json", "the best answer of a minute, as JSON"),
            ("samples.csv --C 2 --start samples-model.npz", "from the solution for another C"),
        ],
        {
            0: "OPTIMAL, or proved NOT_SEPARABLE (at all, or below a norm)",
            1: "an answer worse than asked, saved with its certified gap",
            2: EXIT_CODES[2],
            130: "interrupted; the best answer so far is saved",
        },
    )
    add = parser.add_argument
    add("file", metavar="FILE", help="the samples, .csv or .npz")
    add("--label", metavar="COLUMN", help="the label's column of a CSV file")
    add("--weights", metavar="COLUMN", help="a CSV file's column of sample weights c_i, which multiply C")
    add("--margins", metavar="COLUMN", help="a CSV file's column of required margins; else 1 for all")
    parser.add_shared("--header")
    add("--formulation", default="svm-gln", choices=FORMULATIONS, help="the margin problem")
    add("--units", type=int, default=10, help="hidden units H")
    add("--contexts", type=int, default=2, help="contexts per unit, a power of two")
    add("--seed", type=int, default=1, help="seed of the gates")
    add("--C", type=float, default=math.inf, help="upper bound of the dual variables; inf is the hard margin")
    add("--no-constant", action="store_true", help="do not append the constant input 1")
    parser.add_shared("--solver")
    add("--tol", type=float, default=1e-6, help="relative gap asked for")
    add("--max-seconds", type=float, help="end with the best answers so far after this time, shared by the classes")
    add("--max-iterations", type=int, help="end with the best answer so far after as many iterations for a class")
    add("--start", metavar="MODEL", help="begin from a saved model of the same samples in the same order")
    add("--keep-samples", action="store_true", help="keep the samples in the model's file, too")
    add("--verbose", action="store_true", help="show the solver's log")
    add("--out", metavar="FILE", help="where to save the model (npz); else NAME-model.npz in this folder")
    parser.set_defaults(run=solve, loads=("saving.models", "solvers"))


def solve(options: Namespace) -> Outcome:
    """Read the samples, solve one problem for each class (one for two classes), and save the model.

    The exit code is the worst of all solutions: 0 if optimal or proved inseparable, 1 if worse, 130 if interrupted.
    """
    out = place_of(options.out, "-model.npz", [options.file])
    _check(options)
    before = {} if options.start is None else _earlier(options.start)
    samples = read_samples(options.file, options.label, options.weights, options.margins, options.header)
    say_header(options.file, samples.header)
    _warn_of_scales(samples)
    classes = samples.classes
    positives = classes[1:] if len(classes) == 2 else classes
    first = _problem(samples, positives[0], options)
    problems = {positive: first.replace(y=samples.signs(positive)) for positive in positives}
    features = first.features
    sizes = [counted(features.n, "sample"), counted(features.d, "input"), counted(features.k, "gate")]
    print(", ".join([*sizes, repr(first.norm)]))
    if len(classes) == 2:
        print(f"class −1 is {classes[0]!r}, class +1 is {classes[1]!r}")
    else:
        print(f"{len(classes)} classes, each against the rest: {', '.join(map(repr, classes))}")
    if before and not set(before) & set(positives):
        raise InputError(f"--start {options.start} is of other classes ({', '.join(map(repr, before))})")
    for positive in before.keys() & problems.keys():
        y = before[positive][0]
        if len(y) != features.n:
            raise InputError(f"--start {options.start} is of {len(y)} samples, {options.file} has {features.n}")
        if (y != problems[positive].y).any():
            raise InputError(f"--start {options.start} is of samples with other labels, or in another order")
    solutions = _solutions(problems, {positive: start for positive, (_, start) in before.items()}, options)
    constant = not options.no_constant
    model = core.MarginModel(
        list(problems.values()), solutions, classes=classes, constant=constant, columns=samples.columns
    )
    files = report_files([core.save_model(model, out, samples=options.keep_samples)])
    code = max(map(_code, [model.status, *(one.status for one in solutions)]))
    return Outcome(code, _described(model, samples.sample_weight is not None) | {"files": files})


def _code(status: core.Status) -> int:
    if status is core.Status.INTERRUPTED:
        return 130
    return 0 if status is core.Status.OPTIMAL or status.inseparable else 1


def _check(options: Namespace) -> None:
    """Raise InputError for options that are invalid for any samples, before the samples are read."""
    from implicit_bias.solvers.base import Options

    Options(options.tol, options.max_iterations, options.max_seconds)
    as_positive(options.C, "C", infinite=True)
    as_count(options.units, "units")
    as_seed(options.seed)
    context_bits(options.contexts)
    if options.solver is not None:
        one_of(options.solver, core.solver_names(), "solver")


def _warn_of_scales(samples: LabelledSamples) -> None:
    """Warn if the largest sizes of two inputs differ by a factor of at least APART; inputs of zeros are ignored."""
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


def _earlier(path: str) -> dict[Any, tuple[Array, core.Solution]]:
    """Return (labels y, solution) of each problem of a saved model, by the class that its label +1 stands for."""
    model = core.load_model(path)
    if not isinstance(model, core.MarginModel):
        raise InputError(f"--start {path} holds no margin problem, but {model!r}")
    found = zip(model.positives, model.problems, model.solutions, strict=False)
    return {positive: (problem.y, solution) for positive, problem, solution in found}


class Line:
    """Line with the native solver's progress, rewritten at every call, after the solve has taken `PATIENCE`."""

    #: True after the line was printed.
    shown = False

    def __call__(self, progress: Any) -> None:
        """Print the progress of a solve that has taken `PATIENCE` seconds."""
        from implicit_bias.solvers.base import print_line

        if progress.seconds >= PATIENCE:
            print_line(progress)
            self.shown = True


def _solutions(
    problems: dict[Any, core.MarginProblem], starts: dict[Any, core.Solution], options: Namespace
) -> list[core.Solution]:
    """Solve and print the problems in order; return the solutions, fewer if interrupted.

    A problem gets an equal share of the time that is left for it and the problems after it.
    """
    deadline, found = Deadline(options.max_seconds), list[core.Solution]()
    watched = sys.stderr.isatty() and not options.verbose and options.solver in (None, "NATIVE")
    limits = {"tol": options.tol, "max_iterations": options.max_iterations, "verbose": options.verbose}
    for positive, problem in problems.items():
        left = deadline.left(1 / (len(problems) - len(found)))
        line, start = Line() if watched else None, starts.get(positive)
        solution = core.solve(problem, options.solver, max_seconds=left, start=start, callback=line, **limits)
        if line is not None and line.shown:
            print(file=sys.stderr)
        print(solution if len(problems) == 1 else f"class {positive!r}: {solution}")
        found.append(solution)
        if solution.status is core.Status.INTERRUPTED:
            break
    return found


def _problem(samples: LabelledSamples, positive: Any, options: Namespace) -> core.MarginProblem:
    """Return the problem of --formulation and --C with the class `positive` as +1.

    The inputs have a constant unless --no-constant. Gates, sample weights and required margins are those of the file,
    if it has any. Sample weights with a hard margin are a warning.
    """
    X = samples.X if options.no_constant else with_constant(samples.X)
    own = {name: getattr(samples, name) for name in ("sample_weight", "required_margin")}
    problem = replace(
        _formulated(samples, X, samples.signs(positive), options),
        **{name: values for name, values in own.items() if values is not None},
    )
    if problem.hard and samples.sample_weight is not None:
        warnings.warn("sample weights have no effect on a hard margin; give a finite --C", stacklevel=2)
    return problem


def _formulated(samples: LabelledSamples, X: Array, y: Array, options: Namespace) -> core.MarginProblem:
    """Return the problem of --formulation for X (n, d) and y, with the file's gates if it has any, else drawn ones."""
    name, C, H, K, seed = options.formulation, options.C, options.units, options.contexts, options.seed
    if samples.gate_values is not None:
        if name not in ("svm-gln", "svm-shallow"):
            raise InputError(f"{name} makes its own gates, but the file has some; use svm-gln or svm-shallow")
        groups = range(samples.gate_values.shape[1]) if samples.groups is None else samples.groups
        norm = core.GroupLasso(groups) if name == "svm-gln" else core.Frobenius()
        return core.MarginProblem(core.GatedFeatures(X, samples.gate_values), y, norm, C, name=name)
    match name:
        case "linear":
            return core.svm_shallow(X, y, core.ConstantGate(), C)
        case "svm-shallow":
            return core.svm_shallow(X, y, core.HyperplaneGates(1, K, seed), C)
        case "svm-rc":
            return core.svm_rc(X, y, core.RandomHalfSpaces(H, seed), C)
        case "svm-l2":
            return core.svm_l2(X, y, core.HyperplaneGates(H, K, seed), C)
    return core.svm_gln(X, y, core.HyperplaneGates(H, K, seed), C)


def _described(model: core.MarginModel, weighted: bool) -> dict[str, Any]:
    """Return the JSON document of a model: status, numbers of each solution, and a description of the first problem."""
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
            **{"C": problem.C, "hard_margin": problem.hard, "weighted": weighted},
            "classes": model.classes,
        },
    }
