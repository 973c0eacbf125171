"""`implicit-bias reproduce paper` and the collections: figures of papers, and whether their claims hold."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from implicit_bias.cli.parsers import Parser, add_data_root, add_engine, add_json, add_list, add_versions
from implicit_bias.studies.collection import Collection
from implicit_bias.studies.paper.plan import FIGURES, PAPER
from implicit_bias.studies.paper.studies import VERSIONS

if TYPE_CHECKING:
    from implicit_bias.cli.execution import Outcome


PART = ("--quick", "a part of every figure, in a few minutes")


def declare(parser: Parser, command: str) -> None:
    """Declare the options of the paper's reproduction, or a collection's."""
    name = command.rpartition(" ")[2]
    if name == "paper":
        _declare_paper(parser)
    else:
        _declare_collection(parser, import_module(f"implicit_bias.studies.{name}").COLLECTION)


def _declare_paper(parser: Parser) -> None:
    parser.explain(
        "Reproduce the paper's figures 2 to 5, panel by panel, and figures of our own, corrected and with its faults:\n"
        "figures, findings and a self-contained report, every corrected cell certified. Finished cells are stored:\n"
        "the same command goes on where an interrupted one ended.",
        [
            PART,
            ("--figure 3 4 --corrected", "two figures, without the published faults"),
            ("--redraw data/paper", "figures and report of the committed table, in seconds"),
        ],
    )
    place = "table, figures and report; else results/paper, for --redraw results/redrawn"
    _options(parser, [*FIGURES], "report from an earlier run, such as data/paper", place, paper=True)
    parser.set_defaults(run=reproduce_paper, loads=("studies.paper.report", "studies.paper.experiment", "cli.sweeps"))


def _declare_collection(parser: Parser, collection: Collection) -> None:
    folder, figures = f"results/{collection.name}", [*collection.names]
    parser.explain(
        f"Draw the figures again of {collection.source},\n"
        "and say whether their claims hold. Finished cells are stored: the same command goes on where an\n"
        "interrupted one ended, and figures of several runs gather in one folder.",
        [
            PART,
            (f"--figure {figures[-1]}", "one figure"),
            (f"--redraw {folder}", "figures and findings of an earlier run's tables, in seconds"),
        ],
    )
    place = f"tables, figures and findings; else {folder}, for --redraw {folder}-redrawn"
    _options(parser, figures, "findings from an earlier run's folder", place, files=collection.images)
    parser.set_defaults(
        run=reproduce,
        loads=("studies.paper.experiment", "cli.sweeps"),
        collection=collection.name,
        data_root=None,
    )


def _options(
    parser: Parser, figures: list[str], redraw: str, place: str, *, files: bool = True, paper: bool = False
) -> None:
    add = parser.add_argument
    add_list(parser, "--figure", str, ("all",), f"{', '.join(figures)} or all", offered=[*figures, "all"])
    add("--quick", action="store_true", help=PART[1])
    if paper:
        add("--dataset", default=PAPER["dataset"], help="mnist as published, or another data set")
    if files:
        add_data_root(parser)
    add("--redraw", metavar="FOLDER", help=f"compute nothing: figures and {redraw}")
    if paper:
        add_versions(parser, VERSIONS)
    add_engine(parser)
    add("--out", help=f"folder for cells, {place}")
    add_json(parser)


def reproduce_paper(options: Namespace) -> Outcome:
    """Run the cells, or load those of an earlier run, and write what follows from them."""
    from implicit_bias.cli.sweeps import computed, ended, redrawn
    from implicit_bias.studies.paper.experiment import reproduction
    from implicit_bias.studies.paper.plan import chosen
    from implicit_bias.studies.paper.report import report_page
    from implicit_bias.studies.runner.results import as_csv, load_alone, write_alone

    experiment = reproduction(chosen(*options.figure), options.dataset, options.versions)
    if options.redraw:
        out = redrawn(options.out or "results/redrawn", options.quick or options.scheduler)
        found = load_alone(experiment, Path(options.redraw), "reproduce paper")
        found = replace(found, csv=as_csv(found.table[found.table.version.isin(options.versions)]))
    else:
        out = Path(options.out or "results/paper")
        (found,) = computed([experiment], options, out)
    code = 0 if options.redraw else None
    return ended([found], write_alone(found, out, report_page), found.record, code)


def reproduce(options: Namespace) -> Outcome:
    """Run the cells, or load the tables of an earlier run, and write what follows from them."""
    from implicit_bias.cli.sweeps import computed, ended, redrawn
    from implicit_bias.studies.runner.results import load, write

    collection = import_module(f"implicit_bias.studies.{options.collection}").COLLECTION
    experiments = collection.chosen(*options.figure)
    if options.redraw:
        out = redrawn(options.out or f"results/{collection.name}-redrawn", options.quick or options.scheduler)
        found = load(collection, Path(options.redraw), None if "all" in options.figure else options.figure)
    else:
        out = Path(options.out or f"results/{collection.name}")
        found = computed(experiments, options, out)
    missing = len(found) < len(experiments) or any(one.record["missing"] for one in found)
    code = 130 if missing and not options.redraw else 0
    return ended(found, write(collection, found, out), {one.experiment.name: one.record for one in found}, code)
