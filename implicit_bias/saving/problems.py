"""Saving and loading of margin problems."""

import math
import os
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import scipy.sparse as sp

from implicit_bias import features as all_features
from implicit_bias import gates as all_gates
from implicit_bias import norms as all_norms
from implicit_bias._utils.checks import InputError, as_count
from implicit_bias._utils.files import open_archive, write_archive
from implicit_bias._utils.missing import torch_is_needed
from implicit_bias.features.base import UnkeptFeatures
from implicit_bias.gates import Gates
from implicit_bias.margin.classes import ClassMarginProblem
from implicit_bias.margin.constraints import LinearConstraints
from implicit_bias.margin.problem import MarginProblem, check_problem

KIND = "problem 1"
#: Largest number of inputs of gates if the features do not determine it.
MAX_INPUTS = 10**7


def save_problem(problem: MarginProblem, path: str | os.PathLike[str]) -> Path:
    """Write a margin problem to an npz file, and return its path.

    The arrays are `X` and `gate_values`, or `factors`; `y`, `C`, `required_margin`, `sample_weight`; those of norm,
    gates and linear constraints with the prefixes `norm.`, `gates.` and `constraints.`; and `classes` of a joint
    problem. The array `about` is a JSON text with the other fields, the format and its version.

    Raises
    ------
    InputError
        If `path` cannot be written, or norm or gates are user-defined code, which a file cannot contain.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from implicit_bias import HyperplaneGates, load_binary, load_problem, save_problem, solve, svm_gln
    >>> task = load_binary("digits", train_size=60)
    >>> problem = svm_gln(task.X_train, task.y_train, HyperplaneGates(4, 2))
    >>> copy = load_problem(save_problem(problem, pathlib.Path(tempfile.mkdtemp(), "problem.npz")))
    >>> solve(copy).objective == solve(problem).objective
    True
    """
    return write_archive(path, KIND, *problem_parts(problem))


def problem_parts(problem: MarginProblem, samples: bool = True) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return a problem, with or without its samples, as a JSON dictionary and arrays; InputError as `save_problem`."""
    check_problem(problem)
    features, norm, gates = problem.features, problem.norm, problem.gates
    samples = samples and features.kept
    if samples and not _can_save(all_features, features):
        text = f"{type(features).__name__} are user-defined or read from elsewhere and cannot be saved"
        remedy = "use features of this package, or add the class to implicit_bias.features with its `made_of`"
        raise InputError(f"{text}: {remedy}")
    if not _can_save(all_norms, norm):
        text = f"{norm!r} is user-defined and cannot be saved: use a norm of this package"
        raise InputError(f"{text}, or add the class to implicit_bias.norms with its `made_of`")
    arrays = _parts(features, features.made_of) if samples else {}
    arrays |= {f"norm.{name}": values for name, values in _parts(norm, norm.made_of).items()}
    arrays |= _parts(problem, ("y", "C", "required_margin", "sample_weight"))
    about_gates: dict[str, Any] = {"gates": None, "parameters": {}}
    if gates is not None:
        about_gates, held = gate_parts(gates)
        arrays |= held
    if problem.constraints is not None:
        E = problem.constraints.E.tocoo()
        rows, columns = E.coords
        arrays |= {"constraints.row": rows, "constraints.column": columns, "constraints.value": E.data}
        arrays |= {"constraints.equal": problem.constraints.equal, "constraints.h": problem.constraints.h}
    if isinstance(problem, ClassMarginProblem):
        arrays["classes"] = np.asarray(problem.classes)
    about = {"name": problem.name, "intercept": bool(problem.intercept), "norm": type(norm).__name__}
    about |= {"features": type(features).__name__} if samples else {"unkept": [*features.shape, features.gated]}
    return about | about_gates, arrays


def gate_parts(gates: Gates) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return fitted gates as a JSON dictionary and arrays; raise InputError for gates that cannot be saved."""
    if not _can_save(all_gates, gates):
        text = f"{type(gates).__name__} cannot be saved; pickle the estimator that has them"
        other = "dataclasses.replace(problem, gates=None), which has the same solution but cannot score new inputs"
        raise InputError(f"{text}, or save {other}")
    if isinstance(gates, all_gates.KernelExpansions):
        gates.require_named()
    arrays = {f"gates.{name}": values for name, values in _parts(gates, gates.learned).items()}
    given = {name: getattr(gates, name) for name in gates.made_of or () if name not in gates.learned}
    if "network" in given:
        from implicit_bias.saving.networks import network_parts

        given["network"], held = network_parts(given["network"])
        arrays |= {f"network.{name}": values for name, values in held.items()}
    # JSON supports only Python's own numbers.
    parameters = {name: value.item() if isinstance(value, np.generic) else value for name, value in given.items()}
    return {"gates": type(gates).__name__, "parameters": parameters}, arrays


