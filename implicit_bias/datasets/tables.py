"""Samples and their labels, read from files of text, spreadsheets, Parquet files and NPZ files."""

from __future__ import annotations

import io
import os
import re
import sys
import unicodedata
import warnings
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from implicit_bias._utils import checks
from implicit_bias._utils.checks import Array, InputError, as_file, as_flag, as_floats, as_text, shown
from implicit_bias._utils.files import Arrays

if TYPE_CHECKING:
    import pandas as pd

#: Cells of numeric columns that count as missing.
MISSING = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "null", "NULL", "None", "?")
#: Number of rows that decide how a table is written, and whether its first row contains names.
HEAD_ROWS = 200
#: Suffixes of tables of text, in front of one of a compression, if any.
TEXTS = (".csv", ".tsv", ".txt")
COMPRESSIONS = (".gz", ".zip", ".bz2", ".xz")
#: Suffixes of other tables: their reader in pandas, and a package that it needs.
BINARIES = {".parquet": ("read_parquet", "pyarrow"), ".xlsx": ("read_excel", "openpyxl")}
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
#: Separators of thousands, except the comma, which may be a decimal comma.
THOUSANDS = "'’\u00a0\u202f"
#: A number with these separators of thousands.
GROUPED = r"\s*[+-]?[1-9]\d{0,2}(?:[%s]\d{3})+(?:\.\d+)?\s*"
#: A number with a decimal point, and one whose comma may be a decimal comma or separate thousands.
POINT = rf"\s*[+-]?(?:\d*|[1-9]\d{{0,2}}(?:[,{THOUSANDS}]\d{{3}})+)\.\d+(?:[eE][+-]?\d+)?\s*"
UNCLEAR = r"\s*[+-]?[1-9]\d{0,2},\d{3}\s*"
#: Exchange of points and commas, after which a number with a decimal comma has a decimal point; − and -.
SWAP = str.maketrans(",.", ".,")
MINUS = str.maketrans("−", "-")
#: A line above the names that is no row, and one that names the separator, as Excel reads it.
COMMENT, SEPARATOR = r'#(?:[^"]|"[^"]*")*', '"?sep=(.)"?'
#: Names of columns that number the samples, if their values are different whole numbers.
IDENTIFIERS = r"(?i)(?:.*[ _.-])?(?:id|index|idx|key|row|nr|number)"
#: Parameters that say how a table is written; None if the file decides.
FORMAT = ("header", "separator", "decimal", "encoding")
#: Fewest samples for which a column that agrees with the labels is no coincidence.
FEWEST = 10


class Columns(NamedTuple):
    """Names of a table's columns, or their numbers from 0 if it has no names.

    Inputs in `categories` are texts, and each of their categories is an input of the model, 1 for this text and else 0.
    `decimal` is the decimal point or comma that the table shows, "" if none; new tables that show none have the same.
    """

    inputs: list[str]
    gates: list[str]
    label: str
    categories: dict[str, list[str]] = {}  # noqa: RUF012
    decimal: str = ""

    @property
    def encoded(self) -> list[str]:
        """Names of the model's inputs."""
        each = {name: [f"{name}={text}" for text in texts] for name, texts in self.categories.items()}
        return [one for name in self.inputs for one in each.get(name, [name])]


