"""How a long search is followed: rows of its table, numbered and timed, a limit, and Ctrl-C."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable

import pandas as pd

Progress = Callable[[dict[str, float]], None]


def followed(
    steps: Iterable[dict[str, float]], count: str, max_seconds: float | None, progress: Progress | None
) -> tuple[str, pd.DataFrame]:
    """Take all steps; 'max_seconds' or 'interrupted' if that ended them, else ''; and the table, a row for each step.

    >>> followed([{"gap": 0.5}, {"gap": 0.1}], "round", 1e-9, None)[0]
    'max_seconds'
    """
    begin, rows, end = time.perf_counter(), list[dict[str, float]](), ""
    limit = math.inf if max_seconds is None else max_seconds
    try:
        for step in steps:
            seconds = time.perf_counter() - begin
            rows.append({count: len(rows) + 1, "seconds": seconds} | step)
            if progress is not None:
                progress(rows[-1])
            if seconds > limit:
                end = "max_seconds"
                break
    except KeyboardInterrupt:
        end = "interrupted"
    return end, pd.DataFrame(rows)