def _can_save(module: ModuleType, thing: Any) -> bool:
    kind = type(thing)
    return getattr(module, kind.__name__, None) is kind and kind.made_of is not None


def _parts(thing: Any, names: tuple[str, ...] | None) -> dict[str, np.ndarray]:
    return {name: np.asarray(getattr(thing, name)) for name in names or ()}


def load_problem(path: str | os.PathLike[str]) -> MarginProblem:
    """Load a margin problem that `save_problem` wrote.

    Raises
    ------
    InputError
        If the file is missing, damaged or of another kind, or its content is not a valid margin problem.

    Examples
    --------
    >>> from implicit_bias import load_problem
    >>> try:
    ...     load_problem("nowhere.npz")
    ... except ValueError as error:
    ...     print(error)
    nowhere.npz is not a readable file; check the path
    """
    with open_archive(path, KIND) as (about, arrays):
        return problem_of(about, arrays)


def problem_of(about: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> MarginProblem:
    """Return the problem that `problem_parts` converted; raise any exception for invalid content."""
    kinds: list[Any] = [getattr(all_features, name) for name in all_features.__all__]
    saved = [kind for kind in kinds if issubclass(kind, all_features.Features) and kind.made_of is not None]
    features: all_features.Features
    if "unkept" not in about:
        # Files of earlier versions do not contain the name of the class.
        named = [kind for kind in saved if kind.__name__ == about.get("features", kind.__name__)]
        made = next(kind for kind in named if set(kind.made_of) <= set(arrays))
        features = made(*(_unwrapped(arrays[name]) for name in made.made_of))
    else:
        *sizes, gated = about["unkept"]
        n, k, d = (as_count(size, "a size") for size in sizes)
        if max(k, d) > MAX_INPUTS:
            raise InputError(f"it has more than {MAX_INPUTS} gates or inputs")
        features = UnkeptFeatures((n, k, d), bool(gated))
    norm, constraints = getattr(all_norms, about["norm"]), None
    if "constraints.equal" in arrays:
        equal, shape = arrays["constraints.equal"].astype(bool), (features.k, features.d)
        places = (arrays["constraints.row"], arrays["constraints.column"])
        E = sp.csr_array((arrays["constraints.value"], places), shape=(len(equal), features.k * features.d))
        constraints = LinearConstraints(E, equal, shape, arrays["constraints.h"])
    outputs = len(arrays["classes"]) if "classes" in arrays else 1
    gates = None if about["gates"] is None else gates_of(about, arrays, features, outputs)
    made = norm(*(_unwrapped(arrays[f"norm.{name}"]) for name in norm.made_of))
    margin, weight = (_unwrapped(arrays[name]) for name in ("required_margin", "sample_weight"))
    first = features, arrays["y"], made, arrays["C"].item(), gates, about["name"], margin, weight, about["intercept"]
    parts = *first, constraints
    return ClassMarginProblem(*parts, arrays["classes"]) if "classes" in arrays else MarginProblem(*parts)


def gates_of(about: dict[str, Any], arrays: Mapping[str, np.ndarray], features: Any, outputs: int = 1) -> Gates:
    """Return the gates that `gate_parts` converted; raise InputError unless features have `outputs` times as many."""
    parameters, make = about["parameters"], getattr(all_gates, about["gates"])
    given = {name: arrays[f"gates.{name}"] for name in make.learned}
    # Sizes are checked before arrays of these sizes are allocated.
    size = math.prod(parameters.get(name, 1) for name in ("units", "contexts"))
    max_inputs = features.d if features.gated and "network" not in parameters else MAX_INPUTS
    wrong = size > features.k or given.get("n_features_in_", 0) > max_inputs
    if "network" in parameters:
        with torch_is_needed("a model of a network's hidden units"):
            from implicit_bias.saving.networks import network_of

        held = {name.removeprefix("network."): arrays[name] for name in arrays if name.startswith("network.")}
        parameters = {"network": network_of(parameters["network"], held)}
    if not wrong:
        gates: Gates = make(*((parameters | given)[name] for name in make.made_of))
        gates.restore(**given)
        made = gates(np.zeros((1, gates.n_features_in_)))
        if (outputs * made.k, made.d) == (features.k, features.d):
            return gates
    raise InputError(f"its gates do not match the {features.k} gates and {features.d} inputs of its features")


def _unwrapped(values: np.ndarray) -> Any:
    return values.item() if values.ndim == 0 else values
