"""`implicit-bias solve`: solve margin problems on a user's samples, certify and validate them, and save a model."""

from __future__ import annotations

import math
import shlex
import sys
import warnings
from argparse import ArgumentTypeError, BooleanOptionalAction, Namespace
from dataclasses import replace
from typing import Any

import numpy as np

# The names of the package are loaded when first used, so that help does not wait for them.
import implicit_bias as core
from implicit_bias._utils.checks import Array, InputError, as_count, as_positive, as_seed, context_bits, one_of
from implicit_bias._utils.floats import out_of_scale
from implicit_bias._utils.limits import Deadline
from implicit_bias.cli.execution import Output, counted, place_of
from implicit_bias.cli.parsers import EXIT_CODES, Parser
from implicit_bias.cli.predict import matched
from implicit_bias.datasets.labels import ranges_of
from implicit_bias.datasets.scaling import Scaling
from implicit_bias.datasets.tables import FORMAT, LabelledSamples, read_inputs, read_samples
from implicit_bias.datasets.task import with_constant

#: Options of drawn gates, with their defaults and meaning.
GATES = {"units": (10, "hidden units H"), "contexts": (2, "contexts per unit, a power of two")}
#: Formulations, and those of these options that have an effect.
FORMULATIONS = dict.fromkeys(("svm-gln", "svm-l2"), tuple(GATES))
FORMULATIONS |= {"svm-rc": ("units",), "svm-shallow": ("contexts",), "linear": ()}
TEXT = """\
Solve a margin problem on your own samples and save the certified model, for `implicit-bias predict`.

Tables (CSV, perhaps compressed, Parquet, xlsx): the label column (the last, unless --label names it), gate values
(--gates), and all others as inputs.
NPZ: arrays X (n, p) and y (n,), optionally gates (n, k), groups (k,), sample_weight (n,) and required_margin (n,).
Labels are numbers or texts. More than two classes are one problem per class, this class against the rest."""

#: Seconds of a solve after which a terminal shows its progress.
PATIENCE = 2.0
#: Number of values of C that --C auto tries.
VALUES = 10
#: Ratio of the largest of them to the C₀ up to which all weights are zero. Larger values are slow and rarely better.
RATIO = 1e3
#: Number of folds of --C auto.
FOLDS = 5
#: Relative difference up to which errors of --C auto count as equal.
ROUNDING = 1e-12
#: Probability with which the interval of the held-out error contains the true error.
CONFIDENCE = 0.95
#: Commands, and what they do.
EXAMPLES = [
    ("samples.csv", "SVM-GLN with ten units of two contexts"),
    ("samples.csv --C auto --validate .25", "soft margin, and its error on a quarter of the samples"),
    ("samples.csv --formulation linear --C 1", "the linear SVM with soft margin"),
    ("samples.csv --C 1 --weights importance", "sample weights from a column"),
    ("samples.npz --max-seconds 60 --json", "the best solution after a minute, as JSON"),
    ("samples.csv --C 2 --start samples-model.npz", "from the solution for another C"),
]
#: Exit codes, and what they say.
ENDS = {
    0: "OPTIMAL",
    1: "the gap exceeds --tol; the model is saved with its certified gap",
    2: EXIT_CODES[2],
    3: "NOT_SEPARABLE (at all, or below a norm), which is proved; no model is written",
    130: "interrupted; the best solution so far is saved",
}


