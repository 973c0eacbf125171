"""`implicit-bias reproduce limit`: networks driven to the limit of descent, against the certified solution."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from implicit_bias.cli.parsers import Parser, add_dataset, add_json, add_list
from implicit_bias.studies.limit.config import DESCENTS, NETWORKS, STARTS, LimitConfig

if TYPE_CHECKING:
    from implicit_bias.cli.execution import Outcome
    from implicit_bias.studies.runner.experiment import Experiment
    from implicit_bias.studies.runner.results import ResultTable


def declare(parser: Parser, command: str) -> None:
    """Declare the options of the limit study; their defaults are those of `LimitConfig`."""
    parser.explain(
        "Drive networks to the limit of gradient descent and hold it against the certified max-margin solution.\n"
        "Options that list their values take several (--seeds 1 2 3), and every combination runs. Finished ones are\n"
        "stored: the same command, and one with more --max-seconds, computes the others only.\n\nnetworks:\n"
        + "\n".join(f"  {name:18s}{text}" for name, text in NETWORKS.items()),
        [
            ("", "100 digits, a few minutes"),
            ("--dataset mnist --train-size 500 --network gln relu linear", "gated, ReLU and linear networks"),
            ("--network learned-relu relu --seeds 1 2 3 4 5 --descents sgd loss-scaled", "finite time, or gates?"),
            ("--redraw data/limit/one_layer", "figures and findings of a committed table, in seconds"),
        ],
    )
    add = parser.add_argument
    add_dataset(parser, LimitConfig.dataset)
    add_list(parser, "--network", str, LimitConfig.network, "one or several of those above", offered=[*NETWORKS])
    add_list(parser, "--train-size", int, LimitConfig.train_size, "training samples n")
    add_list(parser, "--seeds", int, LimitConfig.seeds, "seeds of gates, weights and batches")
    text = "units of a GLN's layer; a ReLU layer has twice as many"
    add_list(parser, "--units", int, LimitConfig.units, text)
    add_list(parser, "--momentum", float, LimitConfig.momentum, "momentum of the training")
    add("--contexts", type=int, default=LimitConfig.contexts, help="contexts of a GLN's unit, a power of two")
    text = "weights that a deep network begins with, behind the same gates"
    add("--draws", type=int, default=LimitConfig.draws, help=text)
    text = f"the training before the limit, and what follows it: {', '.join(DESCENTS)}"
    add_list(parser, "--descents", str, LimitConfig.descents, text, offered=DESCENTS)
    add("--start", choices=STARTS, default=LimitConfig.start, help="from published training, or from scratch")
    text = "smoothing of the least margin at which a descent ends, and what fixed gates' certified ratio exceeds 1 by"
    add("--tolerance", type=float, default=LimitConfig.tolerance, help=text)
    add("--lr", type=float, default=LimitConfig.lr, help="learning rate of the plain descent")
    add("--max-steps", type=int, default=LimitConfig.max_steps, help="steps of a descent at most")
    add("--max-seconds", type=float, default=LimitConfig.max_seconds, help="time after which each descent is cut off")
    add("--stored", action="store_true", help="compute nothing: figures and findings of those cells that are stored")
    add("--redraw", metavar="FOLDER", help="compute nothing: figures and findings from an earlier run's folder")
    add("--out", help="folder for cells, table, figures and findings; else results/limit, with -redrawn for those")
    add_json(parser)
    parser.set_defaults(
        run=limit, loads=("studies.limit.study", "cli.sweeps"), quick=False, engine="local", jobs=1, scheduler=None
    )


def limit(options: Namespace) -> Outcome:
    """Run the study, or load what an earlier run computed, and write its files."""
    from implicit_bias._utils.threads import one_thread
    from implicit_bias.cli.sweeps import computed, ended, redrawn
    from implicit_bias.studies.limit.study import EXPERIMENT, configured, lines, titled
    from implicit_bias.studies.runner.results import load_alone, require_replaceable, write_alone

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
    """What earlier runs have stored of the configured cells; raises InputError if that is nothing."""
    from implicit_bias._utils.checks import InputError
    from implicit_bias.studies.runner.cells import cells_of
    from implicit_bias.studies.runner.results import result_table
    from implicit_bias.studies.runner.run import stored
    from implicit_bias.studies.runner.store import Store

    cells = Store(out / "cells")
    known = stored(cells_of(experiment, experiment.grid(False)), cells)
    if not (known.results or known.partial):
        raise InputError(f"{cells.folder} holds none of these cells; run the command without --stored")
    return result_table(known, experiment)
