"""`implicit-bias reproduce limit`: its options; `limiting` does the work."""

from implicit_bias.command_line.parsers import EXIT_CODES, Parser, add_dataset, add_json
from implicit_bias.experiments.limit.config import DESCENTS, NETWORKS, STARTS, LimitConfig


def declare(parser: Parser, command: str) -> None:
    """Declare the options of the limit study; their defaults are those of `LimitConfig`."""
    parser.explain(
        "Drive networks to the limit of gradient descent and hold it against the certified max-margin solution.\n"
        "Options that list their values take several (--seeds 1 2 3), and every combination runs. Finished ones are\n"
        "stored: the same command, and one with more --max-seconds, computes the others only.\n\nnetworks:\n"
        + "\n".join(f"  {name:18s}{text}" for name, text in NETWORKS.items()),
        [
            ("", "100 digits, a few minutes"),
            ("--dataset mnist --train-size 500 --network gln relu linear", "as in the README"),
            ("--network learned-relu relu --seeds 1 2 3 4 5 --descents sgd loss-scaled", "finite time, or gates?"),
        ],
        EXIT_CODES,
    )
    add = parser.add_argument
    add_dataset(parser, LimitConfig.dataset)
    add("--network", nargs="+", choices=NETWORKS, default=LimitConfig.network, help="one or several of those above")
    lists = {"train_size": "training samples n", "seeds": "seeds of gates, weights and batches"}
    lists |= {"units": "units of a GLN's layer; a ReLU layer has twice as many"}
    for name, text in lists.items():
        option = f"--{name.replace('_', '-')}"
        add(option, nargs="+", type=int, metavar="INT", default=getattr(LimitConfig, name), help=text)
    add("--momentum", nargs="+", type=float, metavar="FLOAT", default=LimitConfig.momentum, help="of the training")
    add("--contexts", type=int, default=LimitConfig.contexts, help="contexts of a GLN's unit, a power of two")
    text = "weights that a deep network begins with, behind the same gates"
    add("--draws", type=int, default=LimitConfig.draws, help=text)
    text = "the training before the limit, and what follows it: "
    add("--descents", nargs="+", choices=DESCENTS, default=LimitConfig.descents, help=text + ", ".join(DESCENTS))
    add("--start", choices=STARTS, default=LimitConfig.start, help="from published training, or from scratch")
    text = "smoothing of the minimum margin at which a descent ends"
    add("--tolerance", type=float, default=LimitConfig.tolerance, help=text)
    add("--lr", type=float, default=LimitConfig.lr, help="learning rate of the plain descent")
    add("--max-steps", type=int, default=LimitConfig.max_steps, help="steps of a descent at most")
    add("--max-seconds", type=float, default=LimitConfig.max_seconds, help="time after which each descent is cut off")
    add("--out", default="results/limit", help="folder for the cells, limit.csv, .json, .png and .pdf")
    add_json(parser)
    parser.set_defaults(
        run="implicit_bias.command_line.limiting:limit", quick=False, engine="local", jobs=1, scheduler=None
    )
