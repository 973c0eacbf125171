"""`implicit-bias reproduce` for the paper and for collections: figures of papers, and verdicts on their claims."""

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
from implicit_bias.studies.settings import chosen

PART = ("--quick", "a part of every figure, in a few minutes")
PAPER_TEXT = """\
Reproduce the paper's figures 2 to 5, panel by panel, and figures of our own, without and with the published faults.
The results are figures, findings and a self-contained report; every cell without faults is certified.
Finished cells are stored: the same command resumes an interrupted run."""
TEXT = """\
Reproduce the figures of {source},
with a verdict on each claim. Finished cells are stored: the same command resumes an interrupted run,
and figures of several runs are collected in one folder."""


def _collection(name: str) -> Collection:
    found: Collection = import_module(f"implicit_bias.studies.{name}").COLLECTION
    return found


def declare(parser: Parser, command: str) -> None:
    name = command.rpartition(" ")[2]
    folder, paper = f"results/{name}", name == "paper"
    if paper:
        text, figures, images = PAPER_TEXT, [*FIGURES], True
        example = ("--figure 3 4 --corrected", "two figures, without the published faults")
        again = ("--redraw data/paper", "figures and report of the committed table, in seconds")
        place, redrawn = "table, figures and report", "results/redrawn"
        loads = ("studies.paper.report", "studies.paper.experiment", "cli.sweeps")
        parser.set_defaults(run=reproduce_paper, loads=loads)
    else:
        collection = _collection(name)
        text, figures, images = TEXT.format(source=collection.source), [*collection.names], collection.images
        example = (f"--figure {figures[-1]}", "one figure")
        again = (f"--redraw {folder}", "figures and findings of an earlier run's tables, in seconds")
        place, redrawn = "tables, figures and findings", f"{folder}-redrawn"
        parser.set_defaults(run=reproduce, loads=("cli.sweeps",), collection=name, data_root=None)
    parser.explain(text, [PART, example, again])
    parser.add_list("--figure", str, ("all",), f"{', '.join(figures)} or all", offered=[*figures, "all"])
    parser.add_argument("--quick", action="store_true", help=PART[1])
    if paper:
        parser.add_argument("--dataset", default=PAPER["dataset"], help="mnist as published, or another data set")
    if images:
        parser.add_shared("--data-root")
    parser.add_shared("--redraw")
    if paper:
        add_versions(parser, VERSIONS)
    parser.add_shared(*ENGINE)
    parser.add_argument("--out", help=f"folder for cells, {place}; else {folder}, for --redraw {redrawn}")


def reproduce_paper(options: Namespace) -> Outcome:
    """Run the paper's cells, or load an earlier table (--redraw); write the results. Code 130: cells are missing."""
    from implicit_bias.cli.sweeps import computed, ended, folder_of
    from implicit_bias.studies.paper.experiment import reproduction
    from implicit_bias.studies.paper.report import report_page
    from implicit_bias.studies.runner.results import as_csv, load_alone, write_alone

    experiment = reproduction(chosen(FIGURES, options.figure), options.dataset, options.versions)
    out = folder_of(options, "results/paper", options.quick or options.scheduler, "results/redrawn")
    if options.redraw:
        found = load_alone(experiment, Path(options.redraw), "reproduce paper")
        found = replace(found, csv=as_csv(found.table[found.table.version.isin(options.versions)]))
    else:
        (found,) = computed([experiment], options, out)
    missing = bool(found.record["missing"]) and not options.redraw
    return ended([found], write_alone(found, out, report_page), found.record, missing)


def reproduce(options: Namespace) -> Outcome:
    """Run a collection's cells, or load earlier tables (--redraw); write the results. Code 130: cells are missing."""
    from implicit_bias.cli.sweeps import computed, ended, folder_of
    from implicit_bias.studies.runner.results import load, write

    collection = _collection(options.collection)
    experiments = collection.chosen(*options.figure)
    out = folder_of(options, f"results/{collection.name}", options.quick or options.scheduler)
    if options.redraw:
        found = load(collection, Path(options.redraw), None if "all" in options.figure else options.figure)
    else:
        found = computed(experiments, options, out)
    missing = len(found) < len(experiments) or any(one.record["missing"] for one in found)
    records = {one.experiment.name: one.record for one in found}
    return ended(found, write(collection, found, out), records, missing and not options.redraw)
