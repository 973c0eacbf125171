"""`implicit-bias reproduce galu`, `localization` and `gram`: figures of papers, and what becomes of their claims."""

from __future__ import annotations

from argparse import Namespace
from functools import partial
from importlib import import_module
from pathlib import Path

from implicit_bias.command_line.execution import Outcome
from implicit_bias.command_line.parsers import Parser, add_data_root, add_json
from implicit_bias.command_line.sweeps import add_engine, add_figure, check_redraw, told, watched
from implicit_bias.experiments.runner.cells import cells_of
from implicit_bias.experiments.runner.experiment import Collection
from implicit_bias.experiments.runner.results import load, tabulated, write
from implicit_bias.ground.files import require_writable


def declare(parser: Parser, command: str) -> None:
    """Declare the options of a collection's reproduction."""
    name = command.rpartition(" ")[2]
    collection: Collection = import_module(f"implicit_bias.experiments.{name}").COLLECTION
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
    experiments = list(collection.chosen(options.figure))
    if options.redraw:
        check_redraw(options)
        found = load(collection, Path(options.redraw), None if options.figure == "all" else [options.figure])
        out = require_writable(options.out or f"results/{collection.name}-redrawn")
    else:
        out = Path(options.out or f"results/{collection.name}")
        cells = [cell for e in experiments for cell in cells_of(e, e.grid(options.quick), options.data_root)]
        found = tabulated(watched(cells, options, out), quick=options.quick)
    paths = write(collection, found, out)
    for one in found:
        print(one.lines())
    missing = len(found) < len(experiments) or any(one.record["missing"] for one in found)
    return Outcome(
        130 if missing and not options.redraw else 0,
        {
            "findings": {one.experiment.name: one.findings() for one in found},
            "record": {one.experiment.name: one.record for one in found},
            "files": told(paths),
        },
    )
