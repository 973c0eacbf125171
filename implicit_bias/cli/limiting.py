"""The work of `implicit-bias reproduce limit`: networks driven to the limit of descent, against the solution."""

from argparse import Namespace
from dataclasses import replace
from pathlib import Path

from implicit_bias._utils.checks import InputError
from implicit_bias._utils.threads import one_thread
from implicit_bias.cli.execution import Outcome
from implicit_bias.cli.sweeps import computed, ended, redrawn
from implicit_bias.studies.limit.config import LimitConfig
from implicit_bias.studies.limit.study import EXPERIMENT, configured, lines, titled
from implicit_bias.studies.runner.cells import cells_of
from implicit_bias.studies.runner.experiment import Experiment
from implicit_bias.studies.runner.results import ResultTable, load_alone, require_replaceable, result_table, write_alone
from implicit_bias.studies.runner.run import stored
from implicit_bias.studies.runner.store import Store


def limit(options: Namespace) -> Outcome:
    """Run the study, or load what an earlier run computed, and write its files."""
    values = {name: value for name, value in vars(options).items() if name in LimitConfig.__dataclass_fields__}
    config = LimitConfig(**values)
    out = Path(options.out or f"results/limit{'-redrawn' if options.redraw else ''}")
    if options.redraw:
        out = redrawn(out, config != LimitConfig() or options.stored)
        found = load_alone(EXPERIMENT, Path(options.redraw), "reproduce limit")
        found = replace(found, experiment=titled(found.record["title"]))
    else:
        experiment = configured(config)
        require_replaceable(out, experiment)
        if options.stored:
            found = _stored(experiment, out)
        else:
            with one_thread():
                (found,) = computed([experiment], options, out)
    print(lines(found.table))
    code = 130 if found.record["end"] == "interrupted" and not options.redraw else 0
    return ended([found], write_alone(found, out), found.record, code)


def _stored(experiment: Experiment, out: Path) -> ResultTable:
    """What earlier runs have stored of the cells that are asked for; raises InputError if that is nothing."""
    cells = Store(out / "cells")
    known = stored(cells_of(experiment, experiment.grid(False)), cells)
    if not (known.results or known.partial):
        raise InputError(f"{cells.folder} holds none of these cells; run the command without --stored")
    return result_table(known, experiment)
