"""`implicit-bias reproduce galu`, `localization` and `gram`: figures of papers, and what becomes of their claims."""

from __future__ import annotations

from argparse import Namespace
from functools import partial
from importlib import import_module
from pathlib import Path

from implicit_bias.command_line.execution import Outcome
from implicit_bias.command_line.parsers import Parser, add_data_root, add_json
from implicit_bias.command_line.sweeps import add_engine, add_figure, check_redraw, watched
from implicit_bias.experiments.runner.collection import Collection
from implicit_bias.experiments.runner.figure_jobs import jobs_of
from implicit_bias.experiments.runner.results import load, tabulated, write
from implicit_bias.ground.files import require_writable


def declare(parser: Parser, command: str) -> None:
    """Declare the options of a collection's reproduction."""
    name = command.rpartition(" ")[2]
    collection: Collection = import_module(f"implicit_bias.experiments.{name}.figures").COLLECTION
    figures = collection.figures
    parser.explain(
        f"Draw the figures again of {collection.source},\n"
        "and say what becomes of their claims. Finished cells are stored: the same command goes on where an\n"
        "interrupted one ended, and figures of several runs gather in one folder.",
        [
            ("--quick", "a part of every figure, in a few minutes"),
            (f"--figure {list(figures)[-1]}", "one figure"),
            (f"--redraw results/{name}", "figures and findings of an earlier run's tables, in seconds"),
        ],
    )
    add = parser.add_argument
    add_figure(parser, figures)
    if any(experiment.data for experiment in figures.values()):
        add_data_root(parser)
    else:
        parser.set_defaults(data_root=None)
    add("--redraw", metavar="FOLDER", help="compute nothing: figures and findings from an earlier run's folder")
    add_engine(parser)
    text = f"folder for cells, tables, figures and findings; else results/{name}, for --redraw results/{name}-redrawn"
    add("--out", help=text)
    add_json(parser)
    parser.set_defaults(run=partial(reproduce, collection))


def reproduce(collection: Collection, options: Namespace) -> Outcome:
    """Run the cells, or load the tables of an earlier run, and write what follows from them."""
    experiments = collection.chosen(options.figure)
    if options.redraw:
        check_redraw(options)
        found = load(collection, Path(options.redraw), None if options.figure == "all" else [options.figure])
        out = require_writable(options.out or f"results/{collection.name}-redrawn")
    else:
        out = Path(options.out or f"results/{collection.name}")
        work = [job for e in experiments for job in jobs_of(e, quick=options.quick, data_root=options.data_root)]
        collected = watched(work, out, options.engine, options.jobs, options.scheduler)
        found = tabulated(collected, quick=options.quick)
    paths = write(collection, found, out)
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
