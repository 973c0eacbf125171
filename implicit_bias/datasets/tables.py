"""Reading of samples from CSV and NPZ files."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from implicit_bias._utils.checks import Array, InputError, as_file, as_floats, shown
from implicit_bias._utils.files import open_arrays
from implicit_bias.datasets.classes import labels_and_classes

if TYPE_CHECKING:
    import pandas as pd

#: Cells of numeric columns that count as missing.
MISSING = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "null", "NULL", "None", "?")
#: Number of rows that decide whether the first row contains names.
HEAD_ROWS = 200


class Columns(NamedTuple):
    """Names of a CSV file's columns, or their numbers from 0 if the file has no names."""

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
    header : bool, optional
        True if the first row of the CSV file contains names, False if it is a sample.
    """

    X: Array = field(repr=False)
    labels: np.ndarray = field(repr=False)
    classes: tuple[Any, ...]
    gate_values: Array | None = field(default=None, repr=False)
    groups: np.ndarray | None = field(default=None, repr=False)
    sample_weight: Array | None = field(default=None, repr=False)
    required_margin: Array | None = field(default=None, repr=False)
    columns: Columns | None = field(default=None, repr=False)
    header: bool | None = field(default=None, repr=False)

    def signs(self, positive: Any) -> Array:
        """Labels (n,): +1 for samples of the class `positive`, −1 for others; raise InputError for another class."""
        if positive not in self.classes:
            raise InputError(f"{shown(positive)} is not a class; the classes are {', '.join(map(repr, self.classes))}")
        return np.where(self.labels == positive, 1.0, -1.0)

    def select(self, rows: Any) -> LabelledSamples:
        """Return the samples of these rows, with the classes of all samples."""
        names = ("X", "labels", "gate_values", "sample_weight", "required_margin")
        arrays = {name: getattr(self, name) for name in names}
        return replace(self, **{name: values[rows] for name, values in arrays.items() if values is not None})

    @property
    def y(self) -> Array:
        """Labels (n,): −1 for the first and +1 for the second of two classes; raise InputError if there are more."""
        if len(self.classes) > 2:
            raise InputError(f"there are {len(self.classes)} classes; use signs(one), for this class against the rest")
        return self.signs(self.classes[1])


class NewSamples(NamedTuple):
    """Samples of a file for a model, with None for what the file lacks; `labels` of a CSV file are strings."""

    X: Array
    gate_values: Array | None
    labels: np.ndarray | None
    header: bool | None


def read_samples(
    path: str | os.PathLike[str],
    label: str | None = None,
    weights: str | None = None,
    margins: str | None = None,
    header: bool | None = None,
    *,
    gates: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
) -> LabelledSamples:
    """Read samples from a CSV or NPZ file.

    A CSV file has one sample per row. All columns without another meaning are inputs. Labels are numbers if all of them
    are, and float64 or integers of 64 bits represent them exactly; otherwise they are texts, among them NA and None. An
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
    gates : list of str, optional, keyword-only
        Columns of the gate values. If neither `gates` nor `columns` is given, they are those whose names start with
        `gate_`.
    columns, drop : list of str, optional, keyword-only
        Columns of the inputs, by default all without another meaning; columns that are left out.
    header : bool, optional
        True if the first row of a CSV file contains the names of the columns, False if it is a sample and columns are
        numbered from 0. By default it contains names if none of its cells is a number, if it has a text above a column
        of numbers, if it contains all of the names given here, or if its label is no label of another row and its
        numbers increase.

    Raises
    ------
    InputError
        If the file is missing or unreadable, a column or array is missing, two columns have one name, or a value is
        not a number. Also if the first row could be names or a sample, labels are missing or equal up to notation (1
        and 01), or labels are of one class only or of more classes than half the samples.

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
    names: dict[str, Any] = {"label": label, "weights": weights, "margins": margins}
    names = {role: None if name is None else [name] for role, name in names.items()}
    names |= {"gates": gates, "columns": columns, "drop": drop}
    for listed in names.values():
        if not isinstance(listed, list | tuple | None) or not all(isinstance(name, str) for name in listed or ()):
            raise InputError("label, weights and margins are names of columns; gates, columns and drop lists of them")
    if not isinstance(header, bool | None):
        raise InputError(f"header must be True (names), False (a sample) or None, not {shown(header)}")
    file = _table_file(path, header)
    return _read_csv(file, names, header) if file.suffix.lower() == ".csv" else _read_npz(file, names)


