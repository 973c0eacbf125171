"""Argument checks of the searches, and their loop with a time limit and Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pandas as pd

from implicit_bias._utils.checks import Array, as_floats, as_signs, check_callable, check_range
from implicit_bias._utils.floats import largest_entries
from implicit_bias._utils.limits import Deadline

Progress = Callable[[dict[str, float]], None]


def search_arguments(
    X: Any, y: Any, max_seconds: float | None, progress: Progress | None
) -> tuple[Array, Array, Deadline]:
    """Check the arguments that all searches share; return X (n, d), labels ±1 (n,), and the deadline."""
    X = as_floats(X, "X", 2)
    check_range(largest_entries(X).max(keepdims=True), "the inputs X", 1e-100, 1e100)
    y = as_signs(y, len(X))
    check_callable(progress, "progress")
    return X, y, Deadline(max_seconds)


def run_with_limits(
    steps: Iterable[dict[str, float]], count: str, deadline: Deadline, progress: Progress | None
) -> tuple[str, pd.DataFrame]:
    """Iterate over `steps` until they end or the deadline passes; return the reason, and a table with their rows.

    The reason is 'max_seconds', 'interrupted', or '' if all steps ran. A row contains the number of the step, from 1,
    in the column `count`, the seconds since the start, and the dictionary that the step yielded. After each step,
    `progress` is called with its row, and the time is checked.
    """
    rows = list[dict[str, float]]()
    for step in steps:
        rows.append({count: len(rows) + 1, "seconds": deadline.seconds} | step)
        if progress is not None:
            deadline.call(progress, rows[-1])
        if deadline.passed():
            return deadline.reason, pd.DataFrame(rows)
    return "", pd.DataFrame(rows)
