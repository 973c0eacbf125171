"""`implicit-bias compare`: the options of a comparison; `comparing` does the work."""

import argparse
from typing import Any

from implicit_bias.cli.parsers import Parser, add_dataset, add_engine, add_json, add_list, add_solver, add_versions
from implicit_bias.studies.paper.studies import STUDIES


def declare(parser: Parser, command: str) -> None:
    """Declare the options of a comparison; their defaults are those of its study."""
    study = STUDIES[command.replace(" ", "_").replace("-", "_")]
    parser.explain(
        f"{study.title}.\n\nOptions that list their values take several (--seeds 1 2 3), and every combination runs. "
        "Finished cells\nare stored: the same command goes on where an interrupted one ended.",
        [("", "the embedded digits"), (study.example, "several settings"), ("--json", "rows and summary as JSON")],
    )
    add = parser.add_argument

    add_dataset(parser, study.default("dataset"))
    add_list(parser, "--train-size", int, study.default("train_size"), "training samples n")
    add_list(parser, "--units", int, study.default("units"), "hidden units H")
    add_list(parser, "--contexts", int, study.default("contexts"), "contexts per unit, powers of two")
    add_list(parser, "--seeds", int, study.default("seeds"), "seeds of gates, weights and batches")
    add_list(parser, "--momentum", float, study.default("momentum"), "momentum of gradient descent")
    add(
        "--cutoff",
        type=_cutoff,
        default=study.default("cutoff"),
        help="median, random, a number, or two quantile levels",
    )
    add("--split", default=study.default("split"), help="published, or own: each seed splits the data as well")
    add_versions(parser, study.default("versions"))
    add_solver(parser)
    add("--tol", type=float, default=study.default("tol"), help="relative gap asked of the solver")
    add("--steps", type=int, default=study.default("steps"), help="steps of gradient descent")
    add_engine(parser)
    add("--out", default=f"results/{study.name}", help="folder for the cells, the table and the figure")
    add_json(parser)
    parser.set_defaults(run="implicit_bias.cli.comparing:compare", study=study.name, quick=False)


def _cutoff(text: str) -> Any:
    if text in ("median", "random"):
        return text
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError("give median, random, a number, or two quantile levels as 0.25,0.75") from None
    return values[0] if len(values) == 1 else values