def read_inputs(
    path: str | os.PathLike[str], columns: Columns | None, inputs: int, header: bool | None = None, gated: bool = True
) -> NewSamples:
    """Read new samples for a model from a CSV or NPZ file.

    In a CSV file, `columns` selects the columns by name, and the label may be missing. If it is None, columns named
    `gate_…` are gate values if `gated`, the first `inputs` others are the inputs, and one more is the label.
    """
    file = _table_file(path, header)
    if file.suffix.lower() == ".npz":
        arrays = _arrays(file, ("X", "y", "gates"), ("X",))
        gates = as_floats(arrays["gates"], "gates", 2) if "gates" in arrays else None
        return NewSamples(as_floats(arrays["X"], "X", 2), gates, arrays.get("y"), None)
    wanted, label = ([], "") if columns is None else (columns.inputs + columns.gates, columns.label)
    names, header = _names(file, wanted, label, header, columns is not None)
    if columns is None:
        gates_of = _named_gates(names) if gated else []
        rest = [name for name in names if name not in gates_of]
        if len(rest) not in (inputs, inputs + 1):
            raise InputError(f"{file} has {len(rest)} columns of inputs, but the model needs {inputs}")
        columns = Columns(rest[:inputs], gates_of, rest[inputs] if len(rest) > inputs else "")
    of_labels = columns.label or None
    table = _table(file, names, header, of_labels)
    _require(file, names, columns.inputs + columns.gates)
    values = _numbers(file, table, columns.gates, "the gate columns") if columns.gates else None
    labels = table[of_labels].to_numpy() if of_labels in names else None
    return NewSamples(_numbers(file, table, columns.inputs, "the input columns"), values, labels, header)


def _table_file(path: str | os.PathLike[str], header: bool | None) -> Path:
    file = as_file(path)
    if file.suffix.lower() not in (".csv", ".npz"):
        raise InputError(f"{file} is neither .csv nor .npz; convert it to one of them")
    if file.suffix.lower() == ".npz" and header is not None:
        raise InputError("an NPZ file has no first row of names; leave header out")
    return file


def _parsed(file: Path, **options: Any) -> pd.DataFrame:
    import pandas as pd

    try:
        with warnings.catch_warnings():
            # For rows longer than the first, pandas would drop their end with only a warning.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            return pd.read_csv(file, index_col=False, skipinitialspace=True, keep_default_na=False, **options)
    except pd.errors.ParserWarning:
        reason = "a row is longer than the first"
    except (ValueError, OSError, pd.errors.ParserError) as error:
        reason = str(error).strip().splitlines()[0].removeprefix("Error tokenizing data. C error: ")
    raise InputError(f"{file} cannot be read as CSV ({reason}); save it as text in UTF-8 with commas")


def _check_separator(file: Path) -> None:
    with file.open(encoding="utf-8-sig", errors="replace") as lines:
        # Without quoted cells and decimal commas.
        line = re.sub(r'"[^"]*"|(?<=\d),(?=\d)', "", lines.readline())
    for separator, name in ((";", "semicolons"), ("\t", "tabs")):
        if line.count(separator) > line.count(","):
            raise InputError(f"{file} separates its columns by {name}; save it with commas, and with decimal points")


def _names(
    file: Path, wanted: list[str], label: str | None, header: bool | None, unnamed: bool
) -> tuple[list[str], bool]:
    """Return the names of all columns, and True if the first row contains them; else numbers '0', '1', …, and False.

    If `header` is None, the first row contains names if all in `wanted` are in it. Otherwise its cells decide, with
    those of the column `label` (None for the last). Empty names are an error unless `unnamed`.
    """
    _check_separator(file)
    head = _parsed(file, header=None, nrows=HEAD_ROWS, dtype=str).fillna("").map(str.strip)
    first, numbers = head.iloc[0].tolist(), [str(place) for place in range(head.shape[1])]
    if header is None:
        known = set(wanted) - set(numbers)
        place = len(first) - 1 if label is None else numbers.index(label) if label in numbers else None
        header = (bool(known) and known <= set(first)) or _first_row_is_names(file, head, place)
    if not header:
        return numbers, False
    if "" in first and not unnamed:
        place = first.index("") + 1
        raise InputError(f"column {place} of {file} has no name; name it, write the file without it, or --drop ''")
    for name in first:
        if first.count(name) > 1:
            places = [str(place) for place, other in enumerate(first, 1) if other == name]
            raise InputError(f"columns {' and '.join(places)} of {file} have the name {name!r}; rename or drop one")
    return first, True


