"""Means and standard deviations over seeds of a comparison's table, as a table and as text."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from implicit_bias._utils.checks import InputError
from implicit_bias.margin.solution import Status

#: Note on rows without a solution, which are not counted as certified.
PROVED = " has no solution to certify, which is proved"
#: Note on rows of the published solver.
UNCERTIFIED = "the point where the published solver stops, which nothing certifies"


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
    usual = ("study", "dataset", "train_size", "units", "contexts", "cutoff", "split", "momentum", "version", "model")
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


def readable(table: pd.DataFrame) -> str:
    """Return a text table of means and standard deviations over seeds, with a note on each status but OPTIMAL."""
    means = summarise(table.astype({"momentum": float}))  # In the CSV file, 0.0 looks like an integer.
    columns = {"n": means.train_size, **{name: means[name] for name in ("units", "contexts", "momentum")}}
    columns |= {"version": means.version} if table.version.nunique() > 1 else {}
    columns |= {"model": means.model, "seeds": means.seeds}
    columns["certified"] = means.certified.astype(object).where(~means.model.str.startswith("GD-"), "–")
    shown = {"error %": "error", "inconsistency %": "inconsistency", "by chance %": "expected_inconsistency"}
    columns |= {title: _percent(means[f"{name}_mean"], means[f"{name}_std"]) for title, name in shown.items()}
    lines = [pd.DataFrame(columns | {"seconds": means.seconds_mean.map("{:.2f}".format)}).to_string(index=False)]
    lines.append("mean ± standard deviation over seeds")
    remarks = {one.name: one.value for one in Status} | {"UNCERTIFIED": UNCERTIFIED}
    failed = table[~table.status.isin(["OPTIMAL", "TRAINED"])]
    for (model, status), part in failed.groupby(["model", "status"], sort=True):
        proved = PROVED if str(status).startswith("NOT_SEPARABLE") else ""
        lines.append(f"{len(part)} × {model}{proved}: {remarks[str(status)]}")
    return "\n".join(lines)


def _percent(means: pd.Series, spreads: pd.Series) -> pd.Series:
    """Format shares as percentages, '12.34 ± 0.56', without ± if the deviation is NaN, and '–' if the mean is."""
    signs = (100 * spreads).map(" ± {:.2f}".format).where(spreads.notna(), "")
    return ((100 * means).map("{:.2f}".format) + signs).where(means.notna(), "–")
