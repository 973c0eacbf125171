"""`implicit-bias reproduce galu`: the figures of "Decoupling Gating from Linearity", and what becomes of its claims."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from implicit_bias.command_line.execution import Outcome
from implicit_bias.command_line.parsers import Parser, add_data_root, add_json
from implicit_bias.command_line.sweeps import add_engine, add_figure, check_redraw, watched
from implicit_bias.experiments.galu.figures import FIGURES, chosen
from implicit_bias.experiments.galu.jobs import jobs_of
from implicit_bias.experiments.galu.results import load, tabulated, write
from implicit_bias.files import require_writable


def declare(parser: Parser, command: str) -> None:
    """Declare the options of the GaLU paper's reproduction."""
    parser.explain(
        'Draw the figures of "Decoupling Gating from Linearity" (Fiat, Malach & Shalev-Shwartz) again, and say what\n'
        "becomes of their claims. Finished cells are stored: the same command goes on where an interrupted one ended,\n"
        "and figures of several runs gather in one folder.",
        [
            ("--quick", "a part of every figure, in a few minutes"),
            ("--figure norms", "one figure"),
            ("--redraw results/galu", "figures and findings of an earlier run's tables, in seconds"),
        ],
    )
    add = parser.add_argument
    add_figure(parser, FIGURES)
    add_data_root(parser)
    add("--redraw", metavar="FOLDER", help="compute nothing: figures and findings from an earlier run's folder")
    add_engine(parser)
    text = "folder for cells, tables, figures and findings; else results/galu, for --redraw results/galu-redrawn"
    add("--out", help=text)
    add_json(parser)
    parser.set_defaults(run=reproduce)


def reproduce(options: Namespace) -> Outcome:
    """Run the cells, or load the tables of an earlier run, and write what follows from them."""
    experiments = chosen(options.figure)
    if options.redraw:
        check_redraw(options)
        found = load(Path(options.redraw), None if options.figure == "all" else [options.figure])
        out = require_writable(options.out or "results/galu-redrawn")
    else:
        out = Path(options.out or "results/galu")
        work = [job for e in experiments for job in jobs_of(e, quick=options.quick, data_root=options.data_root)]
        found = tabulated(watched(work, out, options.engine, options.jobs, options.scheduler))
    paths = write(found, out)
    findings = {figured.experiment.name: figured.finding() for figured in found}
    for figured in found:
        print(f"{figured.experiment.name}: {figured.experiment.claim}\n    {findings[figured.experiment.name]}")
    for path in paths:
        print(f"wrote {path}")
    missing = len(found) < len(list(experiments)) or any(figured.record["missing"] for figured in found)
    return Outcome(
        130 if missing and not options.redraw else 0,
        {"findings": findings, "record": {f.experiment.name: f.record for f in found}, "files": paths},
    )
