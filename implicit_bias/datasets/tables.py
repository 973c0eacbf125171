"""Reading of samples from CSV and NPZ files."""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from implicit_bias._utils.checks import Array, InputError, as_file, as_floats, shown
from implicit_bias._utils.files import open_arrays
from implicit_bias.datasets.task import labels_and_classes

if TYPE_CHECKING:
    import pandas as pd


class Columns(NamedTuple):
    """Names of a CSV file's columns, or their numbers from 0 if the file has no names.

    >>> Columns(["height"], ["gate_tall"], "animal").label
    'animal'
    """

    inputs: list[str]
    gates: list[str]
    label: str


@dataclass(frozen=True, eq=False)
class LabelledSamples:
    """Samples of a file.

    Attributes
    ----------
    X : array, shape (n, p)
    labels : array, shape (n,)
    classes : tuple
        The distinct labels, sorted.
    gate_values : array, shape (n, k), optional
    groups : array, shape (k,), optional
        The unit of each gate.
    sample_weight, required_margin : array, shape (n,), optional
    columns : Columns, optional
        The column names of a CSV file.
    """

    X: Array = field(repr=False)
    labels: np.ndarray = field(repr=False)
    classes: tuple[Any, ...]
    gate_values: Array | None = field(default=None, repr=False)
    groups: np.ndarray | None = field(default=None, repr=False)
    sample_weight: Array | None = field(default=None, repr=False)
    required_margin: Array | None = field(default=None, repr=False)
    columns: Columns | None = field(default=None, repr=False)

    def signs(self, positive: Any) -> Array:
        """Labels (n,): +1 for samples of the class `positive`, −1 for all others."""
        return np.where(self.labels == positive, 1.0, -1.0)

    @property
    def y(self) -> Array:
        """Labels (n,): −1 for the first and +1 for the second of two classes; raise InputError if there are more."""
        if len(self.classes) > 2:
            raise InputError(f"there are {len(self.classes)} classes; use signs(one), for this class against the rest")
        return self.signs(self.classes[1])


