"""Saving and loading of models: problems, solutions, classes and columns in one file; loading executes no code."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from implicit_bias._utils.checks import InputError, shown
from implicit_bias._utils.files import open_archive, write_archive
from implicit_bias.datasets.labels import Labelled
from implicit_bias.datasets.tables import Columns
from implicit_bias.margin import model as core_models
from implicit_bias.margin.model import MarginModel
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.saving.names import class_name, named_class
from implicit_bias.saving.problems import problem_of, problem_parts
from implicit_bias.saving.solutions import solution_of, solution_parts

KIND = "model 5"


class Model(Protocol):
    """Model of an extension: a subclass of `Labelled` that is converted to and from arrays."""

    def parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return a JSON dictionary and arrays that `from_parts` converts back to the model."""

    @classmethod
    def from_parts(cls, about: dict[str, Any], arrays: Mapping[str, np.ndarray], **shared: Any) -> Any:
        """Return the model; `shared` contains classes, columns, constant and dtype."""


class Fitted(Protocol):
    """Fitted estimator of this package."""

    def as_model(self) -> MarginModel | Model:
        """Return a model with the predictions of the estimator."""


def save_model(model: MarginModel | Model | Fitted, path: str | os.PathLike[str], *, samples: bool = False) -> Path:
    """Write a model or a fitted estimator to an npz file: norms, gates, weights and certified solutions.

    The file contains the inputs of the samples only if `samples` is True. An estimator is loaded as a model with the
    same predictions.

    The arrays are those of `save_problem`, without the features, and of `save_solution`, with the prefixes `problem0.`,
    `solution0.`, and so on. Further problems that differ only in their labels have only the array `y`. To certify a
    model that was loaded without samples, replace the features of its problems:
    `replace(problem, features=problem.gates(X))`. The arrays of a least-squares model are those of its gates,
    `solution.…` and `intercept`.

    Parameters
    ----------
    model : MarginModel, LeastSquaresModel, or an estimator with `as_model()`
    path : path
    samples : bool
        Include the inputs of the samples if the model has them. The file then suffices to certify the solutions, and
        contains the data.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    InputError
        If `path` cannot be written, or norm, gates or kernels are user-defined code, which a file cannot contain.

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
    found: Any = model
    if not isinstance(model, type) and callable(getattr(model, "as_model", None)):
        found = found.as_model()
    name = class_name(type(found), core_models)
    if name is None or not issubclass(type(found), Labelled):
        raise InputError(
            "model must be a MarginModel or a fitted estimator of this package, such as the last step of a "
            f"pipeline, not {shown(model)}"
        )
    if not isinstance(samples, bool | np.bool_):
        raise InputError(f"samples must be True or False, not {shown(samples)}")
    if isinstance(found, MarginModel):
        about, arrays = _margin_parts(found, bool(samples))
    else:
        about, arrays = found.parts()
        about["model"] = name
    about |= {"constant": bool(found.constant), "dtype": None if found.dtype is None else found.dtype.str}
    about["classes"] = None if found.classes is None else list(found.classes)
    about["columns"] = None if found.columns is None else found.columns._asdict()
    return write_archive(path, KIND, about, arrays)


def _margin_parts(model: MarginModel, samples: bool) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return problems, solutions and offset as a JSON dictionary and arrays with the prefixes of `save_model`."""
    first, abouts = model.problems[0], []
    arrays: dict[str, np.ndarray] = {}
    for i, problem in enumerate(model.problems):
        whole = i == 0 or not _differ_only_in_labels(problem, first)
        about, held = problem_parts(problem, samples) if whole else (None, {"y": problem.y})
        abouts.append(about)
        arrays |= {f"problem{i}.{name}": values for name, values in held.items()}
    solutions = []
    for i, solution in enumerate(model.solutions):
        about, held = solution_parts(solution)
        solutions.append(about)
        arrays |= {f"solution{i}.{name}": values for name, values in held.items()}
    return {"problems": abouts, "solutions": solutions, "offset": model.offset}, arrays


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
        if "model" in about:
            return named_class(about["model"], core_models, Labelled).from_parts(about, arrays, **shared)
        problems: list[MarginProblem] = []
        for i, entry in enumerate(about["problems"]):
            held = _with_prefix(f"problem{i}.", arrays)
            problems.append(replace(problems[0], y=held["y"]) if entry is None else problem_of(entry, held))
        solutions = [
            solution_of(entry, _with_prefix(f"solution{i}.", arrays)) for i, entry in enumerate(about["solutions"])
        ]
        return MarginModel(problems, solutions, offset=about["offset"], **shared)


def _with_prefix(prefix: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): arrays[name] for name in arrays if name.startswith(prefix)}
