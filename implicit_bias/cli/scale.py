"""`implicit-bias reproduce scale`: its options; `scaling` does the work."""

from implicit_bias.cli.parsers import Parser, add_data_root, add_engine, add_json, add_list
from implicit_bias.studies.scale.config import GRID, MAX_SECONDS, NETWORKS

#: The option of every coordinate, and its help.
OPTIONS = {
    "dataset": ("--dataset", "data sets"),
    "train_size": ("--train-size", "training samples n"),
    "seed": ("--seeds", "seeds of the split, gates, weights and batches"),
    "units": ("--units", "units H of a GLN's layer; a ReLU layer has twice as many"),
    "network": ("--network", "one or several of those above"),
    "descent": (
        "--descents",
        "after the published training (sgd), and where descent from there ends (limit)",
    ),
}


def declare(parser: Parser, command: str) -> None:
    """Declare the options of the study of all sizes."""
    parser.explain(
        "The paper's comparison on up to 48 000 images: networks after the published training, and driven on towards\n"
        "their limit, against their margin problems. The whole takes days, and --list says what each size costs.\n"
        "Options that list values choose the cells to compute; all that are stored are drawn and judged together.\n\n"
        "networks:\n" + "\n".join(f"  {name:16s}{text}" for name, text in NETWORKS.items()),
        [
            ("--quick", "the embedded digits, minutes"),
            ("--list", "compute nothing: cells, and hours of one core, for each size"),
            ("--train-size 500 2000 --units 10", "the cheapest cells, twenty minutes of one core"),
            ("--extend data/scale --train-size 48000", "what the committed table lacks of all the data"),
            ("--redraw data/scale", "figures and findings of the committed table, in seconds"),
        ],
    )
    for name, (option, text) in OPTIONS.items():
        kind = type(GRID[name][0])
        add_list(parser, option, kind, GRID[name], text, offered=GRID[name] if kind is str else None)
    add = parser.add_argument
    add("--max-seconds", type=float, default=MAX_SECONDS, help="time after which each descent is cut off")
    add(
        "--quick", action="store_true", help="the embedded digits at n = 100, 200 and 400, in minutes and without files"
    )
    add("--list", action="store_true", help="compute nothing: say how many cells there are, and what they cost")
    add("--extend", metavar="FOLDER", help="begin with the cells of an earlier table and its record")
    add("--redraw", metavar="FOLDER", help="compute nothing: figures and findings from an earlier run's folder")
    add_data_root(parser)
    add_engine(parser)
    place = "folder for cells, table, figures and findings; else results/scale, with -quick or -redrawn for those"
    add("--out", help=place)
    add_json(parser)
    parser.set_defaults(run="implicit_bias.cli.scaling:scale")