def read_samples(
    path: str | os.PathLike[str], label: str | None = None, weights: str | None = None, margins: str | None = None
) -> LabelledSamples:
    """Read samples from a CSV or NPZ file.

    A CSV file has one sample per row. Columns whose names start with `gate_` are gate values, and all columns without
    another meaning are inputs. If the first row contains a number it is a sample, otherwise it contains the names. An
    NPZ file has arrays `X` (n, p) and `y` (n,), and optionally `gates` (n, k), `groups` (k,), `sample_weight` (n,) and
    `required_margin` (n,).

    Parameters
    ----------
    path : path
        A file with the suffix .csv or .npz.
    label : str, optional
        Column of the labels; by default the last column without another meaning.
    weights, margins : str, optional
        Columns of the sample weights and the required margins.

    Returns
    -------
    LabelledSamples

    Raises
    ------
    InputError
        If the file is missing or unreadable, a column or array is missing, or a value is not a number. Also if the
        first row is 0, 1, …, or if labels are of one class only or of more classes than half the samples.

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
    names = {"label": label, "weights": weights, "margins": margins}
    if not all(isinstance(name, str | None) for name in names.values()):
        raise InputError("label, weights and margins must be the names of columns")
    file = _table_file(path)
    return _read_csv(file, names) if file.suffix.lower() == ".csv" else _read_npz(file, names)


def read_inputs(
    path: str | os.PathLike[str], columns: Columns | None, inputs: int, text: bool
) -> tuple[Array, Array | None, np.ndarray | None]:
    """Read new samples for a model from a CSV or NPZ file: inputs X (n, p), gate values and labels, or None for these.

    In a CSV file, `columns` selects the columns by name. Without names, the first `inputs` columns are the inputs, and
    one more column is the label. Labels are read as strings if `text` is True. Errors are those of `read_samples`.
    """
    file = _table_file(path)
    if file.suffix.lower() == ".npz":
        arrays = _arrays(file, ("X", "y", "gates"))
        gates = as_floats(arrays["gates"], "gates", 2) if "gates" in arrays else None
        return as_floats(arrays["X"], "X", 2), gates, arrays.get("y")
    table = _table(file)
    if columns is None:
        gates_of, rest = _gates_and_others(table.columns)
        label = rest[inputs] if len(rest) == inputs + 1 else None
        if len(rest) != inputs + (label is not None):
            raise InputError(f"{file} has {len(rest)} columns of inputs, but the model needs {inputs}")
        columns = Columns(rest[:inputs], gates_of, label or "")
    for name in columns.inputs + columns.gates:
        _require(file, table, name)
    values = _numbers(file, table, columns.gates, "the gate columns") if columns.gates else None
    labels = None
    if columns.label in table:
        labels = _table(file, columns.label)[columns.label] if text else table[columns.label]
    X = _numbers(file, table, columns.inputs, "the input columns")
    return X, values, None if labels is None else labels.to_numpy()


def _table_file(path: str | os.PathLike[str]) -> Path:
    file = as_file(path)
    if file.suffix.lower() not in (".csv", ".npz"):
        raise InputError(f"{file} is neither .csv nor .npz; convert it to one of them")
    return file


def _table(file: Path, as_text: str | None = None) -> pd.DataFrame:
    """Return a CSV file as a table, with the column `as_text` as strings; raise InputError if it is not readable."""
    import pandas as pd

    try:
        first = pd.read_csv(file, header=None, nrows=1, dtype=str).iloc[0]
        named = pd.to_numeric(first, errors="coerce").isna().all()
        kinds = {} if as_text is None else {as_text if named else int(as_text): str}
        with warnings.catch_warnings():
            # For rows longer than the first, pandas would drop their end with only a warning.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            table = pd.read_csv(file, header=0 if named else None, index_col=False, skipinitialspace=True, dtype=kinds)
    except (ValueError, OSError, pd.errors.ParserError, pd.errors.ParserWarning) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"{file} cannot be read as CSV ({reason}); save it as text in UTF-8 with commas") from None
    counted = [str(cell).strip() == str(place) for place, cell in enumerate(first)]
    if not named and sum(counted) > 1 and sum(counted) == pd.to_numeric(first, errors="coerce").notna().sum():
        raise InputError(
            f"the first row of {file} counts its columns (0, 1, …), and may be pandas' names or a sample; name the "
            "columns, or write the file with header=False"
        )
    if table.empty:
        raise InputError(f"{file} contains no samples; give at least one row")
    table.columns = [str(name).strip() for name in table.columns]
    nameless = [place for place, name in enumerate(table.columns, 1) if named and name.startswith("Unnamed: ")]
    if nameless:
        raise InputError(f"column {nameless[0]} of {file} has no name; name it, or write the file without its index")
    return table


def _read_csv(file: Path, names: dict[str, str | None]) -> LabelledSamples:
    """Return the samples of a CSV file; `names` maps "label", "weights" and "margins" to columns or None."""
    table = _table(file)
    if names["label"] is None:
        last = next((name for name in reversed(table.columns) if name not in names.values()), table.columns[-1])
        names = names | {"label": str(last)}
    special = {kind: name for kind, name in names.items() if name is not None}
    for name in special.values():
        _require(file, table, name)
    for kind, name in special.items():
        other = next((one for one in special if one != kind and special[one] == name), None)
        if other is not None:
            raise InputError(f"column {name!r} of {file} cannot be both {kind} and {other}; name two columns")
    label = special["label"]
    gates, inputs = _gates_and_others(name for name in table.columns if name not in special.values())
    if not inputs:
        raise InputError(f"{file} has no input columns, only the label {shown(label)}; separate columns by commas")
    if table[label].isna().any():
        raise InputError(f"column {label!r} of {file} has empty cells; give each sample a label")
    labels, classes = _classes(table[label].to_numpy())
    values = _numbers(file, table, gates, "the gate columns") if gates else None
    own = {
        kind: _numbers(file, table, [special[name]], f"column {special[name]!r}")[:, 0]
        for kind, name in (("sample_weight", "weights"), ("required_margin", "margins"))
        if name in special
    }
    X, columns = _numbers(file, table, inputs, "the input columns"), Columns(inputs, gates, label)
    return LabelledSamples(X, labels, classes, values, columns=columns, **own)


def _gates_and_others(names: Collection[str] | Any) -> tuple[list[str], list[str]]:
    listed = [str(name) for name in names]
    gates = [name for name in listed if name.startswith("gate_")]
    return gates, [name for name in listed if name not in gates]


def _require(file: Path, table: pd.DataFrame, name: str) -> None:
    if name not in table.columns:
        listed = [*table.columns[:20], *(["…"] if len(table.columns) > 20 else [])]
        raise InputError(f"{file} has no column {name!r}; its columns are {', '.join(listed)}")


def _numbers(file: Path, table: pd.DataFrame, names: list[str], what: str) -> Array:
    for name in names:
        if table[name].isna().any():
            raise InputError(f"column {name!r} of {file} has empty cells or NaN; fill or drop them")
        if table[name].dtype.kind not in "biufc":
            raise InputError(f"column {name!r} of {file} contains values that are not numbers; encode or drop it")
    return as_floats(table[names].to_numpy(), what, 2)


def _classes(values: Any) -> tuple[np.ndarray, tuple[Any, ...]]:
    """Return labels and classes; raise InputError for one class, or for more classes than half the samples."""
    labels, classes = labels_and_classes(values)
    if len(classes) < 2:
        raise InputError(f"labels are of one class only ({classes[0]!r}); give samples of at least two")
    if len(classes) > max(2, len(labels) / 2):
        raise InputError(f"labels are of {len(classes)} classes for {len(labels)} samples; name the column of classes")
    return labels, tuple(classes)


def _arrays(file: Path, wanted: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Return the arrays of an NPZ file by name, as far as they are `wanted`; X is required."""
    try:
        with open_arrays(file) as held:
            names = list(held)
            arrays = {name: held[name] for name in wanted if name in held}
    except InputError as error:
        raise InputError(f"{file} cannot be read: {error}") from None
    except Exception as error:
        raise InputError(f"{file} cannot be read as NPZ ({type(error).__name__}); save it with numpy.savez") from None
    if "X" not in arrays:
        raise InputError(f"{file} has no array 'X', which is required; it contains {', '.join(names) or 'no arrays'}")
    return arrays


def _read_npz(file: Path, names: dict[str, str | None]) -> LabelledSamples:
    own = {"label": "y", "weights": "sample_weight", "margins": "required_margin"}
    for kind, array in own.items():
        if names[kind] is not None:
            raise InputError(f"an NPZ file has its {kind} in the array {array}; only CSV files have column names")
    arrays = _arrays(file, ("X", "y", "gates", "groups", "sample_weight", "required_margin"))
    if "y" not in arrays:
        raise InputError(f"{file} has no array 'y', which is required; it contains {', '.join(arrays)}")
    labels, classes = _classes(arrays["y"])
    values = as_floats(arrays["gates"], "gates", 2) if "gates" in arrays else None
    weight, margin = (as_floats(arrays[n], n, 1) if n in arrays else None for n in ("sample_weight", "required_margin"))
    X = as_floats(arrays["X"], "X", 2)
    return LabelledSamples(X, labels, classes, values, arrays.get("groups"), weight, margin)
