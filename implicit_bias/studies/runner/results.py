"""Results as files: a table and its figures, a record of how they came about, and a page of findings."""

import hashlib
import io
import json
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
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
class Figured:
    """An experiment's table, and the record of how that came about."""

    experiment: Experiment
    table: pd.DataFrame
    record: dict[str, Any]

    def verdicts(self) -> list[Verdict]:
        """What the table says of the claim."""
        return self.experiment.verdicts(self.table)

    def outcome(self) -> str:
        """All verdicts in a word, and whether they are of a quick run or lack cells."""
        missing, cells = self.record["missing"], self.record["cells"]
        notes = ["a quick run"] if self.record.get("quick") else []
        notes += [f"{cells} of {cells + missing} cells"] if missing else []
        notes += ["the others cut off"] if self.record.get("end") == "cut off" else []
        return outcome(self.verdicts()) + (f" ({', '.join(notes)})" if notes else "")

    def findings(self) -> dict[str, Any]:
        """Outcome and verdicts as plain JSON."""
        return {"outcome": self.outcome(), "verdicts": [verdict.row() for verdict in self.verdicts()]}

    def lines(self) -> str:
        """Claim, outcome and verdicts as text, a line each."""
        about = self.experiment
        verdicts = (f"    {verdict}" for verdict in self.verdicts())
        return "\n".join([f"{about.name}: {about.claim}", f"    {self.outcome().capitalize()}", *verdicts])

    def contents(self) -> dict[str, bytes]:
        """The table and the figures by the names of their files."""
        contents = {f"{self.experiment.name}.csv": as_csv(self.table)}
        for name, figure in self.experiment.figures(self.table).items():
            contents |= pictures(figure, name)
        return contents

    def signed(self) -> dict[str, Any]:
        """The record, with the sum by which the table's file is known to be whole."""
        return self.record | {"sha256": sha256(as_csv(self.table))}


#: Where, when and how a folder's results were computed.
RECORD = "record.json"
#: From results and the contents of their files to one page that stands alone.
Page = Callable[[Figured, dict[str, bytes]], bytes]


def as_csv(table: pd.DataFrame) -> bytes:
    """A table with nine digits per number.

    >>> from_csv(as_csv(pd.DataFrame({"loss": [2 / 3, None]}))).loss.tolist()
    [0.666666667, nan]
    """
    return table.to_csv(index=False, float_format="%.9g").encode()


def from_csv(content: bytes) -> pd.DataFrame:
    """The table of `as_csv`, as whoever reads the file has it."""
    return pd.read_csv(io.BytesIO(content))


def sha256(content: bytes) -> str:
    """The sum by which a file is known to be whole."""
    return hashlib.sha256(content).hexdigest()


def figured(run: Run, experiment: Experiment, *, quick: bool = False) -> Figured:
    """The table of a run's cells, read back from its file's format, so that drawing again gives the same."""
    about = {name: getattr(experiment, name) for name in ("title", "source", "claim", "revision")}
    about |= {"settings": lists_of(cell.settings for cell in run.cells)} | ({"quick": True} if quick else {})
    return Figured(experiment, from_csv(as_csv(run.table())), about | run.record())


def tabulated(run: Run, *, quick: bool = False) -> list[Figured]:
    """The table of every experiment of which a cell is done."""
    parts = [(run.of(experiment), experiment) for experiment in dict.fromkeys(cell.experiment for cell in run.cells)]
    return [figured(part, experiment, quick=quick) for part, experiment in parts if part.results or part.partial]


def lists_of(cells: Iterable[Settings]) -> dict[str, list[Any]]:
    """Every setting with the values that it takes in some cells, or that these go through.

    >>> lists_of([{"d": 5, "seed": [1, 2]}, {"d": 6, "seed": [1, 2]}])
    {'d': [5, 6], 'seed': [1, 2]}
    """
    lists: dict[str, list[Any]] = {}
    for cell in cells:
        for name, value in cell.items():
            values = lists.setdefault(name, [])
            values += [one for one in (value if isinstance(value, list) else [value]) if one not in values]
    return lists


def require_replaceable(folder: Path, experiment: Experiment) -> None:
    """Refuse to begin what would replace results of a folder, by its record, that are not asked for again.

    A run may add settings to those of the record; what only cuts cells off may differ.
    """
    path = folder / RECORD
    earlier = read_record(path).get("settings") if path.exists() else None
    asked = lists_of(cell.settings for cell in cells_of(experiment, experiment.grid(False)))
    lost = {
        name: [value for value in values if value not in asked.get(name, ())]
        for name, values in (earlier.items() if isinstance(earlier, dict) else ())
        if isinstance(values, list) and name not in experiment.limits
    }
    told = ", ".join(f"{name} {' '.join(map(str, values))}" for name, values in lost.items() if values)
    if told:
        raise InputError(
            f"{folder} holds results of {told.replace('_', ' ')}, which this run would replace: name another "
            "folder with --out, or ask for these as well"
        )


