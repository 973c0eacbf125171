"""Saving and loading solutions: NumPy's npz format with JSON inside; loading executes no code."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from implicit_bias.checks import InputError, as_file
from implicit_bias.files import write_atomically
from implicit_bias.solvers.solution import Solution, Status

FORMAT = "implicit_bias solution 1"
_ARRAYS = ("weights", "dual", "margins")
_NUMBERS = ("objective", "lower_bound", "gap", "farkas_residual", "iterations", "seconds", "solver", "tol")


def save_solution(solution: Solution, path: str | os.PathLike[str], **more: Any) -> Path:
    """Write a solution with its certificate to `path` (npz), and any `more` arrays beside it.

    Arrays `weights`, `dual`, `margins`; the rest is a JSON text in the array `about`.

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
    about = {"format": FORMAT, "status": solution.status.name} | {name: getattr(solution, name) for name in _NUMBERS}
    arrays = {name: getattr(solution, name) for name in _ARRAYS}
    clash = {"about", *arrays} & set(more)
    if clash:
        raise InputError(f"the names {sorted(clash)} are taken by the solution's own arrays; choose others")
    buffer = io.BytesIO()
    np.savez_compressed(buffer, about=json.dumps(about), **arrays, **more)
    return write_atomically(path, buffer.getvalue())


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
    file = as_file(path)
    try:
        with np.load(file, allow_pickle=False) as content:
            about = json.loads(str(content["about"]))
            if about["format"] != FORMAT:
                raise KeyError(about["format"])
            arrays = {name: content[name] for name in _ARRAYS}
        fields = {name: about[name] for name in _NUMBERS}
        return Solution(**arrays, **fields, status=Status[about["status"]])
    except Exception as error:
        # A damaged archive provokes errors of many kinds.
        raise InputError(f"{path} is damaged or not a saved solution ({type(error).__name__})") from None
