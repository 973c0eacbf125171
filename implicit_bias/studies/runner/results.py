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
from implicit_bias.studies.runner.experiment import Experiment
from implicit_bias.studies.runner.run import MACHINES, Run
from implicit_bias.studies.runner.verdicts import Verdict, as_markdown, outcome
from implicit_bias.studies.settings import Settings

#: File of a folder that records where, when and how its results were computed.
RECORD = "record.json"


@dataclass(frozen=True, eq=False)
class ResultTable:
    """Results of an experiment: its table as the bytes of a CSV file, and the record of its computation."""

    experiment: Experiment
    csv: bytes
    record: dict[str, Any]

    @cached_property
    def table(self) -> pd.DataFrame:
        """Table read from `csv`, so that computed and loaded results give the same figures.

        Besides digits, the file loses types: a column of whole numbers is read as integers, for example 0.0 as 0.
        """
        return pd.read_csv(io.BytesIO(self.csv))

    @cached_property
    def verdicts(self) -> list[Verdict]:
        return self.experiment.verdicts(self.table)

    def outcome(self) -> str:
        """Return 'yes', 'no', 'partly' or 'undecided', with notes in brackets on a quick run and missing cells."""
        missing, cells = self.record["missing"], self.record["cells"]
        notes = ["a quick run"] if self.record.get("quick") else []
        notes += [f"{cells} of {cells + missing} cells"] if missing else []
        notes += ["the others cut off"] if self.record.get("end") == "cut off" else []
        return outcome(self.verdicts) + (f" ({', '.join(notes)})" if notes else "")

    def findings(self) -> dict[str, Any]:
        """Return the outcome and the verdicts as plain JSON."""
        return {"outcome": self.outcome(), "verdicts": [verdict.row() for verdict in self.verdicts]}

    def lines(self) -> str:
        """Return claim, outcome and verdicts as text to print, a line each."""
        about = self.experiment
        verdicts = (f"    {verdict}" for verdict in self.verdicts)
        return "\n".join([f"{about.name}: {about.claim}", f"    {self.outcome().capitalize()}", *verdicts])

    def recorded(self) -> ResultTable:
        """Return a copy whose record contains the checksum `sha256` of the table, and the digests of its claims."""
        digests = {key: claim.digest for key, claim in self.experiment.claims.items()}
        own = {"claims": digests} | self.record if digests else self.record
        return replace(self, record=own | {"sha256": _sha256(self.csv)})

    def contents(self) -> dict[str, bytes]:
        """Return the contents of the CSV file and of all figures, as PNG and PDF, by file name."""
        contents = {f"{self.experiment.name}.csv": self.csv}
        for name, figure in self.experiment.figures(self.table).items():
            contents |= pictures(figure, name)
        return contents

    def section(self, pictures: Iterable[str]) -> str:
        """Return a Markdown section: claim, outcome, verdicts, the pictures with these file names, and `tables`."""
        about = self.experiment
        parts = [
            f"## {about.title}",
            f"`{about.name}`, {about.source}: {about.claim}",
            f"**{self.outcome().capitalize()}**",
            as_markdown(self.verdicts),
        ]
        quotes = dict.fromkeys(f"“{one.words}” ({one.place})" for one in about.claims.values() if one.words)
        if quotes:
            settings = (f"{name} {', '.join(map(str, own))}" for name, own in self.record["settings"].items())
            parts += [f"Text: {'; '.join(quotes)}.", f"Settings: {'; '.join(settings).replace('_', ' ')}."]
        parts += [f"![{about.title}]({name})" for name in pictures]
        parts += [about.tables(self.table)] if about.tables else []
        return "\n\n".join(parts)


def as_csv(table: pd.DataFrame) -> bytes:
    """Return a table as CSV, without its index, with nine digits per number.

    >>> as_csv(pd.DataFrame({"loss": [2 / 3, None]}))
    b'loss\\n0.666666667\\n""\\n'
    """
    return table.to_csv(index=False, float_format="%.9g").encode()


def result_table(run: Run, experiment: Experiment, *, quick: bool = False) -> ResultTable:
    """Return table and record of a run, all of whose cells belong to `experiment`."""
    about = {name: getattr(experiment, name) for name in ("title", "source", "claim", "revision")}
    about |= {"settings": _unique_settings(cell.settings for cell in run.cells)} | ({"quick": True} if quick else {})
    return ResultTable(experiment, as_csv(run.table()), about | run.record())


def result_tables(run: Run, *, quick: bool = False) -> list[ResultTable]:
    """Return the results of every experiment with a finished or partial cell, in the order of the cells."""
    parts = [(run.of(experiment), experiment) for experiment in dict.fromkeys(cell.experiment for cell in run.cells)]
    return [result_table(part, experiment, quick=quick) for part, experiment in parts if part.results or part.partial]


def _unique_settings(cells: Iterable[Settings]) -> dict[str, list[Any]]:
    lists: dict[str, list[Any]] = {}
    for cell in cells:
        for name, value in cell.items():
            values = lists.setdefault(name, [])
            values += [one for one in (value if isinstance(value, list) else [value]) if one not in values]
    return lists


