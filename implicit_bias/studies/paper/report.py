"""Report of the paper's table, figures and verdicts as one HTML page, and the paper's statements on each panel."""

import base64
import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import jinja2

from implicit_bias.studies.paper.figures import names
from implicit_bias.studies.paper.summary import summarise
from implicit_bias.studies.runner.results import ResultTable
from implicit_bias.studies.runner.verdicts import Verdict

#: Columns by which the report's last table is grouped.
SETTINGS = ("study", "dataset", "train_size", "units", "contexts", "cutoff", "split", "momentum", "version", "model")

#: Statements of captions and text (sections 4.1, 5.2 and Appendix C) on each panel with results.
PANELS = {
    "2a": "Errors against that of GD-GLN: SVM-GLN matches it and is slightly better; SVM-L2 is much worse and only "
    "weakly correlated with it",
    "2b": "Inconsistencies with GD-GLN against its error: above 10 %, mostly below 2p(1 − p), and for SVM-GLN much "
    "below those of SVM-L2",
    "2c": "The best over contexts and units: architecture and L2 norm alone already beat the shallow GLN, and the GLN "
    "norm improves on them",
    "2d": "Errors against units, two contexts: SVM-L2 is worse with few units in particular; SVM-GLN tends to be "
    "slightly better than GD-GLN, as if the way to the limit improved generalisation",
    "3a": "Errors against that of GD-ReLU, momentum 0.9: SVM-RC is reasonably correlated, SVM-LC generalises better, "
    "and SVM-HL better still",
    "3b": "Inconsistencies with GD-ReLU against its error: those of SVM-RC are substantial but below 2p(1 − p), those "
    "of SVM-LC considerably lower, those of SVM-HL lower still",
    "3c": "The best over units: SVM-HL is even better than GD-ReLU; SVM-LC is better than a deep GLN of two contexts "
    "and at most 50 units, SVM-RC slightly worse",
    "3d": "Errors against units: SVM-LC is better than SVM-RC at every width, and falls further behind GD-ReLU and "
    "SVM-HL as this grows",
    "4a": "As 2a, with and without median cutoffs: slightly worse without",
    "4b": "As 2b, with and without: SVM-GLN is still more consistent with GD-GLN than SVM-L2",
    "4c": "As 2d, also with four contexts: there SVM-L2 begins to beat SVM-GLN at 100 units; without median cutoffs "
    "GD-GLN tends to be slightly better than SVM-GLN",
    "5a": "As 3a, without momentum and with: a bit worse without, and SVM-RC the same",
    "5b": "As 3b, without momentum and with: a bit less consistent without",
    "5c": "As 3d, without momentum and with: nothing more is said of it",
}


def panel_rows(verdicts: Sequence[Verdict]) -> list[tuple[str, str, list[str]]]:
    """Return, for every panel, its name, the paper's statement, and the verdicts on it as texts.

    A verdict for one value of a coordinate is listed only at the last of the panels that its claim names.

    >>> panel_rows([Verdict("4.1, 2a: a errs less than b", "2.00 %; 10 draws", "above 0", True)])[0][2]
    ['a errs less than b: yes, 2.00 %; 10 draws']
    """
    shown: dict[str, list[str]] = {panel: [] for panel in PANELS}
    for verdict in verdicts:
        place, _, text = verdict.claim.partition(": ")
        panels = [name for name in place.split(", ") if name in PANELS]
        for panel in panels[-1:] if re.search(r", \w+=\d+$", text) else panels:
            shown[panel].append(f"{text}: {verdict.outcome}, {verdict.found}")
    return [(panel, said, shown[panel]) for panel, said in PANELS.items()]


def report_page(found: ResultTable, contents: dict[str, bytes]) -> bytes:
    """Return the HTML page of results; its pictures are the PNG files in `contents`."""
    summary, verdicts = summarise(found.table, SETTINGS).round(4), found.verdicts
    pictures = {name.removesuffix(".png"): content for name, content in contents.items() if name.endswith(".png")}
    template = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined).from_string(
        files("implicit_bias.studies.paper").joinpath("report.html").read_text("utf-8")
    )
    page = template.render(
        title=f"The implicit bias of gated networks on {names(found.table)}, certified",
        verdicts=[verdict.row() for verdict in verdicts],
        panels=panel_rows(verdicts),
        figures=[(_caption(name), base64.b64encode(content).decode()) for name, content in pictures.items()],
        rows=len(summary),
        table=summary.to_html(index=False, border=0, na_rep="–"),
        record=_readable(found.record),
        missing=found.record["missing"],
    )
    return page.encode()


def _caption(name: str) -> str:
    if name.startswith("figure"):
        return f"Figure {name.removeprefix('figure')} of the paper, corrected above and with the published faults below"
    if name == "spreads":
        return "Our own figure of the claims, over draws"
    own, _, cutoff = name.partition("_")
    return f"Our own figure {own}, {cutoff or 'median'} cutoffs"


def _readable(record: dict[str, Any]) -> dict[str, str]:
    """Return the entries of a record as texts by name; a list of dictionaries becomes one numbered entry for each."""
    lines: dict[str, str] = {}
    for name, value in record.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            parts = {f"{name} {number}": part for number, part in enumerate(value, 1)}
            lines |= {part: "; ".join(f"{k}: {v}" for k, v in about.items()) for part, about in parts.items()}
        elif isinstance(value, dict):
            lines[name] = ", ".join(f"{k} {v}" for k, v in value.items())
        else:
            lines[name.replace("_", " ")] = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return lines
