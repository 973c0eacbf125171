"""Reading a user's own samples from CSV or NPZ files."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from implicit_bias.datasets.task import binary_labels
from implicit_bias.ground.checks import Array, InputError, as_file, as_floats, shown
from implicit_bias.ground.files import open_arrays

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class LabelledSamples:
    """Inputs X (n, p), labels y (n,) as −1 and +1, the classes they stand for, and gate values (n, k) if there are any.

    `groups` (k,) names the unit of each gate; `sample_weight` (n,) weighs the samples, if the file has weights.
    """

    X: Array = field(repr=False)
    y: Array = field(repr=False)
    classes: tuple[Any, Any]
    gate_values: Array | None = field(default=None, repr=False)
    groups: np.ndarray | None = field(default=None, repr=False)
    sample_weight: Array | None = field(default=None, repr=False)


def read_samples(path: str | os.PathLike[str], label: str | None = None, weights: str | None = None) -> LabelledSamples:
    """Read samples from a CSV or NPZ file.

    CSV: one sample per row; the column `label` (default: the last) holds the two classes, the column `weights`
    (default: none) sample weights, columns whose name starts with `gate_` gate values, all others are inputs. A first
    row that holds a number is data, not names.
    NPZ: arrays `X` (n, p) and `y` (n,), optionally `gates` (n, k), `groups` (k,) and `sample_weight` (n,).

    Raises
    ------
    InputError
        For a missing or unreadable file, missing columns or arrays, and values that are not numbers.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from implicit_bias import read_samples
    >>> path = pathlib.Path(tempfile.mkdtemp(), "samples.csv")
    >>> _ = path.write_text("height,gate_tall,animal\\n1.0,0,cat\\n3.0,1,horse\\n")
    >>> samples = read_samples(path)
    >>> samples.X.tolist(), samples.y.tolist(), samples.gate_values.tolist(), samples.classes
    ([[1.0], [3.0]], [-1.0, 1.0], [[0.0], [1.0]], ('cat', 'horse'))
    """
    file = as_file(path)
    if not isinstance(label, str | None) or not isinstance(weights, str | None):
        raise InputError("label and weights must be the names of columns")
    readers = {".csv": _read_csv, ".npz": _read_npz}
    if file.suffix.lower() not in readers:
        raise InputError(f"{file} is neither .csv nor .npz; convert it to one of them")
    return readers[file.suffix.lower()](file, label, weights)


def _read_csv(file: Path, label: str | None, weights: str | None) -> LabelledSamples:
    import pandas as pd

    try:
        first = pd.read_csv(file, header=None, nrows=1, dtype=str).iloc[0]
        named = pd.to_numeric(first, errors="coerce").isna().all()
        with warnings.catch_warnings():
            # Rows longer than the first would lose their end with no more than a warning.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            table = pd.read_csv(file, header=0 if named else None, index_col=False)
    except (ValueError, OSError, pd.errors.ParserError, pd.errors.ParserWarning) as error:
        raise InputError(f"{file} cannot be read as CSV ({str(error).strip().splitlines()[0]})") from None
    if table.empty:
        raise InputError(f"{file} holds no samples; give at least one row of each class")
    table.columns = [str(name).strip() for name in table.columns]
    nameless = [place for place, name in enumerate(table.columns, 1) if named and name.startswith("Unnamed: ")]
    if nameless:
        raise InputError(f"column {nameless[0]} of {file} has no name; name it, or write the file without its index")
    if label is None:
        label = next((name for name in reversed(table.columns) if name != weights), str(weights))
    for name in (label, weights):
        if name is not None and name not in table.columns:
            raise InputError(f"{file} has no column {name!r}; its columns are {', '.join(table.columns[:20])}")
    if label == weights:
        raise InputError(f"column {label!r} of {file} cannot be both label and weights; name two columns")
    return _samples_of(file, table, label, weights)


def _samples_of(file: Path, table: pd.DataFrame, label: str, weights: str | None) -> LabelledSamples:
    rest = [name for name in table.columns if name not in (label, weights)]
    gates = [name for name in rest if name.startswith("gate_")]
    inputs = [name for name in rest if name not in gates]
    numbers = inputs + gates + ([] if weights is None else [weights])
    if not inputs:
        raise InputError(f"{file} has no input columns beside the label {shown(label)}; separate columns by commas")
    if table[label].isna().any():
        raise InputError(f"column {label!r} of {file} has empty cells; give each sample a label")
    for name in numbers:
        if table[name].isna().any():
            raise InputError(f"column {name!r} of {file} has empty cells or NaN; fill or drop them")
        if table[name].dtype.kind not in "biufc":
            raise InputError(f"column {name!r} of {file} holds values that are no numbers; encode or drop it")
    y, classes = binary_labels(table[label].to_numpy())
    values = as_floats(table[gates].to_numpy(), "the gate columns", 2) if gates else None
    weight = None if weights is None else as_floats(table[weights].to_numpy(), f"column {weights!r}", 1)
    X = as_floats(table[inputs].to_numpy(), "the input columns", 2)
    return LabelledSamples(X, y, classes, values, sample_weight=weight)


def _read_npz(file: Path, label: str | None, weights: str | None) -> LabelledSamples:
    if label is not None:
        raise InputError("the label of an NPZ file is its array y; a label's name is for CSV files")
    if weights is not None:
        raise InputError("the weights of an NPZ file are its array sample_weight; a column's name is for CSV files")
    try:
        with open_arrays(file) as held:
            names = list(held)
            arrays = {name: held[name] for name in ("X", "y", "gates", "groups", "sample_weight") if name in held}
    except InputError as error:
        raise InputError(f"{file} cannot be read: {error}") from None
    except Exception as error:
        raise InputError(f"{file} cannot be read as NPZ ({type(error).__name__}); save it with numpy.savez") from None
    for name in ("X", "y"):
        if name not in arrays:
            raise InputError(f"{file} has no array {name!r}; it holds {', '.join(names) or 'nothing'}")
    y, classes = binary_labels(arrays["y"])
    values = as_floats(arrays["gates"], "gates", 2) if "gates" in arrays else None
    weight = as_floats(arrays["sample_weight"], "sample_weight", 1) if "sample_weight" in arrays else None
    return LabelledSamples(as_floats(arrays["X"], "X", 2), y, classes, values, arrays.get("groups"), weight)