def _first_row_is_names(file: Path, head: pd.DataFrame, place: int | None) -> bool:
    """True if the first row of `head` contains names, False if it is a sample; `place` is the column of labels."""
    import pandas as pd

    first, below = head.iloc[0].tolist(), head.iloc[1:]
    values = pd.to_numeric(head.iloc[0], errors="coerce").to_numpy(dtype=float)
    if np.isnan(values).all():
        return True
    texts = [column for column, name in enumerate(first) if np.isnan(values[column]) and name not in MISSING]
    for column in texts:
        cells = below[column][~below[column].isin(MISSING)]
        if len(cells) and pd.to_numeric(cells, errors="coerce").notna().all():
            return True
    ask = "say whether it is one (--header or --no-header, header=True or False)"
    counted = [cell == str(number) for number, cell in enumerate(first)]
    if sum(counted) > 1 and sum(counted) == (~np.isnan(values)).sum():
        raise InputError(
            f"the first row of {file} counts its columns (0, 1, …), and may be pandas' names or a sample; {ask}, name "
            "the columns, or write the file with header=False"
        )
    # The name of the column of labels is no label itself, and labels usually have more than one sample.
    suspects = texts or ([] if place is None else [place])
    counts = [below[column].value_counts() for column in suspects]
    if not suspects or not all(
        len(count) and first[column] not in count and count.min() > 1
        for column, count in zip(suspects, counts, strict=True)
    ):
        return False
    listed = values[~np.isnan(values)]
    if texts and len(listed) > 1 and (np.diff(listed) > 0).all():
        return True
    if texts or (len(set(listed)) == len(listed) and not (listed % 1).any()):
        raise InputError(f"the first row of {file} may contain the names of its columns or be a sample; {ask}")
    return False


def _table(file: Path, names: list[str], header: bool, label: str | None) -> pd.DataFrame:
    """Return a CSV file as a table without empty rows; texts of `label` are stripped, other MISSING cells NaN."""
    missing = {name: list(MISSING) for name in names if name != label}
    kinds = {label: str} if label in names else {}
    table = _parsed(file, header=0 if header else None, names=names, dtype=kinds, na_values=missing)
    empty = table[list(missing)].isna().all(axis=1)
    if kinds:
        table[label] = table[label].fillna("").str.strip()
        empty &= table[label] == ""
    if empty.all():
        raise InputError(f"{file} contains no samples; give at least one row")
    return table[~empty]


def _read_csv(file: Path, given: dict[str, Any], header: bool | None) -> LabelledSamples:
    """Return the samples of a CSV file; `given` has the columns of each role, None for the default."""
    named = [name for names in given.values() for name in names or ()]
    label = next(iter(given["label"] or ()), None)
    columns, header = _names(file, named, label, header, "" in named or given["columns"] is not None)
    _require(file, columns, named)
    if label is None:
        label = next((name for name in reversed(columns) if name not in named), columns[-1])
        given, named = given | {"label": [label]}, [label, *named]
    for name in named:
        if named.count(name) > 1:
            first, *_, last = (role for role, names in given.items() for one in names or () if one == name)
            raise InputError(f"column {name!r} of {file} cannot be both {first} and {last}; name two columns")
    table = _table(file, columns, header, label)
    others = [name for name in columns if name not in set(named)]
    inputs, gates = given["columns"], given["gates"]
    if gates is None:
        gates = [] if inputs else _named_gates(others)
    inputs = inputs or [name for name in others if name not in gates]
    if not inputs:
        raise InputError(f"{file} has no input columns, only the label {shown(label)}; separate columns by commas")
    try:
        labels, classes = _classes(_labels(table[label]))
    except InputError as error:
        raise InputError(f"column {label!r} of {file}: {error}") from None
    values = _numbers(file, table, gates, "the gate columns") if gates else None
    own = {
        kind: _numbers(file, table, names, f"column {names[0]!r}")[:, 0]
        for kind, role in (("sample_weight", "weights"), ("required_margin", "margins"))
        if (names := given[role])
    }
    X = _numbers(file, table, inputs, "the input columns")
    return LabelledSamples(X, labels, classes, values, columns=Columns(inputs, gates, label), header=header, **own)


