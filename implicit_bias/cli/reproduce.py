"""`implicit-bias reproduce` and `compare`: experiments of papers and of ours, with verdicts on their claims."""

from __future__ import annotations

from argparse import Namespace
from importlib import import_module
from pathlib import Path

from implicit_bias.cli.execution import Output
from implicit_bias.cli.parsers import ENGINE, Parser
from implicit_bias.studies.collection import Option
from implicit_bias.studies.paper import COMPARISONS, VERSIONS

QUICK = "a part of every figure, in a few minutes"
TEXT = """\
Reproduce the figures of {source},
with a verdict on each claim. Finished cells are stored: the same command resumes an interrupted run,
and figures of several runs are collected in one folder."""


def declare(parser: Parser, command: str) -> None:
    comparison = COMPARISONS.get(command.replace(" ", "_").replace("-", "_"))
    collection = comparison or import_module(f"implicit_bias.studies.{command.split()[-1]}").COLLECTION
    folder, figures = collection.folder, [*collection.names]
    examples = collection.examples or (
        (f"--figure {figures[-1]}", "one figure"),
        (f"--redraw {folder}", "figures and findings of an earlier run's tables, in seconds"),
    )
    text = collection.text or TEXT.format(source=collection.source)
    parser.explain(text, [("--quick", QUICK), *examples])
    loads = (*(f"studies.{collection.name}.{name.replace('-', '_')}" for name in figures), "cli.sweeps")
    run = compare if comparison else reproduce
    parser.set_defaults(run=run, loads=loads, collection=collection, figure=("all",), data_root=None)
    if not collection.options:
        parser.add_settings({"figure": Option(("all",), f"{', '.join(figures)} or all", [*figures, "all"])})
    parser.add_settings(collection.options)
    if "versions" in collection.options:
        _add_versions(parser, collection.options["versions"].default)
    add = parser.add_argument
    add("--quick", action="store_true", help=QUICK)
    add("--list", action="store_true", help="compute nothing: print the number of cells and their cost")
    add("--stored", action="store_true", help="compute nothing: figures and findings of cells that are stored")
    add("--extend", metavar="FOLDER", help="begin with the cells of an earlier run's tables and record")
    if collection.images:
        parser.add_shared("--data-root")
    parser.add_shared("--redraw", *ENGINE)
    text = f"folder for cells, tables, figures and findings; else {folder}, for --redraw {folder}-redrawn"
    add("--out", help=text)


def _add_versions(parser: Parser, default: tuple[str, ...]) -> None:
    """Add the options --corrected, --as-published and --both, which set `versions` to a tuple of versions."""
    choice = parser.add_mutually_exclusive_group()
    for option, versions, text in (
        ("--corrected", VERSIONS[:1], "without the published faults (docs/errata.md)"),
        ("--as-published", VERSIONS[1:], "with the published faults (docs/errata.md)"),
        ("--both", VERSIONS, "both, side by side"),
    ):
        text += " (default)" * (default == versions)
        choice.add_argument(option, dest="versions", action="store_const", const=versions, default=default, help=text)


def reproduce(options: Namespace) -> Output:
    """Run a collection's cells, or load them (--stored, --redraw); write the results. Code 130: cells are missing."""
    from implicit_bias.cli.sweeps import computed, costs, ended, extend, folder_of, stored_tables
    from implicit_bias.studies.runner.results import load, require_replaceable

    collection, values = options.collection, vars(options)
    names = None if collection.options or "all" in options.figure else options.figure
    every = collection.chosen(*names or ("all",))
    asked = {name: values[name] for name in collection.options if name in values}
    given = {name: value for name, value in asked.items() if value != collection.options[name].default}
    experiments = [one.given(given) for one in every]
    reported = experiments
    if collection.gathers:
        reported = [one.given({name: given[name] for name in given if name in one.limits}) for one in every]
    shown = all(one.shown for one in every)
    computing = (given and not shown, options.quick, options.scheduler, options.list, options.stored, options.extend)
    out = folder_of(options, collection.folder, any(computing))
    if options.redraw:
        tables = [one.given(given) for one in load(collection, Path(options.redraw), names)]
        return ended(collection, tables, out)
    if options.extend:
        extend(reported, load(collection, Path(options.extend), names), out, options.quick)
    if options.list:
        sizes = costs(experiments, out, options.quick)
        print(sizes.to_string(index=False))
        print(f"{sizes.cells.sum()} cells, {sizes.stored.sum()} of them stored; hours: {sizes.hours_left.sum():.2f}")
        return Output(0, {"sizes": sizes}, "the same command without --list")
    for one in reported if collection.options and not shown else ():
        require_replaceable(collection, out, one, options.quick)
    tables = [] if options.stored else computed(experiments, options, out)
    missing = not options.stored and (len(tables) < len(every) or any(one.record["missing"] for one in tables))
    if options.stored or collection.gathers:
        tables = stored_tables(reported, out, options.quick)
    return ended(collection, tables, out, missing)


def compare(options: Namespace) -> Output:
    """Compute the comparison, print its means, and write the results. Code 130: cells are missing."""
    import pandas as pd

    from implicit_bias.studies.paper.summary import summarise

    outcome = reproduce(options)
    for path in outcome.files:
        if path.suffix == ".csv":
            table = pd.read_csv(path)
            outcome.document.update(summary=summarise(table), rows=table)
    return outcome