def declare(parser: Parser, command: str) -> None:
    parser.explain(TEXT, EXAMPLES, ENDS)
    add = parser.add_argument
    add("file", metavar="FILE", help="the samples, .csv, .tsv, .txt, .csv.gz …, .parquet, .xlsx, .npz, or - (stdin)")
    add("--label", metavar="COLUMN", help="the label's column of a table")
    add("--weights", metavar="COLUMN", help="a table's column of sample weights c_i, which multiply C")
    add("--margins", metavar="COLUMN", help="a table's column of required margins; by default all are 1")
    text = "a table's columns of gate values, by default those named gate_…; --gates alone: none"
    add("--gates", nargs="*", metavar="COLUMN", help=text)
    add("--columns", nargs="+", metavar="COLUMN", help="a table's columns of inputs, by default all others")
    add("--drop", nargs="+", metavar="COLUMN", help="a table's columns that are left out")
    add("--encode", action="store_true", help="encode columns of texts, as one input per text; also in the model")
    text = "fill empty cells of a column of numbers by this of its fitted samples; also in the model"
    add("--impute", choices=("mean", "median", "most_frequent"), help=text)
    parser.add_shared(*(f"--{name}" for name in FORMAT))
    text = "scale inputs to mean 0 and deviation 1, also in the model; by default if their sizes differ by 100 or more"
    add("--standardise", action=BooleanOptionalAction, help=text)
    text = "more samples, or the share of the samples (0 to 1) that the model is not fitted to: estimate its error"
    add("--validate", metavar="FILE|SHARE", help=text)
    add("--formulation", default="svm-gln", choices=FORMULATIONS, help="the margin problem")
    for name, (default, text) in GATES.items():
        add(f"--{name}", type=int, help=f"{text} (default: {default})")
    add("--seed", type=int, default=1, help="seed of the gates, the folds and the held-out share")
    text = "upper bound of the dual variables; inf is the hard margin, auto the best in cross-validation"
    add("--C", type=_cost, default=math.inf, help=text)
    add("--no-constant", action="store_true", help="do not append the constant input 1")
    parser.add_shared("--solver")
    add("--tol", type=float, default=1e-6, help="relative gap at which the solver stops")
    add("--max-seconds", type=float, help="time limit shared by the classes; the best solutions so far are saved")
    add("--max-iterations", type=int, help="limit of the iterations for each class, like --max-seconds")
    add("--start", metavar="MODEL", help="start from a saved model of the same samples in the same order")
    add("--keep-samples", action="store_true", help="save the samples with the model")
    add("--verbose", action="store_true", help="show the solver's log")
    add("--out", metavar="FILE", help="where to save the model (npz); else NAME-model.npz in this folder")
    parser.set_defaults(run=solve, loads=("saving.models", "solvers"))


