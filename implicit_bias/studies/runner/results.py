"""Results as files: a table and its figures, a record of their computation, and a page of findings."""

from __future__ import annotations

import hashlib
import io
import json
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from implicit_bias._utils.checks import InputError, as_file
from implicit_bias._utils.files import write_atomically
from implicit_bias.studies.collection import Collection
from implicit_bias.studies.runner.cells import Cell, Result, cells_of
from implicit_bias.studies.runner.drawing import pictures
from implicit_bias.studies.runner.experiment import Experiment, Settings
from implicit_bias.studies.runner.run import MACHINES, Run
from implicit_bias.studies.runner.verdicts import Verdict, as_markdown, outcome


@dataclass(frozen=True, eq=False)
class ResultTable:
    """An experiment's table, and the record of its computation."""

    experiment: Experiment
    table: pd.DataFrame
    record: dict[str, Any]

    @cached_property
    def verdicts(self) -> list[Verdict]:
        """Verdicts on the claim, computed once."""
        return self.experiment.verdicts(self.table)

    def outcome(self) -> str:
        """Summarise all verdicts in a word; note a quick run and missing cells."""
        missing, cells = self.record["missing"], self.record["cells"]
        notes = ["a quick run"] if self.record.get("quick") else []
        notes += [f"{cells} of {cells + missing} cells"] if missing else []
        notes += ["the others cut off"] if self.record.get("end") == "cut off" else []
        return outcome(self.verdicts) + (f" ({', '.join(notes)})" if notes else "")

    def findings(self) -> dict[str, Any]:
        """Return outcome and verdicts as plain JSON."""
        return {"outcome": self.outcome(), "verdicts": [verdict.row() for verdict in self.verdicts]}

    def lines(self) -> str:
        """Return claim, outcome and verdicts as text, one line each."""
        about = self.experiment
        verdicts = (f"    {verdict}" for verdict in self.verdicts)
        return "\n".join([f"{about.name}: {about.claim}", f"    {self.outcome().capitalize()}", *verdicts])

    def contents(self) -> tuple[dict[str, Any], dict[str, bytes]]:
        """Return the record with the checksum of the table, and table and figures by file name."""
        csv = as_csv(self.table)
        contents = {f"{self.experiment.name}.csv": csv}
        for name, figure in self.experiment.figures(self.table).items():
            contents |= pictures(figure, name)
        return self.record | {"sha256": sha256(csv)}, contents


#: File of a folder that records where, when and how its results were computed.
RECORD = "record.json"
#: Function from results and the contents of their files to one self-contained page.
Page = Callable[[ResultTable, dict[str, bytes]], bytes]


def as_csv(table: pd.DataFrame) -> bytes:
    """Return a table as CSV with nine digits per number.

    >>> from_csv(as_csv(pd.DataFrame({"loss": [2 / 3, None]}))).loss.tolist()
    [0.666666667, nan]
    """
    return table.to_csv(index=False, float_format="%.9g").encode()


def from_csv(content: bytes) -> pd.DataFrame:
    """Return the table of `as_csv`."""
    return pd.read_csv(io.BytesIO(content))


def sha256(content: bytes) -> str:
    """Return the checksum of a file's content."""
    return hashlib.sha256(content).hexdigest()


def result_table(run: Run, experiment: Experiment, *, quick: bool = False) -> ResultTable:
    """Return the table of a run's cells, read back from CSV, so that figures drawn from the file are the same."""
    about = {name: getattr(experiment, name) for name in ("title", "source", "claim", "revision")}
    about |= {"settings": unique_settings(cell.settings for cell in run.cells)} | ({"quick": True} if quick else {})
    return ResultTable(experiment, from_csv(as_csv(run.table())), about | run.record())


def result_tables(run: Run, *, quick: bool = False) -> list[ResultTable]:
    """Return the table of every experiment that has a finished or partial cell."""
    parts = [(run.of(experiment), experiment) for experiment in dict.fromkeys(cell.experiment for cell in run.cells)]
    return [result_table(part, experiment, quick=quick) for part, experiment in parts if part.results or part.partial]


