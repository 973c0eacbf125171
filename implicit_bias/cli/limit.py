"""`implicit-bias reproduce limit`: the limit of gradient descent, compared with the certified solution."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from functools import partial
from pathlib import Path

from implicit_bias.cli.execution import Outcome, settings_of
from implicit_bias.cli.parsers import Parser
from implicit_bias.studies.limit.config import DESCENTS, NETWORKS, STARTS, LimitConfig

#: Settings whose options come before --start, with their help; those of `NUMBERS` come after.
LISTS = {
    "network": "one or several of those above",
    "train_size": "training samples n",
    "seeds": "seeds of gates, weights and batches",
    "units": "units of a GLN's layer; a ReLU layer has twice as many",
    "momentum": "momentum of the training",
    "contexts": "contexts of a GLN's unit, a power of two",
    "draws": "weights that a deep network begins with, behind the same gates",
    "descents": f"the training before the limit, and what follows it: {', '.join(DESCENTS)}",
}
NUMBERS = {
    "tolerance": "smoothing of the least margin at which a descent ends, and, for fixed gates, excess of the certified "
    "ratio over 1",
    "lr": "learning rate of the plain descent",
    "max_steps": "largest number of steps of a descent",
    "max_seconds": "time after which each descent is cut off",
}


def declare(parser: Parser, command: str) -> None:
    parser.explain(
        "Drive networks to the limit of gradient descent and compare it with the certified max-margin solution.\n"
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
    default, add = partial(getattr, LimitConfig), parser.add_argument
    parser.add_shared("--dataset", "--data-root")
    parser.add_settings(default, LISTS, {"network": [*NETWORKS], "descents": DESCENTS})
    add("--start", choices=STARTS, default=LimitConfig.start, help="from published training, or from scratch")
    parser.add_settings(default, NUMBERS)
    add("--stored", action="store_true", help="compute nothing: figures and findings of those cells that are stored")
    parser.add_shared("--redraw")
    add("--out", help="folder for cells, table, figures and findings; else results/limit, with -redrawn for those")
    loads = ("studies.limit.study", "cli.sweeps")
    parser.set_defaults(
        run=limit, loads=loads, dataset=LimitConfig.dataset, quick=False, engine="local", jobs=1, scheduler=None
    )


def limit(options: Namespace) -> Outcome:
    """Compute the descents, or load them (--stored, --redraw); write the results. Code 130: interrupted."""
    from implicit_bias._utils.threads import one_thread
    from implicit_bias.cli.sweeps import computed, ended, folder_of, known
    from implicit_bias.studies.limit.study import EXPERIMENT, configured, lines, titled
    from implicit_bias.studies.runner.results import load_alone, require_replaceable, write_alone

    config = settings_of(options, LimitConfig)
    out = folder_of(options, "results/limit", config != LimitConfig() or options.stored)
    if options.redraw:
        found = load_alone(EXPERIMENT, Path(options.redraw), "reproduce limit")
        found = replace(found, experiment=titled(found.record["title"]))
    else:
        experiment = configured(config)
        require_replaceable(out, experiment)
        if options.stored:
            found = known(experiment, out)
        else:
            with one_thread():
                (found,) = computed([experiment], options, out)
    print(lines(found.table))
    interrupted = found.record["end"] == "interrupted" and not options.redraw
    return ended([found], write_alone(found, out), found.record, interrupted)
