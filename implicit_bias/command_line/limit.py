"""`implicit-bias reproduce limit`: networks driven to the limit of gradient descent, against the certified solution."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from implicit_bias.command_line.execution import Outcome
from implicit_bias.command_line.parsers import EXIT_CODES, Parser, add_data_root, add_json
from implicit_bias.datasets import dataset_names
from implicit_bias.experiments.limit.study import NETWORKS, STARTS, LimitConfig, run
from implicit_bias.ground.threads import one_thread


def declare(parser: Parser, command: str) -> None:
    """Declare the options of the limit study; their defaults are those of `LimitConfig`."""
    parser.explain(
        "Drive networks to the limit of gradient descent and hold it against the certified max-margin solution.\n"
        "Ctrl-C ends the present descent and writes what there is.",
        [
            ("", "100 digits, a few minutes"),
            ("--dataset mnist --train-size 500 --network gln relu linear", "as in the README"),
        ],
        EXIT_CODES | {2: "bad input, told in one sentence; networks finished before it are written"},
    )
    add = parser.add_argument
    add("--dataset", default=LimitConfig.dataset, help=f"one of {', '.join(dataset_names())}")
    add_data_root(parser)
    add("--network", nargs="+", choices=NETWORKS, default=LimitConfig.network, help="one or several")
    add("--units", type=int, default=LimitConfig.units, help="units of a GLN's layer; a ReLU layer has twice as many")
    add("--contexts", type=int, default=LimitConfig.contexts, help="contexts of a GLN's unit, a power of two")
    add("--seed", type=int, default=LimitConfig.seed, help="seed of gates, weights and batches")
    add("--train-size", type=int, default=LimitConfig.train_size, help="training samples n")
    add("--start", choices=STARTS, default=LimitConfig.start, help="from published training, or from scratch")
    text = "smoothing of the minimum margin at which a descent ends"
    add("--tolerance", type=float, default=LimitConfig.tolerance, help=text)
    add("--lr", type=float, default=LimitConfig.lr, help="learning rate of the plain descent")
    add("--max-seconds", type=float, default=LimitConfig.max_seconds, help="longest time of each descent")
    add("--out", default="results/limit", help="folder for limit.csv, .json, .png and .pdf")
    add_json(parser)
    parser.set_defaults(run=limit)


def limit(options: Namespace) -> Outcome:
    """Run the study and write its files."""
    values = {name: value for name, value in vars(options).items() if name in LimitConfig.__dataclass_fields__}
    config = LimitConfig(**values | {"network": tuple(options.network)})
    with one_thread():
        record, paths = run(config, Path(options.out))
    for path in paths:
        print(f"wrote {path}")
    code = {"finished": 0, "ended by KeyboardInterrupt": 130}.get(record["end"], 2)
    return Outcome(code, {"record": record, "files": paths})
