"""Means and standard deviations over seeds of a comparison's table."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from implicit_bias._utils.checks import InputError


def summarise(table: pd.DataFrame, by: Sequence[str] | None = None) -> pd.DataFrame:
    """Return a row for each combination of values of `by`, with means and standard deviations over seeds.

    By default, `by` contains all columns that identify a cell except the seed. Columns `error`, `inconsistency`,
    `expected_inconsistency` and `seconds` become `…_mean` and `…_std` (ddof = 1; NaN for one seed). `seeds` is the
    number of rows, and `certified` the number of rows that are OPTIMAL. Raises InputError if columns are missing.

    >>> import pandas as pd
    >>> from implicit_bias.studies.paper.summary import summarise
    >>> rows = [dict(model="SVM", seed=s, error=e, status="OPTIMAL") for s, e in ((1, 0.1), (2, 0.3))]
    >>> summarise(pd.DataFrame(rows), by=["model"]).round(3).to_dict("records")
    [{'model': 'SVM', 'seeds': 2, 'certified': 2, 'error_mean': 0.2, 'error_std': 0.141}]
    """
    named = by is None or (isinstance(by, list | tuple) and all(isinstance(name, str) for name in by))
    if not isinstance(table, pd.DataFrame) or not named or not {"status", *(by or ())} <= set(table.columns):
        raise InputError("summarise takes a comparison's table: a DataFrame with a column 'status' and those of `by`")
    usual = ("dataset", "train_size", "units", "contexts", "cutoff", "split", "momentum", "version", "model")
    keys = list(by or [name for name in usual if name in table])
    if not keys:
        raise InputError(f"the table has none of the columns {', '.join(usual)}; name others in by")
    groups = table.groupby(keys, sort=False, dropna=False)
    columns: dict[str, Any] = {
        "seeds": groups.size(),
        "certified": groups["status"].agg(lambda s: int((s == "OPTIMAL").sum())),
    }
    for name in ("error", "inconsistency", "expected_inconsistency", "seconds"):
        if name in table:
            if not pd.api.types.is_numeric_dtype(table[name]):
                raise InputError(f"column {name!r} holds values that are no numbers, which have no mean")
            columns[f"{name}_mean"] = groups[name].mean()
            columns[f"{name}_std"] = groups[name].std(ddof=1)
    return pd.DataFrame(columns).reset_index()
