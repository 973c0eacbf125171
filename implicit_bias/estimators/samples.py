"""The samples of a fit; equal ones are one of their weights together, so that weighting and repeating are the same."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from implicit_bias._utils.checks import Array, InputError, shown
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solution import Solution

#: Seeds the direction whose products tell whether rows may be equal.
_SEED = 1


@dataclass(frozen=True, eq=False)
class Posed:
    """The samples `rows` (m,) that count, their places `codes` among the classes, and the problems.

    They are one for each class, or for the second of two; or of all classes together (`svm_classes`), if `joint`.
    """

    rows: np.ndarray
    classes: np.ndarray
    codes: np.ndarray
    problems: Iterator[MarginProblem]
    joint: bool = False

    @property
    def names(self) -> list[str]:
        """Which class is +1 in each problem."""
        if self.joint:
            return ["all classes"]
        return [f"class {label}" for label in (self.classes if len(self.classes) > 2 else self.classes[1:])]

    def support(self, solutions: Sequence[Solution]) -> np.ndarray:
        """The samples among `rows` that carry any of the solutions."""
        each = np.concatenate([solution.support for solution in solutions])
        return np.unique(each // (len(self.classes) - 1) if self.joint else each)


def check_processes(n_jobs: Any) -> None:
    """Refuse what is no number of processes."""
    if n_jobs is not None and (not isinstance(n_jobs, int | np.integer) or n_jobs == 0):
        raise InputError(f"n_jobs must be a number of processes, -1 for all cores, or None; not {shown(n_jobs)}")


def merged(X: Array, codes: np.ndarray, given: Array) -> tuple[np.ndarray, Array]:
    """Which samples stand for all: their indices (m,), and weights (m,), those of samples equal to them added up.

    Samples without weight are left out, and equal ones, of one class `codes` (n,), are one. Where some are equal, or
    weights are not 1, the order is that of the samples' bytes: the same for any order of the same samples.

    >>> rows, weights = merged(np.array([[2.0], [1.0], [2.0]]), np.array([0, 1, 0]), np.ones(3))
    >>> rows.tolist(), weights.tolist()
    ([0, 1], [2.0, 1.0])
    """
    rows = np.flatnonzero(given > 0)
    weights = given[rows]
    direction = np.random.default_rng(_SEED).uniform(1, 2, X.shape[1])
    # Not by BLAS, whose sums may differ from row to row.
    keys = np.einsum("ij,j->i", X[rows], direction)
    alike = bool((weights == 1).all())
    if alike and len(rows) == len(np.unique(keys)):
        return rows, weights
    # No −0, which equals 0 but is other bytes.
    table = np.column_stack([X[rows], codes[rows]]) + 0.0
    whole = np.ascontiguousarray(table).view(np.dtype((np.void, table.itemsize * table.shape[1]))).ravel()
    _, first, place = np.unique(whole, return_index=True, return_inverse=True)
    if alike and len(first) == len(rows):
        return rows, weights
    return rows[first], np.bincount(place, weights, len(first)).astype(np.float64)
