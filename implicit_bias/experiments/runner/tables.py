"""Tables and figures as the contents of files: what is written, and that what is read is what was written."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.experiments.paper.plots import drawn
from implicit_bias.ground.checks import as_file


def as_csv(table: pd.DataFrame) -> bytes:
    """A table with nine digits a number."""
    return table.to_csv(index=False, float_format="%.9g").encode()


def from_csv(content: bytes) -> pd.DataFrame:
    """The table of `as_csv`, as whoever reads the file has it.

    >>> import pandas as pd
    >>> from implicit_bias.experiments.runner.tables import as_csv, from_csv
    >>> from_csv(as_csv(pd.DataFrame({"loss": [2 / 3, None]}))).loss.tolist()
    [0.666666667, nan]
    """
    return pd.read_csv(io.BytesIO(content))


def sha256(content: bytes) -> str:
    """The sum by which a file is known to be whole."""
    return hashlib.sha256(content).hexdigest()


def read_table(path: Path, checksum: Any) -> pd.DataFrame | None:
    """A table that `as_csv` wrote; None if it is not whole. Raises InputError if there is no such file."""
    try:
        content = as_file(path).read_bytes()
    except OSError:
        return None
    return from_csv(content) if sha256(content) == checksum else None


def read_record(path: Path) -> dict[str, Any]:
    """A record; empty if it is none. Raises InputError if there is no such file."""
    file = as_file(path)
    try:
        record = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def pictures(figure: Figure, name: str) -> dict[str, bytes]:
    """A figure as `name`.png and `name`.pdf.

    >>> from matplotlib.figure import Figure
    >>> from implicit_bias.experiments.runner.tables import pictures
    >>> sorted(pictures(Figure(), "a"))
    ['a.pdf', 'a.png']
    """
    png = drawn(figure, "png")
    figure.set_layout_engine("none")  # Laid out once, which is what takes the time.
    return {f"{name}.png": png, f"{name}.pdf": drawn(figure, "pdf")}
