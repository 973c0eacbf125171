"""`implicit-bias compare`: the options of a comparison; `comparing` does the work."""

import argparse
from collections.abc import Callable
from typing import Any

from implicit_bias.command_line.parsers import Parser, add_dataset, add_engine, add_json, add_solver, add_versions
from implicit_bias.experiments.paper.studies import STUDIES


def declare(parser: Parser, command: str) -> None:
    """Declare the options of a comparison; their defaults are those of its study."""
    study = STUDIES[command.replace(" ", "_").replace("-", "_")]
    parser.explain(
        f"{study.title}.\n\nOptions that list their values take several (--seeds 1 2 3), and every combination runs. "
        "Finished cells\nare stored: the same command goes on where an interrupted one ended.",
        [("", "the embedded digits"), (study.example, "several settings"), ("--json", "rows and summary as JSON")],
    )
    add = parser.add_argument

    def add_list(name: str, kind: Callable[[str], Any], text: str) -> None:
        default = study.default(name.strip("-").replace("-", "_"))
        add(name, nargs="+", action=_listed(kind), default=default, help=text, metavar=kind.__name__.upper())

    add_dataset(parser, study.default("dataset"))
    add_list("--train-size", int, "training samples n")
    add_list("--units", int, "hidden units H")
    add_list("--contexts", int, "contexts per unit, powers of two")
    add_list("--seeds", int, "seeds of gates, weights and batches")
    add_list("--momentum", float, "momentum of gradient descent")
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
    parser.set_defaults(run="implicit_bias.command_line.comparing:compare", study=study.name, quick=False)


def _cutoff(text: str) -> Any:
    if text in ("median", "random"):
        return text
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError("give median, random, a number, or two quantile levels as 0.25,0.75") from None
    return values[0] if len(values) == 1 else values


def _listed(kind: Callable[[str], Any]) -> type[argparse.Action]:
    """An action that reads a list of values separated by spaces or commas into a tuple."""

    class Listed(argparse.Action):
        def __call__(self, parser: Any, namespace: Any, values: Any, option: str | None = None) -> None:
            try:
                parsed = tuple(kind(part) for text in values for part in text.split(",") if part)
            except ValueError:
                parser.error(f"argument {option}: {' '.join(values)!r} is not a list of {kind.__name__} values")
            setattr(namespace, self.dest, parsed)

    return Listed
