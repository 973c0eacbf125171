"""The paper's table turned into files: figures, findings, and one self-contained page."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from implicit_bias.comparison import summarise
from implicit_bias.experiments.paper.figures import LAYOUTS, names, paper_figure
from implicit_bias.experiments.paper.findings import as_markdown, findings
from implicit_bias.experiments.runner.tables import as_csv, pictures, read_record, read_table, sha256
from implicit_bias.ground.checks import InputError
from implicit_bias.ground.files import write_atomically

#: What a row of the report's last table stands for.
SETTINGS = ("study", "dataset", "train_size", "units", "contexts", "cutoff", "momentum", "version", "model")


def save_results(table: pd.DataFrame, record: dict[str, Any], folder: str | Path) -> list[Path]:
    """Write `cells.csv` and `record.json`, from which `load_results` and every figure follow."""
    out = Path(folder)
    content = as_csv(table)
    return [
        write_atomically(out / "cells.csv", content),
        write_atomically(out / "record.json", json.dumps(record | {"sha256": sha256(content)}, indent=2).encode()),
    ]


def load_results(folder: str | Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The table and the record that `save_results` wrote into a folder.

    Raises
    ------
    InputError
        If a file is missing or is not what was written.
    """
    record = read_record(Path(folder) / "record.json")
    table = read_table(Path(folder) / "cells.csv", record.get("sha256"))
    if table is None:
        raise InputError(f"{folder} holds damaged results or none of reproduce_paper.py; run it again")
    return table, record


def write_report(table: pd.DataFrame, record: dict[str, Any], folder: str | Path, figures: Sequence[str]) -> list[Path]:
    """Write the figures, `findings.md` and `report.html`; everything is made before anything is written.

    Of several figures those are left out that the table has no cells of; InputError if it has none of a single one.
    """
    contents: dict[str, bytes] = {}
    shown = []
    for number in figures:
        cutoffs = table[table.study == LAYOUTS[number].study].cutoff.unique()
        for cutoff in cutoffs if len(cutoffs) or len(figures) > 1 else ("median",):
            figure = paper_figure(table, number, cutoff)
            name = f"figure{number}" + ("" if cutoff == "median" else f"_{cutoff}")
            contents |= pictures(figure, name)
            shown.append((f"Figure {number}, {cutoff} cutoffs", base64.b64encode(contents[f"{name}.png"]).decode()))
    found = findings(table)
    contents["findings.md"] = as_markdown(found).encode()
    summary = summarise(table, SETTINGS).round(4)
    template = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined).from_string(
        files("implicit_bias.experiments.paper").joinpath("report.html").read_text("utf-8")
    )
    page = template.render(
        title=f"The implicit bias of gated networks on {names(table)}, certified",
        findings=found,
        figures=shown,
        rows=len(summary),
        table=summary.to_html(index=False, border=0, na_rep="–"),
        record=_readable(record),
        missing=record["missing"],
    )
    contents["report.html"] = page.encode()
    return [write_atomically(Path(folder) / name, content) for name, content in contents.items()]


def _readable(record: dict[str, Any]) -> dict[str, str]:
    """The record as lines of text; a study's lists become one line each."""
    lines: dict[str, str] = {}
    for name, value in record.items():
        if name == "studies":
            for number, study in enumerate(value, 1):
                lists = "; ".join(f"{k}: {v}" for k, v in study.items() if k not in ("study", "data_root"))
                lines[f"study {number}, {study['study']}"] = lists
        elif isinstance(value, dict):
            lines[name] = ", ".join(f"{k} {v}" for k, v in value.items())
        else:
            lines[name.replace("_", " ")] = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return lines