def unique_settings(cells: Iterable[Settings]) -> dict[str, list[Any]]:
    """Return every setting with its different values in some cells; a list counts as its elements.

    >>> unique_settings([{"d": 5, "seed": [1, 2]}, {"d": 6, "seed": [1, 2]}])
    {'d': [5, 6], 'seed': [1, 2]}
    """
    lists: dict[str, list[Any]] = {}
    for cell in cells:
        for name, value in cell.items():
            values = lists.setdefault(name, [])
            values += [one for one in (value if isinstance(value, list) else [value]) if one not in values]
    return lists


def require_replaceable(folder: Path, experiment: Experiment) -> None:
    """Raise InputError if a run would replace results of a folder, by its record, that it does not compute.

    A run may add settings to those of the record, and its limits may differ.
    """
    path = folder / RECORD
    earlier = read_record(path).get("settings") if path.exists() else None
    wanted = unique_settings(cell.settings for cell in cells_of(experiment, experiment.grid(False)))
    lost = {
        name: [value for value in values if value not in wanted.get(name, ())]
        for name, values in (earlier.items() if isinstance(earlier, dict) else ())
        if isinstance(values, list) and name not in experiment.limits
    }
    listed = ", ".join(f"{name} {' '.join(map(str, values))}" for name, values in lost.items() if values)
    if listed:
        raise InputError(
            f"{folder} holds results of {listed.replace('_', ' ')}, which this run would replace: name another "
            "folder with --out, or ask for these as well"
        )


def write_alone(found: ResultTable, folder: Path, page: Page | None = None) -> list[Path]:
    """Write NAME.csv and the figures of one experiment, its record, `findings.md` and perhaps `report.html`.

    All contents are computed before the first file is written.
    """
    record, contents = found.contents()
    shown = [name for name in contents if name.endswith(".png")]
    text = findings_page(found.experiment.source, [section(found, shown)])
    contents |= {"findings.md": text, RECORD: json.dumps(record, indent=2).encode()}
    contents |= {"report.html": page(replace(found, record=record), contents)} if page else {}
    return [write_atomically(folder / name, content) for name, content in contents.items()]


def write(collection: Collection, found: Iterable[ResultTable], folder: Path) -> list[Path]:
    """Write NAME.csv and the figures of every experiment, and record and `findings.md` of all in the folder.

    Figures of earlier runs stay, except damaged ones, for which a warning is issued. All contents are computed before
    the first file is written.
    """
    new = {one.experiment.name: one for one in found}
    every = _earlier(collection, folder, set(new)) | new
    ordered = [every[name] for name in collection.figures if name in every]
    records = {one.experiment.name: one.record for one in ordered}
    contents: dict[str, bytes] = {}
    for name, one in new.items():
        records[name], own = one.contents()
        contents |= own
    sections = (section(one, [f"{one.experiment.name}.png"]) for one in ordered)
    contents["findings.md"] = findings_page(collection.source, sections)
    contents[RECORD] = json.dumps({"figures": records}, indent=2).encode()
    return [write_atomically(folder / name, content) for name, content in contents.items()]


def section(found: ResultTable, pictures: Iterable[str]) -> str:
    """Return an experiment's claim, verdicts and pictures as a section of a page."""
    about = found.experiment
    parts = [
        f"## {about.title}",
        f"`{about.name}`, {about.source}: {about.claim}",
        f"**{found.outcome().capitalize()}**",
    ]
    parts += [as_markdown(found.verdicts), *(f"![{about.title}]({name})" for name in pictures)]
    parts += [about.tables(found.table)] if about.tables else []
    return "\n\n".join(parts)


def findings_page(source: str, sections: Iterable[str]) -> bytes:
    """Return the page of all findings in a folder."""
    return ("\n\n".join(["# Findings", f"Which claims hold: {source}.", *sections]) + "\n").encode()


