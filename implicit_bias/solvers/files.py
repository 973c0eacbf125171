"""Saving and loading solutions: NumPy's npz format with JSON inside; loading executes no code."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from implicit_bias.archives import read_archive, write_archive
from implicit_bias.checks import InputError
from implicit_bias.solvers.solution import Solution, Status

KIND = "solution 2"
_ARRAYS = ("weights", "dual", "margins", "multipliers")
_FLOATS = ("objective", "lower_bound", "gap", "farkas_residual", "intercept", "violation", "seconds", "tol")


def save_solution(solution: Solution, path: str | os.PathLike[str], **more: Any) -> Path:
    """Write a solution with its certificate to `path` (npz), and any `more` arrays beside it.

    Its numbers are arrays under their own names; status, solver and iterations are a JSON text in the array `about`.

    Raises
    ------
    InputError
        If `path` cannot be written.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from implicit_bias import ConstantGate, load_solution, save_solution, solve, svm_gln
    >>> solution = solve(svm_gln([[2.0, 1.0], [-2.0, 1.0]], [1, -1], ConstantGate()))
    >>> path = save_solution(solution, pathlib.Path(tempfile.mkdtemp(), "solution.npz"))
    >>> load_solution(path).objective == solution.objective
    True
    """
    about = {"status": solution.status.name, "solver": solution.solver, "iterations": int(solution.iterations)}
    arrays = {name: np.asarray(getattr(solution, name)) for name in _ARRAYS + _FLOATS}
    clash = {"about", *arrays} & set(more)
    if clash:
        raise InputError(f"the names {sorted(clash)} are taken by the solution's own arrays; choose others")
    return write_archive(path, KIND, about, arrays | more)


def load_solution(path: str | os.PathLike[str]) -> Solution:
    """The solution that `save_solution` wrote to `path`.

    Raises
    ------
    InputError
        If the file is missing, damaged, or not such a file.

    Examples
    --------
    >>> from implicit_bias import load_solution
    >>> try:
    ...     load_solution("nowhere.npz")
    ... except ValueError as error:
    ...     print(error)
    nowhere.npz is not a readable file; check the path
    """
    about, arrays = read_archive(path, KIND)
    try:
        fields: dict[str, Any] = {name: arrays[name] for name in _ARRAYS} | {
            name: arrays[name].item() for name in _FLOATS
        }
        fields |= {name: about[name] for name in ("solver", "iterations")}
        return Solution(**fields, status=Status[about["status"]])
    except (KeyError, ValueError) as error:
        raise InputError(f"{path} is damaged or not a saved solution ({type(error).__name__})") from None
