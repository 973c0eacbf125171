"""Saving and loading of solutions as npz files with JSON inside; loading executes no code."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from implicit_bias._utils.checks import InputError, shown
from implicit_bias._utils.files import open_archive, write_archive
from implicit_bias.margin.solution import Solution, Status

KIND = "solution 3"
#: The arrays and their numbers of dimensions.
_ARRAYS = {"weights": 2, "dual": 1, "margins": 1, "multipliers": 1}
#: Difference of gaps that rounding may cause, because versions may sum in different orders.
_ROUNDING = 1e-9
_FLOATS = ("objective", "lower_bound", "gap", "farkas_residual", "intercept", "seconds", "tol")


def save_solution(solution: Solution, path: str | os.PathLike[str]) -> Path:
    """Write a solution with its certificate to an npz file, and return its path.

    Numbers are arrays with the names of the attributes. The array `about` is a JSON text with the other attributes.

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
    return write_archive(path, KIND, *solution_parts(solution))


def solution_parts(solution: Solution) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return a solution as a JSON dictionary and arrays; raise InputError if it is not a Solution."""
    if not isinstance(solution, Solution):
        raise InputError(f"solution must be a Solution (from solve), not {shown(solution)}")
    about = {"status": solution.status.name, "solver": solution.solver, "iterations": int(solution.iterations)}
    about["reason"] = solution.reason
    arrays = {name: np.asarray(getattr(solution, name)) for name in (*_ARRAYS, *_FLOATS)}
    # Without the time, equal solutions have equal files.
    return about, arrays | {"seconds": np.zeros(())}


def load_solution(path: str | os.PathLike[str]) -> Solution:
    """Load a solution that `save_solution` wrote.

    The numbers are checked against each other. To verify them against the problem, call `certify`.

    Raises
    ------
    InputError
        If the file is missing, damaged or of another kind, or its numbers contradict each other.

    Examples
    --------
    >>> from implicit_bias import load_solution
    >>> try:
    ...     load_solution("nowhere.npz")
    ... except ValueError as error:
    ...     print(error)
    nowhere.npz is not a readable file; check the path
    """
    with open_archive(path, KIND) as (about, arrays):
        return solution_of(about, arrays)


def solution_of(about: dict[str, Any], arrays: Mapping[str, np.ndarray]) -> Solution:
    """Return the solution that `solution_parts` converted; raise InputError if its numbers contradict each other."""
    fields: dict[str, Any] = {name: arrays[name] for name in _ARRAYS}
    fields |= {name: arrays[name].item() for name in _FLOATS}
    fields |= {name: about[name] for name in ("solver", "iterations", "reason")}
    valid = len(fields["margins"]) == len(fields["dual"])
    valid = valid and all((fields[k].ndim, fields[k].dtype.kind) == (ndim, "f") for k, ndim in _ARRAYS.items())
    valid = valid and all(isinstance(fields[name], float) for name in _FLOATS)
    valid = valid and all(isinstance(fields[name], str) for name in ("solver", "reason"))
    if not (valid and isinstance(fields["iterations"], int)):
        raise TypeError("not a solution")
    solution = Solution(**fields, status=Status[about["status"]])
    for sentence, wrong in _contradictions(solution).items():
        if wrong:
            raise InputError(sentence)
    return solution


def _contradictions(solution: Solution) -> dict[str, bool]:
    """Return a dict from the description of each possible contradiction to True if this solution has it."""
    status, proof, optimal = solution.status, solution.status.inseparable, solution.status is Status.OPTIMAL
    values = np.concatenate([solution.weights.ravel(), solution.margins])
    numbers = [*solution.dual, *solution.multipliers, solution.intercept, solution.seconds, solution.tol]
    sizes = [solution.objective, solution.lower_bound, solution.farkas_residual, solution.seconds, solution.tol]
    gap = np.inf
    if solution.objective < np.inf:
        gap = 0.0 if solution.objective == 0 else (solution.objective - solution.lower_bound) / solution.objective
    wrong_gap = gap != solution.gap and not abs(gap - solution.gap) <= _ROUNDING * max(1.0, abs(gap))
    total = float(solution.dual.sum() or np.abs(solution.multipliers).sum())
    exact = {Status.NOT_SEPARABLE: bool(solution.dual.any()), Status.INFEASIBLE: not solution.dual.any()}
    return {
        "weights or margins are NaN or infinite": not proof and not np.isfinite(values).all(),
        "weights or margins in spite of a proof that no weights separate": proof and not np.isnan(values).all(),
        "the dual or another number is NaN or infinite": not np.isfinite(numbers).all(),
        "the dual is negative": bool((solution.dual < 0).any()),
        "a number that cannot be negative is": not all(size >= 0 for size in sizes) or solution.iterations < -1,
        "the gap does not match the bounds": bool(wrong_gap),
        "the lower bound exceeds the objective": bool(gap < 0),
        "OPTIMAL, but the gap exceeds tol": optimal and not solution.gap <= solution.tol < 1,
        "not separable, but the dual proves nothing": proof and not (solution.objective == np.inf and total > 0),
        "a lower bound without a dual": solution.lower_bound > 0 and not total > 0,
        "an infinite lower bound without NOT_SEPARABLE or INFEASIBLE, or vice versa": (solution.lower_bound == np.inf)
        != (status in exact),
        "NOT_SEPARABLE without a dual, or INFEASIBLE with one": not exact.get(status, True),
        "the dual of a proof does not have the sum 1": status in exact and not abs(total - 1) <= _ROUNDING,
    }
