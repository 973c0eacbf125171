"""`implicit-bias reproduce`: experiments of papers and of ours, with verdicts on their claims."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from implicit_bias.cli.execution import Outcome
from implicit_bias.cli.parsers import ENGINE, Parser, add_versions
from implicit_bias.studies.collection import Collection
from implicit_bias.studies.paper import COLLECTION as PAPER
from implicit_bias.studies.paper.plan import FIGURES
from implicit_bias.studies.settings import chosen

QUICK = "a part of every figure, in a few minutes"
TEXT = """\
Reproduce the figures of {source},
with a verdict on each claim. Finished cells are stored: the same command resumes an interrupted run,
and figures of several runs are collected in one folder."""


def declare(parser: Parser, command: str) -> None:
    name = command.rpartition(" ")[2]
    add_options(parser, import_module(f"implicit_bias.studies.{name}").COLLECTION)
    if name == "paper":
        loads = ("studies.paper.report", "studies.paper.cells", "cli.sweeps")
        parser.set_defaults(run=reproduce_paper, loads=loads)


def add_options(parser: Parser, collection: Collection) -> None:
    """Declare the options of the command that runs a collection, and `reproduce` as its function."""
    folder, paper = collection.folder, collection is PAPER
    figures = [*FIGURES] if paper else [*collection.names]
    examples = collection.examples or (
        (f"--figure {figures[-1]}", "one figure"),
        (f"--redraw {folder}", "figures and findings of an earlier run's tables, in seconds"),
    )
    text = collection.text or TEXT.format(source=collection.source)
    parser.explain(text, [("--quick", QUICK), *examples])
    parser.set_defaults(run=reproduce, loads=("cli.sweeps",), collection=collection, figure=("all",), data_root=None)
    if len(figures) > 1 or not collection.options:
        parser.add_list("--figure", str, ("all",), f"{', '.join(figures)} or all", offered=[*figures, "all"])
    parser.add_settings(collection.options)
    if "versions" in collection.options:
        add_versions(parser, collection.options["versions"].default)
    add = parser.add_argument
    add("--quick", action="store_true", help=QUICK)
    if not paper:
        add("--list", action="store_true", help="compute nothing: print the number of cells and their cost")
        add("--stored", action="store_true", help="compute nothing: figures and findings of cells that are stored")
        add("--extend", metavar="FOLDER", help="begin with the cells of an earlier run's tables and record")
    if collection.images:
        parser.add_shared("--data-root")
    parser.add_shared("--redraw", *ENGINE)
    redrawn = "results/redrawn" if paper else f"{folder}-redrawn"
    add("--out", help=f"folder for cells, tables, figures and findings; else {folder}, for --redraw {redrawn}")


def reproduce_paper(options: Namespace) -> Outcome:
    """Run the paper's cells, or load an earlier table (--redraw); write the results. Code 130: cells are missing."""
    from implicit_bias.cli.sweeps import computed, ended, folder_of
    from implicit_bias.studies.paper.cells import reproduction
    from implicit_bias.studies.paper.report import report_page
    from implicit_bias.studies.runner.results import as_csv, load

    experiment = reproduction(chosen(FIGURES, options.figure), options.dataset, options.versions)
    out = folder_of(options, "results/paper", options.quick or options.scheduler, "results/redrawn")
    if options.redraw:
        (found,) = load(PAPER, Path(options.redraw))
        own = found.table[found.table.version.isin(options.versions)]
        return ended(PAPER, [replace(found, experiment=experiment, csv=as_csv(own))], out, page=report_page)
    (found,) = computed([experiment], options, out)
    return ended(PAPER, [found], out, bool(found.record["missing"]), report_page)


def reproduce(options: Namespace) -> Outcome:
    """Run a collection's cells, or load them (--stored, --redraw); write the results. Code 130: cells are missing."""
    from implicit_bias.cli.sweeps import computed, costs, ended, extend, folder_of, known
    from implicit_bias.studies.runner.results import load, require_replaceable

    collection, values = options.collection, vars(options)
    names = None if "all" in options.figure else options.figure
    every = collection.chosen(*options.figure)
    asked = {name: values[name] for name in collection.options if name in values}
    given = {name: value for name, value in asked.items() if value != collection.options[name].default}
    experiments = [one.given(given) for one in every]
    reported = experiments
    if collection.gathers:
        reported = [one.given({name: given[name] for name in given if name in one.limits}) for one in every]
    computing = (given, options.quick, options.scheduler, options.list, options.stored, options.extend)
    out = folder_of(options, collection.folder, any(computing))
    if options.redraw:
        return ended(collection, load(collection, Path(options.redraw), names), out)
    if options.extend:
        extend(reported, load(collection, Path(options.extend), names), out, options.quick)
    if options.list:
        sizes = costs(experiments, out, options.quick)
        print(sizes.to_string(index=False))
        print(f"{sizes.cells.sum()} cells, {sizes.stored.sum()} of them stored; hours: {sizes.hours_left.sum():.2f}")
        return Outcome(0, {"sizes": sizes}, "the same command without --list")
    for one in reported if collection.options else ():
        require_replaceable(collection, out, one, options.quick)
    found = [] if options.stored else computed(experiments, options, out)
    missing = not options.stored and (len(found) < len(every) or any(one.record["missing"] for one in found))
    if options.stored or collection.gathers:
        found = known(reported, out, options.quick)
    return ended(collection, found, out, missing)
