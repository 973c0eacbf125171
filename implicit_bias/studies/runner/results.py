"""Results as files: a table and its figures, a record of their computation, and a page of findings."""

from __future__ import annotations

import hashlib
import io
import json
import warnings
from collections.abc import Iterable, Sequence
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
        table = pd.read_csv(io.BytesIO(self.csv))
        # Tables written before the experiment had a column have its value in the record.
        settings = self.record.get("settings", {})
        lacking = [name for name in self.experiment.columns if len(settings.get(name, ())) == 1 and name not in table]
        return table.assign(**{name: settings[name][0] for name in lacking})

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
        """Return the summary, if any, then claim, outcome and verdicts as text to print, a line each."""
        about = self.experiment
        summary = [about.summary(self.table)] if about.summary else []
        verdicts = (f"    {verdict}" for verdict in self.verdicts)
        return "\n".join([*summary, f"{about.name}: {about.claim}", f"    {self.outcome().capitalize()}", *verdicts])

    def recorded(self) -> ResultTable:
        """Return a copy whose record contains the checksum `sha256` of the table, and the digests of its claims."""
        digests = {key: claim.digest for key, claim in self.experiment.claims.items()}
        record = {"claims": digests} | self.record if digests else self.record
        return replace(self, record=record | {"sha256": _sha256(self.csv)})

    def given(self, options: Settings) -> ResultTable:
        """Return the results restricted by options of the command, with the rows that the experiment shows."""
        about = self.experiment.given(options)
        csv = as_csv(about.shown(self.table, **options)) if about.shown else self.csv
        return replace(self, experiment=about, csv=csv)

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
            settings = (f"{name} {', '.join(map(str, values))}" for name, values in self.record["settings"].items())
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


def require_replaceable(collection: Collection, folder: Path, experiment: Experiment, quick: bool = False) -> None:
    """Raise InputError if the record in `folder` has values of settings that `experiment` lacks: they would be lost."""
    earlier = _records(collection, folder).get(experiment.name, {}) if (folder / RECORD).exists() else {}
    wanted = _unique_settings(cell.settings for cell in cells_of(experiment, experiment.grid(quick)))
    lost = {
        name: [value for value in values if value not in wanted.get(name, ())]
        for name, values in earlier.get("settings", {}).items()
        if name not in experiment.limits
    }
    listed = ", ".join(f"{name} {' '.join(map(str, values))}" for name, values in lost.items() if values)
    if listed:
        raise InputError(
            f"{folder} holds results of {listed.replace('_', ' ')}, which this run would replace: name another "
            "folder with --out, or ask for these as well"
        )


def write(collection: Collection, tables: Iterable[ResultTable], folder: Path) -> list[Path]:
    """Write NAME.csv, figures and page of the experiments in `tables`; return the paths of all files written.

    Record and `findings.md` cover these experiments and those that are already in the folder. If the table of one of
    the latter is damaged, a warning is issued and record and findings omit the experiment.
    """
    new = {one.experiment.name: one.recorded() for one in tables}
    every: dict[str, ResultTable] = {}
    for name in _records(collection, folder) if (folder / RECORD).exists() else ():
        try:
            every |= {} if name in new else {name: load(collection, folder, [name])[0]}
        except InputError as error:
            warnings.warn(f"{error}; the record and the findings go on without it", stacklevel=2)
    every |= new
    ordered = {name: every[name] for name in collection.figures if name in every}
    contents: dict[str, bytes] = {}
    pictures = {name: [f"{name}.png"] for name in ordered}
    for name, one in new.items():
        written = one.contents()
        contents |= written
        pictures[name] = [file for file in written if file.endswith(".png")]
    sections = [one.section(pictures[name]) for name, one in ordered.items()]
    text = "\n\n".join(["# Findings", f"Which claims hold: {collection.source}.", *sections]) + "\n"
    record = records_of(collection, ordered.values())
    contents |= {"findings.md": text.encode(), RECORD: json.dumps(record, indent=2, ensure_ascii=False).encode()}
    for one in new.values():
        contents |= {"report.html": one.experiment.page(one, contents)} if one.experiment.page else {}
    return [write_atomically(folder / name, content) for name, content in contents.items()]