def load_alone(experiment: Experiment, folder: Path, command: str) -> ResultTable:
    """Load what `write_alone` wrote into a folder; raise InputError if a file is missing or damaged."""
    known = read_record(folder / RECORD)
    table = read_table(folder / f"{experiment.name}.csv", known.get("sha256"))
    if table is None:
        raise InputError(f"{folder} holds damaged results or none of {command}; run it again")
    return ResultTable(experiment, table, known)


def resume_from(found: ResultTable, cells: Iterable[Cell]) -> dict[Cell, Result]:
    """Return the results of cells whose rows a table holds, with nine digits; each has the mean of the seconds.

    Raises InputError if the table is of another revision, or of other values of a setting that it has no column for,
    if it holds rows of other cells, and if its record is damaged.
    """
    try:
        revision, settings = found.record["revision"], dict(found.record["settings"])
        seconds = found.record["seconds_of_all_cells"] / max(found.record["cells"], 1)
        machine = MACHINES.join(found.record["machines"])
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"the table's record is damaged: {type(error).__name__} {error}") from None
    places = list(found.experiment.coordinates)
    known = {place: rows for place, rows in found.table.groupby(places, sort=False)}
    done = {}
    for cell in cells:
        rows = known.pop(tuple(cell.settings[name] for name in places), None)
        if rows is None:
            continue
        key = cell.key()
        wanted = {name: [value] for name, value in key["settings"].items() if name not in rows}
        recorded = {"revision": revision} | {name: settings.get(name) for name in wanted}
        for name, value in ({"revision": key["revision"]} | wanted).items():
            if recorded[name] != value:
                raise InputError(f"the table is of {name.replace('_', ' ')} {recorded[name]}, not of {value}")
        own = rows.drop(columns=places).astype(object)
        content = [dict(row) for _, row in own.where(own.notna(), None).iterrows()]
        done[cell] = Result(content, seconds, machine)
    if known:
        one = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in zip(places, min(known), strict=True))
        raise InputError(f"the table holds what this run would not keep, such as {one}")
    return done


def load(collection: Collection, folder: Path, names: Iterable[str] | None = None) -> list[ResultTable]:
    """Load the experiments of a collection, or some of them, that `write` wrote into a folder.

    Raises InputError if there is none, one of `names` is missing, or a table is damaged.
    """
    records = _records(collection, folder)
    if not records:
        raise InputError(f"{folder} holds damaged results or none of {collection.command}; run it again")
    for name in names or ():
        if name not in records:
            known = ", ".join(records)
            raise InputError(f"{folder} holds no figure {name!r}, but {known}; run {collection.command} for it")
    found = []
    for name in names or records:
        table = read_table(folder / f"{name}.csv", records[name]["sha256"])
        if table is None:
            raise InputError(f"{folder / name}.csv is damaged; run {collection.command} --figure {name} again")
        found.append(ResultTable(collection.figures[name], table, records[name]))
    return found


def read_table(path: Path, checksum: Any) -> pd.DataFrame | None:
    """Read a table that `as_csv` wrote; None if it is damaged. Raises InputError if there is no such file."""
    try:
        content = as_file(path).read_bytes()
    except OSError:
        return None
    return from_csv(content) if sha256(content) == checksum else None


def read_record(path: Path) -> dict[str, Any]:
    """Read a record; empty if it is damaged. Raises InputError if there is no such file."""
    file = as_file(path)
    try:
        record = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def _records(collection: Collection, folder: Path) -> dict[str, dict[str, Any]]:
    """The records of a folder's experiments, in the collection's order; empty if there are none that can be read."""
    stored = read_record(folder / RECORD).get("figures")
    known = stored if isinstance(stored, dict) else {}
    whole = {name for name, record in known.items() if isinstance(record, dict) and "sha256" in record}
    return {name: known[name] for name in collection.figures if name in whole}


def _earlier(collection: Collection, folder: Path, replaced: set[str]) -> dict[str, ResultTable]:
    if not (folder / RECORD).exists():
        return {}
    kept = {}
    for name in _records(collection, folder):
        if name not in replaced:
            try:
                kept[name] = load(collection, folder, [name])[0]
            except InputError as error:
                warnings.warn(f"{error}; the record and the findings go on without it", stacklevel=3)
    return kept
