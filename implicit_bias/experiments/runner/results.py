"""Results of figures as files: a table and a drawing each, one record, and one page of findings."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from implicit_bias.experiments.runner.collect import Collected
from implicit_bias.experiments.runner.collection import Collection
from implicit_bias.experiments.runner.experiment import Experiment, Settings
from implicit_bias.experiments.runner.figure_jobs import FigureJob
from implicit_bias.experiments.runner.tables import as_csv, from_csv, pictures, read_record, read_table, sha256
from implicit_bias.experiments.runner.verdicts import outcome
from implicit_bias.ground.checks import InputError
from implicit_bias.ground.files import write_atomically


@dataclass(frozen=True, eq=False)
class Figured:
    """A figure's experiment, its table and how that came about."""

    experiment: Experiment
    table: pd.DataFrame
    record: dict[str, Any]

    def finding(self) -> str:
        """What the table says of the claim, and whether it is of a quick run or lacks cells."""
        missing, cells = self.record["missing"], self.record["cells"]
        notes = ["a quick run"] if self.record.get("quick") else []
        notes += [f"{cells} of {cells + missing} cells"] if missing else []
        verdicts = self.experiment.verdicts(self.table)
        return f"{outcome(verdicts).capitalize()}" + (f" ({', '.join(notes)})" if notes else "")


def tabulated(collected: Collected, *, quick: bool = False) -> list[Figured]:
    """The figures that cells were collected of, those of a quick run if they were."""
    jobs: dict[Experiment, list[FigureJob]] = {}
    for job in collected.jobs:
        assert isinstance(job, FigureJob)
        jobs.setdefault(job.experiment, []).append(job)
    found = []
    for experiment, own in jobs.items():
        part = collected.of(own)
        if part.results:
            about = {name: getattr(experiment, name) for name in ("title", "source", "claim")}
            about |= {"settings": lists_of([job.cell for job in own]), "code": own[0].code}
            about |= {"quick": True} if quick else {}
            # Through the file's format, so that drawing again gives the same.
            table = from_csv(as_csv(pd.DataFrame(part.rows())))
            found.append(Figured(experiment, table, about | part.record()))
    return found


def lists_of(cells: Iterable[Settings]) -> dict[str, list[Any]]:
    """Every setting with the values that it takes in some cells, or that these go through.

    >>> from implicit_bias.experiments.runner.results import lists_of
    >>> lists_of([{"d": 5, "seed": [1, 2]}, {"d": 6, "seed": [1, 2]}])
    {'d': [5, 6], 'seed': [1, 2]}
    """
    lists: dict[str, list[Any]] = {}
    for cell in cells:
        for name, value in cell.items():
            values = lists.setdefault(name, [])
            values += [one for one in (value if isinstance(value, list) else [value]) if one not in values]
    return lists


def load(collection: Collection, folder: Path, names: Iterable[str] | None = None) -> list[Figured]:
    """The figures of a collection that `write` wrote into a folder, or some of them.

    Raises
    ------
    InputError
        If there is none, one of `names` is missing, or a table is not what was written.
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


def _records(collection: Collection, folder: Path) -> dict[str, dict[str, Any]]:
    """The records of a folder's figures, in the order of the collection; empty if there are none that can be read."""
    stored = read_record(folder / "record.json").get("figures")
    known = stored if isinstance(stored, dict) else {}
    whole = {name for name, record in known.items() if isinstance(record, dict) and "sha256" in record}
    return {name: known[name] for name in collection.figures if name in whole}


def write(collection: Collection, found: Iterable[Figured], folder: Path) -> list[Path]:
    """Write NAME.csv, .png and .pdf of every figure, and `record.json` and `findings.md` of all in the folder.

    Figures of earlier runs stay, but for damaged ones, which are named. Everything is made before anything is written.
    """
    new = {}
    contents: dict[str, bytes] = {}
    for figured in found:
        name, content = figured.experiment.name, as_csv(figured.table)
        new[name] = replace(figured, record=figured.record | {"sha256": sha256(content)})
        contents |= {f"{name}.csv": content, **pictures(figured.experiment.draw(figured.table), name)}
    every = {**_earlier(collection, folder, set(new)), **new}
    ordered = [every[name] for name in collection.figures if name in every]
    contents["findings.md"] = as_markdown(collection, ordered).encode()
    records = {figured.experiment.name: figured.record for figured in ordered}
    contents["record.json"] = json.dumps({"figures": records}, indent=2).encode()
    return [write_atomically(folder / name, content) for name, content in contents.items()]


def _earlier(collection: Collection, folder: Path, replaced: set[str]) -> dict[str, Figured]:
    """The figures of earlier runs that are still whole."""
    if not (folder / "record.json").exists():
        return {}
    kept = {}
    for name in _records(collection, folder):
        if name not in replaced:
            try:
                kept[name] = load(collection, folder, [name])[0]
            except InputError as error:
                warnings.warn(f"{error}; the record and the findings go on without it", stacklevel=3)
    return kept


def as_markdown(collection: Collection, found: Iterable[Figured]) -> str:
    """A page of claims and findings."""
    lines = ["# Findings", "", f"Made by `implicit-bias {collection.command}`: what becomes of the claims of"]
    lines.append(f"{collection.source}.")
    for figured in found:
        about = figured.experiment
        lines += ["", f"## {about.title}", "", f"`--figure {about.name}`, {about.source}: {about.claim}"]
        lines += ["", f"**{figured.finding()}**", "", f"![{about.title}]({about.name}.png)"]
    return "\n".join([*lines, ""])
