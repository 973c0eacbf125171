"""`implicit-bias reproduce paper`: figures 2 to 5, as published and corrected, every cell certified."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from implicit_bias.command_line.execution import Outcome
from implicit_bias.command_line.parsers import Parser, add_data_root, add_json
from implicit_bias.command_line.sweeps import add_engine, add_figure, add_versions, check_redraw, watched
from implicit_bias.experiments.paper.findings import findings
from implicit_bias.experiments.paper.plan import FIGURES, PAPER, chosen, plan
from implicit_bias.experiments.paper.report import load_results, save_results, write_report
from implicit_bias.experiments.paper.study import VERSIONS
from implicit_bias.experiments.paper.sweep import jobs_in, tabulated
from implicit_bias.ground.files import require_writable


def declare(parser: Parser, command: str) -> None:
    """Declare the options of the paper's reproduction."""
    parser.explain(
        "Reproduce the paper's figures 2 to 5, as published and corrected, every cell certified: figures, findings\n"
        "and a self-contained report. Finished cells are stored: the same command goes on where an interrupted one "
        "ended.",
        [
            ("--quick", "a part of every figure, in a few minutes"),
            ("--figure 4 --corrected", "one figure, without the published faults"),
            ("--redraw data/paper", "figures and report of the committed table, in seconds"),
        ],
    )
    add = parser.add_argument
    add_figure(parser, FIGURES)
    add("--dataset", default=PAPER.dataset, help="mnist as published, or another data set")
    add_data_root(parser)
    text = "compute nothing: figures and report from an earlier run, such as data/paper"
    add("--redraw", metavar="FOLDER", help=text)
    add_versions(parser, VERSIONS)
    add_engine(parser)
    add("--out", help="folder for cells, table, figures and report; else results/paper, for --redraw results/redrawn")
    add_json(parser)
    parser.set_defaults(run=reproduce)


def reproduce(options: Namespace) -> Outcome:
    """Run the cells, or load those of an earlier run, and write what follows from them."""
    figures = chosen(options.figure)
    if options.redraw:
        check_redraw(options)
        out = require_writable(options.out or "results/redrawn")
        table, record = load_results(options.redraw)
        return _report(table[table.version.isin(options.versions)], record, out, figures)
    steps = plan(
        figures, quick=options.quick, dataset=options.dataset, data_root=options.data_root, versions=options.versions
    )
    out = Path(options.out or "results/paper")
    result = tabulated(steps, watched(jobs_in(steps), out, options.engine, options.jobs, options.scheduler))
    save_results(result.table, result.record, out)
    return _report(*load_results(out), out, figures)


def _report(table: pd.DataFrame, record: dict[str, Any], out: Path, figures: Sequence[str]) -> Outcome:
    found = findings(table)
    for finding in found:
        print(f"{finding.question}\n    {finding.answer}")
    paths = write_report(table, record, out, figures)
    for path in paths:
        print(f"wrote {path}")
    answers = [vars(finding) for finding in found]
    return Outcome(130 if record["missing"] else 0, {"findings": answers, "record": record, "files": paths})
