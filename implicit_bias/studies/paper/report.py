"""Report of the paper's table, figures and verdicts as one HTML page."""

import base64
from importlib.resources import files
from typing import Any

import jinja2

from implicit_bias.studies.paper.figures import names
from implicit_bias.studies.paper.summary import summarise
from implicit_bias.studies.runner.results import ResultTable


def report_page(results: ResultTable, contents: dict[str, bytes]) -> bytes:
    """Return the HTML page of results; its pictures are the PNG files in `contents`."""
    summary, verdicts = summarise(results.table).round(4), results.verdicts
    pictures = {name.removesuffix(".png"): content for name, content in contents.items() if name.endswith(".png")}
    template = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined).from_string(
        files("implicit_bias.studies.paper").joinpath("report.html").read_text("utf-8")
    )
    page = template.render(
        title=f"The implicit bias of gated networks on {names(results.table)}, certified",
        verdicts=[verdict.row() for verdict in verdicts],
        figures=[(_caption(name), base64.b64encode(content).decode()) for name, content in pictures.items()],
        rows=len(summary),
        table=summary.to_html(index=False, border=0, na_rep="–"),
        record=_readable(results.record),
        missing=results.record["missing"],
    )
    return page.encode()


def _caption(name: str) -> str:
    if name.startswith("figure"):
        return f"Figure {name.removeprefix('figure')} of the paper, corrected above and with the published faults below"
    if name.startswith("claims"):
        return "Our own figure of the claims, over draws"
    figure, _, cutoff = name.partition("_")
    return f"Our own figure {figure}, {cutoff or 'median'} cutoffs"


def _readable(record: dict[str, Any]) -> dict[str, str]:
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