@dataclass(frozen=True, eq=False)
class LabelledSamples:
    """Samples of a file.

    Attributes
    ----------
    X : array, shape (n, p)
    labels : array, shape (n,)
        Of new samples, texts in a table, or None.
    classes : tuple
        The distinct labels, sorted; () of new samples.
    gate_values : array, shape (n, k), optional
    groups : array, shape (k,), optional
        The unit of each gate.
    sample_weight, required_margin : array, shape (n,), optional
    columns : Columns, optional
        The column names of a table.
    header : bool, optional
        True if the first row of the table contains names, False if it is a sample.
    notes : tuple of str
        How the table was read, where other readings are possible.
    kept : data frame, optional
        Of new samples, the numbers of their rows, from 1, and the columns to keep.
    """

    X: Array = field(repr=False)
    labels: Any = field(repr=False)
    classes: tuple[Any, ...] = ()
    gate_values: Array | None = field(default=None, repr=False)
    groups: np.ndarray | None = field(default=None, repr=False)
    sample_weight: Array | None = field(default=None, repr=False)
    required_margin: Array | None = field(default=None, repr=False)
    columns: Columns | None = field(default=None, repr=False)
    header: bool | None = field(default=None, repr=False)
    notes: Sequence[str] = field(default=(), repr=False)
    kept: Any = field(default=None, repr=False)

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
    encode: bool = False,
    keep_missing: bool = False,
    separator: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
) -> LabelledSamples:
    """Read samples from a table (.csv, .tsv or .txt, perhaps compressed; .parquet; .xlsx) or an NPZ file.

    A table has one sample per row. All columns without another meaning are inputs, except a first column without a name
    that numbers the rows. Labels are numbers if all of them are, and float64 or integers of 64 bits represent them
    exactly; otherwise they are texts, among them NA and None. Lines above a table that begin with #, and a line sep=;
    that names its separator, are left out. An NPZ file has arrays `X` (n, p) and `y` (n,), and optionally `gates`
    (n, k), `groups` (k,), `sample_weight` (n,) and `required_margin` (n,).

    Parameters
    ----------
    path : path
        Parquet files and spreadsheets need pyarrow and openpyxl. "-" is a table of text from standard input.
    label : str, optional
        Column of the labels; by default the last column without another meaning.
    weights, margins : str, optional
        Columns of the sample weights and the required margins.
    gates : list of str, optional, keyword-only
        Columns of the gate values. If neither `gates` nor `columns` is given, they are those whose names start with
        `gate_`.
    columns, drop : list of str, optional, keyword-only
        Columns of the inputs, by default all without another meaning; columns that are left out.
    encode : bool, keyword-only
        Encode columns of texts: one input per text, which is 1 in its rows and else 0. Empty cells are a text, too.
    keep_missing : bool, keyword-only
        Keep empty cells of inputs as NaN, for scikit-learn's SimpleImputer, instead of refusing them.
    header : bool, optional
        True if the first row of a table contains the names of the columns, False if it is a sample and columns are
        numbered from 0. By default it contains names if none of its cells is a number, if it has a text above a column
        of numbers, if it contains all of the names given here, or if its label is no label of another row and its
        numbers increase.
    separator, decimal, encoding : str, optional, keyword-only
        Separator of columns (commas, semicolons, tabs or bars, which all of the first rows have alike), decimal point
        or comma (by the numbers of these rows; the other one separates thousands, as in 1,234.5), and encoding (UTF-16
        if its mark begins the file, otherwise UTF-8).

    Raises
    ------
    InputError
        If the file is missing or unreadable, a column or array is missing, two columns have one name, or a value is
        not a number. Also if the first row could be names or a sample, the second row could be units, another row
        repeats the names, numbers could have decimals or thousands, labels are missing or equal up to notation (1 and
        01), or labels are of one class only or of more classes than half the samples.

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
    file, table = _opened(path, header, separator, decimal, encoding)
    encode, keep_missing = as_flag(encode, "encode"), as_flag(keep_missing, "keep_missing")
    return _read_npz(file, names, keep_missing) if table is None else _read_table(table, names, encode, keep_missing)


def read_inputs(
    path: str | os.PathLike[str],
    columns: Columns | None,
    inputs: int,
    *,
    gated: bool = True,
    missing: bool = False,
    keep: Sequence[str] = (),
    **form: Any,
) -> LabelledSamples:
    """Read new samples for a model from a table, written as `form` says (`FORMAT`), or an NPZ file.

    In a table, `columns` selects the columns by name, and the label may be missing. If it is None, columns named
    `gate_…` are gate values if `gated`, the first `inputs` others are the inputs, and one more is the label. The
    columns `keep` are returned, too. Empty cells of inputs are NaN if `missing`.
    """
    import pandas as pd

    file, table = _opened(path, *map(form.get, FORMAT), fitted="" if columns is None else columns.decimal)
    if table is None:
        held = _read_npz(file, {}, missing, ("X",))
        return replace(held, kept=pd.DataFrame({"row": range(1, len(held.X) + 1)}))
    wanted, label = ([], "") if columns is None else (columns.inputs + columns.gates, columns.label)
    table.name_columns(wanted, label)
    if columns is None:
        gates_of = _named_gates(table.names) if gated else []
        rest = [name for name in table.names if name and name not in gates_of]
        if len(rest) not in (inputs, inputs + 1):
            raise InputError(f"{file} has {len(rest)} columns of inputs, but the model needs {inputs}")
        columns = Columns(rest[:inputs], gates_of, rest[inputs] if len(rest) > inputs else "")
    of_labels = columns.label or None
    cells = table.read(of_labels, [*columns.categories, *keep])
    table.require(columns.inputs + columns.gates + list(keep))
    values = table.numbers(cells, columns.gates, "the gate columns") if columns.gates else None
    labels = cells[of_labels].to_numpy() if of_labels in table.names else None
    copied = cells[list(keep)].set_axis(cells.index + 1).reset_index(names="row")
    X = table.inputs(cells, columns, missing)
    return LabelledSamples(X, labels, gate_values=values, notes=table.notes, kept=copied)


def _opened(path: Any, *form: Any, fitted: str = "") -> tuple[Path, Any]:
    """Return a file and its _Table, None for an NPZ file; raise InputError for others, and options without effect."""
    file = Path("standard input") if str(path) == "-" else as_file(path)
    kind = (file.with_suffix("") if file.suffix.lower() in COMPRESSIONS else file).suffix.lower()
    if str(path) != "-" and kind not in (*TEXTS, *BINARIES, ".npz"):
        raise InputError(f"{file} is neither {', '.join((*TEXTS, *BINARIES))} nor .npz; convert it to one of them")
    if not isinstance(form[0], bool | None):
        raise InputError(f"header must be True (names), False (a sample) or None, not {shown(form[0])}")
    for name, value in zip(FORMAT, form, strict=True):
        if value is not None and (kind == ".npz" or (kind in BINARIES and name != "header")):
            raise InputError(f"{file} is not a text file; leave {name} out")
    return file, None if kind == ".npz" else _Table(file, kind, *form, fitted=fitted)


class _Table:
    """A table: how pandas reads it, names of its columns, True if the first row is a `header`, and notes for users."""

    def __init__(
        self, file: Path, kind: str, header: bool | None, separator: Any, decimal: Any, encoding: Any, *, fitted: str
    ) -> None:
        self.file, self.notes, self.names = file, list[str](), list[str]()
        self.header, self.options, self.thousands, self.decimal = header, dict[str, Any](), THOUSANDS, fitted
        self.content = None if kind else sys.stdin.buffer.read() if sys.stdin else b""
        if kind in BINARIES:
            self.content = _as_csv(file, kind)
            self.notes += [f"the first sheet of {file} is read"] * (kind == ".xlsx")
            return
        with file.open("rb") if self.content is None else io.BytesIO(self.content) as opened:
            wide = opened.read(2) in (b"\xff\xfe", b"\xfe\xff")
        self.options["encoding"] = as_text(encoding or ("utf-16" if wide else "utf-8"), "encoding")
        given = ["\t" if one in ("tab", "\\t") else one or "" for one in (separator, decimal)]
        if not all(isinstance(one, str) and len(one) <= 1 for one in given):
            raise InputError("separator and decimal must be one character each, or tab")
        self.options["sep"] = self._separator(given[0])
        self.decimal = given[1] or self._decimal()
        self.options["decimal"], self.thousands = self.decimal or ".", THOUSANDS + ("," if self.decimal else "")
        if (self.options["sep"], self.options["decimal"]) != (given[0] or ",", given[1] or "."):
            name = SEPARATORS.get(self.options["sep"], "this separator")
            comma = " and decimal commas" if self.options["decimal"] == "," else ""
            self.notes.append(f"{file} is read with {name}{comma} (--separator and --decimal choose others)")

    def parse(self, **options: Any) -> pd.DataFrame:
        import pandas as pd

        given: dict[str, Any] = {"index_col": False, "skipinitialspace": True, "keep_default_na": False}
        # Read in chunks, a column could have both numbers and texts.
        given |= self.options | options | {"low_memory": False}
        try:
            with warnings.catch_warnings():
                # For rows longer than the first, pandas would drop their end with only a warning.
                warnings.simplefilter("error", pd.errors.ParserWarning)
                return pd.read_csv(self.file if self.content is None else io.BytesIO(self.content), **given)
        except pd.errors.ParserWarning:
            reason = "a row is longer than the first"
        except UnicodeError:
            name = self.options["encoding"]
            raise InputError(f"{self.file} is not in {name}; name its encoding (--encoding latin-1 …)") from None
        except (LookupError, ValueError, OSError, EOFError, pd.errors.ParserError) as error:
            reason = str(error).strip().splitlines()[0].removeprefix("Error tokenizing data. C error: ")
        raise InputError(f"{self.file} cannot be read as a table ({reason}); write rows of one length, without titles")

    def _separator(self, given: str) -> str:
        """Return the separator: `given`, of a line sep=…, or of all first rows alike, outside quotes and numbers.

        Lines above the table are left out.
        """
        form: dict[str, Any] = {"header": None, "names": [0], "nrows": HEAD_ROWS, "dtype": str, "quoting": 3}
        lines = self.parse(sep="\x01", skip_blank_lines=False, **form)[0].fillna("").tolist() or [""]
        named = re.fullmatch(SEPARATOR, lines[0])
        above = int(named is not None)
        first = next((i for i in range(above, len(lines)) if lines[i] and not re.fullmatch(COMMENT, lines[i])), above)
        unquoted = [re.sub('"[^"]*"', "", line) for line in lines]
        rows = [re.sub(r"(?<=\d),(?=\d)", "", line) for line in unquoted[first:]]
        separator = given or (named[1] if named else max(SEPARATORS, key=rows[0].count))
        if not given and not named and separator != "," and len({row.count(separator) for row in rows if row}) > 1:
            raise InputError(f"{self.file} seems to separate columns by {SEPARATORS[separator]}; say so (--separator)")
        # The last comment may contain the names: # a, b, c above 1, 2, 3.
        if first > above and unquoted[first - 1].count(separator) == unquoted[first].count(separator) > 0:
            first -= any(cell.strip(" +-.")[:1].isdigit() for cell in unquoted[first].split(separator))
        if any(lines[:first]):
            self.options["skiprows"] = first
            self.notes.append(f"lines above the table in {self.file} are left out, such as {shown(lines[first - 1])}")
        return separator

    def _decimal(self) -> str:
        """Return the decimal point or comma that the first rows show; if none does, the one that is known, or ""."""
        cells = self.parse(header=None, nrows=HEAD_ROWS, dtype=str).fillna("").stack()
        unclear, swapped = cells.str.fullmatch(UNCLEAR), cells.str.translate(SWAP)
        points, commas = cells.str.fullmatch(POINT), swapped.str.fullmatch(POINT)
        # 1.234 may have decimals or thousands, too.
        if ((points & ~swapped.str.fullmatch(UNCLEAR)) | (cells.str.fullmatch(GROUPED % ",") & ~unclear)).any():
            return "."
        if self.decimal == "," or (self.decimal and not (commas & ~unclear).any()):
            return self.decimal
        if unclear.any() and not (commas & ~unclear).any():
            text = f"{shown(cells[unclear].iloc[0].strip())} in {self.file} may have decimals or thousands"
            raise InputError(f"{text}; say that it has decimals (--decimal ,) or thousands (--decimal .)")
        both = commas & cells.str.contains(".", regex=False)
        return "," if commas.any() and (both.any() or not points.any()) else "." if points.any() else ""

    def _numbers(self, column: pd.Series) -> pd.Series:
        """Return the numbers of a column, perhaps of texts, and NaN for other cells."""
        import pandas as pd

        # Numbers of more than 20 digits are read as texts, too, and those with the minus sign of typesetting.
        if column.dtype == "str":
            column = column.str.translate(MINUS | SWAP if self.options.get("decimal") == "," else MINUS)
            grouped = column.str.fullmatch(GROUPED % self.thousands, na=False)
            column = column.mask(grouped, column.str.replace(f"[{self.thousands}]", "", regex=True))
        return pd.to_numeric(column, errors="coerce")

    def name_columns(self, wanted: list[str], label: str | None) -> None:
        """Set the names of all columns: those in the first row, if it contains names, else numbers '0', '1', ….

        If `header` is None, the first row contains names if all in `wanted` are in it. Otherwise its cells decide, with
        those of the column `label` (None for the last).
        """
        head = self.parse(header=None, nrows=HEAD_ROWS, dtype=str).fillna("").map(str.strip)
        first, numbers = head.iloc[0].tolist(), [str(place) for place in range(head.shape[1])]
        if self.header is None:
            wanted_names = set(wanted) - set(numbers)
            place = len(first) - 1 if label is None else numbers.index(label) if label in numbers else None
            self.header = (bool(wanted_names) and wanted_names <= set(first)) or self._first_row_is_names(head, place)
        self.names = first if self.header else numbers
        row = "has the names of its columns" if self.header else "is a sample (--header if it has names)"
        self.notes.append(f"the first row of {self.file} {row}")
        for name in self.names:
            if self.names.count(name) > 1:
                places = " and ".join(str(place) for place, other in enumerate(self.names, 1) if other == name)
                text = f"the name {name!r}; rename or drop one" if name else "no name; name or drop them, and any title"
                raise InputError(f"columns {places} of {self.file} have {text}")
        if self.header and len(head) > 2 and not (second := head.iloc[1]).str.match(r"\W*\d").any():
            units = self._texts_above_numbers(head.iloc[1:])
            if units and not (head.iloc[2:] == second.mask(second.isin(MISSING))).any(axis=None):
                text = f"{shown(second[units[0]])} in column {first[units[0]]!r}"
                raise InputError(f"the second row of {self.file} may contain units, such as {text}; remove it")

    def _first_row_is_names(self, head: pd.DataFrame, place: int | None) -> bool:
        """True if the first row of `head` contains names, False if it is a sample; `place` is the column of labels."""
        first, below = head.iloc[0].tolist(), head.iloc[1:]
        values = self._numbers(head.iloc[0]).to_numpy(dtype=float)
        if np.isnan(values).all() or self._texts_above_numbers(head):
            return True
        texts = [column for column, name in enumerate(first) if np.isnan(values[column]) and name not in MISSING]
        ask = "say whether it is one (--header or --no-header, header=True or False)"
        counted = [cell == str(number) for number, cell in enumerate(first)]
        if sum(counted) > 1 and sum(counted) == (~np.isnan(values)).sum():
            text = f"the first row of {self.file} counts its columns (0, 1, …), and may be pandas' names or a sample"
            raise InputError(f"{text}; {ask}, name the columns, or write the file with header=False")
        # The name of the column of labels is no label itself, and labels usually have more than one sample.
        suspects = texts or ([] if place is None else [place])
        counts = [below[column].value_counts() for column in suspects]
        alone = (len(c) and first[column] not in c and c.min() > 1 for column, c in zip(suspects, counts, strict=True))
        if not suspects or not all(alone):
            return False
        listed = values[~np.isnan(values)]
        if texts and len(listed) > 1 and (np.diff(listed) > 0).all():
            return True
        if texts or (len(set(listed)) == len(listed) and not (listed % 1).any()):
            raise InputError(f"the first row of {self.file} may contain the names of its columns or be a sample; {ask}")
        return False

    def _texts_above_numbers(self, rows: pd.DataFrame) -> list[int]:
        """Return the columns with a text in the first and numbers in all other rows, except MISSING cells."""
        numbers, present = rows.apply(self._numbers), ~rows.isin(MISSING)
        texts = numbers.iloc[0].isna() & present.iloc[0]
        below = (numbers.notna() | ~present).iloc[1:].all() & present.iloc[1:].any()
        return np.flatnonzero(texts & below).tolist()

    def require(self, names: list[str]) -> None:
        missing = next((name for name in names if name not in self.names), None)
        if missing is not None:
            listed = [*self.names[:20], *(["…"] if len(self.names) > 20 else [])]
            raise InputError(f"{self.file} has no column {missing!r}; its columns are {', '.join(listed)}")

    def read(self, label: str | None, texts: Sequence[str] = ()) -> pd.DataFrame:
        """Return all rows that are not empty; texts of `label` are stripped, other MISSING cells NaN."""
        missing = {name: list(MISSING) for name in self.names if name != label}
        kinds = {name: str for name in (label, *texts) if name in self.names}
        cells = self.parse(header=0 if self.header else None, names=self.names, dtype=kinds, na_values=missing)
        empty = cells[list(missing)].isna().all(axis=1)
        if label in kinds:
            cells[label] = cells[label].fillna("").str.strip()
            empty &= cells[label] == ""
            again = (cells[(cells[label] == label) & bool(self.header)].astype(str) == self.names).all(axis=1)
            if again.any():
                raise InputError(f"sample {again.index[again][0] + 1} of {self.file} repeats the names; remove it")
        if empty.all():
            raise InputError(f"{self.file} contains no samples; give at least one row")
        return cells[~empty] if empty.any() else cells

    def inputs(self, cells: pd.DataFrame, columns: Columns, missing: bool = False) -> Array:
        """Return the inputs of a model (n, p): encoded texts, and numbers, with NaN for empty cells if `missing`."""
        parts = []
        for name in columns.inputs:
            if name not in columns.categories:
                parts.append(self.numbers(cells, [name], "the input columns", missing))
                continue
            texts = cells[name].fillna("").str.strip().to_numpy(dtype=object)
            parts.append((texts[:, None] == np.array(columns.categories[name], dtype=object)).astype(float))
            other = ~parts[-1].any(axis=1)
            if other.any():
                text = f"{other.sum()} texts that the fit had not, such as {shown(texts[other][0])}"
                warnings.warn(f"column {name!r} of {self.file} has {text}; they count as no text", stacklevel=2)
        return np.hstack(parts)

    def numbers(self, cells: pd.DataFrame, names: list[str], what: str, missing: bool = False) -> Array:
        columns = []
        for name in names:
            column, where = cells[name], f"column {name!r} of {self.file}"
            empty = column.isna()
            if empty.any() and not missing:
                raise InputError(f"{where} has empty cells or NaN (first for sample {_first(empty)}); {FILL}")
            numbers = self._numbers(column)
            if (numbers.isna() & ~empty).any():
                example = shown(column[numbers.isna() & ~empty].iloc[0])
                raise InputError(f"{where} contains values that are not numbers, such as {example}; {ENCODE}")
            infinite = np.isinf(numbers)
            if infinite.any():
                raise InputError(f"{where} contains infinity (first for sample {_first(infinite)}); drop it")
            if column.dtype == "str":
                place = column.str.len().argmax()
                self.notes.append(f"{where} has numbers such as {column.iloc[place]!r}: {numbers.iloc[place]:.16g}")
            columns.append(numbers)
        return as_floats(np.column_stack(columns), what, 2, missing)

    def categories(self, cells: pd.DataFrame, names: list[str]) -> dict[str, list[str]]:
        """Return the texts of each of these columns that contains some, sorted."""
        texts_in = (name for name in names if (self._numbers(cells[name]).isna() & cells[name].notna()).any())
        texts_of = {name: cells[name].fillna("").str.strip() for name in texts_in}
        for name, texts in texts_of.items():
            if texts.nunique() > max(2, len(cells) / 2):
                text = f"column {name!r} of {self.file} has {texts.nunique()} texts in {len(cells)} samples"
                raise InputError(f"{text}, too many to encode; fit without it (--drop, drop=…)")
        return {name: sorted(texts.unique().tolist()) for name, texts in texts_of.items()}


FILL = "fill or drop them, or --impute median (keep_missing=True and scikit-learn's SimpleImputer)"
ENCODE = "encode it (--encode, encode=True), or fit without it (--drop, drop=…)"


def _as_csv(file: Path, kind: str) -> bytes:
    """Return a table that pandas reads from a binary file as text, so that all tables are read alike."""
    import pandas as pd

    reader, package = BINARIES[kind]
    try:
        table = getattr(pd, reader)(file, **({} if kind == ".parquet" else {"header": None}))
        if kind == ".xlsx":
            # Empty columns, and rows above the names, only place a table in its sheet.
            table = table[table.notna().any(axis=1).cummax()].dropna(axis=1, how="all")
    except ImportError:
        raise InputError(f"{file} needs {package} (pip install {package}); or save it as .csv") from None
    except Exception as error:
        raise InputError(f"{file} cannot be read ({type(error).__name__}); save it as .csv") from None
    return str(table.to_csv(index=table.index.name is not None, header=kind == ".parquet")).encode()


def _read_table(table: _Table, given: dict[str, Any], encode: bool, missing: bool) -> LabelledSamples:
    """Return the samples of a table; `given` has the columns of each role, None for the default."""
    file, named = table.file, [name for names in given.values() for name in names or ()]
    label = next(iter(given["label"] or ()), None)
    table.name_columns(named, label)
    table.require(named)
    if label is None:
        label = next((name for name in reversed(table.names) if name and name not in named), table.names[-1])
        given, named = given | {"label": [label]}, [label, *named]
    for name in named:
        if named.count(name) > 1:
            first, *_, last = (role for role, names in given.items() for one in names or () if one == name)
            raise InputError(f"column {name!r} of {file} cannot be both {first} and {last}; name two columns")
    cells = table.read(label)
    others = [name for name in table.names if name not in set(named)]
    inputs, gates = given["columns"], given["gates"]
    if "" in others and inputs is None:
        place = table.names.index("")
        if place or not _consecutive(cells[""].to_numpy()) or cells[""].min() not in (0, 1):
            raise InputError(f"column {place + 1} of {file} has no name; name it, or --drop ''")
        others.remove("")
        table.notes.append("its first column, without a name, numbers the rows and is left out")
    if gates is None:
        gates = [] if inputs else _named_gates(others)
    inputs = inputs or [name for name in others if name not in gates]
    if not inputs:
        raise InputError(f"{file} has no input columns, only the label {shown(label)}; set separator (--separator)")
    try:
        labels, classes = _classes(_labels(cells[label]))
    except InputError as error:
        raise InputError(f"column {label!r} of {file}: {error}") from None
    values = table.numbers(cells, gates, "the gate columns") if gates else None
    more: dict[str, Any] = {
        kind: table.numbers(cells, names, f"column {names[0]!r}")[:, 0]
        for kind, role in (("sample_weight", "weights"), ("required_margin", "margins"))
        if (names := given[role])
    }
    columns = Columns(inputs, gates, label, table.categories(cells, inputs) if encode else {}, table.decimal)
    X = table.inputs(cells, columns, missing)
    _check_columns(file, X, labels, classes, columns.encoded)
    return LabelledSamples(X, labels, classes, values, columns=columns, header=table.header, notes=table.notes, **more)


def _consecutive(values: np.ndarray) -> bool:
    """True if the values are consecutive whole numbers in any order."""
    return values.dtype.kind in "if" and not values.min() % 1 and np.ptp(np.sort(values) - np.arange(len(values))) == 0


def _check_columns(file: Path, X: Array, labels: np.ndarray, classes: tuple[Any, ...], names: list[str]) -> None:
    """Refuse empty inputs; warn if some may number the samples or copy the label, and if labels look alike."""
    if np.isnan(X).all(axis=0).any():
        name = names[int(np.isnan(X).all(axis=0).argmax())]
        raise InputError(f"column {name!r} of {file} is empty; fit without it (--drop, drop=…)")
    advice = "if so, leave it out (--drop, drop=…)"
    codes = np.unique(labels, return_inverse=True)[1]
    for column, name in zip(X.T, names, strict=True):
        few = len(set(column[:HEAD_ROWS].tolist())) <= len(classes)
        numbered = re.fullmatch(IDENTIFIERS, name) and not (column % 1).any() and len(set(column)) == len(column)
        if few and len(column) >= FEWEST:
            pairs = np.unique(np.column_stack([column, codes]), axis=0)
            if len(pairs) == len(classes) == len(np.unique(column)):
                warnings.warn(f"column {name!r} has one value for each label and may copy it; {advice}", stacklevel=2)
        elif numbered or (_consecutive(column) and len(column) >= FEWEST):
            warnings.warn(f"column {name!r} may only number the samples; {advice}", stacklevel=2)
    folded: dict[str, Any] = {}
    for one in classes:
        seen = "".join(filter(str.isprintable, unicodedata.normalize("NFKC", str(one)).casefold()))
        other = folded.setdefault(seen, one)
        if other != one:
            warnings.warn(f"labels {other!r} and {one!r} look alike and are two classes", stacklevel=2)


def _labels(texts: pd.Series) -> np.ndarray:
    """Return numbers if they represent all labels exactly, fractions aside, otherwise texts."""
    import pandas as pd

    numbers, missing = pd.to_numeric(texts, errors="coerce"), texts.isin(MISSING)
    exact = bool(numbers.notna().all())
    if not exact:
        absent = texts == "" if numbers[~missing].isna().any() or missing.all() else missing
        if absent.any():
            where = f"(first for sample {_first(absent)})"
            raise InputError(f"it has empty cells or NaN {where}; label all samples, and remove comments")
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


def _classes(values: Any) -> tuple[np.ndarray, tuple[Any, ...]]:
    labels, classes = labels_and_classes(values)
    if len(classes) < 2:
        raise InputError(f"labels are of one class only ({classes[0]!r}); give samples of at least two")
    if len(classes) > max(2, len(labels) / 2):
        raise InputError(f"labels are of {len(classes)} classes for {len(labels)} samples; name the column of classes")
    return labels, tuple(classes)


def labels_and_classes(labels: ArrayLike) -> tuple[np.ndarray, list[Any]]:
    """Return labels (n,) as an array, and the sorted classes; raise InputError for missing values and fractions."""
    try:
        values = np.asarray(checks.without_torch(labels))
    except (TypeError, ValueError, RuntimeError):
        values = np.empty((0, 0))
    if values.ndim != 1 or values.size == 0:
        raise InputError(f"labels must be a non-empty one-dimensional array, not of shape {values.shape}")
    import pandas as pd

    if pd.isna(values).any() or (values.dtype.kind == "f" and not np.isfinite(values).all()):
        raise InputError("labels contain missing values, NaN or infinity; clean them first")
    try:
        classes = np.unique(values).tolist()
    except TypeError:
        raise InputError("labels mix types that cannot be sorted; use numbers or strings only") from None
    fraction = next((one for one in classes if isinstance(one, float) and one % 1), None)
    if fraction is not None:
        text = f"labels contain fractions such as {fraction}, which are quantities, not classes"
        raise InputError(f"{text}; convert them to classes (numpy.digitize), or name the column of classes")
    return values, classes


def _read_npz(
    file: Path, names: dict[str, Any], missing: bool, required: tuple[str, ...] = ("X", "y")
) -> LabelledSamples:
    arrays_of = {"label": "y", "weights": "sample_weight", "margins": "required_margin", "gates": "gates"}
    for role, given in names.items():
        if given is not None:
            array = arrays_of.get(role, "X")
            raise InputError(f"an NPZ file has the array {array}, and only tables have columns; leave out {role}")
    wanted = ("X", "y", "gates", "groups", "sample_weight", "required_margin")
    try:
        with zipfile.ZipFile(file) as archive:
            held = Arrays(archive)
            listed = ", ".join(held) or "no arrays"
            arrays = {name: held[name] for name in wanted if name in held}
    except InputError as error:
        raise InputError(f"{file} cannot be read: {error}") from None
    except Exception as error:
        text = f"{file} cannot be read as NPZ ({type(error).__name__})"
        raise InputError(f"{text}; save arrays of numbers or texts, not of Python objects, with numpy.savez") from None
    for name in required:
        if name not in arrays:
            raise InputError(f"{file} has no array {name!r}, which is required; it contains {listed}")
    labels, classes = _classes(arrays["y"]) if "y" in required else (arrays.get("y"), ())
    values = as_floats(arrays["gates"], "gates", 2) if "gates" in arrays else None
    weight, margin = (as_floats(arrays[n], n, 1) if n in arrays else None for n in ("sample_weight", "required_margin"))
    X = as_floats(arrays["X"], "X", 2, missing)
    return LabelledSamples(X, labels, classes, values, arrays.get("groups"), weight, margin)