def _labels(texts: pd.Series) -> np.ndarray:
    """Return numbers if they represent all labels exactly, fractions aside, otherwise texts."""
    import pandas as pd

    numbers, missing = pd.to_numeric(texts, errors="coerce"), texts.isin(MISSING)
    exact = bool(numbers.notna().all())
    if not exact:
        absent = texts == "" if numbers[~missing].isna().any() or missing.all() else missing
        if absent.any():
            raise InputError(f"it has empty cells or NaN (first for sample {_first(absent)}); give each sample a label")
    written, first = dict[Decimal, str](), numbers.notna() & ~texts.duplicated()
    for text, number in zip(texts[first], numbers[first].tolist(), strict=True):
        value = Decimal(text)
        if value in written:
            raise InputError(f"{written[value]!r} and {text!r} are the same number; write them alike")
        written[value] = text
        exact &= value == number or number % 1 != 0
    return numbers.to_numpy() if exact else texts.to_numpy(dtype=str)


def _first(flags: pd.Series) -> int:
    return int(np.argmax(flags.to_numpy())) + 1


def _named_gates(names: list[str]) -> list[str]:
    return [name for name in names if name.startswith("gate_")]


def _require(file: Path, columns: list[str], names: list[str]) -> None:
    missing = next((name for name in names if name not in columns), None)
    if missing is not None:
        listed = [*columns[:20], *(["…"] if len(columns) > 20 else [])]
        raise InputError(f"{file} has no column {missing!r}; its columns are {', '.join(listed)}")


def _numbers(file: Path, table: pd.DataFrame, names: list[str], what: str) -> Array:
    import pandas as pd

    columns = []
    for name in names:
        column, where = table[name], f"column {name!r} of {file}"
        if column.isna().any():
            first = _first(column.isna())
            raise InputError(f"{where} has empty cells or NaN (first for sample {first}); fill or drop them")
        # Numbers of more than 20 digits are read as texts.
        numbers = pd.to_numeric(column, errors="coerce")
        if numbers.isna().any():
            example, remedy = shown(column[numbers.isna()].iloc[0]), "encode it, or fit without it (--drop, drop=…)"
            raise InputError(f"{where} contains values that are not numbers, such as {example}; {remedy}")
        if not np.isfinite(numbers).all():
            raise InputError(f"{where} contains infinity (first for sample {_first(~np.isfinite(numbers))}); drop it")
        columns.append(numbers)
    return as_floats(np.column_stack(columns), what, 2)


def _classes(values: Any) -> tuple[np.ndarray, tuple[Any, ...]]:
    labels, classes = labels_and_classes(values)
    if len(classes) < 2:
        raise InputError(f"labels are of one class only ({classes[0]!r}); give samples of at least two")
    if len(classes) > max(2, len(labels) / 2):
        raise InputError(f"labels are of {len(classes)} classes for {len(labels)} samples; name the column of classes")
    return labels, tuple(classes)


def _arrays(file: Path, wanted: tuple[str, ...], required: tuple[str, ...]) -> dict[str, np.ndarray]:
    try:
        with open_arrays(file) as held:
            names = list(held)
            arrays = {name: held[name] for name in wanted if name in held}
    except InputError as error:
        raise InputError(f"{file} cannot be read: {error}") from None
    except Exception as error:
        raise InputError(
            f"{file} cannot be read as NPZ ({type(error).__name__}); save arrays of numbers or texts, not of Python "
            "objects, with numpy.savez"
        ) from None
    for name in required:
        if name not in arrays:
            listed = ", ".join(names) or "no arrays"
            raise InputError(f"{file} has no array {name!r}, which is required; it contains {listed}")
    return arrays


def _read_npz(file: Path, names: dict[str, Any]) -> LabelledSamples:
    own = {"label": "y", "weights": "sample_weight", "margins": "required_margin", "gates": "gates"}
    for role, given in names.items():
        if given is not None:
            array = own.get(role, "X")
            raise InputError(f"an NPZ file has the array {array}, and only CSV files have columns; leave out {role}")
    arrays = _arrays(file, ("X", "y", "gates", "groups", "sample_weight", "required_margin"), ("X", "y"))
    labels, classes = _classes(arrays["y"])
    values = as_floats(arrays["gates"], "gates", 2) if "gates" in arrays else None
    weight, margin = (as_floats(arrays[n], n, 1) if n in arrays else None for n in ("sample_weight", "required_margin"))
    X = as_floats(arrays["X"], "X", 2)
    return LabelledSamples(X, labels, classes, values, arrays.get("groups"), weight, margin)
