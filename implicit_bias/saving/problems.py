"""Saving and loading margin problems."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from implicit_bias.features import Features, GatedFeatures, KernelFeatures
from implicit_bias.gates import ConstantGate, Gates, HyperplaneGates, RandomHalfSpaces, ReLUGates
from implicit_bias.gates.thresholds import ThresholdGates
from implicit_bias.ground.archives import read_archive, write_archive
from implicit_bias.ground.checks import InputError, as_numbers
from implicit_bias.margin.constraints import LinearConstraints
from implicit_bias.margin.norms import Frobenius, GroupLasso, Norm, PredictorL2
from implicit_bias.margin.problem import MarginProblem

KIND = "problem 1"
#: The features that a file can hold, told apart by their first array.
FEATURES: tuple[type[Features], ...] = (GatedFeatures, KernelFeatures)
#: The norms that a file can hold, and what each is made from again.
NORMS: dict[str, tuple[type[Norm], tuple[str, ...]]] = {
    "Frobenius": (Frobenius, ()),
    "GroupLasso": (GroupLasso, ("groups", "weights")),
    "PredictorL2": (PredictorL2, ("units", "contexts")),
}
#: The gates that a file can hold.
GATES: dict[str, type[Gates]] = {
    kind.__name__: kind for kind in (ConstantGate, HyperplaneGates, RandomHalfSpaces, ReLUGates)
}


def save_problem(problem: MarginProblem, path: str | os.PathLike[str]) -> Path:
    """Write a margin problem to `path` (npz): its arrays, and the rest with format and version as JSON in `about`.

    Arrays: `X` and `gate_values`, or `factors`; `y`, `C`, `required_margin`, `sample_weight`; those of norm, gates and
    linear constraints under `norm.…`, `gates.…` and `constraints.…`.

    Raises
    ------
    InputError
        If `path` cannot be written, or norm or gates are code of your own, which a file does not hold.

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
    if not isinstance(problem, MarginProblem):
        raise InputError(f"problem must be a MarginProblem, not {problem!r:.60}")
    features, norm = problem.features, type(problem.norm).__name__
    if type(features) not in FEATURES:
        raise InputError(f"{type(features).__name__} are code of your own, which a file does not hold")
    arrays: dict[str, Any] = {name: getattr(features, name) for name in features.arrays}
    arrays |= {name: np.asarray(getattr(problem, name)) for name in ("y", "required_margin", "sample_weight")}
    if NORMS.get(norm, (None,))[0] is not type(problem.norm):
        raise InputError(
            f"{problem.norm!r} is code of your own, which a file does not hold; take a norm of this package"
        )
    arrays |= {f"norm.{name}": np.asarray(getattr(problem.norm, name)) for name in NORMS[norm][1]}
    gates: str | None = None
    parameters: dict[str, Any] = {}
    if problem.gates is not None:
        gates = type(problem.gates).__name__
        parameters, own = _of_gates(problem.gates)
        arrays |= {f"gates.{name}": values for name, values in own.items()}
    if problem.constraints is not None:
        E = problem.constraints.E.tocoo()
        rows, columns = E.coords
        arrays |= {"constraints.row": rows, "constraints.column": columns, "constraints.value": E.data}
        arrays["constraints.equal"] = problem.constraints.equal
    arrays["C"] = np.array(problem.C)
    about = {"name": problem.name, "intercept": bool(problem.intercept), "norm": norm}
    return write_archive(path, KIND, about | {"gates": gates, "parameters": parameters}, arrays)


def load_problem(path: str | os.PathLike[str]) -> MarginProblem:
    """The margin problem that `save_problem` wrote to `path`.

    Raises
    ------
    InputError
        If the file is missing, damaged, of another version, or holds what no margin problem can be.

    Examples
    --------
    >>> from implicit_bias import load_problem
    >>> try:
    ...     load_problem("nowhere.npz")
    ... except ValueError as error:
    ...     print(error)
    nowhere.npz is not a readable file; check the path
    """
    about, arrays = read_archive(path, KIND)
    try:
        return _restored(about, arrays)
    except InputError as error:
        raise InputError(f"{path} holds no margin problem: {error}") from None
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, StopIteration) as error:
        raise InputError(f"{path} is damaged or not a saved problem ({type(error).__name__})") from None


def _restored(about: dict[str, Any], arrays: dict[str, np.ndarray]) -> MarginProblem:
    made: Any = next(kind for kind in FEATURES if kind.arrays[0] in arrays)
    features = made(*(arrays[name] for name in made.arrays))
    norm, names = NORMS[about["norm"]]
    given = {name: arrays[f"norm.{name}"] for name in names}
    one = lambda values: values.item() if values.ndim == 0 else values  # noqa: E731
    constraints = None
    if "constraints.equal" in arrays:
        equal, shape = arrays["constraints.equal"].astype(bool), (features.k, features.d)
        places = (arrays["constraints.row"], arrays["constraints.column"])
        E = sp.csr_array((arrays["constraints.value"], places), shape=(len(equal), features.k * features.d))
        constraints = LinearConstraints(E, equal, shape)
    gates = None if about["gates"] is None else _gates(about["gates"], about["parameters"], arrays)
    if gates is not None and gates(np.zeros((1, gates.n_features_in_))).k != features.k:
        raise InputError(f"its gates are not the {features.k} of its features")
    return MarginProblem(
        features,
        arrays["y"],
        norm(**{name: one(values) for name, values in given.items()}),
        arrays["C"].item(),
        gates,
        about["name"],
        one(arrays["required_margin"]),
        one(arrays["sample_weight"]),
        about["intercept"],
        constraints,
    )


def _of_gates(gates: Gates) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The plain parameters of fitted gates, and the arrays that fitting gave them."""
    if GATES.get(type(gates).__name__) is not type(gates):
        raise InputError(
            f"{type(gates).__name__} cannot be saved; save dataclasses.replace(problem, gates=None), which solves "
            "alike but cannot score new inputs"
        )
    given = {name: value for name, value in gates.get_params().items() if name != "weights"}
    # JSON holds Python's own numbers only.
    parameters = {name: value.item() if isinstance(value, np.generic) else value for name, value in given.items()}
    names = ("directions_", "cutoffs_") if hasattr(gates, "directions_") else ()
    arrays = {name: np.asarray(getattr(gates, name)) for name in names}
    return parameters, arrays | {"n_features_in_": np.array(gates.n_features_in_)}


def _gates(kind: str, parameters: dict[str, Any], arrays: dict[str, np.ndarray]) -> Gates:
    make: Callable[..., Gates] = GATES[kind]
    gates = make(arrays["gates.directions_"]) if make is ReLUGates else make(**parameters)
    gates.n_features_in_ = int(arrays["gates.n_features_in_"])
    if isinstance(gates, ThresholdGates):
        # One context has no hyperplanes.
        planes, directions = np.size(arrays["gates.cutoffs_"]), arrays["gates.directions_"]
        gates.directions_ = as_numbers(directions, (planes, gates.n_features_in_), "the gates' directions")
        gates.cutoffs_ = as_numbers(arrays["gates.cutoffs_"], (planes,), "the gates' cutoffs")
        if not (np.isfinite(gates.directions_).all() and np.isfinite(gates.cutoffs_).all()):
            raise InputError("the gates' hyperplanes are not finite")
    return gates
