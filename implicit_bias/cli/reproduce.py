"""`implicit-bias reproduce paper` and the collections: figures of papers, and whether their claims hold."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from implicit_bias.cli.execution import Outcome
from implicit_bias.cli.parsers import ENGINE, Parser, add_versions
from implicit_bias.studies.collection import Collection
from implicit_bias.studies.paper.plan import FIGURES, PAPER
from implicit_bias.studies.paper.studies import VERSIONS

PART = ("--quick", "a part of every figure, in a few minutes")


def declare(parser: Parser, command: str) -> None:
    """Declare the options of the paper's reproduction, or a collection's."""
    name = command.rpartition(" ")[2]
    if name == "paper":
        _declare_paper(parser)
    else:
        _declare_collection(parser, _collection(name))


def _collection(name: str) -> Collection:
    found: Collection = import_module(f"implicit_bias.studies.{name}").COLLECTION
    return found


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
    _add_figures(parser, [*FIGURES])
    parser.add_argument("--dataset", default=PAPER["dataset"], help="mnist as published, or another data set")
    parser.add_shared("--data-root")
    _add_redraw(parser, "report from an earlier run, such as data/paper")
    add_versions(parser, VERSIONS)
    _add_engine(parser, "table, figures and report; else results/paper, for --redraw results/redrawn")
    loads = ("studies.paper.report", "studies.paper.experiment", "cli.sweeps")
    parser.set_defaults(run=reproduce_paper, loads=loads)


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
    _add_figures(parser, figures)
    if collection.images:
        parser.add_shared("--data-root")
    _add_redraw(parser, "findings from an earlier run's folder")
    _add_engine(parser, f"tables, figures and findings; else {folder}, for --redraw {folder}-redrawn")
    loads = ("studies.paper.experiment", "cli.sweeps")
    parser.set_defaults(run=reproduce, loads=loads, collection=collection.name, data_root=None)


def _add_figures(parser: Parser, figures: list[str]) -> None:
    parser.add_list("--figure", str, ("all",), f"{', '.join(figures)} or all", offered=[*figures, "all"])
    parser.add_argument("--quick", action="store_true", help=PART[1])


def _add_redraw(parser: Parser, what: str) -> None:
    parser.add_argument("--redraw", metavar="FOLDER", help=f"compute nothing: figures and {what}")


def _add_engine(parser: Parser, place: str) -> None:
    parser.add_shared(*ENGINE)
    parser.add_argument("--out", help=f"folder for cells, {place}")


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
    missing = bool(found.record["missing"]) and not options.redraw
    return ended([found], write_alone(found, out, report_page), found.record, missing)


def reproduce(options: Namespace) -> Outcome:
    """Run the cells, or load the tables of an earlier run, and write what follows from them."""
    from implicit_bias.cli.sweeps import computed, ended, redrawn
    from implicit_bias.studies.runner.results import load, write

    collection = _collection(options.collection)
    experiments = collection.chosen(*options.figure)
    if options.redraw:
        out = redrawn(options.out or f"results/{collection.name}-redrawn", options.quick or options.scheduler)
        found = load(collection, Path(options.redraw), None if "all" in options.figure else options.figure)
    else:
        out = Path(options.out or f"results/{collection.name}")
        found = computed(experiments, options, out)
    missing = len(found) < len(experiments) or any(one.record["missing"] for one in found)
    records = {one.experiment.name: one.record for one in found}
    return ended(found, write(collection, found, out), records, missing and not options.redraw)
