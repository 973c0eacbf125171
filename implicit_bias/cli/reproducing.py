"""The work of `implicit-bias reproduce`, but for the limit: figures of papers, and whether their claims hold."""

from argparse import Namespace
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from implicit_bias.cli.execution import Outcome
from implicit_bias.cli.sweeps import computed, ended, redrawn
from implicit_bias.studies.paper.experiment import reproduction
from implicit_bias.studies.paper.plan import chosen
from implicit_bias.studies.paper.report import report_page
from implicit_bias.studies.runner.results import load, load_alone, write, write_alone


def reproduce_paper(options: Namespace) -> Outcome:
    """Run the cells, or load those of an earlier run, and write what follows from them."""
    experiment = reproduction(chosen(*options.figure), options.dataset, options.versions)
    if options.redraw:
        out = redrawn(options.out or "results/redrawn", options.quick or options.scheduler)
        found = load_alone(experiment, Path(options.redraw), "reproduce paper")
        found = replace(found, table=found.table[found.table.version.isin(options.versions)])
    else:
        out = Path(options.out or "results/paper")
        (found,) = computed([experiment], options, out)
    code = 0 if options.redraw else None
    return ended([found], write_alone(found, out, report_page), found.record, code)


def reproduce(options: Namespace) -> Outcome:
    """Run the cells, or load the tables of an earlier run, and write what follows from them."""
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