def _cost(text: str) -> Any:
    try:
        return text if text == "auto" else float(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is neither a number nor auto") from None


def solve(options: Namespace) -> Output:
    """Read the samples, solve one problem for each class (one for two classes), and save the model.

    The exit code is the worst of all solutions: 0 if optimal, 1 if worse, 3 if inseparable, 130 if interrupted.
    """
    out = place_of(options.out, "-model.npz", [options.file])
    _check(options)
    names = ("label", "weights", "margins", "gates", "columns", "drop", "encode", *FORMAT)
    given = {name: getattr(options, name) for name in names}
    samples = read_samples(options.file, keep_missing=options.impute is not None, **given)
    print("".join(f"{note}\n" for note in samples.notes), end="")
    _set_gates(samples, options)
    samples, held_out = _parts(samples, options)
    starts = {} if options.start is None else _starts(samples, options)
    options.standardise, deadline = _is_standardised(samples, options.standardise), Deadline(options.max_seconds)
    C = options.C if options.C != "auto" else _chosen_cost(samples, options, deadline)
    problems = _problems(samples, options, C)
    first, classes = next(iter(problems.values())), samples.classes
    n, k = map(counted, first.features.shape[:2], ("sample", "gate"))
    each = f"class −1 is {classes[0]!r}, class +1 is {classes[1]!r}"
    several = f"{len(classes)} classes, each against the rest: {', '.join(map(repr, classes))}"
    print(f"{n}, {counted(samples.X.shape[1], 'input')}, {k}, {first.norm!r}\n{each if len(classes) == 2 else several}")
    model = _model(samples, problems, _solutions(problems, starts, deadline, options), options)
    document = _described(model, samples.sample_weight is not None)
    if any(one.status.inseparable for one in model.solutions):
        return Output(3, document, "the same command with --C auto, a soft margin")
    document |= _errors(model, samples, held_out)
    files = [core.save_model(model, out, samples=options.keep_samples)]
    path = shlex.quote(str(out))
    then = f"implicit-bias predict {path} NEW.csv"
    if model.status is not core.Status.OPTIMAL:
        then = f"the same command with --start {path}" + (f", or {then}" if "training" in document else "")
    elif document["constant"]:
        then = "the same command with --C auto"
    codes = {core.Status.OPTIMAL: 0, core.Status.INTERRUPTED: 130}
    return Output(codes.get(model.status, 1), document, then, files)


def _set_gates(samples: LabelledSamples, options: Namespace) -> None:
    """Say which columns are gates by their names; set the options of drawn gates, and refuse those without effect."""
    given, gates = samples.gate_values is not None, samples.columns.gates if samples.columns else []
    if gates and options.gates is None:
        print(f"gate values: {', '.join(gates)}, by their names (--gates COLUMN … names others, --gates alone none)")
    used = () if given else FORMULATIONS[options.formulation]
    void = [f"--{name}" for name in GATES if getattr(options, name) is not None and name not in used]
    if void:
        cause = f"the gate values of {options.file}" if given else f"--formulation {options.formulation}"
        raise InputError(f"{' and '.join(void)} would have no effect with {cause}; leave it out, or the other")
    for name, (default, _) in GATES.items():
        setattr(options, name, getattr(options, name) or default)


def _check(options: Namespace) -> None:
    from implicit_bias.solvers.base import Options

    Options(options.tol, options.max_iterations, options.max_seconds)
    if options.C != "auto":
        as_positive(options.C, "C", infinite=True)
    as_seed(options.seed)
    as_count(1 if options.units is None else options.units, "units")
    context_bits(1 if options.contexts is None else options.contexts)
    _share(options.validate)
    if options.file == options.validate == "-":
        raise InputError("standard input is read once; give --validate a share such as 0.25, or a file")
    if options.solver is not None:
        one_of(options.solver, core.solver_names(), "solver")


def _share(validate: str | None) -> float | None:
    try:
        share = float(validate or "")
    except ValueError:
        return None
    if not 0 < share < 1:
        raise InputError(f"--validate {validate} must be a share between 0 and 1, such as 0.25, or a file")
    return share


def _parts(samples: LabelledSamples, options: Namespace) -> tuple[LabelledSamples, LabelledSamples | None]:
    share = _share(options.validate)
    if share is not None:
        place, size = _places(samples.labels, options.seed)
        held_out = place < np.minimum(np.round(share * size), size - 1)
        if not held_out.any():
            raise InputError(f"--validate {options.validate} holds out none of {len(place)} samples; give a larger one")
        print(f"{held_out.sum()} of {len(place)} samples are held out, and the model is fitted to the others")
        return samples.select(~held_out), samples.select(held_out)
    if options.validate is None:
        return samples, None
    given = {"missing": options.impute is not None} | {name: getattr(options, name) for name in FORMAT}
    new = read_inputs(options.validate, samples.columns, samples.X.shape[1], **given)
    matches, labelled = ([], np.empty(0, dtype=int)) if new.labels is None else matched(samples.classes, new.labels)
    if not len(labelled) or len(matches) != len(new.X):
        raise InputError(f"--validate {options.validate} must hold a label for each sample, to count the errors")
    labels = np.array([matches[i] for i in labelled])
    gates = None if new.gate_values is None else new.gate_values[labelled]
    fitted = {row.tobytes() for row in samples.X}
    if copies := sum(row.tobytes() in fitted for row in new.X):
        text = f"{copies} of {counted(len(new.X), 'sample')} of {options.validate} are also in {options.file}"
        warnings.warn(f"{text}: they are not held out, and the error may be too small", stacklevel=2)
    return samples, LabelledSamples(new.X[labelled], labels, samples.classes, gates)


def _places(labels: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the place of each sample in a random order of its class, and the size of its class, both (n,)."""
    order = np.random.default_rng(seed).permutation(len(labels))
    place, size = np.empty(len(labels), dtype=int), np.empty(len(labels), dtype=int)
    for label in np.unique(labels):
        members = order[labels[order] == label]
        place[members], size[members] = np.arange(len(members)), len(members)
    return place, size


def _is_standardised(samples: LabelledSamples, option: bool | None) -> bool:
    X = np.nan_to_num(samples.X) if np.isnan(samples.X).any() else samples.X
    if option is not None or (columns := out_of_scale(X)) is None:
        return bool(option)
    large, small = columns
    sizes = np.abs(X[:, columns]).max(axis=0)
    names = range(X.shape[1]) if samples.columns is None else samples.columns.encoded
    text = f"input {names[large]!r} is {sizes[0] / sizes[1]:.0e} times as large as input {names[small]!r}"
    print(f"{text}: all are standardised, in the model too (--no-standardise leaves them)")
    return True


def _starts(samples: LabelledSamples, options: Namespace) -> dict[Any, core.Solution]:
    """Return the solutions of --start, by the class that is +1; raise InputError if samples or classes differ."""
    model = core.load_model(path := options.start)
    if not isinstance(model, core.MarginModel):
        raise InputError(f"--start {path} holds no margin problem, but {model!r}")
    solved = dict(zip(model.positives, zip(model.problems, model.solutions, strict=False), strict=False))
    starts = {}
    for positive in _positives(samples):
        if positive not in solved:
            continue
        problem, starts[positive] = solved[positive]
        if len(problem.y) != len(samples.labels):
            raise InputError(f"--start {path} is of {len(problem.y)} samples, {options.file} has {len(samples.labels)}")
        if (problem.y != samples.signs(positive)).any():
            raise InputError(f"--start {path} is of samples with other labels, or in another order")
    if not starts:
        raise InputError(f"--start {path} is of other classes ({', '.join(map(repr, solved))})")
    return starts


def _chosen_cost(samples: LabelledSamples, options: Namespace, deadline: Deadline) -> float:
    """Print and return the smallest C of least error in cross-validation; raise KeyboardInterrupt after Ctrl-C.

    Values that a fold does not finish in its share of the time are dropped. C is the default of the classifiers if
    fewer than two are left.
    """
    from tqdm import tqdm

    from implicit_bias.estimators.base import COST_SCALE
    from implicit_bias.solvers.path import path_values, random_dual_norm

    place, size = _places(samples.labels, options.seed)
    if size.min() < 2:
        rare = samples.labels[size.argmin()]
        raise InputError(f"class {rare} has one sample, and --C auto needs two of each class; give --C a number")
    every = _problems(samples, options, 1.0)
    costs = path_values(every.values(), VALUES, RATIO)[::-1]
    folds = [place % FOLDS == fold for fold in range(min(FOLDS, size.max()))]
    weight = np.ones(len(place)) if samples.sample_weight is None else samples.sample_weight
    errors = np.zeros(len(costs))
    for i, out in enumerate(tqdm(folds, "folds", unit="fold", delay=PATIENCE, leave=False, disable=None)):
        of_fold = _fold_errors(samples, options, costs[: len(errors)], out, weight[out], deadline, len(folds) - i + 1)
        errors = errors[: len(of_fold)] + of_fold
        if not len(errors):
            break
    if len(errors) < len(costs):
        text = f"--max-seconds ended --C auto when all folds had finished {len(errors)} of {len(costs)} values of C"
        warnings.warn(f"{text}; allow more", stacklevel=2)
    if not len(errors):
        C = COST_SCALE / random_dual_norm(next(iter(every.values())))
        print(f"C = {C:.3g} is the default of the classifiers")
        return C
    errors /= weight.sum()
    best = int(np.flatnonzero(errors <= errors.min() * (1 + ROUNDING))[-1])
    text = f"C = {costs[best]:g} has the least error in {len(folds)}-fold cross-validation, {100 * errors[best]:.2f} %"
    print(f"{text}, of {len(errors)} values from {costs[len(errors) - 1]:g} to {costs[0]:g}")
    return float(costs[best])


def _fold_errors(
    samples: LabelledSamples, options: Namespace, costs: Any, out: Any, weight: Any, deadline: Deadline, parts: int
) -> Any:
    """Return the weighted errors on the samples `out` after fits to the others, for the first of `costs`.

    These are the values that all classes finish in the fold's share, 1/`parts`, of the time left; [] for less than two.
    """
    rest, left_out = samples.select(~out), samples.select(out)
    problems, paths = _problems(rest, options, 1.0), list[list[core.Solution]]()
    for problem in problems.values():
        left = deadline.left(1 / (parts * len(problems) - len(paths)))
        limits = {"tol": options.tol, "max_iterations": options.max_iterations, "max_seconds": left}
        paths.append(core.margin_path(problem, costs, solver=options.solver, **limits))
        if paths[-1][-1].status is core.Status.INTERRUPTED:
            raise KeyboardInterrupt
        count = sum(one.status is not core.Status.TIME_LIMIT for one in paths[-1])
        costs = costs[: count if count > 1 else 0]
        if not len(costs):
            break
    models = (_model(rest, problems, one, options) for one in zip(*(path[: len(costs)] for path in paths), strict=True))
    return np.array([weight @ (model.predict(left_out.X, left_out.gate_values) != left_out.labels) for model in models])


def _solutions(
    problems: dict[Any, core.MarginProblem], starts: dict[Any, core.Solution], deadline: Deadline, options: Namespace
) -> list[core.Solution]:
    from implicit_bias.solvers.base import print_line

    solutions, shown = list[core.Solution](), False

    def show(progress: core.solvers.Progress) -> None:
        nonlocal shown
        if progress.seconds >= PATIENCE:
            print_line(progress)
            shown = True

    watched = sys.stderr.isatty() and not options.verbose and options.solver in (None, "NATIVE")
    limits = {"tol": options.tol, "max_iterations": options.max_iterations, "verbose": options.verbose}
    for positive, problem in problems.items():
        left = deadline.left(1 / (len(problems) - len(solutions)))
        more: dict[str, Any] = {"start": starts.get(positive), "callback": show if watched else None}
        shown = False
        solution = core.solve(problem, options.solver, max_seconds=left, **more, **limits)
        if shown:
            print(file=sys.stderr)
        print(solution if len(problems) == 1 else f"class {positive!r}: {solution}")
        solutions.append(solution)
        if solution.status is core.Status.INTERRUPTED:
            break
    return solutions


def _model(
    samples: LabelledSamples, problems: dict[Any, core.MarginProblem], solutions: Any, options: Namespace
) -> core.MarginModel:
    return core.MarginModel(
        list(problems.values()),
        list(solutions),
        classes=samples.classes,
        constant=not options.no_constant,
        columns=samples.columns,
        scaling=_scaling(samples.X, options),
        ranges=ranges_of(samples.X),
    )


def _scaling(X: Array, options: Namespace) -> Scaling | None:
    """Return the scaling that fills missing inputs X (n, p), then standardises; None without these options."""
    if options.impute is None:
        return Scaling.standard(X) if options.standardise else None
    from sklearn.impute import SimpleImputer

    imputer = SimpleImputer(strategy=options.impute, keep_empty_features=True).fit(X)
    standard = Scaling.standard(imputer.transform(X)) if options.standardise else None
    return Scaling([("fill", imputer.statistics_), *(standard.operations if standard else ())])


def _positives(samples: LabelledSamples) -> tuple[Any, ...]:
    return samples.classes[1:] if len(samples.classes) == 2 else samples.classes


def _problems(samples: LabelledSamples, options: Namespace, C: float) -> dict[Any, core.MarginProblem]:
    scaling = _scaling(samples.X, options)
    X = samples.X if scaling is None else scaling(samples.X)
    X = X if options.no_constant else with_constant(X)
    given = {name: getattr(samples, name) for name in ("sample_weight", "required_margin")}
    positives = _positives(samples)
    first = _formulated(samples, X, samples.signs(positives[0]), options, C)
    # Unlike its method, this function checks what the file has.
    first = replace(first, **{name: values for name, values in given.items() if values is not None})
    if first.hard and samples.sample_weight is not None:
        warnings.warn("sample weights have no effect on a hard margin; give a finite --C", stacklevel=2)
    return {positive: first.replace(y=samples.signs(positive)) for positive in positives}


def _formulated(samples: LabelledSamples, X: Array, y: Array, options: Namespace, C: float) -> core.MarginProblem:
    name, H, K, seed = options.formulation, options.units, options.contexts, options.seed
    if samples.gate_values is not None:
        if name not in ("svm-gln", "svm-shallow"):
            raise InputError(f"{name} takes no gate values; use svm-gln or svm-shallow, or --gates without columns")
        groups = range(samples.gate_values.shape[1]) if samples.groups is None else samples.groups
        norm = core.GroupLasso(groups) if name == "svm-gln" else core.Frobenius()
        return core.MarginProblem(core.GatedFeatures(X, samples.gate_values), y, norm, C, name=name)
    if name in ("svm-gln", "svm-l2"):
        return (core.svm_gln if name == "svm-gln" else core.svm_l2)(X, y, core.HyperplaneGates(H, K, seed), C)
    if name == "svm-rc":
        return core.svm_rc(X, y, core.RandomHalfSpaces(H, seed), C)
    return core.svm_shallow(X, y, core.ConstantGate() if name == "linear" else core.HyperplaneGates(1, K, seed), C)


def _errors(model: core.MarginModel, samples: LabelledSamples, held_out: LabelledSamples | None) -> dict[str, Any]:
    """Print and return training and held-out error, {} if the solves were interrupted; warn of a constant model."""
    if len(model.solutions) < len(model.problems):
        return {}
    columns = [problem.y * one.margins for problem, one in zip(model.problems, model.solutions, strict=True)]
    chosen = model.chosen(columns[0] if len(columns) == 1 else np.column_stack(columns))
    errors: dict[str, Any] = {}
    errors["training"], text = _counted_errors(chosen, samples.labels)
    print(f"training error {text}")
    if held_out is not None:
        from scipy.stats import binomtest

        counts, text = _counted_errors(model.predict(held_out.X, held_out.gate_values), held_out.labels)
        errors["held_out"] = counts
        counts["interval"] = low, high = binomtest(counts["wrong"], counts["samples"]).proportion_ci(CONFIDENCE)
        interval = f"{100 * low:.2f} to {100 * high:.2f} % (Clopper–Pearson)"
        print(f"held-out error {text}, {100 * CONFIDENCE:g} % interval {interval}")
    constant = bool((chosen == chosen[0]).all())
    if constant and model.status is core.Status.OPTIMAL:
        from implicit_bias.solvers.path import zero_weights_up_to

        C, bound = model.problems[0].C, min(map(zero_weights_up_to, model.problems))
        reason = f"all weights are zero up to C = {bound:.2g}" if bound >= C else f"C = {C:g} may be too small"
        text = f"the model predicts {chosen.tolist()[0]!r} for every sample: {reason}; use --C auto"
        warnings.warn(text, stacklevel=2)
    return errors | {"constant": constant}


def _counted_errors(predicted: np.ndarray, labels: np.ndarray) -> tuple[dict[str, Any], str]:
    wrong, samples = int((predicted != labels).sum()), len(labels)
    text = f"{100 * wrong / samples:.2f} % ({wrong} of {samples} wrong)"
    return {"samples": samples, "wrong": wrong, "error": wrong / samples}, text


def _described(model: core.MarginModel, weighted: bool) -> dict[str, Any]:
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
            "standardised": model.scaling is not None,
            "classes": model.classes,
        },
    }
