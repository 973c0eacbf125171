"""Results of cells on disk: one atomically written file each, found by settings and revision, so that runs resume."""

import hashlib
import json
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from implicit_bias._utils.files import write_atomically
from implicit_bias.studies.runner.cells import Cell, Result


class Store:
    """Folder of results with one JSON file for each cell: {"key", "rows", "seconds", "machine", "digest"}.

    A damaged file is renamed to `….damaged`, with a warning.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def path(self, cell: Cell) -> Path:
        """Return the path of the cell's file, which need not exist; its name contains a digest of the key."""
        return self.folder / f"{cell.experiment.name}-{_digest(cell.key())}.json"

    def get(self, cell: Cell) -> Result | None:
        """Return the stored result; None if there is no file, or if it is damaged and hence renamed, with a warning."""
        path = self.path(cell)
        try:
            content = json.loads(path.read_text())
            if content["key"] != cell.key() or content["digest"] != _digest(content["rows"]):
                raise ValueError
            return Result(content["rows"], float(content["seconds"]), str(content["machine"]))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, KeyError, TypeError):
            aside = path.with_suffix(".damaged")
            path.replace(aside)
            warnings.warn(f"{path} is damaged; it is kept as {aside.name}, and its cell computed anew", stacklevel=2)
            return None

    def put(self, cell: Cell, result: Result) -> None:
        """Store a result; raise InputError, and change nothing, if the file cannot be written."""
        rows = json.loads(json.dumps(result.rows))
        content = {"key": cell.key(), "rows": rows, "seconds": result.seconds, "machine": result.machine}
        write_atomically(self.path(cell), json.dumps(content | {"digest": _digest(rows)}, indent=1).encode())

    def warn_of_others(self, cells: Iterable[Cell]) -> None:
        """Warn if the folder has results with the coordinates of a cell, but other options or another revision."""
        wanted = {(cell.experiment.name, _digest(cell.experiment.place(cell.settings))): cell for cell in cells}
        current = {self.path(cell) for cell in wanted.values()}
        experiments = {cell.experiment.name: cell.experiment for cell in wanted.values()}
        differing: set[str] = set()
        count = 0
        for path in sorted(set(self.folder.glob("*.json")) - current):
            try:
                key: dict[str, Any] = json.loads(path.read_text())["key"]
                name, settings = key["experiment"], key["settings"]
                current_key = wanted[name, _digest(experiments[name].place(settings))].key()
                differing |= {name for name, value in current_key["settings"].items() if settings.get(name) != value}
                differing |= {"revision"} if key["revision"] != current_key["revision"] else set()
                count += 1
            except (OSError, ValueError, KeyError, TypeError):
                continue
        if count:
            warnings.warn(
                f"{self.folder} holds {count} cells that differ in {', '.join(sorted(differing))}; "
                "they stay there and are not used",
                stacklevel=2,
            )


def _digest(content: Any) -> str:
    """Return a digest of plain JSON content, twelve hexadecimal digits, independent of the order of names."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]