def write_alone(found: Figured, folder: Path, page: Page | None = None) -> list[Path]:
    """Write NAME.csv and the figures of one experiment, its record, `findings.md` and perhaps `report.html`.

    Everything is made before anything is written.
    """
    found, contents = replace(found, record=found.signed()), found.contents()
    shown = [name for name in contents if name.endswith(".png")]
    text = findings_page(found.experiment.source, [section(found, shown)])
    contents |= {"findings.md": text, RECORD: json.dumps(found.record, indent=2).encode()}
    contents |= {"report.html": page(found, contents)} if page else {}
    return [write_atomically(folder / name, content) for name, content in contents.items()]


def write(collection: Collection, found: Iterable[Figured], folder: Path) -> list[Path]:
    """Write NAME.csv and the figures of every experiment, and record and `findings.md` of all in the folder.

    Figures of earlier runs stay, but for damaged ones, which are named. Everything is made before anything is written.
    """
    new = {one.experiment.name: replace(one, record=one.signed()) for one in found}
    contents = {name: content for one in new.values() for name, content in one.contents().items()}
    every = {**_earlier(collection, folder, set(new)), **new}
    ordered = [every[name] for name in collection.figures if name in every]
    sections = (section(one, [f"{one.experiment.name}.png"]) for one in ordered)
    contents["findings.md"] = findings_page(collection.source, sections)
    records = {one.experiment.name: one.record for one in ordered}
    contents[RECORD] = json.dumps({"figures": records}, indent=2).encode()
    return [write_atomically(folder / name, content) for name, content in contents.items()]


def section(found: Figured, pictures: Iterable[str]) -> str:
    """An experiment's claim, verdicts and pictures as a part of a page."""
    about = found.experiment
    parts = [
        f"## {about.title}",
        f"`{about.name}`, {about.source}: {about.claim}",
        f"**{found.outcome().capitalize()}**",
    ]
    parts += [as_markdown(found.verdicts()), *(f"![{about.title}]({name})" for name in pictures)]
    parts += [about.tables(found.table)] if about.tables else []
    return "\n\n".join(parts)


def findings_page(source: str, sections: Iterable[str]) -> bytes:
    """The page of all findings in a folder."""
    return ("\n\n".join(["# Findings", f"Which claims hold: {source}.", *sections]) + "\n").encode()


def load_alone(experiment: Experiment, folder: Path, command: str) -> Figured:
    """What `write_alone` wrote into a folder; raises InputError if a file is missing or is not what was written."""
    known = read_record(folder / RECORD)
    table = read_table(folder / f"{experiment.name}.csv", known.get("sha256"))
    if table is None:
        raise InputError(f"{folder} holds damaged results or none of {command}; run it again")
    return Figured(experiment, table, known)


def taken_up(found: Figured, cells: Iterable[Cell]) -> dict[Cell, Result]:
    """Cells whose rows a table holds, with nine digits, as if they were stored; each took the mean of the seconds.

    Raises InputError if the table is of another revision, or of other values of a setting that it has no column for,
    if it holds others than these cells, and if its record is damaged.
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
        asked = {name: [value] for name, value in key["settings"].items() if name not in rows}
        told = {"revision": revision} | {name: settings.get(name) for name in asked}
        for name, value in ({"revision": key["revision"]} | asked).items():
            if told[name] != value:
                raise InputError(f"the table is of {name.replace('_', ' ')} {told[name]}, not of {value}")
        own = rows.drop(columns=places).astype(object)
        content = [dict(row) for _, row in own.where(own.notna(), None).iterrows()]
        done[cell] = Result(content, seconds, machine)
    if known:
        one = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in zip(places, min(known), strict=True))
        raise InputError(f"the table holds what this run would not keep, such as {one}")
    return done


def load(collection: Collection, folder: Path, names: Iterable[str] | None = None) -> list[Figured]:
    """The experiments of a collection that `write` wrote into a folder, or some of them.

    Raises InputError if there is none, one of `names` is missing, or a table is not what was written.
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
        found.append(Figured(collection.figures[name], table, records[name]))
    return found


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


def _records(collection: Collection, folder: Path) -> dict[str, dict[str, Any]]:
    """The records of a folder's experiments, in the collection's order; empty if there are none that can be read."""
    stored = read_record(folder / RECORD).get("figures")
    known = stored if isinstance(stored, dict) else {}
    whole = {name for name, record in known.items() if isinstance(record, dict) and "sha256" in record}
    return {name: known[name] for name in collection.figures if name in whole}


def _earlier(collection: Collection, folder: Path, replaced: set[str]) -> dict[str, Figured]:
    """The experiments of earlier runs that are still whole."""
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