def records_of(collection: Collection, tables: Iterable[ResultTable]) -> dict[str, Any]:
    """Return the record of the only experiment of a collection, or of several {"figures": {name: record}}."""
    records = {one.experiment.name: one.record for one in tables}
    return {"figures": records} if len(collection.names) > 1 else next(iter(records.values()))


def load(collection: Collection, folder: Path, names: Iterable[str] | None = None) -> list[ResultTable]:
    """Load the results that `write` wrote, by default all in the folder; InputError if they are missing or damaged."""
    records, command = _records(collection, folder), collection.command
    if not records:
        raise InputError(f"{folder} holds damaged results or none of {command}; run it again")
    tables = []
    for name in names or records:
        if name not in records:
            raise InputError(f"{folder} holds no figure {name!r}, but {', '.join(records)}; run {command} for it")
        path = as_file(folder / f"{name}.csv")
        try:
            csv = path.read_bytes()
        except OSError:
            csv = b""
        if _sha256(csv) != records[name]["sha256"]:
            raise InputError(f"{path} is damaged; run {command} --figure {name} again")
        tables.append(ResultTable(collection.figures[name], csv, records[name]))
    return tables


def resume_from(table: ResultTable, cells: Sequence[Cell]) -> dict[Cell, Result]:
    """Return the results of those `cells` that have rows in `table`; other cells are omitted.

    The seconds of each result are the mean over the cells of the record. Raises InputError if the record is damaged, if
    its revision or settings differ from those of the cells, or if the table has rows of further cells.
    """
    try:
        revision, settings = table.record["revision"], dict(table.record["settings"])
        seconds = table.record["seconds_of_all_cells"] / max(table.record["cells"], 1)
        machine = MACHINES.join(table.record["machines"])
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"the table's record is damaged: {type(error).__name__} {error}") from None
    names = table.experiment.coordinates or cells[0].settings
    places = [name for name in names if not any(isinstance(cell.settings.get(name, []), list) for cell in cells)]
    if len({tuple(cell.settings[name] for name in places) for cell in cells}) < len(cells):
        raise InputError(f"the cells of the table of {table.experiment.name} cannot be told apart; compute them again")
    by_place = {place: rows for place, rows in table.table.groupby(places, sort=False)}
    results = {}
    for cell in cells:
        rows = by_place.pop(tuple(cell.settings[name] for name in places), None)
        if rows is None:
            continue
        key = cell.key()
        options = {name: value for name, value in key["settings"].items() if name not in places}
        wanted = {name: value if isinstance(value, list) else [value] for name, value in options.items()}
        recorded = {"revision": revision} | {name: settings.get(name) for name in wanted}
        for name, value in ({"revision": key["revision"]} | wanted).items():
            if recorded[name] != value:
                raise InputError(f"the table is of {name.replace('_', ' ')} {recorded[name]}, not of {value}")
        content = rows.drop(columns=places).to_dict("records")
        results[cell] = Result([{str(name): row[name] for name in row} for row in content], seconds, machine)
    if by_place:
        one = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in zip(places, min(by_place), strict=True))
        raise InputError(f"the table holds what this run would not keep, such as {one}")
    return results


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _records(collection: Collection, folder: Path) -> dict[str, dict[str, Any]]:
    """Return the readable records of a folder by experiment, in the order of the collection; perhaps none.

    InputError is raised if the folder has no record file.
    """
    file = as_file(folder / RECORD)
    try:
        content = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    stored = content.get("figures", {next(iter(collection.figures)): content}) if isinstance(content, dict) else {}
    readable = stored if isinstance(stored, dict) else {}
    complete = {name for name, record in readable.items() if isinstance(record, dict) and "sha256" in record}
    return {name: readable[name] for name in collection.figures if name in complete}
