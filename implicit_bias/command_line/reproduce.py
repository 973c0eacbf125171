"""`implicit-bias reproduce paper`: figures 2 to 5, as published and corrected, every cell certified."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from pathlib import Path

from implicit_bias.command_line.execution import Outcome
from implicit_bias.command_line.parsers import Parser, add_data_root, add_json
from implicit_bias.command_line.sweeps import add_engine, add_figure, add_versions, check_redraw, told, watched
from implicit_bias.experiments.paper.experiment import reproduction
from implicit_bias.experiments.paper.plan import FIGURES, PAPER, chosen, grid
from implicit_bias.experiments.paper.report import report_page
from implicit_bias.experiments.paper.study import VERSIONS
from implicit_bias.experiments.runner.cells import cells_of
from implicit_bias.experiments.runner.results import figured, load_alone, write_alone
from implicit_bias.ground.files import require_writable

RECORD = "record.json"


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
    experiment = reproduction(figures)
    if options.redraw:
        check_redraw(options)
        out = require_writable(options.out or "results/redrawn")
        loaded = load_alone(experiment, Path(options.redraw), RECORD, "reproduce paper")
        found = replace(loaded, table=loaded.table[loaded.table.version.isin(options.versions)])
    else:
        out = Path(options.out or "results/paper")
        settings = grid(figures, quick=options.quick, dataset=options.dataset, versions=options.versions)
        found = figured(watched(cells_of(experiment, settings, options.data_root), options, out), experiment,
                        quick=options.quick)  # fmt: skip
    paths = write_alone(found, out, RECORD, page=report_page)
    print(found.lines())
    return Outcome(
        130 if found.record["missing"] else 0,
        {"findings": {found.experiment.name: found.findings()}, "record": found.record, "files": told(paths)},
    )
