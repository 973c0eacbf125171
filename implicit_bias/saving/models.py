"""Saving and loading of models: scaling, problems, solutions, classes and columns in one file, without code."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from implicit_bias._utils.checks import InputError, as_flag, shown
from implicit_bias._utils.files import open_archive, write_archive
from implicit_bias.datasets.labels import Labelled, columns_of
from implicit_bias.datasets.scaling import Scaling
from implicit_bias.datasets.tables import Columns
from implicit_bias.margin import model as core_models
from implicit_bias.margin.model import MarginModel
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.saving.names import class_name, named_class
from implicit_bias.saving.problems import problem_of, problem_parts
from implicit_bias.saving.solutions import solution_of, solution_parts

KIND = "model 6"

#: Operations of scikit-learn's scalers in the order in which they are computed; None is left out.
SCALERS: dict[str, Callable[[Any], list[tuple[str, Any]]]] = {
    "StandardScaler": lambda s: [
        ("subtract", s.mean_ if s.with_mean else None),
        ("divide", s.scale_ if s.with_std else None),
    ],
    "SimpleImputer": lambda s: [("fill", s.statistics_ if np.isnan(s.missing_values) else [np.nan])],
    "RobustScaler": lambda s: [
        ("subtract", s.center_ if s.with_centering else None),
        ("divide", s.scale_ if s.with_scaling else None),
    ],
    "MinMaxScaler": lambda s: [
        ("multiply", s.scale_),
        ("add", s.min_),
        *(_limits(s.n_features_in_, *s.feature_range) if s.clip else ()),
    ],
    "MaxAbsScaler": lambda s: [("divide", s.scale_), *(_limits(s.n_features_in_, -1.0, 1.0) if s.clip else ())],
}


def save_model(model: Any, path: str | os.PathLike[str], *, samples: bool = False) -> Path:
    """Write a model, a fitted estimator or a pipeline to an npz file: norms, gates, weights and certified solutions.

    An estimator, or a pipeline of scalers and an estimator, is loaded as a model with the same predictions. Its
    `scaling` contains the scalers. The file contains the inputs of the samples only if `samples` is True.

    The arrays are those of `save_problem`, without the features, and of `save_solution`, with the prefixes `problem0.`,
    `solution0.`, and so on. Further problems that differ only in their labels have only the array `y`. To certify a
    model that was loaded without samples, replace the features of its problems:
    `replace(problem, features=problem.gates(model.inputs(X)))`. The arrays of a least-squares model are those of its
    gates, `solution.…` and `intercept`. `scaling` (operations, p) and `ranges` (2, p) belong to both.

    Parameters
    ----------
    model : MarginModel, LeastSquaresModel, estimator with `as_model()`, or pipeline
        Fitted. The steps of a pipeline before the estimator are StandardScaler, MinMaxScaler, RobustScaler,
        MaxAbsScaler, or SimpleImputer for NaN.
    path : path
        Of the file, which is also returned.
    samples : bool
        Include the inputs of the samples if the model has them. The file then suffices to certify the solutions, and
        contains the data.

    Raises
    ------
    InputError
        If `path` cannot be written, a pipeline has other steps, or norm, gates or kernels are user-defined code, which
        a file cannot contain.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from implicit_bias import HyperplaneGates, MarginModel, certify, load_binary, load_model
    >>> from implicit_bias import save_model, solve, svm_gln
    >>> task = load_binary("digits", train_size=60)
    >>> problem = svm_gln(task.X_train, task.y_train, HyperplaneGates(4, 2))
    >>> model = MarginModel([problem], [solve(problem)], classes=task.classes)
    >>> again = load_model(save_model(model, pathlib.Path(tempfile.mkdtemp(), "model.npz"), samples=True))
    >>> bool((again.predict(task.X_val) == model.predict(task.X_val)).all())
    True
    >>> certify(again.problems[0], again.solutions[0].weights, again.solutions[0].dual).gap < 1e-6
    True
    """
    content = _model_of(model)
    name = class_name(type(content), core_models)
    if name is None or not issubclass(type(content), Labelled):
        text = "model must be a MarginModel, a fitted estimator of this package, or a pipeline of scalers and such an"
        raise InputError(f"{text} estimator (of a search, its best_estimator_), not {shown(model)}")
    samples = as_flag(samples, "samples")
    if isinstance(content, MarginModel):
        about, arrays = _margin_parts(content, samples)
    else:
        # Models of extensions have this method, and a class method `from_parts` that converts its results back.
        about, arrays = content.parts()
        about["model"] = name
    about |= {"constant": bool(content.constant), "dtype": None if content.dtype is None else content.dtype.str}
    about["classes"] = None if content.classes is None else list(content.classes)
    about["columns"] = None if content.columns is None else content.columns._asdict()
    about["scaling"] = None if content.scaling is None else content.scaling.names
    arrays |= {} if content.scaling is None else {"scaling": content.scaling.values}
    arrays |= {} if content.ranges is None else {"ranges": content.ranges}
    return write_archive(path, KIND, about, arrays)


def _model_of(fitted: Any) -> Any:
    steps = [] if isinstance(fitted, type) else list(_steps_of(fitted))
    if not steps or not callable(getattr(steps[-1], "as_model", None)):
        return fitted
    model = steps[-1].as_model()
    operations = [operation for step in steps[:-1] for operation in _operations_of(step)]
    ranges, columns = model.ranges, columns_of(steps[0]) or model.columns
    if not operations:
        return replace(model, columns=columns)
    scaling = Scaling(operations)
    return replace(model, columns=columns, scaling=scaling, ranges=None if ranges is None else scaling.undone(ranges))


def _steps_of(fitted: Any) -> Iterator[Any]:
    if not isinstance(getattr(fitted, "steps", None), list):
        yield fitted
        return
    for _, step in fitted.steps:
        if step not in (None, "passthrough"):
            yield from _steps_of(step)


def _operations_of(scaler: Any) -> list[tuple[str, Any]]:
    # Without its module there is no scaler, and importing it takes a second.
    modules = [sys.modules.get(f"sklearn.{name}") for name in ("preprocessing", "impute")]
    name = next((name for module in modules if module and (name := class_name(type(scaler), module))), None)
    if name not in SCALERS:
        remedy = "apply it to the inputs yourself and save the rest of the pipeline"
        text = f"{type(scaler).__name__} cannot be saved in front of a model"
        raise InputError(f"{text}: {remedy}, or use {', '.join(SCALERS)}")
    return [(name, values) for name, values in SCALERS[name](scaler) if values is not None]


def _limits(columns: int, low: float, high: float) -> list[tuple[str, np.ndarray]]:
    return [("maximum", np.full(columns, low)), ("minimum", np.full(columns, high))]


def _margin_parts(model: MarginModel, samples: bool) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    first, abouts = model.problems[0], []
    arrays: dict[str, np.ndarray] = {}
    for i, problem in enumerate(model.problems):
        is_complete = i == 0 or not _differ_only_in_labels(problem, first)
        about, held = problem_parts(problem, samples) if is_complete else (None, {"y": problem.y})
        abouts.append(about)
        arrays |= {f"problem{i}.{name}": values for name, values in held.items()}
    solutions = [solution_parts(solution) for solution in model.solutions]
    for i, (_, held) in enumerate(solutions):
        arrays |= {f"solution{i}.{name}": values for name, values in held.items()}
    return {"problems": abouts, "solutions": [about for about, _ in solutions], "offset": model.offset}, arrays


def _differ_only_in_labels(problem: MarginProblem, first: MarginProblem) -> bool:
    same = all(getattr(problem, name) is getattr(first, name) for name in ("features", "norm", "gates", "constraints"))
    same = same and all(getattr(problem, name) == getattr(first, name) for name in ("C", "name", "intercept"))
    weights = ("required_margin", "sample_weight")
    return same and all(np.array_equal(getattr(problem, name), getattr(first, name)) for name in weights)


def load_model(path: str | os.PathLike[str]) -> Any:
    """Load a model that `save_model` or `implicit-bias solve` wrote.

    Returns
    -------
    MarginModel, or the model of an extension, such as LeastSquaresModel

    Raises
    ------
    InputError
        If the file is missing, damaged or of another kind, or problems, solutions and classes do not match.

    Examples
    --------
    >>> from implicit_bias import load_model
    >>> try:
    ...     load_model("nowhere.npz")
    ... except ValueError as error:
    ...     print(error)
    nowhere.npz is not a readable file; check the path
    """
    with open_archive(path, KIND) as (about, arrays):
        columns = None if about["columns"] is None else Columns(**about["columns"])
        shared = {"columns": columns} | {name: about[name] for name in ("classes", "constant", "dtype")}
        if about["scaling"] is not None:
            shared["scaling"] = Scaling(zip(about["scaling"], arrays["scaling"], strict=True))
        shared["ranges"] = arrays.get("ranges")
        if "model" in about:
            return named_class(about["model"], core_models, Labelled).from_parts(about, arrays, **shared)
        problems: list[MarginProblem] = []
        for i, entry in enumerate(about["problems"]):
            held = _under(f"problem{i}.", arrays)
            problems.append(replace(problems[0], y=held["y"]) if entry is None else problem_of(entry, held))
        solutions = [solution_of(one, _under(f"solution{i}.", arrays)) for i, one in enumerate(about["solutions"])]
        return MarginModel(problems, solutions, offset=about["offset"], **shared)


def _under(prefix: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): arrays[name] for name in arrays if name.startswith(prefix)}