def require_replaceable(folder: Path, experiment: Experiment) -> None:
    """Raise InputError if the record in `folder` has values of settings that `experiment` lacks: they would be lost."""
    earlier = _read_record(folder).get("settings") if (folder / RECORD).exists() else None
    wanted = _unique_settings(cell.settings for cell in cells_of(experiment, experiment.grid(False)))
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


def write_alone(
    found: ResultTable, folder: Path, page: Callable[[ResultTable, dict[str, bytes]], bytes] | None = None
) -> list[Path]:
    """Write table, figures, record, `findings.md` and the `page`, if given, of one experiment; return their paths."""
    found = found.recorded()
    contents = found.contents()
    section = found.section([name for name in contents if name.endswith(".png")])
    contents |= _findings(found.experiment.source, [section], found.record)
    contents |= {"report.html": page(found, contents)} if page else {}
    return _written(folder, contents)


def write(collection: Collection, found: Iterable[ResultTable], folder: Path) -> list[Path]:
    """Write NAME.csv and figures of the experiments in `found`; return the paths of all files written.

    Record and `findings.md` cover these experiments and those that are already in the folder. If the table of one of
    the latter is damaged, a warning is issued and record and findings omit the experiment.
    """
    new = {one.experiment.name: one.recorded() for one in found}
    every: dict[str, ResultTable] = {}
    for name in _records(collection, folder) if (folder / RECORD).exists() else ():
        try:
            every |= {} if name in new else {name: load(collection, folder, [name])[0]}
        except InputError as error:
            warnings.warn(f"{error}; the record and the findings go on without it", stacklevel=2)
    every |= new
    ordered = {name: every[name] for name in collection.figures if name in every}
    contents: dict[str, bytes] = {}
    for one in new.values():
        contents |= one.contents()
    sections = [one.section([f"{name}.png"]) for name, one in ordered.items()]
    records = {name: one.record for name, one in ordered.items()}
    return _written(folder, contents | _findings(collection.source, sections, {"figures": records}))


def _findings(source: str, sections: Iterable[str], record: dict[str, Any]) -> dict[str, bytes]:
    page = "\n\n".join(["# Findings", f"Which claims hold: {source}.", *sections]) + "\n"
    return {"findings.md": page.encode(), RECORD: json.dumps(record, indent=2).encode()}


def _written(folder: Path, contents: dict[str, bytes]) -> list[Path]:
    return [write_atomically(folder / name, content) for name, content in contents.items()]


def load_alone(experiment: Experiment, folder: Path, command: str) -> ResultTable:
    """Load the results that `write_alone` wrote; raise InputError if record or table is missing or damaged."""
    refusal = f"{folder} holds damaged results or none of {command}; run it again"
    return _loaded(experiment, folder, _read_record(folder), refusal)


def load(collection: Collection, folder: Path, names: Iterable[str] | None = None) -> list[ResultTable]:
    """Load the results that `write` wrote, by default all in the folder; InputError if they are missing or damaged."""
    records, command = _records(collection, folder), collection.command
    if not records:
        raise InputError(f"{folder} holds damaged results or none of {command}; run it again")
    found = []
    for name in names or records:
        if name not in records:
            raise InputError(f"{folder} holds no figure {name!r}, but {', '.join(records)}; run {command} for it")
        refusal = f"{folder / name}.csv is damaged; run {command} --figure {name} again"
        found.append(_loaded(collection.figures[name], folder, records[name], refusal))
    return found


def _loaded(experiment: Experiment, folder: Path, record: dict[str, Any], refusal: str) -> ResultTable:
    path = as_file(folder / f"{experiment.name}.csv")
    try:
        csv = path.read_bytes()
    except OSError:
        csv = b""
    if _sha256(csv) != record.get("sha256"):
        raise InputError(refusal)
    return ResultTable(experiment, csv, record)


def resume_from(found: ResultTable, cells: Iterable[Cell]) -> dict[Cell, Result]:
    """Return the results of those `cells` that have rows in the table of `found`; other cells are omitted.

    The seconds of each result are the mean over the cells of the record. Raises InputError if the record is damaged, if
    its revision or settings differ from those of the cells, or if the table has rows of further cells.
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
        content = rows.drop(columns=places).to_dict("records")
        done[cell] = Result([{str(name): row[name] for name in row} for row in content], seconds, machine)
    if known:
        one = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in zip(places, min(known), strict=True))
        raise InputError(f"the table holds what this run would not keep, such as {one}")
    return done


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _read_record(folder: Path) -> dict[str, Any]:
    """Return the record of a folder, or {} if the file is damaged; raise InputError if there is no file."""
    file = as_file(folder / RECORD)
    try:
        record = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def _records(collection: Collection, folder: Path) -> dict[str, dict[str, Any]]:
    """Return the readable records of a folder by experiment, in the order of the collection; perhaps none."""
    stored = _read_record(folder).get("figures")
    known = stored if isinstance(stored, dict) else {}
    whole = {name for name, record in known.items() if isinstance(record, dict) and "sha256" in record}
    return {name: known[name] for name in collection.figures if name in whole}
