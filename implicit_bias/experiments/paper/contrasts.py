"""Columns of the paper's table, paired cell by cell, and their means and spreads in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

#: What makes a cell of one study and version.
CELL = ["train_size", "units", "contexts", "cutoff", "seed", "momentum"]
#: A difference below this, in percentage points, is none: one of the 12 000 validation images is 0.008.
RESOLUTION = 0.01


def part_of(table: pd.DataFrame, study: str, version: str = "corrected", **values: Any) -> pd.DataFrame:
    """The rows of a study and version whose columns have these values."""
    part = table[(table.study == study) & (table.version == version)]
    for name, value in values.items():
        part = part[part[name] == value]
    return part


def paired(part: pd.DataFrame, a: str, b: str) -> pd.Series:
    """The error of model a minus that of model b, in percent, cell by cell where both are certified."""
    values = [part[part.model == model].set_index(CELL)["error"] for model in (a, b)]
    return 100 * (values[0] - values[1]).dropna()


def spread_of(values: pd.Series) -> str:
    """Mean ± standard deviation over seeds of the seeds' means over all cells; values in percent, indexed by cell."""
    seeds = values.groupby("seed").mean()
    return _mean_std(seeds.mean(), seeds.std())


def difference(values: pd.Series) -> str:
    """A difference in words, its spread over seeds included."""
    side = "above" if values.mean() >= 0 else "below"
    return f"{spread_of(values if side == 'above' else -values)} percentage points {side}"


def verdict(values: pd.Series) -> str:
    """Whether a difference is positive: clear if its mean over seeds exceeds the spread over seeds."""
    seeds = values.groupby("seed").mean()
    spread = max(seeds.std(), RESOLUTION) if len(seeds) > 1 else np.inf
    return "Yes" if seeds.mean() > spread else "No" if seeds.mean() < -spread else "Not clearly"


def means_by(values: dict[str, pd.Series], levels: list[str]) -> pd.DataFrame:
    """Columns of mean ± standard deviation over all cells and seeds, by some of the cells' coordinates."""
    columns = {}
    for name, series in values.items():
        groups = series.groupby(level=levels)
        texts = [_mean_std(m, s) for m, s in zip(groups.mean(), groups.std(), strict=True)]
        columns[name] = pd.Series(texts, index=groups.mean().index)
    return pd.DataFrame(columns).fillna("–").reset_index().rename(columns={"train_size": "n"})


def _mean_std(mean: float, std: float) -> str:
    return f"{mean:.2f}" if np.isnan(std) else f"{mean:.2f} ± {std:.2f}"


def column_of(part: pd.DataFrame, model: str, column: str) -> pd.Series:
    """A column of a model, in percent, by cell; what is missing left out."""
    return 100 * part[part.model == model].set_index(CELL)[column].dropna()
